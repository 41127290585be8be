"""Chains of native handlers in C, seen from Python."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from strand.binding import ffi, lib
from strand.binding.native import NativeFunction, builtin_function
from strand.binding.space import Space

__all__ = ["MAX_PARTS", "Chained", "Part", "chained"]

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
    1.

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
