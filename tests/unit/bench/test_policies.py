"""Benchmarks of policies, of handlers that send letters, and of the scenarios that policies are measured on."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bench_command import invoke, printed
from rich.console import Console

from strand.bench import letters, plot, policies
from strand.bench.letters import LettersOptions, run_letters
from strand.bench.policies import LevelOutcome, PoliciesOptions, PolicyOutcome, run_policies
from strand.bench.report import print_route
from strand.bench.scenarios import SCENARIOS, Percentiles, ScenarioOptions, ScenarioResult, run_scenarios
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


# ---- ``strand bench policies --scenario letters``: needed letters are opened, answered ones are not


SMALL_LETTER_RUN: dict[str, Any] = {"seconds": 0.4, "work_ms": 1.0, "hold_ms": 200, "workers": 2, "load": 0.5}


def test_held_letters_that_answer_themselves_are_not_opened_and_all_others_are() -> None:
    told: list[tuple[int, int, str]] = []
    about, [fifo, held] = run_letters(LettersOptions(**SMALL_LETTER_RUN), lambda *what: told.append(what))
    assert told == [(0, 2, "fifo"), (1, 2, "napoleon")]
    assert (fifo.name, held.name, about["arrivals"]) == ("fifo", "napoleon", 400)
    for outcome in (fifo, held):
        assert list(outcome.levels) == ["immediate", "high", "normal", "low"]
        assert sum(level.arrived for level in outcome.levels.values()) == 400
        assert sum(level.opened - level.in_vain for level in outcome.levels.values()) == outcome.needed
        for level in outcome.levels.values():
            assert level.arrived == level.opened + level.resolved
            assert 1e6 <= level.p50_ns <= level.p99_ns  # type: ignore[operator]
        assert all(outcome.levels[name].resolved == 0 for name in ("immediate", "high", "normal"))
        assert 0 < outcome.peak_load <= 1
    assert fifo.needed == held.needed
    low = held.levels["low"]
    assert low.in_vain == 0
    assert low.resolved / low.arrived == pytest.approx(0.8, abs=0.1)
    assert low.p50_ns is not None
    assert low.p50_ns >= 200e6
    assert about["low_opened_of_fifo"] == round(low.opened / fifo.levels["low"].opened, 4)
    assert about["peak_load_lower"] == round(1 - held.peak_load / fifo.peak_load, 4)


def test_the_same_letters_come_for_the_same_seed() -> None:
    first, again, other = (letters._letters(LettersOptions(**SMALL_LETTER_RUN, seed=seed)) for seed in (1, 1, 2))
    assert np.array_equal(first.due_s, again.due_s)
    assert np.array_equal(first.answered_s, again.answered_s)
    assert not np.array_equal(first.due_s, other.due_s)
    answers = np.isfinite(first.answered_s)
    assert (first.answered_s - first.due_s)[answers].max() < 0.2


def test_the_peak_is_that_of_the_busiest_second() -> None:
    assert letters._peak([], 2) == 0
    assert letters._peak([(5.0, 5.5)], 1) == pytest.approx(0.5)
    assert letters._peak([(0.0, 0.4), (10.0, 10.3), (10.2, 10.6), (10.9, 11.2)], 2) == pytest.approx(0.4, abs=0.01)
    assert letters._peak([(0.0, 3.0), (0.0, 3.0)], 2) == pytest.approx(1)


def test_a_needed_letter_that_is_not_opened_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    right: Callable[..., dict[str, Any]] = letters._sent

    def spoilt(name: str, start: float, level: int, answered_s: float) -> dict[str, Any]:
        return right(name, start, level, 0.0 if name == "napoleon" else answered_s)

    monkeypatch.setattr(letters, "_sent", spoilt)
    with pytest.raises(EngineError, match=r"napoleon: .* letters were needed, but were not opened"):
        run_letters(LettersOptions(**SMALL_LETTER_RUN | {"seconds": 0.05}))


# ---- Scenarios: each runs, and its winner is the fastest way


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
    assert 20 <= parked["parks"] < 1_000  # it slept before each of them
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
