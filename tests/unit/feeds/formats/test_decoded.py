"""What feeds of decoders share: pieces of a file, threads and descriptors, and that iterations do not meet."""

from __future__ import annotations

import contextlib
import gc
import gzip
import os
from pathlib import Path

import itch_reference as ref
import numpy as np
import pytest
from bad_input import write_anew
from reading import read, threads_that_read

from strand.errors import (
    TruncatedFeedError,
    UnknownFormatError,
)
from strand.feeds.formats import decoded
from strand.feeds.formats.itch.reader import ItchFeed


@pytest.fixture
def data() -> bytes:
    return b"".join(ref.frame(body) for body in ref.every_type())


def write(folder: Path, content: bytes, name: str = "20190130.itch") -> Path:
    return write_anew(folder / name, content)


def test_two_iterations_at_once_do_not_disturb_each_other(tmp_path: Path) -> None:
    feed = ItchFeed(write(tmp_path, ref.deletes(9_000)), batch_ticks=4096)
    one, two = feed.batches(), feed.batches()
    for a, b in zip(one, two, strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_file_that_shrinks_while_it_is_read_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Pieces so small that what a thread may have read by now ends long before.
    monkeypatch.setattr(decoded, "_RAW_CHUNK", 1 << 20)
    path = write(tmp_path, ref.deletes(500_000))
    feed = ItchFeed(path, batch_ticks=4096)
    batches = feed.batches()
    next(batches)
    os.truncate(path, 21 * 400_000)
    rest, error = read(batches)
    assert isinstance(error, TruncatedFeedError)
    assert "when it was opened" in str(error)
    assert rest["order_id"].tolist() == list(range(4096, 400_000))


def test_leaving_an_iteration_early_leaves_no_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # So small that the thread's buffers cannot hold the whole file: it is still reading, however slow the caller is.
    monkeypatch.setattr(decoded, "_CHUNK", 1 << 16)
    path = write(tmp_path, gzip.compress(ref.deletes(400_000), 1))
    feed = ItchFeed(path, batch_ticks=4096)
    for _ in feed.batches():
        assert threads_that_read()
        break
    gc.collect()
    assert not threads_that_read()
    iteration = feed.batches()
    next(iteration)
    with pytest.raises(RuntimeError, match="mine"):
        iteration.throw(RuntimeError("mine"))  # type: ignore[attr-defined]
    assert not threads_that_read()
    batches = feed.batches()
    next(batches)
    feed.close()
    assert not threads_that_read()


def test_descriptors_are_given_back(tmp_path: Path, data: bytes) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    for content in (data, gzip.compress(data), data[:-1], gzip.compress(data)[:-9], b"nothing of the kind"):
        for _ in range(5):
            with contextlib.suppress(UnknownFormatError):
                read(ItchFeed(write(tmp_path, content)))
    gc.collect()
    assert len(list(Path("/proc/self/fd").iterdir())) == before
