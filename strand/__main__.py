"""``python -m strand`` is the command ``strand``."""

from __future__ import annotations

from strand import _starting

__all__ = ["main"]


def main() -> None:
    """Imports the command, which takes long, and runs it."""
    _starting.begin()
    from strand.cli import main as run

    run()


if __name__ == "__main__":
    main()
