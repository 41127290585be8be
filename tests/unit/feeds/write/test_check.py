"""Ticks that a format cannot hold: the first is named with its field, or all of them are left out and counted."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from feed_samples import some_ticks

from strand.errors import ConfigurationError
from strand.feeds.write.targets import Misfits, misfits
from strand.ticks import FIELDS, zeros

pytestmark = pytest.mark.python


def reader_without(field: str):  # type: ignore[no-untyped-def]
    """A format that forgets a field."""

    def read_back(ticks: np.ndarray) -> tuple[np.ndarray, bool]:
        read = ticks.copy()
        read[field] = zeros(1)[field][0]
        return read, True

    return read_back


def changed(ticks: np.ndarray, field: str) -> np.ndarray:
    return ticks[field] != zeros(1)[field][0]


@pytest.mark.parametrize("field", FIELDS)
def test_any_field_that_reads_back_otherwise_is_named(field: str) -> None:
    ticks = some_ticks().copy()
    changed_one = ticks[field].copy()
    changed_one[7] = b"?" if changed_one.dtype.kind == "S" else 1
    ticks[field] = changed_one
    found = misfits(ticks, reader_without(field))
    bad = changed(ticks, field)
    assert (found == np.where(bad, field, "")).all()
    assert (misfits(ticks, reader_without(field), (field,)) == "").all()
    first, value = int(np.argmax(bad)), ticks[field][int(np.argmax(bad))].item()
    with pytest.raises(ConfigurationError) as raised:
        Misfits("itch").take_out(ticks, found, 100, ["X"] * 1000)
    assert str(raised.value).startswith(f"{field}: itch cannot hold {value!r} in tick {101 + first} (kind ")
    assert "--on-unwritable skip" in str(raised.value)
    skipping = Misfits("itch", "skip")
    assert skipping.take_out(ticks, found, 100, []).tobytes() == ticks[~bad].tobytes()
    assert skipping.left_out == Counter({field: int(np.count_nonzero(bad))})


@pytest.mark.parametrize("comes_back", [0, 2])
def test_a_tick_of_which_nothing_or_too_much_comes_back_is_found_among_others(comes_back: int) -> None:
    ticks = some_ticks().copy()
    odd = ticks["sequence"] % 7 == 3
    assert odd.any()

    def read_back(some: np.ndarray) -> tuple[np.ndarray, bool]:
        return some.repeat(np.where(some["sequence"] % 7 == 3, comes_back, 1)), True

    assert (misfits(ticks, read_back) == np.where(odd, "action", "")).all()


def test_a_tick_at_which_reading_stops_is_found_among_others() -> None:
    ticks = some_ticks().copy()

    def read_back(some: np.ndarray) -> tuple[np.ndarray, bool]:
        bad = np.flatnonzero(some["sequence"] == ticks["sequence"][5])
        return (some[: int(bad[0])], False) if len(bad) else (some, True)

    assert (
        np.flatnonzero(misfits(ticks, read_back)).tolist()
        == np.flatnonzero(ticks["sequence"] == ticks["sequence"][5]).tolist()
    )
