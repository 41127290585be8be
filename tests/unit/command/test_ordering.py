"""Options of scheduling policies."""

from __future__ import annotations

from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from strand.command.run_options import ordering
from strand.dispatch.guard import Guard
from strand.errors import ConfigurationError
from strand.policies.aging import Aging
from strand.policies.fair import Fair
from strand.policies.policy import Levels

pytestmark = pytest.mark.python

CLASSES = ["--class", "urgent=4", "--class", "high=2", "--class", "normal=0.5"]


def ordered(args: list[str]) -> tuple[Result, list[dict[str, Any]]]:
    found: list[dict[str, Any]] = []

    @click.command()
    @ordering
    def command(order: dict[str, Any]) -> None:
        found.append(order)

    return CliRunner().invoke(command, args), found


@pytest.mark.parametrize(
    ("args", "order"),
    [
        ([], {}),
        (["--policy", "fifo"], {}),
        (["--policy", "levels"], {"policy": Levels(), "priorities": {}}),
        (
            ["--policy", "levels", "--priority", "A=high", "--priority", "*=low", "--timeout", "low=1h"],
            {"policy": Levels({"low": "1h"}), "priorities": {"A": "high", "*": "low"}},
        ),
        (["--policy", "levels", "--since", "created"], {"policy": Levels(since="created"), "priorities": {}}),
        (
            ["--policy", "levels", "--guard", "--mark", "A=io"],
            {"policy": Levels(), "priorities": {}, "guard": Guard(), "marks": {"A": "io"}},
        ),
        (["--policy", "aging"], {"policy": Aging(), "priorities": {}}),
        (
            ["--policy", "aging", "--coefficient", "2.5", "--max-wait", "5ms", "--priority", "A=-3"],
            {"policy": Aging(2.5, max_wait="5ms"), "priorities": {"A": -3}},
        ),
        (
            ["--policy", "aging", *CLASSES, "--low-every", "8", "--priority", "A=high", "--priority", "B=urgent:10"],
            {
                "policy": Aging(low_every=8, classes={"urgent": 4, "high": 2, "normal": 0.5}),
                "priorities": {"A": "high", "B": ("urgent", 10)},
            },
        ),
        (["--policy", "fair"], {"policy": Fair(), "groups": {}}),
        (
            ["--policy", "fair", "--fair-group", "A=x", "--weight", "x=3", "--slice-ms", "5", "--cpu-share", "0.5"],
            {"policy": Fair(slice_ms=5.0, cpu_share=0.5, weights={"x": 3.0}), "groups": {"A": "x"}},
        ),
    ],
)
def test_what_is_given_makes_the_policy(args: list[str], order: dict[str, Any]) -> None:
    result, found = ordered(args)
    assert result.exit_code == 0, result.output
    assert found == [order]


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["--priority", "A=high"], "--priority: give --policy levels or aging too"),
        (["--policy", "fifo", "--timeout", "low=1h"], "--timeout: give --policy levels too"),
        (["--guard"], "--guard: give --policy levels too"),
        (["--policy", "levels", "--mark", "A=io"], "--mark: give --guard too"),
        (["--policy", "aging", "--timeout", "low=1h"], "--timeout: give --policy levels too"),
        (["--policy", "aging", "--since", "created"], "--since: give --policy levels too"),
        (["--policy", "aging", "--guard"], "--guard: give --policy levels too"),
        (["--policy", "levels", "--max-wait", "1s"], "--max-wait: give --policy aging too"),
        (["--low-every", "load"], "--low-every: give --policy aging too"),
        (["--class", "high=1"], "--class: give --policy aging too"),
        (["--policy", "levels", "--coefficient", "1"], "--coefficient: give --policy aging too"),
        (["--policy", "levels", "--slice-ms", "5"], "--slice-ms: give --policy fair too"),
        (["--fair-group", "A=x"], "--fair-group: give --policy fair too"),
        (["--policy", "fair", "--priority", "A=high"], "--priority: give --policy levels or aging too"),
        (["--policy", "fair", "--burst-ms", "5"], "--burst-ms: give --cpu-share too"),
        (["--policy", "levels", "--priority", "A"], "--priority: 'A' is not OPTION=VALUE"),
        (["--policy", "levels", "--priority", "A=high", "--priority", "A=low"], "--priority: 'A' is given twice"),
        (["--policy", "lifo"], "'lifo' is not one of 'fifo', 'levels', 'aging', 'fair'"),
    ],
)
def test_options_of_a_policy_are_refused_where_they_have_no_meaning(args: list[str], says: str) -> None:
    result, found = ordered(args)
    assert result.exit_code == 2
    assert says in result.output
    assert not found


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["aging", "--class", "urgent=fast", *CLASSES[2:]], "classes.urgent: 'fast' is not a number"),
        (["aging", "--class", "high=2"], "classes: 'urgent' is missing"),
        (["aging", "--low-every", "often"], "low_every: 'often' is neither a whole number nor 'load'"),
        (["aging", "--low-every", "8"], "low_every: without classes"),
        (["fair", "--weight", "x=y"], "weights.x: 'y' is not a number"),
    ],
)
def test_what_a_policy_does_not_take_is_refused_by_it(args: list[str], says: str) -> None:
    result, _ = ordered(["--policy", *args])
    assert isinstance(result.exception, ConfigurationError)
    assert says in str(result.exception)
