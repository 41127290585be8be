"""Spans of time as people write them: ``"1m"``, ``"500ms"``, a timedelta, or ns."""

from __future__ import annotations

import datetime as dt
import re
from typing import Final

from strand.errors import ConfigurationError
from strand.validate import is_whole

__all__ = ["SpanLike", "span_ns"]

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
            f"{name}: {value!r} is no span of time: give a whole number above 0 with one of {', '.join(_UNITS)} "
            "like '1m' or '500ms', a timedelta, or ns; below 2**63 ns"
        )
    return ns
