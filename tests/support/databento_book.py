"""Databento's rules for books of orders in plain Python: a book per publisher, shown at the end of its events."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from strand import UNDEF_PRICE

LAST, TOP, SNAPSHOT = 128, 64, 32
ORDER, STATUS = 1, 4
SIDES = (b"B", b"A")

Levels = list[tuple[int, int, int]]


@dataclass
class Publisher:
    """``orders``: id to [side, price, size], in queue order over all levels. ``tops``: sides of which only the top is
    told, which is (price, size), or None where the side is empty."""

    orders: dict[int, list[Any]] = field(default_factory=dict)
    tops: dict[bytes, tuple[int, int] | None] = field(default_factory=dict)
    shown: dict[bytes, Levels] = field(default_factory=lambda: {side: [] for side in SIDES})
    shown_orders: int = 0
    #: The receive time of the snapshot under way, and whether it ended; None: the last record was of none.
    snapshot: tuple[int, bool] | None = None

    def follow_snapshot(self, t: Any) -> None:
        """A snapshot replaces the book, whether or not a clear record comes first."""
        if not t["flags"] & SNAPSHOT:
            self.snapshot = None
            return
        time = int(t["ts_recv"])
        if self.snapshot is None or (self.snapshot[1] and self.snapshot[0] != time):
            self.orders.clear()
            self.tops.clear()
        self.snapshot = time, bool(t["flags"] & LAST)

    def levels(self, side: bytes) -> Levels:
        """(price, size, orders), best first."""
        if side in self.tops:
            top = self.tops[side]
            return [] if top is None else [(*top, 0)]
        return merged([[(price, size, 1)] for its, price, size in self.orders.values() if its == side], side)

    def show(self) -> None:
        self.shown = {side: self.levels(side) for side in SIDES}
        self.shown_orders = len(self.orders)


def merged(parts: list[Levels], side: bytes) -> Levels:
    found: dict[int, list[int]] = {}
    for price, size, orders in (level for levels in parts for level in levels):
        level = found.setdefault(price, [0, 0])
        level[0] += size
        level[1] += orders
    return [(price, *found[price]) for price in sorted(found, reverse=side == b"B")]


@dataclass
class DatabentoBook:
    """One instrument's. ``count``: what a row counts."""

    publishers: dict[int, Publisher] = field(default_factory=dict)
    count: dict[str, int] = field(
        default_factory=lambda: dict.fromkeys(
            ("ticks", "unknown", "duplicates", "clipped", "unusable", "crossed", "volume", "trades"), 0
        )
    )

    def apply(self, t: Any) -> None:
        """One tick, a record of TICK."""
        self.count["ticks"] += 1
        if t["kind"] == STATUS:
            if t["action"] == b"R":
                for publisher in self.publishers.values():
                    publisher.orders.clear()
                    publisher.tops.clear()
                    publisher.snapshot = None
                    publisher.show()
            return
        publisher = self.publishers.setdefault(int(t["publisher_id"]), Publisher())
        if t["kind"] == ORDER:
            publisher.follow_snapshot(t)
        self._change(publisher, t)
        if t["flags"] & LAST:
            publisher.show()
            bids, asks = publisher.shown[b"B"], publisher.shown[b"A"]
            self.count["crossed"] += bool(bids and asks and bids[0][0] >= asks[0][0])

    def _change(self, p: Publisher, t: Any) -> None:
        action, price, size, number = t["action"], int(t["price"]), int(t["size"]), int(t["order_id"])
        if action == b"R":
            p.orders.clear()
            p.tops.clear()
        elif action == b"T":
            if size > 0 and price != UNDEF_PRICE:
                self.count["volume"] += size
                self.count["trades"] += 1
            elif size > 0:
                self.count["unusable"] += 1
        elif action == b"C":
            order = p.orders.get(number)
            if order is None:
                self.count["unknown"] += 1
                return
            self.count["clipped"] += size > order[2]
            order[2] -= size
            if order[2] <= 0:
                del p.orders[number]
        elif action in (b"A", b"M"):
            self._put(p, t)

    def _put(self, p: Publisher, t: Any) -> None:
        action, side, price, size = t["action"], t["side"], int(t["price"]), int(t["size"])
        number = int(t["order_id"])
        usable = side in SIDES and size > 0 and price != UNDEF_PRICE
        if t["flags"] & TOP:
            if side in SIDES and price == UNDEF_PRICE:
                p.tops[side] = None
            elif usable:
                p.tops[side] = price, size
            else:
                self.count["unusable"] += 1
                return
            p.orders = {key: order for key, order in p.orders.items() if order[0] != side}
        elif side in p.tops:
            self.count["unusable"] += 1
        elif action == b"M" and number in p.orders:
            order = p.orders[number]
            if size <= 0 or price == UNDEF_PRICE:
                self.count["unusable"] += 1
                return
            if price != order[1] or size > order[2]:
                del p.orders[number]  # and it loses its place
            p.orders[number] = [order[0], price, size]
        elif not usable:
            self.count["unusable"] += 1
        elif number in p.orders:
            self.count["duplicates"] += 1
        else:
            p.orders[number] = [side, price, size]

    def levels(self, side: bytes) -> Levels:
        """Of all publishers, as the last tick left them."""
        return merged([p.levels(side) for p in self.publishers.values()], side)

    def shown(self, side: bytes) -> Levels:
        """Of all publishers, as their last events left them."""
        return merged([p.shown[side] for p in self.publishers.values()], side)

    def row(self) -> dict[str, int]:
        """Row of BOOK_ROW; times, state and last price left out."""
        every = list(self.publishers.values())
        bids, asks = (merged([p.shown[side] for p in every], side) for side in SIDES)
        none = (UNDEF_PRICE, 0, 0)
        bid, ask = (bids or [none])[0], (asks or [none])[0]
        return self.count | {
            "bid_price": bid[0], "bid_size": bid[1], "bid_orders": bid[2],
            "ask_price": ask[0], "ask_size": ask[1], "ask_orders": ask[2],
            "orders": sum(p.shown_orders for p in every),
            "bid_levels": sum(len(p.shown[b"B"]) for p in every),
            "ask_levels": sum(len(p.shown[b"A"]) for p in every),
        }  # fmt: skip
