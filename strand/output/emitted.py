"""Records that handlers emitted, as an array that knows the units of its numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from strand.brief import brief, listed, several
from strand.output.notebook import MAX_ROWS, table_html
from strand.tables.arrow import arrow_table
from strand.tables.columns import Column, NumpyPrices, Prices, ShownColumn, SymbolNames, Table, with_names
from strand.tables.tabular import Tabular
from strand.units import Unit

__all__ = ["EmittedRecords"]


class EmittedRecords(Tabular, np.ndarray[Any, Any]):
    """A structured array of records, shape (n,), whose numbers are exact integers in ``units``.

    A slice, as ``records[10:20]``, is one too. A field is a plain array.
    """

    _shown: Table | None = None
    _names: Sequence[str] = ()

    @classmethod
    def of(cls, records: npt.NDArray[Any], table: Table, names: Sequence[str]) -> EmittedRecords:
        """A view of the same memory, with the units of its fields and the symbols' names by ``instrument_id``."""
        found = records.view(cls)
        found._shown, found._names = table, names
        return found

    def __array_finalize__(self, other: Any) -> None:
        self._shown, self._names = getattr(other, "_shown", None), getattr(other, "_names", ())

    def __getitem__(self, key: Any) -> Any:
        # A field of records is a plain array.
        return self.view(np.ndarray)[key] if isinstance(key, str | list) else super().__getitem__(key)

    def __repr__(self) -> str:
        if self.dtype.names is None or self.ndim != 1:  # what numpy makes of records by comparing or reshaping them
            return super().__repr__()
        return brief(self, several(len(self), "record"), listed(self.dtype.names))

    def _repr_html_(self) -> str | None:
        if self.dtype.names is None or self.ndim != 1:
            return None
        table = self._table().as_known()
        columns = self[:MAX_ROWS]._columns(table, "float")
        return table_html(columns, table.unit_words, note=several(len(self), "record"))

    @property
    def units(self) -> dict[str, Unit]:
        """What 1 is worth in each field."""
        return self._table().units

    def columns(self, prices: NumpyPrices = "float") -> dict[str, Column]:
        """Columns of numpy by name, in natural units, with ``symbol`` before ``instrument_id``. Raises
        ConfigurationError for other ``prices``, and for sizes whose unit nobody knows."""
        return self._columns(self._table(), prices)

    def _columns(self, table: Table, prices: NumpyPrices) -> dict[str, Column]:
        found: dict[str, Column] = {}
        for name, column in table.columns(self, prices).items():
            if name == "instrument_id":
                found["symbol"] = self._symbols().texts()
            found[name] = column
        return found

    def to_arrow(self, *, prices: Prices = "float") -> Any:
        """See ``Tabular``; ``symbol`` is before ``instrument_id``."""
        found: dict[str, ShownColumn] = {}
        for name, column in self._table().shown(self, prices).items():
            if name == "instrument_id":
                found["symbol"] = self._symbols()
            found[name] = column
        return arrow_table(found)

    def to_numpy(self) -> npt.NDArray[Any]:
        """A plain structured array, shape (n,), of the exact integers, with a field ``symbol`` before
        ``instrument_id``."""
        plain = self.view(np.ndarray)
        return with_names(plain, self._symbols().texts(), (plain.dtype.names or ()).index("instrument_id"))

    def _symbols(self) -> SymbolNames:
        return SymbolNames(self["instrument_id"], self._names)

    def _table(self) -> Table:
        return Table(self.dtype, 1.0) if self._shown is None or self._shown.plain != self.dtype else self._shown
