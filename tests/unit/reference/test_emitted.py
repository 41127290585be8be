"""The order of what handlers emit in a plain loop."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from strand.binding.serial import POSITION
from strand.reference.emitted import TIMER, SerialEmitted

pytestmark = pytest.mark.python


RECORD = np.dtype([("x", "<i8")])


def emit(emitted: SerialEmitted, *values: int, at: list[int] | None = None) -> None:
    records = np.zeros(len(values), RECORD)
    records["x"] = values
    emitted.emit(0, None if at is None else np.array(at), records)


def hold(emitted: SerialEmitted, key: int, *places: tuple[int, int]) -> None:
    keys = np.full(len(places), key, np.uint32)
    emitted.hold(np.array(list(places), POSITION), lambda: np.arange(len(places), dtype=np.int64), keys, [0])


def taken(emitted: SerialEmitted, room: int = 100) -> list[int]:
    buffer = np.zeros(room * 36, np.uint8)
    n = emitted.take_output(0, buffer, room)
    found: Any = buffer[: n * 36].reshape(n, 36)[:, 28:].copy().view("<i8")
    return [int(x) for x in found.ravel()]


def test_ticks_come_by_number_timers_before_ticks_of_their_time_and_ends_last() -> None:
    emitted = SerialEmitted([8])
    hold(emitted, 0, (0, 10), (3, 30))
    emit(emitted, 1, 4, at=[0, 1])
    hold(emitted, 1, (1, 10), (2, 30))
    emit(emitted, 2, 3, at=[0, 1])
    emitted.hold_timer(1, 30, [0], at_end=True)
    emit(emitted, 99)
    emitted.hold_timer(2, 30, [0])
    emit(emitted, 12)
    emitted.hold_timer(1, 30, [0])
    emit(emitted, 11)
    emitted.sort()
    assert taken(emitted, 2) == [1, 2]
    assert taken(emitted) == [11, 12, 3, 4, 99]
    assert taken(emitted) == []


def test_what_a_tick_or_a_timer_that_failed_has_emitted_is_left_out() -> None:
    emitted = SerialEmitted([8])
    hold(emitted, 0, (0, 10), (1, 20), (2, 30))
    emit(emitted, 1, 2, 3, at=[0, 1, 2])
    emitted.hold_timer(5, 15, [0])
    emit(emitted, 50)
    emitted.hold_timer(6, 15, [0])
    emit(emitted, 60)
    emitted.sort(below=2, failed=[(TIMER, 15, 5)])
    assert taken(emitted) == [1, 60, 2]


def test_sequences_of_a_batch_are_asked_for_once_however_often_something_is_emitted() -> None:
    asked = []

    def sequences() -> Any:
        asked.append(1)
        return np.arange(10, 13)

    emitted = SerialEmitted([8])
    for first in (0, 3):
        positions = np.zeros(3, POSITION)
        positions["number"] = np.arange(first, first + 3)
        emitted.hold(positions, sequences, np.arange(3, dtype=np.uint32), [0])
        for at in range(3):
            emitted.place(at)
            emitted.emit(0, np.array([0]), np.array([at]))
    assert len(asked) == 2
    emitted.sort()
    assert emitted._ready[0]["sequence"].tolist() == [10, 11, 12] * 2
