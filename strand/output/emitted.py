"""Records that handlers emitted, with the units of their numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from strand.brief import brief, listed, several
from strand.dicts import unknown_name
from strand.errors import UnknownNameError
from strand.output.notebook import MAX_ROWS, table_html
from strand.tables.arrow import arrow_table
from strand.tables.columns import Column, NumpyPrices, Prices, ShownColumn, SymbolNames, Table, with_names
from strand.tables.tabular import Tabular
from strand.units import Unit


class EmittedRecords(Tabular):
    """A structured array of records, shape (n,), whose numbers are exact integers in ``units``.

    ``records["price"]`` is a plain array of a field, and ``records[["ts", "price"]]`` of several. A slice, a mask and
    an array of places give records again, a number one record (``numpy.void``). numpy takes the whole without a copy:
    ``numpy.asarray(records)``. It is no array itself, because polars and others would then read integers of it, and
    not the table that it is.
    """

    def __init__(self, records: npt.NDArray[Any], table: Table | None = None, names: Sequence[str] = ()) -> None:
        """``table``: the units of the fields; ``names``: the symbols' by ``instrument_id``."""
        self._records = records
        #: The symbols' names by ``instrument_id``.
        self.symbols = names
        self._table = Table(records.dtype, 1.0) if table is None else table

    def __getitem__(self, key: Any) -> Any:
        """Raises UnknownNameError for a name that no field has; it says how the records of a symbol are chosen."""
        try:
            found = self._records[key]
        except ValueError:
            if not isinstance(key, str):
                raise
            if key in self.symbols:
                how = f"records[records['instrument_id'] == records.symbols.index({key!r})]"
                raise UnknownNameError(f"{key!r} is a symbol, and no field of records; take {how}") from None
            raise unknown_name("field", key, self.dtype.names or ()) from None
        whole = isinstance(found, np.ndarray) and found.dtype == self.dtype and found.ndim == 1
        return EmittedRecords(found, self._table, self.symbols) if whole else found

    def __len__(self) -> int:
        return len(self._records)

    def __iter__(self) -> Iterator[np.void]:
        return iter(self._records)

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> npt.NDArray[Any]:
        if copy is None:  # numpy 1 does not know it as "only where it has to be"
            return np.asarray(self._records, dtype)
        return np.array(self._records, dtype, copy=copy)

    def __eq__(self, other: object) -> Any:
        """Record by record, as numpy's arrays compare."""
        return self._records == np.asarray(other)

    def __ne__(self, other: object) -> Any:
        return self._records != np.asarray(other)

    __hash__ = None  # type: ignore[assignment]

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Raises AttributeError, which says where arrays have the attribute."""
            where = f": numpy.asarray(records).{name}" if hasattr(np.ndarray, name) else ""
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}{where}", name=name, obj=self)

    def tolist(self) -> list[tuple[Any, ...]]:
        """A tuple of Python's numbers for each record."""
        found: list[tuple[Any, ...]] = self._records.tolist()
        return found

    def tobytes(self) -> bytes:
        """The records' memory, one behind the other."""
        return self._records.tobytes()

    @property
    def dtype(self) -> np.dtype[Any]:
        """The fields of a record, with exact integers."""
        return self._records.dtype

    def __repr__(self) -> str:
        return brief(self, several(len(self), "record"), listed(self.dtype.names or ()))

    def _repr_html_(self) -> str:
        table = self._table.as_known()
        columns = self[:MAX_ROWS]._columns(table, "float")
        return table_html(columns, table.unit_words, note=several(len(self), "record"))

    @property
    def size_unit(self) -> float | None:
        """Value of a size of 1, in units of the instrument; None where it is unknown."""
        return self._table.size_unit

    @property
    def units(self) -> dict[str, Unit]:
        """Unit of each field."""
        return self._table.units

    def columns(self, prices: NumpyPrices = "float") -> dict[str, Column]:
        """Columns of numpy by name, in natural units, with ``symbol`` before ``instrument_id``. Raises
        ConfigurationError for other ``prices``, and for sizes whose unit nobody knows."""
        return self._columns(self._table, prices)

    def _columns(self, table: Table, prices: NumpyPrices) -> dict[str, Column]:
        found: dict[str, Column] = {}
        for name, column in table.columns(self._records, prices).items():
            if name == "instrument_id":
                found["symbol"] = self._symbols().texts()
            found[name] = column
        return found

    def to_arrow(self, *, prices: Prices = "float") -> Any:
        """See ``Tabular``; ``symbol`` is before ``instrument_id``."""
        found: dict[str, ShownColumn] = {}
        for name, column in self._table.shown(self._records, prices).items():
            if name == "instrument_id":
                found["symbol"] = self._symbols()
            found[name] = column
        return arrow_table(found)

    def to_numpy(self) -> npt.NDArray[Any]:
        """A plain structured array, shape (n,), of the exact integers, with a field ``symbol`` before
        ``instrument_id``."""
        return with_names(self._records, self._symbols().texts(), (self.dtype.names or ()).index("instrument_id"))

    def _symbols(self) -> SymbolNames:
        return SymbolNames(self["instrument_id"], self.symbols)
