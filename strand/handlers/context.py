"""Context of a Python handler: its symbol, its row, the time, its timer, a logger."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from strand.binding.engine_words import Failure
from strand.brief import one_line
from strand.errors import ConfigurationError, PlaceError
from strand.handlers.timer import Timer
from strand.ticks import TRADE

if TYPE_CHECKING:
    from strand.handlers.baskets import BasketMemory

__all__ = ["Call", "Context", "EarlierPartError", "FailedOnTick", "SymbolFunctions"]

_NO_TRADES: Final = np.empty(0, TRADE)

#: Function that a worker calls with a symbol's next ticks: it returns the number handled, None for all.
Call = Callable[[npt.NDArray[Any]], int | None]


class SymbolFunctions(NamedTuple):
    """A Python handler's functions for one symbol: for its next ticks, its timer, the run's end, and for the moment
    after an earlier handler of a chain acted at a timer or the end. ``plain``: if ``ticks`` only calls a function of
    (symbol, ticks, row) and always handles all ticks, that function. ``one``: the function that ``ticks`` calls with
    each tick, trades apart, if it needs no batch. ``stand``: notes that the handler knows the others' rows as they are
    in ``context.after``. ``object``: the object whose methods they call. The context does not know it: most objects
    keep their context, and a circle would outlive the run."""

    ticks: Call
    wake: Callable[[int], None] | None = None
    finish: Callable[[], None] | None = None
    changed: Callable[[], None] | None = None
    plain: Callable[..., Any] | None = None
    one: Callable[[Any], Any] | None = None
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
        #: The tick in hand of an object whose ticks come without a batch.
        self.tick: Any = None
        self.after: Mapping[str, npt.NDArray[Any]] = {}
        #: What the tick that an object failed on had it told of the others in its chain: methods, and their argument.
        self.told: Sequence[tuple[Callable[[Any], None], Any]] = ()
        #: Of a handler that asks for trades: the one that each tick in hand is, of size -1 where it is none.
        self.trades: npt.NDArray[Any] = _NO_TRADES
        #: Of a handler that is called with trades alone: the places of their ticks among those in hand.
        self.places: npt.NDArray[np.intp] | None = None
        #: For handlers with baskets: the rows and the parameters of all symbols by key, the baskets' rows, and the
        #: key's field of a tick.
        self.row_of: Callable[[int], Any] = lambda _: row
        self.params_of: npt.NDArray[Any] | None = None
        self.baskets: BasketMemory | None = None
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
        if self.tick is not None:
            return int(self.tick.ts_recv)
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
        before = self._emit, self.timer, self.at, self.tick, self.now, self.row, self.after
        self._emit, self.at, self.now, self.row, self.after = lambda *_: None, 0, None, row, after
        if self.timer is not None:
            self.timer = Timer(self.handler)
            self.timer.begin(np.array([time]))
        try:
            yield
        finally:
            self._emit, self.timer, self.at, self.tick, self.now, self.row, self.after = before

    @cached_property
    def log(self) -> logging.LoggerAdapter[logging.Logger]:
        """A logger named ``strand.handlers.NAME``, for ``ctx.log.info(...)``: what a handler logs names its symbol."""
        return _Logger(logging.getLogger(f"strand.handlers.{self.handler}"), {"symbol": self.symbol})

    def __repr__(self) -> str:
        return one_line(f"<Context of {self.handler} for {self.symbol}>")
