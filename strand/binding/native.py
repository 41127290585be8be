"""Handlers in C, or compiled to it, and chains of them, as the core takes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from strand.binding import ffi, lib
from strand.binding.memory import Space
from strand.fixed import dataclass

#: Offsets that compiled code needs to emit and to set timers: bytes into sd_context and sd_output_writer.
CONTEXT_OFFSETS: Final = {
    name: int(ffi.offsetof("sd_context", name))
    for name in (
        "record_size", "positions", "wake_at", "keys", "writers", "wake_key", "wake_time", "wake_number", "sequence",
        "yield",
    )
}  # fmt: skip
SINK_OFFSETS: Final = {name: int(ffi.offsetof("sd_output_writer", name)) for name in ("at", "end", "more")}
#: Of ticks and contexts, as objects of handlers in C are built for.
HANDLER_LAYOUT: Final = int(lib.SD_HANDLER_LAYOUT)
EMITTED_BYTES: Final = int(ffi.sizeof("sd_emitted"))
EMITTED_OFFSETS: Final = {name: int(ffi.offsetof("sd_emitted", name)) for name, _ in ffi.typeof("sd_emitted").fields}
SEQUENCE_OFFSETS: Final = {
    name: int(ffi.offsetof("sd_sequence_at", name)) for name, _ in ffi.typeof("sd_sequence_at").fields
}


class NativeFunction(NamedTuple):
    """A C function of type ``sd_handler_fn``, its parameters, and the objects that keep them alive.

    ``never_publishes``: a publisher may run it. ``wake``: an ``sd_wake_fn``, ``finish``: an ``sd_finish_fn``; None
    where it has none. ``yields``: it returns where ``ctx->yield`` says so.
    """

    pointer: Any
    params: bytes = b""
    never_publishes: bool = False
    keep: Any = None
    #: Asks for the memory that ticks will touch (``sd_ahead_fn`` of csrc/handlers/chain.h), for chains.
    ahead: Any = None
    wake: Any = None
    finish: Any = None
    yields: bool = False
    #: The tape (csrc/measures/tape.h) of the sd_source that its parameters begin with; None: they begin with none.
    tape: Any = None


def builtin(name: str) -> Any:
    """The address of a handler that is compiled in."""
    return ffi.cast("sd_handler_fn", ffi.addressof(lib, f"sd_handle_{name}"))


def builtin_function(
    name: str,
    params: bytes,
    *,
    timers: bool = False,
    ends: bool = False,
    never_publishes: bool = True,
    keep: Any = None,
) -> NativeFunction:
    """The C functions ``sd_handle_NAME``, and ``sd_wake_NAME`` and ``sd_finish_NAME`` where it has ``timers`` and
    ``ends``. The other arguments are those of NativeFunction."""
    return NativeFunction(
        builtin(name),
        params,
        never_publishes,
        keep,
        wake=ffi.cast("sd_wake_fn", ffi.addressof(lib, f"sd_wake_{name}")) if timers else None,
        finish=ffi.cast("sd_finish_fn", ffi.addressof(lib, f"sd_finish_{name}")) if ends else None,
        yields=timers,
    )


def address_of_pointer(pointer: Any) -> int | None:
    """The address that a pointer of cffi holds, or a whole number is; None for anything else."""
    if isinstance(pointer, ffi.CData):
        try:
            return int(ffi.cast("uintptr_t", pointer))
        except TypeError:
            return None
    return pointer if isinstance(pointer, int) and not isinstance(pointer, bool) else None


def pointer_from_address(address: int) -> Any:
    """A function of type ``sd_handler_fn`` at an address."""
    return ffi.cast("sd_handler_fn", address)


def wake_pointer(address: int) -> Any:
    """A function of type ``sd_wake_fn`` at an address; None for 0."""
    return ffi.cast("sd_wake_fn", address) if address else None


def finish_pointer(address: int) -> Any:
    """A function of type ``sd_finish_fn`` at an address; None for 0."""
    return ffi.cast("sd_finish_fn", address) if address else None


MAX_PARTS: Final[int] = lib.SD_CHAIN_MAX
#: Timers of one symbol, in u64: whole cache lines.
_LINE: Final = 8


@dataclass(frozen=True, slots=True)
class Part:
    """Part of a chain: its handler's function, the offset of its row in the chain's, and the number of its outputs."""

    function: NativeFunction
    row_offset: int
    outputs: int = 0


@dataclass(frozen=True, slots=True)
class Chained:
    """Several as one. ``alarm``: when the next timer of the symbol with a key is due, 0: there is none."""

    function: NativeFunction
    alarm: Callable[[int], int]


def chained(parts: Sequence[Part], n_symbols: int, space: Space) -> Chained:
    """Makes one function that runs all parts on each tick, and the timers of each, for symbols 0 to ``n_symbols`` -
    1. Parts that read the first part's tape share each tick's event.

        The timers' due times lie in the space. Raises MemoryError where there is no room for them.
    """
    chain = ffi.new("sd_chain *")
    chain.n = len(parts)
    kept: list[Any] = [chain]
    first = 0
    for entry, part in zip(chain.part, parts, strict=False):
        function = part.function
        params = ffi.new("char[]", function.params) if function.params else ffi.NULL
        kept.append((function, params))
        if function.ahead is not None:
            entry.ahead = function.ahead
        entry.fn, entry.params, entry.row_offset = function.pointer, params, part.row_offset
        entry.wake, entry.finish = function.wake or ffi.NULL, function.finish or ffi.NULL
        entry.first_output, entry.n_outputs = first, part.outputs
        first += part.outputs
        if function.tape is not None:
            if not chain.source:
                chain.source, chain.open = ffi.cast("sd_source *", params), ffi.addressof(lib, "sd_tape_open")
            entry.shares = chain.source.tape == function.tape
    functions = [part.function for part in parts]
    timers, ends = any(f.wake is not None for f in functions), any(f.finish is not None for f in functions)
    if timers:
        chain.alarm_stride = -(-len(parts) // _LINE) * _LINE
        alarms = space.zeros(n_symbols * chain.alarm_stride, np.uint64)
        kept.append(alarms)
        chain.alarms = ffi.cast("uint64_t *", alarms.ctypes.data)
    function = builtin_function(
        "chain",
        bytes(ffi.buffer(chain)),
        timers=timers,
        ends=ends,
        never_publishes=all(f.never_publishes for f in functions),
        keep=kept,
    )
    return Chained(function, lambda key: int(lib.sd_chain_alarm(chain, key)))
