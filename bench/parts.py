"""Programs of several parts, which run in turn: those that are named on the command line, or all."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Mapping

__all__ = ["run_parts"]


def run_parts(about: str | None, parts: Mapping[str, Callable[[int], None]], turns: int) -> None:
    """Runs the parts. ``turns``: how often each measures, where ``--turns`` does not say it."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"{', '.join(parts)}; all if none is given")
    parser.add_argument("--turns", type=int, default=turns)
    given = parser.parse_args()
    if unknown := set(given.parts) - set(parts):
        parser.error(f"{', '.join(unknown)}: the parts are {', '.join(parts)}")
    print(f"load of the last minute: {os.getloadavg()[0]:.1f}")
    for name in given.parts or parts:
        parts[name](given.turns)
