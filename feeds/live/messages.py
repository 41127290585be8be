"""Events and the end of feeds of messages; ticks of messages, and messages that come twice."""

from __future__ import annotations

import collections
import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from strand.errors import FeedError, FormatError
from strand.feeds.base import TickBatch
from strand.feeds.formats.json.ticks import EVENTS, FeedEvent, JsonTicks
from strand.feeds.live.mold import GAP
from strand.feeds.live.options import KafkaOptions, WebSocketOptions
from strand.feeds.live.partitions import LATEST_MS, NO_TIME, Place
from strand.logs import Event
from strand.ticks import KIND_STATUS, TICK, empty, limits, picked

#: Of messages that cannot be used: by their index in a batch, the error that says so.
Faults = dict[int, FeedError]
#: How many ticks each message of a batch has, shape (n,).
Counts = npt.NDArray[np.int64]
_LATEST_NS: Final = limits("ts_recv")[1]
_EVENTS: Final = {
    "connected": Event("feed.connected", ".feeds", "INFO", "connected: %(text)s", "symbol", "missing"),
    "disconnected": Event("feed.disconnected", ".feeds", "WARNING", "disconnected: %(text)s", "symbol", "missing"),
    "gap": GAP,
    "assigned": Event("feed.assigned", ".feeds", "INFO", "assigned: %(text)s", "symbol", "missing"),
    "revoked": Event("feed.revoked", ".feeds", "INFO", "revoked: %(text)s", "symbol", "missing"),
    "lost": Event("feed.lost", ".feeds", "WARNING", "lost: %(text)s", "symbol", "missing"),
    "overtaken": Event("feed.overtaken", ".feeds", "WARNING", "overtaken: %(text)s", "symbol", "missing"),
}


def tell(on_event: Callable[[FeedEvent], None] | None, event: FeedEvent) -> None:
    """Logs an event, and calls the user's function."""
    _EVENTS[event.kind](text=event.text, symbol=event.symbol, missing=event.missing)
    if on_event is not None:
        on_event(event)


class Log:
    """Events and counts of a feed.

    Attributes:
        where: The path in its errors.
        events: The newest events, at most ``EVENTS``, the latest last.
        fault: What ends the feed, behind the messages that came before.
    """

    def __init__(self, where: str, on_event: Callable[[FeedEvent], None] | None) -> None:
        self.where, self._on_event = where, on_event
        self.counts: collections.Counter[str] = collections.Counter()
        self.events: collections.deque[FeedEvent] = collections.deque(maxlen=EVENTS)
        self.fault: FeedError | None = None

    def note(self, kind: Any, text: str, missing: int = 0) -> None:
        """Keeps an event of now."""
        self.keep(FeedEvent(kind, time.time_ns(), text, None, missing))

    def keep(self, event: FeedEvent) -> None:
        """Keeps an event, logs it, and calls the user's function."""
        self.counts[event.kind] += 1
        self.events.append(event)
        tell(self._on_event, event)

    def fail(self, text: str) -> None:
        """Ends the feed with an error."""
        self.fault = FeedError(text, path=self.where)


class Ending:
    """The end of a feed: by a stop, or by the options ``max_messages``, ``max_seconds`` and ``idle_timeout_s``.

    Attributes:
        is_stopped: Whether somebody has stopped the feed.
        begun: When the feed began, s of the monotonic clock.
        heard: When its latest message came.
    """

    def __init__(self, options: KafkaOptions | WebSocketOptions) -> None:
        self._messages, self._seconds = options["max_messages"], options["max_seconds"]
        self._idle_s = options["idle_timeout_s"]
        self.is_stopped = False
        self.begun = self.heard = 0.0

    def begin(self) -> None:
        """Notes that the feed begins."""
        self.begun = self.heard = time.monotonic()

    def is_full(self, messages: int) -> bool:
        """Tells whether so many messages are enough."""
        return self._messages is not None and messages >= self._messages

    @property
    def is_late(self) -> bool:
        """True if the feed's time is over."""
        return self._seconds is not None and time.monotonic() >= self.begun + self._seconds

    def left_s(self) -> float:
        """The time until the feed ends if nothing comes, s; infinite without a bound."""
        now = time.monotonic()
        left = math.inf if self._seconds is None else self.begun + self._seconds - now
        if self._idle_s is not None:
            left = min(left, self.heard + self._idle_s - now)
        return max(left, 0.0)


class Records:
    """Makes ticks of messages that hold records of ``strand.TICK``.

    A message's key is the symbol of its records. Without a key, ``instrument_id`` is an index of a name.
    """

    def __init__(self, symbols: Sequence[str], max_symbols: int) -> None:
        self.names = list(symbols)
        self._max_symbols = max_symbols
        self._ids: dict[bytes | None, int] = {name.encode(): at for at, name in enumerate(self.names)}
        #: How many names have their index from the start: messages without a key may use these.
        self._given = len(self.names)

    def resume(self, names: Sequence[str]) -> None:
        """Goes on with the names of an earlier feed, which had the same ones from the start."""
        self.names[:] = names
        self._ids = {name.encode(): at for at, name in enumerate(names)}

    def take(self, given: list[bytes | None], keys: list[bytes | None], faults: Faults) -> tuple[TickBatch, Counts]:
        """The ticks of messages, and how many each has: none where it has one of the ``faults``, which this adds."""
        values = [value or b"" for value in given]
        sizes = np.fromiter(map(len, values), np.int64, len(values))
        counts, left = np.divmod(sizes, TICK.itemsize)
        for at in np.flatnonzero(left).tolist():
            why = f"has {sizes[at]:,} bytes, which are no whole records of {TICK.itemsize}"
            faults[at] = FormatError(f"{why}: give profile= for messages of JSON")
        ids = self._keys(keys, faults)
        if faults:
            values = [b"" if at in faults else value for at, value in enumerate(values)]
            counts[list(faults)] = 0
        ticks: TickBatch = empty(int(counts.sum()))
        ticks.view(np.uint8)[:] = np.frombuffer(b"".join(values), np.uint8)
        of = np.repeat(np.arange(len(values)), counts)
        symbols, times = ids[of], ticks["ts_recv"]
        wrong = (ticks["kind"] > KIND_STATUS) | (times < 0) | (times > _LATEST_NS) | (ticks["ts_event"] < 0)
        wrong |= ticks["size"] < 0
        for at in np.unique(of[wrong]).tolist():
            faults[at] = FormatError("is no record of strand.TICK: its kind, a time or its size is out of range")
        if (own := symbols < 0).any():
            symbols = np.where(own, ticks["instrument_id"], symbols)
            unnamed = own & (symbols >= self._given)
            for tick, at in zip(np.flatnonzero(unnamed).tolist(), of[unnamed].tolist(), strict=True):
                why = f"has no key, and its instrument_id {symbols[tick]} has no name"
                faults.setdefault(at, FormatError(f"{why}: send the symbol as key, or give symbols="))
            wrong |= unnamed
        ticks["instrument_id"] = np.where(wrong, 0, symbols)
        if wrong.any():
            right = ~np.isin(of, list(faults))
            ticks, counts = picked(ticks, right), np.bincount(of[right], minlength=len(values))
        return ticks, counts

    def _keys(self, keys: list[bytes | None], faults: Faults) -> npt.NDArray[np.int64]:
        """The symbols of messages; -1 for one without a key."""
        found: list[int | None] = list(map(self._ids.get, keys))
        if None in found:
            for at, (key, known) in enumerate(zip(keys, found, strict=True)):
                if known is None:
                    found[at] = -1 if key is None else self._learn(at, key, faults)
        return np.array(found, np.int64)

    def _learn(self, at: int, key: bytes, faults: Faults) -> int:
        """The symbol of a key that may be new; 0 if it is none."""
        if at in faults:
            return 0
        if (known := self._ids.get(key)) is not None:
            return known
        name = key.decode("utf-8", "replace")
        if not name or not name.isprintable() or "\N{REPLACEMENT CHARACTER}" in name:
            faults[at] = FormatError(f"has the key {key[:20]!r}, which is no name of a symbol in UTF-8")
            return 0
        if len(self.names) == self._max_symbols:
            faults[at] = FeedError(f"more than {self._max_symbols:,} symbols; max_symbols allows more")
            return 0
        self.names.append(name)
        self._ids[key] = len(self.names) - 1
        return len(self.names) - 1


class JsonMessages:
    """Makes ticks of messages of JSON, whose ``ts_recv`` are the messages' times.

    Args:
        made: The ticks of the feed.
        where: The feed, before which its errors have this name.
        key: The name by which the profile finds the key of a message; None: it does not.
        skips: Whether a message with a time that no tick holds is left out, and does not end the feed.
    """

    def __init__(self, made: JsonTicks, where: str, *, key: str | None, skips: bool) -> None:
        self._made, self._where, self._key, self._skips = made, where, key, skips

    def take(
        self, values: list[bytes | None], keys: list[bytes | None], faults: Faults, stamps: list[int]
    ) -> tuple[TickBatch, Counts]:
        """The ticks of messages, and how many each has, up to the first of the ``faults``, which this adds, that ends
        the feed. ``stamps``: the times of messages, ms."""
        ends, made = np.zeros(len(values), np.int64), self._made
        for at, (value, key, ms) in enumerate(zip(values, keys, stamps, strict=True)):
            if value is not None:
                more = None
                if self._key is not None:
                    more = {self._key: None if key is None else key.decode("utf-8", "replace")}
                try:
                    made.take(value, _received_ns(ms), more=more)
                except FeedError as error:
                    faults[at] = type(error)(str(error).removeprefix(f"{self._where}: "))
                    if type(error) is not FormatError or not self._skips:
                        ends[at:] = made.pending
                        break
            ends[at] = made.pending
        return made.batch(), np.diff(ends, prepend=0)


def _received_ns(ms: int) -> int:
    """The time of a message, ns: of its stamp, or now if it has none. Raises FormatError for one that no tick holds."""
    if ms == NO_TIME:
        return time.time_ns()
    if 0 <= ms <= LATEST_MS:
        return ms * 1_000_000
    raise FormatError(f"has the time {ms:,} ms since 1970, which is none from 0 to {LATEST_MS:,}")


class Repeats:
    """Finds ticks of messages that came before, by their sequences. ``last``: the highest of each symbol so far."""

    def __init__(self, max_symbols: int) -> None:
        self.last = np.zeros(max_symbols, np.int64)

    def find(self, ticks: TickBatch, messages: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_] | None:
        """A mask of the ticks that are repeated; None: there is none. ``messages``: the message of each tick."""
        ids, sequences = ticks["instrument_id"].astype(np.int64), ticks["sequence"]
        order = np.argsort(ids, kind="stable")
        by, rising, of = ids[order], sequences[order], messages[order]
        is_first = np.concatenate(([True], by[1:] != by[:-1]))
        before = np.where(is_first, self.last[by], np.concatenate(([0], rising[:-1])))
        with_last = ~is_first & (rising == before) & np.concatenate(([False], of[1:] == of[:-1]))
        if ((rising > before) | with_last).all():
            is_last = np.concatenate((is_first[1:], [True]))
            self.last[by[is_last]] = rising[is_last]
            return None
        return self._one_by_one(ids.tolist(), sequences.tolist(), messages.tolist())

    def _one_by_one(self, ids: list[int], sequences: list[int], messages: list[int]) -> npt.NDArray[np.bool_] | None:
        found = np.zeros(len(ids), np.bool_)
        #: By symbol, the latest message and the highest sequence before it.
        latest: dict[int, tuple[int, int]] = {}
        last = self.last
        for at, (symbol, sequence, message) in enumerate(zip(ids, sequences, messages, strict=True)):
            if symbol not in latest or latest[symbol][0] != message:
                latest[symbol] = message, int(last[symbol])
            if sequence and sequence <= latest[symbol][1]:
                found[at] = True
            elif sequence > last[symbol]:
                last[symbol] = sequence
        return found if found.any() else None


class Moved(NamedTuple):
    """Ticks of symbols that come from a second partition. The first one: its ``message`` and ``symbol``, and the
    partition ``before``."""

    message: int
    symbol: int
    before: Place
    follow: Callable[[], int]
    """Takes the new partitions for theirs, and returns the number of ticks that are from another partition than the
    tick before of their symbol."""


class Owners:
    """Knows the partition from which each symbol comes."""

    def __init__(self, max_symbols: int) -> None:
        #: The partitions so far, with a number, and by symbol the number of its own.
        self._numbers: dict[Place, int] = {}
        self._of = np.full(max_symbols, -1, np.int32)

    def state(self, n: int) -> dict[str, Any]:
        """The partitions of the first ``n`` symbols, as plain values."""
        return {"places": [list(place) for place in self._numbers], "owners": self._of[:n].tolist()}

    def resume(self, state: Mapping[str, Any]) -> None:
        """Goes on from a ``state()``."""
        self._numbers = {(topic, partition): at for at, (topic, partition) in enumerate(state["places"])}
        self._of[: len(state["owners"])] = state["owners"]

    def moved(
        self, ticks: TickBatch, counts: Counts, places: Sequence[Place], numbers: npt.NDArray[np.int64]
    ) -> Moved | None:
        """The ticks of symbols that came from another partition before; None: there are none. Notes those of new
        symbols. ``numbers``: of each message, that of its partition in ``places``."""
        known = self._numbers
        own = np.array([known.setdefault(place, len(known)) for place in places])
        of, symbols, owners = np.repeat(own[numbers], counts), ticks["instrument_id"], self._of
        before = owners[symbols]
        if (new := before < 0).any():
            owners[symbols[new][::-1]] = of[new][::-1]  # the first one of each symbol
            before = owners[symbols]
        if not (moved := before != of).any():
            return None

        def follow() -> int:
            order = np.argsort(symbols, kind="stable")
            by, now = symbols[order], of[order]
            is_first = np.concatenate(([True], by[1:] != by[:-1]))
            was = np.where(is_first, before[order], np.concatenate(([0], now[:-1])))
            owners[symbols] = of  # the last one of each symbol stays
            return int((was != now).sum())

        tick = int(np.argmax(moved))
        at = int(np.searchsorted(np.cumsum(counts), tick, "right"))
        return Moved(at, int(symbols[tick]), [*known][before[tick]], follow)
