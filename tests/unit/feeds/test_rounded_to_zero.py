"""A price or size that is not 0 never becomes 0 by rounding, whatever the format."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from strand.errors import FormatError
from strand.feeds import open as open_feed

T = 1_767_571_200_000
BINANCE = "id,price,qty,quote_qty,time,is_buyer_maker,is_best_match"


def csv(folder: Path, price: float, size: float) -> tuple[Path, dict[str, Any]]:
    path = folder / "ABCUSDT-trades-2026-01-05.csv"
    path.write_text(f"{BINANCE}\n1,{price:.12f},{size:.12f},0,{T},true,true\n")
    return path, {}


def profiled(folder: Path, price: float, size: float) -> tuple[Path, dict[str, Any]]:
    path = folder / "trades.csv"
    path.write_text(f"t,p,q\n{T},{price:.12f},{size:.12f}\n")
    fields = '[fields]\nprice = "p"\nsize = "q"\nkind = { constant = "trade" }\nts_recv = { column = "t", unit = "ms" }'
    (folder / "own.toml").write_text(f'name = "own"\nsize_unit = "0.00000001"\n[symbol]\nconstant = "A"\n{fields}\n')
    return path, {"profile": str(folder / "own.toml")}


def lines(folder: Path, price: float, size: float) -> tuple[Path, dict[str, Any]]:
    path = folder / "trades.jsonl"
    path.write_text(json.dumps({"t": T, "p": f"{price:.12f}", "q": f"{size:.12f}"}) + "\n")
    message = {"where": {}, "kind": "trade", "symbol": {"constant": "A"},
               "fields": {"ts_event": {"column": "t", "unit": "ms"}, "price": "p", "size": "q"}}  # fmt: skip
    return path, {"profile": {"name": "own", "size_unit": "0.00000001", "message": [message]}}


def parquet(folder: Path, price: float, size: float) -> tuple[Path, dict[str, Any]]:
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    path = folder / "trades.parquet"
    times = pa.array([T], pa.timestamp("ms", tz="UTC"))
    pq.write_table(pa.table({"timestamp": times, "price": [price], "size": [size]}), path)
    return path, {"symbol": "A", "size_unit": "0.00000001", "constants": {"kind": "trade"}}


def npy(folder: Path, price: float, size: float) -> tuple[Path, dict[str, Any]]:
    path = folder / "trades.npy"
    np.save(path, np.array([(T * 10**6, price, size)], [("t", "i8"), ("price", "f8"), ("size", "f8")]))
    columns = {"ts_recv": "t", "price": "price", "size": "size"}
    return path, {"symbol": "A", "size_unit": "0.00000001", "columns": columns, "constants": {"kind": "trade"}}


@pytest.mark.parametrize("made", [csv, profiled, lines, parquet, npy])
@pytest.mark.parametrize(("price", "size"), [(4.2e-10, 1.0), (-4.2e-10, 1.0), (1.0, 4.2e-9)])
def test_what_would_become_zero_is_a_bad_record(
    made: Callable[..., tuple[Path, dict[str, Any]]], price: float, size: float, tmp_path: Path
) -> None:
    path, options = made(tmp_path, price, size)
    with pytest.raises(FormatError, match="rounds to 0"), open_feed(path, inexact="round", **options) as feed:
        feed.to_numpy()
    with open_feed(path, inexact="round", on_bad_record="skip", **options) as feed:
        assert len(feed.to_numpy()) == 0


@pytest.mark.parametrize("made", [csv, profiled, lines, parquet, npy])
def test_what_rounds_to_another_number_is_rounded_and_zero_stays_zero(
    made: Callable[..., tuple[Path, dict[str, Any]]], tmp_path: Path
) -> None:
    path, options = made(tmp_path, 6e-10, 0.0)
    with open_feed(path, inexact="round", **options) as feed:
        ticks = feed.to_numpy()
    assert (ticks["price"].tolist(), ticks["size"].tolist()) == ([1], [0])
