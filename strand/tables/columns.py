"""Structured arrays as columns for people: natural units, and a mask for what is undefined.

A table shows what ``strand.units`` declares of a field: a price in units of currency, a size in units of the instrument
(whatever the feed's ``size_unit``), a moment as a time in UTC. Such numbers are f8, rounded once from the exact
integers; sizes that count whole units stay integers. Fields for a handler's inner workings alone are left out. A field
that declares nothing is shown as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any, Final, Literal, NamedTuple, Protocol, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from strand.errors import ConfigurationError
from strand.units import NO_SIZE_UNIT, Unit, meaning_of, undeclared, unit_of

#: A spreadsheet runs a text cell that begins with one of these, or with what follows one of the last two.
FORMULA_STARTS: Final = "=+-@\t\r"

#: Prices in units of currency as floats or exact decimals, or exact integers in 1e-9.
Prices = Literal["float", "decimal", "integer"]
#: The same without decimals, which numpy does not have.
NumpyPrices = Literal["float", "integer"]
#: A price of integers has so many digits after the point.
PRICE_DIGITS: Final = 9
#: Values, shape (n, ...): a masked array where some may be undefined. Floats that are masked are NaN, times NaT.
Column = npt.NDArray[Any]
Missing = npt.NDArray[np.bool_]
#: Quantities that tables show in another unit than fields have them.
_SCALED: Final = frozenset(("price", "size", "total", "size squared", "notional"))

#: The units of columns, in a word.
_WORDS: Final = {
    "price": "currency", "notional": "currency", "size": "units", "total": "units", "size squared": "units squared",
    "time": "UTC", "span": "ns",
}  # fmt: skip


class Records(Protocol):
    """Fields by name, each of shape (n, ...): a structured array, or a dict of columns."""

    def __getitem__(self, name: str, /) -> Any: ...


class Shown(NamedTuple):
    """A column of a table. ``values``: shape (n, ...). ``none``: where they are undefined, of the same shape; None:
    nowhere, in any records. ``is_decimal``: they are integers that stand for decimals of ``PRICE_DIGITS`` digits."""

    values: npt.NDArray[Any]
    none: Missing | None
    is_decimal: bool = False

    def each(self) -> Iterator[Shown]:
        """The columns of a column of lists: of their first values, of their second, and so on."""
        for at in range(self.values.shape[1]):
            none = None if self.none is None else np.ascontiguousarray(self.none[:, at])
            yield Shown(np.ascontiguousarray(self.values[:, at]), none, self.is_decimal)


class SymbolNames(NamedTuple):
    """The column ``symbol``. ``keys``: of shape (n,), ``names``: the symbols' names by key."""

    keys: npt.NDArray[Any]
    names: Sequence[str]

    def texts(self) -> npt.NDArray[np.str_]:
        """The names, shape (n,)."""
        places, names = self.coded()
        found: npt.NDArray[np.str_] = np.array(names, np.str_)[places]
        return found

    def coded(self) -> tuple[npt.NDArray[np.int32], list[str]]:
        """A place for each record, shape (n,), and the names that have these places."""
        keys, places = np.unique(self.keys, return_inverse=True)
        return places.astype(np.int32), [self.names[key] for key in keys.tolist()]


#: Column of a shown table.
ShownColumn: TypeAlias = Shown | SymbolNames


class Table:
    """Table that shows the records of a dtype: ``units`` of their exact numbers by column, ``columns`` for people.

    ``declared``: the dtype, with what it declares; ``plain``: the same without. ``size_unit``: what 1 in a size is
    worth, None where nobody knows, because the feeds that are merged differ in it.
    """

    def __init__(self, declared: np.dtype[Any], size_unit: float | None) -> None:
        self.plain = undeclared(declared)
        self.declared = declared
        self.size_unit = size_unit

    @property
    def units(self) -> dict[str, Unit]:
        """The unit of each field's numbers; a record within a record gives ``part.field``."""
        return {path: unit_of(dtype, self.size_unit) for path, dtype in _leaves(self.declared, "")}

    @property
    def unit_words(self) -> dict[str, str]:
        """The units of ``columns``, in a word for who looks at them; fields without a unit are left out."""
        words = {path: _WORDS.get(meaning_of(dtype).quantity, "") for path, dtype in _leaves(self.declared, "")}
        return {name: word for path, word in words.items() if word for name in self.names[path]}

    @property
    def names(self) -> dict[str, tuple[str, ...]]:
        """The names of each field's columns; fields that no table shows are left out."""
        return {
            path: column_names(path, dtype)
            for path, dtype in _leaves(self.declared, "")
            if dtype.base.kind != "V" and meaning_of(dtype).quantity != "inner"
        }

    def as_known(self) -> Table:
        """Same table, with sizes as the feeds count them where their unit is unknown."""
        return self if self.size_unit is not None else Table(self.declared, 1.0)

    def columns(self, records: Records, prices: NumpyPrices = "float") -> dict[str, Column]:
        """Columns of numpy by name; a record within a record gives columns ``part.field``, bytes become text.

        Raises ConfigurationError for a size whose unit nobody knows, and for ``prices`` that numpy does not have.
        """
        _check_prices(prices, get_args(NumpyPrices))
        return {name: _masked(column) for name, column in self.shown(records, prices).items()}

    def shown(self, records: Records, prices: Prices = "float") -> dict[str, Shown]:
        """Columns to show, for ``strand.tables.arrow``. Raises ConfigurationError for a size whose unit is unknown, and
        for ``prices`` of another name."""
        _check_prices(prices, get_args(Prices))
        found: dict[str, Shown] = {}
        self._flatten(self.declared, records, "", found, prices)
        return found

    def _flatten(
        self, declared: np.dtype[Any], records: Records, prefix: str, into: dict[str, Shown], prices: Prices
    ) -> None:
        for name in declared.names or ():
            path, dtype, values = prefix + name, declared[name], records[name]
            if dtype.base.names is not None:
                for part, where in _parts(values, dtype, path):
                    self._flatten(dtype.base, part, where, into, prices)
            elif dtype.base.kind == "S":
                into[path] = Shown(_text(values), None)
            elif dtype.base.kind != "V" and meaning_of(dtype).quantity != "inner":  # bytes without a meaning
                shown = self._shown(path, dtype, values, missing(declared, records, name), prices)
                names = column_names(path, dtype)
                into.update(dict.fromkeys(names, shown) if names == (path,) else zip(names, shown.each(), strict=True))

    def _shown(
        self, path: str, dtype: np.dtype[Any], values: npt.NDArray[Any], none: Missing | None, prices: Prices
    ) -> Shown:
        unit = unit_of(dtype, self.size_unit)
        is_whole_price = unit.quantity == "price" and dtype.base.kind in "iu"
        if is_whole_price and prices != "float":
            return Shown(values, none, is_decimal=prices == "decimal")
        if unit.quantity in _SCALED:
            if unit.scale is None:
                raise ConfigurationError(path, NO_SIZE_UNIT)
            values = _scaled(values, unit.scale)
        elif unit.quantity == "time":
            values = values.astype("<i8").view("<M8[ns]")
        elif unit.quantity == "letter":
            values = np.ascontiguousarray(values, "<u4").view("<U1")
        return Shown(values, none)


def _text(values: npt.NDArray[Any]) -> npt.NDArray[np.str_]:
    """Bytes as text. Single letters are many: they take no call each."""
    if values.dtype.itemsize == 1:
        codes = np.ascontiguousarray(values).view(np.uint8)
        if codes.max(initial=0) < 128:
            letters: npt.NDArray[np.str_] = codes.astype(np.uint32).view("<U1")
            return letters
    return np.char.decode(values, "ascii", "backslashreplace")


def _masked(column: Shown) -> Column:
    values, none, _ = column
    if none is None:
        return np.ascontiguousarray(values)
    undefined: Any = {"f": np.nan, "M": np.datetime64("NaT")}.get(values.dtype.kind)
    filled = np.ascontiguousarray(values) if undefined is None else np.where(none, undefined, values)
    return np.ma.MaskedArray(filled, none)


def with_names(
    records: npt.NDArray[Any], names: npt.NDArray[np.str_], at: int, called: str = "symbol"
) -> npt.NDArray[Any]:
    """A copy of records, shape (n,), with a field ``called`` so of their names as the field of the place ``at``."""
    fields: list[tuple[str, Any]] = [(name, records.dtype[name]) for name in records.dtype.names or ()]
    found = np.zeros(len(records), np.dtype([*fields[:at], (called, names.dtype), *fields[at:]]))
    found[called] = names
    for name, _ in fields:
        found[name] = records[name]
    return found


def _check_prices(prices: str, names: Sequence[str]) -> None:
    if prices not in names:
        raise ConfigurationError("prices", f"{prices!r} is not {' or '.join(map(repr, names))}")


def _leaves(dtype: np.dtype[Any], prefix: str) -> Iterator[tuple[str, np.dtype[Any]]]:
    for name in dtype.names or ():
        if dtype[name].base.names is None:
            yield prefix + name, dtype[name]
        else:
            for _, where in _parts(np.empty((0, *dtype[name].shape), dtype[name].base), dtype[name], prefix + name):
                yield from _leaves(dtype[name].base, where)


def column_names(path: str, dtype: np.dtype[Any]) -> tuple[str, ...]:
    """The names of the columns that show a field: its ``path``, or a name for each value of its array."""
    if not (each := meaning_of(dtype).each) or not dtype.shape:
        return (path,)
    prefix = path[: path.rfind(".") + 1]
    return tuple(f"{prefix}{each}_{number}" for number in range(1, dtype.shape[0] + 1))


def _parts(values: npt.NDArray[Any], dtype: np.dtype[Any], path: str) -> Iterator[tuple[npt.NDArray[Any], str]]:
    """Records within records, and what their columns' names begin with."""
    if dtype.shape:
        yield from ((values[:, i], f"{path}.{i}.") for i in range(dtype.shape[0]))
    else:
        yield values, f"{path}."


def missing(declared: np.dtype[Any], records: Records, name: str) -> Missing | None:
    """Mask of a field's undefined values by its declaration, in the shape of the values. None: the field is always
    defined."""
    meaning, values = meaning_of(declared[name]), records[name]
    if meaning.quantity == "raw" or (values.dtype.kind != "f" and not meaning.none and not meaning.given):
        return None
    found = np.isnan(values) if values.dtype.kind == "f" else np.zeros(values.shape, bool)
    for none in meaning.none:
        found |= values == none
    for other, minimum in meaning.given.items():
        lacks = missing(declared, records, other) if minimum is None else records[other] < minimum
        if lacks is not None:
            found |= lacks.reshape(-1, *(1,) * (values.ndim - 1))
    return found


def _scaled(values: npt.NDArray[Any], scale: Decimal) -> npt.NDArray[Any]:
    """Values times a power of ten: rounded once."""
    if scale == 1:
        return values
    return values / float(1 / scale) if scale < 1 else values * float(scale)
