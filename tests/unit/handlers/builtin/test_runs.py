"""Bars and measures through the dispatcher: the same on any number of workers, and as one plain loop has them."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest
from plain_run import plain_run

import strand
from strand import Handler, Sessions, testing
from strand.feeds.sample import SAMPLE_DATE, sample_path
from strand.ticks import KIND_QUOTE, KIND_TRADE, zeros

pytestmark = pytest.mark.python

SECOND = 1_000_000_000
SYMBOLS = 6
OPEN = [(95 * SECOND, 301 * SECOND), (301 * SECOND, 340 * SECOND), (600 * SECOND, 1_111 * SECOND)]


def market(n: int, seed: int) -> Any:
    """Trades and quotes of unevenly busy symbols, with lulls; times run backwards here and there."""
    rng = np.random.default_rng(seed)
    ticks = zeros(n)
    ticks["instrument_id"] = rng.choice(SYMBOLS, n, p=[0.5, 0.3, 0.15, 0.04, 0.009, 0.001])
    centres = rng.integers(0, 1_200 * SECOND, 30)
    ticks["ts_recv"] = np.sort(rng.choice(centres, n) + rng.integers(0, 60 * SECOND, n))
    late = rng.random(n) < 0.01
    ticks["ts_recv"][late] -= rng.integers(0, 20 * SECOND, n)[late].clip(max=ticks["ts_recv"][late])
    ticks["kind"] = rng.choice([KIND_QUOTE, KIND_TRADE], n)
    ticks["action"] = np.where(ticks["kind"] == KIND_TRADE, b"T", b"N")
    ticks["side"] = b"N"
    ticks["price"] = 10**11 + rng.integers(-50, 50, n) * 10**7
    ticks["size"] = rng.integers(1, 900, n)
    quote = ticks["kind"] == KIND_QUOTE
    ticks["order_id"] = np.where(quote, ticks["price"] + rng.integers(0, 9, n) * 10**7, 0)
    ticks["ref_id"] = np.where(quote, rng.integers(1, 900, n), 0)
    return ticks


HANDLERS: dict[str, Handler] = {
    "bars of time": strand.bars("1s"),
    "filled bars": strand.bars("7s", fill=True),
    "bars of trades": strand.bars(ticks=13),
    "bars in sessions": strand.bars("10s", fill=True, outside="bars", sessions=Sessions(np.array(OPEN))),
    "bars from books": strand.bars("5s", book=True),
    "bars of quotes": strand.quote_bars("3s", fill=True, sessions=Sessions(np.array(OPEN))),
    "bars of changes": strand.quote_bars(ticks=9, price="bid"),
    "bars of imbalance": strand.imbalance_bars(
        "volume", expected_ticks=9, max_ticks=40, sessions=Sessions(np.array(OPEN))
    ),
    "spread": strand.spread(sessions=Sessions(np.array(OPEN))),
    "imbalance": strand.imbalance("7s"),
    "volatility": strand.volatility("1s", every="20s"),
    "trade_stats": strand.trade_stats(),
    "bbo": strand.bbo(),
    "trades": strand.trades(),
    "trades from books": strand.trades(book=True),
    "vwap": strand.vwap(),
    "spread by intervals": strand.spread("3s", fill=True, sessions=Sessions(np.array(OPEN))),
    "spread from books": strand.spread("5s", book=True),
    "trade_stats by intervals": strand.trade_stats("2s"),
    "vwap by intervals": strand.vwap("2s", sessions=Sessions(np.array(OPEN))),
}
WAYS: list[dict[str, Any]] = [
    {"workers": 1},
    {"workers": 2, "strands": "per-symbol"},
    {"workers": 3, "strands": 1, "budget_ticks": 16},
    {"workers": 4, "batch_ticks": 64, "publisher_drains": False},
]


@pytest.mark.cells(1)
@pytest.mark.parametrize("name", HANDLERS)
@pytest.mark.parametrize("way", WAYS, ids=["1", "2", "3", "4"])
def test_rows_and_records_are_those_of_a_plain_loop(name: str, way: dict[str, Any]) -> None:
    like, ticks = HANDLERS[name], market(12_000, 5)
    plain = plain_run(like, ticks, SYMBOLS)
    with strand.Dispatcher(SYMBOLS, like, cores=None, **way) as dispatcher:
        for part in np.array_split(ticks, 7):
            dispatcher.publish(part)
    rows = dispatcher.rows.array
    for field in like.state.names or ():
        assert np.array_equal(rows[field], plain.rows[field], equal_nan=rows[field].dtype.kind == "f"), field
    for output, declared in like.outputs.items():
        found = dispatcher.outputs[output].array()
        assert len(found) == len(plain.records) > 0
        for key in range(SYMBOLS):
            mine, theirs = found[found["instrument_id"] == key], plain.records[plain.records["key"] == key]
            for field in declared.names or ():
                assert np.array_equal(mine[field], theirs[field], equal_nan=declared[field].kind == "f"), field


def test_bars_of_itch_come_from_books_and_add_up_to_their_volume() -> None:
    options: dict[str, Any] = {"feed_options": {"date": SAMPLE_DATE}, "cores": None}
    result = strand.replay(sample_path(), strand.bars("1m"), **options)
    books = strand.replay(sample_path(), "book", **options)
    bars = result.outputs["bars"]
    volumes = np.zeros(len(result.symbols), np.uint64)
    np.add.at(volumes, np.asarray(bars["instrument_id"]), np.asarray(bars["volume"]))
    assert volumes.sum() > 0
    assert (volumes == books.rows.array["volume"][: len(volumes)]).all()
    assert result.rows.array["unpriced"].sum() == 0


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("bars", {"every": "1m"}), ("quote_bars", {"every": "1m"}), ("imbalance_bars", {"expected_ticks": 9}),
        ("spread", {"every": "1m"}), ("imbalance", {"every": "1m"}), ("vwap", {"every": "1m"}),
        ("trade_stats", {"every": "1m"}), ("volatility", {"step": "1m", "every": "1m"}),
    ],
)  # fmt: skip
def test_a_truth_value_of_numpy_is_one_of_python(name: str, options: dict[str, Any]) -> None:
    make, ticks, symbols = getattr(strand, name), market(500, 3), [f"S{n}" for n in range(SYMBOLS)]
    flags = {"fill", "partial", "crosses"} & inspect.signature(make).parameters.keys()
    assert flags
    for flag in flags:
        handlers = [make(**options, **{flag: true}) for true in (True, np.True_)]
        runs = [strand.replay(testing.feed(ticks, symbols), each, workers=0) for each in handlers]
        assert runs[0].fingerprint == runs[1].fingerprint, flag


def test_arguments_that_a_handler_does_not_take_are_told_with_its_name() -> None:
    with pytest.raises(TypeError, match=r"book\(\) takes 0 positional arguments but 1 was given"):
        strand.book(5)  # type: ignore[misc]
