"""Memory of outputs: what is collected is one array without a copy, and what somebody has is not written to again."""

from __future__ import annotations

import gc
import mmap
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from strand.output import memory as output_memory
from strand.output.memory import PIECE_BYTES, SPARE_BYTES, Memory, as_one

DTYPE = np.dtype([("n", "<u8"), ("rest", "V12")])


@pytest.fixture(autouse=True, scope="module")
def others_left_out() -> None:
    """Collections of these tests leave out what other tests have made: it takes a tenth of a second to go through."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def nothing_kept(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(output_memory, "_pieces", [])
    monkeypatch.setattr(output_memory, "_stretches", [])
    yield
    gc.collect()


def batch(memory: Memory, first: int, count: int) -> npt.NDArray[Any]:
    """As the engine fills it: with 8 bytes behind its last record that are written to as well."""
    rest = memory.rest(count * DTYPE.itemsize + 8)
    made = rest[: count * DTYPE.itemsize].view(DTYPE)
    made["n"] = np.arange(first, first + count)
    rest[count * DTYPE.itemsize :][:8] = 255
    memory.use(count * DTYPE.itemsize)
    return made


def numbers(array: npt.NDArray[Any]) -> list[int]:
    found: list[int] = array["n"].tolist()
    return found


def test_what_is_collected_is_one_array_without_a_copy() -> None:
    memory = Memory(as_one=True)
    batches = [batch(memory, 100 * i, 100) for i in range(3000)]
    assert sum(b.nbytes for b in batches) > 2 * PIECE_BYTES
    whole = as_one(batches)
    assert whole.dtype == DTYPE
    assert numbers(whole) == list(range(300_000))
    assert np.shares_memory(whole, batches[0])
    assert np.shares_memory(whole, batches[-1])
    # What comes later goes on where it ended, and does not touch it.
    longer = as_one([whole, batch(memory, 300_000, 50_000)])
    assert np.shares_memory(longer, whole)
    assert numbers(longer) == list(range(350_000))
    assert numbers(whole) == list(range(300_000))
    assert numbers(as_one([longer])) == numbers(longer)


def test_batches_that_do_not_lie_behind_each_other_are_copied() -> None:
    one, other = Memory(as_one=True), Memory(as_one=True)
    batches = [batch(one, 0, 10), batch(other, 10, 10)]
    assert numbers(as_one(batches)) == list(range(20))
    gap = [batch(one, 10, 10), batch(one, 99, 1), batch(one, 20, 10)]
    assert numbers(as_one([gap[0], gap[2]])) == list(range(10, 30))
    assert numbers(as_one([gap[2], gap[0]])) == [*range(20, 30), *range(10, 20)]
    owned = np.zeros(3, DTYPE)
    assert numbers(as_one([owned, batches[0]])) == [0, 0, 0, *range(10)]
    assert numbers(as_one([owned[:1], owned[1:]])) == [0, 0, 0]
    pieces = Memory(as_one=False)
    assert numbers(as_one([batch(pieces, 0, 7), batch(pieces, 7, 7)])) == list(range(14))


def test_where_there_are_no_addresses_what_is_collected_is_copied_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    real = mmap.mmap

    def refused(fd: int, size: int, **options: Any) -> mmap.mmap:
        if size > PIECE_BYTES:
            raise OSError(12, "Cannot allocate memory")
        return real(fd, size, **options)

    monkeypatch.setattr(mmap, "mmap", refused)
    memory = Memory(as_one=True)
    batches = [batch(memory, 30_000 * i, 30_000) for i in range(10)]
    assert numbers(as_one(batches)) == list(range(300_000))
    assert not np.shares_memory(as_one(batches), batches[0])


def test_a_stretch_that_is_full_is_followed_by_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output_memory, "STRETCH_BYTES", 3 * PIECE_BYTES)
    memory = Memory(as_one=True)
    batches = [batch(memory, 30_000 * i, 30_000) for i in range(20)]
    assert numbers(as_one(batches)) == list(range(600_000))
    assert np.shares_memory(as_one(batches[:3]), batches[0])


def test_what_is_taken_piecewise_is_given_back_piecewise() -> None:
    memory = Memory(as_one=True)
    first = batch(memory, 0, 1000)
    memory.piecewise()
    for i in range(20):
        assert numbers(batch(memory, i, 30_000))[0] == i
        gc.collect()
    # One in use and one that was: all others were the same ones.
    assert 1 <= len(output_memory._pieces) <= 2
    assert output_memory._stretches == []
    assert numbers(first) == list(range(1000))
    del first
    gc.collect()
    assert len(output_memory._stretches) == 1


def test_a_stretch_is_used_again_when_nobody_has_any_of_it() -> None:
    memory = Memory(as_one=True)
    kept = as_one([batch(memory, 1000 * i, 1000) for i in range(300)])[150_000:150_010]
    del memory
    gc.collect()
    assert output_memory._stretches == []
    other = Memory(as_one=True)
    batch(other, 0, 100_000)
    assert numbers(kept) == list(range(150_000, 150_010))
    del kept
    gc.collect()
    assert [size for _, size in output_memory._stretches] == [3 * PIECE_BYTES]
    again = Memory(as_one=True)
    assert numbers(batch(again, 5, 200_000)) == list(range(5, 200_005))
    assert output_memory._stretches == []


def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output_memory, "SPARE_BYTES", 4 * PIECE_BYTES)
    assert SPARE_BYTES > 4 * PIECE_BYTES
    memories = [Memory(as_one=one) for one in (True, True, False, False, False, True)]
    # About one and a half piece each.
    batches = [[batch(memory, 0, 75_000) for _ in range(2)] for memory in memories]
    del memories, batches
    gc.collect()
    kept = len(output_memory._pieces) * PIECE_BYTES + sum(size for _, size in output_memory._stretches)
    assert 0 < kept <= 4 * PIECE_BYTES
