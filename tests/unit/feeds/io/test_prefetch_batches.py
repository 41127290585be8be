"""Batches that a thread makes ahead are bounded in number."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from engine_support import wait_until

from strand.feeds.io.prefetch import PrefetchedBatches

pytestmark = pytest.mark.python


def readers() -> list[str]:
    return sorted(t.name for t in threading.enumerate() if t.name.startswith(("strand read", "strand make")))


def test_two_batches_are_made_ahead_and_a_third_waits_until_one_is_taken() -> None:
    begun: list[int] = []
    ahead = PrefetchedBatches((begun.append(i) or i for i in range(9)), "strand read x")
    for taken in range(3):
        wait_until(lambda: len(begun) >= taken + 2)  # noqa: B023 - it is called here
        threading.Event().wait(0.2)  # in which one batch too many would be made
        assert begun == list(range(taken + 2))
        assert next(ahead) == taken
    ahead.close()


def test_what_is_read_ahead_is_bounded() -> None:
    begun = []

    def numbers() -> Any:
        for i in range(100):
            begun.append(i)
            yield i, None

    ahead = PrefetchedBatches(numbers(), "strand read x")
    for i in range(50):
        assert next(ahead) == (i, None)
        assert begun[-1] <= i + 3
    ahead.close()
    ahead.close()
    assert readers() == []
    assert list(ahead) == []
