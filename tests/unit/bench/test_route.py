"""Routing benchmarks: the stream they run on, and what they print."""

from __future__ import annotations

import pytest
from bench_command import SMALL, invoke, printed

from strand.bench.route import RouteOptions, make_job
from strand.bench.ways import run

pytestmark = pytest.mark.python
#: What the routing benchmarks this one is compared with print.
COMMON_KEYS = [
    "ticks",
    "symbols",
    "skew",
    "work",
    "workers",
    "batch",
    "strands",
    "hottest_share",
    "mticks_s",
    "publish_ns",
]


def test_route_prints_the_common_keys_first_and_in_order() -> None:
    found = printed("route", *SMALL, "--strands", "16", "--batch", "128")
    assert list(found)[: len(COMMON_KEYS)] == COMMON_KEYS
    assert list(found["mticks_s"]) == ["serial", "static", "static_lpt", "strand"]
    assert (found["ticks"], found["symbols"], found["strands"], found["batch"]) == (20000, 300, 16, 128)
    assert all(rate > 0 for rate in found["mticks_s"].values())
    assert 0 <= found["inline_share"] <= 1
    assert set(found["strand_queued"]) == {"mticks_s", "publish_ns"}
    assert {"cpu", "cores"} <= set(found["machine"])


@pytest.mark.parametrize(("strands", "count"), [("per-symbol", 300), ("auto", 96), ("7", 7)])
def test_route_says_how_many_strands_there_were(strands: str, count: int) -> None:
    assert printed("route", *SMALL, "--strands", strands)["strands"] == count


def test_route_for_people_names_every_way() -> None:
    result = invoke("route", *SMALL, "--skew", "1.2")
    assert result.exit_code == 0, result.output
    for words in ("one core", "static", "largest first", "strand", "skew 1.2"):
        assert words in result.output


def test_route_options_make_the_stream_they_name() -> None:
    job = make_job(RouteOptions(ticks=1000, symbols=20, workers=1, work=0))
    assert len(job.ticks) == job.counts.sum() == 1000
    assert len(job.counts) == 20
    assert run("serial", job)[0].seconds > 0
