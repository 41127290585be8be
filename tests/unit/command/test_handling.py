"""Handlers and their options on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from command_here import run_here

import strand
from strand.command.cli import cli
from strand.feeds.sample import SAMPLE_DATE, sample_path

pytestmark = pytest.mark.python


def test_a_failing_function_ends_the_command_with_status_2(mine: str) -> None:
    done = run_here("handlers", f"{mine}:raises")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"strand: handler {mine}:raises: it raised ValueError")
    assert len(done.stderr.splitlines()) == 1


def test_replay_sets_options_and_writes_what_they_make(tmp_path: Path) -> None:
    day = ["--date", SAMPLE_DATE, "--workers", "1", "--json"]
    args = ["--handler", "bars", "--set", "every=30m", "--set", "partial=no", "--out", f"bars={tmp_path / 'bars.npy'}"]
    done = run_here("replay", sample_path(), *args, *day, "--fingerprints", tmp_path / "run.jsonl")
    assert done.returncode == 0, done.stderr
    bars = np.load(tmp_path / "bars.npy")
    wanted = strand.replay(
        sample_path(), strand.bars("30m", partial=False), feed_options={"date": SAMPLE_DATE}, workers=1, cores=None
    )
    assert json.loads(done.stdout)["fingerprint"] == wanted.fingerprint
    assert len(bars) == len(wanted.outputs["bars"]) > 0
    header = json.loads((tmp_path / "run.jsonl").read_text().partition("\n")[0])
    assert header["handlers"]["*"] == {
        "name": "bars", "load": "bars", "options": {"every": "30m", "partial": "no"}, "code": None,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--set", "every"], "'every' is not OPTION=VALUE"),
        (["--set", "every=1m", "--set", "every=2m"], "'every' is given twice"),
        (["--set", "interval=1m"], "no option 'interval'; its options: every"),
        (["--set", "fill=1m"], "fill: give yes or no"),
    ],
)
@pytest.mark.parametrize("command", [["replay", "no-file"], ["listen", "--line", "127.0.0.1:0"]])
def test_options_that_cannot_work_end_the_command_before_it_begins(
    command: list[str], args: list[str], words: str
) -> None:
    done = CliRunner().invoke(cli, [*command, "--handler", "bars", *args])
    assert done.exit_code != 0
    assert words in f"{done.exception} {done.output}"


@pytest.mark.parametrize("command", ["replay", "sweep", "policy plan", "listen"])
def test_a_handler_that_is_given_twice_is_refused_by_every_command_with_the_way_to_a_chain(command: str) -> None:
    needs = {"sweep": ["x", "--out", "y"], "policy plan": ["--from", "x", "--wait", "p99=5ms"], "replay": ["x"]}
    done = CliRunner().invoke(cli, [*command.split(), *needs.get(command, []), "--handler", "vwap", "--handler", "bbo"])
    assert done.exit_code == 2
    assert "--handler: it is given 2 times" in done.output
    assert "strand.chain('vwap', 'bbo')" in done.output
