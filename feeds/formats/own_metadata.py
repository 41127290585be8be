"""Description of their source in tick files that strand wrote: one JSON object, whatever the file's format.

Parquet and Arrow keep it in the schema's metadata under ``strand``, an .npz in the member ``strand.json``.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from strand.errors import FeedError, FormatError
from strand.feeds.base import Feed, FeedInfo, Flags, StockAttributes, TicksAre, usual_flags
from strand.feeds.mapping.options import Options
from strand.feeds.times import as_date
from strand.symbols import check_name, name_problem
from strand.validate import check_depth

OWN_KEY: Final = b"strand"
OWN_MEMBER: Final = "strand.json"
#: Facts about the source that hold for its ticks in any file.
_AS_THEY_ARE: Final = ("date", "venue", "price_unit", "undated", "prices_assumed", "zone", "has_sizes", "bars")


class Source(msgspec.Struct, frozen=True):
    """The source's ``FeedInfo``, as far as it says what the ticks are. ``profile``: what its columns were read by.
    ``feeds``: of several files that were merged each one's format, name, date and venue."""

    format: str = ""
    profile: str | None = None
    date: str | None = None
    venue: str | None = None
    price_unit: float | None = None
    size_unit: float | None = 1.0
    ticks: TicksAre | None = "plain"
    ticks_assumed: bool = False
    prices_assumed: bool = False
    undated: bool = False
    feeds: list[dict[str, str | None]] = []
    zone: str | None = None
    flags: Flags | None = Flags()
    has_sizes: bool = True
    bars: int | None = None
    bars_of: str | None = None

    def info(
        self, name: str, path: str, details: Mapping[str, Any], size_unit: float | None, said: Options
    ) -> FeedInfo:
        """The ``FeedInfo`` of a file of format ``name`` that keeps this source. ``details["source"]``: the source's
        format and profile. ``said``: the file's own ``ticks`` and ``flags``, which replace those of the source."""
        source = {"format": self.format} | ({"profile": self.profile} if self.profile is not None else {})
        details = {**details, "source": source} | ({"feeds": self.feeds} if self.feeds else {})
        details |= {"bars_of": self.bars_of} if self.bars_of is not None else {}
        return FeedInfo(
            name,
            path,
            details=details,
            size_unit=size_unit,
            ticks=said.ticks or self.ticks,
            ticks_assumed=said.ticks is None and self.ticks_assumed,
            flags=said.masks or (self.flags if said.ticks is None else usual_flags(said.ticks)),
            **{field: getattr(self, field) for field in _AS_THEY_ARE},
        )


class Own(msgspec.Struct, frozen=True):
    """``symbols``: names by key. ``directory``: what the source says of each stock, by name, where it does."""

    symbols: list[str]
    info: Source
    directory: dict[str, StockAttributes] = {}


def own_text(feed: Feed) -> bytes:
    """The JSON object for a feed that has been read. Raises ConfigurationError for a name that no reader would take."""
    info = feed.info
    source = info.details.get("source", {"format": info.format, "profile": info.details.get("profile")})
    told = Source(
        **source,
        **{field: getattr(info, field) for field in (*_AS_THEY_ARE, "size_unit", "ticks", "ticks_assumed", "flags")},
        bars_of=info.details.get("bars_of"),
        feeds=[{**one, "path": Path(one["path"]).name} for one in info.details.get("feeds", [])],
    )
    return msgspec.json.encode(
        Own([check_name("symbols", name) for name in feed.symbols], told, dict(getattr(feed, "directory", {})))
    )


def own_from(text: bytes, path: str | Path) -> Own:
    """Reads the description that a file keeps. Raises FormatError where the text is something else."""
    try:
        check_depth(text)
        own = msgspec.json.decode(text, type=Own)
        if own.info.date is not None:
            as_date(own.info.date)
    except (msgspec.MsgspecError, FeedError, ValueError, RecursionError) as error:
        raise FormatError(f"the metadata 'strand' cannot be read: {error}", path=path) from None
    for name in own.symbols:
        if problem := name_problem(name):
            raise FormatError(f"the metadata 'strand' names a symbol {name[:80]!r}, which {problem}", path=path)
    return own
