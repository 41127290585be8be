"""The picture of the scenarios."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench_command import invoke

from strand.bench import plot
from strand.bench.scenarios import Percentiles, ScenarioResult
from strand.errors import MissingExtraError

pytestmark = pytest.mark.python


def flat(**rates: float) -> ScenarioResult:
    return ScenarioResult("market", "full market", rates, 0.0)


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
