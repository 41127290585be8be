"""Ten thousand tasks that do what they should not, on two threads: all are accounted for."""

from __future__ import annotations

import logging
import random
import threading
import time
from collections import Counter
from typing import Any

import pytest
from task_pools import Threaded

from strand.policies.policy import LEVELS
from strand.tasks import RetryPolicy, TaskFuture, Tasks
from strand.tasks.future import ENDS

pytestmark = pytest.mark.python


def test_man_or_boy(caplog: pytest.LogCaptureFixture) -> None:
    """They raise, sleep, exit, cancel each other, wait for each other, change priorities, and submit more."""
    random_ = random.Random(25)
    lock = threading.Lock()
    futures: list[TaskFuture] = []
    wanted = 10_000
    before = threading.active_count()
    starts: Counter[int] = Counter()
    key_now: Counter[Any] = Counter()
    wrong: list[str] = []
    callbacks: Counter[int] = Counter()
    retry = RetryPolicy(max_retries=2, base_delay="1ms", max_delay="5ms", on_alert=lambda *_: None)

    def submit(tasks: Tasks) -> None:
        with lock:
            if len(futures) >= wanted:
                return
            key = random_.choice([None, None, None, *range(20)])
            executor = tasks.options(
                priority=random_.choice(LEVELS),
                key=key,
                retry=random_.choice([None, retry]),
                delay=random_.choice([None, None, None, "1ms", "20ms"]),
                deadline=random_.choice([None, None, "1s", "30ms"]),
                expire_if=random_.choice([None] * 8 + [lambda: True, lambda: "high", lambda: 1 / 0]),
            )
            future = executor.submit(work, tasks, len(futures), key, random_.random())
            futures.append(future)
        future.add_done_callback(lambda ended: callbacks.update([ended.id]))  # type: ignore[attr-defined]

    def work(tasks: Tasks, n: int, key: Any, what: float) -> None:
        if key is not None:
            key_now[key] += 1
            if key_now[key] != 1:
                wrong.append(f"{key} runs twice")
        try:
            starts[n] += 1
            act(tasks, what)
        finally:
            if key is not None:
                key_now[key] -= 1

    def act(tasks: Tasks, what: float) -> None:
        for _ in range(2 if what < 0.6 else 0):
            submit(tasks)
        some = futures[int(what * 7919 * len(futures)) % len(futures)]
        if what < 0.1:
            raise ValueError(what)
        if what < 0.2:
            raise OSError(what)
        if what < 0.25:
            raise SystemExit(1)
        if what < 0.27:
            raise KeyboardInterrupt
        if what < 0.4:
            some.cancel(running=what < 0.3)
        elif what < 0.5:
            time.sleep(0.0002)
        elif what < 0.6:
            some.reprioritise("immediate")
        elif what < 0.63:
            some.exception(0.001)

    with caplog.at_level(logging.CRITICAL), Threaded(2, seed=3) as tasks:
        while len(futures) < wanted:
            submit(tasks)
        tasks.shutdown(timeout=200)
        ends = Counter(future.state for future in futures)
        assert sum(tasks.pending_count().values()) == 0
        assert tasks._core.table.alive == {}
        assert len(tasks._core.waiting.keys) == len(tasks._core.timers) == 0
        assert len(tasks.dead_letters) + tasks.dead_letters.dropped == ends["dead"]
    assert wrong == []
    assert len(futures) == wanted == sum(ends.values())
    assert set(ends) <= set(ENDS)
    assert min(ends[end] for end in ("done", "failed", "cancelled", "expired", "dead")) > 10
    assert set(callbacks.values()) == {1}
    assert len(callbacks) == wanted
    for n, future in enumerate(futures):
        assert starts[n] == future.attempts
        if future.state in ("done", "dead"):
            assert starts[n] > 0
    assert threading.active_count() == before


def test_the_pending_are_counted_by_level() -> None:
    with Threaded(1) as tasks:
        gate, begun = threading.Event(), threading.Event()
        tasks.submit(lambda: (begun.set(), gate.wait(60)))
        begun.wait(60)
        tasks.options(priority="low").submit_many(int, ["1", "2"])
        tasks.options(priority="low", key="k").submit_many(int, ["1", "2"])
        tasks.options(priority="high", delay="1h").submit(int).cancel()
        assert tasks.pending_count() == {"immediate": 0, "high": 0, "retry": 0, "normal": 0, "low": 4}
        gate.set()
