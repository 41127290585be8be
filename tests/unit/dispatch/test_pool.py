"""Pool and Limits: options that belong together."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from typing import Any

import pytest

import strand
from strand.errors import ConfigurationError
from strand.feeds.sample import sample_path


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"pool": strand.Pool(workers=2), "workers": 2}, "^workers: give it in pool, or leave pool out$"),
        ({"pool": strand.Pool(), "cores": "auto"}, "^cores: give it in pool, or leave pool out$"),
        ({"limits": strand.Limits(), "on_full": "block"}, "^on_full: give it in limits, or leave limits out$"),
        ({"min_workers": 1}, r"has no option 'min_workers'; give pool=strand.Pool\(min_workers=...\)$"),
        ({"memory_bytes": 1}, r"has no option 'memory_bytes'; give limits=strand.Limits\(memory_bytes=...\)$"),
        ({"pool": 3}, "^pool: 3 is not a strand.Pool$"),
        ({"limits": {"on_full": "raise"}}, "^limits: .* is not a strand.Limits$"),
    ],
)
def test_a_group_of_options_is_given_whole_or_not_at_all(options: dict[str, Any], says: str) -> None:
    for call in (strand.replay, strand.Dispatcher):
        source: Any = sample_path() if call is strand.replay else 3
        with pytest.raises(ConfigurationError, match=says):
            call(source, "count", **options)


def test_a_group_of_options_is_the_same_as_they_are_alone() -> None:
    pool = strand.Pool(workers=2, cores=None, idle="park", budget_ticks=7, budget_us=50.0, max_publishers=2)
    limits = strand.Limits(capacity_ticks=100, on_full="raise", total_capacity_ticks=1000, output_memory=1 << 20)
    with strand.Dispatcher(3, "count", pool=pool, limits=limits) as dispatcher:
        found = dispatcher._engine.config
    assert (found.n_workers, found.idle, found.budget_ticks, found.budget_ns) == (2, "park", 7, 50_000)
    assert (found.n_publishers, found.capacity_ticks, found.on_full) == (2, 100, "raise")
    assert (found.total_capacity_ticks, found.output_memory) == (1000, 1 << 20)
    alone = strand.Dispatcher(3, "count", workers=2, cores=None, idle="park", budget_ticks=7, capacity_ticks=100)
    group = strand.Pool(workers=2, cores=None, idle="park", budget_ticks=7)
    both = strand.Dispatcher(3, "count", pool=group, limits=strand.Limits(capacity_ticks=100))
    assert alone._engine.config == both._engine.config
    plain_loop = strand.replay(sample_path(), "count", pool=strand.Pool(workers=0), limit=10)
    assert plain_loop.statistics.workers[0].name == "publishers"


def test_a_group_of_options_is_frozen_short_and_checks_what_it_is_given() -> None:
    with pytest.raises(FrozenInstanceError):
        strand.Pool().workers = 3  # type: ignore[misc]
    assert repr(strand.Pool(workers=2, cores=None)) == "Pool(workers=2, cores=None)"
    assert repr(strand.Limits(on_full="raise")) == "Limits(on_full='raise')"
    for make in (lambda: strand.Pool(idle="sleep"), lambda: strand.Limits(on_full="wait")):
        with pytest.raises(ConfigurationError, match="is not one of"):
            make()
