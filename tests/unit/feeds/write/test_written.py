"""Ticks written as ITCH: byte for byte as they were read, or refused."""

from __future__ import annotations

import io
from pathlib import Path

import itch_reference
import numpy as np
import pytest
from array_feed import order_feed
from converted import ITCH_NAME, assert_same, read
from reading import ticks_of

import strand
from strand import TICK
from strand.errors import ConfigurationError, FeedError
from strand.feeds import Feed
from strand.feeds.formats.npy import NpyFeed
from strand.feeds.write.conversion import convert
from strand.feeds.write.npy import write_npy
from strand.ticks import zeros

pytestmark = pytest.mark.python


@pytest.mark.parametrize("between", ["a.parquet", "a.arrow", "a.npz"])
def test_an_itch_file_that_was_written_survives_any_detour_byte_for_byte(
    tmp_path: Path, day: Path, between: str
) -> None:
    for folder in "bc":
        (tmp_path / folder).mkdir()
    convert(day, tmp_path / ITCH_NAME)
    assert_same(read(tmp_path / ITCH_NAME), read(day), "sequence")
    convert(tmp_path / ITCH_NAME, tmp_path / between)
    convert(tmp_path / between, tmp_path / "b" / ITCH_NAME)
    assert (tmp_path / "b" / ITCH_NAME).read_bytes() == (tmp_path / ITCH_NAME).read_bytes()
    convert(tmp_path / ITCH_NAME, tmp_path / "c" / ITCH_NAME, feed_options={"batch_ticks": 4096})
    assert (tmp_path / "c" / ITCH_NAME).read_bytes() == (tmp_path / ITCH_NAME).read_bytes()


def test_every_itch_message_that_makes_a_tick_is_written_as_it_was_or_refused(tmp_path: Path) -> None:
    names = [itch_reference.directory(7, b"AAPL"), itch_reference.directory(13, b"BRK.A")]
    refused, written = [], 0
    for body in itch_reference.every_type():
        source = tmp_path / ITCH_NAME
        source.write_bytes(b"".join(map(itch_reference.frame, [*names, body])))
        target = tmp_path / f"out.{ITCH_NAME}"
        expected = read(source)
        try:
            convert(source, target, allow_empty=True)
        except ConfigurationError as error:
            refused.append(str(error).split(":")[0])
            continue
        if len(expected[0]):
            assert_same(read(target), expected, "sequence")
            frames = itch_reference.frame(body)
            assert len(target.read_bytes()) == 41 * (expected[1] != [""]) + len(frames)  # of the same type, and its R
            written += 1
    assert set(refused) <= {"flags"}  # sizes beyond 32 bits
    assert written >= 20


def test_the_date_of_an_itch_file_must_be_in_its_name(tmp_path: Path, day: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"01052026\.x\.itch"):
        convert(day, tmp_path / "x.itch")
    with pytest.raises(ConfigurationError, match="2026-01-06"):
        convert(day, tmp_path / "20260106.itch")


def test_what_itch_cannot_hold_is_left_out_by_option_and_the_rest_is_the_file_of_the_rest(
    tmp_path: Path, day: Path
) -> None:
    """Prices between its steps, a letter without a message, a name that is too long."""
    feed = strand.feeds.open(day)
    ticks = feed.to_numpy()
    names = list(feed.symbols)
    fine = np.ones(len(ticks), np.bool_)
    priced = np.flatnonzero((ticks["kind"] == 1) & (ticks["action"] == b"A"))
    ticks["price"][priced[::5]] += 1
    ticks["action"][priced[1::5]] = b"R"
    fine[priced[::5]] = fine[priced[1::5]] = False
    named = ticks["instrument_id"] == ticks["instrument_id"][priced[2]]
    names[int(ticks["instrument_id"][priced[2]])] = "TOO LONG A NAME"
    fine &= ~named
    target = tmp_path / ITCH_NAME
    with pytest.raises(ConfigurationError, match="--on-unwritable skip"):
        convert(order_feed(ticks, names), target)
    written = convert(order_feed(ticks, names), target, on_unwritable="skip")
    assert (written.ticks, sum(written.left_out.values())) == (fine.sum(), (~fine).sum())
    assert set(written.left_out) == {"price", "action", "symbols"}
    assert written.left_out["symbols"] <= named.sum()
    rest = tmp_path / "rest" / ITCH_NAME
    rest.parent.mkdir()
    names[int(ticks["instrument_id"][priced[2]])] = "NOTUSED"
    convert(order_feed(ticks[fine].copy(), names), rest)
    assert target.read_bytes() == rest.read_bytes()


# ---- Ticks written as an array of numpy: read back as they were, and nothing half-written is left


def some_ticks(count: int, symbols: int = 7) -> np.ndarray:
    ticks = np.frombuffer(np.random.default_rng(count).bytes(64 * count), TICK).copy()
    ticks["instrument_id"] %= symbols
    return ticks


def save(path: Path, array: np.ndarray) -> Path:
    np.save(path, array)
    return path


@pytest.mark.parametrize("name", ["a.npy", "a.npz"])
@pytest.mark.parametrize("batch_ticks", [1, 7, 1000])
def test_ticks_written_are_the_ticks_read_in_batches_of_the_size_asked_for(
    tmp_path: Path, name: str, batch_ticks: int
) -> None:
    ticks = some_ticks(50)
    write_npy(tmp_path / name, ticks)
    feed = NpyFeed(tmp_path / name, batch_ticks=batch_ticks)
    assert isinstance(feed, Feed)
    assert [len(batch) for batch in feed.batches()][:-1] == [batch_ticks] * ((50 - 1) // batch_ticks)
    assert ticks_of(feed).tobytes() == ticks.tobytes()
    assert feed.max_symbols == int(ticks["instrument_id"].max()) + 1
    assert feed.symbols == ("",) * feed.max_symbols
    assert feed.statistics()["ticks"] == 50
    assert [path.name for path in tmp_path.iterdir()] == [name], "a scratch file was left"


def test_nothing_half_written_is_left_when_writing_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_npy(tmp_path / "a.npy", some_ticks(3))

    def disk_full(file: io.BufferedWriter, *_: object, **__: object) -> None:
        file.write(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "save", disk_full)
    with pytest.raises(FeedError, match="No space left"):
        write_npy(tmp_path / "a.npy", some_ticks(4))
    assert [path.name for path in tmp_path.iterdir()] == ["a.npy"]
    assert len(ticks_of(NpyFeed(tmp_path / "a.npy"))) == 3


@pytest.mark.parametrize(
    ("name", "array", "symbols"),
    [
        ("a.bin", zeros(1), ()),
        ("a.npy", zeros(1), ("A",)),
        ("a.npz", np.ones(1, TICK), ("A",)),
        ("a.npy", np.zeros(1), ()),
        ("a.npy", zeros((1, 1)), ()),
    ],
)
def test_what_cannot_be_read_back_is_not_written(
    tmp_path: Path, name: str, array: np.ndarray, symbols: tuple[str, ...]
) -> None:
    with pytest.raises(ConfigurationError):
        write_npy(tmp_path / name, array, symbols)
    assert list(tmp_path.iterdir()) == []
