"""Arrow's columns as numpy's arrays and back, by their buffers.

pyarrow's own ways (``to_numpy``, ``fill_null``, ``pyarrow.array``) import pandas where there is one, which takes longer
than reading a million rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["mask_of", "nulls", "numbers", "rows_of", "times_of"]


def numbers(column: Any, null: float = 0) -> npt.NDArray[Any]:
    """A column of integers or floats, with ``null`` where it holds none. Read only, for where there are no nulls it is
    not copied."""
    dtype = np.dtype(column.type.to_pandas_dtype())
    none, data = nulls(column), column.buffers()[1]
    if not len(column) or data is None:
        return np.full(len(column), null, dtype)
    values = np.frombuffer(data, dtype, len(column), column.offset * dtype.itemsize)
    if none is None:
        return values
    return np.where(none, dtype.type(null), values)


def times_of(column: Any) -> npt.NDArray[np.int64]:
    """The numbers of a column of timestamps without nulls, in its own unit. Read only, not copied."""
    data = column.buffers()[1]
    if not len(column) or data is None:
        return np.zeros(len(column), np.int64)
    return np.frombuffer(data, np.int64, len(column), column.offset * 8)


def nulls(column: Any) -> npt.NDArray[np.bool_] | None:
    """Mask of the rows that hold null; None where none does."""
    import pyarrow as pa

    if not column.null_count:
        return None
    none: npt.NDArray[np.bool_] = numbers(column.is_null().cast(pa.uint8())).view(np.bool_)
    return none


def rows_of(rows: npt.NDArray[np.intp]) -> Any:
    """Numbers of rows for Arrow to take."""
    import pyarrow as pa

    return pa.Array.from_buffers(pa.int64(), len(rows), [None, pa.py_buffer(np.ascontiguousarray(rows, np.int64))])


def mask_of(kept: npt.NDArray[np.bool_]) -> Any:
    """Arrow's mask of the rows to keep."""
    import pyarrow as pa

    return pa.Array.from_buffers(pa.bool_(), len(kept), [None, pa.py_buffer(np.packbits(kept, bitorder="little"))])
