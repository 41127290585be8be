"""change_policy: timeouts of levels and weights of groups, while tasks run and wait."""

from __future__ import annotations

import threading
import time
from typing import Any

import numpy as np
import pytest
from http_server import MOST_S, wait_for

import strand
from strand.errors import ConfigurationError
from strand.tasks import TaskFuture


class Gate:
    """A task that waits until the test opens it."""

    def __init__(self, executor: Any) -> None:
        self._opened = threading.Event()
        self.task: TaskFuture = executor.submit(self._opened.wait, MOST_S)

    def open(self) -> None:
        self._opened.set()


def test_tasks_that_wait_rise_by_timeouts_that_the_policy_has_now() -> None:
    with strand.Scheduler(1, policy=strand.Levels({"high": "1h"})) as scheduler:
        urgent = scheduler.options(priority="immediate")
        gates = [Gate(urgent)]
        wait_for(gates[0].task.running)
        low = scheduler.options(priority="low").submit(int)
        for timeout, expected in (("1h", "low"), ("1us", "normal")):
            scheduler.change_policy(strand.Levels({"low": timeout}))
            gates.append(Gate(urgent))
            gates[-2].open()
            wait_for(gates[-1].task.running)  # the worker has looked at the waits
            assert low.priority == expected
        assert scheduler.policy == strand.Levels({"low": "1us"})
        gates[-1].open()
        assert low.result(MOST_S) == 0


def test_groups_share_time_by_the_weights_that_they_have_now() -> None:
    ended: list[str] = []

    def works(name: str) -> None:
        until = time.thread_time_ns() + 200_000
        while time.thread_time_ns() < until:
            pass
        ended.append(name)

    weights = {"a": 1, "b": 1}
    with strand.Scheduler(1, policy=strand.Fair(slice_ms=1, weights=weights)) as scheduler:
        gate = Gate(scheduler)
        wait_for(gate.task.running)
        scheduler.change_policy(strand.Fair(slice_ms=1, weights={"a": 1, "b": 9}))
        groups = {name: strand.TaskGroup(name) for name in weights}
        for _ in range(300):
            for name, group in groups.items():
                scheduler.options(group=group).submit(works, name)
        gate.open()
    first = ended[:300]
    assert first.count("b") > 3 * first.count("a") > 0
    assert len(ended) == 600


def test_a_dispatchers_tasks_change_the_policy_of_its_symbols() -> None:
    with strand.Dispatcher(["A", "B"], "count", policy=strand.Fair()) as dispatcher:
        dispatcher.tasks.change_policy(strand.Fair(weights={"A": 3}))
        assert dispatcher.tasks.policy == strand.Fair(weights={"A": 3})
        dispatcher.publish(np.zeros(10, strand.TICK))


@pytest.mark.parametrize(
    ("before", "after", "field"),
    [
        (strand.Levels(), strand.Fifo(), "policy"),
        (strand.Levels(), None, "policy"),
        (strand.Levels(), strand.Levels(since="created"), "since"),
        (strand.Levels(), strand.Levels(hold={"low": "1s"}), "hold"),
        (strand.Aging(), strand.Aging(2.0), "coefficient"),
        (strand.Fair(), strand.Fair(slice_ms=1), "slice_ms"),
        (strand.Fair(weights={"a": 2}), strand.Fair(weights={"a": 3, "b": 1}), r"weights\.b"),
    ],
)
def test_another_change_is_refused_and_changes_nothing(before: Any, after: Any, field: str) -> None:
    with strand.Scheduler(1, policy=before) as scheduler:
        with pytest.raises(ConfigurationError, match=f"^{field}: "):
            scheduler.change_policy(after)
        assert scheduler.policy == before
        scheduler.change_policy(before)
