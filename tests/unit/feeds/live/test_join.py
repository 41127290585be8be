"""Recorded files, and then the line: no message lost or twice, and what neither had is reported."""

from __future__ import annotations

import contextlib
import importlib
import json
import queue
import random
import resource
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import itch_reference as ref
import pytest
from command_here import run_here
from engine_support import wait_until
from kafka_mock import cluster, records
from kafka_mock import kafka as kafka_module
from mold_lines import DATE, listen, sender
from mold_wire import END, packet

import strand
from strand.binding.itch import ItchDecoder
from strand.binding.live import OUT_BYTES, Receiver, stamp
from strand.errors import ConfigurationError, FeedError, GapError
from strand.feeds import BaseFeed, FeedInfo, TickBatch, join
from strand.feeds import open as open_feed
from strand.feeds.base import LineNumbers
from strand.feeds.formats.recording import Recorder
from strand.feeds.live.options import Address
from strand.feeds.times import as_date
from strand.logs import EVENTS
from strand.ticks import KIND_QUOTE, KIND_TRADE, empty, zeros

pytestmark = pytest.mark.python
#: As many trials as a test draws; more for a longer look.
TRIALS = 100
NAMES = ["AAA", "BBB", "CCC"]


def message(n: int) -> bytes:
    """Message n of a session: names first, later a few that make no tick."""
    if n <= len(NAMES):
        return ref.directory(n, NAMES[n - 1].encode())
    if n % 17 == 0:
        return ref.directory(1 + n % 3, NAMES[n % 3].encode())
    return ref.message("A", 1 + n % 3, 1_000 + n, n, b"B", 100, NAMES[n % 3].ljust(8).encode(), 10_000)


def makes_a_tick(n: int) -> bool:
    return n > len(NAMES) and n % 17 != 0


class Line(BaseFeed):
    """A line from memory, by the receiver of MoldUDP64: packets as (line, first message, messages)."""

    locates = True

    def __init__(self, packets: list[tuple[int, int, int]], end: int, draw: random.Random | None = None) -> None:
        super().__init__()
        self._packets, self._end, self._draw = packets, end, draw
        self.receiver = Receiver(
            session=None, first_sequence=0, message_limit=0, gap_timeout_ns=1, request_after_ns=100_000,
            jump_window=1_000_000, stop_at_gap=False,
        )  # fmt: skip
        self._decoder = ItchDecoder(midnight_ns=0, skip=False)
        self.has_begun = threading.Event()

    @property
    def info(self) -> FeedInfo:
        return FeedInfo("moldudp64", "memory", date=DATE, ticks="orders")

    @property
    def symbols(self) -> list[str]:
        return self._decoder.symbols()

    @property
    def max_symbols(self) -> int:
        return 1 << 16

    @property
    def is_live(self) -> bool:
        return True

    def line_numbers(self) -> LineNumbers:
        first = self.receiver.first_sequence
        return LineNumbers(first or 0, self.receiver.counts()["next_sequence"] if first else 0, self.receiver.gaps())

    def frames(self) -> Iterator[tuple[memoryview, Any]]:
        now = 0
        for line, first, count in self._packets:
            now += 1_000_000
            yield self.receiver.take(line, packet(first, [message(first + n) for n in range(count)]), now, now)
            yield self.receiver.tick(now)
        if self._end:
            yield self.receiver.take(0, packet(self._end, [], count=END), now, now)
        complete = False
        while not complete:
            *made, complete = self.receiver.finish()
            yield made[0], made[1]

    def batches(self) -> Iterator[TickBatch]:
        out = empty(OUT_BYTES // 14 + 1)
        yield out[:0]
        for frames, runs in self.frames():
            made, _, _ = self._decoder.decode(frames, last=False, out=out)
            if made:
                stamp(out[:made], runs, 0)
                yield out[:made]
                self.has_begun.set()
            if self._draw is not None and self._draw.random() < 0.05:
                time.sleep(self._draw.random() / 2_000)


def packets_of(draw: random.Random, first: int, last: int, loss: float, lines: int) -> list[tuple[int, int, int]]:
    """The packets that came of a session's messages, in order, line A before B."""
    found = []
    while first <= last:
        count = min(draw.choice([1, 1, 2, 5, 20]), last + 1 - first)
        found += [(line, first, count) for line in range(lines) if draw.random() >= loss]
        first += count
    return found


def numbers_in(packets: list[tuple[int, int, int]]) -> set[int]:
    return {n for _, first, count in packets for n in range(first, first + count)}


def recorded(path: Path, packets: list[tuple[int, int, int]]) -> None:
    """Writes the recording that a listener of these packets leaves."""
    line = Line(packets, 0)
    with Recorder(path, as_date(DATE)) as recorder:
        for frames, runs in line.frames():
            if len(frames):
                recorder.write(frames, runs, 0)


class Grows(BaseFeed):
    """A recording that has more ticks each time that it is read. ``had``: the numbers of those that were read."""

    def __init__(self, whole: Any, draw: random.Random) -> None:
        super().__init__()
        self._whole, self._draw, self._to = whole, draw, draw.randint(1, len(whole))
        self.had: set[int] = set()

    @property
    def symbols(self) -> list[str]:
        return ["", *NAMES]

    @property
    def info(self) -> FeedInfo:
        return FeedInfo("npy", "memory", date=DATE, ticks="orders")

    def batches(self) -> Iterator[TickBatch]:
        to, at = self._to, 0
        self.had = set(self._whole["sequence"][:to].tolist())
        self._to = self._draw.randint(to, len(self._whole))
        while at < to:
            end = min(to, at + self._draw.choice([1, 3, 50]))
            yield self._whole[at:end]
            at = end


def ranges(numbers: set[int]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for n in sorted(numbers):
        if found and found[-1][1] == n:
            found[-1] = found[-1][0], n + 1
        else:
            found.append((n, n + 1))
    return found


def joined_ranges(found: list[tuple[int, int]]) -> list[tuple[int, int]]:
    return ranges({n for first, end in found for n in range(first, end)})


class OneOff(BaseFeed):
    """A recording that says wrong numbers."""

    def __init__(self, path: Path, by: int) -> None:
        super().__init__()
        self._feed, self._by = open_feed(path, date=DATE), by

    @property
    def info(self) -> FeedInfo:
        return self._feed.info

    @property
    def symbols(self) -> Any:
        return self._feed.symbols

    @property
    def max_symbols(self) -> int:
        return self._feed.max_symbols

    def batches(self) -> Iterator[TickBatch]:
        for batch in self._feed.batches():
            made = batch.copy()
            made["sequence"] = made["sequence"] + self._by
            yield made


def change(
    seed: int, folder: Path, off: int = 0
) -> tuple[list[int], list[int], list[tuple[int, int]], list[tuple[int, int]]]:
    """One change over: the numbers that came and those that should, the ranges that are reported and those that
    should."""
    draw = random.Random(seed)
    last = draw.randint(20, 300)
    to = draw.randint(4, last)
    from_ = max(4, min(last, to + draw.randint(-60, 6)))
    of_file = packets_of(draw, 1, to, draw.choice([0, 0, 0.02, 0.1]), 1)
    of_file = [(0, 1, 4), *(each for each in of_file if each[1] > 4)]
    of_line = packets_of(draw, from_, last, draw.choice([0, 0.05, 0.3]), draw.choice([1, 2]))
    path = folder / f"day{seed}.itch50"
    recorded(path, of_file)
    line = Line(of_line, last + 1, draw if seed % 2 else None)
    came = numbers_in(of_line)
    had = numbers_in(of_file)
    wait_s = 60.0
    if off:
        source, wait_s = OneOff(path, off), 0.01
    elif seed % 4 == 3:
        whole = open_feed(path, date=DATE).to_numpy()
        source: Any = Grows(whole, random.Random(seed))
        if min(came, default=0) > int(whole["sequence"][-1]) + 1:
            wait_s = 0.01
    else:
        source = open_feed(path, date=DATE)
        wait_s = 0.01 if min(came, default=0) > max(had) + 1 else wait_s
    with join(source, line, memory_bytes=draw.choice([1, 64, 10_000]), wait_s=wait_s) as feed:
        batches = iter(feed)
        assert len(next(batches)) == 0
        if came and seed % 5:
            line.has_begun.wait(60)
        found = [int(n) for batch in batches for n in batch["order_id"]]
        reported = joined_ranges(feed.gaps())
    if isinstance(source, Grows):
        had = source.had  # only ticks show its numbers: other messages are missing where the line has them not
    lost = set(range(min(had), last + 1)) - had - came  # the end of the session says how many there were
    if not seed % 5:  # what the recording lacks is not waited for while the line has not begun
        lost |= {n for first, end in reported for n in range(first, end) if n < max(had)} & came
    expected = [n for n in sorted((had | came) - lost) if makes_a_tick(n)]
    return found, expected, reported, ranges(lost)


@pytest.fixture(autouse=True)
def nothing_is_synced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thousands of small files, which no loss of power endangers."""
    monkeypatch.setattr("os.fsync", lambda _: None)


@pytest.mark.parametrize("part", range(10))
def test_a_change_over_loses_and_repeats_nothing_and_reports_what_nobody_had(part: int, tmp_path: Path) -> None:
    for seed in range(part * TRIALS, (part + 1) * TRIALS):
        found, expected, reported, lost = change(seed, tmp_path)
        assert found == expected, seed
        assert reported == lost, seed


def test_a_hole_is_filled_by_messages_that_are_being_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Slow(tempfile.SpooledTemporaryFile):  # type: ignore[type-arg]
        def write(self, data: Any) -> int:
            time.sleep(0.02)
            return super().write(data)

    monkeypatch.setattr("tempfile.SpooledTemporaryFile", Slow)
    recorded(tmp_path / "day.itch50", [(0, 1, 4), (0, 7, 20)])
    for _ in range(3):
        line = Line([(0, 4, 20), (0, 24, 17)], 41)
        with join(open_feed(tmp_path / "day.itch50", date=DATE), line, wait_s=60) as feed:
            batches = iter(feed)
            next(batches)
            wait_until(lambda: feed._arrivals.first > 0)
            found = [int(n) for batch in batches for n in batch["order_id"]]
        assert found == [n for n in range(4, 41) if makes_a_tick(n)]


@pytest.mark.parametrize("off", [-1, 1])
def test_a_join_one_message_too_early_or_too_late_would_be_seen(off: int, tmp_path: Path) -> None:
    found, expected, _, _ = change(1, tmp_path, off)
    assert found != expected
    assert (len(found) > len(set(found))) if off < 0 else (set(expected) - set(found))


def send(address: Address, packets: list[tuple[int, int, int]], last: int) -> None:
    with sender(address) as sent:
        for _, first, count in packets:
            sent(0, packet(first, [message(first + n) for n in range(count)]))
        for _ in range(3):
            sent(0, packet(last + 1, [], count=END))


@pytest.mark.parametrize("seed", range(3))
def test_a_line_of_sockets_goes_on_where_the_recording_ends(seed: int, tmp_path: Path) -> None:
    draw = random.Random(seed)
    of_line = packets_of(draw, 60, 300, 0.1, 1)
    recorded(tmp_path / "day.itch50", packets_of(draw, 1, 150, 0, 1))
    line = listen(gap_timeout_s=0.02)
    feed = join(tmp_path / "day.itch50", line)
    send(line.addresses[0], of_line, 300)
    result = strand.replay(feed, "count", workers=1)
    came = numbers_in(of_line) | set(range(1, 151))
    assert result.ticks == sum(map(makes_a_tick, came))
    assert {name: row["ticks"] for name, row in result.rows.items() if name} == {
        name: sum(makes_a_tick(n) and n % 3 == at for n in came) for at, name in enumerate(NAMES)
    }
    lost = ranges(set(range(1, 301)) - came)
    assert joined_ranges(feed.report()["gaps"]) == lost
    assert result.feed_statistics["gap_messages"] == 300 - len(came)
    assert ("missing messages" in [warning.kind for warning in result.warnings]) == bool(lost)


@contextlib.contextmanager
def sending(packets: list[tuple[int, int, int]], last: int) -> Iterator[str]:
    """The address at which a session comes again and again, until it is heard."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as bound:
        bound.bind(("127.0.0.1", 0))
        port = bound.getsockname()[1]
    is_over = threading.Event()

    def again() -> None:
        while not is_over.wait(0.05):
            send(Address("127.0.0.1", port), packets, last)

    thread = threading.Thread(target=again)
    thread.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        is_over.set()
        thread.join()


def test_the_command_plays_recordings_first_and_reports_what_neither_had(tmp_path: Path) -> None:
    path = tmp_path / "day.itch50"
    recorded(path, [(0, 1, 20)])
    with sending([(0, 15, 10), (0, 31, 10)], 40) as line:
        given = ("--line", line, "--after", str(path), "--date", DATE, "--handler", "count")
        done = run_here("listen", *given, "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["joined"]["gaps"] == [[25, 31]]
    assert told["joined"]["recorded_ticks"] == 16
    assert told["ticks"] == sum(makes_a_tick(n) for n in [*range(1, 25), *range(31, 41)])
    assert told["symbols"] == len(NAMES)


def test_the_job_of_a_day_so_far_gives_rows_and_gaps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[4] / "examples" / "jobs"))
    path = tmp_path / "day.itch50"
    recorded(path, [(0, 1, 20)])
    with sending([(0, 18, 10), (0, 31, 10)], 40) as line:
        rows, gaps = importlib.import_module("small_jobs").day_so_far_and_on(path, line, date=DATE)
    assert gaps == [(28, 31)]
    assert set(NAMES) <= set(rows["symbol"])


def test_a_recording_that_is_still_being_written_is_read_until_the_line_goes_on(tmp_path: Path) -> None:
    packets = packets_of(random.Random(1), 1, 200, 0, 1)
    of_file = Line(packets, 0)
    with Recorder(tmp_path / "day.itch50", as_date(DATE)) as recorder:
        made = [(frames.tobytes(), runs.copy()) for frames, runs in of_file.frames() if len(frames)]
        for frames, runs in made[:5]:
            recorder.write(memoryview(frames), runs, 0)

        def partial() -> Path | None:
            return next((p for p in tmp_path.glob(".*.partial") if p.stat().st_size), None)

        wait_until(lambda: partial() is not None)
        line = Line([each for each in packets if each[1] > 100], 201)
        begun = next(first for _, first, _ in packets if first > 100)
        path = partial()
        assert path is not None
        feed = join(path, line, wait_s=60)
        found: list[int] = []
        for batch in feed:
            found += batch["order_id"].tolist()
            if line.has_begun.is_set() and made[5:]:  # the recorder writes on up to the line's first message
                for frames, runs in made[5:]:
                    if int(runs["sequence"][0]) < begun:
                        recorder.write(memoryview(frames), runs, 0)
                del made[5:]
        feed.close()
    assert found == [n for n in range(1, 201) if makes_a_tick(n)]
    assert feed.gaps() == []


def test_a_gap_between_the_recording_and_the_line_is_reported_or_an_error_behind_all_before_it(tmp_path: Path) -> None:
    path = tmp_path / "day.itch50"
    recorded(path, [(0, 1, 20)])

    def line() -> Line:
        return Line([(0, 31, 5), (0, 36, 5)], 41)

    with pytest.raises(GapError, match=r"ends with message 20, and the line begins with 31") as error:
        strand.replay(join(path, line(), wait_s=0, on_gap="raise"), "count")
    assert error.value.gaps == ((21, 31),)
    assert error.value.partial.ticks == 16
    feed = join(path, line(), wait_s=0)
    assert strand.replay(feed, "count").ticks == 25
    assert feed.report()["gaps"] == [(21, 31)]


@pytest.fixture
def all_gaps(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    """The log lines of all gaps. Without this, a process logs 20 of them in ten seconds."""
    caplog.set_level("WARNING", "strand.feeds")
    monkeypatch.setattr(EVENTS["feed.gap"], "most", None)
    EVENTS["feed.gap"].take()  # those that were left out before
    return caplog


def test_holes_that_the_line_had_neither_are_told(tmp_path: Path, all_gaps: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "day.itch50"
    # The line brings 16, which the recording lacks, and comes too late for 5; both lack 9, 11 and 12.
    recorded(path, [(0, 1, 4), (0, 6, 3), (0, 10, 1), (0, 13, 3), (0, 17, 14)])
    line = Line([(0, 7, 2), (0, 10, 1), (0, 13, 20), (0, 36, 5)], 41)
    with join(open_feed(path, date=DATE), line, wait_s=60) as feed:
        batches = iter(feed)
        next(batches)
        line.has_begun.wait(60)
        found = [int(n) for batch in batches for n in batch["order_id"]]
    lost = {5, 9, 11, 12, 33, 34, 35}
    assert found == [n for n in range(1, 41) if makes_a_tick(n) and n not in lost]
    assert joined_ranges(feed.gaps()) == ranges(lost)
    (told,) = [record for record in all_gaps.records if getattr(record, "event", None) == "feed.gap"]
    assert told.getMessage() == "gap: messages 5, 9, 11 to 12 are neither in the recording nor on the line"
    assert (told.missing, told.symbol) == (4, None)


def test_a_recording_is_read_again_only_when_it_has_grown(tmp_path: Path) -> None:
    recorded(tmp_path / "whole.itch50", [(0, 1, 40)])
    data, path, looks = (tmp_path / "whole.itch50").read_bytes(), tmp_path / "day.itch50", 0

    class Counted(OneOff):
        @property
        def reads(self) -> list[str]:
            return [str(path)]

        def batches(self) -> Iterator[TickBatch]:
            nonlocal looks
            looks += 1
            yield from super().batches()

    path.write_bytes(data[: len(data) // 2])
    feed = join(Counted(path, 0), Line([(0, 41, 20)], 61), by="line", wait_s=60)
    empties, found = 0, []
    for batch in feed:
        found += batch["order_id"].tolist()
        empties += bool(found) and not len(batch)
        if empties == 20:
            path.write_bytes(data)
    feed.close()
    assert found == [n for n in range(1, 61) if makes_a_tick(n)]
    assert looks == 2


def test_files_of_another_day_than_the_line_are_refused(tmp_path: Path) -> None:
    recorded(tmp_path / "day.itch50", [(0, 1, 20)])
    with pytest.raises(
        ConfigurationError, match=r"recorded: its day is 2026-01-06, and that of the line is 2026-01-05"
    ):
        join(open_feed(tmp_path / "day.itch50", date="2026-01-06"), Line([], 0))


class OfSymbols(BaseFeed):
    """A line whose ticks have numbers by symbol."""

    def __init__(self, ticks: Any, names: list[str], error: Exception | None = None, batch: int = 7) -> None:
        super().__init__()
        self._ticks, self._names, self._error, self._batch = ticks, names, error, batch

    @property
    def info(self) -> FeedInfo:
        return FeedInfo("lines", "memory", ticks="plain")

    @property
    def symbols(self) -> list[str]:
        return self._names

    def batches(self) -> Iterator[TickBatch]:
        for at in range(0, len(self._ticks), self._batch):
            yield self._ticks[at : at + self._batch]
        if self._error is not None:
            raise self._error


def numbered(entries: list[tuple[int, int, int]]) -> Any:
    made = zeros(len(entries))
    made["instrument_id"], made["kind"], made["sequence"] = zip(*entries, strict=True)
    return made


@pytest.mark.parametrize("seed", range(20))
def test_numbers_of_symbols_join_each_symbol_where_it_ended(seed: int) -> None:
    draw, kinds = random.Random(seed), (KIND_TRADE, KIND_QUOTE)
    told, own, theirs = [], [0] * 6, []
    for _ in range(draw.randint(10, 200)):
        key = draw.randrange(6)
        own[key] += draw.randint(1, 4)
        told.append((key // 2, key % 2, own[key]))
    cut = draw.randint(1, len(told))
    begin = draw.randint(0, cut)
    mine = [(symbol, kinds[kind], n) for symbol, kind, n in told[:cut]]
    theirs = [(2 - symbol, kinds[kind], n) for symbol, kind, n in told[begin:]]  # the line numbers its symbols anew
    live = OfSymbols(numbered(theirs), ["C", "B", "A"]) if theirs else OfSymbols(zeros(0), ["C", "B", "A"])
    with join(OfSymbols(numbered(mine), ["A", "B", "C"]), live) as feed:
        found = [
            (feed.symbols[t["instrument_id"]], int(t["kind"]), int(t["sequence"])) for batch in feed for t in batch
        ]
    assert found == [("ABC"[symbol], kinds[kind], n) for symbol, kind, n in told]


def test_numbers_that_each_symbol_counts_show_what_is_missing_between_the_two() -> None:
    mine = numbered([(0, KIND_TRADE, 1), (1, KIND_TRADE, 7), (0, KIND_TRADE, 2)])
    theirs = numbered([(0, KIND_TRADE, 2), (1, KIND_TRADE, 8), (0, KIND_TRADE, 6), (0, KIND_TRADE, 7)])
    with join(OfSymbols(mine, ["A", "B"]), OfSymbols(theirs, ["A", "B"]), by="symbol") as feed:
        assert [int(n) for batch in feed for n in batch["sequence"]] == [1, 7, 2, 8, 6, 7]
    assert feed.report()["symbol_gaps"] == [("A", 3, 6)]
    assert feed.statistics()["gap_messages"] == 3


def test_the_bound_on_disk_counts_what_waits_and_not_what_was_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("strand.feeds.live.join._LEAST_FILE", 64)
    ticks = numbered([(0, KIND_TRADE, n) for n in range(1, 2_001)])
    taken, mine = threading.Semaphore(3), ticks[:1]

    class Paced(OfSymbols):
        def batches(self) -> Iterator[TickBatch]:
            for batch in super().batches():
                taken.acquire()  # three batches ahead of what was taken: something waits at all times
                yield batch

    with join(OfSymbols(mine, ["A"]), Paced(ticks, ["A"]), memory_bytes=1, disk_bytes=40 * 64) as feed:
        found: list[int] = []
        for batch in feed:
            found += batch["sequence"].tolist()
            for _ in range(len(batch)):
                taken.release()
            assert len(feed._arrivals._files) <= 40
    assert found == list(range(1, 2_001))
    assert 0 < feed.report()["most_bytes"] <= 40 * 64


def test_a_full_disk_ends_a_join_with_an_error_that_names_the_folder_and_the_cure() -> None:
    ticks = numbered([(0, KIND_TRADE, n) for n in range(1, 2_001)])
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (64 * 64, hard))  # what a disk without room answers, but for its number
    try:
        with (
            join(OfSymbols(ticks[:1], ["A"]), OfSymbols(ticks, ["A"]), memory_bytes=1) as feed,
            pytest.raises(FeedError, match=rf"in {tempfile.gettempdir()} .*TMPDIR .*memory_bytes="),
        ):
            for _ in feed:
                pass
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


class Told(OfSymbols):
    """A line of ITCH's kind that brings what the test hands it: ticks by their numbers, or a time."""

    def __init__(self, *brought: list[int] | int) -> None:
        super().__init__(zeros(0), ["A"])
        self._brought: queue.SimpleQueue[list[int] | int | None] = queue.SimpleQueue()
        self.handled: Callable[[], int] = lambda: 0
        self.came = 0
        for each in brought:
            self.put(each)

    def put(self, brought: list[int] | int | None) -> None:
        self._brought.put(brought)

    def stop(self) -> None:
        self.put(None)

    def follow(self, published: Callable[[], int], handled: Callable[[], int]) -> None:
        self.handled = handled

    def batches(self) -> Iterator[TickBatch]:
        while (brought := self._brought.get()) is not None:
            self.passed_ns = brought if isinstance(brought, int) else None
            yield numbered([(0, KIND_TRADE, n) for n in brought]) if isinstance(brought, list) else empty(0)
            self.came += 1


class Written(OfSymbols):
    """A recording that is longer each time that it is read."""

    def __init__(self, *parts: list[int]) -> None:
        super().__init__(zeros(0), ["A"])
        self._parts, self.reads_of = list(parts), 0

    def batches(self) -> Iterator[TickBatch]:
        self.reads_of += 1
        for part in self._parts[: self.reads_of]:
            yield numbered([(0, KIND_TRADE, n) for n in part])


def test_a_time_before_the_first_tick_of_the_line_does_not_end_a_recording_that_grows() -> None:
    line = Told(5_000)
    with join(Written([1, 2], [3, 4, 5]), line, by="line", wait_s=60) as feed:
        found: list[int] = []
        for batch in feed:
            found += batch["sequence"].tolist()
            if found == [1, 2] and line.came == 1:
                line.put([5, 6])
                line.put(None)
        assert found == [1, 2, 3, 4, 5, 6]
        assert feed.gaps() == []


def test_a_hole_that_fills_while_it_is_given_is_no_gap() -> None:
    line = Told([1, 2, 3])
    with join(Written([1, 9]), line, by="line", wait_s=0) as feed:
        batches, found = iter(feed), []
        next(batches)
        wait_until(lambda: line.came == 1)
        for batch in batches:
            found += batch["sequence"].tolist()
            if found == [1, 2, 3]:
                line.put([4, 5, 6, 7, 8, 9])
                line.put([10])
                wait_until(lambda: line.came == 3)
                line.put(None)
        assert found == list(range(1, 11))
        assert feed.gaps() == []


def test_ticks_of_one_message_in_two_batches_fill_a_hole(monkeypatch: pytest.MonkeyPatch) -> None:
    line = Told([1, 2], [2, 2], [2, 3])
    monkeypatch.setattr("strand.feeds.live.join._BATCH", 2)
    with join(Written([1, 3]), line, by="line") as feed:
        batches = iter(feed)
        next(batches)
        wait_until(lambda: line.came == 3)
        line.put(None)
        assert [n for batch in batches for n in batch["sequence"].tolist()] == [1, 2, 2, 2, 2, 3]


def test_a_hole_that_the_line_has_filled_is_no_gap_of_a_feed_that_ends_within_the_recording() -> None:
    line = Told([1, 2, 3, 4, 9])
    with join(Written([1, 4, 5, 8]), line, by="line", wait_s=0) as feed:
        batches, found = iter(feed), []
        next(batches)
        wait_until(lambda: line.came == 1)
        while len(found) < 4:
            found += next(batches)["sequence"].tolist()
        assert found == [1, 2, 3, 4, 5][: len(found)]
        assert (2, 4) not in feed.gaps()


@pytest.mark.parametrize("has_run", [False, True])
@pytest.mark.parametrize("by", ["line", "rising"])
def test_what_was_given_and_not_handled_is_not_told_as_handled(by: Any, has_run: bool) -> None:
    line, done = Told([1, 2, 3, 4]), 0
    with join(Written([1, 2]), line, by=by, wait_s=0) as feed:
        if has_run:
            feed.follow(lambda: done, lambda: done)
        found: list[int] = []
        for batch in feed:
            assert line.handled() == (4 if found == [1, 2, 3, 4] else 0)
            found += batch["sequence"].tolist()
            if len(batch):
                assert line.handled() == 0
            done = len(found)
            if found == [1, 2, 3, 4]:
                line.put(None)
        assert found == [1, 2, 3, 4]
        assert line.handled() == 4


def test_numbers_that_begin_anew_behind_the_change_over_are_given() -> None:
    theirs = [(0, KIND_TRADE, n) for n in (6, 7, 8, 1, 2)]
    live = OfSymbols(numbered(theirs), ["A"])
    with join(OfSymbols(numbered([(0, KIND_TRADE, 6), (0, KIND_TRADE, 7)]), ["A"]), live) as feed:
        assert [n for batch in feed for n in batch["sequence"].tolist()] == [6, 7, 8, 1, 2]
    assert feed.statistics()["repeated_ticks"] == 2


def timed(entries: list[tuple[int, int]], *, received: int | None) -> Any:
    """Trades of one symbol, by number and time; ``received``: how much later they came. None: nobody says when."""
    made = numbered([(0, KIND_TRADE, n) for n, _ in entries])
    made["ts_event"] = [time for _, time in entries]
    made["ts_recv"] = made["ts_event"] + (0 if received is None else received)
    return made


S = 1_000_000_000


@pytest.mark.parametrize("by", ["rising", "symbol"])
@pytest.mark.parametrize(
    ("theirs", "received", "given"),
    [
        # It began anew before the line was heard: the venue's times tell, or those of receipt that are much later.
        ([(1, 110), (2, 111), (3, 112)], 1, [1, 2, 3]),
        ([(1, 110), (2, 111), (3, 112)], None, [1, 2, 3]),
        # And while the line was heard: the number falls within it.
        ([(8, 99), (9, 100), (1, 101), (2, 102)], 1, [1, 2]),
        ([(8, 99), (9, 101), (1, 102), (2, 103)], None, [1, 2]),
        # A venue sends the latest trades again: the recording has them.
        ([(8, 99), (9, 100), (8, 99), (9, 100), (10, 101)], 1, [10]),
        # The line's clock is behind the recorder's, or before it.
        ([(8, 101), (9, 102), (10, 103)], None, [10]),
        ([(8, 97), (9, 98), (10, 99)], None, [10]),
    ],
)
def test_numbers_that_begin_anew_before_the_change_over_are_given_and_told(
    by: Any, theirs: list[tuple[int, int]], received: int | None, given: list[int], all_gaps: pytest.LogCaptureFixture
) -> None:
    mine = timed([(n, (91 + n) * S) for n in range(1, 10)], received=received)
    live = OfSymbols(timed([(n, time * S) for n, time in theirs], received=received), ["A"])
    with join(OfSymbols(mine, ["A"]), live, by=by) as feed:
        assert [n for batch in feed for n in batch["sequence"].tolist()] == [*range(1, 10), *given]
    assert feed.statistics()["repeated_ticks"] == len(theirs) - len(given)
    told = [record.getMessage() for record in all_gaps.records]
    assert told == (["gap: A: numbers begin anew with 1, behind 9"] if given[0] == 1 else [])
    assert feed.statistics()["begun_anew"] == len(told)


@pytest.mark.parametrize("by", ["rising", "symbol"])
@pytest.mark.parametrize("batch", [1, 2, 3, 100])
@pytest.mark.parametrize("begins", [0, 2, 4, 5])
def test_numbers_that_begin_anew_while_both_hear_the_line_come_once(
    by: Any, batch: int, begins: int, all_gaps: pytest.LogCaptureFixture
) -> None:
    whole = [(7, 97), (8, 98), (9, 99), (1, 100), (2, 101), (3, 102), (4, 103), (10, 104)]
    whole = [(n, time * S) for n, time in whole][: 7 if by == "symbol" else 8]
    mine, theirs = timed(whole[:6], received=1), timed(whole[begins:], received=1)
    with join(OfSymbols(mine, ["A"], batch=batch), OfSymbols(theirs, ["A"], batch=batch), by=by) as feed:
        assert [n for ticks in feed for n in ticks["sequence"].tolist()] == [n for n, _ in whole]
    assert feed.statistics()["repeated_ticks"] == 6 - begins
    assert not feed.report()["symbol_gaps"]
    assert not all_gaps.records


def test_a_run_warns_of_numbers_that_begin_anew_behind_its_recording() -> None:
    mine, theirs = timed([(7, S), (8, 2 * S)], received=1), timed([(1, 3 * S), (2, 4 * S)], received=1)
    result = strand.replay(join(OfSymbols(mine, ["A"]), OfSymbols(theirs, ["A"])), "count", workers=0)
    assert result.ticks == 4
    assert {warning.kind: warning.count for warning in result.warnings}["numbers begun anew"] == 1


@pytest.mark.parametrize("by", ["rising", "symbol"])
def test_symbols_that_have_numbers_of_their_own_are_none_of_a_line(by: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("strand.feeds.live.join._MOST_RANGES", 3)
    entries = [(symbol, KIND_TRADE, 1_000 * symbol + n) for n in range(1, 21) for symbol in range(2)]
    with join(
        OfSymbols(numbered(entries[:10]), ["A", "B"]), OfSymbols(numbered(entries[4:]), ["A", "B"]), by=by
    ) as feed:
        found = [int(n) for batch in feed for n in batch["sequence"]]
    assert found == [number for _, _, number in entries]


def test_an_error_of_the_line_comes_behind_all_ticks_before_it() -> None:
    mine, theirs = numbered([(0, KIND_TRADE, 1)]), numbered([(0, KIND_TRADE, 2)])
    with join(OfSymbols(mine, ["A"]), OfSymbols(theirs, ["A"], FeedError("broke"))) as feed:
        found: list[int] = []
        with pytest.raises(FeedError, match="broke"):
            for batch in feed:
                found += batch["sequence"].tolist()
    assert found == [1, 2]


def test_a_commit_within_a_join_leaves_out_what_waits_and_what_was_given_last() -> None:
    with cluster() as kafka:
        kafka.send("ticks", records(["A"], 100))
        mine = numbered([(0, KIND_TRADE, n) for n in range(1, 41)])
        live = kafka.feed("ticks", consumer_group="g", batch_messages=10, commit_s=600.0)
        with join(OfSymbols(mine, ["A"]), live) as feed:
            batches, found = iter(feed), 0
            next(batches)
            wait_until(lambda: live.statistics()["ticks"] == 100)
            live.commit()
            assert kafka.committed("ticks", "g") == [kafka_module.OFFSET_INVALID]
            for batch in batches:
                live.commit()
                (committed,) = kafka.committed("ticks", "g")
                assert committed <= found
                found += len(batch)
            assert found == 100
            live.commit()
            assert kafka.committed("ticks", "g") == [100]


def test_a_kafka_group_commits_only_what_was_handled_behind_the_recording() -> None:
    sent = records(["A"], 100)
    with cluster() as kafka:
        kafka.send("ticks", sent)
        mine = numbered([(0, KIND_TRADE, n) for n in range(1, 41)])
        live = kafka.feed("ticks", consumer_group="g", batch_messages=10, commit_s=0.01)
        result = strand.replay(join(OfSymbols(mine, ["A"]), live), "count", workers=1)
        assert result.ticks == 100
        assert result.feed_statistics["repeated_ticks"] == 40
        assert kafka.committed("ticks", "g") == [100]
