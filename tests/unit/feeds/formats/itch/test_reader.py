"""ITCH files as feeds: names and dates, plain and gzip, whole, cut, corrupt, and left in the middle."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import itch_reference as ref
import numpy as np
import pytest
from bad_input import write_anew
from reading import read

from strand.errors import (
    TruncatedFeedError,
    UnknownFormatError,
)
from strand.feeds.formats.itch import ItchFeed, recognise
from strand.feeds.times import midnight_ns


@pytest.fixture
def data() -> bytes:
    return b"".join(ref.frame(body) for body in ref.every_type())


def write(folder: Path, content: bytes, name: str = "20190130.itch") -> Path:
    return write_anew(folder / name, content)


def expect(content: bytes, *, skip: bool = False) -> ref.Decoded:
    return ref.decode(content, midnight_ns(dt.date(2019, 1, 30)), skip=skip)


def test_the_option_beats_the_name_and_neither_is_said_plainly(tmp_path: Path, data: bytes) -> None:
    assert ItchFeed(write(tmp_path, data), date="2020-01-02").info.date == "2020-01-02"
    undated = ItchFeed(write(tmp_path, data, "undated"))
    assert undated.info.date is None
    assert "unknown" in undated.info.details["times_since"]
    np.testing.assert_array_equal(read(undated)[0], ref.decode(data).ticks)


def test_a_plain_file_equals_the_reference(tmp_path: Path, data: bytes) -> None:
    feed = ItchFeed(write(tmp_path, data))
    ticks, error = read(feed)
    assert error is None
    np.testing.assert_array_equal(ticks, expect(data).ticks)
    assert [feed.symbols[7], feed.symbols[13], feed.symbols[0]] == ["AAPL", "BRK.A", ""]
    counts = feed.statistics()
    assert counts["bytes_in"] == counts["bytes_out"] == counts["bytes_decoded"] == len(data)
    assert counts["messages"] == len(ref.every_type())
    assert all(type(value) is int for value in counts.values())


def test_batches_are_full_and_in_order_and_symbols_grow_with_them(tmp_path: Path) -> None:
    content = ref.frame(ref.directory(1, b"A")) + ref.deletes(10_000) + ref.frame(ref.directory(2, b"B"))
    feed = ItchFeed(write(tmp_path, content), batch_ticks=4096)
    assert len(feed.symbols) == 0
    sizes, known, order_ids = [], [], []
    for batch in feed.batches():
        assert batch.ctypes.data % 64 == 0
        sizes.append(len(batch))
        known.append(len(feed.symbols))
        order_ids += batch["order_id"].tolist()
    assert sizes == [4096, 4096, 10_000 - 8192]
    assert known == [2, 2, 3]
    assert list(feed.symbols) == ["", "A", "B"]
    assert order_ids == list(range(10_000))


def test_what_is_skipped_is_counted_by_reason_and_sampled(tmp_path: Path) -> None:
    bad = ref.frame(ref.message("A", 1, 2, 3, b"x", 4, b"AAPL    ", 5))
    content = ref.deletes(10) + bad * 20 + ref.frame(b"z" * 30) + ref.deletes(10) + b"\xff" + ref.deletes(5)
    feed = ItchFeed(write(tmp_path, content), on_bad_record="skip")
    for _ in range(2):
        ticks, error = read(feed)
        assert error is None
        assert len(ticks) == 25
        assert feed.skipped.counts == {"bad side": 20, "unknown type": 1, "bad length": 1}
        samples = [(sample.reason, sample.offset) for sample in feed.skipped.samples]
        assert samples[:2] == [("bad side", 210), ("bad side", 210 + len(bad))]
        assert len(samples) == 10


@pytest.mark.parametrize(
    "head",
    [
        b"",
        b"\0\0",
        b"\x93NUMPY\1\0",
        b"PK\3\4....",
        b"PAR1",
        b"DBN\3....",
        b"time,price\n",
        bytes(64),
        b"\0\x25A" + bytes(9),
    ],
)
def test_other_formats_are_not_recognised(tmp_path: Path, head: bytes) -> None:
    assert not recognise(head)
    with pytest.raises(TruncatedFeedError if head.startswith(b"PK") else UnknownFormatError):
        ItchFeed(write(tmp_path, head))


def test_itch_is_recognised_by_its_first_message(data: bytes) -> None:
    assert recognise(data[:16])
    assert recognise(ref.frame(ref.message("A", 1, 2, 3, b"B", 4, b"AAPL    ", 5), 0))
    assert not recognise(ref.frame(ref.message("S", 0, 86_400 * 10**9, b"O")))


# ---- The directory describes each stock; events of the whole market are reported


def test_the_directory_tells_what_each_stock_is(tmp_path: Path, data: bytes) -> None:
    feed = ItchFeed(write(tmp_path, data))
    assert feed.directory == {}
    read(feed)
    apple = feed.directory["AAPL"]
    assert (apple.locate, apple.market_category, apple.round_lot_size) == (7, "N", 100)
    assert (apple.subtype, apple.luld_tier, apple.etp_leverage, apple.inverse) == ("Z", "2", 0, "N")
    assert list(feed.directory) == ["AAPL", "BRK.A"]


def test_the_whole_markets_events_are_told(tmp_path: Path, data: bytes) -> None:
    feed = ItchFeed(write(tmp_path, data))
    read(feed)
    assert [(event.type, event.code, event.levels) for event in feed.market_events] == [
        ("S", "O", ()),
        ("V", "", (1, 2, 3)),
        ("W", "1", ()),
        ("S", "C", ()),
    ]
    assert feed.market_events[0].ts_ns == midnight_ns(dt.date(2019, 1, 30)) + 34_200_000_000_123
