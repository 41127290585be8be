"""Erlang's formulas, held against the sums they come from, printed tables, and a simulation."""

from __future__ import annotations

import heapq
import itertools
import math
import random
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strand.command.policy import MAX_WORKERS, OVERFLOW, Queue, Target, blocking, least_workers, workers_for
from strand.errors import ConfigurationError

pytestmark = pytest.mark.python

SECOND = 10**9


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
