"""The end of a wait, by the system's clock and by one that stands in for it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from strand import clock
from strand.clock import REAL_STEP_NS, STEP_NS, Deadline

pytestmark = pytest.mark.python


class Hand:
    """A clock that moves only when it is waited for."""

    def __init__(self) -> None:
        self.ns = 0

    def now_ns(self) -> int:
        return self.ns

    def wait_until(self, time_ns: int) -> None:
        self.ns = time_ns


@pytest.fixture
def hand() -> Iterator[Hand]:
    found = Hand()
    clock.install(found)
    yield found
    clock.install(None)


def test_a_clock_stands_in_until_it_is_taken_away() -> None:
    hand = Hand()
    assert clock.installed() is None
    clock.install(hand)
    assert clock.installed() is hand
    clock.install(None)
    assert clock.installed() is None


def test_a_wait_in_vain_moves_the_clock_by_a_step_and_no_further_than_the_end(hand: Hand) -> None:
    deadline = Deadline(0.25)
    moved = []
    while not deadline.has_passed():
        moved.append(hand.ns)
    assert [*moved, hand.ns] == [STEP_NS, 2 * STEP_NS, 250_000_000]


def test_a_wait_at_one_go_is_short_by_such_a_clock_and_ends_with_the_limit(hand: Hand) -> None:
    deadline = Deadline(0.25)
    assert deadline.slice_ns(10**9) == REAL_STEP_NS
    hand.ns = 250_000_000 - 5
    assert deadline.slice_ns(10**9) == 5
    hand.ns += 10
    assert deadline.slice_ns(10**9) == 0


def test_without_a_limit_a_wait_has_no_end() -> None:
    assert not Deadline(None).has_passed()
    assert Deadline(None).slice_ns(7) == 7


def test_a_limit_that_is_over_already_has_passed_by_the_systems_clock() -> None:
    assert Deadline(-1).has_passed()
    assert Deadline(-1).slice_ns(7) == 0
    assert not Deadline(float("inf")).has_passed()
    assert Deadline(float("inf")).slice_ns(7) == 7
