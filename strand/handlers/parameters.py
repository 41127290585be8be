"""Parameters a symbol: from a dict or a DataFrame to one record each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from strand.errors import ConfigurationError, UnknownSymbolError
from strand.symbols import SymbolTable

__all__ = ["by_symbol", "records"]

Values = Mapping[str, Mapping[str, Any]]


def by_symbol(values: Any, fields: tuple[str, ...]) -> dict[str, dict[str, Any]]:
    """What was given, as dicts by symbol; all columns have to be fields.

    ``values``: a mapping of symbols to mappings (``"*"`` for all others), a pandas DataFrame with the symbols in its
    index or a column ``symbol``, or a polars DataFrame with a column ``symbol``. Raises ConfigurationError.
    """
    given = _from_frame(values)
    if not isinstance(given, Mapping):
        raise ConfigurationError(f"params: {type(values).__name__} is not a dict by symbol, nor a DataFrame of them")
    found: dict[str, dict[str, Any]] = {}
    for symbol, row in given.items():
        if not isinstance(symbol, str) or not isinstance(row, Mapping):
            raise ConfigurationError(f"params: {symbol!r}: {row!r} is not a dict of parameters of a symbol's name")
        for name in row:
            if name not in fields:
                raise ConfigurationError(
                    f"params: {symbol}: {name!r} is not a parameter; those declared are {', '.join(fields)}"
                )
        found[symbol] = dict(row)
    return found


def _from_frame(values: Any) -> Any:
    """A DataFrame's rows by symbol, whichever library it is of; neither has to be there."""
    library = type(values).__module__.partition(".")[0]
    if library == "pandas":
        frame = values.set_index("symbol") if "symbol" in values.columns else values
        symbols = [str(symbol) for symbol in frame.index]
        rows = frame.to_dict("records")
    elif library == "polars":
        if "symbol" not in values.columns:
            raise ConfigurationError(f"params: the frame has no column 'symbol'; its columns: {values.columns}")
        symbols = [str(symbol) for symbol in values["symbol"]]
        rows = values.drop("symbol").to_dicts()
    else:
        return values
    if len(set(symbols)) < len(symbols):
        twice = next(symbol for i, symbol in enumerate(symbols) if symbol in symbols[:i])
        raise ConfigurationError(f"params: {twice!r} is there twice")
    return dict(zip(symbols, rows, strict=True))


def records(
    name: str,
    dtype: np.dtype[Any],
    defaults: Mapping[str, Any],
    values: Values | None,
    table: SymbolTable,
) -> npt.NDArray[Any]:
    """One record a symbol of the table, shape (n_symbols,), read-only.

    What a symbol is not given it takes from ``"*"``, and then from ``defaults``. Raises UnknownSymbolError for a name
    that is not in the table, ConfigurationError for a parameter that is nowhere or does not fit its field.
    """
    given = values or {}
    others = {**defaults, **given.get("*", {})}
    fields = dtype.names or ()
    found = np.zeros(len(table), dtype)
    lacking = [field for field in fields if field not in others]
    _fill(found, {field: others[field] for field in fields if field in others}, f"handler {name!r}: params: '*'")
    named = np.zeros(len(table), dtype=bool)
    for symbol, row in given.items():
        if symbol == "*":
            continue
        try:
            key = table.index(symbol)
        except UnknownSymbolError as error:
            raise UnknownSymbolError(f"handler {name!r}: params: {error}") from None
        missing = [field for field in lacking if field not in row]
        if missing:
            raise ConfigurationError(
                f"handler {name!r}: params: {symbol} has no {missing[0]!r}; give it, or one for '*' or a default"
            )
        _fill(found[key : key + 1], row, f"handler {name!r}: params: {symbol}")
        named[key] = True
    if lacking and not named.all():
        symbol = table.name(int(np.flatnonzero(~named)[0]))
        raise ConfigurationError(
            f"handler {name!r}: params: there are none for {symbol!r}; give some for '*', or defaults"
        )
    found.flags.writeable = False
    return found


def _fill(rows: npt.NDArray[Any], values: Mapping[str, Any], where: str) -> None:
    """Sets fields, where a value is what the field can hold."""
    for field, value in values.items():
        kind = rows.dtype[field].base.kind
        try:
            array = np.asarray(value)
            if kind in "iu" and array.dtype.kind == "f" and not (array == np.trunc(array)).all():
                raise ValueError("it is not a whole number")
            if array.dtype.kind in "OM" or (kind in "iufb") != (array.dtype.kind in "iufb"):
                raise ValueError("it is of another kind")
            rows[field] = array
            if kind in "iu" and not (rows[field][0] == array).all():
                raise ValueError("it is out of range")
            if kind in "SU" and not (rows[field][0] == array.astype(kind)).all():
                raise ValueError("it is too long")
        except (TypeError, ValueError, OverflowError) as error:
            raise ConfigurationError(
                f"{where}: {field} is {value!r}, which {rows.dtype[field]} cannot hold: {error}"
            ) from error
