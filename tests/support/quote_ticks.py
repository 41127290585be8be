"""Quotes of either side and of both, and what is read of them by name."""

from __future__ import annotations

from strand.ticks import KIND_QUOTE, MAX_SEQUENCE, UNDEF_PRICE, Ticks, zeros

EXPECTED = {
    "sequence": [1, 1 << 32, MAX_SEQUENCE],
    "bid_price": [100, UNDEF_PRICE, 99],
    "bid_size": [5, 0, 7],
    "ask_price": [102, 101, UNDEF_PRICE],
    "ask_size": [1 << 40, 6, 0],
}


def quotes() -> Ticks:
    """A quote of both sides, one of the ask, one of the bid."""
    made = zeros(3)
    made["kind"], made["side"] = KIND_QUOTE, [b"N", b"A", b"B"]
    made["price"], made["size"] = [100, 101, 99], [5, 6, 7]
    made["order_id"], made["ref_id"] = [102, 0, 0], [1 << 40, 0, 0]
    made["sequence"] = [1, 1 << 32, MAX_SEQUENCE]
    return made
