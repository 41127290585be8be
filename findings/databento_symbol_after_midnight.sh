#!/bin/sh
# databento: records received after a symbol's last day have no symbol, and groupby drops them
#
# A file's metadata names instruments by UTC days of the receive time, and a file may hold records after the last named day.
# DBNStore.to_df() gives these records the symbol NaN, to_csv() an empty field, without a word.
# groupby("symbol") leaves them out: here a third of the volume, of which one trade was executed before midnight.
# Seen with databento 0.88.0, databento-dbn 0.70.0, pandas 3.1.1.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet databento==0.88.0 databento-dbn==0.70.0 pandas==3.1.1
venv/bin/python - <<'END'
import warnings
warnings.simplefilter("ignore")
from datetime import date
from types import SimpleNamespace
import databento, databento_dbn as dbn

midnight = 1773705600 * 10**9  # 2026-03-17
day = SimpleNamespace(start_date=date(2026, 3, 16), end_date=date(2026, 3, 17), symbol="10")
metadata = dbn.Metadata(dataset="GLBX.MDP3", start=midnight - 86400 * 10**9, end=None, schema=dbn.Schema.TRADES, symbols=["ESM6"],
                        stype_in=dbn.SType.RAW_SYMBOL, stype_out=dbn.SType.INSTRUMENT_ID,
                        mappings=[SimpleNamespace(raw_symbol="ESM6", intervals=[day])], version=3)

def trade(event, received, size):
    return dbn.TradeMsg(publisher_id=1, instrument_id=10, ts_event=event, ts_recv=received, price=5000 * 10**9, size=size,
                        action=dbn.Action.TRADE, side=dbn.Side.BID, flags=128, depth=0, sequence=0)

trades = [trade(midnight - 10**9, midnight - 10**9, 6), trade(midnight - 1, midnight + 1, 1), trade(midnight + 5, midnight + 6, 2)]
open("a.dbn", "wb").write(bytes(metadata) + b"".join(bytes(each) for each in trades))
frame = databento.DBNStore.from_file("a.dbn").to_df()
print("databento", databento.__version__)
print(frame[["ts_event", "size", "symbol"]].to_string())
by_symbol = frame.groupby("symbol")["size"].sum().to_dict()
print("volume", int(frame["size"].sum()), "by symbol", by_symbol)
assert frame["symbol"].isna().tolist() == [False, True, True]
assert by_symbol == {"ESM6": 6} and frame["size"].sum() == 9
END
