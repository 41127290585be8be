"""Days among merged files: the end of a venue's day, by its messages or at midnight.

A clear record is a tick of kind STATUS with action R, at the time of the new day's first tick and right before it. It
passes through queues, selections and files as any other tick does. So timers of the day before fire first, and the
boundary lies at the same tick on any number of cores. docs/feeds/days.md says what each handler resets.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

import numpy as np
import numpy.typing as npt

from strand.binding.merge import UNMAPPED
from strand.errors import ConfigurationError
from strand.feeds.base import Feed, FeedInfo, Selection, TickBatch, merges_in_blocks
from strand.feeds.merge.selected import SelectedFeed
from strand.ticks import clear_records
from strand.zones import zone_named

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

    from strand.binding.feeder import Feeder

#: Formats of venues that close: orders of one day are gone on the next.
_CLOSING: Final = frozenset(("itch50", "pcap", "moldudp64", "recording", "pitch", "iex", "dbn"))
_CLOSING_PROFILES: Final = frozenset(("lobster",))
#: Venues whose trading day goes over midnight, in UTC and in their own zone: CME Globex, CFE, ICE Futures US and Blue
#: Ocean ATS. Others are closed at midnight in their zone, but not always in UTC, where Databento's files end.
_OPEN_AT_MIDNIGHT: Final = frozenset(("GLBX", "XCBF", "IFUS", "OCEA"))


class Instruments(Protocol):
    """The instruments of the names of one file."""

    def ends_of(self, key: int, time_ns: int) -> tuple[int, int] | None:
        """The first and the latest instrument of a name, by its key; None: it is not known. ``time_ns``: of its first
        tick, where the first is asked for, or of its latest."""


def check_new_day(value: object) -> None:
    """Raises ConfigurationError for what is no ``new_day``."""
    if value not in (None, "file"):
        raise ConfigurationError(
            "new_day", f"{value!r} is neither 'file' nor, for what is opened, 'date' or 'date ZONE'"
        )


def zone_of_days(infos: Sequence[FeedInfo]) -> ZoneInfo | None:
    """The zone by whose dates files are days, where the bounds of the files are not those of days: several of DBN, and
    of venues that close before midnight there. None: there is no such zone."""
    if len(infos) < 2 or any(info.format != "dbn" or _is_open_at_midnight("dbn", info) for info in infos):
        return None
    zones = {info.zone for info in infos}
    zone = zones.pop()
    return zone_named(zone) if zone is not None and not zones else None


def days_of(infos: Sequence[FeedInfo], new_day: str | None) -> Boundaries | None:
    """The boundaries between some files; None where there can be none. ``new_day``: see ``merge_feeds``."""
    found = Boundaries(infos, new_day)
    return found if found.possible else None


class Boundaries:
    """Symbols that a file's first tick clears, for several files that are merged.

    A file begins a new day for the symbols of each file of its venue that has ended and is of another date. Files of
    one date are one day, and so are files that are read at the same time. Where one of two dates is not known, and
    with ``new_day="file"``, each file that begins after another one's end is a new day. DBN of a venue that is open at
    midnight UTC has days only with ``new_day="file"``.
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
        closes = closes and not _is_open_at_midnight(source["format"], info)
        return (info.venue or source["format"]) if closes or self._by_file else None

    def _apart(self, a: int, b: int) -> bool:
        if self._venues[a] is None or self._venues[a] != self._venues[b]:
            return False
        dates = (self._dates[a], self._dates[b])
        return self._by_file or None in dates or dates[0] != dates[1]


def _is_open_at_midnight(source: str, info: FeedInfo) -> bool:
    """Tells whether the end of a file is not that of a day, though the venue closes. ``source``: the file's format."""
    return source == "dbn" and (info.venue or "").partition(".")[0] in _OPEN_AT_MIDNIGHT


_NO_TIMES: Final = np.zeros(0, np.int64)


class RollsBetween:
    """Names whose instrument in one file is another than it was in the files that have ended.

    A clear record comes before the name's first tick in the file that begins. Files that are read at the same time do
    not roll: the name stands for both instruments. ``feeds``: all files of a merge; those that tell no instruments take
    no part. ``dated``: days end by dates, and not with the files.
    """

    def __init__(self, feeds: Sequence[Feed], *, dated: bool = False) -> None:
        self._feeds = feeds
        self._dated = dated
        self._under_way: dict[int, set[int]] = {}  # by file: the merged numbers of its names so far
        self._latest: dict[int, int] = {}  # by merged number: the instrument in the file that ended last
        self._times: dict[int, npt.NDArray[np.int64]] = {}  # by file: when its ids had their latest ticks
        self.count = 0
        self.first: tuple[str, int, int, int] | None = None

    def knows(self, stream: int) -> bool:
        """Tells whether a file tells its instruments."""
        return self._of(stream) is not None

    def ended(self, stream: int, table: npt.NDArray[np.uint32]) -> None:
        """A file has no more ticks. ``table``: the merged numbers of its symbols."""
        self._under_way.pop(stream, None)
        rolls, times = self._of(stream), self._times.pop(stream, _NO_TIMES)
        if rolls is None:
            return
        for own_id, number in enumerate(table.tolist()):
            if number != UNMAPPED and (found := rolls.ends_of(own_id, int(times[own_id]))) is not None:
                self._latest[number] = found[1]

    def gave(self, stream: int, ticks: TickBatch) -> None:
        """A file has given its next ticks."""
        ids, times = ticks["instrument_id"], self._times.get(stream, _NO_TIMES)
        if len(ids) and (largest := int(ids.max())) >= len(times):
            longer = np.zeros(2 * largest + 1, np.int64)
            longer[: len(times)] = times
            self._times[stream] = times = longer
        if len(ids):
            times[ids] = ticks["ts_recv"]  # of those of one id the last one stays

    def meets(self, stream: int, own_id: int, number: int, time: int) -> TickBatch:
        """The clear record before a name's first tick in a file, if the name rolls there; else no tick."""
        self._under_way.setdefault(stream, set()).add(number)
        rolls = self._of(stream)
        found = None if rolls is None else rolls.ends_of(own_id, time)
        was = self._latest.get(number)
        if found is None or was in (None, found[0]) or self._is_read_elsewhere(stream, number):
            return clear_records(np.empty(0, np.uint32), time)
        self.count += 1
        if self.first is None:
            self.first = self._feeds[stream].symbols[own_id], was, found[0], time
        return clear_records(np.array([number], np.uint32), time)

    def _is_read_elsewhere(self, stream: int, number: int) -> bool:
        return any(number in numbers for other, numbers in self._under_way.items() if other != stream)

    def _of(self, stream: int) -> Instruments | None:
        feed = self._feeds[stream]
        if feed.info.format == "dbn" and self._never_rolls(feed.info):
            return None
        found: Instruments | None = getattr(feed, "rolls", None)
        return found

    def _never_rolls(self, info: FeedInfo) -> bool:
        """Tells whether nothing runs on from a file of DBN to the next: where files end, so do days. Shares and their
        options have another number each day, and are what their name says."""
        of_shares = info.zone == "America/New_York" and (info.venue or "").partition(".")[0] != "IFUS"
        return of_shares or not (self._dated or _is_open_at_midnight("dbn", info))


_SECOND = 1_000_000_000


def zone_of(new_day: object) -> ZoneInfo | None:
    """The zone of ``"date"`` (UTC) or ``"date ZONE"``; None for anything else. Raises ConfigurationError."""
    if not isinstance(new_day, str):
        check_new_day(new_day)
        return None
    word, _, name = new_day.partition(" ")
    if word != "date":
        return None
    try:
        return zone_named(name.strip() or "UTC")
    except (KeyError, ValueError, OSError):
        raise ConfigurationError(
            "new_day", f"{name!r} is not a time zone that this system knows: give one like 'date America/New_York'"
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
        #: The symbols that had ticks since the last change, the next midnight, and the ticks of the batch at hand that
        #: have not been given.
        self._touched = np.zeros(0, np.bool_)
        self._midnight: int | None = None
        self._left = 0

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
        yield from self._cut(self._feed.batches())

    @property
    def merges_in_blocks(self) -> bool:
        """See ``MergedFeed``."""
        return type(self).batches is DatedFeed.batches and merges_in_blocks(self._feed)

    def reading(self) -> DatedReading:
        """See ``MergedFeed``."""
        theirs: Any = cast(Any, self._feed).reading()
        return DatedReading(self, theirs, self._cut(theirs))

    def blocks_end_ns(self) -> int | None:
        """The latest time of ticks that blocks may take behind the batches given so far; None: none may."""
        return None if self._left or self._midnight is None else self._midnight - 1

    def touch(self, symbols: npt.NDArray[np.bool_]) -> None:
        """Notes symbols that had ticks in blocks."""
        self._touched |= symbols

    def _cut(self, batches: Iterator[TickBatch]) -> Iterator[TickBatch]:
        self._cleared = 0
        self._touched = touched = np.zeros(self.max_symbols, np.bool_)
        self._midnight = None
        for batch in batches:
            rest = batch
            while len(rest):
                self._midnight = self._after(int(rest["ts_recv"][0])) if self._midnight is None else self._midnight
                later = rest["ts_recv"] >= self._midnight
                end = int(np.argmax(later)) if later.any() else len(rest)
                if end:
                    touched[rest["instrument_id"][:end]] = True
                    at = len(batch) - len(rest)
                    self._given, self._chosen, self._clears = len(batch), slice(at, at + end), 0
                    self._left = len(rest) - end
                    yield rest[:end]
                rest = rest[end:]
                if not len(rest):
                    break
                time = int(rest["ts_recv"][0])
                self._midnight = self._after(time)
                symbols = np.flatnonzero(touched).astype(np.uint32)
                touched[:] = False
                self._cleared += len(symbols)
                self._clears, self._left = len(symbols), len(rest)
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


class DatedReading(Iterator[TickBatch]):
    """The reading of a merge whose days end by dates. Blocks take ticks up to midnight.

    Args:
        feed: The feed whose days end.
        merge: The reading of the merge.
        batches: Its batches, cut where a day begins.
    """

    def __init__(self, feed: DatedFeed, merge: Any, batches: Iterator[TickBatch]) -> None:
        self._feed, self._merge, self._batches = feed, merge, batches
        self.offer, self.close = merge.offer, merge.close

    def __next__(self) -> TickBatch:
        return next(self._batches)

    def feed_blocks(self, feeder: Feeder) -> bool:
        """See ``MergedReading``."""
        end_ns = self._feed.blocks_end_ns()
        if end_ns is None:
            return False
        feeder.end_by(end_ns)
        before = feeder.counts.copy()
        try:
            return bool(self._merge.feed_blocks(feeder))
        finally:
            self._feed.touch(feeder.counts != before)
