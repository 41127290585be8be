"""Ticks as compiled handlers read them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from engine_support import ticks_for
from quote_ticks import EXPECTED, quotes

import strand
from strand import Dispatcher, handler, ticks
from strand.ticks import zeros

pytestmark = pytest.mark.python


def test_letters_are_bytes_in_a_compiled_handler() -> None:
    @handler(state=[("adds", "u8"), ("others", "u8")])
    def letters(row, tick):  # type: ignore[no-untyped-def]
        if tick.action == b"A":
            row.adds += 1
        else:
            row.others += 1

    ticks = ticks_for([0] * 10)
    ticks["action"][3:5] = b"C"
    with Dispatcher(1, letters, workers=1, cores=None) as d:
        d.publish(ticks)
    assert d.rows[0].tolist() == (8, 2)


def test_handlers_of_every_kind_read_the_same_by_name() -> None:
    pytest.importorskip("numba")
    names = list(EXPECTED)

    @strand.handler(state=[("n", "i8")], outputs={"seen": [(f"its_{name}", "i8") for name in names]})
    def compiled(row, tick, emit):  # type: ignore[no-untyped-def]
        emit.seen(tick.sequence, tick.bid_price, tick.bid_size, tick.ask_price, tick.ask_size)

    @strand.batch_handler(state=[("n", "i8")], outputs={"seen": [(f"its_{name}", "i8") for name in names]})
    def batches(symbol: str, batch: Any, row: Any, ctx: Any) -> None:
        named = batch[names].view([(f"its_{name}", "<i8") for name in names])
        ctx.emit(named, at=np.arange(len(batch)), output="seen")

    objects: list[Any] = []

    class Objects:
        def on_quote(self, tick: strand.Tick) -> None:
            objects.append([getattr(tick, name) for name in names])

    for made in (compiled, batches):
        with strand.Dispatcher(1, made, workers=1, cores=None) as d:
            d.publish(quotes())
            d.drain()
            seen = d.outputs["seen"].array()
        assert {name: seen[f"its_{name}"].tolist() for name in names} == EXPECTED
    with strand.Dispatcher(1, Objects, workers=1, cores=None) as d:
        d.publish(quotes())
    assert [list(row) for row in zip(*EXPECTED.values(), strict=True)] == objects


@pytest.mark.parametrize("handler", ["count", "vwap", "trade_stats", "book", "bars", "depth", "spread"])
def test_a_sum_that_its_field_does_not_hold_is_an_error_and_never_wraps(handler: str) -> None:
    made = zeros(4)
    made["kind"], made["action"], made["side"], made["price"] = ticks.KIND_TRADE, b"T", b"N", 1
    made["size"], made["ts_recv"] = 1 << 62, np.arange(1, 5)
    made[:1]["kind"], made[:1]["action"] = ticks.KIND_QUOTE, b"N"  # a quote for the spread to measure by
    made[:1]["order_id"], made[:1]["ref_id"], made[:1]["size"] = 3, 1, 1
    with pytest.raises(strand.errors.HandlerError, match="coarser unit"), strand.Dispatcher(1, handler, workers=1) as d:
        d.publish(made)


def test_an_id_plus_a_signed_number_is_signed_and_plus_an_unsigned_one_is_right(tmp_path: Path) -> None:
    @strand.handler(state=[("signed", "i8"), ("unsigned", "u8"), ("below_0", "i8")])
    def next_id(row, tick):  # type: ignore[no-untyped-def]
        row.signed = tick.order_id + 1
        row.unsigned = tick.order_id + np.uint64(1)
        row.below_0 = tick.order_id + 1 < 0

    for order, below_0 in ((2**53 + 1, 0), (2**63 + 1025, 1)):
        ticks = strand.ticks.zeros(1)
        ticks["kind"], ticks["action"], ticks["order_id"] = 1, b"A", order
        np.save(tmp_path / "a.npy", ticks)
        row = strand.replay(tmp_path / "a.npy", next_id).rows[0]
        assert int(row["unsigned"]) == order + 1
        assert int(row["signed"]) % 2**64 == order + 1
        assert int(row["below_0"]) == below_0
