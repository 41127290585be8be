"""One trade is one trade: in every schema and dialect, by every handler, whatever the flags and actions around it."""

from __future__ import annotations

import random
import struct
from itertools import pairwise
from pathlib import Path
from typing import Any

import measure_reference as measures
import numpy as np
import numpy.typing as npt
import pytest
from databento_tables import DIALECTS, written
from dbn_reference import ALL_DAYS, NOON, by_library, mbo, metadata, record
from measure_reference import Top

import strand
from strand import UNDEF_PRICE, feeds, testing
from strand.errors import ConfigurationError
from strand.feeds import Flags
from strand.feeds.merge.feeds import merge_feeds
from strand.ticks import KIND_ORDER, KIND_QUOTE, KIND_TRADE

dbn = pytest.importorskip("databento_dbn")

#: The type of a schema's records, how many levels each has, and whether it is consolidated.
SCHEMAS = {
    "trades": (0x00, 0, False),
    "mbp-1": (0x01, 1, False),
    "tbbo": (0x01, 1, False),
    "mbp-10": (0x0A, 10, False),
    "cmbp-1": (0xB1, 1, True),
    "tcbbo": (0xC2, 1, True),
    "mbo": (0xA0, 0, False),
}
#: Schemas that sample a book, and the type of their records.
SAMPLES = {"bbo-1s": 0xC3, "bbo-1m": 0xC4, "cbbo-1s": 0xC0, "cbbo-1m": 0xC1}
RECORDS = 120


def file_of(schema: str, version: int) -> bytes:
    """Records with every action, flags of all bits and odd prices and sizes."""
    rng = random.Random(f"{schema} {version}")
    rtype, levels, consolidated = SCHEMAS[schema]
    only_trades = schema in ("trades", "tbbo", "tcbbo")
    found = metadata(version, {"ES": [(*ALL_DAYS, "7")]}, schema=dbn.Schema.from_str(schema))
    for at in range(RECORDS):
        action = b"T" if only_trades else rng.choice([b"A", b"C", b"M", b"R", b"T", b"T", b"T", b"F", b"N"])
        side, flags, size = rng.choice([b"A", b"B", b"N"]), rng.randrange(256), rng.choice([1, 2, 5, 900])
        price = rng.choice([UNDEF_PRICE, 100 * 10**9]) if at % 9 == 0 else rng.randrange(90 * 10**9, 110 * 10**9)
        time = NOON + at * 10**9
        if schema == "mbo":
            order = {"order": at, "price": price, "size": size, "flags": flags}
            found += mbo(**order, action=action, side=side, received=time, event=time - 5, sequence=at)
            continue
        body = struct.pack("<qIccBBQiI", price, size, action, side, flags, 0, time, 1, 0 if consolidated else at)
        for level in range(levels):
            body += struct.pack("<qqIIII", 10**11 - level, 10**11 + level + 1, 3 + level, 4 + level, 1, 1)
        found += record(rtype, body, event=time - 5)
    return found


def trades_in(data: bytes) -> list[Any]:
    """Plain Python's trades of what databento's own library reads."""
    return [found for found in by_library(data) if str(found.action) == "T"]


@strand.handler(on="trade", state=[("trades", "i8"), ("volume", "i8")])
def compiled(row: Any, trade: Any) -> None:
    row.trades += 1
    row.volume += trade.size


@strand.batch_handler(on="trade", state=[("trades", "i8"), ("volume", "i8")])
def batch(symbol: str, trades: Any, row: Any) -> None:
    row["trades"] += len(trades)
    row["volume"] += trades["size"].sum()


class Object:
    def on_start(self, symbol: Any) -> None:
        self.row = symbol.row

    def on_trade(self, trade: Any) -> None:
        self.row["trades"] += 1
        self.row["volume"] += trade.size


def own() -> list[Any]:
    return [compiled, batch, strand.object_handler(Object, state=[("trades", "i8"), ("volume", "i8")])]


def counted(path: Any, handler: Any, **options: Any) -> tuple[int, int]:
    """Trades and volume by a handler's rows, or by the bars that it emits."""
    result = strand.replay(path, handler, workers=0, **options)
    if "bars" in result.outputs:
        bars = np.asarray(result.outputs["bars"])
        return int(bars["trades"].sum()), int(bars["volume"].sum())
    rows = result.rows.to_numpy()
    return int(rows["trades"].sum()), int(rows["volume"].sum())


@pytest.mark.cells(1)
@pytest.mark.parametrize(("version", "dialect"), [(1, "dbn"), (2, "dbn"), *((3, dialect) for dialect in DIALECTS)])
@pytest.mark.parametrize("schema", SCHEMAS)
def test_each_t_record_is_one_trade_in_every_schema_and_dialect(
    tmp_path: Path, schema: str, version: int, dialect: str
) -> None:
    data = file_of(schema, version)
    path = written(tmp_path, dialect, data, {7: "ES"})
    priced = [found for found in trades_in(data) if found.price != UNDEF_PRICE]
    expected = len(priced), sum(found.size for found in priced)
    assert expected[0] > 10
    handlers = [strand.trade_stats(), strand.bars(ticks=7)]
    if dialect == "dbn":  # the ticks of the others are the same ones
        handlers += [strand.vwap(), strand.trades(), strand.bars("10s"), strand.depth()]
        handlers += [strand.vwap("10s"), strand.trade_stats("10s"), *own()]
        handlers += [strand.book()] if schema == "mbo" else []
    for handler in handlers:
        assert counted(path, handler) == expected, handler
    prices = strand.replay(path, strand.volatility(ticks=1), workers=0).rows.to_numpy()["prices"].sum()
    assert prices == len(priced)
    if schema not in ("mbo", "trades"):
        met = strand.replay(path, strand.spread(), workers=0).rows.to_numpy()
        assert int((met["trades"] + met["unmatched"]).sum()) == len(trades_in(data))


# ---- quotes


def quotes_file(schema: str) -> bytes:
    """Views of books with every action, ends of events by flag, empty sides, repeated and crossed tops."""
    rng = random.Random(schema)
    found = metadata(3, {"ES": [(*ALL_DAYS, "7")]}, schema=dbn.Schema.from_str(schema))
    bid, ask = 100 * 10**9, 101 * 10**9
    for at in range(2 * RECORDS):
        bid, ask = bid + rng.choice([0, 0, 1, -1]) * 10**8, ask + rng.choice([0, 0, 1, -1]) * 10**8
        sides = rng.choice([0, bid, bid, bid, bid]) or UNDEF_PRICE, rng.choice([0, ask, ask, ask, ask]) or UNDEF_PRICE
        sizes = [0 if price == UNDEF_PRICE else rng.choice([3, 4, 5]) for price in sides]
        time, flags = NOON + at * 10**9 + rng.randrange(10**9), rng.choice([0, 128])
        if schema in SAMPLES:
            body = struct.pack("<qIxcBxQ4xI", ask, 2, b"B", flags, time, at)
            rtype, levels = SAMPLES[schema], 1
        else:
            rtype, levels, _ = SCHEMAS[schema]
            action = b"T" if schema in ("tbbo", "tcbbo") else rng.choice([b"A", b"C", b"M", b"T", b"T"])
            body = struct.pack("<qIccBBQiI", ask, rng.choice([1, 2]), action, b"B", flags, 0, time, 1, at)
        body += struct.pack("<qqIIII", *sides, *sizes, 1, 1)
        for level in range(1, levels):
            body += struct.pack("<qqIIII", bid - level * 10**9, ask + level * 10**9, 7, 7, 1, 1)
        found += record(rtype, body, event=time - 5)
    return found


def tops_of(records: list[Any]) -> tuple[list[tuple[int, Top]], list[tuple[int, int, Top]], int, int]:
    """The changes of the top at ends of events, the trades with the top before each, those that find no sound one, and
    the time of the last end."""
    changes: list[tuple[int, Top]] = []
    trades: list[tuple[int, int, Top]] = []
    unmatched = end = 0
    top = Top()
    for found in records:
        level, action = found.levels[0], str(getattr(found, "action", "N"))
        bid = (None, 0) if level.bid_px == UNDEF_PRICE else (level.bid_px, level.bid_sz)
        ask = (None, 0) if level.ask_px == UNDEF_PRICE else (level.ask_px, level.ask_sz)
        seen = Top(*bid, *ask)
        if int(found.flags) & 128 or action == "T" or not hasattr(found, "action"):
            if seen != top or not changes:
                changes.append((found.ts_recv, seen))
            top, end = seen, found.ts_recv
        if action == "T":
            if top.sound:
                trades.append((found.price, found.size, top))
            else:
                unmatched += 1
    return changes, trades, unmatched, end


@pytest.mark.cells(1)
@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("schema", [name for name in SCHEMAS if SCHEMAS[name][1]] + list(SAMPLES))
def test_quotes_are_the_views_at_ends_of_events_in_every_schema_and_dialect(
    tmp_path: Path, schema: str, dialect: str
) -> None:
    data = quotes_file(schema)
    path = written(tmp_path, dialect, data, {7: "ES"})
    changes, trades, unmatched, end = tops_of(by_library(data))
    assert len(changes) > 50
    bbo = np.asarray(strand.replay(path, strand.bbo(), workers=0).outputs["bbo"])
    plain = [(time, *(UNDEF_PRICE if p is None else p for p in (top.bid, top.ask)), top.bid_size, top.ask_size)
             for time, top in changes]  # fmt: skip
    assert [tuple(row) for row in bbo[["ts", "bid", "ask", "bid_size", "ask_size"]].tolist()] == plain
    row = strand.replay(path, strand.spread(), workers=0).rows["ES"]
    total, quoted, relative = measures.quoted(changes, end)
    assert (row["quoted_ns"], row["trades"], row["unmatched"]) == (total, len(trades), unmatched)
    assert (row["quoted"], row["relative"]) == pytest.approx((quoted, relative), rel=1e-12)
    if trades:
        assert (row["effective"], row["effective_mean"]) == pytest.approx(measures.effective(trades), rel=1e-12)
    row = strand.replay(path, strand.imbalance(), workers=0).rows["ES"]
    flows = [measures.order_flow(was, now) for (_, was), (_, now) in pairwise(changes)]
    assert row["ofi"] == sum(flows)
    weights = [(measures.queue(top), ns) for top, ns in measures.spans(changes, end, None)]
    sound = [(value, ns) for value, ns in weights if value is not None]
    assert row["queue_mean"] == pytest.approx(
        float(sum(value * ns for value, ns in sound) / sum(ns for _, ns in sound))
    )


# ---- flags have their meaning by format


def test_a_bit_means_what_its_feed_says() -> None:
    ticks = [{"symbol": "X", "price": 10, "size": 1, "flags": bit} for bit in (0, 1, 4, 128)]
    for flags, crosses, trades in (
        (Flags(), True, 4), (Flags(unprinted=1), True, 3), (Flags(unprinted=128), True, 3),
        (Flags(cross=4), True, 4), (Flags(cross=4), False, 3), (Flags(unprinted=4, cross=1), False, 2),
    ):  # fmt: skip
        for handler in (strand.vwap(crosses=crosses), strand.bars("1s", crosses=crosses)):
            assert counted(testing.feed(ticks, flags=flags), handler)[0] == trades
        assert not crosses or counted(testing.feed(ticks, flags=flags), strand.depth())[0] == trades
        if crosses:
            assert [counted(testing.feed(ticks, flags=flags), handler)[0] for handler in own()] == [trades] * 3


def test_a_quote_that_keeps_the_action_of_a_trade_is_none() -> None:
    quote = {"symbol": "X", "bid": 9, "ask": 11, "bid_size": 5, "ask_size": 5, "action": "T"}
    ticks = [quote, {"symbol": "X", "price": 10, "size": 3}, {**quote, "action": "F"}]
    for handler in (strand.vwap(), strand.trades(), strand.trade_stats(), strand.bars("1s"), strand.depth(), *own()):
        assert counted(testing.feed(ticks), handler) == (1, 3)


def test_merged_feeds_keep_all_flags_unless_a_bit_has_two_meanings() -> None:
    def feed(flags: Flags, bit: int) -> Any:
        return testing.feed([{"symbol": "X", "time": 5, "price": 10, "size": 1, "flags": bit}], flags=flags)

    pair = merge_feeds([feed(Flags(unprinted=1), 1), feed(Flags(cross=4), 4)])
    assert pair.info.flags == Flags(unprinted=1, cross=4)
    assert counted(pair, strand.vwap()) == (1, 1)
    pair = merge_feeds([feed(Flags(unprinted=1), 1), feed(Flags(other=1), 1)])
    assert pair.info.flags is None
    with pytest.raises(ConfigurationError, match=r"flags: .*one bit of them has two meanings"):
        strand.replay(pair, "vwap")


def test_a_feed_without_ends_of_events_ends_one_at_each_tick_of_a_merge() -> None:
    ends = testing.feed([{"symbol": "X", "time": 1, "price": 10, "size": 1}], flags=Flags(last=128))
    each = testing.feed([{"symbol": "Y", "time": 2, "price": 10, "size": 1}])
    with merge_feeds([ends, each]) as merged:
        assert merged.to_numpy()["flags"].tolist() == [0, 128]
        assert merged.info.flags is not None
        assert merged.info.flags.last == 128


EVENTS = np.dtype(
    [("ev", "<u8"), ("exch_ts", "<i8"), ("local_ts", "<i8"), ("px", "<f8"), ("qty", "<f8"), ("order_id", "<u8"),
     ("ival", "<i8"), ("fval", "<f8")]
)  # fmt: skip
BOTH = 1 << 31 | 1 << 30


@pytest.mark.parametrize(
    ("numbers", "trades"),
    [([10, 13, 13], 2), ([10, 2, 13, 11], 1), ([1, 2, 2], 2), ([1, 5, 13], 1)],
    ids=["fills alone", "a fill that a trade reports", "trades", "a fill beside levels"],
)
def test_hftbacktests_fills_count_where_no_trade_reports_them(tmp_path: Path, numbers: list[int], trades: int) -> None:
    events: npt.NDArray[Any] = np.zeros(len(numbers), EVENTS)
    events["ev"] = [BOTH | number for number in numbers]
    events["exch_ts"] = events["local_ts"] = np.arange(len(numbers)) + NOON
    events["px"], events["qty"] = 10.5, 3
    np.savez(tmp_path / "x.npz", data=events)
    for handler in (strand.vwap(), strand.bars("1s"), strand.depth(), *own()):
        assert counted(tmp_path / "x.npz", handler) == (trades, 3 * trades)


# ---- trades without sizes, and of size 0


def test_trades_of_a_feed_without_sizes_count_with_size_0() -> None:
    ticks = [{"symbol": "X", "time": (at + 1) * 10**9, "price": 10 + at % 4, "size": 0} for at in range(8)]

    def feed() -> Any:
        return testing.feed(ticks, has_sizes=False)

    for handler in (strand.vwap(), strand.trades(), strand.trade_stats(), strand.bars("4s"), strand.depth(), *own()):
        assert counted(feed(), handler) == (8, 0), handler
    bars = strand.replay(feed(), strand.bars(ticks=4)).outputs["bars"]
    assert [(bar["high"], bar["volume"], bar["vwap"]) for bar in bars] == [(13 * 10**9, 0, UNDEF_PRICE)] * 2
    vwap = strand.replay(feed(), "vwap").rows
    assert np.isnan(vwap["X"]["vwap"])
    assert vwap.to_arrow()["vwap"].to_pylist() == [None]
    assert strand.replay(feed(), strand.volatility(ticks=1)).rows["X"]["prices"] == 8
    with pytest.raises(ConfigurationError, match="volume: the feed's trades have no sizes"):
        strand.replay(feed(), strand.bars(volume=5))


def test_a_trade_of_size_0_is_none_where_trades_have_sizes_and_is_warned_of() -> None:
    ticks = [{"symbol": "X", "time": at + 1, "price": 10, "size": size} for at, size in enumerate((3, 0, 4))]
    for handler in (strand.vwap(), strand.trades(), strand.trade_stats(), strand.bars("4s"), strand.depth(), *own()):
        assert counted(testing.feed(ticks), handler) == (2, 7), handler
        warnings = {warning.kind: warning for warning in strand.replay(testing.feed(ticks), handler).warnings}
        assert warnings["trades of size 0"].count == 1
    taken = strand.replay(testing.feed(ticks), strand.bars("4s", zero_sizes="price"))
    assert not taken.warnings


def test_handlers_that_wait_for_trades_say_that_there_are_none() -> None:
    ticks = [{"symbol": "X", "price": 10, "size": 3, "action": "N", "kind": 0}]
    for handler in (strand.vwap(), strand.bars("1s"), *own()):
        (warning,) = strand.replay(testing.feed(ticks), handler).warnings
        assert (warning.kind, warning.count) == ("unusable ticks", 1)
        assert "constants.kind=trade" in warning.cure


@pytest.mark.parametrize("kind", [KIND_ORDER, KIND_TRADE, KIND_QUOTE])
def test_profiles_give_kinds_in_parts(tmp_path: Path, kind: int) -> None:
    word, action = {KIND_ORDER: ("order", b"A"), KIND_TRADE: ("trade", b"T"), KIND_QUOTE: ("quote", b"N")}[kind]
    (tmp_path / "x.csv").write_text("t,p,q\n2026-01-05T10:00:00Z,10,3\n")
    (tmp_path / "x.toml").write_text(
        '[symbol]\nconstant = "X"\n[fields.ts_recv]\ncolumn = "t"\nunit = "stamp"\n'
        f'[[parts]]\n[parts.fields]\nprice = "p"\nsize = "q"\nkind = {{ constant = "{word}" }}\n'
    )
    with feeds.open(tmp_path / "x.csv", profile=tmp_path / "x.toml") as feed:
        (tick,) = feed.to_numpy()
    assert (tick["kind"], tick["action"]) == (kind, action)
