"""Options of a dispatcher that belong together: those of its threads, and the bounds of its queues."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeVar

from strand.binding.engine_config import IDLE, ON_FULL
from strand.brief import written
from strand.errors import ConfigurationError
from strand.options import named_fields
from strand.validate import is_number, one_of, whole

__all__ = ["MAX_CAPACITY", "Limits", "Pool", "chosen"]

K = TypeVar("K")

#: Upper bounds of publishers, and of a strand's bound.
MAX_PUBLISHERS: Final = 1024
MAX_CAPACITY: Final = 2**31 - 1


@named_fields
@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Pool:
    """The threads that work on ticks: ``pool=`` of ``strand.Dispatcher`` and ``strand.replay``.

    ``workers``, ``cores``, ``idle`` and ``budget_ticks`` can also be given there as options of their own.

    Args:
        workers: Threads that drain. None: one fewer than the cores this process may use (at least one), as the
            publisher drains too. 0, for a replay: a plain loop.
        min_workers: How many of them are active at least; more are as the load asks for. None: all.
        python_workers: How many may run tasks and calls at a time. None: all; but where C handles ticks and there is a
            GIL, one fewer than are active, and at least one (docs/tasks.md).
        cores: The cores that workers are pinned to, in turn. ``"auto"`` takes the last of those this process may use,
            and goes on with a RuntimeWarning if the system refuses to pin. None pins nothing.
        idle: What a worker does without work: ``"spin"``, ``"backoff"`` (spin, then sleep) or ``"park"``.
        budget_ticks: How many ticks end a visit of a strand, 1 to 1,048,576.
        budget_us: How many microseconds end a visit of a strand, above 0.
        max_publishers: How many threads may publish at a time, 1 to 1,024.

    Raises:
        ConfigurationError: If a field cannot work; it names the field. Conditions on the machine and other fields
            are checked where the pool is used.
    """

    workers: int | None = None
    min_workers: int | None = None
    python_workers: int | None = None
    cores: Sequence[int] | Literal["auto"] | None = "auto"
    idle: str = "backoff"
    budget_ticks: int = 4096
    budget_us: float = 1000.0
    max_publishers: int = 8

    def __post_init__(self) -> None:
        one_of("idle", self.idle, IDLE)
        whole("budget_ticks", self.budget_ticks, 1, 2**20)
        if not is_number(self.budget_us) or not 0 < self.budget_us < 1e9:
            raise ConfigurationError(f"budget_us: {self.budget_us!r} is not a positive number of microseconds")
        whole("max_publishers", self.max_publishers, 1, MAX_PUBLISHERS)

    def __repr__(self) -> str:
        return written(self)


@named_fields
@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Limits:
    """The bounds of queues and memory: ``limits=`` of ``strand.Dispatcher`` and ``strand.replay`` (docs/overload.md).

    ``capacity_ticks`` and ``on_full`` can also be given there as options of their own.

    Args:
        capacity_ticks: The bound of each strand, in ticks.
        on_full: What happens at a bound: ``"block"``, ``"drop_newest"``, ``"drop_oldest"``, ``"conflate"`` (keep a
            symbol's latest) or ``"raise"``. With ``total_capacity_ticks`` under ``Levels`` it may be ``"shed"``: ticks
            of the lowest level make room for higher ones.
        total_capacity_ticks: The bound of all strands together, in ticks. None: there is none.
        level_capacity_ticks: Under ``Levels``, the bound of all strands of a level, in ticks: ``{"low": 10_000}``.
        memory_bytes: The bound of the segments of all queues together, in bytes. None: enough for 64 strands at their
            bound, and more. When they are used up, publishing waits whatever ``on_full`` says.
        output_memory: How many bytes may be emitted and not merged yet; beyond that publishing waits. In a replay of
            several merged feeds, each tick that is not final counts 4 bytes more.

    Raises:
        ConfigurationError: If a field cannot work; it names the field. Conditions on the policy are checked where the
            limits are used.
    """

    capacity_ticks: int = 65_536
    on_full: str = "block"
    total_capacity_ticks: int | None = None
    level_capacity_ticks: Mapping[str, int] | None = None
    memory_bytes: int | None = None
    output_memory: int = 1 << 26

    def __post_init__(self) -> None:
        whole("capacity_ticks", self.capacity_ticks, 1, MAX_CAPACITY)
        one_of("on_full", self.on_full, ON_FULL)
        for name in ("memory_bytes", "output_memory"):
            if (value := getattr(self, name)) is not None:
                whole(name, value, 1)

    def __repr__(self) -> str:
        return written(self)


def chosen(name: str, given: K | None, usual: K) -> K:
    """Value given as the option ``name``, else ``usual``. Raises ConfigurationError for another kind of object."""
    if given is None:
        return usual
    if not isinstance(given, type(usual)):
        raise ConfigurationError(f"{name}: {given!r} is not a strand.{type(usual).__name__}")
    return given
