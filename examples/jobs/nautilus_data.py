"""The same ticks as catalogues of nautilus_trader, and the engine that its actors run in."""

from typing import Any

import polars as pl
from nautilus_trader.backtest.config import BacktestEngineConfig
from nautilus_trader.backtest.engine import BacktestEngine
from nautilus_trader.config import LoggingConfig
from nautilus_trader.data.config import DataEngineConfig
from nautilus_trader.model.currencies import USD
from nautilus_trader.model.data import OrderBookDelta, QuoteTick, TradeTick
from nautilus_trader.model.enums import AccountType, AggressorSide, BookAction, OmsType, OrderSide
from nautilus_trader.model.identifiers import InstrumentId, Symbol, TradeId, Venue
from nautilus_trader.model.instruments import Equity
from nautilus_trader.model.objects import FIXED_PRECISION, Money, Price, Quantity
from nautilus_trader.persistence.catalog import ParquetDataCatalog
from peer_data import PeerData

VENUE = Venue("XNAS")
CENT, SHARE = 10 ** (FIXED_PRECISION - 2), 10**FIXED_PRECISION
SIDES = {"B": OrderSide.BUY, "A": OrderSide.SELL}
AGGRESSORS = {"B": AggressorSide.BUYER, "A": AggressorSide.SELLER, "N": AggressorSide.NO_AGGRESSOR}


def make_catalog(data: PeerData) -> None:
    """Writes two catalogues into ``data.catalog``: ``day``, of trades, quotes and orders, and ``days``, of all trades.

    A quote has two sides there: one that is empty has a price and a size of 0.
    """
    trades, quotes, orders = (pl.read_parquet(path) for path in (data.trades, data.quotes, data.orders))
    day, days = ParquetDataCatalog(data.catalog / "day"), ParquetDataCatalog(data.catalog / "days")
    symbols = sorted(set(trades["symbol"]))
    for catalog in (day, days):
        catalog.write_data([_equity(symbol) for symbol in symbols])
    day.write_data(_trades(trades))
    day.write_data(_quotes(quotes.fill_null(0.0)))
    day.write_data(_deltas(orders))
    days.write_data(_trades(pl.concat([pl.read_parquet(path) for path in sorted(data.days.iterdir())])))


def backtest(catalog: ParquetDataCatalog, actor: Any, data: list[Any]) -> None:
    """Runs an actor over data of a catalogue's instruments, to its end."""
    bars = DataEngineConfig(time_bars_build_with_no_updates=False)
    logging = LoggingConfig(bypass_logging=True)
    engine = BacktestEngine(BacktestEngineConfig(logging=logging, data_engine=bars, run_analysis=False))
    engine.add_venue(VENUE, OmsType.NETTING, AccountType.CASH, [Money(1_000_000, USD)], base_currency=USD)
    for instrument in catalog.instruments():
        engine.add_instrument(instrument)
    engine.add_data(data)
    engine.add_actor(actor)
    engine.run()
    engine.dispose()


def instrument_id(symbol: str) -> Any:
    return InstrumentId(Symbol(symbol), VENUE)


def _equity(symbol: str) -> Any:
    name = instrument_id(symbol)
    return Equity(name, name.symbol, USD, 2, Price.from_str("0.01"), Quantity.from_int(1), 0, 0)


def _cents(price: float) -> int:
    return int(round(price * 100) * CENT)


def _trades(frame: pl.DataFrame) -> list[Any]:
    rows = frame.with_columns(pl.col("ts").to_physical()).iter_rows()
    return [
        TradeTick.from_raw(
            instrument_id(symbol), _cents(price), 2, size * SHARE, 0, AGGRESSORS[aggressor], TradeId(str(i)), ts, ts
        )
        for i, (ts, symbol, price, size, aggressor) in enumerate(rows)
    ]


def _quotes(frame: pl.DataFrame) -> list[Any]:
    rows = frame.with_columns(pl.col("ts").to_physical()).iter_rows()
    return [
        QuoteTick.from_raw(
            instrument_id(symbol), _cents(bid), _cents(ask), 2, 2, bid_size * SHARE, ask_size * SHARE, 0, 0, ts, ts
        )
        for ts, symbol, _, bid, bid_size, ask, ask_size in rows
    ]


def _deltas(frame: pl.DataFrame) -> list[Any]:
    left: dict[tuple[str, int], int] = {}
    found = []
    for ts, symbol, order, action, side, price, size in frame.with_columns(pl.col("ts").to_physical()).iter_rows():
        left[symbol, order] = now = size if action == "A" else left[symbol, order] - size
        change = BookAction.ADD if action == "A" else BookAction.UPDATE if now else BookAction.DELETE
        found.append(
            OrderBookDelta.from_raw(
                instrument_id(symbol), change, SIDES[side], _cents(price), 2, now * SHARE, 0, order, 128, 0, ts, ts
            )
        )
    return found
