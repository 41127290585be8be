"""The same ticks as files that polars, databento and nautilus_trader read, made by a plain loop over the ticks.

The loop keeps books and finds trades by itself, so what the peers compute does not depend on how Strand does it.
"""

from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl
from job_data import DATES, JobData
from peer_dbn import write_orders, write_quotes, write_trades

import strand
from strand.feeds.formats.itch import CROSS, NON_PRINTABLE
from strand.ticks import KIND_ORDER, KIND_TRADE

#: Columns of the Parquet files; times in ns, prices in 1e-9.
TRADES = ("ts", "symbol", "price", "size", "aggressor")
QUOTES = ("ts", "symbol", "tick", "bid", "bid_size", "ask", "ask_size")
ORDERS = ("ts", "symbol", "order_id", "action", "side", "price", "size")


@dataclass(frozen=True)
class PeerData:
    """Paths of the peers' files.

    ``trades``, ``quotes``, ``orders``: Parquet of the day, by time. Quotes are best bid and ask after each change of an
    order, with the number of that tick among the symbol's. An order that is executed is cancelled (C) by so much.
    ``days``: a folder with the trades of each day. ``lobster``, ``coins``, ``dbn``: the files that Strand reads.
    ``dbn_files``: a folder with DBN of the day's trades, quotes (mbp-1, whose sequence is the tick's number) and orders
    (mbo), and of each day's trades, as ``trades-DATE.dbn``. ``catalog``: where ``nautilus_data`` puts its catalogues.
    ``out``: an empty folder.
    """

    trades: Path
    quotes: Path
    orders: Path
    days: Path
    lobster: Path
    coins: Path
    dbn: Path
    dbn_files: Path
    catalog: Path
    out: Path


@dataclass
class Market:
    """Lists of rows as in the files, which a plain loop makes of a day's ticks."""

    trades: list[tuple[Any, ...]] = field(default_factory=list)
    quotes: list[tuple[Any, ...]] = field(default_factory=list)
    orders: list[tuple[Any, ...]] = field(default_factory=list)


class _Book:
    """One symbol's orders, and its levels: sizes by price."""

    def __init__(self, symbol: str, market: Market) -> None:
        self.symbol, self.market = symbol, market
        self.resting: dict[int, list[Any]] = {}
        self.levels: dict[str, defaultdict[int, int]] = {"B": defaultdict(int), "A": defaultdict(int)}
        self.top: tuple[int | None, int, int | None, int] = (None, 0, None, 0)
        self.ticks = 0

    def handle(self, tick: Any) -> None:
        self.ticks += 1
        action = tick.action.decode()
        if tick.kind == KIND_ORDER and action == "A":
            self._add(tick, tick.order_id, tick.side.decode())
        elif tick.kind == KIND_ORDER and action in "CFM" and tick.order_id in self.resting:
            side, price, left = self.resting[tick.order_id]
            if action == "F" and not tick.flags & NON_PRINTABLE:
                paid = price if tick.price == strand.UNDEF_PRICE else tick.price
                self._trade(tick, paid, "A" if side == "B" else "B")
            self._take(tick, left if action == "M" or tick.size == 0 else tick.size)
            if action == "M":
                self._add(tick, tick.ref_id, side)
        elif tick.kind == KIND_TRADE:
            self._trade(tick, tick.price, "N" if tick.flags & CROSS else self._by_quote(tick.price))
        self._look(tick)

    def _add(self, tick: Any, order_id: int, side: str) -> None:
        self.resting[order_id] = [side, tick.price, tick.size]
        self.levels[side][tick.price] += tick.size
        self.market.orders.append((tick.ts_recv, self.symbol, order_id, "A", side, tick.price, tick.size))

    def _take(self, tick: Any, size: int) -> None:
        side, price, left = self.resting[tick.order_id]
        self.levels[side][price] -= size
        if self.levels[side][price] == 0:
            del self.levels[side][price]
        self.resting[tick.order_id][2] = left - size
        if left == size:
            del self.resting[tick.order_id]
        self.market.orders.append((tick.ts_recv, self.symbol, tick.order_id, "C", side, price, size))

    def _trade(self, tick: Any, price: int, aggressor: str) -> None:
        self.market.trades.append((tick.ts_recv, self.symbol, price, tick.size, aggressor))

    def _by_quote(self, price: int) -> str:
        """The aggressor of an execution of what was hidden."""
        bid, _, ask, _ = self.top
        if ask is not None and price >= ask:
            return "B"
        return "A" if bid is not None and price <= bid else "N"

    def _look(self, tick: Any) -> None:
        bid, ask = max(self.levels["B"], default=None), min(self.levels["A"], default=None)
        sizes = (0 if bid is None else self.levels["B"][bid], 0 if ask is None else self.levels["A"][ask])
        self.top = (bid, sizes[0], ask, sizes[1])
        if tick.kind == KIND_ORDER:
            self.market.quotes.append((tick.ts_recv, self.symbol, self.ticks, *self.top))


def read_market(path: Path) -> Market:
    """The trades, quotes and orders of an ITCH file, in their order."""
    market, books = Market(), dict[int, _Book]()
    feed = strand.feeds.open(path)
    for batch in feed.batches():
        for values in batch.tolist():
            tick = strand.Tick._make(values)
            if tick.instrument_id not in books:
                books[tick.instrument_id] = _Book(feed.symbols[tick.instrument_id], market)
            books[tick.instrument_id].handle(tick)
    return market


def make_peer_data(data: JobData, folder: Path) -> PeerData:
    """Writes all files into an empty folder."""
    for name in ("days", "dbn_files", "peers_out"):
        (folder / name).mkdir()
    made = PeerData(
        trades=folder / "trades.parquet",
        quotes=folder / "quotes.parquet",
        orders=folder / "orders.parquet",
        days=folder / "days",
        lobster=data.lobster,
        coins=data.coins,
        dbn=data.dbn,
        dbn_files=folder / "dbn_files",
        catalog=folder / "catalog",
        out=folder / "peers_out",
    )
    markets = {date: read_market(path) for date, path in zip(DATES, sorted(data.days.iterdir()), strict=True)}
    day = markets[DATES[0]]
    _frame(day.trades, TRADES).write_parquet(made.trades)
    _frame(day.quotes, QUOTES).write_parquet(made.quotes)
    _frame(day.orders, ORDERS).write_parquet(made.orders)
    for date, market in markets.items():
        _frame(market.trades, TRADES).write_parquet(made.days / f"{date}.parquet")
        write_trades(market.trades, made.dbn_files / f"trades-{date}.dbn", date)
    write_trades(day.trades, made.dbn_files / "trades.dbn", DATES[0])
    write_quotes(day.quotes, made.dbn_files / "mbp-1.dbn", DATES[0])
    write_orders(day.orders, made.dbn_files / "mbo.dbn", DATES[0])
    return made


def _frame(rows: list[tuple[Any, ...]], columns: tuple[str, ...]) -> pl.DataFrame:
    """Rows as vendors give them: times with a zone, prices in currency."""
    frame = pl.DataFrame(rows, columns, orient="row", infer_schema_length=None)
    prices = [pl.col(name) / strand.PRICE_SCALE for name in ("price", "bid", "ask") if name in columns]
    return frame.with_columns(pl.from_epoch("ts", time_unit="ns").dt.replace_time_zone("UTC"), *prices)
