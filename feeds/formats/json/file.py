"""A file whose lines hold JSON messages, as batches of ticks: what is the same for plain lines and for recordings."""

from __future__ import annotations

import abc
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from strand.errors import FeedError
from strand.feeds.base import BaseFeed, TickBatch
from strand.feeds.formats.json.ticks import JsonTicks
from strand.feeds.formats.websocket.lines import Line, whole_lines
from strand.feeds.io.prefetch import Chunks, read_chunks
from strand.feeds.io.streams import InflateLimits, open_stream

__all__ = ["JsonFileFeed"]

_CHUNK_BYTES: Final = 1 << 18


class JsonFileFeed(BaseFeed):
    """``first``: where the first line of messages begins. ``longest``: bytes of a line, at most. ``open_end``: the last
    line may lack its end."""

    def __init__(
        self,
        path: str | Path,
        *,
        first: int,
        longest: int,
        open_end: bool,
        max_symbols: int,
        batch_ticks: int,
        limits: InflateLimits | None,
    ) -> None:
        super().__init__()
        self._path, self._limits = path, limits
        self._first, self._longest, self._open_end = first, longest, open_end
        self._max_symbols, self._batch_ticks = max_symbols, batch_ticks
        self._chunks: Chunks | None = None
        self._ticks = self._none_yet()

    @abc.abstractmethod
    def _none_yet(self) -> JsonTicks:
        """Returns a new taker of messages, as at the file's start."""

    @abc.abstractmethod
    def _take(self, line: Line | None) -> bool:
        """Takes a line, None: the end. Whether there may be more behind it. Raises FeedError."""

    @property
    def symbols(self) -> Sequence[str]:
        """Names by index, in the order in which they came."""
        return self._ticks.names

    @property
    def max_symbols(self) -> int:
        return self._max_symbols

    def batches(self) -> Iterator[TickBatch]:
        """The file from its start."""
        self._check_open()
        self.skipped.clear()
        self._ticks = self._none_yet()
        stream = open_stream(self._path, limits=self._limits)
        # A line that is longer than a chunk is copied with each: so no chunk is a small part of one.
        chunk_bytes = max(_CHUNK_BYTES, self._longest // 4)
        chunks = self._chunks = read_chunks(stream, chunk_bytes=chunk_bytes, headroom=self._longest)
        lines = whole_lines(chunks, self._first, self._longest, self._path, open_end=self._open_end)
        fault: FeedError | None = None
        more = True
        try:
            while more and fault is None:
                try:
                    while more and self._ticks.pending < self._batch_ticks:
                        more = self._take(next(lines, None))
                except FeedError as error:
                    fault = error
                if self._ticks.pending:
                    yield self._ticks.batch()
            if fault is not None:
                raise fault
        finally:
            chunks.close()

    def close(self) -> None:
        """Ends the iteration under way, and the feed. May be repeated."""
        self._closed = True
        if self._chunks is not None:
            self._chunks.close()
