"""The addresses that a dispatcher and its handlers share."""

from __future__ import annotations

import pytest

from strand.binding.books import BookMemory
from strand.binding.memory import Space


def test_what_lies_in_a_space_has_a_place_of_its_own_and_the_space_grows() -> None:
    space = Space()
    before = space.bytes
    first, second = (BookMemory(space, 10) for _ in range(2))
    assert 0 < first.offset < second.offset
    assert before < space.bytes


def test_places_are_the_same_in_every_space() -> None:
    assert BookMemory(Space(), 10).offset == BookMemory(Space(attachable=True), 10).offset


def test_more_addresses_than_a_process_has_are_refused() -> None:
    with pytest.raises(MemoryError, match=r"GiB of address space: raise its limit \(ulimit -v\)"):
        Space(more=1 << 60)
