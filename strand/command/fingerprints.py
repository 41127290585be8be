"""The options of ``strand replay`` that say what is recorded of a run for ``strand diff``."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

__all__ = ["fingerprinting"]


def fingerprinting(command: Callable[..., None]) -> Callable[..., None]:
    """Adds the options, as one argument ``recording``."""

    @click.option(
        "--fingerprint-every",
        type=click.IntRange(1),
        metavar="N",
        help="Stop the run briefly every N ticks, and take a fingerprint of its state and its input.",
    )
    @click.option(
        "--fingerprints",
        type=click.Path(path_type=Path, dir_okay=False),
        metavar="FILE",
        help="Write the fingerprints of the run and of each symbol, for `strand diff`. The ending .gz "
        "compresses the file.",
    )
    @functools.wraps(command)
    def recorded(*, fingerprint_every: int | None, fingerprints: Path | None, **others: Any) -> None:
        command(recording={"fingerprint_every": fingerprint_every, "fingerprints": fingerprints}, **others)

    return recorded
