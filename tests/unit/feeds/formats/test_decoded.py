"""What feeds of decoders share: pieces of a file, threads and descriptors, and that iterations do not meet."""

from __future__ import annotations

import contextlib
import gc
import gzip
from pathlib import Path

import itch_reference as ref
import pytest
from bad_input import write_anew
from reading import read, threads_that_read

from strand.errors import (
    UnknownFormatError,
)
from strand.feeds.formats import decoded
from strand.feeds.formats.itch import ItchFeed


@pytest.fixture
def data() -> bytes:
    return b"".join(ref.frame(body) for body in ref.every_type())


def write(folder: Path, content: bytes, name: str = "20190130.itch") -> Path:
    return write_anew(folder / name, content)


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
