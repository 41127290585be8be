"""Scheduling policies, as users give them."""

from __future__ import annotations

import datetime as dt
import pickle
from typing import Any

import pytest

from strand.dispatch.configuration import policy_config
from strand.dispatch.policies import LEVELS, Fifo, Levels, Policy
from strand.errors import ConfigurationError

pytestmark = pytest.mark.python


@pytest.mark.parametrize("policy", [Fifo(), Levels(), Levels({"low": "1h"}, since="created")])
def test_a_policy_is_a_value_that_cannot_be_changed(policy: Policy) -> None:
    assert isinstance(policy, Policy)
    assert pickle.loads(pickle.dumps(policy)) == policy
    assert len({policy, pickle.loads(pickle.dumps(policy))}) == 1
    with pytest.raises((AttributeError, TypeError)):
        policy.share = 1  # type: ignore[attr-defined]


def test_timeouts_are_those_of_the_page_unless_given() -> None:
    assert Levels().timeouts_ns == tuple(s * 10**9 for s in (0, 30, 60, 300, 1800))
    given = Levels({"high": "250us", "retry": dt.timedelta(milliseconds=2), "normal": 3_000_000})
    assert given.timeouts_ns == (0, 250_000, 2_000_000, 3_000_000, 1800 * 10**9)
    with pytest.raises(TypeError):
        given.timeouts["high"] = "1s"  # type: ignore[index]


def test_a_level_that_is_left_out_keeps_between_its_neighbours() -> None:
    assert Levels({"low": "5ms"}).timeouts_ns == (0, *[5_000_000] * 4)
    assert Levels({"high": "1h"}).timeouts_ns == tuple(s * 10**9 for s in (0, 3600, 3600, 3600, 3600))
    assert Levels({"retry": "2m"}).timeouts_ns == tuple(s * 10**9 for s in (0, 30, 120, 300, 1800))


def test_equal_are_policies_that_were_given_the_same() -> None:
    assert Levels({"low": "30m"}) == Levels({"low": "1800s"}) == Levels()
    assert hash(Levels({"low": "30m"})) == hash(Levels())
    assert Levels(since="created") != Levels()
    assert Levels() != Fifo()


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"timeouts": {"hgih": "1s"}}, r"timeouts: 'hgih' is no level: did you mean 'high'\?"),
        ({"timeouts": {0: "1s"}}, "timeouts: 0 is no level: give a name"),
        ({"timeouts": {"immediate": "1s"}}, "'immediate' has none"),
        ({"timeouts": {"low": "0s"}}, "timeouts: low: '0s' is no span of time"),
        ({"timeouts": {"low": -1}}, "timeouts: low: -1 is no span of time"),
        ({"timeouts": {"low": "1 fortnight"}}, "timeouts: low: '1 fortnight' is no span of time"),
        (
            {"timeouts": {"high": "10m", "low": "1s"}},
            "'low' has 1,000,000,000 ns, less than the 600,000,000,000 ns of the higher level 'high'",
        ),
        ({"timeouts": ["1s"]}, "timeouts: list is not a dict of spans by level"),
        ({"since": "listed"}, "since: 'listed'"),
    ],
)
def test_what_cannot_be_is_refused_where_it_is_given(given: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        Levels(**given)


def test_each_policy_has_its_number_in_the_core() -> None:
    assert policy_config(Fifo()).name == "fifo"
    found = policy_config(Levels(since="created"))
    assert (found.name, found.options) == ("levels", {"since_listed": True, "timeout_ns": Levels().timeouts_ns})
    with pytest.raises(ConfigurationError, match=r"policy: .* is not a policy: give Fifo\(\) or Levels\(\)"):
        policy_config(Policy())


def test_levels_are_named_from_the_highest_on() -> None:
    assert LEVELS == ("immediate", "high", "retry", "normal", "low")
