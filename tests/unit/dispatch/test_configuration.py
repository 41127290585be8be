"""Options of a dispatcher: refused by name before anything starts, described, and changed while it runs."""

from __future__ import annotations

import itertools
import json
import threading
from typing import Any

import numpy as np
import pytest
from engine_support import counting, ticks_for, wait_until
from hypothesis import given, settings
from hypothesis import strategies as st
from typed_calls import kinds, named

import strand
from strand import Dispatcher, Levels, batch_handler, testing
from strand.binding.engine_words import COUNTERS
from strand.caller.run import CallerRun
from strand.dispatch.configuration import Pool, QueueOptions, RunOptions, grouped, merging_cores
from strand.dispatch.routing import strand_count, strands_for
from strand.dispatch.statistics import Description
from strand.dispatch.watching import Load, decide
from strand.errors import AttachError, ConfigurationError
from strand.handlers import spin
from strand.testing import SeededDispatcher
from strand.ticks import TICK, zeros

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


# ---- The Dispatcher's methods about single strands


def test_times_of_handlers_are_known_of_symbols_with_a_strand_of_their_own() -> None:
    with Dispatcher(
        ["A", "B"], counting, workers=1, cores=None, strands="per-symbol", publisher_drains=False
    ) as without:
        without.publish(ticks_for([0] * 5))
        assert without.drain()
    assert [column.tolist() for column in without.handler_times()] == [[0, 0], [0, 0]]
    d = Dispatcher(["A", "B"], counting, workers=1, cores=None, strands="per-symbol", publisher_drains=False)
    d.time_handlers()
    with d:
        d.publish(ticks_for([0] * 5))
        with pytest.raises(ConfigurationError, match="time_handlers: call it before the start"):
            d.time_handlers()
    with pytest.raises(ConfigurationError, match="time_handlers: call it before the start"):
        d.time_handlers()
    ns, ticks = d.handler_times()
    assert ns.dtype == ticks.dtype == "u8"
    assert ns[0] > 0
    assert (int(ns[1]), ticks.tolist()) == (0, [5, 0])


def test_no_tick_goes_in_blocks_where_times_of_handlers_are_kept() -> None:
    ticks = ticks_for([n % 50 for n in range(300_000)])
    symbols = [f"S{n}" for n in range(50)]
    d = Dispatcher(symbols, "count", workers=2, ingest="blocks")
    with pytest.raises(ConfigurationError, match=r"ingest: .*times are measured by symbol"):
        d.time_handlers()
    with d:  # as if nobody had asked
        d.publish(ticks)
    told = d.statistics().ingest
    assert told is not None
    assert told.blocks > 0
    assert not any(each.any() for each in d.handler_times())
    d = Dispatcher(symbols, "count", workers=2)
    d.time_handlers()
    with d:
        for _ in range(20):
            d.publish(ticks)
    told = d.statistics().ingest
    assert told is not None
    assert (told.blocks, told.runs) == (0, 0)
    assert "times are measured by symbol" in str(told.impossible)


def test_a_reader_of_counters_has_a_row_for_each_participant() -> None:
    with Dispatcher(["A"], counting, workers=2, cores=None) as d:
        read = d.counters_reader()
        d.publish(ticks_for([0] * 7))
        assert d.drain()
        counters = read()
    assert counters.dtype == "u8"
    assert counters.shape[0] > 2
    assert counters.shape[1] == len(COUNTERS)
    assert int(counters[:, COUNTERS.index("handled")].sum()) == 7


# ---- Which symbols share a strand


@st.composite
def markets(draw: st.DrawFn) -> tuple[np.ndarray[Any, Any], list[bool], Any, Any, int]:
    handlers = draw(st.integers(1, 4))
    symbols = draw(st.integers(1, 60))
    of_symbol = np.array(draw(st.lists(st.integers(0, handlers - 1), min_size=symbols, max_size=symbols)), np.uint16)
    alone = draw(st.lists(st.booleans(), min_size=handlers, max_size=handlers))
    counts = draw(st.none() | st.lists(st.integers(0, 10**9), min_size=symbols, max_size=symbols).map(np.array))
    strands = draw(st.just("auto") | st.just("per-symbol") | st.integers(1, 80))
    return of_symbol, alone, counts, strands, draw(st.integers(1, 8))


@given(markets())
def test_only_symbols_of_one_native_handler_share_and_every_strand_is_one_of_those_there_are(market: Any) -> None:
    of_symbol, alone, counts, strands, workers = market
    n = strand_count(strands, of_symbol, alone, workers)
    found = strands_for(n, of_symbol, alone, counts)
    assert found.strand_of_symbol.shape == of_symbol.shape
    assert found.kind_of_strand.shape == (n,)
    assert 1 <= n <= len(of_symbol)
    assert found.strand_of_symbol.max() < n
    assert (found.kind_of_strand[found.strand_of_symbol] == of_symbol).all()
    assert set(found.strand_of_symbol.tolist()) == set(range(n)), "a strand has no symbol"
    sharers = np.bincount(found.strand_of_symbol, minlength=n)
    for symbol, handler in enumerate(of_symbol):
        if alone[handler]:
            assert sharers[found.strand_of_symbol[symbol]] == 1
    if strands == "per-symbol":
        assert (sharers == 1).all()
    elif isinstance(strands, int) and not any(alone):
        assert n == min(len(of_symbol), max(strands, len(np.unique(of_symbol))))


@given(st.lists(st.integers(0, 10**6), min_size=2, max_size=80), st.integers(2, 40))
def test_the_busiest_symbols_have_strands_of_their_own(counts: list[int], n: int) -> None:
    weights = np.array(counts)
    if n >= len(weights):
        return
    found = strands_for(n, np.zeros(len(weights), np.uint16), [False], weights)
    sharers = np.bincount(found.strand_of_symbol, minlength=n)
    order = np.argsort(-weights, kind="stable")
    hot = [s for s in order[: n // 2] if 2 * n * weights[s] > weights.sum()]
    assert all(sharers[found.strand_of_symbol[s]] == 1 for s in hot)
    # The quiet ones are dealt out evenly.
    quiet = sharers[np.unique(found.strand_of_symbol[np.setdiff1d(order, hot)])]
    assert quiet.max() - quiet.min() <= 1


def test_handlers_share_the_strands_by_the_ticks_their_symbols_have() -> None:
    of_symbol = np.repeat([0, 1], 500).astype(np.uint16)
    counts = np.repeat([9, 1], 500)
    found = strands_for(100, of_symbol, [False, False], counts)
    assert np.bincount(found.kind_of_strand).tolist() == [90, 10]


# ---- What a dispatcher says of itself to whoever attaches


GOOD = {
    "name": "mine",
    "version": "0.1.0",
    "pid": 5,
    "made_at": 1.5,
    "configuration": {"n_workers": 2},
    "handlers": [{"name": "h", "row": [], "size_unit": None, "books": None, "of_levels": False}],
    "outputs": ["bars"],
}


@pytest.mark.parametrize("lacking", sorted(GOOD))
def test_a_text_without_one_of_its_parts_is_damaged(lacking: str) -> None:
    about = {name: value for name, value in GOOD.items() if name != lacking}
    with pytest.raises(AttachError, match="it is damaged"):
        Description.of(json.dumps(about).encode())


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b"null", b"\xff", b'{"handlers": 3}'])
def test_what_is_no_such_text_is_damaged(text: bytes) -> None:
    with pytest.raises(AttachError, match="it is damaged"):
        Description.of(text)


# ---- The options of a run, by name and type


def test_the_options_of_a_run_are_those_of_the_dispatcher_and_have_its_types() -> None:
    own = {"handlers", "out", "feed", "load", "dtype", "key", "columns", "column_options"}
    assert {n: kind for n, kind in named(strand.Dispatcher).items() if n not in own} == kinds(RunOptions)
    of_a_loop = {n: kind for n, kind in named(CallerRun).items() if n != "in_order"}  # which users do not give
    assert of_a_loop == {n: kind for n, kind in named(strand.Dispatcher).items() if n != "load"}
    assert kinds(QueueOptions).items() <= kinds(RunOptions).items()


# ---- How many workers are active: decided by load, and in a running dispatcher


def after(load: Load, looks: list[tuple[int, float]], least: int = 1, most: int = 4) -> list[int]:
    found = []
    for ready, busy in looks:
        load = decide(load, ready, busy, least=least, most=most)
        found.append(load.active)
    return found


def test_two_looks_in_a_row_add_a_worker_and_ten_take_one_away() -> None:
    assert after(Load(2), [(9, 2.0)] * 4) == [2, 3, 4, 4]
    assert after(Load(3), [(0, 0.0)] * 20) == [3] * 9 + [2] * 10 + [1]
    assert after(Load(2), [(9, 2.0), (0, 2.0)] * 3) == [2] * 6


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
        let_go.wait(60)
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
            assert begun.acquire(timeout=60)
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
