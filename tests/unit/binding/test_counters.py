"""What the engine counts, seen by participant and in all."""

from __future__ import annotations

import numpy as np
from engine_support import ticks_for

from strand import Dispatcher


def test_participants_add_up_to_the_totals() -> None:
    with Dispatcher(["A", "B"], "count", workers=2, cores=None) as dispatcher:
        for _ in range(3):
            dispatcher.publish(ticks_for([0, 1, 0, 1]))
        dispatcher.drain()
        engine = dispatcher._state.engine
        totals, each = engine.totals(), engine.counters_by_participant()
    assert totals["accepted"] == totals["handled"] == 12
    assert totals["pending"] == totals["failed"] == 0
    for name in ("accepted", "handled", "visits", "handled_inline"):
        assert sum(counters[name] for counters in each) == totals[name]


def test_histograms_have_a_bucket_for_each_edge_and_count_every_tick() -> None:
    with Dispatcher(["A"], "count", workers=1, cores=None) as dispatcher:
        dispatcher.publish(ticks_for([0] * 5))
        dispatcher.drain()
        engine = dispatcher._state.engine
        floors, counts = engine.histogram_floors_ns(), engine.histogram("end_to_end")
    assert counts.shape == floors.shape
    assert int(counts.sum()) == 5
    assert np.all(np.diff(floors) > 0)
