"""The picture of the scenarios."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from bench_command import invoke

from strand.bench import plot
from strand.bench.policies import LevelOutcome, PolicyOutcome
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


def test_waits_are_marks_at_their_times_and_a_level_without_any_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    figure = pytest.importorskip("matplotlib.figure").Figure
    drawn: list[Any] = []
    monkeypatch.setattr(figure, "savefig", lambda self, path, **_: drawn.append(self))
    levels = {"immediate": LevelOutcome(10, 10, 0, 1e3, 1e4, 1.06e6, 0.5), "low": LevelOutcome(10, 0, 10, *[None] * 4)}
    about = {"bound_ms": 100, "workers": 1, "load": 2.0}
    machine = {"cpu": "a processor", "cores": 4}
    plot.plot_policies(about, [PolicyOutcome("levels", 1.0, levels, {}, {})], machine, tmp_path / "a.png")
    waits, drops = drawn[0].axes
    marks = [part.get_offsets().tolist() for part in waits.collections]
    assert [[x for x, _ in part] for part in marks] == [[1.06e6], []]
    assert sorted(text.get_text() for text in waits.texts) == ["1.06 ms", "none handled"]
    assert [bar.get_width() for bar in drops.patches] == [0.0, 100.0]
    assert waits.get_xscale() == "log"
    assert not waits.patches
    low, high = waits.get_xlim()
    assert low < 1.06e6 < high
