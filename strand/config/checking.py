"""The tables of a configuration file and their keys held against those that there are, and their values checked."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from reprlib import Repr
from typing import Any, Final, TypeVar, get_args

import msgspec

from strand.config.reading import Key, key_text
from strand.config.tables import TABLES, RetryPolicy, Span
from strand.errors import ConfigurationError
from strand.handlers.spans import span_ns
from strand.validate import nearest

__all__ = ["SYMBOLS", "check_span", "check_table", "keys_of", "shown", "unknown"]

_WORDS: Final = (("int", "a whole number"), ("float", "a number"))
S = TypeVar("S", bound=msgspec.Struct)

#: The table of symbols in ``priorities``.
SYMBOLS: Final = "symbols"
#: Other tables whose keys are symbols.
_BY_SYMBOL: Final = ("groups", "marks")
_TABLE_NAMES: Final = ("policy", "priorities", *_BY_SYMBOL, *TABLES)
_BRIEF: Final = Repr()
_BRIEF.maxlevel, _BRIEF.maxstring, _BRIEF.maxother = 1, 60, 60


def shown(value: Any) -> str:
    """A value of a file in a few words: aliases in YAML can make one that is longer than any memory."""
    return _BRIEF.repr(value)


def keys_of(tables: Mapping[Any, Any], problems: list[str]) -> dict[Key, Any]:
    """A file's values by key. What is no table, and no key, is added to ``problems``."""
    found: dict[Key, Any] = {}
    for name, table in tables.items():
        if name not in _TABLE_NAMES:
            problems.append(f"{_shown_name(name)}: {unknown(name, 'table', _TABLE_NAMES)}")
            continue
        found.update(_entries((name,), table, problems))
    return found


def _entries(at: Key, table: Any, problems: list[str]) -> Iterator[tuple[Key, Any]]:
    """The keys and values of a table. One without a key is nothing in YAML."""
    if table is None:
        return
    if not isinstance(table, Mapping):
        problems.append(f"{key_text(at)}: {shown(table)} is not a table of keys")
        return
    for key, value in table.items():
        where = f"{key_text(at)}.{_shown_name(key)}"
        if not isinstance(key, str):
            problems.append(f"{where}: YAML reads this key as {type(key).__name__}: put it in quotes")
        elif (*at, key) == ("priorities", SYMBOLS):
            yield from _entries((*at, key), value, problems)
        elif value is None:
            problems.append(f"{where}: has no value: give one, or leave the key out")
        elif (len(at) > 1 or at[0] in _BY_SYMBOL) and isinstance(value, Mapping):
            problems.append(f"{where}: is a table: put a name that has a dot in quotes")
        else:
            yield (*at, key), value


def _shown_name(name: Any) -> str:
    return key_text((name,)) if isinstance(name, str) else shown(name)


def unknown(name: Any, what: str, known: Collection[str]) -> str:
    """That a name is none of those that are known, with the nearest one."""
    near = nearest(name, known) if isinstance(name, str) else None
    cure = f"did you mean {near}? It is " if near else "it is "
    return f"{cure}no {what}; there {'is' if len(known) == 1 else 'are'} {', '.join(known) or 'none'}"


def check_table(name: str, kind: type[S], given: Mapping[Key, Any], problems: list[str]) -> S:
    """A table with keys of its own; without those that are added to ``problems``."""
    types = {field.name: field.type for field in msgspec.structs.fields(kind)}
    values: dict[str, Any] = {}
    before = len(problems)
    for (_, key), value in ((at, value) for at, value in given.items() if at[0] == name):
        where = f"{name}.{_shown_name(key)}"
        if key not in types:
            problems.append(f"{where}: {unknown(key, f'key of {name}', types)}")
            continue
        try:
            values[key] = msgspec.convert(value, types[key], dec_hook=lambda _, raw: Span(check_span(raw)))
        except msgspec.ValidationError as error:
            problems.append(f"{where}: {_told(str(error), value, types[key])}")
    table = kind(**values)
    if len(problems) == before and isinstance(table, RetryPolicy):
        first, last = table.initial_backoff, table.max_backoff
        if span_ns("", last) < span_ns("", first):
            problems.append(f"{name}.max_backoff: {last!r} is less than the {first!r} of initial_backoff")
    return table


def _told(error: str, value: Any, kind: Any) -> str:
    """msgspec's error, or that of a span, in this project's words. ``kind``: what the value has to be."""
    if error.startswith("Invalid enum value"):
        return f"{shown(value)}: {unknown(value, 'choice', get_args(get_args(kind)[0]))}"
    if not error.startswith("Expected "):
        return error
    wanted = error.removeprefix("Expected ").partition(", got")[0].replace(" | null", "").replace("`", "")
    for word, said in _WORDS:
        wanted = wanted.replace(word, said)
    return f"{shown(value)} is not {wanted}"


def check_span(value: Any) -> str:
    """A span of a file, which is text. Raises ConfigurationError, without the name of the key."""
    if not isinstance(value, str):
        raise ConfigurationError(f"{shown(value)} is not text with a unit, such as '30s' or '250us'")
    try:
        span_ns("", value)
    except ConfigurationError as error:
        text = str(error).removeprefix(": ").replace(", a timedelta, or seconds as a float;", ",")
        raise ConfigurationError(text) from None
    return value
