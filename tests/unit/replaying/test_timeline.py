"""What is seen of a run while it goes on: counters in a thread, rows of a few symbols between two publishes."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from engine_support import ticks_for

import strand
from strand import Dispatcher, batch_handler, feeds, replay
from strand.errors import UnknownSymbolError
from strand.feeds.sample import SAMPLE_DATE, sample_path
from strand.replaying import run as replay_run
from strand.replaying import timeline
from strand.replaying.timeline import Timeline
from strand.testing import feed

pytestmark = pytest.mark.python


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
