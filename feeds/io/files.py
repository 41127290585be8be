"""Files that come from elsewhere: chosen by paths, folders and globs, and refused before a reader sees them."""

from __future__ import annotations

import os
import re
import stat
import weakref
from collections.abc import Iterable, Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any, Final, Protocol, TypeGuard

import numpy as np
import numpy.typing as npt

from strand.errors import CALLED, ConfigurationError, FeedError, TruncatedFeedError, called, url_of
from strand.feeds.io.sources import STANDARD_INPUT
from strand.feeds.io.stores import check_target, is_url, object_at, objects_named
from strand.lazy import imported

_MAX_TEXT: Final = 64 << 20


def regular_file(path: str | Path) -> Path:
    """The path of a file that has content and can be read from its start again. Raises FeedError for any other."""
    path = Path(path)
    try:
        status = path.stat()
    except FileNotFoundError:
        raise FeedError("there is no such file", path=path) from None
    except OSError as error:
        raise FeedError(f"cannot be looked at: {error.strerror}", path=path) from error
    if stat.S_ISDIR(status.st_mode):
        raise FeedError("is a directory: name the files in it", path=path)
    if not stat.S_ISREG(status.st_mode):
        raise FeedError("is not a regular file: a feed is read more than once, so store the stream first", path=path)
    if status.st_size == 0:
        raise TruncatedFeedError("the file is empty", path=path, offset=0)
    return path


def read_head(path: Path, size: int) -> bytes:
    """The first ``size`` bytes, or fewer where the file has fewer."""
    try:
        with path.open("rb") as file:
            return file.read(size)
    except OSError as error:
        raise FeedError(f"cannot be read: {error.strerror}", path=path) from error


def small_text(path: str | os.PathLike[str], what: str) -> str:
    """The text of a file that the user wrote, such as a list of names. Raises ConfigurationError; ``what`` leads.

    It may be a pipe, so its size is not known; what has no end, such as /dev/zero, is refused after 64 MiB.
    """
    if is_url(path):
        raise ConfigurationError(what, f"{called(path)}: name a file of this machine, where its object is copied to")
    try:
        with Path(path).open("rb") as file:
            data = file.read(_MAX_TEXT + 1)
        if len(data) > _MAX_TEXT:
            raise ConfigurationError(what, f"name a file of text, below 64 MiB: {path} has more")
        return data.decode("utf-8-sig")
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise ConfigurationError(what, f"{path} cannot be read: {why}") from error


_WILD: Final = "*?["
#: Any URL. A letter alone is no scheme. A ``pathlib.Path`` of a URL has one slash in place of two.
_ANY_URL: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/")
_WEB_SOCKET: Final = "listen by strand listen --websocket, in Python by strand.feeds.live.websocket.WebSocketFeed"
#: What to do instead of reading a URL, by its scheme.
_INSTEAD: Final = {
    "kafka": "listen by strand listen --kafka, in Python by strand.feeds.live.kafka.KafkaFeed",
    "ws": _WEB_SOCKET,
    "wss": _WEB_SOCKET,
    "file": "give the path alone",
}

Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


class _Table(Protocol):
    """A table of Arrow's C interface: of polars, pandas or pyarrow, or a reader of record batches."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


class _LazyTable(Protocol):
    """A table of polars that is still to be computed."""

    def collect_schema(self) -> Any: ...


#: Tables in memory, and structured arrays.
Frames = _Table | _LazyTable | npt.NDArray[Any]

_frames: weakref.WeakValueDictionary[str, Frame] = weakref.WeakValueDictionary()
_numbers: Final = count()


class Frame(os.PathLike[str]):
    """A table in memory, with a path that stands for it as long as this object lives. Errors call it by its type."""

    def __init__(self, table: Any) -> None:
        kind = type(table)
        if kind.__name__ == "LazyFrame":
            table = table.collect()
        elif isinstance(table, np.ndarray) and _has_names(table.dtype):
            table = _as_table(table)
        self.table = table
        name = f"{kind.__module__.partition('.')[0].removeprefix('_')}.{kind.__name__}"
        self._path = f"memory:{next(_numbers)}/{name}"
        _frames[self._path] = self
        CALLED[self._path] = name
        weakref.finalize(self, CALLED.pop, self._path, None)

    def __fspath__(self) -> str:
        return self._path

    @property
    def is_read_once(self) -> bool:
        """True for a reader of record batches, which cannot begin anew."""
        return type(self.table).__name__ == "RecordBatchReader"


def _has_names(dtype: np.dtype[Any]) -> bool:
    """Tells whether records have a text of more than a letter, as names of symbols are."""
    letter = {"S": 1, "U": 4}
    return any(dtype[name].itemsize > letter.get(dtype[name].kind, dtype[name].itemsize) for name in dtype.names or ())


def _as_table(array: npt.NDArray[Any]) -> Any:
    """Records as a table of Arrow. Raises MissingExtraError."""
    arrow = imported("pyarrow", "parquet", "reading arrays with texts")
    columns = {name: arrow.array(np.ascontiguousarray(array[name])) for name in array.dtype.names or ()}
    return arrow.table(
        {
            name: each.cast(arrow.string()) if arrow.types.is_binary(each.type) else each
            for name, each in columns.items()
        }
    )


def frame_at(path: str | os.PathLike[str]) -> Frame | None:
    """The table that a path stands for."""
    return _frames.get(os.fspath(path)) if isinstance(path, str | os.PathLike) else None


def _is_frame(source: object) -> TypeGuard[Frames]:
    if isinstance(source, np.ndarray):
        return True
    is_feed = hasattr(source, "batches") and hasattr(source, "max_symbols")
    return not is_feed and (hasattr(source, "__arrow_c_stream__") or hasattr(source, "collect_schema"))


def as_paths(source: Any) -> Any:
    """A table as a path that stands for it; any other source as it is."""
    return Frame(source) if _is_frame(source) else source


def named_paths(path_or_paths: Paths) -> Iterator[Any]:
    """Objects of stores, and files, folders and ``-`` as they are named, globs resolved.

    Raises FeedError, ConfigurationError.
    """
    named: Iterable[object] = [path_or_paths]
    if isinstance(path_or_paths, Iterable) and not isinstance(path_or_paths, str | os.PathLike):
        named = path_or_paths
    for name in named:
        if _is_frame(name):
            raise ConfigurationError(
                "source",
                f"a list of tables is not read ({type(name).__name__}): put them into one, as by polars.concat, "
                "pandas.concat, pyarrow.concat_tables or numpy.concatenate",
            )
        if not isinstance(name, str | os.PathLike) or not isinstance(text := os.fspath(name), str):
            raise ConfigurationError("source", f"{name!r} is not a path: give text or a pathlib.Path")
        if "\0" in text:
            raise ConfigurationError("source", f"{name!r} is not a path: it holds a NUL")
        path = Path(text)
        if is_url(text):
            yield from objects_named(url_of(text))
            continue
        if text == STANDARD_INPUT:
            yield text
        elif frame_at(text) is not None or object_at(text) is not None:
            yield path
        elif any(mark in text for mark in _WILD) and not _is_there(path):
            import glob

            found = sorted(Path(match) for match in glob.glob(text, recursive=True))  # noqa: PTH207 - absolute patterns too
            files = [match for match in found if not match.is_dir()]
            if not files:
                _check_scheme(path)
                raise FeedError("no file matches", path=text)
            yield from files
        else:
            _check_there(path)
            yield path


def files_in(folder: Path, *, empty: bool = False) -> list[Path]:
    """The files in a folder by name that hold something, or those that are empty; never hidden ones."""
    return [
        path
        for path in sorted(folder.iterdir())
        if not path.name.startswith((".", "_")) and path.is_file() and (path.stat().st_size == 0) == empty
    ]


#: A file of ticks of an hour as Dukascopy names it. It lies in folders called SYMBOL/YEAR/MONTH/DAY.
_HOUR: Final = re.compile(r"\d\dh_ticks\.bi5")
_DATE_PART: Final = re.compile(r"\d{4}|\d\d")
_YEAR: Final = re.compile(r"(?:19|20)\d\d")


def is_hour(path: str | Path) -> bool:
    """Tells whether a file is called as Dukascopy's files of an hour, which hold nothing if nothing happened."""
    return _HOUR.fullmatch(Path(path).name) is not None


def hours_in(folder: Path) -> list[Path]:
    """Dukascopy's files of hours, by name, in a folder of a day, month, year, symbol, or of several symbols."""
    return [path for inner in _dated(folder) for path in sorted(inner.iterdir()) if is_hour(path)]


def _dated(folder: Path) -> Iterator[Path]:
    """The folder, and all below it that are called as parts of a date, or that hold folders called as years."""
    yield folder
    for inner in sorted(path for path in folder.iterdir() if path.is_dir()):
        if _DATE_PART.fullmatch(inner.name) or any(_YEAR.fullmatch(year.name) for year in inner.iterdir()):
            yield from _dated(inner)


def times_path(path: str | os.PathLike[str]) -> Path:
    """Path of the receive times beside the file of a recording."""
    return Path(path).with_name(Path(path).name + ".times")


def check_folder(option: str, path: Path) -> None:
    """Raises ConfigurationError, before anything has run, where a file's folder is not there or takes no file."""
    if is_url(path):
        check_target(url_of(path))
        return
    try:
        is_folder = stat.S_ISDIR(path.parent.stat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        is_folder = False
    except OSError as error:
        raise ConfigurationError(option, f"{path.parent} cannot be looked at: {error.strerror}") from None
    if not is_folder:
        if (scheme := _scheme(path)) is not None:
            raise ConfigurationError(
                option, f"{scheme}:// is not written: name a file, or an object of s3:// or gs:// to write"
            )
        raise ConfigurationError(option, f"there is no folder {path.parent}")
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise ConfigurationError(option, f"no file may be written in {path.parent}: name another folder")


def _is_there(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # too long for a name, but a glob may be
        return False


def _scheme(path: Path) -> str | None:
    """The scheme of a URL that is of no store, in small letters; None for any other path."""
    found = _ANY_URL.match(str(path))
    return None if found is None or is_url(path) else found[1].lower()


def _check_scheme(path: Path) -> None:
    """Raises ConfigurationError for the URL of what is no file. It shows the scheme alone: the rest may be a secret."""
    if (scheme := _scheme(path)) is not None:
        cure = _INSTEAD.get(scheme, "name a file, or an object of a store: s3://, gs://, https:// or http://")
        raise ConfigurationError("source", f"{scheme}:// is not read: {cure}") from None


def _check_there(path: Path) -> None:
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        if not any(parent.is_file() for parent in path.parents):
            _check_scheme(path)
            raise FeedError("there is no such file", path=path) from None
    except OSError as error:
        raise FeedError(f"cannot be looked at: {error.strerror}", path=path) from error
