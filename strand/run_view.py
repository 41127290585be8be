"""What a run shows of itself, whether a dispatcher or a plain loop runs it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from strand.books import Book, Books, keeps_books
from strand.outputs import Outputs
from strand.python_handlers import objects_of
from strand.rows import Rows

if TYPE_CHECKING:
    from strand._bindings.trades import TradeMaker
    from strand.handlers.bound import BoundHandler
    from strand.handlers.context import Context
    from strand.symbols import SymbolTable

__all__ = ["RunView"]


class _Python(Protocol):
    """Python's handlers."""

    contexts: dict[int, Context]

    def learn_symbols(self) -> None: ...


class RunView:
    """The part of a dispatcher, and of a plain loop, that is for looking on."""

    _table: SymbolTable
    _rows: Rows
    _outputs: Outputs
    _bound: list[BoundHandler]
    _handler_of_symbol: npt.NDArray[np.uint16]
    _python: _Python
    _makers: list[TradeMaker]

    @property
    def symbols(self) -> SymbolTable:
        """Names by index."""
        return self._table

    def learn_symbols(self, names: Sequence[str]) -> None:
        """Takes over names that a feed has met since: by index, where there was none yet."""
        self._table.learn(names)
        self._python.learn_symbols()

    @property
    def rows(self) -> Rows:
        """All symbols' state: ``rows["AAPL"]``, ``rows.array``. Live while the run goes on, final after it."""
        return self._rows

    @property
    def outputs(self) -> Outputs:
        """What handlers emit, by name: ``for batch in dispatcher.outputs["bars"]`` while the run goes on."""
        return self._outputs

    @property
    def keeps_books(self) -> bool:
        """Whether a handler here keeps books, of orders or of levels."""
        return any(keeps_books(bound.memory) for bound in self._bound)

    @property
    def books(self) -> Books:
        """What ``strand.book()`` and ``strand.depth()`` keep. Raises ConfigurationError where no handler does."""
        memories, paths = [bound.memory for bound in self._bound], [bound.path for bound in self._bound]
        return Books(self._table, memories, self._handler_of_symbol, self._rows, paths)

    @property
    def objects(self) -> Mapping[str, Any]:
        """The objects of an object handler, by symbol, for those that have had ticks."""
        return objects_of(self._python.contexts)

    def _take_unpriced(self) -> npt.NDArray[np.int64]:
        """By symbol, trades without a price that handlers which ask for trades were not called with. Whoever takes
        them says so: no RuntimeWarning does at the end."""
        makers, self._makers = self._makers, []
        found = np.zeros(len(self._table), np.int64)
        for maker in makers:
            np.maximum(found, maker.unpriced, out=found)  # two parts of a chain count the same trades
        return found

    def _book(self, index: int) -> Book | None:
        memory = self._bound[self._handler_of_symbol[index]].memory
        return self.books[index] if keeps_books(memory) else None
