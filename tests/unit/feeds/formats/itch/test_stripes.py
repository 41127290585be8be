"""Selections of an ITCH file found in stripes: whatever the file is, all is as when it is decoded in turn."""

from __future__ import annotations

import gc
import os
import random
import threading
import time
from pathlib import Path
from typing import Any

import itch_reference as ref
import pytest
from bad_input import write_anew
from hypothesis import assume, example, given
from hypothesis import strategies as st
from reading import read, threads_that_read

from strand.errors import FeedError, TruncatedFeedError
from strand.feeds.base import Selection
from strand.feeds.formats import itch as reader
from strand.feeds.formats.itch import ItchFeed

STRIPE = 3_000
EVERYTHING = Selection(("*",))
COUNTS = {"bytes_in", "bytes_out", "read_ns", "read_blocked_ns", "wait_ns"}


@pytest.fixture(params=[1, 2, 3], ids=["alone", "two threads", "three threads"])
def striped(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Stripes are short, and worth it however small the file is."""
    make_striped(monkeypatch, request.param)
    return int(request.param)


def make_striped(monkeypatch: pytest.MonkeyPatch, threads: int) -> None:
    monkeypatch.setattr(reader, "worth_striping", lambda _: True)
    monkeypatch.setattr(reader, "thread_count", lambda: threads)
    monkeypatch.setattr(reader, "_STRIPE", STRIPE)
    monkeypatch.setattr(reader, "_IN_TURN", STRIPE)
    monkeypatch.setattr(reader, "_PIECE", 700)
    monkeypatch.setattr(reader, "_PATIENCE", 1_000)


def write(folder: Path, content: bytes) -> Path:
    return write_anew(folder / "20190130.itch", content)


def outcome(path: Path, select: Selection, on_bad_record: Any) -> tuple[Any, ...]:
    """All that can be seen of reading a file, but for how long it took."""
    feed = ItchFeed(path, select=select, on_bad_record=on_bad_record, batch_ticks=4096)
    ticks, error = read(feed.batches())
    counts = {name: count for name, count in feed.statistics().items() if name not in COUNTS}
    skipped = feed.skipped
    return (
        ticks.tobytes(), type(error), str(error), counts, list(feed.symbols), dict(skipped.counts), skipped.samples,
        feed.market_events, {name: str(entry) for name, entry in feed.directory.items()},
    )  # fmt: skip


def assert_the_same(path: Path, select: Selection, on_bad_record: str, threads: int) -> int:
    """Returns how many stripes were adopted."""
    adopted = 0
    with pytest.MonkeyPatch.context() as patch:
        in_turn = outcome(path, select, on_bad_record)
        make_striped(patch, threads)
        adopt = reader.ItchDecoder.adopt

        def counted(self: Any, *stripe: Any) -> bool:
            nonlocal adopted
            found = adopt(self, *stripe)
            adopted += found
            return found

        patch.setattr(reader.ItchDecoder, "adopt", counted)
        assert outcome(path, select, on_bad_record) == in_turn
    assert not threads_that_read()
    return adopted


@pytest.mark.cells(1)
@pytest.mark.parametrize("messages", [0, 1, 141, 142, 143, 144, 285, 286, 2_857, 20_000])
def test_a_file_of_any_length_is_the_same_each_time(tmp_path: Path, striped: int, messages: int) -> None:
    path = write(tmp_path, ref.frame(ref.directory(1, b"A")) + ref.deletes(messages))
    feed = ItchFeed(path, select=EVERYTHING)
    for _ in range(3):
        ticks, error = read(feed.batches())
        assert error is None
        assert ticks["order_id"].tolist() == list(range(messages))
        assert ticks["sequence"].tolist() == list(range(2, messages + 2))
        assert feed.statistics()["bytes_in"] == feed.statistics()["bytes_out"] == path.stat().st_size
    assert not threads_that_read()


@pytest.mark.parametrize("on_bad_record", ["raise", "skip"])
@pytest.mark.parametrize("threads", [1, 3])
def test_nearly_all_of_a_day_is_taken_in_stripes(tmp_path: Path, threads: int, on_bad_record: str) -> None:
    day = ref.frame(ref.directory(1, b"A")) + ref.frame(ref.directory(2, b"B"))
    body = b"".join(ref.frame(ref.message("D", 1 + i % 7 // 6, i, i)) for i in range(30_000))
    path = write(tmp_path, day + body)
    adopted = assert_the_same(path, Selection(("B",)), on_bad_record, threads)
    assert adopted > 0.9 * len(body) / STRIPE


@pytest.mark.parametrize("threads", [1, 3])
def test_events_of_the_market_are_taken_with_their_stripes(tmp_path: Path, threads: int) -> None:
    hours = b"".join(
        ref.deletes(700) + ref.frame(ref.message("S", 0, i, b"%c" % letter)) for i, letter in enumerate(b"OSQMEC")
    )
    path = write(tmp_path, ref.frame(ref.directory(1, b"A")) + ref.deletes(600) + hours + ref.deletes(100))
    size = path.stat().st_size
    assert assert_the_same(path, EVERYTHING, "raise", threads) > 0.8 * size / STRIPE
    with pytest.MonkeyPatch.context() as patch:
        make_striped(patch, threads)
        feed = ItchFeed(path, select=EVERYTHING)
        read(feed.batches())
    assert "".join(event.code for event in feed.market_events) == "OSQMEC"


def test_a_directory_entry_in_the_middle_counts_from_where_it_stands(tmp_path: Path) -> None:
    named = [ref.frame(ref.directory(locate, b"S%d" % locate)) for locate in range(1, 6)]
    content = b"".join(named[:2])
    for name in named[2:]:
        content += b"".join(ref.deletes(1, 4 if i % 10 == 0 else 1) for i in range(6_000)) + name
    path = write(tmp_path, content + ref.deletes(9_000, 4))
    assert assert_the_same(path, Selection(("S4",)), "raise", 3) > 10


KINDS = ("bits", "holes", "noise", "zero lengths", "a stream within", "sound")


def damaged(seed: int, kind: str) -> bytes:
    """A day of all types with what is found in no day."""
    chance = random.Random(seed)
    bodies = ref.every_type()
    frames = [ref.frame(ref.directory(locate, b"S%d" % locate)) for locate in range(1, 9)]
    while sum(map(len, frames)) < 12 * STRIPE:
        body = chance.choice(bodies) if chance.random() < 0.03 else ref.message("D", chance.randint(1, 9), 5, 5)
        frames.append(ref.frame(body, 0 if kind == "zero lengths" and chance.random() < 0.2 else None))
    content = bytearray(b"".join(frames))
    for _ in range(chance.randint(1, 6)):
        at = chance.randrange(len(content))
        if kind == "bits":
            content[at] ^= 1 << chance.randrange(8)
        elif kind == "holes":
            del content[at : at + chance.randint(1, 2 * STRIPE)]
        elif kind == "noise":
            content[at:at] = chance.randbytes(chance.randint(1, 600))
        elif kind == "a stream within":
            content[at:at] = bytes(2) + ref.deletes(300, 2)
    return bytes(content[: chance.randrange(len(content))] if chance.random() < 0.3 else content)


# The last read gives fewer bytes than are carried on, and the end is behind them.
@example(content=damaged(484, "holes"), on_bad_record="raise", symbols=("S1",), threads=1)
@given(
    content=st.builds(damaged, st.integers(0, 1 << 32), st.sampled_from(KINDS)),
    on_bad_record=st.sampled_from(["raise", "skip"]),
    symbols=st.sampled_from([("S1",), ("S*",), ("", "S3"), ("none",)]),
    threads=st.integers(1, 3),
)
def test_damaged_files_are_the_same(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, on_bad_record: str, symbols: Any, threads: int
) -> None:
    assume(reader.recognise(content[:64]))
    assert_the_same(write(tmp_path_factory.getbasetemp(), content), Selection(symbols), on_bad_record, threads)


def test_a_file_that_cannot_be_taken_in_stripes_is_soon_decoded_in_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = b"".join(ref.frame(ref.message("S", 0, i, b"Q")) + ref.deletes(3) for i in range(10_000))
    path = write(tmp_path, ref.frame(ref.directory(1, b"A")) + events)
    assert assert_the_same(path, EVERYTHING, "raise", 3) == 0
    make_striped(monkeypatch, 3)
    monkeypatch.setattr(reader, "_PATIENCE", 4)
    taken: list[int] = []
    take = reader.StripeDecoder.take
    monkeypatch.setattr(reader.StripeDecoder, "take", lambda *args, **named: (taken.append(1), take(*args, **named)))
    read(ItchFeed(path, select=EVERYTHING).batches())
    assert 0 < len(taken) <= 5 + 2 * 3


def test_a_file_that_shrinks_is_reported_behind_what_there_was(tmp_path: Path, striped: int) -> None:
    path = write(tmp_path, ref.deletes(200_000))
    batches = ItchFeed(path, batch_ticks=4096, select=EVERYTHING).batches()
    next(batches)
    os.truncate(path, 21 * 100_000)
    rest, error = read(batches)
    assert isinstance(error, TruncatedFeedError)
    assert "when it was opened" in str(error)
    assert error.offset == 21 * 100_000
    assert rest["order_id"].tolist() == list(range(4096, 100_000))
    assert not threads_that_read()


def test_closing_a_feed_ends_the_threads_that_read_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_striped(monkeypatch, 2)
    path = write(tmp_path, ref.deletes(200_000))
    feed = ItchFeed(path, batch_ticks=4096, select=EVERYTHING)
    batches = feed.batches()
    next(batches)
    assert threads_that_read()
    feed.close()
    assert not threads_that_read()
    with pytest.raises(FeedError, match="closed"):
        list(batches)
    feed = ItchFeed(path, batch_ticks=4096, select=EVERYTHING)
    for _ in feed.batches():
        break
    gc.collect()
    assert not threads_that_read()


@pytest.mark.parametrize("threads", [1, 2])
def test_closing_waits_for_the_stripes_under_way_and_wakes_who_waits_for_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, threads: int
) -> None:
    make_striped(monkeypatch, threads)
    entered, released = threading.Event(), threading.Event()
    take = reader.StripeDecoder.take

    def slow(*args: Any, **named: Any) -> None:
        entered.set()
        released.wait()
        assert args[1] >= 0
        take(*args, **named)

    monkeypatch.setattr(reader.StripeDecoder, "take", slow)
    feed = ItchFeed(write(tmp_path, ref.deletes(20_000)), select=EVERYTHING)
    caught: list[FeedError | None] = []
    waiting = threading.Thread(target=lambda: caught.append(read(feed.batches())[1]))
    waiting.start()
    entered.wait()
    closing = threading.Thread(target=feed.close)
    closing.start()
    while not feed._closed:
        time.sleep(0.001)
    released.set()
    closing.join()
    waiting.join()
    assert "closed" in str(caught[0])
    assert not threads_that_read()


def test_what_fails_in_a_thread_reaches_the_reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_striped(monkeypatch, 2)

    def fails(*_: Any, **__: Any) -> None:
        raise MemoryError("none left")

    monkeypatch.setattr(reader.StripeDecoder, "take", fails)
    with pytest.raises(MemoryError, match="none left"):
        read(ItchFeed(write(tmp_path, ref.deletes(20_000)), select=EVERYTHING).batches())
    assert not threads_that_read()
