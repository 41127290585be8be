"""Memory for outputs' batches. It is kept for the next run: pages that are new to the process cost more than merging
the records that are written to them."""

from __future__ import annotations

import contextlib
import mmap
import os
import weakref
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from strand.ticks import joined

#: Bytes of a piece: a huge page. It is mapped by one page fault. Those of 512 small pages cost more than copying the
#: records.
PIECE_BYTES: Final = 2 << 20
#: The maximum of unused memory that is kept for another run.
SPARE_BYTES: Final = 256 << 20
#: Addresses of a stretch: what is collected cannot be more than the machine's memory.
STRETCH_BYTES: Final = min(os.sysconf("SC_PHYS_PAGES") * mmap.PAGESIZE, 64 << 30)
#: The maximum number of unused stretches.
SPARE_STRETCHES: Final = 4
PRIVATE: Final = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
#: Linux's MAP_NORESERVE, which Python does not name: only the pages that are written to take memory.
NORESERVE: Final = 0x4000
LINE: Final = 64

Bytes = npt.NDArray[np.uint8]


class Memory:
    """Memory for an output's batches. ``as_one``: they lie in one stretch, each after the one before it, so that they
    form one array without a copy. After ``piecewise`` they lie in pieces.

    A piece is used again when no array lies in it any more, and so is a stretch.
    """

    def __init__(self, *, as_one: bool) -> None:
        self._rest: Bytes = np.empty(0, np.uint8)
        self._stretch = _Stretch() if as_one else None

    def rest(self, minimum: int) -> Bytes:
        """Memory for the next batch: ``minimum`` bytes or more."""
        if self._stretch is not None:
            rest = self._stretch.rest(max(minimum, PIECE_BYTES))
            if rest is not None:
                return rest
            self._stretch = None
        if len(self._rest) < max(minimum, PIECE_BYTES // 8):
            memory = _a_piece(max(minimum, PIECE_BYTES))
            self._rest = np.frombuffer(memory, np.uint8)
            if len(memory) == PIECE_BYTES:
                weakref.finalize(self._rest, _keep_piece, memory).atexit = False
        return self._rest

    def use(self, used: int) -> None:
        """The first ``used`` bytes of the rest are a batch now."""
        if self._stretch is not None:
            self._stretch.use(used)
        else:
            self._rest = self._rest[-(-used // LINE) * LINE :]

    def piecewise(self) -> None:
        """Batches lie in pieces from the next one on: a user takes them one by one, and their memory is used again."""
        self._stretch = None


class _Stretch:
    """Addresses for all that an output collects. Only the pages that are written to take memory."""

    def __init__(self) -> None:
        self._whole: Bytes | None = None
        # A list, because ``_keep_stretch`` reads it when this object is gone.
        self._used = [0]

    def rest(self, minimum: int) -> Bytes | None:
        """The next ``minimum`` bytes; None where there are no more."""
        if self._whole is None:
            memory = _a_stretch()
            if memory is None:
                return None
            self._whole = np.frombuffer(memory, np.uint8)
            weakref.finalize(self._whole, _keep_stretch, memory, self._used).atexit = False
        start = self._used[0]
        return self._whole[start : start + minimum] if start + minimum <= len(self._whole) else None

    def use(self, used: int) -> None:
        """The next ``used`` bytes are a batch now."""
        self._used[0] += used


def as_one(batches: Sequence[npt.NDArray[Any]]) -> npt.NDArray[Any]:
    """Joins one or more batches of one dtype into one array. Batches that follow each other in memory are not
    copied."""
    first, whole = batches[0], batches[0].base
    begin = end = _address(first)
    for batch in batches:
        if batch.base is not whole or _address(batch) != end:
            return joined(batches)
        end += batch.nbytes
    if not isinstance(whole, np.ndarray) or whole.dtype != np.uint8:
        return joined(batches)
    start = begin - _address(whole)
    return whole[start : start + end - begin].view(first.dtype)


def _address(array: npt.NDArray[Any]) -> int:
    return int(array.__array_interface__["data"][0])


# ---- unused memory

_pieces: list[mmap.mmap] = []
#: Each with the number of its bytes that have pages.
_stretches: list[tuple[mmap.mmap, int]] = []


def _spare_capacity() -> int:
    """The bytes that may be kept beside those that are kept."""
    return max(0, SPARE_BYTES - len(_pieces) * PIECE_BYTES - sum(kept for _, kept in _stretches))


def _a_piece(size: int) -> mmap.mmap:
    if size == PIECE_BYTES:
        with contextlib.suppress(IndexError):  # another run may take the last one meanwhile
            return _pieces.pop()
    return _mapped(size, PRIVATE)


def _keep_piece(memory: mmap.mmap) -> None:
    """The system may take its pages when memory is short."""
    if _spare_capacity():
        with contextlib.suppress(OSError):
            memory.madvise(mmap.MADV_FREE)
        _pieces.append(memory)


def _a_stretch() -> mmap.mmap | None:
    """None where the system reserves memory for all addresses, or limits them."""
    with contextlib.suppress(IndexError):
        return _stretches.pop()[0]
    try:
        return _mapped(STRETCH_BYTES, PRIVATE | NORESERVE)
    except (OSError, ValueError, OverflowError):
        return None


def _keep_stretch(memory: mmap.mmap, used: list[int]) -> None:
    kept = min(_spare_capacity(), -(-used[0] // PIECE_BYTES) * PIECE_BYTES)
    if not kept or len(_stretches) >= SPARE_STRETCHES:
        return
    with contextlib.suppress(OSError):
        if kept < len(memory):
            memory.madvise(mmap.MADV_DONTNEED, kept)
        memory.madvise(mmap.MADV_FREE)
        _stretches.append((memory, kept))


def _mapped(size: int, flags: int) -> mmap.mmap:
    memory = mmap.mmap(-1, size, flags=flags)
    with contextlib.suppress(OSError):  # not every kernel takes this advice
        memory.madvise(mmap.MADV_HUGEPAGE)
    return memory
