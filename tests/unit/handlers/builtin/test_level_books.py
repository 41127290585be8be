"""Books of price levels: against a plain one on any stream, and against what files of each format say themselves."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from engine_support import balanced, ticks_for

from strand import UNDEF_PRICE, Dispatcher, bbo, chain, depth, feeds, replay
from strand.errors import ConfigurationError
from strand.ticks import KIND_STATUS

QUOTE = 3


def run(
    ticks: npt.NDArray[Any], *, symbols: int = 1, batch: int = 1 << 20, workers: int = 2, **options: Any
) -> Dispatcher:
    with Dispatcher(symbols, depth(**options), workers=workers, cores=None) as d:
        for at in range(0, len(ticks), batch):
            d.publish(ticks[at : at + batch])
        d.drain()
        balanced(d)
    return d


def update(side: str, price: int, size: int, action: str = "M", **more: Any) -> npt.NDArray[Any]:
    made = ticks_for([more.pop("key", 0)], kind=QUOTE)
    made["action"], made["side"], made["price"], made["size"] = action.encode(), side.encode(), price, size
    for name, value in more.items():
        made[name] = value
    return made


def shown_by_lobster(folder: Path) -> npt.NDArray[Any]:
    """Rows of ten levels: ask price, ask size, bid price, bid size."""
    rows = np.loadtxt(next(folder.glob("*orderbook_10.csv")), delimiter=",", dtype=np.int64).reshape(-1, 10, 4)
    rows[:, :, [0, 2]] *= 100_000
    return rows


def test_views_of_ten_levels_are_the_book_lobster_shows(shared_data: Path) -> None:
    rows = shown_by_lobster(shared_data / "lobster")
    with Dispatcher(1, depth(top=10), workers=1, cores=None) as d:
        for levels in rows[:300]:
            ticks = ticks_for(np.zeros(10, np.int64), kind=QUOTE)
            ticks["side"], ticks["depth"] = b"N", np.arange(10)
            ticks["order_id"], ticks["ref_id"], ticks["price"], ticks["size"] = levels.T
            d.publish(ticks)
            d.drain()
            row = d.rows[0]
            assert [
                row[n].tolist() for n in ("ask_prices", "ask_sizes", "bid_prices", "bid_sizes")
            ] == levels.T.tolist()
            assert (row["bid_levels"], row["ask_levels"], row["crossed"]) == (10, 10, 0)


def test_a_view_of_one_side_takes_the_place_of_that_side_alone() -> None:
    ticks = np.concatenate([update("B", 100, 5), update("B", 99, 6), update("A", 110, 7), update("B", 98, 8, "S")])
    with Dispatcher(1, depth(top=2), workers=1, cores=None) as d:
        d.publish(ticks)
        d.drain()
        row = d.rows[0]
        assert (row["bid_prices"].tolist(), row["bid_sizes"].tolist()) == ([98, UNDEF_PRICE], [8, 0])
        assert (row["ask_prices"].tolist(), row["ask_sizes"].tolist()) == ([110, UNDEF_PRICE], [7, 0])
        assert row["snapshots"] == 1


@pytest.mark.parametrize("kind", [QUOTE, KIND_STATUS])
def test_a_cleared_book_is_a_change_of_the_best_prices(kind: int) -> None:
    ticks = np.concatenate([update("B", 100, 5), update("A", 110, 6), update("N", UNDEF_PRICE, 0, "R")])
    ticks["kind"][2] = kind
    with Dispatcher(1, chain(depth(), bbo()), workers=1, cores=None) as d:
        d.publish(ticks)
        d.drain()
        row = d.rows[0]["bbo"]
        assert (row["bid"], row["ask"], row["changes"]) == (UNDEF_PRICE, UNDEF_PRICE, 3)


@pytest.mark.parametrize("schema", ["mbp-10", "mbp-1", "cmbp-1", "bbo-1s", "tbbo"])
def test_the_levels_of_a_dbn_file_are_those_of_databentos_own_reader(shared_data: Path, schema: str) -> None:
    databento = pytest.importorskip("databento_dbn")
    path = shared_data / "dbn" / f"test_data.{schema}.dbn"
    decoder = databento.DBNDecoder()
    decoder.write(path.read_bytes())
    last = [record for record in decoder.decode() if hasattr(record, "levels")][-1]
    options = {"levels": 10} if schema == "mbp-10" else {}
    result = replay(path, depth(top=10), workers=1, cores=None, feed_options=options)
    (symbol,) = np.flatnonzero(result.ticks_by_symbol)
    assert result.books is not None
    for side, price, size in (("bid", "bid_px", "bid_sz"), ("ask", "ask_px", "ask_sz")):
        told = [(getattr(at, price), getattr(at, size)) for at in last.levels]
        expected = [(p, s) for p, s in told if p != UNDEF_PRICE and s]
        assert result.books[int(symbol)].levels(side).tolist() == expected
    row = result.rows.at(int(symbol))
    assert (row["passed_over"], row["unusable"]) == (0, 0)


def docs() -> str:
    return (Path(__file__).parents[4] / "docs" / "handlers" / "depth.md").read_text()


def test_the_profile_of_the_docs_reads_binances_depth_messages(tmp_path: Path) -> None:
    (text,) = re.findall(r"```toml\n(.*?)```", docs(), flags=re.S)
    messages = [
        {"stream": "bnbbtc@depth5", "data": {"bids": [["0.0025", "1"]], "asks": []}},
        {"stream": "bnbbtc@depth5", "data": {"bids": [["0.0024", "10"], ["0.0022", "5"]], "asks": [["0.0026", "100"]]}},
        {"e": "depthUpdate", "E": 1_672_515_782_136, "s": "BNBBTC", "U": 157, "u": 160,
         "b": [["0.0024", "0"], ["0.0023", "3"]], "a": [["0.0026", "100.001"], ["0.0027", "1"]]},
    ]  # fmt: skip
    path = tmp_path / "binance.jsonl"
    path.write_text("".join(f"1672515782136000000 {json.dumps(message)}\n" for message in messages))
    ticks = feeds.open(path, profile=tomllib.loads(text)).to_numpy()
    book = run(ticks).books[0]
    assert book.bids().tolist() == [(2_300_000, 3_000), (2_200_000, 5_000)]
    assert book.asks().tolist() == [(2_600_000, 100_001), (2_700_000, 1_000)]


def test_a_side_keeps_its_best_levels_and_no_more_than_it_may() -> None:
    rng = np.random.default_rng(2)
    prices = rng.permutation(50_000) + 1
    ticks = ticks_for(np.zeros(len(prices), np.int64), kind=QUOTE)
    ticks["action"], ticks["side"], ticks["price"], ticks["size"] = b"M", b"B", prices, 1
    empty = run(ticks[:0], max_levels=1_000).books.bytes
    d = run(ticks, max_levels=1_000)
    assert d.books[0].bids()["price"].tolist() == list(range(50_000, 49_000, -1))
    assert d.books.bytes - empty <= 64 * 1_000 + 4_096
    assert d.rows[0]["beyond"] == 49_000


def test_a_book_of_levels_says_what_it_is_not_for() -> None:
    ticks = np.concatenate([update("B", 100, 1), ticks_for([0, 0], kind=1)])
    d = run(ticks)
    assert d.rows[0]["passed_over"] == 2
    assert repr(d.books[0]) == "<DepthBook of #0: 1 level>"
    assert not hasattr(d.books[0], "orders")
    assert d.books.live_orders == 0
    for wrong in ({"top": 0}, {"top": 65}, {"max_levels": 0}, {"top": True}):
        with pytest.raises(ConfigurationError, match=f"{next(iter(wrong))}: .* is not a whole number"):
            depth(**wrong)
