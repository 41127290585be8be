"""The thread that samples a run."""

from __future__ import annotations

import threading
from typing import Any

import numpy.typing as npt
import pytest

import strand
from strand import replay
from strand.errors import ConfigurationError, HandlerError
from strand.feeds.sample import SAMPLE_DATE, sample_path
from strand.replaying import sampler

pytestmark = pytest.mark.python
OPTIONS: dict[str, Any] = {"feed_options": {"date": SAMPLE_DATE}}


def samplers() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "strand-sampler"]


def test_no_sampler_is_left_behind() -> None:
    @strand.batch_handler(state=[("n", "u8")])
    def fails(symbol: str, ticks: npt.NDArray[Any], row: Any) -> None:
        raise ValueError("no")

    replay(sample_path(), "count", **OPTIONS)
    assert samplers() == []
    with pytest.raises(HandlerError):
        replay(sample_path(), fails, watch=2, **OPTIONS)
    assert samplers() == []


def test_a_run_that_is_not_sampled_has_no_timeline() -> None:
    result = replay(sample_path(), "count", timeline=False, limit=1000, **OPTIONS)
    assert result.timeline is None
    with pytest.raises(ConfigurationError, match="timeline=False"):
        result.plot("throughput")
    result.plot("latency")


def test_a_plain_loop_is_not_sampled() -> None:
    assert replay(sample_path(), "count", workers=0, watch=2, limit=1000, **OPTIONS).timeline is None


def test_the_sampler_runs_where_the_publisher_is_not_pinned(monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    seen: list[set[int]] = []
    sample = sampler.Sampler._sample

    def look(self: sampler.Sampler) -> None:
        if threading.current_thread().name == "strand-sampler":
            seen.append(os.sched_getaffinity(0))
        sample(self)

    monkeypatch.setattr(sampler.Sampler, "_sample", look)
    monkeypatch.setattr(sampler, "FIRST_INTERVAL_S", 1e-4)
    for _ in range(100):  # on a busy machine a short run may be over before its sampler has a turn
        replay(sample_path(), "count", **OPTIONS)
        if seen:
            break
    assert seen[0] == os.sched_getaffinity(0)
