"""Comparison of a day with the calibrated one: the same measures of any feed, beside their targets.

docs/feeds/generator.md has the table for a generated day. The targets are those of ``calibration``; shares are of all
ticks, all else is of the ticks between 9:30 and 16:00 in New York.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from strand.errors import ConfigurationError
from strand.feeds.base import Feed, TickBatch
from strand.feeds.synthetic import calibration
from strand.feeds.trading_day import as_date, midnight_ns

__all__ = ["Measure", "check_calibration"]

_OPEN_NS: Final = 34_200 * 10**9
_SESSION_S: Final = 23_400
# Gaps are counted in buckets of a hundred and twenty-eighth of an octave: quantiles are within 0.6 %.
_BUCKETS_AN_OCTAVE: Final = 128
_OCTAVES: Final = 48


@dataclass(frozen=True, slots=True)
class Measure:
    """Figure of a day. ``low`` and ``high`` bound ``found / target`` for a generated day of 8,172 symbols and ten
    million messages or more, at burst 1 and calibrated skew."""

    name: str
    target: float
    found: float
    low: float
    high: float

    @property
    def ratio(self) -> float:
        """``found / target``."""
        return self.found / self.target

    @property
    def close(self) -> bool:
        """True if the ratio is within its bounds."""
        return self.low <= self.ratio <= self.high


class _Counts:
    """Ticks by symbol, by millisecond of the session, and by the gap since the one before."""

    def __init__(self, max_symbols: int, open_ns: int) -> None:
        self.symbols = np.zeros(max_symbols, np.int64)
        self.milliseconds = np.zeros(_SESSION_S * 1000, np.int32)
        self.gaps = np.zeros(_OCTAVES * _BUCKETS_AN_OCTAVE, np.int64)
        self._open_ns = open_ns
        self._last: int | None = None

    def add(self, ticks: TickBatch) -> None:
        keys = np.bincount(ticks["instrument_id"])
        if len(keys) > len(self.symbols):
            self.symbols = np.pad(self.symbols, (0, len(keys) - len(self.symbols)))
        self.symbols[: len(keys)] += keys
        since = ticks["ts_event"].astype(np.int64) - self._open_ns
        since = since[(since >= 0) & (since < _SESSION_S * 10**9)]
        if not len(since):
            return
        at, count = np.unique(since // 10**6, return_counts=True)
        self.milliseconds[at] += count.astype(np.int32)
        gaps = np.diff(since, prepend=since[0] if self._last is None else self._last)
        if self._last is None:
            gaps = gaps[1:]
        self._last = int(since[-1])
        buckets = (np.log2(np.maximum(gaps, 1)) * _BUCKETS_AN_OCTAVE).astype(np.int64)
        self.gaps += np.bincount(buckets, minlength=len(self.gaps))

    def gap_quantile(self, part: float) -> float:
        """Quantile of the gaps in ns: the middle of the bucket that has it."""
        summed = np.cumsum(self.gaps)
        bucket = int(np.searchsorted(summed, part * summed[-1]))
        return float(2 ** ((bucket + 0.5) / _BUCKETS_AN_OCTAVE))


def check_calibration(feed: Feed) -> list[Measure]:
    """Reads a feed to its end and measures it against the calibrated day.

    Raises ConfigurationError when the feed has no date or fewer than two ticks in the session, and what reading raises.
    """
    if feed.info.date is None:
        raise ConfigurationError(f"{feed.info.path}: without the trading day the session is unknown; give its date")
    counts = _Counts(feed.max_symbols, midnight_ns(as_date(feed.info.date)) + _OPEN_NS)
    for batch in feed.batches():
        counts.add(batch)
    if counts.gaps.sum() < 1:
        raise ConfigurationError(f"{feed.info.path}: fewer than two ticks between 9:30 and 16:00: nothing to measure")
    return [*_shares(counts.symbols), *_peaks(counts.milliseconds), *_gaps(counts)]


def _shares(symbols: npt.NDArray[np.int64]) -> list[Measure]:
    falling = np.sort(symbols)[::-1]
    return [
        Measure(f"share of the top {top}", share, float(falling[:top].sum() / falling.sum()), 0.97, 1.03)
        for top, share in calibration.TOP_SHARES.items()
    ]


def _peaks(milliseconds: npt.NDArray[np.int32]) -> list[Measure]:
    seconds = milliseconds.reshape(-1, 1000).sum(1)
    mean = float(milliseconds.mean())
    return [
        Measure("peak second / mean", calibration.PEAK_SECOND, float(seconds.max() / seconds.mean()), 0.98, 1.02),
        Measure("peak millisecond / mean", calibration.PEAK_MILLISECOND, float(milliseconds.max() / mean), 0.95, 1.05),
        Measure(
            "99.9 % of milliseconds / mean",
            calibration.P999_MILLISECOND,
            float(np.quantile(milliseconds, 0.999) / mean),
            0.9,
            1.1,
        ),
    ]


def _gaps(counts: _Counts) -> list[Measure]:
    mean_ns = _SESSION_S * 1e9 / int(counts.milliseconds.sum())
    return [
        Measure(f"gap p{round(100 * part)} / mean", target, counts.gap_quantile(part) / mean_ns, 0.5, 1.1)
        for part, target in calibration.GAP_QUANTILES.items()
    ]
