"""What tasks ask of a pool, by their options."""

from __future__ import annotations

import pytest
from task_pools import Stepped, SteppedPool, ThreadPool

from strand.tasks import Pool

pytestmark = pytest.mark.python


def test_each_kind_of_task_is_listed_by_its_own_method() -> None:
    here = Stepped(strand_of=lambda symbol: 7)
    plain = here.tasks.options(priority="high").submit(int)
    marked = here.tasks.options(marks="frees_memory").submit(int)
    on_symbol = here.tasks.options(symbol="AAPL").submit(int)
    assert here.pool.priority_of(plain.id) == 1
    assert here.pool.marks == {marked.id: 2}
    assert here.pool.on_strands == [(7, on_symbol.id)]
    here.tasks.run(on_symbol.id)
    here.pool.run_all()
    assert [future.state for future in (plain, marked, on_symbol)] == ["done"] * 3
    assert Pool.submit.__doc__


def test_the_pools_of_tests_are_pools() -> None:
    pools: list[Pool] = [SteppedPool()]
    names = {name for name in vars(Pool) if not name.startswith("_")}
    lists = {"submit", "submit_many", "submit_on", "submit_as", "prioritise", "give_up", "rose", "risen"}
    assert names == lists | {"may_go_on", "hold"}
    for pool in (*pools, ThreadPool):
        assert names <= set(dir(pool))
