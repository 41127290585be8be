"""``python -m strand`` is the command ``strand``."""

from __future__ import annotations

from strand.command import starting

__all__ = ["main"]


def main() -> None:
    """Imports the command, which takes long, and runs it."""
    starting.begin()
    from strand.command.cli import main as run

    run()


if __name__ == "__main__":
    main()
