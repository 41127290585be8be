"""One place that opens a feed: by what is in the file, whatever its name."""

from __future__ import annotations

import importlib
import inspect
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from numpy.lib import format as npy_format

from strand.errors import ConfigurationError, UnknownFormatError
from strand.feeds._files import open_archive, read_head, regular_file
from strand.feeds.base import Feed

__all__ = ["open_feed"]

_HEAD_BYTES: Final = 4096
_ZIP: Final = (b"PK\x03\x04", b"PK\x05\x06")
_GZIP: Final = b"\x1f\x8b"
_UNDERSTOOD: Final = (
    "numpy arrays (.npy, .npz), LEAN equity tick archives (.zip of one CSV), NASDAQ TotalView-ITCH 5.0 (raw or .gz)"
)


def open_feed(path_or_paths: str | Path | Sequence[str | Path], **options: Any) -> Feed:
    """The reader for a file, chosen by its content, with ``options`` for that reader.

    Several paths are read as one feed where their format can be merged: LEAN archives. Raises ``FeedError`` for what
    is no regular file or is empty, ``UnknownFormatError`` where no reader knows the content, and
    ``ConfigurationError`` for an option that the reader has not.
    """
    paths = [path_or_paths] if isinstance(path_or_paths, str | Path) else list(path_or_paths)
    if not paths:
        raise ConfigurationError("no file is named")
    formats = {str(path): _recognised(regular_file(path)) for path in paths}
    module, name = next(iter(formats.values()))
    if len(set(formats.values())) > 1:
        kinds = ", ".join(f"{path} ({name})" for path, (_, name) in formats.items())
        raise ConfigurationError(f"files of one feed must have one format: {kinds}")
    reader: Callable[..., Feed] = getattr(importlib.import_module(module), name)
    _check_options(reader, name, options)
    if name == "LeanFeed":
        return reader(paths, **options)
    if len(paths) > 1:
        raise ConfigurationError(f"several files at once can be read as LEAN archives only, and these are {name}s")
    return reader(paths[0], **options)


def _recognised(path: Path) -> tuple[str, str]:
    """Module and class of the reader for a file. Readers are imported only when a file calls for them."""
    head = read_head(path, _HEAD_BYTES)
    if head.startswith(npy_format.MAGIC_PREFIX):
        return "strand.feeds.npy", "NpyFeed"
    if head.startswith(_ZIP):
        return _archive(path)
    gzipped = head.startswith(_GZIP)
    itch = importlib.import_module("strand.feeds.itch")
    if itch.recognise(_inflated(head) if gzipped else head):
        return "strand.feeds.itch", "ItchFeed"
    what = "a gzip stream of something else" if gzipped else f"starts with {head[:8].hex(' ')}"
    raise UnknownFormatError(f"{what}; what can be read: {_UNDERSTOOD}", path=path)


def _archive(path: Path) -> tuple[str, str]:
    with open_archive(path) as archive:
        names = [info.filename.lower() for info in archive.infolist()]
    if any(name.endswith(".npy") for name in names):
        return "strand.feeds.npy", "NpyFeed"
    if any(name.endswith(".csv") for name in names):
        return "strand.feeds.lean", "LeanFeed"
    held = ", ".join(names[:5]) or "nothing"
    raise UnknownFormatError(f"a zip archive of {held}; what can be read: {_UNDERSTOOD}", path=path)


def _inflated(head: bytes) -> bytes:
    """What the start of a gzip stream inflates to, a few bytes being enough; empty where it is damaged."""
    try:
        return zlib.decompressobj(wbits=31).decompress(head, _HEAD_BYTES)
    except zlib.error:
        return b""


def _check_options(reader: Callable[..., Feed], name: str, options: dict[str, Any]) -> None:
    known = [
        parameter.name
        for parameter in inspect.signature(reader).parameters.values()
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY
    ]
    if unknown := [option for option in options if option not in known]:
        raise ConfigurationError(f"{', '.join(unknown)}: no option of {name}, which has {', '.join(known)}")
