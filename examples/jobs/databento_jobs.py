"""The jobs of ``strand_jobs.py`` as a user of databento's client writes them, from DBN files and with pandas."""

from collections import defaultdict
from typing import Any

import numpy as np
import pandas as pd
from databento import DBNStore
from job_data import FUND, PAIR, WEIGHTS, Lots
from peer_data import PeerData

OPEN, NOON, CLOSE = (pd.Timestamp(f"2026-01-05 {clock}Z") for clock in ("14:30", "17:00", "21:00"))


def vwap(data: PeerData) -> dict[str, float]:
    """The volume-weighted average price of each symbol."""
    trades = DBNStore.from_file(data.dbn_files / "trades.dbn").to_df().eval("notional = price * size")
    return dict(trades.groupby("symbol")[["notional", "size"]].sum().eval("notional / size"))


def minute_bars(data: PeerData) -> None:
    """One-minute bars of the session, of all symbols, in a Parquet file."""
    trades = DBNStore.from_file(data.dbn_files / "trades.dbn").to_df()[:CLOSE]
    minutes = trades.groupby(["symbol", pd.Grouper(freq="1min")])
    minutes["price"].ohlc().assign(volume=minutes["size"].sum()).to_parquet(data.out / "bars.parquet")


def best_quotes(data: PeerData) -> None:
    """The best bid and ask at each change, in a Parquet file."""
    quotes = DBNStore.from_file(data.dbn_files / "mbp-1.dbn").to_df()
    tops = quotes[["symbol", "bid_px_00", "bid_sz_00", "ask_px_00", "ask_sz_00"]].fillna(0.0)
    changed = (tops.drop(columns="symbol") != tops.groupby("symbol").shift()).any(axis=1)
    quotes[changed].to_parquet(data.out / "bbo.parquet")


def depth(data: PeerData) -> list[tuple[Any, ...]]:
    """Five levels of each side of each book at noon, best first: symbol, side, price, size."""
    orders = DBNStore.from_file(data.dbn_files / "mbo.dbn").to_df()[:NOON]
    left = orders["size"].astype(int).where(orders["action"] == "A", -orders["size"].astype(int))
    levels = left.groupby([orders["symbol"], orders["side"], orders["price"]]).sum().loc[lambda size: size > 0]
    by_side = levels.reset_index().assign(
        rank=lambda level: level["price"].where(level["side"] == "A", -level["price"])
    )
    best = by_side.sort_values(["symbol", "side", "rank"]).groupby(["symbol", "side"]).head(5)
    return list(best[["symbol", "side", "price", "size"]].itertuples(index=False, name=None))


def tops_at_one_time(data: PeerData) -> list[tuple[Any, ...]]:
    """Bid and ask of all symbols, each half an hour of the session: time, symbol, bid, ask."""
    quotes = DBNStore.from_file(data.dbn_files / "mbp-1.dbn").to_df()
    grid = pd.MultiIndex.from_product(
        [pd.date_range(OPEN, CLOSE, freq="30min", unit="ns"), sorted(set(quotes["symbol"]))]
    )
    tops = pd.merge_asof(grid.to_frame(name=["ts_recv", "symbol"]), quotes, on="ts_recv", by="symbol")
    return list(tops[["ts_recv", "symbol", "bid_px_00", "ask_px_00"]].itertuples(index=False, name=None))


def most_traded(data: PeerData) -> list[list[str]]:
    """The three most traded symbols of each day, by volume."""
    return [
        list(DBNStore.from_file(day).to_df().groupby("symbol")["size"].sum().nlargest(3).index)
        for day in sorted(data.dbn_files.glob("trades-*.dbn"))
    ]


def spread(data: PeerData) -> dict[str, float]:
    """The quoted spread of each symbol, weighted by time."""
    last = DBNStore.from_file(data.dbn_files / "trades.dbn").to_df().groupby("symbol")["ts_event"].max()
    quotes = DBNStore.from_file(data.dbn_files / "mbp-1.dbn").to_df().eval("wide = ask_px_00 - bid_px_00")
    until = quotes.groupby("symbol")["ts_event"].shift(-1).fillna(quotes["symbol"].map(last))
    quotes["held"] = (until - quotes["ts_event"]).dt.total_seconds()
    sound = quotes[quotes["wide"] > 0].eval("weighted = wide * held").groupby("symbol")[["weighted", "held"]].sum()
    return dict(sound.eval("weighted / held"))


def band_signal(data: PeerData) -> list[tuple[Any, ...]]:
    """A signal: each trade 0.207 % away from the lowest or highest price since the last such trade. Symbol, price."""
    low, high, signals = dict[str, float](), dict[str, float](), []
    trades = DBNStore.from_file(data.dbn_files / "trades.dbn").to_df()
    for symbol, price in zip(trades["symbol"], trades["price"], strict=True):
        low[symbol], high[symbol] = min(low.get(symbol, price), price), max(high.get(symbol, price), price)
        if price > 1.00207 * low[symbol] or 1.00207 * price < high[symbol]:
            low[symbol] = high[symbol] = price
            signals.append((symbol, price))
    return signals


def directional_changes(data: PeerData) -> dict[str, int]:
    """A state machine: how often each symbol's price turned by 0.307 % from its last extreme."""
    extreme, falls, turns = defaultdict[str, float](float), defaultdict[str, bool](bool), defaultdict[str, int](int)
    trades = DBNStore.from_file(data.dbn_files / "trades.dbn").to_df()
    for symbol, price in zip(trades["symbol"], trades["price"], strict=True):
        away = price - extreme[symbol] if falls[symbol] else extreme[symbol] - price
        if extreme[symbol] == 0 or away < 0:
            extreme[symbol] = price
        elif away > 0.00307 * extreme[symbol]:
            extreme[symbol], falls[symbol], turns[symbol] = price, not falls[symbol], turns[symbol] + 1
    return {symbol: turns[symbol] for symbol in extreme}


def first_in_first_out(data: PeerData) -> dict[str, float]:
    """An object per symbol, of a class that is there: what sellers realise against the buys before them."""
    lots, trades = defaultdict[str, Lots](Lots), DBNStore.from_file(data.dbn_files / "trades.dbn").to_df()
    for symbol, *trade in trades[["symbol", "side", "price", "size"]].itertuples(index=False):
        lots[symbol].trade(*trade)
    return {symbol: mine.profit for symbol, mine in lots.items()}


def strong_bars(data: PeerData) -> list[tuple[Any, ...]]:
    """Bars of half an hour of the session that close above the day's average price: symbol, start, close, average."""
    trades = DBNStore.from_file(data.dbn_files / "trades.dbn").to_df().eval("notional = price * size")
    average = trades.groupby("symbol")[["notional", "size"]].sum().eval("notional / size").rename("vwap")
    close = trades[:CLOSE].groupby(["symbol", pd.Grouper(freq="30min")])["price"].last().reset_index()
    return list(close.join(average, on="symbol").query("price > vwap").itertuples(index=False, name=None))


def pair_spread(data: PeerData) -> list[tuple[Any, ...]]:
    """A pair's spread, each ten minutes of the session: the middle of the one book above that of the other."""
    quotes = DBNStore.from_file(data.dbn_files / "mbp-1.dbn").to_df().eval("mid = (bid_px_00 + ask_px_00) / 2")
    one, other = (quotes[quotes["symbol"] == symbol]["mid"].dropna() for symbol in PAIR)
    grid = pd.date_range(OPEN, CLOSE, freq="10min", unit="ns")
    return list((one.asof(grid) - other.asof(grid)).items())


def index_premium(data: PeerData) -> int:
    """A fund against its constituents: how often the premium moved by more than 0.0303 since it was last noted."""
    trades = DBNStore.from_file(data.dbn_files / "trades.dbn").to_df().reset_index()
    last = trades.pivot(columns="symbol", values="price").ffill()[[FUND, *WEIGHTS]].dropna()
    noted = [0.0]
    for premium in last[FUND] - last[list(WEIGHTS)] @ pd.Series(WEIGHTS):
        if abs(premium - noted[-1]) > 0.0303:
            noted.append(premium)
    return len(noted) - 1


def twenty_bands(data: PeerData) -> list[int]:
    """Twenty parameter sets: how many signals there are of ``band_signal``, for each width of the band."""

    def signals(band: float) -> int:
        low, high, n = dict[str, float](), dict[str, float](), 0
        for symbol, price in zip(trades["symbol"], trades["price"], strict=True):
            low[symbol], high[symbol] = min(low.get(symbol, price), price), max(high.get(symbol, price), price)
            if price > band * low[symbol] or band * price < high[symbol]:
                low[symbol], high[symbol], n = price, price, n + 1
        return n

    trades = DBNStore.from_file(data.dbn_files / "trades.dbn").to_df()
    return [signals(1 + 0.000507 * n) for n in range(1, 21)]


def databento_frame(data: PeerData) -> list[tuple[Any, ...]]:
    """A DBN file as a data frame: time, action, side, price and size of its records."""
    columns = ["ts_event", "action", "side", "price", "size"]
    return list(DBNStore.from_file(data.dbn).to_df()[columns].itertuples(index=False, name=None))


def order_flow(data: PeerData) -> list[tuple[Any, ...]]:
    """By the clock: the order-flow imbalance of each half an hour. Symbol, start, imbalance."""
    quotes = DBNStore.from_file(data.dbn_files / "mbp-1.dbn").to_df()
    sizes = quotes[["symbol", "bid_sz_00", "ask_sz_00"]].astype({"bid_sz_00": "i8", "ask_sz_00": "i8"})
    top = sizes.assign(bid=quotes["bid_px_00"].fillna(-np.inf), ask=quotes["ask_px_00"].fillna(np.inf))
    old = top.groupby("symbol").shift()
    bought = (top["bid"] >= old["bid"]) * top["bid_sz_00"] - (top["bid"] <= old["bid"]) * old["bid_sz_00"]
    sold = (top["ask"] <= old["ask"]) * top["ask_sz_00"] - (top["ask"] >= old["ask"]) * old["ask_sz_00"]
    changed = (top.drop(columns="symbol") != old).any(axis=1) & old["bid"].notna()
    flow = (bought - sold)[changed].groupby([top["symbol"][changed], pd.Grouper(freq="30min")]).sum()
    return [(*key, ofi) for key, ofi in flow.items()]


def state_at_a_tick(data: PeerData) -> tuple[Any, ...]:
    """Run until the 1000th tick of a symbol, and look at its state: bid and ask."""
    quotes = DBNStore.from_file(data.dbn_files / "mbp-1.dbn").to_df().query("symbol == @FUND and sequence <= 1000")
    return tuple(quotes[["bid_px_00", "ask_px_00"]].iloc[-1])
