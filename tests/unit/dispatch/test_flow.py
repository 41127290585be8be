"""Ticks that are published as they are decoded: the same as by batches, whatever ends it."""

from __future__ import annotations

import gzip
import itertools
import random
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import strand
from strand.binding.itch_flow import CAPACITY
from strand.dispatch.publishers import Publishers
from strand.errors import BackpressureError, FeedError, FormatError, HandlerError, RecordTypeError, TruncatedFeedError
from strand.feeds.formats.itch.reader import ItchFeed
from strand.feeds.sample import SAMPLE_DATE, sample_path
from strand.replaying.run import Run


@pytest.fixture(scope="module")
def day(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sample, uncompressed."""
    path = tmp_path_factory.mktemp("flow") / "day.itch50"
    path.write_bytes(gzip.decompress(sample_path().read_bytes()))
    return path


@pytest.fixture(params=["flow", "batches"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    choose(monkeypatch, request.param)
    return str(request.param)


def choose(monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    """Batches are what every feed gives, and what a run takes where somebody wants to see them."""
    if way == "batches":
        monkeypatch.setattr(Run, "may_flow", property(lambda _: False))


def replayed(path: Path, handler: Any = "book", **options: Any) -> Any:
    feed_options = {"date": SAMPLE_DATE} | options.pop("feed_options", {})
    return strand.replay(path, handler, feed_options=feed_options, **({"workers": 2} | options))


def found(result: Any) -> dict[str, Any]:
    """All that does not hang on time."""
    timeless = {
        name: count
        for name, count in result.feed_statistics.items()
        if not name.endswith("_ns") and name not in ("bytes_out", "bytes_in")
    }
    return {
        "rows": result.rows.array.tobytes(),
        "ticks": result.ticks,
        "by_symbol": result.ticks_by_symbol.tolist(),
        "symbols": list(result.symbols),
        "feed": timeless,
        "skipped": dict(result.skipped.counts),
        "samples": list(result.skipped.samples),
        "accepted": result.statistics.accepted,
        "fingerprint": result.fingerprint,
    }


def both(monkeypatch: pytest.MonkeyPatch, path: Path, **options: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """What a replay gives by a flow, and by batches; an error's partial result and its text, where it ends with one."""
    ends = []
    for way in ("flow", "batches"):
        with monkeypatch.context() as patch:
            choose(patch, way)
            try:
                ends.append(found(replayed(path, **options)))
            except FeedError as error:
                assert error.partial is not None
                ends.append(found(error.partial) | {"error": str(error), "kind": type(error)})
    return ends[0], ends[1]


def test_a_run_flows_where_nobody_wants_to_see_batches(day: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flows: list[bool] = []
    may = Run.may_flow
    monkeypatch.setattr(Run, "may_flow", property(lambda run: flows.append(may.fget(run)) or flows[-1]))  # type: ignore[attr-defined]
    replayed(day)
    replayed(sample_path())
    assert flows == [True, True]
    replayed(day, workers=0)
    replayed(day, watch=1)
    replayed(day, fingerprint_every=50_000)
    replayed(day, "bars")
    replayed(day, symbols=["*A*"])
    assert flows[2:] == [False] * 5


@pytest.mark.parametrize("options", [{"workers": 1}, {"workers": 3}, {"strands": "per-symbol"}, {"idle": "park"}])
def test_a_flow_gives_what_batches_give(day: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]) -> None:
    flow, batches = both(monkeypatch, day, **options)
    assert flow == batches
    assert flow["ticks"] == sum(flow["by_symbol"]) > 10 * CAPACITY


def test_a_compressed_file_flows_too(monkeypatch: pytest.MonkeyPatch) -> None:
    flow, batches = both(monkeypatch, sample_path())
    assert flow == batches


def test_a_flow_ends_at_the_limit_exactly(day: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = 4 * CAPACITY
    for limit in (
        1,
        first - 1,
        first,
        first + 1,
        first + CAPACITY - 1,
        first + CAPACITY,
        first + CAPACITY + 1,
        100_003,
    ):
        with monkeypatch.context() as patch:
            flow = replayed(day, limit=limit)
            choose(patch, "batches")
            batches = replayed(day, limit=limit)
        assert flow.ticks == limit == flow.statistics.handled
        assert flow.ticks_by_symbol.tolist() == batches.ticks_by_symbol.tolist()
        assert flow.rows.array.tobytes() == batches.rows.array.tobytes()


def test_every_tick_before_a_fault_is_handled(day: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data, damaged = day.read_bytes(), tmp_path / "damaged.itch50"
    rng = random.Random(3)
    for at in [700_000, len(data) // 2, len(data) - 1, *(rng.randrange(600_000, len(data)) for _ in range(5))]:
        damaged.write_bytes(data[:at])
        flow, batches = both(monkeypatch, damaged, handler="count")
        assert flow == batches
        assert flow["ticks"] == sum(flow["by_symbol"]) == flow["accepted"]
        assert flow.get("kind", TruncatedFeedError) is TruncatedFeedError
    cut = ItchFeed(day, date=SAMPLE_DATE)
    list(itertools.islice(cut.batches(), 3))
    offset = cut._decoder.offset
    damaged.write_bytes(data[:offset] + b"\0\x24" + b"?" * 36 + data[offset:])
    flow, batches = both(monkeypatch, damaged, handler="count")
    assert flow == batches
    assert flow["kind"] is FormatError


def test_what_is_skipped_is_counted_and_sampled_alike(
    day: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed = ItchFeed(day, date=SAMPLE_DATE)
    offsets = []
    for _ in itertools.islice(feed.batches(), 8):
        offsets.append(feed._decoder.offset)
    data, path = day.read_bytes(), tmp_path / "strange.itch50"
    pieces = [data[a:b] for a, b in itertools.pairwise([0, *offsets, len(data)])]
    path.write_bytes((b"\0\x0c" + b"?" * 12).join(pieces))
    flow, batches = both(monkeypatch, path, feed_options={"on_error": "skip"})
    assert flow == batches
    assert sum(flow["skipped"].values()) == len(offsets) == len(flow["samples"])


def test_a_failing_handler_is_named_with_its_tick(day: Path, way: str) -> None:
    counted = replayed(day, "count")
    busiest = counted.symbols[int(np.argmax(counted.ticks_by_symbol))]
    last = int(counted.ticks_by_symbol.max()) - 1

    @strand.batch_handler(state=[("n", "u8")])
    def fails(symbol: str, ticks: Any, row: Any) -> None:
        row["n"] += len(ticks)
        if symbol == busiest and row["n"] > last:
            raise ValueError("no more")

    with pytest.raises(HandlerError, match="no more") as caught:
        replayed(day, fails)
    assert caught.value.symbol == busiest


def test_a_full_strand_refuses_ticks_of_a_flow(day: Path, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    refused, waited = threading.Event(), set[int]()
    error = Publishers._error

    def tell(*args: Any) -> Exception:
        refused.set()
        return error(*args)

    monkeypatch.setattr(Publishers, "_error", tell)

    @strand.batch_handler(state=[("n", "u8")])
    def waits(symbol: str, ticks: Any, row: Any) -> None:
        # The first batch, which is an array in any case, has room. Then both workers wait until something has not.
        if int(ticks["sequence"][-1]) > 4 * CAPACITY and threading.get_ident() not in waited:
            waited.add(threading.get_ident())
            refused.wait(60)

    with pytest.raises(BackpressureError, match="their strands are full") as caught:
        replayed(day, waits, on_full="raise", capacity_ticks=3_000)
    assert len(caught.value.rejected) > 0
    assert (f" of {CAPACITY} records" in str(caught.value)) == (way == "flow")


def test_what_is_dropped_is_counted_as_published(day: Path, way: str) -> None:
    result = replayed(day, "spin", on_full="drop_newest", capacity_ticks=64, workers=1, publisher_drains=False)
    counts = result.statistics
    assert result.ticks == counts.accepted == result.ticks_by_symbol.sum()
    assert counts.handled + sum(counts.dropped.values()) == counts.accepted


def test_progress_is_told_of_every_tick_and_may_end_it(day: Path, way: str) -> None:
    seen: list[int] = []
    assert replayed(day, progress=seen.append).ticks == seen[-1]
    assert seen == sorted(seen)
    assert replayed(day, progress=seen.append, limit=70_001).ticks == seen[-1]

    def stop(ticks: int) -> None:
        if ticks > 30_000:
            raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        replayed(day, progress=stop)


def test_a_feed_that_is_closed_in_the_middle_ends_with_what_it_decoded(day: Path, way: str) -> None:
    feed = ItchFeed(day, date=SAMPLE_DATE)

    def close(ticks: int) -> None:
        if ticks > 30_000:
            feed.close()

    with pytest.raises(FeedError, match="closed") as caught:
        strand.replay(feed, "count", workers=1, progress=close)
    partial = caught.value.partial
    assert partial is not None
    assert (
        partial.ticks == partial.feed_statistics["ticks"] == partial.ticks_by_symbol.sum() == partial.statistics.handled
    )


def test_an_interrupt_between_pieces_leaves_counts_that_agree(day: Path, way: str) -> None:
    def interrupt(ticks: int) -> None:
        if ticks > 30_000:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as caught:
        # Nothing is watched, but an interrupt has a result.
        replayed(day, "count", watch=0, progress=interrupt)
    partial = caught.value.partial  # type: ignore[attr-defined]
    assert partial.ticks == partial.statistics.accepted == partial.ticks_by_symbol.sum()
    assert partial.rows.array["ticks"].sum() == partial.ticks


def every_other(batches: Iterator[Any]) -> Iterator[Any]:
    for batch in batches:
        yield batch[::2]


class Derived(ItchFeed):
    def batches(self) -> Iterator[Any]:  # type: ignore[override]
        return every_other(super().batches())


class Wrapped:
    def __init__(self, feed: ItchFeed) -> None:
        self._feed = feed

    def __getattr__(self, name: str) -> Any:
        return getattr(self._feed, name)

    def batches(self) -> Iterator[Any]:
        return every_other(self._feed.batches())


def replaced(feed: ItchFeed) -> ItchFeed:
    own = feed.batches
    feed.batches = lambda: every_other(own())  # type: ignore[method-assign, assignment, return-value]
    return feed


@pytest.mark.parametrize("kind", ["derived", "wrapped", "replaced"])
def test_a_feed_with_batches_of_its_own_is_asked_for_them(day: Path, kind: str) -> None:
    def feed() -> Any:
        if kind == "derived":
            return Derived(day, date=SAMPLE_DATE)
        plain = ItchFeed(day, date=SAMPLE_DATE)
        return Wrapped(plain) if kind == "wrapped" else replaced(plain)

    ticks = sum(len(batch) for batch in feed().batches())
    assert strand.replay(feed(), "count", workers=1).ticks == ticks
    assert 90_000 < ticks < 110_000


def test_ticks_that_come_past_a_flow_are_an_error(day: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Run, "may_flow", property(lambda _: True))
    with pytest.raises(RecordTypeError, match="came past the flow"):
        strand.replay(Derived(day, date=SAMPLE_DATE), "count", workers=1)
