"""Records that handlers emitted, as an array that knows the units of its numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from strand.output.tables import Column, Prices, Table, to_arrow, to_pandas, to_polars
from strand.units import Unit

__all__ = ["EmittedRecords"]


class EmittedRecords(np.ndarray[Any, Any]):
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

    @property
    def units(self) -> dict[str, Unit]:
        """What 1 is worth in each field."""
        return self._table().units

    def columns(self, prices: Prices = "float") -> dict[str, Column]:
        """Columns by name, in natural units, with ``symbol`` before ``instrument_id``."""
        found: dict[str, Column] = {}
        for name, column in self._table().columns(self, prices).items():
            if name == "instrument_id":
                keys, places = np.unique(column, return_inverse=True)
                found["symbol"] = np.array([self._names[key] for key in keys.tolist()], np.str_)[places]
            found[name] = column
        return found

    def to_pandas(self, *, prices: Prices = "float") -> Any:
        """A pandas.DataFrame: prices in units of currency, sizes in units of the instrument, times in UTC, as far as
        the handler's dtype declares them; what is undefined is NaN, NaT or NA. ``prices``: ``"int"`` leaves them in
        1e-9. Raises MissingExtraError, ConfigurationError for sizes whose unit nobody knows."""
        return to_pandas(self.columns(prices), index=None)

    def to_polars(self, *, prices: Prices = "float") -> Any:
        """A polars.DataFrame, null where it is undefined, else as ``to_pandas``."""
        return to_polars(self.columns(prices))

    def to_arrow(self, *, prices: Prices = "float") -> Any:
        """A pyarrow.Table, null where it is undefined, else as ``to_pandas``."""
        return to_arrow(self.columns(prices))

    def _table(self) -> Table:
        return Table(self.dtype, 1.0) if self._shown is None or self._shown.plain != self.dtype else self._shown
