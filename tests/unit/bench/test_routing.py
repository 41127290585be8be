"""The routes strands are measured against give the rows of a plain computation, whatever the sizes."""

from __future__ import annotations

import dataclasses
from typing import Any, get_args

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples
from strand.bench.streams import all_at_once, market_day, numbered, paced, squeezed, with_hot_symbol
from strand.bench.ways import Job, WayName, run, static_homes
from strand.binding import lab as routes
from strand.errors import EngineError
from strand.feeds.synthetic import route_stream
from strand.handlers import Handler, spin
from strand.machine import Cores
from strand.ticks import zeros


def unpinned(workers: int) -> Cores:
    return Cores(None, (None,) * workers)


def job_of(ticks: npt.NDArray[Any], symbols: int, handler: Handler | None = None, **more: Any) -> Job:
    options: dict[str, Any] = {"handler": handler or spin(3), "cores": unpinned(2), "idle": "backoff", **more}
    counts = np.bincount(ticks["instrument_id"], minlength=symbols)
    return Job(ticks=ticks, symbols=symbols, counts=counts, **options)


def small_stream(count: int, symbols: int, seed: int) -> npt.NDArray[Any]:
    rng = np.random.default_rng(seed)
    ticks = zeros(count)
    ticks["instrument_id"] = (symbols * rng.random(count) ** 3).astype(np.uint32)
    ticks["price"] = rng.integers(-(2**40), 2**40, count)
    return numbered(ticks)


MULTIPLIER, INCREMENT = 6364136223846793005, 1442695040888963407
RINGS_FULL = 3 * routes.RING_TICKS


def plain(
    ticks: npt.NDArray[Any], symbols: int, work: int, dear_every: int = 0, dear_times: int = 1
) -> list[list[int]]:
    """Rows (ticks, value) by symbol, in Python's own integers."""
    rows = [[0, 0] for _ in range(symbols)]
    for key, price in zip(ticks["instrument_id"].tolist(), ticks["price"].tolist(), strict=True):
        steps = work * (dear_times if dear_every and key % dear_every == 0 else 1)
        x = rows[key][1] + price
        for _ in range(steps):
            x = x * MULTIPLIER + INCREMENT
        rows[key] = [rows[key][0] + 1, x % 2**64]
    return rows


@pytest.mark.parametrize("way", get_args(WayName))
@settings(max_examples=examples(50))
@given(
    count=st.integers(1, 1500), symbols=st.integers(1, 40), workers=st.integers(1, 5), seed=st.integers(0, 2**32 - 1),
    dear_every=st.integers(0, 3), batch=st.sampled_from([1, 7, 64, 4096]),
)  # fmt: skip
def test_every_way_leaves_the_rows_of_a_plain_loop(
    way: WayName, *, count: int, symbols: int, workers: int, seed: int, dear_every: int, batch: int
) -> None:
    ticks = small_stream(count, symbols, seed)
    handler = spin(2, dear_every=dear_every, dear_times=3)
    _, rows = run(way, job_of(ticks, symbols, handler, cores=unpinned(workers), batch_ticks=batch))
    found = list(zip(rows["ticks"].tolist(), rows["value"].tolist(), strict=True))
    assert found == [tuple(row) for row in plain(ticks, symbols, 2, dear_every, 3)]


@pytest.mark.parametrize("way", ["static", "static_lpt"])
def test_rings_that_wrap_and_fill_keep_every_tick_in_order(way: WayName) -> None:
    ticks = small_stream(RINGS_FULL, 5, 1)
    job = job_of(ticks, 5, spin(50))
    _, expected = run("serial", job)
    assert expected["ticks"].sum() == RINGS_FULL
    run(way, job, expected)


@pytest.mark.parametrize("way", get_args(WayName))
def test_a_paced_run_handles_everything_and_books_each_tick_once(way: WayName) -> None:
    ticks = paced(small_stream(4000, 9, 2), 400_000.0)
    job = job_of(ticks, 9, paced=True)
    outcome, rows = run(way, job)
    assert outcome.latency_counts is not None
    assert outcome.latency_counts.sum() == 4000 == rows["ticks"].sum()
    assert outcome.latency().count == 4000
    assert outcome.seconds >= 3999 / 400_000.0  # no tick is sent before it is due


def test_latency_counts_from_when_a_tick_was_due_and_not_from_when_it_was_sent() -> None:
    ticks = all_at_once(small_stream(20_000, 3, 3))
    outcome, _ = run("serial", job_of(ticks, 3, spin(400), paced=True))
    # All were due at the start, so the last one waited for as long as the whole run took.
    assert outcome.latency().maximum_ns * 1e-9 > outcome.seconds / 2


def test_a_way_that_loses_a_tick_is_found_out() -> None:
    ticks = small_stream(500, 4, 4)
    job = job_of(ticks, 4)
    with pytest.raises(EngineError, match=r"static: symbol \d+ handled \d+ of its \d+ ticks"):
        run("static", dataclasses.replace(job, ticks=ticks[:-1]))


def test_a_way_that_reorders_ticks_is_found_out() -> None:
    ticks = small_stream(500, 1, 5)
    turned = np.arange(500)
    turned[[10, 11]] = [11, 10]
    ticks["sequence"] = ticks["sequence"][turned]
    with pytest.raises(EngineError, match="serial: 3 ticks were handled out of order"):
        run("serial", job_of(ticks, 1))


def test_rows_that_differ_from_the_plain_loop_are_found_out() -> None:
    job = job_of(small_stream(500, 3, 6), 3)
    _, expected = run("serial", dataclasses.replace(job, handler=spin(4)))
    with pytest.raises(EngineError, match="strand: rows differ"):
        run("strand", job, expected)


def test_static_homes_are_the_index_modulo_the_workers() -> None:
    job = job_of(small_stream(100, 7, 7), 7, cores=unpinned(3))
    assert static_homes(job, by_counts=False).tolist() == [0, 1, 2, 0, 1, 2, 0]


def test_homes_by_counts_put_the_largest_first_on_the_least_loaded_worker() -> None:
    counts = [5, 40, 10, 25, 20]
    ticks = zeros(sum(counts))
    ticks["instrument_id"] = np.repeat(np.arange(5), counts)
    homes = static_homes(job_of(numbered(ticks), 5), by_counts=True)
    # 40 | 25, then 20 to the second (45), 10 to the first (50), 5 to the second (50).
    assert homes.tolist() == [1, 0, 0, 1, 1]


def test_a_long_call_tries_inline_execution_unless_it_is_switched_off() -> None:
    job = job_of(small_stream(100_000, 50, 8), 50, spin(0))
    assert run("strand_queued", job)[0].inline_share == 0
    assert run("strand", job)[0].inline_share > 0


def test_a_live_feeds_short_calls_are_never_held_up_by_a_trial() -> None:
    # Gusts of 100 ticks with quiet between them: strands are idle, and could be handled inline each time. A publisher
    # that is late sends several at once, but no more than make a short call.
    ticks = paced(small_stream(100_000, 50, 8), 5e6)
    ticks["ts_recv"] = np.arange(100_000) // 100 * 50_000
    assert run("strand", job_of(ticks, 50, spin(0), paced=True, batch_ticks=2_000))[0].inline_share == 0


# ---- Streams that benchmarks run on


def test_numbered_counts_each_symbols_ticks_from_one() -> None:
    ticks = zeros(6)
    ticks["instrument_id"] = [3, 1, 3, 3, 1, 0]
    assert numbered(ticks)["sequence"].tolist() == [1, 1, 2, 3, 2, 1]


def test_the_route_stream_is_numbered_already() -> None:
    ticks = route_stream(5000, 100)
    assert np.array_equal(numbered(ticks.copy())["sequence"], ticks["sequence"])


def test_the_hot_symbol_has_its_share_and_its_order() -> None:
    ticks = with_hot_symbol(20_000, 500, 0.4)
    counts = np.bincount(ticks["instrument_id"], minlength=500)
    assert 0.4 <= counts.max() / len(ticks) < 0.45
    run("serial", job_of(ticks, 500))


def test_a_squeezed_day_keeps_its_bursts_at_another_rate() -> None:
    ticks = market_day(20_000, 200)
    times = ticks["ts_recv"].copy()
    squeezed(ticks, times, 1e6)
    assert ticks["ts_recv"][0] == 0
    assert ticks["ts_recv"][-1] == pytest.approx(20_000 / 1e6 * 1e9, rel=1e-6)
    gaps, were = (np.diff(column.astype(np.float64)) for column in (ticks["ts_recv"], times))
    assert (gaps >= 0).all()
    assert np.corrcoef(gaps, were)[0, 1] > 0.999
    run("static", job_of(ticks, 201))


def test_a_publisher_with_a_share_gets_less_the_more_time_it_publishes() -> None:
    job = job_of(small_stream(10_000, 300, seed=1), 300)
    workers, free, busy = (
        np.bincount(static_homes(job, by_counts=True, own=own), job.counts, minlength=3) for own in (None, 0.0, 3_000.0)
    )
    assert workers[2] == 0
    assert abs(free - 10_000 / 3).max() < 200
    assert abs(busy[:2] - 13_000 / 3).max() < 200
    modulo = static_homes(job, by_counts=False, own=0.0)
    assert modulo.tolist() == [symbol % 3 for symbol in range(300)]


def test_a_stream_that_is_published_twice_has_the_rows_of_one_time_and_all_ticks_of_both() -> None:
    job = dataclasses.replace(job_of(small_stream(100_000, 300, seed=2), 300), again=True)
    for way in ("strand", "strand_publish", "strand_blocks"):
        outcome, rows = run(way, job)
        assert rows["ticks"].tolist() == job.counts.tolist()
        assert 0 <= outcome.inline_share <= 1
