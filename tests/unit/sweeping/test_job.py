"""One file of a sweep."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from python_set_handlers import SPANS, counting, emitting, plain_batches, span_batches, span_objects, spans_after_a_book
from sweep_files import FEW, beginning

import strand
from strand.errors import FeedError
from strand.feeds.sample import sample_path
from strand.sweeping import backends
from strand.sweeping import job as jobs
from strand.sweeping.sweep import sweep

pl = pytest.importorskip("polars")
pytest.importorskip("numba")
pytest.importorskip("loky")

from sweep_handlers import SETS, signal, wide  # noqa: E402

pytestmark = pytest.mark.python


def test_the_fingerprint_of_a_set_is_that_of_a_replay(tmp_path: Path) -> None:
    @strand.handler(state=[("n", "i8")], params=[("least", "u4")])
    def large(row, tick, params):  # type: ignore[no-untyped-def]
        row.n += tick.size >= params.least

    found = sweep(sample_path(), large, [{"least": 1}, {"least": 500}], out=tmp_path / "out", **FEW)
    for run, least in zip(found.runs, (1, 500), strict=True):
        one = strand.replay(sample_path(), large.with_params({"*": {"least": least}}), workers=0, **FEW)
        assert run.fingerprint == one.fingerprint
    assert found.runs[0].fingerprint != found.runs[1].fingerprint


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

    monkeypatch.setattr(backends, "run_job", changed)
    with pytest.raises(FeedError, match=r"day\.itch50.*was changed after the sweep began"):
        sweep(day, wide, SETS[:3], out=out, workers=1, **FEW)
    assert len(first.rows.to_polars()) > 0  # what is known of the bytes of before is kept
    monkeypatch.undo()
    again = sweep(day, wide, SETS[:3], out=out, workers=1, **FEW)
    assert len({run.input for run in again.runs}) == 1
    assert [run.number for run in again.runs] == [0, 1, 2]
