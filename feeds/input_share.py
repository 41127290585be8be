"""Share of its files that a feed has read, for feeds whose number of ticks is unknown."""

from __future__ import annotations

from pathlib import Path

from strand.errors import FeedError
from strand.feeds.base import BaseFeed, Feed, FeedInfo
from strand.feeds.io.zip import find_member, split_member

__all__ = ["InputShare"]


class InputShare:
    """A call with a number of ticks that are done returns their share of the feed, from 0 to 1.

    By ticks where the feed knows how many it has, else by bytes of its files; None where it tells neither, as a pipe's.
    """

    def __init__(self, feed: Feed) -> None:
        self._feed = feed
        self._ticks = feed.count() if isinstance(feed, BaseFeed) else None
        self._bytes = None if self._ticks is not None else _bytes_of(feed.info)

    def __call__(self, ticks: int, given: int | None = None) -> float | None:
        """Return the share of the feed that ``ticks`` are; ``given``: the ticks that came of the bytes read so far, as
        many where nothing is said."""
        if self._ticks is not None:
            return min(ticks / self._ticks, 1.0) if self._ticks else None
        read = self._feed.statistics().get("bytes_in") if self._bytes else None
        if read is None or not self._bytes:
            return None
        done = ticks / given if given else 1.0
        return min(read / self._bytes * done, 1.0)


def _bytes_of(info: FeedInfo) -> int | None:
    """The bytes of all files of a feed; None where one's are not known."""
    if "feeds" in info.details:
        paths = [str(feed["path"]) for feed in info.details["feeds"]]
    else:
        paths = [str(path) for path in info.details.get("files", [info.path])]
    sizes = [_file_bytes(Path(path)) for path in paths]
    known = [size for size in sizes if size is not None]
    return sum(known) if len(known) == len(sizes) else None


def _file_bytes(path: Path) -> int | None:
    try:
        if path.is_file():
            return path.stat().st_size
        archive, member = split_member(path)
        return None if member is None else find_member(archive, member).compress_size
    except (OSError, FeedError):
        return None
