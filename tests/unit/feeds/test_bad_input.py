"""Files of every format, cut, flipped, swollen and exchanged: a typed error or success, and what was good is intact.

By default bits flipped in whole files are a sample, and cuts are at the bytes of both ends and at each
fourteenth between;
``--exhaustive`` (``make bad-input``, some minutes) tries all. The run's summary says how many inputs were tried.
"""

from __future__ import annotations

import contextlib
import gc
import gzip
import itertools
import os
import random
import resource
import tempfile
import threading
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import iex_reference
import itch_reference as ref
import numpy as np
import pytest
from bad_input import SANITIZED, STEP, TRIED, Outcome, common_prefix, outcome, write_anew
from feed_samples import COUNT, SAMPLES, Sample, dbn_records, itch_messages, pitch
from reading import ticks_of
from warm_python import run_warm

from strand import feeds
from strand.binding.captures import IexDecoder
from strand.binding.decoders import DbnDecoder, PitchDecoder
from strand.binding.itch import ItchDecoder
from strand.errors import FeedError, FormatError, TruncatedFeedError, UnknownFormatError
from strand.feeds.formats.lean import LeanFeed
from strand.feeds.formats.npy import NpyFeed
from strand.feeds.formats.registry import formats
from strand.feeds.io import sources
from strand.feeds.io.streams import InflateLimits, open_stream
from strand.feeds.write.npy import write_npy
from strand.ticks import empty, zeros

pytestmark = pytest.mark.python

# Bits flipped of each sample without --exhaustive.
SAMPLED_FLIPS = 100
# What a format says of itself stands in so many bytes at either end; records that are alike lie between.
ENDS = 64
#: More than a stream may expand to before its ratio is looked at.
SWOLLEN = 1 << 28


@pytest.fixture(params=SAMPLES, ids=lambda sample: sample.name)
def sample(request: pytest.FixtureRequest) -> Sample:
    found: Sample = request.param
    if not found.available:
        pytest.skip(f"there is no reader of {found.format}, or no package {found.needs}")
    return found


@pytest.fixture
def folder() -> Iterator[Path]:
    """In memory where that can be: what is written thousands of times costs more than what is tried."""
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as name:
        yield Path(name)


@pytest.fixture
def path(sample: Sample, folder: Path) -> Path:
    return sample.build(folder)


def test_every_format_has_a_sample() -> None:
    # A recording is an ITCH file with its times in a second file beside it: a sample is one file. JSON lines need a
    # profile, and their own tests cut them.
    assert {known.name for known in formats()} - {"recording", "jsonl"} <= {sample.format for sample in SAMPLES}


def test_a_sample_is_recognised_and_whole(sample: Sample, path: Path) -> None:
    found = outcome(path, "whole")
    assert found.error is None
    assert len(found.ticks) >= COUNT
    assert path.stat().st_size < 10_000


def test_a_file_cut_at_any_byte_gives_a_prefix_and_a_typed_error(
    sample: Sample, path: Path, one_in: Callable[[int], int]
) -> None:
    data, whole = path.read_bytes(), outcome(path, "cut").ticks
    silent = []
    # Between the ends, records come again that are alike, and every fourteenth byte is another place in the next one.
    every = {*range(0, len(data), one_in(14)), *range(0, min(ENDS, len(data)), STEP)}
    for cut in sorted(every | set(range(max(0, len(data) - ENDS), len(data), STEP))):
        write_anew(path, data[:cut])
        found = outcome(path, "cut")
        assert common_prefix(found.ticks, whole) >= len(found.ticks) - sample.open_end, cut
        if found.error is None:
            silent.append(cut)
    if packed(data):
        assert silent == []
    elif not sample.open_end:  # a format without an end mark ends well between two records
        assert len(silent) <= len(whole) + 60


def test_a_closed_feed_says_so_instead_of_ending_early(sample: Sample, path: Path) -> None:
    whole = sample.format in (
        "itch",
        "pitch",
        "pcap",
        "iex",
    )  # and less is no batch; they look once more behind the last one
    feed = feeds.open(path, **({} if whole else {"batch_ticks": 4}))
    batches = feed.batches()
    next(batches)
    feed.close()
    feed.close()
    for iteration in (batches, feed.batches()):
        with pytest.raises(FeedError, match="closed"):
            list(iteration)


def packed(data: bytes) -> bool:
    """Whether a file says where it ends."""
    return data.startswith((b"\x1f\x8b", b"PK", b"BZh", b"\xfd7zXZ", b"\x28\xb5\x2f\xfd", b"PAR1", b"\x93NUMPY"))


def flips(sample: Sample, size: int, exhaustive: bool) -> Iterator[int]:
    bits = range(8 * min(size, 1000 * 64))
    return iter(
        bits if exhaustive else sorted(random.Random(sample.name).sample(bits, min(SAMPLED_FLIPS // STEP, len(bits))))
    )


def check_flips(sample: Sample, path: Path, bits: Iterator[int]) -> None:
    data, whole = path.read_bytes(), outcome(path, "flip").ticks
    intact: dict[int, int] = {}
    for bit in bits:
        at = bit // 8
        damaged = bytearray(data)
        damaged[at] ^= 1 << bit % 8
        write_anew(path, bytes(damaged))
        found = outcome(path, "flip")
        if sample.flat_from is None or at < sample.flat_from:
            continue
        if at not in intact:
            write_anew(path, data[:at])
            intact[at] = len(outcome(path, "flip").ticks)
        assert common_prefix(found.ticks, whole) >= intact[at] - sample.open_end, bit


def test_sampled_flipped_bits_end_in_a_typed_error_or_well_and_leave_what_is_before_them(
    sample: Sample, path: Path
) -> None:
    check_flips(sample, path, flips(sample, path.stat().st_size, exhaustive=False))


@dataclass(frozen=True)
class InMemory:
    """A decoder that takes bytes as they are: ``records`` of a stream, and what decodes one, without a file."""

    name: str
    records: Callable[[], list[bytes]]
    decode: Callable[[bytes], Outcome]


def decode(decoder: Any, data: bytes) -> Outcome:
    ticks = empty(len(data) // 8 + 11)
    made, _, sound = decoder.decode(memoryview(data), last=True, out=ticks)
    return Outcome(ticks[:made], None if sound else decoder.fault("memory"))


def decode_dbn(data: bytes) -> Outcome:
    decoder = DbnDecoder(version=3, skip=False, tail=0, levels=1, span=(0, (1 << 64) - 1))
    for instrument in (7, 8):
        decoder.add(instrument, 0, (1 << 64) - 1, instrument)
    # Of a flipped instrument, or a mapping, it asks what to make: as far as here.
    return decode(decoder, data)


# A decoder of bytes in memory joins here. A line that lost its end takes the next one along: that is its damage too.
IN_MEMORY = [
    InMemory("itch", itch_messages, lambda data: decode(ItchDecoder(midnight_ns=0, skip=False), data)),
    InMemory(
        "pitch",
        lambda: pitch().splitlines(keepends=True),
        lambda data: decode(PitchDecoder(midnight_ns=0, skip=False), data),
    ),
    InMemory("dbn", dbn_records, decode_dbn),
    InMemory(
        "iex",
        lambda: [iex_reference.frame(body) for body in iex_reference.every_type()],
        lambda data: decode(IexDecoder(skip=False), data),
    ),
]
#: How many records have each of their bits flipped with --exhaustive.
RECORDS = 1000


@pytest.mark.parametrize("reader", IN_MEMORY, ids=lambda reader: reader.name)
def test_each_bit_of_every_record_flipped_leaves_the_ticks_before_it(reader: InMemory) -> None:
    flip_each_bit(reader, reader.records())


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("reader", IN_MEMORY, ids=lambda reader: reader.name)
def test_each_bit_of_a_thousand_records_flipped_leaves_the_ticks_before_it(reader: InMemory, exhaustive: None) -> None:
    records = reader.records()
    flip_each_bit(reader, list(itertools.islice(itertools.cycle(records), RECORDS)))


def flip_each_bit(reader: InMemory, records: list[bytes]) -> None:
    assert reader.decode(b"".join(records)).error is None
    for at, record in enumerate(records):
        # What follows a record by more than a few others says nothing new of its damage.
        before = b"".join(records[max(0, at - 2) : at])
        window = before + b"".join(records[at : at + 4])
        expected = reader.decode(before).ticks
        for bit in range(at % STEP, 8 * len(record), STEP):
            damaged = bytearray(window)
            damaged[len(before) + bit // 8] ^= 1 << bit % 8
            found = reader.decode(bytes(damaged)).ticks
            TRIED["flip in memory"] += 1
            assert len(found) >= len(expected)
            assert found[: len(expected)].tobytes() == expected.tobytes()


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_every_flipped_bit_ends_in_a_typed_error_or_well(sample: Sample, path: Path, exhaustive: None) -> None:
    check_flips(sample, path, flips(sample, path.stat().st_size, exhaustive=True))


def test_the_magic_of_another_format_is_a_typed_error(sample: Sample, path: Path) -> None:
    data = path.read_bytes()
    magics = [
        b"\x93NUMPY\1\0", b"PK\3\4", b"PK\5\6", b"PAR1", b"DBN\3", b"\x1f\x8b\x08\0", b"\x28\xb5\x2f\xfd", b"BZh91AY&",
        b"\xfd7zXZ\0", b"ARROW1\0\0", b"\xd4\xc3\xb2\xa1", b"\n\r\r\n", b"\0\0", b"\xff" * 16,
        b"time,price\n", b"%PDF-1.7",
    ]  # fmt: skip
    for magic in magics:
        if data.startswith(magic) or (
            sample.format in ("pcap", "iex") and magic == b"\xd4\xc3\xb2\xa1"
        ):  # in us, not ns
            continue
        write_anew(path, magic + data[len(magic) :])
        found = outcome(path, "magic")
        assert found.error is not None or sample.flat_from is not None, magic
        write_anew(path, magic)
        assert outcome(path, "magic").error is not None, magic


def test_lengths_of_zero_and_of_all_ones_anywhere_are_typed_errors_or_well(
    sample: Sample, path: Path, one_in: Callable[[int], int]
) -> None:
    data = path.read_bytes()
    for at, length in itertools.product(range(0, len(data) - 1, 3 * one_in(10)), (b"\0\0", b"\xff\xff")):
        write_anew(path, data[:at] + length + data[at + 2 :])
        outcome(path, "length")


def test_an_empty_file_is_a_typed_error(sample: Sample, path: Path) -> None:
    write_anew(path, b"")
    found = outcome(path, "empty")
    if sample.may_be_empty:
        assert (len(found.ticks), found.error) == (0, None)
    else:
        assert isinstance(found.error, TruncatedFeedError)


def test_a_sample_out_of_a_pipe_is_read(sample: Sample, path: Path) -> None:
    whole, data = outcome(path, "pipe"), path.read_bytes()
    path.unlink()
    os.mkfifo(path)

    def write() -> None:
        with contextlib.suppress(BrokenPipeError):
            path.write_bytes(data)

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    found = outcome(path, "pipe")
    assert found.error is None
    np.testing.assert_array_equal(found.ticks, whole.ticks)


def test_a_copy_of_a_pipe_has_a_bound_and_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    write_npy(tmp_path / "day.npy", zeros(20_000))
    os.mkfifo(tmp_path / "pipe.npy")

    def begin() -> None:
        def write() -> None:
            with contextlib.suppress(BrokenPipeError):
                (tmp_path / "pipe.npy").write_bytes((tmp_path / "day.npy").read_bytes())

        threading.Thread(target=write, daemon=True).start()

    begin()
    with feeds.open(tmp_path / "pipe.npy", symbols=["#1"]) as feed:
        assert feed.info.path == str(tmp_path / "pipe.npy")
        assert [*(tmp_path / "temporary").iterdir()] != []
        (link,) = (path for path in (tmp_path / "temporary").rglob("pipe.npy"))
        assert str(link.readlink()).startswith("/proc/")
    del feed
    gc.collect()
    assert [*(tmp_path / "temporary").iterdir()] == []
    monkeypatch.setattr(sources, "SPOOL_BYTES", 1 << 20)
    begin()
    with pytest.raises(
        FeedError, match=r"pipe\.npy: its format seeks.*takes 1,048,576 bytes at most: store it in a file"
    ):
        feeds.open(tmp_path / "pipe.npy")
    assert [*(tmp_path / "temporary").iterdir()] == []
    monkeypatch.setattr(tempfile, "tempdir", "/proc/self/fd")
    begin()
    with pytest.raises(FeedError, match="set TMPDIR to a folder with room"):
        feeds.open(tmp_path / "pipe.npy")


def test_a_file_that_shrinks_while_it_is_read_gives_what_was_read(tmp_path: Path) -> None:
    itch = tmp_path / "20190130.itch"
    # More than a thread that reads ahead has in hand.
    deletes = np.tile(np.frombuffer(ref.frame(ref.message("D", 1, 1, 0)), np.uint8), (2_000_000, 1))
    deletes[:, -8:] = np.arange(len(deletes), dtype=">u8").view(np.uint8).reshape(-1, 8)
    itch.write_bytes(deletes.tobytes())
    npy = tmp_path / "big.npy"
    ticks = zeros(200_000)
    ticks["order_id"] = np.arange(len(ticks))
    write_npy(npy, ticks)
    for path in (itch, npy):
        batches = feeds.open(path, batch_ticks=4096).batches()
        parts = [next(batches).copy()]
        os.truncate(path, path.stat().st_size // 2)
        with pytest.raises(TruncatedFeedError):
            parts.extend(batch.copy() for batch in batches)
        order_ids = np.concatenate(parts)["order_id"]
        np.testing.assert_array_equal(order_ids, np.arange(len(order_ids)))


def test_what_is_no_file_is_a_typed_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "WRITER_WAIT_S", 0.05)
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for path in (tmp_path / "pipe", tmp_path / "folder", tmp_path / "none", tmp_path / "loop", Path("/dev/zero")):
        assert outcome(path, "no file").error is not None, path


def test_a_fault_in_compressed_data_comes_behind_what_came_before_it(tmp_path: Path) -> None:
    path = tmp_path / "20190130.itch.gz"
    messages = [ref.frame(ref.message("D", 1, i, i * 7919 % 10007)) for i in range(100_000)]
    packed = gzip.compress(b"".join(messages), 1)
    write_anew(path, packed[: len(packed) // 2])
    found = outcome(path, "cut")
    assert isinstance(found.error, TruncatedFeedError)
    assert 40_000 < len(found.ticks) < 60_000
    np.testing.assert_array_equal(found.ticks["order_id"], np.arange(len(found.ticks)) * 7919 % 10007)


# ---- bombs


def swell(path: Path, unit: bytes, packing: str, size: int = SWOLLEN) -> Path:
    """``size`` bytes of one repeated unit, packed without ever lying anywhere whole."""
    block = unit * ((1 << 20) // len(unit))
    if packing == "zstd":
        packer = pytest.importorskip("zstandard").ZstdCompressor(level=3).compressobj()
    else:
        zlib_like = pytest.importorskip("isal.isal_zlib") if packing == "isal" else __import__("zlib")
        packer = zlib_like.compressobj(wbits=31) if packing == "gzip" else zlib_like.compressobj(3, 8, 31)
    with path.open("wb") as file:
        for _ in range(size // len(block)):
            file.write(packer.compress(block))
        file.write(packer.flush())
    return path


@pytest.mark.parametrize("packing", ["isal", "zstd"])
def test_a_bomb_of_zeros_is_refused_within_little_memory(tmp_path: Path, packing: str) -> None:
    path = swell(tmp_path / "bomb", bytes(64), packing)
    assert path.stat().st_size < SWOLLEN // 200
    assert isinstance(outcome(path, "bomb").error, UnknownFormatError)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    buffer, out = memoryview(bytearray(1 << 20)), 0
    with open_stream(path) as stream, pytest.raises(FormatError, match="max_ratio = 200"):
        while got := stream.readinto(buffer):
            out += got
    assert 64 << 20 <= out < 128 << 20
    if not SANITIZED:  # which keeps what is freed
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 << 10  # in KiB


@pytest.mark.parametrize("packing", ["isal", "zstd"])
def test_a_bomb_of_one_message_is_refused_behind_the_ticks_allowed(tmp_path: Path, packing: str) -> None:
    path = swell(tmp_path / "20190130.itch", ref.frame(ref.message("D", 1, 2, 3)), packing)
    found: Outcome = outcome(path, "bomb", limits=InflateLimits(ratio_after_bytes=4 << 20))
    assert isinstance(found.error, FormatError)
    assert "max_ratio" in str(found.error)
    assert len(found.ticks) >= (4 << 20) // 21
    assert (found.ticks["order_id"] == 3).all()


# ---- memory


@pytest.mark.skipif(SANITIZED, reason="the sanitizer's memory is not the replay's")
def test_replaying_takes_no_more_memory_for_a_file_four_times_as_large(tmp_path: Path) -> None:
    program = (
        "import re, sys, strand\n"
        "r = strand.replay(sys.argv[1], 'count', workers=1, feed_options={'date': '2019-01-30'})\n"
        "print(r.ticks, re.search(r'VmHWM:\\s*(\\d+)', open('/proc/self/status').read())[1])\n"
    )
    peaks = []
    for mib in (32, 128):
        path = swell_plain(tmp_path / f"{mib}.itch", mib << 20)
        done = run_warm("-c", program, path)
        assert done.returncode == 0, done.stderr
        ticks, peak_kib = map(int, done.stdout.split())
        assert ticks > 1_000_000
        peaks.append(peak_kib)
    assert peaks[1] - peaks[0] < 32 << 10
    assert max(peaks) < 300 << 10


def swell_plain(path: Path, size: int) -> Path:
    block = b"".join(itch_messages()[:1]) + b"".join(
        ref.frame(ref.message("D", key, 34_200 * 10**9 + key, key)) for key in range(1, 5000)
    )
    with path.open("wb") as file:
        for _ in range(max(1, size // len(block))):
            file.write(block)
    return path


# ---- a bad record in the middle


def test_rows_before_a_bad_one_come_first_and_skip_goes_on_behind_it(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    path = tmp_path / "xyz_20131009_trade.zip"
    rows = [f"{34_200_000 + i},{479_900 + i},{100 + i},P,2000,0" for i in range(1000)]
    for bad in (333, 700):
        rows[bad] = "34200000,no price,1,P,2000,0"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("20131009_xyz_Trade_Tick.csv", "\n".join(rows))
    found = outcome(path, "bad record")
    assert isinstance(found.error, FormatError)
    assert found.error.line == 334
    np.testing.assert_array_equal(found.ticks["sequence"], np.arange(1, 334))
    with LeanFeed(path, on_bad_record="skip") as feed:
        ticks = np.concatenate(list(feed.batches()))
    np.testing.assert_array_equal(ticks["sequence"], np.delete(np.arange(1, 1001), [333, 700]))
    assert feed.skipped.counts == {"not of its form": 2}
    assert [sample.line for sample in feed.skipped.samples] == [334, 701]


def test_records_before_a_bad_key_come_first_and_skip_goes_on_behind_it(tmp_path: Path) -> None:
    ticks = zeros(1000)
    ticks["sequence"] = np.arange(1000)
    ticks["instrument_id"][[333, 700]] = 9
    write_npy(tmp_path / "a.npy", ticks)
    found = outcome(tmp_path / "a.npy", "bad record", symbols=(), max_symbols=1)
    assert isinstance(found.error, FormatError)
    np.testing.assert_array_equal(found.ticks["sequence"], np.arange(333))
    with NpyFeed(tmp_path / "a.npy", max_symbols=1, on_bad_record="skip") as feed:
        kept = ticks_of(feed)
    np.testing.assert_array_equal(kept["sequence"], np.delete(np.arange(1000), [333, 700]))
    assert feed.skipped.counts == {"bad record": 2}
