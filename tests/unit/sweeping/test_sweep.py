"""Sweeps: against one replay a set and a file, what is not run again, and what goes wrong."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pytest
from sweep_files import FEW, beginning

import strand
from strand.errors import ConfigurationError, FeedError, UnknownNameError
from strand.feeds.sample import SAMPLE_DATE, sample_path
from strand.sweeping.sweep import sweep

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

    monkeypatch.setattr("strand.sweeping.backends.run_job", interrupted)
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


def test_what_a_worker_that_was_killed_left_is_removed(tmp_path: Path) -> None:
    first = sweep(sample_path(), wide, SETS[:1], out=tmp_path / "out", **FEW)
    (path,) = (path for path in first.rows.paths)
    partial, stray = path.with_name(f".{path.name}.0a.partial"), path.with_name("sets-7-7-0a.parquet")
    for left in (partial, stray):
        left.write_bytes(b"half")
    again = sweep(sample_path(), wide, SETS[:1], out=tmp_path / "out", **FEW)
    assert (again.ran, list(path.parent.iterdir())) == ((), [path])
