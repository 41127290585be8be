"""Strand: market-data ticks through per-symbol handlers on all cores, in order."""

from __future__ import annotations

from strand.ticks import PRICE_SCALE, TICK, UNDEF_PRICE

__all__ = ["PRICE_SCALE", "TICK", "UNDEF_PRICE"]
