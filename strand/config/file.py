"""A configuration file, TOML or YAML: its tables and keys, each held against the option that it gives; its defaults.

``policy`` has the options of the policies, and ``priorities`` their timeouts; ``worker_pool``, ``retry_policy`` and
``resource_limits`` give options of classes under keys of their own (``TABLES``); ``priorities.symbols``, ``groups`` and
``marks`` have values by symbol. What is wrong is an error at the path of its key.
"""

from __future__ import annotations

import json
import os
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from strand.binding.engine_words import MARKS
from strand.dispatch.configuration import Limits, Pool, capacities
from strand.dispatch.guard import Guard, marks_of
from strand.dispatch.routing import priorities_of
from strand.dispatch.watching import least_of
from strand.errors import ConfigurationError, MissingExtraError, called
from strand.feeds.io.files import small_text
from strand.fixed import dataclass
from strand.options import Option, Whole, options_in
from strand.policies.policy import LEVELS, POLICIES, Levels, Policy, groups_of
from strand.spans import span_text
from strand.symbols import SymbolTable, check_name
from strand.tasks.retry import RetryPolicy
from strand.validate import Faults, path, shown, unknown, whole

if TYPE_CHECKING:
    from strand.alerts.rules import Rule

#: Key of a value: ``("worker_pool", "max_workers")``, ``("priorities", "symbols", "AAPL")``.
Key = tuple[str, ...]


def read_file(path: str | os.PathLike[str]) -> Mapping[Any, Any]:
    """The tables of a file; its ending says whether it is TOML or YAML.

    Raises ConfigurationError for a file that cannot be read or is neither, and MissingExtraError for YAML without the
    extra ``config``.
    """
    parse = _PARSERS[format_of(path)]
    text = small_text(Path(path), "config")
    try:
        tables = parse(text)
    except (ValueError, _NoYamlError, RecursionError) as error:
        reason = "tables are nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise ConfigurationError(f"{called(path)}: is not valid {format_of(path).upper()}: {reason}") from None
    if tables is None:
        return {}
    if not isinstance(tables, Mapping):
        raise ConfigurationError(
            f"{called(path)}: has a {type(tables).__name__}: give tables of keys, such as worker_pool"
        )
    return tables


def format_of(path: str | os.PathLike[str]) -> str:
    """``"toml"`` or ``"yaml"``, by the ending of a file's name. Raises ConfigurationError for another one."""
    ending = Path(path).suffix
    if ending not in _FORMATS:
        raise ConfigurationError(
            f"{called(path)}: the name of a configuration file ends in one of {', '.join(_FORMATS)}"
        )
    return _FORMATS[ending]


class _NoYamlError(Exception):
    """Text that is no YAML, or in which a key stands twice."""


def _read_yaml(text: str) -> Any:
    try:
        import yaml
    except ImportError:
        raise MissingExtraError("a configuration in YAML", "PyYAML", "config") from None

    class Loader(yaml.SafeLoader):  # type: ignore[misc]
        """Refuses a key that stands twice. PyYAML would keep the last one."""

        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            keys = [key for key, _ in node.value] if isinstance(node, yaml.MappingNode) else []
            seen: set[str] = set()
            for key in keys:
                if isinstance(key, yaml.ScalarNode) and key.value in seen:
                    raise _NoYamlError(f"{key.value!r} is twice in a table, in line {key.start_mark.line + 1}")
                seen.update([key.value] if isinstance(key, yaml.ScalarNode) else [])
            return super().construct_mapping(node, deep=deep)

    try:
        return yaml.load(text, Loader)
    except (yaml.YAMLError, ValueError) as error:
        raise _NoYamlError(re.sub(r"\s*\n\s*", " ", str(error))) from None


def _read_toml(text: str) -> Any:
    import tomllib

    return tomllib.loads(text)


_PARSERS: Final[Mapping[str, Callable[[str], Any]]] = {"toml": _read_toml, "yaml": _read_yaml}
_FORMATS: Final = {".toml": "toml", ".yaml": "yaml", ".yml": "yaml"}

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class FileKey:
    """A key of a table that gives the option ``name`` of a class.

    Attributes:
        of: The class.
        name: The option.
        default: The key's value where a file has another default than the class.
        example: A value, where there is no default.
        also: Another name that the table takes for the key, for the option's own value.
        own: The key's declaration, where its values are not those of the option.
        more: By how much its values are more than those of the option.
    """

    of: type[Any]
    name: str
    default: Any = None
    example: Any = None
    also: str = ""
    own: Option | None = None
    more: int = 0

    @property
    def option(self) -> Option:
        """The declaration."""
        return self.own or options_in(self.of)[self.name]

    def in_file(self, value: Any) -> Any:
        """Returns the option's value as a file has it."""
        return self.option.plain(value + self.more if self.more else value)

    def of_alias(self, where: str, value: Any) -> Any:
        """Returns a value of ``also`` as one of the key. Raises ConfigurationError."""
        kind = self.option.kind
        if not self.more or not isinstance(kind, Whole):
            return value
        return whole(where, value, kind.least - self.more, kind.most - self.more) + self.more

    def of_option(self, where: str, value: Any) -> Any:
        """Returns a value of the key as one of the option, which checks others than those of ``own``. Raises
        ConfigurationError."""
        return value if self.own is None else self.own.kind.read(where, value) - self.more


#: What each table is, and its keys.
TABLES: Final[Mapping[str, tuple[str, Mapping[str, FileKey]]]] = {
    "worker_pool": (
        "The threads that drain, and the bounds of the queues: docs/overload.md.",
        {
            "max_workers": FileKey(Pool, "workers", example=4),
            "min_workers": FileKey(Pool, "min_workers", example=1),
            "python_workers": FileKey(Pool, "python_workers", example=1),
            "queue_capacity": FileKey(Limits, "capacity_ticks"),
            "total_capacity_ticks": FileKey(Limits, "total_capacity_ticks", example=1_000_000),
            "level_capacity_ticks": FileKey(Limits, "level_capacity_ticks", example={"low": 500_000}),
            "on_full": FileKey(Limits, "on_full"),
        },
    ),
    "retry_policy": (
        "When a task that has failed is tried again, docs/tasks.md; for a scheduler.",
        {
            "max_attempts": FileKey(
                RetryPolicy,
                "max_retries",
                3,
                also="max_retries",
                own=Option("max_attempts", None, Whole(1, 1000), "Attempts, including the first one."),
                more=1,
            ),
            "initial_backoff": FileKey(RetryPolicy, "base_delay", "100ms", also="base_delay"),
            "multiplier": FileKey(RetryPolicy, "multiplier"),
            "max_backoff": FileKey(RetryPolicy, "max_delay", "30s", also="max_delay"),
            "jitter": FileKey(RetryPolicy, "jitter", 0.1),
        },
    ),
    "resource_limits": (
        "From where on the guard holds symbols back, docs/guard.md; for the policy levels.",
        {
            "cpu_threshold": FileKey(Guard, "cpu", example=0.8),
            "memory_threshold": FileKey(Guard, "memory", example=0.75),
            "io_queue_threshold": FileKey(Guard, "io_queue", example=100),
        },
    ),
}
#: The table of symbols in ``priorities``.
SYMBOLS: Final = "symbols"
#: The level of each key of ``priorities`` that is a timeout.
TIMEOUTS: Final = {f"{level}_timeout": level for level in LEVELS}
_PRIORITIES: Final = (*list(TIMEOUTS)[1:], SYMBOLS)  # there is no level above the first
_NO_TIMEOUT: Final = next(iter(TIMEOUTS))
#: Other tables whose keys are symbols.
_BY_SYMBOL: Final = ("groups", "marks")
_TABLE_NAMES: Final = ("policy", "priorities", *_BY_SYMBOL, *TABLES)

#: A table that holds those of a scheduler, and one beside them with the rules of alerts.
WRAPPER: Final = "napoleon_scheduler"
MONITORING: Final = "monitoring"


def keys_of(tables: Mapping[Any, Any], problems: Faults) -> dict[Key, Any]:
    """A file's values by key. What is no table, and no key, is added to ``problems``."""
    found: dict[Key, Any] = {}
    tables = _unwrapped(tables, problems)
    for name, table in tables.items():
        if name == MONITORING:
            found[MONITORING,] = table
            continue
        if name in TABLES and isinstance(table, Mapping):
            table = _one_vocabulary(name, table, problems)
        if name not in _TABLE_NAMES:
            problems.append(ConfigurationError(_path(name), unknown(name, "table", _TABLE_NAMES)))
            continue
        found.update(_entries((name,), table, problems))
    return found


def _unwrapped(tables: Mapping[Any, Any], problems: Faults) -> Mapping[Any, Any]:
    """The tables of a file in which those of a scheduler may stand in one table."""
    inner = tables.get(WRAPPER)
    if WRAPPER not in tables:
        return tables
    outer = {name: table for name, table in tables.items() if name != WRAPPER}
    if not isinstance(inner, Mapping):
        problems.append(ConfigurationError(WRAPPER, f"{shown(inner)} is not a table of tables"))
        return outer
    for name in [name for name in outer if name != MONITORING]:
        problems.append(ConfigurationError(_path(name), f"stands beside {WRAPPER}: put it in that table"))
        del outer[name]
    for name in [name for name in inner if name in (*_BY_SYMBOL, MONITORING)]:
        cure = "put it beside that table" if name == MONITORING else "a scheduler has no symbols: leave it out"
        problems.append(ConfigurationError(_path(WRAPPER, name), cure))
    return {name: table for name, table in inner.items() if name not in (*_BY_SYMBOL, MONITORING)} | outer


def _one_vocabulary(name: str, table: Mapping[Any, Any], problems: Faults) -> dict[Any, Any]:
    """A table with its keys alone, in place of the other names that it takes for them."""
    found = dict(table)
    for key, one in TABLES[name][1].items():
        if one.also not in found:
            continue
        where, value = f"{name}.{one.also}", found.pop(one.also)
        if key in table:
            reason = f"give either it or {key}, which is {'one more' if one.more else 'the same'}"
            problems.append(ConfigurationError(where, reason))
            continue
        with problems.kept():
            found[key] = one.of_alias(where, value)
    return found


def _entries(at: Key, table: Any, problems: Faults) -> Iterator[tuple[Key, Any]]:
    """The keys and values of a table. One without a key is nothing in YAML."""
    if table is None:
        return
    if not isinstance(table, Mapping):
        problems.append(ConfigurationError(path(*at), f"{shown(table)} is not a table of keys"))
        return
    for key, value in table.items():
        where = _path(*at, key)
        if not isinstance(key, str):
            reason = f"YAML reads this key as {type(key).__name__}: put it in quotes"
            problems.append(ConfigurationError(where, reason))
        elif (*at, key) == ("priorities", SYMBOLS):
            yield from _entries((*at, key), value, problems)
        elif value is None:
            problems.append(ConfigurationError(where, "has no value: give one, or leave the key out"))
        elif (len(at) > 1 or at[0] in _BY_SYMBOL) and isinstance(value, Mapping):
            problems.append(ConfigurationError(where, "is a table: put a name that has a dot in quotes"))
        else:
            yield (*at, key), value


def _path(*parts: Any) -> str:
    return path(*(part if isinstance(part, str) else shown(part) for part in parts))


@dataclass(frozen=True, slots=True)
class Checked:
    """Options that the keys of a file give."""

    policy: Policy
    priorities: Mapping[str, Any]
    groups: Mapping[str, str]
    marks: Mapping[str, Any]
    pool: Pool
    limits: Limits
    retry: RetryPolicy
    guard: Guard | None


def checked(given: Mapping[Key, Any], problems: Faults) -> Checked:
    """Checks all keys of a file and returns what they give. Adds what is wrong to ``problems``, and leaves it out."""
    policy, has_classes = _policy(given, problems)
    for key in given:
        if key[0] in TABLES and key[1] not in (known := TABLES[key[0]][1]):
            problems.append(ConfigurationError(path(*key), unknown(key[1], f"key of {key[0]}", known)))
    pool, limits = _object(Pool, given, problems), _object(Limits, given, problems)
    retry = _object(RetryPolicy, given, problems)
    guard = _object(Guard, given, problems) if any(key[0] == "resource_limits" for key in given) else None
    found: dict[str, dict[str, Any]] = {"priorities": {}, "groups": {}, "marks": {}}
    if policy is not None:
        _check_together(pool, limits, policy, problems)
        if has_classes:
            priorities = _by_symbol(("priorities", SYMBOLS), given, partial(priorities_of, policy), problems)
            found["priorities"] = priorities
        found["groups"] = _by_symbol(("groups",), given, partial(groups_of, policy), problems)
        try:
            marks_of(guard, policy, SymbolTable(1), None)
        except ConfigurationError as error:
            problems.append(error.at("resource_limits"))
        else:
            found["marks"] = _by_symbol(("marks",), given, partial(marks_of, guard, policy), problems)
    alerts_of(given, problems)
    return Checked(policy or POLICIES["fifo"](), **found, pool=pool, limits=limits, retry=retry, guard=guard)


def alerts_of(given: Mapping[Key, Any], problems: Faults | None = None) -> tuple[Rule, ...] | None:
    """The rules of ``monitoring``; None: the file has none. Raises ConfigurationError, unless ``problems`` gets it."""
    if (MONITORING,) not in given:
        return None
    from strand.alerts.rules import rules_of  # which a run without alerts does not wait for

    return rules_of(given[MONITORING,], MONITORING, problems)


def has_units(where: str, value: Any, problems: Faults) -> bool:
    """Returns whether the spans of a value are text. A number in a file has no unit, and is added to ``problems``."""
    parts = {f"{where}.{_path(name)}": part for name, part in value.items()} if isinstance(value, Mapping) else {}
    wrong = [
        ConfigurationError(at, f"{shown(part)} is not text with a unit, such as '30s' or '250us'")
        for at, part in (parts or {where: value}).items()
        if not isinstance(part, str) and part != {}
    ]
    problems += wrong
    return not wrong


def _made(of: Callable[..., T], arguments: Mapping[str, Any], where: Callable[[str], str], problems: Faults) -> T:
    """An object of options. Those that are wrong are added to ``problems``, each at its place in the file, and left
    out."""
    try:
        return of(**arguments)
    except ConfigurationError as error:
        problems += (each.at(where(each.field)) for each in error.each())
        wrong = {each.field.partition(".")[0] for each in error.each()}
    right = {name: value for name, value in arguments.items() if name not in wrong}
    return _made(of, right if len(right) < len(arguments) else {}, where, Faults())


def _in_table(of: type[Any]) -> Callable[[str], str]:
    """The path in a file of a field of a class."""
    paths = {key.name: f"{table}.{name}" for table, (_, keys) in TABLES.items() for name, key in keys.items()
             if key.of is of}  # fmt: skip

    def where(field: str) -> str:
        name, dot, rest = field.partition(".")
        return f"{paths[name]}{dot}{rest}" if name in paths else f"{next(iter(paths.values())).partition('.')[0]}"

    return where


def _object(of: type[T], given: Mapping[Key, Any], problems: Faults) -> T:
    """The options of a class that the tables give."""
    arguments: dict[str, Any] = {}
    for table, (_, keys) in TABLES.items():
        for name, key in keys.items():
            if key.of is not of:
                continue
            if key.default is not None:
                arguments[key.name] = key.of_option(name, key.default)
            if (table, name) not in given:
                continue
            where, value = f"{table}.{name}", given[table, name]
            if not key.option.kind.takes_spans or has_units(where, value, problems):
                with problems.kept():
                    arguments[key.name] = key.of_option(where, value)
    if of is Guard:  # what has no limit is not watched; io_queue stands in for io_pressure, where that is not measured
        arguments = (
            {"cpu": None, "memory": None} | ({} if "io_queue" in arguments else {"io_pressure": None}) | arguments
        )
        if all(value is None for value in arguments.values()):
            return of()  # its limits are wrong
    return _made(of, arguments, _in_table(of), problems)


def _check_together(pool: Pool, limits: Limits, policy: Policy, problems: Faults) -> None:
    """Adds to ``problems`` what does not go with each other, and with the policy."""
    bounds, workers = _in_table(Limits), _in_table(Pool)
    try:
        capacities(limits, str(policy.core_name))
    except ConfigurationError as error:
        problems += (each.at(bounds(each.field)) for each in error.each())
    if not pool.workers:  # a plain loop has none, and asks for none
        return
    try:
        least_of(pool.min_workers, pool.workers)
    except ConfigurationError as error:
        problems.append(error.at(workers(error.field)))
    try:
        if pool.python_workers is not None:
            whole("python_workers", pool.python_workers, 1, pool.workers)
    except ConfigurationError as error:
        problems.append(error.at(workers(error.field)))


def _policy(given: Mapping[Key, Any], problems: Faults) -> tuple[Policy | None, bool]:
    """The policy with its options and timeouts, and whether its priorities are known: they depend on its classes. None
    where it has no name that is known."""
    levels = any(key[0] == "resource_limits" or (key[0] == "priorities" and key[1] in TIMEOUTS) for key in given)
    name = given.get(("policy", "name"), "levels" if levels else "fifo")
    if not isinstance(name, str) or name not in POLICIES:
        problems.append(ConfigurationError("policy.name", f"{shown(name)}: {unknown(name, 'policy', POLICIES)}"))
        return None, False
    known = options_in(POLICIES[name])
    arguments: dict[str, Any] = {}
    if timeouts := _timeouts(name, given, problems):
        arguments["timeouts"] = timeouts
    for key, value in given.items():
        if key[0] != "policy" or key[1] == "name":
            continue
        if key[1] == "timeouts" and "timeouts" in known:
            problems.append(ConfigurationError("policy.timeouts", "give priorities.low_timeout and the like"))
        elif key[1] not in known:
            owners = [other for other, policy in POLICIES.items() if key[1] in options_in(policy)]
            what = f"option of the policy {name}"
            of_others = f"it is not an {what}, but of {' and '.join(owners)}"
            names = ["name", *(option for option in known if option != "timeouts")]
            problems.append(ConfigurationError(path(*key), of_others if owners else unknown(key[1], what, names)))
        elif not known[key[1]].kind.takes_spans or has_units(path(*key), value, problems):
            arguments[key[1]] = value
    faults = Faults()
    policy = _made(POLICIES[name], arguments, _in_policy, faults)
    problems += faults
    return policy, not any(fault.field.startswith("policy.classes") for fault in faults)


def _in_policy(field: str) -> str:
    name, _, level = field.partition(".")
    return f"priorities.{level}_timeout" if name == "timeouts" else f"policy.{field}"


def _timeouts(name: str, given: Mapping[Key, Any], problems: Faults) -> dict[str, str]:
    """By level, but for those that are added to ``problems``."""
    has_timeouts = "timeouts" in options_in(POLICIES[name])
    found = {}
    for key, value in given.items():
        if key[0] != "priorities" or len(key) > 2:
            continue
        if key[1] == _NO_TIMEOUT and has_timeouts:
            if value != "0s":
                reason = 'has no timeout, because no level is higher: give "0s", or leave the key out'
                problems.append(ConfigurationError(path(*key), reason))
        elif key[1] not in TIMEOUTS:
            problems.append(ConfigurationError(path(*key), unknown(key[1], "key of priorities", _PRIORITIES)))
        elif not has_timeouts:
            others = " or ".join(f'"{other}"' for other, policy in POLICIES.items() if "timeouts" in options_in(policy))
            reason = f"the policy {name} has no timeouts: give policy.name = {others}"
            problems.append(ConfigurationError(path(*key), reason))
        elif has_units(path(*key), value, problems):
            found[TIMEOUTS[key[1]]] = value
    return found


def _by_symbol(
    at: Key, given: Mapping[Key, Any], check: Callable[[SymbolTable, Mapping[str, Any]], object], problems: Faults
) -> dict[str, Any]:
    """The values of a table by symbol, but for those that are refused. Each is checked alone, so that all that is wrong
    is told; what is wrong with the table itself is told once."""
    found, wrong = {}, {}
    for key, value in given.items():
        if key[:-1] != at:
            continue
        symbol = key[-1]
        as_given = tuple(value) if isinstance(value, list) else value  # a file has no tuples
        try:
            if not check_name(at[0], symbol):
                raise ConfigurationError(at[0], "a name is empty")
            check(SymbolTable([symbol]), {symbol: as_given})
            found[symbol] = as_given
        except ConfigurationError as error:
            told = error.at(path(*at) + error.field.removeprefix(at[0]))
            wrong[str(told)] = told
    problems += wrong.values()
    return found


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
    for place, comment, lines in lines_of_tables():
        if form == "toml":
            text += f"\n# {comment}\n[{'.'.join(place)}]\n"
        else:
            outer = "  " * (len(place) - 1)
            text += f"{'' if outer else chr(10)}{outer}# {comment}\n{outer}{place[-1]}:\n"
        indent = "" if form == "toml" else "  " * len(place)
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
    return _Line(option.documentation("Not set"), name, default, is_set=True)
