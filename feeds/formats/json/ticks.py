"""JSON messages as ticks, as a profile says: the same for files of lines, a live WebSocket, and a recording of one."""

from __future__ import annotations

import collections
import json
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any, Final, Literal

import msgspec
import numpy as np

from strand.errors import FeedError, FormatError
from strand.feeds.base import Skipped, TickBatch
from strand.feeds.formats.json.numbering import NEXT, Chain, Numbers, Step
from strand.feeds.formats.json.profile import JsonProfile
from strand.feeds.formats.json.rule import MessageRule, Values
from strand.feeds.mapping.options import MEND
from strand.feeds.mapping.rules import BadRecord
from strand.fixed import dataclass
from strand.ticks import KIND_ORDER, KIND_QUOTE, KIND_STATUS, MAX_SEQUENCE, TICK, UNDEF_PRICE, empty
from strand.validate import check_depth

#: The newest events that a feed keeps.
EVENTS: Final = 1_000
_COUNTS: Final = (
    "messages", "ticks", "other_messages", "rows_rounded", "connected", "disconnected", "gap", "gap_messages",
    "not_rising", "older_messages", "repeated_after_snapshot", "sequences_left_out",
)  # fmt: skip
#: The sign of a step in price to a worse level.
_WORSE: Final = {b"B": -1, b"A": 1}
#: Actions that change one price of a side.
_UPDATES: Final = (b"M", b"A", b"C")
#: The most symbols that a warning names.
_NAMED: Final = 5


_DECODE: Final = msgspec.json.Decoder(float_hook=Decimal).decode


def parsed(data: str | bytes) -> Any:
    """JSON, its decimals exact. Raises ValueError, RecursionError and InvalidOperation."""
    check_depth(data)
    try:
        return _DECODE(data)
    except (ValueError, RecursionError, InvalidOperation):
        pass  # Python's reader takes more, such as NaN and halves of surrogates, and says better what is wrong
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
    ``"gap"``: sequence numbers of a symbol that never came, ``missing`` of them. Of partitions of a Kafka topic
    ``"assigned"``, ``"revoked"``, ``"lost"``, and ``"overtaken"``: others went on without its messages.
    """

    kind: Literal["connected", "disconnected", "gap", "assigned", "revoked", "lost", "overtaken"]
    time_ns: int
    text: str
    symbol: str | None = None
    missing: int = 0


#: A tick of ``TICK``: the values of its fields in their order, the sequence in two parts.
_PACK: Final = struct.Struct("<qqQqqIIQHccBBBB").pack
_TWO_TIMES: Final = struct.Struct("<qq")
_BYTES: Final = TICK.itemsize
_FLAGS: Final = TICK.fields["flags"][1]  # type: ignore[index]
_WORD: Final = (1 << 64) - 1


class JsonTicks:
    """Makes ticks of messages. Keeps the symbols, counts and events so far, and the ticks that nobody has taken yet.

    ``where``: the path that errors name. ``on_bad_record``: whether a message that the profile cannot read is
    FormatError or one of ``skipped``. ``symbols``: names that have their index from the start,
    ``max_symbols`` with those to come. ``bar``: the length of each message's bar in ns and in months, after which it is
    received.
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
        bar: tuple[int, int] | None = None,
    ) -> None:
        self.names: list[str] = list(symbols)
        self.counts: collections.Counter[str] = collections.Counter()
        self.events: collections.deque[FeedEvent] = collections.deque(maxlen=EVENTS)
        self._profile, self._where = profile, where
        self._on_bad_record, self._skipped, self._on_event = on_bad_record, skipped, on_event
        self._max_symbols, self._bar = max_symbols, bar
        self._index = {name: at for at, name in enumerate(self.names)}
        #: By the name of a sequence and the symbol.
        self._chains: dict[tuple[str, str], Chain] = {}
        self._connection: Chain | None = None
        #: Symbols whose book waits for the answer to a request: none came yet, or messages are missing since.
        self.unfounded: dict[str, None] = {}
        #: The ticks that nobody has taken yet, and the number of the next one.
        self._made, self._next = bytearray(), 1
        #: The latest time of receipt; None: there was none.
        self._latest_ns: int | None = None
        #: Symbols with books; those whose book may lack changes; and those whose book has changed, or ended, so.
        self._with_books: dict[str, None] = {}
        self._doubtful: dict[str, str] = {}
        self._stale: dict[str, str] = {}
        #: By symbol, where the venue bounds its books: the prices of bids and asks.
        self._levels: dict[str, dict[bytes, set[int]]] = {}
        self._message = _Message(self, profile)
        #: End of an error about the next messages.
        self.hint = ""

    @property
    def pending(self) -> int:
        """Ticks that ``batch`` would give: none as long as the first ones wait for a time."""
        return len(self._made) // _BYTES if self._latest_ns is not None else 0

    @property
    def waits(self) -> bool:
        """True if ticks wait for the first message that has a time."""
        return bool(self._made) and self._latest_ns is None

    @property
    def examples(self) -> dict[str, dict[str, str]]:
        """Details of a feed: what its warnings name."""
        stale = self._stale | self._doubtful
        if not stale:
            return {}
        more = f" and {len(stale) - _NAMED:,} more" if len(stale) > _NAMED else ""
        text = f"{', '.join(list(stale)[:_NAMED])}{more}, {next(iter(stale.values()))}"
        return {"examples": {"stale_books": text}}

    def state(self) -> dict[str, Any]:
        """The state that ``resume`` needs; all ticks have been taken before. Raises ValueError while messages wait for
        a snapshot."""
        return {
            "names": self.names,
            "next": self._next,
            "latest_ns": self._latest_ns,
            "chains": [[*key, chain.state()] for key, chain in self._chains.items()],
            "connection": None if self._connection is None else self._connection.state(),
            "books": [[*self._with_books], self._doubtful, self._stale],
            "levels": {name: [sorted(sides[b"B"]), sorted(sides[b"A"])] for name, sides in self._levels.items()},
        }

    def resume(self, state: Mapping[str, Any]) -> None:
        """Goes on from a state."""
        self.names[:] = state["names"]
        self._index = {name: at for at, name in enumerate(self.names)}
        self._next, self._latest_ns = state["next"], state["latest_ns"]
        self._chains = {(name, symbol): Chain(*values) for name, symbol, values in state["chains"]}
        self._connection = None if state["connection"] is None else Chain(*state["connection"])
        books, self._doubtful, self._stale = state["books"]
        self._with_books = dict.fromkeys(books)
        self._levels = {name: {b"B": set(bids), b"A": set(asks)} for name, (bids, asks) in state["levels"].items()}

    def statistics(self) -> dict[str, int]:
        """The counts that feeds report; see ``WebSocketFeed.statistics``."""
        return {name: self.counts[name] for name in _COUNTS} | {"stale_books": len(self._stale | self._doubtful)}

    def take(
        self,
        data: str | bytes,
        now_ns: int | None,
        offset: int | None = None,
        line: int | None = None,
        more: Mapping[str, Any] | None = None,
    ) -> None:
        """A message's records. ``now_ns``: when it was received, None: at its event's time. ``offset`` and ``line``:
        where it lies in a file. ``more``: values that a message has beside its text, by name.

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
        if more is not None and type(message) is dict:
            message.update(more)
        self.take_message(message, now_ns, offset, line, len(data))

    def take_message(
        self, message: Any, now_ns: int | None, offset: int | None = None, line: int | None = None, size: int = 1_024
    ) -> None:
        """Takes a message that has been parsed, or a list of messages. ``size``: bytes of its text, as far as they are
        known."""
        if type(message) is list and message and all(type(item) is dict for item in message):
            for item in message:
                self.take_message(item, now_ns, offset, line, size // len(message))
            return
        self.counts["messages"] += 1
        if self._profile.connection is not None:
            try:
                if (number := self._profile.connection_number(message)) is not None:
                    if self._connection is None:
                        self._connection = Chain(drops=False)
                    step = self._connection.change(Numbers(number), None, 0)
                    self.counts["not_rising"] += step.back
                    if step.missing:
                        self._missing(None, step, now_ns or self._latest_ns or 0)
            except BadRecord as error:
                self._refuse(f"gapless.last: {error}", offset, line)
        rules = self._profile.rules_of(message)
        if rules:
            self._message.take(rules, message, size, now_ns, (offset, line))
        else:
            self.counts["other_messages"] += 1

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
        ticks = empty(len(self._made) // _BYTES)
        ticks.view(np.uint8)[:] = np.frombuffer(self._made, np.uint8)
        self.counts["ticks"] += len(ticks)
        self._made = bytearray()
        return ticks

    def _refuse(self, why: str, offset: int | None, line: int | None) -> None:
        number = self.counts["messages"]
        if self._on_bad_record == "raise":
            raise FormatError(f"message {number}: {why}: {MEND}{self.hint}", path=self._where, offset=offset, line=line)
        self._skipped.add("not as the profile has it", offset=offset, line=number if line is None else line, text=why)

    def _begin(self, received: int) -> None:
        """Notes the first time. The ticks that wait for one have it."""
        for at in range(0, len(self._made), _BYTES):
            _TWO_TIMES.pack_into(self._made, at, received, received)
        self._latest_ns = received

    def _symbol(self, name: str) -> int:
        index = self._index.get(name)
        if index is None:
            if len(self.names) == self._max_symbols:
                raise FeedError(f"more than {self._max_symbols:,} symbols; max_symbols allows more", path=self._where)
            index = self._index[name] = len(self.names)
            self.names.append(name)
        return index


class _Message:
    """Takes the records of one message after the other. The records of a message are one event of each symbol in it."""

    def __init__(self, ticks: JsonTicks, profile: JsonProfile) -> None:
        self._ticks, self._profile = ticks, profile
        self._last, self._snapshot = profile.sets_last, profile.flags.snapshot
        marked = profile.book_levels is not None or any(rule.snapshot is not None for rule in profile.rules)
        self._keeps_more = marked or any(rule.numbering is not None for rule in profile.rules)
        self.add: Callable[..., None] = self._add_marked if marked else self._add
        if ticks._bar is not None:
            self.add = self._add_bar
        self._message: tuple[Any, int] = (None, 0)
        self._now_ns: int | None = None
        self._place: tuple[int | None, int | None] = (None, None)
        #: By sequence and symbol: the numbers that were followed, and whether their records count.
        self._followed: dict[tuple[str, str], tuple[Numbers, bool]] = {}
        #: Symbols of snapshots, with the rule and the time of their first record; and those that have a tick.
        self._snapshots: dict[str, tuple[MessageRule, int | None]] = {}
        self._begun: set[str] = set()
        #: Symbols with levels, and the rule and the time of their last record.
        self._with_levels: dict[str, tuple[MessageRule, int | None]] = {}
        #: Earlier messages that a snapshot lacks, with their sequence and symbol.
        self._again: list[tuple[tuple[str, str], Any]] = []
        #: By symbol: where its last tick lies.
        self._ends: dict[int, int] = {}

    def take(
        self,
        rules: Iterable[MessageRule],
        message: Any,
        size: int,
        now_ns: int | None,
        place: tuple[int | None, int | None],
    ) -> None:
        """Raises FormatError and FeedError; the records before are kept."""
        self._message, self._now_ns, self._place = (message, size), now_ns, place
        try:
            for rule in rules:
                rule.take(message, self)
            if self._keeps_more:
                self._complete()
        finally:
            self._end()

    def _complete(self) -> None:
        """Adds the ticks that the message does not have itself."""
        for symbol, (rule, time) in self._snapshots.items():
            if symbol not in self._begun:  # an empty book
                self._clear(rule, symbol, time)
        for key, message in self._again:
            again = _Again(self, key, self._now_ns or self._ticks._latest_ns)  # it comes when the snapshot does
            for rule in self._profile.rules_of(message):
                rule.take(message, again)
        for symbol, (rule, time) in list(self._with_levels.items()):
            self._remove_pushed_out(symbol, rule, time)

    def refuse(self, why: str) -> None:
        """Counts a record that is none, or raises FormatError."""
        self._ticks._refuse(why, *self._place)

    def rounded(self) -> None:
        """Counts a record with a number that was rounded."""
        self._ticks.counts["rows_rounded"] += 1

    def whole(self, rule: MessageRule, symbol: str, numbers: Numbers | None) -> None:
        """Follows the numbers of the message itself."""
        if (numbers is None or self.follow(rule, symbol, numbers, None)) and rule.snapshot is not None:
            self._snapshots.setdefault(symbol, (rule, None))

    def follow(self, rule: MessageRule, symbol: str, numbers: Numbers, time: int | None) -> bool:
        """Tells whether a record counts, by its message's numbers."""
        ticks, key = self._ticks, _key(rule, symbol)
        by_message = rule.numbering is not None and rule.numbering.last is not None
        if by_message and (known := self._followed.get(key)) is not None and known[0] == numbers:
            return known[1]
        chain = ticks._chains.get(key)
        if chain is None:
            chain = ticks._chains[key] = Chain(drops=by_message, keeps=self._profile.asks_for(key[0]))
        source = rule.snapshot
        step = chain.change(numbers, *self._message) if source is None else chain.snapshot(numbers.last, source)
        if step is not NEXT:
            ticks.counts["not_rising"] += step.back
            ticks.counts["older_messages"] += step.older
            if step.missing:
                received = time if self._now_ns is None else self._now_ns
                ticks._missing(symbol, step, received or ticks._latest_ns or 0)
            self._again += [(key, message) for message in step.again]
        if chain.whole:
            ticks.unfounded.pop(symbol, None)
        elif chain.keeps:
            ticks.unfounded[symbol] = None
        self._followed[key] = (numbers, step.taken)
        return step.taken

    def _add(self, rule: MessageRule, symbol: str, values: Values, received: int | None = None) -> None:  # noqa: ARG002
        """Adds a tick. ``received``: its time of receipt, where that is not the message's."""
        ticks = self._ticks
        event, order_id, price, size, ref_id, sequence, publisher_id, action, side, flags, depth, kind = values
        if received is None:
            received = event if self._now_ns is None else self._now_ns
        in_book = kind in (KIND_QUOTE, KIND_ORDER)
        is_snapshot = in_book and (flags & self._snapshot or (action == b"R" and price == UNDEF_PRICE))
        if received is None:
            if not is_snapshot:
                self.refuse("has no time of receipt and no ts_event: map one in the profile")
                return
            received = ticks._latest_ns or 0  # a snapshot was requested: it is as late as what came before it
        elif ticks._latest_ns is None:
            ticks._begin(received)
        else:
            ticks._latest_ns = received
        if sequence is None:
            sequence = ticks._next
        elif sequence > MAX_SEQUENCE:
            ticks.counts["sequences_left_out"] += 1
            sequence = ticks._next
        made, key = ticks._made, ticks._index.get(symbol)
        if key is None:
            key = ticks._symbol(symbol)
        if kind != KIND_STATUS:
            self._ends[key] = len(made)
        ticks._next += 1
        made += _PACK(
            received if event is None else event, received, (order_id or 0) & _WORD, price, size, key,
            sequence & 0xFFFF_FFFF, ref_id, publisher_id, action, side, flags, depth, kind, sequence >> 32,
        )  # fmt: skip
        if in_book:
            ticks._with_books[symbol] = None
            if symbol in ticks._doubtful:
                if is_snapshot or (kind == KIND_QUOTE and side == b"N" and not depth):
                    del ticks._doubtful[symbol]  # the book begins anew
                else:
                    ticks._stale[symbol] = ticks._doubtful[symbol]

    def _add_bar(self, rule: MessageRule, symbol: str, values: Values) -> None:
        """Adds a tick of a bar that begins at its time: nobody knows the bar before its end."""
        assert self._ticks._bar is not None
        (ns, months), event = self._ticks._bar, values[0]
        if event is not None and months:
            month = np.datetime64(event, "ns").astype("M8[M]") + months
            self._add(rule, symbol, values, int(month.astype("M8[ns]").astype(np.int64)))
        else:
            self._add(rule, symbol, values, None if event is None else event + ns)

    def _add_marked(self, rule: MessageRule, symbol: str, values: Values, received: int | None = None) -> None:
        """Adds a tick as ``_add`` does, where the profile has snapshots, or bounds the levels of books."""
        event, action, flags, depth, kind = values[0], values[7], values[9], values[10], values[11]
        if rule.snapshot is not None:
            self._snapshots.setdefault(symbol, (rule, event))
            values = (*values[:9], flags | self._snapshot, depth, kind)
            if kind == KIND_ORDER and symbol not in self._begun and action != b"R":
                self._clear(rule, symbol, event)
        if kind == KIND_QUOTE and self._profile.book_levels is not None:
            self._keep_level(symbol, values)
            self._with_levels[symbol] = rule, event
        self._begun.add(symbol)
        self._add(rule, symbol, values, received)

    def _clear(self, rule: MessageRule, symbol: str, time: int | None) -> None:
        """Adds a tick that empties a book."""
        self._begun.add(symbol)
        self.add(rule, symbol, (time, None, UNDEF_PRICE, 0, 0, None, 0, b"R", b"N", 0, 0, rule.kind))

    def _keep_level(self, symbol: str, values: Values) -> None:
        """Follows the prices of a book that the venue bounds, as the handler ``depth`` does."""
        _, order_id, price, size, _, _, _, action, side, given, depth, _ = values
        sides = self._ticks._levels.setdefault(symbol, {b"B": set(), b"A": set()})
        flags = self._profile.flags
        if given & flags.snapshot and symbol not in self._with_levels:
            sides[b"B"], sides[b"A"] = set(), set()
        if side == b"N":
            for each, one in ((b"B", price), (b"A", UNDEF_PRICE if order_id is None else order_id)):
                kept = sides[each] if depth else set()
                sides[each] = kept | ({one} if action != b"R" and one != UNDEF_PRICE else set())
        elif action == b"R":
            sides[side] = set() if price == UNDEF_PRICE else {p for p in sides[side] if (p - price) * _WORSE[side] > 0}
        elif price == UNDEF_PRICE:
            return
        elif action == b"C" or not size:
            sides[side].discard(price)
        elif action not in _UPDATES:
            sides[side] = {price}  # a view of its side
        else:
            if action == b"M" and given & flags.best:
                sides[side] = {p for p in sides[side] if (p - price) * _WORSE[side] > 0}
            sides[side].add(price)

    def _remove_pushed_out(self, symbol: str, rule: MessageRule, time: int | None) -> None:
        """Removes the levels that the message has pushed beyond the venue's bound: the venue does not say so."""
        for side, prices in self._ticks._levels[symbol].items():
            if len(prices) <= (self._profile.book_levels or 0):
                continue
            for price in sorted(prices, key=lambda each: each * _WORSE[side])[self._profile.book_levels :]:
                self.add(rule, symbol, (time, None, price, 0, 0, None, 0, b"C", side, 0, 0, KIND_QUOTE))

    def _end(self) -> None:
        """Marks the last tick of each symbol, which ends the event, and forgets the message."""
        if self._last:
            for at in self._ends.values():
                self._ticks._made[at + _FLAGS] |= self._last
        self._ends.clear()
        if self._keeps_more:
            for kept in (self._followed, self._snapshots, self._begun, self._with_levels, self._again):
                kept.clear()


def _key(rule: MessageRule, symbol: str) -> tuple[str, str]:
    return ("" if rule.numbering is None else rule.numbering.name, symbol)


class _Again:
    """Takes the records of an earlier message that a snapshot lacks."""

    def __init__(self, message: _Message, key: tuple[str, str], received: int | None) -> None:
        self._message, self._key, self._received = message, key, received

    def add(self, rule: MessageRule, symbol: str, values: Values) -> None:
        if _key(rule, symbol) == self._key:
            self._message._ticks.counts["repeated_after_snapshot"] += 1
            self._message.add(rule, symbol, values, self._received)

    def whole(self, rule: MessageRule, symbol: str, numbers: Numbers | None) -> None: ...

    def follow(self, rule: MessageRule, symbol: str, numbers: Numbers, time: int | None) -> bool:  # noqa: ARG002
        return True

    def rounded(self) -> None: ...

    def refuse(self, why: str) -> None: ...


class OfMessages:
    """Names, events and counts of a feed of messages. A feed sets ``_ticks`` and ``_max_symbols``."""

    _ticks: JsonTicks
    _max_symbols: int

    @property
    def symbols(self) -> Sequence[str]:
        """Names by index, in the order in which they came."""
        return self._ticks.names

    @property
    def max_symbols(self) -> int:
        return self._max_symbols

    @property
    def events(self) -> Sequence[FeedEvent]:
        """The newest events, at most ``EVENTS``, the latest last."""
        return self._ticks.events

    def statistics(self) -> dict[str, int]:
        """``messages``, ``ticks``, ``other_messages``; ``connected``, ``disconnected`` and ``gap`` count events,
        ``gap_messages`` what is missing in them, ``not_rising`` sequences that did not rise."""
        return self._ticks.statistics()
