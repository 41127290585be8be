"""Options of readers, by name and type. Those of columns stand apart from their check, which imports msgspec."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal, TypedDict

if TYPE_CHECKING:
    from strand.feeds.base import TicksAre
    from strand.feeds.formats.json.profile import JsonProfile
    from strand.feeds.io.sources import InflateLimits

__all__ = ["ColumnOptions", "ReaderOptions"]


class ColumnOptions(TypedDict, total=False):
    """Options that hold for all columns alike, as users give them."""

    constants: Mapping[str, int | str | bytes] | None
    price_unit: str | Decimal | None
    size_unit: str | Decimal | None
    time_unit: Literal["s", "ms", "us", "ns"] | None
    inexact: Literal["raise", "round"] | None
    nulls: Literal["raise", "undefined"]


class ReaderOptions(ColumnOptions, total=False):
    """Options of files' readers. The class of each reader lists its own options and their meaning."""

    on_bad_record: Literal["raise", "skip"]
    batch_ticks: int
    limits: InflateLimits | None
    profile: JsonProfile | Mapping[str, Any] | str | os.PathLike[str] | None
    symbol: str | None
    columns: Mapping[str, str | Mapping[str, Any] | None] | None
    ticks: TicksAre | None
    flags: Mapping[str, int] | None
    event: str | Sequence[str] | None
    array: str | None
    bars: str | None
    levels: int | None
    max_symbols: int | None
    threads: int | None
    port: int | Collection[int] | None
    session: str | None
    blank_headers: bool
    hold: int
    hold_ns: int
