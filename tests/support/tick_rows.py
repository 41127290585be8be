"""Ticks from dicts of their fields, as references make them."""

from __future__ import annotations

from collections.abc import Mapping
from operator import itemgetter
from typing import Any

from strand.ticks import TICK

__all__ = ["tick_row"]

_in_order = itemgetter(*(TICK.names or ()))


def tick_row(fields: Mapping[str, Any]) -> tuple[Any, ...]:
    """A record of ``TICK``, with ``sequence`` in its two fields."""
    sequence = fields["sequence"]
    row: tuple[Any, ...] = _in_order({**fields, "sequence_low": sequence & 0xFFFFFFFF, "sequence_high": sequence >> 32})
    return row
