"""The options of a run by name and type: what ``strand.replay`` and what is called like it hand on to a Dispatcher."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypedDict

if TYPE_CHECKING:
    import numpy.typing as npt

    from strand.dispatch.grouping import StrandsLike
    from strand.dispatch.guard import Guard
    from strand.policies.policy import Policy
    from strand.tasks.retry import RetryPolicy

__all__ = ["QueueOptions", "RunOptions"]


class QueueOptions(TypedDict, total=False):
    """About workers and queues: a plain loop has none, and nothing to choose."""

    workers: int | None
    min_workers: int | None
    python_workers: int | None
    cores: Sequence[int] | Literal["auto"] | None
    retry: RetryPolicy | None
    strands: StrandsLike
    counts: npt.ArrayLike | None
    capacity_ticks: int
    total_capacity_ticks: int | None
    level_capacity_ticks: Mapping[str, int] | None
    on_full: str
    idle: str
    budget_ticks: int
    budget_us: float
    batch_ticks: int
    publisher_drains: bool
    max_publishers: int
    memory_bytes: int | None
    output_memory: int
    name: str


class RunOptions(QueueOptions, total=False):
    """All that ``strand.Dispatcher`` takes, without what a feed decides and what its callers have of their own."""

    policy: Policy
    priorities: Mapping[str, Any] | None
    guard: Guard | None
    marks: Mapping[str, str | Iterable[str]] | None
    groups: Mapping[str, str] | None
    on_error: str
    escape_formulas: bool
    attachable: bool
