"""Handlers that Python runs, a batch at a time."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from strand.errors import ConfigurationError
from strand.handlers.bound import BindContext
from strand.handlers.called_again import FailedCall
from strand.handlers.context import Call, Context, FailedOnTick, SymbolFunctions
from strand.handlers.emitted import output_dtypes
from strand.handlers.feed_trades import On, source_for
from strand.handlers.functions import check_runs, name_of
from strand.handlers.hosted import HostedHandler
from strand.handlers.parameters import Parameters
from strand.handlers.state import row_dtype
from strand.handlers.timer import Timer
from strand.options import named_options
from strand.validate import is_whole

__all__ = ["PythonHandler", "batch_handler"]

OnTicks = Callable[[str, Any, Any], None] | Callable[[str, Any, Any, Context], None]


@dataclass(frozen=True, kw_only=True, repr=False)
class PythonHandler(HostedHandler):
    """A handler of functions that Python calls: ``on_ticks`` with a batch of ticks or trades, the others at timers and
    at the end of a run."""

    on_ticks: Callable[..., Any]
    on_wake: Callable[..., None] | None = None
    on_finish: Callable[..., None] | None = None

    @property
    def timers(self) -> bool:
        return self.on_wake is not None

    @property
    def ends(self) -> bool:
        return self.on_finish is not None

    @property
    def fails_as_a_whole(self) -> bool:
        return True

    @property
    def written(self) -> tuple[Callable[..., Any], ...]:
        return tuple(each for each in (self.on_ticks, self.on_wake, self.on_finish) if each is not None)

    @cached_property
    def _is_plain(self) -> bool:
        """True if ``on_ticks`` takes no context."""
        return not _takes(self.on_ticks, 4)

    def functions_in(self, context: BindContext) -> Callable[[Context], SymbolFunctions]:  # noqa: ARG002 - same in all
        return self.functions_of

    def call_again(self, call: FailedCall) -> None:
        timer = Timer(self.name) if self.timers else None
        context = Context(
            self.name,
            call.symbol,
            call.key,
            call.row[0],
            params=call.params_of(self.name, self.params),
            states={name: rows.dtype for name, rows in call.after.items()},
            emit=_emits_nothing,
            timer=timer,
        )
        context.after = call.after
        if self.trades is not None:
            context.trades = self._called_with(call)
        if timer is not None:
            timer.begin(call.tick["ts_recv"])
        try:
            self.functions_of(context).ticks(call.tick)
        except FailedOnTick as failed:
            raise (failed.__cause__ or failed) from None

    def functions_of(self, context: Context) -> SymbolFunctions:
        """Functions to call for the symbol of a context."""
        plain = self._is_plain
        call = _plain(self.on_ticks, context) if plain else _with_context(self.on_ticks, context)
        return SymbolFunctions(
            call if self.trades is None else _with_trades(call, context),
            None if self.on_wake is None else _wake(self.on_wake, context),
            None if self.on_finish is None else _finish(self.on_finish, context),
            plain=self.on_ticks if plain else None,
        )


@named_options("batch_handler()")
def batch_handler(
    *,
    state: Any,
    params: Any = None,
    name: str | None = None,
    outputs: Mapping[str, Any] | None = None,
    on_wake: Callable[..., None] | None = None,
    on_finish: Callable[..., None] | None = None,
    on: On = "tick",
) -> Callable[[OnTicks], PythonHandler]:
    """Decorates a function that Python runs once per batch of one symbol's ticks.

    The function is ``on_ticks(symbol, ticks, row)`` or ``on_ticks(symbol, ticks, row, ctx)``. ``ticks`` is an array of
    shape (n,) of the symbol's records in order, read-only and valid during the call only. ``row`` is the symbol's row,
    a numpy record to write into, and ``ctx`` its ``Context``. The function runs under the GIL.

    Args:
        state: The row, declared as for ``strand.handler``.
        params: The parameters of each symbol, which ``ctx.params`` has, as for ``strand.handler``.
        name: The handler's name; None: that of the function.
        outputs: The dtypes of the records that ``ctx.emit`` emits, by name.
        on_wake: ``on_wake(symbol, time, row)``, or with ``ctx`` as the last argument, called at the timers that
            ``ctx.wake_at`` asks for. With it the function takes ``ctx``, and returns how many ticks it handled, those
            before its timer; None: all.
        on_finish: ``on_finish(symbol, row)``, or with ``ctx`` as the last argument, called at the end of a run, when
            everything has been handled.
        on: ``"tick"``, or ``"trade"``. Then the function is called as ``on_trades(symbol, trades, row)``, or with
            ``ctx``. ``trades`` is an array of ``strand.ticks.TRADE`` of what the feed says are trades with a price.
            Places in the batch, for ``emit`` and timers, and the number handled count those trades.

    Raises:
        ConfigurationError: If a row cannot be declared so, or if a function has other arguments. Also if the function
            takes no ``ctx`` beside an ``on_wake``.
    """
    emitted = output_dtypes(outputs)
    row = row_dtype(state)
    parameters, source = Parameters.declared(params), source_for(on)

    def wrap(function: OnTicks) -> PythonHandler:
        called = name or name_of(function)
        _check_arguments(called, function, f"on_{on}s", ("symbol", f"{on}s", "row"))
        _check_arguments(called, on_wake, "on_wake", ("symbol", "time", "row"))
        _check_arguments(called, on_finish, "on_finish", ("symbol", "row"))
        if on_wake is not None and not _takes(function, 4):
            raise ConfigurationError(
                f"handler {called!r}: with on_wake it needs a context to ask for timers: write on_ticks(symbol, ticks, "
                "row, ctx)"
            )
        return PythonHandler(
            name=called,
            state=row,
            on_ticks=function,
            on_wake=on_wake,
            on_finish=on_finish,
            params=parameters,
            outputs=emitted,
            trades=source,
        )

    return wrap


def _emits_nothing(records: Any, at: Any, output: str | None) -> None:
    """Stand-in for ``emit`` that drops the records."""


def _plain(on_ticks: Callable[..., Any], context: Context) -> Call:
    row = context.row

    def call(ticks: npt.NDArray[Any]) -> None:
        on_ticks(context.symbol, ticks, row)

    return call


def _with_context(on_ticks: Callable[..., Any], context: Context) -> Call:
    row = context.row
    if context.timer is None:

        def call(ticks: npt.NDArray[Any]) -> None:
            context.ticks = ticks
            on_ticks(context.symbol, ticks, row, context)

        return call

    def call_timed(ticks: npt.NDArray[Any]) -> Any:
        context.ticks = ticks
        return on_ticks(context.symbol, ticks, row, context)

    return call_timed


def _with_trades(on_trades: Call, context: Context) -> Call:
    """Calls with only the ticks that are trades, and converts the answer about trades to one about ticks."""

    def call(ticks: npt.NDArray[Any]) -> Any:
        places = np.flatnonzero(context.trades["size"] >= 0)
        if not len(places):
            return None
        trades, after = context.trades[places], context.after
        trades.flags.writeable = False
        context.places = places
        context.after = {name: rows[places] for name, rows in after.items()}
        try:
            said: Any = on_trades(trades)
        except BaseException as error:
            raise FailedOnTick(int(places[0])) from error
        finally:
            context.places, context.after = None, after
        timer = context.timer
        if timer is None:
            return None
        n = len(places)
        handled = n if said is None else said
        if not is_whole(handled) or not 0 <= handled <= n:
            raise ConfigurationError(
                f"handler {context.handler!r}: it returned {said!r} for {n} trades: return how many it handled, or None"
            )
        # Ticks that are no trades, up to the timer, or to the next trade, have been handled with those before them.
        if handled == np.searchsorted(places, timer.end):
            return timer.end
        return int(places[handled]) if handled < n else len(ticks)

    return call


def _wake(on_wake: Callable[..., None], context: Context) -> Callable[[int], None]:
    further = (context,) if _takes(on_wake, 4) else ()
    return lambda time: on_wake(context.symbol, time, context.row, *further)


def _finish(on_finish: Callable[..., None], context: Context) -> Callable[[], None]:
    further = (context,) if _takes(on_finish, 3) else ()
    return lambda: on_finish(context.symbol, context.row, *further)


def _takes(function: Callable[..., Any], arguments: int) -> bool:
    """Tells whether a function has at least ``arguments`` arguments that have to be given."""
    try:
        found = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # a built-in callable without a signature
        return False
    positional = [p for p in found if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return len([p for p in positional if p.default is p.empty]) >= arguments


def _check_arguments(name: str, function: Callable[..., Any] | None, what: str, given: tuple[str, ...]) -> None:
    """Refuses a function that cannot be called with ``given``, or with the context behind them where it takes that."""
    if function is None:
        return
    check_runs(name, function)
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(*given, *(("ctx",) if _takes(function, len(given) + 1) else ()))
    except TypeError:
        raise ConfigurationError(
            f"handler {name!r}: its arguments are {signature}; write {what}({', '.join(given)}), or add ctx at the end"
        ) from None
