"""Ends of events, levels that rows change by differences, and names that go over from one instrument to another."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from strand.binding.columns import FAULT_LACKS, FAULT_RANGE, Faults
from strand.errors import ConfigurationError, FeedError
from strand.feeds.base import Flags, TickBatch
from strand.ticks import FIELDS, KIND_QUOTE, KIND_STATUS, TICK, clear_records, is_clear, joined, limits, named

#: Bits of flags that readers set, where they are free.
LAST: Final = 128
#: The most ticks that wait for the end of their event.
_MOST: Final = 1 << 20
#: Actions that change a level.
_ADDS, _TAKE, _ENDS, _SETS = ord("A"), frozenset(b"CFT"), ord("R"), ord("M")


def event_fields(names: Sequence[str], where: str) -> tuple[str, ...]:
    """The fields that the ticks of an event have in common. Raises ConfigurationError for what is none."""
    for name in names:
        if name not in FIELDS or name == "flags":
            raise ConfigurationError(
                where,
                "give tick, row, or fields of a tick that rows of one message have in common, as ts_recv or "
                f"sequence, not {name!r}",
            )
    return tuple(names)


def free_bit(wanted: int, flags: Flags) -> int:
    """A bit of ``flags`` without a meaning: the one that is wanted, or the highest that is free; 0 if none is."""
    taken = 0
    for mask in flags.as_dict().values():
        taken |= mask
    return next((bit for bit in (wanted, *(1 << at for at in range(7, -1, -1))) if not bit & taken), 0)


def with_last(flags: Flags, where: str | None) -> Flags:
    """The flags with a bit by which the reader marks the end of an event: a free one; 0 if none is.

    Raises:
        ConfigurationError: If no bit is free, at the option or key ``where``; None: that is no error.
    """
    last = free_bit(LAST, flags)
    if not last and where is not None:
        raise ConfigurationError(where, "no bit of the flags is free: leave the column of flags out")
    return replace(flags, last=last)


def with_ends(batches: Iterator[TickBatch], fields: Sequence[str], last: int) -> Iterator[TickBatch]:
    """The ticks of a feed, with the mask ``last`` in the flags of each event's last one.

    An event is the ticks of one symbol among ticks in a row that have the same values in ``fields``. Where it ends is
    only known with the tick behind them, so the last ticks of a batch come with the next one. If the feed fails, the
    event before the fault stays open. More than 1,048,576 ticks of one event are handed on without its end.
    """
    held = np.empty(0, TICK)
    try:
        for batch in batches:
            if not len(batch):
                yield batch
                continue
            ticks = named(joined([held, batch] if len(held) else [batch]))
            begins = np.zeros(len(ticks), np.bool_)
            for field in fields:
                values = ticks[field]
                begins[1:] |= values[1:] != values[:-1]
            starts = np.flatnonzero(begins)
            open_from = int(starts[-1]) if len(starts) else 0
            _mark(ticks[:open_from], begins[:open_from], last)
            kept = open_from + _first_last(ticks[open_from:])
            if len(ticks) - kept > _MOST:
                kept = len(ticks)
            held = ticks[kept:]
            if kept:
                yield ticks[:kept]
    except FeedError:
        if len(held):
            yield named(held)
        raise
    if len(held):
        # Of an event that began before them, these are the last ticks of each symbol, and perhaps some before.
        _mark(held, np.zeros(len(held), np.bool_), last)
        yield named(held)


def end_views(ticks: TickBatch, row: npt.NDArray[Any], last: int) -> None:
    """Leaves Databento's flag of an event's end at the last quote of each row alone, and sets it there for a trade.

    A trade changes no book: the view beside it is that before it, and whole, wherever the row stands in its event.

    Args:
        ticks: Shape (n,), changed in place: of each row the levels of a book, and behind them the trade if it is one.
        row: The row of each tick, shape (n,), rising.
        last: The mask of the flag.
    """
    quotes = np.flatnonzero(ticks["kind"] == KIND_QUOTE)
    is_inner = np.append(row[quotes[:-1]] == row[quotes[1:]], False)[: len(quotes)]
    flags = ticks["flags"]
    flags[quotes[is_inner]] &= np.uint8(~last & 0xFF)
    flags[quotes[~is_inner & (ticks["action"][quotes] == b"T")]] |= np.uint8(last)


def _first_last(ticks: TickBatch) -> int:
    """Position of the first tick that may be the last one of its symbol; ticks of kind status are left out."""
    places = np.flatnonzero(ticks["kind"] != KIND_STATUS)
    if not len(places):
        return len(ticks)
    keys = ticks["instrument_id"][places]
    if (keys == keys[0]).all():
        return int(places[-1])
    _, from_end = np.unique(keys[::-1], return_index=True)
    return int(places[len(keys) - 1 - int(from_end.max())])


def _mark(ticks: TickBatch, begins: npt.NDArray[np.bool_], last: int) -> None:
    """Sets the mask at the last tick of each symbol within each run of ticks; ticks of kind status end nothing."""
    if not len(ticks):
        return
    status = ticks["kind"] == KIND_STATUS
    places = np.flatnonzero(~status)
    keys = ticks["instrument_id"][places].astype(np.uint64)
    runs = np.cumsum(begins)[places].astype(np.uint64)
    together = runs << np.uint64(32) | keys
    if len(together) and (keys == keys[0]).all():
        ends = np.flatnonzero(np.append(together[1:] != together[:-1], True))
    else:
        _, from_end = np.unique(together[::-1], return_index=True)
        ends = len(together) - 1 - from_end
    ticks["flags"][places[ends]] |= np.uint8(last)


class Levels:
    """Sizes of each symbol's levels, by side and price, where rows say how they change: A adds to one, C, F and T take
    from it, R takes all, any other action sets it. ``snapshot``: the flag of rows that begin the book anew, at
    the first one of an event."""

    def __init__(self, snapshot: int) -> None:
        self._snapshot = snapshot
        self._books: dict[int, dict[tuple[int, int], int]] = {}
        self._event, self._event_ns = 0, -1
        self._begun: dict[int, int] = {}  # by symbol: the event of its latest snapshot

    def settle(
        self, fields: dict[str, npt.NDArray[Any]], keys: npt.NDArray[np.uint32], faults: Faults, column: int
    ) -> None:
        """Makes sizes those of levels, and actions M. A row that takes more than there is, or makes it too much for a
        size, changes nothing and gets a fault of ``column``."""
        sound = np.flatnonzero(faults == 0)
        flags = fields["flags"][sound] if "flags" in fields else np.zeros(len(sound), np.uint8)
        columns = [fields[name][sound].tolist() for name in ("ts_recv", "side", "price", "size", "action")]
        most, sizes = limits("size")[1], fields["size"]
        for row, key, renewed, ns, side, price, size, action in zip(
            sound.tolist(), keys[sound].tolist(), (flags & np.uint8(self._snapshot)).tolist(), *columns, strict=True
        ):
            if ns != self._event_ns:
                self._event, self._event_ns = self._event + 1, ns
            if renewed and self._begun.get(key) != self._event:
                self._begun[key], self._books[key] = self._event, {}
            book = self._books.setdefault(key, {})
            has = book.get((side, price), 0)
            total = has + size if action == _ADDS else has - size if action in _TAKE else 0 if action == _ENDS else size
            if not 0 <= total <= most:
                faults[row] = column << 8 | (FAULT_LACKS if total < 0 else FAULT_RANGE)
            elif total:
                sizes[row] = book[side, price] = total
            else:
                sizes[row] = 0
                book.pop((side, price), None)
        fields["action"][:] = _SETS


_DAY_NS: Final = 86_400 * 10**9
_NONE: Final = -1


class _Latest:
    """The first and the latest number of each key, as far as ticks were followed; ``_NONE``: it has none."""

    def __init__(self) -> None:
        self.first = np.full(1, _NONE, np.int64)
        self.latest = np.full(1, _NONE, np.int64)

    def follow(self, keys: npt.NDArray[np.uint32], numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.int64] | None:
        """Returns the number that the key of each tick had before it; None where no key has another one now."""
        if (most := int(keys.max())) >= len(self.latest):
            more = np.full(most + 1, _NONE, np.int64)
            self.first, self.latest = np.concatenate([self.first, more]), np.concatenate([self.latest, more])
        if (self.latest[keys] == numbers).all():
            return None
        order = np.argsort(keys, kind="stable")
        by_key, own = keys[order], numbers[order]
        begins = np.append(True, by_key[1:] != by_key[:-1])
        before = np.empty_like(own)
        before[order] = np.where(begins, self.latest[by_key], np.append(_NONE, own[:-1]))
        new = (before == _NONE) & (self.first[keys] == _NONE)
        self.first[keys[new]] = numbers[new]
        ends = np.append(begins[1:], True)
        self.latest[by_key[ends]] = own[ends]
        return before


class Rolls:
    """The instrument of each name, and the publisher of its latest quote, in one reading of a file.

    If a name goes over to another instrument, a clear record (action R, kind status) comes before the new instrument's
    first tick, as in DBN. A name may go back to an instrument that it had on the same UTC day. Then it stands for both
    at a time, and that is no roll.

    A quote is its publisher's own: another publisher's takes its place, and a spread between the two is of neither.

    Args:
        quotes: Whether quotes are followed.

    Attributes:
        count: How many names went over so far.
        first: The first time: the name's key, the instrument before, the one after, and the tick's ``ts_recv``.
    """

    def __init__(self, *, quotes: bool) -> None:
        self.count = 0
        self.first: tuple[int, int, int, int] | None = None
        self._ids = _Latest()
        self._publishers = _Latest() if quotes else None
        self._days: dict[tuple[int, int], int] = {}  # by key and instrument, of keys with several: the latest day

    def follow(self, ticks: TickBatch, instruments: npt.NDArray[Any] | None) -> tuple[TickBatch, dict[str, int]]:
        """The ticks, with one more wherever a name goes over, and what to add to statistics.

        Args:
            ticks: Shape (n,).
            instruments: The number of each tick's instrument; None: nothing tells it.
        """
        before = self.count
        made = ticks if instruments is None or not len(ticks) else self._put_in(ticks, instruments)
        return made, {"rolled_instruments": self.count - before, "mixed_quotes": self._mixed(made)}

    def _put_in(self, ticks: TickBatch, instruments: npt.NDArray[Any]) -> TickBatch:
        keys, ids = ticks["instrument_id"], instruments.astype(np.int64)
        if (before := self._ids.follow(keys, ids)) is None:
            return ticks
        changes = np.flatnonzero((before != ids) & (before != _NONE)).tolist()
        rolled = [at for at in changes if self._is_roll(ticks, at, int(ids[at]), int(before[at]))]
        if not rolled:
            return ticks
        if self.first is None:
            at = rolled[0]
            self.first = int(keys[at]), int(before[at]), int(ids[at]), int(ticks["ts_recv"][at])
        self.count += len(rolled)
        marks = clear_records(keys[rolled], ticks["ts_recv"][rolled])
        pieces, begin = [], 0
        for number, at in enumerate(rolled):
            pieces += [ticks[begin:at], marks[number : number + 1]]
            begin = at
        return named(joined([*pieces, ticks[begin:]]))

    def _mixed(self, ticks: TickBatch) -> int:
        """Returns how many of the quotes took the place of another publisher's. A clear record leaves no quote."""
        if self._publishers is None:
            return 0
        is_quote = ticks["kind"] == KIND_QUOTE
        told = np.flatnonzero(is_quote | is_clear(ticks))
        if not len(told):
            return 0
        own = np.where(is_quote, ticks["publisher_id"].astype(np.int64), _NONE)[told]
        before = self._publishers.follow(ticks["instrument_id"][told], own)
        return 0 if before is None else int(np.count_nonzero((before != own) & (before != _NONE) & (own != _NONE)))

    def ends_of(self, key: int, time_ns: int) -> tuple[int, int] | None:  # noqa: ARG002 - what was read says it
        """The first and the latest instrument of a name that was read, by its key; None: no tick had it."""
        if key >= len(self._ids.first) or self._ids.first[key] == _NONE:
            return None
        return int(self._ids.first[key]), int(self._ids.latest[key])

    def _is_roll(self, ticks: TickBatch, at: int, to: int, was: int) -> bool:
        key, day = int(ticks["instrument_id"][at]), int(ticks["ts_recv"][at]) // _DAY_NS
        had = self._days.get((key, to))
        self._days[key, to] = self._days[key, was] = day
        return had != day

    def details(self, names: Sequence[str]) -> dict[str, Any]:
        """Entries of ``FeedInfo.details`` for the first roll; empty if there was none."""
        if self.first is None:
            return {}
        key, before, after, time = self.first
        return {"examples": {"rolled_instruments": roll_text(names[key], before, after, time)}}


#: A column of Databento's records of quotes that all publishers made together.
CONSOLIDATED: Final = "bid_pb_00"


def roll_text(name: str, before: int, after: int, time: int) -> str:
    """The example that a warning shows: ``time`` is in ns since the UNIX epoch."""
    return f"{name}: instrument {after} follows {before} at {np.datetime64(time, 'ns')} UTC"
