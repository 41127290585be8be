"""A run: where its threads are pinned, how it is interrupted and stopped, and what is seen of it over time."""

from __future__ import annotations

import gc
import gzip
import io
import os
import sys
import time
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from engine_support import ticks_for
from interrupt_points import interrupter
from warm_python import run_warm

import strand
from strand import Dispatcher, batch_handler, feeds, replay, testing
from strand.errors import (
    ConfigurationError,
    HandlerError,
    RecordTypeError,
    UnknownSymbolError,
)
from strand.feeds import BaseFeed, FeedInfo
from strand.feeds.sample import SAMPLE_DATE, sample_path
from strand.feeds.synthetic import SyntheticFeed
from strand.replaying import run as replay_run
from strand.replaying import timeline
from strand.replaying.timeline import Timeline
from strand.replaying.until import Until
from strand.testing import feed

pytestmark = pytest.mark.python


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="a publisher has a core of its own beside a worker's")
@pytest.mark.parametrize(("asked", "plain", "packed"), [(None, True, False), (True, True, True), (False, False, False)])
def test_the_publisher_is_pinned_unless_a_thread_inflates_the_file(
    tmp_path: Path, asked: bool | None, plain: bool, packed: bool
) -> None:
    allowed = os.sched_getaffinity(0)
    unpacked = tmp_path / "sample.itch50"
    unpacked.write_bytes(gzip.decompress(sample_path().read_bytes()))
    for path, pinned in ((unpacked, plain), (sample_path(), packed)):
        cores: list[set[int]] = []

        def note(_: int, cores: list[set[int]] = cores) -> None:
            cores.append(os.sched_getaffinity(0))

        strand.replay(
            path,
            "count",
            workers=len(allowed) - 1,
            pin_publisher=asked,
            progress=note,
            feed_options={"date": SAMPLE_DATE},
        )
        assert {len(of) for of in cores} == {1 if pinned else len(allowed)}
    assert os.sched_getaffinity(0) == allowed


@pytest.mark.parametrize("batch", [None, [1, 2], np.zeros(3)], ids=["None", "list", "floats"])
@pytest.mark.parametrize("workers", [0, 1])
def test_a_feed_that_gives_no_ticks_in_its_batches_is_told_so(batch: Any, workers: int) -> None:
    class Wrong(BaseFeed):
        info = FeedInfo("wrong", "memory")
        symbols = ("A",)

        def batches(self) -> Iterator[Any]:
            yield strand.ticks.zeros(2)
            yield batch

    with pytest.raises(RecordTypeError, match="batches: the feed gives"):
        strand.replay(Wrong(), "count", workers=workers)


@pytest.mark.cells(1)
@pytest.mark.parametrize("workers", [0, 1, 2])
@pytest.mark.parametrize("kind", ["book", "bars", "batches", "objects"])
def test_an_interrupt_at_full_speed_gives_the_result_of_the_ticks_so_far(
    tmp_path: Path, kind: str, workers: int
) -> None:
    """Real signals at random moments. What the interrupt has is what a replay of as many ticks gives; of a batch
    handler on the calling thread, which gets a publish symbol by symbol, what each symbol's first ticks give."""
    SyntheticFeed(30, 60_000, seed=5, date="2026-01-05").write_itch(tmp_path / "20260105.itch50")
    code = f"""
import os, random, signal, threading, time
import numpy as np
import strand

@strand.batch_handler(state=[("n", "i8"), ("size", "i8")])
def batches(symbol, ticks, row, ctx):
    row["n"] += len(ticks)
    row["size"] += int(ticks["size"].sum())

@strand.object_handler(state=[("n", "i8")])
class Objects:
    def on_start(self, ctx):
        self.ctx = ctx
    def on_tick(self, tick):
        self.ctx.row["n"] += tick.size % 7

handler = {{"batches": batches, "objects": Objects, "bars": strand.bars("1m"), "book": "book"}}["{kind}"]

def run(**options):
    return strand.replay("20260105.itch50", handler, workers={workers}, **options)

whole = run()
random.seed({workers})
seen = 0
for turn in range(6):
    # Half of the signals come at a batch's end, and half of them at any time.
    progress = (lambda _: os.kill(os.getpid(), signal.SIGINT)) if turn % 2 else None
    begun, ended = threading.Event(), threading.Event()
    def interrupt(after=random.random() * whole.wall_s):
        begun.wait()  # the thread's start is over, and the block that takes the interrupt is entered
        time.sleep(after)
        if not ended.is_set():
            os.kill(os.getpid(), signal.SIGINT)
    thread = threading.Thread(target=interrupt if progress is None else int)
    thread.start()
    try:
        begun.set()
        run(progress=progress)
        ended.set()
        thread.join()
        time.sleep(0.01)
    except KeyboardInterrupt as error:
        thread.join()
        partial = getattr(error, "partial", None)
        if partial is None or not partial.ticks:  # before the first tick, or after the last
            continue
        if progress is None and partial.ticks == whole.ticks:
            continue  # it may have come while the run was being ended, before the handlers' ends
        seen += 1
        assert partial.ticks == partial.statistics.accepted == int(partial.ticks_by_symbol.sum())
        if "{kind}" == "batches" and {workers} == 0:
            with strand.feeds.open("20260105.itch50") as feed:
                ticks = np.concatenate([batch.copy() for batch in feed.batches()])
            for key in np.flatnonzero(partial.ticks_by_symbol).tolist():
                own = ticks[ticks["instrument_id"] == key][: partial.ticks_by_symbol[key]]
                assert partial.rows.array[key].tolist() == (len(own), own["size"].sum()), key
            continue
        again = strand.replay("20260105.itch50", handler, workers=0, limit=partial.ticks)
        assert again.fingerprint == partial.fingerprint, (partial.ticks, again.ticks)
print(seen)
"""
    done = run_warm("-c", code, cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-2000:]
    assert int(done.stdout) >= 3


@pytest.mark.parametrize("workers", [0, 1, 2])
def test_progress_counts_what_is_handled(workers: int) -> None:
    """While a call of the handler is under way, its ticks are not counted; at the end all are."""
    handled = 0
    told: list[tuple[int, int]] = []

    @strand.batch_handler(state=[("n", "i8")])
    def slow(symbol: str, ticks: Any, row: Any, ctx: Any) -> None:
        nonlocal handled
        time.sleep(0.001)
        handled += len(ticks)

    def progress(n: int) -> None:
        told.append((n, handled))

    feed = SyntheticFeed(1, 30_000, seed=5, date="2026-01-05")
    result = strand.replay(feed, slow, workers=workers, progress=progress)
    assert all(n <= by_then for n, by_then in told)
    assert told[-1][0] == result.ticks


def test_an_interrupt_right_after_a_tick_of_an_object_finds_it_counted() -> None:
    """Interrupts at each point from the middle of the third tick's function on: rows and ticks agree."""
    points, first = interrupter(), 0

    @strand.object_handler(state=[("n", "i8")])
    class Counts:
        def on_start(self, ctx: Any) -> None:
            self.ctx = ctx

        def on_tick(self, tick: Any) -> None:
            if self.ctx.row["n"] == 2:
                points.arm(first)
            self.ctx.row["n"] += 1

    ticks = [{"symbol": "A", "time": at, "price": 1, "size": 1} for at in range(1, 9)]
    counted: set[int] = set()
    with points.installed():
        for first in range(1, 25):  # noqa: B007 - the handler reads it
            with pytest.raises(KeyboardInterrupt) as raised:
                strand.replay(testing.feed(ticks), Counts, workers=0)
            points.disarm()
            partial = raised.value.partial  # type: ignore[attr-defined]
            assert [partial.rows["A"]["n"]] == [partial.ticks] == partial.ticks_by_symbol.tolist()
            counted.add(partial.ticks)
    assert {2, 3, 4} <= counted


# ---- Replays that stop at a tick or a time have the same state on any number of workers


def names_and_ticks() -> tuple[list[str], Any]:
    """The sample's names, and its ticks in order."""
    with strand.feeds.open(sample_path()) as feed:
        batches = [np.array(batch) for batch in feed]
        return list(feed.symbols), np.concatenate(batches)


@pytest.mark.parametrize(
    ("until", "error", "said"),
    [
        (("AAAHD", 99_999), ConfigurationError, "AAAHD has 4,514 ticks in this replay, and so no number 99,999"),
        (("nobody", 1), UnknownSymbolError, r"nothing in .* is named 'nobody'$"),
        (("aaahd", 1), UnknownSymbolError, r"is named 'aaahd'; did you mean 'AAAHD'\?$"),
        (("AAAHD", 0), ConfigurationError, r"is not a pair \(symbol, number\)"),
        (("AAAHD",), ConfigurationError, r"is not a pair \(symbol, number\)"),
        (1.5, ConfigurationError, "is neither"),
        ("noon", ConfigurationError, "until: 'noon' is not a time"),
    ],
)
def test_what_cannot_be_reached_is_refused(until: Any, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        strand.replay(sample_path(), "count", until=until)


def test_a_prompt_needs_a_tick_and_one_thread() -> None:
    with pytest.raises(ConfigurationError, match="pdb: say at which tick"):
        Until.of(None, pdb=True)
    with pytest.raises(ConfigurationError, match=r"pdb: .* give workers=0"):
        Until.of(("A", 1), pdb=True, workers=2)
    with pytest.raises(ConfigurationError, match="'count' is machine code"):
        strand.replay(sample_path(), "count", until=("AAAHD", 1), workers=0, pdb=True)
    with pytest.raises(ConfigurationError, match="progress: its bar would be drawn over the debugger's prompt"):
        strand.replay(sample_path(), "count", until=("AAAHD", 1), workers=0, pdb=True, progress=True)


class Looks:
    """Has a line to stop at."""

    def __init__(self) -> None:
        self.seen = 0

    def on_start(self, ctx: Any) -> None:
        self.ctx = ctx

    def on_tick(self, tick: Any) -> None:
        self.seen += 1


def prompted(handler: Any, monkeypatch: pytest.MonkeyPatch, commands: str, **options: Any) -> str:
    """Output of pdb."""
    monkeypatch.setattr(sys, "stdin", io.StringIO(commands))
    monkeypatch.setattr(sys, "stdout", said := io.StringIO())
    try:
        strand.replay(sample_path(), handler, workers=0, pdb=True, **options)
    finally:
        monkeypatch.undo()
    assert sys.gettrace() is None
    return said.getvalue()


@pytest.mark.parametrize("number", [1, 5])
def test_the_prompt_is_in_the_call_with_that_tick(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    commands = "p ('seen', self.seen, tick.price, self.ctx.symbol)\nc\n"
    said = prompted(Looks, monkeypatch, commands, until=("AAAHD", number))
    names, ticks = names_and_ticks()
    price = int(ticks["price"][ticks["instrument_id"] == names.index("AAAHD")][number - 1])
    assert f"('seen', {number - 1}, {price}, 'AAAHD')" in said
    assert said.count("on_tick()") == 1


def test_q_ends_the_replay(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(HandlerError, match="BdbQuit"):
        prompted(Looks, monkeypatch, "q\n", until=("AAAHD", 2))


def test_a_compiled_handler_is_stepped_through_in_python_before_its_machine_code(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("numba")

    @strand.handler(state=[("n", "u8")], cache=False)
    def counts(row: Any, tick: Any) -> None:
        row.n += 1

    said = prompted(counts, monkeypatch, "p ('n', row.n)\nn\np ('n', row.n)\nc\n", until=("AAAHD", 3))
    assert "('n', 2)" in said
    assert "('n', 3)" in said
    assert strand.replay(sample_path(), counts, workers=0, until=("AAAHD", 3)).rows["AAAHD"]["n"] == 3


def traded_in_a_chain() -> Any:
    pytest.importorskip("numba")

    @strand.handler(state=[("n", "u8")], cache=False)
    def counts(row: Any, tick: Any) -> None:
        row.n += 1

    @strand.handler(state=[("n", "u8"), ("bid", "i8")], on="trade", cache=False)
    def trades(row: Any, trade: Any) -> None:
        row.n += 1
        row.bid = row.book.bid_price

    return strand.chain(strand.book(), counts, trades)


def test_a_chain_and_its_trades_are_stepped_through_as_they_are_at_the_tick(monkeypatch: pytest.MonkeyPatch) -> None:
    # Its 54th tick is its third trade.
    handler, until = traded_in_a_chain(), ("AAAHD", 54)
    place = f"{__file__}:{handler.parts[2][1].on_tick.__code__.co_firstlineno + 2}"
    commands = f"p ('n', row.n)\nb {place}\nc\np ('t', row.n, trade.size, row.book.bid_price, row.counts.n)\nc\n"
    said = prompted(handler, monkeypatch, commands, until=until)
    book = strand.replay(sample_path(), "book", workers=0, until=until).rows["AAAHD"]
    assert "('n', 53)" in said
    assert f"('t', 2, 400, {book['bid_price']}, 54)" in said
    row = strand.replay(sample_path(), handler, workers=2, until=until).rows["AAAHD"]
    assert (row["counts"]["n"], row["trades"]["n"]) == (54, 3)


def test_a_tick_that_is_no_trade_and_one_that_cannot_be_read_again_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    trades = traded_in_a_chain().parts[2][1]
    alone = strand.chain(strand.book(), trades)
    with pytest.raises(
        ConfigurationError, match=r"'book\+trades' is not called with tick 53 of AAAHD: it is not a trade"
    ):
        prompted(alone, monkeypatch, "", until=("AAAHD", 53))
    with strand.feeds.open(sample_path()) as feed, pytest.raises(ConfigurationError, match="cannot be read again"):
        strand.replay(feed, alone, workers=0, pdb=True, until=("AAAHD", 54))


# ---- What is seen of a run while it goes on: counters in a thread, rows of a few symbols between two publishes


OPTIONS: dict[str, Any] = {"feed_options": {"date": SAMPLE_DATE}}


@strand.batch_handler(state=[("trades", "u8"), ("filler", "u8", (64,)), ("volume", "u8")])
def sums(symbol: str, ticks: npt.NDArray[Any], row: Any) -> None:
    """Two fields that go together, with time between their writes for a reader to see them apart."""
    row["trades"] += len(ticks)
    row["filler"][:] = row["trades"]
    row["volume"] += ticks["size"].sum(dtype=np.uint64)


def timeline_of(result: strand.ReplayResult) -> Timeline:
    assert result.timeline is not None
    return result.timeline


def test_the_timeline_ends_with_the_totals_of_the_run() -> None:
    result = replay(sample_path(), "count", workers=2, **OPTIONS)
    t = timeline_of(result)
    assert t.accepted[-1] == t.handled[-1] == result.ticks == 200_500
    assert t.pending[-1] == t.dropped[-1] == 0
    assert t.worker_names == ("worker 0", "worker 1", "publishers")
    assert t.worker_handled[-1].tolist() == [w.handled for w in result.statistics.workers]
    assert t.worker_busy_ns[-1].tolist() == [w.busy_ns for w in result.statistics.workers]
    assert t.feed_ns[-1] == max(
        int(batch["ts_recv"].max()) for batch in feeds.open(sample_path(), date=SAMPLE_DATE).batches()
    )


@pytest.mark.parametrize("handler", [strand.handlers.spin(50), sums])
def test_the_time_of_each_symbol_s_handler_adds_up_to_that_of_all_workers(
    handler: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Looks at rows are calls, which workers are busy with as well.
    monkeypatch.setattr(timeline.RowSampler, "published", lambda *_: None)
    ways: dict[str, Any] = {"strands": "per-symbol", "publisher_drains": False, "cores": None}
    result = replay(sample_path(), handler, workers=2, watch=1, limit=20_000, **ways, **OPTIONS)
    t = timeline_of(result)
    known = t.handler_ticks[: len(result.ticks_by_symbol)]
    assert known.tolist() == result.ticks_by_symbol.tolist()
    # Each sum is rounded to ns by itself.
    assert abs(int(t.handler_ns.sum()) - int(t.worker_busy_ns[-1].sum())) <= 2 * np.count_nonzero(known) + 4
    assert ((t.handler_ns > 0) == (t.handler_ticks > 0)).all()


def test_moments_follow_each_other_and_counts_never_fall() -> None:
    t = timeline_of(replay(sample_path(), "book", workers=3, **OPTIONS))
    assert len(t) >= 2
    assert (np.diff(t.at_s) > 0).all()
    for counts in (t.accepted, t.handled, t.dropped, t.feed_ns, *t.worker_handled.T, *t.worker_busy_ns.T):
        assert (np.diff(counts.astype(np.int64)) >= 0).all()
    assert (t.pending <= t.accepted).all()


def test_a_long_run_is_seen_at_no_more_moments_than_a_short_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay_run, "CAPACITY", 8)
    monkeypatch.setattr(replay_run, "FIRST_INTERVAL_S", 1e-5)
    t = timeline_of(replay(sample_path(), sums, workers=1, **OPTIONS))
    assert 2 <= len(t) <= 8
    assert t.handled[-1] == 200_500
    assert t.handled[0] == 0


def test_rates_and_loads_add_up_to_the_totals() -> None:
    result = replay(sample_path(), "book", workers=2, **OPTIONS)
    t = timeline_of(result)
    edges, rates = t.rate()
    assert (rates * np.diff(edges)).sum() == pytest.approx(result.ticks)
    edges, load = t.load(bins=5)
    assert load.shape == (len(edges) - 1, 3)
    assert ((load >= 0) & (load <= 1)).all()
    assert load.any()
    assert ((load.T * np.diff(edges)).sum(axis=1) <= t.worker_busy_ns[-1] / 1e9 + 1e-9).all()


def test_a_symbol_that_was_set_aside_keeps_what_was_seen_before() -> None:
    @strand.batch_handler(state=[("trades", "u8")])
    def fails(symbol: str, ticks: npt.NDArray[Any], row: Any) -> None:
        row["trades"] += len(ticks)
        if row["trades"] > 1000:
            raise ValueError("enough")

    result = replay(sample_path(), fails, watch=["AAAHD"], on_error="quarantine", budget_ticks=64, **OPTIONS)
    rows = timeline_of(result).symbols["AAAHD"].rows
    assert 0 < rows["trades"].max() <= 1000
    assert len(result.failures) >= 1


def test_places_to_look_grow_apart_as_the_feed_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timeline, "CAPACITY", 16)
    result = replay(sample_path(), "count", watch=["AAAHD"], workers=1, **OPTIONS)
    rows = timeline_of(result).symbols["AAAHD"].rows
    assert 2 <= len(rows) <= 17
    assert rows["position"][-1] == 200_500


def test_a_row_is_not_read_while_ticks_of_its_strand_are_pending() -> None:
    with Dispatcher(2, "count", strands="per-symbol", workers=1) as dispatcher:
        columns = [dispatcher.rows.array["ticks"], dispatcher.rows.array["last_sequence"]]
        dispatcher.publish(ticks_for([0, 1, 1]))
        dispatcher.drain()
        assert dispatcher.read_if_quiescent(1, columns) == [2, 2]
        dispatcher.pause(1)
        dispatcher.publish(ticks_for([0, 1]))
        assert dispatcher.read_if_quiescent(1, columns) is None
        dispatcher.resume(1)
        dispatcher.drain()
        assert dispatcher.read_if_quiescent(1, columns)[0] == 3  # type: ignore[index]


# ---- Rows of watched symbols over time


def test_the_time_of_a_handler_is_not_known_of_symbols_that_share_a_strand_or_are_not_watched() -> None:
    for options in ({"strands": 1, "watch": 1}, {"strands": "per-symbol"}):
        t = timeline_of(replay(sample_path(), "count", workers=1, publisher_drains=False, **options, **OPTIONS))
        assert not t.handler_ticks.any()
        assert not t.handler_ns.any()


def all_ticks() -> npt.NDArray[Any]:
    return np.concatenate([batch.copy() for batch in feeds.open(sample_path(), date=SAMPLE_DATE).batches()])


@pytest.mark.parametrize("workers", [1, 3])
def test_a_watched_row_is_the_one_after_exactly_the_ticks_before_it(workers: int) -> None:
    result = replay(sample_path(), sums, workers=workers, watch=4, **OPTIONS)
    ticks = all_ticks()
    symbols = timeline_of(result).symbols
    assert len(symbols) == 4
    for series in symbols.values():
        mine = ticks["instrument_id"] == series.index
        at = series.rows["position"].astype(np.int64) - 1
        assert (np.diff(at) > 0).all()
        assert at[-1] == len(ticks) - 1
        assert series.rows["trades"].tolist() == np.cumsum(mine)[at].tolist()
        assert series.rows["volume"].tolist() == np.cumsum(np.where(mine, ticks["size"], 0))[at].tolist()
        assert series.rows["feed_ns"].tolist() == ticks["ts_recv"][at].tolist()


def test_what_is_watched_is_the_same_on_any_number_of_workers() -> None:
    runs = [timeline_of(replay(sample_path(), "book", workers=n, watch=3, **OPTIONS)).symbols for n in (1, 2, 3)]
    assert list(runs[0]) == list(runs[1]) == list(runs[2])
    for name, series in runs[0].items():
        assert len(series.rows) > 150
        assert all(np.array_equal(series.rows, run[name].rows) for run in runs[1:])


def test_the_busiest_are_watched_in_the_order_of_their_ticks() -> None:
    result = replay(sample_path(), "count", watch=3, **OPTIONS)
    ranked = np.argsort(-result.ticks_by_symbol, kind="stable")[:3]
    assert list(timeline_of(result).symbols) == [result.symbols[i] for i in ranked.tolist()]


def test_named_symbols_are_watched_in_the_order_given_and_unknown_ones_are_an_error_behind_the_run() -> None:
    result = replay(sample_path(), "count", watch=["AAAOA", "AAAHD", "AAAOA"], **OPTIONS)
    assert list(timeline_of(result).symbols) == ["AAAOA", "AAAHD"]
    with pytest.raises(UnknownSymbolError, match=r"watch .* is named 'NOSUCH', 'NONE'") as raised:
        replay(sample_path(), "count", watch=["NOSUCH", "AAAHD", "NONE"], **OPTIONS)
    assert raised.value.partial is not None
    assert list(timeline_of(raised.value.partial).symbols) == ["AAAHD"]
    # Of a part of the feed nobody knows whom it would have told of.
    assert replay(sample_path(), "count", watch=["NOSUCH"], limit=1000, **OPTIONS).ticks == 1000


@pytest.mark.parametrize("workers", [0, 1, 2])
@pytest.mark.parametrize("emits", [False, True])
def test_a_replay_goes_with_the_last_reference_to_its_result(workers: int, emits: bool) -> None:
    """Without the garbage collector: it would come when memory of several runs has gathered."""
    contexts: list[Any] = []

    @batch_handler(state=[("ticks", "i8")], outputs={"out": [("n", "i8")]})
    def watched(symbol: str, ticks: Any, row: Any, ctx: Any) -> None:
        contexts.append(weakref.ref(ctx))
        if emits:
            ctx.emit((1,), at=0)

    gc.disable()
    try:
        replay(feed([("A", 1, 5, 1), ("B", 10, 5, 1)]), watched, workers=workers, cores=None)
        assert [context() for context in contexts] == [None, None]
    finally:
        gc.enable()
