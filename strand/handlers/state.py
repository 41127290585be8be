"""Records as users declare them, rows, parameters and outputs, and functions that users give."""

from __future__ import annotations

import functools
import inspect
import keyword
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Final, Self

import numpy as np
import numpy.typing as npt

from strand.errors import ConfigurationError, UnknownSymbolError
from strand.fixed import dataclass
from strand.handlers.options import Option, options_of_record
from strand.symbols import SymbolTable
from strand.units import BY_NAME, declare, meaning_of
from strand.validate import mapping, path, shown, text

#: The field of a row that has a record for each set.
SETS: Final = "sets"
#: The field of a row that has the timer of each set, in ns; 0: none is set.
TIMERS: Final = "timers"
#: The field of what is emitted, and of the parameters, that has the number of the set.
SET: Final = "set"
#: Of a row with sets: the place of the one that is called, from 1; 0 while none is.
TURN: Final = "turn"
#: Dtypes of Python's own types.
_PLAIN = {bool: np.dtype("?"), int: np.dtype("<i8"), float: np.dtype("<f8")}


def row_dtype(state: Any, called: str = "state") -> np.dtype[Any]:
    """The dtype of a record: from a dtype, a list of (name, dtype) pairs, a dict of dtypes by name (``{"n": "u8",
    "seen": ("?", 8)}``), or an annotated class.

    A class's annotations are its fields in order: numpy's scalar types, ``int`` (i8), ``float`` (f8), ``bool``, other
    such classes, and ``Annotated[T, n]`` or ``Annotated[npt.NDArray[T], (n, m)]`` for a fixed-size array of ``T``;
    ``Annotated[bytes, n]`` is text of n bytes. ``Annotated[np.int64, "price"]`` declares what the field holds
    (strand.units).
    Raises ConfigurationError, naming the field.
    """
    if isinstance(state, list | dict) and any(name == "" for name in _names(state)):
        raise ConfigurationError(called, "a field's name is '': numpy would make one up; give it a name")
    if isinstance(state, type) and not issubclass(state, np.generic) and not isinstance(state, np.dtype):
        dtype = _from_class(state, called)
    else:
        try:
            dtype = _from_dict(state, called) if isinstance(state, Mapping) else np.dtype(state)
        except (TypeError, ValueError, SyntaxError) as error:
            raise ConfigurationError(called, f"{shown(state)} is not a dtype: {error}") from error
    if dtype.names is None:
        raise ConfigurationError(called, "give a structured dtype, for example [('volume', 'u8')]")
    if dtype.hasobject:
        raise ConfigurationError(called, "records are plain memory and cannot hold Python objects")
    for name, field in totals_in(dtype):
        if field.shape or field.str != "<i8":
            raise ConfigurationError(f"{called}.{name}", f"a total is one i8, not {field}: declare it as strand.TOTAL")
    return dtype


def totals_in(dtype: np.dtype[Any], prefix: str = "") -> list[tuple[str, np.dtype[Any]]]:
    """The fields of a record, and of records within it, that are declared as totals: their paths and dtypes."""
    found = []
    for name in dtype.names or ():
        if dtype[name].base.names is not None:
            found += totals_in(dtype[name].base, f"{prefix}{name}.")
        elif meaning_of(dtype[name]).quantity == "total":
            found.append((prefix + name, dtype[name]))
    return found


def add_total(row: Any, field: str, more: Any) -> None:
    """Adds to a total of a row, exactly, in a handler that Python runs.

    Args:
        row: The row, as the handler gets it.
        field: The name of its field.
        more: A whole number, or an array of them, of any shape.

    Raises:
        OverflowError: If the sum is beyond what the field holds. The field keeps its value.
    """
    values = np.asarray(more)
    added = int(more) if not values.ndim else sum(values.ravel().tolist())
    total, info = int(row[field]) + added, np.iinfo(row.dtype[field])
    if not info.min <= total <= info.max:
        raise OverflowError(
            f"{field}: its total {total} is beyond 2**63 - 1: read its sizes in a coarser unit (size_unit)"
        )
    row[field] = total


def _names(fields: list[Any] | dict[Any, Any]) -> list[Any]:
    return (
        [field[0] for field in fields if isinstance(field, tuple) and field] if isinstance(fields, list) else [*fields]
    )


def check_attributes(called: str, dtype: np.dtype[Any], where: str = "") -> None:
    """Raises ConfigurationError for a field that compiled code cannot name as in ``row.volume``; ``called``: the
    record, and ``where`` the handler that has it."""
    for name in dtype.names or ():
        if not name.isidentifier() or keyword.iskeyword(name):
            raise ConfigurationError(
                called, f"compiled code cannot use a field named {name!r}: give it a name like 'volume'", where=where
            )
        check_attributes(f"{called}.{name}", dtype[name].base, where)


def _from_dict(fields: Mapping[Any, Any], called: str) -> np.dtype[Any]:
    """Dtype from dtypes by name, or from a dict that numpy takes itself."""
    if {"names", "formats"} <= fields.keys():
        return np.dtype(dict(fields))  # type: ignore[call-overload, no-any-return]
    return np.dtype([(name, *_form(form, f"{called}.{name}")) for name, form in fields.items()], align=True)


def _form(form: Any, where: str) -> tuple[np.dtype[Any], tuple[int, ...]]:
    if isinstance(form, type) or typing.get_origin(form) is Annotated:
        return _field(form, where)
    dtype = np.dtype(form)
    return (dtype, ()) if dtype.subdtype is None else dtype.subdtype


def _from_class(cls: type, called: str) -> np.dtype[Any]:
    try:
        hints = typing.get_type_hints(cls, include_extras=True)
    except NameError as error:
        raise ConfigurationError(
            called, f"an annotation of {cls.__name__} cannot be found: {error}; use only names that the module has"
        ) from error
    if not hints:
        raise ConfigurationError(called, f"{cls.__name__} has no annotated fields, as in  volume: np.uint64")
    fields = [(name, *_field(hint, f"{called}.{name}")) for name, hint in hints.items()]
    # As C lays the same struct out: numba and C read fields where they are aligned.
    return np.dtype(fields, align=True)


def _field(hint: Any, where: str) -> tuple[np.dtype[Any], tuple[int, ...]]:
    """The element's dtype, and the shape of the array of them; () for one alone."""
    shape: tuple[int, ...] = ()
    if typing.get_origin(hint) is Annotated:
        hint, size, *_ = typing.get_args(hint)
        if isinstance(size, str):
            return _declared(hint, size, where), ()
        if hint is bytes and isinstance(size, int) and size > 0:
            return np.dtype(f"S{size}"), ()
        shape = (size,) if isinstance(size, int) else size
        if not isinstance(shape, tuple) or not shape or not all(isinstance(n, int) and n > 0 for n in shape):
            raise ConfigurationError(where, f"{size!r} is not the size or the shape of an array")
    if typing.get_origin(hint) is np.ndarray:
        if not shape:
            raise ConfigurationError(where, f"say how large it is: Annotated[{hint}, 8]")
        (hint,) = typing.get_args(typing.get_args(hint)[1])
    if hint in _PLAIN:
        return _PLAIN[hint], shape
    if isinstance(hint, type) and issubclass(hint, np.generic):
        dtype = np.dtype(hint)
        if dtype.itemsize == 0 or dtype.hasobject:
            raise ConfigurationError(where, f"{hint.__name__} has no size of its own; write Annotated[bytes, n]")
        return dtype, shape
    if isinstance(hint, type) and getattr(hint, "__annotations__", None):
        return _from_class(hint, where), shape
    raise ConfigurationError(
        where,
        f"{hint!r} is not a type of a field; those are numpy's scalar types, int, float, bool, classes of "
        "such fields, and Annotated[T, n] for n of them",
    )


def _declared(hint: Any, quantity: str, where: str) -> np.dtype[Any]:
    """A field that says what it holds."""
    if quantity not in BY_NAME:
        raise ConfigurationError(
            where, f"{quantity!r} is not the size or the shape of an array, and none of {', '.join(BY_NAME)}"
        )
    form, _ = _field(hint, where)
    if form.kind not in "iuf":
        raise ConfigurationError(where, f"a field of {form} cannot hold a {quantity}")
    return declare(BY_NAME[quantity], form.str)


def defaults_of(state: Any) -> dict[str, Any]:
    """Defaults that an annotated class gives its fields; empty for any other object."""
    if not isinstance(state, type) or issubclass(state, np.generic):
        return {}
    names = typing.get_type_hints(state, include_extras=True)
    return {name: getattr(state, name) for name in names if hasattr(state, name)}


def padded(dtype: np.dtype[Any], itemsize: int) -> np.dtype[Any]:
    """Same fields in records as far apart as rows are."""
    assert dtype.fields is not None
    names = list(dtype.names or ())
    return np.dtype(
        {
            "names": names,
            "formats": [dtype.fields[n][0] for n in names],
            "offsets": [dtype.fields[n][1] for n in names],
            "itemsize": itemsize,
        }
    )


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
            from hashlib import blake2b

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
        _fill(found, {field: others[field] for field in fields if field in others}, name, "params.*")
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
                    path("params", symbol),
                    f"has no {missing[0]!r}; give it, or one for '*' or a default",
                    where=f"handler {name!r}",
                )
            _fill(found[key : key + 1], row, name, path("params", symbol))
            named[key] = True
        if lacking and not named.all():
            symbol = table.name(int(np.flatnonzero(~named)[0]))
            raise ConfigurationError(
                "params", f"{symbol!r} has none; give some for it, for '*', or defaults", where=f"handler {name!r}"
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
            "params", f"{type(values).__name__} is not a dict by symbol, nor a DataFrame (one row per symbol)"
        )
    found: dict[str, dict[str, Any]] = {}
    for symbol, row in given.items():
        if not isinstance(symbol, str) or not isinstance(row, Mapping):
            raise ConfigurationError(
                "params", f"{symbol!r}: {row!r} is not a symbol's name with a dict of its parameters"
            )
        for name in row:
            if name not in fields:
                raise ConfigurationError(
                    "params", f"{symbol}: {name!r} is not a parameter; those declared are {', '.join(fields)}"
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
            raise ConfigurationError("params", f"the frame has no column 'symbol'; its columns: {values.columns}")
        symbols = [str(symbol) for symbol in values["symbol"]]
        rows = values.drop("symbol").to_dicts()
    else:
        return values
    if len(set(symbols)) < len(symbols):
        twice = next(symbol for i, symbol in enumerate(symbols) if symbol in symbols[:i])
        raise ConfigurationError("params", f"{twice!r} is in the frame twice")
    return dict(zip(symbols, rows, strict=True))


def _fill(rows: npt.NDArray[Any], values: Mapping[str, Any], handler: str, called: str) -> None:
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
                f"{called}.{field}", f"{rows.dtype[field]} cannot hold {value!r}: {error}", where=f"handler {handler!r}"
            ) from error


def name_of(function: Callable[..., Any], given: object = None) -> str:
    """The name that a handler was given, or else its function's. A partial, or an object that can be called, has none
    of its own. Raises ConfigurationError for a name that is no text, or empty."""
    if given is None:
        return getattr(function, "__name__", type(function).__name__)
    if not text("name", given):
        raise ConfigurationError("name", "it is empty: leave it out, or give one")
    return str(given)


def check_runs(name: str, function: object) -> None:
    """Refuses a function whose call runs nothing of it: an ``async`` one, or a generator."""
    plain = getattr(function, "py_func", function)
    while isinstance(plain, functools.partial):
        plain = plain.func
    if not callable(plain):
        raise ConfigurationError(f"handler {name!r}: {plain!r} is not a function")
    called = plain if inspect.isroutine(plain) else type(plain).__call__
    if inspect.iscoroutinefunction(called) or inspect.isgeneratorfunction(called) or inspect.isasyncgenfunction(called):
        raise ConfigurationError(
            f"handler {name!r}: {called.__name__} is async or a generator, and would not run when it is called; write "
            "a plain function"
        )


#: Columns that every output has beside the declared ones, in some kinds of files at least.
TAKEN = ("number", "sequence", "ts", "instrument_id", "symbol", "feed")
#: Bytes of the largest record.
LARGEST = 16_384


def output_dtypes(outputs: Mapping[str, Any] | None) -> dict[str, np.dtype[Any]]:
    """Records by output, in the order of the handler's numbers. Raises ConfigurationError for what cannot be one."""
    found: dict[str, np.dtype[Any]] = {}
    for name, declared in mapping("outputs", outputs or {}, "{'bars': BAR}").items():
        if not isinstance(name, str) or not name.isidentifier() or keyword.iskeyword(name):
            raise ConfigurationError("outputs", f"{name!r} cannot be an output's name: take one like 'bars'")
        dtype = row_dtype(declared, f"outputs.{name}")
        taken = [field for field in dtype.names or () if field in TAKEN]
        if taken:
            raise ConfigurationError(
                f"outputs.{name}", f"every record has a column {taken[0]!r} already: take another name"
            )
        if not 0 < dtype.itemsize <= LARGEST:
            raise ConfigurationError(f"outputs.{name}", f"a record has {dtype.itemsize} bytes, and at most {LARGEST}")
        found[name] = dtype
    return found
