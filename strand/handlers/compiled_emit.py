"""Emitting from compiled handlers: ``emit.bars(open=..., close=...)`` stores the fields. Imported with numba only."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from llvmlite import ir

from strand.binding.native import (
    CONTEXT_OFFSETS,
    EMITTED_BYTES,
    EMITTED_OFFSETS,
    SEQUENCE_OFFSETS,
    SINK_OFFSETS,
)
from strand.handlers.compiled_names import cgutils, intrinsic, models, overload_method, register_model, types
from strand.handlers.compiled_ticks import record_type
from strand.handlers.state import SET

__all__ = ["emit_at", "emit_type"]


def emit_type(outputs: Mapping[str, np.dtype[Any]], *, at_timer: bool = False, of_sets: bool = False) -> Any:
    """The type of a handler's argument ``emit``: it has a method for each output, which takes the record's fields.
    ``at_timer``: they are a timer's, or the end's, and no tick's. ``of_sets``: the first field of each is the number
    of the set of parameters, which the method does not take."""
    cls = type("EmitType", (types.Type,), {})
    register_model(cls)(_EmitModel)
    for number, (name, dtype) in enumerate(outputs.items()):
        overload_method(cls, name)(_method(name, dtype, _reserve(cls, number, dtype, at_timer), of_sets))
    who = "timer: " if at_timer else ""
    return cls(name=f"emit({who}{', '.join(f'{name}: {dtype}' for name, dtype in outputs.items())})")


class _EmitModel(models.StructModel):
    """Address of the context, the index of its record in hand, and the set of parameters."""

    def __init__(self, dmm: Any, fe_type: Any) -> None:
        super().__init__(dmm, fe_type, [("context", types.voidptr), ("i", types.int64), ("set", types.int64)])


def emit_at(emit: Any) -> Any:
    """A function of (context, i, set) that makes a value of the type."""

    @intrinsic
    def make(typingctx: Any, context_at: Any, i: Any, number: Any) -> Any:
        def generate(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
            value = cgutils.create_struct_proxy(emit)(context, builder)
            value.context, value.i, value.set = arguments
            return value._getvalue()

        return emit(types.voidptr, types.int64, types.int64), generate

    return make


@intrinsic
def _set_in(typingctx: Any, emit: Any) -> Any:
    def generate(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        return cgutils.create_struct_proxy(emit)(context, builder, value=arguments[0]).set

    return types.int64(emit), generate


def _method(name: str, dtype: np.dtype[Any], reserve: Any, of_sets: bool) -> Callable[..., Any]:
    """Returns the implementation for overload_method: a function of the record's fields, by position or by name."""
    fields = list(dtype.names or ())[of_sets:]
    # Arguments have the names of fields, which may be any others.
    arguments = ", ".join(["_emit", *fields])
    stores = "\n".join(f"        _record.{f}{'[:]' if dtype[f].ndim else ''} = {f}" for f in fields)
    if of_sets:
        stores += f"\n        _record.{SET} = _set_in(_emit)"
    source = (
        f"def {name}({arguments}):\n    def implementation({arguments}):\n        _record = _reserve(_emit)\n{stores}\n"
        "    return implementation\n"
    )
    space: dict[str, Any] = {"_reserve": reserve, "_set_in": _set_in}
    exec(source, space)  # identifiers all: checked where the handler is made
    found: Callable[..., Any] = space[name]
    return found


def _reserve(cls: Any, number: int, dtype: np.dtype[Any], at_timer: bool) -> Any:
    """A function of (emit) that gives the next record of an output to fill: sd_emit_reserve of csrc/sd_handler.h."""
    record = record_type(dtype)
    entry_bytes = -(-(EMITTED_BYTES + dtype.itemsize) // 8) * 8

    @intrinsic
    def reserve(typingctx: Any, emit: Any) -> Any:
        if not isinstance(emit, cls):
            return None

        def generate(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
            word, byte = ir.IntType(64), ir.IntType(8)
            half, code = ir.IntType(32), ir.IntType(32)

            def field(base: Any, offset: int, of: Any = word) -> Any:
                """A pointer to a field of a structure at an address."""
                return builder.bitcast(builder.gep(base, [ir.Constant(word, offset)]), of.as_pointer())

            def load_at(base: Any, offset: int) -> Any:
                return builder.inttoptr(builder.load(field(base, offset)), byte.as_pointer())

            def sequence_of(where: Any, key: Any) -> Any:
                """sd_sequence_of of csrc/sd_handler.h."""

                def half_at(name: str) -> Any:
                    away = builder.sext(builder.load(field(where, SEQUENCE_OFFSETS[name], half)), word)
                    return builder.load(field(builder.gep(key, [away]), 0, half), align=1)

                shift = builder.load(field(where, SEQUENCE_OFFSETS["shift"], half))
                high = builder.zext(builder.lshr(half_at("high"), shift), word)
                whole = builder.or_(builder.shl(high, ir.Constant(word, 32)), builder.zext(half_at("low"), word))
                return builder.or_(whole, builder.load(field(where, SEQUENCE_OFFSETS["none"])))

            value = cgutils.create_struct_proxy(emit)(context, builder, value=arguments[0])
            at = builder.bitcast(value.context, byte.as_pointer())
            writer = load_at(load_at(at, CONTEXT_OFFSETS["writers"]), 8 * (2 * number + at_timer))
            full = builder.icmp_unsigned(
                "==", builder.load(field(writer, SINK_OFFSETS["at"])), builder.load(field(writer, SINK_OFFSETS["end"]))
            )
            with builder.if_then(full, likely=False):
                signature = ir.FunctionType(code, [byte.as_pointer(), byte.as_pointer()]).as_pointer()
                more = builder.inttoptr(builder.load(field(writer, SINK_OFFSETS["more"])), signature)
                failed = builder.icmp_signed("!=", builder.call(more, [at, writer]), ir.Constant(code, 0))
                with builder.if_then(failed, likely=False):
                    context.call_conv.return_user_exc(builder, MemoryError, ("no room for what is emitted",))
            entry = load_at(writer, SINK_OFFSETS["at"])
            if at_timer:
                place, time = field(at, CONTEXT_OFFSETS["wake_number"]), field(at, CONTEXT_OFFSETS["wake_time"])
                whose = field(at, CONTEXT_OFFSETS["wake_key"], half)
                sequence = ir.Constant(word, -1)
            else:
                position_at = builder.mul(value.i, ir.Constant(word, 16))
                position = builder.gep(load_at(at, CONTEXT_OFFSETS["positions"]), [position_at])
                place, time = field(position, 0), field(position, 8)
                key_at = builder.mul(value.i, builder.load(field(at, CONTEXT_OFFSETS["record_size"])))
                key = builder.gep(load_at(at, CONTEXT_OFFSETS["keys"]), [key_at])
                whose = field(key, 0, half)
                sequence = sequence_of(builder.gep(at, [ir.Constant(word, CONTEXT_OFFSETS["sequence"])]), key)
            builder.store(builder.load(place), field(entry, EMITTED_OFFSETS["number"]))
            builder.store(sequence, field(entry, EMITTED_OFFSETS["sequence"]))
            builder.store(builder.load(time), field(entry, EMITTED_OFFSETS["time"]))
            builder.store(builder.load(whose, align=1), field(entry, EMITTED_OFFSETS["key"], half))
            builder.store(ir.Constant(half, 0), field(entry, EMITTED_OFFSETS["link"], half))
            after = builder.ptrtoint(builder.gep(entry, [ir.Constant(word, entry_bytes)]), word)
            builder.store(after, field(writer, SINK_OFFSETS["at"]))
            payload = builder.gep(entry, [ir.Constant(word, EMITTED_BYTES)])
            return builder.bitcast(payload, context.get_value_type(record))

        return record(emit), generate

    return reserve
