"""Name of strand on the package index, where ``strand`` is somebody else's. It is imported as strand."""

from __future__ import annotations

from typing import Final

__all__ = ["DISTRIBUTION", "install_command"]

#: As ``name`` in pyproject.toml.
DISTRIBUTION: Final = "tickstrand"


def install_command(extra: str) -> str:
    """Command to type for an extra."""
    return f"pip install '{DISTRIBUTION}[{extra}]'"
