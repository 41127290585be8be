"""Arrays in .npy and .npz files come back as the ticks they are, or are refused with the place that is wrong."""

from __future__ import annotations

import gzip
import importlib
import io
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bad_input import write_anew
from reading import ticks_of

from strand import TICK, UNDEF_PRICE
from strand.errors import ConfigurationError, FeedError, FormatError, TruncatedFeedError
from strand.feeds import open as open_feed
from strand.feeds.formats.npy import NpyFeed
from strand.feeds.sample import SAMPLE_DATE, sample_path
from strand.feeds.write.conversion import convert
from strand.feeds.write.npy import write_npy
from strand.ticks import zeros

pytestmark = pytest.mark.python


def some_ticks(count: int, symbols: int = 7) -> np.ndarray:
    ticks = np.frombuffer(np.random.default_rng(count).bytes(64 * count), TICK).copy()
    ticks["instrument_id"] %= symbols
    return ticks


def save(path: Path, array: np.ndarray) -> Path:
    np.save(path, array)
    return path


def test_batches_of_ticks_are_views_of_the_file_and_not_copies(tmp_path: Path) -> None:
    write_npy(tmp_path / "a.npz", some_ticks(10))
    (batch,) = NpyFeed(tmp_path / "a.npz").batches()
    assert not batch.flags.writeable
    assert not batch.flags.owndata


def test_names_travel_in_an_npz_and_bound_the_keys(tmp_path: Path) -> None:
    names = [f"S{i}" for i in range(7)]
    write_npy(tmp_path / "a.npz", some_ticks(50), names)
    assert list(NpyFeed(tmp_path / "a.npz").symbols) == names
    feed = NpyFeed(tmp_path / "a.npz", symbols=names[:3])
    with pytest.raises(
        FormatError, match=r"byte \d+: record \d+: instrument_id is \d+, and the symbol table ends at 2"
    ):
        ticks_of(feed)


@pytest.mark.parametrize("packing", ["gzip", "bz2", "lzma", "zstd"])
def test_a_packed_npy_is_recognised_streamed_and_equal(tmp_path: Path, packing: str) -> None:
    ticks = some_ticks(1000)
    np.save(plain := io.BytesIO(), ticks)
    if packing == "zstd":
        packed = pytest.importorskip("zstandard").ZstdCompressor().compress(plain.getvalue())
    else:
        packed = importlib.import_module(packing).compress(plain.getvalue())
    (tmp_path / "20260105.npy.packed").write_bytes(packed)
    feed = open_feed(tmp_path / "20260105.npy.packed", batch_ticks=33)
    assert isinstance(feed, NpyFeed)
    assert feed.info.details["packed"] == packing.replace("lzma", "xz")
    assert (feed.count(), feed.max_symbols) == (1000, 7)
    assert ticks_of(feed).tobytes() == ticks.tobytes()
    assert np.concatenate([b.copy() for b in feed.batches_from(967)]).tobytes() == ticks[967:].tobytes()


def test_a_packed_npy_that_is_cut_gives_what_there_is_or_says_why_not(tmp_path: Path) -> None:
    np.save(plain := io.BytesIO(), some_ticks(20))
    packed = gzip.compress(plain.getvalue())
    given = set()
    for cut in range(2, len(packed)):
        write_anew(tmp_path / "a.npy.gz", packed[:cut])
        got = 0
        with pytest.raises(TruncatedFeedError):
            for batch in NpyFeed(tmp_path / "a.npy.gz", max_symbols=7).batches():
                got += len(batch)
        given.add(got)
    assert given == set(range(21))


def test_faults_behind_a_packed_array_of_nothing_are_found(tmp_path: Path) -> None:
    np.save(plain := io.BytesIO(), some_ticks(0))
    packed = gzip.compress(plain.getvalue())
    for damaged in (packed[:-1], packed[:-8], packed + b"garbage!!"):
        (tmp_path / "a.npy.gz").write_bytes(damaged)
        with pytest.raises(FeedError, match="gzip data"):
            ticks_of(NpyFeed(tmp_path / "a.npy.gz", max_symbols=7))


EVENT = ", ".join(
    f"('{name}', '{kind}')"
    for name, kind in zip(
        ("ev", "exch_ts", "local_ts", "px", "qty", "order_id", "ival", "fval"),
        ("<u8", "<i8", "<i8", "<f8", "<f8", "<u8", "<i8", "<f8"),
        strict=True,
    )
)


def test_opening_an_archive_of_ones_own_takes_no_more_than_it_holds(tmp_path: Path) -> None:
    convert(sample_path(), tmp_path / "a.npz", limit=10, feed_options={"date": SAMPLE_DATE})
    NpyFeed(tmp_path / "a.npz").close()  # whatever that imports
    tracemalloc.start()
    try:
        NpyFeed(tmp_path / "a.npz").close()
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


def test_a_key_from_damage_does_not_make_a_table_of_its_size(tmp_path: Path) -> None:
    ticks = zeros(9)
    ticks["instrument_id"][5] = 4_000_000_000
    write_npy(tmp_path / "a.npy", ticks)
    place = (tmp_path / "a.npy").stat().st_size - 4 * 64
    with pytest.raises(FormatError, match=f"byte {place}: record 6: instrument_id is 4000000000"):
        NpyFeed(tmp_path / "a.npy")


def test_the_array_to_read_is_found_or_named(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=some_ticks(3), y=some_ticks(4))
    with pytest.raises(FormatError, match="2 arrays"):
        NpyFeed(tmp_path / "a.npz")
    assert len(ticks_of(NpyFeed(tmp_path / "a.npz", array="y"))) == 4
    with pytest.raises(ConfigurationError, match="no array 'z'"):
        NpyFeed(tmp_path / "a.npz", array="z")


EVENT = np.dtype([("when", "<M8[us]"), ("px", "<f8"), ("qty", ">i4"), ("id", "<i8"), ("what", "u1")])


def events() -> np.ndarray:
    array = np.zeros(3, EVENT)
    array["when"] = [np.datetime64(k, "us") for k in (5, 7, 6)]
    array["px"] = [100.01, 2.0**-10, 3 * 2.0**-10]
    array["qty"] = [1, 2, 3]
    array["id"] = [0, 1, 0]
    array["what"] = list(b"TTA")
    return array


MAP = {"ts_event": "when", "price": "px", "size": "qty", "instrument_id": "id", "action": "what"}


def test_other_records_become_ticks_through_a_map(tmp_path: Path) -> None:
    path = save(tmp_path / "a.npy", events())
    with pytest.raises(
        FormatError, match=r"record 2: .*is not a whole number of units of 1e-9: inexact='round' rounds it"
    ):
        ticks_of(NpyFeed(path, columns=MAP))
    feed = NpyFeed(path, columns=MAP, constants={"kind": "trade", "side": "B"}, batch_ticks=2, inexact="round")
    ticks = ticks_of(feed)
    assert ticks["ts_event"].tolist() == ticks["ts_recv"].tolist() == [5000, 7000, 6000]
    assert ticks["price"].tolist() == [100_010_000_000, 976_562, 2_929_688], "ties go to even"
    assert ticks["size"].tolist() == [1, 2, 3]
    assert ticks["sequence"].tolist() == [1, 2, 3]
    assert ticks["action"].tolist() == [b"T", b"T", b"A"]
    assert set(ticks["kind"].tolist()) == {2}
    assert set(ticks["side"].tolist()) == {b"B"}
    assert feed.max_symbols == 2
    assert feed.statistics()["rows_rounded"] == 2


def test_times_in_a_unit_and_numbers_that_are_none_are_read_on_request(tmp_path: Path) -> None:
    rows = np.zeros(2, [("time", "<i4"), ("price", "<f4"), ("qty", ">u2"), ("side", "S4")])
    rows["time"], rows["price"], rows["qty"], rows["side"] = [5, 7], [0.1, np.nan], [1, 65535], [b"buy", b"Sell"]
    feed = NpyFeed(save(tmp_path / "a.npy", rows), columns={}, symbol="ONE", time_unit="ms", nulls="undefined")
    ticks = ticks_of(feed)
    assert ticks["ts_event"].tolist() == ticks["ts_recv"].tolist() == [5_000_000, 7_000_000]
    assert ticks["price"].tolist() == [100_000_000, UNDEF_PRICE]
    assert (ticks["size"].tolist(), ticks["side"].tolist()) == ([1, 65535], [b"B", b"A"])


def test_fields_without_a_source_have_their_neutral_values(tmp_path: Path) -> None:
    columns = {"size": "qty", "ts_event": "when", "price": None}
    feed = NpyFeed(save(tmp_path / "a.npy", events()), columns=columns, symbol="ONE")
    ticks = ticks_of(feed)
    assert ticks["price"].tolist() == [UNDEF_PRICE] * 3
    assert ticks["action"].tolist() == ticks["side"].tolist() == [b"N"] * 3
    assert ticks["instrument_id"].tolist() == [0, 0, 0]
    assert (feed.max_symbols, feed.symbols) == (1, ("ONE",))


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("qty", -1, "-1 is below 0"),
        ("id", 1 << 32, "not a whole number from 0 to 4294967295"),
        ("px", float("nan"), "holds null"),
        ("px", 1e10, r"is out of range: .* price_unit='0\.001'"),
        ("px", float("-inf"), "inf"),
        ("when", np.datetime64("NaT"), "holds null"),
        ("when", np.datetime64(-1, "us"), "not a time from 1970"),
    ],
)
def test_a_value_that_does_not_fit_is_refused_with_its_record(
    tmp_path: Path, field: str, value: Any, words: str
) -> None:
    array = events()
    array[field][2] = value
    path = save(tmp_path / "a.npy", array)
    with pytest.raises(FormatError, match=f"byte \\d+: record 3: .*'{field}'.*{words}") as caught:
        ticks_of(NpyFeed(path, columns=MAP, max_symbols=2, batch_ticks=1, inexact="round"))
    assert caught.value.offset == path.stat().st_size - EVENT.itemsize


def test_an_empty_array_is_an_empty_feed(tmp_path: Path) -> None:
    write_npy(tmp_path / "a.npy", zeros(0))
    feed = NpyFeed(tmp_path / "a.npy")
    assert list(feed.batches()) == []
    assert feed.max_symbols == 1
