"""The loop that calls a compiled basket handler, once for each basket of a tick's symbol. Imported with numba only."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numba
import numpy as np
import numpy.typing as npt

from strand.handlers.baskets import MEMBER, SPAN
from strand.handlers.compiled_emit import emit_at
from strand.handlers.compiled_loop import record_at
from strand.handlers.compiled_names import intrinsic, types

__all__ = ["make_basket_loop", "tables_of"]

#: Number of tables that ``sd_context.params`` points to: those of ``tables_of``.
_TABLES: Final = 4


def tables_of(*tables: npt.NDArray[Any] | None) -> bytes:
    """Parameters of the loop: the addresses of spans, entries, rows of baskets, and parameters."""
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


#: Code that makes each argument.
_ARGUMENTS: Final = {
    "row": "row",
    "tick": "tick",
    "trade": "tick",
    "basket": "basket_at(baskets, basket)",
    "member": "member",
    "index": "basket",
    "params": "params_at(params, symbol)",
    "emit": "emit_at(context, i, 0)",
}


def make_basket_loop(
    one: Any, records: Mapping[str, Any], arguments: Sequence[str], *, key: str, tick_name: str, counts: bool
) -> tuple[Callable[..., int], Any]:
    """The function over a batch and its signature, as ``compiled_loop.make_loop``. ``tick_name``: what ``one`` calls a
    record; ``counts``: a symbol's row counts its ticks."""
    space: dict[str, Any] = {"one": one, "basket_at": _table(records["basket"])}
    if "params" in arguments:
        space["params_at"] = _table(records["params"])
    if "emit" in arguments:
        space["emit_at"] = emit_at(records["emit"])
    given = ", ".join(_ARGUMENTS[name] for name in arguments)
    source = f"def step(row, tick, context, baskets, params, symbol, i, basket, member):\n    one({given})\n"
    source += f"def count(row):\n    {'row.ticks += 1' if counts else 'pass'}\n"
    exec(source, space)  # the words above, and no others
    step, count = numba.njit(space["step"]), numba.njit(space["count"])
    span_at, entry_at = _table(numba.from_dtype(SPAN)), _table(numba.from_dtype(MEMBER))

    def loop(rows: Any, ticks: Any, n: int, context: Any) -> int:
        done = 0
        spans, entries, baskets, params = _tables(context)
        try:
            for i in range(n):
                tick = record_at(ticks, i)
                symbol = np.int64(tick[key])
                row = record_at(rows, symbol)
                span = span_at(spans, symbol)
                basket, member = np.int64(span.basket), np.int64(span.member)
                at, end = np.int64(span.first), np.int64(span.end)
                while at < end:
                    step(row, tick, context, baskets, params, symbol, i, basket, member)
                    at += 1
                    if at < end:
                        entry = entry_at(entries, at)
                        basket, member = np.int64(entry.basket), np.int64(entry.member)
                count(row)
                done += 1
        except Exception:
            return done
        return n

    pointers = types.CPointer(records["row"]), types.CPointer(records[tick_name])
    return loop, types.int64(*pointers, types.int64, types.voidptr)
