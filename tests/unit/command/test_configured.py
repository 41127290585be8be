"""--config: a file's options, and those of the command line that win over them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result
from command_here import run_here

from strand.command.run_options import running
from strand.dispatch.configuration import Limits, Pool
from strand.dispatch.guard import Guard
from strand.feeds.sample import sample_path
from strand.policies.aging import Aging
from strand.policies.fair import Fair
from strand.policies.policy import Fifo, Levels

pytestmark = pytest.mark.python

USUAL = {"cores": "auto", "strands": "auto", "idle": "backoff", "on_error": "stop", "strict": False}
LEVELS = """
policy: {name: levels}
priorities:
  low_timeout: 5ms
  symbols: {A: high}
worker_pool: {max_workers: 1, queue_capacity: 99}
"""
BOUNDED = """
policy: {name: levels}
worker_pool: {total_capacity_ticks: 50, level_capacity_ticks: {low: 20}, on_full: shed}
"""
AGING = """
policy: {name: aging, classes: {urgent: 4, high: 2, normal: 1}, low_every: 8}
priorities: {symbols: {A: [urgent, 10]}}
"""
FAIR = "{policy: {name: fair, cpu_share: 0.5, weights: {x: 2}}, groups: {A: x}}"
GUARDED = "{policy: {name: levels}, marks: {A: io}, resource_limits: {cpu_threshold: 0.5}}"
OF_LEVELS = {"policy": Levels({"low": "5ms"}), "priorities": {"A": "high"}, "capacity_ticks": 99, "workers": 1}
OF_BOUNDED = {
    "policy": Levels(), "priorities": {},
    "limits": Limits(total_capacity_ticks=50, level_capacity_ticks={"low": 20}, on_full="shed"),
}  # fmt: skip
CLASSES = {"urgent": 4, "high": 2, "normal": 1}
OF_AGING = {
    "policy": Aging(classes=CLASSES, low_every=8), "priorities": {"A": ("urgent", 10)}, "capacity_ticks": 65_536,
}  # fmt: skip
OF_FAIR = {
    "policy": Fair(cpu_share=0.5, weights={"x": 2}), "priorities": {}, "groups": {"A": "x"}, "capacity_ticks": 65_536,
}  # fmt: skip
OF_GUARDED = {
    "policy": Levels(), "priorities": {}, "guard": Guard(cpu=0.5, memory=None, io_pressure=None), "marks": {"A": "io"},
    "capacity_ticks": 65_536,
}  # fmt: skip


@pytest.fixture
def in_tmp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def run_with(file: str, args: list[str]) -> tuple[Result, list[dict[str, Any]]]:
    """A command with a file of this text, and what it was given."""
    found: list[dict[str, Any]] = []

    @click.command()
    @click.option("--workers", type=int)
    @running
    def command(run: dict[str, Any]) -> None:
        found.append(run)

    Path("a.yaml").write_text(file)
    return CliRunner().invoke(command, ["--config", "a.yaml", *args]), found


@pytest.mark.usefixtures("in_tmp")
@pytest.mark.parametrize(
    ("file", "args", "order", "told"),
    [
        (LEVELS, "", OF_LEVELS, []),
        (
            LEVELS, "--workers 3", OF_LEVELS | {"workers": 3},
            ["worker_pool.max_workers = 1 of a.yaml is not used: --workers 3 replaces it"],
        ),
        (
            BOUNDED, "", OF_BOUNDED, [],
        ),
        (
            BOUNDED, "--min-workers 2 --on-full drop_newest --level-capacity-ticks low=5 --level-capacity-ticks high=6",
            OF_BOUNDED | {"pool": Pool(min_workers=2), "limits": Limits(
                total_capacity_ticks=50, level_capacity_ticks={"low": 5, "high": 6}, on_full="drop_newest",
            )},
            [
                "worker_pool.level_capacity_ticks = {'low': 20} of a.yaml is not used: --level-capacity-ticks low=5",
                "worker_pool.on_full = 'shed' of a.yaml is not used: --on-full drop_newest replaces it",
            ],
        ),
        (LEVELS, "--workers 0", OF_LEVELS | {"workers": 0}, ["worker_pool.max_workers = 1 of a.yaml"]),
        (LEVELS, "--workers 1 --timeout low=5ms --priority A=high", OF_LEVELS, []),
        (
            LEVELS, "--capacity-ticks 7 --on-full drop_newest",
            OF_LEVELS | {"capacity_ticks": 7, "on_full": "drop_newest"},
            ["worker_pool.queue_capacity = 99 of a.yaml is not used: --capacity-ticks 7 replaces it"],
        ),
        (
            LEVELS, "--timeout high=1ms --timeout low=9ms --since created",
            OF_LEVELS | {"policy": Levels({"low": "9ms", "high": "1ms"}, "created")},
            ["priorities.low_timeout = '5ms' of a.yaml is not used: --timeout low=9ms replaces it"],
        ),
        (
            LEVELS, "--priority B=low --priority A=retry", OF_LEVELS | {"priorities": {"A": "retry", "B": "low"}},
            ["priorities.symbols.A = 'high' of a.yaml is not used: --priority A=retry replaces it"],
        ),
        (
            LEVELS, "--policy fifo", {"policy": Fifo(), "priorities": {}, "capacity_ticks": 99, "workers": 1},
            ["policy.name = 'levels'", "priorities.low_timeout = '5ms'", "priorities.symbols.A = 'high'"],
        ),
        (
            LEVELS, "--policy levels --priority B=low", OF_LEVELS | {"policy": Levels(), "priorities": {"B": "low"}},
            ["priorities.low_timeout = '5ms' of a.yaml is not used: --policy levels", "priorities.symbols.A = 'high'"],
        ),
        (
            LEVELS, "--policy aging --coefficient 2 --priority A=-3",
            OF_LEVELS | {"policy": Aging(2), "priorities": {"A": -3}},
            [
                "policy.name = 'levels'", "priorities.low_timeout = '5ms' of a.yaml is not used: --policy aging",
                "priorities.symbols.A = 'high' of a.yaml is not used: --priority A=-3",
            ],
        ),
        (
            LEVELS, "--policy fair --fair-group A=y --slice-ms 5",
            {"policy": Fair(5), "priorities": {}, "groups": {"A": "y"}, "capacity_ticks": 99, "workers": 1},
            ["policy.name = 'levels'", "priorities.low_timeout = '5ms'", "priorities.symbols.A = 'high'"],
        ),
        (LEVELS, "--guard --mark A=io", OF_LEVELS | {"guard": Guard(), "marks": {"A": "io"}}, []),
        (AGING, "--priority A=urgent:10", OF_AGING, []),
        (
            AGING, "--low-every load --max-wait 5ms --priority A=7",
            OF_AGING | {"policy": Aging(classes=CLASSES, low_every="load", max_wait="5ms"), "priorities": {"A": 7}},
            ["policy.low_every = 8 of a.yaml is not used: --low-every load", "priorities.symbols.A = ['urgent', 10]"],
        ),
        (
            AGING, "--class urgent=9 --class high=3 --class normal=1",
            OF_AGING | {"policy": Aging(classes={"urgent": 9, "high": 3, "normal": 1}, low_every=8)},
            ["policy.classes = {'urgent': 4, 'high': 2, 'normal': 1} of a.yaml is not used: --class urgent=9 "],
        ),
        (
            FAIR, "--fair-group B=x --burst-ms 7 --weight x=3",
            OF_FAIR
            | {"policy": Fair(cpu_share=0.5, burst_ms=7, weights={"x": 3}), "groups": {"A": "x", "B": "x"}},
            ["policy.weights = {'x': 2} of a.yaml is not used: --weight x=3 replaces it"],
        ),
        (
            FAIR, "--cpu-share 0.25 --slice-ms 5", OF_FAIR | {"policy": Fair(5, cpu_share=0.25, weights={"x": 2})},
            ["policy.cpu_share = 0.5 of a.yaml is not used: --cpu-share 0.25"],
        ),
        (
            FAIR, "--policy levels", {"policy": Levels(), "priorities": {}, "capacity_ticks": 65_536},
            ["policy.name = 'fair'", "policy.cpu_share = 0.5", "policy.weights = {'x': 2}", "groups.A = 'x' of a.yaml"],
        ),
        (GUARDED, "--guard", OF_GUARDED, []),
        (
            GUARDED, "--mark A=frees_memory --mark B=io",
            OF_GUARDED | {"marks": {"A": "frees_memory", "B": "io"}},
            ["marks.A = 'io' of a.yaml is not used: --mark A=frees_memory replaces it"],
        ),
        (
            GUARDED, "--policy levels --priority A=low", OF_GUARDED | {"priorities": {"A": "low"}}, [],
        ),
    ],
)  # fmt: skip
def test_what_the_command_line_gives_wins_and_that_is_told(
    file: str, args: str, order: dict[str, Any], told: list[str]
) -> None:
    done, found = run_with(file, args.split())
    assert done.exit_code == 0, done.output
    usual = {name: value for name, value in USUAL.items() if "pool" not in order or name not in ("cores", "idle")}
    assert found == [usual | order]
    lines = done.stderr.splitlines()
    assert len(lines) == len(told)
    for line, start in zip(lines, told, strict=True):
        assert line.startswith(f"config: {start}")


@pytest.mark.usefixtures("in_tmp")
@pytest.mark.parametrize(
    ("file", "args", "says"),
    [
        (LEVELS, "--max-wait 1s", "--max-wait: give --policy aging too"),
        (LEVELS, "--fair-group A=x", "--fair-group: give --policy fair too"),
        (LEVELS, "--policy aging --timeout low=1s", "--timeout: give --policy levels too"),
        (LEVELS, "--mark A=io", "--mark: give --guard too"),
        (FAIR, "--guard", "--guard: give --policy levels too"),
        ("{policy: {name: fair}}", "--burst-ms 5", "--burst-ms: give --cpu-share too"),
        (FAIR, "--policy fair --burst-ms 5", "--burst-ms: give --cpu-share too"),
    ],
)
def test_an_option_that_the_policy_in_force_does_not_have_is_refused_by_name(file: str, args: str, says: str) -> None:
    done, found = run_with(file, args.split())
    assert (done.exit_code, found) == (2, [])
    assert says in done.output


def test_a_replay_by_a_file_runs_as_the_file_says(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text(
        '[policy]\nname = "levels"\n[worker_pool]\nmax_workers = 2\n[resource_limits]\ncpu_threshold = 0.9\n'
        "[retry_policy]\nmax_attempts = 5\n"
    )
    done = run_here("replay", sample_path(), "--config", "a.toml", "--limit", "5000", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    plain = json.loads(done.stdout)
    assert plain["workers"] == 2
    assert plain["statistics"]["promoted"]
    assert plain["statistics"]["guard"].keys() == {"cpu", "memory", "io"}
    assert done.stderr.startswith("config: retry_policy is for tasks: this command")
    assert done.stderr.count("\n") == 1
