"""Bounds over several strands: on what waits in all, and on each level."""

from __future__ import annotations

from collections.abc import Mapping

from strand.dispatch.pool import Limits
from strand.errors import ConfigurationError
from strand.policies.policy import LEVELS, level_of
from strand.validate import whole

__all__ = ["capacities"]


def capacities(limits: Limits, policy: str) -> tuple[int, tuple[int, ...]]:
    """The bounds in ticks, in all and by level, the highest first, as the engine takes them: 0 for none.

    ``policy``: its name. Raises ConfigurationError for a number below 1, an unknown level, a bound that the policy or
    ``on_full`` cannot keep."""
    most, on_full = 2**31 - 1, limits.on_full
    total, of_levels = limits.total_capacity_ticks, limits.level_capacity_ticks
    if of_levels is not None and not isinstance(of_levels, Mapping):
        raise ConfigurationError(f"level_capacity_ticks: {type(of_levels).__name__} is not a dict of ticks by level")
    by_level = [0] * len(LEVELS)
    for level, ticks in (of_levels or {}).items():
        number = level_of("level_capacity_ticks", level)
        by_level[number] = whole(f"level_capacity_ticks: {level}", ticks, 1, most)
    in_all = 0 if total is None else whole("total_capacity_ticks", total, 1, most)
    given = "total_capacity_ticks" if in_all else "level_capacity_ticks"
    if any(by_level) and policy != "levels":
        raise ConfigurationError(f"level_capacity_ticks: the policy {policy!r} has no levels; give policy=Levels()")
    if (in_all or any(by_level)) and on_full in ("drop_oldest", "conflate"):
        raise ConfigurationError(
            f"on_full: {on_full!r} makes room on one strand only, and {given} is a bound over several; give 'shed', "
            "'drop_newest', 'block' or 'raise'"
        )
    if on_full == "shed" and policy != "levels":
        raise ConfigurationError(
            f"on_full: 'shed' drops the lowest level first, and the policy {policy!r} has no levels; give "
            "policy=Levels()"
        )
    if on_full == "shed" and not in_all:
        raise ConfigurationError("on_full: 'shed' makes room at a bound over all strands; give total_capacity_ticks")
    return in_all, tuple(by_level)
