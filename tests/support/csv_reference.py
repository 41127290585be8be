"""Made-up files of every CSV profile, and their ticks by the csv module, Decimal and datetime, a line at a time.

Nothing here knows of the profiles' TOML: what each column means is written down a second time.
"""

from __future__ import annotations

import csv
import datetime as dt
import io
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal
from zoneinfo import ZoneInfo

NONE = (1 << 63) - 1
Row = dict[str, str]
Tick = dict[str, object]


@dataclass(frozen=True)
class Kind:
    """A profile's made-up file: its name, columns, how a line is made and what tick it is. ``symbol``: where all lines
    have the same, else None."""

    file: str
    columns: list[str]
    line: Callable[[random.Random, int], list[str]]
    tick: Callable[[Row], Tick]
    header: bool = True
    delimiter: str = ","
    encoding: str = "utf-8"
    symbol: str | None = None
    footer: str = ""
    trailing: bool = False


def text_of(kind: Kind, lines: list[list[str]], ends: str = "\n") -> bytes:
    rows = [kind.columns, *lines] if kind.header else lines
    tail = kind.delimiter if kind.trailing else ""
    return (ends.join(kind.delimiter.join(row) + tail for row in rows) + ends + kind.footer).encode(kind.encoding)


def reference(kind: Kind, data: bytes) -> list[Tick]:
    """The ticks of a file, as dicts, ``symbol`` among them."""
    ticks = []
    rows = csv.reader(io.StringIO(data.decode(kind.encoding), newline=""), delimiter=kind.delimiter)
    if kind.header:
        next(rows)
    for number, values in enumerate((row for row in rows if row and row[0] != "END"), 1):
        tick: Tick = {"sequence": number, "order_id": 0, "ref_id": 0, "publisher_id": 0, "flags": 0, "depth": 0}
        tick |= {"symbol": kind.symbol, "price": NONE, "size": 0, "side": "N", "action": "N"}
        tick |= kind.tick(dict(zip(kind.columns, values, strict=False)))
        tick.setdefault("ts_recv", tick.get("ts_event"))
        tick.setdefault("ts_event", tick["ts_recv"])
        ticks.append(tick)
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
    return (int(text[:2]) * 3600 + int(text[2:4]) * 60 + int(text[4:6])) * 10**9 + int(text[6:]) * 10 ** (9 - digits)


def crypto_size(text: str) -> Tick:
    amount = times(text, 10**8)
    size = min(amount // 1000, (1 << 32) - 1)
    return {"size": size, "order_id": amount, "flags": 0x08 if size * 1000 != amount else 0}


def hashed(text: str) -> int:
    if text == "":
        return 0
    if text.isdigit() and int(text) < 1 << 64:
        return int(text)
    number = 0xCBF29CE484222325
    for byte in text.encode():
        number = (number ^ byte) * 0x100000001B3 % (1 << 64)
    return number | 1 << 63


def _amount(rng: random.Random) -> str:
    return rng.choice([f"{rng.random():.8f}", f"{rng.randint(1, 99999)}", f"{rng.random() * 100:.3f}", "1e-7", "60000"])


def _us(rng: random.Random, at: int) -> str:
    return str(1_700_000_000_000_000 + at * 1000 + rng.randint(0, 999))


def _tardis(row: Row) -> Tick:
    return {
        "symbol": row["symbol"],
        "ts_event": int(row["timestamp"]) * 1000,
        "ts_recv": int(row["local_timestamp"]) * 1000,
    }


def _tardis_trade(row: Row) -> Tick:
    side = {"buy": "B", "sell": "A", "unknown": "N"}[row["side"]]
    own = {"ref_id": hashed(row["id"]), "side": side, "price": price(row["price"]), "action": "T", "kind": 2}
    return _tardis(row) | crypto_size(row["amount"]) | own


def _tardis_book(row: Row) -> Tick:
    tick = _tardis(row) | crypto_size(row["amount"])
    tick["flags"] = tick["flags"] | (32 if row["is_snapshot"] == "true" else 0)  # type: ignore[operator]
    return tick | {
        "side": {"bid": "B", "ask": "A"}[row["side"]],
        "price": price(row["price"]),
        "action": "M",
        "kind": 1,
    }


def _both_sides(bid: int, bid_size: int, ask: int, ask_size: int) -> Tick:
    if ask == NONE and bid != NONE:
        return {"side": "B", "price": bid, "size": bid_size}
    if bid == NONE and ask != NONE:
        return {"side": "A", "price": ask, "size": ask_size}
    return {"side": "N", "price": bid, "size": bid_size, "order_id": ask, "ref_id": ask_size}


def _tardis_quote(row: Row) -> Tick:
    bid, ask = (
        {"size": 0, "flags": 0} if row[f"{s}_amount"] == "" else crypto_size(row[f"{s}_amount"]) for s in ("bid", "ask")
    )
    prices = [NONE if row[f"{s}_price"] == "" else price(row[f"{s}_price"]) for s in ("bid", "ask")]
    own = _both_sides(prices[0], bid["size"], prices[1], ask["size"])  # type: ignore[arg-type]
    return _tardis(row) | own | {"kind": 3, "flags": bid["flags"] | ask["flags"]}  # type: ignore[operator]


def _binance(row: Row, ident: str, size: str, time: str) -> Tick:
    by = 10**6 if len(row[time]) == 13 else 1000
    side = "A" if row["is_buyer_maker"].lower() == "true" else "B"
    tick = {"ts_event": int(row[time]) * by, "ref_id": int(row[ident]), "price": price(row["price"])}
    return tick | crypto_size(row[size]) | {"side": side, "action": "T", "kind": 2}


def _binance_trade(row: Row) -> Tick:
    return _binance(row, "id", "qty", "time")


def _binance_agg(row: Row) -> Tick:
    tick = _binance(row, "agg_trade_id", "quantity", "transact_time")
    return tick | {"sequence": int(row["first_trade_id"])}


def _lobster(row: Row) -> Tick:
    kind = int(row["type"])
    return {
        "ts_event": local(dt.date(2012, 6, 21), times(row["time"], 10**9), "America/New_York"),
        "order_id": int(row["order"]),
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


def _szse_order(row: Row) -> Tick:
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


def _szse_trade(row: Row) -> Tick:
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


def _sse_tick(row: Row) -> Tick:
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


def _sse_trade(row: Row) -> Tick:
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


def _sse_order(row: Row) -> Tick:
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


def _wind_order(row: Row) -> Tick:
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


def _wind_trade(row: Row) -> Tick:
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


def _taq_trade(row: Row) -> Tick:
    return _taq(row) | {
        "price": price(row["Trade Price"]),
        "size": int(row["Trade Volume"]),
        "sequence": int(row["Sequence Number"]),
        "ref_id": hashed(row["Trade Id"]),
        "flags": {"00": 0, "01": 16, "08": 129}[row["Trade Correction Indicator"]],
        "action": "T",
        "kind": 2,
    }


def _taq_quote(row: Row) -> Tick:
    row = {name.replace("_", " "): value for name, value in row.items()}
    sides = _both_sides(
        _or_none(row["Bid Price"]), int(row["Bid Size"]), _or_none(row["Offer Price"]), int(row["Offer Size"])
    )
    return _taq(row) | sides | {"sequence": int(row["Sequence Number"]), "kind": 3}


def _databento(row: Row) -> Tick:
    return {
        "ts_recv": int(row["ts_recv"]),
        "ts_event": int(row["ts_event"]),
        "publisher_id": int(row["publisher_id"]),
        "action": row["action"],
        "side": row["side"],
        "size": int(row["size"]),
        "order_id": int(row["order_id"]),
        "price": NONE if row["price"] == "" else price(row["price"]),
        "flags": int(row["flags"]),
        "sequence": int(row["sequence"]),
        "symbol": row["symbol"],
        "kind": 2 if row["action"] == "T" else 1,
    }


def _databento_raw(row: Row) -> Tick:
    return _databento(row | {"price": ""}) | {"price": int(row["price"])}


def _lean(row: Row) -> Tick:
    of_day = int(row["time"]) * 10**6
    return {"ts_event": local(dt.date(2013, 10, 9), of_day, "America/New_York"), "flags": int(row["suspicious"])}


def _lean_trade(row: Row) -> Tick:
    return _lean(row) | {"price": price(row["price"], "0.0001"), "size": int(row["size"]), "action": "T", "kind": 2}


def _lean_quote(row: Row) -> Tick:
    bid, ask = (_or_none(row[side], "0.0001") for side in ("bid", "ask"))
    return _lean(row) | _both_sides(bid, int(row["bid_size"]), ask, int(row["ask_size"])) | {"kind": 3}


def _hms(rng: random.Random, dots: bool) -> str:
    hour, minute, second, ms = rng.randint(9, 14), rng.randint(0, 59), rng.randint(0, 59), rng.randint(0, 999)
    return f"{hour:02}:{minute:02}:{second:02}.{ms:03}" if dots else f"{hour}{minute:02}{second:02}{ms:03}"


def _yuan(rng: random.Random) -> str:
    return rng.choice(["0.0000", f"{rng.randint(1, 99999) / 100:.4f}"])


def _code(rng: random.Random) -> str:
    return rng.choice(["000001", "300750", "002813"])


def _taq_time(rng: random.Random) -> str:
    return f"{rng.randint(4, 19):02}{rng.randint(0, 59):02}{rng.randint(0, 59):02}{rng.randint(0, 10**9 - 1):09}"


_MAKER = ["True", "False", "true", "false"]
_AGG = ["agg_trade_id", "price", "quantity", "first_trade_id", "last_trade_id", "transact_time", "is_buyer_maker"]
_TARDIS = ["exchange", "symbol", "timestamp", "local_timestamp"]
_TAQ_TRADE = [
    "Time",
    "Exchange",
    "Symbol",
    "Sale Condition",
    "Trade Volume",
    "Trade Price",
    "Trade Stop Stock Indicator",
    "Trade Correction Indicator",
    "Sequence Number",
    "Trade Id",
    "Source of Trade",
    "Trade Reporting Facility",
    "Participant Timestamp",
    "Trade Reporting Facility TRF Timestamp",
    "Trade Through Exempt Indicator",
]
_TAQ_QUOTE = [
    "Time",
    "Exchange",
    "Symbol",
    "Bid_Price",
    "Bid_Size",
    "Offer_Price",
    "Offer_Size",
    "Quote_Condition",
    "Sequence_Number",
    "National_BBO_Ind",
    "Participant_Timestamp",
]


def _binance_line(rng: random.Random, at: int, us: bool, match: bool) -> list[str]:
    time = str(1_735_689_600_000_000 + at * 997) if us else str(1_700_000_000_000 + at)
    line = [
        str(10**9 + at),
        f"{rng.randint(1, 10**7) / 100:.8f}",
        f"{rng.random():.5f}",
        "12.3",
        time,
        rng.choice(_MAKER),
    ]
    return [*line, "True"] if match else line


def _agg_line(rng: random.Random, at: int, match: bool) -> list[str]:
    line = [str(at + 1), f"{rng.randint(1, 10**7) / 100:.2f}", f"{rng.random() * 10:.3f}", str(at * 3), str(at * 3 + 2)]
    return [*line, str(1_700_000_000_000 + at), rng.choice(_MAKER), *(["True"] if match else [])]


def _side(rng: random.Random, *sides: str) -> str:
    return rng.choice(sides)


def _quote_line(rng: random.Random, at: int) -> list[str]:
    ask, bid = rng.choice([["", ""], [_amount(rng), "101.5"]]), rng.choice([["", ""], ["100.25", _amount(rng)]])
    return ["deribit", rng.choice(["BTC", "ETH"]), _us(rng, at), _us(rng, at), *ask, *bid]


def _cancel(rng: random.Random, *kinds: str) -> tuple[str, int, int]:
    kind, one, other = rng.choice(kinds), rng.randint(1, 10**6), rng.randint(1, 10**6)
    return kind, one, 0 if kind in ("C", "4", "52") else other


def _szse_trade_line(rng: random.Random, at: int) -> list[str]:
    kind, bid, offer = _cancel(rng, "F", "4", "70", "52")
    day = f"20231205{_hms(rng, False).zfill(9)}"
    return [
        "2012",
        str(at + 1),
        "011",
        str(bid),
        str(offer),
        _code(rng),
        "102 ",
        _yuan(rng),
        str(rng.randint(1, 9999)),
        kind,
        day,
    ]


def _wind_trade_line(rng: random.Random, at: int) -> list[str]:
    kind, ask, bid = _cancel(rng, "0", "C", "")
    code = _code(rng)
    return [
        f"{code}.SZ",
        code,
        "20231205",
        _hms(rng, False),
        str(at + 1),
        kind,
        "",
        "B",
        str(rng.randint(0, 10**6)),
        str(rng.randint(1, 10**6)),
        str(ask),
        str(bid),
    ]


_SZSE_ORDER = ["SecurityID", "TransactTime", "ApplSeqNum", "Price", "OrderQty", "Side", "OrdType"]
_SZSE_ORDER_CN = ["证券代码", "委托时间", "委托索引", "委托价格", "委托数量", "买卖方向", "委托类别"]


def _szse_order_line(rng: random.Random, at: int) -> list[str]:
    return [
        "2011",
        _code(rng),
        _hms(rng, True),
        str(at + 1),
        _yuan(rng),
        str(rng.randint(1, 9999)),
        _side(rng, "1", "2", "49", "50"),
        _side(rng, "1", "2", "U", "49", "85"),
    ]


KINDS: dict[str, Kind] = {
    "lobster": Kind(
        "AAPL_2012-06-21_34200000_57600000_message_10.csv",
        ["time", "type", "order", "size", "price", "direction"],
        lambda rng, at: [
            f"{34200 + at}.{rng.randint(0, 10**9 - 1):09}".rstrip("0"),
            str(rng.randint(1, 7)),
            str(rng.randint(0, 10**8)),
            str(rng.randint(1, 999)),
            str(rng.randint(-1, 10**7)),
            _side(rng, "1", "-1"),
        ],
        _lobster,
        header=False,
        symbol="AAPL",
    ),
    "tardis-trades": Kind(
        "deribit_trades_2020-09-01_BTC.csv",
        [*_TARDIS, "id", "side", "price", "amount"],
        lambda rng, at: [
            "deribit",
            _side(rng, "BTC", "ETH-PERP"),
            _us(rng, at),
            _us(rng, at),
            _side(rng, str(at), "", "a1b2-c3", "99999999999999999999"),
            _side(rng, "buy", "sell", "unknown"),
            _side(rng, "11667.5", "0.000012", "1e-7"),
            _amount(rng),
        ],
        _tardis_trade,
    ),
    "tardis-book": Kind(
        "incremental.csv",
        [*_TARDIS, "is_snapshot", "side", "price", "amount"],
        lambda rng, at: [
            "deribit",
            "BTC",
            _us(rng, at),
            _us(rng, at),
            _side(rng, "true", "false"),
            _side(rng, "bid", "ask"),
            "11667.5",
            _amount(rng),
        ],
        _tardis_book,
    ),
    "tardis-quotes": Kind(
        "quotes.csv", [*_TARDIS, "ask_amount", "ask_price", "bid_price", "bid_amount"], _quote_line, _tardis_quote
    ),
    "binance-trades": Kind(
        "BTCUSDT-trades-2025-01-01.csv",
        ["id", "price", "qty", "quote_qty", "time", "is_buyer_maker", "is_best_match"],
        lambda rng, at: _binance_line(rng, at, True, True),
        _binance_trade,
        header=False,
        symbol="BTCUSDT",
    ),
    "binance-trades futures": Kind(
        "ETHUSDT-trades-2024-01-01.csv",
        ["id", "price", "qty", "quote_qty", "time", "is_buyer_maker"],
        lambda rng, at: _binance_line(rng, at, False, False),
        _binance_trade,
        symbol="ETHUSDT",
    ),
    "binance-trades futures without a header": Kind(
        "ETHUSDT-trades-2020-01-01.csv",
        ["id", "price", "qty", "quote_qty", "time", "is_buyer_maker"],
        lambda rng, at: _binance_line(rng, at, False, False),
        _binance_trade,
        header=False,
        symbol="ETHUSDT",
    ),
    "binance-aggtrades": Kind(
        "BTCUSDT-aggTrades-2024-01-01.csv",
        [*_AGG, "is_best_match"],
        lambda rng, at: _agg_line(rng, at, True),
        _binance_agg,
        header=False,
        symbol="BTCUSDT",
    ),
    "binance-aggtrades futures": Kind(
        "BTCUSDT-aggTrades-2024-01-01.csv",
        _AGG,
        lambda rng, at: _agg_line(rng, at, False),
        _binance_agg,
        symbol="BTCUSDT",
    ),
    "szse-orders": Kind(
        "20231205_order.csv", ["ChannelNo", *_SZSE_ORDER], _szse_order_line, _szse_order, trailing=True
    ),
    "szse-orders in Chinese": Kind(
        "20231205_order.csv", ["频道代码", *_SZSE_ORDER_CN], _szse_order_line, _szse_order, encoding="gb18030"
    ),
    "szse-trades": Kind(
        "mdl_6_36_0.csv",
        [
            "ChannelNo",
            "ApplSeqNum",
            "MDStreamID",
            "BidApplSeqNum",
            "OfferApplSeqNum",
            "SecurityID",
            "SecurityIDSource",
            "LastPx",
            "LastQty",
            "ExecType",
            "TransactTime",
        ],
        _szse_trade_line,
        _szse_trade,
    ),
    "sse-ticks": Kind(
        "mdl_4_24_0_20231205.csv",
        [
            "BizIndex",
            "Channel",
            "SecurityID",
            "TickTime",
            "Type",
            "BuyOrderNO",
            "SellOrderNO",
            "Price",
            "Qty",
            "TradeMoney",
            "TickBSFlag",
            "LocalTime",
            "SeqNo",
        ],
        lambda rng, at: [
            str(at + 1),
            "1",
            "603518",
            _hms(rng, True),
            _side(rng, "A", "D", "T", "S"),
            str(rng.randint(0, 99)),
            str(rng.randint(0, 99)),
            _yuan(rng),
            f"{rng.randint(1, 9999)}",
            "0.000",
            _side(rng, "B", "S", "N", "TRADE"),
            "09:30:00.183",
            str(at),
        ],
        _sse_tick,
    ),
    "sse-trades": Kind(
        "Transaction_20231205.csv",
        [
            "DataStatus",
            "TradeIndex",
            "TradeChan",
            "SecurityID",
            "TradTime",
            "TradPrice",
            "TradVolume",
            "TradeMoney",
            "TradeBuyNo",
            "TradeSellNo",
            "TradeBSFlag",
        ],
        lambda rng, at: [
            "0",
            str(at + 1),
            "1",
            "601360",
            _hms(rng, True),
            "9.340",
            f"{rng.randint(1, 9999)}.000",
            "8406.0",
            str(rng.randint(1, 99)),
            str(rng.randint(1, 99)),
            _side(rng, "B", "S", "N"),
        ],
        _sse_trade,
        trailing=True,
    ),
    "sse-orders": Kind(
        "mdl_4_19_0_20231205.csv",
        [
            "DataStatus",
            "OrderIndex",
            "OrderChannel",
            "SecurityID",
            "OrderTime",
            "OrderType",
            "OrderNO",
            "OrderPrice",
            "Balance",
            "OrderBSFlag",
        ],
        lambda rng, at: [
            "0",
            str(at + 1),
            "1",
            "601360",
            _hms(rng, True),
            _side(rng, "A", "D"),
            str(rng.randint(1, 999)),
            _yuan(rng),
            str(rng.randint(1, 999)),
            _side(rng, "B", "S"),
        ],
        _sse_order,
    ),
    "wind-orders": Kind(
        "逐笔委托.csv",
        [
            "万得代码",
            "交易所代码",
            "自然日",
            "时间",
            "委托编号",
            "交易所委托号",
            "委托类型",
            "委托代码",
            "委托价格",
            "委托数量",
        ],
        lambda rng, at: [
            "000833.SZ",
            "000833",
            _side(rng, "20231205", "20231206"),
            _hms(rng, False),
            str(at + 1),
            str(1000 + at),
            _side(rng, "0", "1", "U", "A", "D"),
            _side(rng, "B", "S", " "),
            str(rng.randint(0, 10**6)),
            str(rng.randint(1, 99999)),
        ],
        _wind_order,
        encoding="gb18030",
        trailing=True,
    ),
    "wind-trades": Kind(
        "逐笔成交.csv",
        [
            "万得代码",
            "交易所代码",
            "自然日",
            "时间",
            "成交编号",
            "成交代码",
            "委托代码",
            "BS标志",
            "成交价格",
            "成交数量",
            "叫卖序号",
            "叫买序号",
        ],
        _wind_trade_line,
        _wind_trade,
    ),
    "taq-trades": Kind(
        "EQY_US_ALL_TRADE_20161024",
        _TAQ_TRADE,
        lambda rng, at: [
            _taq_time(rng),
            _side(rng, "Z", "N", "D"),
            _side(rng, "A", "BRK A"),
            _side(rng, "@", " O  "),
            str(rng.randint(1, 9999)),
            _side(rng, "45.88", "0.0001"),
            "N",
            _side(rng, "00", "01", "08"),
            str(at),
            _side(rng, "", str(at)),
            "C",
            "",
            _side(rng, "", _taq_time(rng)),
            "",
            "0",
        ],
        _taq_trade,
        delimiter="|",
        footer="END|20161024|27052068|||||||||||||\n",
    ),
    "taq-quotes": Kind(
        "EQY_US_ALL_BBO_20161024.csv",
        _TAQ_QUOTE,
        lambda rng, at: [
            _taq_time(rng),
            "P",
            _side(rng, "A", "AA"),
            _side(rng, "0", "45.8"),
            "3",
            _side(rng, "0", "45.9"),
            "7",
            "R",
            str(at),
            "0",
            _taq_time(rng),
        ],
        _taq_quote,
        footer="END,20161024,2705,,,,,,,,\n",
    ),
    "databento": Kind(
        "mbo.csv",
        [
            "ts_recv",
            "ts_event",
            "rtype",
            "publisher_id",
            "instrument_id",
            "action",
            "side",
            "price",
            "size",
            "channel_id",
            "order_id",
            "flags",
            "ts_in_delta",
            "sequence",
            "symbol",
        ],
        lambda rng, at: [
            str(1_700_000_000_000_000_000 + at),
            str(1_699_999_999_000_000_000 + at),
            "160",
            "1",
            "5482",
            _side(rng, *"ACMRTFN"),
            _side(rng, *"ABN"),
            _side(rng, "", "3720.250000000") if at else "1.5",
            "1",
            "0",
            str(647784973705 + at),
            "128",
            "22993",
            str(at),
            "ESH1",
        ],
        _databento,
    ),
    "databento-raw": Kind(
        "mbo.csv",
        [
            "ts_recv",
            "ts_event",
            "rtype",
            "publisher_id",
            "instrument_id",
            "action",
            "side",
            "price",
            "size",
            "channel_id",
            "order_id",
            "flags",
            "ts_in_delta",
            "sequence",
            "symbol",
        ],
        lambda rng, at: [
            str(1_700_000_000_000_000_000 + at),
            str(1_699_999_999_000_000_000 + at),
            "160",
            "1",
            "5482",
            _side(rng, *"ACMRTFN"),
            _side(rng, *"ABN"),
            _side(rng, "9223372036854775807", "3720250000000", "-500"),
            "1",
            "0",
            str(647784973705 + at),
            "128",
            "22993",
            str(at),
            "ESH1",
        ],
        _databento_raw,
    ),
    "lean-trades": Kind(
        "20131009_aig_Trade_Tick.csv",
        ["time", "price", "size", "exchange", "condition", "suspicious"],
        lambda rng, at: [
            str(34_200_000 + at),
            str(rng.randint(1, 10**6)),
            "100",
            _side(rng, "", "N"),
            "4000",
            _side(rng, "0", "1"),
        ],
        _lean_trade,
        header=False,
        symbol="AIG",
    ),
    "lean-quotes": Kind(
        "20131009_aig_Quote_Tick.csv",
        ["time", "bid", "bid_size", "ask", "ask_size", "exchange", "condition", "suspicious"],
        lambda rng, at: [
            str(34_200_000 + at),
            _side(rng, "0", "487000"),
            "100",
            _side(rng, "0", "488000"),
            "200",
            "P",
            "1",
            "0",
        ],
        _lean_quote,
        header=False,
        symbol="AIG",
    ),
}


def _in_chinese(name: str, header: str) -> Kind:
    """The same file with other names for its columns."""
    kind = KINDS[name]
    columns = header.split()

    def tick(row: Row) -> Tick:
        return kind.tick(dict(zip(kind.columns, (row[column] for column in columns), strict=True)))

    return replace(kind, columns=columns, encoding="gb18030", file="20231205.csv", tick=tick)


KINDS |= {
    "szse-trades in Chinese": _in_chinese(
        "szse-trades",
        "频道代码 消息记录号 行情类别 买方委托索引 卖方委托索引 证券代码 证券代码源 "
        "成交价格 成交数量 成交类别 成交时间",
    ),
    "sse-trades in Chinese": _in_chinese(
        "sse-trades",
        "数据状态 成交序号 频道代码 证券代码 成交时间 成交价格 成交数量 成交金额 买方订单号 卖方订单号 内外盘标志",
    ),
    "sse-orders in Chinese": _in_chinese(
        "sse-orders", "数据状态 委托序号 频道代码 证券代码 委托时间 订单类型 原始订单号 委托价格 委托数量 委托标识"
    ),
}


def made_up(name: str, lines: int, seed: int = 1) -> list[list[str]]:
    rng = random.Random(f"{name} {seed}")
    return [KINDS[name].line(rng, at) for at in range(lines)]
