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


def test_a_file_without_intervals_holds_the_run_s_end(tmp_path: Path, order_day: Any) -> None:
    path = tmp_path / "run.jsonl"
    result = strand.replay(order_feed(*order_day), "count", workers=1, fingerprints=path)
    assert [i.fingerprint for i in read_fingerprints(path)] == [result.fingerprint]


def test_a_run_of_no_ticks_has_a_fingerprint_and_a_file(tmp_path: Path, order_day: Any) -> None:
    ticks, names = order_day
    path = tmp_path / "run.jsonl"
    result = strand.replay(
        order_feed(ticks[:0], names), "count", workers=1, fingerprint_every=5, fingerprints=path, allow_empty=True
    )
    assert [(i.ticks, i.fingerprint) for i in read_fingerprints(path)] == [(0, result.fingerprint)]


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
