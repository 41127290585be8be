"""Handlers in Python that numba compiles, and numba's errors in the words of their author."""

from __future__ import annotations

import builtins
import dis
import inspect
import linecache
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from functools import partial
from types import CodeType
from typing import Any, Literal

import numpy as np

from strand.binding.native import NativeFunction, finish_pointer, pointer_from_address, wake_pointer
from strand.errors import ConfigurationError, MissingExtraError
from strand.fixed import dataclass
from strand.handlers.base import BindContext, BoundNative, SingleHandler
from strand.handlers.compiled.called_again import FailedCall, PlainClock, PlainFields, PlainOutputs, PlainRow, trade_of
from strand.handlers.context import Context, as_ticks
from strand.handlers.feed_trades import On, source_for
from strand.handlers.python_handlers import ObjectHandler
from strand.handlers.state import (
    Parameters,
    check_attributes,
    check_runs,
    name_of,
    output_dtypes,
    padded,
    row_dtype,
    totals_in,
)
from strand.options import named_options
from strand.ticks import TICK, TRADE
from strand.validate import yes_or_no

_NOISE = re.compile(r"^(Failed in \w+ mode pipeline|During:|There are \d+ candidate|File \"|\s*<source elided>)")
_PLACE = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+)|(?:at|from) (?P<path>\S+) \((?P<at>\d+)\)')

#: Complaints of numba (patterns), with the cure of each.
_HINTS = (
    (r"name '\w+' is not defined", "define it at the top of the module, before the handler"),
    (
        r"Untyped global name '(\w+)'.*<class 'function'>",
        "a function that a handler calls has to be compiled too: decorate {0} with @numba.njit",
    ),
    (
        r"Untyped global name '(\w+)'",
        "a handler sees its module's numbers, strings, arrays and compiled functions, as they are when it is compiled",
    ),
    (
        r"Cannot unify",
        "a variable has one type throughout: make both branches give the same one",
    ),
    (
        r"Cannot cast .* to |No conversion from",
        "the field has another type than what is stored into it: convert it, or declare the field differently",
    ),
    (
        r"imprecise type|list\(undefined\)",
        "an empty list or dict has no type; keep a fixed-size array in the row instead",
    ),
    (r"IMPORT_NAME", "import at the top of the module"),
    (
        r"context manager|opcode|bytecode|construct is not supported|not supported",
        "numba compiles numbers, arrays and loops; for the rest of Python use @strand.batch_handler",
    ),
    (
        r"_wake_at\(ctx\((?:tick|timer)\), float",
        "wake_at takes whole nanoseconds: numba makes floats where u8 and i8 mix; np.int64(...) converts",
    ),
    (r"bytes are compared with text", 'write b"A" in place of "A"'),
    (r"_wake_at\(ctx\(end\)", "the run has ended, and its timers with it"),
    (r"Invalid use of", "the types it is called with do not fit it"),
)


def explain(
    name: str,
    function: Callable[..., Any],
    error: BaseException,
    records: Mapping[str, np.dtype[Any]],
    outputs: Mapping[str, np.dtype[Any]],
) -> ConfigurationError:
    """The error to raise: the handler, the line of its source, the reason, and the cure.

    ``records``: the dtypes of the handler's arguments, by their names; ``outputs``: those of what it emits.
    """
    code = function.__code__
    field = _missing_field(error)
    if field is not None:
        argument, line = _use_of(code, field)
        known = {k: d for k, d in records.items() if argument in (None, k)} or dict(records)
        # The record may be one within the row, such as that of an earlier handler of the chain.
        known |= {
            f"{k}.{n}": d[n].base for k, d in known.items() for n in d.names or () if n != name and d[n].base.names
        }
        place = f"{code.co_filename}:{line or code.co_firstlineno}"
        what = f"{argument or 'a record'} has no field {field!r}"
        there = "; ".join(f"{k} has {', '.join(d.names or ())}" for k, d in known.items())
        return ConfigurationError(f"handler {name!r} does not compile: {place}: {what}; {there}")
    text = str(error)
    file, line = _place(error, text) or (code.co_filename, code.co_firstlineno)
    if (emits := _wrong_emit(text, outputs)) is not None:
        return ConfigurationError(f"handler {name!r} does not compile: {file}:{line}: {emits}")
    reason = _reason(text) or type(error).__name__
    source = linecache.getline(file, line).strip()
    hint = next(
        (advice.format(*found.groups()) for pattern, advice in _HINTS if (found := re.search(pattern, text))), ""
    )
    return ConfigurationError(
        f"handler {name!r} does not compile: {file}:{line}: {reason}"
        + (f" ({hint})" if hint else "")
        + (f", in: {source}" if source else "")
    )


def _missing_field(error: BaseException) -> str | None:
    """A field that is not there is a bare KeyError to numba where it is an attribute."""
    if type(error) is builtins.KeyError and error.args and isinstance(error.args[0], str):
        return error.args[0]
    found = re.search(
        r"Field '(\w+)' was not found in record|Unknown attribute '(\w+)' of type (?:Nested)?Record", str(error)
    )
    return None if found is None else found[1] or found[2]


def _wrong_emit(text: str, outputs: Mapping[str, np.dtype[Any]]) -> str | None:
    """Fault in a use of ``emit``, in the user's own names: numba's names for its type and methods are unknown to
    users."""
    takes = {output: f"emit.{output}({', '.join(dtype.names or ())})" for output, dtype in outputs.items()}
    if found := re.search(r"Unknown attribute '(\w+)' of type emit\(", text):
        return f"emit has no output {found[1]!r}; write {' or '.join(takes.values())}"
    if re.search(r"Invalid use of emit\(", text):
        return f"emit is called by the name of an output; write {' or '.join(takes.values())}"
    if (found := re.search(r">>> (\w+)\(emit\(", text)) and found[1] in takes:
        types = ", ".join(str(outputs[found[1]][field]) for field in outputs[found[1]].names or ())
        return f"what emit.{found[1]} is given does not fit; write {takes[found[1]]}, of types {types}"
    return None


def _instructions(code: CodeType) -> Iterator[dis.Instruction]:
    yield from dis.get_instructions(code)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _instructions(constant)


def _use_of(code: CodeType, field: str) -> tuple[str | None, int | None]:
    """The local variable whose field it was taken for, and the line."""
    variable: str | None = None
    for instruction in _instructions(code):
        if instruction.opname.startswith("LOAD_FAST") and isinstance(instruction.argval, str):
            variable = instruction.argval
        elif instruction.argval == field and instruction.opname != "LOAD_FAST":
            line = instruction.positions.lineno if instruction.positions is not None else None
            arguments = code.co_varnames[: code.co_argcount]
            return (variable if variable in arguments else None), line
    return None, None


def _place(error: BaseException, text: str) -> tuple[str, int] | None:
    """The innermost place in the source; numba names files in a message by their last part only."""
    loc = getattr(error, "loc", None)
    # Code made for a handler, as a method of emit, has no file.
    found = next((place for place in _PLACE.finditer(text) if "<string>" not in place.groups()), None)
    if found is None:
        return (loc.filename, loc.line) if loc is not None else None
    file, line = found["file"] or found["path"], int(found["line"] or found["at"])
    if loc is not None and loc.filename.endswith(file):
        file = loc.filename
    return file, line


def _reason(text: str) -> str:
    """The first thing said that is about the code, in one line."""
    lines = [line.strip() for line in text.splitlines() if not _NOISE.match(line)]
    kept = []
    for line in lines:
        if line:
            kept.append(line)
        if line.startswith(">>>") or (line and not line.endswith(":")):
            break
    reason = re.sub(r"\s*Raised from .*$|: i\d+\*? null$", "", " ".join(kept))
    reason = re.sub(r"No implementation of function .* found for signature: >>> (.*)", r"there is no \1", reason)
    return re.sub(r"Record\([^)]*\)", "a record", reason).rstrip(". ")


#: Of a row and a tick, and what else it takes.
OnTick = Callable[..., None]
#: Occasion on which a function is called.
At = Literal["tick", "timer", "end"]
#: Puts what C calls around a function: of it, numba's types of its arguments, and their names. It and its signature.
Make = Callable[..., tuple[Callable[..., int], Any]]

#: Arguments after the first ones, by name and in any order.
FURTHER = ("params", "emit", "ctx")


@dataclass(frozen=True, kw_only=True, repr=False)
class CompiledHandler(SingleHandler):
    """A handler of functions in Python that numba compiles when a dispatcher is made: ``on_tick``, which is called with
    ticks or trades, and those for timers and the end of a run. ``cache``: their code is kept on disk."""

    is_compiled = True

    on_tick: OnTick
    cache: bool = True
    #: By record, key and row.
    _compiled: dict[Any, NativeFunction] = field(default_factory=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        records = {"state": self.state, **{f"{name}_state": dtype for name, dtype in self.shape.states.items()}}
        records |= {f"outputs.{name}": dtype for name, dtype in self.outputs.items()}
        if self.params is not None:
            records["params"] = self.params.dtype
        for called, dtype in records.items():
            check_attributes(called, dtype, f"handler {self.name!r}")

    @property
    def written(self) -> tuple[Callable[..., Any], ...]:
        return (self.on_tick, *super().written)

    def compile(self, record: np.dtype[Any], key: str, row: np.dtype[Any]) -> NativeFunction:
        """The function the engine calls for records of a dtype and rows of a dtype. Raises ConfigurationError,
        MissingExtraError."""
        signature = (record, key, row)
        if signature not in self._compiled:
            self._compiled[signature] = _compile_all(self, record, key, row)
        return self._compiled[signature]

    def bind(self, context: BindContext) -> BoundNative:
        row = padded(self.state, context.row_stride) if context.row is None else context.row
        params = self.shape.records(self, context.table)
        memory, maker = self.shape.memory_in(self, context), context.maker_for(self.trades)
        function = self.compile(context.record if maker is None else TRADE, context.key, row)
        if memory is not None:
            from strand.handlers.compiled.loop import tables_of

            tables = tables_of(memory.members.spans, memory.members.entries, memory.rows, params)
            function = function._replace(params=tables, keep=(function.keep, memory, params))
        elif params is not None:
            function = function._replace(params=params.tobytes())
        return BoundNative(function=function if maker is None else maker.around(function))

    def __getstate__(self) -> dict[str, Any]:
        """State for another process: machine code stays here."""
        return {**self.__dict__, "_compiled": {}}

    def call_again(self, call: FailedCall) -> None:
        self.shape.check_again(self.name)
        given, params = trade_of(self.trades, call), call.params_of(self.name, self.params)
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


class _Plain:
    """The functions of a compiled handler, which Python runs as they are for one symbol."""

    def __init__(self, handler: CompiledHandler) -> None:
        self._handler = handler

    def on_start(self, context: Context) -> None:
        handler = self._handler
        further = {
            "params": None if context.params is None else PlainFields(context.params),
            "emit": PlainOutputs(context.emit, handler.outputs),
            "ctx": context,
        }
        self._row = PlainRow(context.row, partial(_before, context))
        found: list[Any] = [
            None if one is None else partial(one, **{name: further[name] for name in arguments_of(one)[first:]})
            for one, first in ((handler.on_tick, 2), (handler.on_wake, 2), (handler.on_finish, 1))
        ]
        self._run, self._wake, self._finish = found

    def run(self, tick: Any) -> None:
        """``on_tick`` or ``on_trade``."""
        self._run(self._row, tick)

    def wake(self, time: int) -> None:
        """``on_wake``."""
        self._wake(self._row, time)

    def finish(self) -> None:
        """``on_finish``."""
        self._finish(self._row)


def _before(context: Context, name: str) -> Any:
    """The record of a handler before it in the chain."""
    if name not in context.states:
        return None
    return context.after[name][0 if context.at is None or context.now is not None else context.at]


def uncompiled(handler: CompiledHandler) -> ObjectHandler:
    """Same handler, run by Python tick by tick, as ``NUMBA_DISABLE_JIT=1`` asks for. A debugger can stop in it."""
    plain: Any = handler.shape.plain or _Plain
    methods: dict[str, Any] = {"on_tick" if handler.trades is None else "on_trade": plain.run}
    if handler.on_wake is not None:
        methods["on_wake"] = _Plain.wake
    if handler.on_finish is not None:
        methods["on_finish"] = _Plain.finish
    same = ("name", "state", "shape", "params", "outputs", "trades", "size_unit", "origin")
    return ObjectHandler(
        factory=partial(type(handler.name, (plain,), methods), handler),
        calls=handler.written,
        **{name: getattr(handler, name) for name in same},
    )


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
    yes_or_no("cache", cache)

    def wrap(function: OnTick) -> CompiledHandler:
        called = name_of(function, name)
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
            raise ConfigurationError(
                keyword, f"give {keyword}= to declare what its argument {argument} is", where=f"handler {name!r}"
            )


def _check_taken(name: str, declared: Mapping[str, bool], functions: Sequence[Callable[..., Any]]) -> None:
    """Raises ConfigurationError for what is declared and none of a handler's functions takes. Only the first one, which
    is called with ticks, can ask for the first timer."""
    taken = [arguments_of(each) for each in functions]
    for argument, keyword in (("params", "params"), ("emit", "outputs"), ("ctx", "on_wake")):
        if declared[argument] and not any(argument in each for each in taken[: 1 if argument == "ctx" else None]):
            raise ConfigurationError(
                keyword,
                f"{keyword}= is for its argument {argument}, which it does not have: add it, or leave {keyword}= out",
                where=f"handler {name!r}",
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
    from strand.handlers.compiled.loop import make_finish, make_loop, make_wake

    def one(function: Callable[..., Any] | None, first: Sequence[np.dtype[Any] | None], make: Make) -> Any:
        if function is None:
            return None
        known = dict(zip(arguments_of(function), first, strict=False))
        at: At = "tick" if function is handler.on_tick else "timer" if len(first) == 2 else "end"
        return compile_function(handler, function, known, key, make, at=at, cache=handler.cache)

    if handler.shape.kind:
        tick = _compile_for_shared_rows(handler, record, key, row)
    else:
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


def _compile_for_shared_rows(handler: CompiledHandler, record: np.dtype[Any], key: str, row: np.dtype[Any]) -> Any:
    """The loop over a batch that calls ``handler.on_tick`` for each shared row of a tick's symbol."""
    from strand.handlers.compiled.loop import make_loop_of_shared_rows

    tick = "tick" if handler.trades is None else "trade"
    known = {"row": row, tick: record, **handler.shape.states, "member": None, "index": None}
    counts, shared = handler.shape.counts is not None, handler.shape.kind
    make = partial(make_loop_of_shared_rows, key=key, tick_name=tick, shared=shared, counts=counts)
    return compile_function(handler, handler.on_tick, known, key, make, cache=handler.cache)


def compile_function(
    handler: CompiledHandler,
    given: Callable[..., Any],
    known: Mapping[str, np.dtype[Any] | None],
    key: str,
    make: Make,
    *,
    at: At = "tick",
    cache: bool = True,
) -> Any:
    """Compiles a handler's function, as C calls it. ``known``: the records that it may take, by its names for them,
    None being a whole number. ``make``: makes the code around it that C calls."""
    numba = numba_module()
    from strand.handlers.compiled.context import clock_type, emit_type, record_type
    from strand.handlers.compiled.loop import FunctionCache, check_comparisons, entry_of, set_row_type

    names, shared = arguments_of(given), handler.shape.shared_params
    has_sets = shared is not None
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
