"""``strand.Config``: what a configuration file says, with the defaults for all that it does not say."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import field, fields
from typing import TYPE_CHECKING, Any, Final

from strand.brief import written
from strand.config.file import (
    MONITORING,
    SYMBOLS,
    TABLES,
    TIMEOUTS,
    Checked,
    FileKey,
    Key,
    alerts_of,
    checked,
    keys_of,
    read_file,
)
from strand.dicts import FrozenDict
from strand.dispatch.configuration import Limits, Pool, grouped, worker_cores
from strand.dispatch.guard import Guard
from strand.errors import ConfigurationError
from strand.fixed import dataclass
from strand.options import named_fields, options_in
from strand.policies.policy import POLICIES, Fifo, Policy
from strand.spans import span_text
from strand.tasks.retry import RetryPolicy
from strand.validate import Faults
from strand.validate import path as path_of

if TYPE_CHECKING:
    from strand.alerts.rules import Rule

#: Origin of a default value.
DEFAULT: Final = "default"
#: Origin of a level's timeout that has to keep between its neighbours.
FOLLOWS: Final = "follows from the others"
#: The tables that another policy takes the place of.
_ORDERING: Final = ("policy", "priorities", "groups")
_USUAL: Final = checked({}, Faults())


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
        pool, limits: The options of ``worker_pool``.
        retry: Those of ``retry_policy``, for tasks that are given none.
        guard: That of ``resource_limits``; None: there is none.
    """

    policy: Policy = Fifo()
    priorities: Mapping[str, Any] = FrozenDict()
    groups: Mapping[str, str] = FrozenDict()
    marks: Mapping[str, Any] = FrozenDict()
    pool: Pool = _USUAL.pool
    limits: Limits = _USUAL.limits
    retry: RetryPolicy = _USUAL.retry
    guard: Guard | None = None
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
        if problems:
            more = f" (and {len(problems) - 1} more: strand config check {path})" if len(problems) > 1 else ""
            raise ConfigurationError(problems[0].field, f"{problems[0].reason}{more}", problems[1:], where=path)
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
                lines.append(f"{path_of(*key)} = {old!r} of {origin} is not used: {new[1]} replaces it")
        found, problems = _checked(kept | dict(values), Faults())
        for problem in problems:
            keys = {f"{path_of(*key)}.": option for key, (_, option) in values.items()}
            of = [option for at, option in keys.items() if f"{problem.field}.".startswith(at)]
            raise problem.at(problem.field, ": ".join(of))
        return found, lines

    def dispatcher_options(self) -> dict[str, Any]:
        """Returns what the file says as options of ``strand.Dispatcher`` and ``strand.replay``, for ``**``."""
        given = {
            one.name: getattr(options, one.name)
            for options in (self.pool, self.limits)
            for one in fields(options)
            if getattr(options, one.name) != one.default
        }
        found = {"policy": self.policy, "priorities": dict(self.priorities)}
        found |= grouped(**{"capacity_ticks": self.limits.capacity_ticks} | given)
        if self._says_retry:
            found["retry"] = self.retry
        if self.groups:
            found["groups"] = dict(self.groups)
        if self.guard is not None:
            found |= {"guard": self.guard, "marks": dict(self.marks)}
        return found

    def scheduler_options(self) -> dict[str, Any]:
        """Returns what the file says as options of ``strand.Scheduler``, which takes it as ``config=`` too.

        They are those alone that the file gives: the policy, ``retry_policy``, the guard, the workers, and as
        ``max_queue`` ``total_capacity_ticks``, or else ``queue_capacity``. ``level_capacity_ticks`` is
        ``max_queue_by_level``.

        Raises:
            ConfigurationError: If there is a key that is for dispatchers alone: a value by symbol, ``python_workers``,
                or an ``on_full`` other than ``raise``. It names the key.
        """
        self._refuse_keys_of_dispatchers()
        given = {name: read(self) for name, (_, read) in OF_SCHEDULERS.items()}
        return {name: value for name, value in given.items() if value is not None}

    @property
    def _max_queue(self) -> int | None:
        limits = self.limits
        says_capacity = ("worker_pool", "queue_capacity") in self._given
        says_capacity |= limits.capacity_ticks != Limits().capacity_ticks
        return limits.total_capacity_ticks or (limits.capacity_ticks if says_capacity else None)

    @property
    def _says_retry(self) -> bool:
        """Returns whether the file has keys of ``retry_policy``, or somebody has chosen another one than the usual."""
        return any(key[0] == "retry_policy" for key in self._given) or self.retry != _USUAL.retry

    def _refuse_keys_of_dispatchers(self) -> None:
        on_full = self.limits.on_full
        by_symbol = ((("priorities", SYMBOLS), self.priorities), (("groups",), self.groups), (("marks",), self.marks))
        wrong = [(*at, symbol) for at, values in by_symbol for symbol in values]
        cure = "a scheduler has no symbols: leave it out"
        if not wrong and self.pool.python_workers is not None:
            wrong, cure = [("worker_pool", "python_workers")], "all workers of a scheduler run Python: leave it out"
        if not wrong and (
            on_full != "raise" if ("worker_pool", "on_full") in self._given else on_full not in ("block", "raise")
        ):
            wrong, cure = (
                [("worker_pool", "on_full")],
                "submit of a scheduler raises QueueFull: leave it out, or give 'raise'",
            )
        if wrong:
            origin = self._given.get(wrong[0], (None, ""))[1]
            raise ConfigurationError(path_of(*wrong[0]), cure, where=origin)

    @property
    def alerts(self) -> tuple[Rule, ...]:
        """The rules of ``monitoring``, or else the usual ones, for ``strand.alerts``."""
        from strand.alerts.rules import DEFAULTS

        found = alerts_of({key: value for key, (value, _) in self._given.items()})
        return DEFAULTS if found is None else found

    @property
    def monitors(self) -> bool:
        """True if a file has ``monitoring``."""
        return (MONITORING,) in self._given

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
        usual = type(self.policy)()
        found = [self._entry(("policy", "name"), self.policy_name)]
        for option in options_in(type(self.policy)).values():
            if option.name != "timeouts":
                found.append(self._entry(("policy", option.name), option.plain(getattr(self.policy, option.name))))
        timeouts, usual_timeouts = getattr(self.policy, "timeouts", {}), getattr(usual, "timeouts", {})
        for key, level in ((key, level) for key, level in TIMEOUTS.items() if level in timeouts):
            origin = DEFAULT if timeouts[level] == usual_timeouts[level] else FOLLOWS
            found.append(self._entry(("priorities", key), span_text(timeouts[level]), origin))
        by_symbol = ((("priorities", SYMBOLS), self.priorities), (("groups",), self.groups), (("marks",), self.marks))
        found += [self._entry((*at, symbol), value) for at, values in by_symbol for symbol, value in values.items()]
        for table, (_, keys) in TABLES.items():
            found += [self._entry((table, name), self._value(name, one)) for name, one in keys.items()]
        return found

    def _value(self, name: str, key: FileKey) -> Any:
        """The value in force of a key of a table, as a file has it."""
        of = {Pool: self.pool, Limits: self.limits, RetryPolicy: self.retry, Guard: self.guard}[key.of]
        if of is None or (name == "io_queue_threshold" and self.guard is not None and self.guard.io_pressure is None):
            return None
        if name == "max_workers" and self.pool.workers is None:
            return worker_cores(None, None).workers
        return key.in_file(getattr(of, key.name))

    def _entry(self, key: Key, value: Any, otherwise: str = DEFAULT) -> Entry:
        return Entry(path_of(*key), value, self._given.get(key, (None, otherwise))[1])


#: Options of a scheduler that a file gives: the keys, and a function that reads the value; None: the file gives none.
OF_SCHEDULERS: Final[Mapping[str, tuple[tuple[str, ...], Callable[[Config], Any]]]] = {
    "policy": (("policy", "priorities"), lambda config: config.policy if config.names_policy else None),
    "retry": (("retry_policy",), lambda config: config.retry if config._says_retry else None),
    "workers": (("worker_pool.max_workers",), lambda config: config.pool.workers),
    "min_workers": (("worker_pool.min_workers",), lambda config: config.pool.min_workers),
    "max_queue": (
        ("worker_pool.total_capacity_ticks", "worker_pool.queue_capacity"), lambda config: config._max_queue,
    ),
    "max_queue_by_level": (
        ("worker_pool.level_capacity_ticks",), lambda config: config.limits.level_capacity_ticks,
    ),
    "guard": (("resource_limits",), lambda config: config.guard),
}  # fmt: skip


def check_file(path: str | os.PathLike[str]) -> tuple[Config, Faults]:
    """A file's configuration, and all that is wrong with its keys, which the configuration leaves out.

    Raises ConfigurationError for a file that cannot be read or is neither TOML nor YAML, and MissingExtraError.
    """
    problems = Faults()
    keys = keys_of(read_file(path), problems)
    return _checked({key: (value, str(path)) for key, value in keys.items()}, problems)


def _checked(given: Mapping[Key, tuple[Any, str]], problems: Faults) -> tuple[Config, Faults]:
    """Returns what the values say, and the problems, those before and more."""
    found = checked({key: value for key, (value, _) in given.items()}, problems)
    options: dict[str, Any] = {one.name: getattr(found, one.name) for one in fields(Checked)}
    for name in ("priorities", "groups", "marks"):
        options[name] = FrozenDict(options[name])
    return Config(**options, _given=dict(given)), problems
