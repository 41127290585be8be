"""Batches that a thread makes ahead are bounded in number."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from strand.feeds.io.prefetch_batches import PrefetchedBatches

pytestmark = pytest.mark.python


def readers() -> list[str]:
    return sorted(t.name for t in threading.enumerate() if t.name.startswith(("strand read", "strand make")))


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
