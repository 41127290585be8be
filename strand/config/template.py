"""A configuration file with the defaults, and what each key means."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from strand.binding.engine_words import MARKS
from strand.config.checking import SYMBOLS
from strand.config.configuration import plain
from strand.config.ordering import TIMEOUTS, options, usual_timeouts
from strand.config.tables import TABLES
from strand.policies.every_policy import POLICIES
from strand.policies.policy import LEVELS
from strand.spans import span_text

__all__ = ["template"]

_HEAD: Final = """\
# Options of a dispatcher or scheduler, with their defaults: docs/configuration.md of strand.
# They are for  strand replay --config THIS,  strand.Config.load("THIS").dispatcher_options()
# and  strand.Scheduler(config="THIS").
# A key behind a # without a space is not set: take the # away to set it. Spans of time are text: "250us", "30s", "5m".
"""
_OTHERS: Final = "* stands for all that are not named"


@dataclass(frozen=True, slots=True)
class _Line:
    """A key of a table, or the comment alone. ``is_set``: it is in force; else its line is a comment."""

    comment: str
    key: str = ""
    value: Any = None
    is_set: bool = False


def template(form: str) -> str:
    """The text of a file; ``form``: ``"toml"`` or ``"yaml"``. Read again it is ``Config()``."""
    text = _HEAD
    for path, comment, lines in _tables():
        if form == "toml":
            text += f"\n# {comment}\n[{'.'.join(path)}]\n"
        else:
            outer = "  " * (len(path) - 1)
            text += f"{'' if outer else chr(10)}{outer}# {comment}\n{outer}{path[-1]}:\n"
        indent = "" if form == "toml" else "  " * len(path)
        for line in lines:
            text += f"{indent}# {line.comment}\n" if line.comment else ""
            if line.key:
                value = f" = {_toml_value(line.value)}" if form == "toml" else f": {json.dumps(line.value)}"
                text += f"{indent}{'' if line.is_set else '#'}{line.key}{value}\n"
    return text


def _toml_value(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{json.dumps(key)} = {_toml_value(part)}" for key, part in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml_value, value)) + "]"
    return json.dumps(value)


def _tables() -> Iterator[tuple[tuple[str, ...], str, list[_Line]]]:
    """Each table: its path, a comment, its keys."""
    lines = [_Line(f"One of {', '.join(POLICIES)}.", "name", "fifo", is_set=True)]
    for name, kind in POLICIES.items():
        for field in options(kind):
            lines.append(_of_policy(name, kind, field))
    yield ("policy",), "Which of the ready strands a worker drains next: docs/policies.md.", lines
    usual = {name: usual_timeouts(kind) for name, kind in POLICIES.items() if usual_timeouts(kind)}
    lines = [_Line(f"The wait after which a strand rises from a level; for {' and '.join(usual)}.")]
    timeouts = {level: span_text(ns) for spans in usual.values() for level, ns in spans.items()}
    lines += [_Line("", key, timeouts[level]) for key, level in TIMEOUTS.items() if level in timeouts]
    yield ("priorities",), "How urgent symbols are, for policies that ask for it.", lines
    lines = [_Line("For aging a whole number; or a class, or a list of both, where the policy has classes.")]
    lines.append(_Line(f"For levels one of {', '.join(LEVELS)}; {_OTHERS}.", '"*"', "normal"))
    yield ("priorities", SYMBOLS), "The priority of each symbol.", lines
    lines = [_Line(f"For fair a name; {_OTHERS}.", '"*"', "rest")]
    yield ("groups",), "The group of each symbol; one that has none is a group of its own.", lines
    lines = [_Line(f"For the guard {', '.join(MARKS)}, or a list of both; {_OTHERS}.", '"*"', "io")]
    yield ("marks",), "What symbols use or free; it needs resource_limits.", lines
    for name, table in TABLES.items():
        lines = [_of_table(field) for field in msgspec.inspect.type_info(table).fields]  # type: ignore[attr-defined]
        yield (name,), str(table.__doc__), lines


def _of_policy(name: str, kind: Any, field: dataclasses.Field[Any]) -> _Line:
    default = field.default
    if field.default_factory is not dataclasses.MISSING:
        default = field.default_factory()
    if default is dataclasses.MISSING or default is None:
        return _Line(f"The policy {name} has an option {field.name}.")
    return _Line(f"An option of the policy {name}.", field.name, plain(kind, field.name, default))


def _of_table(field: msgspec.inspect.Field) -> _Line:
    """A key with its default, or with an example where it has none."""
    kinds = field.type.types if isinstance(field.type, msgspec.inspect.UnionType) else (field.type,)
    schema = next(kind.extra_json_schema or {} for kind in kinds if isinstance(kind, msgspec.inspect.Metadata))
    is_set = field.default is not None
    return _Line(schema["description"], field.name, field.default if is_set else schema["examples"][0], is_set=is_set)
