"""Where two runs part: files of fingerprints, narrowed to the tick where that can be done, and files of records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from recorded_runs import record

from strand.diff import diff_runs, narrow

pytestmark = pytest.mark.python


@pytest.mark.parametrize("every", [500, 250, 300, 10**6])
def test_the_same_run_is_the_same_whatever_its_settings_and_intervals(
    tmp_path: Path, order_day: Any, every: int
) -> None:
    a = record(tmp_path, "a", *order_day)
    b = record(tmp_path, "b", *order_day, workers=2, strands=1, fingerprint_every=every)
    found = diff_runs(a, b)
    assert found.same
    assert (found.after, found.symbols, found.notes) == (len(order_day[0]), (), ())
    assert "workers: 1 against 2" in found.settings


def test_other_code_over_the_same_ticks_is_found_at_its_first_tick(
    tmp_path: Path, order_day: Any, handlers: Any
) -> None:
    ticks, names = order_day
    a = record(tmp_path, "a", ticks, names, handlers.plain)
    b = record(tmp_path, "b", ticks, names, handlers.doubled)
    found = diff_runs(a, b)
    assert (found.after, found.by, found.input_differs) == (1500, 2000, False)
    module = handlers.__name__
    wrong = narrow(found, handlers=(f"{module}:plain", f"{module}:plain"))
    assert wrong.exact is None
    assert any("that B recorded" in note for note in wrong.notes)
    narrowed = narrow(found)
    assert narrowed.notes == ()
    assert narrowed.exact is not None
    assert (narrowed.exact.what, narrowed.exact.position) == ("rows", 1700)
    assert narrowed.exact.symbol == names[int(ticks["instrument_id"][1700])]
    (one,) = narrowed.exact.fields
    assert one == "volume"
    assert narrowed.exact.fields["volume"][1] - narrowed.exact.fields["volume"][0] == 3


def test_built_in_handlers_are_told_apart_by_their_fields(tmp_path: Path, order_day: Any) -> None:
    a, b = record(tmp_path, "a", *order_day, "count"), record(tmp_path, "b", *order_day, "vwap")
    found = diff_runs(a, b)
    assert "handler: count against vwap" in found.notes
    exact = narrow(found).exact
    assert exact is not None
    assert exact.position == 0
    assert exact.fields["ticks"] == (1, None)


def test_one_run_that_is_shorter_is_the_same_as_far_as_it_goes(tmp_path: Path, order_day: Any) -> None:
    a, b = record(tmp_path, "a", *order_day), record(tmp_path, "b", *order_day, limit=1200)
    found = diff_runs(a, b)
    assert not found.same
    assert (found.after, found.by, found.symbols) == (1000, None, ())
    assert "limit: None against 1200" in found.notes
