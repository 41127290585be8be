"""Check of the files to write: no output may be a file that the run reads, nor the file of another output.

Files are told apart as the system does, by device and inode: so links and other spellings of a path change nothing.
A file that does not exist yet is known by its folder and its name there.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from strand.errors import ConfigurationError, UnknownFormatError
from strand.feeds.base import Feed, as_base
from strand.feeds.formats.registry import has_times, recognised
from strand.feeds.io.files import Paths, files_in, named_paths, times_path
from strand.feeds.io.sources import STANDARD_INPUT
from strand.feeds.io.streams import split_member

AnyPath = str | os.PathLike[str]
# Device and inode; or those of the folder, and the name there.
_Identity = tuple[int, int, str]


def check_outputs(
    outputs: Sequence[tuple[str, AnyPath | None]],
    source: Paths | Feed | None = None,
    *,
    symbols: Sequence[str] | None = None,
    options: Mapping[str, Any] | None = None,
) -> None:
    """Refuses an output that is a file of the input, or that another output is written to.

    Call it before anything is read. ``outputs``: options with their paths, None for what is not written. ``source``,
    ``symbols`` and ``options`` are what ``strand.feeds.open`` takes. Raises ConfigurationError.
    """
    feed = None if source is None or isinstance(source, str | os.PathLike | Sequence) else source
    recorded = [] if feed is None else [("record", path) for path in as_base(feed).writes]
    written: dict[_Identity, tuple[str, str]] = {}
    for option, given in (*recorded, *outputs):
        if given is None:
            continue
        path = _text(option, given)
        identity = _identity(path)
        if identity in written:
            other, before = written[identity]
            raise ConfigurationError(
                option, f"{path} is written by {other} too{_also(before, path)}: give each output a file of its own"
            )
        written[identity] = option, path
    if not written:
        return
    for read, listed in _read(source, symbols or (), options or {}):
        found = _identity_of_input(read)
        if found is None or found not in written or (listed and not _is_readable(Path(read), options or {})):
            continue
        option, path = written[found]
        raise ConfigurationError(
            option,
            f"{path} is a file that is read{_also(os.fspath(read), path)}, and it would be replaced: give "
            "the output another name",
        )


def output_paths(
    out: Mapping[str, AnyPath] | None,
    fingerprints: AnyPath | None = None,
    *,
    rows: AnyPath | None = None,
    page: AnyPath | None = None,
) -> list[tuple[str, AnyPath | None]]:
    """Files that a run writes, for ``check_outputs``: its outputs by name, and the files beside them."""
    by_name = [(f"out: {name}", path) for name, path in out.items()] if isinstance(out, Mapping) else []
    return [*by_name, ("fingerprints", fingerprints), ("out", rows), ("report", page)]


def _text(option: str, given: Any) -> str:
    path = os.fspath(given) if isinstance(given, str | os.PathLike) else None
    if not isinstance(path, str) or "\0" in path:
        raise ConfigurationError(option, f"{given!r} is not a path: give text or a pathlib.Path")
    return path


def _also(other: str, path: str) -> str:
    return "" if other == path else f", as {other}"


def _identity(path: str) -> _Identity:
    try:
        status = Path(path).stat()
    except OSError:
        # A link to what is not there yet is that file.
        real = Path(os.path.realpath(path))
        try:
            folder = real.parent.stat()
        except OSError:
            return -1, -1, str(real)
        return folder.st_dev, folder.st_ino, real.name
    return status.st_dev, status.st_ino, ""


def _identity_of_input(path: AnyPath) -> _Identity | None:
    try:
        status = os.fstat(0) if path == STANDARD_INPUT else Path(path).stat()
    except (OSError, ValueError):
        return None
    return (status.st_dev, status.st_ino, "") if stat.S_ISREG(status.st_mode) else None


def _read(
    source: Paths | Feed | None, symbols: Sequence[str], options: Mapping[str, Any]
) -> Iterator[tuple[AnyPath, bool]]:
    """The files that may be read, and whether each was found in a folder: files there that no format takes are passed
    over."""
    yield from ((name[1:], False) for name in symbols if isinstance(name, str) and name.startswith("@"))
    if isinstance(profile := options.get("profile"), str | os.PathLike):
        yield profile, False
    if source is None:
        return
    if not isinstance(source, str | os.PathLike | Sequence):
        yield from ((_on_disk(Path(path)), False) for path in as_base(source).reads)
        return
    for named in named_paths(source):
        if not isinstance(named, Path):
            yield named, False
        elif named.is_dir():
            yield from ((path, True) for path in files_in(named))
        else:
            path = _on_disk(named)
            yield path, False
            # Both halves of a recording are read, whichever is named.
            if has_times(path):
                yield times_path(path), False
            elif path.suffix == ".times":
                yield path.with_suffix(""), False


def _on_disk(path: Path) -> Path:
    """The file itself, or the archive that it is in."""
    try:
        return path if path.exists() else split_member(path)[0]
    except OSError:  # a name longer than a name can be
        return path


def _is_readable(path: Path, options: Mapping[str, Any]) -> bool:
    try:
        recognised(path, options.get("limits"))
    except UnknownFormatError:
        return False
    return True
