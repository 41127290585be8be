"""The options of ``strand.feeds.open`` by name and type, and their texts on a command line."""

from __future__ import annotations

import dataclasses
import datetime as dt
import inspect
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal

from strand.errors import ConfigurationError
from strand.feeds.formats.registry import formats
from strand.feeds.io.bytestream import InflateLimits
from strand.feeds.mapping.column_options import ColumnOptions

if TYPE_CHECKING:
    from strand.feeds.base import TicksAre
    from strand.feeds.formats.json.profile import JsonProfile

__all__ = ["FeedOptions", "ReaderOptions", "option_values"]


class ReaderOptions(ColumnOptions, total=False):
    """Options of files' readers. The class of each reader lists its own options and their meaning."""

    on_bad_record: Literal["raise", "skip"]
    batch_ticks: int
    limits: InflateLimits | None
    profile: JsonProfile | Mapping[str, Any] | str | os.PathLike[str] | None
    symbol: str | None
    columns: Mapping[str, str | Mapping[str, Any] | None] | None
    ticks: TicksAre | None
    flags: Mapping[str, int] | None
    event: str | Sequence[str] | None
    array: str | None
    bars: str | None
    levels: int | None
    max_symbols: int | None
    threads: int | None
    port: int | Collection[int] | None
    session: str | None
    blank_headers: bool
    hold: int
    hold_ns: int


class FeedOptions(ReaderOptions, total=False):
    """``feed_options``: what ``strand.feeds.open`` takes beside the files and which of their ticks are wanted."""

    format: str | None
    date: dt.date | str | None
    zone: str | None
    reorder_ns: int
    on_disorder: str | None
    venue_in_name: bool
    new_day: str | None
    carry_over: bool


#: Reader options for which a command has an option of its own.
_ELSEWHERE: Final = ("symbols", "date", "zone", "profile", "on_bad_record")
_TRUTHS: Final = {"true": True, "false": False}
#: The keys of a column that may be a list.
_LISTS: Final = ("column", "unit")


def option_values(texts: Mapping[str, str]) -> dict[str, Any]:
    """Values for ``strand.feeds.open`` of texts by name, each as the readers that have the option take it.

    Numbers are whole; what is on or off is ``true`` or ``false``; a list has commas; what maps names is given by
    ``OPTION.NAME``, where an empty text is None: ``{"columns.price": "px", "columns.flags": ""}`` becomes ``{"columns":
    {"price": "px", "flags": None}}``. A key of a column's follows it: ``columns.price.unit``, ``columns.side.map.buy``.
    ``limits.max_ratio`` and the like make ``InflateLimits``. Raises ConfigurationError for an option that no reader
    has, and for a text that cannot be its value.
    """
    kinds = _kinds()
    values: dict[str, Any] = {}
    for said, text in texts.items():
        option, dot, name = said.partition(".")
        if option in _ELSEWHERE:
            raise ConfigurationError(said, f"give it by --{option.replace('_', '-')}, an option of its own")
        if option not in kinds:
            raise ConfigurationError(said, f"no reader has such an option; there are {', '.join(sorted(kinds))}")
        kind = kinds[option]
        mapped = "Mapping[" in kind or "InflateLimits" in kind
        if mapped != bool(dot and name):
            example = f"{option}.NAME=VALUE" if mapped else f"{option}=VALUE"
            raise ConfigurationError(said, f"it is given as {example}")
        try:
            if option == "columns":
                _set_column(values.setdefault(option, {}), name, text)
            elif mapped:
                values.setdefault(option, {})[name] = _entry(kind, name, text)
            else:
                values[option] = _value(kind, text)
        except ConfigurationError:
            raise
        except KeyError:
            raise ConfigurationError(said, f"give true or false, not {text!r}") from None
        except ValueError:
            whole = "" if name == "max_ratio" else "whole "
            raise ConfigurationError(said, f"{text!r} is not a {whole}number") from None
    if "limits" in values:
        values["limits"] = _limits(values["limits"])
    return values


def _kinds() -> dict[str, str]:
    """Annotations of the readers' options, by name."""
    found: dict[str, str] = {}
    for known in formats():
        for parameter in inspect.signature(known.feed_class().__init__).parameters.values():
            if parameter.kind is inspect.Parameter.KEYWORD_ONLY and parameter.name not in (*_ELSEWHERE, "select"):
                found[parameter.name] = str(parameter.annotation)
    return found


def _value(kind: str, text: str) -> Any:
    if "Collection[int]" in kind:
        return [int(part) for part in text.split(",")]
    if kind == "bool":
        return _TRUTHS[text]
    if "str | Sequence[str]" in kind:
        return text.split(",")
    return int(text) if kind.startswith("int") else text


def _entry(kind: str, name: str, text: str) -> Any:
    if "InflateLimits" in kind:
        number: Callable[[str], Any] = float if name == "max_ratio" else int
        return number(text)
    if kind == "Mapping[str, int] | None":
        return int(text, 0)
    if "bytes" in kind:  # a number, or a word
        return int(text) if text.lstrip("-").isdecimal() else text
    return text or None


def _set_column(columns: dict[str, Any], said: str, text: str) -> None:
    """Sets what ``FIELD``, ``FIELD.KEY`` or ``FIELD.map.TEXT`` is, beside what was said of the field before."""
    field, dot, rest = said.partition(".")
    before = columns.get(field)
    if not dot:
        columns[field] = {"column": text, **before} if isinstance(before, dict) else text or None
        return
    keys: dict[str, Any] = before if isinstance(before, dict) else {} if before is None else {"column": before}
    columns[field] = keys
    key, dot, entry = rest.partition(".")
    if key in keys and isinstance(keys[key], dict) != bool(dot):
        raise ConfigurationError(f"columns.{field}.{key}", "given both as one text and by its entries")
    if dot:
        keys.setdefault(key, {})[entry] = text
    else:
        keys[key] = text.split(",") if key in _LISTS and "," in text else _TRUTHS.get(text, text)


def _limits(given: dict[str, Any]) -> InflateLimits:
    known = [field.name for field in dataclasses.fields(InflateLimits)]
    for name in given:
        if name not in known:
            raise ConfigurationError(f"limits.{name}", f"there are {', '.join(known)}")
    return InflateLimits(**given)
