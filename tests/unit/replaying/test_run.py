"""A run: where its threads are pinned, and feeds that give no ticks."""

from __future__ import annotations

import gzip
import os
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import strand
from strand.errors import (
    RecordTypeError,
)
from strand.feeds import BaseFeed, FeedInfo
from strand.feeds.io.prefetch import Prefetch
from strand.feeds.sample import SAMPLE_DATE, sample_path

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


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 3, reason="there are no two cores beside a worker's")
@pytest.mark.parametrize("asked", [None, True, False])
def test_publisher_and_inflating_thread_have_a_core_each_where_two_are_left(
    monkeypatch: pytest.MonkeyPatch, asked: bool | None
) -> None:
    allowed = os.sched_getaffinity(0)
    publisher: list[set[int]] = []
    reader: list[set[int]] = []

    class Noting(Prefetch):
        def keep_to(self, cores: Collection[int]) -> None:
            super().keep_to(cores)
            reader.append(set(cores))

    monkeypatch.setattr("strand.feeds.io.prefetch.Prefetch", Noting)
    result = strand.replay(
        sample_path(),
        "count",
        workers=len(allowed) - 2,
        pin_publisher=asked,
        progress=lambda _: publisher.append(os.sched_getaffinity(0)),
        feed_options={"date": SAMPLE_DATE},
    )
    workers = {w.core for w in result.statistics.workers}
    assert len(allowed - workers) == 2
    if asked is False:
        assert all(cores == allowed for cores in publisher)
        assert not reader
    else:
        assert all(len(cores) == 1 for cores in publisher)
        assert reader == [allowed - workers - publisher[0]]
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
