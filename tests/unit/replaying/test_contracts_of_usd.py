"""COIN-margined futures, whose contracts are worth a fixed sum, are read in coins or with a word."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest
from csv_files import KINDS, made_up, write_made_up

import strand

T = 1_767_571_200_000
ROWS = [(1000, "50000.0"), (1000, "40000.0"), (17, "43219.7")]


def trades(path: Path, header: str, face: int) -> Path:
    lines = [f"{i},{p},{n},{n * face / float(p):.8f},{T + i},true" for i, (n, p) in enumerate(ROWS)]
    path.write_text("\n".join([header, *lines][not header :]) + "\n")
    return path


@pytest.mark.parametrize(("symbol", "face"), [("BTCUSD_PERP", 100), ("ETHUSD_260327", 10)])
def test_their_notional_is_that_of_the_contracts_in_usd(symbol: str, face: int, tmp_path: Path) -> None:
    header = "id,price,qty,base_qty,time,is_buyer_maker"
    path = trades(tmp_path / f"{symbol}-trades-2026-01-05.csv", header, face)
    result = strand.replay(path, strand.bars("1m"))
    (notional,) = result.outputs["bars"].to_polars()["notional"]
    coins = sum(Fraction(n * face) / Fraction(p) for n, p in ROWS)
    worth = sum(n * face for n, _ in ROWS)
    assert notional == pytest.approx(worth, abs=len(ROWS) * 50_000 * 0.5e-8)
    vwap = strand.replay(path, "vwap").rows.to_polars()
    assert vwap["volume"][0] == pytest.approx(float(coins), abs=len(ROWS) * 0.5e-8)
    assert vwap["vwap"][0] == pytest.approx(float(worth / coins), rel=1e-8)
    assert not result.warnings


@pytest.mark.parametrize("symbol", ["BTCUSD_PERP", "BTCUSDT"])
def test_a_run_over_contracts_alone_warns_and_one_over_coins_does_not(symbol: str, tmp_path: Path) -> None:
    agg = tmp_path / f"{symbol}-aggTrades-2026-01-05.csv"
    head = "agg_trade_id,price,quantity,first_trade_id,last_trade_id,transact_time,is_buyer_maker"
    agg.write_text(head + "\n" + "".join(f"{i},{p},{n},{i},{i},{T + i},true\n" for i, (n, p) in enumerate(ROWS)))
    bare = trades(tmp_path / f"{symbol}-trades-2026-01-05.csv", "", 100)
    other = tmp_path / "ABCUSDT-aggTrades-2026-01-05.csv"
    other.write_bytes(agg.read_bytes())
    for path in (agg, bare, [agg, other]):
        found = [(w.kind, w.count) for w in strand.replay(path, "vwap").warnings]
        assert found == ([("contracts of USD", 3)] if symbol == "BTCUSD_PERP" else [])
        # The warning's own cure.
        known = strand.vwap(contracts={symbol: strand.Inverse(100)})
        result = strand.replay(path, known)
        assert not result.warnings
        assert result.rows.to_polars().filter(symbol=symbol)["notional"][0] == pytest.approx(
            100 * sum(n for n, _ in ROWS)
        )
        both = strand.chain(strand.vwap(), strand.trade_stats(contracts={symbol: strand.Inverse(100)}))
        assert [w.kind for w in strand.replay(path, both).warnings] == [w for w, _ in found]


@pytest.mark.parametrize("symbol", ["BTCUSD_PERP", "BTCUSDT"])
def test_klines_of_contracts_warn_alone_and_merged(symbol: str, tmp_path: Path) -> None:
    kline = f"{T},50000,50000,40000,43219.7,2017,{T + 59_999},0.05,3,0,0,0\n"
    path, other = (tmp_path / f"{name}-1m-2026-01-05.csv" for name in (symbol, "ABCUSDT"))
    for each in (path, other):
        each.write_text(kline)
    for source in (path, [path, other]):
        # A bar is four ticks.
        found = [(w.kind, w.count) for w in strand.replay(source, "vwap").warnings]
        assert found == ([("contracts of USD", 4)] if symbol == "BTCUSD_PERP" else [])
        result = strand.replay(source, strand.vwap(contracts={symbol: strand.Inverse(100)}))
        assert not result.warnings
        assert result.rows.to_polars().filter(symbol=symbol)["notional"][0] == 201_700


@pytest.mark.parametrize(
    ("name", "symbol", "is_inverse"),
    [
        ("bybit-trades", "BTCUSD", True),
        ("bybit-trades", "ETHUSDH26", True),
        ("bybit-trades", "BTCUSDT", False),
        ("okx-trades", "BTC-USD-SWAP", True),
        ("okx-trades", "BTC-USD-260327", True),
        ("okx-trades", "BTC-USDT-SWAP", False),
    ],
)
def test_inverse_contracts_of_other_venues_warn_too(name: str, symbol: str, is_inverse: bool, tmp_path: Path) -> None:
    lines = made_up(name, 5)
    for line in lines:
        line[KINDS[name].columns.index("symbol" if name == "bybit-trades" else "instrument_name")] = symbol
    found = [(w.kind, w.count) for w in strand.replay(write_made_up(tmp_path, name, lines), "vwap").warnings]
    assert found == ([("contracts of USD", 5)] if is_inverse else [])
