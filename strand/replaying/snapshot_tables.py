"""Snapshots of a run as tables: of all fields by time and symbol, and of one field with a column per symbol."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from strand.binding.books import RowHistory
from strand.brief import brief, listed, several
from strand.dicts import unknown_name
from strand.errors import ConfigurationError
from strand.symbols import SymbolTable
from strand.tables.arrow import arrow_table
from strand.tables.columns import Prices, Shown, SymbolNames, Table, column_names
from strand.tables.tabular import Tabular, pandas_frame
from strand.units import TIME, meaning_of

if TYPE_CHECKING:
    from strand.output.rows import Rows

Values = Mapping[str, npt.NDArray[Any]]


class Taken(NamedTuple):
    """Snapshots that are alike: ``times`` in ns, ``keys``: of symbols with ticks, ``values``: of each of these."""

    times: npt.NDArray[np.int64]
    keys: npt.NDArray[np.intp]
    values: Values


class Source(Protocol):
    """The rows of a table of snapshots, for symbols by key in the order of its columns.

    Snapshots between two changes of a row are alike. So a source has each row once, and for each snapshot its place
    among them.
    """

    @property
    def times(self) -> npt.NDArray[np.int64]:
        """The times of the snapshots, shape (n_times,)."""

    def places(self, keys: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
        """Return the place of each snapshot's row, shape (n_times, n_symbols); that of no row is their number, which
        stands for a symbol without a tick."""

    def values(self, column: str, keys: npt.NDArray[np.intp]) -> list[npt.NDArray[Any]]:
        """Return a column's values in the order of their places, in arrays of shape (n, ...)."""


class Copies:
    """Copies of rows, taken while the run was at rest."""

    def __init__(self, taken: Sequence[Taken]) -> None:
        self._taken = taken
        self.times = np.concatenate([np.empty(0, np.int64), *(each.times for each in taken)])

    def places(self, keys: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
        ends = np.cumsum([0, *(len(each.keys) for each in self._taken)])
        found = np.full((len(self.times), len(keys)), ends[-1])
        order, start = np.argsort(keys, kind="stable"), 0
        for each, first in zip(self._taken, ends[:-1].tolist(), strict=True):
            end = start + len(each.times)
            if len(each.keys):
                columns = order[np.searchsorted(keys, each.keys, sorter=order)]
                found[start:end, columns] = np.arange(first, first + len(each.keys))
            start = end
        return found

    def values(self, column: str, keys: npt.NDArray[np.intp]) -> list[npt.NDArray[Any]]:  # noqa: ARG002 - it has no others
        return [each.values[column] for each in self._taken]


class Changes:
    """The entries of a history, and the rows at the end.

    Args:
        history: The entries of each symbol.
        times: The times of the snapshots, rising.
        feed_times: The feed's time at each of them: the entries before it are in the snapshot.
        fields: Those that are kept, of rows that nothing changes any more.
    """

    def __init__(
        self,
        history: RowHistory,
        times: npt.NDArray[np.int64],
        feed_times: npt.NDArray[np.int64],
        fields: Fields,
    ) -> None:
        self._history = history
        self.times = times
        self._feed_times = feed_times
        had = np.flatnonzero(history.first <= feed_times[-1]) if len(times) else np.empty(0, np.intp)
        #: The symbols with a tick by the last snapshot, and their rows at the end.
        self.last = Taken(times[-1:], had, fields.values(had))

    def places(self, keys: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
        found = np.full((len(self.times), len(keys)), -1)
        n = 0
        for column, _, entries in self._had(keys):
            # An entry has the row from the time of the one before it on, up to its own time.
            starts = np.searchsorted(self._feed_times, entries["time"])
            spans = np.diff(starts, append=len(self.times))
            found[starts[0] :, column] = np.repeat(np.arange(n, n + len(entries)), spans)
            n += len(entries)
        found[found < 0] = n
        return found

    def values(self, column: str, keys: npt.NDArray[np.intp]) -> list[npt.NDArray[Any]]:
        found = []
        for _, at, entries in self._had(keys):
            found += [entries[column][1:], self.last.values[column][at : at + 1]]
        return found

    def _had(self, keys: npt.NDArray[np.intp]) -> Iterator[tuple[int, int, npt.NDArray[Any]]]:
        """Column, place in ``last`` and entries of each symbol that had a tick."""
        had = np.flatnonzero(np.isin(keys, self.last.keys))
        for column, at in zip(had.tolist(), np.searchsorted(self.last.keys, keys[had]).tolist(), strict=True):
            yield column, at, self._history.entries(int(keys[column]))


class Fields:
    """Fields of rows, and those beside them that say whether they are defined. Raises ConfigurationError for one that
    rows do not have, or that is no number, and where symbols have several handlers."""

    def __init__(self, names: tuple[str, ...] | None, rows: Rows) -> None:
        self.size_unit = rows.size_unit
        self._rows = rows
        if names is None:
            names = tuple(path for path in Table(rows.declared, 1.0).names if self._is_field(rows.declared, path))
        self.names = names
        #: The dtype of each field with those that it goes by, by name.
        self.declared: dict[str, np.dtype[Any]] = {}
        for name in names:
            *path, last = name.split(".")
            record = rows.declared
            for part in path:
                record = record[part] if part in (record.names or ()) else np.dtype([])
            if last not in (record.names or ()) or record[last].names is not None:
                raise ConfigurationError("fields", f"rows have no field {name!r}; they have {', '.join(rows.units)}")
            given = [other for other in meaning_of(record[last]).given if other != last]
            self.declared[name] = np.dtype([(each, record[each]) for each in (last, *given)])

    @staticmethod
    def _is_field(record: np.dtype[Any], path: str) -> bool:
        """Tells whether a column of a table is a field, and not one of an array of records."""
        for part in path.split("."):
            if part not in (record.names or ()):
                return False
            record = record[part]
        return True

    def views(self) -> Values:
        """Views of all symbols' rows: columns by their whole names, shape (n_symbols, ...)."""
        found: dict[str, npt.NDArray[Any]] = {}
        for name, dtype in self.declared.items():
            for column in self.columns(name, dtype):
                if column not in found:
                    view: Any = self._rows.array
                    for part in column.split("."):
                        view = view[part]
                    found[column] = view
        return found

    def values(self, keys: npt.NDArray[np.intp]) -> Values:
        """Copies of some symbols' values as they are, likewise."""
        return {column: view[keys] for column, view in self.views().items()}

    def history(self, every_ns: int) -> RowHistory:
        """Make what keeps them at the multiples of an interval."""
        views = self.views()
        return RowHistory(len(self._rows.array), every_ns, views, self._rows.array)

    @staticmethod
    def columns(name: str, dtype: np.dtype[Any]) -> list[str]:
        """The whole names of a field and those that it goes by."""
        prefix = name.rpartition(".")[0]
        return [f"{prefix}.{each}" if prefix else each for each in dtype.names or ()]


class Snapshots(Tabular):
    """All symbols' values at regular times of the feed. ``snapshots["bid_price"]`` is a table of one field, with a row
    per time and a column per symbol; tables of all fields have a row per time and symbol.

    ``times``: ns since the UNIX epoch, shape (n_times,), rising. ``symbols``: names. A value is undefined (null,
    masked) before its symbol's first tick, and where the handler declares it so.
    """

    def __init__(self, source: Source, keys: npt.NDArray[np.intp], table: SymbolTable, fields: Fields) -> None:
        self.times: npt.NDArray[np.int64] = source.times
        self.symbols = tuple(table.name(key) for key in keys.tolist())
        self.fields = fields.names
        self._source = source
        self._fields = fields
        self._keys = keys
        self._table = table

    @cached_property
    def _places(self) -> npt.NDArray[np.intp]:
        return self._source.places(self._keys)

    @cached_property
    def _columns(self) -> dict[str, npt.NDArray[Any]]:
        """Columns that somebody has asked for so far."""
        return {}

    def _values(self, column: str, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
        """A column's values in the order of their places, and zeros behind them, which stand for no row."""
        if column not in self._columns:
            none = np.zeros((1, *dtype.shape), dtype.base)
            self._columns[column] = np.concatenate([*self._source.values(column, self._keys), none])
        return self._columns[column]

    def __getitem__(self, field: str) -> SnapshotTable:
        """The table of one field. Raises UnknownNameError for one that was not taken."""
        if field not in self.fields:
            raise unknown_name("field that was taken", field, self.fields)
        return SnapshotTable(self, field)

    def __len__(self) -> int:
        return len(self.times)

    def shown(self, field: str, prices: Prices) -> dict[str, Shown]:
        """The columns of a field in natural units, each of shape (n_times * n_symbols,): one, or those of the levels of
        a book. Raises ConfigurationError as ``to_arrow``, and for a field that no table shows."""
        dtype = self._fields.declared[field]
        names = self._fields.columns(field, dtype)
        records = {of: self._values(name, dtype[of]) for name, of in zip(names, dtype.names or (), strict=True)}
        shown = Table(dtype, self._fields.size_unit).shown(records, prices)
        prefix, _, last = names[0].rpartition(".")
        places = self._places.reshape(-1)
        made = {}
        for name in column_names(last, dtype[last]):
            if not (found := shown.get(name)):
                raise ConfigurationError(field, "only its handler uses this field, and no table shows it")
            none = np.zeros(found.values.shape, bool) if found.none is None else found.none
            none[-1] = True
            values = found.values.take(places, axis=0)
            made[f"{prefix}.{name}" if prefix else name] = Shown(values, none.take(places, axis=0), found.is_decimal)
        return made

    def integers(self, field: str) -> npt.NDArray[Any]:
        """Exact numbers of a field, shape (n_times, n_symbols), masked before a symbol's first tick."""
        dtype = self._fields.declared[field]
        values = self._values(field, dtype[(dtype.names or ())[0]])
        none = np.zeros(values.shape, bool)
        none[-1] = True
        return np.ma.MaskedArray(values.take(self._places, axis=0), none.take(self._places, axis=0))

    def to_arrow(self, *, prices: Prices = "float") -> Any:
        """A pyarrow.Table with the columns ``ts``, ``symbol`` and the fields. Raises as ``Tabular.to_arrow``."""
        n = len(self._keys)
        columns: dict[str, Any] = {
            "ts": _time(np.repeat(self.times, n)),
            "symbol": SymbolNames(np.tile(self._keys, len(self.times)), self._table),
        }
        for field in self.fields:
            columns |= self.shown(field, prices)
        return arrow_table(columns)

    def __repr__(self) -> str:
        size = several(len(self.times), "time"), several(len(self.symbols), "symbol")
        return brief(self, listed(self.fields), *size)


class SnapshotTable(Tabular):
    """Table of one field of all symbols: a row per time, a column per symbol."""

    def __init__(self, of: Snapshots, field: str) -> None:
        self._of = of
        self.field = field
        self.times = of.times
        self.symbols = of.symbols

    def __repr__(self) -> str:
        return brief(self, self.field, several(len(self.times), "time"), several(len(self.symbols), "symbol"))

    @property
    def array(self) -> npt.NDArray[Any]:
        """The exact numbers, a masked array of shape (n_times, n_symbols): masked before a symbol's first tick."""
        return self._of.integers(self.field)

    def to_arrow(self, *, prices: Prices = "float") -> Any:
        """A pyarrow.Table with a column ``ts``, and one for each symbol; of levels one for each symbol and level, as
        ``AAPL.bid_price_1``. Raises as ``Tabular.to_arrow``."""
        shown = self._of.shown(self.field, prices)
        n, is_one = len(self.symbols), len(shown) == 1
        columns = {}
        for at, symbol in enumerate(self.symbols):
            for name, (values, none, is_decimal) in shown.items():
                assert none is not None
                taken = Shown(np.ascontiguousarray(values[at::n]), np.ascontiguousarray(none[at::n]), is_decimal)
                columns[symbol if is_one else f"{symbol}.{name}"] = taken
        return arrow_table({"ts": _time(self.times), **columns})

    def to_pandas(self, *, prices: Prices = "float") -> Any:
        """A pandas.DataFrame of the same, the times its index. Raises as ``Tabular.to_pandas``."""
        return pandas_frame(partial(self.to_arrow, prices=prices), index="ts")


def _time(times: npt.NDArray[np.int64]) -> Shown:
    return Table(np.dtype([("ts", TIME)]), 1.0).shown({"ts": times})["ts"]
