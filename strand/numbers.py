"""Numbers as options take them: Python's or numpy's, within bounds."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from strand.errors import ConfigurationError

__all__ = ["MOST", "is_whole", "seconds", "whole"]

#: The most that C takes.
MOST: Final = 2**63 - 1


def is_whole(value: Any) -> bool:
    """Whether it is a whole number, of Python or numpy. ``True`` and ``False`` are none."""
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def whole(name: str, value: Any, least: int, most: int = MOST) -> int:
    """The whole number, from ``least`` to ``most``, that the option ``name`` was given. Raises ConfigurationError."""
    if not is_whole(value) or not least <= value <= most:
        end = "2^63 - 1" if most == MOST else f"{most:,}"
        raise ConfigurationError(f"{name}: {value!r} is not a whole number from {least:,} to {end}")
    return int(value)


def seconds(name: str, value: Any) -> float | None:
    """The seconds that the option ``name`` allows, None for any number. Raises ConfigurationError, for NaN too."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)) or math.isnan(value):
        raise ConfigurationError(f"{name}: {value!r} is not a number of seconds, nor None, which is no limit")
    return float(value)
