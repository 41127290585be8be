"""Handlers that Python runs: functions of a batch, and objects, one a symbol."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from types import FunctionType
from typing import Any, ClassVar, Final, overload

import numpy as np
import numpy.typing as npt

from strand.binding.books import TradeMaker
from strand.errors import ConfigurationError
from strand.fixed import dataclass
from strand.handlers.base import BindContext, BoundPython, SingleHandler, TickByTick
from strand.handlers.compiled.called_again import FailedCall, trade_of
from strand.handlers.context import Call, Context, FailedOnTick, SymbolFunctions, Timer
from strand.handlers.feed_trades import On, source_for
from strand.handlers.host import (
    STATES,
    Host,
    Watch,
    check_states,
    stand,
    tell_changes,
    watches_of,
)
from strand.handlers.state import Parameters, check_runs, name_of, output_dtypes, row_dtype
from strand.handlers.turns import BY_KIND, check_taken, sources_of, take_turns
from strand.options import named_options
from strand.validate import is_whole


def _bound(
    handler: HostedHandler, context: BindContext, maker: TradeMaker | None, by_tick: TickByTick | None
) -> BoundPython:
    """Binds a handler that Python runs: each symbol has functions of its own, from its first tick on. ``by_tick``: see
    ``BoundPython``."""
    functions_of = handler.shape.functions_in(handler, context)
    return BoundPython(
        name=handler.name,
        timers=handler.timers,
        ends=handler.ends,
        emitting=handler,
        host=lambda of_symbol, site: Host(of_symbol, functions_of(of_symbol), site, maker=maker),
        key=context.key,
        params=None if handler.params is None else handler.params.records(handler.name, context.table),
        by_tick=by_tick,
    )


OnTicks = Callable[[str, Any, Any], None] | Callable[[str, Any, Any, Context], None]


@dataclass(frozen=True, kw_only=True, repr=False)
class PythonHandler(SingleHandler):
    """A handler of functions that Python calls: ``on_ticks`` with a batch of ticks or trades, the others at timers and
    at the end of a run."""

    is_native = False
    fails_as_a_whole = True
    #: Methods that are called after another handler's row has changed.
    needs_states: ClassVar[tuple[str, ...]] = ()

    on_ticks: Callable[..., Any]

    @property
    def written(self) -> tuple[Callable[..., Any], ...]:
        return (self.on_ticks, *super().written)

    @cached_property
    def _is_plain(self) -> bool:
        """True if ``on_ticks`` takes no context."""
        return not _takes(self.on_ticks, 4)

    def call_again(self, call: FailedCall) -> None:
        self.shape.check_again(self.name)
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
            context.trades = trade_of(self.trades, call)
        if timer is not None:
            timer.begin(call.tick["ts_recv"])
        try:
            self.functions_of(context).ticks(call.tick)
        except FailedOnTick as failed:
            raise (failed.__cause__ or failed) from None

    def bind(self, context: BindContext) -> BoundPython:
        return _bound(self, context, context.maker_for(self.trades), None)

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
        called = name_of(function, name)
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


#: All methods that are called where they are defined.
METHODS: Final = (*BY_KIND, *STATES, "on_trade", "on_day", "on_tick", "on_start", "on_wake", "on_finish", "on_stop")

#: State of an object handler that declares none.
OBJECT_ROW = np.dtype([("ticks", "<i8")])


@dataclass(frozen=True, kw_only=True, repr=False)
class ObjectHandler(SingleHandler):
    """A handler of objects, one per symbol in the plain shape. ``factory``: their class, or a function that makes them.
    ``counts``: the row is ``OBJECT_ROW``, in which ticks are counted for them. ``calls``: functions of a user's that
    the objects call, where their class is Strand's."""

    is_native = False

    factory: Callable[..., Any]
    counts: bool = False
    calls: tuple[Callable[..., Any], ...] = ()

    @property
    def needs_ticks(self) -> bool:
        return True

    @property
    def timers(self) -> bool:
        return hasattr(_made_by(self.factory), "on_wake")

    @property
    def ends(self) -> bool:
        return hasattr(_made_by(self.factory), "on_finish")

    @property
    def needs_states(self) -> tuple[str, ...]:
        """Methods that are called after another handler's row has changed."""
        return tuple(method for method in STATES if hasattr(self.factory, method))

    @cached_property
    def _settled(self) -> set[type]:
        """Classes of objects that have been checked for all."""
        return set()

    @property
    def written(self) -> tuple[Callable[..., Any], ...]:
        return self.calls or (self.factory,)

    def bind(self, context: BindContext) -> BoundPython:
        check_states(self.name, self.needs_states, {})
        maker = context.maker_for(self.trades)
        takes_turns = self.shape.in_turn and not self.timers
        return _bound(self, context, maker, TickByTick(maker, self.counts) if takes_turns else None)

    def call_again(self, call: FailedCall) -> None:
        self.shape.check_again(self.name)
        context, thing = call.context, call.object
        if context is None or thing is None:
            raise ConfigurationError(
                f"replay: handler {self.name!r} has no object of {call.symbol}: it failed at its start"
            )
        trades = call.tick if self.trades is None else trade_of(self.trades, call)
        with context.rehearsing(int(call.tick["ts_recv"][0]), call.row[0], call.after):
            for source in sources_of(thing):
                taken, calls_of = source.taking
                places, values = taken(call.tick, trades)
                calls = calls_of(getattr(thing, source.method), values)
                for _ in places:
                    next(calls)
            for method, value in context.told:
                method(value)

    def functions_of(self, context: Context) -> SymbolFunctions:
        """Functions to call for the symbol of a context."""
        return functions_of(made_by(self), self.name, self.counts, context)


HostedHandler = PythonHandler | ObjectHandler


@overload
def object_handler(cls: Callable[..., Any], /) -> ObjectHandler: ...
@overload
def object_handler(
    *, state: Any = None, params: Any = None, name: str | None = None, outputs: Mapping[str, Any] | None = None
) -> Callable[[Callable[..., Any]], ObjectHandler]: ...
@named_options("object_handler()")
def object_handler(
    cls: Callable[..., Any] | None = None,
    /,
    *,
    state: Any = None,
    params: Any = None,
    name: str | None = None,
    outputs: Mapping[str, Any] | None = None,
) -> ObjectHandler | Callable[[Callable[..., Any]], ObjectHandler]:
    """Makes a handler of a class ``cls``: each symbol has an object of it, from its first tick on.

    A class may also be given as a handler as it is. ``cls`` may be a ``functools.partial`` of a class, too, or another
    function that makes objects. The objects of such a function cannot have ``on_wake``, ``on_finish`` or ``on_trade``.

    Strand calls those of these methods that are defined. Ticks are ``strand.Tick``, trades ``strand.Trade``.
    A method for either may name fields of theirs as its arguments instead, such as ``on_trade(size, price)``.

    - ``on_start(ctx)``: before the first tick, with the symbol's ``Context``.
    - ``on_tick(tick)``: for each tick; ``on_order``, ``on_quote`` and ``on_status`` for those of their kind.
    - ``on_trade(trade)``: for what the feed says is a trade with a price.
    - ``on_day(tick)``: before ``on_tick`` and those that follow it, for a clear record that begins a new day.
    - ``on_book(top)``, ``on_levels(top)``, ``on_bar(bar)``: after the top of a book before it in a chain, the levels in
      the book's row, or bars have changed, by a tick, a timer or the end.
    - ``on_wake(time)``: at the timers that ``ctx.wake_at`` asks for.
    - ``on_finish()``: at the end of a run, when everything has been handled.
    - ``on_stop()``: when the run has ended, in whatever way.

    Args:
        state: The row, which ``ctx.row`` has, declared as for ``strand.handler``. None: a row counts the ticks.
        params: The parameters of each symbol, which ``ctx.params`` has, as for ``strand.handler``.
        name: The handler's name; None: that of the class.
        outputs: The dtypes of the records that ``ctx.emit`` emits on behalf of the current tick, by name.

    Raises:
        ConfigurationError: If the class has none of the methods, or another one that begins with ``on_``. Also if a row
            or record cannot be declared so.
    """
    row = OBJECT_ROW if state is None else row_dtype(state)
    parameters = Parameters.declared(params)
    emitted = output_dtypes(outputs)

    def wrap(factory: Callable[..., Any]) -> ObjectHandler:
        called = name_of(factory, name)
        if isinstance(factory, type):
            _check_methods(called, factory)
        return ObjectHandler(
            name=called,
            state=row,
            factory=factory,
            counts=state is None,
            params=parameters,
            outputs=emitted,
            trades=source_for("trade" if hasattr(_made_by(factory), "on_trade") else "tick"),
        )

    return wrap if cls is None else wrap(cls)


def _made_by(factory: Callable[..., Any]) -> Any:
    """The class of the objects, where that can be told beforehand."""
    while isinstance(factory, partial):
        factory = factory.func
    return factory if isinstance(factory, type) else None


def is_object_class(like: object) -> bool:
    """Tells whether an object is a class whose objects are meant to be handlers: it has a method that begins with
    ``on_``."""
    return isinstance(like, type) and any(method.startswith("on_") for method in dir(like))


def _check_methods(name: str, thing: object) -> None:
    defined = [method for method in METHODS if callable(getattr(thing, method, None))]
    if not defined:
        raise ConfigurationError(f"handler {name!r}: it has none of the methods {', '.join(METHODS)}")
    for method in defined:
        check_runs(name, getattr(thing, method))
    check_taken(name, thing)
    strange = [other for other in dir(thing) if other.startswith("on_") and other not in METHODS]
    if strange:
        raise ConfigurationError(f"handler {name!r}: {strange[0]!r} is never called; there are {', '.join(METHODS)}")


def _check_told(name: str, factory: Callable[..., Any], thing: object) -> None:
    """Checks that a handler's objects have only the methods that its class was known to have before the run."""
    for method in ("on_wake", "on_finish", "on_trade"):
        if hasattr(thing, method) and not hasattr(_made_by(factory), method):
            raise ConfigurationError(
                f"handler {name!r}: its objects have {method}, which must be known before the run: give the class, or "
                "a functools.partial of it"
            )


def made_by(handler: ObjectHandler) -> Any:
    """Makes an object of a handler. Raises ConfigurationError if it lacks a method that the handler's class has."""
    thing = handler.factory()
    if type(thing) in handler._settled and not any(name.startswith("on_") for name in getattr(thing, "__dict__", ())):
        return thing
    _check_methods(handler.name, thing)
    _check_told(handler.name, handler.factory, thing)
    if _is_settled(type(thing)):
        handler._settled.add(type(thing))
    return thing


def _is_settled(kind: type) -> bool:
    """Tells whether objects of a class have its methods, but for those that an object has of its own."""
    methods = [inspect.getattr_static(kind, name) for name in dir(kind) if name.startswith("on_")]
    return (
        all(isinstance(method, FunctionType | staticmethod | classmethod) for method in methods)
        and not hasattr(kind, "__getattr__")
        and inspect.getattr_static(kind, "__getattribute__") is object.__getattribute__
    )


def functions_of(thing: Any, name: str, counts: bool, context: Context) -> SymbolFunctions:
    """Functions to call with the ticks of a symbol, for the symbol's object."""
    context.at = 0
    watches = watches_of(thing, name, context.states)
    if hasattr(thing, "on_start"):
        context.starts = True
        thing.on_start(context)
        context.starts = False
    call = _ObjectCall(thing, context, watches, counts).call
    wake, finish = getattr(thing, "on_wake", None), getattr(thing, "on_finish", None)
    told = (partial(tell, watches, context) if watches else None for tell in (tell_changes, stand))
    return SymbolFunctions(call, wake, finish, next(told), stand=next(told), object=thing)


class _ObjectCall:
    """Calls an object's methods with the ticks of its symbol.

    Each thing that a symbol has lets the garbage collector look at all of them sooner, so these are few."""

    __slots__ = ("_context", "_counted", "_takes", "_watches")

    def __init__(self, thing: Any, context: Context, watches: Sequence[Watch], counts: bool) -> None:
        self._context = context
        self._watches = tuple(watches)
        self._takes = tuple((getattr(thing, source.method), *source.taking) for source in sources_of(thing))
        #: In the memory of the row. To write to a field of a record takes as long as some calls.
        self._counted = np.asarray(context.row)["ticks"].data if counts else None

    def call(self, ticks: npt.NDArray[Any]) -> int | None:
        """As ``SymbolFunctions.ticks``. Raises FailedOnTick."""
        context, counted = self._context, self._counted
        context.ticks, timer, trades, turns = ticks, context.timer, context.trades, []
        for method, taken, calls_of in self._takes:
            places, values = taken(ticks, trades)
            turns.append((places, calls_of(method, values)))
        changes: Sequence[tuple[Any, Sequence[int], Sequence[Any]]] = ()
        if self._watches:
            changes = [(watch.method, *watch.look(context.after)) for watch in self._watches]
            turns += [(places, map(method, values)) for method, places, values in changes]
        try:
            take_turns(context, turns, timer)
        except FailedOnTick as failed:
            i = failed.handled
            context.told = [
                (method, value)
                for method, places, values in changes
                for at, value in zip(places, values, strict=True)
                if at == i
            ]
            self._stand(min(i, len(ticks) - 1))
            if counted is not None:
                counted[()] += i
            raise
        handled = len(ticks) if timer is None else timer.end
        self._stand(handled - 1)
        if counted is not None:
            counted[()] += handled
        return None if handled == len(ticks) else handled

    def _stand(self, at: int) -> None:
        for watch in self._watches:
            watch.stand(self._context.after, at)
