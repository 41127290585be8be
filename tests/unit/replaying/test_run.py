"""A run: where its threads are pinned, and feeds that give no ticks."""

from __future__ import annotations

import gzip
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from interrupt_points import interrupter
from warm_python import run_warm

import strand
from strand import testing
from strand.errors import (
    RecordTypeError,
)
from strand.feeds import BaseFeed, FeedInfo
from strand.feeds.sample import SAMPLE_DATE, sample_path
from strand.feeds.synthetic import SyntheticFeed

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
