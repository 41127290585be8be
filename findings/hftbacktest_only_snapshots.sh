#!/bin/sh
# hftbacktest: a Tardis file of snapshots alone converts to no book at all
#
# Some venues send whole books only, so Tardis marks every row of incremental_book_L2 as a snapshot (bitget and others).
# tardis.convert() writes a snapshot once a change follows it. Without a change it writes none of the rows, and raises nothing.
# The last snapshot of a file is lost in the same way. Reported as issue 189 of hftbacktest for bitget.
# Seen with hftbacktest 2.4.4.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet hftbacktest==2.4.4
venv/bin/python - <<'END'
import contextlib, io
from importlib.metadata import version
from hftbacktest.data.utils import tardis

at = 1767571200 * 10**6
def file(name, head, rows):
    open(name, "w").write("\n".join([head, *rows]) + "\n")
    return name

trades = file("trades.csv", "exchange,symbol,timestamp,local_timestamp,id,side,price,amount", [f"bitget,ABC,{at + 9},{at + 10},a,buy,100,1"])

def events(*rows):
    book = file("book.csv", "exchange,symbol,timestamp,local_timestamp,is_snapshot,side,price,amount",
                [f"bitget,ABC,{at + when},{at + when + 5},{snapshot},{side},{price},1" for when, snapshot, side, price in rows])
    with contextlib.redirect_stdout(io.StringIO()):
        return len(tardis.convert([trades, book])) - 1  # without the trade

first = [(0, "true", "ask", 101), (0, "true", "ask", 102), (0, "true", "bid", 100), (0, "true", "bid", 99)]
second = [(200, "true", "ask", 103), (200, "true", "bid", 101)]
alone, followed = events(*first, *second), events(*first, (300, "false", "bid", 100))
print("hftbacktest", version("hftbacktest"))
print("events of two snapshots:", alone, "- of one snapshot and a change:", followed)
assert alone == 0
assert followed >= 5
END
