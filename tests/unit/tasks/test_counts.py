"""Counts of tasks, held against a count by the test's own means."""

from __future__ import annotations

import threading
import time
from collections import Counter
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from engine_support import beside
from task_pools import Stepped, Threaded

import strand
from strand import Aging, Dispatcher, Fair, Levels, Scheduler, TaskGroup
from strand.binding.engine_words import histogram_floors_ns
from strand.dicts import FrozenDict
from strand.errors import QueueFull, StoppedError
from strand.policies.policy import LEVELS
from strand.stats import TASK_ENDS, Latency
from strand.tasks.ends import MOST_WAITS
from strand.ticks import TICK

pytestmark = pytest.mark.python

SECOND = 10**9


def ended(**n: int) -> dict[str, int]:
    return dict.fromkeys(TASK_ENDS, 0) | n


def burn(ns: int, pause: bool = False) -> int:
    begun = time.thread_time_ns()
    while (used := time.thread_time_ns() - begun) < ns:
        if pause:
            strand.checkpoint()
    return used


def test_the_waits_of_a_group_are_taken_without_a_look_at_those_of_others() -> None:
    counts = Stepped().tasks._core.counts
    counts.waits.update({1: [5, 7], 2: [9]})
    assert sum(counts.take_waits(1).values()) == 2
    assert counts.waits == {2: [9]}  # else each group that ends would cost a step for each group that lives
    assert sum(counts.take_waits(2).values()) == 1
    assert counts.read().wait.count == 0


def test_of_no_tasks_all_is_0_and_percentiles_are_none() -> None:
    found = Stepped().tasks.statistics()
    assert (found.submitted, found.ended, found.pending, found.retries) == (0, ended(), 0, 0)
    assert (found.wait.count, found.wait.percentile(50)) == (0, None)
    assert list(found.wait_by_priority) == list(LEVELS)
    assert found.as_dict()["wait"] == dict.fromkeys(("p50_ns", "p90_ns", "p99_ns", "p99.9_ns", "maximum_ns")) | {
        "count": 0
    }
    assert (found.fair, found.promoted, found.picked) == (None, {}, {})


def test_waits_are_those_of_the_futures_by_the_level_in_which_the_task_began() -> None:
    here, draw = Stepped(hold={"low": "2s"}), np.random.default_rng(1)
    futures, expected = [], Counter(dict.fromkeys(LEVELS, 0))
    for level in draw.choice(LEVELS, 300):
        futures.append(here.tasks.options(priority=str(level)).submit(int))
        expected[str(level)] += 1
        here.clock.advance(float(draw.exponential(0.01)))
    moved = here.tasks.options(priority="low").submit(int)
    moved.reprioritise("high")
    expected["high"] += 1
    here.advance(30)
    found = here.tasks.statistics()
    assert {level: waits.count for level, waits in found.wait_by_priority.items()} == expected
    assert_are(found.wait, [future.waited_ns for future in (*futures, moved)])
    low = [future.waited_ns for future in futures if future.priority == "low"]
    assert_are(found.wait_by_priority["low"], low)
    assert min(low) >= 2 * SECOND


def assert_are(found: Latency, waits_ns: list[int]) -> None:
    """A histogram holds these waits, and its percentiles are at most one bucket above theirs."""
    floors = histogram_floors_ns()
    buckets: npt.NDArray[Any] = np.array(
        [max(i for i, floor in enumerate(floors) if floor <= wait) for wait in waits_ns]
    )
    assert found.counts.tolist() == np.bincount(buckets, minlength=len(floors)).tolist()
    for p in (50, 90, 99):
        exact = sorted(waits_ns)[int(np.ceil(len(waits_ns) * p / 100)) - 1]
        assert exact <= found.percentiles[p] <= exact * 17 / 16 + 16
    assert max(waits_ns) <= found.maximum_ns <= max(waits_ns) * 17 / 16 + 16


def test_what_submit_refuses_is_not_counted() -> None:
    here = Stepped(max_queue=2)
    tasks = here.tasks

    def items() -> Any:
        yield 1
        raise KeyError

    group = TaskGroup("over")
    group.cancel()
    with pytest.raises(StoppedError):
        tasks.options(group=group).submit(int)
    with pytest.raises(StoppedError):
        tasks.options(group=group).submit_many(int, ["1", "2"])
    with pytest.raises(QueueFull):
        tasks.submit_many(int, ["1", "2", "3"])
    with pytest.raises(KeyError):
        tasks.submit_many(int, items())
    with pytest.raises(TypeError):
        tasks.submit(5)  # type: ignore[arg-type]
    here.pool.stopped = True
    with pytest.raises(StoppedError):
        tasks.submit(int)
    plain = Stepped()
    plain.pool.stopped = True
    with pytest.raises(StoppedError):
        plain.tasks.submit(int)
    for found in (tasks.statistics(), plain.tasks.statistics()):
        assert (found.submitted, found.pending, found.ended) == (0, 0, ended())
    here.pool.stopped = False
    tasks.submit_many(int, ["1", "2"])
    assert tasks.statistics().submitted == 2


def test_a_submit_that_meets_a_shutdown_is_not_counted() -> None:
    here = Stepped()
    submit = here.pool.submit

    def refusing(tag: int, priority: int) -> int:
        entry = submit(tag, priority)
        here.tasks._core.table.refusal = "between"
        return entry

    here.pool.submit = refusing  # type: ignore[method-assign]
    with pytest.raises(StoppedError, match="between"):
        here.tasks.submit(int)
    here.tasks._core.table.refusal = None
    with pytest.raises(StoppedError, match="between"):
        here.tasks.submit_many(int, ["1", "2"])
    found = here.tasks.statistics()
    assert (found.submitted, found.pending, found.ended) == (0, 0, ended())


@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize("options", [{}, {"key": "k"}, {"deadline": "1s"}])
def test_what_a_shutdown_cancels_within_its_submit_counts_as_cancelled_and_has_a_future(
    options: dict[str, Any], many: bool
) -> None:
    here = Stepped()
    listed = here.pool.submit

    def too_late(tag: int, priority: int) -> int:
        here.tasks.shutdown(wait=False, cancel_futures=True)  # as another thread does
        here.pool.stopped = True
        return listed(tag, priority)

    here.pool.submit = too_late  # type: ignore[method-assign]
    executor = here.tasks.options(**options)
    futures = executor.submit_many(abs, [1, 2, 3]) if many else [executor.submit(int)]
    assert {future.state for future in futures} == {"cancelled"}
    found = here.tasks.statistics()
    assert (found.submitted, found.ended, found.pending) == (len(futures), ended(cancelled=len(futures)), 0)
    assert here.tasks._core.table.alive == {}


def test_of_many_tasks_in_a_shutdown_some_of_which_have_begun_all_count() -> None:
    here = Stepped()
    listed = here.pool.submit_many

    def begins(tags: Any, priority: int) -> Any:
        entries = listed(tags, priority)
        here.pool.step()
        here.tasks._core.table.refusal = "between"
        return entries

    here.pool.submit_many = begins  # type: ignore[method-assign]
    futures = here.tasks.submit_many(abs, [1, 2, 3])
    assert sorted(future.state for future in futures) == ["cancelled", "cancelled", "done"]
    found = here.tasks.statistics()
    assert (found.submitted, found.ended, found.pending) == (3, ended(done=1, cancelled=2), 0)


def test_counts_are_exact_while_many_threads_submit_cancel_and_read() -> None:
    n, wrong = 3000, []
    with Threaded(3) as tasks:

        def submit(seed: int) -> None:
            for i in range(n):
                future = tasks.submit(divmod, 1, (i + seed) % 3)
                if i % 7 == 0:
                    future.cancel()
                futures[seed].append(future)

        def read() -> None:
            found = tasks.statistics()
            if found.pending < 0 or found.submitted > 2 * n:
                wrong.append(found)

        futures = ([], [])  # type: ignore[var-annotated]
        submitters = [threading.Thread(target=submit, args=(seed,)) for seed in range(2)]
        with beside(read):
            for thread in submitters:
                thread.start()
            for thread in submitters:
                thread.join()
            tasks.shutdown()
        found = tasks.statistics()
    assert wrong == []
    states = Counter(future.state for future in (*futures[0], *futures[1]))
    assert found.ended == ended(**states)
    assert (found.submitted, found.pending) == (2 * n, 0)
    assert found.wait.count == 2 * n - sum(f.attempts == 0 for f in (*futures[0], *futures[1])) > MOST_WAITS


def test_a_wait_that_comes_while_others_are_put_away_is_kept() -> None:
    counts = Stepped().tasks._core.counts

    class Meets(list[int]):
        def __getitem__(self, index: Any) -> Any:
            found = super().__getitem__(index)
            self.append(30)
            return found

    counts.waits[0] = Meets([10, 20])
    assert [counts.read().wait.count, counts.read().wait.count] == [2, 3]


def test_a_wait_at_the_edge_of_a_bucket_is_in_the_one_that_begins_there() -> None:
    counts, floors = Stepped().tasks._core.counts, histogram_floors_ns()
    counts.waits[0] = [floors[20], floors[30], floors[-1], floors[-1] * 4]  # type: ignore[list-item]
    assert np.flatnonzero(counts.read().wait.counts).tolist() == [20, 30, len(floors) - 1]
    assert counts.read().wait.counts.sum() == 4


def test_under_aging_waits_are_counted_by_class_and_picks_are_shown() -> None:
    policy = Aging(classes={"urgent": 10, "high": 5, "normal": 1})
    with Scheduler(1, policy=policy) as scheduler:
        for priority in ("urgent", ("urgent", -400_000_000), 7, -7, "normal"):
            scheduler.options(priority=priority).submit(int).result()
        scheduler.submit(int).result()
        found = scheduler.statistics()
    assert {name: waits.count for name, waits in found.wait_by_priority.items()} == {
        "urgent": 2,
        "high": 0,
        "normal": 4,
    }
    assert found.picked == {"urgent": 2, "high": 0, "normal": 4}
    assert (found.picked_by_rule, found.promoted) == ({"low_every": 0, "max_wait": 0}, {})
    with Scheduler(1, policy=Aging()) as scheduler:
        scheduler.submit(int).result()
        found = scheduler.statistics()
    assert ({name: waits.count for name, waits in found.wait_by_priority.items()}, found.picked) == ({"normal": 1},) * 2


def test_promotions_are_counted_by_the_level_out_of_which_a_task_rose() -> None:
    gate = threading.Event()
    with Scheduler(1, policy=Levels(timeouts={"normal": "1ms", "low": "1ms"})) as scheduler:
        scheduler.options(priority="immediate").submit(gate.wait, 60)
        waits = [scheduler.options(priority=level).submit(int) for level in ("normal", "normal", "low")]
        while min(future.waited_ns for future in waits) < 50_000_000:
            time.sleep(0.001)
        gate.set()
        scheduler.shutdown()
        found = scheduler.statistics()
    assert found.promoted["normal"] + found.promoted["low"] >= 3
    assert found.promoted["immediate"] == found.promoted["high"] == 0
    assert found.starved["normal"] == 2
    assert set(found.promoted) == set(found.starved) == set(LEVELS)


def test_a_task_that_never_comes_to_a_checkpoint_is_counted_with_its_group() -> None:
    # A machine that others use too counts some of their time as the thread's own: a slice is longer than that.
    policy = Fair(slice_ms=20, cpu_share=0.9, weights={"heavy": 4})
    begun = time.process_time_ns()
    with Scheduler(1, policy=policy) as scheduler:
        used = {"hog": 0, "fit": 0, "heavy": 0}

        def run(name: str, ns: int, pause: bool) -> None:
            used[name] += burn(ns, pause)

        for name, ns, pause in (("hog", 60_000_000, False), ("fit", 50_000_000, True), ("heavy", 40_000_000, False)):
            scheduler.options(group=TaskGroup(name)).submit(run, name, ns, pause).result()
        scheduler.options(group=TaskGroup("hog")).submit(run, "hog", 40_000_000, False).result()
        scheduler.submit(int).result()
        scheduler.shutdown()
        found = scheduler.statistics()
    took = time.process_time_ns() - begun
    fair = found.fair
    assert fair is not None
    assert list(fair.groups) == ["(tasks)", "heavy", "hog", "fit"]
    assert {name: group.long_stretches for name, group in fair.groups.items()} == {
        "(tasks)": 0, "heavy": 0, "hog": 2, "fit": 0
    }  # fmt: skip
    assert fair.long_stretches == 2
    assert fair.longest == ()
    longest = fair.groups["hog"].longest_stretch_ns
    assert longest is not None
    assert 60_000_000 <= longest <= fair.groups["hog"].on_cpu_ns
    assert fair.groups["fit"].longest_stretch_ns is None
    for name, ns in used.items():
        # What it takes to suspend a task is charged to nobody.
        assert 0.98 * ns <= fair.groups[name].on_cpu_ns
    assert sum(group.on_cpu_ns for group in fair.groups.values()) <= took, "no time is charged twice"
    assert sum(group.share for group in fair.groups.values()) == pytest.approx(1)
    assert fair.groups["hog"].slice_ends == 2
    assert fair.cap_holds is not None
    assert {name: waits.count for name, waits in found.wait_by_priority.items()} == {
        "(tasks)": 1, "heavy": 1, "hog": 2, "fit": 1
    }  # fmt: skip
    assert found.as_dict()["fair"]["groups"]["hog"]["long_stretches"] == 2


def test_what_a_checkpoint_takes_is_charged_to_its_task() -> None:
    with Scheduler(1, policy=Fair(slice_ms=1000)) as scheduler:
        used = scheduler.options(group=TaskGroup("asks")).submit(burn, 50_000_000, True).result()
        scheduler.shutdown()
        fair = scheduler.statistics().fair
        assert scheduler.thread_counts().suspensions == 0
    assert fair is not None
    # Both are of the thread's clock, which is charged from before the function to behind it.
    assert used <= fair.groups["asks"].on_cpu_ns


def test_tasks_in_no_group_may_have_a_weight() -> None:
    with Scheduler(1, policy=Fair(weights={"other": 1, "(tasks)": 2})) as scheduler:
        scheduler.submit(int).result()
        scheduler.options(group=TaskGroup("(tasks)")).submit(int).result()
        scheduler.shutdown()
        found = scheduler.statistics()
    assert {name: waits.count for name, waits in found.wait_by_priority.items()} == {"(tasks)": 2, "other": 0}


def test_the_tasks_of_a_dispatcher_are_counted_without_its_policy() -> None:
    policy = Fair(slice_ms=4)
    with Dispatcher(["A", "B"], "count", policy=policy, groups={"*": "symbols"}, workers=1, cores=None) as dispatcher:
        dispatcher.publish(np.zeros(3, TICK))
        dispatcher.tasks.options(symbol="A").submit(burn, 0).result()
        dispatcher.tasks.options(group=TaskGroup("hog")).submit(burn, 20_000_000).result()
        dispatcher.drain()
        found, all_of_it = dispatcher.tasks.statistics(), dispatcher.statistics().fair
    assert (found.submitted, found.ended, found.pending) == (2, ended(done=2), 0)
    assert found.fair is None
    assert {name: waits.count for name, waits in found.wait_by_priority.items()} == {
        "symbols": 0, "(tasks)": 1, "hog": 1
    }  # fmt: skip
    assert all_of_it is not None
    assert {name: group.long_stretches for name, group in all_of_it.groups.items()} == {
        "symbols": 0, "(tasks)": 0, "hog": 1
    }  # fmt: skip


def test_a_group_too_many_is_no_task() -> None:
    with Scheduler(1, policy=Fair()) as scheduler:
        scheduler._engine.schedule.max_groups = 2
        first = TaskGroup("a")
        scheduler.options(group=first).submit(int).result()
        with pytest.raises(QueueFull, match="group: 2 groups have tasks"):
            scheduler.options(group=TaskGroup("b")).submit(int)
        assert scheduler.statistics().submitted == 1
        waits, group = scheduler.options(delay="1h", group=first).submit(int), TaskGroup("b")
        with pytest.raises(QueueFull, match="group: 2 groups"):
            waits.set_group(group)
        assert len(group) == 0
        assert waits.cancel()


def test_statistics_do_not_change() -> None:
    here = Stepped()
    here.tasks.submit(int)
    found = here.tasks.statistics()
    here.pool.run_all()
    assert (found.pending, here.tasks.statistics().pending) == (1, 0)
    assert type(found.ended) is type(found.wait_by_priority) is FrozenDict
    with pytest.raises(TypeError):
        found.ended["done"] = 5  # type: ignore[index]
