"""A dispatcher whose interleaving a seed decides."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from seeded_cases import TIGHT, own_row_alone, timed, trades

import strand
from strand import testing
from strand.errors import (
    ConfigurationError,
    DifferenceError,
    HandlerError,
)


def test_the_same_seed_gives_the_same_rows_outputs_and_statistics_and_others_do_not() -> None:
    feed = testing.feed(trades())
    runs = [testing.seeded(feed, timed(), seed=seed, **TIGHT) for seed in (3, 3, *range(4, 12))]
    testing.assert_same(runs[0], runs[1])
    assert runs[0].statistics == runs[1].statistics
    assert len({str(run.statistics.as_dict()) for run in runs}) > 5


def test_publisher_and_workers_all_have_a_share() -> None:
    feed = testing.feed(trades(200))
    handled = np.zeros(4, int)
    stolen = 0
    for seed in range(10):
        statistics = testing.seeded(feed, "count", seed=seed, **TIGHT).statistics
        handled += [worker.handled for worker in statistics.workers]
        stolen += statistics.stolen
    assert (handled > 0).all()
    assert stolen


@pytest.mark.parametrize("on_full", ["drop_newest", "drop_oldest", "conflate"])
def test_what_a_bound_drops_is_the_same_under_one_seed_and_is_said(on_full: str) -> None:
    feed = testing.feed(trades(200, "AB"))
    options = TIGHT | {"on_full": on_full}
    runs = [testing.seeded(feed, own_row_alone, seed=5, **options) for _ in range(2)]
    assert runs[0].statistics == runs[1].statistics
    assert sum(runs[0].statistics.dropped.values()) + runs[0].statistics.handled == 200
    with pytest.raises(DifferenceError, match=r"seed \d+: .* ticks were dropped"):
        testing.check_seeds(feed, own_row_alone, **options)


def test_a_handler_that_fails_stops_the_run_or_is_quarantined() -> None:
    @strand.batch_handler(state=[("n", "i8")])
    def fails(symbol: str, ticks: Any, row: Any) -> None:
        row["n"] += 1
        if symbol == "B":
            raise ValueError("no B")

    feed = testing.feed(trades())
    with pytest.raises(HandlerError, match="no B") as caught:
        testing.seeded(feed, fails, seed=1, **TIGHT)
    assert isinstance(caught.value.__cause__, ValueError)
    run = testing.seeded(feed, fails, seed=1, on_error="quarantine", **TIGHT | {"on_full": "drop_newest"})
    assert len(run.failures) == 1
    assert run.statistics.dropped["failed"] == 1
    testing.check_seeds(feed, "count", seeds=range(3), **TIGHT)  # and the next run begins anew


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"seed": -1}, "seed"),
        ({"seed": 0, "workers": 17}, "workers"),
        ({"seed": 0, "cores": [0]}, "cores"),
        ({"seed": 0, "capacity": 4}, "capacity"),
    ],
)
def test_what_a_seeded_run_cannot_take_is_refused(options: dict[str, Any], what: str) -> None:
    with pytest.raises(ConfigurationError, match=what):
        testing.seeded(testing.feed(trades()), "count", **options)
