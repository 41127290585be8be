"""Policies and priorities of a configuration file, by what the policies themselves take."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import pytest

import strand
from strand.config import ordering
from strand.config.by_symbol import check_priorities
from strand.config.ordering import check_policy, options, takes_spans
from strand.errors import ConfigurationError
from strand.policies.every_policy import POLICIES
from strand.policies.policy import Fifo, Levels, Policy
from strand.spans import SpanLike, span_ns
from strand.validate import Faults, one_of

pytestmark = pytest.mark.python


def given(values: Mapping[str, Any]) -> dict[tuple[str, ...], Any]:
    return {tuple(key.split(".", 2)): value for key, value in values.items()}


def test_every_public_policy_has_a_name() -> None:
    public = {
        kind for kind in map(strand.__getattr__, strand.__all__) if isinstance(kind, type) and issubclass(kind, Policy)
    }
    assert set(POLICIES.values()) == public
    assert POLICIES["fifo"] is Fifo
    assert all(name == kind.core_name for name, kind in POLICIES.items())


@pytest.mark.parametrize(
    ("values", "policy"),
    [
        ({}, Fifo()),
        ({"policy.name": "fifo"}, Fifo()),
        ({"policy.name": "levels"}, Levels()),
        ({"policy.name": "levels", "policy.since": "created"}, Levels(since="created")),
        ({"policy.name": "levels", "policy.hold": {"low": "30s"}}, Levels(hold={"low": "30s"})),
        (
            {"policy.name": "levels", "priorities.low_timeout": "5ms", "priorities.high_timeout": "250us"},
            Levels({"low": "5ms", "high": "250us"}),
        ),
    ],
)
def test_a_policy_is_made_of_its_options_and_timeouts(values: dict[str, Any], policy: Policy) -> None:
    problems: list[str] = []
    assert check_policy(given(values), problems) == policy
    assert problems == []


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"policy.name": "level"}, ["policy.name: 'level': did you mean levels? It is no policy; there are fifo, "]),
        ({"policy.name": 3}, ["policy.name: 3: it is no policy"]),
        ({"policy.name": "levels", "policy.hold": {"low": 30}}, ["policy.hold: 30 is not text with a unit"]),
        ({"policy.name": "levels", "policy.hold": {"lo": "30s"}}, ["policy.hold: 'lo' is not a level: did you mean"]),
        ({"policy.since": "created"}, ["policy.since: it is not an option of the policy fifo, but of levels"]),
        ({"policy.name": "levels", "policy.sinse": "x"}, ["policy.sinse: did you mean since? It is no option of "]),
        ({"policy.name": "levels", "policy.since": "x"}, ["policy.since: 'x' is not one of entered, created"]),
        (
            {"policy.name": "levels", "policy.timeouts": {}},
            ["policy.timeouts: give priorities.low_timeout and the like"],
        ),
        ({"policy.timeouts": {}}, ["policy.timeouts: it is no option of the policy fifo"]),
        (
            {"policy.name": "fifo", "priorities.low_timeout": "1s"},
            ["priorities.low_timeout: the policy fifo has no timeouts: give policy.name = "],
        ),
        ({"priorities.lwo_timeout": "1s"}, ["priorities.lwo_timeout: did you mean low_timeout? It is no key of "]),
        (
            {
                "policy.name": "levels",
                "policy.since": "never",
                "priorities.immediate_timeout": "1s",
                "priorities.high_timeout": 30,
                "priorities.low_timeout": "30 parsecs",
            },
            [
                "priorities.immediate_timeout: has no timeout, because no level is higher",
                "priorities.high_timeout: 30 is not text with a unit",
                "priorities.low_timeout: '30 parsecs' is not a span of time: 'parsecs' is not a unit",
                "policy.since: 'never' is not one of",
            ],
        ),
        (
            {"policy.name": "levels", "priorities.low_timeout": "5ms", "priorities.high_timeout": "10ms"},
            ["priorities.low_timeout: 5,000,000 ns is less than the 10,000,000 ns of the higher level 'high'"],
        ),
    ],
)
def test_all_that_is_wrong_is_told_by_its_path(values: dict[str, Any], says: list[str]) -> None:
    problems: list[str] = []
    check_policy(given(values), problems)
    assert len(problems) == len(says)
    for problem, start in zip(problems, says, strict=True):
        assert problem.startswith(start)


def test_the_first_level_may_be_given_the_timeout_that_it_has() -> None:
    problems: list[str] = []
    values = {"policy.name": "levels", "priorities.immediate_timeout": "0s", "priorities.low_timeout": "1h"}
    assert check_policy(given(values), problems) == Levels({"low": "1h"})
    assert problems == []


def test_where_classes_are_wrong_priorities_cannot_be_checked() -> None:
    problems: list[str] = []
    classes = {"urgent": 0, "high": 2, "normal": 1}
    assert check_policy(given({"policy.name": "aging", "policy.classes": classes}), problems) is None
    assert len(problems) == 1


@dataclass(frozen=True, slots=True)
class Shares(Policy):
    """A policy to come: one option that it needs, one that takes spans, one of its own kind."""

    weights: Mapping[str, int]
    slice: SpanLike = "1ms"
    mode: Literal["strict", "loose"] = "strict"
    bounds: Mapping[str, SpanLike] = field(default_factory=dict)
    every: int | None = None
    core_name = "shares"
    usual_priority = 0

    def __post_init__(self) -> None:
        faults = Faults()
        with faults.of("weights"):
            if sum(self.weights.values()) <= 0:
                raise ConfigurationError("weights: give some")
        with faults.of("slice"):
            span_ns("slice", self.slice)
        with faults.of("mode"):
            one_of("mode", self.mode, ("strict", "loose"))
        with faults.of("every"):
            if self.every is not None and not self.bounds:
                raise ConfigurationError("every: without bounds it has no meaning")
        faults.end()

    def priority_of(self, name: str, priority: Any) -> int:
        if not isinstance(priority, tuple):
            raise ConfigurationError(f"{name}: {priority!r} is no pair")
        return int(priority[1])


def test_a_new_policy_needs_no_change(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ordering, "POLICIES", POLICIES | {"shares": Shares})
    problems: list[str] = []
    values: dict[str, Any] = {"policy.name": "shares", "policy.weights": {"a": 1}, "policy.slice": "2ms"}
    assert check_policy(given(values), problems) == Shares({"a": 1}, "2ms")
    assert [one.name for one in options(Shares)] == ["weights", "slice", "mode", "bounds", "every"]
    assert [takes_spans(Shares, name) for name in ("weights", "slice", "mode", "bounds")] == [False, True, False, True]
    assert check_policy(given({"policy.name": "shares"}), problems) is None
    assert problems.pop() == "policy.weights: is missing: the policy shares needs it"
    for option, value, says in (
        ("slice", 5, "policy.slice: 5 is not text with a unit"),
        ("bounds", {"a": [5.0]}, "policy.bounds: 5.0 is not text with a unit"),
        ("slice", "5 x", "policy.slice: '5 x' is not a span of time"),
        ("weights", {"a": 0}, "policy.weights: give some"),
    ):
        check_policy(given(values | {f"policy.{option}": value}), problems)
        assert problems.pop().startswith(says)
        assert problems == []
    both = {"policy.bounds": {"a": "1s"}, "policy.every": 5}
    assert check_policy(given(values | both), problems) == Shares({"a": 1}, "2ms", bounds={"a": "1s"}, every=5)
    found = check_policy(given(values | both | {"policy.slice": "5 x", "policy.mode": "odd"}), problems)
    assert found == Shares({"a": 1}, bounds={"a": "1s"}, every=5), (
        "what is right by itself is left to check the rest by"
    )
    assert sorted(problem.split(":")[0] for problem in problems) == ["policy.mode", "policy.slice"]
    problems.clear()
    assert check_priorities(Shares({"a": 1}), given({"priorities.symbols.A": ["x", 3]}), problems) == {"A": ("x", 3)}
    check_priorities(Shares({"a": 1}), given({"priorities.symbols.A": 3}), problems)
    assert problems == ["priorities.symbols.A: 3 is no pair"]


@pytest.mark.parametrize(
    ("values", "says"),
    [
        (
            {"policy.name": "aging", "policy.low_every": 0, "policy.classes": {"urgent": 1, "high": 2, "normal": 3}},
            ["policy.classes: 'urgent' has 1", "policy.low_every: 0 is not"],
        ),
        (
            {"policy.name": "fair", "policy.slice_ms": -1, "policy.burst_ms": 0,
             "policy.weights": {"burst_ms": -1, "slice_ms": 0, "fine": 1, "*": 1}},
            ["policy.slice_ms: -1", "policy.burst_ms: 0", "policy.weights: burst_ms: -1", "policy.weights: slice_ms: 0",
             "policy.weights: no group"],
        ),
        (
            {"policy.name": "levels", "policy.since": "now", "priorities.high_timeout": "2m",
             "priorities.retry_timeout": "1m", "priorities.low_timeout": "30s"},
            ["policy.since: 'now'", "priorities.retry_timeout: 60,", "priorities.low_timeout: 30,"],
        ),
    ],
)  # fmt: skip
def test_all_problems_of_a_policy_are_told_whatever_names_they_mention(values: dict[str, Any], says: list[str]) -> None:
    problems: list[str] = []
    check_policy(given(values), problems)
    for problem, start in zip(problems, says, strict=True):
        assert problem.startswith(start)
