"""Made-up files of every CSV profile: their columns, and how a line of each is made.

Both are written as they stand in the file, cells with their delimiters.
"""

from __future__ import annotations

import datetime as dt
import random
from dataclasses import replace
from pathlib import Path

import csv_reference as ref
from csv_reference import Kind, Row, Tick


def _amount(rng: random.Random) -> str:
    return rng.choice([f"{rng.random():.8f}", f"{rng.randint(1, 99999)}", f"{rng.random() * 100:.3f}", "1e-7", "60000"])


def _us(rng: random.Random, at: int) -> str:
    return str(1_700_000_000_000_000 + at * 1000 + rng.randint(0, 999))


def _hms(rng: random.Random, dots: bool) -> str:
    hour, minute, second, ms = rng.randint(9, 14), rng.randint(0, 59), rng.randint(0, 59), rng.randint(0, 999)
    return f"{hour:02}:{minute:02}:{second:02}.{ms:03}" if dots else f"{hour}{minute:02}{second:02}{ms:03}"


def _yuan(rng: random.Random) -> str:
    return rng.choice(["0.0000", f"{rng.randint(1, 99999) / 100:.4f}"])


def _code(rng: random.Random) -> str:
    return rng.choice(["000001", "300750", "002813"])


def _taq_time(rng: random.Random) -> str:
    return f"{rng.randint(4, 19):02}{rng.randint(0, 59):02}{rng.randint(0, 59):02}{rng.randint(0, 10**9 - 1):09}"


def _coinapi_level(rng: random.Random, at: int) -> str:
    """A row of a story of six: a level begins, loses some, is set and loses some again, and most end."""
    story, step = divmod(at, 6)
    how, size = [
        (_side(rng, "ADD", "SET", *["SNAPSHOT"] * (story % 4 == 0)), f"{rng.randint(3, 9)}.5"),
        ("SUB", "1.5"), ("MATCH", "0.00000001"), ("SET", f"{rng.randint(2, 9)}"), ("SUB", "0.25"),
        (_side(rng, "DELETE", "ADD"), "1e-7"),
    ][step]  # fmt: skip
    clock = f"{9 + at // 7200 % 12:02}:{at // 120 % 60:02}:{at // 2 % 60:02}"
    return f"{clock}.1230000;{clock}.4560001;{story % 2};{how};{93000 + story % 3}.5;{size};"


def _twse_line(rng: random.Random, at: int) -> str:
    levels = [
        "|".join(f"{rng.choice([0, rng.randint(1, 10**6 - 1)]):06}|{rng.randint(0, 999):08}" for _ in range(5))
        for _ in range(2)
    ]
    clock = _ms(rng, at).replace(":", "").replace(".", "")
    head = f"{_side(rng, '0050  ', '00637L')}|{clock}123|{_side(rng, ' ', 'T', 'S')}"
    cost = rng.choice([0, rng.randint(1, 10**6 - 1)])
    return f"{head}| |Y| |{cost:06}|{at // 3:08}|5| |{levels[0]}|5|R|{levels[1]}|20260105|AA"


_MAKER = ["True", "False", "true", "false"]
_TARDIS = "exchange,symbol,timestamp,local_timestamp"
_BINANCE = "id,price,qty,quote_qty,time,is_buyer_maker"
_AGG = "agg_trade_id,price,quantity,first_trade_id,last_trade_id,transact_time,is_buyer_maker"
_LEAN_TRADE = "time,price,size,exchange,condition,suspicious"
_LEAN_QUOTE = "time,bid,bid_size,ask,ask_size,exchange,condition,suspicious"


def _binance_line(rng: random.Random, at: int, us: bool, match: bool) -> str:
    time = 1_735_689_600_000_000 + at * 997 if us else 1_700_000_000_000 + at
    line = f"{10**9 + at},{rng.randint(1, 10**7) / 100:.8f},{rng.random():.5f},12.3,{time},{_side(rng, *_MAKER)}"
    return line + ",True" * match


def _agg_line(rng: random.Random, at: int, match: bool) -> str:
    line = f"{at + 1},{rng.randint(1, 10**7) / 100:.2f},{rng.random() * 10:.3f},{at * 3},{at * 3 + 2}"
    return f"{line},{1_700_000_000_000 + at},{_side(rng, *_MAKER)}" + ",True" * match


def _bar_line(rng: random.Random) -> str:
    return ",".join(f"{rng.randint(1, 10**7) / 100:.2f}" for _ in range(4))


_LEAN_BOTH = "time,bid_open,bid_high,bid_low,bid_close,bid_size,ask_open,ask_high,ask_low,ask_close,ask_size"


def _lean_side(rng: random.Random, close: str) -> str:
    """One side of a LEAN quote bar, which may have none."""
    return rng.choice([f"1,2,1,{close},{rng.randint(0, 99)}", ",,,,", "0,0,0,0,0"])


def _lean_day(at: int) -> str:
    return f"{dt.date(2024, 1, 1) + dt.timedelta(at):%Y%m%d}"


def _side(rng: random.Random, *sides: str) -> str:
    return rng.choice(sides)


def _quote_line(rng: random.Random, at: int) -> str:
    ask, bid = rng.choice([",", f"{_amount(rng)},101.5"]), rng.choice([",", f"100.25,{_amount(rng)}"])
    return f"deribit,{_side(rng, 'BTC', 'ETH')},{_us(rng, at)},{_us(rng, at)},{ask},{bid}"


def _cancel(rng: random.Random, *kinds: str) -> tuple[str, int, int]:
    kind, one, other = rng.choice(kinds), rng.randint(1, 10**6), rng.randint(1, 10**6)
    return kind, one, 0 if kind in ("C", "4", "52") else other


def _szse_trade_line(rng: random.Random, at: int) -> str:
    kind, bid, offer = _cancel(rng, "F", "4", "70", "52")
    day = f"20231205{_hms(rng, False).zfill(9)}"
    return f"2012,{at + 1},011,{bid},{offer},{_code(rng)},102 ,{_yuan(rng)},{rng.randint(1, 9999)},{kind},{day}"


def _wind_trade_line(rng: random.Random, at: int) -> str:
    kind, ask, bid = _cancel(rng, "0", "C", "")
    code = _code(rng)
    start = f"{code}.SZ,{code},20231205,{_hms(rng, False)},{at + 1},{kind},,B"
    return f"{start},{rng.randint(0, 10**6)},{rng.randint(1, 10**6)},{ask},{bid}"


def _szse_order_line(rng: random.Random, at: int) -> str:
    start = f"2011,{_code(rng)},{_hms(rng, True)},{at + 1},{_yuan(rng)},{rng.randint(1, 9999)}"
    return f"{start},{_side(rng, '1', '2', '49', '50')},{_side(rng, '1', '2', 'U', '49', '85')}"


_UNDEFINED = "9223372036854775807"
_DATABENTO = "ts_recv,ts_event,rtype,publisher_id,instrument_id"
_DATABENTO_ORDER = f"{_DATABENTO},action,side,price,size,channel_id,order_id,flags,ts_in_delta,sequence,symbol"
_DATABENTO_EVENT = f"{_DATABENTO},action,side,depth,price,size,flags,ts_in_delta,sequence"


def _levels(count: int) -> str:
    fields = ("bid_px", "ask_px", "bid_sz", "ask_sz", "bid_ct", "ask_ct")
    return ",".join(f"{field}_{level:02}" for level in range(count) for field in fields)


def _databento_head(at: int) -> str:
    undefined = "" if at % 2 else str((1 << 64) - 1)
    recv = undefined if at and at % 7 == 0 else str(1_700_000_000_000_000_000 + at)
    event = undefined if at and at % 7 == 1 else str(1_699_999_999_000_000_000 + at)
    return f"{recv},{event},1,1,5482"


def _databento_px(rng: random.Random, defined: bool, decimals: bool) -> str:
    number = rng.randint(-(10**13), 10**13)
    if decimals:
        text = f"{'-' if number < 0 else ''}{abs(number) // 10**9}.{abs(number) % 10**9:09}"
        return text if defined else rng.choice(["", text])
    return str(number) if defined else rng.choice([_UNDEFINED, str(number)])


def _databento_level(rng: random.Random, defined: bool, decimals: bool) -> str:
    prices = ",".join(_databento_px(rng, defined, decimals) for _ in range(2))
    return f"{prices},{rng.randint(0, 1 << 32 - 1)},{rng.randint(0, 1 << 32 - 1)},1,1"


def _databento_line(rng: random.Random, at: int, *, decimals: bool, levels: int = 0, orders: bool = False) -> str:
    px = _databento_px(rng, at == 0, decimals)
    size = rng.randint(0, (1 << 32) - 1)
    event = f"{_side(rng, *'ACMRTFN')},{_side(rng, *'ABN')}"
    own = f"{event},{px},{size},0,{647784973705 + at},128" if orders else f"{event},{at % 10},{px},{size},128"
    books = [_databento_level(rng, at == 0, decimals) for _ in range(levels)]
    return ",".join([_databento_head(at), own, f"22993,{at}", *books, _side(rng, "ESH1", "NQH1")])


def _tardis_head(rng: random.Random, at: int) -> str:
    return f"deribit,{_side(rng, 'BTC-PERPETUAL', 'ETH-PERPETUAL')},{_us(rng, at)},{_us(rng, at)}"


def _snapshot_level(rng: random.Random) -> str:
    return rng.choice([",", f"{rng.randint(1, 10**7) / 100:.2f},{_amount(rng)}"])


def _wrds_time(rng: random.Random) -> str:
    return f"{rng.randint(4, 19)}:{rng.randint(0, 59):02}:{rng.randint(0, 59):02}.{rng.randint(0, 10**6 - 1):06}"


def _root(rng: random.Random) -> str:
    return rng.choice(["BRK,A", "BRK,B", "BRK,", "A,"])


_QUOTED = '"12,37"'
_POLYGON_NS = 1_709_283_600_000_000_001

KINDS: dict[str, Kind] = {
    "lobster": Kind(
        "AAPL_2012-06-21_34200000_57600000_message_10.csv",
        "time,type,order,size,price,direction",
        lambda rng, at: (
            f"{34200 + at}.{rng.randint(0, 10**9 - 1):09}".rstrip("0")
            + f",{rng.randint(1, 7)},{_side(rng, '-1', '0', str(rng.randint(1, 10**8)))},{rng.randint(1, 999)}"
            f",{rng.randint(-1, 10**7)},{_side(rng, '1', '-1')}"
        ),
        ref.lobster,
        header=False,
        symbol="AAPL",
    ),
    "tardis-trades": Kind(
        "deribit_trades_2020-09-01_BTC.csv",
        f"{_TARDIS},id,side,price,amount",
        lambda rng, at: (
            f"deribit,{_side(rng, 'BTC', 'ETH-PERP')},{_us(rng, at)},{_us(rng, at)}"
            f",{_side(rng, str(at), '', 'a1b2-c3', '99999999999999999999')},{_side(rng, 'buy', 'sell', 'unknown')}"
            f",{_side(rng, '11667.5', '0.000012', '1e-7')},{_amount(rng)}"
        ),
        ref.tardis_trade,
    ),
    "tardis-book": Kind(
        "incremental.csv",
        f"{_TARDIS},is_snapshot,side,price,amount",
        lambda rng, at: (
            f"deribit,BTC,{_us(rng, at)},{_us(rng, at)},{_side(rng, 'true', 'false')},{_side(rng, 'bid', 'ask')}"
            f",11667.5,{_amount(rng)}"
        ),
        ref.tardis_book,
        ends=True,
    ),
    "tardis-quotes": Kind(
        "quotes.csv", f"{_TARDIS},ask_amount,ask_price,bid_price,bid_amount", _quote_line, ref.tardis_quote
    ),
    "binance-trades": Kind(
        "BTCUSDT-trades-2025-01-01.csv",
        f"{_BINANCE},is_best_match",
        lambda rng, at: _binance_line(rng, at, True, True),
        ref.binance_trade,
        header=False,
        symbol="BTCUSDT",
    ),
    "histdata": Kind(
        "DAT_ASCII_EURUSD_T_202403.csv",
        "time,bid,ask,volume",
        lambda rng, at: (
            f"202403{rng.randint(1, 28):02} {rng.randint(0, 23):02}{at % 60:02}{rng.randint(0, 59):02}{at % 1000:03}"
            f",1.{rng.randint(0, 999999):06},1.{rng.randint(0, 999999):06},0"
        ),
        ref.histdata,
        header=False,
        symbol="EURUSD",
    ),
    "truefx": Kind(
        "EURUSD-2024-03.csv",
        "pair,time,bid,ask",
        lambda rng, at: (
            f"{_side(rng, 'EUR/USD', 'USD/JPY')}"
            f",202403{rng.randint(1, 28):02} {at % 24:02}:{at % 60:02}:{rng.randint(0, 59):02}.{at % 1000:03}"
            f",{rng.randint(1, 200)}.{rng.randint(0, 99999):05},{rng.randint(1, 200)}.{rng.randint(0, 99999):05}"
        ),
        ref.truefx,
        header=False,
    ),
    "lean-fx": Kind(
        "20140507_eurusd_tick_quote.csv",
        "time,bid,ask",
        lambda rng, at: f"{at * 700},1.{rng.randint(0, 99999):05},1.{rng.randint(0, 99999)}",
        ref.lean_fx,
        header=False,
        symbol="EURUSD",
    ),
    "lean-crypto-trades": Kind(
        "20161007_btcusd_tick_trade.csv",
        "time,price,quantity",
        lambda rng, at: f"{at * 700},{rng.randint(1, 99999)}.{rng.randint(0, 99):02},{_amount(rng)}".replace(
            "1e-7", "0.1"
        ),
        ref.lean_crypto_trade,
        header=False,
        symbol="BTCUSD",
    ),
    "lean-crypto-quotes": Kind(
        "20161007_btcusd_tick_quote.csv",
        "time,bid,bid_size,ask,ask_size",
        lambda rng, at: f"{at * 700},{rng.choice(['0', '613.05'])},{rng.random():.8f},613.{rng.randint(0, 99):02},{at}",
        ref.lean_crypto_quote,
        header=False,
        symbol="BTCUSD",
    ),
    "binance-bookticker": Kind(
        "BTCUSDT-bookTicker-2023-05-16.csv",
        "update_id,best_bid_price,best_bid_qty,best_ask_price,best_ask_qty,transaction_time,event_time",
        lambda rng, at: (
            f"{2_890_000_000_000 + at},{_side(rng, '27150.10', '0.00000000')},{_amount(rng)}"
            f",{_side(rng, '27150.20', '0.00000000')},{_amount(rng)},{1_684_195_200_000 + at},{1_684_195_200_005 + at}"
        ),
        ref.binance_quote,
        symbol="BTCUSDT",
    ),
    "binance-trades futures": Kind(
        "ETHUSDT-trades-2024-01-01.csv",
        _BINANCE,
        lambda rng, at: _binance_line(rng, at, False, False),
        ref.binance_trade,
        symbol="ETHUSDT",
    ),
    "binance-coin-trades": Kind(
        "BTCUSD_PERP-trades-2026-01-05.csv",
        _BINANCE.replace("quote_qty", "base_qty"),
        lambda rng, at: _binance_line(rng, at, False, False),
        ref.binance_coin_trade,
        symbol="BTCUSD_PERP",
    ),
    "binance-aggtrades": Kind(
        "BTCUSDT-aggTrades-2024-01-01.csv",
        f"{_AGG},is_best_match",
        lambda rng, at: _agg_line(rng, at, True),
        ref.binance_agg,
        header=False,
        symbol="BTCUSDT",
    ),
    "binance-aggtrades futures": Kind(
        "BTCUSDT-aggTrades-2024-01-01.csv",
        _AGG,
        lambda rng, at: _agg_line(rng, at, False),
        ref.binance_agg,
        symbol="BTCUSDT",
    ),
    "szse-orders": Kind(
        "20231205_order.csv",
        "ChannelNo,SecurityID,TransactTime,ApplSeqNum,Price,OrderQty,Side,OrdType",
        _szse_order_line,
        ref.szse_order,
        trailing=True,
    ),
    "szse-trades": Kind(
        "mdl_6_36_0.csv",
        "ChannelNo,ApplSeqNum,MDStreamID,BidApplSeqNum,OfferApplSeqNum,SecurityID,SecurityIDSource,LastPx,LastQty,"
        "ExecType,TransactTime",
        _szse_trade_line,
        ref.szse_trade,
    ),
    "sse-ticks": Kind(
        "mdl_4_24_0_20231205.csv",
        "BizIndex,Channel,SecurityID,TickTime,Type,BuyOrderNO,SellOrderNO,Price,Qty,TradeMoney,TickBSFlag,LocalTime,"
        "SeqNo",
        lambda rng, at: (
            f"{at + 1},1,603518,{_hms(rng, True)},{_side(rng, *'ADTS')},{rng.randint(0, 99)},{rng.randint(0, 99)}"
            f",{_yuan(rng)},{rng.randint(1, 9999)},0.000,{_side(rng, 'B', 'S', 'N', 'TRADE')},09:30:00.183,{at}"
        ),
        ref.sse_tick,
    ),
    "sse-trades": Kind(
        "Transaction_20231205.csv",
        "DataStatus,TradeIndex,TradeChan,SecurityID,TradTime,TradPrice,TradVolume,TradeMoney,TradeBuyNo,TradeSellNo,"
        "TradeBSFlag",
        lambda rng, at: (
            f"0,{at + 1},1,601360,{_hms(rng, True)},9.340,{rng.randint(1, 9999)}.000,8406.0"
            f",{rng.randint(1, 99)},{rng.randint(1, 99)},{_side(rng, *'BSN')}"
        ),
        ref.sse_trade,
        trailing=True,
    ),
    "sse-orders": Kind(
        "mdl_4_19_0_20231205.csv",
        "DataStatus,OrderIndex,OrderChannel,SecurityID,OrderTime,OrderType,OrderNO,OrderPrice,Balance,OrderBSFlag",
        lambda rng, at: (
            f"0,{at + 1},1,601360,{_hms(rng, True)},{_side(rng, *'AD')},{rng.randint(1, 999)},{_yuan(rng)}"
            f",{rng.randint(1, 999)},{_side(rng, *'BS')}"
        ),
        ref.sse_order,
    ),
    "wind-orders": Kind(
        "逐笔委托.csv",
        "万得代码,交易所代码,自然日,时间,委托编号,交易所委托号,委托类型,委托代码,委托价格,委托数量",
        lambda rng, at: (
            f"000833.SZ,000833,{_side(rng, '20231205', '20231206')},{_hms(rng, False)},{at + 1},{1000 + at}"
            f",{_side(rng, *'01UAD')},{_side(rng, *'BS ')},{rng.randint(0, 10**6)},{rng.randint(1, 99999)}"
        ),
        ref.wind_order,
        encoding="gb18030",
        trailing=True,
    ),
    "wind-trades": Kind(
        "逐笔成交.csv",
        "万得代码,交易所代码,自然日,时间,成交编号,成交代码,委托代码,BS标志,成交价格,成交数量,叫卖序号,叫买序号",
        _wind_trade_line,
        ref.wind_trade,
    ),
    "taq-trades": Kind(
        "EQY_US_ALL_TRADE_20161024",
        "Time|Exchange|Symbol|Sale Condition|Trade Volume|Trade Price|Trade Stop Stock Indicator|"
        "Trade Correction Indicator|Sequence Number|Trade Id|Source of Trade|Trade Reporting Facility|"
        "Participant Timestamp|Trade Reporting Facility TRF Timestamp|Trade Through Exempt Indicator",
        lambda rng, at: (
            f"{_taq_time(rng)}|{_side(rng, *'ZND')}|{_side(rng, 'A', 'BRK A')}|{_side(rng, '@', ' O  ')}"
            f"|{rng.randint(1, 9999)}|{_side(rng, '45.88', '0.0001')}|N|{_side(rng, '00', '01', '08')}|{at}"
            f"|{_side(rng, '', str(at))}|C||{_side(rng, '', _taq_time(rng))}||0"
        ),
        ref.taq_trade,
        delimiter="|",
        footer="END|20161024|27052068|||||||||||||\n",
    ),
    "taq-quotes": Kind(
        "EQY_US_ALL_BBO_20161024.csv",
        "Time,Exchange,Symbol,Bid_Price,Bid_Size,Offer_Price,Offer_Size,Quote_Condition,Sequence_Number,"
        "National_BBO_Ind,Participant_Timestamp",
        lambda rng, at: (
            f"{_taq_time(rng)},P,{_side(rng, 'A', 'AA')},{_side(rng, '0', '45.8')},3,{_side(rng, '0', '45.9')},7,R"
            f",{at},0,{_taq_time(rng)}"
        ),
        ref.taq_quote,
        footer="END,20161024,2705,,,,,,,,\n",
    ),
    "databento-mbo": Kind(
        "mbo.csv",
        _DATABENTO_ORDER,
        lambda rng, at: _databento_line(rng, at, orders=True, decimals=True),
        ref.databento_order,
    ),
    "databento-trades": Kind(
        "trades.csv",
        f"{_DATABENTO_EVENT},symbol",
        lambda rng, at: _databento_line(rng, at, decimals=True),
        ref.databento_trade,
    ),
    "databento-books": Kind(
        "mbp.csv",
        f"{_DATABENTO_EVENT},{_levels(3)},symbol",
        lambda rng, at: _databento_line(rng, at, decimals=True, levels=3),
        ref.databento_book,
    ),
    "databento-bbo": Kind(
        "bbo.csv",
        f"{_DATABENTO},side,price,size,flags,sequence,{_levels(1)},symbol",
        lambda rng, at: f"{_databento_head(at)},A,,1,128,{at},{_databento_level(rng, at == 0, True)},ESH1",
        ref.databento_sample,
    ),
    "databento-ohlcv": Kind(
        "ohlcv.csv",
        "ts_event,rtype,publisher_id,instrument_id,open,high,low,close,volume,symbol",
        lambda rng, at: (
            f"{1_700_000_000_000_000_000 + at},{rng.randint(32, 36)},1,5482"
            f",{','.join(str(rng.randint(-(10**12), 10**12)) for _ in range(4))}"
            f",{rng.randint(0, 10**12)},{_side(rng, 'ESH1', 'NQH1')}"
        ),
        ref.databento_bar,
    ),
    "binance-klines": Kind(
        "BTCUSDT-5m-2026-01-05.csv",
        "open_time,open,high,low,close,volume,close_time,quote_volume,count,taker_buy_volume,taker_buy_quote_volume,"
        "ignore",
        lambda rng, at: (
            f"{1_767_600_000_000_000 + at * 300_000_000},{_bar_line(rng)},{rng.random():.8f}"
            f",{1_767_600_299_999_999 + at * 300_000_000},12.5,7,0.5,1.25,0"
        ),
        ref.binance_bar,
        header=False,
        symbol="BTCUSDT",
    ),
    "binance-klines futures": Kind(
        "ETHUSDT-5m-2024-01.csv",
        "open_time,open,high,low,close,volume,close_time,quote_volume,count,taker_buy_volume,taker_buy_quote_volume,"
        "ignore",
        lambda rng, at: (
            f"{1_704_067_200_000 + at * 300_000},{_bar_line(rng)},{at}.5,{1_704_067_499_999 + at * 300_000}"
            ",12.5,7,0.5,1.25,0"
        ),
        ref.binance_bar,
        symbol="ETHUSDT",
    ),
    "kraken-ohlcvt": Kind(
        "XBTUSD_15.csv",
        "time,open,high,low,close,volume,trades",
        lambda rng, at: f"{1_767_600_000 + at * 900},{_bar_line(rng)},{rng.random():.8f},{at}",
        ref.kraken_bar,
        header=False,
        symbol="XBTUSD",
    ),
    "lean-bars": Kind(
        "equity/usa/minute/spy/20131007_spy_minute_trade.csv",
        "time,open,high,low,close,volume",
        lambda rng, at: f"{at * 60_000},{','.join(str(rng.randint(1, 10**7)) for _ in range(4))},{at}",
        ref.lean_minute,
        header=False,
        symbol="SPY",
    ),
    "lean-bars hours": Kind(
        "hour_spy.csv",
        "at,open,high,low,close,volume",
        lambda rng, at: (
            f"2013{1 + at % 10:02}{1 + at % 28:02} {at % 24:02}:00"
            f",{','.join(str(rng.randint(1, 10**7)) for _ in range(4))},{at}"
        ),
        ref.lean_hour,
        header=False,
        symbol="SPY",
    ),
    "lean-decimal-bars": Kind(
        "crypto/coinbase/minute/btcusd/20161007_btcusd_minute_trade.csv",
        "time,open,high,low,close,volume",
        lambda rng, at: f"{at * 60_000},{_bar_line(rng)},{rng.randint(0, 10**10) / 10**8:.8f}",
        ref.lean_crypto_minute,
        header=False,
        symbol="BTCUSD",
    ),
    "lean-decimal-bars days": Kind(
        "future/eurex/daily/fesx_trade_202406.csv",
        "at,open,high,low,close,volume",
        lambda rng, at: f"{_lean_day(at)} 00:00,{','.join(str(rng.randint(-9, 99)) for _ in range(4))},{at}",
        ref.lean_berlin_day,
        header=False,
        symbol="FESX_202406",
    ),
    "lean-quote-bars": Kind(
        "option/usa/minute/aapl/20140606_aapl_minute_quote_american_call_10000000_20150117.csv",
        _LEAN_BOTH,
        lambda rng, at: f"{at * 60_000},{_lean_side(rng, '14900')},{_lean_side(rng, '16300')}",
        ref.lean_option_quotes,
        header=False,
        symbol="AAPL_AMERICAN_CALL_10000000_20150117",
    ),
    "lean-decimal-quote-bars": Kind(
        "forex/fxcm/hour/eurusd.csv",
        _LEAN_BOTH.replace("time", "at"),
        lambda rng, at: f"{_lean_day(at)} {at % 24:02}:00,{_lean_side(rng, '1.3927')},{_lean_side(rng, '1.3929')}",
        ref.lean_fxcm_hours,
        header=False,
        symbol="EURUSD",
    ),
    "tardis-snapshots": Kind(
        "book_snapshot_5.csv",
        ",".join([_TARDIS, *(f"{s}s[{n}].price,{s}s[{n}].amount" for n in range(5) for s in ("ask", "bid"))]),
        lambda rng, at: ",".join([_tardis_head(rng, at), *(_snapshot_level(rng) for _ in range(10))]),
        ref.tardis_snapshot,
    ),
    "tardis-tickers": Kind(
        "derivative_ticker.csv",
        f"{_TARDIS},funding_timestamp,funding_rate,predicted_funding_rate,open_interest,last_price,index_price,mark_price",
        lambda rng, at: (
            f"{_tardis_head(rng, at)},,{_side(rng, '', '0.0001', '-0.00000375')},{_side(rng, '', '1e-7')},"
            + ",".join(_side(rng, "", f"{rng.randint(1, 10**9) / 100:.2f}") for _ in range(4))
        ),
        ref.tardis_ticker,
    ),
    "polygon-trades": Kind(
        "2024-03-01.csv",
        "ticker,conditions,correction,exchange,id,participant_timestamp,price,sequence_number,sip_timestamp,size,tape,"
        "trf_id,trf_timestamp",
        lambda rng, at: (
            f"{_side(rng, 'A', 'BRK.B')},{_side(rng, '', _QUOTED)},{_side(rng, '0', '1', '8', '12')},4"
            f",{_side(rng, '52983525029461', '62x')},{_POLYGON_NS + at},{rng.randint(1, 10**6)}e-4,{at}"
            f",{_POLYGON_NS + 400_000 + at},{rng.randint(0, 10**6)},1,0,0"
        ),
        ref.polygon_trade,
    ),
    "polygon-quotes": Kind(
        "2024-03-01.csv",
        "Ticker,ask_exchange,ask_price,ask_size,bid_exchange,bid_price,bid_size,conditions,indicators,"
        "participant_timestamp,sequence_number,sip_timestamp,tape,trf_timestamp",
        lambda rng, at: (
            f"{_side(rng, 'A', 'BRK.B')},12,{_side(rng, '0', '', '131.25')},3,11,{_side(rng, '0', '131.2')},1"
            f',"1,81",604,{_POLYGON_NS + at},{at},{_POLYGON_NS + 400_000 + at},1,0'
        ),
        ref.polygon_quote,
    ),
    "wrds-trades": Kind(
        "ctm_20190102.csv",
        "DATE,TIME_M,EX,SYM_ROOT,SYM_SUFFIX,TR_SCOND,SIZE,PRICE,TR_STOP_IND,TR_CORR,TR_SEQNUM,TR_ID,TR_SOURCE,TR_RF,"
        "PART_TIME,TIME_M_NANO",
        lambda rng, at: (
            f"{_side(rng, '20190102', '2019-07-02')},{_wrds_time(rng)},{_side(rng, *'NTPQ')},{_root(rng)},@F I,100"
            f",{rng.randint(1, 10**6)}e-4,,{_side(rng, '00', '01', '08', '12', '0')},{at},{at + 1},N,"
            f",{_side(rng, '', _wrds_time(rng))},{_side(rng, '', '0', '999')}"
        ),
        ref.wrds_trade,
    ),
    "wrds-quotes": Kind(
        "cqm_20190102.csv",
        "DATE,TIME_M,EX,BID,BIDSIZ,ASK,ASKSIZ,QU_COND,QU_SEQNUM,NATBBO_IND,QU_CANCEL,QU_SOURCE,SYM_ROOT,SYM_SUFFIX",
        lambda rng, at: (
            f"20190102,{_wrds_time(rng)},N,{_side(rng, '0', '', '10.5')},3,{_side(rng, '0', '10.75')},,R,{at},"
            f",{_side(rng, '', 'A', 'B')},N,{_root(rng)}"
        ),
        ref.wrds_quote,
    ),
    "lean-future-trades": Kind(
        "20131007_es_tick_trade_201312_20131220.csv",
        _LEAN_TRADE,
        lambda rng, at: (
            f"{939_243 + at},{rng.randint(1, 10**6) / 4},{rng.randint(0, 500)},{_side(rng, 'usa', 'cme')}"
            f",{_side(rng, 'null', '')},{_side(rng, '0', '1')}"
        ),
        ref.lean_future_trade,
        header=False,
        symbol="ES_201312_20131220",
    ),
    "lean-future-quotes": Kind(
        "20131007_es_tick_quote_20131220.csv",
        _LEAN_QUOTE,
        lambda rng, at: (
            f"{939_243 + at},{_side(rng, '1669.75,3,1670,4', '0,0,1670,4', '1669.75,3,,', '1669,3,0,0', '0,0,0,0')}"
            f",{_side(rng, '', 'C')},null,{_side(rng, '0', '1')}"
        ),
        ref.lean_future_quote,
        header=False,
        symbol="ES_20131220",
    ),
    "lean-trades": Kind(
        "20131009_aig_Trade_Tick.csv",
        _LEAN_TRADE,
        lambda rng, at: (
            f"{34_200_000 + at},{rng.randint(1, 10**6)},100,{_side(rng, '', 'N')},4000,{_side(rng, '0', '1')}"
        ),
        ref.lean_trade,
        header=False,
        symbol="AIG",
    ),
    "lean-quotes": Kind(
        "20131009_aig_Quote_Tick.csv",
        _LEAN_QUOTE,
        lambda rng, at: f"{34_200_000 + at},{_side(rng, '0', '487000')},100,{_side(rng, '0', '488000')},200,P,1,0",
        ref.lean_quote,
        header=False,
        symbol="AIG",
    ),
}


def _ms(rng: random.Random, at: int) -> str:
    return f"{9 + at // 3600 % 12:02}:{at // 60 % 60:02}:{at % 60:02}.{rng.randint(0, 999):03}"


def _mt5_line(rng: random.Random, at: int) -> str:
    bid, ask = (rng.choice(["", f"1.{rng.randint(0, 99999):05}"]) for _ in range(2))
    last = rng.choice([("", ""), ("0.00000", "0"), (f"{rng.randint(1, 9999)}.50", rng.choice(["1", "2.5"]))])
    flags = rng.choice(["6", "2", "4"]) if last[0] in ("", "0.00000") else rng.choice(["24", "56", "88", "312", "344"])
    if not (bid or ask or last[0]):
        bid = "1.5"
    return f"2026.01.0{5 + at % 3}\t{_ms(rng, at)}\t{bid}\t{ask}\t{last[0]}\t{last[1]}\t{flags}"


def _fx(rng: random.Random) -> str:
    prices = f"1.{rng.randint(0, 99999):05},1.{rng.randint(0, 99999):05}"
    return f"{prices},{rng.choice(['0.75', '2.25', '1', '0.000001'])},{rng.randint(1, 9999) / 100}"


def _ctp_lines(count: int) -> list[str]:
    """Two trading days of instruments of SHFE, DCE and CZCE, in the order in which they come."""
    rng, lines = random.Random(47), []
    totals: dict[str, int] = {}
    # A Friday and a Monday: by the instrument, the trading day that CTP tells in each session, and the date.
    sessions = [
        ("21:0", "20260108", "20260109"), ("09:0", "20260109", "20260109"), ("21:0", "20260109", "20260112"),
        ("00:3", "20260110", "20260112"), ("09:0", "20260112", "20260112"),
    ]  # fmt: skip
    for at in range(count):
        clock, own, trading_day = sessions[at * len(sessions) // count]
        symbol = rng.choice(["ag2602", "m2605", "SR605"])
        if symbol == "SR605" and clock == "00:3":
            symbol = "ag2602"
        # CZCE's trading day at night is the date, of the others the next trading day.
        day = own if symbol == "SR605" and clock == "21:0" else trading_day
        key = f"{symbol} {trading_day}"
        totals[key] = totals.get(key, 0) + rng.choice([0, 0, 1, 12])
        cells = [
            day,
            symbol,
            "",
            f"{rng.randint(1, 9999)}.5",
            str(totals[key]),
            "1.5",
            f"{clock}{at % 10}:{at % 60:02}",
        ]
        cells += [rng.choice(["0", "500"])]
        for level in range(1, 6):
            none = "1.7976931348623157e+308"
            for _ in "BA":
                price = none if level > 1 and rng.random() < 0.7 else f"{rng.randint(1, 9999)}"
                cells += [price, "0" if price == none else str(rng.randint(1, 99))]
        lines.append(",".join([*cells, trading_day]))
    return lines


_CTP = _ctp_lines(500)
_CTP_TITLES = ",".join(
    ["TradingDay,InstrumentID,ExchangeID,LastPrice,Volume,Turnover,UpdateTime,UpdateMillisec"]
    + [f"{side}Price{level},{side}Volume{level}" for level in range(1, 6) for side in ("Bid", "Ask")]
    + ["ActionDay"]
)

KINDS |= {
    "mt5-ticks": Kind(
        "PETR4_202601050000_202601072359.csv",
        "<DATE>\t<TIME>\t<BID>\t<ASK>\t<LAST>\t<VOLUME>\t<FLAGS>",
        _mt5_line,
        ref.mt5("Europe/Athens"),
        delimiter="\t",
        symbol="PETR4",
        options={"zone": "Europe/Athens"},
    ),
    "jforex-ticks": Kind(
        "EURUSD_Ticks_2026.01.05_2026.01.05.csv",
        "Time (UTC),Ask,Bid,AskVolume,BidVolume",
        lambda rng, at: f"2026.01.05 {_ms(rng, at)},{_fx(rng)}",
        ref.jforex("Time (UTC)", "UTC"),
        symbol="EURUSD",
    ),
    "jforex-ticks-eet": Kind(
        "EURUSD_Ticks_2026.07.06_2026.07.06.csv",
        "Time (EET),Ask,Bid,AskVolume,BidVolume ",
        lambda rng, at: f"2026.0{_side(rng, '1', '7')}.06 {_ms(rng, at)},{_fx(rng)}",
        lambda row: ref.jforex("Time (EET)", "Europe/Athens")({name.strip(): text for name, text in row.items()}),
        symbol="EURUSD",
    ),
    "dukascopy-ticks": Kind(
        "EURUSD_Ticks_05.01.2026-05.01.2026.csv",
        "Gmt time,Ask,Bid,AskVolume,BidVolume",
        lambda rng, at: f"05.01.2026 {_ms(rng, at)},{_fx(rng)}",
        ref.dukascopy,
        symbol="EURUSD",
    ),
    "dukascopy-ticks-local": Kind(
        "EURUSD_Ticks_05.01.2026-05.01.2026.csv",
        "Local time,Ask,Bid,AskVolume,BidVolume",
        lambda rng, at: f"05.0{_side(rng, '1', '7')}.2026 {_ms(rng, at)} GMT{_side(rng, '+0100', '-0430')},{_fx(rng)}",
        ref.dukascopy_local,
        symbol="EURUSD",
    ),
    "kraken-trades": Kind(
        "XBTUSD.csv",
        "time,price,volume",
        lambda rng, at: (
            f"{1_767_600_000 + at}{_side(rng, '', '.1234')},{rng.randint(1, 10**7) / 100:.1f},{rng.random():.8f}"
        ),
        ref.kraken_trade,
        header=False,
        symbol="XBTUSD",
    ),
    "bybit-trades": Kind(
        "BTCUSDT2026-01-05.csv",
        "timestamp,symbol,side,size,price,tickDirection,trdMatchID,grossValue,homeNotional,foreignNotional,RPI",
        lambda rng, at: (
            f"{1_767_600_000 + at}.{rng.randint(0, 9999)},{_side(rng, 'BTCUSDT', 'BTC-26JUN26')}"
            f",{_side(rng, 'Buy', 'Sell')},{_amount(rng)},{rng.randint(1, 10**7) / 100:.2f},ZeroMinusTick"
            f",bb0{at:05x}-a158-5e9d-8f2f-0d7e1c6e2b3a,1.7e+10,0.25,12345.5,0"
        ),
        ref.bybit_trade,
    ),
    "bybit-spot-trades": Kind(
        "BTCUSDT_2026-01-05.csv",
        "id,timestamp,price,volume,side,rpi",
        lambda rng, at: (
            f"{at + 1},{1_767_600_000_000 + at},{rng.randint(1, 10**7) / 100:.2f},{_amount(rng)}"
            f",{_side(rng, 'buy', 'sell')},0"
        ),
        ref.bybit_spot_trade,
        symbol="BTCUSDT",
    ),
    "okx-trades": Kind(
        "BTC-USDT-SWAP-trades-2026-01-05.csv",
        "instrument_name,trade_id,side,price,size,created_time,source",
        lambda rng, at: (
            f"BTC-USDT-SWAP,{4_000_000_000 + at},{_side(rng, 'buy', 'sell')},{rng.randint(1, 10**6) / 10}"
            f",{_side(rng, '1.772e-05', '0.2', '17')},{1_767_600_000_000 + at},0"
        ),
        ref.okx_trade,
    ),
    "okx-trades-zh": Kind(
        "BTC-USDT-trades-2023-01-05.csv",
        "trade_id/交易id,side/交易方向,size/数量,price/价格,created_time/成交时间",
        lambda rng, at: f"{7_000_000 + at},{_side(rng, 'BUY', 'sell')},0.00527188,84760.0,{1_672_900_000_000 + at}",
        ref.okx_trade,
        encoding="gb18030",
        symbol="BTC-USDT",
    ),
    "coinapi-trades": Kind(
        "T-TRADES/D-20260105/E-BINANCE/IDDI-1+SC-BINANCE_SPOT_BTC_USDT+S-BTCUSDT.csv",
        "time_exchange;time_coinapi;guid;price;base_amount;taker_side;id_exch_int",
        lambda rng, at: (
            f"{_side(rng, '23:59:59.9990000', '00:00:00.0010000') if at < 9 else f'{_ms(rng, at)}0001'}"
            f";00:00:0{at % 10}.1230001;5caec0c2-09f0-4232-8601-{at:012x};{rng.randint(1, 10**7) / 100};{_amount(rng)}"
            f";{_side(rng, 'BUY', 'SELL', 'BUY_ESTIMATED', 'SELL_ESTIMATED', 'UNKNOWN')};{at}"
            if at < 9
            else f"{_ms(rng, at)}0001;{9 + at // 3600 % 12:02}:{at // 60 % 60:02}:{at % 60:02}.9990001"
            f";5caec0c2-09f0-4232-8601-{at:012x};{rng.randint(1, 10**7) / 100};{_amount(rng)};BUY;{at}"
        ),
        ref.coinapi_trade,
        delimiter=";",
        symbol="BINANCE_SPOT_BTC_USDT",
    ),
    "coinapi-quotes": Kind(
        "T-QUOTES/D-2026010500/E-KRAKEN/IDDI-2+SC-KRAKEN_SPOT_BTC_USD+S-XBTUSD.csv",
        "id_site_coinapi;time_exchange;time_coinapi;ask_px;ask_sx;bid_px;bid_sx",
        lambda rng, at: (
            f"x;2026-01-05T{_ms(rng, at)}0000;2026-01-05T{_ms(rng, at)}0001"
            f";{_side(rng, ';', f'{rng.randint(1, 999)}.5;{_amount(rng)}')};{rng.randint(1, 999)};{_amount(rng)}"
        ),
        ref.coinapi_quote,
        delimiter=";",
        symbol="KRAKEN_SPOT_BTC_USD",
    ),
    "coinapi-book": Kind(
        "T-LIMITBOOK_FULL/D-20260105/E-BINANCE/IDDI-1+SC-BINANCE_SPOT_BTC_USDT+S-BTCUSDT.csv",
        "time_exchange;time_coinapi;is_buy;update_type;entry_px;entry_sx;order_id",
        _coinapi_level,
        ref.coinapi_book,
        keeps=True,
        ends=True,
        delimiter=";",
        symbol="BINANCE_SPOT_BTC_USDT",
    ),
    "twse-snapshots": Kind(
        "dsp20260105",
        "code|time|remark|trend|match|limit|price|volume|bid_ticks|bid_limit|"
        + "|".join(f"bid{level}|bid_lots{level}" for level in range(1, 6))
        + "|ask_ticks|ask_limit|"
        + "|".join(f"ask{level}|ask_lots{level}" for level in range(1, 6))
        + "|date|staff",
        _twse_line,
        ref.twse,
        keeps=True,
        header=False,
        delimiter="|",
        widths=(6, 12, 1, 1, 1, 1, 6, 8, 1, 1, *(6, 8) * 5, 1, 1, *(6, 8) * 5, 8, 2),
    ),
    "b3-trades": Kind(
        "05-01-2026_NEGOCIOSAVISTA.txt",
        "DataReferencia;CodigoInstrumento;AcaoAtualizacao;PrecoNegocio;QuantidadeNegociada;HoraFechamento;"
        "CodigoIdentificadorNegocio;TipoSessaoPregao;DataNegocio;CodigoParticipanteComprador;"
        "CodigoParticipanteVendedor",
        lambda rng, at: (
            f"2026-01-05;{_side(rng, 'PETR4', 'WINV26')};{_side(rng, '0', '0', '2')};{rng.randint(1, 99999)},"
            f"{rng.randint(0, 999):03};{rng.randint(1, 9999)};{_hms(rng, False).zfill(9)};{10 * at + 10};1;"
            f"2026-01-0{_side(rng, '2', '5')};3;23"
        ),
        ref.b3_trade,
        delimiter=";",
    ),
    "finam-ticks": Kind(
        "SPFB.Si_260105_260105.txt",
        "<TICKER>,<PER>,<DATE>,<TIME>,<LAST>,<VOL>",
        lambda rng, at: (
            f"SPFB.Si,0,2026010{5 + at % 3},{_hms(rng, False).zfill(9)[:6]},{rng.randint(1, 99999)}.000000000,{at}"
        ),
        ref.finam_trade,
    ),
    "mt5-bars": Kind(
        "EURUSD_M5_202601050000_202601072359.csv",
        "<DATE>\t<TIME>\t<OPEN>\t<HIGH>\t<LOW>\t<CLOSE>\t<TICKVOL>\t<VOL>\t<SPREAD>",
        lambda rng, at: (
            f"2026.0{_side(rng, '1', '7')}.05\t{at // 12 % 24:02}:{at % 12 * 5:02}:00\t"
            + _bar_line(rng).replace(",", "\t")
            + f"\t{at}\t{_side(rng, '0', str(rng.randint(1, 10**9)))}\t15"
        ),
        ref.mt5_bar,
        delimiter="\t",
        symbol="EURUSD",
        options={"zone": "Europe/Athens"},
    ),
    "finam-bars": Kind(
        "SBER_260105_260107.txt",
        "<TICKER>,<PER>,<DATE>,<TIME>,<OPEN>,<HIGH>,<LOW>,<CLOSE>,<VOL>",
        lambda rng, at: (
            f"SBER,{_side(rng, '1', '5', '10', '15', '30', '60', 'D')},2026010{5 + at % 3},{10 + at // 60 % 9}"
            f"{at % 60:02}00,{_bar_line(rng)},{rng.randint(0, 10**7)}"
        ),
        ref.finam_bar,
        options={"profile": "finam-bars"},
    ),
    "moex-iss-trades": Kind(
        "trades.csv",
        "TRADENO;TRADETIME;BOARDID;SECID;PRICE;QUANTITY;VALUE;PERIOD;TRADETIME_GRP;SYSTIME;BUYSELL;DECIMALS;"
        "TRADINGSESSION;TRADEDATE;TRADE_SESSION_DATE",
        lambda rng, at: (
            f"{10**10 + at};{10 + at // 3600:02}:{at // 60 % 60:02}:{at % 60:02};TQBR;{_side(rng, 'SBER', 'GAZP')};"
            f"{rng.randint(1, 99999) / 100};{rng.randint(1, 999)};1;N;1000;2026-01-05 10:00:00;"
            f"{_side(rng, 'B', 'S', '')};2;1;2026-01-05;2026-01-05"
        ),
        ref.moex_iss_trade,
        delimiter=";",
        above="trades\n\n",
        footer="\ndataversion\n\ndata_version;seqnum\n7;20260105\n",
    ),
    "moex-deals": Kind(
        "2026-01-05_FT.csv",
        "#SYMBOL,SYSTEM,MOMENT,ID_DEAL,PRICE_DEAL,VOLUME,OPEN_POS,DIRECTION",
        lambda rng, at: (
            f"SiH6,F,20260105{_hms(rng, False).zfill(9)},{1_850_000_000_000_000_000 + at},{rng.randint(1, 99999)}.00000"
            f",{rng.randint(1, 99)},{10**6 + at},{_side(rng, 'B', 'S', '')}"
        ),
        ref.moex_deal,
    ),
    "taifex-trades": Kind(
        "Daily_2026_01_05.csv",
        "成交日期,商品代號,到期月份(週別),成交時間,成交價格,成交數量(B+S),近月價格,遠月價格,開盤集合競價",
        lambda rng, at: (
            f"2026010{5 + at % 2},{_side(rng, 'TX     ', 'MTX    ')},{_side(rng, '202601     ', '202601/202602')}"
            f",{_hms(rng, False).zfill(9)[:6]},{rng.randint(-99, 30000)},{2 * rng.randint(1, 99)},-,-"
            f",{_side(rng, '*', ' ')}"
        ),
        ref.taifex_trade,
        encoding="big5",
    ),
    "quantquote-bars": Kind(
        "allstocks_20260105/table_aapl.csv",
        "date,time,open,high,low,close,volume,splits,earnings,dividends",
        lambda rng, at: (
            f"20260105,{400 + at // 60 * 100 + at % 60},{_bar_line(rng)},{rng.randint(1, 10**7) / 1000},1,0,0"
        ),
        ref.quantquote_bar,
        header=False,
        symbol="AAPL",
    ),
    "firstrate-bars": Kind(
        "AAPL_full_5min_adjsplitdiv.txt",
        "time,open,high,low,close,volume",
        lambda rng, at: (
            f"2026-0{_side(rng, '1', '7')}-06 {4 + at // 12 % 12:02}:{at % 12 * 5:02}:00,{_bar_line(rng)}"
            f",{rng.randint(0, 9999)}"
        ),
        ref.firstrate_bar,
        header=False,
        symbol="AAPL",
    ),
    "kibot-bars": Kind(
        "kibot/1min/IBM.txt",
        "date,time,open,high,low,close,volume",
        lambda rng, at: f"0{_side(rng, '1', '7')}/06/2026,{9 + at // 60 % 6:02}:{at % 60:02},{_bar_line(rng)},{at}",
        ref.kibot_bar,
        header=False,
        symbol="IBM",
    ),
    "kibot-ticks": Kind(
        "IVE_tickbidask.txt",
        "date,time,price,bid,ask,size",
        lambda rng, at: (
            f"01/06/2026,{_ms(rng, at)[: _side(rng, 8, 12)]},35.{rng.randint(0, 99)},{_side(rng, '35.31,35.6', '0,0')}"
            f",{rng.randint(1, 999)}"
        ),
        ref.kibot_tick,
        header=False,
        symbol="IVE",
    ),
    "ctp-snapshots": Kind("20260109.csv", _CTP_TITLES, lambda _, at: _CTP[at], ref.ctp, keeps=True),
}


def _in_other_words(name: str, header: str) -> Kind:
    """The same file in Chinese, with other names for its columns."""
    kind, other = KINDS[name], replace(KINDS[name], titles=header, encoding="gb18030", file="20231205.csv")

    def tick(row: Row) -> Tick | list[Tick]:
        return kind.tick(dict(zip(kind.columns, (row[column] for column in other.columns), strict=True)))

    return replace(other, tick=tick)


KINDS |= {
    "binance-trades futures without a header": replace(
        KINDS["binance-trades futures"], file="ETHUSDT-trades-2020-01-01.csv", header=False
    ),
    "databento-mbo in units of 1e-9": replace(
        KINDS["databento-mbo"], line=lambda rng, at: _databento_line(rng, at, orders=True, decimals=False)
    ),
    "databento-books in units of 1e-9": replace(
        KINDS["databento-books"], line=lambda rng, at: _databento_line(rng, at, decimals=False, levels=3)
    ),
    "szse-orders in Chinese": replace(
        KINDS["szse-orders"],
        titles="频道代码,证券代码,委托时间,委托索引,委托价格,委托数量,买卖方向,委托类别",
        encoding="gb18030",
        trailing=False,
    ),
    "szse-trades in Chinese": _in_other_words(
        "szse-trades",
        "频道代码,消息记录号,行情类别,买方委托索引,卖方委托索引,证券代码,证券代码源,成交价格,成交数量,成交类别,成交时间",
    ),
    "sse-trades in Chinese": _in_other_words(
        "sse-trades",
        "数据状态,成交序号,频道代码,证券代码,成交时间,成交价格,成交数量,成交金额,买方订单号,卖方订单号,内外盘标志",
    ),
    "sse-orders in Chinese": _in_other_words(
        "sse-orders", "数据状态,委托序号,频道代码,证券代码,委托时间,订单类型,原始订单号,委托价格,委托数量,委托标识"
    ),
}


def made_up(name: str, lines: int, seed: int = 1) -> list[list[str]]:
    """The cells of so many lines, which are the same for the same seed; one in quotes that holds a comma is two."""
    rng, kind = random.Random(f"{name} {seed}"), KINDS[name]
    return [kind.line(rng, at).split(kind.delimiter) for at in range(lines)]


def write_made_up(folder: Path, name: str, lines: int | list[list[str]]) -> Path:
    """So many lines, or those, as a file under the name of its kind."""
    path = folder / KINDS[name].file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(ref.text_of(KINDS[name], made_up(name, lines) if isinstance(lines, int) else lines))
    return path
