"""DBN files of rows of trades, quotes and orders, written by databento_dbn."""

import datetime as dt
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import databento_dbn

Rows = list[tuple[Any, ...]]

#: Its stubs say that members of its enumerations are texts.
dbn: Any = databento_dbn


def write_trades(trades: Rows, path: Path, date: str) -> None:
    """``trades``: (ts, symbol, price, size, aggressor)."""
    ids = _ids(trades)
    records = (
        dbn.TradeMsg(1, ids[symbol], ts, price, size, dbn.Action.TRADE, dbn.Side.from_str(aggressor), 0, ts)
        for ts, symbol, price, size, aggressor in trades
    )
    _write(path, dbn.Schema.TRADES, date, ids, records)


def write_quotes(quotes: Rows, path: Path, date: str) -> None:
    """``quotes``: (ts, symbol, tick, bid, bid_size, ask, ask_size); a side that is empty has no price."""
    ids = _ids(quotes)
    records = (_quote(ids[row[1]], row) for row in quotes)
    _write(path, dbn.Schema.MBP_1, date, ids, records)


def _quote(instrument: int, row: tuple[Any, ...]) -> Any:
    ts, _, tick, bid, bid_size, ask, ask_size = row
    level = dbn.BidAskPair(
        bid_px=dbn.UNDEF_PRICE if bid is None else bid,
        ask_px=dbn.UNDEF_PRICE if ask is None else ask,
        bid_sz=bid_size,
        ask_sz=ask_size,
    )
    return dbn.MBP1Msg(
        1, instrument, ts, dbn.UNDEF_PRICE, 0, dbn.Action.MODIFY, dbn.Side.NONE, 0, ts, sequence=tick, levels=level
    )


def write_orders(orders: Rows, path: Path, date: str) -> None:
    """``orders``: (ts, symbol, order_id, action, side, price, size)."""
    ids = _ids(orders)
    records = (
        dbn.MBOMsg(1, ids[symbol], ts, order_id, price, size, dbn.Action.from_str(action), dbn.Side.from_str(side), ts)
        for ts, symbol, order_id, action, side, price, size in orders
    )
    _write(path, dbn.Schema.MBO, date, ids, records)


def _ids(rows: Rows) -> dict[str, int]:
    return {symbol: number for number, symbol in enumerate(sorted({row[1] for row in rows}), 1)}


def _write(path: Path, schema: Any, date: str, ids: dict[str, int], records: Iterable[Any]) -> None:
    day = dt.date.fromisoformat(date)
    midnight = int(dt.datetime.combine(day, dt.time(), dt.UTC).timestamp()) * 1_000_000_000
    mappings = [
        SimpleNamespace(
            raw_symbol=symbol,
            intervals=[SimpleNamespace(start_date=day, end_date=day + dt.timedelta(1), symbol=str(number))],
        )
        for symbol, number in ids.items()
    ]
    metadata = dbn.Metadata(
        dataset="XNAS.ITCH",
        start=midnight,
        end=midnight + 86_400_000_000_000,
        stype_in=dbn.SType.RAW_SYMBOL,
        stype_out=dbn.SType.INSTRUMENT_ID,
        schema=schema,
        symbols=list(ids),
        partial=[],
        not_found=[],
        mappings=mappings,
    )
    with path.open("wb") as file:
        file.write(bytes(metadata.encode()))
        for record in records:
            file.write(bytes(record))
