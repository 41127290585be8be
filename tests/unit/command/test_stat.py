"""strand stat, and strand describe."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import threading
import time
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from engine_support import ticks_for
from outside_ticks import SYMBOLS, some_ticks

import strand
from strand import Dispatcher, Scheduler
from strand.command.cli import cli
from strand.feeds import FeedInfo
from strand.feeds.sample import SAMPLE_DATE, sample_path
from strand.handlers import resolve
from strand.machine import strand_version
from strand.stats import Latency

pytestmark = pytest.mark.python


def test_another_process_looks_and_the_command_too() -> None:
    with Dispatcher(SYMBOLS, "count", workers=1, cores=None, attachable=True) as dispatcher:
        dispatcher.publish(some_ticks(1000))
        dispatcher.drain()
        shows = "print(a.statistics().handled, a.symbol('S3').rows['ticks'][0])"
        run = [sys.executable, "-c", f"import strand; a = strand.attach({os.getpid()}); {shows}"]
        looked = subprocess.run(run, capture_output=True, text=True, timeout=60, check=True).stdout.split()
        assert looked == ["1000", str(dispatcher.rows["S3"]["ticks"])]
        arguments = ["stat", str(os.getpid()), "--symbol", "S3", "--strands"]
        plain = json.loads(CliRunner().invoke(cli, [*arguments, "--json"], catch_exceptions=False).output)
        assert plain["statistics"]["handled"] == 1000
        assert plain["statistics"]["watermark"] is None
        assert plain["symbols"][0]["row"]["ticks"] == dispatcher.rows["S3"]["ticks"]
        assert sum(one["handled"] for one in plain["by_strand"]) == 1000
        told = CliRunner().invoke(cli, arguments, catch_exceptions=False).output
        assert told.startswith(f"process {os.getpid()} (strand ")
        assert "handled 1,000" in told
        assert "S3 (count)" in told
    with Dispatcher(SYMBOLS, "count", workers=1, cores=None, attachable=True, name="books"):
        assert shown().startswith(f"books of process {os.getpid()} (strand ")


def shown(*options: str) -> str:
    return CliRunner().invoke(cli, ["stat", str(os.getpid()), *options], catch_exceptions=False).output


def test_histograms_count_each_tick_once_and_give_the_percentiles() -> None:
    with Dispatcher(40, "count", workers=1, cores=None, attachable=True) as dispatcher:
        assert "from" in shown("--histograms")  # before the first tick
        dispatcher.publish(ticks_for(np.arange(5000) % 40))
        dispatcher.drain()
        assert "histograms" not in json.loads(shown("--json"))
        plain = json.loads(shown("--json", "--histograms"))
        inner = dispatcher.statistics()
        text = shown("--histograms")
    floors = np.array(plain["histograms"].pop("floors_ns"))
    assert np.all(np.diff(floors) > 0)
    assert list(plain["histograms"]) == ["wait", "handler", "end_to_end"]
    for name, counts in plain["histograms"].items():
        assert sum(counts) == 5000
        there: Latency = getattr(inner, name)
        assert counts == there.counts.tolist()
        found = Latency.from_histogram(np.array(counts, np.uint64), floors, there.resolution_ns)
        assert found.percentiles == {p: plain["statistics"]["latency"][name][f"p{p:g}_ns"] for p in found.percentiles}
        assert found.maximum_ns == plain["statistics"]["latency"][name]["maximum_ns"]
    rows = text.partition("ticks by time")[2].splitlines()[4:]
    cells = [[int(cell.replace(",", "")) for cell in row.split()[4:]] for row in rows if row.split()]
    assert np.sum(cells, axis=0).tolist() == [5000] * 3
    assert cells[0] != [0] * 3
    assert cells[-1] != [0] * 3


def test_statistics_have_the_shape_and_the_words_that_a_replay_has() -> None:
    paced = ["replay", str(sample_path()), "--handler", "count", "--speed", "1000000"]
    replayed = CliRunner().invoke(cli, [*paced, "--json"]).output
    text = CliRunner().invoke(cli, [*paced, "-v"]).output
    with Dispatcher(40, "count", workers=1, cores=None, attachable=True) as dispatcher:
        dispatcher.publish(ticks_for(np.arange(500) % 40))
        dispatcher.drain()
        found = json.loads(shown("--json"))["statistics"]
        assert keys_of(found) == keys_of(json.loads(replayed)["statistics"])
        for heads in (("worker", "ticks", "visits", "stolen", "parks"), ("latency", "p50", "p90", "p99.9", "max")):
            for said in (shown(), text):
                assert any(set(heads) <= set(line.replace("┃", " ").split()) for line in said.splitlines()), heads
        for word in ("end to end", "inline"):
            assert word in shown()
            assert word in text


def test_of_a_replay_as_fast_as_it_goes_the_queue_depth_is_shown_and_no_wait() -> None:
    seen: list[str] = []

    def look(_: int) -> None:
        if not seen:
            seen.extend((shown(), shown("--json", "--histograms"), shown("--histograms")))

    strand.replay(sample_path(), "count", workers=1, attachable=True, progress=look, date=SAMPLE_DATE)
    text, plain, histograms = seen[0], json.loads(seen[1]), seen[2]
    assert not plain["statistics"]["paced"]
    assert list(plain["statistics"]["latency"]) == ["handler"]
    assert list(plain["histograms"]) == ["floors_ns", "handler"]
    assert "queue depth " in text
    for words in ("wait", "end to end", "pending"):
        assert words not in text + histograms


def keys_of(value: Any) -> Any:
    """The shape of a dict: its keys, those within it, and those of the first in each list."""
    if isinstance(value, dict):
        return {key: keys_of(one) for key, one in value.items()}
    return keys_of(value[0]) if isinstance(value, list) else None


def test_what_is_undefined_is_a_dash_or_null_and_times_are_times() -> None:
    row: list[Any] = [("at", strand.units.TIME), ("never", strand.units.TIME), ("mean", "<f8"), ("two", "<f8", (2,))]

    @strand.batch_handler(state=row)
    def sees(symbol: str, ticks: Any, row: Any) -> None:
        row["at"], row["never"] = 1_767_625_656_403_292_326, strand.ticks.UNDEF_PRICE
        row["mean"], row["two"] = np.nan, [1.5, np.nan]

    with Dispatcher(["A"], sees, workers=1, cores=None, attachable=True) as dispatcher:
        dispatcher.publish(ticks_for([0]))
        dispatcher.drain()
        (found,) = json.loads(shown("--json", "--symbol", "A"))["symbols"]
        cells = dict(line.split(None, 1) for line in shown("--symbol", "A").splitlines() if len(line.split()) > 1)
    wanted = {"at": 1_767_625_656_403_292_326, "never": None, "mean": None, "two": [1.5, None]}
    assert found["row"] == {"symbol": "A", **wanted}
    wanted_cells = {"at": "2026-01-05 15:07:36.403", "never": "-", "mean": "-", "two": "[1.5, -]"}
    assert {name: cells[name].strip() for name in wanted_cells} == wanted_cells


def test_a_strand_that_stays_in_a_visit_is_shown_as_in_visit() -> None:
    began, may_end = threading.Event(), threading.Event()

    @strand.batch_handler(state=[("ticks", "u8")])
    def stays(symbol: str, ticks: Any, row: Any) -> None:
        began.set()
        may_end.wait()

    with Dispatcher(["A", "B"], stays, workers=1, cores=None, strands=2, attachable=True) as dispatcher:
        try:
            dispatcher.publish(ticks_for([0]))
            began.wait()
            look = strand.attach(os.getpid()).symbol("A")
            assert look.in_visit
            assert look.counts.accepted == 1
            assert not strand.attach(os.getpid()).symbol("B").in_visit
            assert json.loads(shown("--json", "--symbol", "A"))["symbols"][0]["in_visit"]
            assert [one["in_visit"] for one in json.loads(shown("--json", "--strands"))["by_strand"]] == [True]
            assert "in a visit for 100 ms: the row may mix several moments" in shown("--symbol", "A")
            assert "in visit" in shown("--strands")
        finally:
            may_end.set()
        dispatcher.drain()
        assert not strand.attach(os.getpid()).symbol("A").in_visit
        assert "in visit" not in shown("--strands", "--symbol", "A")


@pytest.mark.parametrize(
    ("size_unit", "sizes", "words"),
    [
        (0.001, [1.5, 0.25], "1.5"),
        (1.0, [1500, 250], "1,500"),
        (None, [1500, 250], "sizes are in the units of each feed, which differ"),
    ],
)
def test_sizes_of_books_are_in_units_of_the_instrument(size_unit: float | None, sizes: list[float], words: str) -> None:
    ticks = ticks_for([0, 0], kind=1)
    ticks["order_id"], ticks["side"], ticks["size"], ticks["price"] = [1, 2], b"B", [1500, 250], [2 * 10**9, 10**9]
    handler = resolve("book").known(FeedInfo("none", "", size_unit=size_unit, ticks="orders"))
    with Dispatcher(["A"], handler, workers=1, cores=None, attachable=True) as dispatcher:
        dispatcher.publish(ticks)
        dispatcher.drain()
        seen = strand.attach(os.getpid()).book("A")
        assert (seen.bids["size"].tolist(), seen.size_unit) == ([1500, 250], size_unit)
        (book,) = json.loads(shown("--json", "--symbol", "A"))["books"]
        assert ([level["size"] for level in book["bids"]], book["size_unit"]) == (sizes, size_unit)
        row = json.loads(shown("--json", "--symbol", "A"))["symbols"][0]
        assert (row["row"]["bid_size"], row["size_unit"]) == (sizes[0], size_unit)
        text = shown("--symbol", "A")
    assert words in text
    assert text.count("which differ") == 2 * (size_unit is None)  # the row's and the book's


def test_a_scheduler_is_shown_by_level() -> None:
    with Scheduler(1, attachable=True, name="jobs") as scheduler:
        for task in [scheduler.options(priority="high").submit(time.sleep, 0) for _ in range(25)]:
            task.result()
        found = json.loads(shown("--json"))["figures"]["tasks"]
        while found["since_start"]["total"]["ended"]["done"] < 25:
            time.sleep(0.05)
            found = json.loads(shown("--json"))["figures"]["tasks"]
        text = shown()
    high = found["since_start"]["levels"]["high"]
    assert (high["started"], high["ended"]["done"], high["success_rate"]) == (25, 25, 1.0)
    assert "a scheduler of 1 worker, levels" in text
    assert "tasks of the last" in text
    assert ["high", "0", "25", "25"] in [line.split()[:4] for line in text.splitlines()]


# ---- strand describe


def described(*options: str) -> str:
    return CliRunner().invoke(cli, ["describe", str(os.getpid()), *options], catch_exceptions=False).output


def test_a_dispatcher_is_described_by_what_was_chosen_for_it() -> None:
    policy, limits = strand.Levels(), strand.Limits(capacity_ticks=500, level_capacity_ticks={"low": 100})
    options = {"workers": 1, "cores": [0], "policy": policy, "limits": limits, "strands": "per-symbol", "name": "day"}
    with Dispatcher(SYMBOLS, "book", attachable=True, **options) as dispatcher:
        found, text = json.loads(described("--json")), described()
        assert found == {
            **strand.attach(os.getpid()).description.choices,
            **{k: found[k] for k in ("made_at", "levels")},
        }
        assert dispatcher.statistics().handled == 0
    assert (found["kind"], found["name"], found["pid"]) == ("dispatcher", "day", os.getpid())
    assert (found["workers"], found["cores"], found["policy"]) == (1, [0], "Levels()")
    assert (found["max_symbols"], found["strands"], found["handlers"]) == (len(SYMBOLS), len(SYMBOLS), ["book"])
    assert (found["limits"]["capacity_ticks"], found["limits"]["level_capacity_ticks"]) == (500, {"low": 100})
    assert found["levels"] == ["immediate", "high", "retry", "normal", "low"]
    assert found["memory"]["queues_bytes"] > 0
    assert found["versions"]["strand"] == strand_version()
    assert found["versions"]["python"] == platform.python_version()
    lines = {key: " ".join(values) for key, *values in map(str.split, text.splitlines())}
    assert (lines["limits.capacity_ticks"], lines["cores"], lines["guard"]) == ("500", "0", "-")
    assert lines.keys() > {"versions.layout", "memory.queues_bytes", "budget.ticks"}


def test_a_scheduler_is_described_by_what_was_chosen_for_it() -> None:
    options = {"max_queue": 100, "retry": strand.RetryPolicy(max_retries=1), "guard": strand.Guard(), "name": "jobs"}
    with Scheduler(2, attachable=True, **options):
        found = json.loads(described("--json"))
    assert (found["kind"], found["workers"], found["limits"]["max_queue"]) == ("scheduler", 2, 100)
    assert (found["policy"], found["guard"], found["retry"]) == ("Levels()", "Guard()", "RetryPolicy(max_retries=1)")
    assert "strands" not in found
