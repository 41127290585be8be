"""The key of each row of a table: from its symbol, from its instrument's number, or the same for all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from strand.errors import ConfigurationError, FormatError
from strand.feeds._arrow_columns import Columns

__all__ = ["Keys"]

_NO_KEY: Final = np.iinfo(np.uint32).max

Mask = npt.NDArray[np.bool_]


class Keys:
    """Keys by row, and the names that they stand for.

    ``names``: those a file of strand's own keeps; its ``instrument_id`` is then the key. ``one``: the symbol of all
    rows. ``keeps``: whether a symbol is wanted.
    """

    def __init__(
        self,
        columns: Columns,
        *,
        names: Sequence[str] | None,
        one: str | None,
        keeps: Callable[[str], bool],
        capacity: int,
        path: str | Path,
    ) -> None:
        self.problem = "holds null where a symbol must be"
        self._keeps = keeps
        self._index: dict[str | int, int] = {}
        self._wanted: list[bool] = []
        self._fixed: npt.NDArray[np.bool_] | None = None
        self._kind = "one"
        self.column = ""
        self.capacity = capacity
        self.names: list[str] = []
        if one is not None:
            if columns.of.get("symbol") is not None:
                raise ConfigurationError("symbol: the file has a column of symbols; leave it out by columns")
            self.names, self.capacity = [one], 1
        elif names is not None and "symbol" not in columns.of:
            self._kind, self.column = "own", columns.of.get("instrument_id", "")
            self.names, self.capacity = list(names), max(1, len(names))
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

    def of(self, batch: Any) -> tuple[npt.NDArray[np.uint32], Mask | None, Mask | None]:
        """Keys of a record batch's rows, which rows are wanted (None: all) and which have no key (None: none).

        Raises TypeError for a column of another kind, OverflowError for more symbols than there is room for.
        """
        if self._kind == "one":
            wanted = None if self._keeps(self.names[0]) else np.zeros(batch.num_rows, np.bool_)
            return np.zeros(batch.num_rows, np.uint32), wanted, None
        column = batch.column(self.column)
        bad = np.asarray(column.is_null()) if column.null_count else None
        if self._kind == "own":
            return self._own(column, bad)
        return self._told(column, bad)

    def _own(self, column: Any, bad: Mask | None) -> tuple[npt.NDArray[np.uint32], Mask | None, Mask | None]:
        import pyarrow.types as kinds

        if not kinds.is_uint32(column.type):
            raise TypeError(f"column {self.column!r} is {column.type}, not uint32")
        keys = np.asarray((column.fill_null(0) if bad is not None else column).to_numpy())
        beyond = keys >= len(self.names)
        if beyond.any():
            bad = beyond if bad is None else bad | beyond
            keys = np.where(beyond, 0, keys).astype(np.uint32)
        assert self._fixed is not None
        wanted = None if self._fixed.all() or not len(self._fixed) else self._fixed[keys]
        return keys, wanted, bad

    def _told(self, column: Any, bad: Mask | None) -> tuple[npt.NDArray[np.uint32], Mask | None, Mask | None]:
        import pyarrow as pa
        import pyarrow.types as kinds

        if not kinds.is_dictionary(column.type):
            text = kinds.is_string(column.type) or kinds.is_large_string(column.type)
            number = kinds.is_integer(column.type)
            view = getattr(kinds, "is_string_view", None)
            if view is not None and view(column.type):
                column, text = column.cast(pa.string()), True
            if not (number if self._kind == "number" else text or number):
                raise TypeError(f"column {self.column!r} ({column.type}) cannot name symbols")
            column = column.dictionary_encode()
        values = column.dictionary.to_pylist()
        if any(value is not None and not isinstance(value, str | int) for value in values):
            raise TypeError(f"column {self.column!r} ({column.type}) cannot name symbols")
        indices = np.asarray(column.indices.fill_null(0).to_numpy(zero_copy_only=False)).astype(np.int64)
        # Of a dictionary only what occurs counts: it may be shared by files of other symbols.
        used = np.unique(indices if bad is None else indices[~bad]).tolist()
        table = np.full(max(1, len(values)), _NO_KEY, np.uint32)
        for place in used:
            if values[place] is not None:
                table[place] = self._key(values[place])
        keys = table[indices]
        none = keys == _NO_KEY
        if bad is not None:
            none |= bad
        flags = np.asarray(self._wanted or [True], np.bool_)
        wanted = None if flags.all() else np.where(none, False, flags[np.where(none, 0, keys)])
        return np.where(none, 0, keys).astype(np.uint32), wanted, none if none.any() else None

    def _key(self, value: str | int) -> int:
        index = self._index.get(value)
        if index is None:
            index = len(self.names)
            if index >= self.capacity:
                raise OverflowError(
                    f"{value!r} is one symbol more than the {self.capacity} there is room for: give capacity= if the "
                    "file really has so many"
                )
            name = value if isinstance(value, str) else f"id:{value}"
            self._index[value] = index
            self.names.append(name)
            self._wanted.append(self._keeps(name))
        return index
