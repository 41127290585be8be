"""Order books: levels, orders and queue positions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from strand.binding.books import DEPTH_LEVEL, LEVEL, ORDER, BookMemory, DepthMemory
from strand.brief import brief, one_line, several
from strand.errors import ConfigurationError
from strand.symbols import MAX_COMPLETIONS, SymbolTable
from strand.tables.arrow import arrow_table
from strand.tables.columns import Prices, SymbolNames, Table, with_names
from strand.tables.tabular import Tabular
from strand.units import COUNT, PRICE, SIZE, declare
from strand.validate import whole

if TYPE_CHECKING:
    from strand.output.rows import Rows

__all__ = ["DEPTH_LEVEL", "LEVEL", "NO_BOOKS", "ORDER", "Book", "BookLevels", "Books", "DepthBook", "merged_levels"]

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


NO_BOOKS: Final = "no handler here keeps books; give handler='book' or 'depth'"


class _Levels:
    """The questions that every book answers. Answers are copies, in units of the ticks.

    Ask while no handler of the symbol runs: after ``drain`` with nothing published since, while its strand is paused,
    or after the stop.
    """

    def __init__(self, symbol: str, index: int, memory: BookMemory | DepthMemory, row: Any) -> None:
        self.symbol = symbol
        self._index = index
        self._levels_of = memory.levels
        self._row = row

    def levels(self, side: str, n: int | None = None) -> npt.NDArray[Any]:
        """Returns the best price levels of a side, best first.

        Args:
            side: ``"bid"`` or ``"ask"``.
            n: How many levels to return at most. None returns all.

        Returns:
            An array of ``LEVEL`` (price, size, orders), shape (k,); of ``DEPTH_LEVEL`` (price, size) if no orders are
            kept.

        Raises:
            ConfigurationError: If ``side`` is another word, or ``n`` is not a whole number from 0.
        """
        letter = _letter(side)
        there = int(self._row["bid_levels" if letter == "B" else "ask_levels"])
        return self._levels_of(self._index, letter, there if n is None else min(whole("n", n, 0), there))

    def bids(self, n: int | None = None) -> npt.NDArray[Any]:
        """Returns ``levels("bid", n)``."""
        return self.levels("bid", n)

    def asks(self, n: int | None = None) -> npt.NDArray[Any]:
        """Returns ``levels("ask", n)``."""
        return self.levels("ask", n)


class Book(_Levels):
    """Order book of one symbol. Prices are in 1e-9, sizes in shares or contracts.

    It is as the last tick left it; the row's prices, sizes and counts are those of the last event's end (Databento). If
    there are several publishers (Databento's ``publisher_id``), it has the levels of all; sizes and orders of one price
    are added up.
    """

    def __init__(self, symbol: str, index: int, memory: BookMemory, row: Any, *, place: int | None = None) -> None:
        """``place``: the place of the book's publisher; None: the book is that of all publishers."""
        super().__init__(symbol, index, memory, row)
        self._memory = memory
        self._place = place

    @property
    def publishers(self) -> tuple[int, ...]:
        """The ids of the symbol's publishers, in the order they first came; empty for feeds other than Databento's."""
        return tuple(self._memory.publishers(self._index))

    def publisher(self, publisher_id: int) -> Book:
        """Returns the book of one publisher alone.

        Raises:
            ConfigurationError: If the symbol has no publisher of that id.
        """
        ids = self.publishers
        if publisher_id not in ids:
            there = ", ".join(map(str, ids)) or "none"
            raise ConfigurationError(
                "publisher_id", f"{publisher_id!r} is not one of {self.symbol}'s publishers: {there}"
            )
        return Book(self.symbol, self._index, self._memory, self._row, place=ids.index(publisher_id))

    def levels(self, side: str, n: int | None = None) -> npt.NDArray[Any]:
        letter = _letter(side)
        n = n if n is None else whole("n", n, 0)
        found = [self._levels_at(place, letter, n) for place in self._places()]
        return found[0] if len(found) == 1 else merged_levels(found, letter)[:n]

    def _levels_at(self, place: int, letter: str, n: int | None) -> npt.NDArray[Any]:
        there = self._memory.counts(self._index, place)[letter == "B"]
        return self._memory.levels(self._index, letter, there if n is None else min(n, there), place)

    def orders(self, side: str) -> npt.NDArray[Any]:
        """Returns all resting orders of a side, best level first and in queue order within it.

        Args:
            side: ``"bid"`` or ``"ask"``.

        Returns:
            An array of ``ORDER``, shape (n,).

        Raises:
            ConfigurationError: If there are several publishers; ask for the book of one by ``publisher(id)``.
        """
        place = self._one_place("orders")
        return self._memory.orders(self._index, _letter(side), self._memory.counts(self._index, place)[2], place)

    def order(self, order_id: int) -> np.void | None:
        """Returns one resting order, with the orders and size before it in its queue.

        Returns:
            A record of ``ORDER``, or None if the order does not rest.

        Raises:
            ConfigurationError: If there are several publishers; ask for the book of one by ``publisher(id)``.
        """
        number = whole("order_id", order_id, 0, 2**64 - 1)
        found = self._memory.order(self._index, number, self._one_place("order"))
        return None if found is None else found[0]

    def _places(self) -> list[int]:
        return list(range(len(self.publishers) or 1)) if self._place is None else [self._place]

    def _one_place(self, question: str) -> int:
        first, *others = self._places()
        if others:
            raise ConfigurationError(
                f"{question}: give a publisher, book.publisher(id).{question}(...): {self.symbol} has the publishers "
                f"{', '.join(map(str, self.publishers))}, and each has order ids and queues of its own"
            )
        return first

    def __len__(self) -> int:
        """Orders resting."""
        return sum(self._memory.counts(self._index, place)[2] for place in self._places())

    def __repr__(self) -> str:
        return one_line(f"<Book of {self.symbol}: {several(len(self), 'order')}>")


def merged_levels(found: Sequence[npt.NDArray[Any]], letter: str) -> npt.NDArray[Any]:
    """Levels of several books, best first. Levels of one price are added up."""
    every = np.concatenate(found)
    prices, at = np.unique(every["price"], return_inverse=True)
    made = np.zeros(len(prices), LEVEL)
    made["price"] = prices
    for name in ("size", "orders"):
        np.add.at(made[name], at, every[name])
    return made[::-1] if letter == "B" else made


class DepthBook(_Levels):
    """Book of one symbol's price levels. Prices are in 1e-9, sizes in the feed's units (docs/handlers/depth.md)."""

    def __len__(self) -> int:
        """Levels of both sides."""
        return int(self._row["bid_levels"]) + int(self._row["ask_levels"])

    def __repr__(self) -> str:
        return one_line(f"<DepthBook of {self.symbol}: {several(len(self), 'level')}>")


class Books(Mapping[str, Any]):
    """The books of a dispatcher: ``books["AAPL"]``, and ``levels``, a table of all of them.

    It is a mapping of the symbols that ``rows`` has and whose handler keeps books. ``bytes`` is the memory of all of
    them, ``live_orders`` the number of their orders.
    """

    def __init__(
        self,
        table: SymbolTable,
        memories: Sequence[object | None],
        handler_of_symbol: npt.NDArray[np.uint16],
        rows: Rows,
        paths: Sequence[tuple[str, ...]] | None = None,
    ) -> None:
        self._table = table
        self._paths = paths or [()] * len(memories)
        self._memories = [m if isinstance(m, (BookMemory, DepthMemory)) else None for m in memories]
        #: True if a handler here keeps books, of orders or of levels.
        self.are_kept = any(self._memories)
        self._handler_of_symbol = handler_of_symbol
        self._rows = rows

    def __repr__(self) -> str:
        orders = any(isinstance(memory, BookMemory) for memory in self._memories)
        symbols, resting = several(self._table.n_shown, "symbol"), several(self.live_orders, "order") if orders else ""
        return brief(self, symbols, resting, f"{self.bytes:,} bytes")

    def _ipython_key_completions_(self) -> list[str]:
        return self._table.offered(MAX_COMPLETIONS)

    def check_kept(self) -> None:
        """Checks that a handler here keeps books.

        Raises:
            ConfigurationError: If none does.
        """
        if not self.are_kept:
            raise ConfigurationError("books", f"{NO_BOOKS}")

    def __getitem__(self, symbol: str | int) -> Any:
        """A symbol's ``Book``, or ``DepthBook`` where its handler is ``depth``.

        Raises UnknownSymbolError, and ConfigurationError for a symbol whose handler keeps none.
        """
        index = self._table.index(symbol)
        found = self.find(index)
        if found is None:
            raise ConfigurationError("books", f"the handler of {self._table.name(index)} keeps no book")
        return found

    def __iter__(self) -> Iterator[str]:
        return (symbol for symbol in self._rows if self._keeps(symbol))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __contains__(self, symbol: object) -> bool:
        return isinstance(symbol, str) and symbol in self._rows and self._keeps(symbol)

    __eq__, __hash__ = object.__eq__, object.__hash__  # books may be live memory

    def _keeps(self, symbol: str) -> bool:
        return self._memories[self._handler_of_symbol[self._table.index(symbol)]] is not None

    def find(self, index: int) -> Any:
        """Returns the book of the symbol with an index; None if its handler keeps none."""
        memory = self._memories[self._handler_of_symbol[index]]
        if memory is None:
            return None
        row = self._rows.at(index)
        for name in self._paths[self._handler_of_symbol[index]]:  # in a chain
            row = row[name]
        kind = Book if isinstance(memory, BookMemory) else DepthBook
        return kind(self._table.name(index), index, memory, row)

    def levels(self, n: int | None = None) -> BookLevels:
        """Returns the best price levels of each side of all books, as a table: ``books.levels(5).to_polars()``.

        Ask while nothing is being handled, as for one book.

        Args:
            n: How many levels of each side to return at most. None returns all.

        Raises:
            ConfigurationError: If no handler here keeps books.
        """
        self.check_kept()
        kept = [number for number, memory in enumerate(self._memories) if memory is not None]
        found = (
            (key, letter, self.find(key).levels(side, n))
            for key in sorted(key for number in kept for key in self._rows.kept(number).tolist())
            for letter, side in (("A", "ask"), ("B", "bid"))
        )
        return BookLevels(found, self._table, self._rows.size_unit_of(self._rows.handlers[kept[0]]))

    @property
    def live_orders(self) -> int:
        """Orders resting in all books."""
        return sum(memory.live_orders for memory in self._memories if isinstance(memory, BookMemory))

    @property
    def bytes(self) -> int:
        """Memory that the books take, for orders, levels and indexes, used or reserved."""
        return sum(memory.bytes for memory in self._memories if memory is not None)

    @property
    def order_bytes(self) -> int:
        """The part of ``bytes`` that orders and their indexes take. Levels take the rest, and 64 bytes per symbol."""
        return sum(memory.order_bytes for memory in self._memories if isinstance(memory, BookMemory))


def _letter(side: str) -> str:
    if side not in ("bid", "ask"):
        raise ConfigurationError("side", f"{side!r} is not one of bid, ask")
    return "B" if side == "bid" else "A"
