"""Contracts: notionals and average prices of multipliers and of inverse contracts, beside exact fractions."""

from __future__ import annotations

import csv
import random
from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_here import run_here
from engine_support import ticks_for

import strand
from strand.errors import ConfigurationError, HandlerError, SavedStateError
from strand.feeds import BaseFeed, FeedInfo, TickBatch
from strand.handlers.loading import load_handler

SECOND = 10**9
#: A symbol with the contract that it has by ``GIVEN``: what a point is worth, and the face of an inverse one.
SYMBOLS: dict[str, tuple[Fraction, Fraction | None]] = {
    "ESZ6": (Fraction(50), None),
    "ESX": (Fraction("12.5"), None),
    "BTCUSD_PERP": (Fraction(1), Fraction(100)),
    "ETHUSD_260327": (Fraction(1), Fraction(10)),
    "AAPL": (Fraction(1), None),
}
GIVEN = {"ESX": "12.5", "ES*": 50, "BTCUSD_*": strand.Inverse(100), "*USD_*": strand.Inverse("10")}
TEXT = "ESX=12.5, ES*=50, BTCUSD_*=inverse 100, *USD_*=inverse 10"
#: Of doubles that are rounded three times.
DOUBLE = 2.0**-51


class Trades(BaseFeed):
    """Trades of all symbols. ``late``: each symbol gets its name with the batch that has its first tick."""

    def __init__(self, trades: Sequence[tuple[int, int, int]], *, late: bool = False, size_unit: float = 1.0) -> None:
        super().__init__()
        self._trades, self._late, self._size_unit = trades, late, size_unit
        self._names = [] if late else list(SYMBOLS)

    @property
    def info(self) -> FeedInfo:
        return FeedInfo("trades", "here", size_unit=self._size_unit)

    @property
    def symbols(self) -> Sequence[str]:
        return self._names

    @property
    def max_symbols(self) -> int:
        return len(SYMBOLS)

    def batches(self) -> Iterator[TickBatch]:
        for start in range(0, len(self._trades), 10):
            part = self._trades[start : start + 10]
            found = ticks_for([key for key, _, _ in part], kind=strand.ticks.KIND_TRADE)
            found["action"], found["side"] = b"T", b"N"
            found["price"], found["size"] = [p for _, p, _ in part], [n for _, _, n in part]
            found["ts_recv"] = found["ts_event"] = [(start + i + 1) * SECOND for i in range(len(part))]
            if self._late:
                most = max(key for key, _, _ in self._trades[: start + 10])
                self._names = list(SYMBOLS)[: most + 1]
            yield found


def some(count: int = 600, seed: int = 5) -> list[tuple[int, int, int]]:
    """Trades as (key, price in 1e-9, size); later symbols come later. Prices have all their digits."""
    rng = random.Random(seed)
    return [
        (rng.randrange(min(len(SYMBOLS), 1 + i * 2 * len(SYMBOLS) // count)), rng.randrange(1, 10**14), size)
        for i, size in enumerate(rng.randrange(1, 3_000) for _ in range(count))
    ]


def notional_of(trades: Sequence[tuple[int, int]], contract: tuple[Fraction, Fraction | None]) -> Fraction:
    worth, face = contract
    if face is not None:
        return face * sum(size for _, size in trades)
    return worth * sum(Fraction(price, 10**9) * size for price, size in trades)


def average_of(trades: Sequence[tuple[int, int]], contract: tuple[Fraction, Fraction | None]) -> Fraction:
    """In units of currency: the value of the contracts / their coins; or the mean by size."""
    volume = sum(size for _, size in trades)
    if contract[1] is not None:
        return volume / sum(Fraction(size * 10**9, price) for price, size in trades)
    return sum(Fraction(price, 10**9) * size for price, size in trades) / volume


def of(key: int, trades: Sequence[tuple[int, int, int]]) -> list[tuple[int, int]]:
    return [(price, size) for at, price, size in trades if at == key]


@pytest.mark.cells(1)
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("books", [None, False])
def test_rows_of_all_symbols_are_those_of_exact_fractions(workers: int, late: bool, books: bool | None) -> None:
    trades = some()
    for handler, prices in ((strand.vwap, True), (strand.trade_stats, False)):
        for options in ({}, {"every": "1h"}):
            made = handler(contracts=GIVEN, book=books, **options)  # type: ignore[operator]
            result = strand.replay(Trades(trades, late=late), made, workers=workers, cores=None)
            assert not result.warnings
            for key, (name, contract) in enumerate(SYMBOLS.items()):
                mine = of(key, trades)
                row = result.rows[name]
                assert row["trades"] == len(mine) > 0
                assert float(row["notional"]) == pytest.approx(
                    float(notional_of(mine, contract)), rel=1e-12 if prices else DOUBLE
                )
                if prices:
                    assert float(row["vwap"]) == pytest.approx(float(average_of(mine, contract)), rel=1e-12)


@pytest.mark.cells(1)
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("kind", [{"every": "100s"}, {"ticks": 7}, {"notional": "3e8"}])
def test_bars_have_the_notional_and_the_average_price_of_their_contracts(
    workers: int, late: bool, kind: dict[str, Any]
) -> None:
    trades, unit = some(), Fraction(1, 10)
    feed = Trades(trades, late=late, size_unit=0.1)
    result = strand.replay(feed, strand.bars(**kind, contracts=GIVEN), workers=workers, cores=None)
    bars = result.outputs["bars"]
    assert not result.warnings
    for key, contract in enumerate(SYMBOLS.values()):
        left = of(key, trades)
        for bar in bars[bars["instrument_id"] == key]:
            mine, left = left[: int(bar["trades"])], left[int(bar["trades"]) :]
            notional = notional_of(mine, contract)
            assert float(bar["notional"]) == pytest.approx(float(notional), rel=DOUBLE)
            # An inverse one's terms are rounded to 2^-96: under 1e-9 at these prices, beside the rounding of the mean.
            within = Fraction(1, 2) if contract[1] is None else Fraction(6, 10)
            assert abs(average_of(mine, contract) * 10**9 - int(bar["vwap"])) <= within
            if "notional" in kind:
                least = Fraction(kind["notional"]) / unit
                assert notional_of(mine[:-1], contract) < least
                assert notional >= least or bar["flags"] == 1
        assert not left


def test_a_bar_of_notional_closes_at_the_exact_amount() -> None:
    trades = [(2, 3 * SECOND, 5)] * 6 + [(0, 2 * SECOND, 3)] * 6
    bars = strand.replay(Trades(trades), strand.bars(notional=1_000, contracts=GIVEN)).outputs["bars"]
    assert [(int(b["instrument_id"]), int(b["volume"])) for b in bars] == [(2, 10), (2, 10), (2, 10), (0, 12), (0, 6)]
    bars = strand.replay(Trades(trades), strand.bars(notional="1500.01", contracts=GIVEN)).outputs["bars"]
    assert sorted(bars["volume"].tolist()) == [10, 18, 20]


@pytest.mark.parametrize("handler", ["bars", "vwap", "trade_stats"])
def test_a_saved_run_goes_on_with_its_contracts_also_for_symbols_named_later(handler: str, tmp_path: Path) -> None:
    trades = some()
    make = getattr(strand, handler)
    options: dict[str, Any] = {"workers": 2, "cores": None}
    whole = strand.replay(Trades(trades, late=True), make("100s", contracts=GIVEN), **options)
    for cut in (30, 290):
        made = make("100s", contracts=GIVEN)
        first = strand.replay(Trades(trades, late=True), made, limit=cut, save=tmp_path / f"{cut}", **options)
        again = strand.replay(Trades(trades, late=True), made, load=tmp_path / f"{cut}", **options)
        assert np.array_equal(again.rows.array, whole.rows.array)
        joined = [value for part in (first, again) for value in part.outputs[handler]["notional"].tolist()]
        assert joined == whole.outputs[handler]["notional"].tolist()
        with pytest.raises(SavedStateError, match="contracts"):
            strand.replay(Trades(trades, late=True), make("100s"), load=tmp_path / f"{cut}", **options)


def test_an_inverse_price_of_0_or_less_is_no_price_and_is_warned_of() -> None:
    trades = [(2, 0, 5), (2, -SECOND, 5), (2, 50_000 * SECOND, 7), (0, -SECOND, 4)]
    for made in (
        strand.bars(ticks=10, contracts=GIVEN),
        strand.vwap(contracts=GIVEN),
        strand.trade_stats(contracts=GIVEN),
    ):
        result = strand.replay(Trades(trades), made)
        assert [(w.kind, w.count) for w in result.warnings] == [("unpriced trades", 2)]
        assert (result.rows["BTCUSD_PERP"]["volume"], result.rows["ESZ6"]["volume"]) == (7, 4)


def test_sums_of_inverse_prices_that_do_not_fit_are_an_error_that_names_the_cure() -> None:
    with pytest.raises(HandlerError, match=r"size / price is more than its field holds.*coarser unit"):
        strand.replay(Trades([(2, 1, 2**31)]), strand.bars(ticks=9, contracts=GIVEN))
    bars = strand.replay(Trades([(2, 1, 2**31 - 1)]), strand.bars(ticks=9, contracts=GIVEN)).outputs["bars"]
    assert bars["vwap"].tolist() == [1]


def test_text_says_the_same_as_a_dict_and_comes_back_from_a_handler() -> None:
    trades = some()
    by_dict = strand.replay(Trades(trades), strand.bars(ticks=50, contracts=GIVEN))
    by_text = strand.replay(Trades(trades), load_handler("bars", {"ticks": "50", "contracts": TEXT}))
    assert by_dict.outputs["bars"]["notional"].tolist() == by_text.outputs["bars"]["notional"].tolist()
    assert by_dict.rows.array.tobytes() == by_text.rows.array.tobytes()


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("outputs", [False, True])
def test_symbols_that_a_file_names_in_its_lines_have_their_contracts_on_the_command_line(
    workers: int, outputs: bool, tmp_path: Path
) -> None:
    start = 1_767_571_200_000_000
    path, out = tmp_path / "day.csv", tmp_path / "bars.csv"
    trades = [(key, price // 10**9 + 1, size) for key, price, size in some(3_000)]
    names = list(SYMBOLS)
    lines = [f"cme,{names[key]},{start + i},{start + i},{i},buy,{p},{n}" for i, (key, p, n) in enumerate(trades)]
    path.write_text("\n".join(["exchange,symbol,timestamp,local_timestamp,id,side,price,amount", *lines]) + "\n")
    options = ["--handler", "trade_stats", "--set", f"contracts={TEXT}", "--workers", str(workers), "--json"]
    options += ["--set", "every=1h", "--out", f"trade_stats={out}"] if outputs else []
    rows = tmp_path / "rows.csv"
    told = run_here("replay", path, *options, "--out", str(rows))
    assert told.returncode == 0, told.stderr
    with rows.open() as file:
        found = {line["symbol"]: line for line in csv.DictReader(file)}
    for key, (name, contract) in enumerate(SYMBOLS.items()):
        expected = notional_of([(p * 10**9, n) for p, n in of(key, trades)], contract)
        assert float(found[name]["notional"]) == pytest.approx(float(expected), rel=DOUBLE)


def test_a_name_that_fits_no_symbol_is_warned_of() -> None:
    made = strand.vwap(contracts={**GIVEN, "NQ*": 20, "ESH7": 50})
    (warning,) = strand.replay(Trades(some()), made).warnings
    assert (warning.kind, warning.count) == ("unused contracts", 2)
    assert "NQ*" in str(warning)


def test_a_symbol_without_a_name_takes_the_contract_of_all() -> None:
    ticks = ticks_for([0, 1], kind=strand.ticks.KIND_TRADE)
    ticks["action"], ticks["price"], ticks["size"] = b"T", 2 * SECOND, 3
    with strand.Dispatcher(2, strand.vwap(contracts={"*": 50, "A": 5})) as dispatcher:
        dispatcher.publish(ticks)
        dispatcher.drain()
        assert dispatcher.rows.array["notional"].tolist() == [300, 300]
        dispatcher.learn_symbols(["B"])
        with pytest.raises(ConfigurationError, match="contracts: the feed named 'A' after ticks of it"):
            dispatcher.learn_symbols(["B", "A"])


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "there is none"),
        ({"ES": 0}, "number from"),
        ({"ES": True}, "not a number"),
        ({"ES": float("nan")}, "number from"),
        ({"ES": "fifty"}, "not a number"),
        ({"": 50}, "name or pattern"),
        ("ES", "no '='"),
        ("ES=5, ES=6", "given twice"),
        ("ES=inverse", "not a number"),
        ([50], "no dict"),
    ],
)
def test_contracts_that_cannot_be_are_refused_with_an_example(given: Any, words: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"{words}"):
        strand.vwap(contracts=given)
