"""Input of the sides of bench/peers.py: one day of changes of orders, and one tape of trades."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit, types
from numba.typed import Dict
from peer_sides.protocol import EVENT

from strand import TICK, feeds
from strand.feeds.synthetic import SyntheticFeed
from strand.feeds.write.npy import write_npy
from strand.ticks import KIND_TRADE

__all__ = ["order_events", "write_events"]

DATE = "2026-01-05"


def write_events(folder: Path, symbols: int, messages: int) -> None:
    """A day as ITCH and as plain events, and a tape of trades: a trade for each message, drawn as its orders are."""
    SyntheticFeed(symbols=symbols, messages=messages, date=DATE).write_itch(folder / "day.itch50")
    parts = [batch.copy() for batch in feeds.open(folder / "day.itch50", date=DATE).batches()]
    ticks = np.concatenate(parts)
    write_npy(folder / "day.npy", ticks)
    np.save(folder / "book.npy", order_events(ticks))
    tape = tape_of(ticks, messages)
    write_npy(folder / "tape.npy", tape)
    trades = np.zeros(len(tape), EVENT)
    trades["ts"], trades["price"] = tape["ts_recv"], tape["price"] // 100_000
    trades["size"], trades["symbol"], trades["op"], trades["side"] = tape["size"], tape["instrument_id"], b"T", b"B"
    np.save(folder / "vwap.npy", trades)


def tape_of(ticks: npt.NDArray[Any], messages: int) -> npt.NDArray[Any]:
    """``messages`` trades at the prices and sizes of the day's new orders, again and again until there are as many."""
    added = ticks[ticks["action"] == b"A"]
    tape = np.resize(added, messages)
    tape["kind"], tape["action"], tape["order_id"] = KIND_TRADE, b"T", 0
    tape["ts_event"] = tape["ts_recv"] = np.sort(tape["ts_recv"])
    return tape


def order_events(ticks: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Changes of orders by the ticks, with the remaining size of each. A replace is one order gone and another
    added."""
    numbers = np.dtype([(name, "u1" if kind == "|S1" else kind) for name, kind in TICK.descr])
    events = np.zeros(2 * len(ticks), np.dtype([(name, "u1" if kind == "|S1" else kind) for name, kind in EVENT.descr]))
    return events[: _order_events(ticks.view(numbers), events)].view(EVENT)


@njit(cache=True)  # type: ignore[untyped-decorator]
def _order_events(ticks: Any, events: Any) -> int:
    added, canceled, filled, replaced = ord("A"), ord("C"), ord("F"), ord("M")
    where = Dict.empty(types.uint64, types.int64)  # the latest event of an order
    n = 0
    for tick in ticks:
        action = tick["action"]
        if action not in (added, canceled, filled, replaced):
            continue
        event = events[n]
        event["ts"], event["symbol"], event["order_id"] = tick["ts_recv"], tick["instrument_id"], tick["order_id"]
        if action == added:
            event["op"], event["price"], event["size"] = ord("A"), tick["price"] // 100_000, tick["size"]
            event["side"] = ord("B") if tick["side"] == ord("B") else ord("S")
            where[tick["order_id"]] = n
            n += 1
            continue
        old = events[where[tick["order_id"]]]
        event["price"], event["side"] = old["price"], old["side"]
        left = np.int64(old["size"]) - tick["size"] if tick["size"] != 0 and action != replaced else 0
        event["op"], event["size"] = (ord("U"), left) if left > 0 else (ord("D"), 0)
        where[tick["order_id"]] = n
        n += 1
        if action == replaced:
            event = events[n]
            event["ts"], event["symbol"], event["side"] = tick["ts_recv"], tick["instrument_id"], old["side"]
            event["op"], event["price"], event["size"] = ord("A"), tick["price"] // 100_000, tick["size"]
            event["order_id"] = tick["ref_id"]
            where[tick["ref_id"]] = n
            n += 1
    return n
