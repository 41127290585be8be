"""Totals of own handlers do not wrap, in handlers of every kind."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pytest

import strand
from strand import TOTAL, Trade, add_total
from strand.errors import ConfigurationError, HandlerError
from strand.handlers.compiled.handlers import uncompiled
from strand.ticks import KIND_TRADE, zeros

pytest.importorskip("numba")

STATE = [("trades", "i8"), ("volume", TOTAL), ("notional", "i8")]
MOST = 2**63 - 1
KINDS = ("compiled", "plain", "batch", "object", "c")


@strand.handler(on="trade", state=STATE)
def compiled(row, trade):  # type: ignore[no-untyped-def]
    row.trades += 1
    row.volume += trade.size


@strand.batch_handler(on="trade", state=STATE)
def batch(symbol: str, trades: Any, row: Any) -> None:
    add_total(row, "volume", trades["size"])
    row["trades"] += len(trades)


@strand.object_handler(state=STATE)
class Each:
    def on_start(self, ctx: Any) -> None:
        self.row = ctx.row

    def on_trade(self, trade: Trade) -> None:
        add_total(self.row, "volume", trade.size)
        self.row["trades"] += 1


def handler_of(kind: str, c_handlers: Path) -> Any:
    if kind == "c":
        return strand.native(c_handlers, "on_trades", on="trade", state=STATE)
    return {"compiled": compiled, "plain": uncompiled(compiled), "batch": batch, "object": Each}[kind]


def trades(*sizes: int) -> Any:
    made = zeros(len(sizes))
    made["ts_recv"] = made["sequence_low"] = np.arange(1, len(sizes) + 1)
    made["kind"], made["action"], made["side"], made["size"] = KIND_TRADE, b"T", b"N", sizes
    return strand.testing.ListFeed(made, ["A"], batches=1)


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("kind", KINDS)
def test_a_total_is_exact_up_to_its_bound_and_then_the_tick_fails(kind: str, workers: int, c_handlers: Path) -> None:
    handler = handler_of(kind, c_handlers)
    full = strand.replay(trades(2**62, 2**62 - 1), handler, workers=workers)
    assert full.rows["A"]["volume"] == MOST
    with pytest.raises(HandlerError) as error:
        strand.replay(trades(2**62, 2**62 - 1, 1, 1), handler, workers=workers, on_error="stop")
    if (kind, workers) != ("batch", 2):  # which fails at the first tick of some batch
        assert "on A at sequence 3" in str(error.value)
    assert any(word in str(error.value) for word in ("OverflowError", "beyond 2**63 - 1"))


@pytest.mark.python
def test_operators_of_a_total_give_what_python_gives() -> None:
    @strand.handler(on="trade", state=[("v", TOTAL), ("w", TOTAL), ("out", "f8", 18)], cache=False)
    def odd(row, trade):  # type: ignore[no-untyped-def]
        row.v = row.v + trade.size
        row.w = trade.size - row.v
        row.w -= 5
        out, v, w = row.out, row.v, row.w
        out[0], out[1], out[2], out[3] = v * 3, v / 4, v // 4, v % 4
        out[4], out[5], out[6], out[7] = v & 6, v | 6, v ^ 6, v << 2
        out[8], out[9], out[10], out[11] = v >> 1, max(v, 7), min(7, v), abs(w)
        out[12], out[13], out[14], out[15] = -w, float(v), int(w), v + w
        out[16] = v if v > w else 0
        out[17] = (v == w) + 2 * (v != w) + 4 * (v >= 9) + 8 * (v > 8) + 16 * bool(w) + 32 * (v < 2.5)

    for size in (1, 3, 8, 9, 10**12):
        row = strand.replay(trades(4, size), odd, workers=0).rows["A"]
        v = 4 + size
        w = size - v - 5
        assert (row["v"], row["w"]) == (v, w)
        assert row["out"].tolist() == [
            v * 3, v / 4, v // 4, v % 4, v & 6, v | 6, v ^ 6, v << 2, v >> 1, max(v, 7), min(7, v), abs(w), -w, v, w,
            v + w, v, (v == w) + 2 * (v != w) + 4 * (v >= 9) + 8 * (v > 8) + 16 * bool(w) + 32 * (v < 2.5),
        ]  # fmt: skip


@strand.handler(state=[("v", TOTAL), ("set", "?")])
def sums(row, tick):  # type: ignore[no-untyped-def]
    if row.set and tick.ref_id:
        row.v += tick.ref_id
    elif row.set:
        row.v += tick.size
    else:
        row.v = tick.size
        row.set = True


@pytest.mark.parametrize(("start", "change"), [(MOST, 1), (-MOST, -2), (2**62, 2**62), (0, 2**63), (5, MOST)], ids=str)
def test_a_sum_that_does_not_fit_fails_and_one_that_fits_is_right(start: int, change: int) -> None:
    """Sizes of a tick are signed here: a total may go down, too."""
    made = zeros(2)
    made["ts_recv"] = [1, 2]
    made["size"][0] = start
    if change == 2**63:  # a u8, which no i8 holds
        made["ref_id"][1] = change
    else:
        made["size"][1] = change
    feed = strand.testing.ListFeed(made, ["A"])
    if -(2**63) <= start + change < 2**63:
        assert strand.replay(feed, sums, workers=0).rows["A"]["v"] == start + change
        return
    with pytest.raises(HandlerError):
        strand.replay(feed, sums, workers=0)


def test_totals_in_chains_and_tables_are_numbers_like_others() -> None:
    class Row:
        volume: Annotated[np.int64, "total"]

    @strand.handler(on="trade", state=Row, params=[("least", "i8")])
    def large(row, trade, params):  # type: ignore[no-untyped-def]
        if trade.size >= params.least:
            row.volume += trade.size

    given = large.with_params({"*": {"least": 2}})
    result = strand.replay(trades(1, 2, 3), strand.chain(strand.vwap(), given), workers=0)
    assert result.rows["A"]["large"]["volume"] == 5
    assert str(result.rows.units["large.volume"]) == "units of the instrument"
    assert result.rows.to_polars()["large.volume"].to_list() == [5]


def test_add_total_takes_numbers_and_arrays_exactly() -> None:
    row = np.zeros(1, [("v", "i8")])[0]
    add_total(row, "v", np.full((2, 2), 2**61 - 1))
    add_total(row, "v", np.array([3, 1, -1], np.int8))
    assert row["v"] == 2**63 - 1
    with pytest.raises(OverflowError, match=r"^v: its total 9223372036854775808 is beyond 2\*\*63 - 1"):
        add_total(row, "v", np.uint8(1))
    assert row["v"] == 2**63 - 1


@pytest.mark.parametrize(
    "state",
    [[("v", TOTAL, 3)], [("v", strand.units.declare(TOTAL, "<f8"))], [("v", strand.units.declare(TOTAL, "<i4"))]],
)
def test_only_one_i8_can_be_a_total(state: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"state\.v: a total is one i8, not .*: declare it as strand\.TOTAL"):
        strand.handler(state=state)
