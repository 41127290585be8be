"""The tables of a configuration file that have keys of their own, with the range and the meaning of each key.

``policy`` and ``priorities`` have the options of the policies in ``strand.policies``, whatever those are; ``groups``
and ``marks`` have values by symbol.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

__all__ = ["TABLES", "ResourceLimits", "RetryPolicy", "Span", "WorkerPool"]


class Span(str):
    """A span of time as text, such as ``"30s"``: a number in a file has no unit."""

    __slots__ = ()


class WorkerPool(msgspec.Struct, frozen=True, kw_only=True, repr_omit_defaults=True):
    """The threads that drain, and the bounds of the queues: docs/overload.md."""

    max_workers: (
        Annotated[
            int,
            Meta(
                ge=0,
                le=1024,
                examples=[4],
                description="Threads that drain; one fewer than the cores unless given. "
                "0: for replays a plain loop, for a scheduler all cores.",
            ),
        ]
        | None
    ) = None
    min_workers: (
        Annotated[int, Meta(ge=1, le=1024, examples=[1], description="Threads active at least; all unless given.")]
        | None
    ) = None
    python_workers: (
        Annotated[int, Meta(ge=1, le=1024, examples=[1], description="Threads in tasks and calls at most.")] | None
    ) = None
    queue_capacity: Annotated[int, Meta(ge=1, le=2**31 - 1, description="Ticks that each strand holds.")] = 65_536
    total_capacity_ticks: (
        Annotated[
            int,
            Meta(
                ge=1,
                le=2**31 - 1,
                examples=[1_000_000],
                description="Ticks that all strands hold; for a scheduler, tasks that wait.",
            ),
        ]
        | None
    ) = None
    level_capacity_ticks: (
        Annotated[
            dict[str, int],
            Meta(examples=[{"low": 500_000}], description="Ticks that all strands of a level hold; for levels."),
        ]
        | None
    ) = None
    on_full: Annotated[
        Literal["block", "drop_newest", "drop_oldest", "conflate", "raise", "shed"],
        Meta(description="What happens at a bound."),
    ] = "block"


class RetryPolicy(msgspec.Struct, frozen=True, kw_only=True, repr_omit_defaults=True):
    """Times at which a failed task is tried again, docs/tasks.md; for a scheduler."""

    max_attempts: Annotated[int, Meta(ge=1, le=1000, description="With the first one.")] = 3
    initial_backoff: Annotated[Span, Meta(description="The wait before the second attempt.")] = Span("100ms")
    multiplier: Annotated[float, Meta(ge=1, le=1000, description="Each further wait is so many times as long.")] = 2.0
    max_backoff: Annotated[Span, Meta(description="No wait is longer.")] = Span("30s")
    jitter: Annotated[
        float, Meta(ge=0, le=1, description="The share of a wait that is drawn at random, from 0 to 1.")
    ] = 0.1


class ResourceLimits(msgspec.Struct, frozen=True, kw_only=True, repr_omit_defaults=True):
    """Thresholds above which the guard holds symbols back, docs/guard.md; for the policy levels."""

    cpu_threshold: (
        Annotated[float, Meta(gt=0, le=1, examples=[0.8], description="Share of the CPU time, from 0 to 1.")] | None
    ) = None
    memory_threshold: (
        Annotated[float, Meta(gt=0, le=1, examples=[0.75], description="Share of the memory, from 0 to 1.")] | None
    ) = None
    io_queue_threshold: (
        Annotated[
            int,
            Meta(ge=1, examples=[100], description="Requests that a disk has in flight, where the system has no PSI."),
        ]
        | None
    ) = None


#: The tables by name.
TABLES: Final[dict[str, type[msgspec.Struct]]] = {
    "worker_pool": WorkerPool,
    "retry_policy": RetryPolicy,
    "resource_limits": ResourceLimits,
}
