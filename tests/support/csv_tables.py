"""Small CSV files, a profile of one's own, and ticks as dicts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from reading import ticks_of

from strand.feeds.formats.csv.reader import CsvFeed
from strand.feeds.formats.dbn import DbnFeed
from strand.ticks import FIELDS

PROFILE = """
name = "mine"
delimiter = ";"

[symbol]
column = "Instrument"

[time]
zone = "Europe/Berlin"

[fields.ts_event]
column = "When"
unit = "stamp"

[fields.price]
column = ["Px", "Price"]
unit = "0.01"
zero = "none"
empty = "none"

[fields.size]
column = "Lots"

[fields.side]
column = "BuySell"
map = { K = "B", V = "A" }
otherwise = "N"

[fields.action]
constant = "T"

[fields.kind]
constant = "trade"
"""


MINE = """When;Instrument;Px;Lots;BuySell;Note
2024-03-29 09:00:00.5;FDAX;1850050;3;K;before summer time
2024-04-02 09:00:00.000000001;FDAX;;1;V;after
2024-04-02 09:00:01;FGBL;0;2;?;none
"""


def as_dicts(feed: CsvFeed | DbnFeed) -> list[dict[str, Any]]:
    rows = []
    for tick in ticks_of(feed):
        row = {name: tick[name].item() for name in FIELDS}
        row["action"], row["side"] = row["action"].decode(), row["side"].decode()
        row["symbol"] = feed.symbols[row.pop("instrument_id")]
        rows.append(row)
    return rows


HEADER = "exchange,symbol,timestamp,local_timestamp,id,side,price,amount"
GOOD = "deribit,BTC,1700000000000000,1700000000000001,{},buy,{}.5,2"


def write(path: Path, rows: list[str], *, header: str = HEADER, ends: str = "\n", last: bool = True) -> Path:
    path.write_bytes((ends.join([header, *rows]) + (ends if last else "")).encode())
    return path


def lines(count: int) -> list[str]:
    return [GOOD.format(at, at) for at in range(count)]
