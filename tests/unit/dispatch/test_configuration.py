"""Arguments that cannot work are refused by name, before anything starts."""

from __future__ import annotations

import numpy as np
import pytest

from strand import Dispatcher
from strand.dispatch.configuration import merging_cores
from strand.errors import ConfigurationError
from strand.ticks import zeros

pytestmark = pytest.mark.python


def test_a_limit_of_time_may_be_endless_or_over_already() -> None:
    with Dispatcher(1, "count", workers=1, cores=None) as d:
        for limit in (float("inf"), 1e300, np.float32(60), 5, -1):
            assert d.publish(zeros(3), timeout_s=limit) == 3
        assert d.drain(float("inf"))
        assert d.call(0, lambda view: int(view.row["ticks"]), timeout_s=float("inf")) == 15


def test_numbers_of_numpy_are_numbers() -> None:
    d = Dispatcher(np.int64(3), "count", workers=np.int32(2), cores=None, capacity_ticks=np.uint16(9))  # type: ignore[arg-type]
    assert (len(d.symbols), d.workers) == (3, 2)


def test_symbols_that_no_memory_could_hold_are_refused_before_any_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("strand.dispatch.configuration.memory_there", lambda: 10**9)
    with pytest.raises(ConfigurationError, match=r"symbols: 100,000,000 on 1 strands take 1\.6 GB .* has 1\.0 GB"):
        Dispatcher(100_000_000, "count")
    with pytest.raises(ConfigurationError, match=r"symbols: 10,000,000 on 10,000,000 strands take 1\.4 GB"):
        Dispatcher(10_000_000, "count", strands="per-symbol")
    Dispatcher(1_000, "count", strands="per-symbol")


@pytest.mark.parametrize(
    ("allowed", "cores", "merging"),
    [
        ([0, 1, 2, 3], [1, 2, 3], [1, 2, 3]),
        ([0, 1, 2, 3], None, [0, 1, 2, 3]),  # nothing is pinned
        ([0, 1, 2, 3], [0, 1, 2, 3], [0, 1, 2, 3]),  # no core is the publisher's own
        ([0, 1, 2, 3, 4], [2, 3, 4], [0, 1, 2, 3, 4]),  # a core is left for the merger too
        ([0, 1, 2], [1, 2], [0, 1, 2]),  # two workers have enough to do
        ([0, 1, 2, 3], [3, 3, 3], [0, 1, 2, 3]),
    ],
)
def test_merging_keeps_off_the_publisher_s_only_core(
    allowed: list[int], cores: list[int] | None, merging: list[int]
) -> None:
    assert merging_cores(allowed, cores) == merging
