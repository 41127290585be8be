"""Columns as pyarrow's arrays: the one place where a quantity gets its Arrow type.

| column | type |
|---|---|
| moment | timestamp[ns, UTC] |
| price | double, decimal128(19, 9) or int64, as ``prices`` says |
| symbol, letters and other text | string |
| sub-array | list of fixed size |
| any other number | its own |

Arrays are made by their buffers. pyarrow's own ways first import pandas, where that is installed, which takes a third
of a second; and its casts import ``pyarrow.compute``, which takes 40 ms.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, BinaryIO, Final

import numpy as np
import numpy.typing as npt

from strand.errors import ConfigurationError
from strand.lazy import imported
from strand.tables.columns import PRICE_DIGITS, Shown, ShownColumn, SymbolNames

#: A whole price is an i8, which has up to 19 digits.
DECIMAL_DIGITS: Final = 19
#: Bytes of text in a column: more do not fit its offsets.
MOST_TEXT: Final = 2**31 - 1


def arrow_table(columns: Mapping[str, ShownColumn]) -> Any:
    """A pyarrow.Table. A field is nullable where its declaration says that it may be undefined. Raises
    MissingExtraError, and ConfigurationError for more text than a column holds."""
    arrow = imported("pyarrow", "parquet")
    arrays = [arrow_array(arrow, column) for column in columns.values()]
    fields = [
        arrow.field(name, array.type, nullable=isinstance(column, Shown) and column.none is not None)
        for (name, column), array in zip(columns.items(), arrays, strict=True)
    ]
    return arrow.Table.from_arrays(arrays, schema=arrow.schema(fields))


def arrow_file(ending: str, file: BinaryIO, schema: Any) -> Any:
    """The writer of an open file ending in ``.parquet``, ``.arrow`` or ``.feather``: it has ``write_table`` and
    ``close``. Raises MissingExtraError."""
    arrow = imported("pyarrow", "parquet", f"writing {ending} files")
    if ending != ".parquet":
        return imported("pyarrow.ipc", "parquet").new_file(file, schema)
    # A market's numbers repeat too seldom for dictionaries, which take a third of the time, and more space.
    # Neighbouring numbers are close: to write differences takes less time and less space.
    texts = [field.name for field in schema if arrow.types.is_string(field.type)]
    whole = (arrow.types.is_integer, arrow.types.is_timestamp)
    near = {field.name: "DELTA_BINARY_PACKED" for field in schema if any(kind(field.type) for kind in whole)}
    writer = imported("pyarrow.parquet", "parquet").ParquetWriter
    return writer(file, schema, compression="zstd", use_dictionary=texts, column_encoding=near)


def arrow_array(arrow: Any, column: ShownColumn) -> Any:
    """A column as an Arrow array; what is undefined is null. ``arrow``: the package pyarrow."""
    if isinstance(column, SymbolNames):
        places, words = column.coded()
        return taken_texts(arrow, words, places)  # polars joins a category with no column of text
    values, none, is_decimal = column
    flat = values.reshape(-1)
    valid = None if none is None else arrow.py_buffer(np.packbits(~none.reshape(-1), bitorder="little"))
    if is_decimal:
        found = _decimals(arrow, flat, valid)
    elif flat.dtype.kind == "U":
        letters = _letters(arrow, flat, valid)
        found = text_array(arrow, flat.tolist(), valid) if letters is None else letters
    elif flat.dtype.kind == "b":
        bits = arrow.py_buffer(np.packbits(flat, bitorder="little"))
        found = arrow.Array.from_buffers(arrow.bool_(), len(flat), [valid, bits])
    else:
        found = _numbers(arrow, flat, valid)
    for size in reversed(values.shape[1:]):
        found = arrow.FixedSizeListArray.from_arrays(found, size)
    return found


def text_array(arrow: Any, words: Sequence[str], valid: Any = None) -> Any:
    """An Arrow array of text. ``valid``: a buffer of bits, None: all are."""
    packed = [word.encode() for word in words]
    ends = _ends([len(word) for word in packed])
    return arrow.StringArray.from_buffers(len(packed), arrow.py_buffer(ends), arrow.py_buffer(b"".join(packed)), valid)


def _ends(sizes: npt.ArrayLike) -> npt.NDArray[np.int32]:
    """The offsets of texts of so many bytes, which have 32 bits. Raises ConfigurationError where these are too few."""
    ends = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
    if ends[-1] > MOST_TEXT:
        raise ConfigurationError(
            f"a column has {int(ends[-1]):,} bytes of text, and one of Arrow holds {MOST_TEXT:,}: take fewer rows or "
            "symbols at a time"
        )
    return ends.astype(np.int32)


def taken_texts(arrow: Any, words: Sequence[str], places: npt.NDArray[np.int32]) -> Any:
    """An Arrow array of text: the words at ``places``, of shape (n,)."""
    packed = np.array([word.encode() for word in words] or [b""], np.bytes_)
    sizes = np.array([len(word.encode()) for word in words] or [0], np.int32)
    taken = sizes[places]
    ends = _ends(taken)
    letters = packed[places].view(np.uint8).reshape(len(places), packed.itemsize)
    text = letters[np.arange(packed.itemsize) < taken[:, None]]
    return arrow.StringArray.from_buffers(len(places), arrow.py_buffer(ends), arrow.py_buffer(text))


def _letters(arrow: Any, values: npt.NDArray[np.str_], valid: Any) -> Any:
    """Texts of at most one ASCII letter, without a call each; None: there are others."""
    codes = np.ascontiguousarray(values).view(np.uint32) if values.dtype == np.dtype("<U1") else None
    if codes is None or codes.max(initial=0) > 127:
        return None
    ends = _ends(codes != 0)
    letters = codes[codes != 0].astype(np.uint8)
    return arrow.StringArray.from_buffers(len(codes), arrow.py_buffer(ends), arrow.py_buffer(letters), valid)


def _numbers(arrow: Any, values: npt.NDArray[Any], valid: Any) -> Any:
    """Arrow array over the same memory, where it is in one piece and in the machine's order of bytes."""
    values = np.ascontiguousarray(values, values.dtype.newbyteorder("="))
    kind = arrow.timestamp("ns", "UTC") if values.dtype.kind == "M" else arrow.from_numpy_dtype(values.dtype)
    return arrow.Array.from_buffers(kind, len(values), [valid, arrow.py_buffer(values)])


def _decimals(arrow: Any, values: npt.NDArray[Any], valid: Any) -> Any:
    """A decimal is an integer of 128 bits: the lower half is the price, the upper half its sign."""
    halves = np.empty((len(values), 2), "<i8")
    halves[:, 0] = values
    halves[:, 1] = halves[:, 0] >> 63
    kind = arrow.decimal128(DECIMAL_DIGITS, PRICE_DIGITS)
    return arrow.Array.from_buffers(kind, len(values), [valid, arrow.py_buffer(halves)])
