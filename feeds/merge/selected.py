"""Selection and position for any feed, whether or not its reader supports them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from strand.errors import EmptyFeedError, RecordTypeError, UnknownSymbolError
from strand.feeds.base import (
    BaseFeed,
    Feed,
    FeedInfo,
    Selection,
    StockAttributes,
    TickBatch,
    as_base,
    is_glob,
    names_like,
    skipped_of,
)
from strand.feeds.mapping.events import Rolls
from strand.symbols import near_symbol
from strand.ticks import is_clear, picked

_MIXED: Final = "mixed_quotes"


def feeds_of_batch(feed: Feed, ticks: int, *, cut: bool = False) -> npt.NDArray[np.int32]:
    """``tick_feeds`` of a merge's latest batch, of which ``ticks`` ticks were yielded. ``cut``: a position may have cut
    off the batch's start. Raises RecordTypeError where there is not one number per tick: all later numbers would belong
    to other ticks."""
    theirs = as_base(feed).tick_feeds
    found = np.empty(0, np.int32) if theirs is None else np.asarray(theirs, np.int32).reshape(-1)
    if len(found) < ticks or (len(found) > ticks and not cut):
        raise RecordTypeError(
            f"tick_feeds: give one number per tick of the batch: {feed.info.path} has {len(found)} for {ticks} ticks"
        )
    return found[len(found) - ticks :]


def are_wanted(feed: Feed, wanted: Sequence[str]) -> npt.NDArray[np.bool_]:
    """Mask, by ``instrument_id``, of the symbols among the names and globs that were asked for. Call it at the feed's
    end, when all symbols are known."""
    names = plain_symbols(feed)
    return Selection(tuple(wanted)).keys(names) & np.fromiter(map(bool, names), np.bool_, len(names))


def plain_symbols(feed: Feed) -> Sequence[str]:
    """The names as the files have them: names are looked for in the files, and a merge may have added venues."""
    found: Sequence[str] = getattr(feed, "plain_symbols", feed.symbols)
    return found


def unknown_symbol(feed: Feed, wanted: Sequence[str]) -> UnknownSymbolError | None:
    """The error for the first name or glob that matches no symbol; None where all match. Call it at the feed's end,
    when all symbols are known."""
    names = plain_symbols(feed)
    known = set(names)
    for pattern in wanted:
        if pattern in known and pattern:
            continue
        if not is_glob(pattern) or not any(name and names_like((pattern,))(name) for name in names):
            near = near_symbol(pattern, names)
            return UnknownSymbolError(f"symbols: nothing in {feed.info.path} is named {pattern!r}{near}")
    return None


#: For a feed without ticks, by a count that is not 0: the option that reads what is counted there.
_CURES: Final = {
    "blank_packets": "read packets with zeros for session and sequence by blank_headers=True "
    "(--feed blank_headers=true)",
    "iex_packets": "read the packets of IEX by format='iex' (--format iex)",
}


def empty_feed(feed: Feed, *, selected: bool) -> EmptyFeedError:
    """The error for a feed that has been read to its end and gave no tick. ``selected``: whether only some of its ticks
    were asked for."""
    cure = "choose more of it (symbols, start, end, position)" if selected else "check that this is the right file"
    found = "not one tick of it is chosen" if selected else f"nothing in it is a tick that {feed.info.format} reads"
    statistics = dict(feed.statistics())
    cure = next((words for name, words in _CURES.items() if statistics.get(name)), cure)
    counts = [
        f"{name} {n:,}"
        for name, n in statistics.items()
        if n and not name.startswith("bytes_") and not name.endswith("_ns")
    ]
    counts += [f"skipped: {reason} {n:,}" for reason, n in skipped_of(feed).counts.items()]
    seen = f" ({', '.join(counts)})" if counts else ""
    return EmptyFeedError(
        f"{found}{seen}: {cure}, or allow that with allow_empty=True (--allow-empty)", path=feed.info.path
    )


class SelectedFeed(BaseFeed):
    """The ticks of another feed that a selection keeps. Closing it closes the other."""

    def __init__(self, feed: Feed, select: Selection) -> None:
        super().__init__()
        self._feed = feed
        self._select = select
        self.skipped, self.is_live, self.writes = skipped_of(feed), as_base(feed).is_live, as_base(feed).writes
        self._passed_over = 0
        self._known, self._wanted = -1, np.zeros(0, np.bool_)
        #: Of this feed's own ticks, where the other feed counts them; else None.
        self._mixed: int | None = None
        #: Number of ticks in the other feed's latest batch, and those of them that this feed yields.
        self._given: int | None = None
        self._chosen: npt.NDArray[np.bool_] | slice = slice(None)

    @property
    def info(self) -> FeedInfo:
        return self._feed.info

    @property
    def symbols(self) -> Sequence[str]:
        return self._feed.symbols

    @property
    def max_symbols(self) -> int:
        return self._feed.max_symbols

    @property
    def directory(self) -> Mapping[str, StockAttributes]:
        """Attributes of each stock from the other feed's source, by name; empty where the source has none."""
        found: Mapping[str, StockAttributes] = getattr(self._feed, "directory", {})
        return found

    @property
    def reads(self) -> Sequence[str]:
        return as_base(self._feed).reads

    @property
    def passed_ns(self) -> int | None:  # type: ignore[override]
        passed, end = as_base(self._feed).passed_ns, self._select.end_ns
        return passed if passed is None or end is None else min(passed, end - 1)

    def live_counts(self) -> Mapping[str, Any]:
        return as_base(self._feed).live_counts()

    def follow(self, published: Callable[[], int], handled: Callable[[], int]) -> None:
        as_base(self._feed).follow(published, handled)

    @property
    def tick_feeds(self) -> npt.NDArray[np.int32] | None:
        theirs = as_base(self._feed).tick_feeds
        if theirs is None or self._given is None:
            return theirs
        return feeds_of_batch(self._feed, self._given)[self._chosen]

    def batches(self) -> Iterator[TickBatch]:
        """Yields the other feed's batches without unwanted ticks; a batch without wanted ticks is left out."""
        self._passed_over = 0
        self._known, quotes = -1, Rolls(quotes=True)
        self._mixed = 0 if _MIXED in self._feed.statistics() else None
        for batch in self._feed.batches():
            kept = self._kept(batch)
            count = int(np.count_nonzero(kept))
            self._passed_over += len(batch) - count
            self._given, self._chosen = len(batch), kept
            if not count and len(batch):  # an empty batch lets a run look at the clock
                continue
            chosen = batch if count == len(batch) else picked(batch, kept)
            if self._mixed is not None:
                self._mixed += quotes.follow(chosen, None)[1][_MIXED]
            yield chosen

    def statistics(self) -> dict[str, int]:
        """Counts of the other feed, and ``not_selected``: ticks made and passed over. ``mixed_quotes`` are those of
        this feed's ticks."""
        found = dict(self._feed.statistics()) | {"not_selected": self._passed_over}
        # Where the other feed counts none, its quotes may be those of all publishers together.
        return found | ({_MIXED: self._mixed} if self._mixed is not None and found[_MIXED] else {})

    def close(self) -> None:
        self._feed.close()

    def _kept(self, batch: TickBatch) -> npt.NDArray[np.bool_]:
        if len(names := self._feed.symbols) != self._known:
            self._known, named = len(names), self._select.keys(names)
            self._wanted = np.full(self._feed.max_symbols, self._select.keeps(""), np.bool_)  # without a name yet
            self._wanted[: len(named)] = named[: len(self._wanted)]
        return self._select.mask(batch, self._wanted)


class ZonedFeed(SelectedFeed):
    """The ticks of another feed that knows no zone, with the zone in which they were selected. Closing it closes the
    other."""

    def __init__(self, feed: Feed, zone: str) -> None:
        super().__init__(feed, Selection())
        self._zone = zone

    @property
    def info(self) -> FeedInfo:
        return replace(super().info, zone=self._zone)

    def count(self) -> int | None:
        found: int | None = getattr(self._feed, "count", lambda: None)()
        return found

    def last_batches(self, ticks: int) -> Iterator[TickBatch] | None:
        own: Any = getattr(self._feed, "last_batches", lambda _: None)
        found: Iterator[TickBatch] | None = own(ticks)
        return found

    def batches(self) -> Iterator[TickBatch]:
        """Yields the other feed's batches."""
        for batch in self._feed.batches():
            self._given, self._chosen = len(batch), slice(0, len(batch))
            yield batch

    def statistics(self) -> dict[str, int]:
        return dict(self._feed.statistics())


class CarriedFeed(SelectedFeed):
    """The ticks of another feed without those that say that a new day begins. Closing it closes the other."""

    def __init__(self, feed: Feed) -> None:
        super().__init__(feed, Selection())

    def _kept(self, batch: TickBatch) -> npt.NDArray[np.bool_]:
        return ~is_clear(batch)
