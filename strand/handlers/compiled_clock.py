"""The argument ``ctx`` of compiled handlers: ``ctx.time`` and ``ctx.wake_at(ns)``. Imported with numba only."""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir

from strand.binding.native import CONTEXT_OFFSETS
from strand.handlers.compiled_names import (
    cgutils,
    intrinsic,
    models,
    overload_attribute,
    overload_method,
    register_jitable,
    register_model,
    types,
)

__all__ = ["ask", "clock_at", "clock_type", "first_of", "yields"]

#: The time of a timer that never comes.
NEVER = np.int64(2**63 - 1)
_WORD, _BYTE, _KEY = ir.IntType(64), ir.IntType(8), ir.IntType(32)


class _Clock(types.Type):
    """``at``: a tick, a timer, or the end. ``of_sets``: each set of parameters has a timer of its own."""

    def __init__(self, at: str, of_sets: bool = False) -> None:
        self.at, self.of_sets = at, of_sets
        super().__init__(name=f"ctx({at}{' of sets' * of_sets})")


@register_model(_Clock)
class _ClockModel(models.StructModel):
    """Address of the context, the index and key of its record in hand, and the address of the set's timer."""

    def __init__(self, dmm: Any, fe_type: Any) -> None:
        members = [(name, types.int64) for name in ("i", "key", "timer")]
        members.insert(0, ("context", types.voidptr))
        super().__init__(dmm, fe_type, members)


def clock_type(at: str, *, of_sets: bool = False) -> Any:
    """The type of a handler's argument ``ctx`` at a ``tick``, a ``timer``, or the ``end``."""
    return _Clock(at, of_sets)


def _field(builder: Any, base: Any, offset: int, of: Any = _WORD) -> Any:
    """A pointer to a field of a structure at an address."""
    return builder.bitcast(builder.gep(base, [ir.Constant(_WORD, offset)]), of.as_pointer())


def _parts(context: Any, builder: Any, clock: Any, value: Any) -> tuple[Any, Any]:
    """A clock, and the address of its context."""
    found = cgutils.create_struct_proxy(clock)(context, builder, value=value)
    return found, builder.bitcast(found.context, _BYTE.as_pointer())


def clock_at(clock: Any) -> Any:
    """A function of (context, i, key, address of the set's timer) that makes a value of the type."""

    @intrinsic
    def make(typingctx: Any, context_at: Any, i: Any, key: Any, timer: Any) -> Any:
        def generate(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
            value = cgutils.create_struct_proxy(clock)(context, builder)
            value.context, value.i, value.key, value.timer = arguments
            return value._getvalue()

        return clock(types.voidptr, types.int64, types.int64, types.int64), generate

    return make


@intrinsic
def yields(typingctx: Any, context_at: Any) -> Any:
    """Tells whether a timer was asked for that comes before the call's next record."""

    def generate(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        at = builder.bitcast(arguments[0], _BYTE.as_pointer())
        told = builder.load(_field(builder, at, CONTEXT_OFFSETS["yield"], _KEY))
        return builder.icmp_unsigned("!=", told, ir.Constant(_KEY, 0))

    return types.boolean(types.voidptr), generate


@intrinsic
def _time_of(typingctx: Any, clock: Any) -> Any:
    """The time of the record's position, or of the timer: signed, for numba makes floats of what mixes both."""

    def generate(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        value, at = _parts(context, builder, clock, arguments[0])
        if clock.at != "tick":
            return builder.load(_field(builder, at, CONTEXT_OFFSETS["wake_time"]))
        positions = builder.inttoptr(
            builder.load(_field(builder, at, CONTEXT_OFFSETS["positions"])), _BYTE.as_pointer()
        )
        position = builder.gep(positions, [builder.mul(value.i, ir.Constant(_WORD, 16))])
        return builder.load(_field(builder, position, 8))

    return types.int64(clock), generate


@intrinsic
def ask(typingctx: Any, clock: Any, ns: Any) -> Any:
    """Calls the context's wake_at."""

    def generate(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        value, at = _parts(context, builder, clock, arguments[0])
        signature = ir.FunctionType(ir.VoidType(), [_BYTE.as_pointer(), _KEY, _WORD]).as_pointer()
        wake_at = builder.inttoptr(builder.load(_field(builder, at, CONTEXT_OFFSETS["wake_at"])), signature)
        builder.call(wake_at, [at, builder.trunc(value.key, _KEY), arguments[1]])
        return context.get_dummy_value()

    return types.none(clock, types.int64), generate


@overload_attribute(_Clock, "time")
def _time(ctx: Any) -> Any:
    def get(ctx: Any) -> int:
        return _time_of(ctx)  # type: ignore[no-any-return]

    return get


@overload_method(_Clock, "wake_at")
def _wake_at(ctx: Any, ns: Any) -> Any:
    if ctx.at == "end" or not isinstance(ns, types.Integer):
        return None  # strand.handlers.compile_errors says why

    if ctx.of_sets:

        def keep(ctx: Any, ns: Any) -> None:
            _keep(ctx, _after(np.int64(ns), _time_of(ctx)))

        return keep

    def wake_at(ctx: Any, ns: Any) -> None:
        ask(ctx, np.int64(ns))

    return wake_at


@intrinsic
def _keep(typingctx: Any, clock: Any, ns: Any) -> Any:
    """Sets the timer of a set."""

    def generate(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        value, _ = _parts(context, builder, clock, arguments[0])
        builder.store(arguments[1], builder.inttoptr(value.timer, _WORD.as_pointer()))
        return context.get_dummy_value()

    return types.none(clock, types.int64), generate


@register_jitable
def _after(ns: Any, now: Any) -> Any:
    """sd_alarm_after of csrc/sd_handler.h."""
    if ns == 0:
        return 0
    if ns <= now:
        ns = now + (now != NEVER)
    return 0 if ns == NEVER else ns


@register_jitable
def first_of(timers: Any) -> Any:
    """The first of the sets' timers, in ns; 0: none is set."""
    first = NEVER
    for time in timers:
        if time != 0 and time < first:
            first = time
    return 0 if first == NEVER else first
