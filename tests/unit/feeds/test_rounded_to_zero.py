"""Prices and sizes at their bounds, whatever the format: none becomes 0 by rounding, and the error about a price that
is too large names a unit that holds it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from strand.errors import ConfigurationError, FormatError
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


@pytest.mark.parametrize("made", [csv, profiled, parquet, npy, lines])
@pytest.mark.parametrize("price", [9_300_000_000.5, -9_300_000_000.5, 4e17])
def test_a_price_that_is_too_large_has_a_cure_that_works(
    made: Callable[..., tuple[Path, dict[str, Any]]], price: float, tmp_path: Path
) -> None:
    path, options = made(tmp_path, price, 1.0)
    with pytest.raises(FormatError) as refused, open_feed(path, **options) as feed:
        feed.to_numpy()
    message = str(refused.value)
    said = re.search(r"(?:price_unit='|unit = \")([0-9.]+).* counts all money in units of ([0-9,]+)", message)
    assert said is not None, message
    unit, money = said[1], int(said[2].replace(",", ""))
    if made is lines:
        options["profile"]["message"][0]["fields"]["price"] = {"column": "p", "unit": unit}
    else:
        options["price_unit"] = unit
    with open_feed(path, **options) as feed:
        assert feed.to_numpy()["price"].tolist() == [int(Decimal(price) / money * 10**9)]
        if made in (csv, profiled):
            assert feed.info.price_unit == 1 / money


def test_price_unit_scales_every_price_of_a_profile(tmp_path: Path) -> None:
    path = tmp_path / "BTCUSDT-1m-2024-01.csv"
    path.write_text(f"{T},40000000000.5,50000000000,30000000000,45000000000,1.5,{T + 59_999},0.05,3,0,0,0\n")
    with open_feed(path, price_unit="0.001") as feed:
        ticks = feed.to_numpy()
    corners = [40_000_000_000_500_000, 50_000_000 * 10**9, 30_000_000 * 10**9, 45_000_000 * 10**9]
    assert ticks["price"].tolist() == corners
    assert ticks["size"].tolist() == [0, 0, 0, 150_000_000]
    fields = '[fields]\nsize = "q"\nts_recv = { column = "t", unit = "s" }'
    (tmp_path / "own.toml").write_text(f'name = "own"\n[symbol]\nconstant = "A"\n{fields}\n')
    (tmp_path / "sizes.csv").write_text("t,q\n5,1\n")
    with pytest.raises(ConfigurationError, match="price_unit: leave it out: own reads no prices"):
        open_feed(tmp_path / "sizes.csv", profile=tmp_path / "own.toml", price_unit="0.001")


def test_a_column_with_a_unit_of_its_own_is_mended_by_that_unit(tmp_path: Path) -> None:
    path, options = parquet(tmp_path, 9.3e9, 1.0)
    options["columns"] = {"price": {"column": "price", "unit": "1"}}
    with pytest.raises(FormatError, match=r"unit='0\.001' of the column"), open_feed(path, **options) as feed:
        feed.to_numpy()
    options["columns"]["price"]["unit"] = "0.001"
    with open_feed(path, **options) as feed:
        assert feed.to_numpy()["price"].tolist() == [9_300_000 * 10**9]
