"""DBN files against databento-dbn: every schema and version, names by day, cuts, flips and selections."""

from __future__ import annotations

import datetime as dt
import struct
from pathlib import Path
from typing import Any

import dbn_reference as ref
import numpy as np
import pytest
from bad_input import write_anew
from reading import names_of, read

import strand
from strand.errors import FormatError
from strand.feeds import Feed, Selection
from strand.feeds import open as open_feed
from strand.feeds.formats.dbn import DbnFeed, recognise
from strand.ticks import KIND_NONE, KIND_ORDER, KIND_QUOTE, KIND_TRADE, is_clear

pytest.importorskip("databento_dbn")
zstandard = pytest.importorskip("zstandard")

TODAY = dt.date(1970, 1, 1) + dt.timedelta(20_000)


def write(folder: Path, content: bytes, name: str = "a.dbn") -> Path:
    return write_anew(folder / name, content)


def one_name(version: int = 3, **changes: Any) -> bytes:
    return ref.metadata(version, {"ESH4": [(*ref.ALL_DAYS, "7")]}, **changes)


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("levels", [1, 3, 10])
def test_every_type_of_record_equals_the_librarys(tmp_path: Path, version: int, levels: int) -> None:
    data = one_name(version) + b"".join(ref.every_type(version))
    feed = DbnFeed(write(tmp_path, data), levels=levels)
    assert isinstance(feed, Feed)
    ticks, error = read(feed)
    assert error is None
    library = ref.by_library(data)
    assert feed.statistics()["records"] == len(library) == len(ref.every_type(version))
    np.testing.assert_array_equal(ticks, ref.ticks_of(library, {7: 0}, levels))
    assert (ticks["ts_recv"] > 0).all()


def test_records_whose_flags_cast_doubt_on_them_are_warnings(tmp_path: Path) -> None:
    flags = [0, 4, 128 | 4, 8, 32 | 8, 32 | 8 | 4, 12, 128, 255]
    orders = b"".join(ref.mbo(order=i, flags=each) for i, each in enumerate(flags, 1))
    path = write(tmp_path, one_name() + orders)
    library = [int(found.flags) for found in ref.by_library(path.read_bytes())]
    doubtful = {
        "doubtful books": sum(each & 4 != 0 for each in library),
        "doubtful times": sum(each & (8 | 32) == 8 for each in library),
    }
    result = strand.replay(path, "count", workers=0)
    assert {each.kind: each.count for each in result.warnings} == doubtful == {"doubtful books": 5, "doubtful times": 2}
    # Flags of status, imbalances, statistics and bars are constants of ours; quotes and trades have the record's.
    data = one_name() + b"".join(ref.every_type(3))
    feed = DbnFeed(write(tmp_path, data))
    ticks, _ = read(feed)
    prices = ticks[np.isin(ticks["kind"], (KIND_NONE, KIND_ORDER, KIND_QUOTE, KIND_TRADE))]
    assert feed.statistics()["doubtful_books"] == int(np.count_nonzero(prices["flags"] & 4))


def test_a_bars_ticks_taken_as_trades_give_the_bar_back(tmp_path: Path) -> None:
    bar = ref.record(0x21, struct.pack("<qqqqQ", 4, 9, 2, 5, 60))
    (ticks, _) = read(DbnFeed(write(tmp_path, one_name() + bar)))
    assert [ticks["price"][0], ticks["price"].max(), ticks["price"].min(), ticks["price"][-1]] == [4, 9, 2, 5]
    assert ticks["size"].sum() == 60
    assert set(ticks["ts_recv"].tolist()) == {ref.NOON + 60 * 10**9}


def test_the_sent_time_behind_each_record_is_passed_over(tmp_path: Path) -> None:
    bodies = [
        bytes([found[0] + 2]) + found[1:] + struct.pack("<Q", ref.NOON + 99)
        for found in ref.every_type(3)
        for _ in "ab"
    ]
    data = one_name(ts_out=True) + b"".join(bodies)
    ticks, error = read(DbnFeed(write(tmp_path, data)))
    assert error is None
    np.testing.assert_array_equal(ticks, ref.ticks_of(ref.by_library(data), {7: 0}))


@pytest.mark.parametrize(("version", "room", "kinds"), [(1, 22, 0), (2, 71, 1)])
def test_a_symbol_mapping_in_the_stream_counts_from_where_it_stands(
    tmp_path: Path, version: int, room: int, kinds: int
) -> None:
    kind = b"\1" * kinds
    body = kind + b"ES.c.0".ljust(room, b"\0") + kind + b"ESM4".ljust(room, b"\0")
    body += bytes(4 if version == 1 else 0) + struct.pack("<QQ", 0, ref.UNDEF_TIME)
    data = ref.metadata(version, {}) + ref.mbo() + ref.record(0x16, body) + ref.mbo() + ref.mbo(instrument=8)
    (mapping,) = (found for found in ref.by_library(data) if int(found.rtype) == 0x16)
    feed = DbnFeed(write(tmp_path, data))
    ticks, error = read(feed)
    assert error is None
    assert names_of(feed, ticks) == ["id:7", mapping.stype_out_symbol, "id:8"]
    chosen = DbnFeed(feed.info.path, select=Selection(("ES*",)))
    assert names_of(chosen, read(chosen)[0]) == ["ESM4"]


def test_more_instruments_than_there_is_room_for_are_an_error_with_the_place(tmp_path: Path) -> None:
    data = one_name()
    path = write(tmp_path, data + b"".join(ref.mbo(instrument=i) for i in range(7, 12)))
    ticks, error = read(DbnFeed(path, max_symbols=3))
    assert names_of(DbnFeed(path), ticks[:1]) == ["ESH4"]
    assert len(ticks) == 3
    assert isinstance(error, FormatError)
    assert error.offset == len(data) + 3 * 56
    assert "max_symbols" in str(error)


@pytest.mark.parametrize("batch_ticks", [1, 7, 4096])
def test_batches_are_full_whatever_their_size(tmp_path: Path, batch_ticks: int) -> None:
    data = one_name() + b"".join(ref.mbo(order=i) for i in range(10_000))
    sizes, orders = [], []
    for batch in DbnFeed(write(tmp_path, data), batch_ticks=batch_ticks).batches():
        assert batch.ctypes.data % 64 == 0
        sizes.append(len(batch))
        orders += batch["order_id"].tolist()
    assert orders == list(range(10_000))
    assert set(sizes[:-1]) == {batch_ticks}


def test_small_batches_of_deep_books_lose_nothing(tmp_path: Path) -> None:
    data = one_name() + b"".join(ref.every_type(3)) * 50
    whole, _ = read(DbnFeed(write(tmp_path, data), levels=10))
    for batch_ticks in (1, 5, 16):
        np.testing.assert_array_equal(read(DbnFeed(tmp_path / "a.dbn", levels=10, batch_ticks=batch_ticks))[0], whole)


@pytest.mark.parametrize(
    ("broken", "reason", "words"),
    [
        (ref.record(0x99, bytes(16)), "unknown type", "0x99"),
        (ref.record(0xA0, bytes(36)), "length not the type's", "52 bytes"),
        (ref.mbo(action=b"x"), "no action", "'x'"),
        (ref.mbo(side=b"\xff"), "no side", "0xff"),
    ],
)
def test_what_can_be_passed_over_is_named_or_counted(tmp_path: Path, broken: bytes, reason: str, words: str) -> None:
    start = one_name()
    path = write(tmp_path, start + ref.mbo() + broken + ref.mbo() + broken)
    ticks, error = read(DbnFeed(path))
    assert len(ticks) == 1
    assert isinstance(error, FormatError)
    assert error.offset == len(start) + 56
    assert words in str(error)
    feed = DbnFeed(path, on_bad_record="skip")
    ticks, error = read(feed)
    assert (len(ticks), error) == (2, None)
    assert dict(feed.skipped.counts) == {reason: 2}
    assert feed.skipped.samples[0].offset == len(start) + 56
    assert feed.statistics()["skipped_records"] == 2


@pytest.mark.parametrize("length", [0, 1, 3])
def test_a_length_that_cannot_be_ends_the_reading_either_way(tmp_path: Path, length: int) -> None:
    path = write(tmp_path, one_name() + ref.mbo() + bytes([length]) + bytes(100))
    for on_bad_record in ("raise", "skip"):
        ticks, error = read(DbnFeed(path, on_bad_record=on_bad_record))
        assert len(ticks) == 1
        assert isinstance(error, FormatError)


def test_it_is_recognised_by_content_and_counted_where_that_is_cheap(tmp_path: Path) -> None:
    import databento_dbn as dbn

    data = one_name(schema=dbn.Schema.MBO) + ref.mbo() * 3
    assert recognise(data[:4096])
    assert not recognise(b"DBNothing else")
    feed = open_feed(write(tmp_path, data, "a.csv"))
    assert feed.info.format == "dbn"
    assert feed.info.venue == "GLBX.MDP3"
    assert feed.info.date == TODAY.isoformat()
    assert isinstance(feed, DbnFeed)
    assert feed.count() == 3
    packed = DbnFeed(write(tmp_path, zstandard.compress(data), "a.dbn.zst"))
    assert packed.count() is None
    np.testing.assert_array_equal(read(packed)[0], read(feed)[0])


def test_real_files_of_every_schema_equal_the_librarys(shared_data: Path) -> None:
    files = [path for folder in ("dbn", "dbn-es") for path in sorted((shared_data / folder).glob("*.dbn*"))]
    files = [path for path in files if ".frag" not in path.name]
    assert files
    for path in files:
        raw = path.read_bytes()
        if raw.startswith(b"\x28\xb5\x2f\xfd"):
            raw = zstandard.ZstdDecompressor().stream_reader(raw, read_across_frames=True).read()
        library = ref.by_library(raw)
        feed = open_feed(path)
        ticks, error = read(feed)
        assert error is None
        assert feed.statistics()["records"] == len(library), path
        expected = ref.ticks_of(library, {}, 1)
        np.testing.assert_array_equal(ticks, expected, err_msg=str(path))
        if len(ticks) and "statistics" not in path.name:
            assert set(names_of(feed, ticks)) <= {"ESH1", "ESH4", "ESM4", "SPOT"}


def test_many_instruments_over_many_days_are_found_as_a_dictionary_would(tmp_path: Path) -> None:
    rng = np.random.default_rng(8)
    mappings: dict[str, list[tuple[dt.date, dt.date, str]]] = {}
    named: dict[tuple[int, int], str] = {}
    for day in range(4):
        ids = rng.permutation(3000)[:1500]
        for i, instrument in enumerate(ids.tolist()):
            name = f"N{i:04}"
            first = TODAY + dt.timedelta(day)
            mappings.setdefault(name, []).append((first, first + dt.timedelta(1), str(instrument)))
            named[day, instrument] = name
    places = [(int(rng.integers(4)), int(rng.integers(3000))) for _ in range(20_000)]
    midnight = ref.NOON - ref.DAY // 2
    data = ref.metadata(3, mappings) + b"".join(
        ref.mbo(instrument=instrument, received=midnight + day * ref.DAY + order % 7, order=order)
        for order, (day, instrument) in enumerate(places)
    )
    feed = DbnFeed(write(tmp_path, data))
    ticks, error = read(feed)
    assert error is None
    ticks = ticks[~is_clear(ticks)]  # names go over to other ids each day
    assert ticks["order_id"].tolist() == list(range(20_000))
    assert names_of(feed, ticks) == [named.get(place, f"id:{place[1]}") for place in places]
