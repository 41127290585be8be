"""Rows: the state of every symbol, and of every basket, as the handlers left it."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from strand.brief import brief, listed, several
from strand.dicts import TableByName, unknown_name
from strand.errors import ConfigurationError
from strand.output.notebook import MAX_ROWS, MAX_TABLES, table_html
from strand.symbols import MAX_COMPLETIONS, SymbolTable
from strand.tables.arrow import arrow_table
from strand.tables.columns import Column, Prices, Shown, SymbolNames, Table, with_names
from strand.tables.tabular import Tabular, pandas_frame, polars_frame
from strand.units import Unit

if TYPE_CHECKING:
    import polars

    from strand.handlers import Handler
    from strand.handlers.shared_rows import Members, SharedRows

_BLOCK_ROWS: Final = 64
#: Of rows that are copied at a time to see whether they are zeros.
_LOOK_BYTES: Final = 1 << 20


class RowMemory(Protocol):
    """The memory of rows: the engine's arena."""

    def rows(self, dtype: np.dtype[Any], /) -> npt.NDArray[Any]: ...


def near_filled(rows: npt.NDArray[Any]) -> npt.NDArray[np.intp]:
    """Places that have those of all rows that are not zeros: a feed may have room for many more symbols than it has.

    ``rows``: shape (n,), one behind the other, at any distance. They are looked at by blocks, which is as fast as the
    memory is read. All rows of a block that is not zeros are given, and the last block.
    """
    if not rows.dtype.itemsize:
        return np.empty(0, np.intp)
    whole = max(len(rows) - 1, 0) // _BLOCK_ROWS
    block = _BLOCK_ROWS * rows.strides[0]
    # Bytes between two rows count too, but none behind the last row, where memory may end.
    data = np.lib.stride_tricks.as_strided(rows.getfield(np.uint8), (whole, block), (block, 1), writeable=False)
    blocks = np.append(np.flatnonzero(data.max(axis=1)), whole)
    places: npt.NDArray[np.intp] = (blocks[:, None] * _BLOCK_ROWS + np.arange(_BLOCK_ROWS)).ravel()
    return places[places < len(rows)]


class _ByHandler(TableByName, Tabular):
    """Rows by name: those of each handler in an array. A table has those of one handler.

    Attributes:
        handlers: The names of the handlers, by their numbers.
    """

    #: Column of a table that has the names; of errors, the option, the word for a handler, and the reason where there
    #: are several.
    _column: ClassVar[str]
    _option: ClassVar[str]
    _handler: ClassVar[str]
    _several: ClassVar[str]

    handlers: tuple[str, ...]
    _tables: list[Table]
    _views: list[npt.NDArray[Any]]

    def _number(self, handler: str | None) -> int:
        """The place of a handler by its name, or of the only one."""
        if handler is None:
            if len(self.handlers) != 1:
                reason = self._several.format(", ".join(self.handlers) or "none")
                raise ConfigurationError(self._option, reason)
            return 0
        if handler not in self.handlers:
            raise unknown_name(self._handler, handler, self.handlers)
        return self.handlers.index(handler)

    @abstractmethod
    def _shown(self, number: int) -> tuple[SymbolNames, npt.NDArray[Any]]:
        """The rows of a handler that tables have, and their names."""

    @property
    def array(self) -> npt.NDArray[Any]:
        """All rows, shape (n,), if they are of one handler.

        Raises:
            ConfigurationError: If they are of several.
        """
        return self._views[self._number(None)]

    def of_handler(self, name: str) -> npt.NDArray[Any]:
        """Returns all rows with the dtype of one handler, shape (n,).

        Rows of other handlers' symbols have no meaning.

        Raises:
            UnknownNameError: If no handler has that name.
        """
        return self._views[self._number(name)]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        return np.array(self.array, dtype=dtype, copy=copy is not False)

    @property
    def declared(self) -> np.dtype[Any]:
        """The dtype of rows with the units of its fields, if there is one handler."""
        return self._tables[self._number(None)].declared

    @property
    def size_unit(self) -> float | None:
        """Value of a size of 1, in units of the instrument, if there is one handler; None if it is unknown."""
        return self.size_unit_of()

    def size_unit_of(self, handler: str | None = None) -> float | None:
        """Returns what 1 in a size is worth in one handler's rows; None if it is unknown.

        Raises:
            ConfigurationError: If there are several handlers and none is named.
            UnknownNameError: If no handler has that name.
        """
        return self._tables[self._number(handler)].size_unit

    @property
    def units(self) -> dict[str, Unit]:
        """Unit of each field, if there is one handler. A field of a nested record is named ``part.field``."""
        return self.units_of()

    def units_of(self, handler: str | None = None) -> dict[str, Unit]:
        """Returns what 1 is worth in each field of one handler's rows.

        Raises:
            ConfigurationError: If there are several handlers and none is named.
            UnknownNameError: If no handler has that name.
        """
        return self._tables[self._number(handler)].units

    def to_numpy(self, handler: str | None = None) -> npt.NDArray[Any]:
        """Returns a structured array of the exact integers, with the names in a field before the row's own.

        Of symbols it has those with a name, and those with a row that is not all zeros.

        Args:
            handler: The name of the handler whose rows to return; needed if there are several.

        Raises:
            ConfigurationError: If there are several handlers and none is named.
            UnknownNameError: If no handler has that name.
        """
        names, rows = self._shown(self._number(handler))
        return with_names(rows, names.texts(), 0, called=self._column)

    def to_arrow(self, handler: str | None = None, *, prices: Prices = "float") -> Any:
        """Returns a pyarrow.Table of the rows that ``to_numpy`` has, with a column of their names.

        Prices are in units of currency, sizes in units of the instrument, and times are timestamps in UTC. The
        handler's dtype has to declare them (strand.units). Undefined values are null. A part of a chain gives columns
        like ``book.bid_price``, a sub-array lists, bytes text.

        Args:
            handler: As for ``to_numpy``.
            prices: ``"float"``; ``"decimal"`` for exact decimals of nine digits after the point; ``"integer"`` for
                units of 1e-9. A price that the handler keeps as a float stays one.

        Raises:
            MissingExtraError: Without pyarrow.
            ConfigurationError: If there are several handlers and none is named, or for other ``prices``. Also if the
                unit of sizes is unknown, because merged files differ in it.
            UnknownNameError: If no handler has that name.
        """
        number = self._number(handler)
        names, rows = self._shown(number)
        return arrow_table({self._column: names, **self._tables[number].shown(rows, prices)})

    def to_polars(self, handler: str | None = None, *, prices: Prices = "float") -> polars.DataFrame:
        """Returns a polars.DataFrame of the same, with the arguments of ``to_arrow``.

        Raises:
            MissingExtraError: Without polars or pyarrow. Other errors are those of ``to_arrow``.
        """
        return polars_frame(partial(self.to_arrow, handler, prices=prices))

    def to_pandas(self, handler: str | None = None, *, prices: Prices = "float") -> Any:
        """Returns a pandas.DataFrame of the same, indexed by name, with the arguments of ``to_arrow``.

        Raises:
            MissingExtraError: Without pandas or pyarrow. Other errors are those of ``to_arrow``.
        """
        return pandas_frame(partial(self.to_arrow, handler, prices=prices), index=self._column)


class BusiestBasket(NamedTuple):
    """``names``: of baskets that share a strand, ``ticks``: of their symbols, ``share``: of all ticks, from 0 to 1."""

    names: tuple[str, ...]
    ticks: int
    share: float

    def __str__(self) -> str:
        more = f" and {len(self.names) - 1:,} more on its strand" if len(self.names) > 1 else ""
        return f"{self.names[0]!r}{more} had {self.share:.1%} of the ticks"


class BasketRows(_ByHandler):
    """The row of each basket by its name: ``baskets["pair"]``; of all handlers that have baskets.

    While the run goes on these are views of live memory, consistent where none of a basket's symbols has pending ticks.
    After it they are final.
    """

    _column, _option, _handler = "basket", "baskets", "handler with baskets"
    _several = "give the name of a handler with baskets; there are {}"

    def __init__(self, shared: Sequence[SharedRows], units: npt.NDArray[np.intp] | None) -> None:
        """``units``: what shares a strand, by symbol."""
        self._units = units
        self.handlers = tuple(each.handler for each in shared)
        self._members = [each.members for each in shared]
        self._tables = [Table(each.rows.dtype, each.size_unit) for each in shared]
        self._views = [each.rows for each in shared]
        self._at = _places(self._members)

    def __repr__(self) -> str:
        return brief(self, several(len(self), "basket"), listed(self))

    def __getitem__(self, name: str) -> Any:
        """The row of a basket. Raises UnknownNameError."""
        if name not in self._at:
            raise unknown_name("basket", name, self._at)
        number, index = self._at[name]
        return self._views[number][index]

    def __iter__(self) -> Iterator[str]:
        return iter(self._at)

    def __len__(self) -> int:
        return len(self._at)

    def __contains__(self, name: object) -> bool:
        return name in self._at

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the baskets, as handlers number them."""
        return tuple(self._at)

    def members(self, name: str) -> tuple[int, ...]:
        """The indexes of a basket's symbols, in the order of its members. Raises UnknownNameError."""
        self[name]
        number, index = self._at[name]
        return self._members[number].keys[index]

    def busiest(self, ticks_by_symbol: npt.NDArray[np.int64]) -> BusiestBasket | None:
        """The baskets with the most ticks among those that share a strand; None where there are no baskets."""
        if self._units is None or not self._at:
            return None
        ticks = np.bincount(self._units, weights=ticks_by_symbol)
        unit_of = {name: int(self._units[self.members(name)[0]]) for name in self._at}
        most = max(unit_of.values(), key=lambda unit: float(ticks[unit]))
        names = tuple(name for name, unit in unit_of.items() if unit == most)
        return BusiestBasket(names, int(ticks[most]), float(ticks[most] / max(1, int(ticks_by_symbol.sum()))))

    def records(self) -> dict[str, npt.NDArray[Any]]:
        """Each row as an array of shape (1,), by its name in a run's fingerprint."""
        return {f"basket {name}": self._views[number][i : i + 1] for name, (number, i) in self._at.items()}

    def _shown(self, number: int) -> tuple[SymbolNames, npt.NDArray[Any]]:
        rows = self._views[number]
        return SymbolNames(np.arange(len(rows)), self._members[number].names), rows

    # ---- days

    def on_day_of(self, over: npt.NDArray[np.intp], others: npt.NDArray[np.intp], symbols: Sequence[str]) -> list[str]:
        """Names of the baskets that are on a day of the symbols ``over``, as none of their symbols is on another day,
        which ``others`` are on. Raises ConfigurationError for one on two days. ``symbols``: names by index."""
        found = []
        for name in self._at:
            members = np.array(self.members(name))
            on = members[np.isin(members, others)]
            if not len(on):
                found.append(name)
            elif np.isin(members, over).any():
                raise ConfigurationError(
                    "per_day",
                    f"basket {name!r}: it has symbols of two days, as {symbols[int(on[0])]!r} is not of the day that "
                    "ends: replay each day by itself",
                )
        return found

    def of(self, names: Sequence[str]) -> BasketRows:
        """Copies of the rows of some baskets, by name."""
        taken, chosen = copy.copy(self), set(names)
        at = [[i for i, name in enumerate(members.names) if name in chosen] for members in self._members]
        taken._views = [rows[some] for rows, some in zip(self._views, at, strict=True)]
        taken._members = [
            members._replace(names=tuple(members.names[i] for i in some), keys=tuple(members.keys[i] for i in some))
            for members, some in zip(self._members, at, strict=True)
        ]
        taken._at = _places(taken._members)
        return taken

    def begin(self, names: Sequence[str]) -> None:
        """Makes some baskets' rows zeros, as before the first tick. Their symbols have no pending ticks."""
        for number, index in (self._at[name] for name in names):
            self._views[number][index] = np.zeros((), self._views[number].dtype)

    def keep(self) -> None:
        """Copies the rows out of the engine's memory, which is not needed any more."""
        self._views = [rows.copy() for rows in self._views]


def _places(shared: Sequence[Members]) -> dict[str, tuple[int, int]]:
    """The number of a handler, and the place among its rows, by the name of each row."""
    return {name: (number, i) for number, members in enumerate(shared) for i, name in enumerate(members.names)}


class Rows(_ByHandler):
    """State by symbol: ``rows["AAPL"]`` is that symbol's record, ``rows.array`` all of them, shape (n_symbols,).

    ``in``, ``len``, iteration, ``keys``, ``values`` and ``items`` are of the symbols that tables have. These are the
    symbols with a name, out of those that were asked for, and those with a row that is not all zeros. ``rows[...]``
    answers for every other symbol of the feed too.

    Numbers in records are exact integers in ``rows.units``. Tables are in natural units. While the dispatcher runs,
    records are views of live memory, consistent for a symbol without pending ticks. After the stop they are final and
    stay valid. ``shared``: the rows that symbols share, which follow these.
    """

    _column, _option, _handler = "symbol", "rows", "handler"
    _several = "symbols have different handlers ({}): use of_handler(name)"

    def __init__(
        self,
        table: SymbolTable,
        engine: RowMemory,
        handlers: Sequence[Handler],
        handler_of_symbol: npt.NDArray[np.uint16],
        shared: BasketRows | None = None,
    ) -> None:
        self.shared = BasketRows((), None) if shared is None else shared
        #: Names by index.
        self.symbols = table
        self._handler_of_symbol = handler_of_symbol
        self._tables = [Table(h.state, h.size_unit) for h in handlers]
        self._views = [engine.rows(table.plain) for table in self._tables]
        self.handlers = tuple(h.name for h in handlers)
        #: True if a handler of the user's own is called with trades: its rows do not show it.
        self._asking = [any(part.trades is not None for part in h.singles) for h in handlers]
        self.asks_for_trades = any(self._asking)
        #: True if some handler does something at the end of a run.
        self.have_ends = any(h.ends for h in handlers)
        #: True if prices of trades of size 0 count for some handler, as its options say.
        self.takes_zero_sizes = any(
            h.origin is not None and h.origin.options.get("zero_sizes") == "price" for h in handlers
        )
        #: By index: whether tables have a symbol for its name alone. None: they have all that have a name.
        self._chosen: npt.NDArray[np.bool_] | None = None

    def __repr__(self) -> str:
        kept = (
            f"{name} ({listed(view.dtype.names or ())})" for name, view in zip(self.handlers, self._views, strict=True)
        )
        return brief(self, several(self._n_shown, "symbol"), listed(kept))

    def _repr_html_(self) -> str:
        return "".join(self._html_of(number) for number in range(min(len(self._views), MAX_TABLES)))

    def _html_of(self, number: int) -> str:
        """The first symbols of a handler whose rows are not zeros, in natural units."""
        view, table = self._views[number], self._tables[number].as_known()
        places = self._filled(number)
        shown = places[:MAX_ROWS]
        names = np.array([self.symbols.name(i) for i in shown.tolist()], np.str_)
        columns = {"symbol": names, **table.columns(view[shown])}
        found = f"{several(len(places), 'symbol')} of {self._n_shown:,}"
        note = f"{self.handlers[number]}: {found} with a row that is not zeros"
        return table_html(columns, table.unit_words, note=note)

    def _filled(self, number: int) -> npt.NDArray[np.intp]:
        """The indices of a handler's symbols whose rows are not zeros."""
        rows = self._views[number]
        near, at_once = near_filled(rows), max(_LOOK_BYTES // max(rows.dtype.itemsize, 1), 1)
        near = near[self._handler_of_symbol[near] == number]
        parts = [some[_are_filled(rows, some)] for some in np.split(near, range(at_once, len(near), at_once))]
        return np.concatenate(parts)

    def _ipython_key_completions_(self) -> list[str]:
        if self._chosen is None:
            return self.symbols.offered(MAX_COMPLETIONS)
        return [self.symbols.name(i) for i in self._named[:MAX_COMPLETIONS].tolist()]

    @property
    def _named(self) -> npt.NDArray[np.intp]:
        """The indices of symbols that are shown because they have a name."""
        named = np.array(self.symbols.named, np.intp)
        return named if self._chosen is None else named[self._chosen[named]]

    @property
    def _n_shown(self) -> int:
        return self.symbols.n_shown if self._chosen is None else len(self._named)

    @property
    def asking(self) -> npt.NDArray[np.bool_]:
        """Mask of the symbols whose handler is the user's own and is called with trades, shape (n_symbols,)."""
        return np.array(self._asking, np.bool_)[self._handler_of_symbol]

    def at(self, index: int) -> np.void:
        """Returns the row of the symbol with an index."""
        row: np.void = self._views[self._handler_of_symbol[index]][index]
        return row

    def as_seen_by(self, index: int) -> npt.NDArray[Any]:
        """Returns all rows, shape (n_symbols,), with the dtype of the handler that the symbol with an index has."""
        return self._views[int(self._handler_of_symbol[index])]

    def __getitem__(self, symbol: str | int) -> np.void:
        """The row of a symbol. Raises UnknownSymbolError."""
        return self.at(self.symbols.index(symbol))

    def __iter__(self) -> Iterator[str]:
        return (self.symbols.name(i) for i in self._indices().tolist())

    def __len__(self) -> int:
        return len(self._indices())

    def __contains__(self, symbol: object) -> bool:
        found = self.symbols.find(symbol) if isinstance(symbol, str) else None
        return found is not None and bool(np.isin(found, self._indices()))

    def _indices(self) -> npt.NDArray[np.intp]:
        """The symbols of all handlers that tables have, by index."""
        return np.sort(np.concatenate([self.kept(number) for number in range(len(self._views))]))

    def _shown(self, number: int) -> tuple[SymbolNames, npt.NDArray[Any]]:
        symbols = self.kept(number)
        return SymbolNames(symbols, self.symbols), self._views[number][symbols]

    def by_handler(self) -> Iterator[tuple[npt.NDArray[np.intp], npt.NDArray[Any]]]:
        """Yields for each handler the indices of its symbols and their rows, both of shape (n,)."""
        for number, view in enumerate(self._views):
            if len(self._views) == 1:
                yield np.arange(len(view)), view
            else:
                at = np.flatnonzero(self._handler_of_symbol == number)
                yield at, view[at]

    # ---- days

    def of(self, symbols: npt.NDArray[np.intp], shared: Sequence[str] = ()) -> Rows:
        """Returns a copy of some symbols' rows, of at least one, by their names and their places in ``symbols``, and of
        the ``shared`` rows of these names."""
        taken = copy.copy(self)
        taken.shared = self.shared.of(shared)
        taken.symbols = SymbolTable([self.symbols.name(i) for i in symbols.tolist()])
        taken._handler_of_symbol = self._handler_of_symbol[symbols]
        taken._views = [view[symbols] for view in self._views]
        taken._chosen = None if self._chosen is None else self._chosen[symbols]
        return taken

    def alike(self, symbols: npt.NDArray[np.intp]) -> Rows:
        """Returns the same of those among some symbols that have the handler of the first."""
        number = self._handler_of_symbol[symbols[0]]
        taken = self.of(symbols[self._handler_of_symbol[symbols] == number])
        taken._views, taken._tables = [taken._views[number]], [self._tables[number]]
        taken.handlers = (self.handlers[number],)
        taken._handler_of_symbol = np.zeros_like(taken._handler_of_symbol)
        return taken

    def begin(self, symbols: npt.NDArray[np.intp], shared: Sequence[str]) -> None:
        """Makes some symbols' rows zeros, and the ``shared`` rows of these names, as before the first tick. The symbols
        have no pending ticks."""
        for view in self._views:
            view[symbols] = np.zeros((), view.dtype)
        self.shared.begin(shared)

    # ---- as tables

    def table(self, handler: str | None = None, *, symbols: npt.NDArray[np.intp] | None = None) -> dict[str, Column]:
        """Returns columns of numpy by name, ``symbol`` first, with prices as floats.

        Args:
            handler: As for ``to_numpy``.
            symbols: Indices of the symbols to return, shape (n,). None returns those of ``to_numpy``.

        Raises:
            ConfigurationError: As for ``to_arrow``.
            UnknownNameError: If no handler has that name.
        """
        number = self._number(handler)
        if symbols is None:
            symbols = self.kept(number)
        columns = self._tables[number].columns(self._views[number][symbols])
        return {"symbol": SymbolNames(symbols, self.symbols).texts(), **columns}

    def shown(self, number: int = 0) -> tuple[SymbolNames, dict[str, Shown]]:
        """Returns the names and the columns of ``table``, undefined values apart: numpy's masked arrays take as long to
        import as a quarter of numpy."""
        names, rows = self._shown(number)
        return names, self._tables[number].shown(rows)

    def kept(self, number: int = 0) -> npt.NDArray[np.intp]:
        """Returns the indices of one handler's symbols that have a name, or a row that is not all zeros."""
        named, is_kept = self._named, np.zeros(len(self._handler_of_symbol), np.bool_)
        is_kept[self._filled(number)] = True
        is_kept[named[self._handler_of_symbol[named] == number]] = True
        return np.flatnonzero(is_kept)

    def show_only(self, chosen: npt.NDArray[np.bool_]) -> None:
        """Shows in tables only those of the named symbols that were asked for. Others need a row that is not all zeros.

        Args:
            chosen: By index, whether the symbol was asked for.
        """
        self._chosen = np.zeros(len(self.symbols), np.bool_)
        self._chosen[: len(chosen)] = chosen[: len(self.symbols)]

    def keep(self) -> None:
        """Copies the rows out of the engine, which is then no longer needed."""
        self._views = [_kept(view) for view in self._views]
        self.shared.keep()


def _are_filled(rows: npt.NDArray[Any], places: npt.NDArray[np.intp]) -> npt.NDArray[np.bool_]:
    """Mask of the rows at the given positions that are not all zeros."""
    data: Any = _as_one_field(rows)[places].view(np.uint8).reshape(len(places), rows.dtype.itemsize)
    found: npt.NDArray[np.bool_] = data.any(axis=1)
    return found


def _kept(view: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """A copy. Its pages of zeros take no memory."""
    places = near_filled(view)
    if 2 * len(places) > len(view):
        return _as_one_field(view).copy().view(view.dtype)
    copied = np.zeros(len(view), view.dtype)
    if not len(places):
        return copied
    _as_one_field(copied)[places] = _as_one_field(view)[places]
    return copied


def _as_one_field(rows: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Rows that numpy copies whole. Copied field by field, they have between their fields whatever the memory had."""
    return rows.view(f"V{rows.dtype.itemsize}")
