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

#: The tables that ``sd_context.params`` points to, by their places among the words there.
_SPANS, _ENTRIES, _BASKETS, _PARAMS = range(4)


def tables_of(*tables: npt.NDArray[Any] | None) -> bytes:
    """What the loop is given as its parameters: the addresses of spans, entries, rows of baskets, and parameters."""
    return np.array([0 if table is None else table.ctypes.data for table in tables], np.uint64).tobytes()


def _table(record: Any, number: int) -> Any:
    """A function of (context, index): a record of one of the tables."""

    @intrinsic
    def entry(typingctx: Any, context_at: Any, index: Any) -> Any:
        def generate(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
            at, i = arguments
            word = context.get_value_type(types.intp)
            tables = builder.inttoptr(builder.load(builder.bitcast(at, word.as_pointer())), word.as_pointer())
            first = builder.load(builder.gep(tables, [context.get_constant(types.intp, number)]))
            offset = builder.mul(i, context.get_constant(types.intp, record.size))
            return builder.inttoptr(builder.add(first, offset), context.get_value_type(record))

        return record(context_at, types.intp), generate

    return entry


#: How each argument is made.
_ARGUMENTS: Final = {
    "row": "row",
    "tick": "tick",
    "trade": "tick",
    "basket": "basket_at(context, basket)",
    "member": "member",
    "index": "basket",
    "params": "params_at(context, symbol)",
    "emit": "emit_at(context, i)",
}


def make_basket_loop(
    one: Any, records: Mapping[str, Any], arguments: Sequence[str], *, key: str, tick_name: str, counts: bool
) -> tuple[Callable[..., int], Any]:
    """The function over a batch and its signature, as ``compiled_loop.make_loop``. ``tick_name``: what ``one`` calls a
    record; ``counts``: a symbol's row counts its ticks."""
    space: dict[str, Any] = {"one": one, "basket_at": _table(records["basket"], _BASKETS)}
    if "params" in arguments:
        space["params_at"] = _table(records["params"], _PARAMS)
    if "emit" in arguments:
        space["emit_at"] = emit_at(records["emit"])
    given = ", ".join(_ARGUMENTS[name] for name in arguments)
    source = f"def step(row, tick, context, symbol, i, basket, member):\n    one({given})\n"
    source += f"def count(row):\n    {'row.ticks += 1' if counts else 'pass'}\n"
    exec(source, space)  # the words above, and no others
    step, count = numba.njit(space["step"]), numba.njit(space["count"])
    span_at = _table(numba.from_dtype(SPAN), _SPANS)
    entry_at = _table(numba.from_dtype(MEMBER), _ENTRIES)

    def loop(rows: Any, ticks: Any, n: int, context: Any) -> int:
        done = 0
        try:
            for i in range(n):
                tick = record_at(ticks, i)
                symbol = np.int64(tick[key])
                row = record_at(rows, symbol)
                span = span_at(context, symbol)
                for at in range(np.int64(span.first), np.int64(span.end)):
                    entry = entry_at(context, at)
                    step(row, tick, context, symbol, i, np.int64(entry.basket), np.int64(entry.member))
                count(row)
                done += 1
        except Exception:
            return done
        return n

    pointers = types.CPointer(records["row"]), types.CPointer(records[tick_name])
    return loop, types.int64(*pointers, types.int64, types.voidptr)
