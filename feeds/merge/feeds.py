"""Several feeds as one: ticks in the order of receive time, then feed, then position, symbols by name."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any, Final, Literal, TypeVar, Unpack, cast

import numpy as np
import numpy.typing as npt

from strand.binding.feeder import Feeder
from strand.binding.merge import MOST_FILES, UNMAPPED, MergedFiles, ordered
from strand.errors import ConfigurationError, DisorderError, FeedError
from strand.feeds.base import (
    SAMPLES,
    BaseFeed,
    Feed,
    FeedInfo,
    Flags,
    Skipped,
    StockAttributes,
    TickBatch,
    as_base,
    merges_in_blocks,
    skipped_of,
)
from strand.feeds.mapping.events import roll_text
from strand.feeds.merge.days import Boundaries, RollsBetween, check_new_day, days_of
from strand.feeds.merge.options import MergeOptions
from strand.feeds.merge.streams import as_ticks, merge_streams
from strand.options import named_options
from strand.ticks import KIND_STATUS, TICK, named

# The bound of symbols where a feed's table is not complete when merged, unless one table alone is larger.
_CAPACITY: Final = 1 << 17
#: Bytes of one file that are read in turn where blocks found none, and batches before they are tried again where the
#: files cannot be cut at one time.
_IN_TURN: Final = 1 << 17
_TRIED_AFTER: Final = 8

#: Facts that hold for a merge if they hold for all of its feeds.
_ALIKE: Final = ("date", "venue", "price_unit", "size_unit", "ticks", "zone")

Table = npt.NDArray[np.uint32]
#: A symbol: its name and "", or no name and the venue and index it has in a feed.
_Key = tuple[str, str, int]


class SymbolRemap:
    """Numbers by name for the ids of several feeds, growing as theirs do; ``merge.streams.Numbers``.

    Names that the feeds already have come first, by feed and index; others in the order in which they are met. A stock
    locate without a name has the one that another file of its venue and date has for it: a day in parts has its
    directory in the first. Any other index without a name is one symbol in all feeds (of a venue, where venues are in
    the names). When it gets a name later, so does its number, unless the name has one already or another feed shares
    it: then ticks from there on bear the name's.
    """

    def __init__(self, feeds: Sequence[Feed], *, venue_in_name: bool, max_symbols: int | None) -> None:
        self._feeds = feeds
        #: The ending that each feed's names get: its venue, or nothing.
        self.endings = [_ending(feed) if venue_in_name else "" for feed in feeds]
        self._numbers: dict[_Key, int] = {}
        self._names: list[str] = []
        self._sharing: dict[int, set[int]] = {}  # by number without a name: the feeds that have it
        self._same_day = [[other for other in feeds if _same_locates(feed, other)] for feed in feeds]
        self._nameless: list[dict[int, int]] = [{} for _ in feeds]  # by feed: own ids without a name, and their numbers
        self._tables = [np.full(max(1, len(feed.symbols)), UNMAPPED, np.uint32) for feed in feeds]
        self._known = [0] * len(feeds)
        self._seen: list[Sequence[str] | None] = [None] * len(feeds)
        self._as_tuple: tuple[str, ...] | None = None
        self._max_symbols = self._sized(max_symbols)
        for feed in range(len(feeds)):
            self.refresh(feed)

    @property
    def names(self) -> tuple[str, ...]:
        """Names by number, as far as they are known; "" for an index without a name."""
        if self._as_tuple is None:
            self._as_tuple = tuple(self._names)
        return self._as_tuple

    @property
    def max_symbols(self) -> int:
        """Every number is below it."""
        return self._max_symbols

    def table(self, stream: int) -> Table:
        return self._tables[stream]

    def refresh(self, stream: int) -> Table | None:
        names = self._feeds[stream].symbols
        # A tuple seen before has nothing new; anything else may have grown.
        if isinstance(names, tuple) and names is self._seen[stream]:
            return None
        self._seen[stream] = names
        before = self._tables[stream]
        if len(names) != self._known[stream]:
            found = list(names)
            table = self._room(stream, len(found) - 1) if found else before
            for own_id in np.flatnonzero(table[: len(found)] == UNMAPPED).tolist():
                if found[own_id]:
                    table[own_id] = self._number((found[own_id] + self.endings[stream], "", 0))
            self._known[stream] = len(found)
        nameless = self._nameless[stream]
        for own_id in [own_id for own_id in nameless if own_id < len(names) and names[own_id]]:
            self._name(stream, own_id, nameless.pop(own_id), names[own_id] + self.endings[stream])
        table = self._tables[stream]
        return table if table is not before else None

    def assign(self, stream: int, own_id: int) -> Table | None:
        feed = self._feeds[stream]
        if own_id >= feed.max_symbols:
            raise FeedError(
                f"a tick's instrument_id is {own_id}, but the feed's max_symbols is {feed.max_symbols}",
                path=feed.info.path,
            )
        before = self._tables[stream]
        table = self._room(stream, own_id)
        name = next(filter(None, (_name_in(one, own_id) for one in (feed, *self._same_day[stream]))), "")
        if name:
            table[own_id] = self._number((name + self.endings[stream], "", 0))
        else:
            number = self._number(("", self.endings[stream], own_id))
            table[own_id] = number
            self._nameless[stream][own_id] = number
            self._sharing.setdefault(number, set()).add(stream)
        return table if table is not before else None

    def renumbered(self, stream: int, batch: TickBatch) -> TickBatch:
        """A copy of a feed's ticks with the ids of all feeds together. Raises FeedError."""
        made = batch.copy()
        self.refresh(stream)
        ids, table = made["instrument_id"], self.table(stream)
        known = ids < len(table)
        unknown = ids[~known | (table[np.where(known, ids, 0)] == UNMAPPED)]
        for own_id in np.unique(unknown).tolist():
            self.assign(stream, own_id)
        made["instrument_id"] = self.table(stream)[ids]
        return made

    def _number(self, key: _Key) -> int:
        number = self._numbers.get(key)
        if number is None:
            number = len(self._names)
            if number == self._max_symbols:
                raise FeedError(
                    f"the feeds have more than {number} symbols together: give merge_feeds a larger max_symbols="
                )
            self._numbers[key] = number
            self._names.append(key[0])
            self._as_tuple = None
        return number

    def _name(self, stream: int, own_id: int, number: int, name: str) -> None:
        """An index that ticks have had without a name has got one."""
        key = (name, "", 0)
        sharing = self._sharing.get(number, set())
        if sharing == {stream} and key not in self._numbers:
            del self._numbers["", self.endings[stream], own_id]
            del self._sharing[number]
            self._numbers[key] = number
            self._names[number] = name
            self._as_tuple = None
        else:
            sharing.discard(stream)
            self._tables[stream][own_id] = self._number(key)

    def _room(self, stream: int, own_id: int) -> Table:
        table = self._tables[stream]
        if own_id >= len(table):
            larger = np.full(max(own_id + 1, min(2 * len(table), self._feeds[stream].max_symbols)), UNMAPPED, np.uint32)
            larger[: len(table)] = table
            self._tables[stream] = table = larger
        return table

    def _sized(self, max_symbols: int | None) -> int:
        if max_symbols is not None:
            return max_symbols
        complete: set[_Key] = set()
        growing = []
        for feed, ending in zip(self._feeds, self.endings, strict=True):
            if len(feed.symbols) < feed.max_symbols:
                growing.append(feed.max_symbols)
                continue
            for own_id, name in enumerate(feed.symbols):
                complete.add((name + ending, "", 0) if name else ("", ending, own_id))
        if not growing:
            return max(1, len(complete))
        return len(complete) + min(sum(growing), max(_CAPACITY, *growing))


def _name_in(feed: Feed, own_id: int) -> str:
    return feed.symbols[own_id] if own_id < len(feed.symbols) else ""


def _same_locates(feed: Feed, other: Feed) -> bool:
    """Tells whether a number means the same stock in both feeds: stock locates of one venue on one date."""
    if other is feed or not (getattr(feed, "locates", False) and getattr(other, "locates", False)):
        return False
    info, its = feed.info, other.info
    return info.date is not None and (info.date, info.venue) == (its.date, its.venue)


def _ending(feed: Feed) -> str:
    venue = feed.info.venue
    if not venue:
        raise ConfigurationError(
            "venue_in_name", f"{feed.info.path} does not say its venue: merge without venues in the names"
        )
    return f".{venue}"


T = TypeVar("T")


@named_options("merge_feeds()", declares=MergeOptions)
class MergedFeed(BaseFeed):
    """Merges any number of feeds into one, in the order of receive time, then feed, then position.

    It holds one batch per feed, the batch being made, and of each feed the ticks less than ``reorder_ns`` behind its
    latest. If a feed raises in mid-stream, it has been merged up to its last tick when the error is raised.

    Args:
        feeds: The feeds, one or more. Closing the merge closes them.

    Raises:
        ConfigurationError: If an option cannot work, if there are no feeds, or if one feed is given twice.
    """

    reads: Sequence[str] = ()

    def __init__(self, feeds: Sequence[Feed], *, _dated: bool = False, **options: Unpack[MergeOptions]) -> None:
        super().__init__()
        self._feeds = tuple(feeds)
        if not self._feeds:
            raise ConfigurationError("feeds", "give at least one feed")
        if len({id(feed) for feed in self._feeds}) < len(self._feeds):
            raise ConfigurationError(
                "feeds", "one is given twice, and a feed can be read only once at a time: open it twice"
            )
        _check_days([feed.info for feed in self._feeds])
        self.reads = [path for feed in self._feeds for path in as_base(feed).reads]
        self.is_live = any(as_base(feed).is_live for feed in self._feeds)
        self.writes = [path for feed in self._feeds for path in as_base(feed).writes]
        check_new_day(options["new_day"])
        if options["carry_over"] and options["new_day"] is not None:
            raise ConfigurationError(
                "carry_over", "with new_day= days end, and nothing is carried over: give only one of the two"
            )
        self._options, named, most = options, options["venue_in_name"], options["max_symbols"]
        self._remap = SymbolRemap(self._feeds, venue_in_name=named, max_symbols=most)
        #: Begins a merge. ``_dated``: its user ends days by dates.
        self._begun = partial(_Merge, self._feeds, self._remap, options, dated=_dated)
        self._latest = self._begun()

    @property
    def info(self) -> FeedInfo:
        """Description of all feeds together.

        Format, date, venue, price unit, size unit, zone and ``ticks`` are set if all feeds agree; else the format is
        ``"merged"``. ``flags`` are those of all feeds, unless one bit has two meanings. The span is that of all feeds
        if each one's is known. ``details["feeds"]`` has each feed's format, path, date, venue and compression.
        """
        infos = [feed.info for feed in self._feeds]
        spans = [info.span for info in infos if info.span is not None]
        path = infos[0].path + (f" and {len(infos) - 1} more" if len(infos) > 1 else "")
        return FeedInfo(
            _common([info.format for info in infos]) or "merged",
            path,
            span=(min(s[0] for s in spans), max(s[1] for s in spans)) if len(spans) == len(infos) else None,
            details={
                "feeds": [
                    {
                        "format": info.format,
                        "path": info.path,
                        "date": info.date,
                        "venue": info.venue,
                        # A member of a zip archive may be stored as it is, and nothing inflates it then.
                        "compression": (
                            "none" if info.details.get("inflater", "") is None else info.details.get("compression")
                        ),
                    }
                    for info in infos
                ]
            }
            | _examples(infos, self._latest.rolls.first)
            | {key: info.details[key] for info in infos for key in ("bars_of",) if key in info.details},
            undated=any(info.undated for info in infos),
            ticks_assumed=any(info.ticks_assumed for info in infos),
            prices_assumed=any(info.prices_assumed for info in infos),
            flags=Flags.together(info.flags for info in infos),
            has_sizes=all(info.has_sizes for info in infos),
            bars=infos[0].bars if all(info.bars == infos[0].bars for info in infos) else 0,
            **{field: _common([getattr(info, field) for info in infos]) for field in _ALIKE},
        )

    @property
    def directory(self) -> Mapping[str, StockAttributes]:
        """Attributes of each stock from the feeds' sources, by the merged name; where several feeds have a stock, the
        last one's."""
        found: dict[str, StockAttributes] = {}
        for feed, ending in zip(self._feeds, self._remap.endings, strict=True):
            theirs: Mapping[str, StockAttributes] = getattr(feed, "directory", {})
            found |= {name + ending: stock for name, stock in theirs.items()}
        return found

    @property
    def tick_feeds(self) -> npt.NDArray[np.int32] | None:
        """The feed that each tick of the latest batch came from, shape (n,), by its place in ``info.details["feeds"]``.

        -1 stands for a clear record between two days. It is valid as long as the batch. None if there is only one feed.
        """
        return self._latest.tick_feeds if len(self._feeds) > 1 else None

    @property
    def symbols(self) -> Sequence[str]:
        """Names by the merged ``instrument_id``; grows as those of the feeds do."""
        return self._remap.names

    @property
    def plain_symbols(self) -> Sequence[str]:
        """The names as the feeds have them, each once, without venues."""
        return list(dict.fromkeys(name for feed in self._feeds for name in feed.symbols))

    @property
    def max_symbols(self) -> int:
        return self._remap.max_symbols

    @property
    def skipped(self) -> Skipped:
        """Records that the feeds skipped, samples with the feed's path, and ticks out of order that were skipped."""
        own = self._latest.skipped
        together = Skipped(own.counts.copy(), list(own.samples))
        for feed in self._feeds:
            theirs = skipped_of(feed)
            together.counts.update(theirs.counts)
            together.samples.extend(s._replace(text=f"{feed.info.path}: {s.text}") for s in theirs.samples)
        kept: Counter[str] = Counter()
        samples = []
        for sample in together.samples:
            kept[sample.reason] += 1
            if kept[sample.reason] <= SAMPLES:
                samples.append(sample)
        together.samples = samples
        return together

    @skipped.setter
    def skipped(self, own: Skipped) -> None:
        """Each merge has its own."""

    def batches(self) -> Iterator[TickBatch]:
        """Yields the feeds from their starts, in batches of ``batch_ticks``, the last one shorter; each valid until the
        next.

        Each error comes after every tick before it. Errors of a feed come out as they are.

        Raises:
            DisorderError: If a tick is too far behind, under ``on_disorder="raise"``.
            FeedError: If there are more symbols than ``max_symbols``.
        """
        self._check_open()
        self._latest = self._begun()
        return self._latest.batches(self._check_open)

    @property
    def merges_in_blocks(self) -> bool:
        """True if blocks may take ticks of its files: plain files, without a selection, which are one day."""
        one_way = type(self).batches is MergedFeed.batches and not self._options["reorder_ns"]
        if not one_way or not 1 < len(self._feeds) <= MOST_FILES or not all(map(merges_in_blocks, self._feeds)):
            return False
        merge = self._begun()
        return merge.new_days() is None and merge.rolls_to_find() is None and not merge.ends_to_set()

    def reading(self) -> MergedReading:
        """Begins to read files that may go in blocks from their starts. The caller closes the reading."""
        self._check_open()
        self._latest = self._begun()
        return MergedReading(self._latest, self._feeds, self._check_open)

    def count(self) -> int | None:
        """The sum of the feeds' counts, if each is known, no tick may be skipped, and no day may end; else None."""
        if self._options["on_disorder"] == "skip" or self._latest.new_days() is not None:
            return None
        counts = [feed.count() if isinstance(feed, BaseFeed) else None for feed in self._feeds]
        known = [count for count in counts if count is not None]
        return sum(known) if len(known) == len(counts) else None

    def statistics(self) -> dict[str, int]:
        """The sums of the feeds' counts. Of the latest iteration: ``days_cleared``, clear records; ``reordered``, ticks
        that were put in order; ``disorder_kept`` and ``disorder_skipped``, those further behind than the window; and
        ``disorder_furthest_ns``, the most that any of these was behind."""
        sums: Counter[str] = Counter()
        for feed in self._feeds:
            sums.update(feed.statistics())
        merge = self._latest
        if merge.rolls.count:
            sums["rolled_instruments"] += merge.rolls.count
        return dict(sums) | {
            "days_cleared": 0 if merge.days is None else merge.days.cleared,
            "reordered": sum(one.reordered for one in merge.reorders),
            "disorder_kept": sum(one.kept for one in merge.reorders),
            "disorder_skipped": merge.skipped.total,
            "disorder_furthest_ns": max(one.furthest_ns for one in merge.reorders),
        }

    def close(self) -> None:
        """Closes all feeds, and ends an iteration under way. May be repeated."""
        self._closed = True
        with ExitStack() as stack:
            for feed in self._feeds:
                stack.callback(feed.close)


class _Merge:
    """One reading of several feeds in the order of their ticks.

    Attributes:
        remap: The numbers of symbols.
        reorders: Of each feed, what puts its ticks in order.
        skipped: The ticks out of order that were skipped.
        days: The days that end between the files; None: none does.
        rolls: The names that go over to other instruments.
        tick_feeds: The feed of each tick of the latest batch.
    """

    def __init__(self, feeds: Sequence[Feed], remap: SymbolRemap, options: MergeOptions, *, dated: bool) -> None:
        self._feeds, self.remap, self._options, self._dated = feeds, remap, options, dated
        self.skipped = Skipped()
        window_ns, how = options["reorder_ns"], cast(OnDisorder, options["on_disorder"])
        self.reorders = [
            Reorder(feed.info.path, window_ns=window_ns, on_disorder=how, skipped=self.skipped) for feed in feeds
        ]
        self.days: Boundaries | None = None
        self.rolls = RollsBetween(feeds, dated=dated)
        self.tick_feeds: npt.NDArray[np.int32] = np.empty(0, np.int32)

    def new_days(self) -> Boundaries | None:
        """The days that end between the files; None: none does."""
        if self._options["carry_over"] or self._dated:
            return None
        return days_of([feed.info for feed in self._feeds], self._options["new_day"])

    def rolls_to_find(self) -> RollsBetween | None:
        """The rolls, if two files or more tell their instruments."""
        known = sum(map(self.rolls.knows, range(len(self._feeds))))
        return self.rolls if known > 1 and not self._options["carry_over"] else None

    def ends_to_set(self) -> int:
        """The flag for the end of an event that ticks of some feeds get, which have none; 0: no feed's."""
        every = [feed.info.flags for feed in self._feeds]
        flags = Flags.together(every)
        last = 0 if flags is None else flags.last
        return last if any(flag is not None and not flag.last for flag in every) else 0

    def batches(self, check_open: Callable[[], None]) -> Iterator[TickBatch]:
        """The ticks of all feeds from their starts."""
        last = self.ends_to_set()
        with ExitStack() as stack:
            parts = []
            for feed in self._feeds:
                theirs: Any = feed.batches()
                if hasattr(theirs, "close"):
                    stack.callback(theirs.close)
                is_set = not last or feed.info.flags is None or feed.info.flags.last
                parts.append(theirs if is_set else _with_ends(theirs, last))
            self.days = self.new_days()
            yield from self.of(parts, check_open, days=self.days, rolls=self.rolls_to_find())

    def of(
        self,
        parts: Sequence[Iterator[TickBatch]],
        check_open: Callable[[], None],
        *,
        days: Boundaries | None = None,
        rolls: RollsBetween | None = None,
    ) -> Iterator[TickBatch]:
        """The ticks of a part of each feed."""
        with ExitStack() as stack:
            streams = [reorder.stream(part) for reorder, part in zip(self.reorders, parts, strict=True)]
            for stream in streams:
                stack.callback(cast(Any, stream).close)
            most, tell = self._options["batch_ticks"], partial(setattr, self, "tick_feeds")
            for batch in merge_streams(
                streams, batch_ticks=most, numbers=self.remap, days=days, rolls=rolls, tell=tell
            ):
                yield batch
                check_open()


class MergedReading(Iterator[TickBatch]):
    """Files on their way through a merge. They give batches, and from time to time blocks take their ticks.

    Blocks begin where the merge holds no ticks. So the files are first read up to one time, and no further.

    Args:
        merge: The merge.
        feeds: Its files.
        check_open: Raises FeedError once the merge's feed is closed.
    """

    def __init__(self, merge: _Merge, feeds: Sequence[Feed], check_open: Callable[[], None]) -> None:
        self._merge, self._reorders, self._check_open = merge, merge.reorders, check_open
        with ExitStack() as opened:
            self._readings: list[Any] = []
            for each in feeds:
                self._readings.append(cast(Any, each).reading())
                opened.callback(self._readings[-1].close)
            opened.pop_all()
        self._merged = merge.of(self._readings, check_open)
        self._next: TickBatch | None = None
        #: The files that blocks may go on with: they were read up to one time. ``_is_bound``: they are being.
        self._files: MergedFiles | None = None
        self._under_way: list[int] = []
        self._is_bound = False
        self._in_turn = 0

    def __next__(self) -> TickBatch:
        """Returns the next batch of the merge, valid until the one after it. Raises what the feeds raise."""
        batch, self._next = self._next, None
        while batch is None:
            if self._files is not None:
                self._go_on(0)
            batch = next(self._merged, None)
            if batch is None and not self._is_bound:
                self.close()
                raise StopIteration
            if batch is None:
                self._files = self._cut_files()
        return batch

    def offer(self, feeder: Feeder) -> None:
        """Offers the files to be read in blocks, once they have been read up to one time."""
        files = self._cut_files()
        if self._under_way:
            feeder.offer_merge(files)

    def feed_blocks(self, feeder: Feeder) -> bool:
        """Lets a feeder take ticks in blocks for a while, if it wants them so. Returns False when the next batch is to
        be taken. Raises what the feeds and the feeder raise."""
        under_way = [one for one in self._readings if not one.is_over]
        if self._in_turn or not feeder.goes_in_blocks or not under_way:
            self._in_turn -= self._in_turn > 0
            return False
        if not all(one.read_in_turn() and one.file for one in under_way):
            feeder.withdraw()
            return False
        if self._files is None:
            if not self._is_bound and not self._bind(0):
                return False
            self._next = next(self._merged, None)
            if self._next is not None:
                return False
            self._files = self._cut_files()
        before = [self._files.passed(each) for each in range(len(self._under_way))]
        feeder.offer_merge(self._files)
        with ExitStack() as stack:
            for each in self._under_way:
                stack.enter_context(self._readings[each].in_blocks())
            feeder.run_blocks()
        passed = 0
        for place, each in enumerate(self._under_way):
            (ticks, latest), (was, _) = self._files.passed(place), before[place]
            self._reorders[each].pass_by(ticks - was, latest)
            passed += ticks - was
        if not passed:
            self._go_on(_IN_TURN)
            return False
        return True

    def close(self) -> None:
        """Ends the reading. May be repeated."""
        cast(Any, self._merged).close()
        for one in self._readings:
            one.close()

    def _cut_files(self) -> MergedFiles:
        """The files under way, from where they stand."""
        readings = self._readings
        self._under_way = [each for each in range(len(readings)) if not readings[each].is_over]
        remap = self._merge.remap
        files = [(*readings[each].file, remap.table(each), self._reorders[each].latest) for each in self._under_way]
        return MergedFiles(files, len(remap.names))

    def _bind(self, skip_bytes: int) -> bool:
        """Makes the files pause at one time, if there is one nearby."""
        files = self._cut_files()
        # Files that have ended may have ticks that the merge still holds.
        places = files.cuts(max(each.latest for each in self._reorders), skip_bytes)
        if places is None:
            self._in_turn = _TRIED_AFTER
            return False
        for each, place in zip(self._under_way, places, strict=True):
            self._readings[each].pause_at(place)
        self._is_bound = True
        return True

    def _go_on(self, skip_bytes: int) -> None:
        """Goes on in turn: for so many bytes, where blocks found something else than blocks."""
        self._files, self._is_bound = None, False
        for one in self._readings:
            one.pause_at(None)
        self._merged = self._merge.of(self._readings, self._check_open)
        if skip_bytes:
            self._bind(skip_bytes)


#: Feeds as one, which owns them: closing it closes them.
merge_feeds = MergedFeed


def _check_days(infos: Sequence[FeedInfo]) -> None:
    """Times of day cannot be put in order with times of a day that is known."""
    undated = next((info for info in infos if info.undated), None)
    dated = next((info for info in infos if info.date is not None), None)
    if undated is not None and dated is not None:
        raise ConfigurationError(
            "date",
            f"{undated.path} does not say its date, and {dated.path} is of {dated.date}: merged, their times would be "
            "decades apart; open it with date=, or put the date in its name",
        )


def _examples(infos: Sequence[FeedInfo], roll: tuple[str, int, int, int] | None) -> dict[str, dict[str, str]]:
    """Examples of the feeds for their counts, each from the first feed that has it. ``roll``: between two feeds."""
    found: dict[str, str] = {} if roll is None else {"rolled_instruments": roll_text(*roll)}
    for info in reversed(infos):
        found |= info.details.get("examples", {})
    return {"examples": found} if found else {}


def _with_ends(batches: Iterator[TickBatch], last: int) -> Iterator[TickBatch]:
    """Ticks of a feed without a flag for the end of an event, each of which ends one, with the merge's flag for it."""
    for batch in batches:
        ticks = named(batch.view(f"V{TICK.itemsize}").copy().view(TICK))
        ticks["flags"] |= np.where(ticks["kind"] == KIND_STATUS, 0, last).astype(np.uint8)
        yield ticks


def _common(values: Sequence[T | None]) -> T | None:
    """The value where all are the same."""
    return values[0] if all(value == values[0] for value in values) else None


OnDisorder = Literal["raise", "keep", "skip"]

# Ticks as records without fields, which numpy copies whole. It copies records with fields one field at a time.
_OPAQUE: Final = np.dtype((np.void, TICK.itemsize))

Times = npt.NDArray[np.int64]


class Reorder:
    """Puts one feed's ticks in order, and counts those whose time ran back.

    ``reordered``: ticks put in order; ``kept``: ticks further back than the window that stayed where they came;
    ``furthest_ns``: the furthest that any tick ran back. ``skipped`` counts the skipped ones.
    """

    def __init__(self, path: str, *, window_ns: int, on_disorder: OnDisorder, skipped: Skipped) -> None:
        self.reordered = self.kept = self.furthest_ns = 0
        self._path = path
        self._window_ns = window_ns
        self._on_disorder = on_disorder
        self._skipped = skipped
        self._latest = 0
        self._position = 0

    @property
    def latest(self) -> int:
        """The latest time of the feed's ticks, 0 before the first."""
        return self._latest

    def pass_by(self, ticks: int, latest: int) -> None:
        """Notes ticks of the feed that were in order and went another way, up to a time."""
        self._position += ticks
        self._latest = max(self._latest, latest)

    def stream(self, batches: Iterator[TickBatch]) -> Iterator[TickBatch]:
        """A feed's ticks by receive time, then position, in batches that are valid until the next one is asked for.

        A tick that is at most the window behind the latest time before it goes where it belongs; one that is further
        behind raises DisorderError, is kept right behind what came before it, or is skipped. Holds the ticks that are
        less than the window behind the latest; where times do not run back and there is no window, nothing is held or
        copied. An exception of ``batches`` is raised after all ticks that were held.
        """
        held = _Held()
        fault: Exception | None = None
        while fault is None:
            try:
                batch = next(batches, None)
            except Exception as error:
                fault = error
                break
            if batch is None:
                break
            ticks, times, fault = self._placed(as_ticks(batch))
            if not len(ticks):
                continue
            if not self._window_ns:
                yield ticks
                continue
            held.add(ticks, times)
            yield from held.until(self._latest - self._window_ns)
            held.own()
        yield from held.until(self._latest)
        if fault is not None:
            raise fault

    def _placed(self, ticks: TickBatch) -> tuple[TickBatch, Times | None, DisorderError | None]:
        """The ticks of a batch that are not skipped, the times at which they are placed (None: their own, in order),
        and the error that follows them."""
        position, latest = self._position, self._latest
        self._position += len(ticks)
        good, self._latest = ordered(ticks, latest)
        if good == len(ticks):
            return ticks, None, None
        times = np.ascontiguousarray(ticks["ts_recv"])
        reached = np.maximum(np.maximum.accumulate(times), np.int64(latest))
        behind = reached - times
        outside = behind > np.int64(self._window_ns)
        fault = None
        if self._on_disorder == "raise" and outside.any():
            end = int(np.argmax(outside))
            fault = self._error(position + end, int(behind[end]))
            ticks, times, reached, behind, outside = (a[:end] for a in (ticks, times, reached, behind, outside))
        self._latest = max(latest, int(reached.max(initial=0)))
        self.furthest_ns = max(self.furthest_ns, int(behind.max(initial=0)))
        late = int(np.count_nonzero(outside))
        self.reordered += int(np.count_nonzero(behind)) - late
        if late and self._on_disorder == "skip":
            first = int(np.argmax(outside))
            place = f"{self._path}: tick {position + first}, {int(behind[first])} ns back"
            self._skipped.add("out of order", late, text=place)
            ticks, times = ticks.view(_OPAQUE)[~outside].view(TICK), times[~outside]
        elif late:
            self.kept += late
            times = np.where(outside, reached, times)
        return ticks, times, fault

    def _error(self, position: int, behind_ns: int) -> DisorderError:
        return DisorderError(
            f"the receive time of tick {position} is {behind_ns} ns before an earlier one's"
            + (f", and the window is {self._window_ns} ns" if self._window_ns else "")
            + ": give a wider reorder_ns, or on_disorder='keep' or 'skip'",
            path=self._path,
            position=position,
        )


class _Held:
    """Ticks that wait because later ones may belong between them. The parts are in order, and so are the ticks of
    each."""

    def __init__(self) -> None:
        self._parts: deque[tuple[TickBatch, Times]] = deque()
        self._borrowed = False

    def add(self, ticks: TickBatch, times: Times | None) -> None:
        """Adds ticks, with the times at which they are placed (None: their own, in order)."""
        self._borrowed = times is None
        if times is None:
            self._parts.append((ticks, np.ascontiguousarray(ticks["ts_recv"])))
            return
        behind: list[tuple[TickBatch, Times]] = [(ticks, times)]
        earliest = times.min()
        while self._parts and self._parts[-1][1][-1] > earliest:
            before, before_times = self._parts.pop()
            cut = int(np.searchsorted(before_times, earliest, side="right"))
            behind.append((before[cut:], before_times[cut:]))
            if cut:
                self._parts.append((before[:cut], before_times[:cut]))
        times = np.concatenate([part for _, part in reversed(behind)])
        # A stable sort leaves equal times in the order they came.
        order = np.argsort(times, kind="stable")
        joined = np.concatenate([part.view(_OPAQUE) for part, _ in reversed(behind)])
        self._parts.append((named(joined[order].view(TICK)), times[order]))

    def until(self, bound: int) -> Iterator[TickBatch]:
        """Takes out the ticks placed at ``bound`` or before: no later tick belongs before them."""
        while self._parts and int(self._parts[0][1][0]) <= bound:
            ticks, times = self._parts.popleft()
            cut = int(np.searchsorted(times, np.int64(bound), side="right"))
            if cut < len(ticks):
                self._parts.appendleft((ticks[cut:], times[cut:]))
            yield ticks[:cut]

    def own(self) -> None:
        """Copies the ticks that still lie in the feed's batch: its next batch may overwrite them."""
        if self._borrowed and self._parts:
            ticks, times = self._parts.pop()
            self._parts.append((ticks.view(_OPAQUE).copy().view(TICK), times))
        self._borrowed = False
