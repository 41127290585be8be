"""Options of how a run is done."""

from __future__ import annotations

from typing import Any

import click
import pytest
from click.testing import CliRunner

from strand.command.run_options import running
from strand.dispatch.configuration import Limits, Pool
from strand.policies.policy import Levels

pytestmark = pytest.mark.python

USUAL = {"cores": "auto", "strands": "auto", "idle": "backoff", "on_error": "stop", "strict": False}


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ([], {}),
        (["--strands", "3", "--idle", "park"], {"strands": 3, "idle": "park"}),
        (["--min-workers", "2"], {"pool": Pool(min_workers=2)}),
        (["--on-error", "quarantine"], {"on_error": "quarantine"}),
        (["--policy", "levels"], {"policy": Levels(), "priorities": {}}),
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
                "limits": Limits(
                    on_full="shed", total_capacity_ticks=9, capacity_ticks=4, level_capacity_ticks={"low": 5}
                )
            },
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
    usual = {name: value for name, value in USUAL.items() if "pool" not in said or name not in ("cores", "idle")}
    assert found == [usual | said]
