"""Work that a thread does behind whoever hands batches over: all of it, in order, so much behind and no more."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest
from bounded_child import in_bounded_child
from engine_support import wait_until
from interrupt_points import APART, at_each_point, at_random, free, interrupter

from strand import background
from strand.background import BackgroundWriter, Rounds
from strand.errors import EngineError

pytestmark = pytest.mark.python

ALLOWED = sorted(os.sched_getaffinity(0))
BATCH = np.zeros(16, "<u8")


class Work:
    """Notes batches; those from ``bad`` on fail, and none goes on before ``gate`` is open."""

    def __init__(self) -> None:
        self.seen: list[int] = []
        self.failures: list[Exception] = []
        self.bad = 1 << 60
        self.begun = threading.Event()
        self.gate = threading.Event()

    def __call__(self, batch: Any) -> None:
        self.begun.set()
        assert self.gate.wait(60)
        if batch[0] >= self.bad:
            raise ValueError(int(batch[0]))
        self.seen.append(int(batch[0]))


@pytest.fixture
def work() -> Work:
    return Work()


@pytest.fixture
def thread(work: Work) -> Iterator[BackgroundWriter]:
    found = BackgroundWriter(work, work.failures.append, "test-behind", ALLOWED)
    found.start()
    yield found
    work.gate.set()
    found.drop()


def test_everything_is_worked_on_in_order(thread: BackgroundWriter, work: Work) -> None:
    work.gate.set()
    for i in range(1000):
        thread.put(BATCH + i)
    thread.settle()
    assert work.seen == list(range(1000))
    thread.put(BATCH + 1000)
    thread.close()
    assert work.seen == list(range(1001))


def test_it_is_done_in_a_thread_of_its_own_on_the_cores_that_are_allowed() -> None:
    found: list[tuple[str, set[int]]] = []
    one = BackgroundWriter(
        lambda _: found.append((threading.current_thread().name, os.sched_getaffinity(0))), print, "one", ALLOWED[:1]
    )
    one.start()
    one.put(BATCH)
    one.close()
    assert found == [("one", set(ALLOWED[:1]))]
    assert os.sched_getaffinity(0) == set(ALLOWED)


def test_so_much_may_wait_and_no_more(thread: BackgroundWriter, work: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "MAXIMUM_BYTES", 4 * BATCH.nbytes)
    put: list[int] = []

    def put_all() -> None:
        for i in range(20):
            thread.put(BATCH + i)
            put.append(i)

    putting = threading.Thread(target=put_all)
    putting.start()
    wait_until(lambda: len(put) == 4)
    assert work.begun.wait(60)
    time.sleep(0.05)
    assert len(put) == 4
    work.gate.set()
    putting.join(60)
    thread.settle()
    assert work.seen == list(range(20))


def test_a_failure_is_told_once_and_the_rest_dropped(thread: BackgroundWriter, work: Work) -> None:
    work.bad = 3
    work.gate.set()
    for i in range(100):
        thread.put(BATCH + i)
    thread.settle()
    assert work.seen == [0, 1, 2]
    assert [str(error) for error in work.failures] == ["3"]
    thread.close()
    assert len(work.failures) == 1


def test_whatever_ends_the_thread_is_told_and_nobody_waits_for_it(work: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    def leave(_: Any) -> None:
        raise SystemExit(3)

    monkeypatch.setattr(background, "MAXIMUM_BYTES", BATCH.nbytes)
    one = BackgroundWriter(leave, work.failures.append, "leaving", ALLOWED)
    one.start()
    for _ in range(10):
        one.put(BATCH)
    one.settle()
    one.close()
    assert [type(error) for error in work.failures] == [EngineError]
    assert "SystemExit(3)" in str(work.failures[0])


def test_one_that_has_not_begun_can_be_dropped() -> None:
    BackgroundWriter(print, print, "never", ALLOWED).drop()


def test_dropping_leaves_what_waits(thread: BackgroundWriter, work: Work) -> None:
    for i in range(100):
        thread.put(BATCH + i)
    assert work.begun.wait(60)
    dropping = threading.Thread(target=thread.drop)
    dropping.start()
    wait_until(lambda: thread._background.stopping)
    work.gate.set()
    dropping.join(60)
    assert not dropping.is_alive()
    assert work.seen == [0]


class Interrupted:
    """A writer whose calls are interrupted, and what it wrote."""

    def __init__(self, pause_s: float = 0) -> None:
        self.written: list[int] = []
        self.done: list[int] = []
        self.put = 0
        self._pause_s = pause_s
        self.writer = BackgroundWriter(self._write, print, "interrupted", ALLOWED)
        self.writer.start()

    def _write(self, batch: Any) -> None:
        time.sleep(self._pause_s)
        self.written.append(int(batch[0]))

    def put_one(self) -> None:
        self.put += 1
        self.writer.put(BATCH + self.put)
        self.done.append(self.put)

    def check(self) -> None:
        """Asserts that each batch was written once, in order, and that no other batch counts as waiting."""
        self.put_one()
        self.writer.settle()
        assert self.written[-1] == self.put
        assert self.written == sorted(set(self.written))
        assert set(self.done) <= set(self.written)
        assert self.writer._bytes == 0
        assert free(self.writer._bell)


CALLS: dict[str, Callable[[Interrupted], Any]] = {
    "put": lambda case: case.put_one,
    "put where so much waits": lambda case: lambda: [case.put_one() for _ in range(4)],
    "settle": lambda case: lambda: (case.put_one(), case.writer.settle()),
}


@pytest.mark.parametrize("apart", APART)
@pytest.mark.parametrize("name", CALLS)
def test_an_interrupt_at_points_of_a_call_leaves_the_count_true(
    name: str, apart: str, monkeypatch: pytest.MonkeyPatch, one_in: Callable[[int], int]
) -> None:
    monkeypatch.setattr(background, "MAXIMUM_BYTES", 2 * BATCH.nbytes)
    interrupter()
    in_bounded_child(partial(interrupt_writer, name, partial(at_each_point, apart=apart, one_in=one_in(10))))


@pytest.mark.parametrize("name", CALLS)
def test_interrupts_at_random_leave_the_count_true(
    name: str, monkeypatch: pytest.MonkeyPatch, one_in: Callable[[int], int]
) -> None:
    monkeypatch.setattr(background, "MAXIMUM_BYTES", 2 * BATCH.nbytes)
    interrupting = partial(at_random, interrupts=300 // one_in(6), longest_s=0.002)
    in_bounded_child(partial(interrupt_writer, name, interrupting))


def interrupt_writer(name: str, interrupting: Callable[..., Any]) -> None:
    case = Interrupted(0.0003)
    interrupting(lambda: (CALLS[name](case), case.check))
    case.writer.close()


@pytest.mark.parametrize("end", ["close", "drop"])
def test_an_interrupted_end_can_be_repeated(end: str) -> None:
    interrupter()
    in_bounded_child(partial(interrupt_end, end))


def interrupt_end(end: str) -> None:
    def prepare() -> Any:
        case = Interrupted()
        for _ in range(3):
            case.put_one()

        def check() -> None:
            case.writer.close()
            assert case.written == [1, 2, 3][: len(case.written)]
            assert len(case.written) == 3 or end == "drop"

        return getattr(case.writer, end), check

    at_each_point(prepare, "two in a row")


def test_rounds_go_on_at_the_pauses_that_they_ask_for_until_they_want_no_more() -> None:
    seen: list[bool] = []
    ends: list[BaseException | None] = []

    def look(is_woken: bool) -> float | None:
        seen.append(is_woken)
        return 0.001 if len(seen) < 5 else None

    rounds = Rounds(look, 0.001, "test-rounds", ended=ends.append)
    rounds.start()
    rounds.join()
    assert (seen, ends) == ([False] * 5, [None])


def test_rounds_that_are_woken_do_not_wait_for_the_end_of_their_pause() -> None:
    seen: list[bool] = []

    def look(is_woken: bool) -> float | None:
        seen.append(is_woken)
        return 3600

    rounds = Rounds(look, 3600, "test-rounds")
    rounds.wake()  # before the start, and twice: one round
    rounds.wake()
    rounds.start()
    wait_until(lambda: seen == [True])
    rounds.wake()
    wait_until(lambda: seen == [True, True])
    rounds.end()
    assert seen == [True, True]


def test_rounds_that_are_told_to_end_have_no_more_looks() -> None:
    ends: list[BaseException | None] = []
    rounds = Rounds(lambda _: pytest.fail("it looks"), 3600, "test-rounds", ended=ends.append)
    rounds.start()
    rounds.end()
    assert ends == [None]


def test_an_error_ends_rounds_and_is_told_or_logged(caplog: pytest.LogCaptureFixture) -> None:
    ends: list[BaseException | None] = []

    def look(_: bool) -> float | None:
        raise ValueError("no more")

    for ended in (ends.append, None):
        rounds = Rounds(look, 0, "test-rounds", ended=ended)
        rounds.start()
        rounds.join()
    assert [str(error) for error in ends] == ["no more"]
    assert "an exception in the thread test-rounds" in caplog.text
    assert caplog.text.count("ValueError: no more") == 1
