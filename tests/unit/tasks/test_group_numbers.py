"""The numbers of tasks' groups."""

from __future__ import annotations

import pytest

from strand import Fair, Scheduler
from strand.binding.engine import Engine
from strand.errors import ConfigurationError
from strand.policies.fair import Groups
from strand.symbols import SymbolTable
from strand.tasks.group_numbers import NumberedGroups
from strand.tasks.ranks import IN_NO_GROUP
from strand.tasks.scheduler import _config


def test_each_name_has_one_number_and_no_group_has_one_too() -> None:
    policy = Fair(weights={"b": 2.0})
    groups = Groups(policy, SymbolTable(["A", "B"]), {"A": "a"})
    engine = Engine(_config(1, policy))
    number_of = NumberedGroups(engine, groups).number_of
    named = [number_of(name) for name in ("a", "b", "B", IN_NO_GROUP, "new", "a", IN_NO_GROUP, "new")]
    assert named == [0, 1, 2, 3, 4, 0, 3, 4]
    assert groups.names() == ["a", "b", "B", IN_NO_GROUP, "new"]


def test_those_of_a_scheduler_begin_with_tasks_in_no_group() -> None:
    with Scheduler(1, policy=Fair(weights={"x": 3.0})) as scheduler:
        groups = scheduler._ranks.groups
        assert groups is not None
        assert [groups.number_of(name) for name in ("y", "x", IN_NO_GROUP, "#0")] == [2, 1, 0, 3]
        assert groups.names() == [IN_NO_GROUP, "x", "y", "#0"]


def test_there_is_a_bound() -> None:
    policy = Fair()
    groups = Groups(policy, SymbolTable(1), {})
    engine = Engine(_config(1, policy))
    number_of = NumberedGroups(engine, groups).number_of
    for i in range(engine.max_groups - 1):
        assert number_of(str(i)) == i + 1
    with pytest.raises(ConfigurationError, match="group: 'more' is one group too many: there can be 4,352"):
        number_of("more")
    assert number_of("7") == 8
