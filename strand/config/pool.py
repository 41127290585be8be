"""``worker_pool`` of a configuration file, by the checks of the dispatcher and in its words."""

from __future__ import annotations

from typing import Any

from strand.config.by_symbol import in_a_file
from strand.config.tables import WorkerPool
from strand.dispatch.activating import least_of
from strand.dispatch.capacities import capacities
from strand.dispatch.options import grouped
from strand.dispatch.pool import Limits
from strand.errors import ConfigurationError
from strand.policies.every_policy import policy_config
from strand.policies.policy import Policy
from strand.validate import whole

__all__ = ["check_pool", "pool_options"]


def check_pool(pool: WorkerPool, policy: Policy, problems: list[str]) -> None:
    """Adds the conflicts between options, and with the policy, to ``problems``."""
    try:
        limits = Limits(
            on_full=pool.on_full,
            total_capacity_ticks=pool.total_capacity_ticks,
            level_capacity_ticks=pool.level_capacity_ticks,
        )
        capacities(limits, policy_config(policy).name)
    except ConfigurationError as error:
        problems.append(f"worker_pool.{in_a_file(str(error))}")
    try:
        if pool.max_workers:  # a plain loop has none, and asks for none
            least_of(pool.min_workers, pool.max_workers)
    except ConfigurationError as error:
        problems.append(f"worker_pool.{error}")
    try:
        if pool.max_workers and pool.python_workers:
            whole("python_workers", pool.python_workers, 1, pool.max_workers)
    except ConfigurationError as error:
        problems.append(f"worker_pool.{error}")


def pool_options(pool: WorkerPool) -> dict[str, Any]:
    """The words of ``strand.Dispatcher``; what is as it is there by default is left out, but for the bound of a
    strand."""
    given = {
        "workers": pool.max_workers,
        "min_workers": pool.min_workers,
        "python_workers": pool.python_workers,
        "total_capacity_ticks": pool.total_capacity_ticks,
        "level_capacity_ticks": pool.level_capacity_ticks,
        "on_full": None if pool.on_full == "block" else pool.on_full,
    }
    return grouped(
        capacity_ticks=pool.queue_capacity, **{name: value for name, value in given.items() if value is not None}
    )
