"""A file appears under its name when it is whole, or not at all."""

from __future__ import annotations

import gzip
import os
from pathlib import Path
from typing import Any

import pytest

from strand.errors import ConfigurationError, FeedError
from strand.feeds.io.atomic_write import atomic_write

pytestmark = pytest.mark.python


def test_what_had_the_name_is_there_until_the_new_file_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    path.write_bytes(b"before")
    with atomic_write(path) as file:
        file.write(b"after")
        file.flush()
        assert path.read_bytes() == b"before"
    assert path.read_bytes() == b"after"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("name", ["a.bin", "a.gz"])
@pytest.mark.parametrize("existed", [True, False])
def test_a_block_that_raises_leaves_what_was_there(tmp_path: Path, name: str, existed: bool) -> None:
    path = tmp_path / name
    if existed:
        path.write_bytes(b"before")
    with pytest.raises(ZeroDivisionError), atomic_write(path) as file:
        file.write(b"after")
        raise ZeroDivisionError
    assert [(one, one.read_bytes()) for one in tmp_path.iterdir()] == ([(path, b"before")] if existed else [])


def test_the_same_bytes_give_the_same_packed_file_whatever_its_name(tmp_path: Path) -> None:
    data = b"".join(b"%d," % i for i in range(10_000))
    for name in ("a.gz", "b.GZ"):
        with atomic_write(tmp_path / name) as file:
            file.write(data)
    packed = (tmp_path / "a.gz").read_bytes()
    assert packed == (tmp_path / "b.GZ").read_bytes()
    assert len(packed) < len(data)
    assert gzip.decompress(packed) == data


def test_zstd_files_have_a_checksum(tmp_path: Path) -> None:
    zstandard = pytest.importorskip("zstandard")
    with atomic_write(tmp_path / "a.zst") as file:
        file.write(b"data" * 100)
    packed = (tmp_path / "a.zst").read_bytes()
    assert zstandard.get_frame_parameters(packed).has_checksum
    assert zstandard.ZstdDecompressor().decompressobj().decompress(packed) == b"data" * 100


def test_an_interrupt_as_the_file_is_made_leaves_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = Path.open

    def interrupted(path: Path, *args: Any) -> Any:
        opened(path, *args).close()
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "open", interrupted)
    with pytest.raises(KeyboardInterrupt), atomic_write(tmp_path / "a.bin"):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_child_of_a_fork_writes_nothing_a_second_time(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    with atomic_write(path) as file:
        file.write(b"once")  # in the buffer yet, which the child has a copy of
        child = os.fork()
        if child == 0:
            try:
                file.flush()
            finally:
                os._exit(0)
        assert os.waitpid(child, 0) == (child, 0)
    assert path.read_bytes() == b"once"


@pytest.mark.parametrize("name", ["a.bz2", "a.xz", "a.ZIP"])
def test_a_packing_that_is_not_written_is_refused(tmp_path: Path, name: str) -> None:
    with (
        pytest.raises(ConfigurationError, match="files cannot be written: end the name in"),
        atomic_write(tmp_path / name),
    ):
        pass
    assert not list(tmp_path.iterdir())


def test_a_place_where_nothing_can_be_written_is_a_feed_error(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    for path in (tmp_path / "folder", tmp_path / "none" / "a.bin", Path("/")):
        with pytest.raises(FeedError, match="cannot be written"), atomic_write(path):
            pass
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]
