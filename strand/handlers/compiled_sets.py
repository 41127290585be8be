"""The row of one set of parameters: its own fields, and beside them the rows of handlers before it, which all sets
share. Imported with numba only."""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir

from strand.handlers.compiled_names import (
    AttributeTemplate,
    cgutils,
    infer_getattr,
    intrinsic,
    lower_getattr_generic,
    lower_setattr_generic,
    models,
    register_model,
    signature,
    types,
)
from strand.handlers.compiled_ticks import record_type
from strand.handlers.state import SETS, TIMERS, TURN

__all__ = ["SetRow", "set_of", "set_row_type", "timer_of"]


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
