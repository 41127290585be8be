"""``strand bench policies``: every arrival is accounted for, and its wait counts from when it was due."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bench_command import invoke

from strand.bench import plot, policies
from strand.bench.policies import LevelOutcome, PoliciesOptions, PolicyOutcome, run_policies
from strand.bench.scenarios import Percentiles, ScenarioResult
from strand.errors import ConfigurationError, EngineError, FeedError, MissingExtraError
from strand.feeds.sample import sample_path
from strand.policies.policy import LEVELS, Fifo, Levels

pytestmark = pytest.mark.python


SMALL: dict[str, Any] = {"seconds": 0.05, "symbols": 40, "work": 500, "workers": 1}


@pytest.fixture
def capacity(monkeypatch: pytest.MonkeyPatch) -> float:
    """Of 100,000 ticks a second, without measuring it."""
    monkeypatch.setattr(policies, "_capacity", lambda options, cores: 100_000.0)
    return 100_000.0


def test_what_arrives_is_handled_or_dropped_under_every_policy(capacity: float) -> None:
    told: list[tuple[int, int, str]] = []
    options = PoliciesOptions(**SMALL, load=0.5, rounds=2, shares={"immediate": 0.25, "normal": 0.25})
    about, outcomes = run_policies(options, lambda *what: told.append(what))
    assert about["arrivals"] == 2_500 == round(0.5 * capacity * 0.05)
    assert [outcome.name for outcome in outcomes] == ["fifo", "levels"]
    for outcome in outcomes:
        assert list(outcome.levels) == ["immediate", "normal", "low"]
        assert sum(level.arrived for level in outcome.levels.values()) == 2_500
        for level in outcome.levels.values():
            assert level.arrived == level.handled + level.dropped
            assert 0 < level.p50_ns <= level.p95_ns <= level.p99_ns  # type: ignore[operator]
        assert sum(level.share for level in outcome.levels.values()) == pytest.approx(1)  # type: ignore[misc]
    assert outcomes[0].promoted == {}
    assert set(outcomes[1].promoted) == set(LEVELS)
    assert [(name, done) for done, _, name in told] == [
        ("what the workers can do", 0), ("fifo", 0), ("levels", 1), ("fifo", 2), ("levels", 3)
    ]  # fmt: skip


def test_a_wait_counts_from_when_the_tick_was_due(capacity: float) -> None:
    """With a tenth of the capacity that is believed, the last ticks come late by most of the run."""
    options = PoliciesOptions(**SMALL | {"work": 200_000}, load=0.5, policies={"fifo": Fifo()}, bound_ms=0)
    _, [outcome] = run_policies(options)
    took_ns = sum(level.handled for level in outcome.levels.values()) / outcome.mticks_s * 1e3
    assert took_ns > 2 * 0.05e9
    longest = max(level.p99_ns or 0 for level in outcome.levels.values())
    assert longest > 0.5 * (took_ns - 0.05e9)


def test_recorded_ticks_come_at_the_rate_that_is_asked_for(capacity: float) -> None:
    sample = sample_path()
    about, outcomes = run_policies(PoliciesOptions(**SMALL, load=0.5, source=sample))
    assert about["source"] == str(sample)
    assert about["arrivals"] == 2_500
    assert sum(level.handled for level in outcomes[0].levels.values()) == 2_500


def test_a_file_without_ticks_is_refused(capacity: float, tmp_path: Any) -> None:
    (tmp_path / "none.csv").write_text("ts_recv,symbol,price\n")
    with pytest.raises(FeedError):
        run_policies(PoliciesOptions(**SMALL, source=tmp_path / "none.csv"))


def test_the_capacity_is_what_the_workers_do(two_cores: None) -> None:
    about, _ = run_policies(PoliciesOptions(**SMALL, policies={"fifo": Fifo()}, load=0.1))
    assert about["capacity_ticks_s"] > 0
    assert about["ticks_s"] == pytest.approx(0.1 * about["capacity_ticks_s"], abs=0.1)
    assert about["bound_ticks"] == round(about["capacity_ticks_s"] / 10)


def spoilt(change: Callable[[Any], None]) -> Callable[..., Any]:
    """The rows of a run with a change."""
    whole = policies._check

    def check(name: str, job: Any, rows: Any, dropped: Any, counted: int) -> None:
        rows = rows.copy()
        change(rows)
        whole(name, job, rows, job.counts - rows["ticks"], counted)

    return check


def lose(rows: Any) -> None:
    rows["ticks"][0] -= 1


def double(rows: Any) -> None:
    rows["ticks"][0] += 1


def disorder(rows: Any) -> None:
    rows["broken"][0] += 1


def alter(rows: Any) -> None:
    rows["value"][0] ^= np.uint64(1)


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lose, "1 ticks were not handled, but 0 were counted as dropped"),
        (double, "symbol 0 handled more ticks than it has"),
        (disorder, "symbol 0 were handled out of order"),
        (alter, "rows differ from those of a plain loop"),
    ],
)
def test_a_policy_that_loses_reorders_or_changes_a_tick_is_found(
    change: Callable[[Any], None], what: str, capacity: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(policies, "_check", spoilt(change))
    with pytest.raises(EngineError, match=what):
        run_policies(PoliciesOptions(**SMALL, load=0.5, policies={"levels": Levels()}))


def test_of_several_rounds_the_one_in_the_middle_is_shown() -> None:
    level = LevelOutcome(1, 1, 0, 1.0, 1.0, 1.0, 1.0)
    rounds = [PolicyOutcome("fifo", rate, {"low": level}, {}, {}) for rate in (3.0, 1.0, 4.0, 2.0)]
    assert policies._median(rounds).mticks_s == 2.0
    assert policies._median(rounds[:3]).mticks_s == 3.0


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ({"policies": {}}, "policies: give at least one"),
        ({"load": 0}, "load: 0 is not a number above 0"),
        ({"load": float("nan")}, "load: nan"),
        ({"seconds": -1}, "seconds: -1"),
        ({"bound_ms": -1}, "bound_ms: -1"),
        ({"shares": {"hgih": 0.1}}, "shares.hgih: 'hgih' is not a level: did you mean 'high'"),
        ({"shares": {"high": 1.5}}, "shares.high: 1.5 is not a number from 0 to 1"),
        ({"shares": {"high": 0.6, "low": 0.6}}, "shares: they add up to 1.2"),
        ({"rounds": 0}, "rounds"),
        ({"batch": 65_537}, "batch"),
    ],
)
def test_what_cannot_be_is_refused(given: dict[str, Any], what: str) -> None:
    with pytest.raises(ConfigurationError, match=what):
        PoliciesOptions(**given)


def test_more_arrivals_than_fit_in_memory_are_refused(capacity: float) -> None:
    with pytest.raises(ConfigurationError, match="seconds: 720,000,000 ticks arrive in 3600 s, too many for memory"):
        run_policies(PoliciesOptions(**SMALL | {"seconds": 3600.0}))


# ---- The picture of the scenarios


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
