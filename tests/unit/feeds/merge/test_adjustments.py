"""One name per instrument and one unit over many days, by tables of renames and splits."""

from __future__ import annotations

import datetime as dt
import json
from fractions import Fraction
from math import floor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from command_here import run_here

import strand
from strand import UNDEF_PRICE, testing
from strand.command.cli import cli
from strand.errors import ConfigurationError, FeedError
from strand.feeds import adjusted
from strand.feeds.write.conversion import convert
from strand.ticks import KIND_QUOTE, KIND_STATUS, joined, zeros

pytestmark = pytest.mark.python

DAYS = [dt.date(2022, 6, day) for day in (7, 8, 9, 10)]
RUN: dict[str, Any] = {"cores": None, "workers": 1}
META = [(None, "2022-06-09", "FB", "META"), ("2022-06-09", None, "META", "META")]


def noon(day: dt.date, ns: int = 0) -> int:
    return int(dt.datetime(day.year, day.month, day.day, 12, tzinfo=dt.UTC).timestamp()) * 10**9 + ns


def trade(symbol: str, day: dt.date, price: float, size: int, ns: int = 0) -> dict[str, Any]:
    return {"symbol": symbol, "time": noon(day, ns), "price": price, "size": size}


def new_day(symbol: str, day: dt.date) -> dict[str, Any]:
    return {"symbol": symbol, "time": noon(day), "kind": KIND_STATUS, "action": b"R", "size": 0}


def ticks_of(feed: Any) -> Any:
    return joined([np.array(batch) for batch in feed.batches()])


def test_a_renamed_symbol_keeps_one_strand() -> None:
    """The state of the old name goes on under the new one, and ends with its day."""
    rows = [
        trade("FB", DAYS[0], 10, 1), trade("XY", DAYS[0], 5, 7), trade("FB", DAYS[1], 11, 2),
        new_day("FB", DAYS[2]), new_day("XY", DAYS[2]), trade("META", DAYS[2], 12, 3), trade("META", DAYS[3], 13, 4),
    ]  # fmt: skip
    same = [row | {"symbol": "META" if row["symbol"] == "FB" else row["symbol"]} for row in rows]
    for batches in (1, 3, 7):
        feed = adjusted(testing.feed(rows, batches=batches), renames=META)
        both = [
            strand.replay(each, strand.chain("vwap", strand.bars("3d")), **RUN) for each in (feed, testing.feed(same))
        ]
        (one, other) = [result.rows["META"]["vwap"] for result in both]
        assert one.tolist() == other.tolist()
        assert (one["trades"], one["volume"]) == (4, 10)
        bars = [[bar.tolist()[2:] for bar in result.outputs["bars"]] for result in both]
        assert [bar[1:] for bar in bars[0]] == [bar[1:] for bar in bars[1]]
        assert both[0].feed_statistics["renamed"] == 2
        assert "FB" not in {name for name, n in zip(both[0].symbols, both[0].ticks_by_symbol, strict=False) if n}


def test_a_day_ends_for_the_name_that_the_symbol_had() -> None:
    rows = [
        (None, "2022-06-08", "A", "OLD"), ("2022-06-08", None, "A", "NEW"),
    ]  # fmt: skip
    given = [trade("A", DAYS[0], 1, 1), new_day("A", DAYS[1]), trade("A", DAYS[1], 2, 2), new_day("A", DAYS[2])]
    for batches in (1, 2, 4):
        feed = adjusted(testing.feed(given, batches=batches), renames=rows)
        found = ticks_of(feed)
        assert [feed.symbols[key] for key in found["instrument_id"]] == ["OLD", "OLD", "NEW", "NEW"]


def test_dates_begin_at_midnight_in_the_zone() -> None:
    at = int(dt.datetime(2022, 6, 9, 2, tzinfo=dt.UTC).timestamp()) * 10**9  # 22:00 in New York, the day before
    rows = [{"symbol": "FB", "time": at, "price": 1, "size": 1}]
    utc, york = (
        adjusted(testing.feed(rows), renames=META),
        adjusted(testing.feed(rows), renames=META, zone="America/New_York"),
    )
    assert york.symbols[ticks_of(york)["instrument_id"][0]] == "META"
    with pytest.raises(FeedError, match="'FB' has a tick at 2022-06-09T02:00:00 UTC, and no row"):
        ticks_of(utc)


def test_two_symbols_of_one_name_on_one_day_are_an_error() -> None:
    rows = [trade("FB", DAYS[0], 1, 1), trade("META", DAYS[0], 1, 1, ns=5)]
    with pytest.raises(FeedError, match="both 'FB' and 'META' are named 'META' at 2022-06-07"):
        ticks_of(adjusted(testing.feed(rows), renames=[(None, None, "FB", "META")]))


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ([(None, "2022-06-09", "FB", "M"), ("2022-06-08", None, "META", "M")], "rows of name 'M' overlap"),
        ([(None, "2022-06-09", "FB", "M"), ("2022-06-10", None, "META", "M")], "leave a gap from 2022-06-09"),
        ([(None, None, "FB", "M"), ("2022-06-10", None, "FB", "N")], "rows of symbol 'FB' overlap"),
        ([("2022-06-09", "2022-06-09", "FB", "M")], "is not before"),
        ([("9 June", None, "FB", "M")], r"renames.0.from: '9 June' is not a date"),
        ([(None, None, 5, "M")], r"renames.0.symbol"),
        ([(None, None, "FB", "")], r"renames.0.name: is empty"),
        ([(None, None, "FB")], "is no row of from, to, symbol, name"),
        ([{"from": None, "to": None, "symbol": "FB"}], "renames.0: has no column 'name'"),
        ("renames.csv", "renames: renames.csv cannot be read: .*No such file"),
        (5, "int is no table"),
    ],
)  # fmt: skip
def test_a_wrong_table_of_names_is_refused(table: Any, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        adjusted(testing.feed([trade("FB", DAYS[0], 1, 1)]), renames=table)


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ([("2022-06-09", "FB", 0)], r"splits.0.factor: give a factor above 0"),
        ([("2022-06-09", "FB", -2)], r"splits.0.factor"),
        ([("2022-06-09", "FB", "two")], r"splits.0.factor"),
        ([("2022-06-09", "FB", "1/0")], r"splits.0.factor"),
        ([("2022-06-09", "FB", 10**7)], r"splits.0.factor"),
        ([("2022-06-09", "FB", "1e400000000")], r"splits.0.factor"),
        ([("2022-06-09", "FB", "nan")], r"splits.0.factor"),
        ([(None, "FB", 2)], r"splits.0.date: give a date"),
        ([("2022-06-09", "FB", 2), ("2022-06-09", "FB", 3)], "two rows of one date"),
    ],
)
def test_a_wrong_table_of_splits_is_refused(table: Any, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        adjusted(testing.feed([trade("FB", DAYS[0], 1, 1)]), splits=table)


def test_tables_of_files_are_given_by_path_and_on_the_command_line(tmp_path: Path) -> None:
    days = tmp_path / "days"
    days.mkdir()
    for day, name in ((dt.date(2026, 1, 5), "OLD"), (dt.date(2026, 1, 6), "NEW")):
        convert(testing.feed([trade(name, day, 10, 6)]), days / f"{day}.npz")
    (tmp_path / "renames.csv").write_text("from,to,symbol,name\n,2026-01-06,OLD,NEW\n\n,,GONE,OTHER\n")
    (tmp_path / "splits.csv").write_text("date, symbol, factor\n2026-01-06, NEW, 2/1\n2026-01-06, MISSING, 3\n")
    options = {name: tmp_path / f"{name}.csv" for name in ("renames", "splits")}
    result = strand.replay(days, "vwap", feed_options=options)
    assert result.rows["NEW"]["volume"] == 12 + 6
    assert [(one.kind, one.count, one.example) for one in result.warnings] == [
        ("unused rows", 2, "renames.1: 'GONE' fits no symbol")
    ]
    flags = [word for name, path in options.items() for word in (f"--{name}", str(path))]
    ran = run_here("replay", str(days), "--handler", "vwap", "--json", *flags)
    (warning,) = json.loads(ran.stdout)["warnings"]
    assert (warning["kind"], warning["count"]) == ("unused rows", 2)
    assert run_here("cat", str(days), "--head", "1", "--to", "csv", "--columns", "symbol", *flags).stdout.split() == [
        "symbol", "NEW",
    ]  # fmt: skip


def test_a_file_of_a_table_that_lacks_a_column_is_refused(tmp_path: Path) -> None:
    (tmp_path / "splits.csv").write_text("date,symbol\n2026-01-06,NEW\n")
    with pytest.raises(ConfigurationError, match=r"splits\.0: has no column 'factor': there are date, symbol"):
        adjusted(testing.feed([trade("FB", DAYS[0], 1, 1)]), splits=tmp_path / "splits.csv")


@pytest.mark.parametrize("given", [{}, {"splits": [], "adjust": "volumes"}, {"splits": [], "inexact": "drop"}])
def test_wrong_options_are_refused(given: Any) -> None:
    with pytest.raises(ConfigurationError):
        adjusted(testing.feed([trade("FB", DAYS[0], 1, 1)]), **given)


def market(n: int, seed: int) -> Any:
    rng = np.random.default_rng(seed)
    ticks = zeros(n)
    ticks["instrument_id"] = rng.integers(0, 3, n)
    ticks["ts_recv"] = np.sort(noon(DAYS[0]) + rng.integers(0, 4 * 86_400, n) * 10**9)
    quote = rng.random(n) < 0.5
    ticks["kind"], ticks["action"] = np.where(quote, KIND_QUOTE, 2), np.where(quote, b"N", b"T")
    ticks["side"] = np.where(quote, rng.choice([b"N", b"A", b"B"], n), b"N")
    ticks["price"], ticks["size"] = rng.integers(1, 10**12, n), rng.integers(0, 10**6, n)
    both = quote & (ticks["side"] == b"N")
    ticks["order_id"] = np.where(both, rng.integers(1, 10**12, n), 77)
    ticks["ref_id"] = np.where(both, rng.integers(0, 10**6, n), 78)
    ticks["price"][rng.random(n) < 0.1] = UNDEF_PRICE
    return ticks


@pytest.mark.parametrize("adjust", ["both", "prices", "sizes"])
def test_numbers_before_a_split_are_those_of_exact_fractions(adjust: Any) -> None:
    """Sums of several splits, odd factors, prices of both sides; what is an id stays."""
    ticks = market(3_000, 1)
    table = [("2022-06-09", "A", 4), ("2022-06-10", "A", "3/2"), ("2022-06-10", "B", "1/10")]
    feed = adjusted(testing.feed(ticks, ["A", "B", "C"], batches=11), splits=table, adjust=adjust, inexact="round")
    found, rounded = ticks_of(feed), 0
    for before, after in zip(ticks, found, strict=True):
        name = "ABC"[before["instrument_id"]]
        factor = Fraction(1)
        for date, symbol, of in table:
            day = dt.date.fromisoformat(date)
            if symbol == name and before["ts_recv"] < noon(day) - 12 * 3600 * 10**9:
                factor *= Fraction(of)
        both = before["kind"] == KIND_QUOTE and before["side"] == b"N"
        for field, by in (("price", 1 / factor), ("size", factor), ("order_id", 1 / factor), ("ref_id", factor)):
            is_price = field in ("price", "order_id")
            value = int(before[field])
            changes = adjust in ("both", "prices" if is_price else "sizes") and (both or field in ("price", "size"))
            if changes and value != UNDEF_PRICE:
                rounded += (value * by).denominator != 1
                value = floor(value * by + Fraction(1, 2))
            assert int(after[field]) == value, (field, factor)
    assert feed.statistics()["split_rounded"] == rounded > 0
    assert feed.statistics()["split_adjusted"] > 1_000


def test_a_price_that_is_not_exact_after_a_split_is_an_error_unless_it_may_be_rounded() -> None:
    given = [trade("A", DAYS[0], 10, 3)]
    with pytest.raises(FeedError, match="price 10 of 'A' times 1/3 is no whole number of 1e-9: give inexact='round'"):
        ticks_of(adjusted(testing.feed(given), splits=[("2022-06-08", "A", 3)]))
    (tick,) = ticks_of(adjusted(testing.feed(given), splits=[("2022-06-08", "A", 3)], inexact="round"))
    assert (tick["price"], tick["size"]) == (3_333_333_333, 9)
    with pytest.raises(FeedError, match="size 3 of 'A' times 1/2"):
        ticks_of(adjusted(testing.feed(given), splits=[("2022-06-08", "A", "1/2")]))


def test_a_feed_that_is_opened_to_round_rounds_what_splits_make(tmp_path: Path) -> None:
    path = tmp_path / "trades.parquet"
    pq.write_table(pa.table({"ts_event": [noon(DAYS[0])], "symbol": ["A"], "price": [10.0], "size": [3]}), path)
    splits = [("2022-06-08", "A", 3)]
    with pytest.raises(FeedError, match="price 10 of 'A' times 1/3"):
        ticks_of(strand.feeds.open(path, splits=splits))
    (tick,) = ticks_of(strand.feeds.open(path, splits=splits, inexact="round"))
    assert (tick["price"], tick["size"]) == (3_333_333_333, 9)


def test_all_ticks_before_a_fault_come_first() -> None:
    given = [trade("B", DAYS[0], 3, 2), trade("A", DAYS[0], 10, 3, ns=1), trade("A", DAYS[0], 9, 3, ns=2)]
    feed = adjusted(testing.feed(given), splits=[("2022-06-08", "A", 3)])
    with pytest.raises(FeedError, match="price 10 of 'A'") as caught:
        strand.replay(feed, "vwap", **RUN)
    assert caught.value.partial.rows["B"]["volume"] == 2
    assert caught.value.partial.rows["A"]["trades"] == 0
    rows = [trade("X", DAYS[0], 1, 4), trade("FB", DAYS[2], 1, 1), trade("X", DAYS[3], 1, 1)]
    with pytest.raises(FeedError, match="'FB' has a tick at 2022-06-09") as caught:
        strand.replay(adjusted(testing.feed(rows), renames=META), "vwap", **RUN)
    assert caught.value.partial.rows["X"]["volume"] == 4


def test_a_name_that_comes_late_is_taken_over_unless_it_has_a_row() -> None:
    given = [trade("FB", DAYS[0], 10, 1, ns=at) for at in range(4)]
    late = {"known_from": 2, "batches": 1, "max_symbols": 2}
    rows = strand.replay(adjusted(testing.feed(given, **late), renames=[(None, None, "XY", "Z")]), "vwap", **RUN).rows
    assert rows["FB"]["volume"] == 4
    with pytest.raises(FeedError, match="named 'FB' after ticks of it, too late for its row"):
        ticks_of(adjusted(testing.feed(given, **late), renames=META))


def test_files_with_times_of_day_alone_need_a_date() -> None:
    feed = testing.feed([trade("FB", DAYS[0], 10, 1)], undated=True)
    with pytest.raises(ConfigurationError, match=r"date: .* give date="):
        adjusted(feed, renames=META)


def test_a_number_without_room_is_an_error() -> None:
    ticks = zeros(1)
    ticks["kind"], ticks["action"], ticks["price"], ticks["size"] = 2, b"T", 10**9, 2**61
    ticks["ts_recv"] = noon(DAYS[0])
    with pytest.raises(FeedError, match="a size times 4 has no room"):
        ticks_of(adjusted(testing.feed(ticks, ["A"]), splits=[("2022-06-08", "A", 4)]))


def test_a_date_begins_with_its_first_moment() -> None:
    midnight = int(dt.datetime(2022, 6, 9, tzinfo=dt.UTC).timestamp()) * 10**9
    given = [
        {"symbol": name, "time": at, "price": 8, "size": 1} for name, at in (("FB", midnight - 1), ("META", midnight))
    ]
    feed = adjusted(testing.feed(given), renames=META, splits=[("2022-06-09", "META", 2)])
    found = ticks_of(feed)
    assert found["price"].tolist() == [4 * 10**9, 8 * 10**9]
    assert [feed.symbols[key] for key in found["instrument_id"]] == ["META", "META"]


def test_splits_go_by_the_name_after_a_rename() -> None:
    given = [trade("FB", DAYS[0], 10, 1), trade("META", DAYS[2], 5, 2)]
    feed = adjusted(testing.feed(given), renames=META, splits=[("2022-06-09", "META", 2)])
    found = ticks_of(feed)
    assert found["price"].tolist() == [5 * 10**9] * 2
    assert found["size"].tolist() == [2, 2]
    assert set(found["instrument_id"]) == {list(feed.symbols).index("META")}


@pytest.mark.parametrize("kind", ["dicts", "polars", "pandas", "arrow"])
def test_tables_may_be_those_of_other_packages(kind: str) -> None:
    rows = [{"from": start, "to": end, "symbol": symbol, "name": name} for start, end, symbol, name in META]
    table: Any = {
        "dicts": lambda: rows,
        "polars": lambda: pytest.importorskip("polars").DataFrame(rows),
        "pandas": lambda: pytest.importorskip("pandas").DataFrame(rows),
        "arrow": lambda: pytest.importorskip("pyarrow").Table.from_pylist(rows),
    }[kind]()
    feed = adjusted(testing.feed([trade("FB", DAYS[0], 1, 1)]), renames=table)
    assert feed.symbols[ticks_of(feed)["instrument_id"][0]] == "META"


def test_files_of_days_are_opened_by_the_names_after_renames(tmp_path: Path) -> None:
    for day in (5, 6):
        out = tmp_path / f"010{day}2026.NASDAQ_ITCH50"
        words = ["gen", "itch", "--symbols", "6", "--messages", "3000", "--seed", str(day), "--date", f"2026-01-0{day}"]
        assert CliRunner().invoke(cli, [*words, "--out", str(out)]).exit_code == 0
    plain = strand.replay(str(tmp_path), "vwap", **RUN).rows
    first = strand.replay(str(tmp_path / "01052026.NASDAQ_ITCH50"), "vwap", **RUN).rows["AAAAA"]["volume"]
    second = strand.replay(str(tmp_path / "01062026.NASDAQ_ITCH50"), "vwap", **RUN).rows["AAAAB"]["volume"]
    table = [
        (None, "2026-01-06", "AAAAA", "NEW"), ("2026-01-06", None, "AAAAB", "NEW"),
        (None, "2026-01-06", "AAAAB", "OTHER"), ("2026-01-06", None, "AAAAA", "LATER"),
    ]  # fmt: skip
    options = {"renames": table}
    rows = strand.replay(str(tmp_path), "vwap", feed_options=options, **RUN).rows
    assert rows["NEW"]["volume"] == first + second > first > 0
    assert rows["AAAAC"].tolist() == plain["AAAAC"].tolist()
    chosen = strand.replay(str(tmp_path), "vwap", feed_options=options, symbols=["NEW"], **RUN)
    assert chosen.rows["NEW"].tolist() == rows["NEW"].tolist()
    assert chosen.feed_statistics["not_selected"] > 0
    with pytest.raises(ConfigurationError, match="renames"), strand.feeds.open(tmp_path, renames=5):
        pass
