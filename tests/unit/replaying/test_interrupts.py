"""Ctrl-C anywhere in a replay with outputs: the result so far is there, and each output has its records.

Each test runs in a child, which ends in a bounded time.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bounded_child import in_bounded_child
from engine_support import system_threads, ticks_for, wait_for_threads
from interrupt_points import at_each_point, interrupter

import strand
from strand import feeds, testing
from strand.feeds.write.npy import write_npy

pytestmark = pytest.mark.python

OUT = [("at", "u8")]


@strand.batch_handler(state=[("ticks", "u8")], outputs={"collected": OUT, "sunk": OUT, "filed": OUT})
def counting(symbol: str, ticks: Any, row: Any, ctx: Any) -> None:
    records = np.arange(row["ticks"] + 1, row["ticks"] + 1 + len(ticks), dtype=np.uint64).view(OUT)
    for output in ("collected", "sunk", "filed"):
        ctx.emit(records, at=np.arange(len(ticks)), output=output)
    row["ticks"] += len(ticks)


class Sink:
    """Its methods are Python, so that points of an interrupt lie in them, too."""

    def __init__(self) -> None:
        self.records: list[int] = []
        self.ends: list[str] = []

    def write(self, batch: Any) -> None:
        assert not self.ends
        for number in batch["at"].tolist():
            self.records.append(number)

    def close(self) -> None:
        self.ends.append("closed")

    def abort(self) -> None:
        self.ends.append("aborted")


TICKS, SYMBOLS = ticks_for([0, 1, 2, 3] * 6), ["A", "B", "C", "D"]


class Case:
    """A replay whose outputs are collected, given to a sink and written to a file."""

    def __init__(self, folder: Path, workers: int, every: int | None, files: list[Path], *, is_one: bool) -> None:
        self.path, self.sink, self.results = folder / "filed.npy", Sink(), []
        self.path.unlink(missing_ok=True)
        self.is_one, self._files, self._threads = is_one, files, system_threads()
        self._options = {"workers": workers, "fingerprint_every": every} | ({"cores": None} if workers else {})

    def replay(self) -> None:
        feed = feeds.open(self._files) if self._files else testing.ListFeed(TICKS, SYMBOLS, batches=5)
        out = {"sunk": self.sink, "filed": self.path}
        try:
            self.results.append(strand.replay(feed, counting, out=out, timeline=False, **self._options))
        except KeyboardInterrupt as error:
            self.results.append(getattr(error, "partial", None))
            raise

    def check(self) -> None:
        # A second interrupt may leave the end to a thread, which ``threading`` does not know.
        wait_for_threads(self._threads)
        # None: the dispatcher had not begun; aborted: it had not begun to run.
        assert self.sink.ends in ([], ["aborted"], ["closed"])
        left = [path.name for path in self.path.parent.iterdir()]
        assert left == (["filed.npy"] if self.sink.ends == ["closed"] else [])
        for result in filter(None, self.results):
            n = result.ticks
            if n:
                assert self.sink.ends == ["closed"]
            collected, rows = result.outputs["collected"].to_numpy(), result.rows.array["ticks"].tolist()
            # A second interrupt leaves ticks that had been published: no record is out behind the first of them.
            is_whole = self.is_one or sum(rows) == n
            assert sum(rows) == result.statistics.handled == n or not is_whole
            # In a plain loop an interrupt may leave symbols apart: a batch has all ticks of one, then of another.
            for key, count in enumerate(rows):
                found = collected["at"][collected["instrument_id"] == key].tolist()
                assert found == [*range(1, 1 + (count if is_whole else len(found)))]
            assert self.sink.records == collected["at"].tolist()
            assert not left or np.load(self.path)["at"].tolist() == self.sink.records


def prepared(
    folder: Path, workers: int, every: int | None, files: list[Path], apart: str
) -> tuple[Callable[[], Any], Callable[[], Any]]:
    case = Case(folder, workers, every, files, is_one=apart == "one")
    return case.replay, case.check


@pytest.mark.parametrize("apart", ["one", "two in a row"])
@pytest.mark.parametrize(("workers", "every"), [(0, None), (2, None), (2, 7)], ids=["plain", "workers", "fingerprints"])
def test_an_interrupt_of_a_replay_leaves_each_output_with_the_records_of_its_ticks(
    workers: int, every: int | None, apart: str, tmp_path: Path
) -> None:
    interrupter()
    in_bounded_child(
        partial(at_each_point, partial(prepared, tmp_path, workers, every, [], apart), apart, one_in=149), 240
    )


@pytest.mark.cells(1)
@pytest.mark.parametrize("apart", ["one", "two in a row"])
@pytest.mark.parametrize("workers", [0, 2])
def test_an_interrupt_of_a_merge_of_packed_files_leaves_no_thread_and_whole_outputs(
    workers: int, apart: str, tmp_path: Path, one_in: Callable[[int], int]
) -> None:
    interrupter()
    for name, part in (("a", TICKS[::2]), ("b", TICKS[1::2])):
        write_npy(tmp_path / "plain.npy", part)
        (tmp_path / f"{name}.npy.gz").write_bytes(gzip.compress((tmp_path / "plain.npy").read_bytes()))
    out = tmp_path / "out"
    out.mkdir()
    prepare = partial(prepared, out, workers, None, [tmp_path / "a.npy.gz", tmp_path / "b.npy.gz"], apart)
    in_bounded_child(partial(at_each_point, prepare, apart, one_in(1500)), 3600)
