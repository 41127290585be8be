"""Totals in compiled handlers: whole numbers of 64 bits whose sums and differences are checked. Imported with numba
only.

numba would add a field of i8 by a plain addition, which wraps. So a total has a type of its own, without a conversion
to numbers that numba's own operators would take: each operator is declared here. ``+`` and ``-`` give totals again.
"""

from __future__ import annotations

import operator
from typing import Any

from llvmlite import ir

from strand.handlers.compiled_names import intrinsic, lower_cast, models, overload, register_model, types

__all__ = ["TOTAL_TYPE"]

_BEYOND = "a total is beyond 2**63 - 1: read its sizes in a coarser unit (size_unit)"


class Total(types.Type):
    """Type of a total in compiled code."""

    def __init__(self) -> None:
        super().__init__(name="total")

    def unify(self, typingctx: Any, other: Any) -> Any:
        """Unifies with a number, as two branches may give: a number."""
        return typingctx.unify_pairs(types.int64, other)


TOTAL_TYPE = Total()


@register_model(Total)
class _TotalModel(models.PrimitiveModel):
    def __init__(self, dmm: Any, fe_type: Any) -> None:
        super().__init__(dmm, fe_type, ir.IntType(64))


@lower_cast(Total, types.Number)
def _to_number(context: Any, builder: Any, fromty: Any, toty: Any, value: Any) -> Any:
    return context.cast(builder, value, types.int64, toty)


@lower_cast(types.Integer, Total)
@lower_cast(types.Boolean, Total)
def _to_total(context: Any, builder: Any, fromty: Any, toty: Any, value: Any) -> Any:
    found = context.cast(builder, value, fromty, types.int64)
    if fromty == types.uint64:
        _refuse(context, builder, builder.icmp_signed("<", found, ir.Constant(ir.IntType(64), 0)))
    return found


def _refuse(context: Any, builder: Any, beyond: Any) -> None:
    with builder.if_then(beyond, likely=False):
        context.call_conv.return_user_exc(builder, OverflowError, (_BEYOND,))


def _checked(name: str) -> Any:
    """A function of two whole numbers that gives a total, by an instruction of LLVM that says whether it wraps."""

    @intrinsic
    def apply(typingctx: Any, a: Any, b: Any) -> Any:
        def generate(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
            first, second = (
                context.cast(builder, value, kind, TOTAL_TYPE) for value, kind in zip(arguments, sig.args, strict=True)
            )
            result = getattr(builder, name)(first, second)
            _refuse(context, builder, builder.extract_value(result, 1))
            return builder.extract_value(result, 0)

        return TOTAL_TYPE(a, b), generate

    return apply


@intrinsic
def _plain(typingctx: Any, value: Any) -> Any:
    """A total as i8; any other value as it is."""

    def generate(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        return arguments[0]

    return (types.int64 if isinstance(value, Total) else value)(value), generate


def _is_whole(kind: Any) -> bool:
    return isinstance(kind, (Total, types.Integer, types.Boolean))


def _declare_two(function: Any, checked: Any = None) -> None:
    """An operator or function of two, where one or both are totals. ``checked``: for whole numbers."""

    @overload(function, strict=False)
    def of_two(a: Any, b: Any) -> Any:
        if not isinstance(a, Total) and not isinstance(b, Total):
            return None
        if checked is not None and _is_whole(a) and _is_whole(b):
            return lambda a, b: checked(a, b)  # noqa: PLW0108 - numba compiles functions of Python alone
        return lambda a, b: function(_plain(a), _plain(b))


def _declare_one(function: Any) -> None:
    @overload(function, strict=False)
    def of_one(a: Any) -> Any:
        return (lambda a: function(_plain(a))) if isinstance(a, Total) else None


@overload(operator.setitem, strict=False)
def _set_in_array(array: Any, place: Any, value: Any) -> Any:
    if not isinstance(value, Total) or not isinstance(array, types.Array):
        return None

    def put(array: Any, place: Any, value: Any) -> None:
        array[place] = _plain(value)

    return put


for _function in (operator.add, operator.iadd):
    _declare_two(_function, _checked("sadd_with_overflow"))
for _function in (operator.sub, operator.isub):
    _declare_two(_function, _checked("ssub_with_overflow"))
for _function in (
    operator.mul, operator.truediv, operator.floordiv, operator.mod, operator.pow, operator.and_, operator.or_,
    operator.xor, operator.lshift, operator.rshift, operator.lt, operator.le, operator.gt, operator.ge, operator.eq,
    operator.ne, max, min, divmod,
):  # fmt: skip
    _declare_two(_function)
for _of_one in (operator.neg, operator.pos, abs, bool, int, float):
    _declare_one(_of_one)
