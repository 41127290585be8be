"""Every way of routing once, flat out; ``strand bench route`` compares them properly, in turn and with medians.

pytest bench/test_routes.py --benchmark-only
"""

from __future__ import annotations

from typing import Any

import pytest

from strand.bench.route import RouteOptions, make_job
from strand.bench.ways import THROUGHPUT_WAYS, Job, WayName, run


@pytest.fixture(scope="module", params=[0, 100], ids=["no-work", "100-steps"])
def job(request: pytest.FixtureRequest) -> Job:
    return make_job(RouteOptions(ticks=2_000_000, workers=3, work=request.param))


@pytest.mark.parametrize("way", THROUGHPUT_WAYS)
def test_route(benchmark: Any, job: Job, way: WayName) -> None:
    outcomes = []
    benchmark.pedantic(lambda: outcomes.append(run(way, job)[0]), rounds=5, warmup_rounds=1)
    fastest = min(outcome.seconds for outcome in outcomes)
    benchmark.extra_info["million_ticks_per_s"] = round(len(job.ticks) / fastest / 1e6, 1)
