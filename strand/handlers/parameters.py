"""Parameters a symbol: from a dict or a DataFrame to one record each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from strand.errors import ConfigurationError, UnknownSymbolError
from strand.handlers.options import Option, options_of_record
from strand.handlers.state import defaults_of, row_dtype
from strand.symbols import SymbolTable

__all__ = ["Parameters", "are_shared", "records_of_sets"]

Values = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Parameters:
    """The parameters of a handler: ``dtype`` is the record that each symbol has, ``defaults`` are those of its fields.
    ``values``: what symbols were given, ``"*"`` being all others."""

    dtype: np.dtype[Any]
    defaults: Mapping[str, Any]
    values: Values

    @classmethod
    def declared(cls, params: Any) -> Self | None:
        """Parameters as a user declares them; None for nothing. Raises ConfigurationError."""
        return None if params is None else cls(row_dtype(params, "params"), defaults_of(params), {})

    def given(self, values: Any) -> Self:
        """Same parameters with values for symbols. Raises ConfigurationError."""
        return replace(self, values=_by_symbol(values, self.dtype.names or ()))

    @property
    def others(self) -> Mapping[str, Any]:
        """Parameters of a symbol without values of its own."""
        return {**self.defaults, **self.values.get("*", {})}

    @property
    def options(self) -> dict[str, Option]:
        """Each as an option, by name."""
        return options_of_record(self.dtype, self.others)

    @property
    def described(self) -> dict[str, str]:
        """Parameters for all symbols, as text, and a digest of those for single symbols."""
        described = {name: str(value) for name, value in self.values.get("*", {}).items()}
        single = sorted((symbol, sorted(row.items())) for symbol, row in self.values.items() if symbol != "*")
        if single:
            digest = blake2b(repr(single).encode())
            described["by symbol"] = f"{len(single):,} symbols, {digest.hexdigest()[:16]}"
        return described

    def records(self, name: str, table: SymbolTable) -> npt.NDArray[Any]:
        """Records of the table's symbols, shape (n_symbols,), read-only. ``name``: the handler's.

        A symbol takes a value that it is not given from ``"*"``, else from the defaults. Raises UnknownSymbolError for
        a name that is not in the table, ConfigurationError for a parameter that is nowhere or does not fit its field.
        """
        others, fields = self.others, self.dtype.names or ()
        found = np.zeros(len(table), self.dtype)
        lacking = [field for field in fields if field not in others]
        _fill(found, {field: others[field] for field in fields if field in others}, f"handler {name!r}: params: '*'")
        named = np.zeros(len(table), dtype=bool)
        for symbol, row in self.values.items():
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
                f"handler {name!r}: params: {symbol!r} has none; give some for it, for '*', or defaults"
            )
        found.flags.writeable = False
        return found


def are_shared(sets: Sequence[Parameters]) -> bool:
    """True if the parameters of each set are those of all symbols."""
    return all(given.values.keys() <= {"*"} for given in sets)


def records_of_sets(sets: Sequence[Parameters], name: str, table: SymbolTable) -> npt.NDArray[Any]:
    """A record of parameters for each set, shape (n_symbols, n_sets), read-only; where all symbols share them, of shape
    (1, n_sets). ``name``: the handler's. Raises as ``Parameters.records``."""
    one = SymbolTable(["*"]) if are_shared(sets) else table
    found = np.stack([given.records(name, one) for given in sets], axis=1)
    found.flags.writeable = False
    return found


def _by_symbol(values: Any, fields: tuple[str, ...]) -> dict[str, dict[str, Any]]:
    """Parameters as dicts by symbol; all columns have to be fields.

    ``values``: a mapping of symbols to mappings (``"*"`` for all others), or a DataFrame of pandas or polars with a
    column ``symbol``. pandas may have the symbols in its index instead. Raises ConfigurationError.
    """
    given = _from_frame(values)
    if not isinstance(given, Mapping):
        raise ConfigurationError(
            f"params: {type(values).__name__} is not a dict by symbol, nor a DataFrame (one row per symbol)"
        )
    found: dict[str, dict[str, Any]] = {}
    for symbol, row in given.items():
        if not isinstance(symbol, str) or not isinstance(row, Mapping):
            raise ConfigurationError(
                f"params: {symbol!r}: {row!r} is not a symbol's name with a dict of its parameters"
            )
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
        raise ConfigurationError(f"params: {twice!r} is in the frame twice")
    return dict(zip(symbols, rows, strict=True))


def _fill(rows: npt.NDArray[Any], values: Mapping[str, Any], where: str) -> None:
    """Sets fields, where a value is what the field can hold."""
    for field, value in values.items():
        kind = rows.dtype[field].base.kind
        try:
            array = np.asarray(value)
            if kind in "iu" and array.dtype.kind == "f" and not (array == np.trunc(array)).all():
                raise ValueError("it is not a whole number")
            if array.dtype.kind in "OM" or (kind in "iufb") != (array.dtype.kind in "iufb"):
                raise ValueError("it has another type")
            rows[field] = array
            if kind in "iu" and not (rows[field][0] == array).all():
                raise ValueError("it is out of range")
            if kind in "SU" and not (rows[field][0] == array.astype(kind)).all():
                raise ValueError("it is too long")
        except (TypeError, ValueError, OverflowError) as error:
            raise ConfigurationError(
                f"{where}: {field} is {value!r}, which {rows.dtype[field]} cannot hold: {error}"
            ) from error
