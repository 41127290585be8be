"""Tables and keys that there are not, and values out of their range."""

from __future__ import annotations

from typing import Any

import pytest

from strand.config.checking import check_span, check_table, keys_of, unknown
from strand.config.tables import TABLES, ResourceLimits, RetryPolicy, WorkerPool
from strand.errors import ConfigurationError

pytestmark = pytest.mark.python


def test_values_are_known_by_their_keys() -> None:
    problems: list[str] = []
    tables = {
        "policy": {"name": "fifo"},
        "priorities": {"low_timeout": "1s", "symbols": {"A": "low"}},
        "worker_pool": None,
    }
    assert keys_of(tables, problems) == {
        ("policy", "name"): "fifo",
        ("priorities", "low_timeout"): "1s",
        ("priorities", "symbols", "A"): "low",
    }
    assert problems == []


@pytest.mark.parametrize(
    ("tables", "says"),
    [
        ({"polcy": {}}, "polcy: did you mean policy? It is no table; there are policy, priorities, groups, marks, "),
        ({"x.y": {}}, '"x.y": it is no table'),
        ({5: {}}, "5: it is no table"),
        ({"policy": "fifo"}, "policy: 'fifo' is not a table of keys"),
        ({"policy": ["fifo"]}, "policy: ['fifo'] is not a table of keys"),
        ({"policy": {True: "fifo"}}, "policy.True: YAML reads this key as bool: put it in quotes"),
        ({"policy": {"name": None}}, "policy.name: has no value: give one, or leave the key out"),
        ({"priorities": {"symbols": "low"}}, "priorities.symbols: 'low' is not a table of keys"),
        ({"priorities": {"symbols": {False: "low"}}}, "priorities.symbols.False: YAML reads this key as bool"),
        ({"groups": {"BRK": {"B": "x"}}}, "groups.BRK: is a table: put a name that has a dot in quotes"),
        ({"marks": {False: "io"}}, "marks.False: YAML reads this key as bool"),
        ({"marks": "io"}, "marks: 'io' is not a table of keys"),
        (
            {"priorities": {"symbols": {"BRK": {"B": "low"}}}},
            "priorities.symbols.BRK: is a table: put a name that has a dot ",
        ),
    ],
)
def test_what_is_no_table_and_no_key_is_named_by_its_path(tables: dict[Any, Any], says: str) -> None:
    problems: list[str] = []
    assert keys_of(tables, problems) == {}
    assert len(problems) == 1
    assert problems[0].startswith(says)


def test_aliases_that_grow_are_not_written_out() -> None:
    bomb: list[Any] = ["x"] * 10
    for _ in range(30):
        bomb = [bomb] * 10
    problems: list[str] = []
    keys_of({"policy": bomb}, problems)
    check_table("worker_pool", WorkerPool, {("worker_pool", "max_workers"): bomb}, problems)
    assert len(problems) == 2
    assert max(map(len, problems)) < 200


def test_a_table_takes_what_is_in_its_ranges() -> None:
    problems: list[str] = []
    given = {
        ("retry_policy", "multiplier"): 3,
        ("retry_policy", "max_backoff"): "1m",
        ("worker_pool", "max_workers"): 9,
    }
    assert check_table("retry_policy", RetryPolicy, given, problems) == RetryPolicy(multiplier=3.0, max_backoff="1m")  # type: ignore[arg-type]
    limits = {("resource_limits", "cpu_threshold"): 1, ("resource_limits", "io_queue_threshold"): 1}
    assert check_table("resource_limits", ResourceLimits, limits, problems).cpu_threshold == 1.0
    assert problems == []


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("worker_pool.max_wokers", 1, "did you mean max_workers? It is no key of worker_pool; there are max_workers, "),
        ("worker_pool.max_workers", -1, "-1 is not a whole number >= 0"),
        ("worker_pool.max_workers", 1025, "1025 is not a whole number <= 1024"),
        ("worker_pool.max_workers", True, "True is not a whole number"),
        ("worker_pool.max_workers", 2.0, "2.0 is not a whole number"),
        ("worker_pool.queue_capacity", 0, "0 is not a whole number >= 1"),
        ("worker_pool.queue_capacity", "1k", "'1k' is not a whole number"),
        ("retry_policy.max_attempts", 0, "0 is not a whole number >= 1"),
        ("retry_policy.initial_backoff", 30, "30 is not text with a unit, such as '30s'"),
        ("retry_policy.initial_backoff", 1.5, "1.5 is not text with a unit"),
        (
            "retry_policy.initial_backoff",
            "30 parsecs",
            "'30 parsecs' is not a span of time: 'parsecs' is not a unit: give ",
        ),
        ("retry_policy.max_backoff", "1ms", "'1ms' is less than the '100ms' of initial_backoff"),
        ("retry_policy.multiplier", 0.5, "0.5 is not a number >= 1.0"),
        ("retry_policy.multiplier", float("inf"), "inf is not a number <= 1000.0"),
        ("retry_policy.jitter", float("nan"), "nan is not a number >= 0.0"),
        ("retry_policy.jitter", "half", "'half' is not a number"),
        ("resource_limits.cpu_threshold", 0, "0 is not a number > 0.0"),
        ("resource_limits.memory_threshold", 75, "75 is not a number <= 1.0"),
        ("resource_limits.io_queue_threshold", 0.5, "0.5 is not a whole number"),
    ],
)
def test_what_is_out_of_range_is_named_by_its_path(key: str, value: Any, says: str) -> None:
    name, _, rest = key.partition(".")
    problems: list[str] = []
    check_table(name, TABLES[name], {(name, rest): value}, problems)
    assert len(problems) == 1
    assert problems[0].startswith(f"{key}: {says}")


def test_a_wrong_backoff_is_not_held_against_the_other_one() -> None:
    problems: list[str] = []
    given = {("retry_policy", "initial_backoff"): "1h", ("retry_policy", "max_backoff"): "2 x"}
    check_table("retry_policy", RetryPolicy, given, problems)
    assert len(problems) == 1


def test_spans_of_files_are_text() -> None:
    assert check_span("250us") == "250us"
    for value in (5, 5.0, None, "0s", "1.5ns"):
        with pytest.raises(ConfigurationError) as error:
            check_span(value)
        assert "timedelta" not in str(error.value)


def test_a_near_name_is_offered_and_no_other() -> None:
    assert (
        unknown("fiffo", "policy", ["fifo", "levels"]) == "did you mean fifo? It is no policy; there are fifo, levels"
    )
    assert unknown("xyz", "policy", ["fifo"]) == "it is no policy; there is fifo"
