"""Circles of waits, over results, keys and strands."""

from __future__ import annotations

import pytest

from strand.errors import WouldDeadlockError
from strand.tasks.waits import Waiter, begin_wait, end_wait


class One:
    """``strand``: the one that it holds or waits for; ``begun``: it holds it."""

    on: dict[int, Waiter]
    waits_for: Waiter | None = None

    def __init__(self, name: str, on: dict[int, Waiter], strand: int | None = None, *, begun: bool = True) -> None:
        self.name, self.on, self.strand, self.begun = name, on, strand, begun
        self.is_done = False

    def in_words(self) -> str:
        return self.name

    def home(self) -> str:
        return "scheduler 1"

    def done(self) -> bool:
        return self.is_done

    def ahead(self) -> Waiter | None:
        return None if self.begun or self.strand is None else self.on.get(self.strand)

    def holds(self) -> tuple[dict[int, Waiter], int] | None:
        return (self.on, self.strand) if self.strand is not None else None


def test_the_last_wait_of_a_circle_is_refused_and_leaves_nothing_behind() -> None:
    on: dict[int, Waiter] = {}
    a, b, c = One("a", on, 1), One("b", on, 2), One("c", on)
    begin_wait(a, b)
    begin_wait(b, c)
    assert on == {1: a, 2: b}
    with pytest.raises(WouldDeadlockError, match="c would wait for a, which waits for c"):
        begin_wait(c, a)
    assert c.waits_for is None
    end_wait(b)
    assert on == {1: a}
    begin_wait(c, a)
    end_wait(a)
    assert on == {}


def test_one_that_stands_behind_a_holder_waits_for_it() -> None:
    on: dict[int, Waiter] = {}
    a, behind, other = One("a", on, 1), One("behind", on, 1, begun=False), One("other", on, 2)
    with pytest.raises(WouldDeadlockError, match="a would wait for behind"):
        begin_wait(a, behind)
    assert on == {}
    begin_wait(a, other)
    with pytest.raises(WouldDeadlockError):
        begin_wait(other, behind)
    assert on == {1: a}
    a.is_done, a.waits_for = True, None
    begin_wait(other, behind)


def test_a_circle_of_others_ends_the_search() -> None:
    on: dict[int, Waiter] = {}
    a, b, c = One("a", on), One("b", on), One("c", on)
    a.waits_for, b.waits_for = b, a
    begin_wait(c, a)
    assert c.waits_for is a


def test_one_that_is_done_and_waits_in_a_callback_is_in_the_circle() -> None:
    on: dict[int, Waiter] = {}
    a, behind, other = One("a", on, 1), One("behind", on, 1, begun=False), One("other", on, 2)
    a.is_done = True
    begin_wait(a, other)
    with pytest.raises(WouldDeadlockError):
        begin_wait(other, behind)
