"""Days of feeds that do not say where one ends: a new day begins at midnight."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from strand.errors import ConfigurationError
from strand.feeds.base import Feed, FeedInfo, TickBatch
from strand.feeds.merge.selected import SelectedFeed
from strand.feeds.selection import Selection
from strand.ticks import clear_records
from strand.zones import ZoneInfo, ZoneInfoNotFoundError, zone_named

__all__ = ["DatedFeed", "zone_of"]

_SECOND = 1_000_000_000


def zone_of(new_day: str | None) -> ZoneInfo | None:
    """The zone of ``"date"`` (UTC) or ``"date ZONE"``; None for anything else. Raises ConfigurationError."""
    word, _, name = (new_day or "").partition(" ")
    if word != "date":
        return None
    try:
        return zone_named(name.strip() or "UTC")
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ConfigurationError(
            f"new_day: {name!r} is not a time zone that this system knows: give one like 'date America/New_York'"
        ) from None


class DatedFeed(SelectedFeed):
    """The ticks of another feed, with clear records where the date of the receive time in ``zone`` changes to a later
    one. They come before the first tick of that date, one for each symbol that had ticks since the last change. Closing
    it closes the other."""

    def __init__(self, feed: Feed, zone: ZoneInfo) -> None:
        super().__init__(feed, Selection())
        self._zone = zone
        self._cleared = 0
        #: Number of clear records in the latest batch; 0 for a batch of ticks.
        self._clears = 0

    @property
    def info(self) -> FeedInfo:
        """Description of the other feed; the zone is that feed's, or else the zone whose dates count."""
        info = super().info
        return info if info.zone is not None or self._zone.key == "UTC" else replace(info, zone=self._zone.key)

    @property
    def plain_symbols(self) -> Sequence[str]:
        """The names as files have them, without venues."""
        found: Sequence[str] = getattr(self._feed, "plain_symbols", self._feed.symbols)
        return found

    @property
    def tick_feeds(self) -> npt.NDArray[np.int32] | None:
        theirs = super().tick_feeds
        return theirs if theirs is None or not self._clears else np.full(self._clears, -1, np.int32)

    def batches(self) -> Iterator[TickBatch]:
        """Yields the other feed's batches, cut where a day begins; clear records come as batches of their own."""
        self._cleared = 0
        touched = np.zeros(self.max_symbols, np.bool_)
        midnight: int | None = None
        for batch in self._feed.batches():
            rest = batch
            while len(rest):
                midnight = self._after(int(rest["ts_recv"][0])) if midnight is None else midnight
                later = rest["ts_recv"] >= midnight
                end = int(np.argmax(later)) if later.any() else len(rest)
                if end:
                    touched[rest["instrument_id"][:end]] = True
                    at = len(batch) - len(rest)
                    self._given, self._chosen, self._clears = len(batch), slice(at, at + end), 0
                    yield rest[:end]
                rest = rest[end:]
                if not len(rest):
                    break
                time = int(rest["ts_recv"][0])
                midnight = self._after(time)
                symbols = np.flatnonzero(touched).astype(np.uint32)
                touched[:] = False
                self._cleared += len(symbols)
                self._clears = len(symbols)
                yield clear_records(symbols, time)

    def statistics(self) -> dict[str, int]:
        """Counts of the other feed, and ``days_cleared``: clear records."""
        return dict(self._feed.statistics()) | {"days_cleared": self._cleared}

    def _after(self, time: int) -> int:
        """The midnight that follows, ns since the epoch; a time beyond all ticks where no later date can be written."""
        try:
            date = dt.datetime.fromtimestamp(time // _SECOND, self._zone).date() + dt.timedelta(days=1)
            return int(dt.datetime.combine(date, dt.time(), self._zone).timestamp()) * _SECOND
        except (OverflowError, OSError, ValueError):
            return np.iinfo(np.int64).max
