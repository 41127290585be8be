"""Files as a Nautilus catalogue has them, written by whole numbers' bytes, against plain Python."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import strand
import strand.feeds
from strand.errors import FormatError
from strand.feeds.formats.parquet.reader import ParquetFeed
from strand.ticks import FIELDS, UNDEF_PRICE

pytestmark = pytest.mark.python

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

START = 1_700_000_000_000_000_000
SCALES = {8: 9, 16: 16}


def fixed(numbers: list[str | None], width: int, *, signed: bool) -> Any:
    """Numbers as the catalogue has them, None as its undefined one."""
    most = (1 << (8 * width - 1)) - 1 if signed else (1 << 8 * width) - 1
    whole = [most if text is None else int(Decimal(text).scaleb(SCALES[width])) for text in numbers]
    return pa.array([number.to_bytes(width, "little", signed=signed) for number in whole], pa.binary(width))


def write(path: Path, columns: dict[str, Any], rows: int, *, size_precision: str = "3") -> Path:
    times = {
        "ts_event": pa.array(np.arange(rows, dtype=np.uint64) + np.uint64(START)),
        "ts_init": pa.array(np.arange(rows, dtype=np.uint64) + np.uint64(START + 5)),
    }
    kept = {"instrument_id": "BTCUSDT.BINANCE", "price_precision": "2", "size_precision": size_precision}
    table = pa.table(columns | times).replace_schema_metadata(kept)
    pq.write_table(table, path, row_group_size=5)
    return path


def ticks_of(path: Path, **options: Any) -> list[dict[str, Any]]:
    feed = strand.feeds.open(path, **options)
    assert isinstance(feed, ParquetFeed)
    assert (feed.symbols, feed.info.venue, feed.info.size_unit) == (["BTCUSDT.BINANCE"], "BINANCE", 0.001)
    return [{name: tick[name].item() for name in FIELDS} for batch in feed.batches() for tick in batch.copy()]


def expected(rows: list[dict[str, Any]], width: int = 1) -> list[dict[str, Any]]:
    blank = dict.fromkeys(FIELDS, 0) | {"price": UNDEF_PRICE, "action": b"N", "side": b"N"}
    times = [{"ts_event": START + at // width, "ts_recv": START + 5 + at // width} for at in range(len(rows))]
    return [blank | time | {"sequence": at} | row for at, (time, row) in enumerate(zip(times, rows, strict=True), 1)]


def price(text: str | None) -> int:
    return UNDEF_PRICE if text is None else int(Decimal(text).scaleb(9))


def size(text: str | None) -> int:
    return 0 if text is None else int(Decimal(text).scaleb(3))


@pytest.mark.parametrize("width", [8, 16])
@pytest.mark.parametrize("batch_ticks", [3, 1000])
def test_quotes_are_exact_and_an_undefined_number_is_none(width: int, batch_ticks: int, tmp_path: Path) -> None:
    bids = ["100.25", "-37.63", "0", None, "9000000000.123456789", "0.000000001"] * 2
    asks = ["100.5", "-1", "0.01", "7", None, "9000000000.5"] * 2
    sizes = ["1.5", "0.001", None, "9000000", "0", "12345.678"] * 2
    columns = {
        "bid_price": fixed(bids, width, signed=True),
        "ask_price": fixed(asks, width, signed=True),
        "bid_size": fixed(sizes, width, signed=False),
        "ask_size": fixed(sizes[::-1], width, signed=False),
    }
    path = write(tmp_path / "quotes.parquet", columns, 12)
    rows = [
        {"price": price(bid), "size": size(mine), "order_id": price(ask) % (1 << 64), "ref_id": size(other), "kind": 3}
        for bid, ask, mine, other in zip(bids, asks, sizes, sizes[::-1], strict=True)
    ]
    assert ticks_of(path, batch_ticks=batch_ticks) == expected(rows)


@pytest.mark.parametrize("width", [8, 16])
def test_trades_have_the_aggressors_side(width: int, tmp_path: Path) -> None:
    columns = {
        "price": fixed(["100.25", "-5", "7"], width, signed=True),
        "size": fixed(["1", "2", "0.5"], width, signed=False),
        "aggressor_side": pa.array([1, 2, 0], pa.uint8()),
        "trade_id": pa.array(["7", "x", ""]),
    }
    path = write(tmp_path / "trades.parquet", columns, 3)
    rows = [
        {"price": price(p), "size": size(s), "side": side, "action": b"T", "kind": 2}
        for p, s, side in (("100.25", "1", b"B"), ("-5", "2", b"A"), ("7", "0.5", b"N"))
    ]
    assert ticks_of(path) == expected(rows)
    vwap = strand.replay(path, "vwap").rows["BTCUSDT.BINANCE"]
    assert int(vwap["volume"]) == 3500


def deltas(path: Path, rows: list[tuple[int, int, str, str, int]], ids: list[int] | None = None) -> Path:
    """Of rows of action, side, price, size and flags."""
    columns = {
        "action": pa.array([row[0] for row in rows], pa.uint8()),
        "side": pa.array([row[1] for row in rows], pa.uint8()),
        "price": fixed([row[2] for row in rows], 16, signed=True),
        "size": fixed([row[3] for row in rows], 16, signed=False),
        "order_id": pa.array(ids or [0] * len(rows), pa.uint64()),
        "flags": pa.array([row[4] for row in rows], pa.uint8()),
        "sequence": pa.array([1 << 50] * len(rows), pa.uint64()),
    }
    return write(path, columns, len(rows))


def test_deltas_lead_depth_to_the_book_that_a_dict_holds(tmp_path: Path) -> None:
    rng = np.random.default_rng(7)
    rows = [(4, 0, "0", "0", 0)]
    for _ in range(400):
        action = int(rng.choice([1, 2, 3, 4], p=[0.4, 0.3, 0.29, 0.01]))
        side = int(rng.integers(1, 3))
        at = 100 - int(rng.integers(1, 20)) if side == 1 else 100 + int(rng.integers(1, 20))
        amount = "0" if action > 2 else str(Decimal(int(rng.integers(1, 5000))).scaleb(-3))
        rows.append((4, 0, "0", "0", 128) if action == 4 else (action, side, str(at), amount, 128 | 16 | 4))
    book: dict[int, dict[int, int]] = {1: {}, 2: {}}
    for action, side, at, amount, _ in rows:
        if action == 4:
            book = {1: {}, 2: {}}
        elif action == 3:
            book[side].pop(price(at), None)
        else:
            book[side][price(at)] = size(amount)
    path = deltas(tmp_path / "deltas.parquet", rows)
    found = strand.replay(path, strand.depth(top=5)).books["BTCUSDT.BINANCE"]
    assert len(book[1]) + len(book[2]) > 10
    assert found.bids().tolist() == sorted(book[1].items(), reverse=True)
    assert found.asks().tolist() == sorted(book[2].items())
    assert {tick["flags"] for tick in ticks_of(path)} == {0, 128, 128 | 16}


def test_bars_are_four_trades_each_that_add_up_to_them(tmp_path: Path) -> None:
    corners = {"open": ["10", "11"], "high": ["12", "13.5"], "low": ["9", "10.25"], "close": ["11", "13"]}
    columns = {name: fixed(list(texts), 8, signed=True) for name, texts in corners.items()}
    columns["volume"] = fixed(["5", "0.125"], 8, signed=False)
    path = write(tmp_path / "bars.parquet", columns, 2)
    rows = [
        {"price": price(texts[bar]), "size": size(["5", "0.125"][bar]) if depth == 3 else 0, "depth": depth}
        for bar in range(2)
        for depth, texts in enumerate(corners.values())
    ]
    wanted = expected([row | {"action": b"T", "kind": 2} for row in rows], width=4)
    assert ticks_of(path) == wanted
    assert ticks_of(path, batch_ticks=5) == wanted


def test_what_has_no_ticks_is_refused_with_the_row_after_the_ticks_before_it(tmp_path: Path) -> None:
    rows = [(1, 1, "1", "1", 0), (1, 2, "2", "1", 0), (1, 1, "1", "1", 0)]
    path = deltas(tmp_path / "orders.parquet", rows, ids=[0, 0, 77])
    seen = []
    with pytest.raises(FormatError, match="row 3: has order ids"):
        for batch in strand.feeds.open(path):
            seen.append(len(batch))
    assert sum(seen) == 2
    path = deltas(tmp_path / "action.parquet", [*rows, (5, 1, "1", "1", 0)])
    with pytest.raises(FormatError, match="row 4: column 'action' 5 is not"):
        list(strand.feeds.open(path))
    path = write(tmp_path / "prices.parquet", {"value": fixed(["1"], 16, signed=True)}, 1)
    with pytest.raises(FormatError, match="without quotes, trades, order book deltas or bars"):
        strand.feeds.open(path)
    path = write(tmp_path / "odd.parquet", {"price": pa.array([b"1" * 4], pa.binary(4))} | {
        "size": fixed(["1"], 8, signed=False), "aggressor_side": pa.array([1], pa.uint8())}, 1)  # fmt: skip
    with pytest.raises(FormatError, match="not numbers of 8 or 16 bytes"):
        list(strand.feeds.open(path))


def test_more_decimals_than_a_tick_has_are_an_error_or_rounded_on_request(tmp_path: Path) -> None:
    columns = {
        "price": fixed(["0.1234567891"], 16, signed=True),
        "size": fixed(["1"], 16, signed=False),
        "aggressor_side": pa.array([1], pa.uint8()),
    }
    path = write(tmp_path / "fine.parquet", columns, 1)
    with pytest.raises(FormatError, match="row 1: column 'price'"):
        list(strand.feeds.open(path))
    assert ticks_of(path, inexact="round")[0]["price"] == 123_456_789


def test_a_user_may_name_other_columns_and_constants_of_a_catalogue(tmp_path: Path) -> None:
    columns = {
        "price": fixed(["100.25", "7"], 8, signed=True),
        "size": fixed(["1", "2"], 8, signed=False),
        "aggressor_side": pa.array([1, 2], pa.uint8()),
    }
    path = write(tmp_path / "trades.parquet", columns, 2)
    options = {"columns": {"ts_event": "ts_init", "side": None}, "constants": {"publisher_id": 7}}
    rows = [
        {"price": price(p), "size": size(s), "action": b"T", "kind": 2, "publisher_id": 7, "ts_event": START + 5 + at}
        for at, (p, s) in enumerate((("100.25", "1"), ("7", "2")))
    ]
    assert ticks_of(path, **options) == expected(rows)
