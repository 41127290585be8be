"""A sweep in processes of its own."""

from __future__ import annotations

import pickle
import queue
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from python_set_handlers import SPANS, span_objects
from sweep_files import FEW, beginning
from warm_python import run_warm

from strand.errors import FeedError, HandlerError, MissingExtraError
from strand.feeds.sample import SAMPLE_DATE
from strand.sweeping.run import sweep

pl = pytest.importorskip("polars")
pytest.importorskip("numba")
pytest.importorskip("loky")

from sweep_handlers import SETS, breaks, wide  # noqa: E402

from strand.sweeping import job, run  # noqa: E402

pytestmark = pytest.mark.python


def test_two_processes_write_the_same_bytes_as_one(days: Path, tmp_path: Path) -> None:
    sources = sorted(days.iterdir())
    one = sweep(sources, wide, SETS, out=tmp_path / "one", workers=1, **FEW)
    two = sweep(sources, wide, SETS, out=tmp_path / "two", workers=2, **FEW)
    written = {str(path.relative_to(one.folder)): path.read_bytes() for path in one.folder.rglob("*.parquet")}
    assert len(written) == 4
    assert written == {str(path.relative_to(two.folder)): path.read_bytes() for path in two.folder.rglob("*.parquet")}
    assert [run.fingerprint for run in one.runs] == [run.fingerprint for run in two.runs]


def test_a_global_that_was_changed_after_the_import_is_never_an_old_one_in_another_process(
    days: Path, tmp_path: Path
) -> None:
    """A compiled function is sent with its values. A class is imported anew, with the old ones: that is an error."""
    (tmp_path / "signals.py").write_text(
        """
import strand

LEVEL = 1

@strand.handler(state=[("n", "i8")], params=[("least", "u4")])
def compiled(row, tick, params):
    row.n += (tick.size >= params.least) * LEVEL

class Adds:
    def on_start(self, ctx):
        self.ctx = ctx

    def on_tick(self, tick):
        self.ctx.row["n"] += (tick.size >= self.ctx.params["least"]) * LEVEL

adds = strand.object_handler(Adds, state=[("n", "i8")], params=[("least", "u4")])
"""
    )
    program = tmp_path / "program.py"
    program.write_text(
        f"""
import strand
import signals

files = {[str(path) for path in sorted(days.iterdir())]}

def show(handler, workers):
    options = dict(feed_options={{"date": {str(SAMPLE_DATE)!r}}}, symbols=["AAAA*"])
    try:
        found = strand.sweep(files, handler, [{{"least": 1}}], workers=workers, **options)
        print(found.rows.to_polars()["n"].sum())
    except strand.errors.ConfigurationError as error:
        print(error)

for level in (1, 2):
    signals.LEVEL = level
    for handler in (signals.compiled, signals.adds):
        show(handler, 1)
        show(handler, 2)
"""
    )
    done = run_warm(program)
    assert done.returncode == 0, done.stderr
    said = done.stdout.splitlines()
    once, twice = said[0], str(2 * int(said[0]))
    assert int(once) > 0
    assert said[:7] == [once, once, once, once, twice, twice, twice]
    assert "'Adds' has other code or values in another process" in said[7]


def test_objects_in_two_processes_leave_the_same_bytes_as_in_one(days: Path, tmp_path: Path) -> None:
    sources = sorted(days.iterdir())
    one, two = (
        sweep(sources, span_objects, SPANS[1::2], out=tmp_path / str(workers), workers=workers, **FEW)
        for workers in (1, 2)
    )
    written = {str(path.relative_to(one.folder)): path.read_bytes() for path in one.folder.rglob("*.parquet")}
    assert len(written) == 4
    assert written == {str(path.relative_to(two.folder)): path.read_bytes() for path in two.folder.rglob("*.parquet")}
    assert [run.fingerprint for run in one.runs] == [run.fingerprint for run in two.runs]


def test_a_class_of_the_program_itself_goes_to_other_processes_and_is_run_again_when_it_is_edited(
    days: Path, tmp_path: Path
) -> None:
    program = tmp_path / "program.py"
    text = f"""
import strand

BY = 1

class Large:
    def on_start(self, ctx):
        self.ctx = ctx

    def on_tick(self, tick):
        if self.is_large(tick):
            self.ctx.row["n"] += BY
        if self.ctx.row["n"] == 10**6:
            raise ValueError("so many")

    def is_large(self, tick):
        return tick.size >= self.ctx.params["least"] and tick.action in {{b"A", b"X", b"D"}}

if __name__ == "__main__":
    handler = strand.object_handler(state=[("n", "i8")], params=[("least", "u4")])(Large)
    files = {[str(path) for path in sorted(days.iterdir())]}
    found = strand.sweep(files, handler, [{{"least": 1}}, {{"least": 500}}], out={str(tmp_path / "out")!r}, workers=2,
                         feed_options={{"date": {str(SAMPLE_DATE)!r}}}, symbols=["AAAA*"])
    print(len(found.ran), found.rows.to_polars()["n"].sum())
"""

    def said(text: str) -> list[int]:
        program.write_text(text)
        done = run_warm(program)
        assert done.returncode == 0, done.stderr
        return [int(word) for word in done.stdout.split()]

    first = said(text)
    assert first[0] == 2
    assert said(text.replace("BY = 1", "# one\nBY = 2")) == [2, 2 * first[1]]
    assert said(text) == [0, first[1]]
    failed = run_warm("-c", text.replace("10**6", "100").replace('{"least": 1}', '{"least": 1}, {"least": 2}'))
    assert failed.returncode == 1
    assert "HandlerError: handler 'Large' failed on AAAA" in failed.stderr
    assert "with set 0 (least=1): ValueError: so many" in failed.stderr


def test_a_handler_in_another_process_has_the_lines_and_the_machine_code_of_its_file() -> None:
    """numba's cache and the lines of errors go by the name of the file that a function is in."""
    pickled = run._pickled(pytest.importorskip("cloudpickle"), wide)
    (there, here) = (handler.parts[-1][1].on_tick.__code__ for handler in (pickle.loads(pickled), wide))
    assert there is not here
    assert (there.co_filename, there.co_firstlineno) == (here.co_filename, here.co_firstlineno)


def test_an_interrupt_of_this_process_keeps_what_another_has_done(
    days: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, done = tmp_path / "out", threading.Event()

    def interrupted(_: job.Job) -> None:
        assert done.wait(60)
        raise KeyboardInterrupt

    class Ended(queue.SimpleQueue):  # type: ignore[type-arg]
        def put(self, *args: Any, **options: Any) -> None:
            super().put(*args, **options)
            done.set()

    monkeypatch.setattr(run, "run_job", interrupted)
    monkeypatch.setattr(run, "SimpleQueue", Ended)
    sources = sorted(days.iterdir())
    with pytest.raises(KeyboardInterrupt):
        sweep(sources, wide, SETS, out=out, workers=2, **FEW)
    monkeypatch.undo()
    assert len(sweep(sources, wide, SETS, out=out, workers=1, **FEW).ran) == 1


@pytest.mark.parametrize("error", [IndexError, ValueError])
def test_an_error_of_this_process_ends_the_sweep_whatever_it_is(
    error: type[Exception], days: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Ended(queue.SimpleQueue):  # type: ignore[type-arg]
        def get(self, *_: Any) -> Any:
            return super().get(timeout=60)

    def fails(_: job.Job) -> None:
        raise error("in the middle of a job")

    monkeypatch.setattr(run, "run_job", fails)
    monkeypatch.setattr(run, "SimpleQueue", Ended)
    with pytest.raises(error, match="in the middle of a job"):
        sweep(sorted(days.iterdir()), wide, SETS, out=tmp_path / "out", workers=2, **FEW)


def test_an_error_in_another_process_is_raised_here(tmp_path: Path) -> None:
    sources = [tmp_path / "broken.itch50", tmp_path / "whole.itch50"]
    for path, data in zip(sources, (beginning(1_000_000) + b"\0", beginning(500_000)), strict=True):
        path.write_bytes(data)
    with pytest.raises(FeedError, match=r"broken\.itch50"):  # the other process has it, which begins with the largest
        sweep(sources, wide, SETS, out=tmp_path / "out", workers=2, feed_options=FEW["feed_options"])


@pytest.mark.parametrize("workers", [1, 2])
def test_the_set_that_fails_is_named_with_the_line_of_its_code(workers: int, tmp_path: Path) -> None:
    """The largest file fails; another process has that one, where there are two."""
    sources = [tmp_path / "large.itch50", tmp_path / "small.itch50"]
    for path, size in zip(sources, (1_000_000, 200_000), strict=True):
        path.write_bytes(beginning(size))
    sets = [{"after": 10**6}, {"after": 300}, {"after": 10**7}]
    with pytest.raises(HandlerError, match=r"with set 1 \(after=300\)") as caught:
        sweep(sources, breaks, sets, out=tmp_path / "out", workers=workers, feed_options=FEW["feed_options"])
    error = caught.value
    assert (error.set_number, error.params) == (1, {"after": 300})
    assert error.line is not None
    assert error.line.text == "row.n = 1 // max(params.after - row.seen, 0)"
    assert Path(error.line.file).name == "sweep_handlers.py"
    assert not list((tmp_path / "out").rglob("file=large.itch50/*.parquet"))


@pytest.mark.parametrize(
    ("backend", "package", "said"),
    [
        ("processes", "pyarrow", r"^a sweep needs the package 'pyarrow': .*pip install 'tickstrand\[sweep\]'$"),
        ("processes", "numba", r"^a sweep needs the package 'numba': .*tickstrand\[sweep\]'$"),
        ("ray", "ray", r"^a sweep on Ray needs the package 'ray': .*tickstrand\[ray\]'$"),
        ("ray", "cloudpickle", r"^a sweep on Ray needs the package 'cloudpickle': .*tickstrand\[ray\]'$"),
        ("ray", "pyarrow", r"^a sweep on Ray needs the package 'pyarrow': .*tickstrand\[ray\]'$"),
    ],
)
def test_a_package_that_is_missing_is_named_with_the_extra_of_the_backend_before_anything_is_read(
    backend: Any, package: str, said: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("ray", "cloudpickle"):  # as if they were there, so that the other one is missing
        monkeypatch.setitem(sys.modules, name, sys.modules[__name__])
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtraError, match=said):
        sweep(tmp_path / "none.gz", wide, SETS, backend=backend, out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("package", ["loky", "cloudpickle"])
def test_what_several_processes_need_is_named_where_there_are_several(
    package: str, days: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    assert sweep(sorted(days.iterdir()), wide, SETS[:1], workers=1, out=tmp_path / "one", **FEW).ran
    with pytest.raises(MissingExtraError, match=rf"^a sweep in several .*'{package}': .*tickstrand\[sweep\]'$"):
        sweep(sorted(days.iterdir()), wide, SETS[:1], workers=2, out=tmp_path / "two", **FEW)
