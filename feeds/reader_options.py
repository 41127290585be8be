"""The options of ``strand.feeds.open`` by name and type, those of all readers together."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from strand.feeds.mapping.column_options import ColumnOptions

if TYPE_CHECKING:
    from strand.feeds.base import TicksAre
    from strand.feeds.formats.json.profile import JsonProfile
    from strand.feeds.io.bytestream import InflateLimits

__all__ = ["FeedOptions", "ReaderOptions"]


class ReaderOptions(ColumnOptions, total=False):
    """Options of files' readers. The class of each reader lists its own options and their meaning."""

    on_bad_record: Literal["raise", "skip"]
    batch_ticks: int
    limits: InflateLimits | None
    profile: JsonProfile | Mapping[str, Any] | str | os.PathLike[str] | None
    symbol: str | None
    columns: Mapping[str, str | Mapping[str, Any] | None] | None
    time_zone: str | None
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


class FeedOptions(ReaderOptions, total=False):
    """``feed_options``: what ``strand.feeds.open`` takes beside the files and which of their ticks are wanted."""

    format: str | None
    date: dt.date | str | None
    reorder_ns: int
    on_disorder: str | None
    venue_in_name: bool
    new_day: str | None
    carry_over: bool
