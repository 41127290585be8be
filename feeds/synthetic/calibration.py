"""Figures of one real day, which the synthetic market is made to match.

Source: published per-symbol statistics of one NASDAQ ITCH 5.0 day of 2015 (8,172 symbols, 206.6 million changes of the
inside quote). ``strand/data/symbol_counts.txt`` has the messages of each rank; the figures below are that day's
aggregate bursts and the most messages one symbol had within a millisecond.
"""

from __future__ import annotations

import functools
import math
from importlib import resources
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from strand.binding import lab as _market
from strand.errors import ConfigurationError
from strand.validate import is_number

__all__ = [
    "CALIBRATED_SYMBOLS",
    "GAP_QUANTILES",
    "MAX_EXPONENT",
    "P999_MILLISECOND",
    "PEAK_MILLISECOND",
    "PEAK_SECOND",
    "TOP_SHARES",
    "Skew",
    "route_weights",
    "run_lengths",
    "symbol_counts",
    "symbol_weights",
]

#: Spread of messages over symbols: as on the calibrated day, or by rank to the power of minus this.
Skew = Literal["calibrated"] | float

CALIBRATED_SYMBOLS: Final = 8172
MAX_EXPONENT: Final = 8.0

#: Messages in the busiest second, and in the mean second of the 6.5 hours.
_MAX_A_SECOND, _MEAN_A_SECOND = 168_533, 8_830
_MAX_A_MILLISECOND, _P999_A_MILLISECOND = 814, 253
_MESSAGES, _SESSION_NS = 206_622_013, 23_400 * 10**9
#: The busiest second over the mean second, the busiest millisecond over the mean millisecond.
PEAK_SECOND: Final = _MAX_A_SECOND / _MEAN_A_SECOND
PEAK_MILLISECOND: Final = 1000 * _MAX_A_MILLISECOND / _MEAN_A_SECOND
#: The number of messages that one millisecond in a thousand exceeds, over the mean.
P999_MILLISECOND: Final = 1000 * _P999_A_MILLISECOND / _MEAN_A_SECOND

# Times between one message and the next. The source has higher quantiles too (6.4 s at 90 %), which no day of so many
# messages can have over all symbols: they are left out.
_GAP_NS: Final = {0.05: 676, 0.10: 1_061, 0.25: 3_801, 0.50: 18_788, 0.75: 72_398}
#: Quantiles of the time between one message and the next, over its mean.
GAP_QUANTILES: Final = {part: ns * _MESSAGES / _SESSION_NS for part, ns in _GAP_NS.items()}

#: Share of all messages that the busiest n symbols have.
TOP_SHARES: Final = {1: 0.0126, 10: 0.0777, 100: 0.263, 500: 0.5606}

# By rank, the most messages that the symbol had within one millisecond. The last point is not measured: it makes the
# runs of rare symbols shrink to a few messages.
_RUN_RANKS: Final = (1, 10, 100, 1000, CALIBRATED_SYMBOLS)
_RUN_LENGTHS: Final = (300, 245, 168, 48, 4)


@functools.cache
def symbol_counts() -> npt.NDArray[np.uint64]:
    """Messages by rank on the calibrated day: shape (8172,), dtype uint64, read-only, falling."""
    text = resources.files("strand").joinpath("data", "symbol_counts.txt").read_text("ascii")
    counts = np.array([int(line) for line in text.splitlines() if not line.startswith("#")], np.uint64)
    counts.flags.writeable = False
    return counts


def check_skew(skew: Skew) -> Skew:
    """``skew`` as it is, an int as a float. Raises ConfigurationError."""
    if skew == "calibrated":
        return "calibrated"
    if not is_number(skew) or not 0 <= skew <= MAX_EXPONENT:
        raise ConfigurationError("skew", f"{skew!r} is neither 'calibrated' nor an exponent from 0 to {MAX_EXPONENT:g}")
    return float(skew)


def symbol_weights(symbols: int, skew: Skew) -> npt.NDArray[np.uint64]:
    """Weights of so many symbols by rank, in integers that are the same on every machine: shape (symbols,), uint64.

    Calibrated: up to 8,172 symbols are the busiest of the day; more stretch its curve along the logarithm of the rank.
    """
    skew = check_skew(skew)
    if skew == "calibrated":
        return _market.weights_from_counts(symbol_counts(), symbols)
    return _market.zipf_weights(symbols, round(skew * 2**32))


def route_weights(symbols: int, skew: Skew) -> npt.NDArray[np.float64]:
    """Weights by rank for the routing benchmark's stream: shape (symbols,), float64.

    Calibrated: the day's counts, and 1 for each symbol beyond them.
    """
    skew = check_skew(skew)
    if skew == "calibrated":
        weights = np.ones(symbols, np.float64)
        counts = symbol_counts()[:symbols]
        weights[: len(counts)] = counts
        return weights
    # math.pow is the C library's pow, which is what programs compared with us call; numpy's rounds differently.
    return np.fromiter((1 / math.pow(rank, skew) for rank in range(1, symbols + 1)), np.float64, symbols)


def run_lengths(symbols: int) -> npt.NDArray[np.uint32]:
    """Longest run of messages of the symbol of each rank in a crowded millisecond: shape (symbols,), uint32."""
    return _market.interpolate_ranks(_RUN_RANKS, _RUN_LENGTHS, symbols)
