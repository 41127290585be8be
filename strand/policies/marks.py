"""Marks of symbols and tasks, for the guard."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from strand.binding.engine_words import MARKS
from strand.errors import ConfigurationError
from strand.validate import did_you_mean, shown

__all__ = ["mark_bits"]


def mark_bits(name: str, given: Any) -> int:
    """Set of bits for the mark, or marks, that the argument ``name`` was given. Raises ConfigurationError for an
    unknown one."""
    bits = 0
    for mark in [given] if isinstance(given, str) or not isinstance(given, Iterable) else given:
        if not isinstance(mark, str) or mark not in MARKS:
            cure = did_you_mean(mark, MARKS, after=" ")
            reason = f"{shown(mark)} is not a mark: {cure}give {' or '.join(MARKS)}, or several of them"
            raise ConfigurationError(name, reason)
        bits |= MARKS[mark]
    return bits
