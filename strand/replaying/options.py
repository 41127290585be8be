"""The options of ``strand.replay`` by name and type, for what is called like it."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from strand.dispatch.options import RunOptions

if TYPE_CHECKING:
    from strand.feeds.reader_options import FeedOptions
    from strand.output.sinks import Destination
    from strand.replaying.pacing import Pacer
    from strand.replaying.snapshots import Snapshot

__all__ = ["ReplayOptions"]


class ReplayOptions(RunOptions, total=False):
    """All that ``strand.replay`` takes by name, but for ``handlers``."""

    symbols: Sequence[str] | None
    start: str | int | None
    end: str | int | None
    limit: int | None
    position: int
    allow_empty: bool
    progress: bool | Callable[[int], None]
    date: dt.date | str | None
    feed_options: FeedOptions | None
    pin_publisher: bool | None
    speed: float
    pacer: Pacer | None
    fingerprint_every: int | None
    fingerprints: str | os.PathLike[str] | None
    out: Mapping[str, Destination] | None
    timeline: bool
    watch: int | Sequence[str] | None
    per_day: bool
    snapshot: Snapshot | None
    strict: bool
    save: str | os.PathLike[str] | None
    load: str | os.PathLike[str] | None
    until: tuple[str, int] | str | int | None
    pdb: bool
