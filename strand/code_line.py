"""A line of source code, as errors name it."""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple

__all__ = ["OURS", "CodeLine"]

#: The folder of Strand's own code, which no error of a user's code points at.
OURS: Final = str(Path(__file__).resolve().parent)


class CodeLine(NamedTuple):
    """Line of code: its file, its number from 1, and its text without the spaces around it."""

    file: str
    number: int
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.number}: {self.text}" if self.text else f"{self.file}:{self.number}"
