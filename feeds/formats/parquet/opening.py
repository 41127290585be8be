"""The source for a file, by its first bytes: Parquet, or Arrow."""

from __future__ import annotations

from pathlib import Path

from strand.errors import FormatError, MissingExtraError
from strand.feeds.formats.parquet.arrow_source import ARROW_MAGIC, IpcSource, is_arrow_stream
from strand.feeds.formats.parquet.parquet_source import PARQUET_MAGIC, ParquetSource
from strand.feeds.formats.parquet.source import ArrowSource, needs_its_end
from strand.feeds.io.bytestream import InflateLimits
from strand.feeds.io.streams import RawStream, open_stream

__all__ = ["open_arrow"]


def open_arrow(path: Path | str, limits: InflateLimits | None) -> ArrowSource:
    """The source for a file, by its first bytes. Raises FeedError and its kinds, MissingExtraError."""
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        raise MissingExtraError("reading Parquet and Arrow files", "pyarrow", "parquet") from None
    with open_stream(path, limits=limits) as stream:
        head = stream.head(16)
        if head.startswith(PARQUET_MAGIC):
            if not isinstance(stream, RawStream):
                raise needs_its_end("a Parquet file", stream, path, "(its columns are compressed already)")
            return ParquetSource(Path(path), limits)
        if head.startswith(ARROW_MAGIC) or is_arrow_stream(head):
            return IpcSource(path, limits)
    raise FormatError(
        f"is neither a Parquet nor an Arrow file: it starts with {head[:8].hex(' ') or 'nothing'}", path=path, offset=0
    )
