"""Streams of bytes: a text to pack, and what is read of a stream until its end or fault."""

from __future__ import annotations

from pathlib import Path

from bad_input import write_anew

from strand.errors import FeedError
from strand.feeds.io.sources import InputStream
from strand.feeds.io.streams import InflateLimits, open_stream

# Text that packs by about three, so that a flipped bit meets all parts of the packed data.
TEXT = b"".join(b"%d,%d,AAPL\n" % (i * 7919 % 10007, i * i) for i in range(4000))
JOINED = ["gzip", "zstd", "bz2", "xz"]


def write(folder: Path, data: bytes, name: str = "file") -> Path:
    return write_anew(folder / name, data)


def drain(stream: InputStream, piece: int = 1000) -> tuple[bytes, FeedError | None]:
    data, buffer = b"", bytearray(piece)
    with stream:
        try:
            while got := stream.readinto(memoryview(buffer)):
                data += buffer[:got]
        except FeedError as error:
            return data, error
    return data, None


def read(path: Path, limits: InflateLimits | None = None, piece: int = 1000) -> tuple[bytes, FeedError | None]:
    return drain(open_stream(path, limits=limits), piece)
