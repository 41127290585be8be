"""hftbacktest's event arrays: what each event becomes, and which are passed over or refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from reading import ticks_of

from strand import UNDEF_PRICE
from strand.errors import ConfigurationError, FormatError
from strand.feeds import open as open_feed
from strand.feeds.formats.npy import EXCHANGE, LOCAL, NpyFeed
from strand.ticks import zeros

pytestmark = pytest.mark.python

#: As hftbacktest documents its event.
EVENT = np.dtype(
    [("ev", "<u8"), ("exch_ts", "<i8"), ("local_ts", "<i8"), ("px", "<f8"), ("qty", "<f8"), ("order_id", "<u8"),
     ("ival", "<i8"), ("fval", "<f8")], align=True
)  # fmt: skip
EXCH, RECV, BUY, SELL = 1 << 31, 1 << 30, 1 << 29, 1 << 28
BOTH = EXCH | RECV


def events(*rows: dict[str, Any]) -> np.ndarray:
    out = np.zeros(len(rows), EVENT)
    usual = {"ev": 1 | BOTH | BUY, "exch_ts": 10, "local_ts": 20, "px": 100.1, "qty": 3.0}
    for i, row in enumerate(rows):
        for name, value in (usual | row).items():
            out[name][i] = value
    return out


def save(folder: Path, array: np.ndarray, name: str = "btcusdt.20240808.npz") -> Path:
    if name.endswith("z"):
        np.savez_compressed(folder / name, data=array)
    else:
        np.save(folder / name, array)
    return folder / name


@pytest.mark.parametrize(
    ("number", "qty", "action", "kind"),
    [
        (1, 3.0, b"M", 3),
        (1, 0.0, b"C", 3),
        (2, 3.0, b"T", 2),
        (3, 0.0, b"R", 3),
        (4, 3.0, b"A", 3),
        (5, 3.0, b"M", 3),
        (10, 3.0, b"A", 1),
        (11, 3.0, b"C", 1),
        (12, 3.0, b"M", 1),
        (13, 3.0, b"F", 1),
    ],
)
@pytest.mark.parametrize("name", ["btcusdt.20240808.npz", "btcusdt.npy"])
def test_every_event_becomes_the_tick_it_says(  # noqa: PLR0917
    tmp_path: Path, number: int, qty: float, action: bytes, kind: int, name: str
) -> None:
    rows = [
        {"ev": number | BOTH | BUY, "qty": qty, "order_id": 7, "ival": -1},
        {"ev": number | RECV | SELL, "qty": qty, "px": np.nan},
        {"ev": number, "qty": qty},
    ]
    feed = open_feed(save(tmp_path, events(*rows), name))
    assert list(feed.symbols) == ["btcusdt"]
    ticks = ticks_of(feed)  # type: ignore[arg-type]
    assert ticks["action"].tolist() == [action] * 3
    assert ticks["kind"].tolist() == [kind] * 3
    assert ticks["side"].tolist() == [b"B", b"A", b"N"]
    assert ticks["price"].tolist() == [100_100_000_000, UNDEF_PRICE, 100_100_000_000]
    assert ticks["size"].tolist() == [int(qty)] * 3
    assert ticks["flags"].tolist() == [number | EXCHANGE | LOCAL, number | LOCAL, number | 32]
    assert (ticks["ts_event"].tolist(), ticks["ts_recv"].tolist()) == ([10] * 3, [20] * 3)
    assert ticks["sequence"].tolist() == [1, 2, 3]
    assert (int(ticks["order_id"][0]), int(ticks["ref_id"][0])) == (0 if kind == 3 else 7, (1 << 64) - 1)


def test_an_event_that_only_the_exchange_saw_makes_no_tick(tmp_path: Path) -> None:
    array = events(*([{}] * 3 + [{"ev": 1 | EXCH}] * 5 + [{"ev": 2 | RECV}]))
    ticks = ticks_of(NpyFeed(save(tmp_path, array), batch_ticks=2))
    assert ticks["sequence"].tolist() == [1, 2, 3, 9]
    assert list(NpyFeed(save(tmp_path, events({"ev": 1 | EXCH}))).batches()) == []


def test_quantities_in_parts_of_a_coin_are_scaled(tmp_path: Path) -> None:
    path = save(tmp_path, events({"qty": 0.001}, {"qty": 1.5}))
    with pytest.raises(FormatError, match=r"record 1: column 'qty': .*size_unit"):
        ticks_of(NpyFeed(path))
    feed = NpyFeed(path, size_unit="0.001")
    assert (ticks_of(feed)["size"].tolist(), feed.info.size_unit) == ([1, 1500], 0.001)


def test_the_symbol_can_be_named_where_files_are_opened(tmp_path: Path) -> None:
    path = save(tmp_path, events({}, {}))
    with open_feed(path, symbol="XBT", symbols=["XBT"]) as feed:
        assert feed.symbols == ("XBT",)
        assert sum(len(batch) for batch in feed.batches()) == 2
    with pytest.raises(ConfigurationError, match="symbol: give it, or symbols: the one name, or all of them"):
        NpyFeed(path, symbol="XBT", symbols=["XBT"])


@pytest.mark.parametrize(
    ("bad", "field"),
    [
        ({"ev": 99 | BOTH}, "ev"),
        ({"exch_ts": -1}, "exch_ts"),
        ({"local_ts": -1}, "local_ts"),
        ({"px": np.inf}, "px"),
        ({"px": 1e-10}, "px"),
        ({"qty": 1e19}, "qty"),
        ({"qty": -1.0}, "qty"),
        ({"qty": np.nan}, "qty"),
    ],
)
def test_an_event_that_cannot_be_a_tick_is_named_with_its_record(
    tmp_path: Path, bad: dict[str, Any], field: str
) -> None:
    path = save(tmp_path, events({}, {"ev": 1 | EXCH}, bad, {}))
    with pytest.raises(FormatError, match=f"record 3: column '{field}'"):
        ticks_of(NpyFeed(path))


def test_the_scale_of_sizes_is_refused_where_it_cannot_work(tmp_path: Path) -> None:
    for unit in ("0", "0.3", "much"):
        with pytest.raises(ConfigurationError, match="size_unit: give a power of ten"):
            NpyFeed(save(tmp_path, events({})), size_unit=unit)
    with pytest.raises(ConfigurationError, match="size_unit: it works only with columns="):
        NpyFeed(save(tmp_path, zeros(1), "a.npy"), size_unit="0.1")


def test_quantities_finer_than_the_unit_are_rounded_on_request_and_counted(tmp_path: Path) -> None:
    rows = [{"qty": qty} for qty in (0.0015, 0.0025, 5e9, 1.0)]
    feed = NpyFeed(save(tmp_path, events(*rows, {"px": 0.30000000000000004})), size_unit="0.001", inexact="round")
    ticks = ticks_of(feed)
    assert ticks["size"].tolist() == [2, 2, 5 * 10**12, 1000, 3000], "ties go to even"
    assert ticks["price"].tolist() == [100_100_000_000] * 4 + [300_000_000]
    assert feed.statistics()["rows_rounded"] == 3
    with pytest.raises(FormatError, match=r"'qty': .*0.0004.* rounds to 0: give a finer size_unit"):
        ticks_of(NpyFeed(save(tmp_path, events({"qty": 0.0004})), size_unit="0.001", inexact="round"))
