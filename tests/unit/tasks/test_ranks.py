"""A policy's priorities, as tasks and their pool have them."""

from __future__ import annotations

from typing import Any

import pytest
from task_pools import KnownGroups, Stepped, SteppedPool

from strand.errors import ConfigurationError
from strand.policies.aging import Aging
from strand.policies.fair import Fair
from strand.policies.policy import Fifo, Levels
from strand.tasks import Ranks, TaskGroup, Tasks
from strand.testing import Clock

pytestmark = pytest.mark.python


def test_levels_have_names_and_the_smaller_number_is_higher() -> None:
    ranks = Ranks(Levels(hold={"low": "30s"}))
    assert [ranks.number_of("priority", level) for level in ("immediate", "low")] == [0, 4]
    assert (ranks.name_of(1, None), ranks.usual) == ("high", 3)
    assert (ranks.highest(3, [3, 1, 4]), ranks.highest(2, [2])) == (1, 2)
    assert (ranks.for_retry(0), ranks.for_retry(4)) == (2, 2)
    assert (ranks.raised(4), ranks.raised(0)) == (3, 0)
    assert (ranks.hold_ns(4), ranks.hold_ns(3)) == (30 * 10**9, 0)
    assert ranks.by_name([0, 0, 1, 0, 2]) == {"immediate": 0, "high": 0, "retry": 1, "normal": 0, "low": 2}
    assert [ranks.place_of(level) for level in range(5)] == [0, 1, 2, 3, 4]


def test_aging_has_numbers_and_the_bigger_one_is_higher() -> None:
    ranks = Ranks(Aging())
    small, big = (ranks.number_of("priority", base) for base in (-5, 5))
    assert ranks.highest(small, [small, big]) == big
    assert ranks.for_retry(big) == ranks.raised(big) == big
    assert ranks.name_of(big, 5) == 5
    assert (ranks.place_of(big), ranks.by_name([2])) == (0, {"normal": 2})


@pytest.mark.parametrize("policy", [Fifo(), Fair()])
def test_policies_without_priorities_refuse_them_and_run_tasks(policy: Any) -> None:
    here = Stepped(policy=policy)
    with pytest.raises(ConfigurationError, match="priority"):
        here.tasks.options(priority="high")
    futures = [here.tasks.options(key="k").submit(pow, 2, n) for n in range(3)]
    here.pool.run_all()
    assert [future.result() for future in futures] == [1, 2, 4]
    assert here.tasks.pending_count() == {}


def test_under_a_policy_of_groups_a_tasks_number_is_its_groups() -> None:
    pool = SteppedPool()
    tasks = Tasks(pool, Ranks(Fair(), KnownGroups("(tasks)", "mail", "web")), clock=Clock())
    mail, web = TaskGroup("mail"), TaskGroup("web")
    alone = tasks.submit(int)
    keyed = [tasks.options(group=group, key="k").submit(int) for group in (mail, web)]
    moved = tasks.options(group=web).submit(int)
    moved.set_group(mail)
    with mail:
        inside = tasks.submit_many(int, ["1", "2"])
        listed = [pool.priority_of(task.id) for task in (alone, keyed[0], moved, *inside)]
        assert listed == [0, 1, 1, 1, 1]
        tasks.run(keyed[0].id)
        assert pool.priority_of(keyed[1].id) == 2
        mail.cancel()
    waits = tasks.statistics().wait_by_priority
    assert {name: found.count for name, found in waits.items()} == {"(tasks)": 0, "mail": 1, "web": 0}


def test_what_is_no_policy_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="not a policy"):
        Ranks("levels")  # type: ignore[arg-type]


@pytest.mark.parametrize("policy", [Fifo(), Aging(), Fair(), Levels()])
def test_without_a_hold_nothing_is_held(policy: Any) -> None:
    ranks = Ranks(policy)
    assert {ranks.hold_ns(ranks.usual), ranks.hold_ns(4)} == {0}
