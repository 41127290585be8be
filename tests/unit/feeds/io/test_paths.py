"""Which files are meant by paths, folders, globs and a dash."""

from __future__ import annotations

import gzip
import ipaddress
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strand.errors import ConfigurationError, FeedError
from strand.feeds.io.atomic_write import atomic_write
from strand.feeds.io.files import check_folder, files_in, named_paths
from strand.feeds.live.mold import Address, parse_address

pytestmark = pytest.mark.python


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("b.csv", "a.csv", "c[1].csv", "deep/d.csv"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x")
    (tmp_path / "empty.csv").touch()
    (tmp_path / ".hidden.csv").write_text("x")
    (tmp_path / "_SUCCESS").write_text("x")
    return tmp_path


def test_a_path_stands_for_itself_also_where_a_glob_could_be_meant(folder: Path) -> None:
    for name in ("a.csv", "c[1].csv", "deep"):
        assert list(named_paths(folder / name)) == list(named_paths(str(folder / name))) == [folder / name]
    assert list(named_paths(["-", folder / "b.csv"])) == ["-", folder / "b.csv"]
    assert list(named_paths(folder / "a.csv" / "member")) == [folder / "a.csv" / "member"]  # of an archive, perhaps


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("[ab].csv", ["a.csv", "b.csv"]),
        ("?.csv", ["a.csv", "b.csv"]),
        ("**/d*", ["deep/d.csv"]),
        ("*", ["_SUCCESS", "a.csv", "b.csv", "c[1].csv", "empty.csv"]),
    ],
)
def test_a_glob_is_its_files_by_name_without_folders(folder: Path, pattern: str, names: list[str]) -> None:
    assert list(named_paths(folder / pattern)) == [folder / name for name in names]


def test_of_a_folder_hidden_and_empty_files_are_left_out(folder: Path) -> None:
    assert [path.name for path in files_in(folder)] == ["a.csv", "b.csv", "c[1].csv"]


@pytest.mark.parametrize("source", [[5], [None], b"a.csv", ["a\0.csv"]])
def test_what_is_no_path_is_refused(source: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"^source: .* is not a path"):
        list(named_paths(source))


@pytest.mark.parametrize("name", ["none.csv", "*.none", "deep/*/x", "x" * 300 + "*"])
def test_what_is_not_there_is_a_feed_error(folder: Path, name: str) -> None:
    with pytest.raises(FeedError, match=r"no such file|no file matches"):
        list(named_paths(folder / name))


def test_a_folder_that_is_not_there_or_takes_no_file_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_folder("out", tmp_path / "a.csv")
    with pytest.raises(ConfigurationError, match="out: there is no folder /no/such"):
        check_folder("out", Path("/no/such/a.csv"))
    # As of a folder without rights; root has all of them.
    monkeypatch.setattr("os.access", lambda path, rights: path != tmp_path)
    with pytest.raises(ConfigurationError, match=f"out: no file may be written in {tmp_path}: name another folder"):
        check_folder("out", tmp_path / "a.csv")


# ---- HOST:PORT as options give it


@given(st.ip_addresses(v=4), st.integers(0, 65535))
def test_an_address_is_what_its_text_says(host: ipaddress.IPv4Address, port: int) -> None:
    found = parse_address(f"{host}:{port}", "line")
    assert found == Address(str(host), port) == parse_address(found, "line")
    assert str(found) == f"{host}:{port}"
    assert found.packed == host.packed
    assert (found.is_loopback, found.is_multicast) == (host.is_loopback, host.is_multicast)


def test_a_port_alone_is_on_this_machine() -> None:
    for text in ("26400", ":26400", "localhost:26400"):
        assert parse_address(text, "line") == Address("127.0.0.1", 26400)


@pytest.mark.parametrize(
    "text", ["", "127.0.0.1", "127.0.0.1:", "127.0.0.1:65536", "127.0.0.1:-1", "127.0.0.1:\u0661", "1:000001"]
)
def test_what_has_no_port_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"^line: .* is not HOST:PORT"):
        parse_address(text, "line")


@pytest.mark.parametrize("host", ["example.com", "127.0.0", "127.0.0.256", "[::1]", "010.0.0.1"])
def test_what_is_no_address_of_ipv4_is_refused(host: str) -> None:
    with pytest.raises(ConfigurationError, match=r"^line: .* is not an IPv4 address"):
        parse_address(f"{host}:1", "line")


# ---- A file appears under its name when it is whole, or not at all


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
