"""Sweeps: against one replay a set and a file, what is not run again, and what goes wrong."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest
from warm_python import run_warm

import strand
from strand.errors import ConfigurationError, FeedError
from strand.feeds.sample import SAMPLE_DATE, sample_path
from strand.sweeping.sweep import sweep

pl = pytest.importorskip("polars")
pytest.importorskip("numba")
pytest.importorskip("loky")

from sweep_handlers import SETS, signal, wide  # noqa: E402

DATE = {"date": SAMPLE_DATE}
FEW: dict[str, Any] = {"symbols": ["AAAA*"], "feed_options": DATE}


@pytest.fixture
def days(tmp_path: Path) -> Path:
    """Two files of one market, the second one shorter."""
    folder = tmp_path / "days"
    folder.mkdir()
    (folder / "2026-01-05.gz").write_bytes(sample_path().read_bytes())
    (folder / "2026-01-06.itch50").write_bytes(_beginning(2_000_000))
    return folder


def _beginning(maximum: int) -> bytes:
    """The sample's messages that fit into so many bytes."""
    data, at = gzip.decompress(sample_path().read_bytes()), 0
    while (after := at + 2 + int.from_bytes(data[at : at + 2], "big")) <= maximum:
        at = after
    return data[:at]


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


def test_the_fingerprint_of_a_set_is_that_of_a_replay(tmp_path: Path) -> None:
    @strand.handler(state=[("n", "i8")], params=[("least", "u4")])
    def large(row, tick, params):  # type: ignore[no-untyped-def]
        row.n += tick.size >= params.least

    found = sweep(sample_path(), large, [{"least": 1}, {"least": 500}], out=tmp_path / "out", **FEW)
    for run, least in zip(found.runs, (1, 500), strict=True):
        one = strand.replay(sample_path(), large.with_params({"*": {"least": least}}), workers=0, **FEW)
        assert run.fingerprint == one.fingerprint
    assert found.runs[0].fingerprint != found.runs[1].fingerprint


def test_two_processes_write_the_same_bytes_as_one(days: Path, tmp_path: Path) -> None:
    sources = sorted(days.iterdir())
    one = sweep(sources, wide, SETS, out=tmp_path / "one", workers=1, **FEW)
    two = sweep(sources, wide, SETS, out=tmp_path / "two", workers=2, **FEW)
    written = {str(path.relative_to(one.folder)): path.read_bytes() for path in one.folder.rglob("*.parquet")}
    assert len(written) == 4
    assert written == {str(path.relative_to(two.folder)): path.read_bytes() for path in two.folder.rglob("*.parquet")}
    assert [run.fingerprint for run in one.runs] == [run.fingerprint for run in two.runs]


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

    (days / "2026-01-06.itch50").write_bytes(_beginning(1_000_000))
    changed = again(SETS)
    assert changed.ran == ("2026-01-06.itch50",)
    assert changed.runs[-1].ticks < more.runs[-1].ticks
    assert len(list(first.folder.rglob("*06.itch50/*.parquet"))) == 2

    other = again(SETS, strand.chain(strand.book(), signal.with_params({"*": {"least": 0, "weight": 3.0}})))
    assert len(other.ran) == 2
    assert other.code != changed.code
    assert again(SETS).ran == ()


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


def test_without_a_folder_the_data_set_lives_as_long_as_its_result() -> None:
    found = sweep(sample_path(), wide, SETS[:1], **FEW)
    folder, rows = found.folder, found.rows
    del found
    assert len(rows.to_arrow())
    del rows
    assert not folder.exists()


def test_a_file_that_fails_keeps_those_before_it(days: Path, tmp_path: Path) -> None:
    (days / "2026-01-06.itch50").write_bytes(_beginning(1_000_000) + b"\0")
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
    with pytest.raises(KeyboardInterrupt):
        sweep(sources, wide, SETS, out=tmp_path / "out", workers=1, progress=interrupt, **FEW)
    assert len(sweep(sources, wide, SETS, out=tmp_path / "out", workers=1, **FEW).ran) == 1


def test_a_handler_of_the_program_itself_goes_to_other_processes(days: Path, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        f"""
import strand

@strand.handler(state=[("n", "i8")], params=[("least", "u4")])
def large(row, tick, params):
    row.n += tick.size >= params.least

files = {[str(path) for path in sorted(days.iterdir())]}
found = strand.sweep(files, large, [{{"least": 1}}, {{"least": 500}}], out={str(tmp_path / "out")!r}, workers=2,
                     feed_options={{"date": {str(SAMPLE_DATE)!r}}}, symbols=["AAAA*"])
print(len(found.ran), found.rows.to_polars()["n"].sum() > 0)
"""
    )
    done = run_warm(program)
    assert (done.returncode, done.stdout) == (0, "2 True\n"), done.stderr


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"handler": strand.book()}, "takes no sets of parameters"),
        ({"params": [{"leats": 1}]}, "'leats' is not a parameter"),
        ({"params": []}, "there is no set"),
        ({"workers": 0}, "workers"),
        ({"backend": "threads"}, "backend: 'threads' is not 'processes' or 'ray'"),
        ({"days": ["2026-01-05"]}, "days: give files as one name with"),
        ({"days": ["2026-01-05"], "files": "{date}.gz"}, "feed_options: leave date out"),
    ],
)
def test_what_cannot_work_is_refused(options: dict[str, Any], said: str, tmp_path: Path) -> None:
    given: dict[str, Any] = {"files": sample_path(), "handler": wide, "params": SETS, "out": tmp_path / "out"} | options
    with pytest.raises(ConfigurationError, match=said):
        sweep(**given, **FEW)


def test_two_files_of_one_name_are_refused(days: Path, tmp_path: Path) -> None:
    (tmp_path / "2026-01-05.gz").write_bytes(sample_path().read_bytes())
    with pytest.raises(ConfigurationError, match=r"are both called 2026-01-05\.gz"):
        sweep([days / "2026-01-05.gz", tmp_path / "2026-01-05.gz"], wide, SETS, out=tmp_path / "out", **FEW)


def test_a_folder_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "notes.txt").write_text("mine")
    with pytest.raises(ConfigurationError, match="has files that are not of a sweep"):
        sweep(sample_path(), wide, SETS, out=tmp_path / "out", **FEW)
    assert (tmp_path / "out" / "notes.txt").read_text() == "mine"


def test_a_field_that_a_table_has_already_is_refused(tmp_path: Path) -> None:
    @strand.handler(state=[("file", "i8")], params=[("least", "u4")])
    def named(row, tick, params):  # type: ignore[no-untyped-def]
        row.file += 1

    with pytest.raises(ConfigurationError, match="'file'"):
        sweep(sample_path(), named, [{"least": 1}], out=tmp_path / "out", **FEW)
