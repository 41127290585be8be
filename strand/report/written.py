"""Records of an output that went to a file, read again: of a few symbols, and the columns that matter.

Parquet, Arrow and CSV have natural units, npy exact integers.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from strand.errors import FeedError, MissingExtraError

__all__ = ["columns_of", "written_records"]

#: pyarrow's name of an ending's format; npy is numpy's own.
_FORMATS = {".parquet": "parquet", ".arrow": "ipc", ".feather": "ipc", ".csv": "csv"}


def columns_of(path: Path) -> frozenset[str]:
    """The names of a file's columns. Raises FeedError where it cannot be read, MissingExtraError."""
    try:
        if path.suffix.lower() == ".npy":
            return frozenset(np.load(path, mmap_mode="r", allow_pickle=False).dtype.names or ())
        return frozenset(_dataset(path).schema.names)
    except (OSError, ValueError) as error:
        raise FeedError(f"cannot be read again: {error}", path=path) from error


def written_records(path: Path, columns: Sequence[str], keys: Sequence[int]) -> npt.NDArray[Any]:
    """The records of the symbols with these ``instrument_id``, in the file's order: some columns, shape (n,).

    Raises FeedError where the file cannot be read, MissingExtraError.
    """
    try:
        stat = path.stat()
        return _read(path, stat.st_mtime_ns, stat.st_size, tuple(columns), tuple(keys))
    except (OSError, ValueError) as error:
        raise FeedError(f"cannot be read again: {error}", path=path) from error


# A figure asks for its height first, and a page for what there is to draw.
@lru_cache(maxsize=4)
def _read(path: Path, _mtime: int, _size: int, columns: tuple[str, ...], keys: tuple[int, ...]) -> npt.NDArray[Any]:
    if path.suffix.lower() == ".npy":
        records = np.load(path, mmap_mode="r", allow_pickle=False)
        chosen = np.flatnonzero(np.isin(records["instrument_id"], keys))
        found = {name: records[name][chosen] for name in columns}
    else:
        import pyarrow.compute

        wanted = pyarrow.compute.field("instrument_id").isin(list(keys))
        table = _dataset(path).to_table(columns=list(columns), filter=wanted)
        found = {name: _numbers(table.column(name).to_numpy()) for name in columns}
    out = np.empty(len(next(iter(found.values()))), [(name, values.dtype) for name, values in found.items()])
    for name, values in found.items():
        out[name] = values
    out.flags.writeable = False
    return out


def _numbers(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Times as i8 in ns."""
    return values.astype("<M8[ns]").view("<i8") if values.dtype.kind == "M" else values


def _dataset(path: Path) -> Any:
    try:
        import pyarrow.dataset
    except ImportError as error:
        raise MissingExtraError(f"reading {path.name}", "pyarrow", "parquet") from error
    return pyarrow.dataset.dataset(path, format=_FORMATS[path.suffix.lower()])
