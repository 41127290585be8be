"""Rules for trades in a feed, in the form that handlers in C take (csrc/handlers/trade.h)."""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from strand.binding import ffi, lib
from strand.binding.engine_words import Failure
from strand.binding.gate import made, text_of
from strand.binding.native import NativeFunction, builtin_function
from strand.binding.space import Space
from strand.ticks import TRADE, Flags

__all__ = ["TradeMaker", "TradeRules", "TradeSource"]


def _flags_bytes(flags: Flags) -> bytes:
    """An ``sd_flags``."""
    return struct.pack("=6B2x", flags.unprinted, flags.cross, flags.best, flags.snapshot, flags.last, flags.top)


class TradeRules(NamedTuple):
    """An ``sd_trade_rules``.

    ``orders``: ticks are single orders, of which books are made. ``fills_report``: fills repeat what trades said,
    and books are Databento's. ``crosses``: they count. ``resting``: a trade's side is that of the order that rested.
    ``flags``: which bits of a tick's flags mean what. ``sizeless``: trades have no sizes, and count with size 0.
    ``at_end``: ticks are of ready-made bars, and their times the ends of these.
    """

    orders: bool = False
    fills_report: bool = False
    crosses: bool = True
    resting: bool = False
    flags: Flags = Flags()
    sizeless: bool = False
    at_end: bool = False

    @property
    def packed(self) -> bytes:
        left_out = self.flags.unprinted | (0 if self.crosses else self.flags.cross)
        hidden = self.orders and not self.fills_report
        said = (self.fills_report, hidden, self.resting, left_out, self.sizeless, self.at_end)
        return struct.pack("=6B2x", *said) + _flags_bytes(self.flags)


class TradeSource(NamedTuple):
    """Source of a feed's trades. ``rules`` decide which ticks are trades. ``books``: fills are looked up in books of
    orders. ``assumed``: nobody has declared the meaning of the feed's ticks, and they are taken as they are."""

    rules: TradeRules = TradeRules()
    books: bool = False
    assumed: bool = False


class TradeMaker:
    """Makes trades of the ticks of symbols 0 to ``n_symbols`` - 1, for a handler that asks for them.

    Raises MemoryError where there is none for the books.
    """

    def __init__(self, space: Space, n_symbols: int, source: TradeSource) -> None:
        self._params = ffi.new("sd_traded_params *")
        ffi.buffer(ffi.addressof(self._params.source, "rules"))[:] = source.rules.packed
        if source.books:
            tape = made(
                lib.sd_tape_create(space.pointer, n_symbols, ffi.addressof(self._params.source, "rules")),
                f"no memory for the books of {n_symbols:,} symbols",
            )
            self._params.source.tape, self._params.source.space = tape, space.pointer
            space.keep_books(lib.sd_tape_adopt, tape)
        self._space = space
        self._unpriced = space.zeros(n_symbols, np.int64)
        self._params.unpriced = ffi.cast("int64_t *", self._unpriced.ctypes.data)

    @property
    def unpriced(self) -> npt.NDArray[np.int64]:
        """Trades by symbol that no handler was called with, as they have no price: executions of orders that were never
        added."""
        return self._unpriced

    def around(self, function: NativeFunction) -> NativeFunction:
        """Wraps a function that takes records of TRADE into a function that the engine calls with ticks."""
        inner = ffi.new("char[]", function.params) if function.params else ffi.NULL
        made = ffi.new("sd_traded_params *", self._params[0])
        made.fn, made.params = function.pointer, inner
        made.wake, made.finish = function.wake or ffi.NULL, function.finish or ffi.NULL
        traded = builtin_function(
            "traded",
            bytes(ffi.buffer(made)),
            timers=function.wake is not None,
            ends=function.finish is not None,
            never_publishes=function.never_publishes,
            keep=(self, function, inner),
        )
        return traded._replace(yields=function.yields)

    def make(self, ticks: npt.NDArray[Any], participant: int) -> tuple[npt.NDArray[Any], Failure | None]:
        """The trade that each tick is, records of TRADE, shape (n,), of size -1 where it is none. Fewer than there are
        ticks: the next one failed. ``ticks``: contiguous; ``participant``: the worker that holds them."""
        made = np.empty(len(ticks), TRADE)
        context = ffi.new("sd_context *", {"participant": participant})
        at, to = ffi.cast("sd_tick *", ticks.ctypes.data), ffi.cast("sd_traded *", made.ctypes.data)
        done = int(lib.sd_trades_of(self._params, at, len(ticks), to, context))
        if done == len(ticks):
            return made, None
        return made[:done], Failure(int(context.error_code), text_of(context.message), handled=done)
