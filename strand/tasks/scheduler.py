"""A scheduler of tasks: an executor whose threads take tasks in the order of a policy."""

# Not with annotations as text: the declarations of options stand in types.

import atexit
import os
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import Annotated, Any, Final, Self, TypedDict, Unpack, cast

from strand.binding.engine import Engine
from strand.binding.engine_words import CACHED_SEGMENTS, EngineConfig, RunByPython
from strand.brief import brief, several
from strand.config.configuration import Config
from strand.dispatch.guard import Guard, check_guard
from strand.dispatch.guarding import Guarding
from strand.dispatch.samples import Sampling
from strand.dispatch.statistics import (
    Attachable,
    choices,
    counted_by_policy,
    decisions,
    described,
    fair_statistics,
    say_ended,
    say_started,
)
from strand.dispatch.watching import Activating, least_of
from strand.errors import ConfigurationError
from strand.options import ByName, Object, Text, Whole, named_options
from strand.policies.policy import Fair, Groups, Levels, Policy, level_name, policy_config
from strand.stats import ActiveStatistics, FairStatistics, GuardStatistics, TaskStatistics
from strand.symbols import SymbolTable
from strand.tasks.core import Core, Ending, Shutdown
from strand.tasks.groups import IN_NO_GROUP, GroupAccounts
from strand.tasks.options import Ranks
from strand.tasks.places import MAX_THREADS, Places, TasksAlone, ThreadCounts
from strand.tasks.pool import Bounds, Pool
from strand.tasks.retry import RetryPolicy
from strand.tasks.tasks import Tasks
from strand.threads import Inside
from strand.ticks import TICK
from strand.validate import text

#: Tasks that may be there at once. Places that were never used take addresses and no memory.
_MOST_TASKS: Final = 1 << 24
#: Groups that may live at a time under Fair. Accounts that were never used take addresses alone, too.
_MOST_GROUPS: Final = 1 << 20

_live: weakref.WeakSet[Shutdown] = weakref.WeakSet()


class _Keywords(TypedDict, total=False):
    """Options of ``Scheduler`` by keyword alone, except ``config``."""

    min_workers: Annotated[
        int | None,
        None,
        Whole(1, 1024),
        "How many of the workers are active at least; more are as the load asks for. None: all.",
    ]
    io_bound: Annotated[
        bool, False, "Whether tasks mostly sleep or wait for replies: ``workers=None`` is then twice the cores."
    ]
    max_queue_by_level: Annotated[
        Mapping[str, int] | None,
        None,
        ByName(Whole(1), level_name, "LEVEL=TASKS"),
        'Under ``Levels``, how many tasks of a level may wait so, as ``{"low": 1000}``. None: any number.',
    ]
    max_held: Annotated[
        int | None,
        None,
        Whole(0),
        "How many tasks may be delayed or held; beyond it ``submit`` raises QueueFull. None: like 0, any number.",
    ]
    policy: Annotated[
        Policy | None,
        None,
        Object(Policy, "policy of strand, such as strand.Levels()"),
        "The order of tasks: ``Levels()``, ``Fifo()``, ``Aging()`` or ``Fair()``. None: Levels().",
    ]
    retry: Annotated[
        RetryPolicy | None,
        None,
        Object(RetryPolicy),
        "The retry policy of tasks that are given none of their own. None: they fail at once.",
    ]
    guard: Annotated[
        Guard | None,
        None,
        Object(Guard),
        "Holds tasks back while CPU, memory or I/O is short, by their levels and ``marks``, as docs/guard.md says "
        "of strands. None: no guard.\nIt needs ``Levels()``.",
    ]
    max_dead_letters: Annotated[int, 1000, Whole(0), "How many dead letters are kept."]
    seed: Annotated[int | None, None, Whole(0), "The seed of the random part of backoffs. None: another one each time."]
    max_threads: Annotated[
        int,
        MAX_THREADS,
        Whole(1),
        "The greatest number of threads, which is never below ``workers``.\nA task that waits in its middle "
        "(``strand.checkpoint``, ``strand.blocking``, ``result`` of another task) keeps its thread.",
    ]
    attachable: Annotated[
        bool,
        False,
        "Another process of the same user may look at it while it runs (``strand.attach``).\nA thread then puts the "
        "figures of its tasks into its memory once a second, and it counts more times of tasks.",
    ]
    name: Annotated[str, "", Text(), "The name that ``strand.attach`` knows it by."]


class SchedulerOptions(_Keywords, total=False):
    """Options of ``Scheduler``, except ``config``."""

    workers: Annotated[
        int | None,
        None,
        Whole(0, 1024),
        "How many tasks run at a time. None: like 0, as many as this process may use cores.\nIn ``strand.replay`` 0 "
        "is the plain loop.",
    ]
    max_queue: Annotated[
        int | None,
        None,
        Whole(0),
        "How many tasks may wait that could start now or wait for a turn; beyond it ``submit`` raises QueueFull. "
        "None: like 0, any number, as far as memory goes, up to 16,777,216.\nA retry is never refused, and neither "
        "is a task whose delay or hold has ended.",
    ]


@named_options("Scheduler()", declares=SchedulerOptions)
class Scheduler(Tasks, Attachable):
    """Runs functions on threads of its own, in the order of a policy: a ``concurrent.futures.Executor``.

    Leaving its block shuts it down and waits for all tasks; from then on the guard holds nothing back. Without a block
    it ends when nobody refers to it and all tasks have ended. At the end of the program the tasks that wait for a
    worker are run. Those that are delayed, held, or wait for a retry are cancelled.

    Args:
        config: A ``strand.Config``, or the path of its file, which gives what ``Config.scheduler_options`` says. Other
            arguments win over it. A key that is for dispatchers alone is an error.

    Raises:
        ConfigurationError: If an argument cannot work; it names the argument.
        MissingExtraError: If there is a guard of the machine without the extra ``guard``.
    """

    def __init__(
        self,
        workers: int | None = None,
        max_queue: int | None = None,
        *,
        config: Config | str | os.PathLike[str] | None = None,
        **options: Unpack[_Keywords],
    ) -> None:
        given: SchedulerOptions = {"workers": workers, "max_queue": max_queue, **options}
        if config is not None:
            file = config_of(config).scheduler_options()
            given |= cast(SchedulerOptions, {name: one for name, one in file.items() if given.get(name) is None})
        policy, guard, attachable = given["policy"] or Levels(), given["guard"], given["attachable"]
        check_guard(guard, policy)
        allowed = sorted(os.sched_getaffinity(0))
        workers = given["workers"] or min(len(allowed) * (2 if given["io_bound"] else 1), 1024)
        least = least_of(given["min_workers"], workers)
        name = text("name", given["name"])
        engine = Engine(_config(workers, policy, attachable))
        engine.set_handlers([RunByPython()], [()])
        groups = _groups(engine, policy) if isinstance(policy, Fair) else None
        core = Core(
            Pool(engine, policy),
            Ranks(policy, groups),
            bounds=Bounds(given["max_queue"] or 0, given["max_queue_by_level"] or {}, given["max_held"] or 0),
            max_dead_letters=given["max_dead_letters"],
            seed=given["seed"],
            timed=attachable,
        )
        super().__init__(core, retry=given["retry"])
        self._engine = engine
        self._groups = groups
        self._guarding = None if guard is None else Guarding(engine, guard, allowed=allowed, inside=Inside())
        self._activating = None if least is None else Activating(engine, least, allowed=allowed, inside=Inside())
        regular = [each for each in (self._guarding, self._activating) if each is not None]
        self._workers = Places(engine, TasksAlone(core.attempts.run), given["max_threads"], regular)
        said: dict[str, Any] = {"policy": policy, "guard": guard, "retry": given["retry"], "min_workers": least}
        bounded = ("max_queue", "max_queue_by_level", "max_held", "max_dead_letters", "max_threads")
        limits = {name: value for name, value in given.items() if name in bounded}
        chosen = partial(choices, "scheduler", name, engine, None, limits, **said)
        sampling = _sampling(self, chosen(), policy, allowed) if attachable else None
        core.states.name = name or core.states.name
        told: list[Callable[[], None]] = [partial(say_ended, core.states.name, core.counts.totals)]
        core.shutdown.workers = Ending(engine, self._workers, then=partial(_ended, sampling, told))
        _live.add(core.shutdown)
        # All executors of this scheduler hold this set, and nothing of its threads does.
        weakref.finalize(self._periodics, core.shutdown.retire).atexit = False
        self._workers.start()
        if sampling is not None:
            sampling.start()
        say_started(core.states.name, chosen)

    def __repr__(self) -> str:
        dead, policy = len(self.dead_letters), repr(self._core.ranks.policy)
        letters = several(dead, "dead letter") if dead else ""
        name, stage = self._core.states.name, self._core.table.stage
        return brief(self, name, stage, several(self.workers, "worker"), letters, policy)

    @property
    def workers(self) -> int:
        """Number of tasks that run at a time."""
        return self._engine.n_workers

    def statistics(self) -> TaskStatistics:
        """Totals since the start, with the counters of the policy; see TaskStatistics."""
        fair = None
        if self._groups is not None:
            fair = fair_statistics(self._engine, *self._groups.counted(), _no_symbols)
        return replace(super().statistics(), fair=fair, **counted_by_policy(self._engine))

    def guard_statistics(self) -> Mapping[str, GuardStatistics] | None:
        """Decisions of the guard so far, by resource: ``"cpu"``, ``"memory"``, ``"io"``. None: there is no guard."""
        return None if self._guarding is None else self._guarding.statistics()

    def active_statistics(self) -> ActiveStatistics | None:
        """Counts the active workers, and how often that number changed. None: there is no ``min_workers``."""
        return None if self._activating is None else self._activating.statistics()

    def thread_counts(self) -> ThreadCounts:
        """Counts of the threads at this moment, and of the suspensions of tasks."""
        return self._workers.counts()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.shutdown(cancel_futures=kind is not None)


def config_of(config: Config | str | os.PathLike[str]) -> Config:
    """A configuration, or the one that a file has. Raises ConfigurationError and MissingExtraError."""
    if isinstance(config, Config):
        return config
    if not isinstance(config, (str, os.PathLike)):
        raise ConfigurationError("config", f"{config!r} is neither a strand.Config nor the path of a file")
    return Config.load(config)


def _ended(sampling: Sampling | None, told: list[Callable[[], None]]) -> None:
    """The threads have ended, which may come more than once."""
    if sampling is not None:
        sampling.end()
    while told:
        told.pop()()


def _sampling(scheduler: Scheduler, chosen: Mapping[str, Any], policy: Policy, allowed: Sequence[int]) -> Sampling:
    """Makes the thread that puts the scheduler's samples, and shows the memory to others from now on. The thread
    holds the scheduler's parts, and not the scheduler. ``chosen``: its ``choices``."""
    engine, core, places = scheduler._engine, scheduler._core, scheduler._workers
    groups, guarding, activating = scheduler._groups, scheduler._guarding, scheduler._activating

    def facts() -> dict[str, Any]:
        return decisions(guarding, activating) | {"threads": places.counts()._asdict()}

    def fair() -> FairStatistics | None:
        return None if groups is None else fair_statistics(engine, *groups.counted(), _no_symbols)

    sampling = Sampling(
        engine,
        policy.level_names,
        core=lambda: core,
        of_tasks=True,
        facts=facts,
        fair=fair,
        allowed=allowed,
        inside=Inside(),
    )
    engine.outside.show(described(chosen, engine.config, (), (), paced=True, levels=policy.level_names))
    return sampling


def _config(workers: int, policy: Policy, attachable: bool = False) -> EngineConfig:
    """Configuration of an engine that has tasks, and no ticks."""
    return EngineConfig(
        n_symbols=1,
        n_strands=1,
        n_workers=workers,
        n_publishers=1,
        record_size=TICK.itemsize,
        key_offset=int(TICK.fields["instrument_id"][1]),  # type: ignore[index]
        sequence_offset=None,
        sequence_high=0,
        row_bytes=8,
        n_segments=(workers + 2) * CACHED_SEGMENTS,
        idle="sleep",
        on_error="stop",
        on_full="block",
        capacity_ticks=1,
        budget_ticks=1,
        budget_ns=1_000_000,
        batch_ticks=1,
        ahead_ticks=1,
        publisher_drains=False,
        one_core=len(os.sched_getaffinity(0)) == 1,
        policy=policy_config(policy),
        attachable=attachable,
        n_tasks=_MOST_TASKS,
        n_task_groups=_MOST_GROUPS if isinstance(policy, Fair) else 0,
    )


def _no_symbols(strand: int) -> tuple[str, ...]:
    """Symbols of the one strand of an engine without ticks."""
    del strand
    return ()


def _groups(engine: Engine, policy: Fair) -> GroupAccounts:
    """Tasks in no group, then the groups that have a weight, then others as they come."""
    groups = Groups(policy, SymbolTable(1), {"*": IN_NO_GROUP})
    engine.schedule.set_groups(len(groups), groups.weights)
    return GroupAccounts(engine, groups)


def _end_all() -> None:
    for shutdown in list(_live):
        shutdown.at_exit()


atexit.register(_end_all)


_HOLD: Final = {"low": "30s"}


@named_options("napoleon()", more=SchedulerOptions)
def napoleon(config: Config | str | os.PathLike[str] | None = None, **more: Unpack[SchedulerOptions]) -> Scheduler:
    """Makes a ``strand.Scheduler`` that leaves letters of level ``low`` unopened for a while (docs/napoleon.md).

    It has ``Levels(hold={"low": "30s"})``. A task rises from ``high`` after 30 s, from ``retry`` after 60 s, from
    ``normal`` after 5 min and from ``low`` after 30 min. A task of level ``low`` does not start in its first 30 s. Give
    such a task ``expire_if``, so that it is dropped if it has resolved itself meanwhile. ``retry`` is ``RetryPolicy()``
    (three retries, after 1 s, 2 s and 4 s, less a random part) and ``guard`` is ``Guard()``. 1,000 dead letters are
    kept.

    Args:
        config: A ``strand.Config``, or the path of its file, which gives what ``Scheduler(config=)`` takes from it. A
            policy that it names has to be ``levels``, and has the hold above if it says none.
        **more: Arguments of ``Scheduler``, which win; ``guard=None`` leaves the guard out.

    Raises:
        ConfigurationError: If the policy is not ``Levels``, or an argument cannot work.
        MissingExtraError: If there is a guard of the machine without the extra ``guard``.
        UnknownOptionError: If there is no argument of a given name.
    """
    found: dict[str, Any] = {"policy": Levels(), "retry": RetryPolicy(), "guard": Guard()}
    if config is not None:
        said = config_of(config)
        found |= said.scheduler_options()
    given = more.pop("policy", None)
    policy = found["policy"] if given is None else given
    if not isinstance(policy, Levels):
        raise ConfigurationError(
            "policy", f"{type(policy).__name__} has no levels to hold: name levels, or use strand.Scheduler"
        )
    found["policy"] = replace(policy, hold=policy.hold or _HOLD) if given is None else given
    found |= more
    return Scheduler(**found)
