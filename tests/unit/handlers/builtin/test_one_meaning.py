"""Handlers that count trades agree with each other, and with a plain reading of the sample day."""

from __future__ import annotations

import pytest

import strand
from strand import UNDEF_PRICE, feeds
from strand.feeds.sample import SAMPLE_DATE, sample_path

DAY = {"date": SAMPLE_DATE}


def plain_volumes(*, crosses: bool) -> dict[int, tuple[int, int]]:
    """(trades, volume) by key, of ITCH ticks: fills and trades that are printable, and have a price of their own or
    are of an order that was added."""
    known: set[int] = set()
    found: dict[int, tuple[int, int]] = {}
    for batch in feeds.open(sample_path(), **DAY).batches():
        names = ("instrument_id", "action", "order_id", "ref_id", "price", "size", "flags")
        for key, action, order, ref, price, size, flags in zip(*(batch[n].tolist() for n in names), strict=True):
            if action in (b"A", b"M"):
                known.add(ref if action == b"M" else order)
            elif action in (b"T", b"F"):
                counts = not flags & 1 and size > 0 and (crosses or not flags & 4)
                if counts and (price != UNDEF_PRICE or order in known):
                    trades, volume = found.get(key, (0, 0))
                    found[key] = (trades + 1, volume + size)
    return found


@pytest.mark.python
def test_all_handlers_count_the_same_trades_of_an_itch_day() -> None:
    for crosses in (True, False):
        expected = plain_volumes(crosses=crosses)
        for like in (strand.vwap, strand.trade_stats, strand.book):
            rows = strand.replay(sample_path(), like(crosses=crosses), feed_options=DAY).rows.array
            found = {k: (int(r["trades"]), int(r["volume"])) for k, r in enumerate(rows) if r["trades"]}
            assert found == expected
    assert plain_volumes(crosses=True) != plain_volumes(crosses=False)
