"""End of a venue's day among merged files: one clear record for each of its symbols.

A clear record is a tick of kind STATUS with action R, at the time of the new day's first tick and right before it. It
passes through queues, selections and files as any other tick does. So timers of the day before fire first, and the
boundary lies at the same tick on any number of cores. docs/feeds/days.md says what each handler resets.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from strand.errors import ConfigurationError
from strand.feeds.base import FeedInfo, TickBatch
from strand.ticks import clear_records

__all__ = ["Boundaries", "check_new_day", "days_of"]

#: Formats of venues that close: orders of one day are gone on the next.
_CLOSING: Final = frozenset(("itch50", "pcap", "moldudp64", "recording", "pitch", "dbn"))
_CLOSING_PROFILES: Final = frozenset(("lobster",))


def check_new_day(value: str | None) -> None:
    """Raises ConfigurationError for what is no ``new_day``."""
    if value not in (None, "file"):
        raise ConfigurationError(f"new_day: {value!r} is neither 'file' nor, for what is opened, 'date' or 'date ZONE'")


def days_of(infos: Sequence[FeedInfo], new_day: str | None) -> Boundaries | None:
    """The boundaries between some files; None where there can be none. ``new_day``: see ``merge_feeds``."""
    found = Boundaries(infos, new_day)
    return found if found.possible else None


class Boundaries:
    """Symbols that a file's first tick clears, for several files that are merged.

    A file begins a new day for the symbols of each file of its venue that has ended and is of another date. Files of
    one date are one day, and so are files that are read at the same time. Where one of two dates is not known, and
    with ``new_day="file"``, each file that begins after another one's end is a new day.
    """

    def __init__(self, infos: Sequence[FeedInfo], new_day: str | None) -> None:
        self._by_file = new_day == "file"
        self._dates = [info.date for info in infos]
        self._venues = [self._venue(info) for info in infos]
        self._ended: set[int] = set()
        self._under_way: set[int] = set()
        self._touched = np.zeros(0, np.bool_)
        self.cleared = 0

    @property
    def possible(self) -> bool:
        """True if any two files may be two days."""
        return any(self._apart(a, b) for a in range(len(self._dates)) for b in range(a))

    def took(self, ticks: TickBatch) -> None:
        """Notes the symbols of ticks that have been merged."""
        keys = ticks["instrument_id"]
        if len(keys) and (largest := int(keys.max())) >= len(self._touched):
            larger = np.zeros(2 * largest + 1, np.bool_)
            larger[: len(self._touched)] = self._touched
            self._touched = larger
        self._touched[keys] = True

    def ended(self, stream: int) -> None:
        """A file has no more ticks."""
        if stream in self._under_way:
            self._under_way.remove(stream)
            self._ended.add(stream)

    def begins(self, stream: int, time: int, tables: Sequence[npt.NDArray[np.uint32]]) -> TickBatch:
        """The clear records that come before a file's first tick. ``stream``: the file, whose first tick is the next
        one and has this ``time``. ``tables``: of each file, the merged numbers of its symbols."""
        over = [other for other in sorted(self._ended) if self._apart(stream, other)]
        self._ended.difference_update(over)
        mine = np.zeros(len(self._touched), np.bool_)
        for of_day, streams in ((True, over), (False, self._under_way | self._ended)):
            for other in streams:
                numbers = tables[other]
                mine[numbers[numbers < len(mine)]] = of_day
        mine &= self._touched
        self._touched[mine] = False
        self._under_way.add(stream)
        symbols = np.flatnonzero(mine).astype(np.uint32)
        self.cleared += len(symbols)
        return clear_records(symbols, time)

    def _venue(self, info: FeedInfo) -> str | None:
        """The venue whose files are days; None where the venue never closes, or is not known to close."""
        source = info.details.get("source", {"format": info.format, "profile": info.details.get("profile")})
        closes = source["format"] in _CLOSING or source.get("profile") in _CLOSING_PROFILES
        return (info.venue or source["format"]) if closes or self._by_file else None

    def _apart(self, a: int, b: int) -> bool:
        if self._venues[a] is None or self._venues[a] != self._venues[b]:
            return False
        dates = (self._dates[a], self._dates[b])
        return self._by_file or None in dates or dates[0] != dates[1]
