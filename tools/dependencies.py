"""Prints what pyproject.toml asks for: the package's own dependencies, and those of the extras that are named."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path


def main() -> None:
    """One a line, as pip reads them; the arguments are names of extras. Raises KeyError for one that there is not."""
    project = tomllib.loads((Path(__file__).resolve().parents[1] / "pyproject.toml").read_text("utf-8"))["project"]
    extras = project["optional-dependencies"]
    wanted = [*project["dependencies"], *(one for extra in sys.argv[1:] for one in extras[extra])]
    print("\n".join(dict.fromkeys(wanted)))


if __name__ == "__main__":
    main()
