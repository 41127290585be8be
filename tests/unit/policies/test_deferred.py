"""The deferred list: what every policy does with strands that wait for a permit."""

from __future__ import annotations

import ctypes
import random
from collections.abc import Callable

import pytest
from aging_model import aging, priority
from policies import (
    DEFERRED,
    FIFO,
    HIGH,
    LEAVE_DEFERRED,
    LOW,
    NORMAL,
    NOT_VISITED,
    TAKE_DEFERRED,
    VISITED,
    WAS_EMPTY,
    Config,
    Trial,
    build,
    fair,
    levels,
)

#: The C under test is built here, without the checks of make asan.
pytestmark = pytest.mark.python

N = 40
#: The list behind that of the one worker.
BEHIND = 1
#: Each policy, and some priority of it for a strand.
POLICIES: dict[str, tuple[Config, Callable[[random.Random], int | None]]] = {
    "fifo": (Config(FIFO), lambda _: None),
    "levels": (levels([0, *[2**62] * 4]), lambda rng: rng.randrange(5)),
    "aging": (aging([1e6, 2e6, 3e6]), lambda rng: priority(rng.randrange(3), rng.randrange(-5, 6))),
    "fair": (fair(100), lambda rng: rng.randrange(4)),
}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    return build(tmp_path_factory.mktemp("policies"))


def listed(built: ctypes.CDLL, name: str, seed: int) -> Trial:
    """A trial with N strands of drawn priorities, listed one after the other."""
    config, draw = POLICIES[name]
    rng, trial = random.Random(seed), Trial(built, config, 1, N)
    for strand in rng.sample(range(N), N):
        if (drawn := draw(rng)) is not None:
            assert trial.prioritise(strand, drawn, False, 0)
        trial.ready(0, [strand], WAS_EMPTY, 10 + strand)
    return trial


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("name", POLICIES)
def test_what_is_deferred_keeps_its_place_in_the_order(built: ctypes.CDLL, name: str, seed: int) -> None:
    reference, trial = listed(built, name, seed), listed(built, name, seed)
    try:
        order = [reference.next(0, 1000) for _ in range(N)]
        n = random.Random(seed).randrange(1, N)
        for _ in range(n):
            strand = trial.next(0, 1000, LEAVE_DEFERRED)
            assert strand is not None
            trial.ready(BEHIND, [strand], DEFERRED, 1000)
        assert trial.listed() == [1] * N
        assert (trial.length(0), trial.length(BEHIND)) == (N - n, n)
        assert [trial.next(0, 1000, TAKE_DEFERRED) for _ in range(N)] == order
        assert trial.next(0, 1000, TAKE_DEFERRED) is None
    finally:
        reference.close()
        trial.close()


@pytest.mark.parametrize("name", POLICIES)
def test_without_a_permit_nothing_deferred_is_taken_and_what_is_behind_it_comes(built: ctypes.CDLL, name: str) -> None:
    reference, trial = listed(built, name, 1), listed(built, name, 1)
    try:
        order = [reference.next(0, 1000) for _ in range(N)]
        native = []
        while (strand := trial.next(0, 1000, LEAVE_DEFERRED)) is not None:
            if strand % 3:
                trial.ready(BEHIND, [strand], DEFERRED, 1000)
            else:
                native.append(strand)
        assert native == [strand for strand in order if strand is not None and strand % 3 == 0]
        assert (trial.length(0), trial.length(BEHIND)) == (0, N - len(native))
    finally:
        reference.close()
        trial.close()


def test_a_deferred_strand_rises_and_changes_its_level(built: ctypes.CDLL) -> None:
    trial = Trial(built, levels([0, 100, 100, 100, 100]), 1, 4)
    try:
        trial.prioritise(0, LOW, False, 0)
        trial.prioritise(1, LOW, False, 0)
        trial.ready(0, [0, 1], WAS_EMPTY, 0)
        for _ in range(2):
            trial.ready(BEHIND, [trial.next(0, 1) or 0], DEFERRED, 1)
        assert trial.next(0, 100, LEAVE_DEFERRED) is None
        assert trial.counts()[0][LOW] == 2, "they have not risen while they are deferred"
        trial.prioritise(1, HIGH, False, 101)
        trial.prioritise(2, NORMAL, False, 101)
        trial.ready(0, [2], WAS_EMPTY, 102)
        assert [trial.next(0, 103, TAKE_DEFERRED) for _ in range(4)] == [1, 0, 2, None]
    finally:
        trial.close()


def test_a_group_that_waits_for_a_permit_saves_up_nothing(built: ctypes.CDLL) -> None:
    trial = Trial(built, fair(100), 1, 4)
    try:
        for strand, group in enumerate((0, 0, 1, 1)):
            trial.prioritise(strand, group, False, 0)
        trial.ready(0, [0], WAS_EMPTY, 0)
        assert trial.next(0, 0) == 0
        trial.ready(BEHIND, [0], DEFERRED, 0)
        for now in range(50):  # meanwhile the other group has all the time
            trial.ready(0, [2], VISITED, now)
            assert trial.next(0, now, LEAVE_DEFERRED) == 2
            trial.charge(2, 100)
        trial.ready(0, [1, 2], VISITED, 50)
        taken = []
        for now in range(50, 56):
            strand = trial.next(0, now, LEAVE_DEFERRED)
            assert strand is not None
            taken.append(strand)
            trial.charge(strand, 100)
            trial.ready(0, [strand], VISITED, now)
        assert taken.count(1) == 3, "the groups do not take turns"
        assert trial.next(0, 60, TAKE_DEFERRED) is not None
        assert trial.listed()[0] <= 1
    finally:
        trial.close()


@pytest.mark.parametrize("own", range(3))
@pytest.mark.parametrize("name", ["levels", "aging"])
def test_behind_the_deferred_list_a_worker_keeps_to_its_own(built: ctypes.CDLL, name: str, own: int) -> None:
    config = levels([0, *[2**62] * 4], slack=50) if name == "levels" else aging([1e6], slack=50)
    trial = Trial(built, config, 3, 4)
    try:
        number = LOW if name == "levels" else priority(0, -5)  # it comes behind the others
        trial.prioritise(3, number, False, 0)
        trial.ready(0, [3], WAS_EMPTY, 10)
        assert trial.next(0, 10, LEAVE_DEFERRED) == 3
        trial.ready(3, [3], DEFERRED, 10)
        for at in range(3):
            trial.ready(at, [at], WAS_EMPTY, 10)
        assert trial.next(own, 20, TAKE_DEFERRED) == own
    finally:
        trial.close()


def test_what_is_deferred_or_put_back_is_counted_once(built: ctypes.CDLL) -> None:
    trial = Trial(built, aging([1e6, 2e6]), 1, 2)
    try:
        trial.prioritise(1, priority(1, 5), False, 0)
        trial.ready(0, [0, 1], WAS_EMPTY, 10)
        for why, at in ((NOT_VISITED, 0), (DEFERRED, BEHIND), (NOT_VISITED, BEHIND)):
            taken = [trial.next(0, 20, TAKE_DEFERRED) for _ in range(2)]
            assert taken == [1, 0]
            trial.ready(at, [0, 1], why, 20)
        assert trial.picked()[0] == [1, 1, 0]
        assert trial.next(0, 30, TAKE_DEFERRED) == 1
        trial.ready(0, [1], VISITED, 30)
        assert trial.next(0, 40, TAKE_DEFERRED) == 1
        assert trial.picked()[0] == [1, 2, 0]
    finally:
        trial.close()
