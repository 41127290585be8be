"""Problems of a configuration file: the check reports each of them once, at the path of its key."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

import strand
from strand.config.file import TABLES, checked, keys_of
from strand.options import options_in
from strand.policies.policy import POLICIES, Policy
from strand.validate import Faults

pytestmark = pytest.mark.python

#: A value that each option refuses, by how it is kept.
BAD: dict[str, Any] = {"Whole": "many", "Number": -1, "Choice": "never", "Span": "30 parsecs", "ByName": 3}
#: The same, of options by name: one of the values is wrong.
BAD_NAMES: dict[str, Any] = {"level_capacity_ticks": {"low": 0}, "hold": {"low": "x"}, "weights": {"burst_ms": -1}}
CLASSES = {"urgent": 4, "high": 2, "normal": 1}


def problems_of(tables: Mapping[Any, Any]) -> dict[str, str]:
    """The reason of each problem by its path; no path has two."""
    problems = Faults()
    checked(keys_of(tables, problems), problems)
    found = {problem.field: problem.reason for problem in problems}
    assert len(found) == len(problems), [str(problem) for problem in problems]
    assert all(str(problem) == f"{problem.field}: {problem.reason}" for problem in problems)
    return found


def bad(option: Any) -> tuple[Any, str]:
    """A value that an option refuses, and the rest of the path of what is wrong with it."""
    if option.name in BAD_NAMES:
        value = BAD_NAMES[option.name]
        return value, f".{next(iter(value))}"
    return BAD[type(option.kind).__name__], ""


@pytest.mark.parametrize("policy", POLICIES)
def test_every_bad_value_is_a_problem_of_its_own_at_its_own_path(policy: str) -> None:
    tables: dict[str, Any] = {"policy": {"name": policy}}
    expected = set()
    for option in options_in(POLICIES[policy]).values():
        value, rest = bad(option)
        if option.name == "timeouts":
            levels = ("high", "retry", "normal", "low")
            tables["priorities"] = {f"{level}_timeout": "30 parsecs" for level in levels}
            expected |= {f"priorities.{level}_timeout" for level in levels}
        else:
            tables["policy"][option.name] = value
            expected.add(f"policy.{option.name}{rest}")
    for table, (_, keys) in TABLES.items():
        if table == "resource_limits" and policy != "levels":
            continue
        tables[table] = {}
        for name, key in keys.items():
            tables[table][name], rest = bad(key.option)
            expected.add(f"{table}.{name}{rest}")
    if policy == "levels":
        tables["marks"] = {"A": "ioo", "BRK.B": 5}
        expected |= {"marks.A", 'marks."BRK.B"'}
        tables["priorities"]["symbols"] = {"A": "hihg", "BRK.B": 5, "*": "lo"}
        expected |= {"priorities.symbols.A", 'priorities.symbols."BRK.B"', "priorities.symbols.*"}
    if policy == "fair":
        tables["groups"] = {"A": 5, "B": "x\n"}
        expected |= {"groups.A", "groups.B"}
    tables |= {"polcy": {}, "monitoring": {"cpu_usage": {"warning": 75}, "memory_usag": {}}}
    expected |= {"polcy", "monitoring.cpu_usage.warning", "monitoring.memory_usag"}
    assert problems_of(tables).keys() == expected


@pytest.mark.parametrize(
    ("tables", "fields"),
    [
        ({"x.y": {}}, '"x.y"'),
        ({"policy": {True: "fifo"}}, "policy.True"),  # as YAML reads some words
        ({"policy": {"name": None}}, "policy.name"),
        ({"priorities": {"symbols": "low"}}, "priorities.symbols"),
        ({"priorities": {"symbols": {False: "low"}}}, "priorities.symbols.False"),
        ({"groups": {"BRK": {"B": "x"}}}, "groups.BRK"),
        ({"worker_pool": {"level_capacity_ticks": {"low": 5}}}, "worker_pool.level_capacity_ticks"),
        ({"worker_pool": {"min_workers": 3, "python_workers": 4, "max_workers": 2}},
         "worker_pool.min_workers worker_pool.python_workers"),
        ({"retry_policy": {"max_backoff": "1ms"}}, "retry_policy.max_backoff"),
        ({"retry_policy": {"initial_backoff": "1h", "max_backoff": "2 x"}}, "retry_policy.max_backoff"),
        ({"policy": {"since": "created"}}, "policy.since"),
        ({"policy": {"name": "levels", "timeouts": {}}}, "policy.timeouts"),
        ({"policy": {"name": "fifo"}, "priorities": {"low_timeout": "1s"}}, "priorities.low_timeout"),
        ({"priorities": {"immediate_timeout": "1s", "high_timeout": 30}},
         "priorities.immediate_timeout priorities.high_timeout"),
        ({"priorities": {"high_timeout": "2m", "retry_timeout": "1m", "low_timeout": "30s"}},
         "priorities.retry_timeout priorities.low_timeout"),
        ({"policy": {"name": "aging", "low_every": 0, "classes": {"urgent": 1, "high": 2, "normal": 3}}},
         "policy.classes policy.low_every"),
        ({"policy": {"name": "aging", "classes": {"urgent": 0, "high": 2, "normal": 1}},
          "priorities": {"symbols": {"A": "urgent"}}}, "policy.classes.urgent"),
        ({"policy": {"name": "fair", "slice_ms": -1, "weights": {"burst_ms": -1, "slice_ms": 0, "fine": 1, "*": 1}}},
         "policy.slice_ms policy.weights.burst_ms policy.weights.slice_ms policy.weights.*"),
        ({"policy": {"name": "aging", "classes": CLASSES}, "priorities": {"symbols": {"A": ["urgent"]}}},
         "priorities.symbols.A"),
        ({"policy": {"name": "aging"}, "marks": {"A": "io"}, "resource_limits": {"io_queue_threshold": 5}},
         "resource_limits"),
    ],
)  # fmt: skip
def test_what_is_wrong_beside_another_key_is_a_problem_at_its_path(tables: dict[Any, Any], fields: str) -> None:
    assert problems_of(tables).keys() == {*fields.split()}


def test_what_is_wrong_in_one_table_hides_nothing_in_another() -> None:
    found = problems_of(
        {
            "policy": {"name": "levels", "since": "never"},
            "priorities": {"symbols": {"A": "hihg", "B": 3}},
            "worker_pool": {"on_full": "shed"},
        }
    )
    assert list(found) == ["policy.since", "worker_pool.on_full", "priorities.symbols.A", "priorities.symbols.B"]


@pytest.mark.parametrize(
    ("tables", "policy"),
    [
        ({}, strand.Fifo()),
        ({"policy": {"name": "levels", "since": "created"}}, strand.Levels(since="created")),
        ({"policy": {"name": "levels", "hold": {"low": "30s"}}}, strand.Levels(hold={"low": "30s"})),
        ({"priorities": {"low_timeout": "5ms", "high_timeout": "1us"}}, strand.Levels({"low": "5ms", "high": "1us"})),
        ({"priorities": {"immediate_timeout": "0s", "low_timeout": "1h"}}, strand.Levels({"low": "1h"})),
        ({"policy": {"name": "aging", "classes": CLASSES, "low_every": "load"}}, strand.Aging(None, "load", CLASSES)),
        ({"policy": {"name": "fair", "weights": {"x": 2}}}, strand.Fair(weights={"x": 2})),
    ],
)  # fmt: skip
def test_a_policy_is_made_of_its_options_and_timeouts(tables: dict[str, Any], policy: Policy) -> None:
    problems = Faults()
    assert checked(keys_of(tables, problems), problems).policy == policy
    assert problems == []


def test_tables_give_the_options_of_their_classes() -> None:
    problems = Faults()
    tables = {
        "policy": {"name": "levels"},
        "worker_pool": {"max_workers": 9, "on_full": "raise"},
        "priorities": {"symbols": {"BRK.B": "high", "*": "low"}},
        "marks": {"A": "io", "B": ["io", "frees_memory"], "*": "frees_memory"},
        "resource_limits": {"memory_threshold": 0.5},
        "retry_policy": {"max_attempts": 1, "multiplier": 3, "max_backoff": "1m"},
    }
    found = checked(keys_of(tables, problems), problems)
    assert problems == []
    assert (found.pool, found.limits) == (strand.Pool(workers=9), strand.Limits(on_full="raise"))
    assert found.priorities == {"BRK.B": "high", "*": "low"}
    assert found.marks == {"A": "io", "B": ("io", "frees_memory"), "*": "frees_memory"}
    assert found.guard == strand.Guard(cpu=None, memory=0.5, io_pressure=None)
    assert found.retry == strand.RetryPolicy(
        max_retries=0, base_delay="100ms", multiplier=3, max_delay="1m", jitter=0.1
    )
    assert checked({("resource_limits", "io_queue_threshold"): 7}, problems).guard == strand.Guard(
        cpu=None, memory=None, io_queue=7
    )


def test_aliases_that_grow_are_not_written_out() -> None:
    bomb: list[Any] = ["x"] * 10
    table: dict[str, Any] = {"a": "x"}
    for _ in range(40):
        bomb, table = [bomb] * 10, dict.fromkeys("abcdefghij", table)
    found = problems_of(
        {
            "policy": {"name": "levels", "hold": table, "since": bomb},
            "priorities": bomb,
            "worker_pool": {"max_workers": bomb, "level_capacity_ticks": bomb},
            "retry_policy": {"multiplier": bomb, "initial_backoff": bomb},
        }
    )
    assert found.keys() >= {"priorities", "policy.since", "worker_pool.max_workers", "retry_policy.multiplier"}
    assert max(map(len, found.values())) < 300
