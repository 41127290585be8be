"""Spans of time as people write them: ``"1m"``, ``"1.5s"``, a timedelta, or seconds as a float.

A whole number is refused, since it says no unit: 60 is taken for seconds by some programs, and for ns by others.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from decimal import Decimal
from typing import Any, Final

import numpy as np

from strand.errors import ConfigurationError
from strand.validate import is_whole, shown


class Nanoseconds(int):
    """A span that was read, in ns: a whole number that has a unit, so that ``span_ns`` takes it again."""

    __slots__ = ()


SpanLike = str | float | dt.timedelta | np.timedelta64 | Nanoseconds

_UNITS: Final = {
    "ns": 1,
    "us": 1_000,
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "min": 60_000_000_000,
    "h": 3_600_000_000_000,
    "d": 86_400_000_000_000,
}
_TEXT: Final = re.compile(r"(-?\d{1,19}(?:\.\d{1,18})?) ?([a-z]+)")
_NUMBER: Final = re.compile(r"-?[\d.]+")
_UNKNOWN_UNIT: Final = re.compile(r"-?[\d.]+ ?([^\W\d]+)")
#: The units of numpy's spans that are as long every time.
_OF_NUMPY: Final = {**_UNITS, "D": _UNITS["d"], "W": 7 * _UNITS["d"]}


def span_ns(name: str, value: SpanLike, *, least: int | None = 1) -> Nanoseconds:
    """Returns the span in ns that the option ``name`` was given.

    Args:
        name: The option's name, for the error.
        value: Text with a unit as ``"30s"``, a timedelta of Python, numpy or pandas, or seconds as a float, which are
            taken to the nearest ns. Where ``least`` lets 0 and less through, a whole number that is 0 or less is
            taken too: its sign says all.
        least: The least span in ns; None: any, below 0 too.

    Raises:
        ConfigurationError: If it is no span, is below ``least``, or is 2**63 ns and more.
    """
    text = value.strip() if isinstance(value, str) else value
    bare = is_whole(text) and text > 0 and not isinstance(text, Nanoseconds)
    if bare or (isinstance(text, str) and _NUMBER.fullmatch(text)):
        raise ConfigurationError(name, _without_unit(text))
    ns = _exact(text)
    if ns is None or ns != int(ns) or not _is_from(int(ns), least):
        bound = "" if least is None else " above 0" if least == 1 else " of at least 0"
        raise ConfigurationError(
            name,
            f"{shown(value)} is not a span of time: {_reason(text, ns)}give a number{bound} with one of "
            f"{', '.join(_UNITS)} like '1m' or '500ms', in Python also a timedelta or float seconds; below 2**63 ns",
        )
    return Nanoseconds(ns)


def _is_from(ns: int, least: int | None) -> bool:
    return (-(2**63) if least is None else least) <= ns < 2**63


def _exact(value: Any) -> int | Decimal | None:
    """A span in ns, which need not be whole; None: it is none."""
    if isinstance(value, dt.timedelta):  # those of pandas have ns beside
        own = (value.days * 86_400 + value.seconds) * 1_000_000_000 + value.microseconds * 1_000
        return own + int(getattr(value, "nanoseconds", 0))
    if isinstance(value, np.timedelta64):
        unit, many = np.datetime_data(value.dtype)
        return (
            None if np.isnat(value) or unit not in _OF_NUMPY else int(value.astype(np.int64)) * many * _OF_NUMPY[unit]
        )
    if is_whole(value):
        return int(value)
    if isinstance(value, (float, np.floating)):
        if not math.isfinite(value):
            return None
        ns = Decimal(str(value)) * _UNITS["s"]
        return ns if abs(ns) < 1 else round(ns)  # what is not 0 does not become 0
    if isinstance(value, str) and (found := _TEXT.fullmatch(value)) and found[2] in _UNITS:
        return Decimal(found[1]) * _UNITS[found[2]]
    return None


def _without_unit(value: Any) -> str:
    """The error for a number that could be seconds or ns."""
    number = str(value)
    seconds = f"'{number}s'" + ("" if isinstance(value, str) or "." in number else f" or {number}.0")
    return f"{number} has no unit: give {seconds} for seconds, or '{number}ns' for nanoseconds"


def _reason(value: Any, ns: int | Decimal | None) -> str:
    """The fault of a value that is no span, where one can tell."""
    if ns is not None and ns != int(ns):
        return "it is no whole number of ns: "
    if isinstance(value, str) and (found := _UNKNOWN_UNIT.fullmatch(value)) and found[1] not in _UNITS:
        return f"{found[1]!r} is not a unit: "
    return ""


def span_text(ns: int) -> str:
    """Writes a span as text that ``span_ns`` reads, in the largest unit that gives a whole number."""
    if ns == 0:
        return "0s"
    unit = max((unit for unit, size in _UNITS.items() if ns % size == 0), key=lambda unit: _UNITS[unit])
    return f"{ns // _UNITS[unit]}{unit}"
