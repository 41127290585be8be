"""Arguments that cannot work are refused by name, before anything starts."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest
from engine_support import worker_threads

from strand import Dispatcher
from strand.dispatch.configuration import merging_cores
from strand.dispatch.options import grouped
from strand.errors import ConfigurationError
from strand.policies.policy import Policy
from strand.ticks import zeros

pytestmark = pytest.mark.python
MISSING = max(os.sched_getaffinity(0)) + 1


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"workers": 0}, "workers: 0 is not a whole number from 1 to 1,024"),
        ({"workers": -1}, "workers: -1"),
        (
            {"capacity": 64},
            r"Dispatcher\(\) has no option 'capacity'; did you mean 'capacity_ticks'\?",
        ),
        ({"zzz": 64}, r"Dispatcher\(\) has no option 'zzz'; it has attachable, batch_ticks, .*, workers$"),
        ({"workers": 1.5}, "workers: 1.5"),
        ({"workers": True}, "workers: True"),
        ({"workers": 1025}, "workers: 1025"),
        ({"cores": [MISSING]}, rf"cores: \[{MISSING}\] cannot be used; this process may use \["),
        ({"cores": [-1]}, r"cores: \[-1\] cannot be used"),
        ({"cores": []}, "cores: an empty list"),
        ({"cores": "0,1"}, "cores: '0,1' is not 'auto', None or a list"),
        ({"cores": 3}, "cores: 3 is not 'auto', None or a list"),
        ({"capacity_ticks": 0}, "capacity_ticks: 0"),
        ({"capacity_ticks": 2**31}, "capacity_ticks: 2147483648 is not a whole number from 1 to 2,147,483,647"),
        ({"budget_ticks": 0}, "budget_ticks: 0"),
        ({"budget_us": 0}, "budget_us: 0 is not"),
        ({"budget_us": float("nan")}, "budget_us: nan"),
        ({"budget_us": float("inf")}, "budget_us: inf"),
        ({"budget_us": "1"}, "budget_us: '1'"),
        ({"batch_ticks": 65_537}, "batch_ticks: 65537"),
        ({"max_publishers": 0}, "max_publishers: 0"),
        ({"on_full": "wait"}, "on_full: 'wait' is not one of block, drop_newest, drop_oldest, conflate, raise"),
        ({"on_error": "ignore"}, "on_error: 'ignore' is not one of stop, quarantine"),
        ({"idle": "sleep"}, "idle: 'sleep' is not one of spin, backoff, park"),
        ({"policy": Policy()}, "policy: Policy\\(\\) is not a policy"),
        ({"strands": 0}, "strands: 0"),
        ({"counts": [1.0]}, "counts: give one finite, non-negative number for each of the 3 symbols"),
        ({"counts": [1, 2, -3]}, "counts: give one"),
        ({"counts": [1.0, float("nan"), 2.0]}, "counts: give one"),
        ({"counts": [1.0, float("inf"), 2.0]}, "counts: give one"),
        ({"counts": ["a", "b", "c"]}, "counts: give one"),
        ({"cores": [0.0]}, r"cores: \[0.0\] cannot be used"),
        ({"cores": [False]}, r"cores: \[False\] cannot be used"),
        ({"idle": ["spin"]}, r"idle: \['spin'\] is not one of"),
        ({"memory_bytes": -5}, "memory_bytes: -5 is not a whole number from 1"),
        ({"budget_us": True}, "budget_us: True"),
        ({"publisher_drains": "no"}, "publisher_drains: 'no' is neither True nor False"),
        ({"publisher_drains": None}, "publisher_drains: None is neither"),
        ({"output_memory": 0}, "output_memory: 0 is not a whole number from 1"),
        ({"out": "bars.csv"}, "out: 'bars.csv' is not a dict of files and sinks by the names of outputs"),
        ({"memory_bytes": 1e9}, "memory_bytes: 1000000000.0 is not a whole number from 1"),
    ],
)
def test_an_argument_that_cannot_work_is_named(options: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        Dispatcher(3, "count", **grouped(**options))
    assert worker_threads() == []


@pytest.mark.parametrize("wrong", ["1", float("nan"), True, [1]])
def test_a_limit_of_time_that_is_none_is_refused_by_name(wrong: Any) -> None:
    ticks = zeros(1)
    with Dispatcher(1, "count", workers=1, cores=None) as d:
        for wait in (
            lambda: d.publish(ticks, timeout_s=wrong),
            lambda: d.drain(wrong),
            lambda: d.call(0, lambda view: None, timeout_s=wrong),
        ):
            with pytest.raises(ConfigurationError, match=r"timeout_s: .* is not a number of seconds, nor None"):
                wait()
        assert d.statistics().accepted == 0


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
