"""The rows of a run: written to a file, and as a table of text, the busiest symbols, their fields with units, and every
number readable.

No number of the text is cut: a column whose cells do not fit the width is left out, and named.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from strand.errors import ConfigurationError, called
from strand.feeds.io.atomic_write import atomic_write
from strand.feeds.io.files import check_folder
from strand.output.files import check_path, write_csv
from strand.replaying.run_result import RunResult
from strand.report.quantities import duration, printable, text_width
from strand.tables.arrow import arrow_file
from strand.tables.columns import Column, Shown
from strand.units import Unit
from strand.zones import UTC_CLOCK, FeedClock

if TYPE_CHECKING:
    from strand.output.rows import Rows

#: Fields that matter most, in this order.
PREFERRED: Final = (
    "bid_price", "bid_size", "ask_price", "ask_size", "last_price", "volume", "trades", "orders", "vwap",
    "last_open", "last_high", "last_low", "last_close", "last_volume", "last_vwap", "bars",
)  # fmt: skip
#: Default number of rows shown.
TOP: Final = 10
UNDEFINED: Final = "-"
#: Words below a field's name; a span has its unit in each cell.
_UNITS: Final = {"price": "currency", "notional": "currency", "size": "units", "size squared": "units²"}
#: Digits that a computed number has at least, and decimals of one in units of currency.
_DIGITS: Final = 5
_DECIMALS: Final = {"price": 4, "notional": 2}
#: Below this a number is shown with an exponent, and not with zeros.
_SMALL: Final = 1e-4


class ShownField(NamedTuple):
    """A column as text. ``flush_right``: it holds numbers."""

    name: str
    unit: str
    cells: Sequence[str]
    flush_right: bool = True

    @property
    def width(self) -> int:
        return max(map(text_width, (self.name, self.unit, *self.cells)))


class ResultRows(NamedTuple):
    """The rows that are shown. ``symbols`` and ``ticks``: the first two columns. ``fields``: the others, those that
    matter most first. ``lists``: names of fields of several values, which have no place in a table. ``rest``: symbols
    whose rows are not shown. ``by``: what they are sorted by. ``others``: how many symbols have another handler.
    ``of_bars``: the rows have a bar that is under way, and as ``last_...`` the last full one, which comes first."""

    symbols: ShownField
    ticks: ShownField
    fields: Sequence[ShownField]
    lists: Sequence[str]
    rest: int
    by: str
    others: int
    of_bars: bool = False

    @property
    def note(self) -> str:
        """Note on the fields that their names do not explain."""
        return "last_... is the last full bar; the names without last_ are the current bar" if self.of_bars else ""

    def fitting(self, width: int | None, gap: int) -> tuple[list[ShownField], list[str]]:
        """The columns that fit, and the names of fields that are left out. ``width``: letters in a line, None: any
        number; ``gap``: letters beside each column."""
        shown, left = [self.symbols, self.ticks], list(self.lists)
        used = sum(field.width + gap for field in shown)
        for field in self.fields:
            used += field.width + gap
            if width is None or used <= width:
                shown.append(field)
            else:
                used -= field.width + gap
                left.append(field.name)
        return shown, left


def sort_fields(dtype: np.dtype[Any]) -> list[str]:
    """Names of the keys and fields that rows of a dtype can be sorted by."""
    return ["symbol", "ticks", *(name for name in dtype.names or () if not dtype[name].shape and name != "ticks")]


def check_sort(sort: str | None, columns: Sequence[str]) -> None:
    """Raises ConfigurationError where rows with these columns have none of that name."""
    if sort is not None and sort not in ("symbol", "ticks", *columns):
        there = ", ".join(dict.fromkeys(("symbol", "ticks", *columns)))
        raise ConfigurationError("sort", f"the rows have no field {sort!r}; there are {there}")


def _ticks_of_rows(result: RunResult) -> npt.NDArray[np.int64]:
    """Ticks by symbol of what the rows show: of the last day, where the rows of each day are apart."""
    if not result.days:
        return result.ticks_by_symbol
    last = result.days[-1]
    of_day = dict(zip(last.symbols, last.ticks_by_symbol.tolist(), strict=False))
    return np.array([of_day.get(name, 0) for name in result.symbols], np.int64)


def result_rows(
    result: RunResult, *, top: int | None = TOP, sort: str | None = None, clock: FeedClock = UTC_CLOCK
) -> ResultRows | None:
    """The rows of symbols that had ticks, the ``top`` first ones (None: all); None: no symbol had any. Times are shown
    by ``clock``.

    ``sort``: ``"ticks"`` or a field, greatest first and undefined last, or ``"symbol"``. Raises ConfigurationError for
    a field that the rows do not have, and for sizes whose unit nobody knows.
    """
    counts = _ticks_of_rows(result)
    busiest = np.argsort(-counts, kind="stable")
    busiest = busiest[: np.count_nonzero(counts)]
    if not len(busiest):
        return None
    rows: Rows = result.rows.alike(busiest)
    symbols, table = rows.shown()
    own = ("symbol", "ticks")
    columns = {name: column for name, column in table.items() if column.values.ndim == 1 and name not in own}
    check_sort(sort, list(columns))
    texts = symbols.texts()
    names = texts.tolist()
    by_name = dict(zip(result.symbols, counts.tolist(), strict=False))
    ticks = np.array([by_name[name] for name in names])
    order = _order(sort, {"symbol": Shown(texts, None), "ticks": Shown(ticks, None), **columns})[:top]
    fields = [
        _shown(
            name,
            column,
            order.tolist(),
            rows.units.get(name),
            is_exact=_is_exact(rows, name) and not name.endswith("vwap"),
            clock=clock,
        )
        for name, column in columns.items()
    ]
    under_way = {name for name in columns if f"last_{name}" in columns} if "bars" in columns else set()
    return ResultRows(
        ShownField("symbol", "", [printable(names[at]) for at in order], flush_right=False),
        ShownField("ticks", "", [f"{ticks[at]:,}" for at in order]),
        sorted(fields, key=lambda field: _rank(field, sort, under_way)),
        [name for name, column in table.items() if column.values.ndim > 1],
        len(names) - len(order),
        sort or "ticks",
        len(busiest) - len(names),
        of_bars=bool(under_way),
    )


def _order(sort: str | None, columns: dict[str, Shown]) -> npt.NDArray[np.intp]:
    """Places of rows in the order in which they are shown."""
    values, none, _ = columns[sort or "ticks"]
    ranks = np.unique(values, return_inverse=True)[1]
    if sort == "symbol":
        return np.argsort(ranks)
    last = np.zeros(len(ranks), bool) if none is None else none
    return np.lexsort((-columns["ticks"].values, np.where(last, 0, -ranks), last))


def _rank(field: ShownField, sort: str | None, under_way: Set[str]) -> tuple[bool, bool, bool, int]:
    """Sort key of a field: the field that orders the rows comes first, columns of only dashes or zeros last. A full bar
    comes before a bar that is ``under_way``."""
    known = PREFERRED.index(field.name) if field.name in PREFERRED else len(PREFERRED)
    return field.name != sort, set(field.cells) <= {UNDEFINED, "0"}, field.name in under_way, known


def _is_exact(rows: Rows, name: str) -> bool:
    """Tells whether a field stores whole numbers of a smaller unit."""
    dtype = rows.array.dtype
    for part in name.split("."):
        dtype = dtype[part] if part in (dtype.names or ()) else dtype
    return dtype.kind in "iu"


def _shown(
    name: str, column: Shown, places: Sequence[int], unit: Unit | None, *, is_exact: bool, clock: FeedClock
) -> ShownField:
    quantity = "raw" if unit is None else unit.quantity
    kind, none = column.values.dtype.kind, column.none
    values: list[Any] = [None if none is not None and none[at] else column.values[at].item() for at in places]
    if kind == "M":
        return _times(name, values, clock)
    if quantity == "span":
        return ShownField(name, "", [UNDEFINED if ns is None else duration(ns) for ns in values])
    if kind == "f":
        return ShownField(name, _UNITS.get(quantity, ""), _floats(values, quantity, is_exact=is_exact))
    if kind in "iu":
        cells = [UNDEFINED if n is None else f"{n:,}" for n in values]
        return ShownField(name, _UNITS.get(quantity, ""), cells)
    return ShownField(
        name, "", [UNDEFINED if v in (None, "") else printable(str(v)) for v in values], flush_right=False
    )


def _times(name: str, values: Sequence[int | None], clock: FeedClock) -> ShownField:
    """Shows times. Times of one day are times of day, and the day stands below the name."""
    texts = [None if ns is None else clock.moment(ns) for ns in values]
    days = {text[:10] for text in texts if text is not None}
    if len(days) == 1:
        return ShownField(
            name, f"{days.pop()} {clock.name}", [UNDEFINED if text is None else text[11:] for text in texts]
        )
    return ShownField(name, clock.name, [text or UNDEFINED for text in texts])


def _floats(values: Sequence[float | None], quantity: str, *, is_exact: bool) -> list[str]:
    """Numbers of a column, all with as many decimals as the one that needs most of them."""
    sizes = [abs(v) for v in values if v and np.isfinite(v)]
    if is_exact:
        # Nine digits at most behind the point, and 15 in all: what a float has for certain.
        decimals = max((max(0, -_exponent(v)) for v in sizes), default=0)
        decimals = max(decimals, 2 if quantity == "price" else 0)
    elif sizes and min(sizes) < _SMALL:
        return [UNDEFINED if v is None else f"{v:,.6g}" for v in values]
    else:
        needed = [_DIGITS - 1 - int(np.floor(np.log10(v))) for v in sizes]
        decimals = max((_DECIMALS.get(quantity, 0), *needed))
    return [UNDEFINED if v is None else f"{v:,.{decimals}f}" for v in values]


def _exponent(value: float) -> int:
    exponent = Decimal(f"{value:.15g}").normalize().as_tuple().exponent
    assert isinstance(exponent, int)  # else it is no number
    return exponent


#: Those that pyarrow writes.
_TABLES = (".parquet", ".arrow", ".feather")
ENDINGS = (".npy", ".csv", ".csv.gz", *_TABLES)


def check_rows_path(path: Path) -> None:
    """Raises ConfigurationError, before anything has run, when rows cannot be written there; MissingExtraError where
    that needs pyarrow."""
    if not path.name.endswith(ENDINGS):
        raise ConfigurationError("out", f"{Path(called(path)).name!r} must end in one of {', '.join(ENDINGS)}")
    check_folder("out", path)
    if path.is_dir():
        raise ConfigurationError("out", f"{path} is a folder")
    if path.name.endswith(_TABLES):
        check_path(path)


def rows_with_names(result: RunResult) -> npt.NDArray[Any]:
    """The rows of symbols that had ticks, with their names in front: fields ``symbol``, then the row's own. Of a run
    per day those of each day, with its number from 1 as ``day`` before all."""
    if result.days:
        tables = [_named(day.rows.array, day.symbols, number) for number, day in enumerate(result.days, 1)]
        widest = max((table.dtype for table in tables), key=lambda dtype: dtype.itemsize)
        return np.concatenate([table.astype(widest) for table in tables])
    at = np.flatnonzero(result.ticks_by_symbol)
    return _named(result.rows.array[at], [result.symbols[i] for i in at.tolist()])


def _named(rows: npt.NDArray[Any], names: Sequence[str], day: int | None = None) -> npt.NDArray[Any]:
    width = max((len(n) for n in names), default=1)
    of_day = [] if day is None else [("day", "<i8")]
    fields = [*of_day, ("symbol", f"U{width}"), *((n, rows.dtype[n]) for n in rows.dtype.names or ())]
    out = np.zeros(len(rows), np.dtype(fields))
    if day is not None:
        out["day"] = day
    out["symbol"] = names
    for name in rows.dtype.names or ():
        out[name] = rows[name]
    return out


def _columns_of(result: RunResult) -> dict[str, Column]:
    """Columns of ``rows_with_names``, in natural units; a field of several values gives ``bid_sizes_1`` and so on."""
    if result.days:
        tables = [day.rows.table(symbols=np.arange(len(day.symbols))) for day in result.days]
        number = np.repeat(np.arange(1, len(tables) + 1), [len(table["symbol"]) for table in tables])
        joined: Any = np.ma.concatenate  # which numpy does not type
        columns = {name: joined([table[name] for table in tables]) for name in tables[0]}
        columns = {"day": number, **columns}
    else:
        columns = result.rows.table(symbols=np.flatnonzero(result.ticks_by_symbol))
    found: dict[str, Column] = {}
    for name, column in columns.items():
        if column.ndim == 1:
            found[name] = column
        else:
            several = column.reshape(len(column), -1)
            found |= {f"{name}_{at + 1}": several[:, at] for at in range(several.shape[1])}
    return found


def _write_table(file: BinaryIO, path: Path, result: RunResult) -> None:
    import pyarrow as pa

    if result.days:
        parts = [day.rows.to_arrow() for day in result.days]
        numbers = [pa.array([number] * len(part), pa.int64()) for number, part in enumerate(parts, 1)]
        table = pa.concat_tables(part.add_column(0, "day", at) for part, at in zip(parts, numbers, strict=True))
    else:
        table = result.rows.of(np.flatnonzero(result.ticks_by_symbol)).to_arrow()
    writer = arrow_file(path.suffix, file, table.schema)
    writer.write_table(table)
    writer.close()


def write_rows(path: Path, result: RunResult, *, escape_formulas: bool = False) -> None:
    """Writes the rows: exact integers as ``.npy``, natural units as CSV, Parquet and Arrow. An undefined value is an
    empty cell in CSV. Parquet and Arrow have the types of ``rows.to_arrow()``.

    ``escape_formulas``: of CSV, as ``Dispatcher`` has it. The file appears under its name only when it is whole. Raises
    ConfigurationError for sizes whose unit nobody knows.
    """
    with atomic_write(path) as file:
        if path.name.endswith(".npy"):
            np.save(file, rows_with_names(result), allow_pickle=False)
            return
        if path.name.endswith(_TABLES):
            _write_table(file, path, result)
            return
        write_csv(file, _columns_of(result), escape_formulas=escape_formulas)
