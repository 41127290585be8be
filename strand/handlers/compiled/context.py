"""The arguments of compiled handlers: time and timers, emitting, fields of ticks, totals. Imported with numba only.

numba would add a field of i8 by a plain addition, which wraps. So a total has a type of its own, without a conversion
to numbers that numba's own operators would take: each operator is declared here. ``+`` and ``-`` give totals again.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numba
import numba.core.cgutils
import numba.core.imputils
import numba.core.types
import numba.core.typing.templates
import numba.extending
import numpy as np
from llvmlite import ir

from strand.binding.native import CONTEXT_OFFSETS, EMITTED_BYTES, EMITTED_OFFSETS, SEQUENCE_OFFSETS, SINK_OFFSETS
from strand.handlers.state import SET
from strand.ticks import TICK, UNDEF_PRICE
from strand.units import meaning_of

cgutils: Any = numba.core.cgutils
types: Any = numba.core.types
intrinsic: Any = numba.extending.intrinsic
lower_cast: Any = numba.extending.lower_cast
overload: Any = numba.extending.overload
models: Any = numba.extending.models
overload_attribute: Any = numba.extending.overload_attribute
overload_method: Any = numba.extending.overload_method
register_jitable: Any = numba.extending.register_jitable
register_model: Any = numba.extending.register_model
AttributeTemplate: Any = numba.core.typing.templates.AttributeTemplate
infer_getattr: Any = numba.core.typing.templates.infer_getattr
lower_getattr_generic: Any = numba.core.imputils.lower_getattr_generic
lower_setattr_generic: Any = numba.core.imputils.lower_setattr_generic
signature: Any = numba.core.typing.templates.signature


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
def forget_yield(typingctx: Any, context_at: Any) -> Any:
    """Forgets that: a record fails, and the one before it would be taken for the one that asked."""

    def generate(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        at = builder.bitcast(arguments[0], _BYTE.as_pointer())
        builder.store(ir.Constant(_KEY, 0), _field(builder, at, CONTEXT_OFFSETS["yield"], _KEY))
        return context.get_dummy_value()

    return types.void(types.voidptr), generate


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
        return None  # strand.handlers.compiled.handlers says why

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


_NONE = np.int64(UNDEF_PRICE)


def _sequence(record: Any) -> Any:
    return np.int64(record.sequence_low) | np.int64(record.sequence_high) << np.int64(32)


def _bid_price(record: Any) -> Any:
    return _NONE if record.side == b"A" else record.price


def _bid_size(record: Any) -> Any:
    return np.int64(0) if record.side == b"A" else record.size


def _ask_price(record: Any) -> Any:
    if record.side == b"B":
        return _NONE
    return record.price if record.side == b"A" else np.int64(record.order_id)


def _ask_size(record: Any) -> Any:
    if record.side == b"B":
        return np.int64(0)
    return record.size if record.side == b"A" else np.int64(record.ref_id)


class _Tick(types.Record):
    """A record of ``TICK``: numba's own of the same fields, which has these names beside them."""


register_model(_Tick)(models.RecordModel)


class _Flags(types.NestedArray):
    """An array of truth values in a record. numba's own does not know how many bytes one has."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self._shape = shape
        types.Array.__init__(self, types.boolean, len(shape), "C", name=f"flags({shape})")

    @property
    def size(self) -> int:
        return 1


register_model(_Flags)(models.NestedArrayModel)


class _Summing(types.Record):
    """A record of which some fields are totals, by their names in ``totals``."""

    totals: frozenset[str] = frozenset()

    def typeof(self, key: str) -> Any:
        """numba's type of a field."""
        return TOTAL_TYPE if key in self.totals else super().typeof(key)


register_model(_Summing)(models.RecordModel)


def _like(record: Any, kind: Any) -> Any:
    """A record of another class with the same fields."""
    made = kind.__new__(kind)
    made.__dict__.update(record.__dict__)
    return made


def is_total(dtype: np.dtype[Any]) -> bool:
    """Tells whether a field is declared as a total. Those in arrays are not checked, so they cannot be declared."""
    return meaning_of(dtype).quantity == "total"


def _type_of(dtype: np.dtype[Any]) -> Any:
    """numba's type of a field, or of a record, which may have truth values in arrays."""
    if dtype.names is not None:
        fields: Any = dtype.fields
        made = [(name, {"type": _type_of(fields[name][0]), "offset": fields[name][1]}) for name in dtype.names]
        record = types.Record(made, dtype.itemsize, dtype.isalignedstruct)
        totals = frozenset(name for name in dtype.names if is_total(dtype[name]))
        if not totals:
            return record
        summing = _like(record, _Summing)
        summing.totals, summing.name = totals, f"{record.name} with totals {sorted(totals)}"
        return summing
    if dtype.subdtype is not None and dtype.base.kind == "b":
        return _Flags(dtype.shape)
    if dtype.subdtype is not None and dtype.base.names is not None:
        return types.NestedArray(_type_of(dtype.base), dtype.shape)
    return numba.from_dtype(dtype)


def record_type(dtype: np.dtype[Any]) -> Any:
    """numba's type of a handler's records."""
    plain = _type_of(dtype)
    if dtype != TICK:
        return plain
    return _like(plain, _Tick)


def _declare(name: str, read: Any) -> None:
    def attribute(record: Any) -> Any:
        return read

    overload_attribute(_Tick, name)(attribute)


for _name, _read in (
    ("sequence", _sequence),
    ("bid_price", _bid_price),
    ("bid_size", _bid_size),
    ("ask_price", _ask_price),
    ("ask_size", _ask_size),
):
    _declare(_name, _read)


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
            word, byte, half = _WORD, _BYTE, _KEY
            field = partial(_field, builder)

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
                signature = ir.FunctionType(half, [byte.as_pointer(), byte.as_pointer()]).as_pointer()
                more = builder.inttoptr(builder.load(field(writer, SINK_OFFSETS["more"])), signature)
                failed = builder.icmp_signed("!=", builder.call(more, [at, writer]), ir.Constant(half, 0))
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
