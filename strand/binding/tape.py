"""Handlers that read trades and quotes, their sources, and the books that some of them keep."""

from __future__ import annotations

import struct
from typing import Final

from strand.binding import ffi, lib
from strand.binding.gate import made
from strand.binding.native import NativeFunction, builtin_function
from strand.binding.space import Space
from strand.binding.trades import TradeRules

__all__ = ["TapeMemory", "source_bytes", "with_contracts"]


def source_bytes(rules: TradeRules, tape: int = 0, space: int = 0, levels: int = 0) -> bytes:
    """An sd_source.

    Args:
        rules: What a trade is, and what flags mean.
        tape: The books of orders to take trades and quotes from; 0: the ticks themselves.
        space: The space in which books lie.
        levels: The books of levels to take quotes from; 0: no quotes are taken.
    """
    return struct.pack("=QQQQ", tape, space, levels, 0) + rules.packed


def with_contracts(function: NativeFunction, address: int) -> NativeFunction:
    """The function, whose params begin with an sd_source, with contracts that lie at an address; 0: with none."""
    at = int(ffi.offsetof("sd_source", "contracts"))
    params = function.params
    return function._replace(params=params[:at] + struct.pack("=Q", address) + params[at + 8 :])


class TapeMemory:
    """The books that a handler reads its trades and quotes from, for symbols 0 to ``n_symbols`` - 1.

    ``orders``: they are books of orders; else of levels. Raises MemoryError where there is none for them.
    """

    def __init__(
        self, space: Space, n_symbols: int, name: str, rules: TradeRules, params: bytes, *, orders: bool, timers: bool,
        ends: bool,
    ) -> None:  # fmt: skip
        no_memory = f"no memory for the books of {n_symbols:,} symbols"
        its_space = int(ffi.cast("uintptr_t", space.pointer))
        if orders:
            given = ffi.from_buffer("sd_trade_rules *", rules.packed)
            tape = made(lib.sd_tape_create(space.pointer, n_symbols, given), no_memory)
            space.keep_books(lib.sd_tape_adopt, tape)
            source = source_bytes(rules, int(ffi.cast("uintptr_t", tape)), its_space)
        else:
            levels = made(lib.sd_levels_create(space.pointer, n_symbols), no_memory)
            source = source_bytes(rules, 0, its_space, int(ffi.cast("uintptr_t", levels)))
        self.function: Final = builtin_function(name, source + params, timers=timers, ends=ends, keep=space)
