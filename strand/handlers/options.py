"""Options of handlers: their names, their kinds, and their values as text.

The options of a built-in handler are the arguments of the function that makes it, as their annotations have them; those
of one's own are the fields of its ``params``, or the arguments of a function that returns a handler; of a chain, those
of its parts, as ``part.name``.
"""

from __future__ import annotations

import datetime as dt
import inspect
import types
import typing
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, Final, Literal, NamedTuple

import numpy as np

from strand.errors import ConfigurationError
from strand.handlers.feed_trades import Contracts, contracts_of
from strand.handlers.sessions import Sessions
from strand.spans import span_ns, span_text


class Origin(NamedTuple):
    """Recipe to make a handler again. ``load``: a built-in one's name or ``module:attribute``; None where an option has
    no text that gives all of it. ``options``: those without their default, as text. ``call``: for a built-in one, the
    function that made it and its arguments."""

    load: str | None
    options: Mapping[str, str]
    call: tuple[Callable[..., Any], tuple[Any, ...], Mapping[str, Any]] | None = None


# ---- what options take


class Kind(NamedTuple):
    """Kind of an option, with its values in words. ``read`` makes a value of text, or raises ValueError. ``show`` makes
    text that reads as the same value, or None where there is no such text."""

    words: str
    read: Callable[[str], Any] = str
    show: Callable[[Any], str | None] = str


def _flag(text: str) -> bool:
    word = text.strip().lower()
    if word not in _FLAGS:
        raise ValueError(text)
    return _FLAGS[word]


def _show_span(value: Any) -> str:
    return value if isinstance(value, str) else span_text(span_ns("span", value, least=None))


_FLAGS: Final = {"yes": True, "no": False, "true": True, "false": False, "1": True, "0": False}
FLAG: Final = Kind("yes or no", _flag, lambda value: "yes" if value else "no")
WHOLE: Final = Kind("a whole number", int)
NUMBER: Final = Kind("a number", float, lambda value: repr(float(value)))
TEXT: Final = Kind("text")
SPAN: Final = Kind("a span of time, such as 1m or 500ms", show=_show_span)
AMOUNT: Final = Kind("an amount")
SESSIONS: Final = Kind(
    "hours and zone, as '09:30-16:00 America/New_York', or a calendar, as 'XNYS'",
    show=lambda value: value if isinstance(value, str) else None,
)


def _show_contracts(value: Any) -> str | None:
    found = contracts_of(value)
    # A name with a comma is no part of a text.
    return None if any("," in name or name != name.strip() for name, _, _ in found.by_pattern) else str(found)


CONTRACTS: Final = Kind("contracts by name or pattern, as 'ES*=50, BTCUSD_PERP=inverse 100'", show=_show_contracts)


def _one_of(choices: tuple[Any, ...]) -> Kind:
    by_text = {str(choice): choice for choice in choices}

    def read(text: str) -> Any:
        if text not in by_text:
            raise ValueError(text)
        return by_text[text]

    return Kind(f"one of {', '.join(by_text)}", read)


def _letters(maximum: int) -> Kind:
    def read(text: str) -> bytes:
        if len(found := text.encode()) > maximum:
            raise ValueError(text)
        return found

    return Kind(f"text of at most {maximum} bytes", read, bytes.decode)


def _kind_of_hint(hint: Any) -> Kind | None:
    """Kind of the values that an annotation allows; None: no text can give such a value."""
    union = typing.get_origin(hint) in (typing.Union, types.UnionType)
    parts = [part for part in (typing.get_args(hint) if union else (hint,)) if part is not types.NoneType]
    choices = tuple(c for part in parts if typing.get_origin(part) is Literal for c in typing.get_args(part))
    if choices:
        return _one_of(choices)
    if Sessions in parts and str not in parts:  # an own handler takes the table, and no text
        return SESSIONS._replace(read=Sessions.parse)
    # The widest one first: a span of time may be text or a number, too.
    known = {
        dt.timedelta: SPAN,
        Sessions: SESSIONS,
        Contracts: CONTRACTS,
        Decimal: AMOUNT,
        str: TEXT,
        float: NUMBER,
        int: WHOLE,
        bool: FLAG,
    }
    return next((kind for type_, kind in known.items() if type_ in parts), None)


def _kind_of_field(dtype: np.dtype[Any]) -> Kind | None:
    """Kind of the values in a field of parameters; None: a record within a record."""
    base = dtype.base
    kinds = {"b": FLAG, "i": WHOLE, "u": WHOLE, "f": NUMBER, "S": _letters(base.itemsize)}
    kind = kinds.get(base.kind)
    if kind is None or not dtype.shape:
        return kind

    def read(text: str) -> Any:
        return np.array([kind.read(part) for part in text.split(",")]).reshape(dtype.shape)

    def show(value: Any) -> str:
        return ",".join(str(kind.show(one)) for one in np.broadcast_to(value, dtype.shape).ravel().tolist())

    return Kind(f"{int(np.prod(dtype.shape))} of {base} between commas", read, show)


# ---- options


class Option(NamedTuple):
    """Option of a handler: its name, its kind, its default as text (None: no default), and its subject."""

    name: str
    kind: Kind
    default: str | None
    about: str = ""


def options_of_function(function: Callable[..., Any]) -> dict[str, Option]:
    """Options of a function, by name in their order."""
    try:
        hints = typing.get_type_hints(function)
    except Exception as error:
        raise ConfigurationError(
            "handler", f"an annotation of {function.__name__} cannot be evaluated: {error}"
        ) from error
    found = {}
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            continue
        given = None if parameter.default is parameter.empty else parameter.default
        kind = _kind_of_hint(hints.get(name, type(given)))
        if kind is not None:
            default = None if given is None else kind.show(given)
            found[name] = Option(name, kind, default)
    return found


def options_of_record(dtype: np.dtype[Any], given: Mapping[str, Any]) -> dict[str, Option]:
    """The fields of a record as options, by name; ``given``: their defaults, where they have any."""
    found = {}
    for name in dtype.names or ():
        kind = _kind_of_field(dtype[name])
        if kind is not None:
            default = kind.show(given[name]) if name in given else None
            found[name] = Option(name, kind, default)
    return found
