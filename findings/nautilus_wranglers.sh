#!/bin/sh
# nautilus_trader: wranglers make a bar known when it opens, and round prices to the instrument's digits
#
# BarDataWrangler takes the time of a row for ts_event and, without ts_init_delta, for ts_init too.
# Bars of most vendors are stamped with their open, so a backtest sees a bar's close one bar early.
# TradeTickDataWrangler rounds a price to the instrument's precision without a word: 10.126 becomes 10.13.
# Reported as issue 1537 of nautilus_trader for bars.
# Seen with nautilus_trader 1.221.0.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet nautilus_trader==1.221.0
venv/bin/python - <<'END'
import nautilus_trader, pandas as pd
from nautilus_trader.model.data import BarType
from nautilus_trader.persistence.wranglers import BarDataWrangler, TradeTickDataWrangler
from nautilus_trader.test_kit.providers import TestInstrumentProvider

coin = TestInstrumentProvider.btcusdt_binance()
minute = pd.DataFrame({"open": [10.0], "high": [12.0], "low": [9.0], "close": [11.0], "volume": [1.0]},
                      index=pd.DatetimeIndex(["2026-01-05 00:00"], tz="UTC", name="timestamp"))
wrangler = BarDataWrangler(BarType.from_str("BTCUSDT.BINANCE-1-MINUTE-LAST-EXTERNAL"), coin)
(plain,), (shifted,) = wrangler.process(minute), wrangler.process(minute, ts_init_delta=60 * 10**9)
opened = minute.index[0].value
print("nautilus_trader", nautilus_trader.__version__)
print("known after s:", (plain.ts_init - opened) / 1e9, "with ts_init_delta:", (shifted.ts_init - opened) / 1e9)
assert plain.ts_init == opened and shifted.ts_init == opened + 60 * 10**9
trade = pd.DataFrame({"price": [10.126], "quantity": [0.5], "buyer_maker": [True], "trade_id": ["1"]}, index=minute.index)
(tick,) = TradeTickDataWrangler(coin).process(trade)
print("10.126 is", tick.price)
assert str(tick.price) == "10.13"
END
