"""``python -m strand`` is the command ``strand``."""

from __future__ import annotations

from strand.cli import main

if __name__ == "__main__":
    main()
