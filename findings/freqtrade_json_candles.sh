#!/bin/sh
# freqtrade: candles that are stored as JSON have other prices and volumes than those that were downloaded
#
# Its handler writes them by pandas' to_json, which keeps 10 digits behind the point. A price of 1.58e-10, as of SHIB/BTC, comes
# back as 2e-10, 27 % off, and lows and highs of a bar fall together. In the file a volume of 12345678.1 is 12345678.0999999996.
# The same candles come back as they were from Feather and Parquet.
# Seen with freqtrade 2025.11 and pandas 2.3.3.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet freqtrade==2025.11 pandas==2.3.3
venv/bin/python - <<'END'
from pathlib import Path

import freqtrade
import pandas as pd
from freqtrade.data.history.datahandlers import get_datahandler
from freqtrade.enums import CandleType

columns = ["open", "high", "low", "close", "volume"]
row = [1.53e-10, 1.62e-10, 1.47e-10, 1.58e-10, 12345678.1]
frame = pd.DataFrame([row], columns=columns)
frame.insert(0, "date", pd.to_datetime(["2026-01-05T00:00Z"]).astype("datetime64[ns, UTC]"))
print("freqtrade", freqtrade.__version__, "pandas", pd.__version__)
loaded = {}
for form in ("json", "feather"):
    handler = get_datahandler(Path(), form)
    handler.ohlcv_store("SHIB/BTC", "5m", frame.copy(), CandleType.SPOT)
    loaded[form] = handler.ohlcv_load("SHIB/BTC", "5m", CandleType.SPOT)[columns].values.tolist()[0]
    print(form, loaded[form])
text = Path("SHIB_BTC-5m.json").read_text()
print(text)
assert loaded["feather"] == row
assert loaded["json"] == [2e-10, 2e-10, 1e-10, 2e-10, 12345678.1]
assert "12345678.0999999996" in text
END
