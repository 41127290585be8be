"""Records as users declare them: a symbol's row of state, its parameters, what a handler emits."""

from __future__ import annotations

import keyword
import typing
from collections.abc import Mapping
from typing import Annotated, Any, Final

import numpy as np

from strand.errors import ConfigurationError
from strand.units import BY_NAME, declare, meaning_of

__all__ = [
    "SET",
    "SETS",
    "TIMERS",
    "TURN",
    "add_total",
    "check_attributes",
    "defaults_of",
    "padded",
    "row_dtype",
    "totals_in",
]

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
        raise ConfigurationError(f"{called}: a field's name is '': numpy would make one up; give it a name")
    if isinstance(state, type) and not issubclass(state, np.generic) and not isinstance(state, np.dtype):
        dtype = _from_class(state, called)
    else:
        try:
            dtype = _from_dict(state) if isinstance(state, Mapping) else np.dtype(state)
        except (TypeError, ValueError) as error:
            raise ConfigurationError(f"{called}: {state!r} is not a dtype: {error}") from error
    if dtype.names is None:
        raise ConfigurationError(f"{called}: give a structured dtype, for example [('volume', 'u8')]")
    if dtype.hasobject:
        raise ConfigurationError(f"{called}: records are plain memory and cannot hold Python objects")
    for path, field in totals_in(dtype):
        if field.shape or field.str != "<i8":
            raise ConfigurationError(f"{called}: {path}: a total is one i8, not {field}: declare it as strand.TOTAL")
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


def check_attributes(called: str, dtype: np.dtype[Any]) -> None:
    """Raises ConfigurationError for a field that compiled code cannot name as in ``row.volume``; ``called``: what
    the record is."""
    for name in dtype.names or ():
        if not name.isidentifier() or keyword.iskeyword(name):
            raise ConfigurationError(
                f"{called}: compiled code cannot use a field named {name!r}: give it a name like 'volume'"
            )
        check_attributes(f"{called}: {name}", dtype[name].base)


def _from_dict(fields: Mapping[Any, Any]) -> np.dtype[Any]:
    """Dtype from dtypes by name, or from a dict that numpy takes itself."""
    if {"names", "formats"} <= fields.keys():
        return np.dtype(dict(fields))  # type: ignore[call-overload, no-any-return]
    return np.dtype([(name, *_form(form, f"state: {name}")) for name, form in fields.items()], align=True)


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
            f"{called}: an annotation of {cls.__name__} cannot be found: {error}; use only names that the module has"
        ) from error
    if not hints:
        raise ConfigurationError(f"{called}: {cls.__name__} has no annotated fields, as in  volume: np.uint64")
    fields = [(name, *_field(hint, f"{called}: {cls.__name__}.{name}")) for name, hint in hints.items()]
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
            raise ConfigurationError(f"{where}: {size!r} is not the size or the shape of an array")
    if typing.get_origin(hint) is np.ndarray:
        if not shape:
            raise ConfigurationError(f"{where}: say how large it is: Annotated[{hint}, 8]")
        (hint,) = typing.get_args(typing.get_args(hint)[1])
    if hint in _PLAIN:
        return _PLAIN[hint], shape
    if isinstance(hint, type) and issubclass(hint, np.generic):
        dtype = np.dtype(hint)
        if dtype.itemsize == 0 or dtype.hasobject:
            raise ConfigurationError(f"{where}: {hint.__name__} has no size of its own; write Annotated[bytes, n]")
        return dtype, shape
    if isinstance(hint, type) and getattr(hint, "__annotations__", None):
        return _from_class(hint, where), shape
    raise ConfigurationError(
        f"{where}: {hint!r} is not a type of a field; those are numpy's scalar types, int, float, bool, classes of "
        "such fields, and Annotated[T, n] for n of them"
    )


def _declared(hint: Any, quantity: str, where: str) -> np.dtype[Any]:
    """A field that says what it holds."""
    if quantity not in BY_NAME:
        raise ConfigurationError(
            f"{where}: {quantity!r} is not the size or the shape of an array, and none of {', '.join(BY_NAME)}"
        )
    form, _ = _field(hint, where)
    if form.kind not in "iuf":
        raise ConfigurationError(f"{where}: a field of {form} cannot hold a {quantity}")
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
