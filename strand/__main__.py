"""``python -m strand`` is the command ``strand``."""

from __future__ import annotations

import gc

from strand.command import starting


def main() -> None:
    """Imports the command, which takes long, and runs it."""
    starting.begin()
    from strand.command.cli import main as run

    run()
    gc.freeze()  # what is left ends with the process, and is not looked through before


if __name__ == "__main__":
    main()
