"""Options of how a run is done."""

from __future__ import annotations

from typing import Any

import click
import pytest
from click.testing import CliRunner

from strand.command.running import running
from strand.dispatch.aging import Aging
from strand.dispatch.fair import Fair
from strand.dispatch.guard import Guard
from strand.dispatch.policies import Levels
from strand.errors import ConfigurationError

pytestmark = pytest.mark.python

USUAL = {"cores": "auto", "strands": "auto", "idle": "backoff", "on_error": "stop", "strict": False}


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ([], {}),
        (["--strands", "3", "--idle", "park"], {"strands": 3, "idle": "park"}),
        (["--on-error", "quarantine"], {"on_error": "quarantine"}),
        (["--policy", "levels"], {"policy": Levels(), "priorities": {}}),
        (
            ["--policy", "levels", "--priority", "A=high", "--priority", "*=low", "--timeout", "low=1h"],
            {"policy": Levels({"low": "1h"}), "priorities": {"A": "high", "*": "low"}},
        ),
        (
            ["--policy", "levels", "--guard", "--mark", "A=io"],
            {"policy": Levels(), "priorities": {}, "guard": Guard(), "marks": {"A": "io"}},
        ),
        (
            [
                "--on-full",
                "shed",
                "--total-capacity-ticks",
                "9",
                "--level-capacity-ticks",
                "low=5",
                "--capacity-ticks",
                "4",
            ],
            {
                "on_full": "shed",
                "total_capacity_ticks": 9,
                "capacity_ticks": 4,
                "level_capacity_ticks": {"low": 5},
            },
        ),
        (["--level-capacity-ticks", "low=few"], {"level_capacity_ticks": {"low": "few"}}),
        (["--policy", "aging"], {"policy": Aging(), "priorities": {}}),
        (
            ["--policy", "aging", "--coefficient", "2.5", "--max-wait", "5ms", "--priority", "A=-3"],
            {"policy": Aging(2.5, max_wait="5ms"), "priorities": {"A": -3}},
        ),
        (
            [
                "--policy",
                "aging",
                "--class",
                "urgent=4",
                "--class",
                "high=2",
                "--class",
                "normal=0.5",
                "--low-every",
                "8",
                "--priority",
                "A=high",
                "--priority",
                "B=urgent:10",
                "--priority",
                "*=2",
            ],
            {
                "policy": Aging(low_every=8, classes={"urgent": 4, "high": 2, "normal": 0.5}),
                "priorities": {"A": "high", "B": ("urgent", 10), "*": 2},
            },
        ),
        (["--policy", "fair"], {"policy": Fair(), "groups": {}}),
        (
            ["--policy", "fair", "--group", "A=x", "--weight", "x=3", "--slice-ms", "5", "--cpu-share", "0.5"],
            {"policy": Fair(slice_ms=5.0, cpu_share=0.5, weights={"x": 3.0}), "groups": {"A": "x"}},
        ),
        (["--strict", "--attachable", "--cores", "0"], {"strict": True, "attachable": True, "cores": [0]}),
    ],
)
def test_what_is_given_is_said_and_all_else_is_as_usual(args: list[str], said: dict[str, Any]) -> None:
    found: list[dict[str, Any]] = []

    @click.command()
    @running
    def command(run: dict[str, Any]) -> None:
        found.append(run)

    assert CliRunner().invoke(command, args).exit_code == 0
    assert found == [USUAL | said]


def test_skip_is_no_answer_to_a_failing_handler_and_says_where_it_is_one() -> None:
    found = CliRunner().invoke(click.command()(running(lambda run: None)), ["--on-error", "skip"])
    assert found.exit_code == 2
    assert "'skip' is called --on-bad-record skip now" in found.output


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["--priority", "A=high"], "--priority: give --policy levels or aging too"),
        (["--policy", "fifo", "--timeout", "low=1h"], "--timeout: give --policy levels too"),
        (["--guard"], "--guard: give --policy levels too"),
        (["--policy", "levels", "--mark", "A=io"], "--mark: give --guard too"),
        (["--policy", "aging", "--timeout", "low=1h"], "--timeout: give --policy levels too"),
        (["--policy", "levels", "--max-wait", "1s"], "--max-wait: give --policy aging too"),
        (["--low-every", "load"], "--low-every: give --policy aging too"),
        (["--class", "high=1"], "--class: give --policy aging too"),
        (["--policy", "levels", "--coefficient", "1"], "--coefficient: give --policy aging too"),
        (["--policy", "levels", "--slice-ms", "5"], "--slice-ms: give --policy fair too"),
        (["--policy", "fair", "--priority", "A=high"], "--priority: give --policy levels too"),
        (["--policy", "fair", "--weight", "x=y"], "--weight: x: 'y' is not a number"),
        (["--policy", "fair", "--burst-ms", "5"], "--burst-ms: give --cpu-share too"),
        (["--policy", "levels", "--priority", "A"], "--priority: 'A' is not OPTION=VALUE"),
        (["--policy", "levels", "--priority", "A=high", "--priority", "A=low"], "--priority: 'A' is given twice"),
    ],
)
def test_options_of_a_policy_are_refused_where_they_have_no_meaning(args: list[str], says: str) -> None:
    found = CliRunner().invoke(click.command()(running(lambda run: None)), args)
    assert found.exit_code == 2
    assert says in found.output


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["--class", "urgent=fast", "--class", "high=2", "--class", "normal=1"], "classes: urgent: 'fast' is no coeff"),
        (["--class", "high=2"], "classes: 'urgent' is missing"),
        (["--low-every", "often"], "low_every: without classes"),
    ],
)
def test_what_aging_does_not_take_is_refused_by_it(args: list[str], says: str) -> None:
    found = CliRunner().invoke(click.command()(running(lambda run: None)), ["--policy", "aging", *args])
    assert isinstance(found.exception, ConfigurationError)
    assert says in str(found.exception)
