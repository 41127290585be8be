"""What is due later comes at its time and in order, from one heap."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from strand.tasks.timers import Deadlines, Timer, Timers
from strand.testing import Clock
from strand.threads import Bell

pytestmark = pytest.mark.python


def test_a_cancelled_action_is_not_called_and_the_heap_stays_small() -> None:
    timers = Timers(Clock())
    kept = Timer(1, lambda: None)
    timers.add(kept)
    for _ in range(10_000):
        timer = Timer(10, lambda: None)
        timers.add(timer)
        timers.cancel(timer)
        timers.cancel(timer)
    assert len(timers) == 1
    assert len(timers._heap) < 200
    timers.cancel(kept)
    assert (len(timers), timers.next_due_ns(), timers.fire()) == (0, None, 0)


def test_an_interrupt_before_the_thread_is_told_of_a_deadline_does_not_make_that_late(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    timers, came = Timers(None), threading.Event()
    deadlines = Deadlines(timers, {}, lambda *_: came.set())
    timers.add(Timer(timers.now() + 3600 * 10**9, lambda: None))
    ring, rings = Bell.ring, list[int]()

    def ring_or_raise(bell: Bell) -> None:
        rings.append(1)
        if len(rings) == 1:
            raise KeyboardInterrupt
        ring(bell)

    monkeypatch.setattr(Bell, "ring", ring_or_raise)
    task: Any = SimpleNamespace(id=1)
    with pytest.raises(KeyboardInterrupt):
        deadlines.add(task, timers.now() + 100_000_000)
    assert len(timers) == 2
    assert came.wait(60)
    timers.end()
    timers.join()
