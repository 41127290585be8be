"""``retry_policy`` of a configuration file as that of tasks."""

from __future__ import annotations

from strand.config import tables
from strand.tasks.retry import RetryPolicy

__all__ = ["retry_of"]


def retry_of(table: tables.RetryPolicy) -> RetryPolicy:
    """The retries of tasks that are given none of their own."""
    return RetryPolicy(
        max_retries=table.max_attempts - 1,
        base_delay=str(table.initial_backoff),
        max_delay=str(table.max_backoff),
        multiplier=table.multiplier,
        jitter=table.jitter,
    )
