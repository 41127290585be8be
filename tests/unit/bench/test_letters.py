"""``strand bench policies --scenario letters``: needed letters are opened, answered ones are not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from strand.bench import letters
from strand.bench.letters import LettersOptions, run_letters
from strand.errors import EngineError

pytestmark = pytest.mark.python

SMALL: dict[str, Any] = {"seconds": 0.4, "work_ms": 1.0, "hold_ms": 200, "workers": 2, "load": 0.5}


def test_held_letters_that_answer_themselves_are_not_opened_and_all_others_are() -> None:
    told: list[tuple[int, int, str]] = []
    about, [fifo, held] = run_letters(LettersOptions(**SMALL), lambda *what: told.append(what))
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
    first, again, other = (letters._letters(LettersOptions(**SMALL, seed=seed)) for seed in (1, 1, 2))
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
        run_letters(LettersOptions(**SMALL | {"seconds": 0.05}))
