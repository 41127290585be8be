"""Bounds over several strands: on what waits in all, and on each level."""

from __future__ import annotations

from strand.dispatch.pool import Limits
from strand.errors import ConfigurationError
from strand.policies.policy import LEVELS, give_policy
from strand.validate import Faults

__all__ = ["capacities"]


def capacities(limits: Limits, policy: str) -> tuple[int, tuple[int, ...]]:
    """The bounds in ticks, in all and by level, the highest first, as the engine takes them: 0 for none.

    ``policy``: its name. Raises ConfigurationError for a bound that the policy or ``on_full`` cannot keep."""
    on_full, total, of_levels = limits.on_full, limits.total_capacity_ticks or 0, limits.level_capacity_ticks or {}
    faults, given = Faults(), "total_capacity_ticks" if total else "level_capacity_ticks"
    if of_levels and policy != "levels":
        faults.append(
            ConfigurationError("level_capacity_ticks", f"the policy {policy!r} has no levels; {give_policy('levels')}")
        )
    if (total or of_levels) and on_full in ("drop_oldest", "conflate"):
        faults.append(
            ConfigurationError(
                "on_full",
                f"{on_full!r} makes room on one strand only, and {given} is a bound over several; give 'shed', "
                "'drop_newest', 'block' or 'raise'",
            )
        )
    if on_full == "shed" and policy != "levels":
        reason = (
            f"'shed' drops the lowest level first, and the policy {policy!r} has no levels; {give_policy('levels')}"
        )
        faults.append(ConfigurationError("on_full", reason))
    elif on_full == "shed" and not total:
        reason = "'shed' makes room at a bound over all strands; give total_capacity_ticks"
        faults.append(ConfigurationError("on_full", reason))
    faults.end()
    return total, tuple(of_levels.get(level, 0) for level in LEVELS)
