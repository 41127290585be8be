"""The rows that a replay's command shows: order, units, and numbers that are never cut nor wrong."""

from __future__ import annotations

import gzip
import io
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

import strand
from strand.errors import ConfigurationError
from strand.feeds.sample import SAMPLE_DATE, sample_path
from strand.feeds.write.npy import write_npy
from strand.report.feed_time import feed_clock
from strand.report.result_rows import ResultRows, ShownField, _floats, result_rows
from strand.report.tables import print_rows
from strand.ticks import zeros

pytestmark = pytest.mark.python


@pytest.fixture(scope="module")
def vwap() -> strand.ReplayResult:
    return strand.replay(sample_path(), "vwap", workers=1, feed_options={"date": SAMPLE_DATE})


def shown(rows: ResultRows, width: int | None) -> list[str]:
    text = io.StringIO()
    print_rows(Console(file=text, width=width or 10_000), rows, width)
    return text.getvalue().splitlines()


def found(result: Any, **options: Any) -> ResultRows:
    rows = result_rows(result, **options)
    assert rows is not None
    return rows


def test_the_busiest_symbols_are_first_and_numbers_are_those_of_the_table(vwap: strand.ReplayResult) -> None:
    rows = found(vwap, top=3)
    order = np.argsort(-vwap.ticks_by_symbol, kind="stable")[:3]
    assert list(rows.symbols.cells) == [vwap.symbols[i] for i in order]
    assert [int(cell.replace(",", "")) for cell in rows.ticks.cells] == vwap.ticks_by_symbol[order].tolist()
    assert (rows.rest, rows.others, rows.by) == (497, 0, "ticks")
    fields = {field.name: field for field in rows.fields}
    assert {name: field.unit for name, field in fields.items()} == {
        "trades": "", "volume": "units", "notional": "currency", "vwap": "currency", "unpriced": "",
    }  # fmt: skip
    for at, cell in zip(order, fields["vwap"].cells, strict=True):
        assert float(cell.replace(",", "")) == pytest.approx(vwap.rows.array[at]["vwap"], abs=5e-5)


@pytest.mark.parametrize("sort", ["volume", "vwap"])
def test_rows_are_sorted_by_a_field_greatest_first_and_undefined_last(vwap: strand.ReplayResult, sort: str) -> None:
    rows = found(vwap, top=None, sort=sort)
    assert rows.fields[0].name == sort
    cells = list(rows.fields[0].cells)
    defined = [cell for cell in cells if cell != "-"]
    assert cells == defined + ["-"] * (len(cells) - len(defined))
    numbers = [float(cell.replace(",", "")) for cell in defined]
    assert numbers == sorted(numbers, reverse=True)


def test_rows_are_sorted_by_name(vwap: strand.ReplayResult) -> None:
    names = list(found(vwap, top=None, sort="symbol").symbols.cells)
    assert names == sorted(names)
    assert len(names) == 500


def test_a_field_that_is_not_there_is_refused_and_those_that_are_named(vwap: strand.ReplayResult) -> None:
    with pytest.raises(
        ConfigurationError, match=r"sort: the rows have no field 'size'; there are symbol, ticks, trades"
    ):
        result_rows(vwap, sort="size")


def test_what_is_undefined_is_a_dash_and_never_a_zero() -> None:
    result = strand.replay(sample_path(), "vwap", workers=0, limit=1_000)
    rows = found(result, top=None)
    untraded = result.rows.array["trades"][result.ticks_by_symbol > 0] == 0
    assert untraded.any()
    fields = {field.name: field for field in rows.fields}
    for trades, price in zip(fields["trades"].cells, fields["vwap"].cells, strict=True):
        assert (price == "-") == (trades == "0")


@pytest.mark.parametrize("handler", ["vwap", "book", "bars", "spread", "count", "trade_stats"])
@pytest.mark.parametrize("width", [60, 80, 120])
def test_no_cell_is_cut_and_no_line_is_longer_than_the_terminal(handler: str, width: int) -> None:
    rows = found(strand.replay(sample_path(), handler, workers=0, limit=60_000), top=5)
    fields, left = rows.fitting(width, gap=2)
    lines = shown(rows, width)
    assert max(map(len, lines)) <= width
    assert "…" not in "".join(lines)
    for row in range(5):
        line = next(line for line in lines if line.startswith(rows.symbols.cells[row] + " "))
        assert line.split() == [cell for field in fields for cell in field.cells[row].split()]
    named = (
        " ".join(lines[lines.index(next(line for line in lines if line.startswith("more fields"))) :]) if left else ""
    )
    assert re.findall(r"\w+", named.partition(": ")[2]) == left


def test_where_lines_have_no_end_all_fields_are_shown() -> None:
    rows = found(strand.replay(sample_path(), "book", workers=0, limit=5_000), top=2)
    assert not any(line.startswith("more fields") for line in shown(rows, None))


def test_times_of_one_day_are_times_of_day(vwap: strand.ReplayResult) -> None:
    rows = found(strand.replay(sample_path(), "count", workers=0, feed_options={"date": SAMPLE_DATE}), top=2)
    last = {field.name: field for field in rows.fields}["last_ts_recv"]
    assert last.unit == "2026-01-05 UTC"
    assert re.fullmatch(r"21:00:00\.\d{3}", last.cells[0])


def test_times_are_shown_by_the_clock_that_is_given() -> None:
    result = strand.replay(sample_path(), "count", workers=0, feed_options={"date": SAMPLE_DATE})
    rows = found(result, top=2, clock=feed_clock(result.info))
    last = {field.name: field for field in rows.fields}["last_ts_recv"]
    assert last.unit == "2026-01-05 America/New_York"
    assert re.fullmatch(r"16:00:00\.\d{3}", last.cells[0])


def test_the_last_full_bar_comes_before_one_under_way_and_is_named() -> None:
    result = strand.replay(sample_path(), strand.bars("10m"), workers=1, date=SAMPLE_DATE, end="15:58")
    rows = found(result, top=5)
    names = [field.name for field in rows.fields]
    emitted = result.outputs["bars"]
    full = emitted[(emitted["flags"] & strand.handlers.builtin.bar_handlers.BAR_PARTIAL) == 0]
    for name, field in (("open", "last_open"), ("high", "last_high"), ("low", "last_low"), ("close", "last_close")):
        cells = rows.fields[names.index(field)].cells
        for symbol, cell in zip(rows.symbols.cells, cells, strict=True):
            bars = full[full["instrument_id"] == result.symbols.index(symbol)]
            assert float(cell.replace(",", "")) == bars[-1][name] / 1e9
        assert names.index(field) < names.index(name)
    assert max(names.index(n) for n in names if n.startswith("last_") and n != "last_flags") < names.index("volume")
    assert "the last full bar" in rows.note
    assert rows.note in shown(rows, None)
    assert not found(strand.replay(sample_path(), "count", workers=0, limit=1000)).note


def test_a_vwap_has_the_digits_that_say_something() -> None:
    rows = found(strand.replay(sample_path(), strand.bars("10m"), workers=1, date=SAMPLE_DATE), top=5)
    cells = {field.name: field for field in rows.fields}["last_vwap"].cells
    assert all(len(cell.partition(".")[2]) == 4 for cell in cells)


@pytest.mark.parametrize(
    ("values", "quantity", "exact", "texts"),
    [
        ([5.68, 420.65, None], "price", True, ["5.68", "420.65", "-"]),
        ([0.000000001, 1234567.0], "price", True, ["0.000000001", "1,234,567.000000000"]),
        ([3.0], "price", True, ["3.00"]),
        ([184181.59, 1240923.2000000002], "notional", False, ["184,181.59", "1,240,923.20"]),
        ([49.840276327415864, 231.30047918043627], "price", False, ["49.8403", "231.3005"]),
        ([0.00660369871988405, 0.5], "ratio", False, ["0.0066037", "0.5000000"]),
        ([7.566e-05, 6.54e-08, 0.0], "ratio", False, ["7.566e-05", "6.54e-08", "0"]),
        ([12345678901.5], "ratio", False, ["12,345,678,902"]),
        ([float("inf"), 2.0], "ratio", False, ["inf", "2.0000"]),
        ([], "ratio", False, []),
    ],
)
def test_numbers_of_a_column_have_the_decimals_that_they_need(
    values: Any, quantity: str, exact: bool, texts: list[str]
) -> None:
    assert _floats(values, quantity, is_exact=exact) == texts


def test_a_field_without_news_gives_way_to_others() -> None:
    field = ShownField("x", "", ["10"])
    assert field.width == 2
    rows = found(strand.replay(sample_path(), "book", workers=0, limit=60_000), top=5)
    names = [field.name for field in rows.fields]
    assert names.index("crossed") > names.index("state")


def test_a_run_without_ticks_has_no_rows(tmp_path: Any) -> None:
    write_npy(tmp_path / "none.npz", zeros(0), ["A"])
    assert result_rows(strand.replay(tmp_path / "none.npz", "count", workers=0, allow_empty=True)) is None


def test_with_rows_per_day_the_ticks_are_those_of_the_day_that_is_shown(tmp_path: Path) -> None:
    whole = gzip.decompress(sample_path().read_bytes())
    days = [tmp_path / name for name in ("20260105.itch50", "20260106.itch50")]
    for day, length in zip(days, (400_000, 250_000), strict=True):
        day.write_bytes(whole[:length])
    result = strand.replay(days, "vwap", per_day=True, feed_options={"on_bad_record": "skip"})
    last = result.days[-1]
    counts = dict(zip(last.symbols, last.ticks_by_symbol.tolist(), strict=True))
    rows = found(result, top=None)
    assert rows.symbols.cells
    assert rows.ticks.cells == [f"{counts[name]:,}" for name in rows.symbols.cells]
    assert sum(counts.values()) == last.ticks < result.ticks
