"""Sweeps: against one replay a set and a file, what is not run again, and what goes wrong."""

from __future__ import annotations

import datetime as dt
import errno
import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from python_set_handlers import SPANS, counting, emitting, plain_batches, span_batches, span_objects, spans_after_a_book
from sweep_files import FEW, beginning

import strand
from strand.errors import ConfigurationError, EmptyFeedError, FeedError, UnknownNameError
from strand.feeds.sample import SAMPLE_DATE, sample_path
from strand.feeds.write.npy import write_npy
from strand.sweeping import job as jobs
from strand.sweeping.digests import file_digest
from strand.sweeping.manifest import MANIFEST, Manifest
from strand.sweeping.run import sweep

pl = pytest.importorskip("polars")
pytest.importorskip("numba")
pytest.importorskip("loky")

from sweep_handlers import SETS, signal, wide  # noqa: E402

pytestmark = pytest.mark.python


def _alone(path: Path, values: dict[str, Any]) -> Any:
    handler = strand.chain(strand.book(), signal.with_params({"*": values}))
    return strand.replay(path, handler, workers=0, timeline=False, **FEW)


def test_every_set_over_every_file_is_as_a_replay_of_its_own(days: Path, tmp_path: Path) -> None:
    found = sweep(sorted(days.iterdir()), wide, SETS, out=tmp_path / "out", workers=1, **FEW)
    rows, wider = found.rows.to_polars(), found.outputs["wider"].to_polars()
    assert found.labels == ("2026-01-05.gz", "2026-01-06.itch50")
    assert set(found.ran) == set(found.labels)
    assert found.sets == dict(enumerate(SETS))
    assert len(found.runs) == len(SETS) * 2
    for path in sorted(days.iterdir()):
        for number, values in enumerate(SETS):
            one = _alone(path, values)
            (run,) = (r for r in found.runs if (r.label, r.number) == (path.name, number))
            assert run.ticks == one.ticks
            mine = (pl.col("set") == number) & (pl.col("file") == path.name)
            expected = one.rows.to_polars().select("symbol", n="signal.n", sum="signal.sum")
            got = rows.filter(mine).drop("set", "file")
            assert got["n"].sum() > 0
            assert got.with_columns(pl.col("symbol").cast(pl.String)).equals(
                expected.with_columns(pl.col("symbol").cast(pl.String))
            )
            records = one.outputs["wider"].to_polars().with_columns(pl.col("symbol").cast(pl.String))
            assert wider.filter(mine).drop("set", "file").select(records.columns).equals(records)


def test_days_name_the_files_and_are_their_dates(days: Path, tmp_path: Path) -> None:
    (days / "2026-01-06.itch50").rename(days / "2026-01-06.gz")
    found = sweep(
        str(days / "{date}.gz"), wide, SETS[:1], days=["2026-01-06", "2026-01-05"], out=tmp_path / "out", workers=1,
        symbols=["AAAA*"],
    )  # fmt: skip
    assert found.labels == ("2026-01-06", "2026-01-05")
    wider = found.outputs["wider"].to_polars()
    dates = dict(wider.group_by("file").agg(pl.col("ts").min().dt.date()).iter_rows())
    assert {str(name): str(date) for name, date in dates.items()} == {name: name for name in found.labels}


def test_a_file_that_fails_keeps_those_before_it(days: Path, tmp_path: Path) -> None:
    (days / "2026-01-06.itch50").write_bytes(beginning(1_000_000) + b"\0")
    with pytest.raises(FeedError, match=r"2026-01-06\.itch50"):
        sweep(sorted(days.iterdir()), wide, SETS, out=tmp_path / "out", workers=1, **FEW)
    done = sweep(days / "2026-01-05.gz", wide, SETS, out=tmp_path / "out", workers=1, **FEW)
    assert done.ran == ()
    assert [path.parent.name for path in done.folder.rglob("*.parquet")] == ["file=2026-01-05.gz"] * 2


def test_an_interrupt_keeps_what_is_done(days: Path, tmp_path: Path) -> None:
    def interrupt(done: int, total: int) -> None:
        assert (done, total) == (1, 2)
        raise KeyboardInterrupt

    sources = sorted(days.iterdir())
    with pytest.raises(KeyboardInterrupt) as raised:
        sweep(sources, wide, SETS, out=tmp_path / "out", workers=1, progress=interrupt, **FEW)
    whole = sweep(sources, wide, SETS, out=tmp_path / "out", workers=1, **FEW)
    partial = raised.value.partial  # type: ignore[attr-defined]
    assert (partial.labels, partial.missing) == (partial.ran, whole.ran)
    assert {*partial.labels, *partial.missing} == {*whole.labels}
    assert partial.runs == tuple(run for run in whole.runs if run.label in partial.labels)
    of_all = whole.rows.to_polars().filter(pl.col("file").is_in(list(partial.labels)))
    assert (
        partial.rows.to_polars()
        .with_columns(pl.col("file").cast(str))
        .equals(of_all.with_columns(pl.col("file").cast(str)))
    )


def test_an_interrupt_before_a_file_is_done_has_no_result(days: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("strand.sweeping.run.run_job", interrupted)
    with pytest.raises(KeyboardInterrupt) as raised:
        sweep(sorted(days.iterdir()), wide, SETS, workers=1, **FEW)
    assert not hasattr(raised.value, "partial")


def test_a_date_beside_the_feed_options_is_one_of_them(tmp_path: Path) -> None:
    only: dict[str, Any] = {"symbols": FEW["symbols"], "out": tmp_path / "out", "workers": 1}
    first = sweep(sample_path(), wide, SETS[:1], date=SAMPLE_DATE, **only)
    assert first.runs[0].ticks > 0
    with pytest.raises(UnknownNameError, match="no output is named 'wide': did you mean 'wider'"):
        first.outputs["wide"]
    for date in ({"date": dt.date.fromisoformat(SAMPLE_DATE)}, {"feed_options": {"date": SAMPLE_DATE}}):
        again = sweep(sample_path(), wide, SETS[:1], **date, **only)
        assert (again.ran, again.code) == ((), first.code)


def test_two_files_of_one_name_are_refused(days: Path, tmp_path: Path) -> None:
    (tmp_path / "2026-01-05.gz").write_bytes(sample_path().read_bytes())
    with pytest.raises(ConfigurationError, match=r"are both called 2026-01-05\.gz"):
        sweep([days / "2026-01-05.gz", tmp_path / "2026-01-05.gz"], wide, SETS, out=tmp_path / "out", **FEW)


def test_a_field_that_a_table_has_already_is_refused(tmp_path: Path) -> None:
    @strand.handler(state=[("file", "i8")], params=[("least", "u4")])
    def named(row, tick, params):  # type: ignore[no-untyped-def]
        row.file += 1

    with pytest.raises(ConfigurationError, match="'file'"):
        sweep(sample_path(), named, [{"least": 1}], out=tmp_path / "out", **FEW)

    @strand.handler(state=[("n", "i8")], params=[("least", "u4")], outputs={"rows": [("n", "i8")]})
    def emits(row, tick, params, emit):  # type: ignore[no-untyped-def]
        row.n += 1

    with pytest.raises(ConfigurationError, match="'emits' has an output 'rows', as the table of rows is called"):
        sweep(sample_path(), emits, [{"least": 1}], out=tmp_path / "out", **FEW)


def test_a_file_without_a_tick_is_refused_unless_that_is_allowed(tmp_path: Path) -> None:
    write_npy(tmp_path / "none.npy", strand.ticks.zeros(0))
    with pytest.raises(EmptyFeedError, match="allow_empty=True"):
        sweep(tmp_path / "none.npy", wide, SETS[:1], out=tmp_path / "out", workers=1)
    found = sweep(tmp_path / "none.npy", wide, SETS[:1], out=tmp_path / "out", workers=1, allow_empty=True)
    assert found.missing == ()


def test_what_a_worker_that_was_killed_left_is_removed(tmp_path: Path) -> None:
    first = sweep(sample_path(), wide, SETS[:1], out=tmp_path / "out", **FEW)
    (path,) = (path for path in first.rows.paths)
    partial, stray = path.with_name(f".{path.name}.0a.partial"), path.with_name("sets-7-7-0a.parquet")
    for left in (partial, stray):
        left.write_bytes(b"half")
    again = sweep(sample_path(), wide, SETS[:1], out=tmp_path / "out", **FEW)
    assert (again.ran, list(path.parent.iterdir())) == ((), [path])


# ---- The result of a sweep


def test_without_a_folder_the_data_set_lives_as_long_as_its_result() -> None:
    found = sweep(sample_path(), wide, SETS[:1], **FEW)
    folder, rows = found.folder, found.rows
    del found
    assert len(rows.to_arrow())
    del rows
    assert not folder.exists()


# ---- One file of a sweep


def test_the_fingerprint_of_a_set_is_that_of_a_replay(tmp_path: Path) -> None:
    @strand.handler(state=[("n", "i8")], params=[("least", "u4")])
    def large(row, tick, params):  # type: ignore[no-untyped-def]
        row.n += tick.size >= params.least

    found = sweep(sample_path(), large, [{"least": 1}, {"least": 500}], out=tmp_path / "out", **FEW)
    for run, least in zip(found.runs, (1, 500), strict=True):
        one = strand.replay(sample_path(), large.with_params({"*": {"least": least}}), workers=0, **FEW)
        assert run.fingerprint == one.fingerprint
    assert found.runs[0].fingerprint != found.runs[1].fingerprint


@pytest.mark.cells(1)
@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.parametrize(
    ("handler", "before"),
    [
        (span_objects, ()),
        (spans_after_a_book, (strand.book(),)),
        (counting, ()),
        (emitting, (strand.book(),)),
        (emitting, ()),
        (plain_batches, (strand.book(),)),
        (span_batches, ()),
        (span_batches, (strand.bars("5m"), strand.book())),
    ],
)
def test_a_set_of_a_handler_in_python_leaves_what_a_replay_with_it_alone_leaves(
    handler: Any, before: tuple[Any, ...], n: int, tmp_path: Path
) -> None:
    whole = strand.chain(*before, handler) if before else handler
    found = sweep(sample_path(), whole, SPANS[1 : 2 + n : 2], out=tmp_path / "out", workers=1, **FEW)
    rows, tables = found.rows.to_polars(), {name: table.to_polars() for name, table in found.outputs.items()}
    assert set(tables) == set(handler.outputs)
    for run in found.runs:
        values = found.sets[run.number]
        given = handler.with_params(values if "*" in values else {"*": values})
        one = strand.replay(sample_path(), strand.chain(*before, given) if before else given, workers=0, **FEW)
        assert (run.fingerprint, run.ticks) == (one.fingerprint, one.ticks)
        expected = one.rows.to_polars()
        if before:
            expected = expected.select("symbol", **{name: f"spans.{name}" for name in handler.state.names})
        mine = pl.col("set") == run.number
        assert _plain(rows.filter(mine).drop("set", "file")).equals(_plain(expected))
        for name, table in tables.items():
            records = _plain(one.outputs[name].to_polars())
            assert run.outputs[name].records == len(records) > 0
            assert _plain(table.filter(mine).drop("set", "file").select(records.columns)).equals(records)


def _plain(table: Any) -> Any:
    return table.with_columns(pl.col("symbol").cast(pl.String))


def test_the_fingerprint_covers_outputs_and_the_handlers_before(tmp_path: Path) -> None:
    before = strand.bars("5m")
    found = sweep(sample_path(), strand.chain(before, wide), SETS, out=tmp_path / "out", **FEW)
    for run, values in zip(found.runs, SETS, strict=True):
        alone = strand.chain(before, strand.book(), signal.with_params({"*": values}))
        one = strand.replay(sample_path(), alone, workers=0, **FEW)
        assert run.fingerprint == one.fingerprint
        assert run.outputs["wider"].records == len(one.outputs["wider"].to_numpy()) > 0
        assert run.rows != run.fingerprint
    assert {path.parts[-4] for path in found.folder.rglob("*.parquet")} == {"rows", "wider"}  # and no bars
    by_rows = {(run.rows, run.outputs["wider"].digest) for run in found.runs}
    assert len({rows for rows, _ in by_rows}) == len(SETS)
    assert len({digest for _, digest in by_rows}) == 2  # the weight is in no record


def test_a_file_that_changes_while_it_is_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    day = tmp_path / "day.gz"
    day.write_bytes(sample_path().read_bytes())
    replay = jobs.replay

    def changed(*args: Any, **options: Any) -> Any:
        result = replay(*args, **options)
        os.utime(day, ns=(1, 1))
        return result

    monkeypatch.setattr(jobs, "replay", changed)
    with pytest.raises(FeedError, match=r"day\.gz.*was changed while the sweep read it"):
        sweep(day, wide, SETS, out=tmp_path / "out", **FEW)
    assert not list((tmp_path / "out").rglob("*.parquet"))


def test_a_file_that_changes_before_its_turn_is_refused_where_some_of_its_sets_are_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    day, out = tmp_path / "day.itch50", tmp_path / "out"
    day.write_bytes(beginning(500_000))
    first = sweep(day, wide, SETS[:2], out=out, workers=1, **FEW)
    run_job = jobs.run_job

    def changed(job: jobs.Job) -> jobs.Done:
        day.write_bytes(beginning(400_000))
        return run_job(job)

    monkeypatch.setattr("strand.sweeping.run.run_job", changed)
    with pytest.raises(FeedError, match=r"day\.itch50.*was changed after the sweep began"):
        sweep(day, wide, SETS[:3], out=out, workers=1, **FEW)
    assert len(first.rows.to_polars()) > 0  # what is known of the bytes of before is kept
    monkeypatch.undo()
    again = sweep(day, wide, SETS[:3], out=out, workers=1, **FEW)
    assert len({run.input for run in again.runs}) == 1
    assert [run.number for run in again.runs] == [0, 1, 2]


# ---- What a data set of sweeps knows that it has


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

    monkeypatch.setattr("strand.sweeping.run.file_digest", note)
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
