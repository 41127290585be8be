"""Cost of the ways to write a handler: the same handlers in C and compiled from Python, and calls of Python.

pytest bench/test_handlers.py --benchmark-only -s

Ways that are compared run in turn, and what is said is the ratio of their fastest rounds.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pytest

from strand import TICK, Dispatcher, Handler, batch_handler, handler, object_handler
from strand.binding.memory import Space
from strand.feeds.synthetic import route_stream
from strand.handlers import COUNT_ROW, VWAP_ROW, resolve
from strand.handlers.base import BindContext, BoundNative
from strand.symbols import SymbolTable
from strand.ticks import KIND_TRADE, UNDEF_PRICE, zeros

numba = pytest.importorskip("numba")

SYMBOLS: Final = 500
TICKS: Final = 200_000
ROUNDS: Final = 7


@handler(state=COUNT_ROW, cache=False)
def count(row, tick):  # type: ignore[no-untyped-def]
    """The built-in count, line by line."""
    if row.ticks == 0:
        row.first_ts_recv = tick.ts_recv
    row.ticks += 1
    row.last_ts_recv = tick.ts_recv
    row.last_sequence = tick.sequence
    if tick.kind == KIND_TRADE:
        row.trades += 1
        row.volume += tick.size
        row.last_price = tick.price


@handler(state=VWAP_ROW, cache=False)
def vwap(row, tick):  # type: ignore[no-untyped-def]
    """The built-in vwap, line by line."""
    if tick.kind != KIND_TRADE or tick.price == UNDEF_PRICE or tick.size == 0:
        return
    row.trades += 1
    row.volume += tick.size
    row.notional += tick.price * 1e-9 * tick.size
    row.vwap = row.notional / row.volume


def market(trades: float) -> npt.NDArray[Any]:
    ticks = route_stream(TICKS, SYMBOLS)
    rng = np.random.default_rng(1)
    ticks["kind"] = np.where(rng.random(TICKS) < trades, KIND_TRADE, 1)
    ticks["action"] = np.where(ticks["kind"] == KIND_TRADE, b"T", b"A")
    ticks["size"], ticks["price"] = 100, 10**11
    return ticks


def in_turn(ways: dict[str, Callable[[], None]]) -> dict[str, float]:
    """Seconds of each way's fastest round."""
    best = dict.fromkeys(ways, float("inf"))
    for _ in range(ROUNDS):
        for name, run in ways.items():
            start = time.perf_counter()
            run()
            best[name] = min(best[name], time.perf_counter() - start)
    return best


def caller(like: Handler, ticks: npt.NDArray[Any]) -> Callable[[], None]:
    """Runs a native handler over the ticks as a worker does, a block of records a call."""
    stride = -(-like.state.itemsize // 64) * 64
    bound = like.bind(BindContext(SymbolTable(SYMBOLS), TICK, "instrument_id", stride, Space()))
    assert isinstance(bound, BoundNative)
    function = bound.function
    rows = np.zeros(SYMBOLS * stride, np.uint8)
    params = np.frombuffer(function.params or bytes(8), np.uint8)
    context = np.zeros(64, np.uint64)
    context[:4] = params.ctypes.data, stride, SYMBOLS, TICK.itemsize
    address = int(str(function.pointer).rsplit("0x", 1)[1].rstrip(">"), 16)
    call = ctypes.CFUNCTYPE(ctypes.c_int64, *([ctypes.c_void_p] * 2), ctypes.c_int64, ctypes.c_void_p)(address)
    at, n = ticks.ctypes.data, 4096

    def run() -> None:
        assert len(params)  # it has to live as long as this
        for start in range(0, TICKS - n + 1, n):
            assert call(rows.ctypes.data, at + start * TICK.itemsize, n, context.ctypes.data) == n

    return run


@pytest.mark.parametrize("trades", [0.1, 1.0])
@pytest.mark.parametrize("compiled", [count, vwap], ids=["count", "vwap"])
def test_compiled_beside_c(benchmark: Any, compiled: Handler, trades: float) -> None:
    ticks = market(trades)
    best = in_turn({"c": caller(resolve(compiled.name), ticks), "numba": caller(compiled, ticks)})
    ratio = best["numba"] / best["c"]
    benchmark.extra_info |= {f"{k}_ns_per_tick": round(v / TICKS * 1e9, 2) for k, v in best.items()}
    benchmark.extra_info["numba_over_c"] = round(ratio, 3)
    print(f"\n{compiled.name}, {trades:.0%} trades: numba {ratio:.2f} times C, {benchmark.extra_info}")
    benchmark.pedantic(caller(compiled, ticks), rounds=1)


@pytest.mark.parametrize("ticks_a_call", [1, 10, 31, 100])
def test_an_empty_python_batch_call(benchmark: Any, ticks_a_call: int) -> None:
    """From one call of the handler to the next, by the clock: booking what was handled, batch, call. Ticks of more than
    a block, 31, are copied together."""
    symbols = [f"S{i}" for i in range(2000)]
    at: list[int] = []
    empty = batch_handler(state=[("n", "u8")])(lambda symbol, ticks, row: None)
    edge = batch_handler(state=[("n", "u8")])(lambda symbol, ticks, row: at.append(time.perf_counter_ns()))
    handlers = {"*": empty, symbols[0]: edge, symbols[-1]: edge}
    ticks = zeros(len(symbols) * ticks_a_call)
    ticks["instrument_id"] = np.repeat(np.arange(len(symbols)), ticks_a_call)
    with Dispatcher(symbols, handlers=handlers, workers=1, cores=None, idle="spin", strands="per-symbol") as d:
        best = float("inf")
        for _ in range(ROUNDS):
            at.clear()
            before = d.statistics().visits
            d.publish(ticks)
            d.drain()
            calls = d.statistics().visits - before
            best = min(best, (at[-1] - at[0]) / (calls - 1))
        benchmark.extra_info["ns_a_call"] = round(best)
        print(f"\n{calls} calls, {ticks_a_call} ticks each: {best:.0f} ns a call")
        benchmark.pedantic(lambda: (d.publish(ticks), d.drain()), rounds=1)


@batch_handler(state=[("trades", "u8"), ("volume", "u8"), ("notional", "f8")])
def batched(symbol: str, ticks: Any, row: Any) -> None:
    trades = ticks[ticks["kind"] == KIND_TRADE]
    row["trades"] += len(trades)
    row["volume"] += trades["size"].sum()
    row["notional"] += (trades["price"] * 1e-9 * trades["size"]).sum()


@batch_handler(state=[("trades", "u8"), ("volume", "u8"), ("notional", "f8")])
def one_by_one(symbol: str, ticks: Any, row: Any) -> None:
    for tick in ticks:
        if tick["kind"] == KIND_TRADE:
            row["trades"] += 1
            row["volume"] += tick["size"]
            row["notional"] += tick["price"] * 1e-9 * tick["size"]


@object_handler
class Object:
    def __init__(self) -> None:
        self.trades = self.volume = 0
        self.notional = 0.0

    def on_trade(self, tick: Any) -> None:
        self.trades += 1
        self.volume += tick.size
        self.notional += tick.price * 1e-9 * tick.size


def test_python_a_batch_at_a_time_beside_tick_by_tick(benchmark: Any) -> None:
    ticks = market(1.0)[:40_000]

    def run(like: Handler, budget: int = 4096) -> Callable[[], None]:
        def once() -> None:
            with Dispatcher(SYMBOLS, like, workers=1, cores=None, strands="per-symbol", budget_ticks=budget,
                            batch_ticks=65_536) as d:  # fmt: skip
                d.publish(ticks)

        return once

    ways = {"batch": run(batched), "loop": run(one_by_one), "call a tick": run(batched, 1), "object": run(Object)}
    best = in_turn(ways)
    benchmark.extra_info |= {f"{name}_us_per_tick": round(s / len(ticks) * 1e6, 3) for name, s in best.items()}
    for name in ("loop", "call a tick", "object"):
        print(f"\nbatch is {best[name] / best['batch']:.1f} times as fast as {name}", end="")
    print(f"\n{benchmark.extra_info}")
    benchmark.pedantic(run(batched), rounds=1)
