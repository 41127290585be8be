"""Rows of each day of a run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from engine_support import ticks_for

from strand.caller.run import CallerRun
from strand.replaying.days import DayRecorder
from strand.testing import feed
from strand.ticks import clear_records

pytestmark = pytest.mark.python


def days_of(*parts: Any) -> Any:
    """Of the symbols A and B, in batches as given."""
    source: Any = feed([{"symbol": name, "time": 1, "price": 1, "size": 1} for name in "AB"])
    loop = CallerRun(["A", "B"], "count")
    counts = np.zeros(source.max_symbols, np.int64)
    recorder = DayRecorder(source, loop, counts)
    for batch in parts:
        recorder.begin(batch)
        at = 0
        while at < len(batch):
            recorder.act(at)
            part, at = batch[at : recorder.next(at)], recorder.next(at)
            loop.publish(part)
            if part["kind"][0] == 0:
                counts += np.bincount(part["instrument_id"], minlength=len(counts))
    loop.drain()
    recorder.end()
    return recorder.days, loop


def clears(*keys: int, at: int) -> Any:
    return clear_records(np.array(keys, np.uint32), at)


def test_a_clear_record_ends_the_day_of_its_symbol_alone() -> None:
    first, second = ticks_for([0, 1, 0]), ticks_for([0, 0, 1])
    days, _ = days_of(np.concatenate([first, clears(0, at=100), second]))
    assert [day.symbols for day in days] == [("A",), ("A", "B")]
    assert [day.ticks for day in days] == [2, 4]
    assert days[0].rows["A"]["ticks"] == 2
    assert days[1].rows["B"]["ticks"] == 2
    assert (days[0].end_ns, days[1].end_ns) == (100, None)
    # What was under way of B began with the first tick of all.
    assert days[1].start_ns == 0


def test_a_boundary_may_lie_in_several_batches() -> None:
    ticks = ticks_for([0, 1])
    whole, _ = days_of(np.concatenate([ticks, clears(0, 1, at=9), ticks]))
    apart, _ = days_of(ticks, clears(0, at=9), clears(1, at=9), ticks)
    assert [(day.symbols, day.ticks, day.fingerprint) for day in whole] == [
        (day.symbols, day.ticks, day.fingerprint) for day in apart
    ]
    assert len(whole) == 2
