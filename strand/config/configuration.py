"""``strand.Config``: what a configuration file says, with the defaults for all that it does not say."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

import msgspec

from strand.brief import written
from strand.config.by_symbol import check_groups, check_marks, check_priorities
from strand.config.checking import MONITORING, SYMBOLS, check_table, keys_of
from strand.config.limits import guard_options
from strand.config.ordering import (
    TIMEOUTS,
    check_policy,
    options,
    takes_spans,
    timeouts_of,
    usual_timeouts,
)
from strand.config.pool import check_pool, pool_options
from strand.config.reading import Key, key_text, read_file
from strand.config.retries import retry_of
from strand.config.tables import TABLES, ResourceLimits, RetryPolicy, WorkerPool
from strand.dispatch.configuration import worker_cores
from strand.dispatch.guard import Guard
from strand.errors import ConfigurationError
from strand.options import named_fields
from strand.policies.every_policy import POLICIES
from strand.policies.policy import Fifo, Policy
from strand.spans import span_text

__all__ = ["DEFAULT", "FOLLOWS", "Config", "Entry", "check_file", "has_monitoring", "plain"]

#: Origin of a default value.
DEFAULT: Final = "default"
#: Origin of a level's timeout that has to keep between its neighbours.
FOLLOWS: Final = "follows from the others"
#: The tables that another policy takes the place of.
_ORDERING: Final = ("policy", "priorities", "groups")
_BY_SYMBOL: Final = {"priorities": check_priorities, "groups": check_groups, "marks": check_marks}


@dataclass(frozen=True, slots=True)
class Entry:
    """A value in force. ``key``: its path, ``origin``: a file's name, a command's option, ``DEFAULT`` or
    ``FOLLOWS``."""

    key: str
    value: Any
    origin: str


@named_fields
@dataclass(frozen=True, slots=True, repr=False)
class Config:
    """Content of a configuration file (docs/configuration.md); ``Config()`` has the defaults.

    Args:
        policy: The policy, as ``strand.Dispatcher`` takes it.
        priorities, groups, marks: Values by symbol, as ``strand.Dispatcher`` takes them.
        worker_pool, retry_policy, resource_limits: The table of this name. Its spans are text such as ``"30s"``.
    """

    policy: Policy = Fifo()  # noqa: RUF009 - frozen
    priorities: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    groups: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    marks: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    worker_pool: WorkerPool = WorkerPool()  # noqa: RUF009 - frozen
    retry_policy: RetryPolicy = RetryPolicy()  # noqa: RUF009 - frozen
    resource_limits: ResourceLimits = ResourceLimits()  # noqa: RUF009 - frozen
    _given: Mapping[Key, tuple[Any, str]] = field(default_factory=dict, repr=False, compare=False)

    def __repr__(self) -> str:
        return written(self)

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Config:
        """Reads a file in TOML or YAML.

        Raises:
            ConfigurationError: If the file cannot be read, or a key is wrong. The message names the first such key, and
                how many more there are.
            MissingExtraError: For YAML, without the extra ``config``.
        """
        found, problems = check_file(path)
        if found is None:
            more = f" (and {len(problems) - 1} more: strand config check {path})" if len(problems) > 1 else ""
            raise ConfigurationError(f"{path}: {problems[0]}{more}")
        return found

    def overridden(self, values: Mapping[Key, tuple[Any, str]]) -> tuple[Config, list[str]]:
        """Returns this configuration with other values, and lines that say which values of the file they replace.

        A value of ``policy.name`` replaces all of ``policy``, ``priorities`` and ``groups``.

        Args:
            values: By key, the value and the option that gave it.

        Raises:
            ConfigurationError: If a value cannot be; the message names its option.
        """
        kept, lines = dict(self._given), []
        policy = values.get(("policy", "name"))
        for key, (old, origin) in self._given.items():
            new = values.get(key, policy if key[0] in _ORDERING else None)
            if new is None:
                continue
            del kept[key]
            if key not in values or new[0] != old:
                lines.append(f"{key_text(key)} = {old!r} of {origin} is not used: {new[1]} replaces it")
        found, problems = _checked(kept | dict(values), [])
        if found is None:
            of = [option for key, (_, option) in values.items() if problems[0].startswith(f"{key_text(key)}: ")]
            raise ConfigurationError(": ".join([*of, problems[0]]))
        return found, lines

    def dispatcher_options(self) -> dict[str, Any]:
        """Returns what the file says as options of ``strand.Dispatcher`` and ``strand.replay``, for ``**``."""
        found = {"policy": self.policy, "priorities": dict(self.priorities), **pool_options(self.worker_pool)}
        if self._says("retry_policy"):
            found["retry"] = retry_of(self.retry_policy)
        if self.groups:
            found["groups"] = dict(self.groups)
        if options := self.guard_options():
            found |= {"guard": Guard(**options), "marks": dict(self.marks)}
        return found

    def scheduler_options(self) -> dict[str, Any]:
        """Returns what the file says as options of ``strand.Scheduler``, which takes it as ``config=`` too.

        They are those alone that the file gives: the policy, ``retry_policy``, the guard, the workers, and as
        ``max_queue`` ``total_capacity_ticks``, or else ``queue_capacity``. ``level_capacity_ticks`` is
        ``max_queue_by_level``. Values by symbol are for dispatchers alone, and so are the other keys of
        ``worker_pool``.
        """
        pool = self.worker_pool
        found: dict[str, Any] = {}
        if self.names_policy:
            found["policy"] = self.policy
        if self._says("retry_policy"):
            found["retry"] = retry_of(self.retry_policy)
        capacity = pool.queue_capacity if pool.queue_capacity != WorkerPool().queue_capacity else None
        if ("worker_pool", "queue_capacity") in self._given:
            capacity = pool.queue_capacity
        given = {
            "workers": pool.max_workers,
            "max_queue": capacity if pool.total_capacity_ticks is None else pool.total_capacity_ticks,
            "max_queue_by_level": pool.level_capacity_ticks,
        }
        found |= {name: value for name, value in given.items() if value is not None}
        if options := self.guard_options():
            found["guard"] = Guard(**options)
        return found

    def guard_options(self) -> dict[str, Any]:
        """Returns the limits that are given as options of ``strand.Guard``; None is for what it is not to watch.

        Without any limit it is empty: there is no guard.
        """
        return guard_options(self.resource_limits)

    def _says(self, table: str) -> bool:
        """True if the file has keys of a table, or the table's value is not the default."""
        return any(key[0] == table for key in self._given) or getattr(self, table) != getattr(Config(), table)

    @property
    def names_policy(self) -> bool:
        """True if somebody has chosen the policy: a file names one, or it is not the default ``Fifo()``."""
        return ("policy", "name") in self._given or self.policy != Fifo()

    @property
    def policy_name(self) -> str:
        """The policy's name in a file."""
        return next(name for name, policy in POLICIES.items() if policy is type(self.policy))

    def entries(self) -> list[Entry]:
        """Returns all values in force, in the order of the tables."""
        kind = type(self.policy)
        found = [self._entry(("policy", "name"), self.policy_name)]
        for option in (one.name for one in options(kind)):
            found.append(self._entry(("policy", option), plain(kind, option, getattr(self.policy, option))))
        timeouts = timeouts_of(self.policy)
        for key, level in ((key, level) for key, level in TIMEOUTS.items() if level in timeouts):
            is_usual = timeouts[level] == usual_timeouts(kind)[level]
            found.append(self._entry(("priorities", key), span_text(timeouts[level]), DEFAULT if is_usual else FOLLOWS))
        by_symbol = ((("priorities", SYMBOLS), self.priorities), (("groups",), self.groups), (("marks",), self.marks))
        found += [self._entry((*at, symbol), value) for at, values in by_symbol for symbol, value in values.items()]
        for table in TABLES:
            for key, value in msgspec.structs.asdict(getattr(self, table)).items():
                if (table, key) == ("worker_pool", "max_workers") and value is None:
                    value = worker_cores(None, None).workers
                found.append(self._entry((table, key), value))
        return found

    def _entry(self, key: Key, value: Any, otherwise: str = DEFAULT) -> Entry:
        return Entry(key_text(key), value, self._given.get(key, (None, otherwise))[1])


def plain(kind: type[Policy], option: str, value: Any) -> Any:
    """A policy's option as a file has it: spans, which policies keep in ns, as text."""
    if isinstance(value, Mapping):
        return {key: plain(kind, option, part) for key, part in value.items()}
    if isinstance(value, (tuple, list)):
        return [plain(kind, option, part) for part in value]
    is_span = isinstance(value, int) and not isinstance(value, bool) and value > 0 and takes_spans(kind, option)
    return span_text(value) if is_span else value


def check_file(path: str | os.PathLike[str]) -> tuple[Config | None, list[str]]:
    """A file's configuration, or None and all that is wrong with its keys.

    Raises ConfigurationError for a file that cannot be read or is neither TOML nor YAML, and MissingExtraError.
    """
    problems: list[str] = []
    keys = keys_of(read_file(path), problems)
    return _checked({key: (value, str(path)) for key, value in keys.items()}, problems)


def has_monitoring(path: str | os.PathLike[str]) -> bool:
    """Tells whether a file has the table ``monitoring``, which nothing evaluates."""
    return MONITORING in read_file(path)


def _checked(given: Mapping[Key, tuple[Any, str]], problems: list[str]) -> tuple[Config | None, list[str]]:
    """Configuration with these values, or None and all problems: ``problems`` and those found here."""
    values = {key: value for key, (value, _) in given.items()}
    policy = check_policy(values, problems)
    found: dict[str, Any] = {name: check_table(name, kind, values, problems) for name, kind in TABLES.items()}
    if policy is not None:
        for name, check in _BY_SYMBOL.items():
            found[name] = MappingProxyType(check(policy, values, problems))
        check_pool(found["worker_pool"], policy, problems)
    if policy is None or problems:
        return None, problems
    return Config(policy, **found, _given=dict(given)), []
