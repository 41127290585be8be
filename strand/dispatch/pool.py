"""Options of a dispatcher that belong together: those of its threads, and the bounds of its queues."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeVar

from strand.binding.engine_config import IDLE, ON_FULL
from strand.brief import written
from strand.errors import ConfigurationError
from strand.options import ByName, Choice, Kind, Number, Whole, named_fields, option, read_options
from strand.policies.policy import level_name

__all__ = ["MAX_CAPACITY", "Limits", "Pool", "chosen"]

K = TypeVar("K")

#: Upper bounds of publishers, and of a strand's bound.
MAX_PUBLISHERS: Final = 1024
MAX_CAPACITY: Final = 2**31 - 1
_CAPACITY: Final = Whole(1, MAX_CAPACITY)


@named_fields
@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Pool:
    """The threads that work on ticks: ``pool=`` of ``strand.Dispatcher`` and ``strand.replay``.

    ``workers``, ``cores``, ``idle`` and ``budget_ticks`` can also be given there as options of their own.

    Raises:
        ConfigurationError: If a field cannot work; it names the field. Conditions on the machine and other fields
            are checked where the pool is used.
    """

    workers: int | None = option(
        None,
        Whole(0, 1024),
        "Threads that drain.",
        unset="one fewer than the cores that this process may use, and at least one, as the publisher drains too",
        more="0, for a replay: a plain loop; for a scheduler: all cores.",
    )
    min_workers: int | None = option(
        None,
        Whole(1, 1024),
        "Workers that are active at least; more are activated as the load requires.",
        unset="all",
        flag=None,
    )
    python_workers: int | None = option(
        None,
        Whole(1, 1024),
        "Workers that may run tasks and calls at a time.",
        unset="all; but where C handles ticks and there is a GIL, one fewer than are active, and at least one",
        more="See docs/tasks.md.",
    )
    cores: Sequence[int] | Literal["auto"] | None = option(
        "auto",
        Kind(),
        "Cores that workers are pinned to, in turn.",
        unset="pins nothing",
        more='``"auto"`` takes the last of those this process may use, and goes on with a RuntimeWarning if the system '
        "refuses to pin.",
    )
    idle: str = option(
        "backoff",
        Choice(tuple(IDLE)),
        "What a worker does without work: spin, spin and then sleep (backoff), or sleep (park).",
        flag=None,
    )
    budget_ticks: int = option(4096, Whole(1, 2**20), "Ticks that end a visit of a strand.")
    budget_us: float = option(1000.0, Number(0, 1e9, "us", above=True), "Time that ends a visit of a strand.")
    max_publishers: int = option(8, Whole(1, MAX_PUBLISHERS), "Threads that may publish at a time.")

    def __post_init__(self) -> None:
        read_options(self).end()

    def __repr__(self) -> str:
        return written(self)


@named_fields
@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Limits:
    """The bounds of queues and memory: ``limits=`` of ``strand.Dispatcher`` and ``strand.replay`` (docs/overload.md).

    ``capacity_ticks`` and ``on_full`` can also be given there as options of their own.

    Raises:
        ConfigurationError: If a field cannot work; it names the field. Conditions on the policy are checked where the
            limits are used.
    """

    capacity_ticks: int = option(65_536, _CAPACITY, "Bound on the pending ticks of each strand.", flag=None)
    on_full: str = option(
        "block",
        Choice(tuple(ON_FULL)),
        "What happens at a bound.",
        more='``"conflate"`` keeps the latest tick. With ``total_capacity_ticks`` under ``Levels`` it may be '
        '``"shed"``: ticks of the lowest level make room for higher ones.',
        flag=None,
    )
    total_capacity_ticks: int | None = option(
        None,
        _CAPACITY,
        "Bound on the pending ticks of all strands together.",
        unset="none",
        more="For a scheduler: tasks that wait.",
        flag=None,
    )
    level_capacity_ticks: Mapping[str, int] | None = option(
        None,
        ByName(_CAPACITY, level_name, "LEVEL=TICKS"),
        "Under Levels, the bound on the pending ticks of all strands of a level.",
        unset="none",
        flag=None,
    )
    memory_bytes: int | None = option(
        None,
        Whole(1),
        "Bound of the segments of all queues together, in bytes.",
        unset="enough for 64 strands at their bound, and more",
        more="When they are used up, publishing waits whatever ``on_full`` says.",
    )
    output_memory: int = option(
        1 << 26,
        Whole(1),
        "Bytes that may be emitted and not merged yet; beyond that publishing waits.",
        more="In a replay of several merged feeds, each tick that is not final counts 4 bytes more.",
    )

    def __post_init__(self) -> None:
        read_options(self).end()

    def __repr__(self) -> str:
        return written(self)


def chosen(name: str, given: K | None, usual: K) -> K:
    """Value given as the option ``name``, else ``usual``. Raises ConfigurationError for another kind of object."""
    if given is None:
        return usual
    if not isinstance(given, type(usual)):
        raise ConfigurationError(name, f"{given!r} is not a strand.{type(usual).__name__}")
    return given
