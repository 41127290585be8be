"""``resource_limits`` of a configuration file as a guard."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from strand.config.tables import ResourceLimits
from strand.dispatch.guard import Guard

__all__ = ["guard_options", "usual_limits"]

#: What ``resource_limits`` are called in ``strand.Guard``.
_GUARD: Final = {"cpu_threshold": "cpu", "memory_threshold": "memory", "io_queue_threshold": "io_queue"}


def guard_options(limits: ResourceLimits) -> dict[str, Any]:
    """The limits that are given, in the words of ``strand.Guard``, and None for what it is not to watch. Empty: there
    is no guard."""
    found = {option: getattr(limits, key) for key, option in _GUARD.items()}
    if all(value is None for value in found.values()):
        return {}
    if found["io_queue"] is None:  # which stands in for io_pressure, where that cannot be measured
        del found["io_queue"]
        found["io_pressure"] = None
    return found


def usual_limits() -> Iterator[tuple[str, Any]]:
    """The keys and values of the limits that a guard has where nothing is said."""
    usual = Guard()
    for key, option in _GUARD.items():
        yield key, getattr(usual, option)
