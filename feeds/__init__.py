"""Feeds: readers that turn recorded files and generated markets into batches of ticks."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

from strand.moved import refuse_missing

if TYPE_CHECKING:
    from strand.feeds.base import BaseFeed, Feed, FeedInfo, TickBatch
    from strand.feeds.io.bytestream import InflateLimits
    from strand.feeds.opening import open, read_symbols  # noqa: A004
    from strand.feeds.selection import Selection

__all__ = ["BaseFeed", "Feed", "FeedInfo", "InflateLimits", "Selection", "TickBatch", "open", "read_symbols"]

_MODULES: Final = {
    "InflateLimits": "io.bytestream",
    "Selection": "selection",
    "open": "opening",
    "read_symbols": "opening",
}


def _load(name: str) -> object:
    """A public name, on its first use: ``import strand.feeds`` itself takes no time."""
    if name not in __all__:
        refuse_missing("strand.feeds", name)
    found: object = getattr(import_module(f"strand.feeds.{_MODULES.get(name, 'base')}"), name)
    globals()[name] = found
    return found


if not TYPE_CHECKING:  # a checker knows the names from above, and that there are no others
    __getattr__ = _load


def __dir__() -> list[str]:
    return sorted(__all__)
