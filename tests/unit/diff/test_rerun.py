"""Runs that are made again from what their files say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from recorded_runs import record

from strand.diff import diff_runs, narrow
from strand.feeds.write.npy import write_npy

pytestmark = pytest.mark.python


def test_a_handler_that_throws_dice_is_found_out(tmp_path: Path, order_day: Any, handlers: Any) -> None:
    a, b = (record(tmp_path, letter, *order_day, handlers.dice) for letter in "ab")
    narrowed = narrow(diff_runs(a, b))
    assert narrowed.exact is not None
    assert any("run twice" in note for note in narrowed.notes)


def test_code_that_has_changed_since_is_named_and_nothing_is_made_up(
    tmp_path: Path, order_day: Any, handlers: Any
) -> None:
    a = record(tmp_path, "a", *order_day, "count")
    b = record(tmp_path, "b", *order_day, "vwap")
    text = b.read_text().splitlines(keepends=True)
    b.write_text(text[0].replace("vwap", "count") + "".join(text[1:]))  # as if count had been another then
    narrowed = narrow(diff_runs(a, b))
    assert narrowed.exact is None
    assert any("does not leave the rows that B recorded" in note for note in narrowed.notes)
    assert not any("that A recorded" in note for note in narrowed.notes)


def test_what_stands_in_the_way_is_said(tmp_path: Path, order_day: Any) -> None:
    ticks, names = order_day
    a = record(tmp_path, "a", ticks, names)
    ticks["size"][3] += 1
    b = record(tmp_path, "b", ticks, names)
    found = diff_runs(a, b)
    (tmp_path / "a.npz").rename(tmp_path / "elsewhere.npz")
    assert "a.npz" in narrow(found).notes[0]
    exact = narrow(found, sources=([str(tmp_path / "elsewhere.npz")], None)).exact
    assert exact is not None
    assert exact.position == 3
    write_npy(tmp_path / "a.npz", ticks[:50], names)
    assert "has changed since the run was" in narrow(found).notes[0]
    assert "same ticks there" in narrow(found, sources=([str(tmp_path / "b.npz")], None)).notes[0]
