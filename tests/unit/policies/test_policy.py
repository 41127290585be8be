"""Scheduling policies, as users give them."""

from __future__ import annotations

import datetime as dt
import pickle
from typing import Any

import numpy as np
import pytest

from strand.errors import ConfigurationError
from strand.policies.policy import CLASSES, LEVELS, Aging, Fair, Fifo, Levels, Policy, policy_config

pytestmark = pytest.mark.python


RATES = {"urgent": 4.0, "high": 2.0, "normal": 1.0}
EVERY = [
    Fifo(),
    Levels(),
    Levels({"low": "1h"}, since="created", hold={"low": "30s"}),
    Aging(),
    Aging(low_every="load", classes=RATES, max_wait="5ms"),
    Fair(cpu_share=0.5, weights={"a": 2}),
]


@pytest.mark.parametrize("policy", EVERY)
def test_a_policy_is_a_value_that_cannot_be_changed(policy: Policy) -> None:
    assert isinstance(policy, Policy)
    assert pickle.loads(pickle.dumps(policy)) == policy
    assert len({policy, pickle.loads(pickle.dumps(policy))}) == 1
    with pytest.raises((AttributeError, TypeError)):
        policy.share = 1  # type: ignore[attr-defined]


def test_timeouts_are_those_of_the_page_unless_given() -> None:
    assert Levels().timeouts_ns == tuple(s * 10**9 for s in (0, 30, 60, 300, 1800))
    given = Levels({"high": "250us", "retry": dt.timedelta(milliseconds=2), "normal": 0.003})
    assert given.timeouts_ns == (0, 250_000, 2_000_000, 3_000_000, 1800 * 10**9)
    with pytest.raises(TypeError):
        given.timeouts["high"] = "1s"  # type: ignore[index]


def test_levels_hold_nothing_unless_given() -> None:
    assert Levels().holds_ns == (0, 0, 0, 0, 0)
    given = Levels(hold={"low": "30s", "normal": dt.timedelta(seconds=1)})
    assert given.holds_ns == (0, 0, 0, 10**9, 30 * 10**9)
    assert given == Levels(hold={"normal": 1.0, "low": "30000ms"})
    assert given.core_options() == Levels().core_options()
    with pytest.raises(TypeError):
        given.hold["low"] = "1s"  # type: ignore[index]


def test_a_level_that_is_left_out_keeps_between_its_neighbours() -> None:
    assert Levels({"low": "5ms"}).timeouts_ns == (0, *[5_000_000] * 4)
    assert Levels({"high": "1h"}).timeouts_ns == tuple(s * 10**9 for s in (0, 3600, 3600, 3600, 3600))
    assert Levels({"retry": "2m"}).timeouts_ns == tuple(s * 10**9 for s in (0, 30, 120, 300, 1800))


def test_equal_are_policies_that_were_given_the_same() -> None:
    assert Levels({"low": "30m"}) == Levels({"low": "1800s"}) == Levels()
    assert hash(Levels({"low": "30m"})) == hash(Levels())
    assert Levels(since="created") != Levels() != Levels(hold={"low": "30s"})
    assert Levels() != Fifo()


def test_each_policy_has_its_number_in_the_core() -> None:
    assert policy_config(Fifo()).name == "fifo"
    found = policy_config(Levels(since="created"))
    assert (found.name, found.options) == ("levels", {"since_listed": True, "timeout_ns": Levels().timeouts_ns})
    with pytest.raises(ConfigurationError, match=r"policy: .* is not a policy: give Fifo\(\), .* or \w+\(\)$"):
        policy_config(Policy())


def test_levels_are_named_from_the_highest_on() -> None:
    assert LEVELS == ("immediate", "high", "retry", "normal", "low")


def test_aging_is_said_to_the_core_from_the_lowest_class_on() -> None:
    found = policy_config(Aging(low_every=7, classes=RATES, max_wait=dt.timedelta(milliseconds=5)))
    assert found.name == "aging"
    assert found.options == {
        "coefficient": (1.0, 2.0, 4.0), "n_classes": 3, "low_every": 7, "max_wait_ns": 5_000_000,
    }  # fmt: skip
    assert Aging(low_every="load", classes=RATES).core_options()["low_every"] == 2**32 - 1
    assert Aging(2.5).core_options() == {
        "coefficient": (2.5, 0.0, 0.0), "n_classes": 1, "low_every": 0, "max_wait_ns": 0,
    }  # fmt: skip
    assert Aging() == Aging(1) != Aging(classes=RATES)
    assert Aging(max_wait="1ms") == Aging(max_wait=0.001)


def test_priorities_of_aging_are_ordered_by_class_and_then_by_base() -> None:
    policy = Aging(classes=RATES)
    given: list[Any] = [
        -500_000_000,
        ("normal", -1),
        0,
        7,
        ("high", -3),
        "high",
        ("urgent", -9),
        "urgent",
        ("urgent", 1),
    ]
    numbers = [policy.priority_of("priority", priority) for priority in given]
    assert numbers == sorted(set(numbers))
    assert policy.priority_of("priority", np.int32(0)) == policy.usual_priority == Aging().priority_of("priority", 0)
    assert policy.priority_of("priority", "normal") == policy.usual_priority
    assert policy.of_strand(np.array(numbers, np.uint32)) == numbers[-1]
    assert CLASSES == ("urgent", "high", "normal")


@pytest.mark.parametrize("priority", ["high", "normal", ("normal", 1), True, 1.5])
def test_without_classes_a_priority_is_a_whole_number(priority: Any) -> None:
    with pytest.raises(ConfigurationError, match="is not a priority: give a whole number, the bigger one comes first"):
        Aging().priority_of("priority", priority)
