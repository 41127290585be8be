"""The retries of a configuration file."""

from __future__ import annotations

import random

import pytest

from strand.config.retries import retry_of
from strand.config.tables import RetryPolicy, Span
from strand.tasks import RetryPolicy as OfTasks

pytestmark = pytest.mark.python


def test_the_first_attempt_is_no_retry() -> None:
    assert retry_of(RetryPolicy()) == OfTasks(max_retries=2, base_delay="100ms", max_delay="30s", jitter=0.1)
    assert retry_of(RetryPolicy(max_attempts=1)).max_retries == 0


def test_all_keys_are_in_force() -> None:
    found = retry_of(
        RetryPolicy(max_attempts=5, initial_backoff=Span("1s"), max_backoff=Span("8s"), multiplier=3.0, jitter=0.0)
    )
    draw = random.Random(1)
    assert [found.delay_ns(retry, draw) for retry in (1, 2, 3)] == [10**9, 3 * 10**9, 8 * 10**9]
    assert found.max_retries == 4
