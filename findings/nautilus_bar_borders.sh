#!/bin/sh
# nautilus_trader: a trade exactly at the end of a minute is in the bar that ends there
#
# Bars that its BacktestEngine builds from trades take in the trade at their end, ts_event. Windows of pandas and polars leave it
# to the next bar. So bars of trades that are stamped in whole seconds differ in each price. The open bar at the end is not given.
# Seen with nautilus_trader 1.221.0.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet nautilus_trader==1.221.0
venv/bin/python - <<'END'
import nautilus_trader, pandas as pd
from nautilus_trader.backtest.engine import BacktestEngine, BacktestEngineConfig
from nautilus_trader.config import LoggingConfig, StrategyConfig
from nautilus_trader.model.currencies import USDT
from nautilus_trader.model.data import BarType, TradeTick
from nautilus_trader.model.enums import AccountType, AggressorSide, OmsType
from nautilus_trader.model.identifiers import TradeId, Venue
from nautilus_trader.model.objects import Money
from nautilus_trader.test_kit.providers import TestInstrumentProvider
from nautilus_trader.trading.strategy import Strategy

coin = TestInstrumentProvider.btcusdt_binance()
begin = pd.Timestamp("2026-01-05", tz="UTC").value
bars = []

class Bars(Strategy):
    def on_start(self):
        self.subscribe_bars(BarType.from_str("BTCUSDT.BINANCE-1-MINUTE-LAST-INTERNAL"))

    def on_bar(self, bar):
        bars.append(((bar.ts_event - begin) // 10**9, float(bar.open), float(bar.close)))

engine = BacktestEngine(BacktestEngineConfig(logging=LoggingConfig(bypass_logging=True)))
engine.add_venue(Venue("BINANCE"), OmsType.NETTING, AccountType.CASH, [Money(1_000_000, USDT)])
engine.add_instrument(coin)
trades = [(1, 10), (60, 11), (61, 12), (120, 13), (121, 14), (181, 15)]
engine.add_data([
    TradeTick(coin.id, coin.make_price(price), coin.make_qty(1), AggressorSide.BUYER, TradeId(str(price)), time, time)
    for time, price in ((begin + second * 10**9, price) for second, price in trades)
])
engine.add_strategy(Bars(StrategyConfig()))
engine.run()
frame = pd.Series([float(p) for _, p in trades], pd.to_datetime([begin + s * 10**9 for s, _ in trades]))
theirs = frame.resample("1min").agg(["first", "last"]).values.tolist()
print("nautilus_trader", nautilus_trader.__version__, "end, open, close:", bars)
print("pandas", pd.__version__, "open, close:", theirs)
assert bars == [(60, 10.0, 11.0), (120, 12.0, 13.0), (180, 14.0, 14.0)]
assert theirs == [[10.0, 10.0], [11.0, 12.0], [13.0, 14.0], [15.0, 15.0]]
END
