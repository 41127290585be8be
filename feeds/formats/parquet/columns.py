"""Arrow's columns as columns that fields of ticks are made of, and the key of each row.

pyarrow's own ways (``to_numpy``, ``fill_null``, ``pyarrow.array``) import pandas where there is one, which takes longer
than reading a million rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from strand.binding.columns import look_up
from strand.errors import ConfigurationError, FormatError
from strand.feeds.mapping.columns import Columns
from strand.feeds.mapping.values import NS_IN, Array, Column, Units, decimal_units, integer_units, unusable
from strand.symbols import NAME_BYTES, check_name, name_problem

__all__ = ["Keys", "arrow_column", "mask_of", "nulls_of", "numbers", "rows_of", "times_of"]


def numbers(column: Any, null: float = 0) -> npt.NDArray[Any]:
    """A column of integers or floats, with ``null`` where it holds none. Read only, for where there are no nulls it is
    not copied."""
    dtype = np.dtype(column.type.to_pandas_dtype())
    none, data = nulls_of(column), column.buffers()[1]
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


def nulls_of(column: Any) -> npt.NDArray[np.bool_] | None:
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


def arrow_column(column: Any) -> Column:
    """A column of a record batch, without a copy where it is of numbers without nulls."""
    import pyarrow as pa
    import pyarrow.types as kinds

    kind, nulls = column.type, nulls_of(column)

    def show(row: int) -> str:
        try:
            return repr(column[row].as_py())
        except (ValueError, OverflowError):  # a time that no datetime can be
            return str(getattr(column[row], "value", kind))

    def made(what: Any, values: Array, **more: Any) -> Column:
        return Column(what, str(kind), nulls, show, values, **more)

    none = np.zeros(0, np.int64)
    if kinds.is_integer(kind):
        return made("integer", numbers(column))
    if kinds.is_floating(kind) or kinds.is_boolean(kind):
        real = kinds.is_floating(kind)
        return made("float", numbers(column, null=np.nan)) if real else made("bool", numbers(column.cast(pa.uint8())))
    if kinds.is_timestamp(kind):
        values = times_of(column) if nulls is None else numbers(column.cast(pa.int64()))
        return made("time", values, ns=NS_IN[kind.unit], local=kind.tz is None)
    if kinds.is_decimal(kind):
        narrow = column
        if not kinds.is_decimal128(kind):
            try:
                narrow = column.cast(pa.decimal128(38, kind.scale))
            except pa.ArrowInvalid as error:
                return made("other", none, problem=f"has decimals too wide to be read ({error})")
        return made("decimal", none, units=lambda power: _from_decimals(narrow, power))
    if getattr(kinds, "is_string_view", lambda _: False)(kind):
        column = column.cast(pa.string())
        kind = column.type
    if any(is_kind(kind) for is_kind in (kinds.is_string, kinds.is_large_string, kinds.is_binary, kinds.is_dictionary)):
        return made("text", none, words=lambda: _words(column))
    return made("other", none)


def _from_decimals(column: Any, power: int) -> Units:
    filled = column.fill_null(Decimal(0)) if column.null_count else column
    if filled.type.scale >= 0:
        words = np.frombuffer(filled.buffers()[1], np.int64, 2 * len(filled), 16 * filled.offset).reshape(-1, 2)
        low, high = np.ascontiguousarray(words[:, 0]), words[:, 1]
        if (high == low >> 63).all():
            return integer_units(low, power - filled.type.scale)
    return decimal_units(np.array([str(value) for value in filled.to_pylist()]), power)


def _words(column: Any) -> tuple[Array, list[Any]]:
    """Indices into the texts of a column, and the texts. Where a text of the dictionary is not UTF-8, the texts that no
    row uses are None. Raises UnicodeDecodeError where a row uses such a text."""
    import pyarrow.types as kinds

    column = column if kinds.is_dictionary(column.type) else column.dictionary_encode()
    try:
        found: list[Any] = column.dictionary.to_pylist()
    except UnicodeDecodeError:
        used = column.indices.unique().drop_null()
        found = [None] * len(column.dictionary)
        for index, value in zip(used.to_pylist(), column.dictionary.take(used).to_pylist(), strict=True):
            found[index] = value
    return numbers(column.indices).astype(np.intp, copy=False), found


_NO_KEY: Final = np.iinfo(np.uint32).max
# Numbers below it are looked up in a table, of at most 4 MiB.
_SMALL: Final = 1 << 20

_NO_SYMBOL: Final = "holds null where a symbol must be"
_NO_NAME: Final = (
    f"holds a value that is not a symbol's name, which is UTF-8 text of at most {NAME_BYTES} bytes without control "
    "characters"
)

Mask = npt.NDArray[np.bool_]
ByRow = npt.NDArray[np.uint32]
Rows = npt.NDArray[np.uint32]
_NO_ROWS: Final[Rows] = np.empty(0, np.uint32)


class Keys:
    """Keys by row, and the names that they stand for.

    ``names``: those a file of strand's own keeps; its ``instrument_id`` is then the key. ``one``: the symbol of all
    rows. ``keeps``: whether a symbol is wanted. ``schema``: the file's.

    Values are looked up by Arrow and numpy: Python sees those alone that are new. ``text``: the column, if it is of
    text and for symbols alone, so that it may as well come as a dictionary.
    """

    def __init__(
        self,
        columns: Columns,
        *,
        names: Sequence[str] | None,
        one: str | None,
        keeps: Callable[[str], bool],
        max_symbols: int,
        path: str | Path,
        schema: Any,
    ) -> None:
        self.problem = _NO_SYMBOL
        self._keeps = keeps
        self._nameless: list[int] = []  # keys of texts that are no symbol's name
        self._wanted: Mask = np.zeros(0, np.bool_)
        self._all_wanted = True
        # ``_known``: pieces of an Arrow array of all values met so far, in the order of their keys. ``_of_small``: the
        # keys of values that are small numbers. Then the latest dictionary, its values if they can be names, and their
        # keys by place.
        self._known: list[Any] = []
        self._of_small: ByRow = np.zeros(0, np.uint32)
        self._dictionary: Any = None
        self._values: Any = None
        self._of_place: ByRow = np.zeros(0, np.uint32)
        self._fixed: npt.NDArray[np.bool_] | None = None
        self._kind = "one"
        self.column = ""
        self.max_symbols = max_symbols
        self.names: list[str] = []
        if one is not None:
            if columns.of.get("symbol") is not None:
                raise ConfigurationError("symbol", "the file has a column of symbols; leave it out by columns")
            self.names, self.max_symbols = [check_name("symbol", one)], 1
        elif names is not None and "symbol" not in columns.of:
            self._kind, self.column = "own", columns.of.get("instrument_id", "")
            self.names, self.max_symbols = list(names), max(1, len(names))
            self.problem = f"holds a key beyond the file's {len(names)} symbols"
            if not self.column:
                raise FormatError("its column 'instrument_id' is missing", path=path)
        elif "symbol" in columns.of:
            self._kind, self.column = "symbol", columns.of["symbol"]
        elif "instrument_id" in columns.of:
            self._kind, self.column = "number", columns.of["instrument_id"]
        else:
            raise FormatError(
                "no column looks like symbols: say by columns={'symbol': NAME} which one it is, or name the one symbol "
                "of the file by symbol=",
                path=path,
            )
        self._fixed = np.fromiter(map(keeps, self.names), np.bool_, len(self.names))
        kind = schema.field(self.column).type if self.column else None
        self._by_rows = kind is not None and not _is_dictionary(kind)
        alone = list(columns.of.values()).count(self.column) == 1
        self.text = self.column if self._kind == "symbol" and alone and _is_text(kind) else None

    def of(self, batch: Any) -> tuple[ByRow, Mask | None, Mask | None]:
        """Keys of a record batch's rows, which rows are wanted (None: all) and which have no key (None: none).

        Raises TypeError for a column of another kind, OverflowError for more symbols than there is room for.
        """
        if self._kind == "one":
            wanted = None if self._keeps(self.names[0]) else np.zeros(batch.num_rows, np.bool_)
            return np.zeros(batch.num_rows, np.uint32), wanted, None
        column = batch.column(self.column)
        bad = nulls_of(column)
        if self._kind == "own":
            return self._own(column, bad)
        return self._told(column, bad)

    def _own(self, column: Any, bad: Mask | None) -> tuple[ByRow, Mask | None, Mask | None]:
        import pyarrow.types as kinds

        if not kinds.is_uint32(column.type):
            raise TypeError(f"column {self.column!r} is {column.type}, not uint32")
        keys = numbers(column)
        beyond = keys >= len(self.names)
        if beyond.any():
            bad = beyond if bad is None else bad | beyond
            keys = np.where(beyond, 0, keys).astype(np.uint32)
        assert self._fixed is not None
        wanted = None if self._fixed.all() or not len(self._fixed) else self._fixed[keys]
        return keys, wanted, bad

    def _told(self, column: Any, bad: Mask | None) -> tuple[ByRow, Mask | None, Mask | None]:
        keys, rows = (self._by_place if _is_dictionary(column.type) else self._by_value)(column, bad)
        none = bad
        if len(rows):
            none = np.zeros(len(keys), np.bool_) if bad is None else bad.copy()
            none[rows] = True
        self.problem = _NO_SYMBOL
        if self._nameless:
            nameless = np.isin(keys, self._nameless)
            none = nameless if none is None else none | nameless
            if nameless.any() and nameless[np.argmax(none)]:
                self.problem = _NO_NAME
        if none is not None:
            keys[none] = 0
        wanted = None
        if not self._all_wanted:
            wanted = self._wanted[keys]
            if none is not None:
                wanted &= ~none
        return keys, wanted, none

    def _by_value(self, column: Any, bad: Mask | None) -> tuple[ByRow, Rows]:
        """The keys, new ones included, and the rows without one. Rows that are ``bad`` may be left out."""
        import pyarrow.types as kinds

        column = _plain(column)
        number = kinds.is_integer(column.type)
        if not (number if self._kind == "number" else number or _is_text(column.type)):
            raise self._no_names(column)
        keys = self._by_number(column, bad) if number else None
        if keys is None:
            keys = self._found(column)
            rows = _unmet(keys, bad)
            if len(rows):
                keys[rows] = self._number(column.take(rows_of(rows)))
        return keys, _NO_ROWS

    def _by_number(self, column: Any, bad: Mask | None) -> ByRow | None:
        """The keys of integers; None where a new one is not small."""
        import pyarrow as pa

        values = numbers(column)
        keys, rows = _looked_up(values, self._of_small, bad)
        if not len(rows):
            return keys
        unmet = values[rows]
        if unmet.min() < 0 or unmet.max() >= _SMALL:
            return None
        if (most := int(unmet.max())) >= len(self._of_small):
            self._of_small = np.full(1 << most.bit_length(), _NO_KEY, np.uint32)
            first = 0
            for known in self._known:
                self._note_small(known, first)
                first += len(known)
            # The table now has every value that has a key.
            keys, rows = _looked_up(values, self._of_small, bad)
            unmet = values[rows]
        if len(rows):
            new = unmet[np.sort(np.unique(unmet, return_index=True)[1])]
            self._add(new.tolist(), pa.Array.from_buffers(column.type, len(new), [None, pa.py_buffer(new)]))
            keys[rows] = self._of_small[unmet]
        return keys

    def _note_small(self, known: Any, first: int) -> None:
        """Enters integers with the keys from ``first`` on into the table of small ones."""
        values = numbers(known)
        small = np.flatnonzero((values >= 0) & (values < len(self._of_small)))
        self._of_small[values[small].astype(np.intp)] = small + first

    def _by_place(self, column: Any, bad: Mask | None) -> tuple[ByRow, Rows]:
        """Keys as ``_by_value`` has them. Only values that occur get keys: a dictionary may also hold the symbols of
        other files."""
        if self._dictionary is None or not self._dictionary.equals(column.dictionary):
            self._take(column)
        places = numbers(column.indices)
        keys, rows = _looked_up(places, self._of_place, bad)
        if len(rows) and self._values is not None:
            used = places[rows].astype(np.intp, copy=False)
            if not self._by_rows:
                occurs = np.zeros(len(self._of_place), np.bool_)
                occurs[used] = True
                used = np.flatnonzero(occurs)
            # A dictionary may hold a value twice, and one of the two places may have a key already.
            values = self._values.take(rows_of(used))
            found = self._found(values)
            new = _unmet(found, None)
            if len(new):
                found[new] = self._number(values.take(rows_of(new)))
            self._of_place[used] = found
            keys, rows = _looked_up(places, self._of_place, bad)
        return keys, rows

    def _take(self, column: Any) -> None:
        """Makes a column's dictionary the one whose keys are kept by place."""
        import pyarrow.types as kinds

        self._dictionary, values = None, _plain(column.dictionary)
        # One place more than the dictionary has: where it is empty, nulls look up place 0.
        self._of_place = np.full(len(values) + 1, _NO_KEY, np.uint32)
        self._values = values if _is_text(values.type) or kinds.is_integer(values.type) else None
        if self._values is not None:
            self._of_place[:-1] = self._found(values)
        elif values.null_count < len(values):
            raise self._no_names(column)
        self._dictionary = column.dictionary

    def _no_names(self, column: Any) -> TypeError:
        assert self.column is not None
        field = "instrument_id" if self._kind == "number" else "symbol"
        return TypeError(unusable(field, self.column, str(column.type), "cannot name symbols"))

    def _found(self, values: Any) -> ByRow:
        """The keys of values, ``_NO_KEY`` for those that have none."""
        import pyarrow as pa

        if len(self._known) > 1:
            self._known = [pa.concat_arrays(self._known)]
        return _places(values, self._known[0]) if self._known else np.full(len(values), _NO_KEY, np.uint32)

    def _number(self, values: Any) -> ByRow:
        """New keys for values that have none, in the order in which they first occur; nulls get no key."""
        new = values.drop_null().unique()
        first = len(self.names)
        self._add(_told(new), new)
        keys = _places(values, new)
        keys[keys != _NO_KEY] += first
        return keys

    def _add(self, told: list[Any], new: Any) -> None:
        """Gives new values their keys. ``new``: the same values as an Arrow array.

        Raises OverflowError for more than ``max_symbols``; the values before have their keys then.
        """
        import pyarrow.types as kinds

        first = len(self.names)
        names = [value if isinstance(value, str) else f"id:{value}" for value in told[: self.max_symbols - first]]
        bad = [at for at, name in enumerate(names) if name_problem(name)]
        if names:
            new = new[: len(names)]
            self._known.append(new)
            if kinds.is_integer(new.type):
                self._note_small(new, first)
            for at in bad:
                names[at] = ""
            self._nameless += [first + at for at in bad]
            self._wanted = np.append(self._wanted, np.fromiter(map(self._keeps, names), np.bool_, len(names)))
            self._all_wanted = bool(self._wanted.all())
            self.names += names
        if len(names) < len(told):
            raise OverflowError(
                f"{told[len(names)]!r} is one symbol more than the {self.max_symbols} there is room for: give "
                "max_symbols= if the file really has so many"
            )


def _looked_up(values: npt.NDArray[Any], table: ByRow, bad: Mask | None) -> tuple[ByRow, Rows]:
    """The keys of integers by a table, and the rows whose integers have no key."""
    keys, rows = look_up(values, table, _NO_KEY)
    return keys, rows if bad is None or not len(rows) else rows[~bad[rows]]


def _told(new: Any) -> list[Any]:
    """Values of a column as Python has them; of text that is not UTF-8 with surrogates, which no name has."""
    import pyarrow as pa

    try:
        return list(new.to_pylist())
    except UnicodeDecodeError:
        raw = new.cast(pa.large_binary() if pa.types.is_large_string(new.type) else pa.binary())
        return [value.decode("utf-8", "surrogateescape") for value in raw.to_pylist()]


def _is_text(kind: Any) -> bool:
    import pyarrow.types as kinds

    return bool(kinds.is_string(kind) or kinds.is_large_string(kind))


def _is_dictionary(kind: Any) -> bool:
    import pyarrow.types as kinds

    return bool(kinds.is_dictionary(kind))


def _plain(values: Any) -> Any:
    """Views of text, which Arrow has few functions for, as text."""
    import pyarrow as pa
    import pyarrow.types as kinds

    is_view = getattr(kinds, "is_string_view", None)
    return values.cast(pa.string()) if is_view is not None and is_view(values.type) else values


def _places(values: Any, among: Any) -> ByRow:
    """Positions of values in an array, ``_NO_KEY`` for values that it lacks."""
    import pyarrow.compute as pc

    found: ByRow = numbers(pc.index_in(values, value_set=among), null=-1).astype(np.uint32)
    return found


def _unmet(keys: ByRow, bad: Mask | None) -> npt.NDArray[np.intp]:
    """Rows that hold something, which has no key."""
    unmet = keys == _NO_KEY
    if not unmet.any():
        return np.empty(0, np.intp)
    return np.flatnonzero(unmet if bad is None else unmet & ~bad)
