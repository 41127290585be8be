"""JSON messages to ticks, as a profile says: the same for a live WebSocket and for a recording of one."""

from __future__ import annotations

import collections
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any, Final, Literal

import numpy as np

from strand.errors import FeedError, FormatError
from strand.feeds.base import TickBatch
from strand.feeds.formats.json.profile import BadRecord, Chain, JsonProfile, Numbers, Record, Step
from strand.feeds.mapping.options import MEND
from strand.feeds.mapping.scalars import blank_tick
from strand.feeds.skipped import Skipped
from strand.ticks import FIELDS, KIND_ORDER, KIND_QUOTE, KIND_STATUS, MAX_SEQUENCE, UNDEF_PRICE, named

__all__ = ["EVENTS", "FeedEvent", "JsonTicks", "parsed"]

#: The newest events that a feed keeps.
EVENTS: Final = 1_000
_COUNTS: Final = (
    "messages", "ticks", "other_messages", "rows_rounded", "connected", "disconnected", "gap", "gap_messages",
    "not_rising", "older_messages", "repeated_after_snapshot", "sequences_left_out",
)  # fmt: skip
#: Kinds of ticks of which books are made.
_BOOKS: Final = (KIND_ORDER, KIND_QUOTE)
#: The sign of a step in price to a worse level.
_WORSE: Final = {b"B": -1, b"A": 1}
#: Fields that the reader's own ticks take from a record of their message.
_OF_MESSAGE: Final = ("ts_event",)
#: Actions that change one price of a side.
_UPDATES: Final = (b"M", b"A", b"C")
#: The most symbols that a warning names.
_NAMED: Final = 5


def parsed(data: str | bytes) -> Any:
    """JSON, its decimals exact. Raises ValueError, RecursionError and InvalidOperation."""
    try:
        return json.loads(data, parse_float=Decimal)
    except (json.JSONDecodeError, UnicodeDecodeError):
        raise
    except ValueError:  # Python makes no integer of more than 4,300 digits of text
        return json.loads(data, parse_float=Decimal, parse_int=Decimal)


@dataclass(frozen=True, slots=True)
class FeedEvent:
    """Something that happened to a feed. ``time_ns``: since the UNIX epoch; of a gap, when what is behind it came.

    ``kind``: ``"connected"``; ``"disconnected"``, after which messages are missing until the next ``"connected"``; or
    ``"gap"``: sequence numbers of a symbol that never came, ``missing`` of them.
    """

    kind: Literal["connected", "disconnected", "gap"]
    time_ns: int
    text: str
    symbol: str | None = None
    missing: int = 0


class _Pending:
    """The fields of a tick to be."""

    __slots__ = ("received", "symbol", "values")

    def __init__(self, symbol: int, values: dict[str, Any], received: int | None) -> None:
        self.symbol, self.values, self.received = symbol, values, received


class JsonTicks:
    """Makes ticks of messages. Keeps the symbols, counts and events so far, and the ticks that nobody has taken yet.

    ``where``: the path that errors name. ``on_bad_record``: whether a message that the profile cannot read is
    FormatError or one of ``skipped``. ``symbols``: names that have their index from the start,
    ``max_symbols`` with those to come.
    """

    def __init__(
        self,
        profile: JsonProfile,
        where: str,
        *,
        on_bad_record: Literal["raise", "skip"],
        skipped: Skipped,
        symbols: Sequence[str],
        max_symbols: int,
        on_event: Callable[[FeedEvent], None] | None = None,
    ) -> None:
        self.names: list[str] = list(symbols)
        self.counts: collections.Counter[str] = collections.Counter()
        self.events: collections.deque[FeedEvent] = collections.deque(maxlen=EVENTS)
        self._profile, self._where = profile, where
        self._on_bad_record, self._skipped, self._on_event = on_bad_record, skipped, on_event
        self._max_symbols = max_symbols
        self._index = {name: at for at, name in enumerate(self.names)}
        #: By the name of a sequence and the symbol.
        self._chains: dict[tuple[str, str], Chain] = {}
        self._connection: Chain | None = None
        self._records: list[_Pending] = []
        #: The latest time of receipt; None: there was none.
        self._latest_ns: int | None = None
        #: Symbols with books; those whose book may lack changes; and those whose book has changed, or ended, so.
        self._with_books: dict[str, None] = {}
        self._doubtful: dict[str, str] = {}
        self._stale: dict[str, str] = {}
        #: By symbol, where the venue bounds its books: the prices of bids and asks.
        self._levels: dict[str, dict[bytes, set[int]]] = {}
        #: End of an error about the next messages.
        self.hint = ""

    @property
    def pending(self) -> int:
        """Ticks that ``batch`` would give: none as long as the first ones wait for a time."""
        return len(self._records) if self._latest_ns is not None else 0

    @property
    def waits(self) -> bool:
        """True if ticks wait for the first message that has a time."""
        return bool(self._records) and self._latest_ns is None

    @property
    def examples(self) -> dict[str, dict[str, str]]:
        """Details of a feed: what its warnings name."""
        stale = self._stale | self._doubtful
        if not stale:
            return {}
        more = f" and {len(stale) - _NAMED:,} more" if len(stale) > _NAMED else ""
        text = f"{', '.join(list(stale)[:_NAMED])}{more}, {next(iter(stale.values()))}"
        return {"examples": {"stale_books": text}}

    def statistics(self) -> dict[str, int]:
        """The counts that feeds report; see ``WebSocketFeed.statistics``."""
        return {name: self.counts[name] for name in _COUNTS} | {"stale_books": len(self._stale | self._doubtful)}

    def take(
        self, data: str | bytes, now_ns: int | None, *, offset: int | None = None, line: int | None = None
    ) -> None:
        """A message's records. ``now_ns``: when it was received, None: at its event's time. ``offset`` and ``line``:
        where it lies in a file.

        Raises FormatError for what the profile cannot read, and FeedError for a symbol too many; the records before
        are kept.
        """
        try:
            message = parsed(data)
        except InvalidOperation:
            self.counts["messages"] += 1
            self._refuse("holds a number with an exponent of 10^18 or more", offset, line)
            return
        except (ValueError, RecursionError) as error:
            self.counts["messages"] += 1
            self._refuse(f"is not JSON: {error}", offset, line)
            return
        self.take_message(message, now_ns, offset=offset, line=line, size=len(data))

    def take_message(
        self,
        message: Any,
        now_ns: int | None,
        *,
        offset: int | None = None,
        line: int | None = None,
        size: int = 1_024,
    ) -> None:
        """Takes a message that has been parsed. ``size``: bytes of its text, as far as they are known."""
        self.counts["messages"] += 1
        try:
            self._follow_connection(message, now_ns)
        except BadRecord as error:
            self._refuse(f"gapless.last: {error}", offset, line)
        found = self._profile.records(message)
        if found is None:
            self.counts["other_messages"] += 1
            return
        _Message(self, self._profile, (message, size), now_ns, (offset, line)).take(found)

    def _follow_connection(self, message: Any, now_ns: int | None) -> None:
        number = self._profile.connection_number(message)
        if number is None:
            return
        if self._connection is None:
            self._connection = Chain(drops=False)
        step = self._connection.change(Numbers(number), None, 0)
        self.counts["not_rising"] += step.back
        if step.missing:
            self._missing(None, step, now_ns or self._latest_ns or 0)

    def _missing(self, symbol: str | None, step: Step, now_ns: int) -> None:
        """Notes messages that never came. ``symbol``: None for those of a connection, which may be of any symbol."""
        after, before = step.between
        text = f"{after + 1} to {before - 1}" if step.missing == before - after - 1 else f"between {after} and {before}"
        self.counts["gap_messages"] += step.missing
        self.note("gap", now_ns, text if symbol is None else f"{symbol}: {text}", symbol, step.missing)
        for name in self._with_books if symbol is None else (symbol,):
            if name in self._with_books:
                self._doubtful[name] = "after missing messages"

    def note(
        self,
        kind: Literal["connected", "disconnected", "gap"],
        time_ns: int,
        text: str,
        symbol: str | None = None,
        missing: int = 0,
    ) -> None:
        """Keeps an event, and tells of it."""
        self.counts[kind] += 1
        if kind == "disconnected":
            self._doubtful |= dict.fromkeys(self._with_books, "after the connection broke")
            self._connection = None
        event = FeedEvent(kind, time_ns, text, symbol, missing)
        self.events.append(event)
        if self._on_event is not None:
            self._on_event(event)

    def batch(self) -> TickBatch:
        """The ticks of what was taken since the last one."""
        records, self._records = self._records, []
        assert self._latest_ns is not None or not records
        ticks = named(np.repeat(blank_tick(), len(records)))
        ticks["ts_recv"] = ticks["ts_event"] = [one.received for one in records]
        ticks["instrument_id"] = [one.symbol for one in records]
        first = self.counts["ticks"] + 1
        ticks["sequence"] = np.arange(first, first + len(records))
        by_fields: dict[tuple[str, ...], list[int]] = {}
        for at, one in enumerate(records):
            by_fields.setdefault(tuple(one.values), []).append(at)
        for names, places in by_fields.items():
            for name in names:
                column = ticks[name].copy()
                held = [records[at].values[name] for at in places]
                if name == "order_id":
                    held = [each % (1 << 64) for each in held]  # an ask's price may be below 0
                column[places] = np.array(held, FIELDS[name])
                ticks[name] = column
        self.counts["ticks"] += len(records)
        return ticks

    def _refuse(self, why: str, offset: int | None, line: int | None) -> None:
        number = self.counts["messages"]
        if self._on_bad_record == "raise":
            raise FormatError(f"message {number}: {why}: {MEND}{self.hint}", path=self._where, offset=offset, line=line)
        self._skipped.add("not as the profile has it", offset=offset, line=number if line is None else line, text=why)

    def _symbol(self, name: str) -> int:
        index = self._index.get(name)
        if index is None:
            if len(self.names) == self._max_symbols:
                raise FeedError(f"more than {self._max_symbols:,} symbols; max_symbols allows more", path=self._where)
            index = self._index[name] = len(self.names)
            self.names.append(name)
        return index


class _Message:
    """Takes the records of one message. They are one event of each symbol in it."""

    def __init__(
        self,
        ticks: JsonTicks,
        profile: JsonProfile,
        message: tuple[Any, int],
        now_ns: int | None,
        place: tuple[int | None, int | None],
    ) -> None:
        self._ticks, self._profile, self._message = ticks, profile, message
        self._now_ns, self._place = now_ns, place
        #: By sequence and symbol: the numbers that were followed, and whether their records count.
        self._followed: dict[tuple[str, str], tuple[Numbers, bool]] = {}
        #: Symbols of snapshots, and the kind of their ticks; and those of them that have a tick.
        self._snapshots: dict[str, Record] = {}
        self._begun: set[str] = set()
        #: Symbols with levels, and their last record.
        self._with_levels: dict[str, Record] = {}
        #: Earlier messages that a snapshot lacks, with their sequence and symbol.
        self._again: list[tuple[tuple[str, str], Any]] = []

    def take(self, found: Iterable[Record | BadRecord]) -> None:
        """Raises FormatError and FeedError; the records before are kept."""
        first = len(self._ticks._records)
        try:
            for record in found:
                self._take(record)
            for symbol, record in self._snapshots.items():
                if symbol not in self._begun:  # an empty book
                    self._add(record, _clear(record))
            for key, message in self._again:
                for record in self._profile.records(message) or ():
                    if isinstance(record, Record) and record.values and _key(record) == key:
                        self._ticks.counts["repeated_after_snapshot"] += 1
                        # It comes when the snapshot does.
                        self._add(record, record.values, self._now_ns or self._ticks._latest_ns)
            for symbol, record in list(self._with_levels.items()):
                self._remove_pushed_out(symbol, record)
        finally:
            self._end(first)

    def _take(self, record: Record | BadRecord) -> None:
        ticks, rounding = self._ticks, self._profile.rounding
        if isinstance(record, BadRecord):
            rounding.rounded = False
            ticks._refuse(str(record), *self._place)
            return
        ticks.counts["rows_rounded"] += rounding.rounded
        rounding.rounded = False
        if record.numbers is not None and not self._follow(record, record.numbers):
            return
        if record.rule.snapshot is not None and record.symbol not in self._snapshots:
            self._snapshots[record.symbol] = record
        if record.values:
            self._add(record, record.values)

    def _follow(self, record: Record, numbers: Numbers) -> bool:
        """Tells whether a record counts, by its message's numbers."""
        ticks, key = self._ticks, _key(record)
        by_message = record.rule.numbering is not None and record.rule.numbering.last is not None
        known = self._followed.get(key)
        if by_message and known is not None and known[0] == numbers:
            return known[1]
        chain = ticks._chains.get(key)
        if chain is None:
            chain = ticks._chains[key] = Chain(drops=by_message, keeps=self._profile.asks_for(key[0]))
        source = record.rule.snapshot
        step = chain.change(numbers, *self._message) if source is None else chain.snapshot(numbers.last, source)
        ticks.counts["not_rising"] += step.back
        ticks.counts["older_messages"] += step.older
        if step.missing:
            ticks._missing(record.symbol, step, self._received(record.values) or ticks._latest_ns or 0)
        self._again += [(key, message) for message in step.again]
        self._followed[key] = (numbers, step.taken)
        return step.taken

    def _received(self, values: dict[str, Any]) -> int | None:
        found: int | None = values.get("ts_event") if self._now_ns is None else self._now_ns
        return found

    def _add(self, record: Record, values: dict[str, Any], received: int | None = None) -> None:
        ticks, flags = self._ticks, self._profile.flags
        values = dict(values)
        kind = values["kind"]
        if record.rule.snapshot is not None:
            if kind == KIND_ORDER and record.symbol not in self._begun and values["action"] != b"R":
                self._begun.add(record.symbol)
                self._add(record, _clear(record))
            values["flags"] = values.get("flags", 0) | flags.snapshot
        if self._profile.book_levels is not None and kind == KIND_QUOTE:
            self._keep_level(record, values)
        self._begun.add(record.symbol)
        begins, requested = _begins_book(values, flags.snapshot)
        received = self._received(values) if received is None else received
        if received is None and not requested:
            ticks._refuse("has no time of receipt and no ts_event: map one in the profile", *self._place)
            return
        if values.get("sequence", 0) > MAX_SEQUENCE:
            ticks.counts["sequences_left_out"] += 1
            del values["sequence"]
        if received is None:
            received = ticks._latest_ns  # a snapshot was requested: it is as late as what came before it
        elif ticks._latest_ns is None:
            for earlier in ticks._records:
                earlier.received = received
        ticks._latest_ns = received if received is not None else ticks._latest_ns
        ticks._records.append(_Pending(ticks._symbol(record.symbol), values, received))
        if kind in _BOOKS:
            ticks._with_books[record.symbol] = None
            if begins:
                ticks._doubtful.pop(record.symbol, None)
            elif record.symbol in ticks._doubtful:
                ticks._stale[record.symbol] = ticks._doubtful[record.symbol]

    def _keep_level(self, record: Record, values: dict[str, Any]) -> None:
        """Follows the prices of a book that the venue bounds, as the handler ``depth`` does."""
        sides = self._ticks._levels.setdefault(record.symbol, {b"B": set(), b"A": set()})
        side, action, price = values.get("side", b"N"), values["action"], values.get("price", UNDEF_PRICE)
        flags, given = self._profile.flags, values.get("flags", 0)
        if given & flags.snapshot and record.symbol not in self._with_levels:
            sides[b"B"], sides[b"A"] = set(), set()
        self._with_levels[record.symbol] = record
        if side == b"N":
            for each, one in ((b"B", price), (b"A", values.get("order_id", UNDEF_PRICE))):
                kept = sides[each] if values.get("depth", 0) else set()
                sides[each] = kept | ({one} if action != b"R" and one != UNDEF_PRICE else set())
        elif action == b"R":
            sides[side] = set() if price == UNDEF_PRICE else {p for p in sides[side] if (p - price) * _WORSE[side] > 0}
        elif price == UNDEF_PRICE:
            return
        elif action == b"C" or not values.get("size", 0):
            sides[side].discard(price)
        elif action not in _UPDATES:
            sides[side] = {price}  # a view of its side
        else:
            if action == b"M" and given & flags.best:
                sides[side] = {p for p in sides[side] if (p - price) * _WORSE[side] > 0}
            sides[side].add(price)

    def _remove_pushed_out(self, symbol: str, record: Record) -> None:
        """Removes the levels that the message has pushed beyond the venue's bound: the venue does not say so."""
        for side, prices in self._ticks._levels[symbol].items():
            if len(prices) <= (self._profile.book_levels or 0):
                continue
            for price in sorted(prices, key=lambda each: each * _WORSE[side])[self._profile.book_levels :]:
                gone = {"kind": KIND_QUOTE, "side": side, "action": b"C", "price": price, "size": 0}
                self._add(record, gone | {name: record.values[name] for name in _OF_MESSAGE if name in record.values})

    def _end(self, first: int) -> None:
        """Marks the last tick of each symbol, which ends the event."""
        last = self._profile.sets_last
        seen: set[int] = set()
        for one in reversed(self._ticks._records[first:] if last else []):
            if one.symbol not in seen and one.values["kind"] != KIND_STATUS:
                seen.add(one.symbol)
                one.values["flags"] = one.values.get("flags", 0) | last


def _key(record: Record) -> tuple[str, str]:
    numbering = record.rule.numbering
    return ("" if numbering is None else numbering.name, record.symbol)


def _begins_book(values: dict[str, Any], snapshot: int) -> tuple[bool, bool]:
    """Tells whether a tick empties the book of all earlier levels, and whether it is part of a snapshot."""
    if values["kind"] not in _BOOKS:
        return False, False
    clears = values["action"] == b"R" and values.get("price", UNDEF_PRICE) == UNDEF_PRICE
    both = values["kind"] == KIND_QUOTE and values.get("side", b"N") == b"N" and not values.get("depth", 0)
    marked = bool(values.get("flags", 0) & snapshot) or clears
    return marked or both, marked


def _clear(record: Record) -> dict[str, Any]:
    """The fields of a tick that empties a book."""
    times = {name: record.values[name] for name in _OF_MESSAGE if name in record.values}
    return {"kind": record.rule.kind, "action": b"R", "side": b"N"} | times
