"""Handlers in Python that numba compiles, with the loop over a batch around them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from strand.binding.native import NativeFunction, finish_pointer, pointer_from_address, wake_pointer
from strand.errors import ConfigurationError, MissingExtraError
from strand.handlers.base import FailedSet, TradesHandler
from strand.handlers.bound import BindContext, BoundNative
from strand.handlers.called_again import FailedCall, PlainClock, PlainFields, PlainOutputs
from strand.handlers.compile_errors import explain, reason_of_compiled
from strand.handlers.emitted import check_fields, output_dtypes
from strand.handlers.feed_trades import On, source_for
from strand.handlers.functions import check_runs, name_of
from strand.handlers.parameters import Parameters, are_shared, records_of_sets
from strand.handlers.state import SET, SETS, TURN, row_dtype, totals_in
from strand.handlers.tick_values import as_ticks
from strand.options import named_options
from strand.ticks import TICK, TRADE

__all__ = ["CompiledHandler", "arguments_of", "compile_function", "handler", "numba_module"]

#: Of a row and a tick, and what else it takes.
OnTick = Callable[..., None]
#: Occasion on which a function is called.
At = Literal["tick", "timer", "end"]
#: Puts what C calls around a function: of it, numba's types of its arguments, and their names. It and its signature.
Make = Callable[..., tuple[Callable[..., int], Any]]

#: Arguments after the first ones, by name and in any order.
FURTHER = ("params", "emit", "ctx")


@dataclass(frozen=True, kw_only=True, repr=False)
class CompiledHandler(TradesHandler):
    """A handler of functions in Python that numba compiles when a dispatcher is made: ``on_tick``, which is called with
    ticks or trades, and those for timers and the end of a run. ``cache``: their code is kept on disk."""

    on_tick: OnTick
    on_wake: Callable[..., None] | None = None
    on_finish: Callable[..., None] | None = None
    cache: bool = True
    #: Of each set of parameters; then the row is one record of each (strand.handlers.sets). Empty: there is but one.
    sets: tuple[Parameters, ...] = ()
    #: By record, key and row.
    _compiled: dict[Any, NativeFunction] = field(default_factory=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    def is_native(self) -> bool:
        return True

    @property
    def timers(self) -> bool:
        return self.on_wake is not None

    @property
    def ends(self) -> bool:
        return self.on_finish is not None

    @property
    def written(self) -> tuple[Callable[..., Any], ...]:
        return tuple(each for each in (self.on_tick, self.on_wake, self.on_finish) if each is not None)

    @property
    def sees_chain(self) -> bool:
        return True

    def compile(self, record: np.dtype[Any], key: str, row: np.dtype[Any]) -> NativeFunction:
        """The function the engine calls for records of a dtype and rows of a dtype. Raises ConfigurationError,
        MissingExtraError."""
        signature = (record, key, row)
        if signature not in self._compiled:
            self._compiled[signature] = _compile_all(self, record, key, row)
        return self._compiled[signature]

    def bind_row(self, context: BindContext, row: np.dtype[Any]) -> BoundNative:
        params = self._records(context)
        maker = context.maker_for(self.trades)
        function = self.compile(context.record if maker is None else TRADE, context.key, row)
        if params is not None:
            function = function._replace(params=params.tobytes())
        return BoundNative(function=function if maker is None else maker.around(function))

    def __getstate__(self) -> dict[str, Any]:
        """State for another process: machine code stays here."""
        return {**self.__dict__, "_compiled": {}}

    @property
    def shared(self) -> bool:
        """True if the parameters of each set are those of all symbols."""
        return are_shared(self.sets)

    def _records(self, context: BindContext) -> npt.NDArray[Any] | None:
        """A record of parameters a symbol, or one of each set a symbol; or where all symbols share them, a set."""
        if self.sets:
            return records_of_sets(self.sets, self.name, context.table)
        return None if self.params is None else self.params.records(self.name, context.table)

    def failed_set(
        self,
        symbol: str,
        row: npt.NDArray[Any],
        cause: BaseException | None,  # noqa: ARG002 - as those that Python runs
    ) -> FailedSet | None:
        place = int(row[TURN][0]) - 1 if self.sets else -1
        if place < 0:
            return None
        given = self.sets[place]
        values = {**given.values.get("*", {}), **given.values.get(symbol, {})}
        number = values.pop(SET)
        outputs = {name: _without_number(dtype) for name, dtype in self.outputs.items()}
        state = self.state[SETS].base
        alone = replace(self, state=state, params=given, sets=(), outputs=outputs, _compiled={})
        return FailedSet(number, values, alone, np.ascontiguousarray(row[SETS][:, place]))

    @property
    def has_lines(self) -> bool:
        return not self.sets  # it failed with none of them

    def call_again(self, call: FailedCall) -> None:
        if not self.has_lines:
            super().call_again(call)
        given, params = self._called_with(call), call.params_of(self.name, self.params)
        if self.trades is not None and given["size"][0] < 0:
            return  # a tick that is no trade
        further = {
            "params": None if params is None else PlainFields(params),
            "emit": PlainOutputs(lambda *_, **__: None, self.outputs),
            "ctx": PlainClock(int(given["ts_recv"][0]) if "ts_recv" in (given.dtype.names or ()) else 0),
        }
        names = arguments_of(self.on_tick)[2:]
        tick = next(as_ticks(given)) if given.dtype == TICK else PlainFields(given[0])
        _plain(self.on_tick)(PlainFields(call.row[0]), tick, *(further[name] for name in names))

    def reason_of(self, message: str) -> str:
        return reason_of_compiled(message)


def _without_number(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """A record that has the number of its set, without that."""
    return np.dtype([(name, dtype[name]) for name in dtype.names or () if name != SET])


@named_options("handler()")
def handler(
    *,
    state: Any,
    params: Any = None,
    name: str | None = None,
    cache: bool = True,
    outputs: Mapping[str, Any] | None = None,
    on_wake: Callable[..., None] | None = None,
    on_finish: Callable[..., None] | None = None,
    on: On = "tick",
) -> Callable[[OnTick], CompiledHandler]:
    """Decorates ``def on_tick(row, tick)``: numba compiles it, and the loop over a batch around it.

    ``row`` and ``tick`` are records: ``row.volume += tick.size``. The function only reads the tick. If the environment
    has ``NUMBA_DISABLE_JIT=1``, Python runs the functions as they are: slowly, and a debugger can stop in them
    (docs/handlers/numba.md).

    Args:
        state: The row's dtype, a list of (name, dtype) pairs, or an annotated class (docs/handlers/numba.md).
        params: The parameters of each symbol, declared like ``state``. The function then takes ``params``, a record
            that ``Handler.with_params`` fills.
        name: The handler's name; None: that of the function.
        cache: Whether to keep the compiled code on disk, where numba keeps its own.
        outputs: The dtypes of the records it emits, by name. A function that emits then takes ``emit``, which has a
            method per output with the record's fields: ``emit.bars(open=row.open, close=row.close)``.
        on_wake: A function of (row, time), compiled too and called at timers. It, or the decorated function, asks for
            them by an argument ``ctx``, with ``ctx.wake_at(ns)``; ``ctx.time`` is the feed's time.
        on_finish: A function of (row), compiled too and called at the end of a run. Like ``on_wake`` it may take
            ``params``, ``emit`` and ``ctx`` too.
        on: ``"tick"``, or ``"trade"``. Then the function is called as ``on_trade(row, trade)``, only for what the feed
            says is a trade with a price. ``trade`` is a record of ``strand.ticks.TRADE``.

    Raises:
        ConfigurationError: If a row or record cannot be declared so, or a field's name is no identifier of Python. When
            a dispatcher is made: if a function does not compile; it says where and why.
        MissingExtraError: When a dispatcher is made: if numba is not installed.
    """
    row = row_dtype(state)
    parameters = Parameters.declared(params)
    emitted = output_dtypes(outputs)
    source = source_for(on)

    def wrap(function: OnTick) -> CompiledHandler:
        called = name or name_of(function)
        declared = {"params": parameters is not None, "emit": bool(emitted), "ctx": on_wake is not None}
        _check_arguments(called, function, f"on_{on}(row, {on})", 2, declared)
        if on_wake is not None:
            _check_arguments(called, on_wake, "on_wake(row, time)", 2, declared)
        if on_finish is not None:
            _check_arguments(called, on_finish, "on_finish(row)", 1, declared | {"ctx": True})
        _check_taken(called, declared, [function, *(each for each in (on_wake, on_finish) if each is not None)])
        return CompiledHandler(
            name=called,
            state=row,
            on_tick=function,
            on_wake=on_wake,
            on_finish=on_finish,
            params=parameters,
            outputs=emitted,
            trades=source,
            cache=cache,
        )

    return wrap


def _plain(function: Any) -> Callable[..., Any]:
    """The Python function of one that numba has compiled already."""
    found: Callable[..., Any] = getattr(function, "py_func", function)
    return found


def arguments_of(function: Callable[..., Any]) -> list[str]:
    """The names of what one of a handler's functions takes."""
    return list(inspect.signature(_plain(function)).parameters)


def _check_arguments(
    name: str, function: Callable[..., Any], form: str, first: int, declared: Mapping[str, bool]
) -> None:
    """Raises ConfigurationError where a function takes what it cannot be given."""
    check_runs(name, function)
    given = arguments_of(function)
    further = given[first:]
    if len(given) < first or not set(further) <= set(FURTHER):
        raise ConfigurationError(
            f"handler {name!r}: its arguments are ({', '.join(given)}); write {form}, and after them only "
            f"{', '.join(FURTHER)}"
        )
    for argument, keyword in (("params", "params"), ("emit", "outputs"), ("ctx", "on_wake")):
        if argument in further and not declared[argument]:
            raise ConfigurationError(f"handler {name!r}: give {keyword}= to declare what its argument {argument} is")


def _check_taken(name: str, declared: Mapping[str, bool], functions: Sequence[Callable[..., Any]]) -> None:
    """Raises ConfigurationError for what is declared and none of a handler's functions takes. Only the first one, which
    is called with ticks, can ask for the first timer."""
    taken = [arguments_of(each) for each in functions]
    for argument, keyword in (("params", "params"), ("emit", "outputs"), ("ctx", "on_wake")):
        if declared[argument] and not any(argument in each for each in taken[: 1 if argument == "ctx" else None]):
            raise ConfigurationError(
                f"handler {name!r}: {keyword}= is for its argument {argument}, which it does not have: add it, or "
                f"leave {keyword}= out"
            )


def numba_module() -> Any:
    """numba. Raises MissingExtraError."""
    try:
        import numba
    except ImportError as error:
        raise MissingExtraError("compiling a handler", "numba", "numba") from error
    return numba


def _compile_all(handler: CompiledHandler, record: np.dtype[Any], key: str, row: np.dtype[Any]) -> NativeFunction:
    """The loop over a batch around ``handler.on_tick``, and what is called at timers and the end, as the engine calls
    them. Raises ConfigurationError, MissingExtraError."""
    numba_module()  # before what imports it
    from strand.handlers.compiled_loop import make_finish, make_loop, make_wake

    shared = handler.shared if handler.sets else None

    def one(function: Callable[..., Any] | None, first: Sequence[np.dtype[Any] | None], make: Make) -> Any:
        if function is None:
            return None
        known = dict(zip(arguments_of(function), first, strict=False))
        at: At = "tick" if function is handler.on_tick else "timer" if len(first) == 2 else "end"
        return compile_function(handler, function, known, key, make, at=at, cache=handler.cache, shared=shared)

    tick = one(handler.on_tick, (row, record), partial(make_loop, key=key))
    wake = one(handler.on_wake, (row, None), make_wake)
    finish = one(handler.on_finish, (row,), make_finish)
    return NativeFunction(
        pointer_from_address(tick.address),
        never_publishes=True,
        keep=(tick, wake, finish),
        wake=None if wake is None else wake_pointer(wake.address),
        finish=None if finish is None else finish_pointer(finish.address),
        yields=wake is not None,
    )


def compile_function(
    handler: TradesHandler,
    given: Callable[..., Any],
    known: Mapping[str, np.dtype[Any] | None],
    key: str,
    make: Make,
    *,
    at: At = "tick",
    cache: bool = True,
    shared: bool | None = None,
) -> Any:
    """Compiles a handler's function, as C calls it. ``known``: the records that it may take, by its names for them,
    None being a whole number. ``make``: makes the code around it that C calls. ``shared``: whether sets of parameters
    are the same for all symbols, None where there are no sets."""
    numba = numba_module()
    from strand.handlers.compiled_clock import clock_type
    from strand.handlers.compiled_emit import emit_type
    from strand.handlers.compiled_loop import FunctionCache, check_comparisons, entry_of
    from strand.handlers.compiled_sets import set_row_type
    from strand.handlers.compiled_ticks import record_type

    names, has_sets = arguments_of(given), shared is not None
    dtypes = {name: dtype for name, dtype in known.items() if dtype is not None}
    if handler.params is not None:
        dtypes["params"] = handler.params.dtype
    try:
        types = {name: record_type(dtype) for name, dtype in dtypes.items()}
        if handler.outputs:
            types["emit"] = emit_type(handler.outputs, at_timer=at != "tick", of_sets=has_sets)
        if has_sets:
            types[names[0]] = set_row_type(dtypes[names[0]], bool(shared))
    except Exception as error:
        raise ConfigurationError(f"handler {handler.name!r}: numba has no type for its records: {error}") from error
    types |= {name: numba.int64 for name, dtype in known.items() if dtype is None}
    types["ctx"] = clock_type(at, of_sets=has_sets)
    plain = _plain(given)
    layout = (
        shared,
        tuple(names),
        *known.items(),
        key,
        numba.config.BOUNDSCHECK,
        dtypes.get("params"),
        *handler.outputs.items(),
        *(total for dtype in dtypes.values() for total in totals_in(dtype)),
    )
    kept = FunctionCache.of(plain, layout) if cache else None
    one: Any = given if hasattr(given, "py_func") else numba.njit(plain, boundscheck=True)
    loop, signature = make(one, types, names)
    function = entry_of(loop, signature, kept)
    try:
        if kept is None or not kept.has(function._sig):
            # By itself first: what is wrong is then said of the function and not of the loop around it.
            signature_of_one = tuple(types[name] for name in names)
            one.compile(signature_of_one)
            check_comparisons(one.overloads[signature_of_one])
        function.compile()
    except Exception as error:
        # A field that does not exist is a KeyError to numba. From None: its own traceback says the same in sixty lines.
        raise explain(handler.name, plain, error, dtypes, handler.outputs) from None
    return function
