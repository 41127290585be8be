"""Order books, rules for trades, and histories of rows in C, seen from Python."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from strand.binding import ffi, lib
from strand.binding.engine_words import Failure
from strand.binding.gate import made, text_of
from strand.binding.memory import Space, owned
from strand.binding.native import NativeFunction, builtin_function
from strand.ticks import TRADE, Flags


def _flags_bytes(flags: Flags) -> bytes:
    """An ``sd_flags``."""
    return struct.pack("=6B2x", flags.unprinted, flags.cross, flags.best, flags.snapshot, flags.last, flags.top)


class TradeRules(NamedTuple):
    """An ``sd_trade_rules``.

    ``orders``: ticks are single orders, of which books are made. ``fills_report``: fills repeat what trades said,
    and books are Databento's. ``crosses``: they count. ``resting``: a trade's side is that of the order that rested.
    ``flags``: which bits of a tick's flags mean what. ``sizeless``: trades have no sizes, and count with size 0.
    ``at_end``: ticks are of ready-made bars, and their times the ends of these.
    """

    orders: bool = False
    fills_report: bool = False
    crosses: bool = True
    resting: bool = False
    flags: Flags = Flags()
    sizeless: bool = False
    at_end: bool = False

    @property
    def packed(self) -> bytes:
        left_out = self.flags.unprinted | (0 if self.crosses else self.flags.cross)
        hidden = self.orders and not self.fills_report
        said = (self.fills_report, hidden, self.resting, left_out, self.sizeless, self.at_end)
        return struct.pack("=6B2x", *said) + _flags_bytes(self.flags)


class TradeSource(NamedTuple):
    """Source of a feed's trades. ``rules`` decide which ticks are trades. ``books``: fills are looked up in books of
    orders. ``assumed``: nobody has declared the meaning of the feed's ticks, and they are taken as they are."""

    rules: TradeRules = TradeRules()
    books: bool = False
    assumed: bool = False


class Tapes:
    """The books of orders of symbols 0 to ``n_symbols`` - 1 that handlers read trades and quotes from: those of one
    chain read the same.

    Args:
        space: The space in which books lie.
        n_symbols: The number of symbols.
    """

    def __init__(self, space: Space, n_symbols: int) -> None:
        self.space: Final = space
        self.n_symbols: Final = n_symbols
        self._by_rules: dict[TradeRules, Any] = {}

    @property
    def no_memory(self) -> str:
        """The text of an error for want of memory."""
        return f"no memory for the books of {self.n_symbols:,} symbols"

    def tape(self, rules: TradeRules) -> Any:
        """The tape for these rules, but for ``crosses``, which its books do not depend on. Raises MemoryError."""
        rules = rules._replace(crosses=True)
        if rules not in self._by_rules:
            given = ffi.from_buffer("sd_trade_rules *", rules.packed)
            found = made(lib.sd_tape_create(self.space.pointer, self.n_symbols, given), self.no_memory)
            self.space.keep_books(lib.sd_tape_adopt, found)
            self._by_rules[rules] = found
        return self._by_rules[rules]


_TICKS, _TRADES = ffi.typeof("sd_tick[]"), ffi.typeof("sd_traded[]")


class TradeMaker:
    """Makes trades of ticks, for a handler that asks for them. Raises MemoryError where there is none for the books."""

    def __init__(self, tapes: Tapes, source: TradeSource) -> None:
        self._params = ffi.new("sd_traded_params *")
        ffi.buffer(ffi.addressof(self._params.source, "rules"))[:] = source.rules.packed
        self._space, self._tape = tapes.space, tapes.tape(source.rules) if source.books else None
        if self._tape is not None:
            self._params.source.tape, self._params.source.space = self._tape, self._space.pointer
        self._unpriced = self._space.zeros(tapes.n_symbols, np.int64)
        self._params.unpriced = ffi.cast("int64_t *", self._unpriced.ctypes.data)
        #: By participant, what makes trades for it.
        self._contexts: dict[int, Any] = {}

    @property
    def unpriced(self) -> npt.NDArray[np.int64]:
        """Trades by symbol that no handler was called with, as they have no price: executions of orders that were never
        added."""
        return self._unpriced

    def around(self, function: NativeFunction) -> NativeFunction:
        """Wraps a function that takes records of TRADE into a function that the engine calls with ticks."""
        inner = ffi.new("char[]", function.params) if function.params else ffi.NULL
        made = ffi.new("sd_traded_params *", self._params[0])
        made.fn, made.params = function.pointer, inner
        made.wake, made.finish = function.wake or ffi.NULL, function.finish or ffi.NULL
        traded = builtin_function(
            "traded",
            bytes(ffi.buffer(made)),
            timers=function.wake is not None,
            ends=function.finish is not None,
            never_publishes=function.never_publishes,
            keep=(self, function, inner),
        )
        return traded._replace(yields=function.yields, tape=self._tape)

    def make(self, ticks: npt.NDArray[Any], participant: int) -> tuple[npt.NDArray[Any], Failure | None]:
        """The trade that each tick is, records of TRADE, shape (n,), of size -1 where it is none. Fewer than there are
        ticks: the next one failed. ``ticks``: contiguous; ``participant``: the worker that holds them."""
        made = np.empty(len(ticks), TRADE)
        context = self._contexts.get(participant)
        if context is None:
            context = self._contexts[participant] = ffi.new("sd_context *", {"participant": participant})
        at, to = ffi.from_buffer(_TICKS, ticks), ffi.from_buffer(_TRADES, made, require_writable=True)
        done = int(lib.sd_trades_of(self._params, at, len(ticks), to, context))
        if done == len(ticks):
            return made, None
        return made[:done], Failure(int(context.error_code), text_of(context.message), handled=done)


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
    begins to count the orders that come; after 2**31 it numbers those there are again. ``top``: how many levels of each
    side a row has (csrc/books/book_shown.h). ``emits``: each change of these is emitted, with the time of its tick.
    Raises MemoryError where there is none for them.
    """

    def __init__(
        self,
        space: Space,
        n_symbols: int,
        rules: TradeRules | None = None,
        *,
        start: int = 0,
        top: int = 0,
        emits: bool = False,
    ) -> None:
        rules = rules or TradeRules(orders=True)
        books = made(
            lib.sd_books_create(space.pointer, n_symbols, start, rules.fills_report, top),
            f"no memory for the books of {n_symbols:,} symbols",
        )
        self._books = books
        space.keep_books(lib.sd_books_adopt, books)
        self._space = space
        self._n_symbols = n_symbols
        params = ffi.new("sd_book_params *", {"books": books, "space": space.pointer, "emits": emits})
        ffi.buffer(ffi.addressof(params, "rules"))[:] = rules.packed
        function = builtin_function("book_top" if top else "book", bytes(ffi.buffer(params)), keep=space)
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


#: One price of one side: ``price`` in 1e-9, ``size`` in the feed's units (docs/handlers/depth.md).
DEPTH_LEVEL: Final = np.dtype([("price", "<i8"), ("size", "<i8")])
#: Levels of a side that a row may hold.
MAX_TOP: Final = int(lib.SD_TOP_MAX)


class DepthMemory:
    """The level books of symbols 0 to ``n_symbols`` - 1 in a space: at most ``max_levels`` a side, and the best ``top``
    in each row. ``rules``: which ticks are trades, and which bits of a tick's flags mean what. ``emits``: each change
    of the levels in a row is emitted, with the time of its tick.

    Raises MemoryError where there is none for them.
    """

    def __init__(
        self,
        space: Space,
        n_symbols: int,
        *,
        top: int,
        max_levels: int,
        rules: TradeRules | None = None,
        emits: bool = False,
    ) -> None:
        depths = made(
            lib.sd_depths_create(space.pointer, n_symbols), f"no memory for the books of {n_symbols:,} symbols"
        )
        self._depths = depths
        self._space = space
        params = ffi.new(
            "sd_depth_params *",
            {"depths": depths, "space": space.pointer, "top": top, "max_levels": max_levels, "emits": emits},
        )
        ffi.buffer(ffi.addressof(params, "rules"))[:] = (rules or TradeRules()).packed
        function = builtin_function("depth", bytes(ffi.buffer(params)), ends=True, keep=space)
        self.function: Final = function._replace(ahead=ffi.addressof(lib, "sd_ahead_depth"))

    def levels(self, symbol: int, side: str, n: int) -> npt.NDArray[Any]:
        """The best ``n`` levels of side ``"A"`` or ``"B"``, best first: an array of DEPTH_LEVEL, ``n`` rows at most."""
        found = np.empty(n, DEPTH_LEVEL)
        at = ffi.cast("sd_depth_level *", ffi.from_buffer(found.view(np.uint8)))
        return found[: int(lib.sd_depths_levels(self._depths, symbol, ord(side), at, n))]

    @property
    def offset(self) -> int:
        """Bytes from the start of its space to it: another process finds it there."""
        return self._space.offset_of(self._depths)

    @property
    def bytes(self) -> int:
        """Memory of all books, used or at hand."""
        return int(lib.sd_depths_bytes(self._depths))


def source_bytes(rules: TradeRules, tape: int = 0, space: int = 0, levels: int = 0) -> bytes:
    """An sd_source.

    Args:
        rules: What a trade is, and what flags mean.
        tape: The books of orders to take trades and quotes from; 0: the ticks themselves.
        space: The space in which books lie.
        levels: The books of levels to take quotes from; 0: no quotes are taken.
    """
    return struct.pack("=QQQQ", tape, space, levels, 0) + rules.packed


def with_contracts(function: NativeFunction, address: int) -> NativeFunction:
    """The function, whose params begin with an sd_source, with contracts that lie at an address; 0: with none."""
    at = int(ffi.offsetof("sd_source", "contracts"))
    params = function.params
    return function._replace(params=params[:at] + struct.pack("=Q", address) + params[at + 8 :])


class TapeMemory:
    """The books that a handler reads its trades and quotes from.

    ``orders``: they are books of orders; else of levels. Raises MemoryError where there is none for them.
    """

    _levels: Any = None

    def __init__(
        self, tapes: Tapes, name: str, rules: TradeRules, params: bytes, *, orders: bool, timers: bool, ends: bool
    ) -> None:
        space, tape = tapes.space, tapes.tape(rules) if orders else None
        its_space = int(ffi.cast("uintptr_t", space.pointer))
        if tape is not None:
            source = source_bytes(rules, int(ffi.cast("uintptr_t", tape)), its_space)
        else:
            self._levels = levels = made(lib.sd_levels_create(space.pointer, tapes.n_symbols), tapes.no_memory)
            source = source_bytes(rules, 0, its_space, int(ffi.cast("uintptr_t", levels)))
        made_of = builtin_function(name, source + params, timers=timers, ends=ends, keep=space)
        self.function: Final = made_of._replace(tape=tape)

    def unended(self, n_symbols: int, *, with_open: bool) -> npt.NDArray[np.int64]:
        """Number of events by symbol whose last tick never came. ``with_open``: the end of the run ends those that are
        open."""
        found = np.zeros(n_symbols, np.int64)
        if self._levels is not None:
            lib.sd_levels_unended(self._levels, n_symbols, with_open, ffi.from_buffer("int64_t[]", found))
        return found


_NEVER: Final = 2**63 - 1
#: An ``sd_history_symbol``.
_SYMBOL: Final = np.dtype(
    [(name, "<i8") for name in ("first", "due", "failed")] + [(name, "<u8") for name in ("run", "n", "capacity", "at")]
)


class RowHistory:
    """The entries of each symbol: fields of its row as they were before records and timers that changed it.

    A symbol's value at a time T, a multiple of the interval, is that of its first entry whose ``time`` is after T, or
    of its row where there is none. Its first entry is of its first record. Entries can be read at rest.

    Raises MemoryError.

    Args:
        n_symbols: Symbols have keys from 0 to ``n_symbols - 1``.
        every_ns: The interval.
        columns: Views of rows' fields by name, each of shape (n_symbols, ...).
        rows: All rows, shape (n_symbols,), whose fields they are.
    """

    def __init__(
        self, n_symbols: int, every_ns: int, columns: Mapping[str, npt.NDArray[Any]], rows: npt.NDArray[Any]
    ) -> None:
        self._rows = rows
        offsets = [column.ctypes.data - rows.ctypes.data for column in columns.values()]
        sizes = [column.itemsize * int(np.prod(column.shape[1:])) for column in columns.values()]
        #: An entry's layout.
        self.dtype = np.dtype(
            [("time", "<i8"), *((name, column.dtype, column.shape[1:]) for name, column in columns.items())]
        )
        parts = ffi.new("sd_history_part[]", list(_joined(offsets, sizes)))
        history = made(
            lib.sd_history_create(every_ns, n_symbols, parts, len(parts)),
            f"no memory for the snapshots of {n_symbols:,} symbols",
        )
        self._history = owned(history, lib.sd_history_destroy)
        memory = ffi.buffer(self._history.symbols, n_symbols * ffi.sizeof("sd_history_symbol"))
        self._symbols = np.frombuffer(memory, _SYMBOL)

    def around(self, function: NativeFunction) -> NativeFunction:
        """The function that the engine calls, around a handler's."""
        inner = ffi.new("char[]", function.params) if function.params else ffi.NULL
        made = ffi.new("sd_history_params *", {"history": self._history, "fn": function.pointer, "params": inner})
        made.wake, made.finish = function.wake or ffi.NULL, function.finish or ffi.NULL
        wrapped = builtin_function(
            "history",
            bytes(ffi.buffer(made)),
            timers=function.wake is not None,
            ends=function.finish is not None,
            never_publishes=function.never_publishes,
            keep=(self._history, function, inner),
        )
        return wrapped._replace(yields=function.yields)

    def leave_out(self, keys: npt.NDArray[np.intp]) -> None:
        """Keeps no rows of symbols, none of whose ticks has been published yet."""
        self._symbols["due"][keys] = _NEVER

    def keep(self, keys: npt.NDArray[np.intp], time: int) -> None:
        """Keeps rows that the caller is about to change at a time of the feed; at rest. Raises MemoryError."""
        rows, stride = ffi.cast("void *", self._rows.ctypes.data), self._rows.strides[0]
        for key in keys.tolist():
            if lib.sd_history_keep(self._history, rows, stride, key, time):
                raise MemoryError("no memory for snapshots")

    def entries(self, key: int) -> npt.NDArray[Any]:
        """One symbol's entries, shape (n,), in the order of their times: a view, until the symbol has another tick."""
        symbol = self._history.symbols[key]
        if not symbol.n:
            return np.empty(0, self.dtype)
        return np.frombuffer(ffi.buffer(symbol.entries, symbol.n * self._history.entry_bytes), self.dtype)

    @property
    def first(self) -> npt.NDArray[np.int64]:
        """By symbol: the time of its first record, the greatest number where it has had none; shape (n_symbols,)."""
        first: npt.NDArray[np.int64] = self._symbols["first"]
        return first

    @property
    def failed(self) -> int | None:
        """The feed's time at the first record, or timer, on which a handler failed; None where none did."""
        first = int(self._symbols["failed"].min(initial=_NEVER))
        return None if first == _NEVER else first


def _joined(offsets: Sequence[int], sizes: Sequence[int]) -> list[tuple[int, int]]:
    """Offset and size of each part of a row, those that touch as one, in the order given."""
    found: list[tuple[int, int]] = []
    for offset, size in zip(offsets, sizes, strict=True):
        if found and sum(found[-1]) == offset:
            found[-1] = found[-1][0], found[-1][1] + size
        else:
            found.append((offset, size))
    return found
