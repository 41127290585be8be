"""Fingerprints at intervals of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from array_feed import order_feed

import strand
from strand.errors import ConfigurationError
from strand.output.fingerprint import (
    OutputDigest,
    layout_of,
)

pytestmark = pytest.mark.python


def of(ticks: Any, names: Any, handler: Any = "count", **options: Any) -> str:
    return strand.replay(order_feed(ticks, names), handler, **{"workers": 1, "cores": None, **options}).fingerprint


@pytest.mark.parametrize("batch", [1, 7, 1000, 10_000])
@pytest.mark.parametrize("workers", [0, 2])
def test_an_interval_is_the_run_that_ends_there_whatever_the_batches(order_day: Any, batch: int, workers: int) -> None:
    ticks, names = order_day
    result = strand.replay(
        order_feed(ticks, names, batches=batch), "book", workers=workers, cores=None, fingerprint_every=900
    )
    places = [*range(900, len(ticks), 900), len(ticks)]
    assert [i.ticks for i in result.intervals] == places
    assert [i.fingerprint for i in result.intervals] == [of(ticks[:n], names, "book") for n in places]
    assert result.intervals[-1].fingerprint == result.fingerprint
    assert len({i.input for i in result.intervals}) == len(places)


@pytest.mark.parametrize("way", [{"workers": 1}, {"workers": 3, "strands": 1}, {"workers": 2, "capacity_ticks": 64}])
@pytest.mark.parametrize("written", [False, True])
def test_outputs_are_part_of_an_interval_as_far_as_they_had_come(
    tmp_path: Path, order_day: Any, way: dict[str, Any], written: bool
) -> None:
    ticks, names = order_day
    out = {"bars": tmp_path / "bars.npy"} if written else None
    like = strand.bars("1s", book=True)
    result = strand.replay(order_feed(ticks, names), like, cores=None, fingerprint_every=500, out=out, **way)
    bars = np.load(tmp_path / "bars.npy") if written else result.outputs["bars"]
    assert [i.ticks for i in result.intervals] == [*range(500, len(ticks), 500), len(ticks)]
    for interval in result.intervals[:-1]:
        # All that is known before the next tick: what timers of that time emitted, and nothing after.
        time = ticks["ts_recv"][: interval.ticks].max()
        digest = OutputDigest(result_dtype(bars), names)
        digest.add(bars[bars["ts"] <= time])
        assert interval.outputs == {"bars": (digest.records, digest.digest().hex())}
    assert result.intervals[-1].outputs["bars"][0] == len(bars) > result.intervals[-2].outputs["bars"][0] > 0
    assert result.intervals[-1].fingerprint == result.fingerprint


def result_dtype(records: Any) -> Any:
    """Files have their fields side by side."""

    return layout_of(records.dtype)


def test_one_other_record_is_another_interval_though_rows_are_the_same(order_day: Any) -> None:
    ticks, names = order_day
    at = int(ticks["sequence"][1234])

    def emitting(extra: int) -> Any:
        @strand.batch_handler(state=[("n", "u8")], outputs={"sizes": [("size", "u4")]})
        def on_ticks(symbol: str, ticks: Any, row: Any, ctx: Any) -> None:
            row["n"] += len(ticks)
            sizes = np.zeros(len(ticks), [("size", "u4")])
            sizes["size"] = ticks["size"] + extra * (ticks["sequence"] == at)
            ctx.emit(sizes, np.arange(len(ticks)))

        return on_ticks

    runs = [
        strand.replay(order_feed(ticks, names), emitting(extra), workers=workers, cores=None, fingerprint_every=500)
        for extra, workers in ((0, 2), (0, 0), (1, 2))
    ]
    assert runs[0].intervals == runs[1].intervals
    same = [a.fingerprint == b.fingerprint for a, b in zip(runs[0].intervals, runs[2].intervals, strict=True)]
    assert same == [True, True] + [False] * (len(same) - 2)


def test_intervals_that_end_with_the_ticks_end_once(order_day: Any) -> None:
    ticks, names = order_day
    result = strand.replay(order_feed(ticks[:2000], names), "count", workers=1, fingerprint_every=500)
    assert [i.ticks for i in result.intervals] == [500, 1000, 1500, 2000]
    result = strand.replay(order_feed(ticks, names), "count", workers=1, fingerprint_every=500, limit=1200)
    assert [i.ticks for i in result.intervals] == [500, 1000, 1200]


def test_a_name_that_comes_late_counts_from_then_on(order_day: Any) -> None:
    ticks, names = order_day
    # One symbol is quiet from before its name is known.
    quiet = ticks["instrument_id"] == ticks["instrument_id"][50]
    ticks = ticks[~(quiet & (np.arange(len(ticks)) > 800))]
    late = strand.replay(
        order_feed(ticks, names, batches=100, known_from=1500), "count", workers=1, fingerprint_every=1000
    )
    early = strand.replay(order_feed(ticks, names, batches=100), "count", workers=1, fingerprint_every=1000)
    assert late.intervals[0] != early.intervals[0]
    assert late.intervals[1:] == early.intervals[1:]
    assert late.intervals[-1].fingerprint == late.fingerprint == early.fingerprint


@pytest.mark.parametrize("every", [0, -1, True, 1.5, "9"])
def test_an_interval_is_a_number_of_ticks(order_day: Any, every: Any) -> None:
    with pytest.raises(ConfigurationError, match="fingerprint_every"):
        strand.replay(order_feed(*order_day), "count", fingerprint_every=every)
