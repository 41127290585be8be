"""A book of price levels as plain as can be: two dicts."""

from __future__ import annotations

from typing import Any

from strand import UNDEF_PRICE

STATUS, QUOTE = 4, 3
COUNTED = (
    "ticks", "volume", "trades", "last_price", "crossed", "snapshots", "absent", "beyond", "unusable", "passed_over",
    "unpriced", "unended",
)  # fmt: skip
SNAPSHOT, BEST = 32, 4


class PlainDepth:
    """One symbol's. ``sides``: price to size. ``last``: the flag that ends an event; 0: each tick ends one."""

    def __init__(self, top: int = 5, max_levels: int = 1 << 20, last: int = 0) -> None:
        self.top, self.max_levels, self.last = top, max_levels, last
        self.waiting: list[Any] = []
        self.sides: dict[str, dict[int, int]] = {"A": {}, "B": {}}
        self.in_snapshot = False
        self.count = dict.fromkeys(COUNTED, 0)

    def apply(self, t: Any) -> None:
        """One tick, a record of TICK."""
        if self.change(t):
            bids, asks = self.levels("B"), self.levels("A")
            self.count["crossed"] += bool(bids and asks and bids[0][0] >= asks[0][0])

    def finish(self) -> None:
        """The end of the run."""
        if self.waiting:
            self.count["unended"] += 1
            self._end()

    def _end(self) -> None:
        for waiting in self.waiting:
            self._quote(waiting)
        self.waiting, self.in_snapshot = [], False

    def change(self, t: Any) -> bool:
        """The same without a look at what it leaves, which takes all levels: ``crossed`` is not counted.

        Returns whether an event of levels has ended.
        """
        self.count["ticks"] += 1
        size, price, kind = int(t["size"]), int(t["price"]), int(t["kind"])
        ends = not self.last or bool(t["flags"] & self.last and kind != STATUS)
        ended = ends and (kind == QUOTE or bool(self.waiting))
        if kind == QUOTE:
            self.waiting.append(t.copy())
        if ended:
            self._end() if self.last else self._quote(self.waiting.pop())
        if kind != QUOTE and t["action"] in (b"T", b"F") and size > 0:
            if price == UNDEF_PRICE:
                self.count["unpriced"] += 1
            else:
                self.count["trades"] += 1
                self.count["volume"] += size
                self.count["last_price"] = price
        elif kind == STATUS and t["action"] == b"R":
            self.finish()
            self.sides, self.in_snapshot = {"A": {}, "B": {}}, False
        elif kind != QUOTE:
            self.count["passed_over"] += 1
        return ended

    def _quote(self, t: Any) -> None:
        size, price, side = int(t["size"]), int(t["price"]), t["side"].decode()
        if side == "N":
            self._view(t, price, size)
        elif side in self.sides:
            self._update(t, side, price, size)
        else:
            self.count["unusable"] += 1

    def _clear(self) -> None:
        self.sides = {"A": {}, "B": {}}
        self.count["snapshots"] += 1

    def _view(self, t: Any, price: int, size: int) -> None:
        if t["depth"] == 0:
            self._clear()
        if price != UNDEF_PRICE and size:
            self._set("B", price, size)
        if int(t["order_id"]) != UNDEF_PRICE and int(t["ref_id"]):
            self._set("A", int(t["order_id"]), int(t["ref_id"]))

    def _update(self, t: Any, side: str, price: int, size: int) -> None:
        action, snapshot = t["action"].decode(), bool(t["flags"] & SNAPSHOT)
        if snapshot and not self.in_snapshot:
            self._clear()
        self.in_snapshot = snapshot or bool(self.last and self.in_snapshot)
        sign = -1 if side == "B" else 1
        levels = self.sides[side]
        if action == "R":
            self.sides[side] = (
                {} if price == UNDEF_PRICE else {p: s for p, s in levels.items() if sign * p > sign * price}
            )
        elif price == UNDEF_PRICE:
            self.count["unusable"] += 1
        elif action in ("M", "A", "C"):
            if action == "M" and t["flags"] & BEST:
                self.sides[side] = {p: s for p, s in levels.items() if sign * p >= sign * price}
            self._set(side, price, 0 if action == "C" else size)
        else:
            self.sides[side] = {}
            self.count["snapshots"] += 1
            if size:
                self._set(side, price, size)

    def _set(self, side: str, price: int, size: int) -> None:
        levels = self.sides[side]
        if size:
            levels[price] = size
            if len(levels) > self.max_levels:
                del levels[(min if side == "B" else max)(levels)]
                self.count["beyond"] += 1
        elif price in levels:
            del levels[price]
        else:
            self.count["absent"] += 1

    def levels(self, side: str) -> list[tuple[int, int]]:
        """(price, size), best first."""
        return sorted(self.sides[side].items(), reverse=side == "B")

    def row(self) -> dict[str, Any]:
        """Row of the handler, times left out."""
        shown: dict[str, Any] = dict(self.count)
        for name, side in (("bid", "B"), ("ask", "A")):
            levels = self.levels(side)
            padded = (levels + [(UNDEF_PRICE, 0)] * self.top)[: self.top]
            shown[f"{name}_price"], shown[f"{name}_size"] = padded[0]
            shown[f"{name}_levels"] = len(levels)
            shown[f"{name}_prices"], shown[f"{name}_sizes"] = (list(column) for column in zip(*padded, strict=True))
        return shown
