"""The command ``strand bench``: what it prints, and what it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench_command import SMALL, invoke, printed
from click.testing import CliRunner

from strand.command.cli import cli
from strand.errors import EngineError

pytestmark = pytest.mark.python


def test_bench_is_a_command_of_strand() -> None:
    assert CliRunner().invoke(cli, ["bench", "route", "--help"]).exit_code == 0


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
        (("route", "--strands", "0"), "strands"),
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


def test_policies_are_compared_and_told_as_tables_and_json(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("strand.bench.policies._capacity", lambda options, cores: 20_000.0)
    args = ["policies", "--seconds", "0.1", "--load", "0.5", "--symbols", "30", "--work", "200", "--workers", "1"]
    args += ["--policy", "fair", "--policy", "levels", "--timeout", "low=1s", "--weight", "immediate=2"]
    picture = tmp_path / "policies.svg"
    result = invoke(*args, "--plot", str(picture))
    assert result.exit_code == 0, result.output
    assert "1,000 made-up ticks of 30 symbols at 50%" in result.output
    assert "at most 2,000 ticks pending" in " ".join(result.output.split())
    assert "<svg" in picture.read_text()
    found = printed(*args, "--share", "high=0.5", "--bound-ms", "0")
    assert (found["arrivals"], found["bound_ticks"], found["source"]) == (1_000, None, None)
    assert [outcome["name"] for outcome in found["policies"]] == ["fair", "levels"]
    for outcome in found["policies"]:
        assert list(outcome["levels"]) == ["high", "low"]
        assert sum(level["handled"] for level in outcome["levels"].values()) == 1_000


def test_letters_are_told_as_a_table_and_as_json() -> None:
    args = ["policies", "--scenario", "letters", "--seconds", "0.2", "--load", "0.3", "--workers", "2", "--seed", "3"]
    result = invoke(*args)
    assert result.exit_code == 0, result.output
    assert "12 letters in 0.2 s, 30% of the time of 2 workers" in " ".join(result.output.split())
    assert "Peak load: the largest share" in result.output
    found = printed(*args)
    assert (found["scenario"], found["arrivals"], found["hold_ms"]) == ("letters", 12, 2_000)
    assert [outcome["name"] for outcome in found["policies"]] == ["fifo", "napoleon"]
    assert found["policies"][1]["levels"]["low"]["in_vain"] == 0


@pytest.mark.parametrize(
    "given", [("--symbols", "3"), ("--policy", "fifo"), ("--timeout", "low=1s"), ("--plot", "a.png")]
)
def test_letters_take_no_options_of_ticks(given: tuple[str, str]) -> None:
    result = invoke("policies", "--scenario", "letters", *given)
    assert result.exit_code == 2
    assert f"{given[0]}: the scenario letters does not have this option" in result.output


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("--share", "urgent=0.1"), "shares.urgent: 'urgent' is not a level"),
        (("--share", "high=much"), "shares.high: 'much' is not a number from 0 to 1"),
        (("--load", "0"), "load: 0.0 is not a number above 0"),
        (("--policy", "fifo", "--timeout", "low=1s"), "--timeout: give --policy levels too"),
        (("--policy", "fair", "--burst-ms", "5"), "--burst-ms: give --cpu-share too"),
        (("no-such-file",), "no-such-file"),
        (("--plot", "figure.txt"), "plot: figure.txt does not end in"),
    ],
)
def test_policies_that_cannot_be_compared_are_refused(args: tuple[str, ...], says: str) -> None:
    result = invoke("policies", *args)
    assert result.exit_code == 2
    assert says in result.output
