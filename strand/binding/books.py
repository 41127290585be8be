"""Order books in C, seen from Python."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from strand.binding import ffi, lib
from strand.binding.gate import made
from strand.binding.native import builtin_function
from strand.binding.space import Space
from strand.binding.trades import TradeRules

__all__ = ["LEVEL", "ORDER", "BookMemory"]

#: One price of one side: ``price`` in 1e-9, ``size`` and ``orders`` of all that rests there.
LEVEL: Final = np.dtype([("price", "<i8"), ("size", "<i8"), ("orders", "<i8")])
#: One resting order; ``ahead_orders`` and ``ahead_size``: what is before it in its level's queue.
ORDER: Final = np.dtype(
    [
        ("order_id", "<u8"),
        ("price", "<i8"),
        ("size", "<i8"),
        ("ahead_orders", "<i8"),
        ("ahead_size", "<i8"),
        ("side", "<u8"),
    ]
)


class BookMemory:
    """The books of symbols 0 to ``n_symbols`` - 1, in a space. ``side`` is ``"A"`` or ``"B"`` everywhere.

    ``rules``: what is a trade; by default as in ITCH. Where fills report (Databento's), each publisher of a symbol
    has a book, at a ``place`` in the order they came in; all others have one, at place 0. ``start``: where a book
    begins to count the orders that come; after 2**31 it numbers those there are again.
    Raises MemoryError where there is none for them.
    """

    def __init__(self, space: Space, n_symbols: int, rules: TradeRules | None = None, *, start: int = 0) -> None:
        rules = rules or TradeRules(orders=True)
        books = made(
            lib.sd_books_create(space.pointer, n_symbols, start, rules.fills_report),
            f"no memory for the books of {n_symbols:,} symbols",
        )
        self._books = books
        space.keep_books(lib.sd_books_adopt, books)
        self._space = space
        self._n_symbols = n_symbols
        params = ffi.new("sd_book_params *", {"books": books, "space": space.pointer})
        ffi.buffer(ffi.addressof(params, "rules"))[:] = rules.packed
        function = builtin_function("book", bytes(ffi.buffer(params)), keep=space)
        self.function: Final = function._replace(ahead=ffi.addressof(lib, "sd_ahead_book"))

    def publishers(self, symbol: int) -> list[int]:
        """The ids of a symbol's publishers, by their places; none where it has one book whoever publishes."""
        ids = ffi.new("uint16_t[]", lib.SD_MAX_PUBLISHERS)
        return [int(ids[i]) for i in range(lib.sd_books_publishers(self._books, symbol, ids))]

    def counts(self, symbol: int, place: int = 0) -> tuple[int, int, int]:
        """Levels of asks, of bids, and orders of a book."""
        found = lib.sd_books_counts(self._books, symbol, place)
        return int(found.asks), int(found.bids), int(found.orders)

    def levels(self, symbol: int, side: str, n: int, place: int = 0) -> npt.NDArray[Any]:
        """The best ``n`` levels, best first: an array of LEVEL with at most ``n`` rows."""
        found = np.empty(n, LEVEL)
        got = lib.sd_books_levels(
            self._books, symbol, place, ord(side), ffi.cast("sd_book_level *", ffi.from_buffer(found.view(np.uint8))), n
        )
        return found[: int(got)]

    def orders(self, symbol: int, side: str, n: int, place: int = 0) -> npt.NDArray[Any]:
        """All resting orders, best level first, oldest first within one: an array of ORDER. ``n``: of both sides."""
        found = np.empty(n, ORDER)
        got = lib.sd_books_orders(
            self._books, symbol, place, ord(side), ffi.cast("sd_book_order *", ffi.from_buffer(found.view(np.uint8))), n
        )
        return found[: int(got)]

    def order(self, symbol: int, order_id: int, place: int = 0) -> npt.NDArray[Any] | None:
        """Resting order as an array of ORDER with one row; None: there is no such order."""
        found = np.empty(1, ORDER)
        at = ffi.cast("sd_book_order *", ffi.from_buffer(found.view(np.uint8)))
        return found if lib.sd_books_order(self._books, symbol, place, order_id, at) else None

    @property
    def offset(self) -> int:
        """Bytes from the start of its space to it: another process finds it there."""
        return self._space.offset_of(self._books)

    @property
    def live_orders(self) -> int:
        """Orders resting in all books."""
        return int(lib.sd_books_live(self._books))

    @property
    def bytes(self) -> int:
        """Memory of all books, for orders and indexes, used or at hand."""
        return int(lib.sd_books_bytes(self._books))

    @property
    def order_bytes(self) -> int:
        """Bytes of the memory that orders and their indexes take."""
        return int(lib.sd_books_order_bytes(self._books))
