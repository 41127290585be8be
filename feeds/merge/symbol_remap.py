"""Symbol table for several feeds: a name is one symbol, whatever number a feed has for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from strand.binding.merge import UNMAPPED
from strand.errors import ConfigurationError, FeedError
from strand.feeds.base import Feed

__all__ = ["SymbolRemap"]

# The bound of symbols where a feed's table is not complete when merged, unless one table alone is larger.
_CAPACITY: Final = 1 << 17

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
            f"venue_in_name: {feed.info.path} does not say its venue: merge without venues in the names"
        )
    return f".{venue}"
