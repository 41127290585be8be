"""Plans of a scheduler, and the formulas of queues that they come from."""

from __future__ import annotations

import dataclasses
import heapq
import itertools
import json
import math
import random
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import strand
from strand import feeds
from strand.command.policy import (
    MAX_WORKERS,
    OVERFLOW,
    Arrivals,
    Burstiness,
    Load,
    Queue,
    Target,
    blocking,
    least_workers,
    measure_arrivals,
    measure_service,
    plan,
    workers_for,
)
from strand.errors import ConfigurationError
from strand.feeds.sample import SAMPLE_DATE, sample_path
from strand.testing import feed

pytestmark = pytest.mark.python


def test_a_plan_has_the_least_workers_beside_the_rule_of_thumb() -> None:
    found = plan(Load(100_000, 25_000), Target(50_000, 0.99), workers=3)
    erlang, thumb, given = found.choices
    assert [(choice.name, choice.workers) for choice in found.choices] == [
        ("Erlang C", 5), ("rule of thumb", 7), ("as given", 3),
    ]  # fmt: skip
    queue = Queue(100_000, 25_000, 5)
    assert erlang.quantile_ns == queue.wait_ns(0.99) <= 50_000 < Queue(100_000, 25_000, 4).wait_ns(0.99)
    assert (erlang.mean_wait_ns, erlang.queue_capacity) == (queue.mean_wait_ns, queue.capacity())
    assert thumb.queue_capacity == 13  # 100,000 x 50 us x 2.5
    assert given.quantile_ns > 50_000
    assert found.quantile == 0.99
    with pytest.raises(dataclasses.FrozenInstanceError):
        erlang.workers = 1  # type: ignore[misc]


def test_a_mean_is_a_target_too_and_its_quantile_is_said() -> None:
    found = plan(Load(100_000, 25_000), Target(50_000))
    assert found.choices[0].mean_wait_ns <= 50_000 < found.choices[0].quantile_ns
    assert found.quantile == 0.99
    assert found.as_dict()["target"] == {"wait_ns": 50_000, "quantile": None}


def test_symbols_that_one_worker_cannot_serve_are_named() -> None:
    rates = {"COLD": 10.0, "HOT": 50_000.0, "EDGE": 40_000.0, "BELOW": 39_999.0}
    found = plan(Load(sum(rates.values()), 25_000, rates), Target(1_000_000, 0.99))
    assert list(found.undrainable.items()) == [("HOT", 50_000.0), ("EDGE", 40_000.0)]
    assert any("a symbol above 40,000 ticks per second is never drained" in text for text in found.assumptions)
    assert plan(Load(130_009, 25_000), Target(1_000_000, 0.99)).undrainable == {}


def says(texts: Sequence[str], *words: str) -> bool:
    return any(all(word in text for word in words) for text in texts)


def test_what_is_assumed_is_said() -> None:
    found = plan(Load(1000, 1000), Target(1000)).assumptions
    for words in ("Poisson", "exponentially", "independent", "in order", "rate x service x 2.5", "1,000,000"):
        assert says(found, words), words


def test_where_it_is_off_is_said() -> None:
    def doubts(load: Load) -> tuple[str, ...]:
        return plan(load, Target(1_000_000, 0.99)).doubts

    assert says(doubts(Load(1000, 1000)), "the spread of arrivals is unknown")
    assert says(doubts(Load(1000, 1000, burstiness=Burstiness(None, 1000))), "undefined", "fewer than two")
    assert doubts(Load(1000, 1000, burstiness=Burstiness(1.0, 1000))) == ()
    assert says(doubts(Load(1000, 1000, burstiness=Burstiness(9, 1000))), "not Poisson:", "about 5 times as long")
    assert says(doubts(Load(1000, 1000, burstiness=Burstiness(0, 1000))), "not Poisson:", "about 0.5 times as long")
    assert says(doubts(Load(100_000, 25_000, {"A": 1.0, "B": 1.0})), "only 2 symbols have ticks")
    assert says(doubts(Load(1000, 600_000, {"A": 990.0, "B": 10.0})), "A alone keeps one worker busy for 59%")
    assert not says(doubts(Load(1000, 1000, {"A": 990.0, "B": 10.0})), "alone")
    assert says(doubts(Load(1000, 1000, holds_gil=True)), "in Python", "one at a time")


def test_the_busiest_second_has_a_plan_of_its_own() -> None:
    found = plan(Load(10_000, 25_000, burstiness=Burstiness(1.0, 100_000)), Target(50_000, 0.99))
    assert [choice.name for choice in found.choices] == ["Erlang C", "busiest second", "rule of thumb"]
    assert (found.choices[1].rate_per_s, found.choices[1].workers) == (100_000, 5)
    found = plan(Load(10_000, 25_000, burstiness=Burstiness(1.0, 1e9)), Target(50_000, 0.99))
    assert [choice.name for choice in found.choices] == ["Erlang C", "rule of thumb"]
    assert says(found.doubts, "no number of workers keeps the wait in the busiest second (1,000,000,000 ticks)")


def test_a_plan_is_plain_values_for_json() -> None:
    found = plan(Load(100_000, 25_000, burstiness=Burstiness(None, 5)), Target(50_000, 0.99))
    plain = json.loads(json.dumps(found.as_dict(), allow_nan=False))
    assert plain["load"] == 2.5
    assert plain["squared_variation"] is None
    assert plain["choices"][0]["workers"] == 5


# ---- The load that a recorded file is


SECOND = 10**9


def of(
    times: list[int], symbols: list[str] | None = None, *, limit: int | None = None, batches: int | None = None
) -> Arrivals:
    names = symbols or ["A"] * len(times)
    ticks = [{"symbol": name, "ts_recv": ns, "price": 1.0, "size": 1} for name, ns in zip(names, times, strict=True)]
    return measure_arrivals(feed(ticks, batches=batches), limit=limit)


def test_rates_are_ticks_over_the_time_between_them() -> None:
    found = of([SECOND, 2 * SECOND, 3 * SECOND, 5 * SECOND], ["A", "B", "A", "A"])
    assert found.ticks == 4
    assert found.rate_per_s == pytest.approx(3 / 4)
    assert found.by_symbol == pytest.approx({"A": 3 / 4, "B": 1 / 4})


def test_how_arrivals_spread_is_the_variance_of_their_gaps_over_the_square_of_the_mean() -> None:
    times = [0, 1, 5, 6, 20, 21, 22]
    gaps = np.diff(times)
    found = of([SECOND + ns * 1000 for ns in times])
    assert found.burstiness.squared_variation == pytest.approx(gaps.var() / gaps.mean() ** 2)
    for batches in (1, 2, 3):
        assert of([SECOND + ns * 1000 for ns in times], batches=batches) == found
    assert of([SECOND * n for n in range(1, 9)]).burstiness.squared_variation == pytest.approx(0)
    draw = np.random.default_rng(7)
    random = np.cumsum(draw.exponential(1_000_000, 4_000)).astype(int) + 1
    assert of(random.tolist()).burstiness.squared_variation == pytest.approx(1, rel=0.1)


def test_the_busiest_second_is_found_across_batches() -> None:
    times = [SECOND, SECOND + 5, SECOND + 7, 4 * SECOND, 4 * SECOND + 1]
    for batches in (1, 2, 5):
        assert of(times, batches=batches).burstiness.busiest_per_s == 3


def test_a_time_that_runs_back_counts_as_no_later_than_the_one_before() -> None:
    gaps = np.array([2, 0, 2])
    for batches in (1, 2, 4):
        found = of([SECOND, 3 * SECOND, 2 * SECOND, 5 * SECOND], batches=batches)
        assert found.rate_per_s == pytest.approx(3 / 4)
        assert found.burstiness.squared_variation == pytest.approx(gaps.var() / gaps.mean() ** 2)


def test_what_is_undefined_is_none_or_refused() -> None:
    assert of([SECOND, 2 * SECOND]).burstiness.squared_variation is None
    for times in ([SECOND], [SECOND, SECOND]):
        with pytest.raises(ConfigurationError, match=f"the rate is undefined: {len(times)} ticks, and no time between"):
            of(times)


def test_a_limit_ends_the_reading() -> None:
    found = of([SECOND, 2 * SECOND, 3 * SECOND, 4 * SECOND], limit=3)
    assert (found.ticks, found.rate_per_s) == (3, pytest.approx(1))


def test_a_file_is_measured_by_its_reader_and_a_replay() -> None:
    day = {"date": SAMPLE_DATE}
    found = measure_arrivals(feeds.open(sample_path(), **day))
    result = strand.replay(sample_path(), "count", feed_options=day)
    assert found.ticks == result.ticks
    assert set(found.by_symbol) == {name for name, n in zip(result.symbols, result.ticks_by_symbol, strict=False) if n}
    fast = measure_service(sample_path(), "count", feed_options=day, limit=50_000)
    slow = measure_service(sample_path(), strand.handlers.spin(work=2000), feed_options=day, limit=50_000)
    assert 0 < fast < slow / 5


# ---- Erlang's formulas, held against the sums they come from, printed tables, and a simulation


def summed_b(workers: int, load: Fraction) -> Fraction:
    """Erlang B as it is usually given: the last of the terms load^k / k! over their sum."""
    terms = [Fraction(1)]
    for k in range(1, workers + 1):
        terms.append(terms[-1] * load / k)
    return terms[-1] / sum(terms)


def summed_c(workers: int, load: Fraction) -> Fraction:
    """Erlang C likewise: the last term, times c / (c - load), over itself and the sum of those before."""
    terms = [Fraction(1)]
    for k in range(1, workers + 1):
        terms.append(terms[-1] * load / k)
    last = terms.pop() * workers / (workers - load)
    return last / (sum(terms) + last)


def queue(load: float, workers: int) -> Queue:
    return Queue(load, SECOND, workers)


@pytest.mark.parametrize(("workers", "load"), [(5, 1.361), (10, 4.461), (20, 12.03), (100, 84.06)])
def test_erlang_b_is_one_percent_where_printed_tables_say_so(workers: int, load: float) -> None:
    assert next(itertools.islice(blocking(load), workers, None)) == pytest.approx(0.01, rel=2e-3)


@pytest.mark.parametrize(
    ("workers", "load", "share"),
    [(1, 0.25, 0.25), (2, 1, 1 / 3), (3, 2, 4 / 9), (5, 4, 0.5541), (10, 5, 0.0361), (10, 8, 0.4092)],
)
def test_erlang_c_is_what_textbooks_have(workers: int, load: float, share: float) -> None:
    assert queue(load, workers).wait_probability == pytest.approx(share, abs=5e-5)


def test_the_usual_example_of_call_centres() -> None:
    """200 calls an hour of 3 minutes and 14 agents: 17.4 % wait, 7.8 s on average, 88.8 % no more than 20 s."""
    calls = Queue(200 / 3600, 180 * SECOND, 14)
    assert calls.wait_probability == pytest.approx(0.174, abs=5e-4)
    assert calls.mean_wait_ns / SECOND == pytest.approx(7.8, abs=0.05)
    assert calls.wait_ns(0.8875) < 20 * SECOND < calls.wait_ns(0.8885)


@given(st.integers(1, 60), st.fractions(Fraction(1, 1000), Fraction(999, 1000)))
def test_both_are_the_sums_that_they_come_from(workers: int, utilisation: Fraction) -> None:
    load = float(workers * utilisation)
    exact = Fraction(load)
    busy = next(itertools.islice(blocking(load), workers, None))
    assert busy == pytest.approx(float(summed_b(workers, exact)), rel=1e-12)
    made = queue(load, workers)
    share = summed_c(workers, exact)
    assert made.wait_probability == pytest.approx(float(share), rel=1e-12)
    assert made.mean_wait_ns == pytest.approx(float(share / (workers - exact)) * SECOND, rel=1e-12)
    assert made.utilisation == pytest.approx(float(exact / workers))


@pytest.mark.parametrize("load", [2.0**-20, 500.0, 1000.0, 1023.0, 1024 - 2.0**-20])
def test_nothing_overflows_or_is_lost_with_many_workers(load: float) -> None:
    made = queue(load, MAX_WORKERS)
    assert made.wait_probability == pytest.approx(float(summed_c(MAX_WORKERS, Fraction(load))), rel=1e-10, abs=1e-300)
    assert math.isfinite(made.mean_wait_ns)
    assert math.isfinite(made.wait_ns(0.999))
    assert made.capacity() >= 1


def test_a_load_one_step_below_the_workers_is_still_one_that_they_keep_up_with() -> None:
    made = queue(math.nextafter(3, 0), 3)
    assert made.utilisation == pytest.approx(1)
    assert made.mean_wait_ns == pytest.approx(SECOND / (3 - math.nextafter(3, 0)), rel=1e-6)
    assert made.capacity() > 10**9


@given(st.integers(1, 40), st.floats(0.01, 0.99), st.floats(0.5, 0.9999))
def test_a_quantile_is_where_the_tail_is(workers: int, utilisation: float, quantile: float) -> None:
    made = queue(workers * utilisation, workers)
    wait_s = made.wait_ns(quantile) / SECOND
    if made.wait_probability <= 1 - quantile:
        assert wait_s == pytest.approx(0, abs=1e-9)
    else:
        tail = made.wait_probability * math.exp(-(workers - made.load) * wait_s)
        assert tail == pytest.approx(1 - quantile, rel=1e-6)


@given(st.integers(1, 40), st.floats(0.01, 0.99))
def test_the_capacity_is_the_least_that_is_enough(workers: int, utilisation: float) -> None:
    made = queue(workers * utilisation, workers)
    places, share = made.capacity(), made.wait_probability
    assert share * made.utilisation**places <= OVERFLOW * (1 + 1e-9)
    assert places == 1 or share * made.utilisation ** (places - 1) > OVERFLOW * (1 - 1e-9)


def simulated(load: float, workers: int, arrivals: int) -> list[float]:
    """The waits, in service times, of arrivals at random for workers that serve first in, first out; in order."""
    draw = random.Random(20260105)
    free = [0.0] * workers
    now, waits = 0.0, []
    for _ in range(arrivals):
        now += draw.expovariate(load)
        begun = max(now, heapq.heappop(free))
        waits.append(begun - now)
        heapq.heappush(free, begun + draw.expovariate(1))
    return sorted(waits)


@pytest.mark.parametrize(("load", "workers"), [(0.5, 1), (2.4, 3), (6.0, 8)])
def test_a_simulation_waits_as_long(load: float, workers: int) -> None:
    waits = simulated(load, workers, 150_000)
    made = queue(load, workers)
    assert sum(wait > 0 for wait in waits) / len(waits) == pytest.approx(made.wait_probability, rel=0.03)
    assert sum(waits) / len(waits) * SECOND == pytest.approx(made.mean_wait_ns, rel=0.04)
    assert waits[len(waits) * 99 // 100] * SECOND == pytest.approx(made.wait_ns(0.99), rel=0.05)


@given(st.floats(0.01, 200), st.floats(0.001, 10), st.sampled_from([None, 0.5, 0.9, 0.99, 0.9999]))
def test_no_fewer_workers_keep_the_wait(load: float, wait: float, quantile: float | None) -> None:
    target = Target(wait * SECOND, quantile)

    def keeps(workers: int) -> bool:
        made = queue(load, workers)
        return (made.mean_wait_ns if quantile is None else made.wait_ns(quantile)) <= target.wait_ns

    found = workers_for(load, SECOND, target)
    assert found >= least_workers(load, SECOND)
    assert keeps(found)
    assert found == least_workers(load, SECOND) or not keeps(found - 1)


@pytest.mark.parametrize(("rate", "workers", "least"), [(2, 2, 3), (3, 3, 4), (4.5, 4, 5), (100, 1, 101)])
def test_workers_that_cannot_keep_up_are_refused_with_the_least_that_can(rate: float, workers: int, least: int) -> None:
    with pytest.raises(ConfigurationError, match=rf"workers: {workers} cannot keep up .*; give at least {least}$"):
        Queue(rate, SECOND, workers)
    assert Queue(rate, SECOND, least).utilisation < 1
    assert least_workers(rate, SECOND) == least
