"""A configuration file with the defaults, and what each key means."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from strand.binding.engine_words import MARKS
from strand.config.checking import SYMBOLS, TABLES, TIMEOUTS, FileKey
from strand.options import options_in
from strand.policies.every_policy import POLICIES
from strand.policies.policy import LEVELS, Levels
from strand.spans import span_text

__all__ = ["lines_of_tables", "template"]

_HEAD: Final = """\
# Options of a dispatcher or scheduler, with their defaults: docs/configuration.md of strand.
# They are for  strand replay --config THIS,  strand.Config.load("THIS").dispatcher_options()
# and  strand.Scheduler(config="THIS").
# A key behind a # without a space is not set: take the # away to set it. Spans of time are text: "250us", "30s", "5m".
"""
_WIDTH: Final = 116
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
    for path, comment, lines in lines_of_tables():
        if form == "toml":
            text += f"\n# {comment}\n[{'.'.join(path)}]\n"
        else:
            outer = "  " * (len(path) - 1)
            text += f"{'' if outer else chr(10)}{outer}# {comment}\n{outer}{path[-1]}:\n"
        indent = "" if form == "toml" else "  " * len(path)
        for line in lines:
            for part in textwrap.wrap(line.comment.replace("``", ""), _WIDTH - len(indent)):
                text += f"{indent}# {part}\n"
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


def lines_of_tables() -> Iterator[tuple[tuple[str, ...], str, list[_Line]]]:
    """Each table: its path, a comment, its keys."""
    lines = [_Line(f"One of {', '.join(POLICIES)}.", "name", "fifo", is_set=True)]
    for name, kind in POLICIES.items():
        for option in options_in(kind).values():
            if option.name == "timeouts":
                continue
            default = option.plain(option.default)
            text = option.documentation("Not set")
            if default is None:
                lines.append(_Line(f"For {name}, {option.name}: {text}"))
            else:
                lines.append(_Line(f"For {name}: {text}", option.name, default))
    yield ("policy",), "Which of the ready strands a worker drains next: docs/policies.md.", lines
    lines = [_Line("The wait after which a strand rises from a level; for levels.")]
    timeouts: Mapping[str, Any] = Levels().timeouts
    lines += [_Line("", key, span_text(timeouts[level])) for key, level in TIMEOUTS.items() if level in timeouts]
    yield ("priorities",), "How urgent symbols are, for policies that ask for it.", lines
    lines = [_Line("For aging a whole number; or a class, or a list of both, where the policy has classes.")]
    lines.append(_Line(f"For levels one of {', '.join(LEVELS)}; {_OTHERS}.", '"*"', "normal"))
    yield ("priorities", SYMBOLS), "The priority of each symbol.", lines
    lines = [_Line(f"For fair a name; {_OTHERS}.", '"*"', "rest")]
    yield ("groups",), "The group of each symbol; one that has none is a group of its own.", lines
    lines = [_Line(f"For the guard {', '.join(MARKS)}, or a list of both; {_OTHERS}.", '"*"', "io")]
    yield ("marks",), "What symbols use or free; it needs resource_limits.", lines
    for table, (comment, keys) in TABLES.items():
        yield (table,), comment, [_of_table(name, key) for name, key in keys.items()]


def _of_table(name: str, key: FileKey) -> _Line:
    """A key with its default, or with an example where it has none."""
    option = key.option
    if key.example is not None:
        return _Line(option.documentation("Not set"), name, key.example)
    default = option.default if key.default is None else key.default
    if name == "max_attempts":
        return _Line("Attempts, including the first one. 1 to 1,000.", name, default + 1, is_set=True)
    return _Line(option.documentation("Not set"), name, default, is_set=True)
