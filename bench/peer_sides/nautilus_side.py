"""nautilus_trader: a BacktestEngine with its data in memory, sorted once, and an actor that is handed it.

For the books the actor subscribes to the deltas, so that the engine keeps the book it answers from; for the averages it
adds up the trades it is given.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from nautilus_trader.backtest.config import BacktestEngineConfig
from nautilus_trader.backtest.engine import BacktestEngine
from nautilus_trader.common.actor import Actor
from nautilus_trader.config import LoggingConfig
from nautilus_trader.model.currencies import USD
from nautilus_trader.model.data import OrderBookDelta, TradeTick
from nautilus_trader.model.enums import AccountType, AggressorSide, BookAction, BookType, OmsType, OrderSide
from nautilus_trader.model.identifiers import InstrumentId, Symbol, TradeId, Venue
from nautilus_trader.model.instruments import Equity
from nautilus_trader.model.objects import FIXED_PRECISION, Money, Price, Quantity
from protocol import TOP, VWAP, Task, main

LAST_OF_EVENT = 128  # RecordFlag.F_LAST
PRICE_RAW, SIZE_RAW = 10 ** (FIXED_PRECISION - 4), 10**FIXED_PRECISION
ACTIONS = {b"A": BookAction.ADD, b"U": BookAction.UPDATE, b"D": BookAction.DELETE}
SIDES = {b"B": OrderSide.BUY, b"S": OrderSide.SELL}


class Averages(Actor):  # type: ignore[misc]
    def __init__(self, ids: dict[int, Any]) -> None:
        super().__init__()
        self.ids = ids
        self.sums = {name: [0.0, 0.0] for name in ids.values()}

    def on_start(self) -> None:
        for name in self.ids.values():
            self.subscribe_trade_ticks(name)

    def on_trade_tick(self, tick: Any) -> None:
        sums = self.sums[tick.instrument_id]
        size = tick.size.as_double()
        sums[0] += size
        sums[1] += tick.price.as_double() * size

    def results(self) -> Any:
        rows = [(symbol, *self.sums[name]) for symbol, name in self.ids.items()]
        return np.array([(symbol, round(volume), notional * 1e4) for symbol, volume, notional in rows], VWAP)


class Tops(Actor):  # type: ignore[misc]
    def __init__(self, ids: dict[int, Any]) -> None:
        super().__init__()
        self.ids = ids

    def on_start(self) -> None:
        for name in self.ids.values():
            self.subscribe_order_book_deltas(name, book_type=BookType.L3_MBO)

    def results(self) -> Any:
        out = np.zeros(len(self.ids), TOP)
        for row, (symbol, name) in zip(out, self.ids.items(), strict=True):
            book = self.cache.order_book(name)
            row["symbol"] = symbol
            for side, levels in (("bid", book.bids()), ("ask", book.asks())):
                if levels:
                    row[f"{side}_price"] = round(levels[0].price.as_double() * 1e4)
                    row[f"{side}_size"] = levels[0].size()
        return out


def equity(name: Any) -> Any:
    return Equity(
        instrument_id=name,
        raw_symbol=name.symbol,
        currency=USD,
        price_precision=4,
        price_increment=Price(0.0001, 4),
        lot_size=Quantity.from_int(1),
        ts_event=0,
        ts_init=0,
    )


def trades(events: Any, ids: dict[int, Any]) -> list[Any]:
    columns = (events[name].tolist() for name in ("symbol", "price", "size", "ts"))
    make, buyer = TradeTick.from_raw, AggressorSide.BUYER
    return [
        make(ids[symbol], price * PRICE_RAW, 4, size * SIZE_RAW, 0, buyer, TradeId(str(i)), ts, ts)
        for i, (symbol, price, size, ts) in enumerate(zip(*columns, strict=True))
    ]


def deltas(events: Any, ids: dict[int, Any]) -> list[Any]:
    columns = (events[name].tolist() for name in ("symbol", "op", "side", "price", "size", "order_id", "ts"))
    return [
        OrderBookDelta.from_raw(
            instrument_id=ids[symbol],
            action=ACTIONS[op],
            side=SIDES[side],
            price_raw=price * PRICE_RAW,
            price_prec=4,
            size_raw=size * SIZE_RAW,
            size_prec=0,
            order_id=order,
            flags=LAST_OF_EVENT,
            sequence=0,
            ts_event=ts,
            ts_init=ts,
        )
        for symbol, op, side, price, size, order, ts in zip(*columns, strict=True)
    ]


def load(task: Task) -> Callable[[], Callable[[], Any]]:
    config = BacktestEngineConfig(logging=LoggingConfig(bypass_logging=True), run_analysis=False)
    engine = BacktestEngine(config=config)
    venue = Venue("XNAS")
    book = task.job == "book"
    engine.add_venue(
        venue=venue,
        oms_type=OmsType.NETTING,
        account_type=AccountType.CASH,
        base_currency=USD,
        starting_balances=[Money(1_000_000, USD)],
        book_type=BookType.L3_MBO if book else BookType.L1_MBP,
    )
    events = task.events()
    ids = {symbol: InstrumentId(Symbol(f"S{symbol}"), venue) for symbol in np.unique(events["symbol"]).tolist()}
    for name in ids.values():
        engine.add_instrument(equity(name))
    engine.add_data(deltas(events, ids) if book else trades(events, ids))
    actor = (Tops if book else Averages)(ids)
    engine.add_actor(actor)

    def run() -> Callable[[], Any]:
        engine.run()
        return actor.results

    return run


if __name__ == "__main__":
    main(load)
