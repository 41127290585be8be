"""Sinks that are files: Parquet, Arrow IPC, npy and CSV, by the ending of the name.

Parquet, Arrow and CSV are tables in natural units (:mod:`strand.tables`); npy has the exact integers.
The same records give the same bytes, however they come in batches.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
import numpy.typing as npt

from strand.errors import ConfigurationError, FeedError, called
from strand.feeds.io.atomic_write import atomic_write, partial_path
from strand.feeds.io.files import check_folder
from strand.feeds.write.npy import npy_header
from strand.lazy import imported
from strand.output.sinks import Sink
from strand.tables.arrow import arrow_array, arrow_file, taken_texts
from strand.tables.columns import FORMULA_STARTS, Column, Table

if TYPE_CHECKING:
    from strand.symbols import SymbolTable

#: Rows of a row group or record batch, and rows that are put into columns at a time: these fit into a cache.
GROUP_ROWS, PART_ROWS = 1 << 16, 1 << 12


class OutputFile:
    """A sink that writes records of a dtype to a file, in the format of its ending. The file has its name once it is
    closed.

    ``dtype``: with what its fields declare. ``size_unit``: what 1 in a size is worth, None: nobody knows.
    ``escape_formulas``: in CSV, text that a spreadsheet would run is written behind an apostrophe.

    Raises FeedError where the file cannot be created, or the disk does not take it. Raises ConfigurationError for a
    table with a size whose unit nobody knows. A method that raises has removed the file.
    """

    def __init__(
        self,
        path: Path,
        dtype: np.dtype[Any],
        names: SymbolTable,
        size_unit: float | None = 1.0,
        *,
        escape_formulas: bool = False,
    ) -> None:
        self._stack = ExitStack()
        self._path = path
        self._writer: Sink | None = None
        self._partial = partial_path(path)
        file = self._stack.enter_context(atomic_write(path, self._partial))
        with self._failing():
            _import_writer(_suffix(path))
            escapes = escape_formulas and _suffix(path) == ".csv"
            write = _csv_escaped if escapes else _WRITERS[_suffix(path)]
            self._writer = write(file, Table(dtype, size_unit), names)

    def write(self, batch: npt.NDArray[Any]) -> None:
        """Adds records, shape (n,)."""
        assert self._writer is not None
        with self._failing():
            self._writer.write(batch)

    def close(self) -> None:
        """Completes the file: now it has its name."""
        assert self._writer is not None
        with self._failing():
            self._writer.close()
        self._stack.close()

    def abort(self) -> None:
        """Leaves no file; what had the name before stays. Also where an interrupt came in the end of the file."""
        if self._writer is not None:
            self._writer.abort()
        with suppress(_Aborted):
            self._stack.__exit__(_Aborted, _Aborted(), None)
        self._partial.unlink(missing_ok=True)

    @contextmanager
    def _failing(self) -> Iterator[None]:
        """A block whose errors remove the file. Errors of the system become FeedErrors."""
        try:
            yield
        except OSError as error:
            self.abort()
            raise FeedError(f"cannot be written: {error.strerror or error}", path=self._path) from error
        except BaseException:
            self.abort()
            raise


class _Aborted(Exception):  # noqa: N818 - no error
    """Ends the block of ``atomic_write`` without a file."""


def _suffix(path: Path) -> str:
    return path.suffix.lower()


def check_path(path: Path) -> None:
    """Raises ConfigurationError for a name without a known ending or in no folder, MissingExtraError where pyarrow is
    needed and not installed."""
    check_folder("out", path)
    suffix = _suffix(path)
    if suffix not in _WRITERS:
        raise ConfigurationError("out", f"{called(path)} does not end in one of {', '.join(SUFFIXES)}")
    _import_writer(suffix)


def _import_writer(suffix: str) -> None:
    """Imports what writes files of an ending. Raises MissingExtraError."""
    if suffix in _MODULES:
        imported(*_MODULES[suffix], f"writing {suffix} files")


#: The part of pyarrow that writes files of an ending, and the extra that has it.
_MODULES: Mapping[str, tuple[str, str]] = {
    ".parquet": ("pyarrow.parquet", "parquet"),
    ".arrow": ("pyarrow.ipc", "parquet"),
    ".feather": ("pyarrow.ipc", "parquet"),
    ".csv": ("pyarrow.csv", "csv"),
}


def _packed(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Dtype with the same fields without gaps between them. numpy's own function for it imports its masked arrays."""
    return np.dtype([(name, dtype[name]) for name in dtype.names or ()])


class _Npy:
    """File of one structured array. Its header has the number of records, so it is written again at the end."""

    def __init__(self, file: BinaryIO, table: Table, names: SymbolTable) -> None:  # noqa: ARG002
        self._file = file
        self._dtype = _packed(table.plain)
        self._n = 0
        self._header()
        self._start = file.tell()

    def _header(self) -> None:
        self._file.write(npy_header(self._dtype, self._n))

    def write(self, batch: npt.NDArray[Any]) -> None:
        self._n += len(batch)
        if batch.dtype != self._dtype:
            packed = np.empty(len(batch), self._dtype)
            for name in self._dtype.names or ():
                packed[name] = batch[name]
            batch = packed
        self._file.write(batch.view(np.uint8).data)

    def close(self) -> None:
        self._file.seek(0)
        self._header()
        # numpy pads the header for more digits. A longer header would have overwritten records.
        assert self._file.tell() == self._start

    def abort(self) -> None:
        """Keeps no records that would have to be discarded."""


class _Arrow:
    """A file that pyarrow writes, in tables of GROUP_ROWS: they do not depend on how records came in batches."""

    def __init__(
        self,
        file: BinaryIO,
        table: Table,
        names: SymbolTable,
        make: Callable[[BinaryIO, Any], Any],
    ) -> None:
        self._pa = import_module("pyarrow")
        self._table = table
        fields = table.plain
        self._columns = {name: np.empty(GROUP_ROWS, fields[name].newbyteorder("=")) for name in fields.names or ()}
        self._symbols = _Symbols(self._pa, names)
        self._n = 0
        self._writer = make(file, self._group().schema)

    def _group(self) -> Any:
        """The records that wait, as an Arrow table."""
        records = {name: column[: self._n] for name, column in self._columns.items()}
        found: dict[str, Any] = {}
        for name, column in self._table.shown(records).items():
            if name == "instrument_id":
                found["symbol"] = self._symbols.of(records[name])
            found[name] = arrow_array(self._pa, column)
        return self._pa.Table.from_arrays(list(found.values()), names=list(found))

    def write(self, batch: npt.NDArray[Any]) -> None:
        at = 0
        while at < len(batch):
            n = min(len(batch) - at, GROUP_ROWS - self._n, PART_ROWS)
            for name, column in self._columns.items():
                column[self._n : self._n + n] = batch[name][at : at + n]
            self._n += n
            at += n
            if self._n == GROUP_ROWS:
                self._flush()

    def _flush(self) -> None:
        if self._n:
            self._writer.write_table(self._group())
        self._n = 0

    def close(self) -> None:
        self._flush()
        self._writer.close()

    def abort(self) -> None:
        """Closes the writer: otherwise a Parquet writer would write the end of the file when it is garbage
        collected."""
        if hasattr(self._writer, "is_open"):
            self._writer.is_open = False


class _Symbols:
    """The names of symbols as Arrow arrays: of a category, whose words are those of the array's symbols, or of text.

    pyarrow's own ways from one to the other import its functions for computing, which takes longer than the rest of it.
    """

    def __init__(self, pa: Any, table: SymbolTable) -> None:
        self._pa = pa
        self._table = table
        #: By key: of those that have a name. Others may have one in the next batch.
        self._named: dict[int, str] = {}

    def of(self, keys: npt.NDArray[np.uint32]) -> Any:
        """The names for keys of shape (n,)."""
        is_here = np.zeros(int(keys.max(initial=0)) + 1, bool)
        is_here[keys] = True
        known = self._named
        words = [known.get(key) or self._name(key) for key in np.flatnonzero(is_here).tolist()] if len(keys) else []
        places = (np.cumsum(is_here, dtype=np.int32) - 1)[keys]
        return taken_texts(self._pa, words, places)

    def _name(self, key: int) -> str:
        name = self._table.name(key)
        if self._table.has_name(key):
            self._named[key] = name
        return name


def _tables(ending: str) -> Callable[[BinaryIO, Table, SymbolTable], Sink]:
    return lambda file, table, names: _Arrow(file, table, names, partial(arrow_file, ending))


def _csv(file: BinaryIO, table: Table, names: SymbolTable, make: Callable[[BinaryIO, Any], Any] | None = None) -> Sink:
    wide = [name for name in table.plain.names or () if table.plain[name].ndim and table.names.get(name) == (name,)]
    if wide:
        raise ConfigurationError("out", f"field {wide[0]!r} is an array, which CSV cannot hold: use .parquet or .npy")
    return _Arrow(file, table, names, make or _Csv)


def _csv_escaped(file: BinaryIO, table: Table, names: SymbolTable) -> Sink:
    return _csv(file, table, names, _EscapedCsv)


def write_csv(file: BinaryIO, columns: Mapping[str, Column], *, escape_formulas: bool) -> None:
    """Writes a table of numpy's columns, each of shape (n,), without pyarrow. An undefined value is an empty cell."""
    import csv

    text = io.TextIOWrapper(file, encoding="utf-8", newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    cells = [_cells(column, escape_formulas=escape_formulas) for column in columns.values()]
    writer.writerows(zip(*cells, strict=True))
    text.flush()
    text.detach()


def _cells(column: Column, *, escape_formulas: bool) -> list[Any]:
    """Values for CSV: None, an empty cell, where one is undefined; times in UTC as ISO 8601 writes them."""
    if column.dtype.kind != "M":
        found: list[Any] = column.tolist()
        if not escape_formulas or column.dtype.kind in "iufb":
            return found
        return [
            f"'{cell}" if isinstance(cell, str) and cell.startswith(tuple(FORMULA_STARTS)) else cell for cell in found
        ]
    return [None if np.isnat(at) else f"{at}Z" for at in np.asarray(column)]


class _Csv:
    """Times are text in ISO 8601, in UTC. pyarrow's own conversion with a zone takes six times as long."""

    def __init__(self, to: BinaryIO, schema: Any) -> None:
        self._pa = pa = import_module("pyarrow")
        of = {field.name: pa.string() if pa.types.is_timestamp(field.type) else field.type for field in schema}
        self._writer = pa.csv.CSVWriter(to, pa.schema(list(of.items())))

    def write_table(self, table: Any) -> None:
        times = self._pa.types.is_timestamp
        columns = [self._time(column) if times(column.type) else column for column in table.columns]
        self._writer.write_table(self._pa.Table.from_arrays(columns, names=table.column_names))

    def _time(self, column: Any) -> Any:
        from pyarrow import compute

        text = column.cast(self._pa.timestamp("ns")).cast(self._pa.string())
        return compute.binary_join_element_wise(compute.binary_replace_slice(text, 10, 11, "T"), "Z", "")

    def close(self) -> None:
        self._writer.close()


class _EscapedCsv(_Csv):
    """No spreadsheet runs a text cell."""

    def write_table(self, table: Any) -> None:
        texts = self._pa.types.is_string
        columns = [self._escaped(column) if texts(column.type) else column for column in table.columns]
        super().write_table(self._pa.Table.from_arrays(columns, schema=table.schema))

    def _escaped(self, column: Any) -> Any:
        from pyarrow import compute

        runs = compute.match_substring_regex(column, f"^[{re.escape(FORMULA_STARTS)}]")
        return compute.if_else(runs, compute.binary_join_element_wise("'", column, ""), column)


_WRITERS: Mapping[str, Callable[[BinaryIO, Table, SymbolTable], Sink]] = {
    **{ending: _tables(ending) for ending in (".parquet", ".arrow", ".feather")},
    ".npy": _Npy,
    ".csv": _csv,
}
SUFFIXES = tuple(_WRITERS)
