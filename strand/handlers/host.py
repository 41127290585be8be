"""A Python handler at work for one symbol: its timers, its trades, the events of handlers before it."""

from __future__ import annotations

import warnings
from collections import namedtuple
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np
import numpy.typing as npt

from strand.binding.books import TradeMaker
from strand.binding.engine_words import Failure
from strand.errors import ConfigurationError, EngineError
from strand.handlers.context import Call, Context, EarlierPartError, EmittingBatch, FailedOnTick, SymbolFunctions, Timer
from strand.threads import interrupts
from strand.validate import is_whole

if TYPE_CHECKING:
    from strand.binding.native import Chained


class TicksSite(Protocol):
    """Place where a handler gets its ticks."""

    @property
    def participant(self) -> int | None:
        """The worker that runs them."""

    @property
    def brings_rest(self) -> bool:
        """True if ticks that a call did not reach come again, as the next ones of their symbol."""

    @property
    def failed_come_again(self) -> bool:
        """True if all ticks of the current call come again if the call fails."""

    @property
    def ends_at_failure(self) -> bool:
        """True if no tick comes after one that a handler failed on."""

    def times(self) -> npt.NDArray[np.int64]:
        """The feed's time at each of the ticks in hand."""

    def arm(self, handled: int, alarm: int) -> None:
        """Sets the due time of the symbol's timer, as of the first ``handled`` of the ticks in hand; 0: never."""


class Site(TicksSite, Protocol):
    """Place where Python's handlers run: a worker of the engine, or the caller."""

    def batch(self) -> EmittingBatch:
        """The ticks, or the timer, in this thread's hands."""

    def track(self, native: Chained, ticks: npt.NDArray[Any], after: npt.NDArray[Any]) -> tuple[int, Failure | None]:
        """Runs a chain tick by tick, and copies the row as it is after each. Returns the number of ticks handled. If
        some are left, the chain stopped before its own timer, or failed on the next tick."""

    def act(self, native: Chained, key: int, time: int, at_end: bool) -> Failure | None:
        """Runs the timers of such a chain that are due for a symbol, or its end."""


def acting(context: Context, time: int, act: Callable[[], Any] | None) -> None:
    """Does something at a time, with no tick in hand."""
    if act is None:
        return
    at, context.at, context.now = context.at, None, time
    try:
        act()
    finally:
        context.at, context.now = at, None


def _joined(first: npt.NDArray[Any], second: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Joins records of the same layout: numpy's concatenate would leave out the bytes between fields."""
    if not len(first) or not len(second):
        return first if len(first) else second
    both = np.empty(len(first) + len(second), first.dtype)
    both[: len(first)], both[len(first) :] = first, second
    return both


class Ahead:
    """Records that are made of ticks, one per tick, before the handler gets the ticks: trades, or a chain's rows.

    Ticks that the handler leaves over come again, and what makes the records cannot go back. So the records of those
    ticks are kept, and so is a failure on the tick behind them.

    Attributes:
        made: The records of the ticks in hand. There may be more, of ticks that come later.
        failure: The failure on the tick behind ``made``; None: there is none.
    """

    def __init__(self, more: Callable[[npt.NDArray[Any]], tuple[npt.NDArray[Any], Failure | None]]) -> None:
        """``more``: makes records of ticks, fewer where it stops or fails before a tick."""
        self._more = more
        self._kept: npt.NDArray[Any] | None = None
        self.made: npt.NDArray[Any] = np.empty(0)
        self.failure: Failure | None = None

    def make(self, ticks: npt.NDArray[Any]) -> int:
        """Returns the number of ticks, from the first one on, that have their records in ``made``."""
        if not self.is_ahead:
            self.made, self.failure = self._more(ticks)
            return len(self.made)
        kept = self.made[:0] if self._kept is None else self._kept
        if self.failure is None and len(kept) < len(ticks):
            more, self.failure = self._more(ticks[len(kept) :])
            kept = _joined(kept, more)
        self.made = kept
        return min(len(self.made), len(ticks))

    def keep(self, gone: int, *, comes_again: bool) -> None:
        """Notes that the first ``gone`` ticks do not come again; ``comes_again``: the others do."""
        if not comes_again:
            self._kept = self.failure = None
        else:
            self._kept = self.made[gone:] if gone < len(self.made) else None

    @property
    def is_ahead(self) -> bool:
        """True if it has gone on to ticks that come again."""
        return self._kept is not None or self.failure is not None


def _tracked(
    site: Site, native: Chained, prefix: np.dtype[Any], ticks: npt.NDArray[Any]
) -> tuple[npt.NDArray[Any], Failure | None]:
    after: npt.NDArray[Any] = np.empty(len(ticks), prefix)
    done, failure = site.track(native, ticks, after)
    return after[:done], failure


class NativePart:
    """The handlers of a chain before its last one, which Python runs. They run in C, over the ticks of a batch first.

    Where it is ahead of Python, the symbol's row is that of the last tick, or timer, that Python has seen.
    """

    def __init__(self, context: Context, site: Site, native: Chained, *, row: Any, prefix: np.dtype[Any]) -> None:
        """``row``: the symbol's; ``prefix``: the dtype of that part of it which is the native handlers'."""
        self._context = context
        self._site = site
        self._native = native
        self._row = row
        self._prefix = prefix
        # Neither knows this object: a circle would outlive the run.
        self.ahead = Ahead(partial(_tracked, site, native, prefix))
        #: The rows after the last tick, or timer, that Python has seen, shape (1,).
        self._last = self._rows_now()
        #: The rows after the last tick of ``ahead``, shape (1,); None: it is not ahead.
        self._farthest: npt.NDArray[Any] | None = None

    def make(self, ticks: npt.NDArray[Any]) -> int:
        """Runs over ticks, as ``Ahead.make``."""
        if self._farthest is not None:
            self._put_back(self._farthest[0])
            self._farthest = None
        done = self.ahead.make(ticks)
        self.ahead.made.flags.writeable = False
        return done

    def show(self, first: int, end: int) -> None:
        """Gives Python the rows right after some of the ticks in hand."""
        rows = self.ahead.made[first:end]
        self._context.after = {name: rows[name] for name in self._prefix.names or ()}

    def keep(self, gone: int, *, comes_again: bool) -> None:
        """See ``Ahead.keep``."""
        made = self.ahead.made[:gone]
        self.ahead.keep(gone, comes_again=comes_again)
        if len(made):
            self._last = made[-1:]
        if self.ahead.is_ahead:
            self._farthest = self._rows_now()
            self._put_back(self._last[0])

    def go_back(self, at: int) -> None:
        """Makes the symbol's row that right after one of the ticks in hand."""
        self._put_back(self.ahead.made[at])

    @property
    def alarm(self) -> int:
        """Due time of the part's timer; 0: never."""
        return self._native.alarm(self._context.key)

    @property
    def has_timers(self) -> bool:
        """True if it may have timers."""
        return self._native.function.wake is not None

    @property
    def has_end(self) -> bool:
        """True if it does something at the end of a run."""
        return self._native.function.finish is not None

    def act(self, time: int, *, at_end: bool) -> None:
        """Runs the due timers, or the end. Raises EarlierPartError."""
        failure = self._site.act(self._native, self._context.key, time, at_end)
        self._last = self._rows_now()
        if failure is not None:
            raise EarlierPartError.of(failure)

    def show_last(self) -> None:
        """Gives Python the rows of the last tick, or timer, that it has seen."""
        self._context.after = {name: self._last[name] for name in self._prefix.names or ()}

    def resume(self) -> None:
        """The symbol's row is as it was in another process."""
        self._last = self._rows_now()
        self.show_last()

    def _put_back(self, rows: Any) -> None:
        for name in self._prefix.names or ():
            self._row[name] = rows[name]

    def _rows_now(self) -> npt.NDArray[Any]:
        """The part's rows as they are in the symbol's row, shape (1,)."""
        rows: npt.NDArray[Any] = np.zeros(1, self._prefix)
        for name in self._prefix.names or ():
            rows[name][0] = self._row[name]
        rows.flags.writeable = False
        return rows


def _trades_of(maker: TradeMaker, site: TicksSite, ticks: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], Failure | None]:
    return maker.make(ticks, site.participant or 0)


class Host:
    """Host of the code that Python runs for one symbol, or for the symbols that share a strand.

    It runs the native part of a chain over a batch, makes the trades, and calls the handler's functions with the ticks
    that both have come to. A call ends before a timer that is asked for in it: an object is called for no more ticks, a
    batch handler says how many it took. It passes on the earlier one of its timer and the native part's.

    Attributes:
        plain: A function of (symbol, ticks, row) that does what ``call`` does; None: there is none.
        object: The object whose methods are called; None: there is none.
    """

    __slots__ = (
        "_before", "_context", "_functions", "_has_timers", "_is_bare", "_site", "_told", "_trades", "object", "one",
        "plain",
    )  # fmt: skip

    def __init__(
        self,
        context: Context,
        functions: SymbolFunctions,
        site: TicksSite,
        *,
        maker: TradeMaker | None = None,
        before: NativePart | None = None,
    ) -> None:
        self._context = context
        self._functions = functions
        self._site = site
        self._before = before
        self._trades = None if maker is None else Ahead(partial(_trades_of, maker, site))
        self._has_timers = context.timer is not None or (before is not None and before.has_timers)
        #: The due time that the site knows.
        self._told = 0
        self._is_bare = context.timer is None and before is None and maker is None
        self.plain = functions.plain if self._is_bare else None
        self.object = functions.object

    # ---- ticks

    @property
    def call(self) -> Call:
        """Function to call with the next ticks: it returns the number handled, None for all. It costs nothing more than
        the handler's own where there are no timers, no trades and no handlers before it."""
        return self._functions.ticks if self._is_bare else self._call

    def _call(self, ticks: npt.NDArray[Any]) -> int | None:
        context, site, before, trades = self._context, self._site, self._before, self._trades
        n = done = len(ticks)
        if before is not None:
            done = before.make(ticks)
        if trades is not None:
            done = trades.make(ticks if done == n else ticks[:done])
            context.trades = trades.made if len(trades.made) == done else trades.made[:done]
        if before is not None and done:
            before.show(0, done)
        handled, asked, timer = 0, False, context.timer
        try:
            if done:
                if timer is not None:
                    times = site.times()
                    timer.begin(times if done == n else times[:done])
                said = self._functions.ticks(ticks if done == n else ticks[:done])
                if timer is not None:
                    handled = self._took(said, done, timer)
                    asked = timer.over(handled)
                else:
                    handled = done if said is None else said
        except BaseException as error:
            # No name is left of the error: this frame is in its traceback, and a circle would outlive the run.
            at = error.handled if isinstance(error, FailedOnTick) else 0
            stops = interrupts((error.__cause__ if isinstance(error, FailedOnTick) else None) or error)
            asked = timer is not None and timer.over(at)
            if before is not None:
                before.show(at, at + 1)
            if site.failed_come_again:
                self._keep(0, asked=asked)
            elif stops:
                self._keep(at, asked=asked)
            else:
                self._keep(at + 1, asked=asked)
                if before is not None and site.ends_at_failure:
                    before.go_back(at)
            raise
        # Timers that Python has asked for may come before the tick that failed: it is first in the call that fails.
        if done < n and (done == 0 or (handled == done and not site.brings_rest)):
            failed = self._failed_after(done)
            if failed is not None:
                self._keep(0 if site.failed_come_again else done + 1, asked=asked)
                raise FailedOnTick(done) from failed
        if asked or before is not None or (trades is not None and (handled < n or trades.is_ahead)):
            self._keep(handled, asked=asked)
        return None if handled == n else handled

    def _failed_after(self, done: int) -> Exception | None:
        """The failure of what runs before the functions on the tick behind the first ``done``; None: it has only
        stopped there. The failure is told once, or the tick comes again."""
        for each in (None if self._before is None else self._before.ahead, self._trades):
            if each is None or each.failure is None or len(each.made) != done:
                continue
            failure = each.failure
            if not self._site.failed_come_again:
                each.failure = None
            return EngineError(failure.reason) if each is self._trades else EarlierPartError.of(failure)
        return None

    def _took(self, said: Any, n: int, timer: Timer) -> int:
        """Number of ticks that a call has handled. Raises ConfigurationError for an impossible number."""
        called = self._context.handler
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

    def _keep(self, gone: int, *, asked: bool) -> None:
        """Notes that the first ``gone`` of the ticks in hand do not come again. ``asked``: one of them set a timer."""
        if self._before is not None:
            self._before.keep(gone, comes_again=self._site.brings_rest)
        if self._trades is not None:
            self._trades.keep(gone, comes_again=self._site.brings_rest)
        if gone and self._has_timers and ((alarm := self.alarm) != self._told or asked):
            self._site.arm(gone, alarm)
            self._told = alarm

    # ---- timers, and the end

    @property
    def alarm(self) -> int:
        """Due time of the symbol's timer, the earlier one of both parts'; 0: never."""
        own, before = self.own_alarm, self._before
        earlier = 0 if before is None or not before.has_timers else before.alarm
        return min(own, earlier) if own and earlier else own or earlier

    @property
    def own_alarm(self) -> int:
        """Due time of the timer that the Python handler itself has set; 0: never."""
        timer = self._context.timer
        return 0 if timer is None else timer.alarm

    def resume(self, alarm: int) -> None:
        """Goes on where another process left off: the row, and the state of native handlers, are as they were there.
        ``alarm``: the value of ``own_alarm`` then."""
        if self._context.timer is not None:
            self._context.timer.resume(alarm)
        self._told = self.alarm
        if self._before is not None:
            self._before.resume()
            if self._functions.stand is not None:
                self._functions.stand()

    def wake(self, time: int) -> int:
        """Runs the symbol's timer: that of the native part, then the handler's. Returns the due time of the next one;
        0: never. Raises what they do; the timer that fails is over then as well."""
        before, timer, wake = self._before, self._context.timer, self._functions.wake
        try:
            if before is not None and 0 < before.alarm <= time:
                self._act(before, time, at_end=False)
            if timer is not None and (before is None or 0 < timer.alarm <= time):
                if before is not None:
                    before.show_last()
                timer.alarm = 0
                acting(self._context, time, None if wake is None else lambda: wake(time))
        finally:
            self._told = self.alarm
        return self._told

    def finish(self, time: int) -> None:
        """Runs the ends of both parts, at the feed's time there. Raises what they do."""
        before, timer = self._before, self._context.timer
        if before is not None:
            if before.has_end:
                self._act(before, time, at_end=True)
            before.show_last()
        if timer is not None:
            timer.finish()
        acting(self._context, time, self._functions.finish)

    def _act(self, before: NativePart, time: int, *, at_end: bool) -> None:
        before.act(time, at_end=at_end)
        before.show_last()
        acting(self._context, time, self._functions.changed)


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


#: The method; the fields of a row that it is about; how the names begin of those it is given; what to chain.
STATES: Final = {
    "on_book": (("bid_price", "bid_size", "ask_price", "ask_size"), "", "a book: strand.chain(strand.book(), ...)"),
    "on_levels": (
        ("bid_prices", "bid_sizes", "ask_prices", "ask_sizes"),
        "",
        "levels of a book: strand.chain(strand.book(top=5), ...)",
    ),
    "on_bar": (("bars", "last_open", "last_close"), "last_", "bars: strand.chain(strand.bars(...), ...)"),
}


class Top(Protocol):
    """The top of a book, the argument of ``on_book`` and ``on_levels``: a named tuple of the book's row with all its
    fields, the levels as arrays. Every book has these.

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
    """Finds where the state of a part of the chain has changed, for a method of an object. ``method``: that."""

    def __init__(self, method: Callable[[Any], None], part: str, dtype: np.dtype[Any], name: str) -> None:
        fields, prefix, _ = STATES[name]
        self.method = method
        self._part = part
        self._fields = list(fields)
        names = [field for field in dtype.names or () if field.startswith(prefix)]
        self._make = _tuple_of(
            name.removeprefix("on_").title(), tuple(field.removeprefix(prefix) for field in names)
        )._make
        self._names = names
        self._stands: Any = tuple(np.zeros(1, dtype)[self._fields][0].item())

    def look(self, after: Mapping[str, npt.NDArray[Any]]) -> tuple[list[int], list[Any]]:
        """Returns the places of the ticks that changed something, and what to call the method with for each."""
        rows = after[self._part]
        watched = [rows[field] for field in self._fields]
        changed = np.zeros(len(rows), dtype=bool)
        for column, before in zip(watched, self._stands, strict=True):
            changed[0] |= bool(np.any(column[0] != before))
            differs = column[1:] != column[:-1]
            changed[1:] |= differs if differs.ndim == 1 else differs.any(axis=1)
        at = np.flatnonzero(changed)
        return at.tolist(), list(map(self._make, rows[self._names][at].tolist()))

    def stand(self, after: Mapping[str, npt.NDArray[Any]], at: int) -> None:
        """The calls up to tick ``at`` have been made."""
        # A copy: arrays of levels would be views of rows that the next ticks overwrite.
        self._stands = after[self._part][self._fields][at].copy().item()


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
    told = []
    for watch in watches:
        _, values = watch.look(context.after)
        watch.stand(context.after, 0)
        told += [(watch.method, value) for value in values]
    for method, value in told:
        method(value)


def stand(watches: Sequence[Watch], context: Context) -> None:
    """The object knows of what is in ``after``, which has one row."""
    for watch in watches:
        watch.stand(context.after, 0)
