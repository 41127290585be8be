"""Ticks written as an array of numpy: read back as they were, and nothing half-written is left."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from reading import ticks_of

from strand import TICK
from strand.errors import ConfigurationError, FeedError
from strand.feeds import Feed
from strand.feeds.formats.npy.reader import NpyFeed
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
