"""hftbacktest: its own event arrays, a backtest a symbol, level 3, numba around it, as its tutorials have it.

Symbols do not speak to each other here, and one backtest of many assets looks at all of them to find the next event:
so each symbol has a backtest of its own.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import hftbacktest as hft
import numpy as np
from hftbacktest.types import event_dtype
from numba import njit
from protocol import TOP, VWAP, Task, by_symbol, main, not_counted

TICK, DAY_NS, INTERVAL_NS = 1e-4, 86_400_000_000_000, 10_000_000_000
OPS = {b"A": hft.ADD_ORDER_EVENT, b"U": hft.MODIFY_ORDER_EVENT, b"D": hft.CANCEL_ORDER_EVENT, b"T": hft.TRADE_EVENT}


@njit  # type: ignore[untyped-decorator]
def average(backtest: Any) -> tuple[float, float]:
    volume, notional = 0.0, 0.0
    ended = False
    while not ended:
        ended = backtest.elapse(INTERVAL_NS) != 0
        for trade in backtest.last_trades(0):
            volume += trade.qty
            notional += trade.px * trade.qty
        backtest.clear_last_trades(0)
    return volume, notional


@njit  # type: ignore[untyped-decorator]
def top(backtest: Any) -> tuple[float, float, float, float]:
    while backtest.elapse(DAY_NS) == 0:
        pass
    depth = backtest.depth(0)
    return depth.best_bid, depth.best_bid_qty, depth.best_ask, depth.best_ask_qty


def converted(events: Any) -> Any:
    out = np.zeros(len(events), event_dtype)
    kind = np.zeros(256, np.uint64)
    for letter, number in OPS.items():
        kind[letter[0]] = number
    side = np.where(events["side"] == b"S", hft.SELL_EVENT, hft.BUY_EVENT).astype(np.uint64)
    out["ev"] = kind[events["op"].view(np.uint8)] | side | np.uint64(hft.EXCH_EVENT | hft.LOCAL_EVENT)
    out["exch_ts"] = out["local_ts"] = events["ts"]
    out["px"], out["qty"], out["order_id"] = events["price"] * TICK, events["size"], events["order_id"]
    return out


def backtest_of(events: Any) -> Any:
    asset = (
        hft.BacktestAsset()
        .data(events)
        .linear_asset(1.0)
        .constant_order_latency(0, 0)
        .l3_fifo_queue_model()
        .no_partial_fill_exchange()
        .trading_value_fee_model(0.0, 0.0)
        .tick_size(TICK)
        .lot_size(1.0)
        .last_trades_capacity(1024)
    )
    return hft.HashMapMarketDepthBacktest([asset])


def load(task: Task) -> Callable[[], Callable[[], Any]]:
    events, begins = by_symbol(task.events())
    symbols = events["symbol"][begins[:-1]].tolist()
    events = converted(events)
    parts = [events[begin:end] for begin, end in itertools.pairwise(begins)]
    function = top if task.job == "book" else average
    with not_counted():
        first = backtest_of(parts[0])
        function(first)  # compiled now
        first.close()

    def run() -> Callable[[], Any]:
        found = []
        for symbol, part in zip(symbols, parts, strict=True):
            backtest = backtest_of(part)
            found.append((symbol, *function(backtest)))
            backtest.close()
        return lambda: results(task.job, np.array(found))

    return run


def results(job: str, found: Any) -> Any:
    out = np.zeros(len(found), TOP if job == "book" else VWAP)
    out["symbol"] = found[:, 0]
    if job == "vwap":
        out["volume"], out["notional"] = found[:, 1], found[:, 2] / TICK
        return out
    for at, side in ((1, "bid"), (3, "ask")):
        there = found[:, at + 1] > 0
        out[f"{side}_price"][there] = np.round(found[there, at] / TICK)
        out[f"{side}_size"][there] = found[there, at + 1]
    return out


if __name__ == "__main__":
    main(load)
