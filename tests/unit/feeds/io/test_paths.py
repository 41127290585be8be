"""Which files are meant by paths, folders, globs and a dash."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from strand.errors import ConfigurationError, FeedError
from strand.feeds.io.files import check_folder, files_in, named_paths

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
