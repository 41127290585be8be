"""Ticks as plain Python values."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from strand import TICK, Tick
from strand.handlers.context import _FIELDS
from strand.ticks import Ticks

pytestmark = pytest.mark.python


def test_a_tick_has_the_fields_of_the_record_and_may_be_kept() -> None:
    assert Tick._fields == TICK.names
    assert _FIELDS.size == TICK.itemsize
    rng = np.random.default_rng(5)
    ticks = np.frombuffer(rng.integers(1, 255, 64 * 20, dtype=np.uint8).tobytes(), TICK).view(Ticks)
    made = [Tick(*fields) for fields in struct.iter_unpack(_FIELDS.format, ticks.data)]
    assert made == ticks.tolist()
    for name in ("sequence", "bid_price", "bid_size", "ask_price", "ask_size"):
        assert [getattr(tick, name) for tick in made] == ticks[name].tolist()
