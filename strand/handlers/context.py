"""Context of a Python handler: its symbol, its row, the time, its timer, a logger, what it emits."""

from __future__ import annotations

import logging
import operator
import struct
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from functools import cache, cached_property, partial
from operator import attrgetter, itemgetter
from typing import Any, Final, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from strand.binding.engine_words import Failure
from strand.brief import one_line
from strand.errors import ConfigurationError, PlaceError, RecordTypeError
from strand.ticks import TICK, TRADE, UNDEF_PRICE

_NO_TICKS: Final = np.empty(0, np.int64)
#: The greatest time: no timer fires then, also where a tick says it.
_NEVER: Final = 2**63 - 1


def _ns(value: Any) -> int:
    """A time. Raises ConfigurationError."""
    try:
        ns = operator.index(value)
    except TypeError:
        raise ConfigurationError("ns", f"{value!r} is not a time: give whole nanoseconds since the epoch") from None
    if not 0 <= ns < 2**63:
        raise ConfigurationError("ns", f"{ns} is not a time: nanoseconds since the epoch are from 0 to 2**63 - 1")
    return ns


def alarm_of(ns: int, now: int) -> int:
    """Due time of a timer that was asked for at ``now``; 0: never."""
    alarm = ns and max(ns, now + 1)
    return alarm if alarm < _NEVER else 0


def ticks_until(alarm: int, times: npt.NDArray[Any]) -> int:
    """Number of ticks before a timer: it fires before the first tick at or after its due time, which is 0 for never.
    ``times``: the feed's time at each tick, of one or more."""
    return len(times) if not alarm or alarm > times[-1] else int(times.searchsorted(np.int64(alarm)))


class Timer:
    """Timer of a symbol. ``alarm``: its due time, 0: never. While ticks are in hand, ``times`` is the feed's time at
    each of them, and ``end`` the number of ticks before the timer. ``latest``: the due time of the latest request;
    before the first tick, the requested time itself."""

    __slots__ = ("_asked", "_early", "_ended", "alarm", "end", "handler", "latest", "times")

    def __init__(self, handler: str) -> None:
        self.handler = handler
        self.alarm = 0
        self.latest = 0
        self.times: npt.NDArray[np.int64] = _NO_TICKS
        self.end = 0
        #: The places of ticks that have asked, and for when.
        self._asked: list[tuple[int, int]] = []
        #: A timer set before the first tick, which counts from that tick's time.
        self._early: int | None = None
        self._ended = False

    def begin(self, times: npt.NDArray[np.int64]) -> None:
        """Ticks are in hand, all of them before ``alarm``."""
        self.times = times
        self.end = len(times)
        self._asked.clear()
        if self._early is not None:
            self.ask(self._early, 0)

    def ask(self, ns: Any, at: Any) -> int:
        """Sets a timer for the tick at a position of the ticks in hand; returns ``end``."""
        ns, n = _ns(ns), len(self.times)
        who = f"handler {self.handler!r}: wake_at"
        if not n:
            raise ConfigurationError(f"{who}: no tick or timer is being handled that could ask for it")
        if at is None:
            raise ConfigurationError(f"{who}: say which tick asks: wake_at(ns, at=place)")
        place, last = operator.index(at), self.last_asked()
        if not 0 <= place < n:
            raise PlaceError(f"at: {place} is not a place in a batch of {n} ticks: places count from 0")
        if place < last:
            raise ConfigurationError(f"{who}: tick {place} asks after tick {last} did: ask in order")
        if place >= self.end:
            raise ConfigurationError(
                f"{who}: tick {place} comes after the timer that tick {last} asked for: handle the {self.end} before "
                f"it, and return {self.end}"
            )
        alarm = self.latest = alarm_of(ns, int(self.times[place]))
        self._asked.append((place, alarm))
        self.end = ticks_until(alarm, self.times)
        return self.end

    def ask_again(self, ns: Any, now: int) -> int:
        """Sets a timer from the timer that runs, at its time; returns 0, as no ticks are in hand."""
        ns = _ns(ns)
        if self._ended:
            raise ConfigurationError(f"handler {self.handler!r}: wake_at: the run has ended, and its timers with it")
        self.alarm = self.latest = alarm_of(ns, now)
        return 0

    def ask_early(self, ns: Any) -> int:
        """Sets a timer before the symbol's first tick, in its name; returns 0, as no ticks are in hand."""
        self._early = self.latest = _ns(ns)
        return 0

    def over(self, handled: int) -> bool:
        """The first ``handled`` of the ticks in hand were. Whether one of them has asked: ``alarm`` is what was asked
        for last."""
        alarms = [alarm for place, alarm in self._asked if place < handled]
        self.times = _NO_TICKS
        if handled:
            self._early = None
        if alarms:
            self.alarm = alarms[-1]
        return bool(alarms)

    def resume(self, alarm: int) -> None:
        """Resumes in another process, with the due time that the timer had. Requests before the first tick were met
        there."""
        self.alarm = alarm
        self._early = None

    def last_asked(self) -> int:
        """The place of the last tick that has asked; -1: none has."""
        return self._asked[-1][0] if self._asked else -1

    def finish(self) -> None:
        """The run has ended."""
        self._ended = True


_NO_TRADES: Final = np.empty(0, TRADE)

#: Function that a worker calls with a symbol's next ticks: it returns the number handled, None for all.
Call = Callable[[npt.NDArray[Any]], int | None]


class SymbolFunctions(NamedTuple):
    """A Python handler's functions for one symbol: for its next ticks, its timer, the run's end, and for the moment
    after an earlier handler of a chain acted at a timer or the end. ``plain``: if ``ticks`` only calls a function of
    (symbol, ticks, row) and always handles all ticks, that function. ``stand``: notes that the handler knows the
    others' rows as they are in ``context.after``. ``object``: the object whose methods they call. The context does not
    know it: most objects keep their context, and a circle would outlive the run."""

    ticks: Call
    wake: Callable[[int], None] | None = None
    finish: Callable[[], None] | None = None
    changed: Callable[[], None] | None = None
    plain: Callable[..., Any] | None = None
    stand: Callable[[], None] | None = None
    object: Any = None


class FailedOnTick(Exception):  # noqa: N818 - it says where an error, its __cause__, happened
    """Failure of a handler on one tick of a batch, after it had handled the ticks before."""

    def __init__(self, handled: int) -> None:
        super().__init__(handled)
        self.handled = handled


class EarlierPartError(Exception):
    """Failure of a native handler before the Python handler in a chain."""

    @classmethod
    def of(cls, failure: Failure) -> EarlierPartError:
        """Error with the failure's message; machine code of numba's has none, with code 0."""
        return cls(failure.reason if failure.code else failure.message)


class _Logger(logging.LoggerAdapter[logging.Logger]):
    """Puts the symbol before what is logged, and into the record's ``symbol``."""

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        symbol = (self.extra or {})["symbol"]
        kwargs["extra"] = {"symbol": symbol, **(kwargs.get("extra") or {})}
        return f"{symbol}: {msg}", kwargs


def _no_row(key: int) -> Any:
    raise KeyError(key)


class Context:
    """Context of one symbol in a Python handler, the same object at every call for that symbol.

    Attributes:
        symbol: The symbol's name.
        key: The symbol's index (``instrument_id``).
        row: The symbol's row.
        params: The symbol's record of parameters; None if the handler has none.
        after: The rows of the handlers before this one in a chain, by name. ``after["book"]`` is an array of shape
            (n,), read-only: the row of that part right after each tick of the batch. At a timer or the end it has one
            row.
    """

    def __init__(
        self,
        handler: str,
        symbol: str,
        key: int,
        row: Any,
        *,
        params: Any = None,
        states: Mapping[str, np.dtype[Any]] | None = None,
        emit: Callable[[Any, Any, str | None], None] | None = None,
        timer: Timer | None = None,
    ) -> None:
        self.handler = handler
        self.symbol = symbol
        self.key = key
        self.row = row
        self.params = params
        self.ticks: npt.NDArray[Any] | None = None
        self.states: Mapping[str, np.dtype[Any]] = states or {}
        self._emit = emit
        self.timer = timer
        #: The time of the timer, or of the end, that it is called for; None at ticks.
        self.now: int | None = None
        #: The symbol's first tick is about to come.
        self.starts = False
        #: The place of the tick in hand in the batch; None where the handler has all of them in hand.
        self.at: int | None = None
        #: The time at the tick in hand, where a batch does not tell.
        self.clock: Callable[[], int] | None = None
        self.after: Mapping[str, npt.NDArray[Any]] = {}
        #: What the tick that an object failed on had it told of the others in its chain: methods, and their argument.
        self.told: Sequence[tuple[Callable[[Any], None], Any]] = ()
        #: Of a handler that asks for trades: the one that each tick in hand is, of size -1 where it is none.
        self.trades: npt.NDArray[Any] = _NO_TRADES
        #: Of a handler that is called with trades alone: the places of their ticks among those in hand.
        self.places: npt.NDArray[np.intp] | None = None
        #: Where symbols share rows: the row of a symbol by key, all rows that calls for some symbols write to (None:
        #: the symbol's own), the parameters of all symbols by key, and the key's field of a tick. A run has a context
        #: for each symbol, and each object more of one lets the garbage collector look at all of them sooner.
        self.row_of: Callable[[int], Any] = _no_row
        self.rows_of: Callable[[Sequence[int]], list[Any]] | None = None
        self.params_of: npt.NDArray[Any] | None = None
        self.record_key = "instrument_id"

    @property
    def time(self) -> int:
        """The feed's time, ns since the UNIX epoch; 0 before the first tick.

        A batch handler gets the time at the last tick of its batch, and an object the time at its tick. At a timer it
        is the time that the timer was set for. The feed's time is the greatest ``ts_recv`` of all ticks published up to
        there. For a handler without timers it is that of the batch.

        Raises:
            ConfigurationError: If the records do not have the field ``ts_recv``.
        """
        if self.now is not None:
            return self.now
        if self.timer is not None:
            times = self.times
            return int(times[-1 if self.at is None else self.at]) if len(times) else 0
        if self.clock is not None:
            return self.clock()
        ticks = self.ticks
        if ticks is None or len(ticks) == 0:
            return 0
        if "ts_recv" not in (ticks.dtype.names or ()):
            raise ConfigurationError(
                f"handler {self.handler!r}: its records have no field ts_recv, so there is no time"
            )
        return int(ticks["ts_recv"][: None if self.at is None else self.at + 1].max())

    @property
    def times(self) -> npt.NDArray[np.int64]:
        """The feed's time at each tick of the batch, ns, shape (n,), never falling. Timers go by it.

        Raises:
            ConfigurationError: If the handler has no timers.
        """
        times = self._timer.times
        return times if self.places is None else times[self.places]

    def wake_at(self, ns: int, at: int | None = None) -> int:
        """Asks for a call of ``on_wake`` at a time of the feed.

        The call comes before the symbol's first tick at or after that time, else when the feed's time has passed it.
        Asking again replaces the timer.

        Args:
            ns: The time, ns since the UNIX epoch; 0 removes the timer. A time that is not after the tick's (or the
                timer's) counts as the next ns.
            at: The place in the batch of the tick that asks. An object that is called tick by tick leaves it out. So do
                ``on_start``, which asks in the first tick's name, and ``on_wake``.

        Returns:
            How many ticks of the batch come before the timer. A batch handler handles no more of them, and returns how
            many it handled.

        Raises:
            ConfigurationError: If the handler has no ``on_wake``, at the end of a run, or if the tick comes after a
                timer that was asked for before.
            PlaceError: If the place is outside of the batch.
        """
        if self.now is not None:
            return self._timer.ask_again(ns, self.now)
        if self.starts:
            return self._timer.ask_early(ns)
        if self.places is None:
            return self._timer.ask(ns, self.at if at is None else at)
        return int(np.searchsorted(self.places, self._timer.ask(ns, None if at is None else self._places_of(at)[()])))

    @property
    def _timer(self) -> Timer:
        if self.timer is None:
            raise ConfigurationError(f"handler {self.handler!r} has no on_wake, and so no timers")
        return self.timer

    def emit(self, records: Any, at: Any = None, output: str | None = None) -> None:
        """Emits records on behalf of ticks of the batch, or of the timer or the end that the handler is called for.

        Args:
            records: An array of shape (n,) of the output's dtype, or a single record (a tuple will do). Records of one
                tick keep the order they are emitted in; ticks may come in any order.
            at: The place of each record's tick in the batch, shape (n,), or one place for all. An object that is called
                tick by tick may leave it out, and so may a call at a timer or the end.
            output: The name of the output, if the handler has several.

        Raises:
            RecordTypeError: If the records have another dtype.
            PlaceError: If a place is outside of the batch.
            ConfigurationError: If the handler has not declared the output.
        """
        if self._emit is None:
            raise ConfigurationError(f"handler {self.handler!r} was given a context that cannot emit")
        if self.now is None and at is None:
            at = self.at
        self._emit(records, at if at is None or self.places is None else self._places_of(at), output)

    def _places_of(self, at: Any) -> npt.NDArray[np.intp]:
        """The places of ticks that trades at some places are made of. Raises PlaceError."""
        places = np.asarray(at)
        assert self.places is not None
        if places.dtype.kind not in "iu":
            raise PlaceError(f"at: {at!r} are not places of trades in the batch: give whole numbers")
        if np.any((places < 0) | (places >= len(self.places))):
            raise PlaceError(f"at: {at!r} is not a place in a batch of {len(self.places)} trades: places count from 0")
        return np.asarray(self.places[places])

    @contextmanager
    def rehearsing(self, time: int, row: Any, after: Mapping[str, npt.NDArray[Any]]) -> Iterator[None]:
        """Lets the block call the handler once more for a tick it failed on. The handler gets copies of its row, and of
        earlier rows in a chain. Its records and timers have no effect."""
        before = self._emit, self.timer, self.at, self.clock, self.now, self.row, self.after
        self._emit, self.at, self.now, self.row, self.after = lambda *_: None, 0, None, row, after
        self.clock = lambda: time
        if self.timer is not None:
            self.timer = Timer(self.handler)
            self.timer.begin(np.array([time]))
        try:
            yield
        finally:
            self._emit, self.timer, self.at, self.clock, self.now, self.row, self.after = before

    @cached_property
    def log(self) -> logging.LoggerAdapter[logging.Logger]:
        """A logger named ``strand.handlers.NAME``, for ``ctx.log.info(...)``: what a handler logs names its symbol."""
        return _Logger(logging.getLogger(f"strand.handlers.{self.handler}"), {"symbol": self.symbol})

    def __repr__(self) -> str:
        return one_line(f"<Context of {self.handler} for {self.symbol}>")


class EmittingBatch(Protocol):
    """The ticks, or the timer, in hand, as the engine knows them: see strand.binding.tasks."""

    @property
    def n(self) -> int: ...

    @property
    def at_timer(self) -> bool: ...

    def emit(self, output: int, at: npt.NDArray[np.int64] | None, records: npt.NDArray[Any]) -> None: ...


class Emit:
    """Emits what a handler declares. ``batch``: the ticks in this thread's hands; ``first``: the engine's number of the
    first of the outputs."""

    def __init__(
        self, handler: str, outputs: Mapping[str, np.dtype[Any]], first: int, batch: Callable[[], EmittingBatch]
    ) -> None:
        self._handler = handler
        self._outputs = {name: (first + number, dtype) for number, (name, dtype) in enumerate(outputs.items())}
        self._only = next(iter(self._outputs)) if len(self._outputs) == 1 else None
        self._batch = batch

    def name_of(self, output: str | None) -> str:
        """The output's name where it is given, or the only one's. Raises ConfigurationError for one not declared."""
        name = output if output is not None else self._only
        if name is None or name not in self._outputs:
            there = ", ".join(self._outputs)
            wrong = "say which one, by output=" if name is None and there else f"not {name!r}; give it outputs="
            raise ConfigurationError("output", f"handler {self._handler!r} declares {there or 'none'}: {wrong}")
        return name

    def dtype_of(self, name: str) -> np.dtype[Any]:
        """Dtype of an output's records."""
        return self._outputs[name][1]

    def __call__(self, records: Any, at: Any, output: str | None) -> None:
        """See Context.emit."""
        name = self.name_of(output)
        number, dtype = self._outputs[name]
        batch = self._batch()
        emitted = records_of(records, dtype, name)
        if batch.at_timer:
            if at is not None:
                raise PlaceError(
                    f"at: {at!r} is not a place of a tick: at a timer or at the end there is no tick: leave at out"
                )
            batch.emit(number, None, emitted)
            return
        batch.emit(number, places_of(at, len(emitted), batch.n), emitted)


def places_of(at: Any, n_records: int, n_ticks: int) -> npt.NDArray[np.int64]:
    """The place of each record's tick in a batch. Raises PlaceError."""
    places = np.broadcast_to(np.asarray(at), (n_records,))
    if len(places):
        if places.dtype.kind not in "iu":
            raise PlaceError(f"at: {at!r} are not places of ticks in the batch: give whole numbers")
        outside = places[(places < 0) | (places >= n_ticks)]
        if len(outside):
            raise PlaceError(f"at: {outside[0]} is not a place in a batch of {n_ticks} ticks: places count from 0")
    return np.ascontiguousarray(places, np.int64)


def records_of(records: Any, dtype: np.dtype[Any], name: str) -> npt.NDArray[Any]:
    """Converts emitted values to records of a declared dtype, shape (n,). Raises RecordTypeError."""
    if isinstance(records, np.ndarray | np.void):
        if records.dtype != dtype:
            raise RecordTypeError(f"output {name!r}: records of {records.dtype} were emitted, but {dtype} is declared")
        array = np.atleast_1d(np.asarray(records))
    else:
        try:
            array = np.atleast_1d(np.array(records, dtype))
        except (TypeError, ValueError) as error:
            raise RecordTypeError(f"output {name!r}: {records!r} is not a record of {dtype}: {error}") from error
    if array.ndim != 1:
        raise RecordTypeError(f"output {name!r}: the array has the shape {array.shape}; give one of shape (n,)")
    return np.ascontiguousarray(array)


class Tick(NamedTuple):
    """A tick of ``strand.TICK`` with its fields as attributes: plain Python values, which may be kept.

    Attributes:
        ts_event: The venue's time, ns since the UNIX epoch.
        ts_recv: The time of capture, ns since the UNIX epoch; 0 or less: none.
        order_id: The order; 0: none. Of a quote with both sides the ask's price: read ``ask_price``.
        price: In units of 1e-9 of the currency; ``UNDEF_PRICE``: none.
        size: In units that the feed names (``feed.info.size_unit``).
        instrument_id: The index of the symbol in the feed's table of symbols, from 0.
        sequence_low: The lower 32 bits of ``sequence``.
        ref_id: The new order of a replace, or the match number of a trade. Of a quote with both sides the ask's size:
            read ``ask_size``.
        publisher_id: The venue or data set; 0: unknown.
        action: What happened, bytes of one letter.
        side: The side, bytes of one letter.
        flags: Bits that depend on the format.
        depth: The level of the book that the record speaks of; 0: the top, or no level.
        kind: What the record is, a ``KIND_`` constant of ``strand.ticks``.
        sequence_high: The upper 8 bits of ``sequence``.
    """

    ts_event: int
    ts_recv: int
    order_id: int
    price: int
    size: int
    instrument_id: int
    sequence_low: int
    ref_id: int
    publisher_id: int
    action: bytes
    side: bytes
    flags: int
    depth: int
    kind: int
    sequence_high: int

    @property
    def sequence(self) -> int:
        """The venue's number of the message, else its place in the file, from 1: the whole number, which lies in two
        fields.
        """
        return self.sequence_high << 32 | self.sequence_low

    @property
    def bid_price(self) -> int:
        """The bid's price of a quote, in 1e-9; ``UNDEF_PRICE`` if it speaks of the ask alone."""
        return UNDEF_PRICE if self.side == b"A" else self.price

    @property
    def bid_size(self) -> int:
        """The bid's size of a quote; 0 if it speaks of the ask alone."""
        return 0 if self.side == b"A" else self.size

    @property
    def ask_price(self) -> int:
        """The ask's price of a quote, in 1e-9; ``UNDEF_PRICE`` if it speaks of the bid alone."""
        if self.side == b"B":
            return UNDEF_PRICE
        return self.price if self.side == b"A" else _signed(self.order_id)

    @property
    def ask_size(self) -> int:
        """The ask's size of a quote; 0 if it speaks of the bid alone."""
        if self.side == b"B":
            return 0
        return self.size if self.side == b"A" else _signed(self.ref_id)


class Trade(NamedTuple):
    """A trade, a record of ``strand.ticks.TRADE``, with its fields as attributes: plain Python values, which may be
    kept.

    Attributes:
        ts_event: The venue's time, ns since the UNIX epoch.
        ts_recv: The time of capture, ns since the UNIX epoch; 0 or less: none.
        order_id: The order that rested; 0: the feed does not say.
        price: In units of 1e-9 of the currency.
        size: In units that the feed names (``feed.info.size_unit``).
        instrument_id: The index of the symbol in the feed's table of symbols, from 0.
        publisher_id: The venue or data set; 0: unknown.
        aggressor: Bytes of one letter: ``A`` a seller, ``B`` a buyer, ``N`` unknown.
        hidden: Whether the trade met an order that was not displayed.
        match_id: The venue's number of the match; 0: the feed does not say.
        sequence: The venue's number of the message, else its place in the file, from 1.
        cross: Whether the trade is an auction's.
    """

    ts_event: int
    ts_recv: int
    order_id: int
    price: int
    size: int
    instrument_id: int
    publisher_id: int
    aggressor: bytes
    hidden: bool
    match_id: int
    sequence: int
    cross: bool


def _signed(word: int) -> int:
    """The i8 of the same 64 bits."""
    return word - (1 << 64) if word >> 63 else word


_CODES: Final = {"<i8": "q", "<u8": "Q", "<u4": "I", "<u2": "H", "|u1": "B", "|S1": "c", "|b1": "?"}


def _struct(dtype: np.dtype[Any], names: Sequence[str]) -> struct.Struct:
    """Reader of fields of a record, in the order in which they lie. It takes a third of the time of numpy's tolist();
    from bytes, for to find out how a structured array's memory is laid out takes more than a copy of it."""
    text, end, there = "<", 0, dtype.fields
    assert there is not None
    for name in names:
        field, at = there[name][:2]
        text += f"{at - end}x{_CODES[field.str]}"
        end = at + field.itemsize
    return struct.Struct(f"{text}{dtype.itemsize - end}x")


@cache
def reader(dtype: np.dtype[Any], fields: tuple[str, ...] = ()) -> Callable[[bytes], Iterator[Any]]:
    """Returns a function that reads records of ``TICK`` or ``TRADE`` from their bytes, as ``Tick`` or ``Trade``; or as
    tuples of ``fields``."""
    names = [name for name in dtype.names or () if name in fields or not fields]
    unpack = _struct(dtype, names).iter_unpack
    if not fields:
        new: Callable[[Any], Any] = partial(tuple.__new__, Trade if dtype == TRADE else Tick)
        return lambda raw: map(new, unpack(raw))
    if len(names) < len(fields):  # some lie in several fields of the record
        whole, get = reader(dtype), attrgetter(*fields)
        return lambda raw: zip(map(get, whole(raw))) if len(fields) == 1 else map(get, whole(raw))
    if tuple(names) == fields:
        return unpack
    choose = itemgetter(*map(names.index, fields))
    return lambda raw: map(choose, unpack(raw))


def as_ticks(ticks: npt.NDArray[Any]) -> Iterator[Tick]:
    """Records of ``strand.TICK`` as Python values."""
    return reader(TICK)(ticks.tobytes())


def as_trades(trades: npt.NDArray[Any]) -> Iterator[Trade]:
    """Records of ``strand.ticks.TRADE`` as Python values."""
    return reader(TRADE)(trades.tobytes())
