"""How many workers are active: decided by load, and in a running dispatcher."""

from __future__ import annotations

import itertools
import threading
from typing import Any

import numpy as np
import pytest
from engine_support import wait_until
from hypothesis import given, settings
from hypothesis import strategies as st

import strand
from strand import Dispatcher, Levels, batch_handler, testing
from strand.dispatch.configuration import Pool, grouped
from strand.dispatch.watching import Load, decide
from strand.handlers import spin
from strand.testing import SeededDispatcher
from strand.ticks import TICK

pytestmark = pytest.mark.python


def after(load: Load, looks: list[tuple[int, float]], least: int = 1, most: int = 4) -> list[int]:
    found = []
    for ready, busy in looks:
        load = decide(load, ready, busy, least=least, most=most)
        found.append(load.active)
    return found


@given(
    looks=st.lists(st.tuples(st.integers(0, 9), st.floats(0, 8))),
    least=st.integers(1, 4),
    more=st.integers(0, 4),
)
@settings(deadline=None)
def test_it_stays_between_the_least_and_all_and_changes_by_one(
    looks: list[tuple[int, float]], least: int, more: int
) -> None:
    found = [least, *after(Load(least), looks, least, least + more)]
    assert all(least <= active <= least + more for active in found)
    assert all(abs(a - b) <= 1 for a, b in itertools.pairwise(found))


@settings(deadline=None)
@given(busy=st.floats(0, 4), ready=st.integers(0, 20), start=st.integers(1, 4))
def test_under_a_steady_load_it_comes_to_rest(busy: float, ready: int, start: int) -> None:
    """The busy time of a load does not depend on how many are active, as long as they can do it."""
    found = after(Load(start), [(ready, min(busy, 4.0))] * 100)
    assert len(set(found[60:])) == 1


def test_all_ticks_are_handled_and_workers_come_and_go() -> None:
    """One of four workers is active at first. Waiting strands activate the others; without load three rest again."""
    begun, let_go = threading.Semaphore(0), threading.Event()

    @batch_handler(state=[("ticks", "u8")])
    def waits(symbol: str, ticks: Any, row: Any) -> None:
        begun.release()
        let_go.wait(20)
        row["ticks"] += len(ticks)

    ticks = np.zeros(40, TICK)
    ticks["instrument_id"] = np.arange(40) % 8
    with Dispatcher(
        8, waits, pool=Pool(workers=4, min_workers=1, cores=None), strands="per-symbol", publisher_drains=False
    ) as d:
        assert d.statistics().active is not None
        assert d.statistics().active.now == 1
        d.publish(ticks)
        for _ in range(4):  # each of the workers is in a visit
            assert begun.acquire(timeout=20)
        assert d.statistics().active.now == 4
        let_go.set()
        d.drain()
        wait_until(lambda: d.statistics().active.now == 1)
        d.publish(ticks)
        d.drain()
        found = d.statistics().active
        assert (found.least, found.most) == (1, 4)
        assert found.more >= 3
        assert found.fewer >= 3
    assert d.statistics().handled == 80
    assert d.statistics().active.now == 4  # nobody decides any more


@pytest.mark.cells(1)
@pytest.mark.parametrize("policy", [strand.Fifo(), Levels(), strand.Aging(), strand.Fair()])
@pytest.mark.parametrize("idle", ["spin", "backoff", "park"])
def test_rows_are_the_same_however_many_are_active(policy: Any, idle: str) -> None:
    ticks = strand.ticks.zeros(4_000)
    ticks["instrument_id"] = np.arange(4_000) * 7 % 31
    options: dict[str, Any] = {"policy": policy, "idle": idle, "strands": "per-symbol", "cores": None}
    with Dispatcher(31, spin(300), **grouped(workers=3, min_workers=1, **options)) as adaptive:
        for part in np.split(ticks, 20):
            adaptive.publish(part)
    with Dispatcher(31, spin(300), workers=3, **options) as all_of_them:
        all_of_them.publish(ticks)
    assert adaptive.rows.array.tobytes() == all_of_them.rows.array.tobytes()
    assert all_of_them.statistics().active is None


def test_while_the_cap_holds_the_pool_no_strand_counts_as_waiting() -> None:
    @strand.batch_handler(state=[])
    def slow(symbol: str, ticks: Any, row: Any) -> None:
        clock.advance(1)

    feed = testing.feed([(symbol, 1, 1, 1) for symbol in "ABCD"])
    policy = strand.Fair(cpu_share=0.01)
    with testing.Clock() as clock, SeededDispatcher(feed.names, slow, seed=1, workers=1, policy=policy) as dispatcher:
        dispatcher.publish(feed.ticks)
        clock.advance(0.5)
        assert dispatcher.statistics().fair.cap_holds == 0
        assert dispatcher._engine.ready_strands() > 0, "all but the one in hand"
        clock.advance(1)
        assert dispatcher.statistics().fair.cap_holds == 1
        assert dispatcher._engine.ready_strands() == 0
        clock.advance(1000)
