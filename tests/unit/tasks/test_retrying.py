"""Failed tasks are tried again, fail, or become dead letters; keys of tasks; and tasks that are promoted."""

from __future__ import annotations

import ctypes
import datetime as dt
import logging
import random
import threading
import time
from collections import Counter
from concurrent.futures import wait
from typing import Any

import pytest
from engine_support import wait_until
from hypothesis import given
from hypothesis import strategies as st
from policies import DEFERRED, NOT_VISITED, VISITED, WAS_EMPTY, Trial, build, levels
from task_pools import Stepped, Threaded, raises

from strand import Aging, Fair, Fifo, Levels, RetryPolicy, Scheduler, TaskGroup
from strand.errors import ConfigurationError, QueueFull, StoppedError, TaskDropped, TaskExpired, WouldDeadlockError
from strand.policies.policy import LEVELS
from strand.tasks import TaskFuture
from strand.tasks.timers import Deadlines

pytestmark = pytest.mark.python


def test_a_transient_error_goes_to_retry_after_its_backoff_and_is_dead_at_last() -> None:
    here = Stepped()
    error = ArithmeticError("again")
    policy = RetryPolicy(max_retries=2, jitter=0)
    future = here.tasks.options(priority="low", retry=policy).submit(raises(error))
    here.pool.run_all()
    assert (future.state, future.priority, future.attempts) == ("retrying", "retry", 1)
    assert here.tasks.pending_count()["retry"] == 1
    here.advance(0.9)
    assert future.attempts == 1
    here.advance(0.1)
    assert future.attempts == 2
    here.advance(2)
    assert (future.state, future.attempts) == ("dead", 3)
    assert future.exception() is error
    (letter,) = here.tasks.dead_letters
    assert (letter.task_id, letter.error, letter.attempts) == (future.id, error, 3)


def test_a_system_error_goes_one_level_up_and_alerts_at_once() -> None:
    here = Stepped()
    alerts: list[Any] = []
    policy = RetryPolicy(max_retries=1, on_alert=lambda task, error: alerts.append((task.id, task.state, str(error))))
    future = here.tasks.options(priority="low", retry=policy).submit(raises(OSError("disk")))
    here.pool.run_all()
    assert alerts == [(future.id, "running", "disk")]
    assert (future.state, future.priority) == ("retrying", "normal")


def test_an_alert_without_a_function_is_logged_and_one_that_raises_too(caplog: pytest.LogCaptureFixture) -> None:
    here = Stepped()
    with caplog.at_level(logging.ERROR, "strand.tasks"):
        here.tasks.options(retry=RetryPolicy()).submit(raises(OSError("disk")))
        here.tasks.options(retry=RetryPolicy(on_alert=lambda *_: 1 / 0)).submit(raises(OSError("full")))
        here.pool.run_all()
    assert "OSError('disk')" in caplog.text
    assert "on_alert failed" in caplog.text


def test_a_classify_that_raises_fails_the_task() -> None:
    here = Stepped()
    policy = RetryPolicy(classify=lambda error: "sometimes")
    future = here.tasks.options(retry=policy).submit(raises(ArithmeticError("first")))
    here.pool.run_all()
    assert future.state == "failed"
    with pytest.raises(ConfigurationError, match="'sometimes'") as caught:
        future.result()
    assert isinstance(caught.value.__context__, ArithmeticError)


def test_a_retry_past_the_deadline_expires_at_once_with_its_last_error() -> None:
    here = Stepped()
    error = ArithmeticError("x")
    future = here.tasks.options(deadline="1s", retry=RetryPolicy(jitter=0)).submit(raises(error))
    here.pool.run_all()
    assert future.state == "expired"
    with pytest.raises(TaskExpired) as caught:
        future.result()
    assert (caught.value.reason, caught.value.__cause__) == ("deadline", error)


def test_one_seed_gives_the_same_backoffs() -> None:
    def dues(seed: int) -> list[int]:
        here = Stepped(seed=seed)
        futures = [here.tasks.options(retry=RetryPolicy()).submit(raises(ArithmeticError())) for _ in range(5)]
        here.pool.run_all()
        return sorted(future._timer.due_ns for future in futures)

    assert dues(1) == dues(1) != dues(2)


def test_a_business_error_is_logged_where_it_would_have_been_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    here = Stepped()
    with caplog.at_level(logging.WARNING, "strand.tasks"):
        future = here.tasks.options(retry=RetryPolicy()).submit(raises(KeyError("no such account")))
        once = here.tasks.options(retry=RetryPolicy(max_retries=0)).submit(raises(KeyError("none")))
        here.pool.run_all()
    assert (future.state, future.attempts, once.state) == ("failed", 1, "failed")
    assert [record.message for record in caplog.records] == [
        f"task {future.id} is not tried again, because it met a business error: KeyError('no such account')"
    ]


@pytest.mark.parametrize("how", ["deadline", "expire_if", "dropped"])
def test_a_task_that_ends_while_it_waits_for_its_retry_names_its_last_failure(how: str) -> None:
    here = Stepped()
    failure, answers = ConnectionError("no answer"), iter([False, how == "expire_if"])
    future = here.tasks.options(
        retry=RetryPolicy(base_delay="10s", jitter=0), expire_if=lambda: next(answers), deadline="1m"
    ).submit(raises(failure))
    here.pool.run_all()
    assert future.state == "retrying"
    if how == "deadline":
        assert future.set_deadline(0)
        here.tasks.fire()
    elif how == "dropped":
        assert here.tasks.drop(future.id, "made room")
    else:
        here.advance(10)
    ended = future.exception(0)
    assert type(ended) is (TaskDropped if how == "dropped" else TaskExpired)
    assert ended.__cause__ is failure
    assert future._failure is None


# ---- A retry policy says which errors are tried again, and after how long


@given(
    base=st.integers(1, 10**10),
    factor=st.integers(1, 10**6),
    multiplier=st.floats(1, 1000),
    jitter=st.floats(0, 1),
    retry=st.one_of(st.integers(1, 20), st.integers(1, 1_000_000)),
    seed=st.integers(0, 1000),
)
def test_a_backoff_is_within_its_bounds_and_does_not_overflow(
    *, base: int, factor: int, multiplier: float, jitter: float, retry: int, seed: int
) -> None:
    policy = RetryPolicy(base_delay=f"{base}ns", max_delay=f"{base * factor}ns", multiplier=multiplier, jitter=jitter)
    delay = policy.delay_ns(retry, random.Random(seed))
    assert 0 <= delay <= base * factor
    if retry < 20:
        full = min(base * factor, base * multiplier ** (retry - 1))
        assert (1 - jitter) * full * (1 - 1e-9) - 1 <= delay <= full * (1 + 1e-9) + 1
    assert delay == policy.delay_ns(retry, random.Random(seed))


def test_the_defaults_double_from_a_second_to_a_minute() -> None:
    policy = RetryPolicy(jitter=0)
    assert (policy.max_retries, policy.base_delay_ns, policy.max_delay_ns) == (3, 10**9, 60 * 10**9)
    found = [policy.delay_ns(retry, random.Random(0)) // 10**9 for retry in range(1, 9)]
    assert found == [1, 2, 4, 8, 16, 32, 60, 60]


def test_jitter_spreads_over_its_whole_range() -> None:
    policy = RetryPolicy(base_delay="1us", jitter=0.5)
    found = {policy.delay_ns(1, random.Random(seed)) for seed in range(20_000)}
    assert (min(found), max(found)) == (500, 1000)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ValueError(), "business"),
        (UnicodeDecodeError("utf-8", b"", 0, 1, ""), "business"),
        (TypeError(), "business"),
        (KeyError(), "business"),
        (PermissionError(), "business"),
        (ArithmeticError(), "transient"),
        (ConnectionResetError(), "transient"),
        (TimeoutError(), "transient"),
        (OSError(), "system"),
        (FileNotFoundError(), "system"),
        (MemoryError(), "system"),
        (SystemExit(), "business"),
        (KeyboardInterrupt(), "business"),
    ],
)
def test_kinds_of_errors_where_nothing_is_said(error: BaseException, kind: str) -> None:
    assert RetryPolicy().kind_of(error) == kind


def test_the_nearest_class_that_is_listed_decides() -> None:
    policy = RetryPolicy(business=(LookupError, TimeoutError), transient=KeyError)
    assert policy.kind_of(IndexError()) == "business"
    assert policy.kind_of(KeyError()) == "transient"
    assert policy.kind_of(TimeoutError()) == "business"
    assert policy.kind_of(ValueError()) == "business"  # transient are those given alone
    assert RetryPolicy(business=ArithmeticError).kind_of(ValueError()) == "business"  # it adds to the usual ones
    assert RetryPolicy(business=ArithmeticError).kind_of(ZeroDivisionError()) == "business"
    assert RetryPolicy(transient=ValueError).kind_of(ValueError()) == "transient"
    assert RetryPolicy(transient=OSError).kind_of(FileNotFoundError()) == "transient"


def test_a_function_may_say_the_kind() -> None:
    policy = RetryPolicy(classify=str)
    assert policy.kind_of(ValueError("system")) == "system"
    with pytest.raises(ConfigurationError, match="it returned 'soon'"):
        policy.kind_of(ValueError("soon"))


# ---- Dead letters are bounded, listed, and put back as new tasks


ONCE = RetryPolicy(max_retries=0)


def test_the_oldest_go_where_there_are_too_many() -> None:
    here = Stepped(max_dead_letters=3)
    futures = [here.tasks.options(retry=ONCE, key="k").submit(raises(ArithmeticError(n))) for n in range(5)]
    here.pool.run_all()
    assert [letter.task_id for letter in here.tasks.dead_letters] == [future.id for future in futures[2:]]
    assert (len(here.tasks.dead_letters), here.tasks.dead_letters.dropped) == (3, 2)
    assert here.tasks.dead_letters.clear() == 3
    assert list(here.tasks.dead_letters) == []


def test_one_that_is_put_back_is_a_new_task_with_its_options() -> None:
    here = Stepped()
    broken = [True]

    def work(a: int, *, b: int) -> int:
        if broken:
            raise ArithmeticError
        return a + b

    with pytest.raises(ExceptionGroup), TaskGroup():
        future = here.tasks.options(retry=ONCE, priority="high", deadline="5s").submit(work, 1, b=2)
        here.pool.run_all()
    here.advance(100)
    broken.clear()
    (letter,) = here.tasks.dead_letters
    assert (letter.function, letter.args, letter.kwargs, letter.died_ns) == (work, (1,), {"b": 2}, 0)
    again = here.tasks.dead_letters.put_back(letter)
    assert again.id > future.id
    assert (again.priority, again.deadline_ns, again.group, future.state) == ("high", 105 * 10**9, None, "dead")
    here.pool.run_all()
    assert again.result() == 3
    assert len(here.tasks.dead_letters) == 0
    with pytest.raises(ConfigurationError, match=f"the one of task {future.id} is not here any more"):
        here.tasks.dead_letters.put_back(letter)


def test_one_that_is_refused_is_kept() -> None:
    here = Stepped()
    here.tasks.options(retry=ONCE).submit(raises(ArithmeticError()))
    here.pool.run_all()
    here.tasks.shutdown()
    (letter,) = here.tasks.dead_letters
    with pytest.raises(StoppedError):
        here.tasks.dead_letters.put_back(letter)
    assert list(here.tasks.dead_letters) == [letter]


def test_what_is_no_letter_of_this_scheduler_is_refused() -> None:
    here, other = Stepped(), Stepped()
    for tasks in (here, other):
        tasks.tasks.options(retry=ONCE).submit(raises(ArithmeticError()))
        tasks.pool.run_all()
    (own,), (foreign,) = here.tasks.dead_letters, other.tasks.dead_letters
    assert own.task_id == foreign.task_id
    for wrong in (foreign, own.task_id):
        with pytest.raises(ConfigurationError, match="letter"):
            here.tasks.dead_letters.put_back(wrong)  # type: ignore[arg-type]
    assert list(here.tasks.dead_letters) == [own]


# ---- bounds


HOLD = {"low": "30s"}
BUSY = RetryPolicy(max_retries=1, base_delay="10s", jitter=0)


def test_held_and_delayed_tasks_take_no_room_of_those_that_could_start() -> None:
    here = Stepped(max_queue=2, max_held=3, hold=HOLD)
    held = here.tasks.options(priority="low").submit_many(int, ["1", "2"])
    here.tasks.options(delay="5s").submit(int)
    for refused in (here.tasks.options(priority="low"), here.tasks.options(delay="1s", key="k")):
        with pytest.raises(QueueFull, match="max_held: 3 of 3 tasks are delayed or held, and 1 more"):
            refused.submit(int)
    here.tasks.submit_many(int, ["1", "2"])
    with pytest.raises(QueueFull, match="max_queue: 2 of 2 tasks wait"):
        here.tasks.submit(int)
    held[0].cancel()
    here.tasks.options(delay="5s").submit(int)
    here.advance(40)
    assert here.tasks.pending_total() == 0


def test_what_was_held_is_not_refused_when_its_time_has_come() -> None:
    here = Stepped(max_queue=1, hold=HOLD)
    held = here.tasks.options(priority="low").submit_many(int, ["1", "2", "3"])
    here.clock.wait_until(31 * 10**9)
    here.tasks.fire()
    assert [future.state for future in held] == ["waiting"] * 3
    with pytest.raises(QueueFull, match="max_queue: 3 of 1"):
        here.tasks.submit(int)
    here.pool.run_all()
    assert [future.result() for future in held] == [1, 2, 3]


def test_a_retry_is_never_refused_and_waits_beside_the_bounds() -> None:
    here = Stepped(max_queue=1, max_held=1)
    fails = here.tasks.options(retry=BUSY).submit(raises(ConnectionError()))
    here.pool.run_all()
    assert fails.state == "retrying"
    here.tasks.submit(int)
    here.tasks.options(delay="1h").submit(int)
    here.clock.wait_until(here.clock.now_ns() + 10**10)
    here.tasks.fire()
    assert fails.state == "waiting"
    here.pool.run_all()
    assert (fails.state, fails.attempts) == ("dead", 2)


def test_a_level_may_have_a_bound_of_its_own() -> None:
    here = Stepped(max_queue=5, max_queue_by_level={"low": 1, "normal": 2})
    low = here.tasks.options(priority="low")
    first = low.submit(int)
    with pytest.raises(QueueFull, match="max_queue_by_level: 1 of 1 tasks of level 'low' wait"):
        low.submit(int)
    here.tasks.submit_many(int, ["1", "2"])
    with pytest.raises(QueueFull, match="level 'normal'"):
        here.tasks.submit(int)
    assert first.reprioritise("high")
    low.submit(int)
    here.tasks.options(priority="immediate").submit(int)
    with pytest.raises(QueueFull, match="max_queue: 5 of 5"):
        here.tasks.options(priority="immediate").submit(int)
    assert here.tasks.pending_count() == {"immediate": 1, "high": 1, "retry": 0, "normal": 2, "low": 1}


@pytest.mark.parametrize("policy", [Fifo(), Aging(), Fair()])
def test_bounds_by_level_need_levels(policy: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"max_queue_by_level: .* has no levels"):
        Scheduler(1, max_queue_by_level={"low": 1}, policy=policy)


@pytest.mark.parametrize("policy", [Levels(), Aging(), Fair(), Fifo()])
@pytest.mark.parametrize("options", [{}, {"key": "k"}, {"delay": "1ms"}, {"group": True}])
def test_a_deadline_ends_a_waiting_task_while_all_workers_are_busy(policy: Any, options: dict[str, Any]) -> None:
    gate = threading.Event()
    with Scheduler(1, max_queue=3, max_held=3, policy=policy) as scheduler:
        begun = scheduler.submit(gate.wait, 60)
        wait_until(begun.running)
        if "group" in options:
            options = {"group": TaskGroup()}
        late = [scheduler.options(deadline="10ms", **options).submit(int) for _ in range(3)]
        in_time = dt.datetime.now(dt.UTC) + dt.timedelta(milliseconds=10)
        for future in late:
            with pytest.raises(TaskExpired, match="deadline"):
                future.result(60)
        moment = scheduler.options(deadline=in_time).submit(int)
        assert isinstance(moment.exception(60), TaskExpired)
        assert begun.running()
        assert scheduler.pending_total() == 0
        scheduler.submit(int)  # there is room
        gate.set()


@pytest.mark.parametrize("over", [0, -1, 0.0, "0s", "-3s", dt.timedelta(0), dt.datetime(2020, 1, 1, tzinfo=dt.UTC)])
def test_a_deadline_that_is_over_expires_the_task(over: Any) -> None:
    ran: list[int] = []
    with Scheduler(1, policy=Levels(hold=HOLD)) as scheduler:
        expired = [
            scheduler.options(deadline=over).submit(ran.append, 1),
            scheduler.options(deadline=over, priority="low").submit(ran.append, 1),
        ]
        later = scheduler.options(delay="1h").submit(ran.append, 1)
        assert later.set_deadline(over)
        for future in (*expired, later):
            assert isinstance(future.exception(60), TaskExpired)
    assert ran == []


@pytest.mark.parametrize("at_once", [0, -5, -1.5, "0s", "-3s", dt.timedelta(seconds=-1)])
def test_a_delay_of_nothing_and_less_is_none(at_once: Any) -> None:
    here = Stepped()
    future = here.tasks.options(delay=at_once).submit(int)
    assert here.pool.run_all() == 1
    assert future.result() == 0


def test_a_moment_in_another_zone_is_the_same_moment() -> None:
    zone = dt.timezone(dt.timedelta(hours=5, minutes=30))
    soon = dt.datetime.now(zone) + dt.timedelta(hours=1)
    with Scheduler(1) as scheduler:
        before = time.monotonic_ns()
        future = scheduler.options(deadline=soon, delay="20ms").submit(int)
        assert future.deadline_ns is not None
        assert future.deadline_ns - before == pytest.approx(3600 * 10**9, abs=60 * 10**9)
        with pytest.raises(ConfigurationError, match="delay: after 2h"):
            scheduler.options(deadline=soon, delay="2h").submit(int)
        assert future.result(60) == 0


def test_deadlines_of_tasks_that_have_begun_are_cleared_out() -> None:
    here = Stepped()
    for _ in range(5000):
        here.tasks.options(deadline="1h").submit(int)
        here.pool.run_all()
    assert len(here.tasks._core.states.deadlines._heap) <= 1100


@pytest.mark.parametrize(
    "policy", [Levels(), Aging(classes={"urgent": 4.0, "high": 2.0, "normal": 1.0}, low_every=3), Fair()]
)
def test_cancelled_tasks_give_their_memory_back_while_all_workers_are_busy(policy: Any) -> None:
    """The engine uses the same entries again, so its table of tasks does not fill."""
    gate = threading.Event()
    with Scheduler(1, policy=policy) as scheduler:
        scheduler.submit(gate.wait, 60)
        waits = scheduler.submit(int)
        for _ in range(2000):
            assert scheduler.submit(int).cancel()
        totals = scheduler._engine.tasks.totals(on_strands=False)
        assert totals.submitted - totals.ended <= 2
        assert totals.cancelled == 2000
        gate.set()
    assert waits.result() == 0


# ---- Tasks of one key run in order, one at a time, and a high one is not held up by low ones before it


def test_a_key_waits_for_the_retry_of_its_head() -> None:
    here = Stepped()
    ran: list[str] = []

    def fails_once() -> None:
        ran.append("first")
        if ran.count("first") == 1:
            raise ArithmeticError

    retry = RetryPolicy(base_delay="2s", jitter=0)
    first = here.tasks.options(key="k", retry=retry).submit(fails_once)
    here.tasks.options(key="k").submit(ran.append, "second")
    here.tasks.submit(ran.append, "other")
    here.pool.run_all()
    assert (sorted(ran), first.state) == (["first", "other"], "retrying")
    here.advance(3)
    assert ran[2:] == ["first", "second"]


def test_when_the_pool_stops_the_tasks_behind_are_dropped_however_many() -> None:
    here = Stepped()
    futures = [here.tasks.options(key="k").submit(int) for _ in range(5000)]
    here.pool.stopped = True
    here.pool.step()
    assert futures[0].state == "done"
    assert {future.state for future in futures[1:]} == {"dropped"}
    with pytest.raises(TaskDropped, match="could not be listed: the pool has stopped"):
        futures[-1].result()
    assert len(here.tasks._core.states.keys) == 0


def test_a_task_that_waits_for_one_behind_it_is_refused() -> None:
    here = Stepped()
    behind: list[TaskFuture] = []
    first = here.tasks.options(key="k").submit(lambda: behind[0].result())  # noqa: PLW0108  # it is not there yet
    behind.append(here.tasks.options(key="k").submit(int))
    here.pool.run_all()
    assert isinstance(first.exception(), WouldDeadlockError)
    assert behind[0].result() == 0


def test_a_task_that_waits_for_a_delayed_one_of_its_key_is_refused() -> None:
    here = Stepped()
    behind = here.tasks.options(key="k", delay="1s").submit(int)
    first = here.tasks.options(key="k").submit(behind.result)
    here.pool.run_all()
    assert isinstance(first.exception(), WouldDeadlockError)


def test_a_circle_over_keys_and_results_is_found() -> None:
    """A waits for b2, which is behind b1 of its key, which waits for A."""
    with Threaded(2) as tasks:
        go, waits = threading.Event(), threading.Event()
        found: dict[str, TaskFuture] = {}

        def wait_for(name: str) -> Any:
            go.wait(60)
            return found[name].result(60)

        found["a"] = tasks.options(key="a").submit(wait_for, "b2")
        found["b1"] = tasks.options(key="b").submit(wait_for, "a")
        found["b2"] = tasks.options(key="b").submit(int)
        go.set()
        errors = [found[name].exception(60) for name in ("a", "b1")]
        assert any(isinstance(error, WouldDeadlockError) for error in errors)
        assert found["b2"].result(60) == 0
        waits.set()


def test_a_visit_goes_on_to_the_next_task_of_the_key_as_long_as_all_have_one_priority() -> None:
    here = Stepped()
    here.pool.may_go_on = lambda elapsed_ns: True  # type: ignore[method-assign]
    ran: list[int] = []
    several = [here.tasks.options(key="k").submit(ran.append, n) for n in range(6)]
    several[1].cancel()
    other = here.tasks.submit(ran.append, 100)
    high = here.tasks.options(key="k", priority="high").submit(ran.append, 6)
    here.pool.step()
    assert ran == [0], "the order has two priorities"
    high.cancel()
    assert here.pool.step()
    assert sorted(ran) in ([0, 2, 3, 4, 5], [0, 100])
    here.pool.run_all()
    assert sorted(ran) == [0, 2, 3, 4, 5, 100]
    assert other.done()
    assert len(here.tasks._core.states.keys) == 0


def test_a_visit_does_not_go_on_past_what_the_guard_may_hold_back() -> None:
    here = Stepped()
    here.pool.may_go_on = lambda elapsed_ns: True  # type: ignore[method-assign]
    ran: list[int] = []
    here.tasks.options(key="k").submit(ran.append, 0)
    here.tasks.options(key="k", marks="io").submit(ran.append, 1)
    here.pool.step()
    assert ran == [0]
    here.pool.run_all()
    assert ran == [0, 1]


def test_a_task_of_a_visit_that_fails_or_is_over_its_deadline_ends_as_it_would_by_itself() -> None:
    here = Stepped()
    here.pool.may_go_on = lambda elapsed_ns: elapsed_ns < 10**9  # type: ignore[method-assign]
    first = here.tasks.options(key="k").submit(lambda: here.clock.wait_until(here.clock.now_ns() + 2_000_000_000))
    late = here.tasks.options(key="k", deadline="1s").submit(int)
    failing = here.tasks.options(key="k").submit(raises(ArithmeticError()))
    last = here.tasks.options(key="k").submit(int)
    here.pool.step()
    assert (first.state, late.state) == ("done", "waiting"), "the visit is over its time"
    here.pool.run_all()
    assert [task.state for task in (late, failing, last)] == ["expired", "failed", "done"]


def test_a_task_that_expires_before_it_joins_its_key_holds_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """The timers' thread may end a task before the submitting thread has put it into the order of its key."""
    add = Deadlines.add

    def add_and_wait(deadlines: Deadlines, task: TaskFuture, due_ns: int) -> None:
        add(deadlines, task, due_ns)
        wait([task], 30)

    with Scheduler(1) as scheduler:
        monkeypatch.setattr(Deadlines, "add", add_and_wait)
        late = scheduler.options(key="key", deadline="1us").submit(int)
        assert late.state == "expired"
        assert scheduler.options(key="key").submit(int).result(60) == 0
        assert scheduler.statistics().pending == 0


# ---- A task that has risen by its wait shows its level, and is counted at its level, now and where it came from


#: Each level rises within a moment, all the way.
AT_ONCE = Levels(timeouts=dict.fromkeys(LEVELS[1:], "1ms"))


def test_a_task_shows_the_level_to_which_it_has_risen_and_the_one_it_was_submitted_with() -> None:
    stop = threading.Event()
    with Scheduler(1, policy=Levels(timeouts=dict.fromkeys(LEVELS[1:], "20ms"))) as scheduler:
        ahead = scheduler.options(priority="immediate")

        def flood() -> None:
            time.sleep(0.001)
            if not stop.is_set():
                ahead.submit(flood)

        for _ in range(3):
            ahead.submit(flood)
        low = [scheduler.options(priority="low").submit(int) for _ in range(5)]
        seen: list[str] = []
        while not all(future.done() for future in low):
            counted, priority = scheduler.pending_count(), low[0].priority
            if low[0].state == "waiting" and priority not in seen:
                seen.append(priority)
            assert min(counted.values()) >= 0
        stop.set()
    assert seen == [level for level in reversed(LEVELS) if level in seen]
    assert len(seen) > 1
    found = scheduler.statistics()
    for future in low:
        assert future.submitted_priority == "low"
    began = Counter(future.priority for future in low)
    for level in LEVELS[1:]:
        assert found.wait_by_priority[level].count == began[level]
    assert found.wait_by_submitted["low"].count == 5
    assert sum(waits.count for waits in found.wait_by_submitted.values()) == found.wait.count


def test_a_level_that_is_given_to_a_task_that_has_risen_holds() -> None:
    gate = threading.Event()
    with Scheduler(1, policy=AT_ONCE) as scheduler:
        ahead = scheduler.options(priority="immediate")
        ahead.submit(gate.wait, 60)
        ahead.submit_many(time.sleep, [0.005] * 10)
        future = scheduler.options(priority="low").submit(int)
        gate.set()
        wait_until(lambda: future.priority != "low")
        future.reprioritise("low")
    assert future.submitted_priority == "low"
    assert scheduler.pending_count() == dict.fromkeys(LEVELS, 0)


def test_what_ends_before_it_begins_leaves_no_count_behind() -> None:
    """Cancelled, expired and given another level, where tasks have risen and where not; a head of a key too."""
    gate = threading.Event()
    with Scheduler(1, policy=AT_ONCE) as scheduler:
        scheduler.options(priority="immediate").submit(gate.wait, 60)
        scheduler.options(priority="immediate").submit_many(time.sleep, [0.01] * 3)
        generator = random.Random(7)
        futures = []
        for i in range(300):
            level = generator.choice(LEVELS[1:])
            options = scheduler.options(priority=level, key=generator.choice([None, i % 7]), deadline="20s")
            futures.append(options.submit(int))
        assert sum(scheduler.pending_count().values()) == scheduler.pending_total() >= 300
        gate.set()
        wait_until(lambda: scheduler.pending_count()["low"] == 0)
        for future in futures:
            what = generator.randrange(3)
            if what == 0:
                future.cancel()
            elif what == 1:
                future.set_deadline(0)
            else:
                future.reprioritise("low")
        scheduler.shutdown()
        assert scheduler.pending_count() == dict.fromkeys(LEVELS, 0)
        assert scheduler._core.states.pool.risen() == [0] * 5


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    return build(tmp_path_factory.mktemp("policies"))


@pytest.mark.parametrize("seed", range(20))
def test_tasks_that_rise_are_counted_as_a_plain_count_says(built: ctypes.CDLL, seed: int) -> None:
    """In the policy alone: tasks are listed, rise, are taken, deferred, suspended, changed, and taken out."""
    generator = random.Random(seed)
    trial = Trial(built, levels((0, 10, 10, 10, 10)), 2, 1, tasks=8)
    own: dict[int, int] = {}  # of tasks that wait
    given: dict[int, int] = {}
    taken: list[int] = []
    now = 0
    for _ in range(400):
        now += generator.choice([0, 1, 5, 12])
        what = generator.choice(["list", "list", "take", "take", "leave", "change", "defer", "suspend"])
        idle = [task for task in range(1, 9) if task not in given and task not in taken]
        listed = [task for task in given if task not in taken]
        if what == "list" and idle:
            task, level, counted = idle[0], generator.randrange(5), generator.randrange(5)
            counted = max(counted, level)  # a head stands in the highest level of its order
            trial.renew(task, level | (counted + 1) << 8)
            trial.ready(generator.randrange(2), [task], WAS_EMPTY, now)
            own[task], given[task] = counted, level
        elif what == "take" and (task := trial.next(0, now, 2)) is not None:
            taken.append(task)
        elif what == "leave" and listed:
            task = generator.choice(listed)
            assert trial.leave(task)
            del given[task]
            own.pop(task, None)
        elif what == "change" and (waiting := [task for task in listed if task in own]):
            task, level = generator.choice(waiting), generator.randrange(5)
            own[task], given[task] = max(level, generator.randrange(5)), level
            trial.prioritise(task, level | (own[task] + 1) << 8, False, now)
        elif what == "defer" and taken:
            task = taken.pop()
            trial.ready(2, [task], DEFERRED if task in own else NOT_VISITED, now)
        elif what == "suspend" and taken:
            task = taken.pop()
            own.pop(task, None)  # it has begun
            trial.ready(0, [task], VISITED, now)
        expected = [0] * 5
        for task in given:
            rose = trial.rose(task)
            if task in own and task not in taken and rose is not None:
                expected[rose] += 1
                expected[own[task]] -= 1
        assert trial.risen() == expected
        if taken and generator.random() < 0.3:
            over = taken.pop()
            own.pop(over, None)
            del given[over]
    trial.close()
