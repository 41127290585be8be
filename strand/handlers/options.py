"""Options of handlers: what they are called, what they take, and how values are said as text.

The options of a built-in handler are the arguments of the function that makes it, as their annotations have them; those
of one's own are the fields of its ``params``, or the arguments of a function that returns a handler; of a chain, those
of its parts, as ``part.name``.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import functools
import inspect
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final, Literal, ParamSpec, TypeAlias

import numpy as np

from strand.errors import ConfigurationError
from strand.numbers import is_whole
from strand.sessions import Sessions

if TYPE_CHECKING:
    from strand.handlers.base import Handler

__all__ = ["Builtin", "Option", "Origin", "built_in", "options_of", "said_params"]

P = ParamSpec("P")


@dataclass(frozen=True, slots=True)
class Origin:
    """What makes a handler again: ``load``, a built-in one's name or ``module:attribute``, with ``options`` as text;
    those that have their default are left out. ``load`` is None where an option has no text that says all of it."""

    load: str | None
    options: Mapping[str, str]


# ---- what options take


@dataclass(frozen=True, slots=True)
class Kind:
    """What an option takes, in words; ``read`` makes a value of text, or raises ValueError; ``show`` makes text of a
    value that reads as the same, or None where there is no such text."""

    words: str
    read: Callable[[str], Any] = str
    show: Callable[[Any], str | None] = str


def _flag(text: str) -> bool:
    word = text.strip().lower()
    if word not in _FLAGS:
        raise ValueError(text)
    return _FLAGS[word]


def _show_span(value: Any) -> str:
    if isinstance(value, dt.timedelta):
        return f"{value // dt.timedelta(microseconds=1)}us"
    return f"{value}ns" if is_whole(value) else str(value)


_FLAGS: Final = {"yes": True, "no": False, "true": True, "false": False, "1": True, "0": False}
FLAG: Final = Kind("yes or no", _flag, lambda value: "yes" if value else "no")
WHOLE: Final = Kind("a whole number", int)
NUMBER: Final = Kind("a number", float, lambda value: repr(float(value)))
TEXT: Final = Kind("text")
SPAN: Final = Kind("a span of time, as 1m or 500ms", show=_show_span)
AMOUNT: Final = Kind("an amount")
SESSIONS: Final = Kind(
    "hours and zone, as '09:30-16:00 America/New_York'", show=lambda value: value if isinstance(value, str) else None
)


def _one_of(choices: tuple[Any, ...]) -> Kind:
    by_text = {str(choice): choice for choice in choices}

    def read(text: str) -> Any:
        if text not in by_text:
            raise ValueError(text)
        return by_text[text]

    return Kind(f"one of {', '.join(by_text)}", read)


def _letters(most: int) -> Kind:
    def read(text: str) -> bytes:
        if len(found := text.encode()) > most:
            raise ValueError(text)
        return found

    return Kind(f"text of at most {most} bytes", read, bytes.decode)


def _kind_of_hint(hint: Any) -> Kind | None:
    """What an annotation lets through; None: nothing that text could say."""
    union = typing.get_origin(hint) in (typing.Union, types.UnionType)
    parts = [part for part in (typing.get_args(hint) if union else (hint,)) if part is not types.NoneType]
    choices = tuple(c for part in parts if typing.get_origin(part) is Literal for c in typing.get_args(part))
    if choices:
        return _one_of(choices)
    # The widest one first: a span of time may be text or a number, too.
    known = {dt.timedelta: SPAN, Sessions: SESSIONS, Decimal: AMOUNT, str: TEXT, float: NUMBER, int: WHOLE, bool: FLAG}
    return next((kind for type_, kind in known.items() if type_ in parts), None)


def _kind_of_field(dtype: np.dtype[Any]) -> Kind | None:
    """What a field of parameters holds; None: a record within a record."""
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


@dataclass(frozen=True, slots=True)
class Option:
    """One option: its name, what it takes, its default as text (None: nothing), and what it is about."""

    name: str
    kind: Kind
    default: str | None
    about: str = ""


@dataclass(frozen=True, slots=True)
class Builtin:
    """A built-in handler by name: the function that makes it, and the options it has unless one of ``instead`` is
    given."""

    make: Callable[..., Handler]
    defaults: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    instead: tuple[str, ...] = ()

    def __call__(self, **given: Any) -> Handler:
        return self.make(**(given if any(name in given for name in self.instead) else {**self.defaults, **given}))


#: What can have options.
Makes: TypeAlias = "Handler | Builtin | Callable[..., Handler]"


def options_of(like: Makes) -> dict[str, Option]:
    """The options of a handler, a built-in one, or a function that returns one, by name in their order."""
    if isinstance(like, Builtin):
        found = {}
        for name, option in _of_function(like.make).items():
            about = ABOUT.get(f"{like.make.__name__}.{name}", ABOUT.get(name, ""))
            default = option.kind.show(like.defaults[name]) if name in like.defaults else option.default
            found[name] = dataclasses.replace(option, default=default, about=about)
        return found
    if inspect.isfunction(like):
        return _of_function(like)
    handler: Any = like
    if handler.parts:
        return {
            f"{part}.{name}": dataclasses.replace(option, name=f"{part}.{name}")
            for part, inner in handler.parts
            for name, option in options_of(inner).items()
        }
    return _of_params(handler)


def _of_function(function: Callable[..., Any]) -> dict[str, Option]:
    try:
        hints = typing.get_type_hints(function)
    except Exception as error:
        raise ConfigurationError(f"handler: an annotation of {function.__name__} says nothing: {error}") from error
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


def _of_params(handler: Any) -> dict[str, Option]:
    dtype = handler.params_dtype
    found = {}
    given = {**handler.params_defaults, **(handler.params_values or {}).get("*", {})}
    for name in () if dtype is None else dtype.names:
        kind = _kind_of_field(dtype[name])
        if kind is not None:
            default = kind.show(given[name]) if name in given else None
            found[name] = Option(name, kind, default)
    return found


def said_params(handler: Handler) -> dict[str, str]:
    """The parameters a handler was given, as text, with a digest of those of single symbols; of a chain, by part."""
    if handler.parts:
        return {f"{part}.{name}": text for part, inner in handler.parts for name, text in said_params(inner).items()}
    values = dict(handler.params_values or {})
    said = {name: str(value) for name, value in values.pop("*", {}).items()}
    if values:
        digest = blake2b(repr(sorted((symbol, sorted(row.items())) for symbol, row in values.items())).encode())
        said["by symbol"] = f"{len(values):,} symbols, {digest.hexdigest()[:16]}"
    return said


# ---- where a handler comes from


def built_in(make: Callable[P, Handler]) -> Callable[P, Handler]:
    """Decorates a function that makes a built-in handler, called as its name is: what it makes knows its origin."""

    @functools.wraps(make)
    def made(*args: P.args, **kwargs: P.kwargs) -> Handler:
        handler = make(*args, **kwargs)
        given = inspect.signature(make).bind(*args, **kwargs).arguments
        load: str | None = make.__name__
        said = {}
        for name, option in _of_function(make).items():
            value = given.get(name)
            text = None if value is None else option.kind.show(value)
            if value is not None and text is None:
                load, text = None, str(value)
            if text is not None and text != option.default:
                said[name] = text
        return dataclasses.replace(handler, origin=Origin(load, said))

    return made


#: What options of built-in handlers are about, by name; where that differs, by handler and name.
ABOUT: Final[Mapping[str, str]] = {
    "every": "emit a record for each stretch of so much time",
    "bars.every": "the time of a bar",
    "ticks": "a bar for so many trades",
    "volatility.ticks": "a return over so many prices",
    "volume": "a bar for so many units of the instrument",
    "notional": "a bar for so many units of currency",
    "fill": "emit also the stretches in which nothing came",
    "partial": "emit at the run's end what is under way",
    "sessions": "when the venue is open; what comes outside does not count",
    "outside": "trades outside of sessions",
    "zero_sizes": "trades of size 0",
    "book": "take trades and quotes from order books",
    "crosses": "crosses count too",
    "fills": "what a fill does: reduce its order, or only report",
    "step": "returns over a grid of so much time",
    "price": "of trades, or the mid of the best quotes",
    "sign": "what tells who bought",
    "top": "levels that a row shows",
    "max_levels": "levels that a side keeps",
    "work": "steps a tick",
    "dear_every": "symbols whose index divides by it take more steps",
    "dear_times": "so many times as many",
}
