"""Records that are kept in memory."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

from strand.errors import WouldDeadlockError
from strand.output.output import Collected
from strand.threads import Inside

pytestmark = pytest.mark.python


RECORD = np.dtype([("n", "<i8")])


def batch(*numbers: int) -> Any:
    found = np.zeros(len(numbers), RECORD)
    found["n"] = numbers
    return found


def test_batches_are_one_array_that_stays_until_it_is_taken() -> None:
    kept = Collected("bars", Inside())
    assert len(kept.array(RECORD)) == 0
    kept.write(batch(1, 2))
    kept.write(batch(3))
    assert kept.array(RECORD)["n"].tolist() == kept.array(RECORD)["n"].tolist() == [1, 2, 3]
    assert not kept.is_consumed
    assert kept.take(RECORD)["n"].tolist() == [1, 2, 3]
    assert kept.is_consumed
    assert kept.take(RECORD)["n"].tolist() == []


@pytest.mark.parametrize("end", ["close", "abort"])
def test_an_iteration_waits_for_more_and_ends_behind_the_last_batch(end: str) -> None:
    kept = Collected("bars", Inside())
    found: list[list[int]] = []

    def iterate() -> None:
        while (got := kept.next()) is not None:
            found.append(got["n"].tolist())

    thread = threading.Thread(target=iterate)
    thread.start()
    kept.write(batch(1))
    kept.write(batch(2, 3))
    getattr(kept, end)()
    thread.join(30)
    assert not thread.is_alive()
    assert found == [[1], [2, 3]]


def test_a_thread_inside_the_dispatcher_is_given_what_there_is_and_never_waits() -> None:
    inside = Inside()
    kept = Collected("bars", inside)
    kept.write(batch(1))
    inside.threads.append(threading.get_ident())
    assert kept.next() is not None
    with pytest.raises(WouldDeadlockError, match=r"output 'bars': .* use take"):
        kept.next()
