"""What a data set of sweeps knows that it has."""

from __future__ import annotations

import errno
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sweep_files import FEW, beginning

import strand
from strand.errors import ConfigurationError, FeedError
from strand.feeds.sample import sample_path
from strand.sweeping.digests import file_digest
from strand.sweeping.manifest import MANIFEST, Manifest
from strand.sweeping.sweep import sweep

pl = pytest.importorskip("polars")
pytest.importorskip("numba")
pytest.importorskip("loky")

from sweep_handlers import SETS, signal, wide  # noqa: E402

pytestmark = pytest.mark.python


def test_what_is_unchanged_is_not_run_again(days: Path, tmp_path: Path) -> None:
    def again(sets: list[dict[str, Any]], handler: Any = wide) -> Any:
        return sweep(sorted(days.iterdir()), handler, sets, out=tmp_path / "out", workers=1, **FEW)

    first = again(SETS[:2])
    assert again(SETS[:2]).ran == ()
    before = {path: path.stat().st_mtime_ns for path in first.folder.rglob("*.parquet")}
    more = again(SETS)
    assert len(more.ran) == 2
    assert all(path.stat().st_mtime_ns == changed for path, changed in before.items())
    assert more.rows.to_polars()["set"].unique().sort().to_list() == [0, 1, 2]
    assert again(SETS[1:2]).rows.to_polars()["set"].unique().to_list() == [1]

    (days / "2026-01-06.itch50").write_bytes(beginning(1_000_000))
    changed = again(SETS)
    assert changed.ran == ("2026-01-06.itch50",)
    assert changed.runs[-1].ticks < more.runs[-1].ticks
    assert len(list(first.folder.rglob("*06.itch50/*.parquet"))) == 2

    other = again(SETS, strand.chain(strand.book(), signal.with_params({"*": {"least": 0, "weight": 3.0}})))
    assert len(other.ran) == 2
    assert other.code != changed.code
    assert again(SETS).ran == ()


def test_a_folder_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "notes.txt").write_text("mine")
    with pytest.raises(ConfigurationError, match="has files that are not of a sweep"):
        sweep(sample_path(), wide, SETS, out=tmp_path / "out", **FEW)
    assert (tmp_path / "out" / "notes.txt").read_text() == "mine"


def test_a_manifest_that_cannot_be_written_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Manifest(tmp_path / "out").close()
    connect = sqlite3.connect

    def read_only(path: Path, timeout: float) -> sqlite3.Connection:
        return connect(f"file:{path}?mode=ro", timeout=timeout, uri=True)

    monkeypatch.setattr("sqlite3.connect", read_only)
    said = f"{MANIFEST}: cannot be written: attempt to write a readonly database"
    with closing(Manifest(tmp_path / "out")) as manifest, pytest.raises(FeedError, match=said):
        manifest.number([{"least": 1}])
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / MANIFEST).touch()
    with pytest.raises(FeedError, match=said):
        Manifest(tmp_path / "new")


def test_a_file_of_something_else_is_no_manifest(tmp_path: Path) -> None:
    (tmp_path / MANIFEST).write_text("something else, of more than a hundred letters " * 9)
    with pytest.raises(ConfigurationError, match="is no manifest of a sweep"):
        Manifest(tmp_path)


def test_a_file_is_read_for_its_digest_where_it_is_run_and_elsewhere_only_to_compare(
    days: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []

    def note(path: Path) -> str:
        read.append(path.name)
        return file_digest(path)

    monkeypatch.setattr("strand.sweeping.sweep.file_digest", note)
    sources = sorted(days.iterdir())

    def again() -> Any:
        return sweep(sources, wide, SETS[:1], out=tmp_path / "out", workers=1, **FEW)

    first = again()
    assert {run.input for run in first.runs} == {file_digest(path) for path in sources}
    assert (again().ran, read) == ((), [])
    sources[0].touch()
    assert (again().ran, read) == ((), ["2026-01-05.gz"])


def test_codes_are_in_the_order_of_their_last_sweeps_within_a_second_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("strand.sweeping.manifest.now", lambda: "2026-01-05T09:30:00+00:00")
    added = [f"{digest:x}" for digest in (12, 3, 7, 1)]
    with closing(Manifest(tmp_path)) as manifest:
        for code in added:
            manifest.add_code(code, "signal", {})
        assert list(manifest.codes()) == added
        manifest.add_code(added[0], "signal", {})  # went back to it
        assert list(manifest.codes()) == [*added[1:], added[0]]


def test_a_read_only_folder_gives_what_it_has_and_refuses_what_is_to_be_run(
    days: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a file system that is mounted read-only: root may write to all others."""
    sources = sorted(days.iterdir())

    def again(sets: list[dict[str, Any]], files: list[Path] = sources[:1]) -> Any:
        return sweep(files, wide, sets, out=tmp_path / "out", workers=1, **FEW)

    first = again(SETS[:2])
    stray = tmp_path / "out" / "rows" / "code=1" / "file=a" / "x.parquet"
    stray.parent.mkdir(parents=True)
    stray.touch()
    sources[0].touch()  # so that its digest would be noted
    connect = sqlite3.connect
    monkeypatch.setattr("sqlite3.connect", lambda path, timeout: connect(f"file:{path}?mode=ro", timeout, uri=True))
    for refused in ("unlink", "mkdir"):
        monkeypatch.setattr(Path, refused, _refused(getattr(Path, refused)))
    second = again(SETS[1::-1])
    assert second.ran == ()
    assert second.rows.to_polars().sort("set", "symbol").equals(first.rows.to_polars().sort("set", "symbol"))
    assert stray.exists()
    for more in ((SETS,), (SETS[:2], sources)):
        with pytest.raises(FeedError, match=f"{MANIFEST}: cannot be written: attempt to write a readonly database"):
            again(*more)


def _refused(given: Any) -> Any:
    def call(path: Path, *arguments: Any, **named: Any) -> Any:
        if path.exists() and not (path.is_dir() and named.get("exist_ok")):
            raise OSError(errno.EROFS, "Read-only file system", str(path))
        return given(path, *arguments, **named)

    return call
