"""Checks of what options take: numbers, Python's or numpy's, within bounds; words of a few; texts; truth values."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeGuard

import numpy as np

from strand.errors import ConfigurationError

__all__ = [
    "MAXIMUM",
    "did_you_mean",
    "is_between",
    "is_number",
    "is_whole",
    "nearest",
    "one_of",
    "seconds",
    "text",
    "whole",
    "yes_or_no",
]

#: The largest whole number that C takes.
MAXIMUM: Final = 2**63 - 1


def nearest(word: str, words: Iterable[str]) -> str | None:
    """Word of ``words`` that is most like a misspelt one, whatever their case; None where none is like it."""
    from difflib import get_close_matches  # which a run without errors does not wait for

    by_folded: dict[str, str] = {}
    for each in words:
        by_folded.setdefault(each.casefold(), each)
    return next((by_folded[near] for near in get_close_matches(word.casefold(), by_folded, n=1)), None)


def did_you_mean(name: object, names: Iterable[str], *, before: str = "", after: str = "") -> str:
    """Returns ``did you mean 'book'?`` with the nearest of ``names``, between the texts ``before`` and ``after``.
    Returns an empty text if no name is near."""
    near = nearest(name, names) if isinstance(name, str) else None
    return f"{before}did you mean {near!r}?{after}" if near else ""


class Faults:
    """Checks of a set of options, one by one: the first fault is raised, and has those of the other fields."""

    def __init__(self) -> None:
        self._found: list[ConfigurationError] = []

    @contextmanager
    def of(self, *field: str) -> Iterator[None]:
        """Check one field in the block, whose first ConfigurationError is kept."""
        try:
            yield
        except ConfigurationError as error:
            error.field = field
            self._found.append(error)

    def end(self) -> None:
        """Raise the first fault, if there is one."""
        if self._found:
            first, *others = self._found
            first.others = tuple(others)
            raise first


def is_whole(value: Any) -> TypeGuard[int]:
    """Tells whether a value is a whole number, of Python or numpy. ``True`` and ``False`` are not, nor are numpy's
    spans of time, which count as integers there."""
    return isinstance(value, (int, np.integer)) and not isinstance(value, (bool, np.timedelta64))


def is_number(value: Any) -> TypeGuard[float]:
    """Tells whether a value is a whole number or a float other than NaN, of Python or numpy."""
    return is_whole(value) or (isinstance(value, (float, np.floating)) and not math.isnan(value))


def is_between(value: Any, lowest: float, highest: float) -> TypeGuard[float]:
    """Tells whether a value is a number from ``lowest`` to ``highest``. Numpy's short floats do not hold every
    bound."""
    exact: Any = float(value) if isinstance(value, np.floating) else value
    return is_number(exact) and lowest <= exact <= highest


def whole(name: str, value: Any, minimum: int, maximum: int = MAXIMUM) -> int:
    """The whole number that the option ``name`` was given. Raises ConfigurationError outside the bounds, which count
    as inside."""
    if not is_whole(value) or not minimum <= value <= maximum:
        end = "2^63 - 1" if maximum == MAXIMUM else f"{maximum:,}"
        raise ConfigurationError(f"{name}: {value!r} is not a whole number from {minimum:,} to {end}")
    return int(value)


def one_of(name: str, value: Any, words: Iterable[str]) -> int:
    """The place of the word that the option ``name`` was given. Raises ConfigurationError for another one."""
    choices = list(words)
    if not isinstance(value, str) or value not in choices:
        raise ConfigurationError(f"{name}: {value!r} is not one of {', '.join(choices)}")
    return choices.index(value)


def seconds(name: str, value: Any) -> float | None:
    """The seconds that the option ``name`` allows; None for any number, as for more than a lock can wait for. Raises
    ConfigurationError, for NaN too."""
    if value is None:
        return None
    if not is_number(value):
        raise ConfigurationError(f"{name}: {value!r} is not a number of seconds, nor None (no limit)")
    return float(value) if value <= threading.TIMEOUT_MAX else None


def yes_or_no(name: str, value: Any) -> bool:
    """The truth value that the option ``name`` was given. Raises ConfigurationError for any other value: ``"no"`` would
    count as true."""
    if not isinstance(value, (bool, np.bool_)):
        raise ConfigurationError(f"{name}: {value!r} is neither True nor False")
    return bool(value)


def text(name: str, value: object) -> str:
    """Text. Raises ConfigurationError, naming the argument."""
    if not isinstance(value, str):
        raise ConfigurationError(f"{name}: {value!r} is not text")
    return value
