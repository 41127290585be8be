"""Columns and constants that options choose, and their units."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from column_tables import read, table

from strand.errors import ConfigurationError
from strand.feeds.formats.parquet.reader import ParquetFeed
from strand.ticks import KIND_QUOTE

pytestmark = pytest.mark.python


def test_a_unit_is_the_columns_own_beside_the_files(tmp_path: Path) -> None:
    path = table(tmp_path / "a.parquet", {"ts": [5], "bid": [10], "ask": [3.25], "bid_size": [4], "asks": [2]})
    columns = {
        "bid_price": {"column": "bid", "unit": "0.01"},
        "ask_price": "ask",
        "ask_size": {"column": "asks", "unit": "100"},
    }
    with ParquetFeed(path, columns=columns, symbol="X", size_unit="0.1") as feed:
        (ticks,) = feed.batches()
    assert (ticks["price"][0], ticks["order_id"][0]) == (100_000_000, 3_250_000_000)
    assert (ticks["size"][0], ticks["ref_id"][0]) == (40, 2000)
    assert (ticks["kind"][0], ticks["side"][0]) == (KIND_QUOTE, b"N")


def test_a_constant_is_in_the_units_of_its_column(tmp_path: Path) -> None:
    path = table(tmp_path / "a.parquet", {"ts": [5]})
    said: list[tuple[dict[str, Any], dict[str, Any]]] = [
        ({}, {"price": "12.5", "size": 3}),
        ({"price": {"constant": "12.5"}, "size": {"constant": 3}}, {}),
    ]
    units: list[tuple[dict[str, str], int, int]] = [
        ({}, 12_500_000_000, 3),
        ({"price_unit": "0.1"}, 1_250_000_000, 3),
        ({"size_unit": "0.01"}, 12_500_000_000, 300),
    ]
    for options, price, size in units:
        for columns, constants in said:
            feed = ParquetFeed(path, symbol="X", columns=columns, constants=constants, **options)  # type: ignore[arg-type]
            tick = read(feed)[0]
            assert (int(tick["price"]), int(tick["size"])) == (price, size), options


@pytest.mark.parametrize("options", [{}, {"price_unit": "0.01"}])
@pytest.mark.parametrize("price", [[15, 20], [1.25, 2.5]])
def test_a_table_without_a_unit_is_the_columns_name_alone(tmp_path: Path, price: list[Any], options: Any) -> None:
    path = table(tmp_path / "a.parquet", {"ts": [1, 2], "p": price, "q": [3, 4]})
    said: list[dict[str, Any]] = [
        {"price": "p", "size": "q"},
        {"price": {"column": "p"}, "size": {"column": "q"}},
    ]
    one, other = (read(ParquetFeed(path, columns=columns, symbol="X", **options)) for columns in said)
    assert one.tobytes() == other.tobytes()


@pytest.mark.parametrize(
    ("field", "said", "wanted"),
    [
        ("side", "buy", b"B"), ("side", "ASK", b"A"), ("side", "", b"N"), ("side", ord("S"), b"A"),
        ("side", b"B", b"B"),
        ("action", "trade", b"T"), ("action", "Delete", b"C"), ("action", "d", b"C"), ("action", ord("F"), b"F"),
    ],
)  # fmt: skip
def test_a_constant_may_be_what_a_column_may_hold(tmp_path: Path, field: str, said: Any, wanted: bytes) -> None:
    path = table(tmp_path / "a.parquet", {"ts": [5]})
    text = said.decode() if isinstance(said, bytes) else said
    held = table(tmp_path / "held.parquet", {"ts": [5], field: [text]})
    ticks = [
        read(ParquetFeed(path, symbol="X", constants={field: said})),
        read(ParquetFeed(path, symbol="X", columns={field: {"constant": text}})),
        read(ParquetFeed(held, symbol="X")),
    ]
    assert [bytes(tick[field][0]) for tick in ticks] == [wanted] * 3
    assert len({tick.tobytes() for tick in ticks}) == 1
    for wrong in ("buyer", ord("x"), True, 5.5):
        with pytest.raises(ConfigurationError, match=rf"constants\.{field}: .* is not one of A"):
            ParquetFeed(path, symbol="X", constants={field: wrong})


def test_a_whole_price_is_currency_as_a_constant_and_in_a_column(tmp_path: Path) -> None:
    path = table(tmp_path / "a.parquet", {"ts": [5], "px": [100]})
    for columns, price in (
        ({"price": {"constant": 100}}, 100 * 10**9),
        ({"price": {"constant": 100, "unit": "0.01"}}, 10**9),
        ({"price": "px"}, 100 * 10**9),
        ({"price": {"column": "px", "unit": "1e-9"}}, 100),
    ):
        assert read(ParquetFeed(path, symbol="X", columns=columns))["price"][0] == price  # type: ignore[arg-type]


def test_a_constant_may_be_a_float(tmp_path: Path) -> None:
    path = table(tmp_path / "a.parquet", {"ts": [5]})
    assert read(ParquetFeed(path, symbol="X", constants={"price": 12.1}))["price"][0] == 12_100_000_000
