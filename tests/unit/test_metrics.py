"""Metrics for Prometheus: each number against what a program counted itself, names and numbers of series."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar

import numpy as np
import pytest
from mold_lines import listen, orders, sender
from mold_wire import end_of_session, packet
from prometheus_client.parser import text_string_to_metric_families
from starlette.testclient import TestClient
from websocket_server import listen as listen_to_messages
from websocket_server import message, trade
from websocket_server import serving as serving_messages

import strand
from strand.dispatch import guarding
from strand.dispatch.guard import Reading
from strand.errors import AttachError, ConfigurationError
from strand.http import App
from strand.machine import strand_version
from strand.metrics import BOUNDS_S, Machine, Readings, buckets, exposition, serving
from strand.outside.snapshot import Snapshot
from strand.stats import METRICS, Latency
from tests.support.engine_support import wait_until

Series = dict[tuple[str, ...], float]


def snapshot() -> Snapshot:
    """A snapshot of the run of this process, with a sample that was put after the call."""
    attached, begun = strand.attach(os.getpid(), name="watched"), time.time_ns()
    wait_until(lambda: (attached.snapshot().sampled_at_ns or 0) > begun)
    return attached.snapshot()


def series(text: bytes) -> Series:
    """Values by name and labels, as ``("name", "label=value", ...)``."""
    return {
        (sample.name, *(f"{name}={value}" for name, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
    }


def test_tasks_by_level_and_outcome_are_those_that_the_program_counted() -> None:
    def fails() -> None:
        raise ValueError("no")

    with strand.Scheduler(workers=2, policy=strand.Levels(), attachable=True, name="watched") as run:
        for level, done, failed in (("immediate", 7, 0), ("high", 5, 2), ("low", 0, 3)):
            at_level = run.options(priority=level)
            for future in [at_level.submit(int) for _ in range(done)] + [at_level.submit(fails) for _ in range(failed)]:
                future.exception()
        found = series(exposition(snapshot(), {}))
    for level, done, failed in (("immediate", 7, 0), ("high", 5, 2), ("retry", 0, 0), ("low", 0, 3)):
        labels = "kind=task", f"level={level}"
        assert found["strand_ended_total", *labels, "outcome=done"] == done
        assert found["strand_ended_total", *labels, "outcome=failed"] == failed
        assert found["strand_started_total", *labels] == done + failed
        assert found["strand_wait_seconds_bucket", "kind=task", "le=+Inf", labels[1]] == done + failed
        assert found["strand_queue_depth", *labels] == 0
    assert found["strand_accepted_total", "kind=task"] == 17
    assert found["strand_pending", "kind=task"] == 0
    assert "strand_success_ratio" not in {name for name, *_ in found}  # fewer than 20 ends


def test_ticks_are_those_that_were_published() -> None:
    ticks = strand.ticks.zeros(500)
    ticks["instrument_id"] = np.arange(500) % 2
    with strand.Dispatcher(["A", "B"], "count", workers=2, attachable=True, name="watched") as run:
        run.publish(ticks)
        run.drain()
        found = series(exposition(snapshot(), {"cpu_usage": 0.25, "memory_usage": None}))
    assert found["strand_accepted_total", "kind=tick"] == 500
    assert found["strand_ended_total", "kind=tick", "level=all", "outcome=handled"] == 500
    workers = sum(value for (name, *_), value in found.items() if name == "strand_worker_handled_total")
    assert workers == 500
    assert found["strand_cpu_usage_ratio",] == 0.25
    assert ("strand_memory_usage_ratio",) not in found
    assert (
        found["strand_build_info", "kind=dispatcher", "policy=fifo", "run=watched", f"version={strand_version()}"] == 1
    )
    assert not [label for _, *labels in found for label in labels if label.startswith("symbol")]


def test_a_name_that_is_no_text_in_utf_8_is_escaped() -> None:
    group = strand.TaskGroup("g\udc80")
    with strand.Scheduler(workers=1, policy=strand.Fair(), attachable=True, name="\ud800 \\x41") as run:
        run.options(group=group).submit(int).result()
        attached = strand.attach(os.getpid(), name="\ud800 \\x41")
        wait_until(lambda: any(one.name == "g\udc80" for one in attached.snapshot().groups))
        found = series(exposition(attached.snapshot(), {}))
    assert [label for name, *labels in found if name == "strand_build_info" for label in labels][2] == (
        "run=\\ud800 \\x41"
    )
    assert ("strand_group_cpu_seconds_total", "group=g\\udc80") in found


def test_a_bucket_counts_the_times_that_are_surely_within_its_bound() -> None:
    floors = np.array([0.0, 1e3, 2e3, 1e6, 2e10])
    found = dict(buckets(Latency.from_histogram(np.array([1, 2, 4, 8, 16], np.uint64), floors)))
    # The third bucket, of 2 us to 1 ms, ends at the bound of 1 ms; the fourth is of up to 20 s, the last of any time.
    assert [found[bound] for bound in ("1e-06", "1e-05", "0.0001", "0.001", "15", "30", "+Inf")] == [
        1,
        3,
        3,
        7,
        7,
        15,
        31,
    ]
    assert [*found][:-1] == [f"{bound:g}" for bound in BOUNDS_S]


def at_most_500_series_and_6_per_worker_at(n: int) -> None:
    ticks = strand.ticks.zeros(n)
    ticks["instrument_id"] = np.arange(n)
    names = [f"S{at}" for at in range(n)]
    options = {"workers": 2, "policy": strand.Levels(), "attachable": True, "name": "watched"}
    with strand.Dispatcher(names, "count", **options) as run:
        run.publish(ticks)
        run.drain()
        for level in ("immediate", "high", "retry", "normal", "low"):
            run.tasks.options(priority=level).submit(int).result()
        found = series(exposition(snapshot(), {"cpu_usage": 0.1, "memory_usage": 0.1, "io_pressure": 0.0}))
    assert len(found) <= 500 + 6 * 3
    assert len([name for name, *labels in found if any(label.startswith("worker=") for label in labels)]) <= 6 * 3


def test_there_are_at_most_500_series_and_6_per_worker_at_many_symbols_with_ticks_and_tasks() -> None:
    at_most_500_series_and_6_per_worker_at(20_000)


def test_there_are_as_few_series_at_a_million_symbols(exhaustive: None) -> None:
    at_most_500_series_and_6_per_worker_at(1_000_000)


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed (Debian: prometheus)")
def test_prometheus_finds_no_fault_in_names_and_types() -> None:
    with strand.Scheduler(workers=1, policy=strand.Levels(), attachable=True, name="watched") as run:
        run.submit(int).result()
        text = exposition(snapshot(), {"cpu_usage": 0.5})
    ran = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, check=False)
    assert ran.returncode == 0, ran.stdout.decode() + ran.stderr.decode()


def test_metrics_are_served_and_a_look_that_fails_is_a_status_of_500() -> None:
    looks: Iterator[object]
    with strand.Scheduler(workers=1, attachable=True, name="watched"):
        found = snapshot()
        looks = iter([(found, {}), AttachError("gone")])

        def look() -> tuple[Snapshot, dict[str, float | None]]:
            one = next(looks)
            if isinstance(one, AttachError):
                raise one
            return one  # type: ignore[return-value]

        with serving(os.getpid(), look, 0) as url:
            assert url.startswith("http://127.0.0.1:")
            with urllib.request.urlopen(url, timeout=60) as answer:
                assert series(answer.read())["strand_accepted_total", "kind=task"] == 0
            with pytest.raises(urllib.error.HTTPError, match="500"):
                urllib.request.urlopen(url, timeout=60)


# ---- Live feeds, and the guard


def test_gaps_of_lines_and_warnings_of_a_live_feed_equal_its_own_report(caplog: pytest.LogCaptureFixture) -> None:
    options = {"workers": 1, "attachable": True, "name": "watched", "cores": None}
    with contextlib.closing(listen(lines=2, gap_timeout_s=0.02)) as feed, sender(*feed.addresses) as send:
        send(0, packet(1, orders(1, 3)))
        send(0, packet(5, orders(5, 7)))
        send(1, packet(1, orders(1, 2)))
        send(0, packet(1 << 39, orders(7, 9)))
        runs = ThreadPoolExecutor(1)
        run = runs.submit(strand.replay, feed, "count", **options)
        wait_until(lambda: attachable("watched"))
        attached = strand.attach(os.getpid(), name="watched")
        wait_until(lambda: (found := attached.snapshot().feed) is not None and found.gap_messages == 2)
        send(0, end_of_session(9))
        result = run.result(60)
    report, warnings = feed.report(), {warning.kind: warning.count for warning in result.warnings}
    found = attached.snapshot().feed
    assert found is not None
    assert (found.messages, found.gaps, found.gap_messages) == (
        report["delivered"], len(report["gaps"]), report["gap_messages"],
    )  # fmt: skip
    assert found.gap_messages == 4
    said = [record.getMessage() for record in caplog.records if record.name == "strand.feeds"]
    assert said == ["gap: 2 messages came on no line"] * 2
    for name, line in found.lines.items():
        assert line.gaps == len(report["line_gaps"][name]) == report["lines"][name]["gap_count"]
        assert line.gap_messages == sum(end - begin for begin, end in report["line_gaps"][name])
    assert found.warnings == {"missing messages": 4, "sequence jumps": 1}
    assert found.warnings.items() <= warnings.items()
    metrics = series(exposition(attached.snapshot(), {}))
    assert metrics["strand_feed_gap_messages_total",] == 4
    assert metrics["strand_feed_line_gaps_total", "line=a"] == len(report["line_gaps"]["a"])
    assert metrics["strand_feed_warnings_total", "warning=sequence jumps"] == 1


def test_reconnects_of_a_live_feed_equal_its_own_report() -> None:
    def handle(connection: Any, before: int) -> None:
        connection.send(message(trade(1 + 5 * before)))

    with serving_messages(handle) as url:
        feed = listen_to_messages(url, max_messages=3)
        options = {"workers": 1, "attachable": True, "name": "watched", "cores": None}
        run = ThreadPoolExecutor(1).submit(strand.replay, feed, "count", **options)
        wait_until(lambda: attachable("watched") or run.done())
        attached = strand.attach(os.getpid(), name="watched")
        run.result(60)
    found, counts = attached.snapshot().feed, feed.statistics()
    assert found is not None
    assert found.reconnects == counts["connected"] - 1 == 2
    assert (found.messages, found.gaps, found.gap_messages) == (3, counts["gap"], counts["gap_messages"])
    assert found.gaps == 2


def attachable(name: str) -> bool:
    try:
        return strand.attach(os.getpid(), name=name) is not None
    except AttachError:
        return False


def test_readings_of_the_guard_are_those_that_it_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    class Measured:
        sources: ClassVar = dict.fromkeys(("cpu", "memory", "io"), "a test")
        lacks_io = False

        def read(self) -> Reading:
            return Reading(0.25, 0.5, None, 7.0)

    monkeypatch.setattr(guarding, "Meters", lambda guard: Measured())
    guard = strand.Guard(every="1ms")
    with strand.Scheduler(workers=1, policy=strand.Levels(), guard=guard, attachable=True, name="watched") as run:
        own = run.guard_statistics
        wait_until(lambda: (own() or {})["cpu"].reading is not None)
        found = snapshot()
        assert {name: of.reading for name, of in found.guard.items()} == {"cpu": 0.25, "memory": 0.5, "io": 7.0}
        assert {name: of.reading for name, of in (own() or {}).items()} == {"cpu": 0.25, "memory": 0.5, "io": 7.0}
    assert series(exposition(found, {}))["strand_guard_reading", "resource=memory"] == 0.5


# ---- The program's own numbers


@pytest.fixture
def own() -> Iterator[None]:
    before = METRICS.copy()
    yield
    METRICS.clear()
    METRICS.update(before)


@pytest.mark.usefixtures("own")
def test_counters_of_handlers_and_tasks_lose_nothing_and_are_seen_from_outside() -> None:
    made, depth = strand.metric("made"), strand.metric("depth", kind="gauge")
    made.add(5)  # before there is a run

    @strand.batch_handler(state=[("n", "i8")])
    def counts(row: Any, ticks: Any, ctx: Any) -> None:
        made.add(len(ticks))
        for _ in range(20):
            made.add()

    ticks = strand.ticks.zeros(4000)
    ticks["instrument_id"] = np.arange(4000) % 40
    names = [f"S{at}" for at in range(40)]
    with strand.Dispatcher(names, counts, workers=4, attachable=True, name="watched", cores=None) as run:
        for part in np.split(ticks, 20):
            run.publish(part)
        tasks = [run.tasks.submit(lambda: [made.add(2) for _ in range(100)]) for _ in range(20)]
        run.drain()
        for task in tasks:
            task.result()
        depth.set(2.5)
        batches = sum(worker.visits for worker in run.statistics().workers)
        found = snapshot()
        shown = json.loads(command("stat", str(os.getpid()), "--json").stdout)["figures"]
        table = command("stat", str(os.getpid())).stdout
    calls = (made.value - 5 - 4000 - 4000) / 20
    assert calls == int(calls)
    assert 20 <= calls <= batches
    assert found.own_counters == {"made": made.value} == shown["own_counters"]
    assert found.own_gauges == {"depth": 2.5}
    assert f"{made.value:,}" in table
    metrics = series(exposition(found, {}))
    assert metrics["strand_user_made_total",] == made.value
    assert metrics["strand_user_depth",] == 2.5


@pytest.mark.usefixtures("own")
def test_numbers_that_no_float_holds_are_refused_and_large_ones_are_seen_from_outside() -> None:
    made, depth = strand.metric("made"), strand.metric("depth", kind="gauge")
    for change in (made.add, depth.add, depth.set):
        with pytest.raises(ConfigurationError, match="beyond the range of a float"):
            change(10**400)
    depth.set(1e308)
    with pytest.raises(ConfigurationError, match="finite"):
        depth.add(1e308)
    made.add(10**300)
    with strand.Scheduler(workers=1, attachable=True, name="watched"):
        found = snapshot()
    assert (found.own_counters, found.own_gauges) == ({"made": 1e300}, {"depth": 1e308})
    assert series(exposition(found, {}))[("strand_user_made_total",)] == 1e300


@pytest.mark.usefixtures("own")
def test_adds_of_many_threads_are_all_there() -> None:
    made, before = strand.metric("made"), sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as threads:
            for _ in range(8):
                threads.submit(lambda: [made.add(3) for _ in range(5000)])
    finally:
        sys.setswitchinterval(before)
    assert made.value == 8 * 5000 * 3
    assert strand.metric("made") is made


@pytest.mark.usefixtures("own")
@pytest.mark.parametrize(
    "name", ["", "1a", "a-b", "a b", "\u00e4", "a" * 101, "made_total", "x_bucket", "a\n", 5, None]
)
def test_a_name_that_prometheus_does_not_take_is_refused(name: Any) -> None:
    with pytest.raises(ConfigurationError, match="name: "):
        strand.metric(name)


@pytest.mark.usefixtures("own")
def test_a_counter_never_falls_and_there_are_at_most_64_metrics() -> None:
    made, gauge = strand.metric("made"), strand.metric("gauge", kind="gauge")
    for wrong in (-1, float("nan"), float("inf"), "1", None, True):
        with pytest.raises(ConfigurationError):
            made.add(wrong)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="counter"):
        made.set(1)
    made.add(np.uint8(200))
    made.add(np.uint8(200))
    gauge.add(-2)
    assert (made.value, gauge.value) == (400, -2)
    with pytest.raises(ConfigurationError, match="a counter already"):
        strand.metric("made", kind="gauge")
    with pytest.raises(ConfigurationError, match="kind: "):
        strand.metric("other", kind="histogram")  # type: ignore[arg-type]
    for at in range(62):
        strand.metric(f"m{at}")
    with pytest.raises(ConfigurationError, match="one too many"):
        strand.metric("m62")


# ---- Readings for alerts


def test_readings_of_a_run_are_what_the_program_counted() -> None:
    def dies() -> None:
        raise OSError("again")

    with strand.Scheduler(workers=1, policy=strand.Levels(), attachable=True, name="watched") as run:
        high = run.options(priority="high", retry=strand.RetryPolicy(max_retries=0))
        for future in [high.submit(int) for _ in range(30)] + [high.submit(dies) for _ in range(10)]:
            future.exception()
        snapshot()
        found = Readings(strand.attach(os.getpid(), name="watched"))()
    assert found["success_rate", "high"] == found["success_rate", "all"] == 30 / 40
    assert found["success_rate", "low"] is None
    assert found["queue_depth", "high"] == 0
    assert found["promotion_rate", "all"] == 0
    assert found["starvation_count", "all"] == 0
    assert [found[f"tasks_{end}", "all"] for end in ("dead", "failed", "expired", "promoted")] == [10, 0, 0, 0]
    waits = [found["wait_p95", "high"], found["wait_p99", "high"]]
    assert None not in waits
    assert 0 < waits[0] <= waits[1] < 60  # type: ignore[operator]
    assert found["wait_p99", "normal"] is None


def test_the_machine_has_shares_of_cpu_time_and_memory() -> None:
    machine = Machine()
    assert set(machine.read()) | set(machine.missing) >= {"cpu_usage", "memory_usage"}
    assert all(value is None or 0 <= value <= 1.5 for value in machine.read().values())


# ---- The commands


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "strand", *arguments], capture_output=True, text=True, check=False, timeout=60
    )


def test_the_command_prints_the_metrics_of_a_process() -> None:
    with strand.Scheduler(workers=1, attachable=True, name="watched") as run:
        run.submit(int).result()
        snapshot()
        ran = command("metrics", str(os.getpid()))
    assert ran.returncode == 0, ran.stderr
    assert series(ran.stdout.encode())["strand_accepted_total", "kind=task"] == 1


def test_the_command_says_what_is_wrong() -> None:
    assert "give --webhook too" in command("alerts", "run", str(os.getpid()), "--secret-file", "x").stderr
    assert "no running dispatcher" in command("metrics", str(os.getpid())).stderr
    exported = command("alerts", "export")
    assert exported.returncode == 0
    assert "StrandQueueDepthImmediateSevere" in exported.stdout


def test_an_application_serves_the_metrics_of_its_scheduler_and_its_own() -> None:
    with strand.Scheduler(workers=1, attachable=True, name="watched") as run:
        app = App(run)
        app.get("/name")(lambda _: "a")
        app.metrics(strand.attach(fd=run.memory_fd))
        with TestClient(app) as client:
            for _ in range(3):
                assert client.get("/name").text == "a"
            assert client.get("/none").status_code == 404
            snapshot()
            found = series(client.get("/metrics").content)
    assert found["strand_accepted_total", "kind=task"] == 3
    assert found["strand_http_requests_total", "path=/name", "status=200"] == 3
    assert found["strand_http_requests_total", "path=(other)", "status=404"] == 1
    assert found["strand_http_open_requests",] == 1
