"""The jobs of ``strand_jobs.py`` as a user of polars writes them, from Parquet files of trades, quotes and orders."""

import math
from collections import defaultdict
from datetime import UTC, datetime
from typing import Any

import polars as pl
from job_data import FUND, PAIR, WEIGHTS, Lots
from peer_data import PeerData

#: The session in New York.
OPEN, NOON, CLOSE = (datetime(2026, 1, 5, hour, minute, tzinfo=UTC) for hour, minute in ((14, 30), (17, 0), (21, 0)))
MIDNIGHT = datetime(2026, 1, 5, 5, tzinfo=UTC)


def vwap(data: PeerData) -> dict[str, float]:
    """The volume-weighted average price of each symbol."""
    trades = pl.read_parquet(data.trades).group_by("symbol")
    return dict(trades.agg((pl.col("price") * pl.col("size")).sum() / pl.sum("size")).iter_rows())


def minute_bars(data: PeerData) -> None:
    """One-minute bars of the session, of all symbols, in a Parquet file."""
    trades = pl.read_parquet(data.trades).filter(pl.col("ts") < CLOSE)
    trades.group_by_dynamic("ts", every="1m", group_by="symbol").agg(
        open=pl.first("price"), high=pl.max("price"), low=pl.min("price"), close=pl.last("price"), volume=pl.sum("size")
    ).write_parquet(data.out / "bars.parquet")


def best_quotes(data: PeerData) -> None:
    """The best bid and ask at each change, in a Parquet file."""
    top, quotes = pl.struct("bid", "bid_size", "ask", "ask_size"), pl.scan_parquet(data.quotes)
    quotes.filter(top.ne_missing(top.shift().over("symbol"))).sink_parquet(data.out / "bbo.parquet")


def depth(data: PeerData) -> list[tuple[Any, ...]]:
    """Five levels of each side of each book at noon, best first: symbol, side, price, size."""
    left = pl.when(action="A").then("size").otherwise(-pl.col("size")).sum()
    orders = pl.read_parquet(data.orders).filter(pl.col("ts") < NOON)
    levels = orders.group_by("symbol", "side", "price").agg(left).filter(pl.col("size") > 0)
    best = levels.sort("symbol", "side", pl.when(side="A").then("price").otherwise(-pl.col("price")))
    return best.group_by("symbol", "side", maintain_order=True).head(5).rows()


def tops_at_one_time(data: PeerData) -> list[tuple[Any, ...]]:
    """Bid and ask of all symbols, each half an hour of the session: time, symbol, bid, ask."""
    quotes = pl.read_parquet(data.quotes)
    times = pl.datetime_range(OPEN, CLOSE, "30m", time_unit="ns", eager=True).to_frame("ts")
    grid = times.join(quotes.select("symbol").unique().sort("symbol"), how="cross")
    return (
        grid.join_asof(quotes, on="ts", by="symbol", check_sortedness=False).select("ts", "symbol", "bid", "ask").rows()
    )


def most_traded(data: PeerData) -> list[list[str]]:
    """The three most traded symbols of each day, by volume."""
    return [
        pl.read_parquet(day).group_by("symbol").agg(pl.sum("size")).top_k(3, by="size")["symbol"].to_list()
        for day in sorted(data.days.iterdir())
    ]


def spread(data: PeerData) -> dict[str, float]:
    """The quoted spread of each symbol, weighted by time."""
    last = pl.read_parquet(data.trades).group_by("symbol").agg(last=pl.max("ts"))
    until = pl.col("ts").shift(-1).over("symbol").fill_null(pl.col("last"))
    quotes = pl.read_parquet(data.quotes).join(last, on="symbol").with_columns(held=until - pl.col("ts"))
    wide, held = pl.col("ask") - pl.col("bid"), pl.col("held").dt.total_nanoseconds()
    return dict(quotes.filter(wide > 0).group_by("symbol").agg((wide * held).sum() / held.sum()).iter_rows())


def band_signal(data: PeerData) -> list[tuple[Any, ...]]:
    """A signal: each trade 0.207 % away from the lowest or highest price since the last such trade. Symbol, price."""
    low, high, signals = dict[str, float](), dict[str, float](), []
    for symbol, price in pl.read_parquet(data.trades).select("symbol", "price").iter_rows():
        low[symbol], high[symbol] = min(low.get(symbol, price), price), max(high.get(symbol, price), price)
        if price > 1.00207 * low[symbol] or 1.00207 * price < high[symbol]:
            low[symbol] = high[symbol] = price
            signals.append((symbol, price))
    return signals


def directional_changes(data: PeerData) -> dict[str, int]:
    """A state machine: how often each symbol's price turned by 0.307 % from its last extreme."""
    extreme, falls, turns = defaultdict[str, float](float), defaultdict[str, bool](bool), defaultdict[str, int](int)
    for symbol, price in pl.read_parquet(data.trades).select("symbol", "price").iter_rows():
        away = price - extreme[symbol] if falls[symbol] else extreme[symbol] - price
        if extreme[symbol] == 0 or away < 0:
            extreme[symbol] = price
        elif away > 0.00307 * extreme[symbol]:
            extreme[symbol], falls[symbol], turns[symbol] = price, not falls[symbol], turns[symbol] + 1
    return {symbol: turns[symbol] for symbol in extreme}


def first_in_first_out(data: PeerData) -> dict[str, float]:
    """An object per symbol, of a class that is there: what sellers realise against the buys before them."""
    lots = defaultdict[str, Lots](Lots)
    for symbol, *trade in pl.read_parquet(data.trades).select("symbol", "aggressor", "price", "size").iter_rows():
        lots[symbol].trade(*trade)
    return {symbol: mine.profit for symbol, mine in lots.items()}


def strong_bars(data: PeerData) -> list[tuple[Any, ...]]:
    """Bars of half an hour of the session that close above the day's average price: symbol, start, close, average."""
    average = (pl.col("price") * pl.col("size")).sum() / pl.col("size").sum()
    trades = pl.read_parquet(data.trades).with_columns(vwap=average.over("symbol"))
    bars = trades.group_by_dynamic("ts", every="30m", group_by="symbol").agg(pl.last("price"), pl.last("vwap"))
    return bars.filter(pl.col("price") > pl.col("vwap"), pl.col("ts") < CLOSE).rows()


def pair_spread(data: PeerData) -> list[tuple[Any, ...]]:
    """A pair's spread, each ten minutes of the session: the middle of the one book above that of the other."""
    mid = (pl.col("bid") + pl.col("ask")) / 2
    one, other = (pl.when(symbol=symbol).then(mid).forward_fill() for symbol in PAIR)
    spread = pl.read_parquet(data.quotes).select("ts", spread=one - other)
    grid = pl.datetime_range(OPEN, CLOSE, "10m", time_unit="ns", eager=True).to_frame("ts")
    return grid.join_asof(spread, on="ts").rows()


def index_premium(data: PeerData) -> int:
    """A fund against its constituents: how often the premium moved by more than 0.0303 since it was last noted."""
    last = {symbol: pl.when(symbol=symbol).then("price").forward_fill() for symbol in (FUND, *WEIGHTS)}
    above = last[FUND] - sum(weight * last[symbol] for symbol, weight in WEIGHTS.items())
    noted = [0.0]
    for premium in pl.read_parquet(data.trades).select(above).drop_nulls().to_series():
        if abs(premium - noted[-1]) > 0.0303:
            noted.append(premium)
    return len(noted) - 1


def twenty_bands(data: PeerData) -> list[int]:
    """Twenty parameter sets: how many signals there are of ``band_signal``, for each width of the band."""

    def signals(band: float) -> int:
        low, high, n = dict[str, float](), dict[str, float](), 0
        for symbol, price in trades:
            low[symbol], high[symbol] = min(low.get(symbol, price), price), max(high.get(symbol, price), price)
            if price > band * low[symbol] or band * price < high[symbol]:
                low[symbol], high[symbol], n = price, price, n + 1
        return n

    trades = pl.read_parquet(data.trades).select("symbol", "price").rows()
    return [signals(1 + 0.000507 * n) for n in range(1, 21)]


def lobster_bars(data: PeerData) -> list[tuple[Any, ...]]:
    """Bars of half an hour of a LOBSTER file: start, open, high, low, close, volume."""
    names = ["seconds", "type", "order_id", "volume", "price", "direction"]
    rows = pl.read_csv(data.lobster, has_header=False, new_columns=names).filter(pl.col("type").is_in([4, 5, 6]))
    time = pl.lit(MIDNIGHT) + pl.duration(nanoseconds=pl.col("seconds") * 1_000_000_000)
    bars = rows.with_columns(time.alias("ts"), pl.col("price") / 10_000).group_by_dynamic("ts", every="30m")
    prices = {"open": pl.first("price"), "high": pl.max("price"), "low": pl.min("price"), "close": pl.last("price")}
    return bars.agg(**prices, volume=pl.sum("volume")).rows()


def coin_bars(data: PeerData) -> list[tuple[Any, ...]]:
    """Bars of ten coins of a Binance file: open, close, volume."""
    volume, bars, opened = 0.0, [], None
    for price, quantity in pl.read_csv(data.coins).select("price", "qty").iter_rows():
        opened, volume = opened or price, volume + quantity
        if volume >= 10:
            bars.append((opened, price, volume))
            volume, opened = 0.0, None
    return bars


def order_flow(data: PeerData) -> list[tuple[Any, ...]]:
    """By the clock: the order-flow imbalance of each half an hour. Symbol, start, imbalance."""
    top = pl.struct("bid", "bid_size", "ask", "ask_size")
    quotes = pl.read_parquet(data.quotes).filter(top.ne_missing(top.shift().over("symbol")))
    bid, ask = pl.col("bid").fill_null(-math.inf), pl.col("ask").fill_null(math.inf)
    old_bid, old_ask = bid.shift().over("symbol"), ask.shift().over("symbol")
    old_bid_size, old_ask_size = (pl.col(name).shift().over("symbol") for name in ("bid_size", "ask_size"))
    bought = (bid >= old_bid) * pl.col("bid_size") - (bid <= old_bid) * old_bid_size
    sold = (ask <= old_ask) * pl.col("ask_size") - (ask >= old_ask) * old_ask_size
    flow = quotes.select("symbol", "ts", ofi=bought - sold).drop_nulls()
    return flow.group_by_dynamic("ts", every="30m", group_by="symbol").agg(pl.sum("ofi")).sort("symbol", "ts").rows()


def state_at_a_tick(data: PeerData) -> tuple[Any, ...]:
    """Run until the 1000th tick of a symbol, and look at its state: bid and ask."""
    return pl.read_parquet(data.quotes).filter(pl.col("tick") <= 1000, symbol=FUND)["bid", "ask"].row(-1)
