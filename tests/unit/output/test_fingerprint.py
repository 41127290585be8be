"""Fingerprints stand for what a run left, and for nothing else; what is recorded comes back from its file."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from array_feed import order_feed, synthetic_day

import strand
from strand import Dispatcher
from strand.errors import ConfigurationError, FeedError, FormatError, HandlerError, TruncatedFeedError
from strand.output.fingerprint import (
    OutputDigest,
    RowBytes,
    Running,
    digest_sum,
    fingerprint_of,
    fingerprint_of_rows,
    layout_of,
    packed,
)
from strand.replaying.fingerprint_file import Interval, is_fingerprint_file, read_fingerprints
from strand.replaying.header import describe_handlers

pytestmark = pytest.mark.python


def of(ticks: Any, names: Any, handler: Any = "count", **options: Any) -> str:
    return strand.replay(order_feed(ticks, names), handler, **{"workers": 1, "cores": None, **options}).fingerprint


@pytest.fixture
def day() -> tuple[Any, tuple[str, ...]]:
    ticks, names = synthetic_day()
    return ticks.copy(), names


def an_order(ticks: Any) -> int:
    """The position of an added order in the middle of the day."""
    return int(np.flatnonzero(ticks["action"] == b"A")[500])


@pytest.mark.parametrize("field", ["ts_recv", "sequence", "size", "price"])
def test_a_changed_field_of_one_tick_that_the_handler_uses_is_another_fingerprint(day: Any, field: str) -> None:
    ticks, names = day
    before = of(ticks, names)
    # The tick that its symbol's row remembers: the last trade for price and size, else the last of all.
    key = ticks["instrument_id"][ticks["kind"] == 2][0]
    mine = ticks["instrument_id"] == key
    if field in ("size", "price"):
        mine &= ticks["kind"] == 2
    last = ticks[np.flatnonzero(mine)[-1] :][:1]
    last[field] = last[field] + 1
    assert of(ticks, names) != before


@pytest.mark.parametrize("field", ["action", "side", "price", "size", "order_id"])
def test_a_changed_field_of_one_order_is_another_fingerprint_of_the_books(day: Any, field: str) -> None:
    """Of an order that rests until the end: what became of others may leave no trace in the row."""
    ticks, names = day
    one = ticks[an_order(ticks) : an_order(ticks) + 1].copy()
    one["order_id"], one["price"], one["side"], one["size"] = 2**40, 10**9, b"B", 100
    later = np.concatenate([ticks, one, one])
    later["order_id"][-1] += 1
    before = of(later, names, "book")
    change = {"action": b"C", "side": b"A", "price": 2 * 10**15, "size": 999, "order_id": 2**40}
    at = -1 if field == "order_id" else -2
    if field == "size":
        later["price"][-2:] = 10**15  # the best bid, whose size the row shows
        before = of(later, names, "book")
    later[field][at] = change[field]
    assert of(later, names, "book") != before


def test_a_field_no_handler_uses_leaves_the_fingerprint_and_shows_in_that_of_the_input(day: Any) -> None:
    ticks, names = day
    runs = []
    for _ in range(2):
        runs.append(strand.replay(order_feed(ticks, names), "vwap", workers=1, fingerprint_every=1000).intervals)
        ticks["flags"][1500] ^= 1
    assert [i.fingerprint for i in runs[0]] == [i.fingerprint for i in runs[1]]
    assert [a.input == b.input for a, b in zip(*runs, strict=True)] == [True, *([False] * (len(runs[0]) - 1))]


def test_two_ticks_of_a_symbol_that_change_places_are_another_fingerprint(day: Any) -> None:
    ticks, names = day
    before = of(ticks, names)
    last = np.flatnonzero(ticks["instrument_id"] == ticks["instrument_id"][-1])[-2:]
    ticks[last] = ticks[last[::-1]]
    assert of(ticks, names) != before


def test_one_tick_more_is_another_fingerprint_though_the_row_is_the_same(day: Any) -> None:
    ticks, names = day

    @strand.batch_handler(state=[("n", "u8")])
    def nothing(symbol: str, ticks: Any, row: Any) -> None:
        pass

    assert of(ticks, names, nothing) != of(ticks[:-1], names, nothing)


def test_two_symbols_with_each_other_s_rows_are_another_fingerprint(day: Any) -> None:
    ticks, names = day
    a, b = np.unique(ticks["instrument_id"])[:2]
    swapped = list(names)
    swapped[a], swapped[b] = swapped[b], swapped[a]
    assert of(ticks, names) != of(ticks, swapped)


def test_how_symbols_are_numbered_does_not_matter(day: Any) -> None:
    ticks, names = day
    order = np.random.default_rng(3).permutation(len(names) + 7)  # with free numbers between
    again = ticks.copy()
    again["instrument_id"] = order[ticks["instrument_id"]]
    renamed = [""] * len(order)
    for i, name in enumerate(names):
        renamed[order[i]] = name
    results = [
        strand.replay(order_feed(t, n), "count", workers=1, fingerprint_every=700)
        for t, n in ((ticks, names), (again, renamed))
    ]
    assert results[0].fingerprint == results[1].fingerprint
    assert results[0].intervals == results[1].intervals


def test_one_row_s_one_byte_is_another_fingerprint(day: Any) -> None:
    ticks, names = day
    with Dispatcher(names, "count", workers=1) as d:
        d.publish(ticks)
    counts = np.bincount(ticks["instrument_id"], minlength=len(names))
    before = fingerprint_of_rows(d.rows, d.symbols, counts)
    assert before == of(ticks, names)
    d.rows.array["volume"][7] ^= 1
    assert fingerprint_of_rows(d.rows, d.symbols, counts) != before


def test_the_same_bytes_under_other_field_names_or_types_are_another_fingerprint(day: Any) -> None:
    ticks, names = day

    def tally(fields: Any) -> Any:
        def on_ticks(symbol: str, ticks: Any, row: Any) -> None:
            row[fields[0][0]] += len(ticks)

        return strand.batch_handler(state=fields)(on_ticks)

    made = [of(ticks, names, tally([field])) for field in (("n", "u8"), ("m", "u8"), ("n", "i8"))]
    assert len(set(made)) == 3


def test_padding_between_fields_is_left_out() -> None:
    inner = np.dtype([("a", "u1"), ("b", "u8")], align=True)
    dtype = np.dtype([("x", "u1"), ("y", "u8"), ("pair", inner, (2,)), ("z", "u2")], align=True)
    assert layout_of(dtype).itemsize == 1 + 8 + 2 * 9 + 2 < dtype.itemsize
    rows = np.zeros(3, dtype)
    rows.view(np.uint8)[:] = 0xAB
    again = np.zeros(3, dtype)
    for name in ("x", "y", "z"):
        again[name] = rows[name]
    again["pair"]["a"], again["pair"]["b"] = rows["pair"]["a"], rows["pair"]["b"]
    assert rows.tobytes() != again.tobytes()
    assert packed(rows).tobytes() == packed(again).tobytes() == b"\xab" * (3 * 29)


def test_symbols_without_a_tick_and_a_row_do_not_count(day: Any) -> None:
    ticks, names = day
    assert of(ticks, names) == of(ticks, [*names, "NEVER", "SEEN"])


def test_what_changed_adds_up_to_what_a_first_look_finds(day: Any) -> None:
    ticks, names = day
    with Dispatcher(names, "count", workers=1) as d:
        looked = RowBytes(d.rows)
        total, known = np.zeros(2, np.uint64), np.zeros((len(names), 2), np.uint64)
        counts = np.zeros(len(names), np.int64)
        for part in np.array_split(ticks, 7):
            d.publish(part)
            d.drain()
            counts += np.bincount(part["instrument_id"], minlength=len(names))
            touched = np.isin(np.arange(len(names)), part["instrument_id"])
            for at, digests in looked.changed(d.symbols, counts, touched):
                total += digest_sum(digests) - digest_sum(known[at])
                known[at] = digests
    assert fingerprint_of(total) == fingerprint_of_rows(d.rows, d.symbols, counts)


# ---- digests of streams


def test_an_output_s_digest_depends_on_its_records_in_order_and_not_on_pieces() -> None:
    records = np.zeros(100, [("sequence", "u8"), ("v", "f8")])
    records["sequence"], records["v"] = np.arange(100), np.sqrt(np.arange(100))

    def digest(*pieces: Any) -> bytes:
        made = OutputDigest(records.dtype)
        for piece in pieces:
            made.add(piece)
        assert made.records == sum(map(len, pieces))
        return made.digest()

    assert digest(records) == digest(*np.array_split(records, 9)) != digest(records[::-1])
    other = records.copy()
    other["v"][50] = np.nextafter(other["v"][50], 9)
    assert digest(other) != digest(records)
    assert OutputDigest(np.dtype([("a", "u8")])).digest() != OutputDigest(np.dtype([("b", "u8")])).digest()


def test_an_output_is_part_of_the_fingerprint_under_its_name() -> None:
    total, made = np.zeros(2, np.uint64), OutputDigest(np.dtype([("v", "u8")]))
    before = fingerprint_of(total, {"bars": made})
    assert len({fingerprint_of(total), before, fingerprint_of(total, {"signals": made})}) == 3
    made.add(np.zeros(1, [("v", "u8")]))
    assert fingerprint_of(total, {"bars": made}) != before


def test_input_digests_depend_on_each_symbol_s_ticks_in_order_and_not_on_numbers_or_pieces(day: Any) -> None:
    ticks, names = day
    keys = np.unique(ticks["instrument_id"]).tolist()

    def digests(ticks: Any, pieces: int) -> Any:
        running = Running()
        for piece in np.array_split(ticks, pieces):
            running.add(piece)
        return running.digests(names, keys)

    whole = digests(ticks, 1)
    assert (digests(ticks, 13) == whole).all()
    apart = ticks[np.argsort(ticks["instrument_id"], kind="stable")]
    assert (digests(apart, 1) == whole).all()
    mine = np.flatnonzero(ticks["instrument_id"] == keys[3])[4:6]
    ticks[mine] = ticks[mine[::-1]]
    assert np.flatnonzero((digests(ticks, 1) != whole).any(axis=1)).tolist() == [3]


# ---- at intervals


@pytest.mark.parametrize("batch", [1, 7, 1000, 10_000])
@pytest.mark.parametrize("workers", [0, 2])
def test_an_interval_is_the_run_that_ends_there_whatever_the_batches(day: Any, batch: int, workers: int) -> None:
    ticks, names = day
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
    tmp_path: Path, day: Any, way: dict[str, Any], written: bool
) -> None:
    ticks, names = day
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
    from strand.output.fingerprint import layout_of

    return layout_of(records.dtype)


def test_one_other_record_is_another_interval_though_rows_are_the_same(day: Any) -> None:
    ticks, names = day
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


def test_intervals_that_end_with_the_ticks_end_once(day: Any) -> None:
    ticks, names = day
    result = strand.replay(order_feed(ticks[:2000], names), "count", workers=1, fingerprint_every=500)
    assert [i.ticks for i in result.intervals] == [500, 1000, 1500, 2000]
    result = strand.replay(order_feed(ticks, names), "count", workers=1, fingerprint_every=500, limit=1200)
    assert [i.ticks for i in result.intervals] == [500, 1000, 1200]


def test_a_name_that_comes_late_counts_from_then_on(day: Any) -> None:
    ticks, names = day
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
def test_an_interval_is_a_number_of_ticks(day: Any, every: Any) -> None:
    with pytest.raises(ConfigurationError, match="fingerprint_every"):
        strand.replay(order_feed(*day), "count", fingerprint_every=every)


# ---- the file


@pytest.mark.parametrize("name", ["run.jsonl", "run.jsonl.gz"])
def test_a_file_holds_the_header_the_intervals_and_each_symbol_that_changed(
    tmp_path: Path, day: Any, name: str
) -> None:
    ticks, names = day
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


def test_the_text_of_what_runs_at_timers_and_the_end_is_part_of_a_handler_s_code() -> None:
    def on_tick(row, tick, ctx):  # type: ignore[no-untyped-def]
        row.n += 1

    def wake_once(row, time):  # type: ignore[no-untyped-def]
        row.n += 1

    def wake_twice(row, time):  # type: ignore[no-untyped-def]
        row.n += 2

    def finish_once(row):  # type: ignore[no-untyped-def]
        row.n += 1

    def finish_twice(row):  # type: ignore[no-untyped-def]
        row.n += 2

    def code(on_wake: Any, on_finish: Any) -> Any:
        like = strand.handler(state=[("n", "u8")], on_wake=on_wake, on_finish=on_finish)(on_tick)
        return describe_handlers({"*": like})["*"]["code"]

    assert code(wake_once, finish_once) == code(wake_once, finish_once) is not None
    assert len({code(wake, finish) for wake in (wake_once, wake_twice) for finish in (finish_once, finish_twice)}) == 4


def test_a_file_does_not_depend_on_workers_grouping_or_batches(tmp_path: Path, day: Any) -> None:
    ticks, names = day
    written = []
    for number, (workers, strands, batch) in enumerate([(0, "auto", 9999), (1, 1, 50), (3, "per-symbol", 1)]):
        path = tmp_path / f"{number}.jsonl"
        feed = order_feed(ticks, names, batches=batch)
        options = {"workers": workers, "strands": strands, "cores": None}
        strand.replay(feed, "count", fingerprint_every=777, fingerprints=path, **options)
        written.append(path.read_bytes().partition(b"\n")[2])
    assert written[0] == written[1] == written[2]


def test_a_file_without_intervals_holds_the_run_s_end(tmp_path: Path, day: Any) -> None:
    path = tmp_path / "run.jsonl"
    result = strand.replay(order_feed(*day), "count", workers=1, fingerprints=path)
    assert [i.fingerprint for i in read_fingerprints(path)] == [result.fingerprint]


def test_a_run_of_no_ticks_has_a_fingerprint_and_a_file(tmp_path: Path, day: Any) -> None:
    ticks, names = day
    path = tmp_path / "run.jsonl"
    result = strand.replay(
        order_feed(ticks[:0], names), "count", workers=1, fingerprint_every=5, fingerprints=path, allow_empty=True
    )
    assert [(i.ticks, i.fingerprint) for i in read_fingerprints(path)] == [(0, result.fingerprint)]


def test_a_feed_that_fails_leaves_a_file_that_says_so(tmp_path: Path, day: Any) -> None:
    path = tmp_path / "run.jsonl"
    with pytest.raises(TruncatedFeedError) as caught:
        strand.replay(
            order_feed(*day, error=TruncatedFeedError("cut", offset=7)),
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


def test_a_handler_that_fails_leaves_no_file(tmp_path: Path, day: Any) -> None:
    @strand.batch_handler(state=[("n", "u8")])
    def fails(symbol: str, ticks: Any, row: Any) -> None:
        raise ValueError("no")

    with pytest.raises(HandlerError):
        strand.replay(order_feed(*day), fails, workers=1, fingerprints=tmp_path / "run.jsonl")
    assert list(tmp_path.iterdir()) == []


def test_damaged_files_are_errors_that_name_the_line(tmp_path: Path, day: Any) -> None:
    path = tmp_path / "run.jsonl"
    strand.replay(order_feed(*day), "count", workers=1, fingerprint_every=1000, fingerprints=path)
    whole = path.read_bytes()
    lines = whole.splitlines(keepends=True)

    def read(data: bytes) -> None:
        path.write_bytes(data)
        list(read_fingerprints(path))

    read(whole)
    with pytest.raises(TruncatedFeedError, match="before its last line"):
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


def test_the_header_says_what_the_input_and_the_selection_were(tmp_path: Path) -> None:
    from strand.feeds.sample import sample_path

    path = tmp_path / "run.jsonl"
    strand.replay(
        sample_path(), "vwap", workers=1, symbols=["AAA*"], limit=500, position=3, start="2026-01-05T10:00:00Z",
        feed_options={"date": "2026-01-05"}, fingerprints=path,
    )  # fmt: skip
    header = read_fingerprints(path).header
    (source,) = header["source"]
    assert source["path"] == str(sample_path())
    assert source["size"] == sample_path().stat().st_size
    assert len(source["head"]) == 32
    assert header["selection"] == {
        "symbols": ["AAA*"], "limit": 500, "position": 3, "start": "2026-01-05T10:00:00Z",
    }  # fmt: skip
    assert header["feed_options"] == {"date": "2026-01-05"}
