"""Rows: every symbol's state, as the handlers left it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from strand._bindings.engine import Engine
    from strand.handlers import Handler
    from strand.symbols import SymbolTable

__all__ = ["Rows"]


class Rows:
    """State by symbol: ``rows["AAPL"]`` is that symbol's record, ``rows.array`` all of them, shape (n_symbols,).

    While the dispatcher runs these are views of live memory: consistent for a symbol at rest. After it has stopped they
    are final and stay valid.
    """

    def __init__(
        self, table: SymbolTable, engine: Engine, handlers: list[Handler], handler_of_symbol: npt.NDArray[np.uint16]
    ) -> None:
        self._table = table
        self._handler_of_symbol = handler_of_symbol
        self._views = [_view(engine, h.state) for h in handlers]
        self._names = [h.name for h in handlers]

    def at(self, index: int) -> Any:
        """The row of the symbol with an index."""
        return self._views[self._handler_of_symbol[index]][index]

    def as_seen_by(self, index: int) -> npt.NDArray[Any]:
        """All rows, shape (n_symbols,), with the dtype of the handler that the symbol with an index has."""
        found: npt.NDArray[Any] = self._views[self._handler_of_symbol[index]]
        return found

    def __getitem__(self, symbol: str | int) -> Any:
        """The row of a symbol. Raises UnknownSymbolError."""
        return self.at(self._table.index(symbol))

    def __len__(self) -> int:
        return len(self._table)

    @property
    def array(self) -> npt.NDArray[Any]:
        """All rows, shape (n_symbols,), where all symbols have one handler. Raises ValueError where they do not."""
        if len(self._views) > 1:
            raise ValueError(f"symbols have different handlers ({', '.join(self._names)}): use of_handler(name)")
        return self._views[0]

    def of_handler(self, name: str) -> npt.NDArray[Any]:
        """The rows as one handler sees them, shape (n_symbols,); those of other handlers' symbols are not its own.
        Raises KeyError for a name no handler has."""
        if name not in self._names:
            raise KeyError(f"no handler is named {name!r}: there are {', '.join(self._names)}")
        return self._views[self._names.index(name)]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        return np.array(self.array, dtype=dtype, copy=copy is not False)

    def keep(self) -> None:
        """Copies the rows out of the engine, which may then go."""
        self._views = [view.copy() for view in self._views]


def _view(engine: Engine, state: np.dtype[Any]) -> npt.NDArray[Any]:
    return engine.rows(state)
