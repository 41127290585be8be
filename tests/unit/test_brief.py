"""Every public object says what it is: one line, below 200 characters, with the name of its class."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from engine_support import ticks_for

import strand
from strand import testing
from strand.brief import MAX_LENGTH, brief, in_full, listed, one_line, several, written
from strand.feeds import BaseFeed, FeedInfo, Selection, TickBatch
from strand.feeds.merge.feeds import MergedFeed
from strand.feeds.sample import SAMPLE_DATE, sample_path
from strand.feeds.synthetic import SyntheticFeed
from strand.policies.policy import LEVELS, POLICIES
from strand.replaying.pacing import Pacer
from strand.tasks.pool import NativeTask

pytestmark = pytest.mark.python

#: As long as a symbol's name may be.
LONG = "<b>" + "S" * 252
DAY = {"date": SAMPLE_DATE}
#: Public names of classes that have no line of their own: an error's is Python's, a sink is the user's own object, a
#: handler is of one of its kinds, and a tuple shows its fields.
NO_LINE = {"StrandError", "Sink", "Handler", "Tick", "Trade", "Top", "Bar", "Inverse"}


@strand.batch_handler(state=[(f"field_{i}", "i8") for i in range(100)], outputs={"seen": [("n", "i8")]})
def many_fields(symbol: str, ticks: Any, row: Any, ctx: strand.Context) -> None:
    LINES["Context"] = repr(ctx)


@strand.handler(state=[("n", "i8")])
def compiled(row: Any, tick: Any) -> None:
    row.n += 1


@strand.handler(state=[("n", "i8")], params=[("least", "i8")])
def swept(row: Any, tick: Any, params: Any) -> None:
    row.n += tick.size >= params.least


class Mine:
    def on_tick(self, tick: strand.Tick) -> None: ...


@strand.basket_handler(baskets={"pair": ["AAAHD", "AAADU"]}, basket_state=[("n", "i8")])
class OfBasket:
    def on_start(self, ctx: Any) -> None:
        LINES["BasketContext"] = repr(ctx)

    def on_tick(self, basket: Any) -> None: ...


#: What was said where the object is only there for a while, by class.
LINES: dict[str, str] = {}


def options() -> Iterator[Any]:
    yield from (kind() for kind in POLICIES.values())
    yield strand.Pool(workers=2)
    yield strand.Limits(level_capacity_ticks=dict.fromkeys(LEVELS, 1))
    yield strand.Levels({"high": "250us"}, hold={"low": "1s"})
    yield strand.Aging(classes={"urgent": 3, "high": 2, "normal": 1}, max_wait="1ms")
    yield strand.Fair(slice_ms=5, weights={f"group {i}": i for i in range(1, 100)})
    yield strand.Guard(cpu=None, max_hold="1min")
    yield strand.RetryPolicy(on_alert=print, transient=ValueError)
    yield strand.Metric("positions", "gauge")
    yield strand.Config(policy=strand.Fair(slice_ms=5), groups={f"S{i}": "g" for i in range(1000)})
    yield strand.Sessions.parse("09:30-16:00 America/New_York")
    yield Selection(tuple(f"S{i}" for i in range(1000)))


def handlers() -> Iterator[Any]:
    yield from (strand.bars("1m"), many_fields, compiled, strand.object_handler(Mine), strand.chain("book", "count"))
    yield OfBasket
    yield strand.handlers.BUILTIN["bars"]


def feeds() -> Iterator[Any]:
    sample = strand.feeds.open(sample_path(), **DAY)
    yield sample
    yield sample.info
    yield FeedInfo("own", "/folder" * 60)
    yield MergedFeed([strand.feeds.open(sample_path(), **DAY), strand.feeds.open(sample_path(), **DAY)])
    yield SyntheticFeed(5, 100)
    yield testing.feed([("A", 1, 10.0, 1)])
    yield sample.skipped
    sample.close()


def results() -> Iterator[Any]:
    result = strand.replay(sample_path(), strand.chain(strand.book(), strand.bars("1h")), feed_options=DAY, workers=1)
    yield result
    yield from (result.rows, result.books, result.books["AAAHD"], result.outputs["bars"], result.symbols)
    yield from (result.statistics, result.statistics.wait, result.statistics.workers[0], result.timeline)
    yield from strand.replay(sample_path(), "count", feed_options=DAY, workers=1, per_day=True).days
    taken = strand.snapshot(every="1h", fields=["ticks"])
    of_baskets = strand.replay(sample_path(), OfBasket, feed_options=DAY, workers=1, snapshot=taken)
    assert of_baskets.snapshots is not None
    yield from (of_baskets.baskets, of_baskets.snapshots, of_baskets.snapshots["ticks"], taken)
    paced = strand.replay(testing.feed([("A", 1, 10.0, 1)]), "count", workers=1, speed=1000.0)
    yield paced.pacing
    yield strand.replay(testing.feed([(LONG, 1, 10.0, 1)]), strand.depth(), workers=1).books[LONG]
    pytest.importorskip("polars")
    moment = {"symbol": ["AAAHD", LONG], "time": [10**18, 10**18]}
    yield strand.asof(sample_path(), moment, feed_options=DAY)
    spans = {"symbol": ["AAAHD"], "start": [10**18], "end": [10**18 + 1]}
    yield strand.between(sample_path(), spans, feed_options=DAY)
    yield Pacer(2.0, paused=True)
    yield testing.Clock()


def sweeps() -> Iterator[Any]:
    pytest.importorskip("numba")
    pytest.importorskip("pyarrow")
    yield strand.sweep(sample_path(), swept, [{"least": 1}], feed_options=DAY, workers=1, limit=100)


def dispatchers() -> Iterator[Any]:
    with strand.Dispatcher([LONG, "B"], many_fields, workers=1, attachable=True, policy=strand.Fair()) as dispatcher:
        dispatcher.publish(ticks_for([0, 1, 0]))
        call = dispatcher.submit_call(LONG, repr)
        LINES["SymbolView"] = call.result()
        attached = strand.attach(os.getpid())
        yield from (dispatcher.outputs, dispatcher.outputs["seen"], call, attached, attached.look(0))
        yield dispatcher.tasks
        yield dispatcher.statistics().fair
        dispatcher.drain()
    yield dispatcher


def tasks() -> Iterator[Any]:
    with strand.Scheduler(workers=1) as scheduler, strand.TaskGroup("g" * 300) as group:
        executor = scheduler.options(priority="immediate", key="an account", deadline="30s")
        failed = scheduler.options(retry=strand.RetryPolicy(max_retries=0), group=strand.TaskGroup()).submit(
            divmod, 1, 0
        )
        assert isinstance(failed.exception(), ZeroDivisionError)
        yield from (executor, group, failed, scheduler.every("1h", int), scheduler.dead_letters)
        yield from scheduler.dead_letters
        yield from (scheduler.statistics(), scheduler.thread_counts(), strand.blocking())
        yield NativeTask(1 << 20)
    yield scheduler


@pytest.mark.parametrize("made", [options, handlers, feeds, results, sweeps, dispatchers, tasks])
def test_an_object_says_in_one_short_line_what_it_is(made: Any) -> None:
    for thing in made():
        line = repr(thing)
        assert type(thing).__name__ in line, line
        assert line.isprintable(), line
        assert len(line) < 200, line
        assert " at 0x" not in line, line
        assert "/folder" * 20 not in line, line


def test_all_public_classes_are_among_them() -> None:
    every = (options, handlers, feeds, results, sweeps, dispatchers, tasks)
    shown = {type(thing).__name__ for made in every for thing in made()}
    for name in ("Context", "BasketContext", "SymbolView"):
        assert name in LINES[name]
        assert len(LINES[name]) < 200
    public = {name for name in strand.__all__ if isinstance(getattr(strand, name), type)}
    assert public - NO_LINE - {*LINES} <= shown
    assert shown >= {"NativeHandler", "CompiledHandler", "PythonHandler", "ObjectHandler", "ChainHandler", "Rows",
                     "BasketRows", "Snapshots", "SnapshotTable", "Snapshot",
                     "Outputs", "Output", "EmittedRecords", "Books", "Book", "DepthBook", "TaskFuture",
                     "ItchFeed", "MergedFeed", "ListFeed"}  # fmt: skip


def test_a_dispatcher_and_a_scheduler_say_whether_they_run() -> None:
    dispatcher = strand.Dispatcher(["A", "B"], "count", workers=1)
    assert repr(dispatcher).startswith("<Dispatcher: not started, 2 symbols, count, 1 worker, 0 ticks accepted")
    with dispatcher:
        dispatcher.publish(ticks_for([0, 1]))
        dispatcher.drain()
        assert (
            repr(dispatcher) == "<Dispatcher: running, 2 symbols, count, 1 worker, 2 ticks accepted, 0 ticks pending>"
        )
    assert "<Dispatcher: stopped, " in repr(dispatcher)
    with strand.Scheduler(workers=2) as scheduler:
        shown = r"<Scheduler: scheduler \d+, running, 0 tasks pending, 2 workers, Levels\(\)>"
        assert re.fullmatch(shown, repr(scheduler))
    assert ", stopped, " in repr(scheduler)


def test_options_are_written_as_one_gives_them_without_defaults() -> None:
    assert repr(strand.Fair(slice_ms=5)) == "Fair(slice_ms=5.0)"
    assert repr(strand.Guard(cpu=None, every="2s")) == "Guard(cpu=None, every='2s')"
    assert repr(strand.RetryPolicy(on_alert=print)) == "RetryPolicy(on_alert=print)"
    levels = strand.Levels({"high": "250us", "retry": "1ms"}, since="created")
    assert eval(repr(levels), {"Levels": strand.Levels}) == levels
    assert written(Selection(("A",), start_ns=5)) == "Selection(symbols=('A',), start_ns=5)"


def test_a_feed_of_ones_own_that_fails_says_its_class() -> None:
    class Failing(BaseFeed):
        @property
        def info(self) -> FeedInfo:
            raise OSError

        @property
        def symbols(self) -> list[str]:
            return []

        def batches(self) -> Iterator[TickBatch]:
            yield np.empty(0, strand.TICK)

    feed = Failing()
    assert repr(feed) == "<Failing>"
    feed.close()
    assert repr(feed) == "<Failing: closed>"


@pytest.mark.python
def test_lines_are_short_and_printable() -> None:
    assert one_line("a\nb\u2028c") == "a\\nb\\u2028c"
    assert one_line("<" + "x" * 500 + ">") == "<" + "x" * (MAX_LENGTH - 5) + "...>"
    assert brief(3, "", "a", "b") == "<int: a, b>"
    assert brief(3) == "<int>"
    assert (several(1, "tick"), several(2000, "tick")) == ("1 tick", "2,000 ticks")
    assert (listed("abcd"), listed("abcdef"), listed("")) == ("a, b, c, d", "a, b, c, d, ...", "")


@pytest.mark.python
def test_what_a_file_keeps_is_not_cut() -> None:
    weights: dict[str, float] = {f"group {i}": i for i in range(1, 100)}
    policies = [strand.Fair(weights=weights | {"last": last}) for last in (1, 2)]
    assert repr(policies[0]) == repr(policies[1])
    assert in_full(policies[0]) != in_full(policies[1])
    assert "'group 99': 99" in in_full({"policy": policies})
    assert in_full((None, "a", 1.5)) == "[None, 'a', 1.5]"
