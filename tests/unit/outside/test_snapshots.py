"""Snapshots of a run's figures beside what the program that runs it counts by itself."""

from __future__ import annotations

import dataclasses
import gc
import json
import os
import struct
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self

import numpy as np
import pytest

import strand
from strand import Aging, Dispatcher, Fair, Fifo, Levels, RetryPolicy, Scheduler, TaskGroup
from strand.binding.engine import Engine
from strand.binding.engine_words import CACHED_SEGMENTS, EngineConfig, RunByPython
from strand.binding.outside import OutsideView
from strand.dispatch.samples import Sampling, now_dtype, tick_figures
from strand.dispatch.statistics import Description, choices, described
from strand.errors import AttachError, ConfigurationError
from strand.outside.attached import Attached
from strand.outside.snapshot import Snapshot, snapshot_of
from strand.policies.policy import LEVELS, policy_config
from strand.tasks.ends import Counts
from strand.tasks.options import Ranks
from strand.threads import Inside
from strand.ticks import TICK

#: A histogram's bucket is a sixteenth of an octave: a time is known to one part in sixteen.
BUCKET = 1 + 1 / 16


def sampled(attached: Attached, is_there: Callable[[Snapshot], bool]) -> Snapshot:
    """The first snapshot for which ``is_there`` says yes; samples come once a second."""
    until = time.monotonic() + 60
    while not is_there(found := attached.snapshot()):
        assert time.monotonic() < until, found
        time.sleep(0.02)
    return found


def tasks_ended(n: int) -> Callable[[Snapshot], bool]:
    return lambda found: found.tasks is not None and sum(found.tasks.since_start.total.ended.values()) == n


def percentile(values: list[int], p: float) -> int:
    return sorted(values)[max(0, int(np.ceil(len(values) * p / 100)) - 1)]


@contextmanager
def all_busy(scheduler: Scheduler) -> Iterator[None]:
    """In the block each worker of a scheduler runs a task of level immediate that waits."""
    begun, over = threading.Semaphore(0), threading.Event()
    urgent = scheduler.options(priority="immediate")
    blockers = [urgent.submit(lambda: (begun.release(), over.wait())) for _ in range(scheduler.workers)]
    for _ in blockers:
        begun.acquire()
    try:
        yield
    finally:
        over.set()
    for blocker in blockers:
        blocker.result()


# ---- tasks


def test_ends_starts_and_times_of_tasks_by_level_are_those_that_the_program_sees() -> None:
    def work(ends: str) -> None:
        time.sleep(0.0005)
        if ends != "done":
            raise ValueError(ends)

    once = RetryPolicy(max_retries=0, classify=lambda error: "transient")
    with Scheduler(2, attachable=True, seed=1) as scheduler:
        attached = strand.attach(fd=scheduler.memory_fd)
        futures = []
        for level in ("high", "normal", "low"):
            for i in range(60):
                retry = once if i % 10 == 1 else None
                ends = "done" if i % 10 > 1 else "failed"
                futures.append((level, scheduler.options(priority=level, retry=retry).submit(work, ends)))
        for _, future in futures:
            future.exception()
        found = sampled(attached, tasks_ended(len(futures)))
    assert found.tasks is not None
    assert (found.tasks.accepted, found.tasks.pending, found.kind, found.ticks) == (180, 0, "scheduler", None)
    for level in ("high", "normal", "low"):
        mine = [future for of, future in futures if of == level]
        figures = found.tasks.since_start.levels[level]
        seen = Counter(future.state for future in mine)
        assert seen == {"done": 48, "failed": 6, "dead": 6}
        assert {end: n for end, n in figures.ended.items() if n} == seen
        assert (figures.started, figures.success_rate, figures.promoted) == (60, 48 / 60, 0)
        assert figures.promotion_rate == 0
        for times, values in (
            (figures.wait, [future.waited_ns for future in mine]),
            (figures.handler, [future.ran_ns for future in mine]),
        ):
            assert times.count == 60
            for p in (50, 95, 99):
                exact, told = percentile(values, p), times.percentile(p)
                assert told is not None
                assert exact <= told <= exact * BUCKET + 1
        assert figures.end_to_end.count == 60
        whole = figures.end_to_end.percentile(99)
        assert whole is not None
        assert whole >= percentile([f.waited_ns + f.ran_ns for f in mine], 99)
    assert found.tasks.since_start.levels["immediate"].success_rate is None
    assert found.tasks.since_start.levels["immediate"].promotion_rate is None
    assert found.tasks.since_start.total.started == 180


def test_tasks_that_wait_are_told_by_level_and_those_that_end_before_a_start_by_their_end() -> None:
    with Scheduler(1, attachable=True) as scheduler:
        attached = strand.attach(fd=scheduler.memory_fd)
        with all_busy(scheduler):
            n = {"high": 3, "normal": 5, "low": 7}
            waiting = [scheduler.options(priority=lv).submit(time.sleep, 0) for lv, k in n.items() for _ in range(k)]
            scheduler.options(priority="low", delay="1h").submit(time.sleep, 0)
            found = sampled(attached, lambda s: s.tasks is not None and sum(s.tasks.waiting.values()) == 16)
            assert found.tasks is not None
            assert found.tasks.waiting == scheduler.pending_count() == {**dict.fromkeys(LEVELS, 0), **n, "low": 8}
            assert found.tasks.pending == 17
            for task in waiting:
                assert task.cancel()
            found = sampled(attached, lambda s: s.tasks is not None and sum(s.tasks.waiting.values()) == 1)
            assert found.tasks is not None
            levels = found.tasks.since_start.levels
            assert {name: levels[name].ended["cancelled"] for name in n} == n
            assert [levels[name].started for name in LEVELS] == [1, 0, 0, 0, 0]
        scheduler.shutdown(cancel_futures=True)
    assert attached.snapshot().tasks is not None


def test_a_task_counts_at_the_level_to_which_it_has_risen() -> None:
    policy = Levels(timeouts={"high": "5ms", "retry": "6ms", "normal": "7ms", "low": "8ms"})
    with Scheduler(1, policy=policy, attachable=True) as scheduler:
        attached = strand.attach(fd=scheduler.memory_fd)
        with all_busy(scheduler):
            tasks = [scheduler.options(priority="low").submit(time.sleep, 0) for _ in range(30)]
            time.sleep(0.1)
        for task in tasks:
            task.result()
        found = sampled(attached, tasks_ended(31))
        statistics = scheduler.statistics()
    assert found.tasks is not None
    began = Counter(task.priority for task in tasks)
    assert began["low"] < 30
    figures = found.tasks.since_start.levels
    assert {name: of.started - (name == "immediate") for name, of in figures.items() if of.started} == {
        name: n + 0 for name, n in began.items()
    } | ({} if began["immediate"] else {"immediate": 0})
    assert {name: of.ended["done"] for name, of in figures.items()} == {
        name: of.started for name, of in figures.items()
    }
    assert {name: of.promoted for name, of in figures.items()} == statistics.promoted
    assert {name: of.starved for name, of in figures.items()} == statistics.starved
    assert sum(statistics.promoted.values()) > 0


def test_tasks_of_a_dispatcher_have_figures_beside_its_ticks() -> None:
    with Dispatcher(["A"], "count", attachable=True, policy=Levels(), workers=1, cores=None) as dispatcher:
        attached = strand.attach(fd=dispatcher.memory_fd)
        assert attached.snapshot().tasks is None
        dispatcher.tasks.options(priority="high").submit(time.sleep, 0).result()
        dispatcher.call("A", lambda view: view.row["ticks"])
        found = sampled(attached, tasks_ended(2))
    assert found.tasks is not None
    assert found.ticks is not None
    assert found.tasks.since_start.levels["high"].started == 1
    assert found.tasks.since_start.total.promoted is None  # the policy counts tasks and strands together


def test_retries_and_dead_letters_are_counted() -> None:
    retry = RetryPolicy(max_retries=2, base_delay="1ms", classify=lambda error: "transient")
    with Scheduler(1, attachable=True, max_dead_letters=1, seed=1) as scheduler:
        attached = strand.attach(fd=scheduler.memory_fd)
        for _ in range(2):
            scheduler.options(retry=retry).submit(int, "x").exception()
        found = sampled(attached, tasks_ended(2))
    assert found.task_counts is not None
    assert (found.task_counts.retries, found.task_counts.dead_letters, found.task_counts.dead_letters_gone) == (4, 1, 1)


def test_groups_of_fair_are_named_by_what_they_used_the_most_first() -> None:
    def spin(seconds: float) -> None:
        until = time.thread_time() + seconds
        while time.thread_time() < until:
            pass

    with Scheduler(1, policy=Fair(), attachable=True) as scheduler:
        attached = strand.attach(fd=scheduler.memory_fd)
        for i in range(40):
            with TaskGroup(f"group {i}"):
                scheduler.submit(spin, 0.002 if i != 7 else 0.05)
        scheduler.submit(spin, 0.001).result()
        found = sampled(attached, lambda s: s.n_groups >= 41)
        counted = scheduler.statistics().fair
    assert counted is not None
    assert len(found.groups) == 32
    assert found.groups[0].name == "group 7"
    assert all(counted.groups[group.name].on_cpu_ns == group.on_cpu_ns for group in found.groups)
    assert found.tasks is not None
    assert (found.levels, found.tasks.since_start.levels["all"].started) == (("all",), 41)


# ---- ticks


@pytest.mark.parametrize(
    ("policy", "priorities", "names"),
    [
        (Fifo(), None, {"all": "ABC"}),
        (Fair(), None, {"all": "ABC"}),
        (Levels(), {"A": "high", "C": "low"}, {"high": "A", "normal": "B", "low": "C"}),
        (Aging(classes={"urgent": 3, "high": 2, "normal": 1}), {"A": "urgent"}, {"urgent": "A", "normal": "BC"}),
        (Aging(), {"A": 5}, {"normal": "ABC"}),
    ],
    ids=repr,
)
def test_ticks_count_at_the_level_of_their_symbol(policy: Any, priorities: Any, names: dict[str, str]) -> None:
    n = {"A": 1000, "B": 200, "C": 30}
    ticks = strand.ticks.zeros(sum(n.values()))
    ticks["instrument_id"] = np.repeat(np.arange(3), list(n.values()))
    with Dispatcher(list(n), "count", policy=policy, priorities=priorities, attachable=True, workers=2) as dispatcher:
        attached = strand.attach(fd=dispatcher.memory_fd)
        for part in np.array_split(ticks, 7):
            dispatcher.publish(part)
        dispatcher.drain()
        found = attached.snapshot()
        statistics = dispatcher.statistics()
    assert found.ticks is not None
    assert (found.ticks.accepted, found.ticks.pending, found.policy) == (1230, 0, type(policy).__name__.lower())
    figures = found.ticks.since_start
    of_symbols = {name: sum(n[symbol] for symbol in symbols) for name, symbols in names.items()}
    assert {name: of.ended["handled"] for name, of in figures.levels.items() if of.started} == of_symbols
    assert {name: of.wait.count for name, of in figures.levels.items() if of.started} == of_symbols
    assert figures.total.started == statistics.visits == sum(worker.visits for worker in statistics.workers)
    assert figures.total.handler.counts.tolist() == statistics.handler.counts.tolist()
    assert figures.total.success_rate == 1.0
    assert (figures.total.promoted is None) == (not isinstance(policy, Levels))
    assert found.ticks.window is not None
    assert found.ticks.window.total.ended == figures.total.ended


def test_strands_that_wait_for_a_worker_are_counted_by_level() -> None:
    begun, over = threading.Event(), threading.Event()

    @strand.batch_handler(state=[("n", "i8")])
    def wait(symbol: str, ticks: Any, row: Any) -> None:
        begun.set()
        over.wait()

    symbols = {"A": "immediate", "B": "high", "C": "high", "D": "low"}
    levels = {"*": "normal", **symbols}
    with Dispatcher(
        [*symbols, "E"], wait, policy=Levels(), priorities=levels, attachable=True, workers=1, cores=None
    ) as dispatcher:
        attached = strand.attach(fd=dispatcher.memory_fd)
        ticks = strand.ticks.zeros(5)
        ticks["instrument_id"] = np.arange(5)
        dispatcher.publish(ticks[:1])
        begun.wait()
        dispatcher.publish(ticks[1:])
        found = attached.snapshot()
        over.set()
        dispatcher.drain()
        after = attached.snapshot()
    assert found.ticks is not None
    assert after.ticks is not None
    assert found.ticks.waiting == {"immediate": 0, "high": 2, "retry": 0, "normal": 1, "low": 1}
    assert found.ticks.pending == 5
    assert set(after.ticks.waiting.values()) == {0}


def test_ticks_of_a_failed_handler_count_at_their_level() -> None:
    @strand.batch_handler(state=[("n", "i8")])
    def fail(symbol: str, ticks: Any, row: Any) -> None:
        raise ValueError("no")

    with Dispatcher(
        ["A", "B"], handlers={"A": fail, "*": "count"}, policy=Levels(), priorities={"A": "low"}, attachable=True,
        on_error="quarantine", workers=1, cores=None,
    ) as dispatcher:  # fmt: skip
        ticks = strand.ticks.zeros(30)
        ticks["instrument_id"][1:] = 1
        dispatcher.publish(ticks)
        dispatcher.drain()
        found = strand.attach(fd=dispatcher.memory_fd).snapshot()
    assert found.ticks is not None
    levels = found.ticks.since_start.levels
    assert (levels["low"].ended, levels["normal"].ended) == ({"handled": 0, "failed": 1}, {"handled": 29, "failed": 0})
    assert (levels["low"].success_rate, levels["normal"].success_rate, found.failures) == (None, 1.0, 1)


def test_the_watermark_and_decisions_about_workers_are_in_the_samples() -> None:
    with Dispatcher(
        8,
        "count",
        attachable=True,
        pool=strand.Pool(workers=2, min_workers=1, cores=None),
        name="day",
        publisher_drains=False,
    ) as dispatcher:
        attached = strand.attach(fd=dispatcher.memory_fd)
        dispatcher.publish(strand.ticks.zeros(500))
        dispatcher.drain()
        found = sampled(attached, lambda s: s.watermark == 500)
        assert (found.published, found.active is not None, found.name) == (500, True, "day")
        assert found.active is not None
        assert (found.active.least, found.active.most) == (1, 2)
        assert sampled(attached, lambda s: len(s.busy_shares) == 2).imbalance is not None


def test_outputs_that_lag_are_told_by_the_number_up_to_which_they_are_out() -> None:
    @strand.batch_handler(state=[("n", "i8")], outputs={"seen": [("n", "i8")]})
    def emits(symbol: str, ticks: Any, row: Any, ctx: Any) -> None:
        ctx.emit(np.zeros(len(ticks), [("n", "i8")]), at=np.arange(len(ticks)))

    with Dispatcher(["A"], emits, attachable=True, workers=1, cores=None) as dispatcher:
        attached = strand.attach(fd=dispatcher.memory_fd)
        dispatcher.publish(strand.ticks.zeros(50))
        dispatcher.drain()
        found = sampled(attached, lambda s: s.outputs_below == 50)
        assert (found.published, found.outputs_backlog) == (50, 0)
    with Scheduler(1, attachable=True) as scheduler:
        assert strand.attach(fd=scheduler.memory_fd).snapshot().outputs_backlog is None


def test_the_lag_is_that_of_a_live_feed_and_undefined_in_a_replay() -> None:
    found = []

    def looks(_: int) -> None:
        found.append(strand.attach(os.getpid(), name="lags").snapshot())

    feed = strand.testing.feed([("A", 1, 10.5, 3)])
    strand.replay(feed, "bbo", workers=1, cores=None, attachable=True, name="lags", progress=looks)
    assert (found[-1].recorded, found[-1].feed_time_ns, found[-1].feed_lag_ns) == (True, 1, None)
    with Dispatcher(["A"], "bbo", attachable=True, workers=1, cores=None) as dispatcher:
        ticks = strand.ticks.zeros(1)
        ticks["ts_recv"] = time.time_ns() - 5_000_000_000
        dispatcher.publish(ticks)
        dispatcher.drain()
        live = strand.attach(fd=dispatcher.memory_fd).snapshot()
    assert live.feed_lag_ns is not None
    assert live.feed_lag_ns == live.at_ns - ticks["ts_recv"][0]


def test_a_snapshot_is_plain_numbers_too() -> None:
    with Dispatcher(["A"], "count", attachable=True, policy=Levels(), workers=1, cores=None) as dispatcher:
        dispatcher.publish(strand.ticks.zeros(50))
        dispatcher.drain()
        found = strand.attach(fd=dispatcher.memory_fd).snapshot()
    plain = json.loads(json.dumps(found.as_dict()))
    assert set(plain) >= {one.name for one in dataclasses.fields(found)}
    normal = plain["ticks"]["since_start"]["levels"]["normal"]
    assert (normal["ended"], normal["started"], plain["tasks"]) == ({"handled": 50, "failed": 0}, 1, None)
    assert plain["ticks"]["window"]["total"]["wait"]["count"] == 50
    assert plain["ticks"]["since_start"]["levels"]["low"]["wait"]["p95_ns"] is None


# ---- the window


class Shown:
    """An engine with tasks whose times are chosen, and a clock of its own. ``minutes``: since the start."""

    def __init__(self) -> None:
        policy = Levels()
        self.counts = Counts(Ranks(policy), timed=True)
        config = EngineConfig(
            n_symbols=1, n_strands=1, n_workers=1, n_publishers=1, record_size=TICK.itemsize, key_offset=0,
            sequence_offset=None, sequence_high=0, row_bytes=8, n_segments=3 * CACHED_SEGMENTS, idle="park",
            on_error="stop", on_full="block", capacity_ticks=1, budget_ticks=1, budget_ns=1, batch_ticks=1,
            ahead_ticks=1, publisher_drains=False, one_core=False, attachable=True, policy=policy_config(policy),
        )  # fmt: skip
        self.engine = Engine(config)
        self.engine.set_handlers([RunByPython()], [()])
        core = SimpleNamespace(counts=self.counts, table=None, figures=self.figures)
        self.begin_ns = time.monotonic_ns()
        self.sampling = Sampling(
            self.engine, LEVELS, core=lambda: core, of_tasks=True, facts=dict, fair=lambda: None,  # type: ignore[arg-type,return-value]
            allowed=sorted(os.sched_getaffinity(0)), inside=Inside(),
        )  # fmt: skip
        text = described(choices("scheduler", "", self.engine, None, {}), config, (), (), paced=True, levels=LEVELS)
        self.engine.outside.show(text)
        self.view = OutsideView(self.engine.space.fd)
        self.about = Description.of(self.view.description)
        self.seconds = 0

    def figures(self) -> dict[str, Any]:
        return {**self.counts.totals(), "dead_letters": 0, "dead_letters_gone": 0, "waiting": [0] * 5}

    def go_on(self, seconds: int, wait_ns: int = 0, *, fails: bool = False) -> None:
        """Goes on so long, with a task of level high each second where ``wait_ns`` is given, and puts the samples."""
        for _ in range(seconds):
            self.seconds += 1
            if wait_ns:
                self.counts.waits[1].append(wait_ns)
                next(self.counts.ended["failed" if fails else "done"][1])
            self.sampling.put(self.begin_ns + self.seconds * 10**9)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.engine.outside.hide()

    def look(self) -> Snapshot:
        return snapshot_of(self.view, self.about, self.begin_ns + self.seconds * 10**9)

    def tasks(self) -> tuple[Any, Any]:
        """Figures of tasks in the window, and since the start."""
        found = self.look().tasks
        assert found is not None
        assert found.window is not None
        return found.window, found.since_start


def test_the_window_has_the_last_five_minutes_and_no_more() -> None:
    with Shown() as shown:
        shown.go_on(400, wait_ns=1_000_000_000)
        window, whole = shown.tasks()
        assert 295 <= window.seconds <= 302.5
        assert abs(window.levels["high"].started - 300) <= 5
        assert whole.levels["high"].started == 400
        shown.go_on(290, wait_ns=1_000_000, fails=True)
        window, _ = shown.tasks()
        assert window.levels["high"].wait.percentile(99) >= 10**9  # some of the first ones are in it
        assert 0 < window.levels["high"].success_rate < 0.06
        shown.go_on(20, wait_ns=1_000_000, fails=True)
        window, whole = shown.tasks()
        assert window.levels["high"].wait.percentile(100) <= 1_000_000 * BUCKET + 1
        assert window.levels["high"].success_rate == 0
        assert whole.levels["high"].wait.percentile(50) >= 10**9


@pytest.mark.parametrize(("times", "is_known"), [(1 << 20, True), (1 << 22, False)])
def test_a_window_of_more_ticks_than_its_samples_can_count_is_not_taken_for_an_empty_one(
    monkeypatch: pytest.MonkeyPatch, times: int, is_known: bool
) -> None:
    def many(*of: Any, **more: Any) -> Any:
        found = tick_figures(*of, **more)
        for name in found.dtype.names:
            found[name] *= times
        return found

    with Dispatcher(["A"], "count", attachable=True, workers=1, cores=None) as dispatcher:
        dispatcher.publish(strand.ticks.zeros(1000))
        dispatcher.drain()
        monkeypatch.setattr("strand.outside.snapshot.tick_figures", many)
        found = strand.attach(fd=dispatcher.memory_fd).snapshot().ticks
    assert found is not None
    assert found.since_start.total.ended["handled"] == 1000 * times
    window = None if found.window is None else found.window.total.ended["handled"]
    assert window == (1000 * times if is_known else None)


def test_an_idle_window_has_no_percentiles_and_no_rates() -> None:
    with Shown() as shown:
        shown.go_on(10, wait_ns=1_000_000)
        shown.go_on(310)
        high = shown.tasks()[0].levels["high"]
        assert (high.started, high.wait.percentile(95), high.success_rate, high.promotion_rate) == (0, None, None, None)


def test_a_window_begins_with_the_run() -> None:
    with Shown() as shown:
        shown.go_on(7, wait_ns=1_000_000)
        window, _ = shown.tasks()
        assert window.seconds == pytest.approx(7, abs=0.5)
        assert window.levels["high"].started == 7


# ---- Processes that may look


def test_another_process_finds_a_scheduler_by_its_name() -> None:
    code = "import strand, sys; s = strand.attach(int(sys.argv[1]), name='jobs').snapshot(); print(s.kind, s.pid)"
    with Scheduler(1, attachable=True, name="jobs"), Scheduler(1, attachable=True, name="others"):
        done = subprocess.run(
            [sys.executable, "-c", code, str(os.getpid())], capture_output=True, text=True, check=True
        )
    assert done.stdout.split() == ["scheduler", str(os.getpid())]


def test_a_scheduler_that_has_ended_is_found_no_more_and_its_last_figures_stay() -> None:
    scheduler = Scheduler(1, attachable=True, name="ends")
    attached = strand.attach(os.getpid(), name="ends")
    for _ in range(7):
        scheduler.submit(time.sleep, 0)
    scheduler.shutdown()
    with pytest.raises(AttachError):
        strand.attach(os.getpid(), name="ends")
    found = attached.snapshot().tasks
    assert found is not None
    assert (found.accepted, found.pending, found.since_start.total.ended["done"]) == (7, 0, 7)


@pytest.mark.parametrize("is_used", [True, False])
def test_the_memory_goes_with_the_last_reference_to_a_dispatcher(is_used: bool) -> None:
    def run() -> None:
        dispatcher = Dispatcher(2, "count", attachable=True, workers=1, cores=None)
        if is_used:
            with dispatcher:
                dispatcher.publish(strand.ticks.zeros(10))

    gc.collect()
    before = memory_files()
    gc.disable()
    try:
        run()
        assert memory_files() == before
    finally:
        gc.enable()


def memory_files() -> int:
    """Number of memory files of runs that this process has open."""
    found = 0
    for link in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # it was that of the folder
            found += "memfd:strand" in str(link.readlink())
    return found


def test_a_scheduler_without_attachable_has_no_memory_to_show() -> None:
    with Scheduler(1) as scheduler, pytest.raises(ConfigurationError, match="attachable=True"):
        _ = scheduler.memory_fd


def test_a_scheduler_has_no_symbols_to_look_at() -> None:
    with Scheduler(1, attachable=True) as scheduler:
        attached = strand.attach(fd=scheduler.memory_fd)
        assert list(attached.looks()) == []
        for look in (lambda: attached.look(0), lambda: attached.symbol("A"), lambda: attached.book("A")):
            with pytest.raises(AttachError, match="a scheduler, which has no symbols"):
                look()


def test_a_damaged_sample_is_refused() -> None:
    with Shown() as shown:
        shown.go_on(2)
        size = os.fstat(shown.engine.space.fd).st_size
        copy = os.memfd_create("copy")
        os.ftruncate(copy, size)
        whole = os.pread(shown.engine.space.fd, shown.engine.space.bytes, 0)
        place = whole.index(b'{"at": ')
        while place >= 0:
            whole = whole[:place] + b"[" + whole[place + 1 :]
            place = whole.find(b'{"at": ')
        os.pwrite(copy, whole, 0)
        with pytest.raises(AttachError, match="the text of a sample cannot be read"):
            strand.attach(fd=copy).snapshot()
        os.close(copy)


def test_rings_of_samples_that_do_not_fit_into_the_memory_are_refused() -> None:
    with Shown() as shown:
        shown.go_on(2)
        size = os.fstat(shown.engine.space.fd).st_size
        whole = os.pread(shown.engine.space.fd, shown.engine.space.bytes, 0)
    words = now_dtype(len(LEVELS)).itemsize // 8
    ring = struct.pack("<QII", 3, 8, words)  # three samples were put, into eight slots
    assert whole.count(ring) == 1
    for slots, of in ((2**32 - 1, 2**32 - 1), (0, words), (8, 0)):
        copy = os.memfd_create("copy")
        os.ftruncate(copy, size)
        os.pwrite(copy, whole.replace(ring, struct.pack("<QII", 3, slots, of)), 0)
        with pytest.raises(AttachError, match="sizes and offsets do not fit together"):
            strand.attach(fd=copy)
        os.close(copy)
