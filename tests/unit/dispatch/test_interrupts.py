"""Ctrl-C anywhere in a call of a dispatcher: it stays whole, and ends.

Each test runs in a child, which ends in a bounded time: a call that waits in vain fails its test alone.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bounded_child import in_bounded_child
from engine_support import system_threads, ticks_for, wait_for_threads, wait_until
from interrupt_points import APART, at_each_point, at_random, free, interrupter

import strand
from strand import Dispatcher
from strand.errors import StrandError

pytestmark = pytest.mark.python


OUT = [("at", "u8")]


@strand.batch_handler(state=[("ticks", "u8")], outputs={"collected": OUT, "sunk": OUT, "filed": OUT})
def counting(symbol: str, ticks: Any, row: Any, ctx: Any) -> None:
    row["ticks"] += len(ticks)
    for output in ("collected", "sunk", "filed"):
        ctx.emit((row["ticks"],), at=0, output=output)


class Sink:
    """Its ends are calls of C: at the first line of another function an interrupt could come."""

    def __init__(self) -> None:
        self.records = 0
        self.ends: list[str] = []
        self.close, self.abort = (partial(self.ends.append, end) for end in ("closed", "aborted"))

    def write(self, batch: Any) -> None:
        assert not self.ends
        self.records += len(batch)


class Case:
    """A dispatcher that runs, with an output of each kind, and a user who waits for the records of one."""

    def __init__(self, folder: Path) -> None:
        self.sink, self.path, self.collected = Sink(), folder / "filed.npy", 0
        self.path.unlink(missing_ok=True)
        out = {"sunk": self.sink, "filed": self.path}
        self.dispatcher = Dispatcher(4, counting, workers=2, cores=None, capacity_ticks=64, out=out).start()
        self.reader = threading.Thread(target=self._read)
        self.reader.start()
        self.dispatcher.publish(ticks_for([0, 1, 2, 3] * 5))

    def _read(self) -> None:
        for records in self.dispatcher.outputs["collected"]:
            self.collected += len(records)

    def check(self) -> None:
        """It still answers, or has been stopped. Its books balance, and a stop ends all of its threads and outputs."""
        d = self.dispatcher
        accepted = d.statistics().accepted
        answers: list[Any] = []

        def ask() -> None:
            try:
                answers.append(d.call(1, lambda view: int(view.row["ticks"]), timeout_s=30))
            except StrandError:
                answers.append(None)

        other = threading.Thread(target=ask)
        other.start()
        other.join()
        # A thread that the closing was handed to may only have begun.
        assert answers == [int(d.rows[1]["ticks"])] or (d._state.closing and answers == [None])
        if not d._state.closing:
            assert d.drain(timeout_s=30)
        d.stop(drain=False)
        wait_until(lambda: d._inside.threads == [])
        self.reader.join(60)
        assert [t for t in threading.enumerate() if t.name.startswith("strand") or t is self.reader] == []
        assert free(d._lifecycle._close_lock)
        d.verify()
        statistics = d.statistics()
        assert statistics.accepted == accepted == statistics.handled + sum(statistics.dropped.values())
        assert int(d.rows.array["ticks"].sum()) == statistics.handled
        assert d._calls.tasks.waiting == 0
        self._check_outputs()

    def _check_outputs(self) -> None:
        """Each is complete, or it is gone. Where one is gone the run says so."""
        emitted = {name: output.records for name, output in self.dispatcher.outputs.items()}
        assert len(self.sink.ends) == 1
        left = [path.name for path in self.path.parent.iterdir()]
        assert left in ([], ["filed.npy"])
        if self.dispatcher.outputs.merger.failure is None:
            assert (self.sink.ends, left) == (["closed"], ["filed.npy"])
            assert self.collected == emitted["collected"] == emitted["sunk"] == emitted["filed"]
        if self.sink.ends == ["closed"]:
            assert self.sink.records == emitted["sunk"]
        if left:
            assert len(np.load(self.path)) == emitted["filed"]


def call(case: Case) -> Callable[[], Any]:
    return lambda: case.dispatcher.call(0, lambda view: int(view.row["ticks"]))


def call_with_a_timeout(case: Case) -> Callable[[], Any]:
    return lambda: case.dispatcher.call(0, lambda view: 1, timeout_s=30)


def submit_call(case: Case) -> Callable[[], Any]:
    return lambda: case.dispatcher.submit_call(0, lambda view: 1).result()


def publish(case: Case) -> Callable[[], Any]:
    return lambda: case.dispatcher.publish(ticks_for([0, 1, 2, 3]))


def drain(case: Case) -> Callable[[], Any]:
    return case.dispatcher.drain


def stop(case: Case) -> Callable[[], Any]:
    return case.dispatcher.stop


def stop_without_a_drain(case: Case) -> Callable[[], Any]:
    return lambda: case.dispatcher.stop(drain=False)


def block(case: Case) -> Callable[[], Any]:
    def run() -> None:
        with case.dispatcher:
            case.dispatcher.publish(ticks_for([0]))

    return run


CALLS = {fn.__name__: fn for fn in (call, call_with_a_timeout, submit_call, publish, drain)}
ENDS = {fn.__name__: fn for fn in (stop, stop_without_a_drain, block)}


def prepared(name: str, folder: Path) -> tuple[Callable[[], Any], Callable[[], Any]]:
    case = Case(folder)
    return {**CALLS, **ENDS}[name](case), case.check


@pytest.mark.parametrize("apart", APART)
@pytest.mark.parametrize("name", [*CALLS, *ENDS])
def test_interrupts_at_points_of_a_call_leave_all_whole(
    name: str, apart: str, tmp_path: Path, one_in: Callable[[int], int]
) -> None:
    """All points with ``--exhaustive``."""
    interrupter()
    in_bounded_child(partial(at_each_point, partial(prepared, name, tmp_path), apart, one_in(60)), 600)


@pytest.mark.parametrize("name", [*CALLS, "stop", "stop_without_a_drain"])
def test_interrupts_at_random_leave_all_whole(name: str, tmp_path: Path, one_in: Callable[[int], int]) -> None:
    prepare, longest_s = partial(prepared, name, tmp_path), 0.02 if name in ENDS else 0.002
    in_bounded_child(partial(at_random, prepare, interrupts=200 // one_in(10), longest_s=longest_s), 240)


class Made:
    """A dispatcher that is made, used and left in one operation. ``is_kept``: a variable of the user outlives that."""

    def __init__(self, folder: Path, *, is_kept: bool) -> None:
        self.sink, self.path, self.kept = Sink(), folder / "filed.npy", list[Dispatcher]()
        self.path.unlink(missing_ok=True)
        self._is_kept, self._threads = is_kept, system_threads()

    def run(self) -> None:
        out = {"sunk": self.sink, "filed": self.path}
        with Dispatcher(4, counting, workers=2, cores=None, capacity_ticks=64, out=out) as dispatcher:
            if self._is_kept:
                self.kept.append(dispatcher)
            dispatcher.publish(ticks_for([0, 1, 2, 3] * 5))
            assert dispatcher.drain()
            assert dispatcher.rows.array["ticks"].tolist() == [5] * 4

    def check(self) -> None:
        """The dispatcher ended with the block, ends by another stop, or goes with the last reference to it."""
        for dispatcher in self.kept:
            dispatcher.stop(drain=False)
            dispatcher.verify()
            statistics = dispatcher.statistics()
            assert statistics.accepted == statistics.handled + sum(statistics.dropped.values())
            assert int(dispatcher.rows.array["ticks"].sum()) == statistics.handled
            assert self.sink.records == len(dispatcher.outputs["collected"].array())
        dispatcher = None
        self.kept.clear()
        wait_for_threads(self._threads)
        # None: the dispatcher had not been made.
        assert self.sink.ends in ([], ["aborted"], ["closed"])
        left = [path.name for path in self.path.parent.iterdir()]
        assert left == (["filed.npy"] if self.sink.ends == ["closed"] else [])
        assert not left or len(np.load(self.path)) == self.sink.records


@pytest.mark.parametrize("apart", APART)
@pytest.mark.parametrize("is_kept", [True, False], ids=["kept", "let go"])
def test_interrupts_at_points_of_a_block_leave_no_thread(
    is_kept: bool, apart: str, tmp_path: Path, one_in: Callable[[int], int]
) -> None:
    interrupter()

    def prepare() -> tuple[Callable[[], Any], Callable[[], Any]]:
        made = Made(tmp_path, is_kept=is_kept)
        return made.run, made.check

    in_bounded_child(partial(at_each_point, prepare, apart, one_in(60)), 600)


@pytest.mark.parametrize("end", ["stop", "garbage"])
def test_an_interrupt_at_the_first_step_of_a_block_s_end_leaves_what_another_stop_or_the_last_reference_ends(
    end: str,
) -> None:
    interrupter()
    in_bounded_child(partial(left_at_the_first_step, end))


def left_at_the_first_step(end: str) -> None:
    threads = system_threads()
    with interrupter().installed():
        dispatcher = Dispatcher(4, counting, workers=2, cores=None)
        with pytest.raises(KeyboardInterrupt) as caught, dispatcher:
            dispatcher.publish(ticks_for([0, 1, 2, 3]))
            interrupter().arm(2)  # the first point is the return of this call
        interrupter().disarm()
    assert caught.traceback[-1].name == "__exit__"
    assert system_threads() > threads
    if end == "stop":
        assert dispatcher.publish(ticks_for([0])) == 1  # it still runs
        assert dispatcher.stop()
        assert dispatcher.rows.array["ticks"].tolist() == [2, 1, 1, 1]
    else:
        with pytest.warns(ResourceWarning, match="call stop"):
            caught = dispatcher = None
    wait_for_threads(threads)
