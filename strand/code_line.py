"""A line of source code, as errors name it."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["CodeLine"]


class CodeLine(NamedTuple):
    """Its file, its number from 1, and its text without the spaces around it."""

    file: str
    number: int
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.number}: {self.text}" if self.text else f"{self.file}:{self.number}"
