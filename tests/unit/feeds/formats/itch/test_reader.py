"""ITCH files as feeds: names and dates, plain and gzip, whole, cut, corrupt, and left in the middle."""

from __future__ import annotations

import datetime as dt
import gzip
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import itch_reference as ref
import numpy as np
import pytest
from bad_input import write_anew
from reading import read, threads_that_read

from strand.errors import (
    ConfigurationError,
    FeedError,
    FormatError,
    TruncatedFeedError,
    UnknownFormatError,
)
from strand.feeds import Feed
from strand.feeds.formats.itch.reader import ItchFeed, recognise
from strand.feeds.io.streams import InflateLimits
from strand.feeds.merge.selected import SelectedFeed
from strand.feeds.selection import Selection
from strand.feeds.trading_day import midnight_ns


@pytest.fixture
def data() -> bytes:
    return b"".join(ref.frame(body) for body in ref.every_type())


@pytest.fixture(params=["isal igzip", "zlib"])
def inflater(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "zlib":
        monkeypatch.setitem(sys.modules, "isal", None)
    else:
        pytest.importorskip("isal")
    return str(request.param)


def write(folder: Path, content: bytes, name: str = "20190130.itch") -> Path:
    return write_anew(folder / name, content)


def expect(content: bytes, *, skip: bool = False) -> ref.Decoded:
    return ref.decode(content, midnight_ns(dt.date(2019, 1, 30)), skip=skip)


@pytest.mark.parametrize("bad", ["30.1.2019", "2019-02-30", 5, "1960-01-01"])
def test_a_date_that_is_none_is_refused(tmp_path: Path, data: bytes, bad: Any) -> None:
    with pytest.raises(ConfigurationError, match="date"):
        ItchFeed(write(tmp_path, data), date=bad)


def test_the_option_beats_the_name_and_neither_is_said_plainly(tmp_path: Path, data: bytes) -> None:
    assert ItchFeed(write(tmp_path, data), date="2020-01-02").info.date == "2020-01-02"
    undated = ItchFeed(write(tmp_path, data, "undated"))
    assert undated.info.date is None
    assert "unknown" in undated.info.details["times_since"]
    np.testing.assert_array_equal(read(undated)[0], ref.decode(data).ticks)


def test_it_is_a_feed(tmp_path: Path, data: bytes) -> None:
    feed = ItchFeed(write(tmp_path, data))
    assert isinstance(feed, Feed)
    assert feed.info.format == "itch50"
    assert feed.max_symbols == 65536


@pytest.mark.parametrize("options", [{"batch_ticks": 0}, {"batch_ticks": 5000}, {"on_bad_record": "ignore"}])
def test_options_that_cannot_work_are_refused_by_name(tmp_path: Path, data: bytes, options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(options))):
        ItchFeed(write(tmp_path, data), **options)


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


def test_reading_again_starts_anew_and_keeps_the_names(tmp_path: Path) -> None:
    feed = ItchFeed(write(tmp_path, ref.deletes(5_000) + ref.frame(ref.directory(7, b"AAPL"))), batch_ticks=4096)
    first, _ = read(feed)
    again = feed.batches()
    np.testing.assert_array_equal(next(again), first[:4096])
    assert feed.symbols[7] == "AAPL"
    assert feed.statistics()["ticks"] == 4096


def test_gzip_gives_the_same_ticks_and_names_its_inflater(tmp_path: Path, inflater: str) -> None:
    content = ref.deletes(200_000)
    feed = ItchFeed(write(tmp_path, gzip.compress(content, 1), "20190130.itch"))  # the name does not say gzip
    assert feed.info.details["inflater"] == inflater
    ticks, error = read(feed)
    assert error is None
    np.testing.assert_array_equal(ticks, expect(content).ticks)
    counts = feed.statistics()
    assert counts["bytes_out"] == len(content)
    assert counts["bytes_in"] == Path(feed.info.path).stat().st_size
    assert counts["read_ns"] > 0
    assert not threads_that_read()


def test_gzip_members_and_padding_make_one_stream(tmp_path: Path, data: bytes, inflater: str) -> None:
    content = data * 40
    members = b"".join(gzip.compress(content[at : at + 777]) for at in range(0, len(content), 777))
    ticks, error = read(ItchFeed(write(tmp_path, members + bytes(1000))))
    assert error is None
    np.testing.assert_array_equal(ticks, expect(content).ticks)


def test_a_gzip_bomb_is_refused(tmp_path: Path, inflater: str) -> None:
    bomb = write(tmp_path, gzip.compress(ref.frame(ref.message("D", 1, 2, 3)) * 400_000))
    ticks, error = read(ItchFeed(bomb, limits=InflateLimits(ratio_after_bytes=1 << 20)))
    assert isinstance(error, FormatError)
    assert "max_ratio = 200" in str(error)
    assert 0 < len(ticks) < 400_000
    ticks, error = read(ItchFeed(bomb, limits=InflateLimits(max_bytes=3 << 20)))
    assert isinstance(error, FormatError)
    assert "max_bytes" in str(error)
    assert read(ItchFeed(bomb))[1] is None  # below the size at which the ratio is looked at


@pytest.mark.parametrize("true_lengths", [True, False])
def test_a_file_cut_at_any_byte_gives_its_whole_messages_then_a_typed_error(
    tmp_path: Path, data: bytes, true_lengths: bool, one_in: Callable[[int], int]
) -> None:
    if not true_lengths:
        data = b"".join(ref.frame(body, 0) for body in ref.every_type())
    for cut in range(0, len(data), one_in(3)):
        path = write(tmp_path, data[:cut])
        if cut < 3:
            with pytest.raises(UnknownFormatError):
                ItchFeed(path)
            continue
        ticks, error = read(ItchFeed(path))
        expected = expect(data[:cut])
        np.testing.assert_array_equal(ticks, expected.ticks)
        assert (error is None) == (expected.error is None)
        if error is not None:
            assert isinstance(error, TruncatedFeedError)
            assert error.offset == expected.offset
            assert error.path == path


def test_a_fault_in_the_middle_comes_behind_every_tick_before_it(tmp_path: Path) -> None:
    good = ref.deletes(10_000)
    path = write(tmp_path, good + b"\0\x24" + b"zzz" + good)
    ticks, error = read(ItchFeed(path, batch_ticks=4096))
    assert len(ticks) == 10_000
    assert isinstance(error, FormatError)
    assert error.offset == len(good)
    assert str(path) in str(error)


def test_skipping_is_counted(tmp_path: Path) -> None:
    content = ref.deletes(10) + ref.frame(b"z" * 30) + ref.deletes(10)
    feed = ItchFeed(write(tmp_path, content), on_bad_record="skip")
    ticks, error = read(feed)
    assert error is None
    assert len(ticks) == 20
    assert feed.statistics()["skipped_unknown_type"] == 1


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


@pytest.mark.parametrize("symbols", [("S0001",), ("S*1", "S0002"), ("nobody",), (), ("[S]000?",)])
@pytest.mark.parametrize("times", [(None, None), (2_000, 9_000), (9_000, None), (None, 5)])
@pytest.mark.parametrize("directory_first", [True, False])
def test_a_selection_pushed_down_gives_what_masking_gives(
    tmp_path: Path, symbols: tuple[str, ...], times: tuple[int | None, int | None], directory_first: bool
) -> None:
    path = write(tmp_path, thirty_nine_symbols(directory_first))
    midnight = midnight_ns(dt.date(2019, 1, 30))
    select = Selection(symbols, *(None if at is None else midnight + at for at in times))
    expected, _ = read(SelectedFeed(ItchFeed(path), select))
    feed = ItchFeed(path, select=select, batch_ticks=4096)
    for _ in range(2):
        np.testing.assert_array_equal(read(feed)[0], expected)
        assert feed.statistics()["ticks"] + feed.statistics()["not_selected"] == 11_999


@cache
def thirty_nine_symbols(directory_first: bool) -> bytes:
    named = [ref.frame(ref.directory(i, f"S{i:04}".encode())) for i in range(1, 40)]
    parts = list(named) if directory_first else []
    for i in range(1, 12_000):
        locate = i % 39 + 1
        if i < 40 and not directory_first:
            parts.append(named[locate - 1])
        parts.append(ref.frame(ref.message("D", locate, i, i)))
    return b"".join(parts)


def test_files_that_cannot_be_read_are_feed_errors(tmp_path: Path) -> None:
    with pytest.raises(FeedError, match="No such file"):
        ItchFeed(tmp_path / "none")
    with pytest.raises(FeedError, match="is a directory"):
        ItchFeed(tmp_path)
    with pytest.raises(UnknownFormatError, match="empty"):
        ItchFeed(write(tmp_path, b""))


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


def test_the_real_sample_reads_the_same_plain_and_packed(tmp_path: Path, shared_data: Path, inflater: str) -> None:
    path = shared_data / "itch50" / "ex20101224.TEST_ITCH_50"
    if not path.exists():
        pytest.skip("no ITCH sample")
    plain = ItchFeed(path)
    ticks, error = read(plain)
    assert error is None
    assert plain.info.date == "2010-12-24"
    assert list(plain.symbols) == ["", "ALC", "BOB", "CHAR"]
    assert plain.statistics()["messages"] == 12_012
    packed = ItchFeed(write(tmp_path, gzip.compress(path.read_bytes()), path.name + ".gz"))
    np.testing.assert_array_equal(read(packed)[0], ticks)
