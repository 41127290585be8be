"""The rows of a run, written to a file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from strand.errors import ConfigurationError
from strand.feeds.io.atomic_write import atomic_write
from strand.feeds.io.files import check_folder
from strand.output.files import check_path, write_csv
from strand.replaying.run_result import RunResult
from strand.tables.arrow import arrow_file
from strand.tables.columns import Column

__all__ = ["check_rows_path", "rows_with_names", "write_rows"]

#: Those that pyarrow writes.
_TABLES = (".parquet", ".arrow", ".feather")
ENDINGS = (".npy", ".csv", ".csv.gz", *_TABLES)


def check_rows_path(path: Path) -> None:
    """Raises ConfigurationError, before anything has run, when rows cannot be written there; MissingExtraError where
    that needs pyarrow."""
    if not path.name.endswith(ENDINGS):
        raise ConfigurationError("out", f"{path.name!r} must end in one of {', '.join(ENDINGS)}")
    check_folder("out", path)
    if path.is_dir():
        raise ConfigurationError("out", f"{path} is a folder")
    if path.name.endswith(_TABLES):
        check_path(path)


def rows_with_names(result: RunResult) -> npt.NDArray[Any]:
    """The rows of symbols that had ticks, with their names in front: fields ``symbol``, then the row's own. Of a run
    per day those of each day, with its number from 1 as ``day`` before all."""
    if result.days:
        tables = [_named(day.rows.array, day.symbols, number) for number, day in enumerate(result.days, 1)]
        widest = max((table.dtype for table in tables), key=lambda dtype: dtype.itemsize)
        return np.concatenate([table.astype(widest) for table in tables])
    at = np.flatnonzero(result.ticks_by_symbol)
    return _named(result.rows.array[at], [result.symbols[i] for i in at.tolist()])


def _named(rows: npt.NDArray[Any], names: Sequence[str], day: int | None = None) -> npt.NDArray[Any]:
    width = max((len(n) for n in names), default=1)
    of_day = [] if day is None else [("day", "<i8")]
    fields = [*of_day, ("symbol", f"U{width}"), *((n, rows.dtype[n]) for n in rows.dtype.names or ())]
    out = np.zeros(len(rows), np.dtype(fields))
    if day is not None:
        out["day"] = day
    out["symbol"] = names
    for name in rows.dtype.names or ():
        out[name] = rows[name]
    return out


def _shown(result: RunResult) -> dict[str, Column]:
    """Columns of ``rows_with_names``, in natural units; a field of several values gives ``bid_sizes_1`` and so on."""
    if result.days:
        tables = [day.rows.table(symbols=np.arange(len(day.symbols))) for day in result.days]
        number = np.repeat(np.arange(1, len(tables) + 1), [len(table["symbol"]) for table in tables])
        joined: Any = np.ma.concatenate  # which numpy does not type
        columns = {name: joined([table[name] for table in tables]) for name in tables[0]}
        columns = {"day": number, **columns}
    else:
        columns = result.rows.table(symbols=np.flatnonzero(result.ticks_by_symbol))
    found: dict[str, Column] = {}
    for name, column in columns.items():
        if column.ndim == 1:
            found[name] = column
        else:
            several = column.reshape(len(column), -1)
            found |= {f"{name}_{at + 1}": several[:, at] for at in range(several.shape[1])}
    return found


def _write_table(file: BinaryIO, path: Path, result: RunResult) -> None:
    import pyarrow as pa

    if result.days:
        parts = [day.rows.to_arrow() for day in result.days]
        numbers = [pa.array([number] * len(part), pa.int64()) for number, part in enumerate(parts, 1)]
        table = pa.concat_tables(part.add_column(0, "day", at) for part, at in zip(parts, numbers, strict=True))
    else:
        table = result.rows.of(np.flatnonzero(result.ticks_by_symbol)).to_arrow()
    writer = arrow_file(path.suffix, file, table.schema)
    writer.write_table(table)
    writer.close()


def write_rows(path: Path, result: RunResult, *, escape_formulas: bool = False) -> None:
    """Writes the rows: exact integers as ``.npy``, natural units as CSV, Parquet and Arrow. An undefined value is an
    empty cell in CSV. Parquet and Arrow have the types of ``rows.to_arrow()``.

    ``escape_formulas``: of CSV, as ``Dispatcher`` has it. The file appears under its name only when it is whole. Raises
    ConfigurationError for sizes whose unit nobody knows.
    """
    with atomic_write(path) as file:
        if path.name.endswith(".npy"):
            np.save(file, rows_with_names(result), allow_pickle=False)
            return
        if path.name.endswith(_TABLES):
            _write_table(file, path, result)
            return
        write_csv(file, _shown(result), escape_formulas=escape_formulas)
