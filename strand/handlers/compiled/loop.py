"""The loops that call a compiled handler: for a symbol, shared rows, or sets of parameters. Imported with numba
only."""

from __future__ import annotations

import glob
import hashlib
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import FunctionType
from typing import Any, Final, Self

import numba
import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba.core.caching import FunctionCache as NumbaCache
from numba.core.caching import IndexDataCacheFile
from numba.core.ccallback import CFunc
from numba.core.errors import TypingError

from strand.binding.native import HANDLER_LAYOUT
from strand.handlers.compiled.code_references import add_code, referred_to
from strand.handlers.compiled.context import (
    AttributeTemplate,
    ask,
    cgutils,
    clock_at,
    emit_at,
    first_of,
    forget_yield,
    infer_getattr,
    intrinsic,
    lower_getattr_generic,
    lower_setattr_generic,
    models,
    record_type,
    register_model,
    signature,
    types,
    yields,
)
from strand.handlers.shared_rows import MEMBER, SPAN
from strand.handlers.state import SET, SETS, TIMERS, TURN


class SetRow(types.Type):
    """``own``: the record of a set. ``whole``: the symbol's, which the sets lie in, and the rows of those before.
    ``count``: of the sets. ``shared``: each set's parameters are those of all symbols."""

    def __init__(self, own: Any, whole: Any, offset: int, count: int, shared: bool) -> None:
        self.own, self.whole, self.offset, self.count, self.shared = own, whole, offset, count, shared
        super().__init__(name=f"set({own}, {whole}, {offset}, {count}, {shared})")

    def owner(self, field: str) -> Any:
        """The record that has a field. Raises KeyError, as records do."""
        if field in self.own.fields:
            return self.own
        if field in (SETS, TIMERS, TURN):
            raise KeyError(field)
        self.whole.fields[field]
        return self.whole


@register_model(SetRow)
class _SetRowModel(models.StructModel):
    def __init__(self, dmm: Any, fe_type: Any) -> None:
        super().__init__(dmm, fe_type, [("own", fe_type.own), ("whole", fe_type.whole)])


def set_row_type(row: np.dtype[Any], shared: bool) -> SetRow:
    """``row``: a symbol's, with a field of all its sets; beside it, in a chain, the rows of those before."""
    assert row.fields is not None
    sets, offset = row.fields[SETS][:2]
    return SetRow(record_type(sets.base), record_type(row), offset, sets.shape[0], shared)


@infer_getattr
class _SetRowFields(AttributeTemplate):
    key = SetRow

    def generic_resolve(self, row: Any, field: str) -> Any:
        return row.owner(field).typeof(field)


def _record(context: Any, builder: Any, row: Any, value: Any, field: str) -> tuple[Any, Any]:
    """The record of a row that has a field: its type, and where it is."""
    found = cgutils.create_struct_proxy(row)(context, builder, value=value)
    owner = row.owner(field)
    return owner, found.own if owner is row.own else found.whole


@lower_getattr_generic(SetRow)
def _read(context: Any, builder: Any, row: Any, value: Any, field: str) -> Any:
    owner, record = _record(context, builder, row, value, field)
    return context.get_getattr(owner, field)(context, builder, owner, record, field)


@lower_setattr_generic(SetRow)
def _write(context: Any, builder: Any, sig: Any, arguments: Any, field: str) -> Any:
    row, given = sig.args
    owner, record = _record(context, builder, row, arguments[0], field)
    store = context.get_setattr(field, signature(types.void, owner, given))
    return store(builder, (record, arguments[1]))


def set_of(row: SetRow) -> Any:
    """A function of (a symbol's row, number): the row of that set."""

    @intrinsic
    def of(typingctx: Any, whole: Any, number: Any) -> Any:
        def generate(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
            record, i = arguments
            address = _address(builder, record, row.offset, i, row.own.size)
            value = cgutils.create_struct_proxy(row)(context, builder)
            value.own, value.whole = builder.inttoptr(address, context.get_value_type(row.own)), record
            return value._getvalue()

        return row(row.whole, types.intp), generate

    return of


def timer_of(row: SetRow) -> Any:
    """A function of (a symbol's row, number): the address of that set's timer."""

    @intrinsic
    def of(typingctx: Any, whole: Any, number: Any) -> Any:
        def generate(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
            record, i = arguments
            return _address(builder, record, row.whole.offset(TIMERS), i, 8)

        return types.int64(row.whole, types.intp), generate

    return of


def _address(builder: Any, record: Any, offset: int, i: Any, size: int) -> Any:
    """Address of element i, of ``size`` bytes each, of an array in a record."""
    word = ir.IntType(64)
    first = builder.add(builder.ptrtoint(record, word), ir.Constant(word, offset))
    return builder.add(first, builder.mul(i, ir.Constant(word, size)))


#: Changes with the loops, and what is checked before: code of others is compiled again.
LOOP = 11


@intrinsic
def record_at(typingctx: Any, base: Any, index: Any) -> Any:
    """The record at an index from a pointer to the first. An array's view of it would check and convert each time."""
    record = base.dtype

    def generate(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        at, i = arguments
        word = context.get_value_type(types.intp)
        offset = builder.mul(i, context.get_constant(types.intp, record.size))
        address = builder.add(builder.ptrtoint(at, word), offset)
        return builder.inttoptr(address, context.get_value_type(record))

    return record(base, types.intp), generate


def _params_at(record: Any) -> Any:
    """A function of (context, key): the symbol's record in the array that ``sd_context.params`` points to."""

    @intrinsic
    def params_at(typingctx: Any, context_at: Any, key: Any) -> Any:
        def generate(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
            at, i = arguments
            word = context.get_value_type(types.intp)
            first = builder.load(builder.bitcast(at, word.as_pointer()))
            offset = builder.mul(i, context.get_constant(types.intp, record.size))
            return builder.inttoptr(builder.add(first, offset), context.get_value_type(record))

        return record(context_at, types.intp), generate

    return params_at


#: Arguments of a handler's functions behind the first ones, by name, with the code that makes each.
_FURTHER = {
    "params": "params_at(context, whose)",
    "emit": "emit_at(context, i, number)",
    "ctx": "clock_at(context, i, key, timer)",
}


def _step(one: Any, arguments: Sequence[str], records: Mapping[str, Any], at: str) -> Any:
    """A function of (symbol's row, tick or time, context, key, place in the batch) that calls ``one``, a function of
    the handler, with all its arguments. ``at``: a "tick", a "timer", or the "end". If a row has sets, it calls ``one``
    for each set; at a timer, for the sets whose timer is due. The handler's timer is the first of the sets' timers."""
    first = ["row"] if at == "end" else ["row", "what"]
    row, names = records[arguments[0]], arguments[len(first) :]
    space: dict[str, Any] = {"one": one}
    if "params" in records:
        space["params_at"] = _params_at(records["params"])
    if "emit" in names:
        space["emit_at"] = emit_at(records["emit"])
    if "ctx" in names:
        space["clock_at"] = clock_at(records["ctx"])
    call = f"one({', '.join([*first, *(_FURTHER[name] for name in names)])})"
    lines = ["row, whose, number, timer = symbol, key, 0, 0", call]
    if isinstance(row, SetRow):
        space |= {"set_of": set_of(row), "timer_of": timer_of(row), "clock_at": clock_at(records["ctx"])}
        space |= {"first_of": first_of, "ask": ask, "np": np}
        lines = _lines_of_sets(row, call, at, emits="emit" in names)
    exec("def step(symbol, what, context, key, i):\n" + "".join(f"    {line}\n" for line in lines), space)
    return numba.njit(space["step"])


def _lines_of_sets(row: Any, call: str, at: str, *, emits: bool) -> list[str]:
    """Lines of ``_step`` for a row that has sets. The sets' numbers are among their parameters. Where a set fails, the
    row holds its place."""
    whose = "place" if row.shared else f"key * {row.count} + place"
    timed = TIMERS in row.whole.fields
    lines = [
        f"for place in range({row.count}):",
        f"    row, whose, timer = set_of(symbol, place), {whose}, {'timer_of(symbol, place)' if timed else 0}",
        *([f"    number = np.int64(params_at(context, whose).{SET})"] if emits else []),
        f"    symbol.{TURN} = np.uint32(place + 1)",
        f"    {call}",
    ]
    first, none = "first_of(symbol.timers)", f"symbol.{TURN} = np.uint32(0)"
    if at == "timer":
        due = ["    if symbol.timers[place] == 0 or symbol.timers[place] > what:", "        continue"]
        lines = [lines[0], *due, "    symbol.timers[place] = 0", *lines[1:], none]
        lines.append(f"ask(clock_at(context, i, key, 0), {first})")
        return lines
    lines.append(none)
    if at == "tick" and timed:
        lines = [f"before = {first}", *lines, f"after = {first}"]
        lines += ["if after != before:", "    ask(clock_at(context, i, key, 0), after)"]
    return lines


def _pointer(row: Any) -> Any:
    return types.CPointer(row.whole if isinstance(row, SetRow) else row)


def make_loop(
    one: Any, records: Mapping[str, Any], arguments: Sequence[str], key: str
) -> tuple[Callable[..., int], Any]:
    """The function over a batch and its signature. ``records``: numba's type of each of ``one``'s arguments.

    One ``try`` is around the whole loop: an exception leaves it with the number of ticks that were done.
    """
    row, tick = (records[name] for name in arguments[:2])
    pointers = (_pointer(row), types.CPointer(tick), types.int64, types.voidptr)
    if not arguments[2:] and not isinstance(row, SetRow):

        def loop(rows: Any, ticks: Any, n: int, context: Any) -> int:
            done = 0
            try:
                for i in range(n):
                    tick = record_at(ticks, i)
                    one(record_at(rows, np.int64(tick[key])), tick)
                    done += 1
            except Exception:
                return done
            return n

        return loop, types.int64(*pointers)

    step = _step(one, arguments, records, "tick")
    if "ctx" in arguments:

        def loop_with_timers(rows: Any, ticks: Any, n: int, context: Any) -> int:
            done = 0
            try:
                for i in range(n):
                    tick = record_at(ticks, i)
                    symbol = np.int64(tick[key])
                    step(record_at(rows, symbol), tick, context, symbol, i)
                    done += 1
                    if yields(context):
                        break
            except Exception:
                forget_yield(context)
                return done
            return done

        return loop_with_timers, types.int64(*pointers)

    def loop_with_more(rows: Any, ticks: Any, n: int, context: Any) -> int:
        done = 0
        try:
            for i in range(n):
                tick = record_at(ticks, i)
                symbol = np.int64(tick[key])
                step(record_at(rows, symbol), tick, context, symbol, i)
                done += 1
        except Exception:
            return done
        return n

    return loop_with_more, types.int64(*pointers)


def make_wake(one: Any, records: Mapping[str, Any], arguments: Sequence[str]) -> tuple[Callable[..., int], Any]:
    """An sd_wake_fn around a handler's function of (row, time), and its signature."""
    step = _step(one, arguments, records, "timer")

    def wake(rows: Any, key: Any, time: Any, context: Any) -> int:
        symbol = np.int64(key)
        try:
            step(record_at(rows, symbol), np.int64(time), context, symbol, np.int64(0))
        except Exception:
            return 1
        return 0

    row = _pointer(records[arguments[0]])
    return wake, types.int32(row, types.uint32, types.int64, types.voidptr)


def make_finish(one: Any, records: Mapping[str, Any], arguments: Sequence[str]) -> tuple[Callable[..., int], Any]:
    """An sd_finish_fn around a handler's function of a row, and its signature."""
    step = _step(one, arguments, records, "end")

    def finish(rows: Any, key: Any, context: Any) -> int:
        symbol = np.int64(key)
        try:
            step(record_at(rows, symbol), np.int64(0), context, symbol, np.int64(0))
        except Exception:
            return 1
        return 0

    return finish, types.int32(_pointer(records[arguments[0]]), types.uint32, types.voidptr)


#: Digits of a key in the names of its files.
_DIGITS = 16
#: An object's text where it has none of its own.
_ADDRESS = re.compile(r"\bat 0x[0-9a-f]+")
_COMPARISONS = (operator.eq, operator.ne, operator.contains)


def check_comparisons(compiled: Any) -> None:
    """Raises TypingError where a function compares a field of bytes, as ``tick.action`` is, with text: that compiles,
    and they are never equal."""
    for expression, called in compiled.type_annotation.calltypes.items():
        if getattr(expression, "op", None) != "binop" or expression.fn not in _COMPARISONS:
            continue
        kinds = [kind for side in called.args for kind in (side if isinstance(side, types.BaseTuple) else (side,))]
        texts = (types.UnicodeType, types.StringLiteral, types.UnicodeCharSeq)
        if any(isinstance(k, types.CharSeq) for k in kinds) and any(isinstance(k, texts) for k in kinds):
            raise TypingError("bytes are compared with text, which they never equal", loc=expression.loc)


def entry_of(loop: Callable[..., int], sig: Any, cache: FunctionCache | None) -> Any:
    """The loop as a C function to be, to be compiled or taken from the cache."""
    function: Any = CFunc(loop, (sig.args, sig.return_type), locals={}, options={"nopython": True})
    if cache is not None:
        function._cache = cache
    return function


class _KeptFiles(IndexDataCacheFile):
    """Files of kept code. What another release kept may name types that are elsewhere now: it is compiled anew."""

    def _load_index(self) -> Any:
        try:
            return super()._load_index()
        except (ImportError, AttributeError):
            return {}


class FunctionCache(NumbaCache):
    """Keeps a loop's code where numba keeps that of the handler's function: in NUMBA_CACHE_DIR, in ``__pycache__``
    beside its source, or in the user's cache folder.

    Numba knows a function by its file. Here the key is made of the code, the functions and constants that it refers to,
    and the layouts of records and contexts; numba adds its version, the processor's and the source's own state.

    Each key has an index file of its own. Numba keeps all of a function's in one, and numbers the files of code by it:
    two processes that read the index at the same time give one number to two keys, and one of them finds the other's
    code later.
    """

    _digest = ""

    @classmethod
    def of(cls, function: Any, layout: object) -> Self | None:
        """A cache for the loop around a function; None for a function whose code could not be found again. Such a
        function has no file, as at a prompt, or names an object that differs between processes."""
        try:
            cache = cls(function)
        except RuntimeError:
            return None
        # By the module's name, too: what is kept refers to the types of this package by theirs.
        digest = hashlib.sha256(repr((__name__, LOOP, HANDLER_LAYOUT, np.__version__, layout)).encode())
        if not add_function(digest, function, set()):
            return None
        digest.update(repr(_codegen().magic_tuple()).encode())
        cache._digest = digest.hexdigest()
        cache._cache_file = cache._file(f"{cache._impl.filename_base}-{cache._digest[:_DIGITS]}")
        return cache

    def _file(self, base: str) -> Any:
        return _KeptFiles(self._cache_path, base, self._impl.locator.get_source_stamp())

    def has(self, sig: Any) -> bool:
        """Tells whether code is cached for a signature."""
        found = None
        with self._guard_against_spurious_io_errors():
            found = self._cache_file.load(self._index_key(sig, _codegen()))
        return found is not None

    def _save_overload(self, sig: Any, data: Any) -> None:
        super()._save_overload(sig, data)
        self._remove_outdated()

    def _remove_outdated(self) -> None:
        """Removes the function's code of before the last change of its source."""
        function, _, _ = self._impl.filename_base.rpartition("-")
        for index in Path(self._cache_path).glob(f"{glob.escape(function)}-*{'[0-9a-f]' * _DIGITS}.nbi"):
            if not self._file(index.stem)._load_index():
                for old in (index, *index.parent.glob(f"{glob.escape(index.stem)}.*.nbc")):
                    old.unlink(missing_ok=True)

    def _index_key(self, sig: Any, codegen: Any) -> Any:
        return sig, codegen.magic_tuple(), self._digest


def _codegen() -> Any:
    return numba.core.registry.cpu_target.target_context.codegen()


def add_function(digest: Any, function: Any, seen: set[int]) -> bool:
    """Adds a function's behaviour to the key: its code, and the objects that the code names, however deep. False: the
    function names an object whose text differs between processes, so its code could not be found again."""
    function = getattr(function, "py_func", function)
    if id(function) in seen:
        return True
    seen.add(id(function))
    add_code(digest, function.__code__)
    return all(_add_value(digest, value, seen) for value in (*referred_to(function), *(function.__defaults__ or ())))


def _add_value(digest: Any, value: Any, seen: set[int]) -> bool:
    """Adds one thing that a function refers to; False as ``add_function``."""
    if isinstance(getattr(value, "py_func", value), FunctionType) and not _of_library(value):
        return add_function(digest, value, seen)
    if isinstance(value, np.ndarray):
        digest.update(repr((value.dtype, value.shape)).encode() + value.tobytes())
        return True
    name = getattr(value, "__qualname__", None) or getattr(value, "__name__", None)
    text = f"{getattr(value, '__module__', '')}.{name}" if isinstance(name, str) else repr(value)
    digest.update(text.encode())
    return not _ADDRESS.search(text)


def _of_library(function: Any) -> bool:
    """Tells whether a function is numpy's or numba's, whose versions stand for it."""
    return (function.__module__ or "").partition(".")[0] in ("numpy", "numba")


#: Number of tables that ``sd_context.params`` points to: those of ``tables_of``.
_TABLES: Final = 4


def tables_of(*tables: npt.NDArray[Any] | None) -> bytes:
    """Parameters of the loop: the addresses of spans, entries, shared rows, and parameters."""
    return np.array([0 if table is None else table.ctypes.data for table in tables], np.uint64).tobytes()


@intrinsic
def _tables(typingctx: Any, context_at: Any) -> Any:
    """The addresses of the tables, which a loop reads once: memory that it writes to could be theirs, for all that a
    compiler knows."""

    def generate(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        word = context.get_value_type(types.intp)
        first = builder.inttoptr(builder.load(builder.bitcast(arguments[0], word.as_pointer())), word.as_pointer())
        places = [builder.gep(first, [context.get_constant(types.intp, number)]) for number in range(_TABLES)]
        return context.make_tuple(builder, sig.return_type, [builder.load(place) for place in places])

    return types.UniTuple(types.intp, _TABLES)(context_at), generate


def _table(record: Any) -> Any:
    """A function of (address of the table, index): a record of the table."""

    @intrinsic
    def entry(typingctx: Any, table: Any, index: Any) -> Any:
        def generate(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
            first, i = arguments
            offset = builder.mul(i, context.get_constant(types.intp, record.size))
            return builder.inttoptr(builder.add(first, offset), context.get_value_type(record))

        return record(table, types.intp), generate

    return entry


#: Code that makes each argument beside the shared row.
_ARGUMENTS: Final = {
    "row": "row",
    "tick": "tick",
    "trade": "tick",
    "member": "member",
    "index": "index",
    "params": "params_at(params, symbol)",
    "emit": "emit_at(context, i, 0)",
}


def make_loop_of_shared_rows(
    one: Any,
    records: Mapping[str, Any],
    arguments: Sequence[str],
    *,
    key: str,
    tick_name: str,
    shared: str,
    counts: bool,
) -> tuple[Callable[..., int], Any]:
    """The function over a batch and its signature, as ``make_loop``. ``tick_name`` and ``shared``: the names that
    ``one`` has for a record and a shared row; ``counts``: a symbol's row counts its ticks."""
    space: dict[str, Any] = {"one": one, "shared_at": _table(records[shared])}
    if "params" in arguments:
        space["params_at"] = _table(records["params"])
    if "emit" in arguments:
        space["emit_at"] = emit_at(records["emit"])
    given = ", ".join({**_ARGUMENTS, shared: "shared_at(rows, index)"}[name] for name in arguments)
    source = f"def step(row, tick, context, rows, params, symbol, i, index, member):\n    one({given})\n"
    source += f"def count(row):\n    {'row.ticks += 1' if counts else 'pass'}\n"
    exec(source, space)  # the words above, and no others
    step, count = numba.njit(space["step"]), numba.njit(space["count"])
    span_at, entry_at = _table(numba.from_dtype(SPAN)), _table(numba.from_dtype(MEMBER))

    def loop(rows: Any, ticks: Any, n: int, context: Any) -> int:
        done = 0
        spans, entries, shared_rows, params = _tables(context)
        try:
            for i in range(n):
                tick = record_at(ticks, i)
                symbol = np.int64(tick[key])
                row = record_at(rows, symbol)
                span = span_at(spans, symbol)
                index, member = np.int64(span.row), np.int64(span.member)
                at, end = np.int64(span.first), np.int64(span.end)
                while at < end:
                    step(row, tick, context, shared_rows, params, symbol, i, index, member)
                    at += 1
                    if at < end:
                        entry = entry_at(entries, at)
                        index, member = np.int64(entry.row), np.int64(entry.member)
                count(row)
                done += 1
        except Exception:
            return done
        return n

    pointers = types.CPointer(records["row"]), types.CPointer(records[tick_name])
    return loop, types.int64(*pointers, types.int64, types.voidptr)
