"""Twenty jobs on tick data, each a function that returns plain values. ``python strand_jobs.py`` prints them all."""

import tempfile
import threading
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from job_data import FUND, PAIR, WEIGHTS, JobData, Lots, make_data

import strand
from strand.feeds.live.mold import MoldFeed, ServeOptions, serve

SESSION = "09:30-16:00 America/New_York"
LOADS = np.array(list(WEIGHTS.values()))


def vwap(data: JobData) -> dict[str, float]:
    """The volume-weighted average price of each symbol."""
    return dict(strand.replay(data.day, "vwap").rows.to_polars().select("symbol", "vwap").iter_rows())


def minute_bars(data: JobData) -> None:
    """One-minute bars of the session, of all symbols, in a Parquet file."""
    strand.replay(data.day, strand.bars("1m", sessions=SESSION), out={"bars": data.out / "bars.parquet"})


def best_quotes(data: JobData) -> None:
    """The best bid and ask at each change, in a Parquet file."""
    strand.replay(data.day, "bbo", out={"bbo": data.out / "bbo.parquet"})


def depth(data: JobData) -> list[tuple[Any, ...]]:
    """Five levels of each side of each book at noon, best first: symbol, side, price, size."""
    books = strand.replay(data.day, "book", end="12:00").books
    return books.levels(5).to_polars()["symbol", "side", "price", "size"].rows()


def tops_at_one_time(data: JobData) -> list[tuple[Any, ...]]:
    """Bid and ask of all symbols, each half an hour of the session: time, symbol, bid, ask."""
    tops = strand.snapshot(every="30m", fields=["bid", "ask"], sessions=SESSION)
    return strand.replay(data.day, "bbo", snapshot=tops).snapshots.to_polars().rows()


def most_traded(data: JobData) -> list[list[str]]:
    """The three most traded symbols of each day, by volume."""
    return [
        day.rows.to_polars().top_k(3, by="volume")["symbol"].to_list()
        for day in strand.replay(data.days, "vwap", per_day=True).days
    ]


def spread(data: JobData) -> dict[str, float]:
    """The quoted spread of each symbol, weighted by time."""
    return dict(strand.replay(data.day, "spread").rows.to_polars().select("symbol", "quoted").iter_rows())


def band_signal(data: JobData) -> list[tuple[Any, ...]]:
    """A signal: each trade 0.207 % away from the lowest or highest price since the last such trade. Symbol, price."""

    @strand.handler(on="trade", state={"low": "i8", "high": "i8"}, outputs={"signals": {"price": strand.units.PRICE}})
    def band(row: Any, trade: Any, emit: Any) -> None:
        row.low, row.high = min(row.low or trade.price, trade.price), max(row.high, trade.price)
        if trade.price > 1.00207 * row.low or 1.00207 * trade.price < row.high:
            row.low = row.high = trade.price
            emit.signals(trade.price)

    return strand.replay(data.day, band).outputs["signals"].to_polars().select("symbol", "price").rows()


def directional_changes(data: JobData) -> dict[str, int]:
    """A state machine: how often each symbol's price turned by 0.307 % from its last extreme."""

    @strand.handler(on="trade", state={"extreme": "i8", "falls": "?", "turns": "i8"})
    def turning(row: Any, trade: Any) -> None:
        away = trade.price - row.extreme if row.falls else row.extreme - trade.price
        if row.extreme == 0 or away < 0:
            row.extreme = trade.price
        elif away > 0.00307 * row.extreme:
            row.extreme, row.falls, row.turns = trade.price, not row.falls, row.turns + 1

    return dict(strand.replay(data.day, turning).rows.to_polars().select("symbol", "turns").iter_rows())


def first_in_first_out(data: JobData) -> dict[str, float]:
    """An object per symbol, of a class that is there: what sellers realise against the buys before them."""

    class Mine(Lots):
        def on_trade(self, trade: strand.Trade) -> None:
            self.trade(trade.aggressor.decode(), trade.price / strand.PRICE_SCALE, trade.size)

    return {symbol: lots.profit for symbol, lots in strand.replay(data.day, Mine).objects.items()}


def strong_bars(data: JobData) -> list[tuple[Any, ...]]:
    """Bars of half an hour of the session that close above the day's average price: symbol, start, close, average."""
    result = strand.replay(data.day, strand.chain(strand.bars("30m", sessions=SESSION), strand.vwap()))
    bars = result.outputs["bars"].to_polars().join(result.rows.to_polars(), on="symbol").sort("symbol", "start")
    return bars.filter(pl.col("close") > pl.col("vwap.vwap"))["symbol", "start", "close", "vwap.vwap"].rows()


def pair_spread(data: JobData) -> list[tuple[Any, ...]]:
    """A pair's spread, each ten minutes of the session: the middle of the one book above that of the other."""
    grid = strand.snapshot(every="10m", fields=["bid", "ask"], symbols=PAIR, sessions=SESSION)
    tops = strand.replay(data.day, "bbo", snapshot=grid).snapshots.to_polars()
    return (
        tops.select("ts", "symbol", mid=(pl.col("bid") + pl.col("ask")) / 2)
        .pivot("symbol", index="ts")
        .select("ts", pl.col(PAIR[0]) - pl.col(PAIR[1]))
        .rows()
    )


def index_premium(data: JobData) -> int:
    """A fund against its constituents: how often the premium moved by more than 0.0303 since it was last noted."""

    @strand.basket_handler(
        baskets={"index": [FUND, *WEIGHTS]},
        basket_state={"prices": ("f8", 4), "noted": "f8", "moves": "i8"},
        on="trade",
    )
    def premium(trade: Any, basket: Any, member: int) -> None:
        basket.prices[member] = trade.price / strand.PRICE_SCALE
        above = basket.prices[0] - np.sum(LOADS * basket.prices[1:])
        if np.all(basket.prices > 0) and abs(above - basket.noted) > 0.0303:
            basket.noted, basket.moves = above, basket.moves + 1

    return int(strand.replay(data.day, premium).baskets["index"]["moves"])


def twenty_bands(data: JobData) -> list[int]:
    """Twenty parameter sets: how many signals there are of ``band_signal``, for each width of the band."""

    @strand.handler(on="trade", state={"low": "i8", "high": "i8", "n": "i8"}, params={"band": "f8"})
    def band(row: Any, trade: Any, params: Any) -> None:
        row.low, row.high = min(row.low or trade.price, trade.price), max(row.high, trade.price)
        if trade.price > params.band * row.low or params.band * trade.price < row.high:
            row.low, row.high, row.n = trade.price, trade.price, row.n + 1

    rows = strand.sweep(data.day, band, [{"band": 1 + 0.000507 * n} for n in range(1, 21)]).rows.to_polars()
    return rows.group_by("set").agg(pl.sum("n")).sort("set")["n"].to_list()


def databento_frame(data: JobData) -> list[tuple[Any, ...]]:
    """A DBN file as a data frame: time, action, side, price and size of its records."""
    return strand.feeds.open(data.dbn).to_polars()["ts_event", "action", "side", "price", "size"].rows()


def lobster_bars(data: JobData) -> list[tuple[Any, ...]]:
    """Bars of half an hour of a LOBSTER file: start, open, high, low, close, volume."""
    bars = strand.replay(data.lobster, strand.bars("30m")).outputs["bars"].to_polars()
    return bars.select("start", "open", "high", "low", "close", "volume").rows()


def coin_bars(data: JobData) -> list[tuple[Any, ...]]:
    """Bars of ten coins of a Binance file: open, close, volume."""
    bars = strand.replay(data.coins, strand.bars(volume=10, partial=False)).outputs["bars"].to_polars()
    return bars.select("open", "close", "volume").rows()


def order_flow(data: JobData) -> list[tuple[Any, ...]]:
    """By the clock: the order-flow imbalance of each half an hour. Symbol, start, imbalance."""
    flow = strand.replay(data.day, strand.imbalance("30m")).outputs["imbalance"].to_polars()
    return flow.sort("symbol", "start").select("symbol", "start", "ofi").rows()


def live_volume(data: JobData) -> dict[str, int]:
    """A live run over this machine's loopback, of half a minute at most: shares traded of each symbol."""
    feed = MoldFeed("127.0.0.1:0", date="2026-01-05", max_seconds=30, idle_timeout_s=5)
    sender = threading.Thread(target=serve, args=(str(data.day), ServeOptions(feed.addresses, rate=50_000)))
    sender.start()
    rows = strand.replay(feed, "vwap").rows.to_polars()
    sender.join()
    return dict(rows.select("symbol", "volume").iter_rows())


def state_at_a_tick(data: JobData) -> tuple[Any, ...]:
    """Run until the 1000th tick of a symbol, and look at its state: bid and ask."""
    return strand.replay(data.day, "bbo", until=(FUND, 1000)).rows.to_polars().filter(symbol=FUND)["bid", "ask"].row(0)


def main() -> None:
    """Prints what each job comes to."""
    with tempfile.TemporaryDirectory() as folder:
        data = make_data(Path(folder))
        for job in (vwap, minute_bars, best_quotes, depth, tops_at_one_time, most_traded, spread, band_signal,
                    directional_changes, first_in_first_out, strong_bars, pair_spread, index_premium, twenty_bands,
                    databento_frame, lobster_bars, coin_bars, order_flow, live_volume, state_at_a_tick):  # fmt: skip
            found = str(job(data) or sorted(path.name for path in data.out.iterdir()))
            print(f"{job.__name__}: {found if len(found) < 100 else found[:97] + '...'}")


if __name__ == "__main__":  # a sweep starts processes, which import this file
    main()
