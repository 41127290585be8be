"""The command ``strand bench``: what it prints, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from strand.bench import plot
from strand.bench.cli import bench
from strand.bench.route import RouteOptions, make_job
from strand.bench.scenarios import SCENARIOS, Percentiles, ScenarioOptions, ScenarioResult, run_scenarios
from strand.bench.ways import run
from strand.command.cli import cli
from strand.errors import ConfigurationError, EngineError, MissingExtraError

pytestmark = pytest.mark.python

#: What the routing benchmarks this one is compared with print.
COMMON_KEYS = [
    "ticks",
    "symbols",
    "skew",
    "work",
    "workers",
    "batch",
    "strands",
    "hottest_share",
    "mticks_s",
    "publish_ns",
]
SMALL = ["--ticks", "20000", "--symbols", "300", "--work", "2", "--workers", "2", "--rounds", "1", "--idle", "backoff"]


def invoke(*args: str) -> Result:
    return CliRunner().invoke(bench, args)


def printed(*args: str) -> dict[str, Any]:
    result = invoke(*args, "--json")
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def test_bench_is_a_command_of_strand() -> None:
    assert CliRunner().invoke(cli, ["bench", "route", "--help"]).exit_code == 0


def test_route_prints_the_common_keys_first_and_in_order() -> None:
    found = printed("route", *SMALL, "--strands", "16", "--batch", "128")
    assert list(found)[: len(COMMON_KEYS)] == COMMON_KEYS
    assert list(found["mticks_s"]) == ["serial", "static", "static_lpt", "strand"]
    assert (found["ticks"], found["symbols"], found["strands"], found["batch"]) == (20000, 300, 16, 128)
    assert all(rate > 0 for rate in found["mticks_s"].values())
    assert 0 <= found["inline_share"] <= 1
    assert set(found["strand_queued"]) == {"mticks_s", "publish_ns"}
    assert {"cpu", "cores"} <= set(found["machine"])


@pytest.mark.parametrize(("strands", "count"), [("0", 300), ("per-symbol", 300), ("auto", 96), ("7", 7)])
def test_route_says_how_many_strands_there_were(strands: str, count: int) -> None:
    assert printed("route", *SMALL, "--strands", strands)["strands"] == count


def test_route_for_people_names_every_way() -> None:
    result = invoke("route", *SMALL, "--skew", "1.2")
    assert result.exit_code == 0, result.output
    for words in ("one core", "static", "largest first", "strand", "skew 1.2"):
        assert words in result.output


@pytest.mark.parametrize(
    ("args", "name"),
    [
        (("route", "--ticks", "0"), "ticks"),
        (("route", "--symbols", "0"), "symbols"),
        (("route", "--skew", "steep"), "skew"),
        (("route", "--skew", "-1"), "skew"),
        (("route", "--work", "-1"), "work"),
        (("route", "--workers", "256"), "workers"),
        (("route", "--batch", "65537"), "batch"),
        (("route", "--strands", "-4"), "strands"),
        (("route", "--rounds", "0"), "rounds"),
        (("route", "--cores", "0,x"), "cores"),
        (("route", "--cores", "0,4000", "--workers", "1"), "cores"),
        (("route", "--idle", "doze"), "idle"),
        (("scenarios", "--only", "nothing"), "only"),
        (("scenarios", "--ticks", "1"), "ticks"),
        (("scenarios", "--plot", "figure.txt"), "plot"),
        (("scenarios", "--plot", "no/such/folder/figure.png"), "plot"),
        (("latency", "--spinning", "0"), "spinning"),
        (("latency", "--parked", "0"), "parked"),
    ],
)
def test_arguments_that_cannot_work_are_named_and_end_with_status_2(args: tuple[str, ...], name: str) -> None:
    result = invoke(*args)
    assert result.exit_code == 2
    assert name in result.output
    assert "Traceback" not in result.output
    assert result.output.startswith(f"strand: {name}: ") or "Usage:" in result.output


def test_a_run_that_loses_ticks_ends_with_status_1(monkeypatch: pytest.MonkeyPatch) -> None:
    def lose(*_: object) -> None:
        raise EngineError("static: symbol 3 handled 1 of its 2 ticks, and 0 others are wrong")

    monkeypatch.setattr("strand.bench.ways._check", lose)
    result = invoke("route", *SMALL)
    assert result.exit_code == 1
    assert result.output.startswith("strand: static: symbol 3")


def test_latency_of_single_ticks_is_measured_spinning_and_parked(two_cores: None) -> None:
    found = printed("latency", "--spinning", "300", "--parked", "20")
    spinning, parked = found["latency"]
    assert (spinning["idle"], spinning["ticks"], parked["idle"], parked["ticks"]) == ("spin", 300, "park", 20)
    for line in found["latency"]:
        assert 0 < line["p50_ns"] <= line["p99_ns"] <= line["p999_ns"] <= line["max_ns"]
    assert parked["parks"] >= 20  # it slept before each of them
    assert parked["quiet_cpu_share"] < 0.01 < spinning["quiet_cpu_share"]


@pytest.fixture
def two_cores() -> None:
    import os

    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("a publisher and a worker need a core each")


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


def test_scenarios_are_drawn_into_a_picture(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    latency = {way: Percentiles(900.0, 5e4, 1e6, 2e6) for way in ("static", "static_lpt", "strand")}
    results = [
        flat(serial=9.0, static=20.0, static_lpt=30.0, strand=15.0),
        ScenarioResult("paced", "paced", {"static": 9.0, "static_lpt": 9.0, "strand": 9.0}, 0.0, 0.5, 1e6, latency),
    ]
    for chosen in (results, results[:1], results[1:]):
        path = tmp_path / f"{len(chosen)}.png"
        plot.plot_scenarios(chosen, {"cpu": "a processor", "cores": 4}, path)
        assert path.read_bytes().startswith(b"\x89PNG")


def test_a_plot_without_matplotlib_names_the_extra_before_anything_is_measured(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtraError, match=r"strand\[plot\]"):
        plot.check_plot_path(tmp_path / "figure.png")
    result = invoke("scenarios", "--plot", str(tmp_path / "figure.png"))
    assert result.exit_code == 2
    assert "[plot]" in result.output


def test_route_options_make_the_stream_they_name() -> None:
    job = make_job(RouteOptions(ticks=1000, symbols=20, workers=1, work=0))
    assert len(job.ticks) == job.counts.sum() == 1000
    assert len(job.counts) == 20
    assert run("serial", job)[0].seconds > 0
