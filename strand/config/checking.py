"""Check of a configuration file: its tables and keys against the known ones, and its values against their types and
bounds."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from reprlib import Repr
from typing import Any, Final, TypeVar, get_args

import msgspec

from strand.config.reading import Key, key_text
from strand.config.tables import TABLES, RetryPolicy, Span
from strand.errors import ConfigurationError
from strand.spans import span_ns
from strand.validate import is_between, is_whole, nearest

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


#: A table that holds those of a scheduler, and one beside them that says when to alert.
WRAPPER: Final = "napoleon_scheduler"
MONITORING: Final = "monitoring"
#: Message about that table.
NOT_EVALUATED: Final = "monitoring: its values are checked, but nothing evaluates them: there are no alerts yet"
_LEVELS_OF_ALERT: Final = ("warning", "critical")
#: Its tables: of shares from 0 to 1, or of counts. Those of resources have ``collection_interval``, too.
_MONITORED: Final = {
    ("cpu_usage",): float,
    ("memory_usage",): float,
    ("queue_metrics", "promotion_rate"): float,
    ("queue_metrics", "starvation_count"): int,
}
#: Keys of retry_policy by the names that RetryPolicy has for them.
_RETRIES: Final = {"base_delay": "initial_backoff", "max_delay": "max_backoff"}


def keys_of(tables: Mapping[Any, Any], problems: list[str]) -> dict[Key, Any]:
    """A file's values by key. Unknown tables and keys are added to ``problems``."""
    found: dict[Key, Any] = {}
    tables = _unwrapped(tables, problems)
    for name, table in tables.items():
        if name == MONITORING:
            _check_monitoring(table, problems)
            continue
        if name == "retry_policy" and isinstance(table, Mapping):
            table = _one_vocabulary(table, problems)
        if name not in _TABLE_NAMES:
            problems.append(f"{_shown_name(name)}: {unknown(name, 'table', _TABLE_NAMES)}")
            continue
        found.update(_entries((name,), table, problems))
    return found


def _unwrapped(tables: Mapping[Any, Any], problems: list[str]) -> Mapping[Any, Any]:
    """The tables of a file in which those of a scheduler may stand in one table."""
    inner = tables.get(WRAPPER)
    if WRAPPER not in tables:
        return tables
    outer = {name: table for name, table in tables.items() if name != WRAPPER}
    if not isinstance(inner, Mapping):
        problems.append(f"{WRAPPER}: {shown(inner)} is not a table of tables")
        return outer
    for name in [name for name in outer if name != MONITORING]:
        problems.append(f"{_shown_name(name)}: stands beside {WRAPPER}: put it in that table")
        del outer[name]
    for name in [name for name in inner if name in (*_BY_SYMBOL, MONITORING)]:
        cure = "put it beside that table" if name == MONITORING else "a scheduler has no symbols: leave it out"
        problems.append(f"{WRAPPER}.{_shown_name(name)}: {cure}")
    return {name: table for name, table in inner.items() if name not in (*_BY_SYMBOL, MONITORING)} | outer


def _one_vocabulary(table: Mapping[Any, Any], problems: list[str]) -> dict[Any, Any]:
    """``retry_policy`` with the keys of one vocabulary. ``max_retries`` is one less than ``max_attempts``."""
    found = dict(table)
    if "max_retries" in found:
        retries = found.pop("max_retries")
        if "max_attempts" in table:
            problems.append("retry_policy.max_retries: give either it or max_attempts, which is one more")
        elif not is_whole(retries) or not 0 <= retries < 1000:
            problems.append(f"retry_policy.max_retries: {shown(retries)} is not a whole number from 0 to 999")
        else:
            found["max_attempts"] = retries + 1
    for theirs, ours in _RETRIES.items():
        if theirs in found:
            value = found.pop(theirs)
            if ours in table:
                problems.append(f"retry_policy.{theirs}: give either it or {ours}, which is the same")
            else:
                found[ours] = value
    return found


def _check_monitoring(table: Any, problems: list[str]) -> None:
    """Adds what cannot be to ``problems``: an unknown table or key, a threshold out of its range."""
    if not isinstance(table, Mapping):
        problems.append(f"{MONITORING}: {shown(table)} is not a table of keys")
        return
    known = {at[0] for at in _MONITORED}
    for name, part in table.items():
        where = f"{MONITORING}.{_shown_name(name)}"
        if name not in known:
            problems.append(f"{where}: {unknown(name, f'table of {MONITORING}', sorted(known))}")
        elif (name,) in _MONITORED:
            _check_alert(where, part, _MONITORED[(name,)], True, problems)
        elif not isinstance(part, Mapping):
            problems.append(f"{where}: {shown(part)} is not a table of keys")
        else:
            inner = sorted(at[1] for at in _MONITORED if at[0] == name and len(at) > 1)
            for key, value in part.items():
                if key in inner:
                    _check_alert(f"{where}.{key}", value, _MONITORED[(name, key)], False, problems)
                else:
                    problems.append(f"{where}.{_shown_name(key)}: {unknown(key, f'table of {where}', inner)}")


def _check_alert(where: str, table: Any, kind: type, has_interval: bool, problems: list[str]) -> None:
    if not isinstance(table, Mapping):
        problems.append(f"{where}: {shown(table)} is not a table of keys")
        return
    keys = (*_LEVELS_OF_ALERT, *(("collection_interval",) if has_interval else ()))
    right = {}
    for key, value in table.items():
        at = f"{where}.{_shown_name(key)}"
        if key not in keys:
            problems.append(f"{at}: {unknown(key, f'key of {where}', keys)}")
        elif key == "collection_interval":
            try:
                check_span(value)
            except ConfigurationError as error:
                problems.append(f"{at}: {error}")
        elif kind is float and not is_between(value, 0, 1):
            problems.append(f"{at}: {shown(value)} is not a share from 0 to 1")
        elif kind is int and not (is_whole(value) and value >= 0):
            problems.append(f"{at}: {shown(value)} is not a whole number >= 0")
        else:
            right[key] = value
    if len(right) == 2 and right["critical"] < right["warning"]:
        problems.append(f"{where}.critical: {right['critical']} is below warning, which is {right['warning']}")


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
    """Message that a name is unknown, with the nearest known one."""
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
