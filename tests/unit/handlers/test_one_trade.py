"""One trade is one trade: in every schema and dialect, by every handler, whatever the flags and actions around it."""

from __future__ import annotations

import itertools
import random
import struct
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import strand
from strand import UNDEF_PRICE, feeds, testing
from strand.errors import ConfigurationError
from strand.feeds import Flags
from strand.feeds.merge.feeds import merge_feeds
from strand.feeds.write.conversion import convert
from strand.ticks import KIND_ORDER, KIND_QUOTE, KIND_TRADE
from tests.support.dbn_reference import ALL_DAYS, NOON, by_library, mbo, metadata, record

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


def table_of(data: bytes, schema: str) -> dict[str, list[Any]]:
    """The columns of Databento's tables, from what its library reads."""
    _, levels, consolidated = SCHEMAS[schema]
    columns = ["ts_recv", "ts_event", "rtype", "publisher_id", "instrument_id", "action", "side"]
    columns += [] if consolidated or schema == "mbo" else ["depth"]
    columns += ["price", "size", "flags", "ts_in_delta"]
    columns += ["order_id"] if schema == "mbo" else []
    columns += [] if consolidated else ["sequence"]
    records = by_library(data)
    table: dict[str, list[Any]] = {name: [getattr(found, name) for found in records] for name in columns}
    for name, plain in (("rtype", int), ("flags", int), ("action", str), ("side", str)):
        table[name] = [plain(value) for value in table[name]]
    for level, (side, what) in itertools.product(range(levels), itertools.product(("bid", "ask"), ("px", "sz"))):
        table[f"{side}_{what}_{level:02}"] = [getattr(found.levels[level], f"{side}_{what}") for found in records]
    return table | {"symbol": ["ES"] * len(records)}


def write_csv(path: Path, table: dict[str, list[Any]]) -> None:
    def text(name: str, value: Any) -> str:
        return "" if "p" in name and value == UNDEF_PRICE else str(value)

    rows = zip(*([text(name, value) for value in values] for name, values in table.items()), strict=True)
    path.write_text("\n".join([",".join(table), *map(",".join, rows)]) + "\n")


def write_parquet(path: Path, table: dict[str, list[Any]], *, fixed: bool, pretty: bool) -> None:
    """As ``DBNStore.to_parquet`` lays it out by its options ``price_type`` and ``pretty_ts``."""
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    columns: dict[str, Any] = {}
    for name, values in table.items():
        if name == "price" or "_px_" in name:
            floats = [float("nan") if value == UNDEF_PRICE else value / 1e9 for value in values]
            columns[name] = pa.array(values, pa.int64()) if fixed else pa.array(floats, pa.float64())
        elif name.startswith("ts_") and name != "ts_in_delta":
            ns = pa.array(values, pa.uint64())
            columns[name] = ns.cast(pa.int64()).cast(pa.timestamp("ns", "UTC")) if pretty else ns
        elif isinstance(values[0], str):
            columns[name] = pa.array(values, pa.large_string())
        else:
            kind = {"order_id": pa.uint64(), "rtype": pa.uint8(), "flags": pa.uint8(), "depth": pa.uint8()}
            columns[name] = pa.array(values, kind.get(name, pa.uint32() if name != "ts_in_delta" else pa.int32()))
    parquet.write_table(pa.table(columns), path)


DIALECTS = ("dbn", "csv", "parquet", "fixed parquet", "parquet of ns", "own parquet", "own npz")


def written(folder: Path, schema: str, dialect: str, data: bytes) -> Path:
    table = table_of(data, schema)
    source = folder / f"day.{schema}.dbn"
    source.write_bytes(data)
    if dialect == "dbn":
        return source
    if dialect == "csv":
        write_csv(folder / "day.csv", table)
        return folder / "day.csv"
    if dialect.startswith("own"):
        path = folder / f"own.{dialect.split()[1]}"
        convert([source], path)
        return path
    write_parquet(folder / "day.parquet", table, fixed="fixed" in dialect, pretty="ns" not in dialect)
    return folder / "day.parquet"


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


@pytest.mark.parametrize(("version", "dialect"), [(1, "dbn"), (2, "dbn"), *((3, dialect) for dialect in DIALECTS)])
@pytest.mark.parametrize("schema", SCHEMAS)
def test_each_t_record_is_one_trade_in_every_schema_and_dialect(
    tmp_path: Path, schema: str, version: int, dialect: str
) -> None:
    data = file_of(schema, version)
    path = written(tmp_path, schema, dialect, data)
    priced = [found for found in trades_in(data) if found.price != UNDEF_PRICE]
    expected = len(priced), sum(found.size for found in priced)
    assert expected[0] > 10
    builtin = [strand.vwap(), strand.trades(), strand.trade_stats(), strand.bars("10s"), strand.bars(ticks=7)]
    builtin.append(strand.depth())
    if schema == "mbo":
        builtin.append(strand.book())
    for handler in [*builtin, strand.vwap("10s"), strand.trade_stats("10s"), *own()]:
        assert counted(path, handler) == expected, handler
    prices = strand.replay(path, strand.volatility(ticks=1), workers=0).rows.to_numpy()["prices"].sum()
    assert prices == len(priced)
    if schema not in ("mbo", "trades"):
        met = strand.replay(path, strand.spread(), workers=0).rows.to_numpy()
        assert int((met["trades"] + met["unmatched"]).sum()) == len(trades_in(data))


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
    with pytest.raises(ConfigurationError, match="one bit of their flags has two meanings"):
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
