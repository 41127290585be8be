"""Handlers that read trades and quotes: where they take them from, and the books some of them keep."""

from __future__ import annotations

import struct
from typing import Final

from strand.binding import ffi, lib
from strand.binding.gate import made
from strand.binding.native import builtin_function
from strand.binding.space import Space
from strand.binding.trades import TradeRules

__all__ = ["TapeMemory", "source_bytes"]


def source_bytes(rules: TradeRules, tape: int = 0, space: int = 0) -> bytes:
    """An sd_source: the books to take trades and quotes from (0: the ticks themselves) and the space that they lie in,
    and what is a trade."""
    return struct.pack("=QQ", tape, space) + rules.packed


class TapeMemory:
    """The books that a handler reads its trades and quotes from, for symbols 0 to ``n_symbols`` - 1.

    Raises MemoryError where there is none for them.
    """

    def __init__(
        self, space: Space, n_symbols: int, name: str, rules: TradeRules, params: bytes, *, timers: bool, ends: bool
    ) -> None:
        tape = made(
            lib.sd_tape_create(space.pointer, n_symbols, ffi.from_buffer("sd_trade_rules *", rules.packed)),
            f"no memory for the books of {n_symbols:,} symbols",
        )
        space.keep_books(lib.sd_tape_adopt, tape)
        addresses = (int(ffi.cast("uintptr_t", pointer)) for pointer in (tape, space.pointer))
        source = source_bytes(rules, *addresses)
        self.function: Final = builtin_function(name, source + params, timers=timers, ends=ends, keep=space)
