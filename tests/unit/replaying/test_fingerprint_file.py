"""Files of fingerprints."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from array_feed import order_feed

import strand
from strand.errors import FeedError, FormatError, HandlerError, TruncatedFeedError
from strand.output.fingerprint import (
    OutputDigest,
    layout_of,
)
from strand.replaying.fingerprint_file import Interval, is_fingerprint_file, read_fingerprints

pytestmark = pytest.mark.python


@pytest.mark.parametrize("name", ["run.jsonl", "run.jsonl.gz"])
def test_a_file_holds_the_header_the_intervals_and_each_symbol_that_changed(
    tmp_path: Path, order_day: Any, name: str
) -> None:
    ticks, names = order_day
    path = tmp_path / name
    result = strand.replay(order_feed(ticks, names), "count", workers=2, fingerprint_every=1000, fingerprints=path)
    assert is_fingerprint_file(path)
    file = read_fingerprints(path)
    assert file.header["every"] == 1000
    assert file.header["handlers"] == {"*": {"name": "count", "load": "count", "options": {}, "code": None}}
    assert file.header["settings"]["workers"] == 2
    found = list(file)
    assert [Interval(i.ticks, i.fingerprint, i.input, i.outputs) for i in found] == list(result.intervals)
    state: dict[str, Any] = {}
    for interval, start in zip(found, range(0, len(ticks), 1000), strict=True):
        there = {names[i] for i in np.unique(ticks["instrument_id"][start : start + 1000]).tolist()}
        assert interval.changed.keys() == there
        state |= interval.changed
    for i in np.unique(ticks["instrument_id"]).tolist():
        mine = ticks[ticks["instrument_id"] == i]
        assert (state[names[i]].ticks, state[names[i]].sequence) == (len(mine), int(mine["sequence"][-1]))
    assert file.end is not None
    assert (file.end.ticks, file.end.fingerprint, file.end.dropped) == (len(ticks), result.fingerprint, 0)


def test_a_file_does_not_depend_on_workers_grouping_or_batches(tmp_path: Path, order_day: Any) -> None:
    ticks, names = order_day
    written = []
    for number, (workers, strands, batch) in enumerate([(0, "auto", 9999), (1, 1, 50), (3, "per-symbol", 1)]):
        path = tmp_path / f"{number}.jsonl"
        feed = order_feed(ticks, names, batches=batch)
        options = {"workers": workers, "strands": strands, "cores": None}
        strand.replay(feed, "count", fingerprint_every=777, fingerprints=path, **options)
        written.append(path.read_bytes().partition(b"\n")[2])
    assert written[0] == written[1] == written[2]


def test_a_feed_that_fails_leaves_a_file_that_says_so(tmp_path: Path, order_day: Any) -> None:
    path = tmp_path / "run.jsonl"
    with pytest.raises(TruncatedFeedError) as caught:
        strand.replay(
            order_feed(*order_day, error=TruncatedFeedError("cut", offset=7)),
            "count",
            workers=1,
            fingerprint_every=1000,
            fingerprints=path,
        )
    file = read_fingerprints(path)
    assert caught.value.partial is not None
    assert list(file)[-1].fingerprint == caught.value.partial.fingerprint
    assert file.end is not None
    assert file.end.error == "byte 7: cut"


def test_a_handler_that_fails_leaves_no_file(tmp_path: Path, order_day: Any) -> None:
    @strand.batch_handler(state=[("n", "u8")])
    def fails(symbol: str, ticks: Any, row: Any) -> None:
        raise ValueError("no")

    with pytest.raises(HandlerError):
        strand.replay(order_feed(*order_day), fails, workers=1, fingerprints=tmp_path / "run.jsonl")
    assert list(tmp_path.iterdir()) == []


def test_damaged_files_are_errors_that_name_the_line(tmp_path: Path, order_day: Any) -> None:
    path = tmp_path / "run.jsonl"
    strand.replay(order_feed(*order_day), "count", workers=1, fingerprint_every=1000, fingerprints=path)
    whole = path.read_bytes()
    lines = whole.splitlines(keepends=True)

    def read(data: bytes) -> None:
        path.write_bytes(data)
        list(read_fingerprints(path))

    read(whole)
    with pytest.raises(TruncatedFeedError, match="has no last line"):
        read(b"".join(lines[:-1]))
    with pytest.raises(TruncatedFeedError, match="line 3"):
        read(b"".join(lines[:3])[:-20])
    for version in (1, 99):  # of both sides: a file of version 1 has the same first line
        other_version = json.dumps(json.loads(lines[0]) | {"strand_fingerprints": version, "version": "0.0.9"}).encode()
        said = rf"its format is version {version} \(made by strand 0\.0\.9\), and this release reads version 2: make"
        with pytest.raises(FormatError, match=said):
            read(other_version + b"\n" + b'{"ticks": 0, "fingerprint": "", "input": "", "changed": {}}\n')
    with pytest.raises(FormatError, match="line 2"):
        read(lines[0] + b'{"ticks": 5}\n')
    for other in (b"", b"{}\n", b"[]\n", b"symbol,n\n", b"\x1f\x8b\x08rubbish"):
        with pytest.raises(FeedError):
            read(other)
        assert not is_fingerprint_file(path)
    with pytest.raises(TruncatedFeedError):
        read(gzip.compress(whole)[:-30])


# ---- Fingerprints at intervals of a run


def of(ticks: Any, names: Any, handler: Any = "count", **options: Any) -> str:
    return strand.replay(order_feed(ticks, names), handler, **{"workers": 1, "cores": None, **options}).fingerprint


@pytest.mark.cells(1)
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


def test_intervals_that_end_with_the_ticks_end_once(tmp_path: Path, order_day: Any) -> None:
    ticks, names = order_day
    feed, path = order_feed(ticks[:2000], names), tmp_path / "run.jsonl"
    result = strand.replay(feed, "count", workers=1, fingerprint_every=500, fingerprints=path)
    for intervals in (result.intervals, read_fingerprints(path)):
        assert [i.ticks for i in intervals] == [500, 1000, 1500, 2000]
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
