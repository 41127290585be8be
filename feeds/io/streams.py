"""Byte streams that decoders read in large pieces: files, pipes, and what is compressed in them.

``open_stream`` tells the compression by content. A stream fills a caller's buffer (``readinto``). Data before a fault
is always handed out first: the error comes with the next call, so that a decoder gets every byte there was.
"""

from __future__ import annotations

import os
from pathlib import Path

from strand.errors import FeedError
from strand.feeds.io.bytestream import HEAD_BYTES, ByteStream, InflateLimits, InputStream
from strand.feeds.io.compression import BZ2_MAGICS, GZIP_MAGIC, XZ_MAGIC, Bz2Stream, GzipStream, XzStream, inflater_name
from strand.feeds.io.sources import STANDARD_INPUT, RawStream, Source, open_source
from strand.feeds.io.zip import ZIP_MAGICS, ZipMemberStream, find_member, split_member
from strand.feeds.io.zstd import ZstdStream, is_zstd

__all__ = [
    "HEAD_BYTES",
    "STANDARD_INPUT",
    "ByteStream",
    "GzipStream",
    "InflateLimits",
    "InputStream",
    "RawStream",
    "inflater_name",
    "is_gzip",
    "names_of",
    "open_stream",
]

_MAGIC_BYTES = 8


def is_gzip(head: bytes) -> bool:
    """Tells whether a file that begins with ``head`` is a gzip file, whatever its name."""
    return head.startswith(GZIP_MAGIC)


def open_stream(path: str | os.PathLike[str], *, limits: InflateLimits | None = None) -> InputStream:
    """The decompressed bytes of a file, whatever it is called: raw, gzip, zstd, bz2, xz, or in a zip archive.

    ``path``: a file, a named pipe, ``-`` for standard input, an archive of one file, or ``archive.zip/name`` of one
    in it. ``limits``: what it may expand to; by default 200 times its size once that is more than 64 MiB, and 1 TiB.

    Raises FeedError where there is nothing to read, FormatError or TruncatedFeedError where an archive's directory is
    damaged, MissingExtraError where a package is needed: ``zstandard`` for zstd. Faults further on are raised by the
    stream's methods.
    """
    limits = InflateLimits.of(limits)
    named = str(path) if str(path) == STANDARD_INPUT else Path(path)
    if isinstance(named, Path) and not named.exists():
        named, member = split_member(named)
        if member is not None:
            return ZipMemberStream(named, find_member(named, member), limits)
    source = open_source(named)
    try:
        return _opened(source, source.head(_MAGIC_BYTES), limits)
    except BaseException:
        source.close()
        raise


def names_of(path: str | os.PathLike[str], stream: InputStream) -> list[str]:
    """Names of a file that was opened as ``stream``: its path, and for a member its name in the archive and the
    archive's."""
    names = [os.fspath(path)]
    if isinstance(stream, ZipMemberStream):
        names += [stream.member, str(stream.path)]
    return list(dict.fromkeys(names))


def _opened(source: Source, magic: bytes, limits: InflateLimits) -> InputStream:
    if is_gzip(magic):
        return GzipStream(source, limits)
    if is_zstd(magic):
        return ZstdStream(source, limits)
    if magic.startswith(BZ2_MAGICS):
        return Bz2Stream(source, limits)
    if magic.startswith(XZ_MAGIC):
        return XzStream(source, limits)
    if magic.startswith(ZIP_MAGICS):
        if not isinstance(source, RawStream):
            raise FeedError("a zip archive cannot be read from a pipe: store it in a file", path=source.path)
        source.close()
        return ZipMemberStream(Path(source.path), find_member(Path(source.path)), limits)
    return source
