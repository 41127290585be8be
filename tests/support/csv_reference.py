"""Ticks of every CSV profile by the csv module, Decimal and datetime, a line at a time.

Nothing here knows of the profiles' TOML: what each column means is written down a second time.
"""

from __future__ import annotations

import csv
import datetime as dt
import io
import itertools
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

NONE = (1 << 63) - 1
#: The flag of a message's last tick.
LAST = 128
Row = dict[str, str]
Tick = dict[str, object]


@dataclass(frozen=True)
class Kind:
    """A profile's made-up file: its name, its columns' titles, how a line is made and what tick it is. Titles and lines
    are as in the file. ``symbol``: where all lines have the same, else None. ``options``: what the reader needs.
    ``keeps``: ``tick`` makes the function of a line, which keeps what one file said so far. ``ends``: see with_ends."""

    file: str
    titles: str
    line: Callable[[random.Random, int], str]
    tick: Callable[..., Any]
    keeps: bool = False
    ends: bool = False
    header: bool = True
    delimiter: str = ","
    encoding: str = "utf-8"
    symbol: str | None = None
    above: str = ""
    footer: str = ""
    trailing: bool = False
    options: Mapping[str, str] = field(default_factory=dict)
    #: Of lines without delimiters: the characters of each column.
    widths: tuple[int, ...] = ()

    @property
    def columns(self) -> list[str]:
        return self.titles.split(self.delimiter)


def text_of(kind: Kind, lines: list[list[str]], ends: str = "\n") -> bytes:
    rows = [kind.columns, *lines] if kind.header else lines
    tail = kind.delimiter if kind.trailing else ""
    between = "" if kind.widths else kind.delimiter
    lines_of = ends.join(between.join(row) + tail for row in rows)
    return (kind.above + lines_of + ends + kind.footer).encode(kind.encoding)


def reference(kind: Kind, data: bytes) -> list[Tick]:
    """The ticks of a file, as dicts, ``symbol`` among them."""
    ticks, tick_of = [], kind.tick() if kind.keeps else kind.tick
    text = data.decode(kind.encoding).removeprefix(kind.above).removesuffix(kind.footer)
    rows: Iterator[list[str]] = csv.reader(io.StringIO(text, newline=""), delimiter=kind.delimiter)
    if kind.widths:
        rows = (_cells_of(line, kind.widths) for line in text.splitlines())
    if kind.header:
        next(rows)
    for number, values in enumerate(filter(None, rows), 1):
        made = tick_of(dict(zip(kind.columns, values, strict=False)))
        for own in made if isinstance(made, list) else [made]:
            tick: Tick = {"sequence": number, "order_id": 0, "ref_id": 0, "publisher_id": 0, "flags": 0, "depth": 0}
            tick |= {"symbol": kind.symbol, "price": NONE, "size": 0, "side": "N", "action": "N"}
            tick |= own
            tick.setdefault("ts_recv", tick.get("ts_event"))
            tick.setdefault("ts_event", tick["ts_recv"])
            ticks.append(tick)
    return with_ends(ticks) if kind.ends else ticks


def _cells_of(line: str, widths: Sequence[int]) -> list[str]:
    cells = []
    for width in widths:
        cells.append(line[:width].strip())
        line = line[width:]
    return cells


def with_ends(ticks: list[Tick]) -> list[Tick]:
    """The last row of each symbol among rows in a row of one receive time ends a message."""
    for _, run in itertools.groupby(ticks, key=lambda tick: tick["ts_recv"]):
        for last in {tick["symbol"]: tick for tick in run}.values():
            last["flags"] = int(last["flags"]) | LAST
    return ticks


def times(text: str, by: int) -> int:
    value = Decimal(text) * by
    assert value == int(value), text
    return int(value)


def price(text: str, worth: str = "1") -> int:
    return times(text, 1_000_000_000) if worth == "1" else times(str(Decimal(text) * Decimal(worth)), 1_000_000_000)


def local(date: dt.date, of_day_ns: int, zone: str) -> int:
    midnight = dt.datetime.combine(date, dt.time()) + dt.timedelta(seconds=of_day_ns // 10**9)
    return int(midnight.replace(tzinfo=ZoneInfo(zone)).timestamp()) * 10**9 + of_day_ns % 10**9


def clock_ns(text: str, digits: int) -> int:
    if ":" in text:
        hours, minutes, seconds = text.split(":")
        return (int(hours) * 3600 + int(minutes) * 60) * 10**9 + times(seconds, 10**9)
    text = text.zfill(6 + digits)
    return (int(text[:2]) * 3600 + int(text[2:4]) * 60 + int(text[4:6])) * 10**9 + int(text[6:] or 0) * 10 ** (
        9 - digits
    )


def hashed(text: str) -> int:
    if text == "":
        return 0
    if text.isdigit() and int(text) < 1 << 64:
        return int(text)
    number = 0xCBF29CE484222325
    for byte in text.encode():
        number = (number ^ byte) * 0x100000001B3 % (1 << 64)
    return number | 1 << 63


def _tardis(row: Row) -> Tick:
    return {
        "symbol": row["symbol"],
        "ts_event": int(row["timestamp"]) * 1000,
        "ts_recv": int(row["local_timestamp"]) * 1000,
    }


def tardis_trade(row: Row) -> Tick:
    side = {"buy": "B", "sell": "A", "unknown": "N"}[row["side"]]
    own = {"ref_id": hashed(row["id"]), "side": side, "price": price(row["price"]), "action": "T", "kind": 2}
    return _tardis(row) | own | {"size": times(row["amount"], 10**8)}


def tardis_book(row: Row) -> Tick:
    return _tardis(row) | {
        "size": times(row["amount"], 10**8),
        "flags": 32 if row["is_snapshot"] == "true" else 0,
        "side": {"bid": "B", "ask": "A"}[row["side"]],
        "price": price(row["price"]),
        "action": "M",
        "kind": 3,
    }


def _both_sides(bid: int, bid_size: int, ask: int, ask_size: int) -> Tick:
    return {"side": "N", "price": bid, "size": bid_size, "order_id": ask, "ref_id": ask_size}


def tardis_quote(row: Row) -> Tick:
    names = ("bid_price", "bid_amount", "ask_price", "ask_amount")
    return _tardis(row) | _quote_of(row, names, 10**8, zero_is_none=False)


def _binance(row: Row, ident: str, size: str, time: str) -> Tick:
    by = 10**6 if len(row[time]) == 13 else 1000
    side = "A" if row["is_buyer_maker"].lower() == "true" else "B"
    tick = {"ts_event": int(row[time]) * by, "ref_id": int(row[ident]), "price": price(row["price"])}
    return tick | {"size": times(row[size], 10**8), "side": side, "action": "T", "kind": 2}


def binance_trade(row: Row) -> Tick:
    return _binance(row, "id", "qty", "time")


def binance_coin_trade(row: Row) -> Tick:
    return _binance(row, "id", "base_qty", "time")


def binance_agg(row: Row) -> Tick:
    tick = _binance(row, "agg_trade_id", "quantity", "transact_time")
    return tick | {"sequence": int(row["first_trade_id"])}


def binance_quote(row: Row) -> Tick:
    names = ("best_bid_price", "best_bid_qty", "best_ask_price", "best_ask_qty")
    return {"ts_event": int(row["transaction_time"]) * 10**6} | _quote_of(row, names, 10**8)


def bare_quote(row: Row) -> Tick:
    """Of a quote without sizes; the time depends on the format."""
    return {"kind": 3} | _both_sides(price(row["bid"]), 0, price(row["ask"]), 0)


def histdata(row: Row) -> Tick:
    date = dt.datetime.strptime(row["time"][:8], "%Y%m%d").date()
    return {"ts_event": local(date, clock_ns(row["time"][9:], 3), "UTC") + 5 * 3600 * 10**9} | bare_quote(row)


def truefx(row: Row) -> Tick:
    date = dt.datetime.strptime(row["time"][:8], "%Y%m%d").date()
    moment = local(date, clock_ns(row["time"][9:], 3), "UTC")
    return {"symbol": row["pair"], "ts_event": moment} | bare_quote(row)


def lean_fx(row: Row) -> Tick:
    return {"ts_event": local(dt.date(2014, 5, 7), int(row["time"]) * 10**6, "UTC")} | bare_quote(row)


def _lean_crypto(row: Row) -> Tick:
    return {"ts_event": local(dt.date(2016, 10, 7), int(row["time"]) * 10**6, "UTC")}


def lean_crypto_trade(row: Row) -> Tick:
    return _lean_crypto(row) | {
        "price": price(row["price"]),
        "size": times(row["quantity"], 10**8),
        "action": "T",
        "kind": 2,
    }


def lean_crypto_quote(row: Row) -> Tick:
    return _lean_crypto(row) | _quote_of(row, ("bid", "bid_size", "ask", "ask_size"), 10**8)


def lobster(row: Row) -> Tick:
    kind = int(row["type"])
    return {
        "ts_event": local(dt.date(2012, 6, 21), times(row["time"], 10**9), "America/New_York"),
        "order_id": max(int(row["order"]), 0),
        "price": price(row["price"], "0.0001"),
        "size": int(row["size"]),
        "flags": 4 if kind == 6 else 0,
        "side": "B" if row["direction"] == "1" else "A",
        "action": "?ACCFTTN"[kind],
        "kind": [0, 1, 1, 1, 1, 2, 2, 4][kind],
    }


DAY = dt.date(2023, 12, 5)
SHANGHAI = "Asia/Shanghai"


def _later(buyer: int, seller: int) -> Tick:
    side = "B" if buyer > seller else "A" if seller > buyer else "N"
    return {"order_id": max(buyer, seller), "ref_id": min(buyer, seller), "side": side}


def _or_none(text: str, worth: str = "1") -> int:
    return NONE if Decimal(text) == 0 else price(text, worth)


def szse_order(row: Row) -> Tick:
    symbol, time, ident, cost, size, side, form = (row[name] for name in row if name not in ("ChannelNo", "频道代码"))
    return {
        "symbol": symbol,
        "ts_event": local(DAY, clock_ns(time, 3), SHANGHAI),
        "order_id": int(ident),
        "price": _or_none(cost),
        "size": int(size),
        "side": {"1": "B", "2": "A", "49": "B", "50": "A"}[side],
        "action": "A",
        "kind": 1,
        "flags": {"1": 16, "2": 32, "U": 48, "49": 16, "50": 32, "85": 48}[form],
    }


def szse_trade(row: Row) -> Tick:
    cancel = row["ExecType"] in ("4", "52")
    return _later(int(row["BidApplSeqNum"]), int(row["OfferApplSeqNum"])) | {
        "symbol": row["SecurityID"],
        "sequence": int(row["ApplSeqNum"]),
        "price": _or_none(row["LastPx"]),
        "ts_event": local(
            dt.datetime.strptime(row["TransactTime"][:8], "%Y%m%d").date(),
            clock_ns(row["TransactTime"][8:], 3),
            SHANGHAI,
        ),
        "size": int(row["LastQty"]),
        "action": "C" if cancel else "T",
        "kind": 1 if cancel else 2,
    }


def sse_tick(row: Row) -> Tick:
    tick = _later(int(row["BuyOrderNO"]), int(row["SellOrderNO"])) | {
        "symbol": row["SecurityID"],
        "sequence": int(row["BizIndex"]),
        "price": _or_none(row["Price"]),
        "ts_event": local(DAY, clock_ns(row["TickTime"], 3), SHANGHAI),
        "size": times(row["Qty"], 1),
    }
    tick["side"] = {"B": "B", "S": "A"}.get(row["TickBSFlag"], "N")
    return tick | {
        "action": {"S": "N", "D": "C"}.get(row["Type"], row["Type"]),
        "kind": {"T": 2, "S": 4}.get(row["Type"], 1),
    }


def sse_trade(row: Row) -> Tick:
    side = {"B": "B", "S": "A"}.get(row["TradeBSFlag"], "N")
    return _later(int(row["TradeBuyNo"]), int(row["TradeSellNo"])) | {
        "symbol": row["SecurityID"],
        "sequence": int(row["TradeIndex"]),
        "price": price(row["TradPrice"]),
        "side": side,
        "ts_event": local(DAY, clock_ns(row["TradTime"], 3), SHANGHAI),
        "size": times(row["TradVolume"], 1),
        "action": "T",
        "kind": 2,
    }


def sse_order(row: Row) -> Tick:
    return {
        "symbol": row["SecurityID"],
        "sequence": int(row["OrderIndex"]),
        "order_id": int(row["OrderNO"]),
        "kind": 1,
        "ts_event": local(DAY, clock_ns(row["OrderTime"], 3), SHANGHAI),
        "price": _or_none(row["OrderPrice"]),
        "size": times(row["Balance"], 1),
        "action": {"A": "A", "D": "C"}[row["OrderType"]],
        "side": {"B": "B", "S": "A"}[row["OrderBSFlag"]],
    }


def _wind(row: Row) -> Tick:
    day = dt.datetime.strptime(row["自然日"], "%Y%m%d").date()
    return {"symbol": row["万得代码"], "ts_event": local(day, clock_ns(row["时间"], 3), SHANGHAI)}


def wind_order(row: Row) -> Tick:
    kind = row["委托类型"]
    return _wind(row) | {
        "sequence": int(row["委托编号"]),
        "order_id": int(row["交易所委托号"]),
        "price": _or_none(row["委托价格"], "0.0001"),
        "size": int(row["委托数量"]),
        "action": "C" if kind == "D" else "A",
        "kind": 1,
        "flags": {"1": 16, "0": 32, "2": 32, "U": 48}.get(kind, 0),
        "side": {"B": "B", "S": "A"}.get(row["委托代码"], "N"),
    }


def wind_trade(row: Row) -> Tick:
    cancel = row["成交代码"] == "C"
    return (
        _wind(row)
        | _later(int(row["叫买序号"]), int(row["叫卖序号"]))
        | {
            "sequence": int(row["成交编号"]),
            "price": _or_none(row["成交价格"], "0.0001"),
            "size": int(row["成交数量"]),
            "action": "C" if cancel else "T",
            "kind": 1 if cancel else 2,
        }
    )


def _taq(row: Row) -> Tick:
    day, zone = dt.date(2016, 10, 24), "America/New_York"
    recv = local(day, clock_ns(row["Time"], 9), zone)
    event = local(day, clock_ns(row["Participant Timestamp"], 9), zone) if row["Participant Timestamp"] else recv
    return {"symbol": row["Symbol"], "ts_recv": recv, "ts_event": event, "publisher_id": ord(row["Exchange"])}


def taq_trade(row: Row) -> Tick:
    return _taq(row) | {
        "price": price(row["Trade Price"]),
        "size": int(row["Trade Volume"]),
        "sequence": int(row["Sequence Number"]),
        "ref_id": hashed(row["Trade Id"]),
        "flags": {"00": 0, "01": 16, "08": 129}[row["Trade Correction Indicator"]],
        "action": "T",
        "kind": 2,
    }


def taq_quote(row: Row) -> Tick:
    row = {name.replace("_", " "): value for name, value in row.items()}
    sides = _both_sides(
        _or_none(row["Bid Price"]), int(row["Bid Size"]), _or_none(row["Offer Price"]), int(row["Offer Size"])
    )
    return _taq(row) | sides | {"sequence": int(row["Sequence Number"]), "kind": 3}


def _databento(row: Row) -> Tick:
    """Fields that all of Databento's rows have. A time that is empty, or all ones, is the other time."""
    stamps = [0 if row[name] in ("", str((1 << 64) - 1)) else int(row[name]) for name in ("ts_event", "ts_recv")]
    return {
        "ts_event": stamps[0] or stamps[1],
        "ts_recv": stamps[1] or stamps[0],
        "publisher_id": int(row["publisher_id"]),
        "flags": int(row["flags"]),
        "symbol": row["symbol"],
    } | ({"sequence": int(row["sequence"])} if "sequence" in row else {})


def _databento_price(text: str) -> int:
    """A decimal with its point, or a whole number of 1e-9; an empty one is none."""
    return NONE if text == "" else price(text) if "." in text else int(text)


def databento_trade(row: Row) -> Tick:
    own = {"action": row["action"], "side": row["side"], "size": int(row["size"]), "depth": int(row.get("depth", "0"))}
    return _databento(row) | own | {"price": _databento_price(row["price"]), "kind": 2}


def databento_order(row: Row) -> Tick:
    kind = {"T": 2, "N": 0}.get(row["action"], 1)
    return databento_trade(row) | {"order_id": int(row["order_id"]), "kind": kind}


def _databento_level(row: Row, level: str) -> Tick:
    bid, ask = (_databento_price(row[f"{side}_px_{level}"]) for side in ("bid", "ask"))
    sides = _both_sides(bid, int(row[f"bid_sz_{level}"]), ask, int(row[f"ask_sz_{level}"]))
    return sides | {"depth": int(level), "kind": 3, "order_id": ask % (1 << 64)}


def databento_book(row: Row) -> list[Tick]:
    levels = [_databento_level(row, f"{level:02}") for level in range(3)]
    book = [level for level in levels if level["depth"] == 0 or (level["price"], level["order_id"]) != (NONE, NONE)]
    ticks = [_databento(row) | {"action": row["action"]} | level for level in book]
    for tick in ticks[:-1]:
        tick["flags"] = int(row["flags"]) & ~LAST
    return [*ticks, databento_trade(row)] if row["action"] == "T" else ticks


def databento_sample(row: Row) -> Tick:
    return _databento(row) | _databento_level(row, "00")


def databento_bar(row: Row) -> list[Tick]:
    start = int(row["ts_event"])
    length = {"32": 1, "33": 60, "34": 3600, "35": 86400, "36": 86400}[row["rtype"]]
    bar = {"ts_event": start, "ts_recv": start + length * 10**9, "symbol": row["symbol"], "action": "T", "kind": 2}
    bar["publisher_id"] = int(row["publisher_id"])
    corners = [bar | {"depth": at, "price": int(row[name])} for at, name in enumerate(("open", "high", "low", "close"))]
    return [*corners[:3], corners[3] | {"size": int(row["volume"])}]


def _bar(row: Row, start: int, minutes: int, *, worth: str = "1", sizes: int = 1, step: int = 60) -> list[Tick]:
    """Four trades at the bar's end; the close has the volume."""
    bar = {"ts_event": start, "ts_recv": start + minutes * step * 10**9, "action": "T", "kind": 2}
    corners = [
        bar | {"depth": at, "price": price(row[name], worth)}
        for at, name in enumerate(("open", "high", "low", "close"))
    ]
    return [*corners[:3], corners[3] | {"size": times(row["volume"], sizes)}]


def binance_bar(row: Row) -> list[Tick]:
    time = int(row["open_time"])
    return _bar(row, time * (10**6 if time < 10**14 else 10**3), 5, sizes=10**8)


def kraken_bar(row: Row) -> list[Tick]:
    return _bar(row, int(row["time"]) * 10**9, 15, sizes=10**8)


def lean_minute(row: Row) -> list[Tick]:
    start = local(dt.date(2013, 10, 7), int(row["time"]) * 10**6, "America/New_York")
    return _bar(row, start, 1, worth="0.0001")


def lean_hour(row: Row) -> list[Tick]:
    return _bar(row, _lean_stamp(row, "America/New_York"), 60, worth="0.0001")


def lean_crypto_minute(row: Row) -> list[Tick]:
    return _bar(row, _lean_crypto(row)["ts_event"], 1, sizes=10**8)


def lean_berlin_day(row: Row) -> list[Tick]:
    start = _lean_stamp(row, "Europe/Berlin")
    end = local(dt.datetime.strptime(row["at"][:8], "%Y%m%d").date() + dt.timedelta(1), 0, "Europe/Berlin")
    return [tick | {"ts_recv": end} for tick in _bar(row, start, 0, sizes=10**8)]


def lean_option_quotes(row: Row) -> Tick:
    start = local(dt.date(2014, 6, 6), int(row["time"]) * 10**6, "America/New_York")
    return _lean_quote_bar(row, start, 60, "0.0001", 1)


def lean_fxcm_hours(row: Row) -> Tick:
    return _lean_quote_bar(row, _lean_stamp(row, "UTC") + 5 * 3600 * 10**9, 3600, "1", 10**8)


def _lean_stamp(row: Row, zone: str) -> int:
    stamp = dt.datetime.strptime(row["at"], "%Y%m%d %H:%M")
    return local(stamp.date(), (stamp.hour * 60 + stamp.minute) * 60 * 10**9, zone)


def _lean_quote_bar(row: Row, start: int, seconds: int, worth: str, sizes: int) -> Tick:
    prices = [_or_none(row[f"{side}_close"] or "0", worth) for side in ("bid", "ask")]
    bid, ask = (times(row[f"{side}_size"] or "0", sizes) for side in ("bid", "ask"))
    of_time = {"ts_event": start, "ts_recv": start + seconds * 10**9, "kind": 3}
    return of_time | _both_sides(prices[0], bid, prices[1], ask)


def tardis_snapshot(row: Row) -> list[Tick]:
    ticks = []
    for level in range(5):
        names = [f"{side}s[{level}].{what}" for side in ("bid", "ask") for what in ("price", "amount")]
        quote = _quote_of(row, names, 10**8, zero_is_none=False)
        if level == 0 or (quote["price"], quote["order_id"]) != (NONE, NONE):
            ticks.append(_tardis(row) | quote | {"depth": level})
    ticks[-1]["flags"] = LAST
    return ticks


def tardis_ticker(row: Row) -> list[Tick]:
    names = ("last_price", "index_price", "mark_price", "open_interest", "funding_rate", "predicted_funding_rate")
    ticks = []
    for number, name in enumerate(names, 1):
        if row[name]:
            own = {"size": times(row[name], 10**8)} if name == "open_interest" else {"price": price(row[name])}
            ticks.append(_tardis(row) | own | {"kind": 4, "flags": 16, "ref_id": number})
    return ticks


def _quote_of(row: Row, names: Sequence[str], size: int = 1, *, zero_is_none: bool = True) -> Tick:
    """Of bid, its size, ask, its size: an empty price is none, and mostly one of 0."""
    bid, bid_size, ask, ask_size = (row[name] for name in names)
    prices = [NONE if text == "" or (zero_is_none and Decimal(text) == 0) else price(text) for text in (bid, ask)]
    sizes = [0 if text == "" else times(text, size) for text in (bid_size, ask_size)]
    return _both_sides(prices[0], sizes[0], prices[1], sizes[1]) | {"kind": 3}


def _polygon(row: Row) -> Tick:
    recv = int(row["sip_timestamp"])
    event = int(row["participant_timestamp"] or recv)
    symbol = row["Ticker"] if "Ticker" in row else row["ticker"]
    return {"ts_recv": recv, "ts_event": event, "sequence": int(row["sequence_number"]), "symbol": symbol}


def _correction(text: str) -> int:
    number = int(text or "0")
    return number * 16 + (1 if number > 1 else 0)


def polygon_trade(row: Row) -> Tick:
    own = {"price": price(row["price"]), "size": int(row["size"]), "ref_id": hashed(row["id"]), "action": "T"}
    own["flags"] = _correction(row["correction"])
    return _polygon(row) | own | {"publisher_id": int(row["exchange"]), "kind": 2}


def polygon_quote(row: Row) -> Tick:
    return _polygon(row) | _quote_of(row, ("bid_price", "bid_size", "ask_price", "ask_size"))


def _wrds(row: Row, sequence: str) -> Tick:
    months = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"]
    text = row["DATE"]
    month = f"{months.index(text[2:5]) + 1:02}" if text[2:5] in months else ""
    digits = f"{text[5:]}{month}{text[:2]}" if month else text.replace("-", "")
    date = dt.datetime.strptime(digits, "%Y%m%d").date()
    recv = local(date, clock_ns(row["TIME_M"], 9), "America/New_York") + int(row.get("TIME_M_NANO") or 0)
    tick: Tick = {"ts_recv": recv, "publisher_id": ord(row["EX"]), "sequence": int(row[sequence])}
    tick["ts_event"] = recv
    if row.get("PART_TIME"):
        tick["ts_event"] = local(date, clock_ns(row["PART_TIME"], 9), "America/New_York")
    return tick | {"symbol": row["SYM_ROOT"] + (f" {row['SYM_SUFFIX']}" if row["SYM_SUFFIX"] else "")}


def wrds_trade(row: Row) -> Tick:
    own = {"price": price(row["PRICE"]), "size": int(row["SIZE"]), "ref_id": hashed(row["TR_ID"]), "action": "T"}
    return _wrds(row, "TR_SEQNUM") | own | {"flags": _correction(row["TR_CORR"]), "kind": 2}


def wrds_quote(row: Row) -> Tick:
    sides = _quote_of(row, ("BID", "BIDSIZ", "ASK", "ASKSIZ"))
    return _wrds(row, "QU_SEQNUM") | sides | {"flags": 1 if row["QU_CANCEL"] == "B" else 0}


def _lean(row: Row) -> Tick:
    of_day = int(row["time"]) * 10**6
    return {"ts_event": local(dt.date(2013, 10, 9), of_day, "America/New_York"), "flags": int(row["suspicious"])}


def _lean_future(row: Row) -> Tick:
    return {"ts_event": local(dt.date(2013, 10, 7), int(row["time"]) * 10**6, "UTC"), "flags": int(row["suspicious"])}


def lean_future_trade(row: Row) -> Tick:
    return _lean_future(row) | {"price": price(row["price"]), "size": int(row["size"]), "action": "T", "kind": 2}


def lean_future_quote(row: Row) -> Tick:
    return _lean_future(row) | _one_sided(_quote_of(row, ("bid", "bid_size", "ask", "ask_size")))


def _one_sided(quote: Tick) -> Tick:
    """The quote as one of a single side, where the other one is empty."""
    if (quote["price"] == NONE) == (quote["order_id"] == NONE):
        return quote
    if quote["order_id"] == NONE:
        return quote | {"side": "B", "order_id": 0, "ref_id": 0}
    return quote | {"side": "A", "price": quote["order_id"], "size": quote["ref_id"], "order_id": 0, "ref_id": 0}


def lean_trade(row: Row) -> Tick:
    said = {"price": price(row["price"], "0.0001"), "size": int(row["size"]), "action": "T", "kind": 2}
    return _lean_equity(row) | said | {"order_id": int(row["condition"] or "0", 16)}


def lean_quote(row: Row) -> Tick:
    bid, ask = (_or_none(row[side], "0.0001") for side in ("bid", "ask"))
    sides = _both_sides(bid, int(row["bid_size"]), ask, int(row["ask_size"]))
    return _lean_equity(row) | _one_sided(sides) | {"kind": 3}


def _lean_equity(row: Row) -> Tick:
    return _lean(row) | {"publisher_id": ord(row["exchange"]) if row["exchange"] else 0}


# ---- exports of platforms and vendors


def at(date: str, clock: str, zone: str, pattern: str = "%Y%m%d", digits: int = 0) -> int:
    return local(dt.datetime.strptime(date, pattern).date(), clock_ns(clock, digits), zone)


def mt5(zone: str) -> Callable[[Row], list[Tick]]:
    def ticks(row: Row) -> list[Tick]:
        when = {"ts_event": at(row["<DATE>"], row["<TIME>"], zone, "%Y.%m.%d")}
        bid, ask, last = (_or_none(row[name] or "0") for name in ("<BID>", "<ASK>", "<LAST>"))
        flags, made = int(row["<FLAGS>"]), []
        if NONE not in (bid, ask):
            made.append(when | {"kind": 3} | _both_sides(bid, 0, ask, 0))
        elif bid != NONE or ask != NONE:
            side = {"side": "B", "price": bid} if ask == NONE else {"side": "A", "price": ask}
            made.append(when | {"kind": 3} | side)
        if last != NONE:
            side = {"side": "B" if flags & 32 else "A" if flags & 64 else "N"}
            size = times(row["<VOLUME>"] or "0", 10**8)
            made.append(when | side | {"price": last, "size": size, "action": "T", "kind": 2})
        return made

    return ticks


def _millions(row: Row, when: int) -> Tick:
    bid, ask = times(row["BidVolume"], 10**6), times(row["AskVolume"], 10**6)
    return {"ts_event": when, "kind": 3} | _both_sides(price(row["Bid"]), bid, price(row["Ask"]), ask)


def jforex(column: str, zone: str) -> Callable[[Row], Tick]:
    return lambda row: _millions(row, at(row[column][:10], row[column][11:], zone, "%Y.%m.%d"))


def dukascopy(row: Row) -> Tick:
    return _millions(row, at(row["Gmt time"][:10], row["Gmt time"][11:], "UTC", "%d.%m.%Y"))


def dukascopy_local(row: Row) -> Tick:
    date, clock, offset = row["Local time"].split(" ")
    ahead = (1 if offset[3] == "+" else -1) * (int(offset[4:6]) * 60 + int(offset[6:8])) * 60 * 10**9
    return _millions(row, at(date, clock, "UTC", "%d.%m.%Y") - ahead)


def _plain_trade(when: int, cost: str, size: int, side: str = "N", ref_id: int = 0) -> Tick:
    return {"ts_event": when, "price": price(cost), "size": size, "side": side, "ref_id": ref_id, "action": "T",
            "kind": 2}  # fmt: skip


def kraken_trade(row: Row) -> Tick:
    return _plain_trade(times(row["time"], 10**9), row["price"], times(row["volume"], 10**8))


def bybit_trade(row: Row) -> Tick:
    made = _plain_trade(
        times(row["timestamp"], 10**9), row["price"], times(row["size"], 10**8), {"Buy": "B", "Sell": "A"}[row["side"]]
    )
    return made | {"symbol": row["symbol"], "ref_id": hashed(row["trdMatchID"])}


def bybit_spot_trade(row: Row) -> Tick:
    side = {"buy": "B", "sell": "A"}[row["side"].lower()]
    return _plain_trade(int(row["timestamp"]) * 10**6, row["price"], times(row["volume"], 10**8), side, int(row["id"]))


def okx_trade(row: Row) -> Tick:
    names = {name.split("/")[0]: text for name, text in row.items()}
    side = {"buy": "B", "sell": "A"}[names["side"].lower()]
    made = _plain_trade(
        int(names["created_time"]) * 10**6, names["price"], times(names["size"], 10**8), side, int(names["trade_id"])
    )
    return made | ({"symbol": names["instrument_name"]} if "instrument_name" in names else {})


COINAPI_DAY = dt.date(2026, 1, 5)


def _coinapi(row: Row) -> Tick:
    made: list[int] = []
    for name in ("time_exchange", "time_coinapi"):
        text = row[name]
        if "T" in text:
            made.append(at(text[:10], text[11:], "UTC", "%Y-%m-%d"))
        else:
            made.append(local(COINAPI_DAY, clock_ns(text, 0), "UTC"))
    if "T" not in row["time_exchange"] and made[0] - made[1] > 12 * 3600 * 10**9:
        made[0] -= 24 * 3600 * 10**9
    return {"ts_event": made[0], "ts_recv": made[1]}


def coinapi_trade(row: Row) -> Tick:
    side = {"BUY": "B", "SELL": "A", "UNKNOWN": "N"}[row["taker_side"].removesuffix("_ESTIMATED")]
    made = _plain_trade(0, row["price"], times(row["base_amount"], 10**8), side, hashed(row["guid"]))
    return made | _coinapi(row)


def coinapi_quote(row: Row) -> Tick:
    return _coinapi(row) | _quote_of(row, ("bid_px", "bid_sx", "ask_px", "ask_sx"), 10**8, zero_is_none=False)


def coinapi_book() -> Callable[[Row], Tick]:
    """A reader of one file: it keeps what each price has, and the message whose snapshot began the book."""
    book: dict[tuple[str, Decimal], Decimal] = {}
    message: list[Any] = [None, False]

    def level(row: Row) -> Tick:
        made, how, size = _coinapi(row), row["update_type"], Decimal(row["entry_sx"])
        if made["ts_recv"] != message[0]:
            message[:] = [made["ts_recv"], False]
        if how == "SNAPSHOT" and not message[1]:
            book.clear()
            message[1] = True
        place = (row["is_buy"], Decimal(row["entry_px"]))
        before = book.get(place, Decimal(0))
        after = {"ADD": before + size, "SUB": before - size, "MATCH": before - size, "DELETE": Decimal(0)}
        book[place] = after.get(how, size)
        assert book[place] >= 0, row
        return made | {
            "price": price(row["entry_px"]),
            "size": times(str(book[place]), 10**8),
            "side": "B" if row["is_buy"] == "1" else "A",
            "action": "M",
            "kind": 3,
            "flags": 32 if how == "SNAPSHOT" else 0,
        }

    return level


def b3_trade(row: Row) -> Tick:
    symbol, action, cost, size, clock, ident = list(row.values())[1:7]
    made = _plain_trade(
        at(list(row.values())[8], clock, "America/Sao_Paulo", "%Y-%m-%d", 3), cost.replace(",", "."), int(size)
    )
    return made | {"symbol": symbol, "ref_id": int(ident), "flags": 1 if action == "2" else 0}


def finam_trade(row: Row) -> Tick:
    made = _plain_trade(at(row["<DATE>"], row["<TIME>"], "Europe/Moscow"), row["<LAST>"], times(row["<VOL>"], 10**8))
    side = {"B": "B", "S": "A"}.get(row.get("<OPER>", ""), "N")
    return made | {"symbol": row["<TICKER>"], "ref_id": int(row.get("<ID>") or 0), "side": side}


def moex_deal(row: Row) -> Tick:
    when = at(row["MOMENT"][:8], row["MOMENT"][8:], "Europe/Moscow", digits=3)
    side = {"B": "B", "S": "A"}.get(row["DIRECTION"], "N")
    made = _plain_trade(when, row["PRICE_DEAL"], int(row["VOLUME"]), side, int(row["ID_DEAL"]))
    return made | {"symbol": row["#SYMBOL"]}


def moex_iss_trade(row: Row) -> Tick:
    when = at(row["TRADEDATE"], row["TRADETIME"], "Europe/Moscow", "%Y-%m-%d")
    side = {"B": "B", "S": "A"}.get(row["BUYSELL"], "N")
    made = _plain_trade(when, row["PRICE"], int(row["QUANTITY"]), side, int(row["TRADENO"]))
    return made | {"symbol": row["SECID"]}


def _angled(row: Row) -> Row:
    """A bar's cells under the names without brackets."""
    names = {"<OPEN>": "open", "<HIGH>": "high", "<LOW>": "low", "<CLOSE>": "close", "<VOL>": "volume"}
    return {names[name]: cell for name, cell in row.items() if name in names}


def mt5_bar(row: Row) -> list[Tick]:
    return _bar(_angled(row), at(row["<DATE>"], row["<TIME>"], "Europe/Athens", "%Y.%m.%d"), 5)


def finam_bar(row: Row) -> list[Tick]:
    minutes = 1440 if row["<PER>"] == "D" else int(row["<PER>"])
    made = _bar(_angled(row), at(row["<DATE>"], row["<TIME>"], "Europe/Moscow"), minutes)
    return [tick | {"symbol": row["<TICKER>"]} for tick in made]


def taifex_trade(row: Row) -> Tick:
    date, product, expiry, clock, cost, both = list(row.values())[:6]
    made = _plain_trade(at(date, clock, "Asia/Taipei"), cost, int(both) // 2)
    return made | {"symbol": f"{product.strip()} {expiry.strip()}"}


def quantquote_bar(row: Row) -> list[Tick]:
    clock = row["time"].zfill(4)
    when = at(row["date"], f"{clock[:2]}:{clock[2:]}:00", "America/New_York")
    return _bar(row, when, 1, sizes=10**4)


def firstrate_bar(row: Row) -> list[Tick]:
    when = at(row["time"][:10], row["time"][11:], "America/New_York", "%Y-%m-%d")
    return _bar(row, when, 5, sizes=10**4)


def kibot_bar(row: Row) -> list[Tick]:
    return _bar(row, at(row["date"], f"{row['time']}:00", "America/New_York", "%m/%d/%Y"), 1)


def kibot_tick(row: Row) -> list[Tick]:
    when = at(row["date"], row["time"], "America/New_York", "%m/%d/%Y")
    bid, ask = _or_none(row["bid"]), _or_none(row["ask"])
    quote = [{"ts_event": when, "kind": 3} | _both_sides(bid, 0, ask, 0)] if (bid, ask) != (NONE, NONE) else []
    return [*quote, _plain_trade(when, row["price"], int(row["size"]))]


def ctp() -> Callable[[Row], list[Tick]]:
    """A reader of one file: it keeps the total of each instrument, and the trading day that it is of."""
    totals: dict[str, tuple[dt.date, int]] = {}

    def snapshot(row: Row) -> list[Tick]:
        symbol, day = row["InstrumentID"], dt.datetime.strptime(row["TradingDay"], "%Y%m%d").date()
        hour = int(row["UpdateTime"][:2])
        czce = symbol[:2].isupper() and len(symbol) == 5
        real = day
        if not czce and (hour >= 18 or hour < 6):
            real = day - dt.timedelta(1)
            while real.weekday() > 4:
                real -= dt.timedelta(1)
            real += dt.timedelta(hour < 6)
        when = local(real, clock_ns(row["UpdateTime"], 0) + int(row["UpdateMillisec"]) * 10**6, SHANGHAI)
        # A trading day is told from the one before by the evening at which it begins.
        of = real + dt.timedelta(hour >= 18)
        total, (of_before, before) = int(row["Volume"]), totals.get(symbol, (of, 0))
        more = total if total < before and of > of_before else total - before
        totals[symbol] = of, total
        shared: Tick = {"ts_event": when, "symbol": symbol}
        made = []
        if more:
            made.append(_plain_trade(when, row["LastPrice"], more) | shared)
        for level in range(1, 6):
            costs = [
                NONE if Decimal(row[f"{side}Price{level}"]) in (0, Decimal("1.7976931348623157e+308"))
                else price(row[f"{side}Price{level}"])
                for side in ("Bid", "Ask")
            ]  # fmt: skip
            if costs != [NONE, NONE] or level == 1:
                bid, ask = (int(row[f"{side}Volume{level}"]) for side in ("Bid", "Ask"))
                quote = _both_sides(costs[0], bid, costs[1], ask)
                made.append(shared | quote | {"kind": 3, "depth": level - 1})
        made = [tick for tick in made if tick["kind"] == 2 or (tick["price"], tick["order_id"]) != (NONE, NONE)]
        if made:
            made[-1]["flags"] = LAST
        return made

    return snapshot


def twse() -> Callable[[Row], list[Tick]]:
    """A reader of one file: it keeps the lots of each security so far."""
    totals: dict[str, int] = {}

    def snapshot(row: Row) -> list[Tick]:
        symbol, total = row["code"], int(row["volume"])
        more, totals[symbol] = total - totals.get(symbol, 0), total
        when = at(row["date"], row["time"], "Asia/Taipei", digits=6)
        shared: Tick = {"ts_event": when, "symbol": symbol, "flags": {"T": 1, "S": 2}.get(row["remark"], 0)}
        cost = Decimal(row["price"]) / 100
        made = [_plain_trade(when, str(cost), more) | shared | ({} if cost else {"price": NONE})] if more else []
        for level in range(1, 6):
            costs = [int(row[f"{side}{level}"]) * 10**7 or NONE for side in ("bid", "ask")]
            if costs != [NONE, NONE]:
                lots = [int(row[f"{side}_lots{level}"]) for side in ("bid", "ask")]
                made.append(
                    shared | _both_sides(costs[0], lots[0], costs[1], lots[1]) | {"kind": 3, "depth": level - 1}
                )
        if made:
            made[-1]["flags"] = int(made[-1]["flags"]) | LAST
        return made

    return snapshot
