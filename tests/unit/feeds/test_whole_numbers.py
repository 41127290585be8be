"""Whole numbers as times and prices: one rule for all tables, believed where something says the unit, else refused."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import strand
from strand import feeds
from strand.errors import ConfigurationError, StrandError
from strand.feeds.mapping.records import ArrayColumns, BadRecordError
from strand.feeds.opening import option_values

pa = pytest.importorskip("pyarrow")
pytestmark = pytest.mark.python

NS_IN = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
SECONDS = [1_767_571_200, 1_767_571_201, 1_767_571_260]
WAYS = ("parquet", "feather", "arrow", "npy", "array")


def ticks_of(folder: Path, way: str, table: dict[str, Any], **options: Any) -> npt.NDArray[Any]:
    """The ticks that a reader of tables makes of columns, numpy arrays by name."""
    kinds = [(name, values.dtype) for name, values in table.items()]
    rows = np.zeros(len(next(iter(table.values()))), [*kinds, ("id", "u4")] if way == "array" else kinds)
    for name, values in table.items():
        rows[name] = values
    if way == "array":
        columns = {"instrument_id": "id", **options.pop("columns", {})}
        found: npt.NDArray[Any] = ArrayColumns(columns, options).ticks(rows)
        return found
    path = folder / f"rows.{way}"
    arrow = pa.table({name: values.copy() for name, values in table.items()})
    if way == "npy":
        np.save(path, rows)
        options = {"columns": {}, **options}
    elif way == "parquet":
        pa.parquet.write_table(arrow, path)
    elif way == "feather":
        pa.feather.write_feather(arrow, path)
    else:
        with pa.ipc.new_stream(str(path), arrow.schema) as stream:
            stream.write_table(arrow)
    return feeds.open(path, symbol="X", **options).to_numpy()


@pytest.fixture(autouse=True)
def _formats() -> None:
    pytest.importorskip("pyarrow.parquet")
    pytest.importorskip("pyarrow.feather")


def rows(times: Any, price: Any = (10.5, 11.0, 12.25), name: str = "timestamp") -> dict[str, Any]:
    return {name: np.asarray(times), "price": np.asarray(price), "size": np.array([1, 2, 3])}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("unit", ["s", "ms", "us"])
def test_a_bare_integer_is_refused_with_the_unit_that_makes_sense_and_the_cure_works(
    tmp_path: Path, way: str, unit: str
) -> None:
    times = np.array(SECONDS) * (10**9 // NS_IN[unit])
    with pytest.raises(
        StrandError, match=r"nothing says the unit of 1767571200\d*, which in (\w+) is 2026-01-05"
    ) as caught:
        ticks_of(tmp_path, way, rows(times))
    said = re.search(r"time_unit='(\w+)'", str(caught.value))
    assert said is not None
    ticks = ticks_of(tmp_path, way, rows(times), time_unit=said[1])
    assert ticks["ts_recv"].tolist() == ticks["ts_event"].tolist() == [second * 10**9 for second in SECONDS]
    if way != "array":
        text = re.search(r"--feed (time_unit)=(\w+)", str(caught.value))
        assert text is not None
        assert option_values({text[1]: text[2]}) == {"time_unit": unit}


@pytest.mark.parametrize("way", WAYS)
def test_skipping_bad_rows_does_not_pass_over_times_without_a_unit(tmp_path: Path, way: str) -> None:
    options = {} if way == "array" else {"on_bad_record": "skip"}
    with pytest.raises(StrandError, match="nothing says the unit"):
        ticks_of(tmp_path, way, rows(SECONDS), **options)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("unit", list(NS_IN))
@pytest.mark.parametrize("said", ["type", "name", "option", "key"])
def test_a_unit_that_is_said_is_believed(tmp_path: Path, way: str, unit: str, said: str) -> None:
    times = np.array(SECONDS) * (10**9 // NS_IN[unit])
    options: dict[str, Any] = {"option": {"time_unit": unit}}.get(said, {})
    name = f"timestamp_{unit}" if said == "name" else "timestamp"
    if said == "type":
        times = times.astype(f"M8[{unit}]")
    if said == "key":
        options = {"columns": {"ts_recv": {"column": name, "unit": unit}}}
    ticks = ticks_of(tmp_path, way, rows(times, name=name), **options)
    assert ticks["ts_recv"].tolist() == [second * 10**9 for second in SECONDS]


@pytest.mark.parametrize("way", WAYS)
def test_a_number_that_can_be_ns_alone_needs_no_word(tmp_path: Path, way: str) -> None:
    """In any longer unit it would lie beyond 2262, where ticks end."""
    least = -(-(1 << 63) // 1000)
    assert ticks_of(tmp_path, way, rows([least] * 3))["ts_recv"].tolist() == [least] * 3
    with pytest.raises(StrandError, match="say one of the units s, ms, us, ns"):
        ticks_of(tmp_path, way, rows([least - 1] * 3))


@pytest.mark.parametrize("way", WAYS)
def test_a_name_is_not_believed_against_the_dates(tmp_path: Path, way: str) -> None:
    with pytest.raises(StrandError, match=r"give time_unit='s'.*although its name says ms"):
        ticks_of(tmp_path, way, rows(SECONDS, name="timestamp_ms"))


@pytest.mark.parametrize("way", WAYS)
def test_of_two_columns_of_times_each_says_its_own_unit(tmp_path: Path, way: str) -> None:
    times = {"ts_event": np.array(SECONDS), "local_ts": np.array(SECONDS) * 1000}
    table = times | rows([0, 0, 0], name="other")
    columns: dict[str, Any] = {}
    for _ in times:
        with pytest.raises(StrandError) as caught:
            ticks_of(tmp_path, way, table, columns=columns)
        said = re.search(r"columns=(\{.*?\}\})", str(caught.value))
        assert said is not None
        columns |= eval(said[1])
    ticks = ticks_of(tmp_path, way, table, columns=columns)
    assert ticks["ts_event"].tolist() == ticks["ts_recv"].tolist() == [second * 10**9 for second in SECONDS]


@pytest.mark.parametrize("way", WAYS)
def test_floats_are_times_where_their_unit_is_said(tmp_path: Path, way: str) -> None:
    times = np.array([1_767_571_200.5, 1_767_571_201.000001, 1_767_571_260.25])
    assert ticks_of(tmp_path, way, rows(times), time_unit="s")["ts_recv"].tolist() == [
        1_767_571_200_500_000_000, 1_767_571_201_000_001_000, 1_767_571_260_250_000_000,
    ]  # fmt: skip
    with pytest.raises(StrandError, match="whole number whose unit is said"):
        ticks_of(tmp_path, way, rows(times))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("price", [[100, 101, 5], [100.0, 101.0, 5.0]])
def test_a_whole_price_is_currency_in_all_tables_as_in_csv(tmp_path: Path, way: str, price: list[Any]) -> None:
    times = (np.array(SECONDS) * 10**9).astype("M8[ns]")
    (tmp_path / "rows.csv").write_text("t,p\n" + "".join(f"{s},{p:g}\n" for s, p in zip(SECONDS, price, strict=True)))
    (tmp_path / "own.toml").write_text(
        '[symbol]\nconstant = "X"\n[fields.ts_recv]\ncolumn = "t"\nunit = "s"\n[fields.price]\ncolumn = "p"\n'
    )
    wanted = feeds.open(tmp_path / "rows.csv", profile=tmp_path / "own.toml").to_numpy()["price"].tolist()
    assert wanted == [int(value * 10**9) for value in price]
    assert ticks_of(tmp_path, way, rows(times, price))["price"].tolist() == wanted
    cents = ticks_of(tmp_path, way, rows(times, price), price_unit="0.01")["price"].tolist()
    assert cents == [value // 100 for value in wanted]


@pytest.mark.parametrize("way", ["parquet", "feather", "npy"])
def test_a_run_says_that_it_took_whole_prices_for_currency(tmp_path: Path, way: str) -> None:
    times = (np.array(SECONDS) * 10**9).astype("M8[ns]")
    for price, options, told in (
        ([100, 101, 5], {}, True), ([100, 101, 5], {"price_unit": "0.01"}, False), ([1.5, 2.0, 2.5], {}, False),
    ):  # fmt: skip
        ticks_of(tmp_path, way, rows(times, price))
        given = {"symbol": "X", "constants": {"kind": "trade"}, **options} | ({"columns": {}} if way == "npy" else {})
        result = strand.replay(tmp_path / f"rows.{way}", "vwap", feed_options=given, workers=0)
        found = [(w.kind, w.count) for w in result.warnings]
        assert found == ([("whole-number prices", 3)] if told else [])


def test_a_constant_time_has_a_unit_too(tmp_path: Path) -> None:
    times = (np.array(SECONDS) * 10**9).astype("M8[ns]")
    with pytest.raises(ConfigurationError, match=r"constants\.ts_recv: give time_unit='s'"):
        ticks_of(tmp_path, "parquet", rows(times), constants={"ts_recv": SECONDS[0]})
    ticks = ticks_of(tmp_path, "parquet", rows(times), constants={"ts_recv": SECONDS[0]}, time_unit="s")
    assert set(ticks["ts_recv"].tolist()) == {SECONDS[0] * 10**9}


@pytest.mark.parametrize(
    ("field", "keys"),
    [
        ("size", {"running": True}), ("ts_recv", {"digits": 3}),
        ("price", {"undefined": "x"}),
    ],
)  # fmt: skip
def test_a_key_of_text_alone_is_refused_in_tables(tmp_path: Path, field: str, keys: dict[str, Any]) -> None:
    times = (np.array(SECONDS) * 10**9).astype("M8[ns]")
    column = {"size": "size", "ts_recv": "timestamp", "price": "price"}[field]
    with pytest.raises(ConfigurationError, match="is not a key here"):
        ticks_of(tmp_path, "parquet", rows(times), columns={field: {"column": column, **keys}})


TIME = 1_767_571_200_000_000_000
LATEST = (1 << 63) - 1 - 2 * 86_400 * 10**9
#: Columns of two rows, of which the second is bad, and a word of the error.
BEYOND: dict[str, tuple[dict[str, list[Any]], str]] = {
    "kind 5": ({"kind": [4, 5]}, "none, order, trade, quote, status"),
    "kind 6": ({"kind": [0, 6]}, "none, order, trade, quote, status"),
    "kind 255": ({"kind": [1, 255]}, "none, order, trade, quote, status"),
    "kind below 0": ({"kind": [2, -1]}, "none, order, trade, quote, status"),
    "a word that is no kind": ({"kind": ["3", "deal"]}, "none, order, trade, quote, status"),
    "the last time of 64 bits": ({"ts_event": [TIME, (1 << 63) - 1]}, "1970 to 2262"),
    "two days before it": ({"ts_event": [LATEST, LATEST + 1]}, "1970 to 2262"),
}


def read_by(folder: Path, way: str, table: dict[str, list[Any]], **options: Any) -> npt.NDArray[Any]:
    """The ticks that any reader makes of a time in ns, a price, and columns that are called as their fields."""
    lines = [dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True)]
    others = [name for name in table if name not in ("ts_event", "price")]
    if way == "csv":
        text = [",".join(table), *(",".join(map(str, line.values())) for line in lines)]
        (folder / "a.csv").write_text("\n".join(text) + "\n")
        (folder / "a.toml").write_text(
            '[symbol]\nconstant = "A"\n[fields]\nprice = "price"\nts_event = { column = "ts_event", unit = "ns" }\n'
            + "".join(f'{name} = "{name}"\n' for name in others)
        )
        return feeds.open(folder / "a.csv", profile=folder / "a.toml", **options).to_numpy()
    if way == "jsonl":
        (folder / "a.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        fields = {"ts_event": {"column": "ts_event", "unit": "ns"}, "price": "price", **{name: name for name in others}}
        message = {"symbol": {"constant": "A"}, "fields": fields}
        return feeds.open(folder / "a.jsonl", profile={"message": [message]}, **options).to_numpy()
    return ticks_of(folder, way, {name: np.array(values) for name, values in table.items()}, **options)


@pytest.mark.parametrize("way", [*WAYS, "csv", "jsonl"])
@pytest.mark.parametrize("what", BEYOND)
def test_kinds_and_times_that_no_tick_has_are_bad_rows_in_every_reader(tmp_path: Path, way: str, what: str) -> None:
    columns, word = BEYOND[what]
    table = {"ts_event": [TIME, TIME + 1], "price": [1, 2], **columns}
    with pytest.raises((StrandError, BadRecordError)) as caught:
        read_by(tmp_path, way, table)
    if way == "csv" and "kind" in what:
        word = "unknown value; it may be 'none', 'order', 'trade', 'quote', 'status', '0', '1', '2', '3', '4'"
    assert word in str(caught.value)
    if way != "array":
        (tick,) = read_by(tmp_path, way, table, on_bad_record="skip")
        assert [int(tick[name]) for name in columns] == [int(values[0]) for values in columns.values()]


@pytest.mark.parametrize("way", [*WAYS, "csv", "jsonl"])
def test_sides_and_actions_are_the_same_words_in_every_reader(tmp_path: Path, way: str) -> None:
    sides = {"B": b"B", "buy": b"B", "BID": b"B", "Sell": b"A", "s": b"A", "OFFER": b"A", "ask": b"A", "none": b"N"}
    actions = {
        "T": b"T",
        "trade": b"T",
        "Add": b"A",
        "d": b"C",
        "DELETE": b"C",
        "modify": b"M",
        "Fill": b"F",
        "n": b"N",
    }
    table = {"ts_event": [TIME] * 8, "price": [1] * 8, "side": [*sides], "action": [*actions]}
    ticks = read_by(tmp_path, way, table)
    assert ticks["side"].tolist() == [*sides.values()]
    assert ticks["action"].tolist() == [*actions.values()]
    with pytest.raises((StrandError, BadRecordError), match=r"long.*(buy|B)|B.*long"):
        read_by(tmp_path, way, {**table, "side": ["long", *list(sides)[1:]]})


@pytest.mark.parametrize("way", WAYS)
def test_a_table_of_bars_is_refused_until_its_price_is_named(tmp_path: Path, way: str) -> None:
    corners = {name: np.array([1.5, 2.5]) for name in ("Open", "high", "low", "close")}
    table = {"timestamp_ns": np.array([TIME, TIME + 1]), **corners, "volume": np.array([3, 4])}
    with pytest.raises(ConfigurationError, match=r"open, high, low, close.*columns\.price=close"):
        ticks_of(tmp_path, way, table)
    ticks = ticks_of(tmp_path, way, table, columns={"price": "close"}, constants={"kind": "trade"})
    assert ticks[["price", "size", "kind"]].tolist() == [(1_500_000_000, 3, 2), (2_500_000_000, 4, 2)]


@pytest.mark.parametrize("way", WAYS)
def test_numbers_that_are_text_mean_what_they_mean_in_csv_and_json(tmp_path: Path, way: str) -> None:
    """Clients of exchanges give prices and amounts as text, and many tables keep them so."""
    table = {"timestamp_ns": np.array([TIME] * 3), "price": np.array(["50000.25", "1e-05", " -3 "])}
    table["size"] = np.array(["0.00001", "2", "1E-3"])
    ticks = ticks_of(tmp_path, way, table, size_unit="0.00001")
    assert ticks[["price", "size"]].tolist() == [(50_000_250_000_000, 1), (10_000, 200_000), (-3_000_000_000, 100)]
    for text, words in (("", "is not a number"), ("1,5", "is not a number"), ("nan", "is not a number"),
                        ("1e30", "out of range"), ("0.0000000001", "not a whole number of units of 1e-9")):  # fmt: skip
        bad = {**table, "price": np.array(["1", text, "2"])}
        with pytest.raises((StrandError, BadRecordError), match=f"'?{text}'? .*{words}|{words}"):
            ticks_of(tmp_path, way, bad, size_unit="0.00001")
        if way != "array":
            kept = ticks_of(tmp_path, way, bad, size_unit="0.00001", on_bad_record="skip")
            assert kept["price"].tolist() == [10**9, 2 * 10**9]
    rounded = {**table, "price": np.array(["1.0000000004", "2", "3"])}
    ticks = ticks_of(tmp_path, way, rounded, size_unit="0.00001", inexact="round")
    assert ticks["price"].tolist() == [10**9, 2 * 10**9, 3 * 10**9]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("unit", ["s", "ms", "us"])
def test_times_that_are_numbers_as_text_or_floats_need_a_unit_and_the_error_names_it(
    tmp_path: Path, way: str, unit: str
) -> None:
    numbers = [second * (10**9 // NS_IN[unit]) for second in SECONDS]
    for times in (np.array([str(number) for number in numbers]), np.array([float(number) for number in numbers])):
        options: dict[str, Any] = {} if way == "array" else {"on_bad_record": "skip"}
        with pytest.raises(StrandError, match=f"give time_unit='{unit}'.*which in {unit} is 2026-01-05"):
            ticks_of(tmp_path, way, rows(times), **options)
        ticks = ticks_of(tmp_path, way, rows(times), time_unit=unit)
        assert ticks["ts_recv"].tolist() == [second * 10**9 for second in SECONDS]
    # Digits may be a stamp, and a stamp of text needs no unit, whatever that of other columns is.
    for text in ("20260105000000", "2026-01-05T00:00:00Z"):
        assert set(ticks_of(tmp_path, way, rows([text] * 3), time_unit=unit)["ts_recv"].tolist()) == {TIME}


@pytest.mark.parametrize("way", WAYS)
def test_a_side_that_no_word_is_asks_for_a_map(tmp_path: Path, way: str) -> None:
    table = {"timestamp_ns": np.array([TIME] * 2), "price": np.array([1.5, 2.5]), "side": np.array([1, -1])}
    with pytest.raises((StrandError, BadRecordError), match=r"1 .*columns=.*'side'.*'map'"):
        ticks_of(tmp_path, way, table)
    ticks = ticks_of(tmp_path, way, table, columns={"side": {"column": "side", "map": {"1": "B", "-1": "A"}}})
    assert ticks["side"].tolist() == [b"B", b"A"]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", [float, int, str])
def test_a_size_below_0_is_a_sell_where_a_table_says_so(tmp_path: Path, way: str, kind: type) -> None:
    sizes = np.array([kind(2), kind(-3), kind(0)])
    table = {"timestamp_ns": np.array([TIME] * 3), "price": np.array([1.5, 2.5, 3.5]), "amount": sizes}
    with pytest.raises((StrandError, BadRecordError), match="is below 0: give signed = true"):
        ticks_of(tmp_path, way, table)
    signed = {"columns": {"size": {"column": "amount", "signed": True}}}
    ticks = ticks_of(tmp_path, way, table, **signed)
    assert ticks[["size", "side"]].tolist() == [(2, b"B"), (3, b"A"), (0, b"N")]
    if way != "array":
        assert option_values({"columns.size": "amount", "columns.size.signed": "true"}) == signed
    # A column that only looks like sides gives way to the sign; one that was chosen does not.
    sided = {**table, "side": np.array(["sell"] * 3)}
    assert ticks_of(tmp_path, way, sided, **signed)["side"].tolist() == [b"B", b"A", b"N"]
    for more in ({"columns": {**signed["columns"], "side": "side"}}, {**signed, "constants": {"side": "B"}}):
        with pytest.raises(ConfigurationError, match=r"columns\.size\.signed"):
            ticks_of(tmp_path, way, sided, **more)
