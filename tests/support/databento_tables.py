"""Databento's records as its tables: CSV and Parquet as its own writers lay them out, from what its library reads."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import dbn_reference as ref
import pytest

from strand import UNDEF_PRICE
from strand.feeds.write.conversion import convert

#: The forms of one file that ``written`` makes.
DIALECTS = ("dbn", "csv", "parquet", "fixed parquet", "parquet of ns", "own parquet", "own npz")
_LEVEL = tuple(itertools.product(("bid", "ask"), ("px", "sz")))


def table_of(data: bytes, symbols: Mapping[int, str]) -> dict[str, list[Any]]:
    """The columns of the records of one schema. ``symbols``: names by instrument id."""
    records = ref.by_library(data)
    rtype = int(records[0].rtype)
    is_bar, is_sample = rtype in range(0x20, 0x25), rtype in (0xC0, 0xC1, 0xC3, 0xC4)
    is_joint = rtype in (0xB1, 0xC2, 0xC0, 0xC1)  # consolidated books
    columns = [] if is_bar else ["ts_recv"]
    columns += ["ts_event", "rtype", "publisher_id", "instrument_id"]
    if is_bar:
        columns += ["open", "high", "low", "close", "volume"]
    else:
        columns += ["side"] if is_sample else ["action", "side"]
        columns += [] if is_joint or is_sample or rtype == 0xA0 else ["depth"]
        columns += ["price", "size", "flags"]
        columns += [] if is_sample else ["ts_in_delta"]
        columns += ["order_id"] if rtype == 0xA0 else []
        columns += [] if is_joint else ["sequence"]
    table: dict[str, list[Any]] = {name: [getattr(found, name) for found in records] for name in columns}
    for name, plain in (("rtype", int), ("flags", int), ("action", str), ("side", str)):
        if name in table:
            table[name] = [plain(value) for value in table[name]]
    for level, (side, what) in itertools.product(range(len(getattr(records[0], "levels", ()))), _LEVEL):
        table[f"{side}_{what}_{level:02}"] = [getattr(found.levels[level], f"{side}_{what}") for found in records]
    return table | {"symbol": [symbols[found.instrument_id] for found in records]}


def write_csv(path: Path, table: Mapping[str, list[Any]]) -> None:
    """As databento's encoder writes it, with fixed prices and times in ns."""

    def text(name: str, value: Any) -> str:
        return "" if _is_price(name) and value == UNDEF_PRICE else str(value)

    rows = zip(*([text(name, value) for value in values] for name, values in table.items()), strict=True)
    path.write_text("\n".join([",".join(table), *map(",".join, rows)]) + "\n")


def write_parquet(path: Path, table: Mapping[str, list[Any]], *, fixed: bool, pretty: bool) -> None:
    """As ``DBNStore.to_parquet`` lays it out by its options ``price_type`` and ``pretty_ts``."""
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    columns: dict[str, Any] = {}
    kinds = {"order_id": pa.uint64(), "volume": pa.uint64(), "rtype": pa.uint8(), "flags": pa.uint8(),
             "depth": pa.uint8(), "ts_in_delta": pa.int32()}  # fmt: skip
    for name, values in table.items():
        if _is_price(name):
            floats = [float("nan") if value == UNDEF_PRICE else value / 1e9 for value in values]
            columns[name] = pa.array(values, pa.int64()) if fixed else pa.array(floats, pa.float64())
        elif name.startswith("ts_") and name != "ts_in_delta":
            ns = pa.array(values, pa.uint64())
            columns[name] = ns.cast(pa.int64()).cast(pa.timestamp("ns", "UTC")) if pretty else ns
        elif isinstance(values[0], str):
            columns[name] = pa.array(values, pa.large_string())
        else:
            columns[name] = pa.array(values, kinds.get(name, pa.uint32()))
    parquet.write_table(pa.table(columns), path)


def _is_price(name: str) -> bool:
    return name in ("price", "open", "high", "low", "close") or "_px_" in name


def written(folder: Path, dialect: str, data: bytes, symbols: Mapping[int, str]) -> Path:
    """A file of the records in one of ``DIALECTS``."""
    source = folder / "day.dbn"
    source.write_bytes(data)
    if dialect == "dbn":
        return source
    if dialect.startswith("own"):
        path = folder / f"own.{dialect.split()[1]}"
        convert([source], path)
        return path
    if dialect == "csv":
        write_csv(folder / "day.csv", table_of(data, symbols))
        return folder / "day.csv"
    write_parquet(folder / "day.parquet", table_of(data, symbols), fixed="fixed" in dialect, pretty="ns" not in dialect)
    return folder / "day.parquet"
