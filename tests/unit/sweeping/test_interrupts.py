"""Ctrl-C anywhere in a sweep: its data set stays whole, and the same call completes it.

Each test runs in a child, which ends in a bounded time.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from bounded_child import in_bounded_child
from engine_support import ticks_for
from interrupt_points import APART, Interrupted, at_each_point, interrupter

import strand
from strand import Scheduler
from strand.feeds.write.npy import write_npy
from strand.sweeping.run import sweep

pytest.importorskip("numba")
pytest.importorskip("pyarrow")

pytestmark = pytest.mark.python


@strand.batch_handler(state=[("ticks", "i8")], params=[("times", "i8")], outputs={"seen": [("n", "i8")]})
def counting(symbol: str, ticks: Any, row: Any, ctx: Any) -> None:
    row["ticks"] += len(ticks) * ctx.params["times"]
    ctx.emit((row["ticks"],), at=len(ticks) - 1)


SETS = [{"times": 1}, {"times": 3}]


class Threads(Scheduler):
    """A pool of loky's form. Its threads stand for processes, so that no process is started for each point."""

    def __init__(self, max_workers: int, env: Any) -> None:
        super().__init__(max_workers)

    def shutdown(self, wait: bool = True, kill_workers: bool = False) -> None:  # type: ignore[override]
        super().shutdown(wait, cancel_futures=kill_workers)


class Case(Interrupted):
    """A sweep of two files into a folder, and what an unbroken one finds."""

    def __init__(self, folder: Path, workers: int) -> None:
        self._files, self._out = sorted(folder.glob("*.npy")), folder / "out"
        shutil.rmtree(self._out, ignore_errors=True)
        super().__init__(partial(sweep, self._files, counting, SETS, out=self._out, workers=workers))

    def check(self) -> None:
        self.check_nothing_is_open()
        for found in self.partial:
            assert sorted([*found.labels, *found.missing]) == [path.name for path in self._files]
            assert sorted(found.rows.to_arrow()["ticks"].to_pylist()) == sorted(EXPECTED * len(found.labels))
        whole = self.operation()
        assert whole.missing == ()
        assert not {label for found in self.partial for label in found.labels}.intersection(whole.ran)
        assert sorted(whole.rows.to_arrow()["ticks"].to_pylist()) == sorted(EXPECTED * 2)
        assert len(list(self._out.rglob("*.parquet"))) == 4
        assert not list(self._out.rglob("*.partial"))


#: Rows of two symbols and two sets, by file.
EXPECTED = [6, 6, 18, 18]


@pytest.mark.cells(1)
@pytest.mark.parametrize("apart", APART)
@pytest.mark.parametrize("workers", [1, 2])
def test_interrupts_at_points_of_a_sweep_leave_a_data_set_that_the_same_call_completes(
    workers: int, apart: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, one_in: Callable[[int], int]
) -> None:
    interrupter()
    for name in ("a.npy", "b.npy"):
        write_npy(tmp_path / name, ticks_for([0, 1] * 6))
    monkeypatch.setattr("loky.ProcessPoolExecutor", Threads)

    def prepare() -> tuple[Callable[[], Any], Callable[[], Any]]:
        case = Case(tmp_path, workers)
        return case.run, case.check

    def interrupt() -> None:
        Case(tmp_path, 1).run()  # which imports what a sweep takes
        at_each_point(prepare, apart, one_in(2000))

    in_bounded_child(interrupt, 600)
