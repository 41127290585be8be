"""The jobs of ``strand_jobs.py`` as a user of nautilus_trader writes them, from a catalogue.

What needs bars or timers is an actor in a backtest; all else is a loop over what a query of the catalogue gives.
"""

import math
from collections import defaultdict, deque
from typing import Any

import pandas as pd
from job_data import DATES, FUND, PAIR, WEIGHTS, Lots
from nautilus_data import backtest, instrument_id
from nautilus_trader.common.actor import Actor
from nautilus_trader.model.book import OrderBook
from nautilus_trader.model.data import BarType, QuoteTick
from nautilus_trader.model.enums import AggressorSide, BookType
from nautilus_trader.persistence.catalog import ParquetDataCatalog
from peer_data import PeerData

OPEN, NOON, CLOSE = (pd.Timestamp(f"2026-01-05 {clock}Z") for clock in ("14:30", "17:00", "21:00"))


def vwap(data: PeerData) -> dict[str, float]:
    """The volume-weighted average price of each symbol."""
    notional, volume = defaultdict[str, float](float), defaultdict[str, float](float)
    for trade in ParquetDataCatalog(data.catalog / "day").trade_ticks():
        notional[trade.instrument_id.symbol.value] += float(trade.price) * float(trade.size)
        volume[trade.instrument_id.symbol.value] += float(trade.size)
    return {symbol: notional[symbol] / volume[symbol] for symbol in volume}


def minute_bars(data: PeerData) -> None:
    """One-minute bars of the session, of all symbols, in a Parquet file."""
    bars: list[Any] = []

    class Minutes(Actor):  # type: ignore[misc]
        def on_start(self) -> None:
            for name in self.cache.instrument_ids():
                self.subscribe_bars(BarType.from_str(f"{name}-1-MINUTE-LAST-INTERNAL"))

        def on_bar(self, bar: Any) -> None:
            bars.append(bar)

    catalog = ParquetDataCatalog(data.catalog / "day")
    backtest(catalog, Minutes(), catalog.trade_ticks())
    ParquetDataCatalog(data.out).write_data(bars)


def best_quotes(data: PeerData) -> None:
    """The best bid and ask at each change, in a Parquet file."""
    changes, last = [], dict[Any, Any]()
    for quote in ParquetDataCatalog(data.catalog / "day").quote_ticks():
        top = quote.bid_price, quote.bid_size, quote.ask_price, quote.ask_size
        if last.get(quote.instrument_id) != top:
            last[quote.instrument_id] = top
            changes.append(quote)
    ParquetDataCatalog(data.out).write_data(changes)


def depth(data: PeerData) -> list[tuple[Any, ...]]:
    """Five levels of each side of each book at noon, best first: symbol, side, price, size."""
    catalog = ParquetDataCatalog(data.catalog / "day")
    books = {each.id: OrderBook(each.id, BookType.L3_MBO) for each in catalog.instruments()}
    for delta in catalog.order_book_deltas(end=NOON):
        books[delta.instrument_id].apply_delta(delta)
    return [
        (name.symbol.value, side, float(level.price), int(level.size()))
        for name, book in sorted(books.items())
        for side, levels in (("A", book.asks()), ("B", book.bids()))
        for level in levels[:5]
    ]


def tops_at_one_time(data: PeerData) -> list[tuple[Any, ...]]:
    """Bid and ask of all symbols, each half an hour of the session: time, symbol, bid, ask."""
    catalog = ParquetDataCatalog(data.catalog / "day")
    quotes = deque(catalog.quote_ticks())
    bids, asks, tops = dict[Any, float | None](), dict[Any, float | None](), []
    for time in pd.date_range(OPEN, CLOSE, freq="30min"):
        while quotes and quotes[0].ts_init <= time.value:
            quote = quotes.popleft()
            bids[quote.instrument_id] = float(quote.bid_price) if quote.bid_size > 0 else None
            asks[quote.instrument_id] = float(quote.ask_price) if quote.ask_size > 0 else None
        for each in sorted(catalog.instruments(), key=lambda instrument: instrument.id):
            tops.append((time, each.id.symbol.value, bids.get(each.id), asks.get(each.id)))
    return tops


def most_traded(data: PeerData) -> list[list[str]]:
    """The three most traded symbols of each day, by volume."""
    days = {date: defaultdict[str, float](float) for date in DATES}
    for trade in ParquetDataCatalog(data.catalog / "days").trade_ticks():
        day = pd.Timestamp(trade.ts_init).strftime("%Y-%m-%d")
        days[day][trade.instrument_id.symbol.value] += float(trade.size)
    return [sorted(day, key=lambda symbol: -day[symbol])[:3] for day in days.values()]


def spread(data: PeerData) -> dict[str, float]:
    """The quoted spread of each symbol, weighted by time."""
    catalog = ParquetDataCatalog(data.catalog / "day")
    weighted, held, since, wide = (defaultdict[str, float](float) for _ in range(4))
    for tick in sorted([*catalog.quote_ticks(), *catalog.trade_ticks()], key=lambda tick: tick.ts_init):
        symbol = tick.instrument_id.symbol.value
        weighted[symbol] += wide[symbol] * (tick.ts_init - since[symbol])
        held[symbol] += (wide[symbol] > 0) * (tick.ts_init - since[symbol])
        since[symbol] = tick.ts_init
        if isinstance(tick, QuoteTick):
            wide[symbol] = float(tick.ask_price - tick.bid_price) if min(tick.bid_size, tick.ask_size) > 0 else 0.0
    return {symbol: weighted[symbol] / held[symbol] for symbol in held}


def band_signal(data: PeerData) -> list[tuple[Any, ...]]:
    """A signal: each trade 0.207 % away from the lowest or highest price since the last such trade. Symbol, price."""
    low, high, signals = dict[str, float](), dict[str, float](), []
    for trade in ParquetDataCatalog(data.catalog / "day").trade_ticks():
        symbol, price = trade.instrument_id.symbol.value, float(trade.price)
        low[symbol], high[symbol] = min(low.get(symbol, price), price), max(high.get(symbol, price), price)
        if price > 1.00207 * low[symbol] or 1.00207 * price < high[symbol]:
            low[symbol] = high[symbol] = price
            signals.append((symbol, price))
    return signals


def directional_changes(data: PeerData) -> dict[str, int]:
    """A state machine: how often each symbol's price turned by 0.307 % from its last extreme."""
    extreme, falls, turns = defaultdict[str, float](float), defaultdict[str, bool](bool), defaultdict[str, int](int)
    for trade in ParquetDataCatalog(data.catalog / "day").trade_ticks():
        symbol, price = trade.instrument_id.symbol.value, float(trade.price)
        away = price - extreme[symbol] if falls[symbol] else extreme[symbol] - price
        if extreme[symbol] == 0 or away < 0:
            extreme[symbol] = price
        elif away > 0.00307 * extreme[symbol]:
            extreme[symbol], falls[symbol], turns[symbol] = price, not falls[symbol], turns[symbol] + 1
    return {symbol: turns[symbol] for symbol in extreme}


def first_in_first_out(data: PeerData) -> dict[str, float]:
    """An object per symbol, of a class that is there: what sellers realise against the buys before them."""
    lots, letters = defaultdict[str, Lots](Lots), {AggressorSide.BUYER: "B", AggressorSide.SELLER: "A"}
    for trade in ParquetDataCatalog(data.catalog / "day").trade_ticks():
        letter = letters.get(trade.aggressor_side, "N")
        lots[trade.instrument_id.symbol.value].trade(letter, float(trade.price), int(trade.size))
    return {symbol: mine.profit for symbol, mine in lots.items()}


def strong_bars(data: PeerData) -> list[tuple[Any, ...]]:
    """Bars of half an hour of the session that close above the day's average price: symbol, start, close, average."""
    bars: list[Any] = []

    class Hours(Actor):  # type: ignore[misc]
        def on_start(self) -> None:
            for name in self.cache.instrument_ids():
                self.subscribe_bars(BarType.from_str(f"{name}-30-MINUTE-LAST-INTERNAL"))

        def on_bar(self, bar: Any) -> None:
            start = pd.Timestamp(bar.ts_event, tz="UTC") - pd.Timedelta(minutes=30)
            bars.append((bar.bar_type.instrument_id.symbol.value, start, float(bar.close)))

    catalog = ParquetDataCatalog(data.catalog / "day")
    backtest(catalog, Hours(), catalog.trade_ticks())
    average = vwap(data)
    return [(symbol, start, close, average[symbol]) for symbol, start, close in sorted(bars) if close > average[symbol]]


def pair_spread(data: PeerData) -> list[tuple[Any, ...]]:
    """A pair's spread, each ten minutes of the session: the middle of the one book above that of the other."""
    names = [instrument_id(symbol) for symbol in PAIR]
    quotes = deque(ParquetDataCatalog(data.catalog / "day").quote_ticks(list(map(str, names))))
    mids, spreads = dict[Any, float](), []
    for time in pd.date_range(OPEN, CLOSE, freq="10min"):
        while quotes and quotes[0].ts_init <= time.value:
            quote = quotes.popleft()
            if min(quote.bid_size, quote.ask_size) > 0:
                mids[quote.instrument_id] = (float(quote.bid_price) + float(quote.ask_price)) / 2
        spreads.append((time, mids[names[0]] - mids[names[1]] if len(mids) == 2 else None))
    return spreads


def index_premium(data: PeerData) -> int:
    """A fund against its constituents: how often the premium moved by more than 0.0303 since it was last noted."""
    prices, noted = dict[str, float](), [0.0]
    names = [str(instrument_id(symbol)) for symbol in (FUND, *WEIGHTS)]
    for trade in ParquetDataCatalog(data.catalog / "day").trade_ticks(names):
        prices[trade.instrument_id.symbol.value] = float(trade.price)
        if len(prices) == len(names):
            premium = prices[FUND] - sum(weight * prices[symbol] for symbol, weight in WEIGHTS.items())
            if abs(premium - noted[-1]) > 0.0303:
                noted.append(premium)
    return len(noted) - 1


def twenty_bands(data: PeerData) -> list[int]:
    """Twenty parameter sets: how many signals there are of ``band_signal``, for each width of the band."""

    def signals(band: float) -> int:
        low, high, n = dict[Any, float](), dict[Any, float](), 0
        for trade in trades:
            symbol, price = trade.instrument_id, float(trade.price)
            low[symbol], high[symbol] = min(low.get(symbol, price), price), max(high.get(symbol, price), price)
            if price > band * low[symbol] or band * price < high[symbol]:
                low[symbol], high[symbol], n = price, price, n + 1
        return n

    trades = ParquetDataCatalog(data.catalog / "day").trade_ticks()
    return [signals(1 + 0.000507 * n) for n in range(1, 21)]


def order_flow(data: PeerData) -> list[tuple[Any, ...]]:
    """By the clock: the order-flow imbalance of each half an hour. Symbol, start, imbalance."""
    last, flow = dict[str, Any](), defaultdict[tuple[str, Any], int](int)
    for quote in ParquetDataCatalog(data.catalog / "day").quote_ticks():
        symbol, start = quote.instrument_id.symbol.value, pd.Timestamp(quote.ts_init, tz="UTC").floor("30min")
        bid, ask = float(quote.bid_price) or -math.inf, float(quote.ask_price) or math.inf
        top = bid, int(quote.bid_size), ask, int(quote.ask_size)
        if last.get(symbol, top) != top:
            old_bid, old_bid_size, old_ask, old_ask_size = last[symbol]
            flow[symbol, start] += (bid >= old_bid) * top[1] - (bid <= old_bid) * old_bid_size
            flow[symbol, start] -= (ask <= old_ask) * top[3] - (ask >= old_ask) * old_ask_size
        last[symbol] = top
    return [(*key, ofi) for key, ofi in sorted(flow.items())]
