"""Several files in blocks: what a plain loop makes of their merge, whatever the files, the threads and the faults."""

from __future__ import annotations

import os
import random
import signal
import struct
from functools import cache
from pathlib import Path
from typing import Any, Final
from zoneinfo import ZoneInfo

import alarms
import itch_reference
import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

import strand
from strand import replay
from strand.errors import FeedError
from strand.feeds.merge.days import DatedFeed
from strand.feeds.merge.feeds import merge_feeds
from strand.feeds.sample import SAMPLE_DATE

#: Files are decoded ahead by so many ticks, and a batch of the merge is too short to go in blocks as an array does.
READS: Final = {"date": SAMPLE_DATE, "batch_ticks": 4096}
MERGED: Final = 8192
NAMED: Final = 40
#: Additions that lead astray for one that leads back.
ASTRAY_FOR: Final = 300
#: Bytes that files of blocks have at least.
LONG: Final = 12 << 16


#: An order number that reads as the beginning of a frame, so that guesses succeed falsely.
FOOL: Final = b"\0\x13D\0\1\0\0\0"
#: Of additions: numbers that read as a frame which ends within the next addition, and as one which ends with its own.
ASTRAY, BACK = b"\0\x24C\0\1\0\0\0", b"\0\x17X\0\1\0\0\0"
ADD, EXECUTED, DELETED = struct.Struct(">HcHH6sQcI8sI"), struct.Struct(">HcHH6sQIQ"), struct.Struct(">HcHH6s8s")


@cache
def stream(files: int, sort: str) -> tuple[bytes, ...]:
    """Files that lie beside each other in time.

    ``apart``: each symbol is in one file. ``shared``: any is in any file. ``bursts``: of one file at a time. ``ties``:
    many ticks of one time. ``short``: the last file ends early. ``odd``: with messages that are decoded in turn.
    ``within``: whose frames hold frames. ``astray``: which hold frames of the same times, so that one that is taken for
    the next one leads astray for a while, and back to a true one.
    """
    draw = random.Random(f"{files} {sort}")
    names = b"".join(
        itch_reference.frame(itch_reference.directory(n, f"S{n}".encode()))
        for n in range(1, 999 if sort == "within" else NAMED)
    )
    found, time, file = [bytearray(names) for _ in range(files)], 10**9, 0
    count = 0
    end = LONG * (3 if sort == "astray" else 1) + draw.randrange(1 << 16)
    while min(map(len, found[: files - 1] if sort == "short" else found)) < end:
        time += draw.randrange(2) if sort == "ties" else draw.randrange(200)
        if sort != "bursts" or draw.random() < 0.002:
            file = draw.randrange(files)
        if sort == "short" and file == files - 1 and len(found[file]) > LONG * 3 // 4:
            continue
        locate = draw.randrange(1, NAMED)
        if sort == "apart":
            locate = locate // files * files + file
            locate = locate if 0 < locate < NAMED else file + files
        order = draw.getrandbits(40)
        if sort == "astray":
            # The side and the size of an addition are the low bytes of the time of the frame within it.
            time = max(time, ord("B") << 32)
        if sort == "within":
            # The time of a frame within two frames is that of the two.
            count, time = count + 1, (0x1344 << 16) + count // 100 + 1
            locate = count // 100 + 1
        if sort == "odd" and draw.random() < 0.00005:
            made = itch_reference.frame(itch_reference.directory(locate, f"S{locate}".encode()))
        elif sort == "astray":
            size, number = time & 0xFFFFFFFF, ASTRAY if draw.randrange(ASTRAY_FOR) else BACK
            about = time.to_bytes(6, "big"), int.from_bytes(number, "big")
            made = ADD.pack(36, b"A", locate, 0, *about, b"B", size, b"ONE     ", order % 9973 + 1)
        elif sort == "within":
            made = DELETED.pack(19, b"D", locate, 0, time.to_bytes(6, "big"), FOOL)
        elif order & 1:
            made = ADD.pack(
                36,
                b"A",
                locate,
                0,
                time.to_bytes(6, "big"),
                order,
                b"B" if order & 2 else b"S",
                100,
                b"ONE     ",
                order % 9973 + 1,
            )
        else:
            made = EXECUTED.pack(31, b"E", locate, 0, time.to_bytes(6, "big"), order, order % 8 + 1, order)
        found[file] += made
    return tuple(map(bytes, found))


SORTS: Final = (
    (2, "apart"),
    (2, "shared"),
    (3, "ties"),
    (4, "apart"),
    (2, "bursts"),
    (2, "short"),
    (2, "odd"),
    (2, "within"),
    (4, "astray"),
)


def written(folder: Path, data: Any) -> list[Path]:
    paths = [folder / f"part-{n}.itch50" for n in range(len(data))]
    for path, each in zip(paths, data, strict=True):
        path.write_bytes(each)
    return paths


def run(paths: list[Path], handler: Any, reads: Any = READS, merges: Any = None, **options: Any) -> Any:
    feeds = [strand.feeds.open(path, **reads) for path in paths]
    with merge_feeds(feeds, **{"batch_ticks": MERGED} | (merges or {})) as feed:
        return replay(feed, handler, timeline=False, **options)


def in_blocks(paths: list[Path], handler: Any, workers: int = 2, **options: Any) -> Any:
    """A run in blocks: on a busy machine, the first whose strands were idle in time."""
    for _ in range(20):
        result = run(paths, handler, workers=workers, cores=None, ingest="blocks", **options)
        if result.statistics.handled_in_blocks or result.outputs:
            break
    return result


def what(result: strand.ReplayResult) -> tuple[Any, ...]:
    """All that must not depend on the way."""
    emitted = {name: np.asarray(output).tolist() for name, output in result.outputs.items()}
    rows = result.fingerprint, result.ticks_by_symbol.tolist(), emitted
    stats = {name: n for name, n in result.feed_statistics.items() if name.startswith(("type_", "skipped", "disorder"))}
    skipped = dict(result.skipped.counts), sorted(map(str, result.skipped.samples))
    return result.ticks, rows, result.seen, stats, skipped, [str(each) for each in result.warnings]


@pytest.mark.cells(1)
@pytest.mark.parametrize("handler", ["count", "book", "vwap", "seconds", "alarms"])
@pytest.mark.parametrize(("files", "sort"), SORTS[:4])
def test_the_merge_of_files_in_blocks_is_that_of_a_plain_loop(
    tmp_path: Path, c_handlers: Path, handler: str, files: int, sort: str
) -> None:
    by: Any = handler
    if handler == "alarms":
        by = alarms.in_c(c_handlers, 0x5DEECE66D, emits=False)
    elif handler == "seconds":
        by = strand.handlers.bars(every="1s")
    paths = written(tmp_path, stream(files, sort))
    plain, blocks = run(paths, by, workers=0), in_blocks(paths, by)
    assert what(blocks) == what(plain)
    # Runs with outputs know the file of each record, and publish.
    assert (blocks.statistics.handled_in_blocks > 0) == (not plain.outputs)


def test_any_files_in_blocks_are_what_a_plain_loop_makes_of_their_merge(tmp_path: Path, c_handlers: Path) -> None:
    """Files with faults at any byte, the last one cut at any byte, and files that share symbols and times."""
    went_in_blocks = 0

    @example((2, "apart"), {}, (2, "count"))
    @example((2, "shared"), {"limit": 22_222}, (3, "book"))
    @example((2, "odd"), {"faults": [(1, 0.7, 0)]}, (1, "alarms"))
    @example((2, "bursts"), {"cut": 0.9}, (5, "vwap"))
    @example((2, "within"), {}, (2, "book"))
    @example((4, "astray"), {}, (2, "book"))
    @example((2, "bursts"), {"cut": 0.34}, (3, "vwap"))
    @example((2, "short"), {}, (2, "alarms"))
    @given(
        st.sampled_from(SORTS),
        st.fixed_dictionaries(
            {},
            optional={
                "limit": st.integers(8_000, 60_000),
                "faults": st.lists(
                    st.tuples(st.integers(0, 3), st.floats(0, 1), st.integers(0, 255)), min_size=1, max_size=3
                ),
                "cut": st.floats(0.3, 1),
            },
        ),
        st.tuples(st.integers(1, 5), st.sampled_from(["count", "book", "vwap", "alarms"])),
    )
    @settings(
        phases=[Phase.explicit, Phase.generate],
        max_examples=8,
        suppress_health_check=[HealthCheck.too_slow],
    )
    def compare(about: tuple[int, str], options: dict[str, Any], how: tuple[int, str]) -> None:
        nonlocal went_in_blocks
        files, sort = about
        data = [bytearray(each) for each in stream(files, sort)]
        for file, place, value in options.get("faults", ()):
            data[file % files][int(place * (len(data[file % files]) - 1))] = value
        del data[-1][int(options.get("cut", 1) * len(data[-1])) :]
        paths, (workers, handler) = written(tmp_path, data), how
        by: Any = alarms.in_c(c_handlers, 0x5DEECE66D, emits=False) if handler == "alarms" else handler
        limit = {"limit": options["limit"]} if "limit" in options else {}
        found = []
        for way in ({"workers": 0}, {"workers": workers, "cores": None, "ingest": "blocks"}):
            for skips, merges in (({}, {}), ({"on_bad_record": "skip"}, {"on_disorder": "keep"})):
                try:
                    result = run(paths, by, READS | skips, merges, **limit, **way)
                except FeedError as error:
                    found.append((str(error), error.partial and what(error.partial)[:3]))
                else:
                    # A merge decodes ahead of its end, and how far is not the same in blocks.
                    found.append(("", what(result)[:3] if limit else what(result)))
                    went_in_blocks += result.statistics.handled_in_blocks
        assert found[:2] == found[2:]

    compare()
    assert went_in_blocks


def test_a_fault_of_one_file_ends_the_merge_where_it_ends_that_of_a_plain_loop(tmp_path: Path) -> None:
    for file in range(2):
        data = [*stream(2, "apart")]
        data[file] = data[file][: len(data[file]) * 3 // 4] + b"\0\0" + data[file][len(data[file]) * 3 // 4 :]
        paths, found = written(tmp_path, data), []
        for way in ({"workers": 0}, {"workers": 2, "cores": None, "ingest": "blocks"}):
            with pytest.raises(FeedError) as raised:
                run(paths, "book", **way)
            assert raised.value.partial is not None
            found.append((str(raised.value), what(raised.value.partial)[:3]))
        assert found[0] == found[1]
        assert found[0][1][0] > 0


def test_a_time_ends_the_merge_within_a_block(tmp_path: Path) -> None:
    paths = written(tmp_path, stream(2, "shared"))
    until = str(np.datetime64(SAMPLE_DATE, "ns") + np.timedelta64(5 * 3600 * 10**9 + 10**9 + 3_000_000)) + "Z"
    plain, blocks = run(paths, "count", workers=0, until=until), in_blocks(paths, "count", until=until)
    assert what(blocks)[:3] == what(plain)[:3]
    assert 0 < plain.ticks < run(paths, "count", workers=0).ticks
    assert blocks.statistics.handled_in_blocks


@pytest.mark.parametrize("wanted", [1, 20_000])
def test_an_interrupt_leaves_a_beginning_of_the_merge(tmp_path: Path, wanted: int) -> None:
    paths, sent = written(tmp_path, stream(3, "apart")), []

    def progress(handled: int) -> None:
        if handled >= wanted and not sent:
            sent.append(handled)
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt) as raised:
        run(paths, "book", workers=2, cores=None, ingest="blocks", progress=progress)
    partial = raised.value.partial  # type: ignore[attr-defined]
    assert partial.ticks >= wanted
    plain = run(paths, "book", workers=0, limit=partial.ticks)
    assert what(partial)[:3] == what(plain)[:3]


def test_files_that_threads_read_ahead_go_over_to_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = written(tmp_path, stream(2, "apart"))
    plain = run(paths, "count", workers=0)
    # A plain file gets such a thread where there are more than two cores.
    cores = [*os.sched_getaffinity(0), 10_000, 10_001]
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(cores))
    blocks = in_blocks(paths, "count")
    assert what(blocks) == what(plain)
    assert blocks.statistics.handled_in_blocks


@pytest.mark.parametrize("merges", [{"reorder_ns": 5}, {"new_day": "file"}, {"venue_in_name": True}])
def test_merges_that_need_their_ticks_in_turn_get_them(tmp_path: Path, merges: dict[str, Any]) -> None:
    paths = written(tmp_path, stream(2, "shared"))
    plain = run(paths, "count", merges=merges, workers=0)
    for _ in range(20 if "venue_in_name" in merges else 1):
        blocks = run(paths, "count", merges=merges, workers=2, cores=None, ingest="blocks")
        assert what(blocks) == what(plain)
        if blocks.statistics.handled_in_blocks:
            break
    assert (blocks.statistics.handled_in_blocks > 0) == ("venue_in_name" in merges)


def test_a_merge_says_whether_its_files_or_only_its_batches_went_in_blocks(tmp_path: Path) -> None:
    paths, given = written(tmp_path, stream(2, "shared")), "ingest='blocks' was given"
    assert in_blocks(paths, "count").statistics.ingest.why == given
    told = in_blocks(paths, "count", merges={"reorder_ns": 5, "batch_ticks": 1 << 15}).statistics
    assert told.handled_in_blocks
    assert told.ingest.why == f"{given}, and only arrays went in blocks: no file was read in them"


@pytest.mark.parametrize("silent", [1, 4_000])
def test_dbn_files_of_two_days_in_blocks_begin_the_second_one_where_a_plain_loop_does(
    tmp_path: Path, silent: int
) -> None:
    """``silent``: so many records of the second file come at once, and then none for as long."""
    ref = pytest.importorskip("dbn_reference")
    step, half = 20_000, 14_000  # ns between two records, and records of each day and file
    midnight = ref.NOON - 8 * 3600 * 10**9  # in New York
    paths = []
    for file in range(2):
        names = {f"S{n}": [(*ref.ALL_DAYS, str(n))] for n in range(1 + 20 * file, 41)}
        records, body = [ref.metadata(3, names, dataset="XNAS.ITCH")], bytearray(ref.mbo())
        for n in range(-half, half):
            # The last instrument has one tick, long before midnight.
            burst = n % silent if file else 0
            time = midnight + (2 * (n - burst) + file) * step + burst
            struct.pack_into("<I", body, 4, 1 + 20 * file + (19 if n == -half // 2 else n * n % 19))
            struct.pack_into("<Q", body, 8, time)
            struct.pack_into("<Q", body, 40, time)
            records.append(bytes(body))
        paths.append(tmp_path / f"part-{file}.dbn")
        paths[-1].write_bytes(b"".join(records))
    found = []
    for way in [{"workers": 0}] + 20 * [{"workers": 2, "cores": None, "ingest": "blocks"}]:
        feeds = [strand.feeds.open(path, batch_ticks=4096) for path in paths]
        merge = merge_feeds(feeds, batch_ticks=MERGED, _dated=True)
        with DatedFeed(merge, ZoneInfo("America/New_York")) as feed:
            result = replay(feed, "book", timeline=False, **way)
        found.append(
            (result.ticks, result.fingerprint, result.ticks_by_symbol.tolist(), result.feed_statistics["days_cleared"])
        )
        if result.statistics.handled_in_blocks > half // 2:
            break
    assert len(found) > 1
    assert found[1:] == found[:1] * (len(found) - 1)
    assert found[0][3] == 22
    assert result.statistics.handled_in_blocks > half // 2
