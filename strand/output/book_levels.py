"""The best price levels of many books, as one table."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from strand.brief import brief, several
from strand.symbols import SymbolTable
from strand.tables.arrow import arrow_table
from strand.tables.columns import Prices, SymbolNames, Table, with_names
from strand.tables.tabular import Tabular
from strand.units import COUNT, PRICE, SIZE, declare

__all__ = ["BookLevels"]

_LEVELS: Final = np.dtype(
    [("side", "S1"), ("level", "<i8"), ("price", PRICE), ("size", SIZE), ("orders", declare(COUNT, none=(-1,)))]
)


class BookLevels(Tabular):
    """Levels of all symbols' books: ``result.books.levels(5)``. A row is a price level.

    Symbols are in the order of their indexes. Of each symbol, asks come before bids; of each side, the best level is
    first. It is a copy.

    Columns are ``symbol``, ``side`` (``A``, ``B``), ``level`` (0: the best), ``price``, ``size``, and ``orders``: how
    many rest there, null where a book keeps none.
    """

    def __init__(
        self, found: Iterable[tuple[int, str, npt.NDArray[Any]]], symbols: SymbolTable, size_unit: float | None
    ) -> None:
        """``found``: a symbol's index, the letter of a side, and its levels, best first. ``size_unit``: what 1 in a
        size is worth, None where nobody knows."""
        self._table = Table(_LEVELS, size_unit)
        self._symbols = symbols
        parts, keys = [np.zeros(0, self._table.plain)], [np.zeros(0, np.intp)]
        for key, letter, levels in found:
            part = np.zeros(len(levels), self._table.plain)
            part["side"], part["level"] = letter.encode(), np.arange(len(levels))
            part["price"], part["size"] = levels["price"], levels["size"]
            part["orders"] = levels["orders"] if "orders" in (levels.dtype.names or ()) else -1
            parts.append(part)
            keys.append(np.full(len(levels), key))
        #: Exact integers: prices in 1e-9, sizes in the feed's units; shape (n,). ``orders`` is -1 where there are none.
        self.array: npt.NDArray[Any] = np.concatenate(parts)
        self._keys = np.concatenate(keys)

    def __len__(self) -> int:
        return len(self.array)

    def __repr__(self) -> str:
        return brief(self, several(len(self), "level"), several(len(np.unique(self._keys)), "symbol"))

    def to_numpy(self) -> npt.NDArray[Any]:
        """Returns ``array`` with a field ``symbol`` before the others."""
        return with_names(self.array, SymbolNames(self._keys, self._symbols).texts(), 0)

    def to_arrow(self, *, prices: Prices = "float") -> Any:
        columns = self._table.shown(self.array, prices)
        return arrow_table({"symbol": SymbolNames(self._keys, self._symbols), **columns})
