"""The command ``strand bench``: what it prints, and what it refuses."""

from __future__ import annotations

import pytest
from bench_command import SMALL, invoke
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
