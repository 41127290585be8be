"""A sweep in processes of its own."""

from __future__ import annotations

from pathlib import Path

import pytest
from sweep_files import FEW, two_days
from warm_python import run_warm

from strand.feeds.sample import SAMPLE_DATE
from strand.sweeping.sweep import sweep

pl = pytest.importorskip("polars")
pytest.importorskip("numba")
pytest.importorskip("loky")

from sweep_handlers import SETS, wide  # noqa: E402

pytestmark = pytest.mark.python


@pytest.fixture
def days(tmp_path: Path) -> Path:
    return two_days(tmp_path)


def test_two_processes_write_the_same_bytes_as_one(days: Path, tmp_path: Path) -> None:
    sources = sorted(days.iterdir())
    one = sweep(sources, wide, SETS, out=tmp_path / "one", workers=1, **FEW)
    two = sweep(sources, wide, SETS, out=tmp_path / "two", workers=2, **FEW)
    written = {str(path.relative_to(one.folder)): path.read_bytes() for path in one.folder.rglob("*.parquet")}
    assert len(written) == 4
    assert written == {str(path.relative_to(two.folder)): path.read_bytes() for path in two.folder.rglob("*.parquet")}
    assert [run.fingerprint for run in one.runs] == [run.fingerprint for run in two.runs]


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
