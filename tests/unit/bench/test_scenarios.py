"""Scenarios: each runs, and its winner is the fastest way."""

from __future__ import annotations

import pytest
from bench_command import printed

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
