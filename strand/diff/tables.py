"""Files of records, whatever wrote them, read in pieces of columns: npy, Parquet, Arrow IPC, CSV."""

from __future__ import annotations

import csv
import gzip
import io
import os
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from strand.errors import FeedError, FormatError, MissingExtraError, UnknownFormatError

__all__ = ["Columns", "Table", "open_table"]

#: Some records: a column by name, each of shape (n, ...).
Columns = dict[str, npt.NDArray[Any]]

#: Records that are read at one go.
PIECE: Final = 65_536
_FORMS: Final = {"parquet": "Parquet file", "ipc": "Arrow IPC file", "stream": "Arrow IPC file"}


class Table(ABC):
    """A file's records in order. ``types`` maps each column's name to what it holds, in words; ``text`` says that all
    columns are text as it stands in the file."""

    text = False

    def __init__(self) -> None:
        self.types: dict[str, str] = {}

    @abstractmethod
    def pieces(self) -> Iterator[Columns]:
        """The records, a piece at a time. Raises FeedError where the file is damaged."""


def open_table(path: str | os.PathLike[str]) -> Table:
    """A file of records, by how it begins. Raises FeedError, UnknownFormatError, MissingExtraError."""
    path = Path(path)
    try:
        with path.open("rb") as file:
            head = file.read(8)
    except OSError as error:
        raise FeedError(f"cannot be read: {error.strerror or error}", path=path) from error
    if head.startswith(b"\x93NUMPY"):
        return _Npy(path)
    if head.startswith(b"PAR1"):
        return _Arrow(path, "parquet")
    if head.startswith(b"ARROW1"):
        return _Arrow(path, "ipc")
    if head.startswith(b"\xff\xff\xff\xff"):
        return _Arrow(path, "stream")
    if head.startswith(b"\x1f\x8b") or _is_text(head):
        return _Csv(path, compressed=head.startswith(b"\x1f\x8b"))
    raise UnknownFormatError("this is not an npy, Parquet, Arrow IPC or CSV file, nor a fingerprint file", path=path)


def _is_text(head: bytes) -> bool:
    return bool(head) and all(byte >= 32 or byte in b"\t\r\n" for byte in head)


class _Npy(Table):
    def __init__(self, path: Path) -> None:
        super().__init__()
        try:
            self._records: npt.NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
        except (ValueError, OSError) as error:
            raise FormatError(f"numpy cannot read it: {error}", path=path) from error
        if self._records.dtype.names is None or self._records.ndim != 1:
            raise FormatError("the array is not an array of records of shape (n,)", path=path)
        self.types = {name: str(self._records.dtype[name]) for name in self._records.dtype.names}

    def pieces(self) -> Iterator[Columns]:
        for start in range(0, len(self._records), PIECE):
            records = np.array(self._records[start : start + PIECE])
            yield {name: np.ascontiguousarray(records[name]) for name in self.types}


class _Arrow(Table):
    """Table that pyarrow reads. ``form``: parquet, ipc (an Arrow file) or stream."""

    def __init__(self, path: Path, form: str) -> None:
        super().__init__()
        self.path = path
        arrow = _pyarrow()
        import pyarrow.dataset
        import pyarrow.ipc

        try:
            self._source: Any = (
                pyarrow.ipc.open_stream(arrow.memory_map(os.fspath(path)))
                if form == "stream"
                else pyarrow.dataset.dataset(path, format=form)
            )
        except (arrow.ArrowInvalid, OSError) as error:
            raise FormatError(f"this is not a complete {_FORMS[form]}: {error}", path=path) from error
        self.types = {field.name: str(field.type) for field in self._source.schema}

    def pieces(self) -> Iterator[Columns]:
        try:
            batches = self._source
            if hasattr(batches, "to_batches"):
                batches = batches.to_batches(batch_size=PIECE, use_threads=False)
            for batch in batches:
                for start in range(0, batch.num_rows, PIECE):
                    piece = batch.slice(start, PIECE)
                    yield {name: _as_array(column) for name, column in zip(self.types, piece.columns, strict=True)}
        except (_pyarrow().ArrowException, OSError) as error:
            raise FormatError(f"the file is damaged: {error}", path=self.path) from error


def _as_array(column: Any) -> npt.NDArray[Any]:
    """A column as numpy has it: plain numbers where nothing is missing, else objects."""
    arrow = _pyarrow()
    types = arrow.types
    if types.is_timestamp(column.type) or types.is_duration(column.type):
        column = column.cast(arrow.int64())
    if column.null_count or not (types.is_integer(column.type) or types.is_floating(column.type)):
        out = np.empty(len(column), object)
        out[:] = column.to_pylist()
        return out
    found: npt.NDArray[Any] = column.to_numpy(zero_copy_only=False)
    return found


def _pyarrow() -> Any:
    try:
        import pyarrow
    except ImportError as error:
        raise MissingExtraError("reading Parquet and Arrow files", "pyarrow", "parquet") from error
    return pyarrow


class _Csv(Table):
    text = True

    def __init__(self, path: Path, *, compressed: bool) -> None:
        super().__init__()
        self.path = path
        self._compressed = compressed
        try:
            with self._opened() as file:
                names = next(csv.reader(file), [])
        except (OSError, EOFError, UnicodeDecodeError, csv.Error) as error:
            raise FormatError(f"this is not a CSV file: {error}", path=path) from error
        if not names or len(set(names)) != len(names):
            raise FormatError("the first line does not name the columns, each once", path=path, line=1)
        self.types = dict.fromkeys(names, "text")

    def _opened(self) -> io.TextIOWrapper:
        raw: Any = gzip.GzipFile(self.path) if self._compressed else io.FileIO(self.path)
        return io.TextIOWrapper(raw, encoding="utf-8", newline="")

    def pieces(self) -> Iterator[Columns]:
        lines: list[list[str]] = []
        try:
            with self._opened() as file:
                reader = csv.reader(file)
                next(reader)
                for line in reader:
                    if len(line) != len(self.types):
                        what = f"the line has {len(line)} fields, not {len(self.types)}"
                        raise FormatError(what, path=self.path, line=reader.line_num)
                    lines.append(line)
                    if len(lines) == PIECE:
                        yield self._columns(lines)
                        lines = []
        except (OSError, EOFError, UnicodeDecodeError, csv.Error) as error:
            raise FormatError(f"the file is damaged: {error}", path=self.path) from error
        if lines:
            yield self._columns(lines)

    def _columns(self, lines: list[list[str]]) -> Columns:
        columns = {}
        for name, values in zip(self.types, zip(*lines, strict=True), strict=True):
            column = np.empty(len(lines), object)
            column[:] = values
            columns[name] = column
        return columns
