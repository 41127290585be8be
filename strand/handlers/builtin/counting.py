"""The built-in handlers that only count: ``count``, and the benchmark's ``spin``."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from strand.binding.native import builtin_function
from strand.handlers.builtin.definition import built_in
from strand.handlers.native_handlers import NativeHandler
from strand.units import COUNT, PRICE, SIZE, TIME, declare
from strand.validate import whole

_SEEN = {"ticks": 1}

COUNT_ROW = np.dtype(
    [
        ("ticks", COUNT),
        ("trades", COUNT),
        ("volume", SIZE),
        ("last_price", declare(PRICE, given={"trades": 1})),
        ("first_ts_recv", declare(TIME, given=_SEEN)),
        ("last_ts_recv", declare(TIME, given=_SEEN)),
        ("last_sequence", declare(COUNT, given=_SEEN)),
    ]
)
SPIN_ROW = np.dtype([("ticks", "<i8"), ("value", "<u8"), ("last_sequence", "<i8"), ("broken", "<i8")])


@built_in
def count() -> NativeHandler:
    """Tallies: ticks, trades, volume, and the last price, time and sequence."""
    return _native("count", COUNT_ROW)


@built_in
def spin(work: int, *, dear_every: int = 0, dear_times: int = 1) -> NativeHandler:
    """The benchmark's handler: runs ``work`` dependent multiply-add steps per tick.

    A row counts the ticks whose sequence does not follow that of the tick before.

    Args:
        work: Steps per tick, 0 or more.
        dear_every: Symbols whose index it divides take more steps; 0: none.
        dear_times: How many times as many steps these take, 1 or more.

    Raises:
        ConfigurationError: If a number is out of its bounds.
    """
    given = (whole("work", work, 0), whole("dear_every", dear_every, 0), whole("dear_times", dear_times, 1))
    return _native("spin", SPIN_ROW, struct.pack("=qqq", *given))


def _native(name: str, state: np.dtype[Any], params: bytes = b"") -> NativeHandler:
    return NativeHandler(name=name, state=state, function=builtin_function(name, params), needs_ticks=True)
