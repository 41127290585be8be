"""Tasks that are delayed or held, and what may change meanwhile."""

from __future__ import annotations

import pytest
from task_pools import Stepped, raises

from strand.errors import ConfigurationError, TaskDropped, UnknownSymbolError

pytestmark = pytest.mark.python


def test_a_held_task_does_not_start_even_where_nothing_else_waits() -> None:
    here = Stepped(hold={"low": "30s"})
    future = here.tasks.options(priority="low").submit(int)
    assert (future.state, here.pool.step(), here.tasks.pending_count()["low"]) == ("held", False, 1)
    here.advance(29.9)
    assert future.state == "held"
    here.advance(0.1)
    assert (future.state, future.waited_ns) == ("done", 30 * 10**9)


def test_a_held_task_that_gets_another_level_is_due_by_that_ones_hold() -> None:
    here = Stepped(hold={"low": "30s", "normal": "10s"})
    futures = [here.tasks.options(priority="low").submit(int) for _ in range(3)]
    delayed = here.tasks.options(priority="normal", delay="20s").submit(int)
    here.advance(5)
    futures[0].reprioritise("high")
    futures[1].reprioritise("normal")
    delayed.reprioritise("low")
    assert len(here.tasks._core.timers) == 4  # each task has one
    here.advance(0)
    assert [future.state for future in futures] == ["done", "held", "held"]
    here.advance(5)
    assert [future.state for future in futures] == ["done", "done", "held"]
    here.advance(15)
    assert (futures[2].state, delayed.state) == ("held", "held")
    here.advance(5)
    assert (futures[2].state, delayed.state) == ("done", "done")


def test_no_change_brings_a_deadline_before_the_end_of_a_wait() -> None:
    here = Stepped(hold={"low": "30s"})
    delayed = here.tasks.options(delay="10s", deadline="20s").submit(int)
    with pytest.raises(ConfigurationError, match="the hold of its level ends after the deadline"):
        delayed.reprioritise("low")
    assert (delayed.priority, delayed.state) == ("normal", "delayed")
    with pytest.raises(ConfigurationError, match="is delayed until after it"):
        delayed.set_deadline("10s")
    assert delayed.set_deadline("11s")
    here.advance(10)
    assert delayed.state == "done"


def test_a_deadline_may_be_set_and_taken_away() -> None:
    here = Stepped()
    first, second = here.tasks.submit(int), here.tasks.options(deadline="1s").submit(int)
    first.set_deadline("1s")
    second.set_deadline(None)
    here.clock.advance(1)
    here.pool.run_all()
    assert (first.state, second.state) == ("expired", "done")


def test_ctrl_c_in_a_callback_in_the_main_thread_comes_out_and_the_key_goes_on() -> None:
    here = Stepped()
    first, second = (here.tasks.options(key="k").submit(int) for _ in range(2))
    first.add_done_callback(raises(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        first.cancel()
    here.pool.run_all()
    assert (first.state, second.state, here.tasks._core.table.alive) == ("cancelled", "done", {})


def test_a_delayed_task_can_be_cancelled_or_dropped_and_leaves_the_heap() -> None:
    here = Stepped()
    futures = [here.tasks.options(delay="1s").submit(int) for _ in range(2)]
    futures[0].cancel()
    assert here.tasks.drop(futures[1].id, "the level is full")
    assert len(here.tasks._core.timers) == 0
    with pytest.raises(TaskDropped, match=f"task {futures[1].id} was dropped: the level is full"):
        futures[1].result()


def test_the_priority_of_a_symbols_task_is_its_symbols() -> None:
    def strand_of(symbol: str) -> int:
        if symbol == "?":
            raise UnknownSymbolError("?")
        return 3

    here = Stepped(strand_of=strand_of, hold={"normal": "1s"})
    future = here.tasks.options(symbol="AAPL").submit(int)
    assert (future.state, here.pool.on_strands) == ("waiting", [(3, future.id)])
    with pytest.raises(ConfigurationError, match="priority: a symbol's strand has one"):
        future.reprioritise("high")


def test_the_old_timer_of_a_held_task_does_not_list_it_a_second_time() -> None:
    """It was about to come when the task got another level: its action is under way."""
    here = Stepped(hold={"low": "1s", "normal": "2s"})
    future = here.tasks.options(priority="low").submit(int)
    action = future._timer.action
    here.clock.advance(1)
    future.reprioritise("normal")
    action()
    assert (future.state, len(here.pool.listed)) == ("held", 0)
    here.advance(5)
    assert future.attempts == 1
    assert len(here.tasks._core.timers) == 0
