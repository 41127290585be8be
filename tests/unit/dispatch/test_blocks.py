"""Ticks in blocks, by all threads: the same as by one publisher, whatever the file, the threads and the faults."""

from __future__ import annotations

import gzip
import os
import random
import threading
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, Final

import alarms
import itch_reference
import numpy as np
import pytest
from engine_support import PAIR_ROW, balanced, native_halt
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

import strand
from strand import Dispatcher, native, replay
from strand.errors import ConfigurationError, FeedError, HandlerError, StoppedError, UnknownSymbolError
from strand.feeds.io import prefetch
from strand.feeds.sample import SAMPLE_DATE, sample_path
from strand.feeds.write.conversion import convert
from strand.ticks import zeros

#: A block of a file has 256 KiB, one of an array 8,192 ticks.
BLOCK: Final = 1 << 18
TICKS: Final = 400_000
#: More than any test takes.
READ_NS: Final = 10**15
#: Room for all ticks of a paused symbol.
LIMITS: Final = strand.Limits(capacity_ticks=TICKS, memory_bytes=1 << 28)
DAY: Final = {"feed_options": {"date": SAMPLE_DATE}, "timeline": False}


@pytest.fixture(scope="module")
def day(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twenty blocks and more of the sample, with its directory."""
    path = tmp_path_factory.mktemp("blocks") / "day.itch50"
    path.write_bytes(gzip.decompress(sample_path().read_bytes())[: 24 * BLOCK])
    return path


def frames(data: bytes) -> list[bytes]:
    found, at = [], 0
    while at + 2 < len(data) and at + 2 + int.from_bytes(data[at : at + 2], "big") <= len(data):
        found.append(data[at : at + 2 + int.from_bytes(data[at : at + 2], "big")])
        at += len(found[-1])
    return found


def what(result: strand.ReplayResult) -> tuple[Any, ...]:
    """All that must not depend on the way."""
    names = ("messages", "records", "bytes_decoded", "ticks", "not_selected")
    stats = {name: n for name, n in result.feed_statistics.items() if name in names}
    stats |= {name: n for name, n in result.feed_statistics.items() if name.startswith(("type_", "skipped"))}
    emitted = {name: np.asarray(output).tolist() for name, output in result.outputs.items()}
    rows = result.fingerprint, result.ticks_by_symbol.tolist(), emitted
    return result.ticks, rows, result.seen, result.skipped, stats


def both(path: Path, handler: Any = "count", workers: int = 2, **options: Any) -> tuple[Any, Any]:
    """A plain loop, and the same in blocks."""
    plain = replay(path, handler, workers=0, **DAY | options)
    for _ in range(20):
        blocks = replay(path, handler, workers=workers, cores=None, ingest="blocks", **DAY | options)
        # A worker that loses its core in the middle of a visit may keep all of so short a file from going in blocks.
        if blocks.statistics.handled_in_blocks:
            break
    return plain, blocks


@pytest.mark.parametrize("handler", ["count", "book", "vwap"])
@pytest.mark.parametrize("workers", [1, 2, 5])
def test_a_file_in_blocks_gives_what_a_plain_loop_gives(day: Path, handler: str, workers: int) -> None:
    plain, blocks = both(day, handler, workers)
    assert what(blocks) == what(plain)
    assert blocks.statistics.handled == blocks.statistics.accepted == blocks.ticks
    assert blocks.statistics.handled_in_blocks > 0


@pytest.mark.parametrize("replaced", [False, True])
def test_a_file_that_a_thread_reads_ahead_goes_over_to_blocks_if_its_path_is_still_that_file(
    day: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, replaced: bool
) -> None:
    plain = replay(day, "count", workers=0, **DAY)
    path, other = tmp_path / "day.itch50", tmp_path / "other.itch50"
    path.write_bytes(day.read_bytes())
    other.write_bytes(b"\0" * path.stat().st_size)
    # A plain file gets such a thread where there are more than two cores.
    cores = [*os.sched_getaffinity(0), 10_000, 10_001]
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(cores))
    monkeypatch.setattr(prefetch.Prefetch, "reading_ns", READ_NS)
    feed = strand.feeds.open(path, date=SAMPLE_DATE)
    begun = feed.reading  # type: ignore[attr-defined]

    def reading(**how: bool) -> Any:
        found = begun(**how)
        if replaced:
            other.replace(path)
        return found

    monkeypatch.setattr(feed, "reading", reading)
    result = replay(feed, "count", workers=1, cores=None, ingest="blocks", timeline=False)
    assert what(result) == what(plain)
    assert (result.statistics.handled_in_blocks > 0) == (not replaced)
    # What the thread read before counts too.
    assert result.feed_statistics["read_ns"] >= READ_NS


@pytest.mark.cells(1)
@pytest.mark.parametrize("form", ["parquet", "arrow", "npz"])
@pytest.mark.parametrize("handler", ["book", "bbo"])
def test_tables_and_arrays_on_disk_go_in_blocks_as_their_batches_and_give_what_a_plain_loop_gives(
    day: Path, form: str, handler: str, tmp_path: Path
) -> None:
    pytest.importorskip("pyarrow")
    path = tmp_path / f"day.{form}"
    convert(day, path, date=SAMPLE_DATE)
    plain, blocks = both(path, handler, feed_options={})
    assert what(blocks) == what(plain)
    assert blocks.fingerprint == replay(day, handler, **DAY).fingerprint
    assert blocks.statistics.handled_in_blocks > 0


def test_a_limit_within_a_block_is_exact(day: Path) -> None:
    for limit in (1, 60_000, 60_001, 99_999):
        plain, blocks = both(day, limit=limit)
        assert blocks.ticks == plain.ticks == limit
        assert what(blocks) == what(plain)


def test_what_changes_the_decoder_or_is_a_fault_ends_blocks_and_is_as_in_turn(day: Path, tmp_path: Path) -> None:
    """Directory messages, market events, new days, sizes of 0, unknown types and times that run backwards."""
    odd = [
        itch_reference.frame(itch_reference.directory(60_000, b"LATE")),
        itch_reference.frame(itch_reference.message("S", 0, 10**13, b"M")),
        itch_reference.frame(itch_reference.message("D", 1, 5, 77)),
        itch_reference.frame(itch_reference.message("P", 1, 10**13, 0, b"B", 0, b"ONE".ljust(8), 10_000, 9)),
        itch_reference.frame(itch_reference.message("L", 1, 10**13, b"MPID", b"ONE".ljust(8), b"Y", b"N", b"A")),
        b"\0\x0c" + b"?" * 12,
        itch_reference.frame(itch_reference.message("A", 1, 10**13, 9, b"?", 1, b"ONE".ljust(8), 1)),
        b"\xff\xff garbage of no frame",
    ]
    draw, all_frames = random.Random(3), frames(day.read_bytes())
    for turn in range(4):
        mixed = list(all_frames)
        for message in odd * (turn + 1):
            mixed.insert(draw.randrange(20_000, len(mixed)), message)
        path = tmp_path / f"{turn}.itch50"
        path.write_bytes(b"".join(mixed))
        plain, blocks = both(path, "book", feed_options={"date": SAMPLE_DATE, "on_bad_record": "skip"})
        assert what(blocks) == what(plain)
        assert blocks.skipped
        assert blocks.statistics.handled_in_blocks


#: Selections by symbol and time: the times are within the sample.
EARLY, NOON, LATER = (f"{SAMPLE_DATE}T{time}-05:00" for time in ("04:00", "10:36", "14:30"))


@pytest.mark.cells(1)
@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize(
    "selection",
    [
        {"symbols": ["AAA[A-M]*"]},
        {"start": NOON},
        {"end": LATER},
        {"symbols": ["*[A-W]", "AAATF"], "start": EARLY, "end": LATER},
    ],
)
def test_a_selection_is_judged_as_blocks_are_made(day: Path, workers: int, selection: dict[str, Any]) -> None:
    plain, blocks = both(day, "book", workers, **selection)
    assert what(blocks) == what(plain)
    assert plain.ticks > 80_000
    assert plain.feed_statistics["not_selected"]
    assert blocks.statistics.handled_in_blocks
    for limit in (plain.ticks // 2, plain.ticks - 1):
        plain_part, part = both(day, "count", workers, limit=limit, **selection)
        assert what(part) == what(plain_part)
        assert part.ticks == limit


def test_a_selection_meets_names_faults_and_sizes_of_0_where_the_plain_loop_meets_them(
    day: Path, tmp_path: Path
) -> None:
    all_frames, draw, in_blocks = frames(day.read_bytes()), random.Random(5), 0
    first = next(frame for frame in all_frames if frame[2:3] == b"R")
    known = int.from_bytes(first[3:5], "big")
    for turn in range(1, 5):
        mixed = list(all_frames)
        for n in range(turn):
            late = 60_000 + n
            name = (b"AA%d" % n) if n % 2 else b"ZZ%d" % n
            at = draw.randrange(20_000, len(mixed))
            mixed[at:at] = [
                itch_reference.frame(itch_reference.directory(late, name)),
                itch_reference.frame(itch_reference.message("D", late, 10**13, 7)),
                itch_reference.frame(itch_reference.message("L", late, 1, b"MPID", name.ljust(8), b"Y", b"N", b"A")),
                itch_reference.frame(itch_reference.message("P", known, 10**13, 0, b"B", 0, b"X".ljust(8), 10_000, 9)),
                itch_reference.frame(itch_reference.message("A", known, 10**13, 9, b"?", 1, b"X".ljust(8), 1)),
            ]
        path = tmp_path / f"{turn}.itch50"
        path.write_bytes(b"".join(mixed))
        options = {"feed_options": {"date": SAMPLE_DATE, "on_bad_record": "skip"}}
        for selection in ({"symbols": ["AAA[A-M]*"]}, {"symbols": ["Z*", "*[F-Z]"], "start": NOON}):
            plain, blocks = both(path, "count", **options, **selection)
            assert what(blocks) == what(plain)
            in_blocks += blocks.statistics.handled_in_blocks
        found = []
        for way in ({"workers": 0}, {"workers": 2, "cores": None, "ingest": "blocks"}):
            with pytest.raises(FeedError) as caught:
                replay(path, "count", symbols=["AAA*"], **DAY, **way)
            assert caught.value.partial is not None
            found.append((str(caught.value), what(caught.value.partial)))
        assert found[0] == found[1]
    assert in_blocks


def test_the_first_fault_is_raised_at_its_byte_with_all_ticks_before_it(day: Path, tmp_path: Path) -> None:
    data, all_frames = day.read_bytes(), frames(day.read_bytes())
    cut, bad = tmp_path / "cut.itch50", tmp_path / "bad.itch50"
    for end in (len(data) - 7, 9 * BLOCK + 1, 7 * BLOCK):
        cut.write_bytes(data[:end])
        whole = sum(map(len, frames(data[:end])))
        results = []
        for way in ({"workers": 0}, {"workers": 2, "cores": None, "ingest": "blocks"}):
            if whole == end:
                results.append(replay(cut, "count", **DAY, **way).ticks)
                continue
            with pytest.raises(FeedError, match=f"byte {whole}: ") as caught:
                replay(cut, "count", **DAY, **way)
            assert caught.value.partial is not None
            results.append((what(caught.value.partial), str(caught.value)))
        assert results[0] == results[1]
    at = sum(map(len, all_frames[:90_000]))
    bad.write_bytes(data[:at] + b"\0\x0c" + b"?" * 12 + data[at:])
    errors = []
    for way in ({"workers": 0}, {"workers": 2, "cores": None, "ingest": "blocks"}):
        with pytest.raises(FeedError) as caught:
            replay(bad, "count", **DAY, **way)
        assert caught.value.partial is not None
        errors.append((str(caught.value), what(caught.value.partial)))
    assert errors[0] == errors[1]


def changed(path: Path, c_handlers: Path, at: int, change: Callable[[], object]) -> tuple[str, strand.ReplayResult]:
    """A file in blocks that is changed when a symbol has so many ticks; what is said of it."""
    (halts, halt), found = native_halt(c_handlers, at, never_publishes=True), []

    def run() -> None:
        try:
            found.append(("", replay(path, halts, workers=2, cores=None, ingest="blocks", **DAY)))
        except FeedError as error:
            assert error.partial is not None
            found.append((str(error), error.partial))

    thread = threading.Thread(target=run)
    thread.start()
    while not halt[1] and thread.is_alive():
        time.sleep(0.001)
    change()
    halt[2] = 1
    thread.join()
    return found[0]


@pytest.mark.parametrize(
    ("begun", "shrunk"),
    [(0, 0.1), (0, 0.5), (0, 0.95), (0, None), (-5, None)],
    ids=["shrunk behind the blocks", "shrunk in the middle", "shrunk near its end", "grown", "grown within a frame"],
)
def test_a_file_that_shrinks_or_grows_while_it_is_read_gives_the_ticks_of_the_bytes_that_were_there(
    day: Path, tmp_path: Path, c_handlers: Path, begun: int, shrunk: float | None
) -> None:
    data, path = b"".join(frames(day.read_bytes())), tmp_path / "day.itch50"
    whole = data + frame("D", int.from_bytes(data[3:5], "big"), 10**14, 1) * 1_000
    path.write_bytes(b"".join(frames(data[: len(data) // 3])))
    at = int(replay(path, "count", workers=0, **DAY).ticks_by_symbol.max())

    def change() -> None:
        if shrunk is not None:
            os.truncate(path, int(len(data) * shrunk))
            return
        with path.open("ab") as file:
            file.write(whole[len(data) + begun :])

    for _ in range(20):
        path.write_bytes(data[: len(data) + begun])
        said, result = changed(path, c_handlers, at, change)
        if result.statistics.handled_in_blocks:
            break
    assert ("ends here now" in said) == (shrunk is not None)
    read = result.feed_statistics["bytes_decoded"]
    assert read == len(whole) if shrunk is None else read < len(data)
    path.write_bytes(whole[:read])
    sums = native(c_handlers, "on_sum", state=PAIR_ROW, never_publishes=True)
    assert result.rows.array.tobytes() == replay(path, sums, workers=0, **DAY).rows.array.tobytes()
    assert result.statistics.handled_in_blocks


def test_frames_that_lie_within_frames_fool_nobody(day: Path, tmp_path: Path) -> None:
    """Every delete has a reference number that reads as the beginning of a frame, of a later time than its own, so each
    guess may be wrong."""
    directory = b"".join(frame for frame in frames(day.read_bytes()) if frame[2:3] == b"R")
    locate = int.from_bytes(frames(directory)[0][3:5], "big")
    within = int.from_bytes(b"\0\x13D" + locate.to_bytes(2, "big") + b"\0\0\0", "big")
    path = tmp_path / "within.itch50"
    for shift in range(3):
        first = itch_reference.frame(itch_reference.message("E", locate, 1, 1, 1, 1)) * shift
        body = itch_reference.frame(itch_reference.message("D", locate, 10**8, within))
        path.write_bytes(directory + first + body * (6 * BLOCK // len(body)))
        plain, blocks = both(path)
        assert what(blocks) == what(plain)
        assert blocks.statistics.handled_in_blocks


#: Numbers of symbols that the directory names, and one among them that it leaves out.
NAMED: Final = 40
NAMELESS: Final = 17


def frame(kind: str, locate: int, time: int, *fields: Any) -> bytes:
    return itch_reference.frame(itch_reference.message(kind, locate, time, *fields))


@cache
def part(kind: str, seed: int, start: int) -> bytes:
    """Frames of a block and more.

    ``usual``: of several lengths. ``within``: each has a field that reads as the beginning of a frame, so that guesses
    succeed falsely. ``nameless``: no guess finds a frame. ``odd``: some are decoded in turn."""
    draw = random.Random(seed)
    named = [locate for locate in range(1, NAMED) if locate != NAMELESS]
    fool = int.from_bytes(b"\0\x13D" + named[0].to_bytes(2, "big") + b"\0\0\0", "big")
    found, size, time = [], 0, start
    while size < BLOCK + 999:
        time += draw.randrange(3)
        locate, order = draw.choice(named), draw.getrandbits(40)
        if kind == "within":
            found.append(frame("D", locate, time, fool))
        elif kind == "nameless":
            found.append(frame("E", NAMELESS, time, order, draw.randrange(1, 9), order))
        elif kind == "odd" and draw.random() < 0.001:
            found.append(b"\0\x0c" + b"?" * 12)
        elif draw.random() < 0.5:
            side = b"B" if draw.random() < 0.5 else b"S"
            found.append(frame("A", locate, time, order, side, 100, b"ONE".ljust(8), draw.randrange(1, 10**6)))
        else:
            found.append(frame("E", locate, time, order, draw.randrange(1, 9), order))
        size += len(found[-1])
    return b"".join(found)


parts = st.lists(
    st.tuples(st.sampled_from(["usual", "usual", "within", "nameless", "odd"]), st.integers(0, 2)),
    min_size=3,
    max_size=6,
)


def test_any_file_in_blocks_is_what_a_plain_loop_makes_of_it(tmp_path: Path, c_handlers: Path) -> None:
    """Files with faults at any byte, cut at any byte: frames lie across blocks' edges, at any distance from them."""
    in_blocks = 0

    @example({"made": [("within", n) for n in range(3)], "shift": 0}, {}, (3, "count"))
    @example({"made": [("usual", n % 3) for n in range(5)], "shift": 7}, {"without": 9}, (2, "bbo"))
    @example(
        {"made": [("usual", 0), ("within", 1), ("odd", 2), ("usual", 1)], "shift": 3}, {"limit": 49_999}, (2, "alarms")
    )
    @example({"made": [("usual", 0), ("nameless", 1), ("nameless", 2), ("usual", 1)], "shift": 1}, {}, (2, "count"))
    @given(
        st.fixed_dictionaries(
            {"made": parts, "shift": st.integers(0, 40)},
            optional={
                "faults": st.lists(st.tuples(st.floats(0, 1), st.integers(0, 255)), max_size=3),
                "cut": st.floats(0.3, 1),
            },
        ),
        st.fixed_dictionaries(
            {},
            optional={
                "limit": st.integers(1, 90_000),
                "without": st.integers(2, 30),
            },
        ),
        st.tuples(st.integers(1, 5), st.sampled_from(["count", "book", "vwap", "bbo", "alarms"])),
    )
    @settings(
        phases=[Phase.explicit, Phase.generate],
        max_examples=20,
        suppress_health_check=[HealthCheck.too_slow],
    )
    def compare(about: dict[str, Any], selection: dict[str, Any], how: tuple[int, str]) -> None:
        nonlocal in_blocks
        named = {n: f"S{n}".encode() for n in range(1, NAMED) if n != NAMELESS}
        names = [itch_reference.frame(itch_reference.directory(n, name)) for n, name in named.items()]
        # The first 16,384 ticks are decoded in turn: the directory comes then.
        data = bytearray(b"".join(names) + frame("D", 1, 1, 1) * (16_384 + about["shift"]))
        for number, (kind, seed) in enumerate(about["made"]):
            data += part(kind, seed, 10**7 * (number + 1))
        for place, value in about.get("faults", ()):
            data[int(place * (len(data) - 1))] = value
        path = tmp_path / "day.itch50"
        path.write_bytes(data[: int(about.get("cut", 1) * len(data))])
        found, (workers, handler) = [], how
        by: Any = alarms.in_c(c_handlers, 0x5DEECE66D) if handler == "alarms" else handler
        if every := selection.pop("without", 0):
            selection["symbols"] = [f"S{n}" for n in range(1, NAMED) if n % every and n != NAMELESS]
        for way in ({"workers": 0}, {"workers": workers, "cores": None, "ingest": "blocks"}):
            for skips in (False, True):
                options = {"date": SAMPLE_DATE} | ({"on_bad_record": "skip"} if skips else {})
                try:
                    result = replay(path, by, **selection, **DAY | {"feed_options": options}, **way)
                except (FeedError, UnknownSymbolError) as error:  # a fault may be in a symbol's name
                    partial = error.partial
                    found.append((str(error), None if partial is None else what(partial)))
                else:
                    found.append(("", what(result)))
                    in_blocks += result.statistics.handled_in_blocks
        assert found[:2] == found[2:]

    compare()
    assert in_blocks


@given(
    st.integers(1, 4_000),
    st.tuples(st.integers(32_768, 100_000), st.sampled_from([0.0, 1.1, 1.5, 3.0]), st.integers(0, 99)),
    st.lists(st.floats(0, 1), max_size=2),
    st.integers(1, 5),
)
@settings(max_examples=25)
def test_any_array_in_blocks_is_handled_up_to_its_first_bad_key_as_one_publisher_would(
    symbols: int, about: tuple[int, float, int], faults: list[float], workers: int
) -> None:
    """Keys out of range at any place."""
    n, skew, seed = about
    draw = np.random.default_rng(seed)
    keys = draw.zipf(skew, n).clip(1, symbols) - 1 if skew else draw.integers(0, symbols, n)
    ticks = ticks_of(keys.astype(np.uint32))
    bad = [int(place * (n - 1)) for place in faults]
    ticks["instrument_id"][bad] = symbols
    counts = np.bincount(keys[: min(bad, default=n)], minlength=symbols)
    found = []
    for ingest in ("publish", "blocks"):
        with Dispatcher(symbols, strand.handlers.spin(work=0), workers=workers, cores=None, ingest=ingest) as d:
            error = ""
            try:
                d.publish(ticks)
            except UnknownSymbolError as refused:
                error = str(refused)
            d.drain()
            balanced(d)
            found.append((error, d.statistics().handled, d.rows.array.tobytes()))
            assert d.rows.array["ticks"].tolist() == counts.tolist()
    assert found[0] == found[1]


def ticks_of(keys: np.ndarray[Any, Any]) -> Any:
    ticks = zeros(len(keys))
    ticks["instrument_id"], ticks["size"] = keys, 1
    ticks["sequence_low"] = np.arange(1, len(keys) + 1)
    return ticks


@pytest.mark.parametrize("symbols", [1, 7, 5_000])
def test_a_long_array_in_blocks_is_handled_once_and_in_order(symbols: int) -> None:
    keys = np.random.default_rng(5).zipf(1.3, TICKS).clip(1, symbols).astype(np.uint32) - 1
    ticks = ticks_of(keys)
    counts = np.bincount(keys, minlength=symbols)
    # The numbers of a symbol's ticks follow one another.
    first = np.concatenate(([0], np.cumsum(counts)[:-1]))
    order = np.argsort(keys, kind="stable")
    ticks["sequence_low"][order] = np.arange(TICKS) - np.repeat(first, counts) + 1
    for workers in (1, 3):
        with Dispatcher(symbols, strand.handlers.spin(work=0), workers=workers, cores=None, ingest="blocks") as d:
            d.publish(ticks)
            d.drain()
            rows = d.rows.array
            assert rows["ticks"].tolist() == rows["last_sequence"].tolist() == counts.tolist()
            assert not rows["broken"].any()
            assert d.statistics().handled == TICKS
            assert d.statistics().handled_in_blocks > 0
            balanced(d)


def test_a_key_out_of_range_is_refused_at_its_place_and_what_comes_before_it_is_handled(c_handlers: Path) -> None:
    sums = native(c_handlers, "on_sum", state=PAIR_ROW, never_publishes=True)
    for bad in (0, 1, 8_191, 8_192, 123_456):
        ticks = ticks_of(np.arange(TICKS, dtype=np.uint32) % 9)
        ticks["instrument_id"][bad] = 9
        with Dispatcher(9, sums, workers=2, cores=None, ingest="blocks") as d:
            with pytest.raises(UnknownSymbolError, match="9"):
                d.publish(ticks)
            d.drain()
            assert d.statistics().handled == bad


def test_ticks_behind_a_failure_wait_in_their_strand_and_come_in_order_after_a_release(c_handlers: Path) -> None:
    sums, symbols = native(c_handlers, "on_sum", state=PAIR_ROW, never_publishes=True), 11
    keys = np.arange(TICKS, dtype=np.uint32) % symbols
    ticks = ticks_of(keys)
    at = 150_000
    ticks["action"][at] = b"X"
    key = int(keys[at])
    options: dict[str, Any] = {"workers": 2, "cores": None, "on_error": "quarantine", "strands": "per-symbol"}
    with Dispatcher(symbols, sums, ingest="blocks", limits=LIMITS, **options) as d:
        d.publish(ticks)
        before, all_of_it = int((keys[:at] == key).sum()), int((keys == key).sum())
        while (s := d.statistics()).handled < TICKS - all_of_it + before:
            pass
        assert d.rows.array["ticks"].tolist() == [
            before if k == key else int((keys == k).sum()) for k in range(symbols)
        ]
        assert s.dropped["failed"] == 1
        assert s.pending == all_of_it - before - 1
        assert s.handled_in_blocks
        d.release(key)
        d.drain()
        assert int(d.rows.array["ticks"][key]) == all_of_it - 1
        balanced(d)


def test_a_failure_in_blocks_tells_how_many_ticks_its_symbol_had_before(c_handlers: Path) -> None:
    sums, symbols, at = native(c_handlers, "on_sum", state=PAIR_ROW, never_publishes=True), 90, 300_000
    ticks = ticks_of(np.arange(TICKS, dtype=np.uint32) % symbols)
    ticks["action"][at] = b"X"
    options: dict[str, Any] = {"workers": 2, "cores": None, "strands": "per-symbol"}
    with (
        pytest.raises(HandlerError, match=f"its tick {at // symbols + 1:,}"),
        Dispatcher(symbols, sums, ingest="blocks", **options) as d,
    ):
        d.publish(ticks)
        d.drain()


def test_a_failure_ends_a_replay_in_blocks_as_it_ends_a_plain_loop(day: Path, c_handlers: Path) -> None:
    fails = native(c_handlers, "on_fail", state=PAIR_ROW, never_publishes=True)
    found = []
    for way in ({"workers": 0}, {"workers": 2, "cores": None, "ingest": "blocks"}):
        with pytest.raises(HandlerError) as caught:
            replay(day, fails, **DAY, **way)
        found.append((caught.value.symbol, caught.value.sequence, str(caught.value)))
    assert found[0] == found[1]


def test_a_paused_symbol_makes_the_call_go_the_other_way_and_keeps_its_order(c_handlers: Path) -> None:
    sums = native(c_handlers, "on_sum", state=PAIR_ROW, never_publishes=True)
    ticks = ticks_of(np.arange(TICKS, dtype=np.uint32) % 5)
    options: dict[str, Any] = {"limits": LIMITS, "strands": "per-symbol"}
    with Dispatcher(5, sums, workers=1, cores=None, ingest="blocks", **options) as d:
        d.publish(ticks[:10])
        d.drain()
        d.pause(3)
        d.publish(ticks)
        assert d.statistics().handled_in_blocks == 0
        d.resume(3)
        d.drain()
        assert d.statistics().handled == TICKS + 10
        d.publish(ticks)
        d.drain()
        assert d.statistics().handled_in_blocks > 0
        balanced(d)


def test_blocks_that_cannot_be_are_refused_with_the_reason() -> None:
    for options, reason in (
        ({"policy": strand.Levels()}, "the policy orders strands"),
        ({"publisher_drains": False}, r"publishers may not run handlers \(publisher_drains=False\)$"),
        ({"on_full": "drop_newest"}, "on_full='block'"),
    ):
        with (
            pytest.raises(ConfigurationError, match=reason) as caught,
            Dispatcher(2, "count", workers=1, cores=None, ingest="blocks", **options) as d,
        ):
            d.publish(ticks_of(np.zeros(3, np.uint32)))
        assert caught.value.field == "ingest"
    with (
        pytest.raises(ConfigurationError, match="one native handler"),
        Dispatcher(
            2, strand.batch_handler(state=PAIR_ROW)(lambda symbol, ticks, row: None), workers=1, ingest="blocks"
        ) as d,
    ):
        d.publish(ticks_of(np.zeros(3, np.uint32)))


def test_blocks_are_refused_where_there_is_one_core_or_times_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = ticks_of(np.zeros(3, np.uint32))
    with pytest.raises(ConfigurationError, match="the handlers' times are measured by symbol"):
        replay(sample_path(), "count", date=SAMPLE_DATE, workers=1, cores=None, ingest="blocks", watch=1)
    core = min(os.sched_getaffinity(0))
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {core})
    with (
        pytest.raises(ConfigurationError, match="there is one core only"),
        Dispatcher(2, "count", workers=1, cores=None, ingest="blocks") as d,
    ):
        d.publish(ticks)


def test_a_run_says_which_way_its_ticks_took_why_and_what_bound_blocks(day: Path) -> None:
    plain, blocks = both(day)
    assert plain.statistics.ingest.way == "loop"
    assert plain.statistics.ingest.slots is None
    told = blocks.statistics.ingest
    assert (told.way, told.why, told.impossible) == ("blocks", "ingest='blocks' was given", None)
    assert told.blocks >= 10
    assert told.runs
    assert told.homes == 4 * 3
    assert 6 <= told.slots <= 32
    assert told.slots_used == told.lag_blocks == 0
    assert sum(told.shares.values()) == pytest.approx(1)
    assert min(told.shares.values()) >= 0
    assert 0 < told.busiest_home <= 1
    assert told.bound == ("busiest home" if told.busiest_home >= 0.9 else max(told.shares, key=told.shares.get))
    assert f"bound of blocks: {told.bound}" in told.said
    assert told.publish_ns is None  # nothing is compared
    assert 0 < told.blocks_ns * blocks.statistics.handled_in_blocks * 1e-9 < blocks.wall_s
    assert f" ({told.blocks_ns:.3g} ns a tick in blocks); " in told.said
    few = replay(day, "count", workers=1, cores=None, limit=1_000, **DAY).statistics.ingest
    assert (few.way, few.why, few.bound) == ("publish", "blocks are tried after 1,048,576 ticks", None)
    never = replay(day, "count", workers=1, cores=None, ingest="publish", **DAY).statistics.ingest
    assert (never.way, never.why, never.bound) == ("publish", "ingest='publish' was given", None)


def test_a_plain_loop_refuses_blocks(day: Path) -> None:
    with pytest.raises(ConfigurationError, match="one thread") as caught:
        replay(day, "count", workers=0, ingest="blocks", **DAY)
    assert caught.value.field == "ingest"


def test_what_makes_blocks_impossible_is_said_as_the_error_says_it(day: Path) -> None:
    options: dict[str, Any] = {"workers": 1, "cores": None, "policy": strand.Levels()}
    told = replay(day, "count", **options, **DAY).statistics.ingest
    assert told.impossible == "the policy orders strands"
    with pytest.raises(ConfigurationError) as caught:
        replay(day, "count", ingest="blocks", **options, **DAY)
    assert str(caught.value).endswith(told.why)


def test_a_long_array_is_chosen_by_two_costs_that_the_statistics_name() -> None:
    ticks = ticks_of(np.arange(TICKS, dtype=np.uint32) % 500)
    with Dispatcher(500, strand.handlers.spin(work=50), workers=1, cores=None) as d:
        for _ in range(8):
            d.publish(ticks)
        d.drain()
        told = d.statistics().ingest
    assert told.publish_ns is not None
    assert told.blocks_ns is not None
    cheaper = "blocks cost less" if told.blocks_ns < told.publish_ns else "publishing costs less"
    late = "" if cheaper.startswith(told.way) else " towards the end"
    assert told.why == f"{cheaper}, as measured{late}"
    assert told.shares["reading"] == 0  # of no file


def test_many_symbols_have_their_first_trial_of_blocks_later() -> None:
    """Its tables of all symbols would cost more than a short run can gain."""
    ticks = ticks_of(np.arange(1 << 19, dtype=np.uint32) % 200_000)
    with Dispatcher(200_000, strand.handlers.spin(work=50), workers=1, cores=None) as d:
        for _ in range(6):
            d.publish(ticks)
        d.drain()
        told = d.statistics().ingest
    assert (told.runs, told.why) == (0, "blocks are tried after 3,200,000 ticks")


def test_ticks_that_never_fit_blocks_are_no_trial_of_them() -> None:
    ticks = ticks_of(np.arange(1_000, dtype=np.uint32) % 50)
    with Dispatcher(50, "count", workers=1, cores=None, ingest="blocks") as d:
        d.publish(ticks)
        d.drain()
        told = d.statistics().ingest
    assert (told.way, told.runs, told.lag_blocks, told.homes) == ("publish", 0, None, None)
    assert told.why.startswith("ingest='blocks' was given, but nothing was fit for blocks: they take plain files")


def test_slots_homes_and_lag_are_seen_from_outside_while_a_home_is_slow() -> None:
    """One symbol has the ticks, so its home is behind while the others have nothing to do."""
    ticks = ticks_of(np.zeros(TICKS // 4, np.uint32))
    options: dict[str, Any] = {"workers": 1, "cores": None, "attachable": True, "name": "slow"}
    with Dispatcher(9, strand.handlers.spin(work=3_000), ingest="blocks", **options) as d:
        attached = strand.attach(os.getpid(), name="slow")
        assert attached.snapshot().ingest.window == ""
        seen = []
        thread = threading.Thread(target=d.publish, args=(ticks,))
        thread.start()
        while thread.is_alive():
            seen.append(attached.snapshot().ingest)
        thread.join()
        d.drain()
        now = attached.snapshot().ingest
        assert (now.homes, now.slots_used, now.lag_blocks) == (8, 0, 0)
        assert now == d.statistics().ingest
        assert now.busiest_home > 0.5
    told = [one for one in seen if one.lag_blocks]
    assert told
    assert all(1 <= one.lag_blocks <= 32 for one in told)


def test_a_stop_from_another_thread_ends_a_long_call_with_what_did_not_go_in(c_handlers: Path) -> None:
    sums = native(c_handlers, "on_sum", state=PAIR_ROW, never_publishes=True)
    ticks = ticks_of(np.arange(8 * TICKS, dtype=np.uint32) % 100)
    d = Dispatcher(100, sums, workers=2, cores=None, ingest="blocks").start()
    d.publish(ticks[:10])
    refused: list[int] = []

    def publish() -> None:
        try:
            while True:
                d.publish(ticks)
        except StoppedError as error:
            refused.append(len(getattr(error, "rejected", ())))

    thread = threading.Thread(target=publish)
    thread.start()
    while not d.statistics().handled_in_blocks:
        pass
    d.stop(drain=False)
    thread.join()
    s = d.statistics()
    assert s.accepted == s.handled + sum(s.dropped.values())
    assert refused
