"""An order book as plain as can be: one dict of orders, sorted when asked."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from strand import UNDEF_PRICE

#: Fields of a level and of an order, as `levels` and `queue` have them.
LEVEL_FIELDS = ("price", "size", "orders")
ORDER_FIELDS = ("order_id", "price", "size", "ahead_orders", "ahead_size")
NON_PRINTABLE = 1
STATUS = 4


@dataclass
class PlainBook:
    """One symbol's. ``orders``: id to [side, price, size], in queue order over all levels."""

    orders: dict[int, list[Any]] = field(default_factory=dict)
    count: dict[str, int] = field(default_factory=lambda: dict.fromkeys(COUNTED, 0))

    def apply(self, t: Any) -> None:
        """One tick, a record of TICK."""
        self.change(t)
        bid, ask = self.levels(b"B"), self.levels(b"A")
        self.count["crossed"] += bool(bid and ask and bid[0][0] >= ask[0][0])

    def change(self, t: Any) -> None:
        """The same without a look at what it leaves, which takes all orders: ``crossed`` is not counted."""
        action, side, size, price = t["action"], t["side"], int(t["size"]), int(t["price"])
        order_id = int(t["order_id"])
        self.count["ticks"] += 1
        usable = size > 0 and price not in (UNDEF_PRICE, -(2**63))
        if action == b"A":
            if not usable or side not in (b"A", b"B"):
                self.count["unusable"] += 1
            elif order_id in self.orders:
                self.count["duplicates"] += 1
            else:
                self.orders[order_id] = [side, price, size]
        elif action == b"R":
            self.orders.clear()
            if t["kind"] == STATUS:
                self.count["state"] = 0
        elif action == b"T":
            self._trade(t, price, size)
        elif action == b"N":
            if t["kind"] == STATUS and bytes([t["flags"]]) in (b"H", b"P", b"Q", b"T"):
                self.count["state"] = int(t["flags"])
        elif action in (b"C", b"F", b"M"):
            self._change(t, action, usable)

    def _change(self, t: Any, action: bytes, usable: bool) -> None:
        size, price = int(t["size"]), int(t["price"])
        order_id, ref = int(t["order_id"]), int(t["ref_id"])
        order = self.orders.get(order_id)
        if order is None:
            self.count["unknown"] += 1
            if action == b"F":
                self._trade(t, price, size)
        elif action == b"M":
            if not usable:
                self.count["unusable"] += 1
                if ref != 0:
                    del self.orders[order_id]
            elif ref == 0:
                if price != order[1] or size > order[2]:
                    del self.orders[order_id]
                self.orders[order_id] = [order[0], price, size]
            else:
                del self.orders[order_id]
                if ref in self.orders:
                    self.count["duplicates"] += 1
                else:
                    self.orders[ref] = [order[0], price, size]
        else:
            if action == b"F":
                self._trade(t, order[1] if price == UNDEF_PRICE else price, size)
            if action == b"C" and size == 0:
                size = order[2]
            self.count["clipped"] += size > order[2]
            order[2] -= size
            if order[2] <= 0:
                del self.orders[order_id]

    def _trade(self, t: Any, price: int, size: int) -> None:
        if size <= 0 or t["flags"] & NON_PRINTABLE:
            return
        if price in (UNDEF_PRICE, -(2**63)):
            self.count["unusable"] += t["action"] == b"T"
            return
        self.count["volume"] += size
        self.count["trades"] += 1
        self.count["last_price"] = price

    def levels(self, side: bytes) -> list[tuple[int, int, int]]:
        """(price, size, orders), best first."""
        by_price: dict[int, list[int]] = {}
        for its_side, price, size in self.orders.values():
            if its_side == side:
                level = by_price.setdefault(price, [0, 0])
                level[0] += size
                level[1] += 1
        return [(p, *by_price[p]) for p in sorted(by_price, reverse=side == b"B")]

    def queue(self, side: bytes) -> list[tuple[int, int, int, int, int]]:
        """(id, price, size, orders ahead, size ahead), best level first."""
        ahead: dict[int, list[int]] = {}
        found = []
        for order_id, (its_side, price, size) in self.orders.items():
            if its_side == side:
                before = ahead.setdefault(price, [0, 0])
                found.append((order_id, price, size, before[0], before[1]))
                before[0] += 1
                before[1] += size
        return sorted(found, key=lambda o: -o[1] if side == b"B" else o[1])

    def row(self) -> dict[str, int]:
        """Row of BOOK_ROW, times left out."""
        bid, ask = self.levels(b"B"), self.levels(b"A")
        none = (UNDEF_PRICE, 0, 0)
        top = {}
        for name, levels in (("bid", bid), ("ask", ask)):
            price, size, orders = levels[0] if levels else none
            top |= {f"{name}_price": price, f"{name}_size": size, f"{name}_orders": orders}
            top[f"{name}_levels"] = len(levels)
        return top | self.count | {"orders": len(self.orders)}


COUNTED = (
    "ticks", "volume", "trades", "last_price", "crossed", "unknown", "duplicates", "clipped", "unusable", "state",
)  # fmt: skip


def as_tuples(found: np.ndarray[Any, Any], names: tuple[str, ...]) -> list[tuple[int, ...]]:
    """Rows of a structured array as tuples of whole numbers."""
    return [tuple(int(row[name]) for name in names) for row in found]
