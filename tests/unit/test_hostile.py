"""Hostile inputs of every kind, a sample of those of ``make hostile``: a typed error or the right result, each."""

from __future__ import annotations

from pathlib import Path

import hostile
import pytest

pytestmark = pytest.mark.python

for package in ("pyarrow", "zstandard", "databento_dbn"):
    pytest.importorskip(package)


def test_each_of_a_hundred_hostile_inputs_ends_in_a_typed_error_or_right(tmp_path: Path) -> None:
    tally = hostile.attack(100, 7, tmp_path)
    assert tally.failures == []
    assert set(tally.ended) == set(hostile.KINDS)
    assert all(sum(counts.values()) for counts in tally.ended.values())
    assert sum(counts.total() for counts in tally.ended.values()) >= 95


def test_an_input_that_ends_otherwise_is_counted_and_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> str:
        raise ZeroDivisionError("of no type of ours")

    monkeypatch.setattr(hostile, "KINDS", {"broken": (fails, 1000)})
    tally = hostile.attack(3, 1, tmp_path)
    assert tally.ended["broken"]["neither"] == len(tally.failures) == 3
    assert "ZeroDivisionError: of no type of ours" in tally.failures[0]
