"""Tables by symbol of a configuration file, by what the dispatcher takes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from strand.config.by_symbol import check_groups, check_marks, check_priorities
from strand.policies.aging import Aging
from strand.policies.fair import Fair
from strand.policies.policy import Fifo, Levels, Policy

pytestmark = pytest.mark.python


def given(values: Mapping[str, Any]) -> dict[tuple[str, ...], Any]:
    return {tuple(key.split(".", 2)): value for key, value in values.items()}


def of_table(table: str, values: Mapping[str, Any]) -> dict[tuple[str, ...], Any]:
    return {(table, symbol): value for symbol, value in values.items()}


def test_symbols_have_the_priorities_that_the_policy_knows() -> None:
    problems: list[str] = []
    values = {"priorities.symbols.BRK.B": "high", "priorities.symbols.*": "low"}
    assert check_priorities(Levels(), given(values), problems) == {"BRK.B": "high", "*": "low"}
    assert problems == []
    values = {"priorities.symbols.A": "hihg", "priorities.symbols.*": 5, "priorities.symbols.B": "low"}
    check_priorities(Levels(), given(values), problems)
    assert problems[0].startswith("priorities.symbols.A: 'hihg' is not a level: did you mean 'high'?")
    assert problems[1].startswith("priorities.symbols.*: 5 is not a level: give a name")
    assert len(problems) == 2


def test_a_policy_without_priorities_is_told_once() -> None:
    problems: list[str] = []
    values = {"priorities.symbols.A": "high", "priorities.symbols.B": "low"}
    assert check_priorities(Fifo(), given(values), problems) == {}
    assert len(problems) == 1
    assert problems[0].startswith('priorities.symbols: Fifo has no priorities; give policy.name = "levels"')


def test_a_name_that_is_none_is_told() -> None:
    problems: list[str] = []
    check_priorities(
        Levels(), {("priorities", "symbols", "A\n"): "low", ("priorities", "symbols", ""): "low"}, problems
    )
    assert problems[0].startswith("priorities.symbols: 'A\\n' has a control character")
    assert problems[1] == "priorities.symbols: a name is empty"


def test_lists_of_a_file_are_pairs_of_a_class_and_a_base() -> None:
    problems: list[str] = []
    aging = Aging(classes={"urgent": 4, "high": 2, "normal": 1})
    values = given({"priorities.symbols.A": ["urgent", 10], "priorities.symbols.*": -3})
    assert check_priorities(aging, values, problems) == {"A": ("urgent", 10), "*": -3}
    assert problems == []
    check_priorities(aging, given({"priorities.symbols.A": ["urgent"]}), problems)
    assert problems[0].startswith("priorities.symbols.A: ('urgent',) is not a priority: give a whole number, one of")


def test_fair_has_groups_and_no_priorities() -> None:
    problems: list[str] = []
    assert check_groups(Fair(), of_table("groups", {"BRK.B": "x", "*": "rest"}), problems) == {
        "BRK.B": "x",
        "*": "rest",
    }
    assert problems == []
    check_priorities(Fair(), given({"priorities.symbols.A": "low"}), problems)
    assert problems == ["priorities.symbols: Fair has groups, and no priorities: give the table groups"]


def test_groups_that_cannot_be_are_told_by_their_paths() -> None:
    problems: list[str] = []
    check_groups(Fair(), of_table("groups", {"BRK.B": 5, "A": "x\n", "C": "x", "*": True, "": "x"}), problems)
    assert [problem.split(" is ")[0].split(" has ")[0] for problem in problems] == [
        'groups."BRK.B": 5', "groups.A: 'x\\n'", "groups.*: True", "groups: a name",
    ]  # fmt: skip


@pytest.mark.parametrize("policy", [Fifo(), Levels(), Aging()])
def test_groups_under_a_policy_without_are_told_once(policy: Policy) -> None:
    problems: list[str] = []
    assert check_groups(policy, {}, problems) == {}
    assert problems == []
    check_groups(policy, of_table("groups", {"A": "x", "B": "y"}), problems)
    assert problems == [f'groups: {type(policy).__name__} has no groups; give policy.name = "fair"']


def test_marks_are_for_a_guard() -> None:
    problems: list[str] = []
    limits: dict[tuple[str, ...], Any] = {("resource_limits", "cpu_threshold"): 0.5}
    marks = of_table("marks", {"A": "io", "B": ["io", "frees_memory"], "*": "frees_memory"})
    assert check_marks(Levels(), limits | marks, problems) == {
        "A": "io",
        "B": ("io", "frees_memory"),
        "*": "frees_memory",
    }
    assert problems == []
    check_marks(Levels(), marks, problems)
    assert problems == ["marks: they are for a guard; give resource_limits or leave them out"]


def test_marks_that_are_none_are_told_by_their_paths() -> None:
    problems: list[str] = []
    limits: dict[tuple[str, ...], Any] = {("resource_limits", "cpu_threshold"): 0.5}
    check_marks(Levels(), limits | of_table("marks", {"A": "ioo", "B": 5, "C": ["io", ["io"]], "D": "io"}), problems)
    assert problems == [
        "marks.A: 'ioo' is not a mark: did you mean 'io'? give io or frees_memory, or a list of both",
        "marks.B: 5 is not a mark: give io or frees_memory, or a list of both",
        "marks.C: ['io'] is not a mark: give io or frees_memory, or a list of both",
    ]


@pytest.mark.parametrize("policy", [Fifo(), Aging(), Fair()])
def test_a_guard_is_for_levels(policy: Policy) -> None:
    problems: list[str] = []
    limits: dict[tuple[str, ...], Any] = {("resource_limits", "io_queue_threshold"): 5}
    assert check_marks(policy, limits | of_table("marks", {"A": "io", "B": "io"}), problems) == {}
    assert problems == [
        f'resource_limits: {type(policy).__name__} has no levels that could be held back; give policy.name = "levels"'
    ]
