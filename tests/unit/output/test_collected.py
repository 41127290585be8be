"""Records that are kept in memory."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from bounded_child import in_bounded_child
from engine_support import wait_until
from interrupt_points import APART, at_each_point, at_random, free, interrupter

from strand.errors import WouldDeadlockError
from strand.output.output import Collected, Output
from strand.threads import Inside

pytestmark = pytest.mark.python


RECORD = np.dtype([("n", "<i8")])


def batch(*numbers: int) -> Any:
    found = np.zeros(len(numbers), RECORD)
    found["n"] = numbers
    return found


def following(kept: Collected) -> list[int] | None:
    """The numbers of the next batch; None: there is no more."""
    taken: list[Any] = []
    kept.next(taken)
    return taken[0]["n"].tolist() if taken else None


def taken_from(kept: Collected) -> list[int]:
    taken: list[Any] = []
    kept.take(taken)
    return [n for one in taken for n in one["n"].tolist()]


def test_batches_are_one_array_that_stays_until_it_is_taken() -> None:
    kept = Collected("bars", Inside())
    assert len(kept.array(RECORD)) == 0
    kept.write(batch(1, 2))
    kept.write(batch(3))
    assert kept.array(RECORD)["n"].tolist() == kept.array(RECORD)["n"].tolist() == [1, 2, 3]
    assert not kept.is_consumed
    assert taken_from(kept) == [1, 2, 3]
    assert kept.is_consumed
    assert taken_from(kept) == []


@pytest.mark.parametrize("end", ["close", "abort"])
def test_an_iteration_waits_for_more_and_ends_behind_the_last_batch(end: str) -> None:
    kept = Collected("bars", Inside())
    found: list[list[int]] = []

    def iterate() -> None:
        while (got := following(kept)) is not None:
            found.append(got)

    thread = threading.Thread(target=iterate)
    thread.start()
    kept.write(batch(1))
    kept.write(batch(2, 3))
    getattr(kept, end)()
    thread.join(60)
    assert not thread.is_alive()
    assert found == [[1], [2, 3]]


def test_a_thread_inside_the_dispatcher_is_given_what_there_is_and_never_waits() -> None:
    inside = Inside()
    kept = Collected("bars", inside)
    kept.write(batch(1))
    inside.threads.append(threading.get_ident())
    assert following(kept) == [1]
    with pytest.raises(WouldDeadlockError, match=r"output 'bars': .* use take"):
        following(kept)


class Interrupted:
    """An output that a thread writes to while its user is interrupted, and all that the user got."""

    def __init__(self, batches: int, pause_s: float = 0) -> None:
        self.output = Output("out", RECORD, None)
        self.got: list[Any] = []
        self._batches, self._pause_s, self._written = batches, pause_s, 0
        self.thread = threading.Thread(target=self._write)
        self.thread.start()
        if not pause_s:
            self.thread.join()

    def _write(self) -> None:
        sink = self.output._sink
        assert sink is not None
        for n in range(self._batches):
            found = np.zeros(1 + n % 3, self.output.dtype)
            found["n"] = range(self._written, self._written + len(found))
            self._written += len(found)
            sink.write(found)
            time.sleep(self._pause_s)
        sink.close()

    def iterate(self) -> None:
        for records in self.output:
            self.got.append(records)

    def take(self) -> None:
        while self.thread.is_alive():
            self.take_once()
        self.take_once()

    def take_once(self) -> None:
        self.got.append(self.output.take())

    def look(self) -> None:
        self.output.array()
        self.take_once()

    def check(self) -> None:
        """Each record is either the user's or still there."""
        self.thread.join()
        assert self.output._collected is not None
        bell = self.output._collected._bell
        wait_until(lambda: free(bell) and sum(map(len, (*self.got, self.output.array()))) == self._written)
        self.iterate()
        assert [n for records in self.got for n in records["n"].tolist()] == list(range(self._written))


CONSUMES = {name: getattr(Interrupted, name) for name in ("iterate", "take_once", "look")}


@pytest.mark.parametrize("apart", APART)
@pytest.mark.parametrize("name", CONSUMES)
def test_an_interrupt_at_points_of_a_call_loses_no_record(name: str, apart: str, one_in: Callable[[int], int]) -> None:
    interrupter()

    def prepare() -> tuple[Callable[[], Any], Callable[[], Any]]:
        case = Interrupted(4)
        return partial(CONSUMES[name], case), case.check

    in_bounded_child(partial(at_each_point, prepare, apart, one_in(10)))


@pytest.mark.parametrize("name", ["iterate", "take"])
def test_interrupts_at_random_lose_no_record(name: str, one_in: Callable[[int], int]) -> None:
    def prepare() -> tuple[Callable[[], Any], Callable[[], Any]]:
        case = Interrupted(40, 0.0001)
        return getattr(case, name), case.check

    in_bounded_child(partial(at_random, prepare, interrupts=300 // one_in(6), longest_s=0.004))
