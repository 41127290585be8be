"""Dead letters are bounded, listed, and put back as new tasks."""

from __future__ import annotations

import pytest
from task_pools import Stepped, raises

from strand.errors import ConfigurationError, StoppedError
from strand.tasks import RetryPolicy, TaskGroup

pytestmark = pytest.mark.python

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
