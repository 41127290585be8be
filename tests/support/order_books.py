"""An order book that checks a generated day tick by tick, sharing nothing with the code that makes it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any

__all__ = ["Books"]

_FIELDS = ("action", "side", "instrument_id", "order_id", "size", "price", "ref_id", "flags")


class Books:
    """Every live order of a day: raises AssertionError at the first event that does not fit the ones before."""

    def __init__(self) -> None:
        self.orders: dict[int, tuple[int, bytes, int]] = {}
        self.shares: dict[int, int] = {}
        self.levels: dict[tuple[int, bytes], dict[int, set[int]]] = defaultdict(dict)
        self.counts: Counter[str] = Counter()
        self.states: dict[int, str] = defaultdict(lambda: "T")
        self.paired: dict[int, int] = defaultdict(int)

    def add(self, locate: int, side: bytes, order: int, price: int, size: int) -> None:
        assert order not in self.orders, f"order {order} is added twice"
        assert size > 0
        assert price > 0
        opposite = self.levels[locate, b"A" if side == b"B" else b"B"]
        if opposite:
            assert price < min(opposite) if side == b"B" else price > max(opposite), f"order {order} crosses the book"
        self.orders[order] = locate, side, price
        self.shares[order] = size
        self.levels[locate, side].setdefault(price, set()).add(order)

    def take(self, locate: int, order: int, size: int) -> tuple[bytes, int]:
        assert order in self.orders, f"order {order} is not live"
        where, side, price = self.orders[order]
        assert where == locate, f"order {order} is another symbol's"
        assert 0 < size <= self.shares[order], f"order {order} has fewer than {size} shares"
        self.shares[order] -= size
        if not self.shares[order]:
            del self.orders[order], self.shares[order]
            level = self.levels[locate, side]
            level[price].remove(order)
            if not level[price]:
                del level[price]
        return side, price

    def apply(self, tick: Mapping[str, Any]) -> None:
        action, locate, order = tick["action"], tick["instrument_id"], tick["order_id"]
        size, price, ref = tick["size"], tick["price"], tick["ref_id"]
        state = self.states[locate]
        if action in (b"A", b"M"):
            assert state in "TQ", f"an order of halted symbol {locate} came"
        elif action in (b"F", b"T") and not tick["flags"] & 4:
            assert state == "T", f"symbol {locate} was executed in state {state}"
        match action:
            case b"A":
                self.counts["add"] += 1
                self.add(locate, tick["side"], order, price, size)
            case b"F":
                self.counts["execute"] += 1
                assert order in self.orders, f"order {order} is not live"
                side = self.orders[order][1]
                best = (max if side == b"B" else min)(self.levels[locate, side])
                assert order == min(self.levels[locate, side][best]), f"order {order} was not the first in its queue"
                self.take(locate, order, size)
            case b"C" if size:
                self.counts["reduce"] += 1
                self.take(locate, order, size)
                assert order in self.orders, f"a partial cancel took all of order {order}"
            case b"C":
                self.counts["delete"] += 1
                self.take(locate, order, self.shares.get(order, 0))
            case b"M":
                self.counts["replace"] += 1
                side, _ = self.take(locate, order, self.shares.get(order, 0))
                self.add(locate, side, ref, price, size)
            case b"T":
                self.counts["cross" if tick["flags"] & 4 else "trade"] += 1
                assert size > 0
                if tick["flags"] & 4:
                    assert size == self.paired.pop(locate), f"the cross of {locate} is not what its notices paired"
                    assert state == ("Q" if tick["flags"] & 0x70 == 0x30 else "T")
            case b"N" if tick["flags"] & 0x80:
                self.counts["imbalance"] += 1
                assert size > self.paired[locate]
                assert (tick["side"] == b"N") == (ref == 0)
                assert state in {"O": "T", "C": "T", "H": "HPQ"}[chr(tick["flags"] & 0x7F)]
                self.paired[locate] = size
            case b"N":
                self.counts["state"] += 1
                letter = chr(tick["flags"])
                assert letter in {"T": "HP", "H": "Q", "P": "Q", "Q": "T"}[state], f"{locate}: {letter} after {state}"
                self.states[locate] = letter
            case _:
                raise AssertionError(f"unexpected action {action!r}")

    def replay(self, ticks: Any) -> Books:
        columns = [ticks[name].tolist() for name in _FIELDS]  # a record of numpy takes longer to read than to check
        for values in zip(*columns, strict=True):
            self.apply(dict(zip(_FIELDS, values, strict=True)))
        return self
