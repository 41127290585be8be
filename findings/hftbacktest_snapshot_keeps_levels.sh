#!/bin/sh
# hftbacktest: after a snapshot, levels worse than the snapshot's last one stay in the book
#
# tardis.convert() writes a snapshot as a clear up to the price of its last row of each side, and then its rows.
# Levels beyond that price stay, although by the documents of Tardis a snapshot is the whole book, and nothing before it counts.
# If the venue has removed them meanwhile, as while a recorder was disconnected, they become the best price once the market gets there.
# If the rows of a side are not in the order of prices, better levels stay too: the clear ends at the last row, not at the worst one.
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
from hftbacktest import BacktestAsset, HashMapMarketDepthBacktest
from hftbacktest.data.utils import tardis

at = 1767571200 * 10**6
def file(name, head, rows):
    open(name, "w").write("\n".join([head, *rows]) + "\n")
    return name

def asks_at(price, *snapshots):
    """The quantity at a price after snapshots of bids at 99 and these asks, and a change of the bid."""
    rows = []
    for n, asks in enumerate(snapshots):
        rows += [(100 * n, "true", side, each) for side, each in [("bid", 99), *(("ask", p) for p in asks)]]
        rows += [(100 * n + 50, "false", "bid", 98)]
    trades = file("trades.csv", "exchange,symbol,timestamp,local_timestamp,id,side,price,amount", [f"x,ABC,{at + 900},{at + 905},a,buy,100,1"])
    book = file("book.csv", "exchange,symbol,timestamp,local_timestamp,is_snapshot,side,price,amount",
                [f"x,ABC,{at + when},{at + when + 2},{snapshot},{side},{price},1" for when, snapshot, side, price in rows])
    with contextlib.redirect_stdout(io.StringIO()):
        tardis.convert([trades, book], output_filename="day.npz")
    asset = (BacktestAsset().data(["day.npz"]).linear_asset(1.0).constant_order_latency(0, 0).risk_adverse_queue_model()
             .no_partial_fill_exchange().trading_value_fee_model(0, 0).tick_size(1.0).lot_size(1.0))
    backtest = HashMapMarketDepthBacktest([asset])
    while backtest.wait_next_feed(False, 10**15) == 2:
        pass
    return backtest.depth(0).ask_qty_at_tick(price)

print("hftbacktest", version("hftbacktest"))
beyond, better, gone = asks_at(103, (101, 103), (101, 102)), asks_at(103, (101, 103), (104, 102)), asks_at(101, (101, 103), (102, 104))
print("asks at 103 after asks 101, 103 and then a snapshot of 101, 102:", beyond)
print("asks at 103 after asks 101, 103 and then a snapshot of 104, 102:", better)
print("asks at 101 after asks 101, 103 and then a snapshot of 102, 104:", gone)
assert (beyond, better, gone) == (1.0, 1.0, 0.0)
END
