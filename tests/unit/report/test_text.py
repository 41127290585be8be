"""The rows that a replay's command shows: order, units, and numbers that are never cut nor wrong."""

from __future__ import annotations

import csv
import datetime as dt
import gzip
import io
import re
import sys
from contextlib import redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

import strand
from strand.command.showing import print_rows
from strand.dicts import FrozenDict
from strand.errors import ConfigurationError, MissingExtraError
from strand.feeds import FeedInfo
from strand.feeds.base import Skipped
from strand.feeds.merge.feeds import MergedFeed
from strand.feeds.sample import SAMPLE_DATE, sample_path
from strand.feeds.write.conversion import convert
from strand.replaying.timeline import Timeline
from strand.report.html import contents
from strand.report.quantities import duration, feed_clock, printable
from strand.report.result_rows import ResultRows, _floats, check_rows_path, result_rows, rows_with_names, write_rows
from strand.report.summary import (
    as_dict,
    closing_lines,
    figures_line,
    latency_cells,
    latency_rows,
    left_ticks,
    policy_tables,
    queue_depth,
    shown_latency,
)
from strand.report.tables import print_policy, print_replay, print_skipped
from strand.stats import FairStatistics, GroupStatistics, GuardStatistics, Latency, Statistics
from strand.ticks import TICK

pytestmark = pytest.mark.python


@pytest.fixture(scope="module")
def vwap() -> strand.ReplayResult:
    return strand.replay(sample_path(), "vwap", workers=1, feed_options={"date": SAMPLE_DATE})


def shown(rows: ResultRows, width: int | None) -> list[str]:
    with redirect_stdout(io.StringIO()) as text:
        print_rows(rows, width)
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


def test_spans_are_shown_with_their_unit_and_as_a_dash_where_there_is_none() -> None:
    pytest.importorskip("pandas")
    result = strand.replay(sample_path(), "trade_stats", workers=0, limit=20_000)
    rows = found(result, top=None)
    spans = result.rows.to_pandas()["interarrival_ns"]
    cells = {field.name: field for field in rows.fields}["interarrival_ns"].cells
    assert cells == ["-" if np.isnan(spans[name]) else duration(spans[name]) for name in rows.symbols.cells]
    assert 0 < cells.count("-") < len(cells)


@pytest.mark.cells(1)
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


# ---- Rows in a file


@pytest.mark.parametrize("ending", [".npy", ".csv", ".csv.gz"])
def test_rows_are_written_with_names_and_read_back(tmp_path: Path, ending: str) -> None:
    result = strand.replay(sample_path(), "count", limit=5000)
    path = tmp_path / f"rows{ending}"
    write_rows(path, result)
    table = rows_with_names(result)
    assert table["ticks"].sum() == 5000
    if ending == ".npy":
        np.testing.assert_array_equal(np.load(path, allow_pickle=False), table)
        return
    data = path.read_bytes()
    if ending.endswith(".gz"):
        data = gzip.decompress(data)
    rows = list(csv.DictReader(io.StringIO(data.decode())))
    assert [r["symbol"] for r in rows] == table["symbol"].tolist()
    assert [int(r["ticks"]) for r in rows] == table["ticks"].tolist()
    assert not [p for p in tmp_path.iterdir() if p != path]


@pytest.mark.parametrize("ending", [".parquet", ".arrow"])
def test_a_table_of_rows_has_the_types_and_values_that_the_result_has(tmp_path: Path, ending: str) -> None:
    dataset = pytest.importorskip("pyarrow.dataset")
    result = strand.replay(sample_path(), "depth", limit=5000)
    path = tmp_path / f"rows{ending}"
    write_rows(path, result)
    found = dataset.dataset(path, format="parquet" if ending == ".parquet" else "ipc").to_table()
    whole = result.rows.of(np.flatnonzero(result.ticks_by_symbol)).to_arrow()
    assert found.schema.equals(whole.schema)
    assert found.to_pylist() == whole.to_pylist()
    assert found.num_rows == np.count_nonzero(result.ticks_by_symbol)
    assert not [p for p in tmp_path.iterdir() if p != path]


def test_a_table_of_rows_per_day_has_each_day_s(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    import pyarrow.parquet

    two = [tmp_path / name for name in ("20260105.itch50", "20260106.itch50")]
    for day in two:
        day.write_bytes(gzip.decompress(sample_path().read_bytes())[:400_000])
    result = strand.replay(two, "count", per_day=True, feed_options={"on_bad_record": "skip"})
    write_rows(tmp_path / "rows.parquet", result)
    found = pyarrow.parquet.read_table(tmp_path / "rows.parquet")
    assert found.column_names[:2] == ["day", "symbol"]
    assert found["day"].to_pylist() == rows_with_names(result)["day"].tolist()
    assert found["symbol"].to_pylist() == rows_with_names(result)["symbol"].tolist()


@pytest.mark.parametrize("ending", [".parquet", ".arrow"])
def test_rows_of_a_missing_package_are_refused_before_anything_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match=r"strand\[parquet\]"):
        check_rows_path(tmp_path / f"rows{ending}")
    (tmp_path / "rows.csv").mkdir()
    with pytest.raises(ConfigurationError, match=r"rows\.csv is a folder"):
        check_rows_path(tmp_path / "rows.csv")


# ---- The figures of a run in one line, and what a user has to know beside them


DAY = {"date": SAMPLE_DATE}


def test_one_line_has_ticks_time_rate_workers_and_warnings() -> None:
    result = strand.replay(sample_path(), "count", workers=1, limit=1000, feed_options=DAY)
    symbols = int((result.ticks_by_symbol > 0).sum())
    line = figures_line(result)
    assert line.startswith(f"1,000 ticks of {symbols} symbols in ")
    assert line.endswith(" ticks/s, 1 worker, warnings: none")
    assert list(closing_lines(result, None)) == [("", line)]
    one = strand.replay(sample_path(), strand.bars(ticks=1), workers=1, limit=1, feed_options=DAY)
    assert figures_line(one).startswith("1 tick of 1 symbol in ")


def test_the_latency_of_ticks_that_came_at_a_pace_is_in_the_line() -> None:
    result = strand.replay(sample_path(), "count", workers=1, limit=1000, feed_options=DAY, speed=1e9)
    latency = result.statistics.end_to_end
    p50, p99 = (shown_latency(latency, latency.percentiles[p]) for p in (50.0, 99.0))
    assert f", 1 worker, end to end p50 {p50} and p99 {p99}, warnings: " in figures_line(result)


def test_what_was_written_is_said_and_that_the_date_is_not_known(tmp_path: Path) -> None:
    out = {"bars": tmp_path / "bars.npy"}
    result = strand.replay(sample_path(), strand.bars("1m"), workers=1, limit=50_000, out=out)
    lines = list(closing_lines(result, tmp_path / "rows.csv"))
    assert ("", f"bars: {result.written['bars'][1]:,} records written to {tmp_path / 'bars.npy'}") in lines
    assert ("", f"rows written to {tmp_path / 'rows.csv'}") in lines
    assert [(w.kind, w.count) for w in result.warnings] == [("unknown date", 50_000)]
    assert "count from 1970-01-01" in result.warnings[0].cure
    collected = strand.replay(sample_path(), strand.bars("1m"), workers=1, limit=50_000, feed_options=DAY)
    assert not collected.warnings
    (_, last) = list(closing_lines(collected, None))[-1]
    assert last == f"bars: {len(collected.outputs['bars']):,} records, not written (--out bars=FILE)"


def test_what_was_skipped_dropped_and_quarantined_is_counted_in_the_line_and_named_below() -> None:
    result = strand.replay(sample_path(), "count", workers=1, limit=1000, feed_options=DAY)
    skipped = Skipped()
    skipped.add("unknown type", 3)
    statistics = replace(result.statistics, dropped={"newest": 1200, "oldest": 0, "abandoned": 16_383})
    bad = replace(result, skipped=skipped, statistics=statistics, failures=("A at 7",))
    line, *others = closing_lines(bad, None)
    assert ", 3 skipped, 1,200 dropped, 16,383 not handled, 1 quarantined, " in line[1]
    assert others == [
        ("skipped:", " 3 unknown type"),
        ("dropped:", " 1,200 newest"),
        ("not handled:", " 16,383 ticks were read, and still waited when the run stopped"),
        ("quarantined:", " A at 7"),
    ]
    assert left_ticks(replace(statistics, dropped={"abandoned": 1})).startswith("1 tick was read, and ")
    page = contents(bad, None, "count", "")["verdict"]
    assert "; dropped: 1,200 newest; 16,383 ticks were read, and still waited when the run stopped" in page
    assert "still waited" in bad._repr_html_()


# ---- What the command shows to people


def test_what_was_passed_over_is_counted_and_shown_with_its_place() -> None:
    shown = io.StringIO()
    sample = {"reason": "bad [field]", "offset": 70, "line": 3, "text": "[x]"}
    found = {"counts": {"bad [field]": 1200}, "samples": [sample, sample | {"offset": None, "text": ""}]}
    print_skipped(Console(file=shown, width=100), found)
    assert shown.getvalue().splitlines() == [
        "skipped: 1,200 bad [field]",
        "  bad [field] at byte 70 at line 3 [x]",
        "  bad [field] at line 3",
    ]


# ---- Latencies as text, and the depth of queues


FLOORS = np.array([0.0, 10.0, 20.0, 4000.0])


def test_a_percentile_below_what_the_clock_resolves_says_so() -> None:
    latency = Latency.from_histogram(np.array([50, 40, 0, 10], np.uint64), FLOORS, 20.0)
    assert latency_cells(latency) == ["under 20 ns", "under 20 ns", "8 us", "8 us", "8 us"]
    assert shown_latency(latency, 20.5) == "20.5 ns"
    # Without a clock that is known, every number is shown.
    assert latency_cells(replace(latency, resolution_ns=0.0))[0] == "20 ns"


def test_waits_are_named_only_where_ticks_came_at_a_pace(day: strand.ReplayResult) -> None:
    assert [row[0] for row in latency_rows(day.statistics)] == ["handler"]
    paced = replace(day.statistics, paced=True)
    assert [row[0] for row in latency_rows(paced)] == ["wait", "handler", "end to end"]
    assert queue_depth(replace(day, statistics=paced)) is None


def sampled(day: strand.ReplayResult, accepted: list[int], pending: list[int]) -> strand.ReplayResult:
    assert day.timeline is not None
    timeline: Timeline = replace(
        day.timeline, accepted=np.array(accepted, np.uint64), pending=np.array(pending, np.uint64)
    )
    return replace(day, timeline=timeline)


def test_the_depth_is_that_of_the_moments_at_which_ticks_came(day: strand.ReplayResult) -> None:
    rng = np.random.default_rng(5)
    depths = rng.integers(0, 10_000, 100).tolist()
    found = queue_depth(sampled(day, [0, 0, *range(1, 101), 500], [0, 0, *depths, 0]))
    assert found is not None
    # The smallest depth that as many moments as the share says do not exceed, counted one by one.
    for share, depth in ((50, found.p50), (99, found.p99), (100, found.maximum)):
        assert depth in depths
        assert sum(one <= depth for one in depths) >= share
        assert sum(one < depth for one in depths) < share
    assert found.moments == 100
    one = queue_depth(sampled(day, [0, 7, 7], [0, 3, 0]))
    assert str(one) == "queue depth: p50 3 ticks, p99 3, max 3 (published and not yet handled, at 1 moment)"


def test_a_run_that_was_not_sampled_while_ticks_came_has_no_depth(day: strand.ReplayResult) -> None:
    assert queue_depth(sampled(day, [0, 500], [0, 0])) is None
    assert queue_depth(replace(day, timeline=None)) is None


# ---- What a policy counted, where it is shown


@pytest.fixture(scope="module")
def risen() -> Statistics:
    """Of a run in which strands of level low rose."""
    ticks = np.zeros(4, TICK)
    with strand.Dispatcher(2, "count", policy=strand.Levels(), priorities={"*": "low"}, workers=1, cores=None) as d:
        d.publish(ticks)
    counts = FrozenDict(immediate=0, high=1, retry=2, normal=3, low=4_000)
    return replace(d.statistics(), promoted=counts, starved=FrozenDict(dict(counts) | {"low": 5}))


def test_each_level_that_a_strand_can_rise_out_of_has_a_row(risen: Statistics) -> None:
    [(heads, rows)] = policy_tables(risen)
    assert heads == ("level", "rose out of it", "starved in it")
    assert rows == [("high", "1", "1"), ("retry", "2", "2"), ("normal", "3", "3"), ("low", "4,000", "5")]


def test_the_tables_are_printed(risen: Statistics) -> None:
    console = Console(file=io.StringIO(), width=100)
    print_policy(console, risen)
    assert "4,000" in console.file.getvalue()  # type: ignore[attr-defined]
    assert "starved in it" in console.file.getvalue()  # type: ignore[attr-defined]


def test_what_a_guard_held_back_has_a_row_for_each_resource(risen: Statistics) -> None:
    decided = {
        "cpu": GuardStatistics("the machine", False, 1_200, 3, 2_500_000_000),
        "io": GuardStatistics("not watched: there is nothing", False, 0, 0, 0),
    }
    heads, rows = policy_tables(replace(risen, guard=FrozenDict(decided)))[1]
    assert heads == ("short of", "held back", "until max_hold", "in all")
    assert rows == [
        ("cpu (the machine)", "1,200", "3", "2.5 s"),
        ("io (not watched: there is nothing)", "0", "0", "0.0 s"),
    ]


def test_what_aging_took_is_shown_by_class_and_by_rule() -> None:
    with strand.Dispatcher(2, "count", policy=strand.Aging(), workers=1, cores=None) as d:
        d.publish(np.zeros(4, TICK))
    s = replace(d.statistics(), picked=FrozenDict(normal=1_234), picked_by_rule=FrozenDict(low_every=0, max_wait=7))
    assert policy_tables(s) == [
        (("class", "taken"), [("normal", "1,234")]),
        (("taken for", "strands"), [("low_every", "0"), ("max_wait", "7")]),
    ]


@pytest.mark.parametrize(("n", "last"), [(3, "g2"), (21, "g20"), (50, "30 others")])
def test_groups_that_are_not_shown_by_name_have_a_row_together(risen: Statistics, n: int, last: str) -> None:
    times = [1000 - i for i in range(n)]
    groups = {f"g{i}": GroupStatistics(ns, ns / sum(times), 2, i, i or None) for i, ns in enumerate(times)}
    fair = FairStatistics(FrozenDict(groups), 0, 0, ())
    tables = policy_tables(replace(risen, fair=fair))
    assert "visits longer than a slice" not in [heads[0] for heads, _ in tables]
    [(heads, rows)] = [table for table in tables if table[0][0] == "group"]
    assert heads == ("group", "on CPU", "share", "slices used up", "longer stretches", "longest")
    assert rows[-1][0] == last
    assert sum(int(row[3]) for row in rows) == 2 * n
    assert sum(int(row[4].replace(",", "")) for row in rows) == sum(range(n))
    assert (rows[0][5], rows[-1][5]) == ("", f"{n - 1} ns")
    assert sum(float(row[2].rstrip("%")) for row in rows) == pytest.approx(100, abs=0.05 * len(rows))


def test_the_closing_report_has_the_numbers_of_each_worker_and_of_what_was_dropped() -> None:
    result = strand.replay(sample_path(), "count", workers=2, cores=None, date=SAMPLE_DATE)
    s = replace(result.statistics, dropped_by_level=FrozenDict(high=0, low=1_234), handled_inline=result.ticks // 4)
    out = io.StringIO()
    print_replay(Console(file=out, width=240), replace(result, statistics=s), None)
    lines = [line.split() for line in out.getvalue().splitlines()]
    for w in s.workers:
        busy = f"{w.busy_ns / (result.wall_s * 1e9):.0%}"
        cells = [f"{w.handled:,}", busy, f"{w.visits:,}", f"{w.stolen:,}", f"{w.parks:,}"]
        assert [*w.name.split(), *cells] in [[word for word in line if word not in "│┃"] for line in lines]
    text = " ".join(out.getvalue().split())
    shares = (
        f"set-up took {result.setup_s / result.wall_s:.0%} of the time",
        f"ticks {result.feed_s / result.wall_s:.0%}",
    )
    for words in (
        "200,500 ticks of 500 symbols",
        "25% of ticks handled inline",
        "dropped by level: 1,234 low",
        *shares,
    ):
        assert words in text


# ---- What a terminal would act on and not show is shown as its code


def test_what_is_not_to_be_seen_is_its_escape_and_all_else_stays() -> None:
    assert printable("A\x1b[2J\x9b\u202eB\nnext") == "A\\x1b[2J\\x9b\\u202eB\nnext"
    assert printable("é 中 [x]\\") == "é 中 [x]\\"
    assert printable("\udc80\0\r") == r"\udc80\x00\r"


# ---- A run as JSON


def test_waits_are_those_of_a_paced_run_and_queue_depths_those_of_one_as_fast_as_it_goes() -> None:
    # A run that ends before its first sample has no depths: this one lasts for many.
    fast, paced = (as_dict(strand.replay(sample_path(), strand.handlers.spin(2000), speed=speed)) for speed in (0, 1e7))
    assert list(fast["statistics"]["latency"]) == ["handler"]
    assert 0 <= fast["queue_depth"]["p50"] <= fast["queue_depth"]["p99"] <= fast["queue_depth"]["maximum"] <= 200_500
    assert paced["queue_depth"] is None
    latency = paced["statistics"]["latency"]
    assert list(latency) == ["wait", "handler", "end_to_end"]
    assert latency["end_to_end"]["p99_ns"] >= latency["wait"]["p50_ns"] >= latency["wait"]["resolution_ns"] > 0


# ---- On which clocks times are shown


def test_times_are_those_of_the_session_and_utc_where_nobody_knows_it() -> None:
    info = strand.feeds.open(sample_path(), date=SAMPLE_DATE).info
    clock = feed_clock(info)
    assert clock.name == "America/New_York"
    # Half past nine in New York is 14:30 UTC in winter, and 13:30 in summer.
    for utc in ("2026-01-05 14:30:00.123", "2026-07-06 13:30:00.123"):
        ns = int(dt.datetime.fromisoformat(utc + "+00:00").timestamp()) * 10**9 + 123_999_999
        assert clock.moment(ns) == utc[:11] + "09:30:00.123"
    for zone in (None, "No/Such", "../etc"):
        utc_clock = feed_clock(FeedInfo("mine", "here", zone=zone))
        assert (utc_clock.name, utc_clock.moment(0)) == ("UTC", "1970-01-01 00:00:00.000")


def test_where_the_date_is_not_known_times_of_day_stay_as_they_are() -> None:
    clock = feed_clock(strand.feeds.open(sample_path()).info)
    assert clock.name == "America/New_York, date unknown"
    assert clock.moment(34_200 * 10**9) == "1970-01-01 09:30:00.000"


def test_a_converted_file_keeps_the_zone(tmp_path: Path) -> None:
    convert(sample_path(), tmp_path / "day.npz", feed_options={"date": SAMPLE_DATE}, limit=100)
    assert strand.feeds.open(tmp_path / "day.npz").info.zone == "America/New_York"


def test_each_format_says_the_zone_that_it_knows(tmp_path: Path) -> None:
    day = tmp_path / "AAPL_2012-06-21_34200000_57600000_message_1.csv"
    day.write_text("34200.004241176,1,16113575,18,5853300,1\n34200.025551909,1,16113584,18,5853200,1\n")
    lobster = strand.feeds.open(day)
    itch = strand.feeds.open(sample_path(), date="2012-06-21")
    assert lobster.info.zone == itch.info.zone == "America/New_York"
    assert MergedFeed([lobster, itch]).info.zone == "America/New_York"
    coins = tmp_path / "coins.csv"
    coins.write_text("exchange,symbol,timestamp,local_timestamp,id,side,price,amount\nx,BTC,1000,1000,1,buy,5.5,1\n")
    assert strand.feeds.open(coins).info.zone is None
    assert strand.feeds.open(coins, new_day="date Asia/Tokyo").info.zone == "Asia/Tokyo"
    assert strand.feeds.open(coins, new_day="date").info.zone is None
    assert MergedFeed([strand.feeds.open(coins), itch]).info.zone is None
