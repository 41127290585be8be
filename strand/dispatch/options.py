"""The options of a run by name and type: those that ``strand.replay`` and similar calls hand on to a Dispatcher."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, Final, Literal, TypedDict

from strand.dispatch.configuration import Limits, Pool, chosen

if TYPE_CHECKING:
    import numpy.typing as npt

    from strand.dispatch.guard import Guard
    from strand.dispatch.routing import StrandsLike
    from strand.policies.policy import Policy
    from strand.tasks.retry import RetryPolicy

__all__ = ["GROUPS", "QueueOptions", "RunOptions", "grouped", "workers_of"]

#: Options that are objects of several, by name.
GROUPS: Final[Mapping[str, type[Any]]] = {"pool": Pool, "limits": Limits}


class QueueOptions(TypedDict, total=False):
    """About workers and queues: a plain loop has none, and nothing to choose."""

    workers: int | None
    cores: Sequence[int] | Literal["auto"] | None
    idle: str
    budget_ticks: int
    pool: Pool | None
    retry: RetryPolicy | None
    strands: StrandsLike
    counts: npt.ArrayLike | None
    capacity_ticks: int
    on_full: str
    limits: Limits | None
    batch_ticks: int
    publisher_drains: bool
    name: str


class RunOptions(QueueOptions, total=False):
    """All options of ``strand.Dispatcher``, without those that a feed decides and those that its callers have
    themselves."""

    policy: Policy
    priorities: Mapping[str, Any] | None
    guard: Guard | None
    marks: Mapping[str, str | Iterable[str]] | None
    groups: Mapping[str, str] | None
    on_error: str
    escape_formulas: bool
    attachable: bool


def workers_of(options: RunOptions) -> int | None:
    """Number of workers that the options ask for; None: the default."""
    return chosen("pool", options.get("pool"), Pool(workers=options.get("workers"))).workers


def grouped(**given: Any) -> dict[str, Any]:
    """A dispatcher's options, with the fields of ``Pool`` and ``Limits`` among them. A field that is an option itself
    stays so, unless others of its group, or the group itself, are given too. Raises ConfigurationError."""
    found = dict(given)
    for group, kind in GROUPS.items():
        names = {one.name for one in fields(kind)} & given.keys()
        if found.get(group) is not None or not names <= QueueOptions.__annotations__.keys():
            parts = {name: found.pop(name) for name in names}
            found[group] = kind(**parts) if found.get(group) is None else replace(found[group], **parts)
    return found
