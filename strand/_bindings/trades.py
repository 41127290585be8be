"""What is a trade in a feed, as handlers in C are told (csrc/handlers/trade.h)."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

from strand._bindings import lib

__all__ = ["TradeRules"]

_NOT_PRINTABLE: Final = int(lib.SD_TRADE_NOT_PRINTABLE)
_CROSS: Final = int(lib.SD_TRADE_CROSS)


@dataclass(frozen=True, slots=True)
class TradeRules:
    """An ``sd_trade_rules``.

    ``orders``: ticks are single orders, of which books are made. ``fills_report``: fills repeat what trades said, and
    flags are Databento's. ``crosses``: they count. ``resting``: a trade's side is that of the order that rested.
    """

    orders: bool = False
    fills_report: bool = False
    crosses: bool = True
    resting: bool = False

    @property
    def packed(self) -> bytes:
        cross = 0 if self.fills_report else _CROSS
        left_out = _NOT_PRINTABLE | (0 if self.crosses else cross)
        hidden = self.orders and not self.fills_report
        return struct.pack("=BBBBB3x", self.fills_report, hidden, self.resting, cross, left_out)
