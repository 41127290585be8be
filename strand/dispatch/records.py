"""Records as the engine takes them: contiguous records of one dtype, or an error that names the field; and a look at
what comes, for orders that handlers take as plain ticks."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from strand.errors import ConfigurationError, RecordTypeError
from strand.handlers import Handler
from strand.output.records import NO_SEQUENCE
from strand.ticks import FIELDS, KIND_ORDER, TICK, named
from strand.validate import mapping, shown

if TYPE_CHECKING:
    from strand.feeds.mapping.records import ArrayColumns

#: Bytes of the largest record: a block of the engine without its header.
LARGEST_RECORD = 1984
_EIGHT_BYTES = ("<i8", "<u8")


class RecordReader:
    """Turns what users publish into records of one dtype.

    ``dtype`` is the records' structured dtype, ``key`` its u32 field with the symbol's index. With ``columns`` (by tick
    field, the fields of the arrays that will come) and ``options`` arrays are converted. Raises ConfigurationError.
    """

    def __init__(
        self,
        dtype: Any,
        key: str,
        columns: Mapping[str, str | Mapping[str, Any] | None] | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        try:
            self.dtype = np.dtype(dtype)
        except (TypeError, ValueError, SyntaxError) as error:
            raise ConfigurationError("dtype", f"{shown(dtype)} is not a dtype: {error}") from error
        self.key = key
        self.key_offset = _key_offset(self.dtype, key)
        self.columns = _columns(columns, options, self.dtype)

    @property
    def sequence_offset(self) -> int | None:
        """Offset of the field ``sequence`` of 64 bits, or of its lower half in a tick, if there is one."""
        return self._offset("sequence_low") if self.dtype == TICK else self._offset("sequence", *_EIGHT_BYTES)

    @property
    def sequence_high(self) -> int:
        """Offset of the sequence's further bits; 0 where one field holds it."""
        return (self._offset("sequence_high") or 0) if self.dtype == TICK else 0

    def sequences(self, records: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
        """The records' sequences, shape (n,); ``NO_SEQUENCE`` where they have no such field."""
        if self.sequence_offset is None:
            return np.full(len(records), NO_SEQUENCE, np.int64)
        return named(records)["sequence"].astype(np.int64)

    @property
    def time_offset(self) -> int | None:
        """Offset of the field ``ts_recv`` of 64 bits, if there is one. It is read as signed."""
        return self._offset("ts_recv", *_EIGHT_BYTES)

    def _offset(self, name: str, *dtypes: str) -> int | None:
        assert self.dtype.fields is not None
        found = self.dtype.fields.get(name)
        return int(found[1]) if found is not None and (not dtypes or found[0] in map(np.dtype, dtypes)) else None

    @property
    def rows_read(self) -> int:
        """Rows of arrays that were converted, refused ones too: where no column gives a sequence, the next one's is one
        more."""
        return 0 if self.columns is None else self.columns.rows

    @rows_read.setter
    def rows_read(self, rows: int) -> None:
        if self.columns is not None:
            self.columns.rows = rows

    def read(self, records: npt.NDArray[Any] | np.void) -> npt.NDArray[Any]:
        """Contiguous records, shape (n,): the array itself where that is possible. Raises RecordTypeError."""
        array = np.asarray(records)
        if array.ndim == 0:
            array = array.reshape(1)
        if array.ndim != 1:
            raise RecordTypeError(f"records: the array has the shape {array.shape}; give one of shape (n,)")
        if array.dtype != self.dtype:
            if self.columns is None:
                raise RecordTypeError(_difference(array.dtype, self.dtype))
            array = self._converted(array, self.columns)
        return np.ascontiguousarray(array)

    def _converted(self, array: npt.NDArray[Any], columns: ArrayColumns) -> npt.NDArray[Any]:
        from strand.feeds.mapping.records import BadRecordError

        try:
            return columns.ticks(array)
        except ConfigurationError as error:
            raise RecordTypeError(str(error)) from None
        except BadRecordError as error:
            raise RecordTypeError(f"record {error.index}: {error}") from None


def _key_offset(dtype: np.dtype[Any], key: str) -> int:
    if dtype.fields is None:
        raise ConfigurationError("dtype", f"{dtype} has no fields; give a structured dtype with a u32 field {key!r}")
    if dtype.hasobject or dtype.itemsize > LARGEST_RECORD:
        what = "Python objects" if dtype.hasobject else f"{dtype.itemsize} bytes"
        raise ConfigurationError(
            "dtype", f"a record is plain memory of at most {LARGEST_RECORD} bytes, this one has {what}"
        )
    if not isinstance(key, str) or key not in dtype.fields:
        raise ConfigurationError(
            "key", f"the records' dtype has no field {key!r}; its fields: {', '.join(dtype.fields)}"
        )
    kind, offset = dtype.fields[key][:2]
    if kind != np.dtype("<u4"):
        raise ConfigurationError("key", f"field {key!r} is {kind}, but a symbol's index is a u32 ('<u4')")
    return int(offset)


def _columns(
    columns: Mapping[str, str | Mapping[str, Any] | None] | None,
    options: Mapping[str, Any] | None,
    dtype: np.dtype[Any],
) -> ArrayColumns | None:
    if columns is None:
        if options:
            raise ConfigurationError("column_options", "give columns= too, which says where a tick's fields come from")
        return None
    from strand.feeds.mapping.records import ArrayColumns

    if dtype != TICK:
        raise ConfigurationError("columns", "they turn arrays into ticks, so leave dtype out")
    for to in mapping("columns", columns, "{'price': 'px'}"):
        if to not in (*FIELDS, "bid_price", "bid_size", "ask_price", "ask_size"):
            raise ConfigurationError("columns", f"{to!r} is not a field of a tick; those are {', '.join(FIELDS)}")
    return ArrayColumns(columns, options or {})


def _difference(given: np.dtype[Any], wanted: np.dtype[Any]) -> str:
    """Fault of a dtype, by the first field that differs."""
    assert wanted.fields is not None
    here, there = given.fields, wanted.fields
    hint = "convert the array, or make the dispatcher with dtype=, or with columns= to map names"
    if here is None:
        return f"records: the array is {given}, not a structured array with the fields {', '.join(there)}; {hint}"
    for name, about in there.items():
        if name not in here:
            return f"records: field {name!r} ({about[0]}) is missing; {hint}"
        if here[name][0] != about[0]:
            return f"records: field {name!r} is {here[name][0]}, not {about[0]}; {hint}"
    extra = [name for name in here if name not in there]
    if extra:
        return f"records: field {extra[0]!r} is not one of the dispatcher's records; {hint}"
    for name, about in there.items():
        if here[name][1] != about[1]:
            return f"records: field {name!r} is at byte {here[name][1]}, not {about[1]}; {hint}"
    return f"records: a record has {given.itemsize} bytes, not {wanted.itemsize}; {hint}"


class OrderWatch:
    """``count``: how many so far. The first ones are a RuntimeWarning."""

    def __init__(self, handlers: Sequence[Handler], handler_of_symbol: npt.NDArray[np.uint16]) -> None:
        taken = [any(part.takes_ticks_as_plain for part in handler.singles) for handler in handlers]
        self._names: Final = ", ".join(h.name for h, plain in zip(handlers, taken, strict=True) if plain)
        self._of_symbol = np.array(taken)[handler_of_symbol]
        self._lock = threading.Lock()
        self.is_needed: Final = any(taken)
        self.count = 0

    def look(self, ticks: npt.NDArray[Any], *, stacklevel: int) -> None:
        """Counts those among ticks that are about to be handled. ``stacklevel``: as warnings.warn has it, from the
        caller on."""
        keys = ticks["instrument_id"][ticks["kind"] == KIND_ORDER]
        found = int(np.count_nonzero(self._of_symbol[keys[keys < len(self._of_symbol)]]))
        if not found:
            return
        with self._lock:
            first, self.count = self.count == 0, self.count + found
        if first:
            warnings.warn(
                f"feed: single orders reach {self._names}, and without feed= their fills have no price: give "
                "feed='orders', or what the feed's info.ticks says; give feed='plain' if this is right",
                RuntimeWarning,
                stacklevel=stacklevel + 1,
            )
