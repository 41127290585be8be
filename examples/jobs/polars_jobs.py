"""The jobs of ``strand_jobs.py`` as a user of polars writes them, from Parquet files of trades, quotes and orders."""

from collections import deque
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import polars as pl
from job_data import FUND, PAIR, WEIGHTS
from peer_data import PeerData

#: The session in New York.
MIDNIGHT, OPEN, NOON, CLOSE = (datetime(2026, 1, 5, *clock, tzinfo=UTC) for clock in ((5,), (14, 30), (17,), (21,)))


def vwap(data: PeerData) -> dict[str, float]:
    """The volume-weighted average price of each symbol."""
    average = (pl.col("price") * pl.col("size")).sum() / pl.col("size").sum()
    return dict(pl.read_parquet(data.trades).group_by("symbol").agg(average).iter_rows())


def minute_bars(data: PeerData) -> None:
    """One-minute bars of all symbols, in a Parquet file."""
    pl.read_parquet(data.trades).group_by_dynamic("ts", every="1m", group_by="symbol").agg(
        open=pl.first("price"), high=pl.max("price"), low=pl.min("price"), close=pl.last("price"), volume=pl.sum("size")
    ).write_parquet(data.out / "bars.parquet")


def best_quotes(data: PeerData) -> None:
    """The best bid and ask at each change, in a Parquet file."""
    top = pl.struct("bid", "bid_size", "ask", "ask_size")
    quotes = pl.scan_parquet(data.quotes)
    quotes.filter(top.ne_missing(top.shift().over("symbol"))).sink_parquet(data.out / "bbo.parquet")


def depth(data: PeerData) -> list[tuple[Any, ...]]:
    """Five levels of each side of each book at noon, best first: symbol, side, price, size."""
    orders = pl.read_parquet(data.orders).filter(pl.col("ts") < NOON)
    left = pl.when(action="A").then("size").otherwise(-pl.col("size")).sum()
    levels = orders.group_by("symbol", "side", "price").agg(left).filter(pl.col("size") > 0)
    best = levels.sort("symbol", "side", pl.when(side="A").then("price").otherwise(-pl.col("price")))
    return best.group_by("symbol", "side", maintain_order=True).head(5).rows()


def tops_at_one_time(data: PeerData) -> list[tuple[Any, ...]]:
    """Bid and ask of all symbols, each half an hour of the session: time, symbol, bid, ask."""
    quotes = pl.read_parquet(data.quotes)
    times = pl.datetime_range(OPEN, CLOSE, "30m", time_unit="ns", eager=True).to_frame("ts")
    grid = times.join(quotes.select("symbol").unique().sort("symbol"), how="cross")
    return grid.join_asof(quotes, on="ts", by="symbol").select("ts", "symbol", "bid", "ask").rows()


def most_traded(data: PeerData) -> list[list[str]]:
    """The three most traded symbols of each day, by volume."""
    days = [pl.read_parquet(path) for path in sorted(data.days.iterdir())]
    return [day.group_by("symbol").agg(pl.col("size").sum()).top_k(3, by="size")["symbol"].to_list() for day in days]


def spread(data: PeerData) -> dict[str, float]:
    """The quoted spread of each symbol, weighted by time."""
    last = pl.read_parquet(data.trades).group_by("symbol").agg(last=pl.max("ts"))
    until = pl.col("ts").shift(-1).over("symbol").fill_null(pl.col("last"))
    quotes = pl.read_parquet(data.quotes).join(last, on="symbol").with_columns(held=until - pl.col("ts"))
    wide, held = pl.col("ask") - pl.col("bid"), pl.col("held").dt.total_nanoseconds()
    return dict(quotes.filter(wide > 0).group_by("symbol").agg((wide * held).sum() / held.sum()).iter_rows())


def cusum(data: PeerData) -> list[tuple[Any, ...]]:
    """A signal: prices at which the sum of returns since the last signal leaves a band of 0.2 %."""

    def events(trades: pl.DataFrame) -> pl.DataFrame:
        up, down, found = 0.0, 0.0, []
        for number, step in enumerate(trades["price"].log().diff().fill_null(0.0)):
            up, down = max(up + step, 0.0), min(down + step, 0.0)
            if max(up, -down) > 0.002:
                up = down = 0.0
                found.append(number)
        return trades[found]

    trades = pl.read_parquet(data.trades).with_row_index()
    return trades.group_by("symbol").map_groups(events).sort("index").select("symbol", "price").rows()


def directional_changes(data: PeerData) -> dict[str, int]:
    """A state machine: how often each symbol's price turned by 0.307 % from its last extreme."""

    def turning(trades: pl.DataFrame) -> int:
        extreme, falls, turns = 0.0, False, 0
        for price in trades["price"]:
            away = price - extreme if falls else extreme - price
            if extreme == 0 or away < 0:
                extreme = price
            elif away > 0.00307 * extreme:
                extreme, falls, turns = price, not falls, turns + 1
        return turns

    return {str(symbol): turning(mine) for (symbol,), mine in pl.read_parquet(data.trades).group_by("symbol")}


def first_in_first_out(data: PeerData) -> dict[str, float]:
    """An object per symbol: what sellers realise against the buys before them, the oldest first."""

    def realised(trades: pl.DataFrame) -> float:
        lots, profit = deque[float](), 0.0
        for price, size, aggressor in trades.select("price", "size", "aggressor").iter_rows():
            if aggressor == "B":
                lots.extend([price] * size)
            elif aggressor == "A":
                for _ in range(min(size, len(lots))):
                    profit += price - lots.popleft()
        return profit

    return {str(symbol): realised(mine) for (symbol,), mine in pl.read_parquet(data.trades).group_by("symbol")}


def strong_bars(data: PeerData) -> list[tuple[Any, ...]]:
    """Bars of an hour that close above the day's average price: symbol, start, close, average."""
    average = (pl.col("price") * pl.col("size")).sum() / pl.col("size").sum()
    trades = pl.read_parquet(data.trades).with_columns(vwap=average.over("symbol"))
    bars = trades.group_by_dynamic("ts", every="1h", group_by="symbol").agg(pl.last("price"), pl.last("vwap"))
    return bars.filter(pl.col("price") > pl.col("vwap")).rows()


def pair_spread(data: PeerData) -> list[tuple[Any, ...]]:
    """A pair's spread, each ten minutes of the session: the middle of the one book above that of the other."""
    mid = (pl.col("bid") + pl.col("ask")) / 2
    one, other = (pl.when(symbol=symbol).then(mid).forward_fill() for symbol in PAIR)
    spread = pl.read_parquet(data.quotes).select("ts", spread=one - other)
    return (
        pl.datetime_range(OPEN, CLOSE, "10m", time_unit="ns", eager=True)
        .to_frame("ts")
        .join_asof(spread, on="ts")
        .rows()
    )


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
    """Twenty parameter sets: how many signals of ``cusum`` there are for each width of its band."""

    def signals(trades: pl.DataFrame, band: float) -> int:
        up, down, n = 0.0, 0.0, 0
        for step in trades["price"].log().diff().fill_null(0.0):
            up, down = max(up + step, 0.0), min(down + step, 0.0)
            if max(up, -down) > band:
                up, down, n = 0.0, 0.0, n + 1
        return n

    symbols = pl.read_parquet(data.trades).partition_by("symbol")
    return [sum(signals(trades, n / 2000) for trades in symbols) for n in range(1, 21)]


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


def timed_trips(data: PeerData) -> list[tuple[Any, ...]]:
    """A timer: in at a trade of 1000 shares, out five minutes later, one at a time. Symbol, price in, price out."""

    def trips(trades: pl.DataFrame) -> Iterator[tuple[Any, ...]]:
        until, entry, last = trades["ts"][0], None, 0.0
        for ts, symbol, price, size in trades.select("ts", "symbol", "price", "size").iter_rows():
            if entry and ts >= until:
                yield until, symbol, entry, last
                entry = None
            if not entry and size >= 1000:
                entry, until = price, ts + timedelta(minutes=5)
            last = price

    symbols = pl.read_parquet(data.trades).partition_by("symbol")
    return [trip for _, *trip in sorted(trip for trades in symbols for trip in trips(trades))]


def state_at_a_tick(data: PeerData) -> tuple[Any, ...]:
    """Run until the 1000th tick of a symbol, and look at its state: bid and ask."""
    quotes = pl.read_parquet(data.quotes).filter(pl.col("tick") <= 1000, symbol=FUND)
    return quotes.select("bid", "ask").row(-1)
