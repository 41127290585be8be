"""Columns of Parquet, numpy files and arrays take the keys of profiles of CSV and JSON, which mean the same."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from reading import ticks_of

import strand
from strand import Dispatcher, feeds
from strand.errors import ConfigurationError, FormatError
from strand.feeds.formats.csv.reader import CsvFeed
from strand.feeds.formats.npy import NpyFeed
from strand.feeds.formats.parquet.reader import ParquetFeed
from strand.feeds.mapping.records import ArrayColumns
from strand.feeds.opening import option_values
from strand.feeds.write.conversion import convert
from strand.ticks import KIND_ORDER, KIND_QUOTE, KIND_TRADE, UNDEF_PRICE

pytestmark = pytest.mark.python


MS = 1_700_000_000_000


ROWS: dict[str, list[Any]] = {
    "when": [MS, MS + 1, MS + 2, MS + 2],
    "px": [101, 0, 99, 12345],
    "qty": [5, 7, 0, 3],
    "way": ["buy", "sell", "buy", "both"],
    "what": ["new", "gone", "deal", "new"],
    "id": [7, 8, 9, 10],
}


def table(path: Path, rows: dict[str, Any] = ROWS) -> Path:
    """Rows as a file, in which a column ``ts`` of whole numbers has times of ns."""
    if "ts" in rows and all(isinstance(value, int) for value in rows["ts"]):
        rows = {**rows, "ts": pa.array(rows["ts"], pa.timestamp("ns", "UTC"))}
    pq.write_table(pa.table(rows), path)
    return path


def read(feed: Any) -> npt.NDArray[Any]:
    with feed:
        return ticks_of(feed)


def own_profile(path: Path, text: str) -> Path:
    path.write_text(f'name = "own"\n{text}')
    return path


RULES: dict[str, Any] = {
    "ts_event": {"column": "when", "unit": "ms"},
    "price": {"column": "px", "unit": "0.01", "zero": "none"},
    "size": {"column": "qty", "unit": "10"},
    "order_id": {"column": ["number", "id"]},
    "side": {"column": "way", "map": {"buy": "B", "sell": "A"}, "otherwise": "N"},
    "action": {"column": "what", "map": {"new": "A", "gone": "C", "deal": "T"}},
    "kind": {"column": "what", "map": {"deal": "trade"}, "otherwise": "order"},
    "flags": {"constant": 3},
    "ref_id": {"column": "matched", "optional": True},
}
WANTED: dict[str, list[Any]] = {
    "ts_event": [ms * 10**6 for ms in ROWS["when"]],
    "price": [1_010_000_000, UNDEF_PRICE, 990_000_000, 123_450_000_000],
    "size": [50, 70, 0, 30],
    "order_id": [7, 8, 9, 10],
    "side": [b"B", b"A", b"B", b"N"],
    "action": [b"A", b"C", b"T", b"A"],
    "kind": [KIND_ORDER, KIND_ORDER, KIND_TRADE, KIND_ORDER],
    "flags": [3] * 4,
    "ref_id": [0] * 4,
}


def records(rows: dict[str, list[Any]] = ROWS) -> npt.NDArray[Any]:
    columns = {name: np.array(values) for name, values in rows.items()}
    made = np.zeros(len(next(iter(columns.values()))), [(name, column.dtype) for name, column in columns.items()])
    for name, column in columns.items():
        made[name] = column
    return made


def profile(folder: Path) -> Path:
    """The same rules as a profile of CSV."""
    lines = ['name = "own"', 'about = "own"', "[symbol]", 'constant = "X"']
    for field, keys in RULES.items():
        lines.append(f"[fields.{field}]")
        for key, value in keys.items():
            if isinstance(value, dict):
                value = "{ " + ", ".join(f'"{text}" = "{stands}"' for text, stands in value.items()) + " }"
            else:
                value = str(value).lower() if isinstance(value, bool) else repr(value).replace("'", '"')
            lines.append(f"{key} = {value}")
    path = folder / "own.toml"
    path.write_text("\n".join(lines))
    return path


def of_csv(folder: Path) -> npt.NDArray[Any]:
    path = folder / "rows.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(ROWS)
        writer.writerows(zip(*ROWS.values(), strict=True))
    return read(CsvFeed(path, profile=profile(folder)))


def of_parquet(folder: Path) -> npt.NDArray[Any]:
    return read(ParquetFeed(table(folder / "rows.parquet"), columns=RULES, symbol="X"))


def of_npy(folder: Path) -> npt.NDArray[Any]:
    np.save(folder / "rows.npy", records())
    return read(NpyFeed(folder / "rows.npy", columns=RULES, symbol="X"))


def of_array(folder: Path) -> npt.NDArray[Any]:
    rows = ROWS | {"key": [0] * 4}
    made: npt.NDArray[Any] = ArrayColumns(RULES | {"instrument_id": "key"}, {}).ticks(records(rows))
    return made


@pytest.mark.parametrize("way", [of_csv, of_parquet, of_npy, of_array])
def test_the_same_rules_make_the_same_ticks_of_all_columns(tmp_path: Path, way: Any) -> None:
    ticks = way(tmp_path)
    assert {field: ticks[field].tolist() for field in WANTED} == WANTED


# ---- one rule for odd values in all readers


def rows_of(way: str, folder: Path, rows: dict[str, list[Any]], fields: dict[str, Any], **also: Any) -> Any:
    """The ticks of rows, with times in ns in ``t``, and what was counted: by a reader of texts, messages or columns."""
    fields = {"ts_event": {"column": "t", "unit": "ns"}, **fields}
    keys = {name: each if isinstance(each, dict) else {"column": each} for name, each in fields.items()}
    path, options = folder / f"rows.{way}", {"symbol": "X", "columns": fields, **also}
    if way == "csv":
        lines = [rows, *zip(*rows.values(), strict=True)]
        path.write_text("".join(",".join(map(str, line)) + "\n" for line in lines))
        said = {
            name: "{" + ", ".join(f"{key} = {json.dumps(one)}" for key, one in each.items()) + "}"
            for name, each in keys.items()
        }
        options = {
            "profile": own_profile(
                folder / "own.toml",
                '[symbol]\nconstant = "X"\n[fields]\n' + "".join(f"{name} = {each}\n" for name, each in said.items()),
            )
        }
    elif way == "jsonl":
        each_row = [dict(zip(rows, values, strict=True)) for values in zip(*rows.values(), strict=True)]
        path.write_text("".join(json.dumps(row) + "\n" for row in each_row))
        kind = {"kind": keys.pop("kind")["constant"]} if "kind" in keys else {}
        options = {"profile": {"message": [{"symbol": {"constant": "X"}, "fields": keys, **kind}]}}
    elif way == "npy":
        np.save(path, records(rows))
    elif way == "parquet":
        pq.write_table(pa.table(rows), path)
    else:
        pa.feather.write_feather(pa.table(rows), path)
    with feeds.open(path, **options) as feed:
        return feed.to_numpy(), feed.statistics()


EVERY = ["csv", "jsonl", "parquet", "feather", "npy"]
TIMES = [MS * 10**6, MS * 10**6 + 1, MS * 10**6 + 2]
ODD: dict[str, Any] = {
    "an id below 0 is none": (
        {"order_id": [-5, 7, -1], "ref_id": [3, -2, 9]}, {"order_id": [0, 7, 0], "ref_id": [3, 0, 9]}, 0,
    ),
    "a sequence below 0 is none": ({"sequence": [-1, 7, 8]}, {"sequence": [0, 7, 8]}, 0),
    "a sequence that no tick holds gives way to the position": (
        {"sequence": [2**40, 2**40 - 1, 2**62]}, {"sequence": [1, 2**40 - 1, 3]}, 2,
    ),
}  # fmt: skip


@pytest.mark.parametrize("way", EVERY)
@pytest.mark.parametrize("odd", ODD)
def test_odd_ids_and_sequences_are_the_same_in_all_readers(tmp_path: Path, way: str, odd: str) -> None:
    pytest.importorskip("pyarrow.feather")
    columns, wanted, left_out = ODD[odd]
    rows = {"t": TIMES, "p": [1.5, 2.5, 3.5], "q": [1, 2, 3], **columns}
    fields = {"price": "p", "size": "q", "kind": {"constant": "trade"}, **{name: name for name in columns}}
    ticks, counts = rows_of(way, tmp_path, rows, fields)
    assert {name: ticks[name].tolist() for name in columns} == wanted
    assert ticks["price"].tolist() == [1_500_000_000, 2_500_000_000, 3_500_000_000]
    assert counts["sequences_left_out"] == left_out


def test_arrays_of_a_dispatcher_warn_of_sequences_that_no_tick_holds() -> None:
    columns = ArrayColumns({"instrument_id": "key", "sequence": "s", "price": "p", "order_id": "o"}, {})
    rows = records({"key": [0, 0], "s": [2**40, 5], "p": [1.5, 2.5], "o": [-1, 3]})
    with pytest.warns(RuntimeWarning, match=r"columns={'sequence': None}.*1 rows from 1 on"):
        ticks = columns.ticks(rows)
    assert (ticks["sequence"].tolist(), ticks["order_id"].tolist()) == ([1, 5], [0, 3])


SIDES: dict[str, Any] = {
    "both by column": ({"b": [1.5, -4.5], "a": [2.5, -1.5]}, {"bid_price": "b", "ask_price": "a"}),
    "an ask for all": ({"b": [1.5, -4.5]}, {"bid_price": "b", "ask_price": {"constant": 3}}),
    "an ask below 0 for all": ({"b": [-4.5, -5.5]}, {"bid_price": "b", "ask_price": {"constant": "-3.25"}}),
    "a bid for all": ({"a": [1.5, 4.5]}, {"bid_price": {"constant": "-0.5"}, "ask_price": "a"}),
    "sizes for all": (
        {"b": [1.5, 0.5], "a": [2.5, 1.5]},
        {"bid_price": "b", "ask_price": "a", "bid_size": {"constant": 3}, "ask_size": {"constant": 4}},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("way", "short"), [*((way, False) for way in EVERY), *((way, True) for way in EVERY[2:])])
@pytest.mark.parametrize("sides", SIDES)
def test_a_side_of_quotes_may_be_a_constant_in_all_readers(tmp_path: Path, way: str, sides: str, short: bool) -> None:
    pytest.importorskip("pyarrow.feather")
    columns, fields = SIDES[sides]
    constants = {name: each["constant"] for name, each in fields.items() if isinstance(each, dict)}
    also: dict[str, Any] = {"constants": constants} if short else {}
    given = {name: each for name, each in fields.items() if not (short and name in constants)}
    kind = {"kind": {"constant": "quote"}} if way == "jsonl" else {}
    ticks, _ = rows_of(way, tmp_path, {"t": TIMES[:2], **columns}, {**given, **kind}, **also)

    def said(side: str) -> list[Any]:
        each = fields.get(side, {"constant": 0})
        return columns[each] if isinstance(each, str) else [each["constant"]] * 2

    asks = ticks["order_id"].view(np.int64)
    for found, side in ((ticks["price"], "bid_price"), (asks, "ask_price")):
        assert found.tolist() == [int(Decimal(str(price)) * 10**9) for price in said(side)]
    assert ticks["size"].tolist() == said("bid_size")
    assert ticks["ref_id"].tolist() == said("ask_size")
    assert set(ticks["kind"].tolist()) == {KIND_QUOTE}
    assert set(ticks["side"].tolist()) == {b"N"}


def test_half_a_quote_and_a_shared_place_are_refused_by_name(tmp_path: Path) -> None:
    path = table(tmp_path / "a.parquet", {"ts": [5], "b": [1.5], "order_id": [7]})
    for constants, words in (
        ({"bid_price": 3}, r"constants\.bid_price: name ask_price too"),
        (
            {"ask_price": 3},
            r"constants: ask_price shares its place in a tick with order_id, which column 'order_id' holds",
        ),
        ({"ask_price": 3, "order_id": 4}, "constants: order_id and ask_price share one place"),
    ):
        with pytest.raises(ConfigurationError, match=words):
            ParquetFeed(
                path, symbol="X", columns={} if "bid_price" in constants else {"bid_price": "b"}, constants=constants
            )


def test_a_dispatcher_takes_them(tmp_path: Path) -> None:
    rows = records(ROWS | {"key": [0] * 4})
    with Dispatcher(["X"], "trade_stats", workers=1, cores=None, feed="plain",
                    columns=RULES | {"instrument_id": "key"}) as dispatcher:  # fmt: skip
        dispatcher.publish(rows)
    assert dispatcher.statistics().handled == 4


def test_a_command_line_says_them_in_text(tmp_path: Path) -> None:
    texts = {
        "columns.ts_event": "when", "columns.ts_event.unit": "ms", "columns.price.unit": "0.01", "columns.price": "px",
        "columns.price.zero": "none", "columns.size.column": "qty", "columns.size.unit": "10", "columns.side": "way",
        "columns.side.map.buy": "B", "columns.side.map.sell": "A", "columns.side.otherwise": "N",
        "columns.ref_id.column": "matched", "columns.ref_id.optional": "true", "columns.order_id": "id",
        "columns.action": "", "columns.flags.constant": "3",
    }  # fmt: skip
    options = option_values(texts)
    path = table(tmp_path / "rows.parquet")
    ticks = read(feeds.open(path, symbol="X", constants={"kind": "trade"}, **options))
    for field in ("ts_event", "price", "size", "side", "ref_id", "order_id", "flags"):
        assert ticks[field].tolist() == WANTED[field], field


@pytest.mark.parametrize(
    ("values", "keys", "wanted"),
    [
        ([1, 2, 1], {"map": {"1": "B", "2": "A"}}, [b"B", b"A", b"B"]),
        ([True, False, True], {"map": {"true": "A", "false": "B"}}, [b"A", b"B", b"A"]),
        (["x", "", "y"], {"map": {"x": "B", "": "N"}, "otherwise": "A"}, [b"B", b"N", b"A"]),
        (["BUY", "s", "Ask"], {}, [b"B", b"A", b"A"]),
    ],
)
def test_a_map_is_of_texts_whole_numbers_and_truths(
    tmp_path: Path, values: list[Any], keys: dict[str, Any], wanted: list[bytes]
) -> None:
    rows = {"ts": [1, 2, 3], "way": values}
    columns = {"side": {"column": "way", **keys}}
    constants = {"kind": "trade"}
    ticks = read(ParquetFeed(table(tmp_path / "a.parquet", rows), columns=columns, constants=constants, symbol="X"))
    assert ticks["side"].tolist() == wanted
    np.save(tmp_path / "a.npy", records(rows))
    ticks = read(NpyFeed(tmp_path / "a.npy", columns=columns, constants=constants, symbol="X", time_unit="ns"))
    assert ticks["side"].tolist() == wanted


def test_dictionaries_and_nulls_are_mapped_too(tmp_path: Path) -> None:
    way = pa.array(["buy", None, "sell", "buy"]).dictionary_encode()
    path = table(tmp_path / "a.parquet", {"ts": [1, 2, 3, 4], "way": way})
    rule = {"column": "way", "map": {"buy": "B", "sell": "A"}}
    with pytest.raises(FormatError, match=r"row 2: column 'way' .*null"):
        read(ParquetFeed(path, columns={"side": rule}, symbol="X"))
    ticks = read(ParquetFeed(path, columns={"side": {**rule, "empty": "none"}}, symbol="X"))
    assert ticks["side"].tolist() == [b"B", b"N", b"A", b"B"]


def test_a_text_that_the_map_lacks_is_a_bad_row(tmp_path: Path) -> None:
    path = table(tmp_path / "a.parquet", {"ts": [1, 2], "way": ["buy", "up"]})
    columns = {"side": {"column": "way", "map": {"buy": "B"}}}
    with pytest.raises(FormatError, match=r"row 2: column 'way' .*up.* is not one of the map's texts"):
        read(ParquetFeed(path, columns=columns, symbol="X"))


def test_kinds_are_words_or_their_numbers(tmp_path: Path) -> None:
    rows = {"ts": [1, 2, 3], "kind": ["quote", "trade", "order"]}
    ticks = read(ParquetFeed(table(tmp_path / "a.parquet", rows), symbol="X"))
    assert ticks["kind"].tolist() == [KIND_QUOTE, KIND_TRADE, KIND_ORDER]
    rows = {"ts": [1, 2], "kind": ["quote", "deal"]}
    with pytest.raises(FormatError, match=r"row 2: column 'kind' .*deal.* is not one of none, order, trade"):
        read(ParquetFeed(table(tmp_path / "b.parquet", rows), symbol="X"))


def test_row_groups_are_passed_over_by_the_times_own_unit(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"at": [1, 2, 3, 4, 5, 6], "price": [1.0] * 6}), path, row_group_size=2)
    columns = {"ts_recv": {"column": "at", "unit": "s"}}
    with feeds.open(path, symbol="X", columns=columns, start=3 * 10**9, end=5 * 10**9) as feed:
        ticks = ticks_of(feed)
        assert ticks["ts_recv"].tolist() == [3 * 10**9, 4 * 10**9]
        assert feed.statistics()["row_groups_passed_over"] == 2


@pytest.mark.parametrize("kind", [pa.float64(), pa.date32(), pa.time64("us"), pa.duration("ns")])
def test_a_column_of_an_unusable_type_is_told_with_what_to_do(tmp_path: Path, kind: Any) -> None:
    bools = pa.nulls(1, pa.bool_())
    pq.write_table(
        pa.table({"ts": pa.nulls(1, kind), "at": np.array([5], "M8[ns]"), "price": [1.5], "px": bools}),
        tmp_path / "a.parquet",
    )

    def said(**columns: Any) -> str:
        with pytest.raises(FormatError) as caught:
            read(ParquetFeed(tmp_path / "a.parquet", symbol="X", columns=columns))
        return str(caught.value)

    cure = "convert it, or name another column by columns={'%s': NAME} (--feed columns.%s=NAME): column "
    assert cure % ("ts_event", "ts_event") + f"'ts' ({kind}) for ts_event is neither a timestamp" in said()
    quote = said(ts_event="at", bid_price="px", ask_price="price")
    assert cure % ("bid_price", "bid_price") + "'px' (bool) for bid_price is not a number" in quote


@pytest.mark.parametrize("values", [[1.5, 2.5], [MS, MS]])
def test_a_map_of_what_has_no_texts_is_refused(tmp_path: Path, values: list[Any]) -> None:
    times = pa.array(values, pa.timestamp("ms")) if values[0] == MS else values
    path = table(tmp_path / "a.parquet", {"ts": [1, 2], "way": times})
    feed = ParquetFeed(path, columns={"side": {"column": "way", "map": {"1": "B"}}}, symbol="X")
    with pytest.raises(FormatError, match="neither text nor a whole number, which a map needs"):
        read(feed)


# ---- what the ticks mean


@pytest.mark.parametrize("column", [[10050, 7], [100.5, 7.25]])
def test_a_second_unit_is_of_whole_numbers_of_sizes_too(tmp_path: Path, column: list[Any]) -> None:
    rule = {"column": "q", "unit": ["1", "0.01"]}
    wanted = [round(value * (1 if isinstance(value, int) else 100)) for value in column]
    path = table(tmp_path / "a.parquet", {"ts": [1, 2], "q": column})
    ticks = read(ParquetFeed(path, columns={"size": rule}, symbol="X", size_unit="0.01"))
    assert ticks["size"].tolist() == wanted
    (tmp_path / "a.csv").write_text("ts,q\n" + "".join(f"{at},{value}\n" for at, value in enumerate(column, 1)))
    own = own_profile(
        tmp_path / "own.toml",
        'size_unit = "0.01"\n[symbol]\nconstant = "X"\n[fields.ts_event]\ncolumn = "ts"\nunit = "ns"\n'
        '[fields.size]\ncolumn = "q"\nunit = ["1", "0.01"]\n',
    )
    assert read(CsvFeed(tmp_path / "a.csv", profile=own))["size"].tolist() == wanted


def test_trades_that_nobody_calls_so_are_a_warning(tmp_path: Path) -> None:
    path = table(tmp_path / "a.parquet", {"ts": [1, 2], "price": [10.0, 11.0], "size": [3, 4]})
    result = strand.replay(path, "vwap", feed_options={"symbol": "X"}, workers=0)
    assert [(w.kind, w.count) for w in result.warnings] == [("unusable ticks", 2)]


def test_orders_of_which_nobody_says_what_they_mean_are_a_warning(tmp_path: Path) -> None:
    """A fill beside the trade that it is of counts twice where it is taken for a plain one."""
    rows: dict[str, list[Any]] = {
        "ts": [1, 2, 3, 4], "price": [10.0, 11.0, 11.0, 11.0], "size": [5, 5, 2, 2], "order_id": [1, 2, 0, 2],
        "action": ["A", "A", "T", "F"], "side": ["B", "A", "B", "A"],
    }  # fmt: skip
    path = table(tmp_path / "a.parquet", rows)
    volume = {"plain": 4, "dbn-orders": 2}
    for ticks, wanted in volume.items():
        options = {"ticks": ticks, "symbol": "X"}
        result = strand.replay(path, "vwap", feed_options=options, workers=0)
        assert (int(result.rows["X"]["volume"]), result.warnings, result.info.ticks) == (wanted, (), ticks)
    result = strand.replay(path, "bbo", feed_options={"ticks": "orders", "symbol": "X"}, workers=0)
    assert int(result.rows["X"]["changes"]) > 0
    unsaid = strand.replay(path, "vwap", feed_options={"symbol": "X"}, workers=0)
    assert [(w.kind, w.count) for w in unsaid.warnings] == [("orders of an unsaid kind", 3)]
    assert "'orders' if fills" in unsaid.warnings[0].cure
    with pytest.raises(
        ConfigurationError,
        match=r"ticks: 'order' is not one of plain, orders, dbn, dbn-orders.*; None: what the file says",
    ):
        ParquetFeed(path, symbol="X", ticks="order")  # type: ignore[arg-type]


# ---- Columns and constants that options choose, and their units


def test_a_unit_is_the_columns_own_beside_the_files(tmp_path: Path) -> None:
    path = table(tmp_path / "a.parquet", {"ts": [5], "bid": [10], "ask": [3.25], "bid_size": [4], "asks": [2]})
    columns = {
        "bid_price": {"column": "bid", "unit": "0.01"},
        "ask_price": "ask",
        "ask_size": {"column": "asks", "unit": "100"},
    }
    with ParquetFeed(path, columns=columns, symbol="X", size_unit="0.1") as feed:
        (ticks,) = feed.batches()
    assert (ticks["price"][0], ticks["order_id"][0]) == (100_000_000, 3_250_000_000)
    assert (ticks["size"][0], ticks["ref_id"][0]) == (40, 2000)
    assert (ticks["kind"][0], ticks["side"][0]) == (KIND_QUOTE, b"N")


def test_a_constant_is_in_the_units_of_its_column(tmp_path: Path) -> None:
    path = table(tmp_path / "a.parquet", {"ts": [5]})
    said: list[tuple[dict[str, Any], dict[str, Any]]] = [
        ({}, {"price": "12.5", "size": 3}),
        ({"price": {"constant": "12.5"}, "size": {"constant": 3}}, {}),
    ]
    units: list[tuple[dict[str, str], int, int]] = [
        ({}, 12_500_000_000, 3),
        ({"price_unit": "0.1"}, 1_250_000_000, 3),
        ({"size_unit": "0.01"}, 12_500_000_000, 300),
    ]
    for options, price, size in units:
        for columns, constants in said:
            feed = ParquetFeed(path, symbol="X", columns=columns, constants=constants, **options)  # type: ignore[arg-type]
            tick = read(feed)[0]
            assert (int(tick["price"]), int(tick["size"])) == (price, size), options


@pytest.mark.parametrize("options", [{}, {"price_unit": "0.01"}])
@pytest.mark.parametrize("price", [[15, 20], [1.25, 2.5]])
def test_a_table_without_a_unit_is_the_columns_name_alone(tmp_path: Path, price: list[Any], options: Any) -> None:
    path = table(tmp_path / "a.parquet", {"ts": [1, 2], "p": price, "q": [3, 4]})
    said: list[dict[str, Any]] = [
        {"price": "p", "size": "q"},
        {"price": {"column": "p"}, "size": {"column": "q"}},
    ]
    one, other = (read(ParquetFeed(path, columns=columns, symbol="X", **options)) for columns in said)
    assert one.tobytes() == other.tobytes()


@pytest.mark.parametrize(
    ("field", "said", "wanted"),
    [
        ("side", "buy", b"B"), ("side", "ASK", b"A"), ("side", "", b"N"), ("side", ord("S"), b"A"),
        ("side", b"B", b"B"),
        ("action", "trade", b"T"), ("action", "Delete", b"C"), ("action", "d", b"C"), ("action", ord("F"), b"F"),
    ],
)  # fmt: skip
def test_a_constant_may_be_what_a_column_may_hold(tmp_path: Path, field: str, said: Any, wanted: bytes) -> None:
    path = table(tmp_path / "a.parquet", {"ts": [5]})
    text = said.decode() if isinstance(said, bytes) else said
    held = table(tmp_path / "held.parquet", {"ts": [5], field: [text]})
    ticks = [
        read(ParquetFeed(path, symbol="X", constants={field: said})),
        read(ParquetFeed(path, symbol="X", columns={field: {"constant": text}})),
        read(ParquetFeed(held, symbol="X")),
    ]
    assert [bytes(tick[field][0]) for tick in ticks] == [wanted] * 3
    assert len({tick.tobytes() for tick in ticks}) == 1
    for wrong in ("buyer", ord("x"), True, 5.5):
        with pytest.raises(ConfigurationError, match=rf"constants\.{field}: .* is not one of A"):
            ParquetFeed(path, symbol="X", constants={field: wrong})


def test_a_whole_price_is_currency_as_a_constant_and_in_a_column(tmp_path: Path) -> None:
    path = table(tmp_path / "a.parquet", {"ts": [5], "px": [100]})
    for columns, price in (
        ({"price": {"constant": 100}}, 100 * 10**9),
        ({"price": {"constant": 100, "unit": "0.01"}}, 10**9),
        ({"price": "px"}, 100 * 10**9),
        ({"price": {"column": "px", "unit": "1e-9"}}, 100),
    ):
        assert read(ParquetFeed(path, symbol="X", columns=columns))["price"][0] == price  # type: ignore[arg-type]


def test_a_sequence_may_be_a_constant_in_every_reader_of_columns(tmp_path: Path) -> None:
    path, array = table(tmp_path / "a.parquet", {"ts": [5]}), tmp_path / "a.npy"
    np.save(array, np.array([(5,)], [("ts", "i8")]))
    (tmp_path / "a.csv").write_text("ts\n5\n")
    profile = tmp_path / "a.toml"
    for given, wanted in ((7, 7), ((1 << 40) - 1, (1 << 40) - 1), (-1, 0)):
        for said in ({"constants": {"sequence": given}}, {"columns": {"sequence": {"constant": given}}}):
            options: dict[str, Any] = {"columns": {}, **said}
            assert read(ParquetFeed(path, symbol="X", **options))["sequence"].tolist() == [wanted]
            assert read(NpyFeed(array, symbol="X", time_unit="ns", **options))["sequence"].tolist() == [wanted]
        rules = 'ts_recv = { column = "ts", unit = "ns" }\nkind = { constant = "quote" }\n'
        profile.write_text(
            f'name = "a"\nsymbol = {{ constant = "X" }}\n[fields]\n{rules}sequence = {{ constant = {given} }}\n'
        )
        with strand.feeds.open(tmp_path / "a.csv", profile=profile) as feed:
            assert feed.to_numpy()["sequence"].tolist() == [wanted]


def test_an_ask_beside_a_price_leaves_price_and_size_where_they_are(tmp_path: Path) -> None:
    path = table(tmp_path / "a.parquet", {"ts": [5], "price": [1.5], "size": [3], "ask": [2.5]})
    for columns, constants, ask in (
        ({"ask_price": "ask"}, {}, 2_500_000_000),
        ({}, {"ask_price": 2.5}, 2_500_000_000),
        ({"ask_size": None}, {}, 0),
        ({"ask_price": None}, {}, 0),
    ):
        ticks = read(ParquetFeed(path, symbol="X", columns=columns, constants=constants))  # type: ignore[arg-type]
        assert (ticks["price"][0], ticks["size"][0], ticks["order_id"][0]) == (1_500_000_000, 3, ask), (
            columns,
            constants,
        )
    for side in ("bid_size", "ask_size"):
        with pytest.raises(ConfigurationError, match=rf"constants\.{side}: name ask_price too"):
            ParquetFeed(path, symbol="X", constants={side: 1})
        with pytest.raises(ConfigurationError, match=rf"columns\.{side}: name ask_price too"):
            ParquetFeed(path, symbol="X", columns={side: "size"})


def test_a_constant_may_be_a_float(tmp_path: Path) -> None:
    path = table(tmp_path / "a.parquet", {"ts": [5]})
    assert read(ParquetFeed(path, symbol="X", constants={"price": 12.1}))["price"][0] == 12_100_000_000


# ---- The keys that say where a field comes from: what they may be, and what follows from an action or a kind


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        (
            {"price": {"column": "px", "units": "0.01"}},
            r"columns\.price\.units: is not a key here; there are unit, zero, column",
        ),
        ({"price": {"column": "px", "unit": "0.3"}}, r"columns\.price\.unit: give a power of ten"),
        ({"price": {}}, r"columns\.price: give exactly one of column, constant"),
        ({"price": {"column": "no"}}, r"there is no column 'no' for price; there are when"),
        ({"ts_recv": {"column": "when", "unit": "clock"}}, r"columns\.ts_recv\.unit: give one of s, ms, us, ns"),
        ({"ts_recv": {"column": "when", "since": "midnight"}}, r"columns\.ts_recv\.since: is not a key here"),
        ({"side": {"column": "way", "map": {"buy": "long"}}}, r"columns\.side\.map\.buy: 'long' is not one of A, B, N"),
        ({"symbol": {"column": "way"}}, r"columns\.symbol: give the name of a column"),
        ({"price": "px", "ask_price": "qty"}, r"columns\.price: with ask_price, give it as bid_price"),
        ({"bid_price": "px"}, r"columns\.bid_price: name ask_price too"),
        ({"ts_recv": {"column": "when", "empty": "none"}}, r"columns\.ts_recv\.empty: leave it out"),
        ({"side": {"column": "way", "otherwise": "N"}}, r"columns\.side\.otherwise: give map too"),
        ({"bid_price": "px", "ask_price": "qty", "side": "way"}, r"columns\.side: leave it out: a quote has both"),
        ({"prize": {"column": "px"}}, r"there is no field 'prize'"),
        ({"price": 3}, r"columns\.price: .*3"),
    ],
)
def test_what_cannot_be_is_refused_with_the_key(tmp_path: Path, columns: dict[str, Any], words: str) -> None:
    path = table(tmp_path / "rows.parquet")
    with pytest.raises(ConfigurationError, match=words):
        ParquetFeed(path, columns=columns, symbol="X")


@pytest.mark.parametrize("said", [{"kind": "trade"}, {"action": "T"}])
def test_an_action_and_a_kind_follow_from_each_other(tmp_path: Path, said: dict[str, str]) -> None:
    """In files of columns, in arrays and in CSV alike."""
    path = table(tmp_path / "a.parquet", {"ts": [1, 2], "price": [10.0, 11.0], "size": [3, 4]})
    rows = np.array([(1, 10.0, 3), (2, 11.0, 4)], [("ts", "i8"), ("price", "f8"), ("size", "i8")])
    np.save(tmp_path / "a.npy", rows)
    (tmp_path / "a.csv").write_text("ts,price,size\n1,10,3\n2,11,4\n")
    ((field, word),) = said.items()
    own = own_profile(
        tmp_path / "own.toml",
        '[symbol]\nconstant = "X"\n[fields.ts_event]\ncolumn = "ts"\nunit = "ns"\n[fields.price]\ncolumn = "price"\n'
        f'[fields.size]\ncolumn = "size"\n[fields.{field}]\nconstant = "{word}"\n',
    )
    made = [
        ParquetFeed(path, constants=said, symbol="X"),
        ParquetFeed(path, columns={field: {"constant": word}}, symbol="X"),
        NpyFeed(
            tmp_path / "a.npy",
            columns={"ts_event": {"column": "ts", "unit": "ns"}, "price": "price", "size": "size"},
            constants=said,
            symbol="X",
        ),
        CsvFeed(tmp_path / "a.csv", profile=own),
    ]
    for feed in made:
        ticks = read(feed)
        assert (ticks["kind"].tolist(), ticks["action"].tolist()) == ([KIND_TRADE] * 2, [b"T"] * 2), feed
    for handler in ("vwap", "trades", "bars"):
        result = strand.replay(path, handler, feed_options={"constants": said, "symbol": "X"}, workers=0)
        assert int(result.rows["X"]["volume"]) == 7, handler
        assert result.warnings == ()


def test_a_column_of_kinds_gives_actions(tmp_path: Path) -> None:
    path = table(tmp_path / "a.parquet", {"ts": [1, 2, 3], "kind": [KIND_TRADE, KIND_ORDER, KIND_QUOTE]})
    assert read(ParquetFeed(path, symbol="X"))["action"].tolist() == [b"T", b"A", b"N"]


# ---- The options of columns by name and type: what imports them for the names alone needs no msgspec


def test_names_of_options_are_had_without_what_checks_them() -> None:
    program = "import sys, strand.feeds.opening\nprint(*sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=100, check=True)
    found = done.stdout.split()
    assert "strand.feeds.mapping.column_options" in found
    assert not {"msgspec", "strand.feeds.mapping.options"} & {*found}


def own_table(folder: Path, unit: str = "0.001") -> Path:
    """A trade of 2.125 at 1.5, in a file as ``strand convert`` writes it."""
    columns = {"ts_event": [MS * 10**6], "symbol": ["X"], "price": [1.5], "size": [2.125], "action": ["T"]}
    pq.write_table(pa.table(columns), folder / "source.parquet")
    with feeds.open(folder / "source.parquet", size_unit=unit) as feed:
        convert(feed, folder / "own.parquet")
    return folder / "own.parquet"


@pytest.mark.parametrize("unit", [None, "0.0001"])
def test_units_and_constants_of_a_file_of_ticks_are_natural_ones(tmp_path: Path, unit: str | None) -> None:
    """In a file of ticks whose sizes are in 0.001, a constant of 5 shares was 0.005, and a column's unit was of 1."""
    path, one = own_table(tmp_path), 1000 if unit is None else 10000
    for columns, constants, size in (
        ({"size": None}, {"size": 5}, 5 * one),
        ({"size": {"constant": 5}}, {}, 5 * one),
        ({"size": {"column": "size"}}, {}, 2.125 * one),
        ({"size": {"column": "size", "unit": "0.01"}}, {}, 21.25 * one),
    ):
        ticks = read(ParquetFeed(path, size_unit=unit, columns=columns, constants=constants))
        assert ticks["size"].tolist() == [size], (columns, constants)
    for columns in ({"price": "price"}, {"price": {"column": "price"}}):
        assert read(ParquetFeed(path, columns=columns))["price"].tolist() == [1_500_000_000]
        # As whole numbers of a unit that is given, a table without a unit and a name alone mean the same.
        told = read(ParquetFeed(path, columns=columns, price_unit="1e-8"))
        assert told["price"].tolist() == [15_000_000_000]


def test_a_price_that_would_mean_none_is_out_of_range_in_every_table(tmp_path: Path) -> None:
    """9223372036.854775807 of currency became the number by which a tick says that it has no price."""
    most = Decimal(UNDEF_PRICE) / 10**9
    profile = own_profile(
        tmp_path / "own.toml",
        '[symbol]\ncolumn = "s"\n[fields]\nts_event = { column = "t", unit = "ns" }\nprice = "p"\n',
    )
    for price, good in ((most, False), (most - Decimal("1e-9"), True), (-most, True)):
        columns = {"t": [MS * 10**6], "s": ["X"], "p": pa.array([price], pa.decimal128(30, 9))}
        pq.write_table(pa.table(columns), tmp_path / "a.parquet")
        (tmp_path / "a.csv").write_text(f"t,s,p\n{MS * 10**6},X,{price}\n")
        named = {"ts_event": "t", "symbol": "s", "price": "p"}
        for feed in (
            ParquetFeed(tmp_path / "a.parquet", columns=named, time_unit="ns"),
            CsvFeed(tmp_path / "a.csv", profile=profile),
        ):
            if good:
                assert read(feed)["price"].tolist() == [int(price * 10**9)]
            else:
                with pytest.raises(FormatError, match="out of range: a price is between"):
                    read(feed)


def test_a_truth_is_no_kind() -> None:
    with pytest.raises(ConfigurationError, match=r"constants\.kind: true is not one of none, order"):
        ArrayColumns({"instrument_id": "id"}, {"constants": {"kind": True}}).ticks(np.zeros(1, [("id", "u4")]))


def test_decimals_are_times_where_their_unit_is_said(tmp_path: Path) -> None:
    """CSV and JSON read 1767571200.123456789 s exactly, and Parquet refused the same decimal."""
    times = pa.array([Decimal("1767571200.123456789"), None], pa.decimal128(19, 9))
    pq.write_table(pa.table({"t": times, "price": [1.0, 2.0]}), tmp_path / "a.parquet")
    options: dict[str, Any] = {"columns": {"ts_event": "t"}, "symbol": "X", "on_bad_record": "skip"}
    feed = ParquetFeed(tmp_path / "a.parquet", time_unit="s", **options)
    assert read(feed)["ts_event"].tolist() == [1_767_571_200_123_456_789]
    with pytest.raises(FormatError, match="whole number whose unit is said"):
        read(ParquetFeed(tmp_path / "a.parquet", **options))
