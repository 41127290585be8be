"""Symbols that share a strand because of baskets."""

from __future__ import annotations

import threading
from dataclasses import FrozenInstanceError
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from engine_support import PAIR_ROW, balanced, counting, ticks_for
from let_go import FAILING, HANDLERS, kept_by
from market_ticks import market

import strand
from strand import Dispatcher, batch_handler, native
from strand import handlers as handlers_module
from strand.binding.engine import Engine
from strand.errors import BackpressureError, ConfigurationError, UnknownSymbolError
from strand.feeds.sample import sample_path

NAMES = [f"s{i}" for i in range(200)]


def handler_of(kind: Any, baskets: Any) -> Any:
    def on_ticks(basket: Any) -> None:
        pass

    declare = strand.basket_handler(baskets=baskets, basket_state=[("n", "i8")], kind=kind, name="does nothing")
    return declare(on_ticks)


@pytest.mark.parametrize("kind", ["compiled", "batch"])
@pytest.mark.parametrize("strands", ["auto", "per-symbol", 7])
def test_the_symbols_of_overlapping_baskets_share_a_strand(kind: str, strands: Any) -> None:
    baskets = {"a": ["s0", "s150"], "b": ["s150", "s7", "s9"], "c": ["s20", "s21"]}
    counts = [1000 if i in (0, 20) else 1 for i in range(200)]
    with strand.Dispatcher(
        NAMES, handler_of(kind, baskets), strands=strands, workers=2, cores=None, counts=counts
    ) as d:
        of = [d.strand_of(name) for name in NAMES]
        assert of[0] == of[150] == of[7] == of[9]
        assert of[20] == of[21] != of[0]
        if strands == "per-symbol" or kind == "batch":
            assert len(set(of)) == 200 - 4
        elif strands == "auto":
            assert of.count(of[0]) == 4, "a busy unit has a strand of its own"


def test_the_strand_of_a_basket_has_the_highest_priority_of_its_symbols(monkeypatch: pytest.MonkeyPatch) -> None:
    told: dict[int, int] = {}
    monkeypatch.setattr(
        Engine, "prioritise", lambda _, strand, priority, *, for_backlog: told.update({strand: priority})
    )
    policy, priorities = strand.Levels(), {"s1": "high", "s2": "low"}
    handler = handler_of("compiled", {"a": ["s0", "s1"], "b": ["s1", "s2"]})
    with strand.Dispatcher(NAMES, handler, workers=1, cores=None, policy=policy, priorities=priorities) as dispatcher:
        assert told == {dispatcher.strand_of("s2"): policy.priority_of("priority", "high")}


def test_two_handlers_may_not_have_baskets_of_one_name() -> None:
    one, two = handler_of("compiled", {"pair": ["s0", "s1"]}), handler_of("batch", {"pair": ["s2", "s3"]})
    with pytest.raises(ConfigurationError, match="both have one named 'pair'"):
        strand.Dispatcher(["s0", "s1", "s2", "s3"], handlers={"s0": one, "s1": one, "*": two})


# ---- Which handler each symbol has


def test_each_symbol_runs_its_own_handler_and_the_others_the_default(c_handlers: Path) -> None:
    @batch_handler(state=[("n", "u8"), ("names", "S4")])
    def python(symbol: str, ticks: Any, row: Any) -> None:
        row["n"] += len(ticks)
        row["names"] = symbol.encode()

    summed = native(c_handlers, "on_sum", state=PAIR_ROW)
    table = {"AA": python, "BB": summed, "CC": summed, "#5": "vwap", "*": "count"}
    ticks = market(8_000, 8)
    for strands in ("auto", "per-symbol", 1, 3):
        with Dispatcher(
            ["AA", "BB", "CC", "DD", "EE", "", "", ""],
            handlers=table,
            workers=3,
            cores=None,
            strands=strands,
            feed="plain",
        ) as d:
            for part in np.array_split(ticks, 20):
                d.publish(part)
            d.drain()
            balanced(d)
        counts = np.bincount(ticks["instrument_id"], minlength=8)
        assert (d.rows["AA"]["n"], d.rows["AA"]["names"]) == (counts[0], b"AA")
        for key in (1, 2):
            assert d.rows[key]["ticks"] == counts[key]
            assert d.rows[key]["total"] == ticks["size"][ticks["instrument_id"] == key].sum()
        for key in (3, 4, 6, 7):
            assert d.rows[key]["ticks"] == counts[key]
            assert d.rows[key].dtype.names == handlers_module.COUNT_ROW.names
        assert d.rows[5].dtype == handlers_module.VWAP_ROW
        assert d.rows.of_handler("count")["ticks"][3] == counts[3]
        with pytest.raises(ConfigurationError, match="different handlers \\(python, on_sum, vwap, count\\)"):
            _ = d.rows.array
        with pytest.raises(KeyError, match="no handler is named 'x'"):
            d.rows.of_handler("x")


def test_names_of_built_in_handlers_are_one_handler_however_often_they_are_given() -> None:
    name = "".join(["co", "unt"])
    with Dispatcher(["A", "B"], handlers={"A": "count", "B": name}, workers=1, cores=None, strands=1) as d:
        assert d.n_strands == 1
        assert len(d.rows.array) == 2


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({}, ConfigurationError, "either one handler"),
        ({"handler": "count", "handlers": {"*": "count"}}, ConfigurationError, "either one handler"),
        ({"handler": "no such"}, ConfigurationError, "'no such' is not one of bars, bbo, book, count"),
        ({"handler": print}, ConfigurationError, "is not a handler; decorate a function"),
        ({"handlers": {"A": "count"}}, ConfigurationError, "there is none for 'B'; give one for '\\*'"),
        ({"handlers": {"A": "count", "B": None}}, ConfigurationError, "there is none for 'B'"),
        ({"handlers": ["count"]}, ConfigurationError, "list is not a dict of handlers by symbol"),
        ({"handlers": {}}, ConfigurationError, "there is none for 'A'"),
        ({"handlers": {"A": "count", "X": "count", "*": "vwap"}}, UnknownSymbolError, "there is no symbol 'X'"),
    ],
)
def test_a_table_of_handlers_that_cannot_work_is_refused(options: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        Dispatcher(["A", "B"], **options)


# ---- Strands that are held back, and let go


def test_pausing_holds_a_symbol_back_and_resuming_lets_it_go_on() -> None:
    with Dispatcher(["A", "B"], counting, workers=2, cores=None) as d:
        d.pause("A")
        d.pause("A")
        d.publish(ticks_for([0, 1] * 50))
        assert d.drain()
        assert (d.rows["A"]["ticks"], d.rows["B"]["ticks"]) == (0, 50)
        assert d.inspect("A").paused
        assert d.watermark() == 0
        d.resume("A")
        d.resume("A")
        assert d.drain()
        assert d.rows["A"]["ticks"] == 50
        assert not d.inspect("A").paused
        assert d.watermark() == 100
        balanced(d)


@pytest.mark.parametrize("handler", ["count", counting], ids=["native", "python"])
@pytest.mark.parametrize("on_full", ["block", "drop_oldest"])
def test_pausing_and_resuming_from_several_threads_loses_nothing(handler: Any, on_full: str) -> None:
    keys = np.random.default_rng(2).integers(0, 6, 60_000)
    ticks = ticks_for(keys)
    with Dispatcher(6, handler, workers=3, cores=None, budget_ticks=50, strands="per-symbol", on_full=on_full) as d:
        done = threading.Event()

        def switch(seed: int) -> None:
            rng = np.random.default_rng(seed)
            while not done.is_set():
                symbol = int(rng.integers(0, 6))
                d.pause(symbol)
                d.resume(symbol)

        threads = [threading.Thread(target=switch, args=(i,)) for i in range(3)]
        for thread in threads:
            thread.start()
        for at in range(0, len(ticks), 500):
            d.publish(ticks[at : at + 500])
        done.set()
        for thread in threads:
            thread.join()
        for symbol in range(6):
            d.resume(symbol)
        d.drain()
        balanced(d)
    assert d.rows.array["ticks"].tolist() == np.bincount(keys, minlength=6).tolist()


def test_a_released_strand_that_is_paused_stays_paused() -> None:
    @batch_handler(state=[("ticks", "u8")])
    def fails_on_x(symbol: str, ticks: Any, row: Any) -> None:
        if ticks["action"][0] == b"X":
            raise ValueError
        row["ticks"] += len(ticks)

    with Dispatcher(1, fails_on_x, workers=1, cores=None, on_error="quarantine", budget_ticks=1) as d:
        ticks = ticks_for([0] * 4)
        ticks["action"][0] = b"X"
        d.publish(ticks)
        d.drain()
        d.pause(0)
        d.release(0)
        d.drain()
        assert d.rows[0]["ticks"] == 0
        d.resume(0)
        d.drain()
        assert d.rows[0]["ticks"] == 3


def test_a_paused_strand_holds_up_a_publisher_only_at_its_bound() -> None:
    with Dispatcher(["A", "B"], counting, workers=1, cores=None, capacity_ticks=16) as d:
        d.pause("A")
        assert d.publish(ticks_for([0] * 16 + [1] * 500)) == 516
        with pytest.raises(BackpressureError) as caught:
            d.publish(ticks_for([0, 1]), timeout_s=0)
        assert caught.value.rejected.tolist() == [0]
        d.drain()
        assert d.rows["B"]["ticks"] == 501


# ---- Where Python handlers run in a dispatcher: nothing there outlives it


@pytest.mark.parametrize("handler", HANDLERS.values(), ids=HANDLERS)
def test_a_dispatcher_goes_with_the_last_reference_to_it(handler: Any) -> None:
    assert kept_by([Dispatcher(2, handler, workers=2, cores=None)]) == []


@pytest.mark.parametrize("on_error", ["stop", "quarantine"])
@pytest.mark.parametrize("handler", FAILING.values(), ids=FAILING)
def test_so_does_one_whose_handler_has_failed(handler: Any, on_error: str) -> None:
    assert kept_by([Dispatcher(2, handler, workers=2, cores=None, on_error=on_error)]) == []


# ---- Pool and Limits: options that belong together


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
