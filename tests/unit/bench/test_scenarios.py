"""Scenarios: each runs, and its winner is the fastest way."""

from __future__ import annotations

import io
from typing import Any

import pytest
from bench_command import printed
from rich.console import Console

from strand.bench.report import print_route
from strand.bench.scenarios import SCENARIOS, Percentiles, ScenarioOptions, ScenarioResult, run_scenarios
from strand.errors import ConfigurationError

pytestmark = pytest.mark.python


@pytest.mark.parametrize("name", [s.name for s in SCENARIOS])
def test_every_scenario_runs_and_has_a_winner(name: str, two_cores: None) -> None:
    found = printed("scenarios", "--only", name, "--ticks", "5000", "--rounds", "1", "--workers", "1", "--work", "2")
    (line,) = found["scenarios"]
    assert line["name"] == name
    assert line["winner"] in line["mticks_s"]
    assert line["gain"] > 0
    assert 0 <= line["inline_share"] <= 1
    if line["load"]:
        assert line["ticks_per_s"] > 0
        assert set(line["latency_ns"]) == {"static", "static_lpt", "strand"}
        assert set(line["latency_ns"]["strand"]) == {"p50", "p99", "p999", "maximum"}
    else:
        assert set(line["mticks_s"]) == {"serial", "static", "static_lpt", "strand"}


def test_a_neighbour_needs_a_worker_with_a_core_of_its_own() -> None:
    with pytest.raises(ConfigurationError, match="busy neighbour"):
        run_scenarios(ScenarioOptions(ticks=1000, workers=200, rounds=1, work=0, only=("neighbour",)))


def flat(**rates: float) -> ScenarioResult:
    return ScenarioResult("market", "full market", rates, 0.0)


def test_the_winner_is_whoever_is_fastest_also_when_that_is_static() -> None:
    result = flat(serial=9.0, static=20.0, static_lpt=30.0, strand=15.0)
    assert result.winner == "static_lpt"
    assert result.gain == 0.5


def test_the_winner_of_a_paced_run_is_whoever_has_the_lowest_99th_percentile() -> None:
    latency = {
        "static": Percentiles(1.0, 400.0, 500.0, 600.0),
        "static_lpt": Percentiles(2.0, 200.0, 300.0, 400.0),
        "strand": Percentiles(3.0, 100.0, 700.0, 800.0),
    }
    result = ScenarioResult("paced", "paced", {"static": 9.0, "static_lpt": 9.0, "strand": 1.0}, 0.0, 0.5, 1e6, latency)
    assert result.winner == "strand"
    assert result.gain == 2.0


# ---- Latencies of single ticks


def test_latency_of_single_ticks_is_measured_spinning_and_parked(two_cores: None) -> None:
    found = printed("latency", "--spinning", "300", "--parked", "20")
    spinning, parked = found["latency"]
    assert (spinning["idle"], spinning["ticks"], parked["idle"], parked["ticks"]) == ("spin", 300, "park", 20)
    for line in found["latency"]:
        assert 0 < line["p50_ns"] <= line["p99_ns"] <= line["p999_ns"] <= line["max_ns"]
    assert parked["parks"] >= 20  # it slept before each of them
    assert parked["quiet_cpu_share"] < 0.01 < spinning["quiet_cpu_share"]


# ---- Tables of benchmarks


RESULT: dict[str, Any] = {
    "rounds": 5,
    "mticks_s": {"serial": 50.0, "static": 100.0, "static_lpt": 75.0, "strand": 125.0},
    "strand_queued": {"mticks_s": 25.0, "publish_ns": 11.26},
    "static_publish_ns": 3.04,
    "publish_ns": 13.0,
    "ticks": 5_000_000, "symbols": 8172, "skew": "calibrated", "hottest_share": 0.0216, "work": 100, "workers": 3,
    "strands": 64, "batch": 4096, "inline_share": 0.98,
    "machine": {"cpu": "a cpu", "cores": 2, "load_1m": 0.5},
}  # fmt: skip


def test_each_way_is_held_to_one_core() -> None:
    shown = io.StringIO()
    print_route(Console(file=shown, width=200), RESULT)
    lines = shown.getvalue().splitlines()
    cells = {
        line.split("│")[1].strip(): [cell.strip() for cell in line.split("│")[2:-1]] for line in lines if "│" in line
    }
    assert cells["one core, plain loop"] == ["50.0", "1.00x", ""]
    assert cells["static: symbol modulo workers"] == ["100.0", "2.00x", "3.0"]
    assert cells["static: largest first"] == ["75.0", "1.50x", ""]
    assert cells["strand"] == ["125.0", "2.50x", "13.0"]
    assert cells["strand, everything queued"] == ["25.0", "0.50x", "11.3"]
    assert "hottest 2.2%" in shown.getvalue()
    assert lines[-1] == "a cpu, 2 cores, load 0.5"
