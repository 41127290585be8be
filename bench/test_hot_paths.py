"""The engine's hot paths, each alone in one thread: publish into queues, drain them, one tick from Python, grouping.

pytest bench/test_hot_paths.py --benchmark-only
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pytest

from strand import Dispatcher
from strand.binding.native import NativeFunction
from strand.dispatch.routing import strands_for
from strand.feeds.synthetic import route_stream, route_weights
from strand.handlers import spin

SYMBOLS: Final = 8172
#: No more than a publisher may be ahead by before it starts to drain.
TICKS: Final = 65_536
ROUNDS: Final = 200
SINGLE: Final = 1000


def _per_tick(benchmark: Any, ticks: int) -> None:
    if benchmark.stats:  # none with --benchmark-disable
        benchmark.extra_info["ns_per_tick"] = round(benchmark.stats.stats.median / ticks * 1e9, 2)


@pytest.fixture(params=[256, "per-symbol"], ids=["256-strands", "strand-a-symbol"])
def dispatcher(request: pytest.FixtureRequest) -> Iterator[Dispatcher]:
    """Its workers are never started: what is published stays queued until the test drains it."""
    queued = spin(0)
    assert isinstance(queued.function, NativeFunction)
    queued = dataclasses.replace(queued, function=dataclasses.replace(queued.function, never_publishes=False))
    counts = np.maximum(1, route_weights(SYMBOLS, "calibrated"))
    dispatcher = Dispatcher(SYMBOLS, queued, workers=1, cores=None, strands=request.param, counts=counts)
    yield dispatcher
    dispatcher.stop(drain=False)


@pytest.mark.parametrize("batch", [64, 1024, TICKS])
def test_publish_into_queues(benchmark: Any, dispatcher: Dispatcher, batch: int) -> None:
    ticks = route_stream(TICKS, SYMBOLS)

    def publish() -> None:
        for start in range(0, TICKS, batch):
            dispatcher.publish(ticks[start : start + batch])

    benchmark.pedantic(publish, setup=lambda: assert_drained(dispatcher), rounds=ROUNDS, warmup_rounds=5)
    assert dispatcher.statistics().handled_inline == 0
    _per_tick(benchmark, TICKS)


def test_drain_what_is_queued(benchmark: Any, dispatcher: Dispatcher) -> None:
    ticks = route_stream(TICKS, SYMBOLS)

    def publish() -> None:
        assert dispatcher.publish(ticks) == TICKS

    assert benchmark.pedantic(dispatcher.drain, setup=publish, rounds=ROUNDS, warmup_rounds=5)
    _per_tick(benchmark, TICKS)


def test_publish_one_tick_at_a_time(benchmark: Any, dispatcher: Dispatcher) -> None:
    ticks = route_stream(SINGLE, SYMBOLS)
    singles = [ticks[i : i + 1] for i in range(SINGLE)]

    def publish() -> None:
        for tick in singles:
            dispatcher.publish(tick)

    benchmark.pedantic(publish, setup=lambda: assert_drained(dispatcher), rounds=ROUNDS, warmup_rounds=5)
    _per_tick(benchmark, SINGLE)


def assert_drained(dispatcher: Dispatcher) -> None:
    assert dispatcher.drain()


@pytest.mark.parametrize("symbols", [1_000, 16_000])
def test_publish_where_a_strand_conflates(benchmark: Any, symbols: int) -> None:
    """A tick costs the same however many symbols share the strand."""
    ticks = route_stream(TICKS, symbols)
    ticks["instrument_id"] = np.arange(TICKS) % symbols
    options: dict[str, Any] = {"strands": 1, "on_full": "conflate", "capacity_ticks": 2 * symbols}
    dispatcher = Dispatcher(symbols, "count", workers=1, cores=None, **options)
    dispatcher.pause("#0")
    benchmark.pedantic(lambda: dispatcher.publish(ticks), rounds=20, warmup_rounds=1)
    dispatcher.stop(drain=False)
    _per_tick(benchmark, TICKS)


@pytest.mark.parametrize("symbols", [SYMBOLS, 1_000_000])
def test_group_symbols_into_strands(benchmark: Any, symbols: int) -> None:
    handlers = np.zeros(symbols, np.uint16)
    weights = route_weights(symbols, "calibrated")
    grouping = benchmark.pedantic(strands_for, (256, handlers, [False], weights), rounds=5, warmup_rounds=1)
    assert grouping.strand_of_symbol.max() == 255
