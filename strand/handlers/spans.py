"""Spans of time as people write them: ``"1m"``, ``"500ms"``, a timedelta, or ns.

A whole number is ns. A float is refused: 5 would be 5 ns and 5.0 five seconds, though they are equal in Python.
"""

from __future__ import annotations

import datetime as dt
import re
from typing import Any, Final

from strand.errors import ConfigurationError
from strand.validate import is_whole

__all__ = ["SpanLike", "span_ns", "span_text"]

SpanLike = str | int | dt.timedelta

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
_TEXT: Final = re.compile(r"(\d{1,18}) ?([a-z]+)")
_UNKNOWN_UNIT: Final = re.compile(r"[\d.]+ ?([^\W\d]+)")


def span_ns(name: str, value: SpanLike) -> int:
    """The span in ns that the option ``name`` was given. Raises ConfigurationError where it is none, or not above 0."""
    ns: int | None = None
    if isinstance(value, dt.timedelta):
        ns = (value.days * 86_400 + value.seconds) * 1_000_000_000 + value.microseconds * 1_000
    elif is_whole(value):
        ns = int(value)
    elif isinstance(value, str) and (found := _TEXT.fullmatch(value.strip())) and found[2] in _UNITS:
        ns = int(found[1]) * _UNITS[found[2]]
    if ns is None or not 0 < ns < 2**63:
        raise ConfigurationError(
            f"{name}: {value!r} is not a span of time: {_reason(value)}give a whole number above 0 with one of "
            f"{', '.join(_UNITS)} like '1m' or '500ms', a timedelta, or ns; below 2**63 ns"
        )
    return ns


def _reason(value: Any) -> str:
    """What is wrong with a value that is no span, where one can tell."""
    if isinstance(value, float):
        return "a float could be seconds, and a whole number is ns: "
    if isinstance(value, str) and (found := _UNKNOWN_UNIT.fullmatch(value.strip())) and found[1] not in _UNITS:
        return f"{found[1]!r} is not a unit: "
    return ""


def span_text(ns: int) -> str:
    """Writes a span as text that ``span_ns`` reads, in the largest unit that gives a whole number. ``ns``: above 0."""
    unit = max((unit for unit, size in _UNITS.items() if ns % size == 0), key=lambda unit: _UNITS[unit])
    return f"{ns // _UNITS[unit]}{unit}"
