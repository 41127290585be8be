"""Stand-ins for the parts that a future makes only on first use."""

from __future__ import annotations

from typing import Any

from strand.tasks.future import NOBODY, Lazy


class Holder:
    waiters: Any = Lazy()


def test_a_list_is_made_on_its_first_use_and_is_each_holders_own() -> None:
    one, other = Holder(), Holder()
    assert one.__dict__ == {}
    one.waiters.append(1)
    assert one.waiters == [1]
    assert other.waiters == []


def test_the_condition_of_a_future_that_is_done_never_waits() -> None:
    assert NOBODY.acquire()
    NOBODY.release()
    with NOBODY:
        assert NOBODY.wait_for(lambda: True)
        assert not NOBODY.wait_for(lambda: False, 60)
