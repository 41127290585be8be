"""What one set of parameters knows of where it is."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

from strand.handlers.context import Context, Emit, Timer
from strand.handlers.set_context import Alarms, ObjectSetContext, OneSet, numbered

pytestmark = pytest.mark.python

SEEN = np.dtype([("n", "<i8")])


class _Batch:
    n = 4
    at_timer = False

    def __init__(self) -> None:
        self.emitted: list[Any] = []

    def emit(self, output: int, at: Any, records: Any) -> None:
        self.emitted.append((output, at.tolist(), records.tolist()))


def _contexts() -> tuple[Context, list[ObjectSetContext], _Batch]:
    batch = _Batch()
    emit = Emit("spans", {"seen": numbered(SEEN)}, 3, lambda: batch)
    of_symbol = Context("spans", "AAPL", 7, None, emit=emit, timer=Timer("spans"))
    alarms = Alarms(of_symbol, 2)
    contexts = [
        ObjectSetContext(of_symbol, OneSet(place, 5 + place, {}), row=place, params=None, outputs={"seen": SEEN})
        for place in range(2)
    ]
    for context in contexts:
        context.alarms = alarms
    return of_symbol, contexts, batch


def test_what_a_set_has_not_itself_is_as_the_symbol_has_it() -> None:
    of_symbol, (first, second), batch = _contexts()
    of_symbol.at = 2
    assert (first.row, second.row, second.symbol, second.key, second.at) == (0, 1, "AAPL", 7, 2)
    of_symbol.symbol = "MSFT"
    assert second.symbol == "MSFT"
    second.emit((9,))
    first.emit(np.array([(1,), (2,)], SEEN), at=[0, 3])
    assert batch.emitted == [(3, [2], [(6, 9)]), (3, [0, 3], [(5, 1), (5, 2)])]
    with pytest.raises(AttributeError, match="nothing"):
        _ = first.nothing
    assert copy.copy(second).key == 7


def test_the_timer_of_the_symbol_is_the_first_of_the_sets() -> None:
    of_symbol, (first, second), _ = _contexts()
    timer, alarms = of_symbol.timer, first.alarms
    assert timer is not None
    of_symbol.starts = True
    first.wake_at(5)  # before the first tick, at 100
    alarms.ask()
    of_symbol.starts = False
    timer.begin(np.array([100, 200, 300]))
    alarms.begin()
    of_symbol.now = 100
    alarms.ask()
    assert timer.alarm == 101
    of_symbol.now, of_symbol.at = None, 0
    second.wake_at(250)
    alarms.ask()
    assert (timer.end, timer.over(1), timer.alarm) == (1, True, 101)
    assert [alarms.take(place, 101) for place in (0, 1)] == [True, False]
    of_symbol.now = 101
    alarms.ask()
    assert timer.alarm == 250
    second.wake_at(0)
    alarms.ask()
    assert timer.alarm == 0
