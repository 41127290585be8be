"""Two files of an output side by side: the first record that differs."""

from __future__ import annotations

import csv
import gzip
import io
import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from strand.diff.runs import to_json
from strand.errors import ConfigurationError, FeedError, FormatError, UnknownFormatError
from strand.fixed import dataclass
from strand.lazy import imported
from strand.output.records import NO_FEED, NO_SEQUENCE

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
    """A file of records, by how it begins. Raises FeedError, UnknownFormatError."""
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
    return imported("pyarrow", "parquet", "reading Parquet and Arrow files")


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


@dataclass(frozen=True, slots=True)
class RecordDifference:
    """The first record in which two files differ.

    ``symbol``, ``number``, ``sequence`` and ``feed`` are that record's, of A or else of B, or None where it has none.

    Attributes:
        record: Its number from 0; None if the columns differ.
        symbol: Its symbol's name, or ``instrument_id`` where there are no names.
        number: Its field ``number``.
        sequence: The feed's sequence number.
        feed: The place of its feed among those that were merged.
        fields: By name, the values in A and B.
        only_in: ``"a"`` or ``"b"`` if just that file has the record: the other one ends, or goes on with the next
            record.
        columns: How the columns differ, in words.
    """

    record: int | None
    symbol: str | None = None
    number: int | str | None = None
    sequence: int | str | None = None
    feed: int | str | None = None
    fields: Mapping[str, tuple[Any, Any]] = field(default_factory=dict)
    only_in: str | None = None
    columns: tuple[str, ...] = ()

    def moved(self, before: int) -> RecordDifference:
        """Same difference for files that begin so many records later."""
        return self if self.record is None else replace(self, record=self.record + before)


def diff_records(a: str | os.PathLike[str], b: str | os.PathLike[str]) -> tuple[RecordDifference | None, int]:
    """Compares two files of records: npy, Parquet, Arrow IPC or CSV.

    Numbers are compared by their bits, and text as it stands: -0.0 is not 0.0. All NaN are the same.

    Args:
        a: The first file.
        b: The second file.

    Returns:
        The first difference, or None if there is none; and how many records were compared.

    Raises:
        FeedError: If a file cannot be read.
        ConfigurationError: If only one of both is CSV, whose text has no types.
    """
    tables = open_table(a), open_table(b)
    if tables[0].text != tables[1].text:
        raise ConfigurationError(f"{a} and {b}: CSV can be compared with CSV only, as its numbers are text")
    return diff_tables(*tables)


def diff_tables(a: Table, b: Table) -> tuple[RecordDifference | None, int]:
    """Compares two tables as ``diff_records`` compares files."""
    columns = tuple(_columns(a.types, b.types))
    if columns:
        return RecordDifference(None, columns=columns), 0
    one, two = _Reader(a), _Reader(b)
    done = 0
    while True:
        n = min(one.ready(), two.ready())
        if n == 0:
            break
        mine, other = one.take(n), two.take(n)
        differs = np.zeros(n, np.bool_)
        for name in mine:
            differs |= _differ(mine[name], other[name])
        if differs.any():
            i = int(np.flatnonzero(differs)[0])
            one.give_back({k: v[i:] for k, v in mine.items()})
            two.give_back({k: v[i:] for k, v in other.items()})
            return _difference(done + i, one, two), done + i
        done += n
    if one.ready() or two.ready():
        return _difference(done, one, two), done
    return None, done


def _columns(a: Mapping[str, str], b: Mapping[str, str]) -> Iterator[str]:
    for name in a:
        if name not in b:
            yield f"only A has {name!r}"
        elif a[name] != b[name]:
            yield f"{name!r} is {a[name]} in A, {b[name]} in B"
    for name in b:
        if name not in a:
            yield f"only B has {name!r}"
    if list(a) != list(b) and a == b:
        yield "the columns are in another order"


class _Reader:
    """A table's records, taken in any number."""

    def __init__(self, table: Table) -> None:
        self._pieces = table.pieces()
        self._have: Columns = {}

    def ready(self) -> int:
        """Records that can be taken; 0 at the end."""
        while not self._length():
            piece = next(self._pieces, None)
            if piece is None:
                return 0
            self._have = piece
        return self._length()

    def _length(self) -> int:
        return len(next(iter(self._have.values()))) if self._have else 0

    def take(self, n: int) -> Columns:
        """The next n records, at most as many as are ready."""
        taken = {name: column[:n] for name, column in self._have.items()}
        self._have = {name: column[n:] for name, column in self._have.items()}
        return taken

    def give_back(self, columns: Columns) -> None:
        """Puts records back in front of those that are ready."""
        have = self._have
        self._have = {n: np.concatenate([c, have[n]]) if n in have else c for n, c in columns.items()}

    def record(self) -> dict[str, Any] | None:
        """Takes one record, plain; None at the end."""
        if not self.ready():
            return None
        return {name: column[0] for name, column in self.take(1).items()}


def _differ(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Mask of the values that differ, shape (n,)."""
    if a.dtype.kind == "f" and a.dtype == b.dtype:
        bits = f"u{a.dtype.itemsize}"
        found = (a.view(bits) != b.view(bits)) & ~(np.isnan(a) & np.isnan(b))
    elif a.dtype.kind == "V":
        found = a.view(f"V{a.dtype.itemsize}") != b.view(f"V{b.dtype.itemsize}")
    elif a.dtype.kind == "O" or b.dtype.kind == "O":
        pairs = zip(a.tolist(), b.tolist(), strict=True)
        found = np.fromiter((_bits(x) != _bits(y) for x, y in pairs), np.bool_, len(a))
    else:
        found = a != b
    whole: npt.NDArray[np.bool_] = found.reshape(len(a), -1).any(axis=1)
    return whole


def _bits(value: Any) -> Any:
    """A value that is equal to another one where both are the same number by their bits; all NaN are the same."""
    if isinstance(value, float):
        return value.hex()
    return [_bits(each) for each in value] if isinstance(value, list) else value


def _difference(at: int, one: _Reader, two: _Reader) -> RecordDifference:
    a, b = one.record(), two.record()
    only: str | None = None
    if a is None or b is None:
        only = "b" if a is None else "a"
    else:
        next_a, next_b = one.record(), two.record()
        # If one file goes on with the other's present record, it left out the record between.
        if next_a is not None and _same(next_a, b) and not (next_b is not None and _same(a, next_b)):
            only = "a"
        elif next_b is not None and _same(a, next_b) and not (next_a is not None and _same(next_a, b)):
            only = "b"
    shown = b if only == "b" or a is None else a
    assert shown is not None
    if only is not None:
        fields = {
            n: (to_json(v) if only == "a" else None, to_json(v) if only == "b" else None) for n, v in shown.items()
        }
    else:
        assert a is not None
        assert b is not None
        fields = {n: (to_json(a[n]), to_json(b[n])) for n in a if not _same({n: a[n]}, {n: b[n]})}
    symbol = shown.get("symbol", shown.get("instrument_id"))
    number, sequence, feed = (shown.get(name) for name in ("number", "sequence", "feed"))
    return RecordDifference(
        at,
        None if symbol is None else str(to_json(symbol)),
        None if number in (None, "") else to_json(number),
        None if sequence in (None, NO_SEQUENCE, "") else to_json(sequence),
        None if feed in (None, NO_FEED, "") else to_json(feed),
        fields,
        only,
    )


def _same(a: Mapping[str, Any], b: Mapping[str, Any]) -> bool:
    return not any(_differ(_one(a[name]), _one(b[name]))[0] for name in a)


def _one(value: Any) -> npt.NDArray[Any]:
    """A value as a column of one."""
    array = np.asarray(value)[None] if isinstance(value, np.generic | np.ndarray) else np.empty(1, object)
    if array.dtype.kind == "O":
        array[0] = value
    return array
