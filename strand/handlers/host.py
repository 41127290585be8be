"""A Python handler at work for one symbol: its timers, its trades, the events of handlers before it."""

from __future__ import annotations

import warnings
from collections import namedtuple
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt

from strand.binding.books import TradeMaker
from strand.errors import ConfigurationError, EngineError
from strand.handlers.context import Call, Context, FailedOnTick, SymbolFunctions
from strand.threads import interrupts
from strand.ticks import TRADE
from strand.validate import is_whole

__all__ = [
    "STATES",
    "Bar",
    "Clock",
    "Events",
    "Host",
    "Timed",
    "Top",
    "Traded",
    "TradesSite",
    "Watch",
    "acting",
    "check_states",
    "stand",
    "tell_changes",
    "warn_of_unpriced",
    "watches_of",
    "with_trades",
]


class Clock(Protocol):
    """Clock of a timed handler, with ticks of its symbol in hand."""

    def times(self) -> npt.NDArray[np.int64]:
        """The feed's time at each of them."""

    def arm(self, handled: int, alarm: int) -> None:
        """Sets the due time of the symbol's timer, as of the first ``handled`` of the ticks in hand; 0: never."""


class Host(Protocol):
    """Functions that run one symbol of a Python handler."""

    @property
    def call(self) -> Call:
        """Function to call with the symbol's next ticks."""

    @property
    def plain(self) -> Callable[..., Any] | None:
        """A function of (symbol, ticks, row) that does what ``call`` does, where there is one."""

    @property
    def one(self) -> Callable[[Any], Any] | None:
        """Function to call with one tick, trades apart, where ``TickByTick`` allows it."""

    @property
    def object(self) -> Any:
        """The object whose methods are called; None: it has none."""

    def wake(self, time: int) -> int:
        """Runs the symbol's timer. Returns the due time of the next one, 0: never."""

    def finish(self, time: int) -> None:
        """Runs the end, at the feed's time there."""

    @property
    def alarm(self) -> int:
        """Due time of the symbol's timer; 0: never."""

    @property
    def own_alarm(self) -> int:
        """Due time of the timer that the Python handler itself has set; 0: never."""

    def resume(self, alarm: int) -> None:
        """Goes on where another process left off: the row, and the state of native handlers, are as they were there.
        ``alarm``: the value of ``own_alarm`` then."""


def acting(context: Context, time: int, act: Callable[[], Any] | None) -> None:
    """Does something at a time, with no tick in hand."""
    if act is None:
        return
    at, context.at, context.now = context.at, None, time
    try:
        act()
    finally:
        context.at, context.now = at, None


class Timed:
    """Calls the functions of a handler with its ticks, timers and end, and passes on the timers that they set.

    It gets no tick at or behind the timer that is set. So a handler that sets a timer in the middle of a batch handles
    only the ticks before it: an object is called for no more, a batch handler says how many it took.
    """

    def __init__(self, context: Context, functions: SymbolFunctions, clock: Clock) -> None:
        self._context = context
        self._functions = functions
        self._clock = clock
        self.plain = functions.plain
        self.one = functions.one
        self.object = functions.object

    @property
    def call(self) -> Call:
        return self._functions.ticks if self._context.timer is None else self._call

    @property
    def alarm(self) -> int:
        timer = self._context.timer
        return 0 if timer is None else timer.alarm

    @property
    def own_alarm(self) -> int:
        return self.alarm

    def resume(self, alarm: int) -> None:
        if self._context.timer is not None:
            self._context.timer.resume(alarm)

    def _call(self, ticks: npt.NDArray[Any]) -> int | None:
        timer, n = self._context.timer, len(ticks)
        assert timer is not None
        timer.begin(self._clock.times())
        handled = 0
        try:
            handled = self._took(self._functions.ticks(ticks), n)
        except FailedOnTick as error:
            # Timers set by the ticks before it stand. The failed tick counts as done: it will not come again.
            if timer.over(error.handled):
                self._clock.arm(error.handled + 1, timer.alarm)
            raise
        except BaseException:
            timer.over(0)
            raise
        if timer.over(handled):
            self._clock.arm(handled, timer.alarm)
        return None if handled == n else handled

    def _took(self, said: Any, n: int) -> int:
        """Number of ticks that a call has handled. Raises ConfigurationError for an impossible number."""
        timer, called = self._context.timer, self._context.handler
        assert timer is not None
        if said is None:
            said = n
            if timer.end < n:
                raise ConfigurationError(
                    f"handler {called!r}: the timer it asked for comes before tick {timer.end} of {n}: handle no more "
                    "than wake_at returns, and return how many"
                )
        if not is_whole(said):
            raise ConfigurationError(
                f"handler {called!r}: it returned {said!r}: return how many ticks it handled, or None"
            )
        if not timer.last_asked() < said <= timer.end or said < 1:
            raise ConfigurationError(
                f"handler {called!r}: it returned {said} for {n} ticks, but only {timer.end} come before its timer"
                + (f", which tick {timer.last_asked()} asked for" if timer.last_asked() >= 0 else "")
            )
        return int(said)

    def wake(self, time: int) -> int:
        """Raises what the handler does; its timer is over then as well."""
        timer, wake = self._context.timer, self._functions.wake
        assert timer is not None
        timer.alarm = 0
        if wake is not None:
            acting(self._context, time, lambda: wake(time))
        return timer.alarm

    def finish(self, time: int) -> None:
        """Raises what the handler does."""
        if self._context.timer is not None:
            self._context.timer.finish()
        acting(self._context, time, self._functions.finish)


_NONE: Final = np.empty(0, TRADE)


def _joined(first: npt.NDArray[Any], second: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Joins trades in the same layout: numpy's concatenate would leave out the bytes between fields."""
    if not len(first) or not len(second):
        return first if len(first) else second
    both = np.empty(len(first) + len(second), TRADE)
    both[: len(first)], both[len(first) :] = first, second
    return both


class TradesSite(Protocol):
    """Site of a handler that is called with trades made from ticks."""

    @property
    def participant(self) -> int | None:
        """The worker that runs it."""

    @property
    def brings_rest(self) -> bool:
        """True if ticks that a call did not reach come again, as the next ones of their symbol."""

    @property
    def failed_come_again(self) -> bool:
        """True if all ticks of the current call come again if the call fails."""


def with_trades(
    functions: SymbolFunctions, context: Context, site: TradesSite, maker: TradeMaker | None
) -> SymbolFunctions:
    """A handler's functions for a symbol; where it asks for trades, each call finds them in ``context.trades``."""
    if maker is None:
        return functions
    call = Traded(context, site, maker, functions.ticks).call
    return functions._replace(ticks=call, plain=None)


def warn_of_unpriced(makers: Iterable[TradeMaker]) -> None:
    """Warns, at the end of a run, of the trades that no handler was called with."""
    unpriced = sum(int(maker.unpriced.sum()) for maker in makers)
    if unpriced:
        warnings.warn(
            f"begin where the feed adds its orders: {unpriced:,} executions of orders that the feed has not added have "
            "no price, and handlers of trades were not called with them",
            RuntimeWarning,
            stacklevel=3,
        )


class HoldsTrades(Protocol):
    """A context, or what stands for those of several symbols."""

    trades: npt.NDArray[Any]


class Traded:
    """Makes the trades of ticks ahead of a handler's call. Ticks that the call leaves over come again, and have been in
    the book by then: what was made of them is kept."""

    def __init__(self, context: HoldsTrades, site: TradesSite, maker: TradeMaker, call: Call) -> None:
        self._context = context
        self._site = site
        self._maker = maker
        self._inner = call
        self._ahead: npt.NDArray[Any] = _NONE

    def call(self, ticks: npt.NDArray[Any]) -> int | None:
        known = min(len(self._ahead), len(ticks))
        new, failure = self._maker.make(ticks[known:], self._site.participant or 0)
        made, further, done = _joined(self._ahead[:known], new), self._ahead[known:], known + len(new)
        handled = 0
        try:
            handled = self._handle(ticks[:done], made)
        except FailedOnTick as error:
            # Ticks that an interrupt came upon come again.
            failed = error.handled + (not interrupts(error.__cause__ or error))
            handled = 0 if self._site.failed_come_again else failed
            raise
        except BaseException:
            handled = 0 if self._site.failed_come_again else 1
            raise
        finally:
            self._ahead = _joined(made[handled:], further) if self._site.brings_rest else _NONE
        if failure is not None and handled == done:
            raise FailedOnTick(done) from EngineError(failure.reason)
        return None if handled == len(ticks) else handled

    def _handle(self, ticks: npt.NDArray[Any], made: npt.NDArray[Any]) -> int:
        if not len(ticks):
            return 0
        self._context.trades = made
        handled = self._inner(ticks)
        return len(ticks) if handled is None else handled


#: The method; the fields of a row that it is about; how the names begin of those it is given; what to chain.
STATES: Final = {
    "on_book": (("bid_price", "bid_size", "ask_price", "ask_size"), "", "a book: strand.chain(strand.book(), ...)"),
    "on_bar": (("bars", "last_open", "last_close"), "last_", "bars: strand.chain(strand.bars(...), ...)"),
}

Events = dict[int, list[tuple[Callable[[Any], None], Any]]]


class Top(Protocol):
    """The top of a book, the argument of ``on_book``: a named tuple of the book's row with all its fields. Every book
    has these.

    Attributes:
        bid_price: In 1e-9; ``UNDEF_PRICE`` if the side is empty.
        bid_size: As the feed counts sizes.
        ask_price: In 1e-9; ``UNDEF_PRICE`` if the side is empty.
        ask_size: As the feed counts sizes.
    """

    @property
    def bid_price(self) -> int: ...
    @property
    def bid_size(self) -> int: ...
    @property
    def ask_price(self) -> int: ...
    @property
    def ask_size(self) -> int: ...


class Bar(Protocol):
    """A bar, the argument of ``on_bar`` after ``strand.bars``: a named tuple with the fields of
    ``strand.handlers.BAR``.

    Attributes:
        start: The start of a time bar, or the time of another bar's first trade, ns since the UNIX epoch.
        end: The end of a time bar, which does not belong to it, or the time of another bar's last trade, ns since the
            UNIX epoch.
        open: The first price, in 1e-9.
        high: The highest price, in 1e-9.
        low: The lowest price, in 1e-9.
        close: The last price, in 1e-9.
        vwap: The volume-weighted average price, in 1e-9.
        volume: As the feed counts sizes.
        notional: The sum of price times size, in units of currency.
        trades: The number of trades.
        flags: The sum of ``BAR_PARTIAL``, ``BAR_EMPTY``, ``BAR_CUT`` and ``BAR_OUTSIDE`` of ``strand.handlers`` that
            hold.
    """

    @property
    def start(self) -> int: ...
    @property
    def end(self) -> int: ...
    @property
    def open(self) -> int: ...
    @property
    def high(self) -> int: ...
    @property
    def low(self) -> int: ...
    @property
    def close(self) -> int: ...
    @property
    def vwap(self) -> int: ...
    @property
    def volume(self) -> int: ...
    @property
    def notional(self) -> float: ...
    @property
    def trades(self) -> int: ...
    @property
    def flags(self) -> int: ...


@cache
def _tuple_of(name: str, fields: tuple[str, ...]) -> Any:
    """A class of named tuples: one for all symbols, since to make one takes as long as some hundred calls."""
    make: Any = namedtuple
    return make(name, fields, rename=True)


class Watch:
    """Finds where the state of a part of the chain has changed, and calls an object's method with it then."""

    def __init__(self, method: Callable[[Any], None], part: str, dtype: np.dtype[Any], name: str) -> None:
        fields, prefix, _ = STATES[name]
        self._method = method
        self._part = part
        self._fields = list(fields)
        names = [field for field in dtype.names or () if field.startswith(prefix)]
        self._make = _tuple_of(
            name.removeprefix("on_").title(), tuple(field.removeprefix(prefix) for field in names)
        )._make
        self._names = names
        self._stands: Any = tuple(np.zeros(1, dtype)[self._fields][0].item())

    def look(self, after: Mapping[str, npt.NDArray[Any]], events: Events) -> None:
        """Adds a call for each tick that changed something."""
        rows = after[self._part]
        watched = [rows[field] for field in self._fields]
        changed = np.zeros(len(rows), dtype=bool)
        for column, before in zip(watched, self._stands, strict=True):
            changed[0] |= column[0] != before
            changed[1:] |= column[1:] != column[:-1]
        at = np.flatnonzero(changed)
        for i, values in zip(at.tolist(), rows[self._names][at].tolist(), strict=True):
            events.setdefault(i, []).append((self._method, self._make(values)))

    def stand(self, after: Mapping[str, npt.NDArray[Any]], at: int) -> None:
        """The calls up to tick ``at`` have been made."""
        self._stands = after[self._part][self._fields][at].item()


def _part_for(name: str, states: Mapping[str, np.dtype[Any]]) -> str | None:
    """The last part of the chain so far whose rows a method is about."""
    wanted = set(STATES[name][0])
    return next((part for part in reversed(list(states)) if wanted <= set(states[part].names or ())), None)


def check_states(handler: str, methods: tuple[str, ...], states: Mapping[str, np.dtype[Any]]) -> None:
    """Raises ConfigurationError for a method that nothing in the chain gives cause to call."""
    for method in methods:
        if _part_for(method, states) is None:
            raise ConfigurationError(f"handler {handler!r}: {method} is only called after {STATES[method][2]}")


def watches_of(thing: object, handler: str, states: Mapping[str, np.dtype[Any]]) -> list[Watch]:
    """Watches for the methods of an object."""
    found = []
    for name in STATES:
        method = getattr(thing, name, None)
        if method is None:
            continue
        check_states(handler, (name,), states)
        part = _part_for(name, states)
        assert part is not None
        found.append(Watch(method, part, states[part], name))
    return found


def tell_changes(watches: Sequence[Watch], context: Context) -> None:
    """Calls the watches at a timer or the end, where ``after`` has one row."""
    events: Events = {}
    for watch in watches:
        watch.look(context.after, events)
        watch.stand(context.after, 0)
    for method, value in events.get(0, ()):
        method(value)


def stand(watches: Sequence[Watch], context: Context) -> None:
    """The object knows of what is in ``after``, which has one row."""
    for watch in watches:
        watch.stand(context.after, 0)
