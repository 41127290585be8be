"""Memory for what outputs hand out, which outlives their run: pages that are new to the process cost more than merging
what comes to lie in them."""

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

__all__ = ["PIECE_BYTES", "Memory", "as_one"]

#: Bytes of a piece: a huge page, which comes in at once, where 512 small ones cost more than copying the records; and
#: of all memory that nobody uses any more and that is kept for another run.
PIECE_BYTES: Final = 2 << 20
SPARE_BYTES: Final = 256 << 20
#: Addresses of a stretch: what is collected cannot be more than the machine's memory.
STRETCH_BYTES: Final = min(os.sysconf("SC_PHYS_PAGES") * mmap.PAGESIZE, 64 << 30)
#: Stretches kept.
SPARE_STRETCHES: Final = 4
PRIVATE: Final = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
#: Of Linux, for which Python has no name: addresses alone, whatever is written to them takes memory then.
NORESERVE: Final = 0x4000
LINE: Final = 64

Bytes = npt.NDArray[np.uint8]


class Memory:
    """Memory for an output's batches. ``as_one``: they lie in one stretch, each behind the one before it, so that they
    are one array without a copy; until somebody takes them one by one, ``piecewise``, and gives them back so.

    A piece is used again when nobody has a batch in it any more, a stretch when nobody has any.
    """

    def __init__(self, *, as_one: bool) -> None:
        self._rest: Bytes = np.empty(0, np.uint8)
        self._stretch = _Stretch() if as_one else None

    def rest(self, least: int) -> Bytes:
        """Where the next batch goes: ``least`` bytes or more."""
        if self._stretch is not None:
            rest = self._stretch.rest(max(least, PIECE_BYTES))
            if rest is not None:
                return rest
            self._stretch = None
        if len(self._rest) < max(least, PIECE_BYTES // 8):
            memory = _a_piece(max(least, PIECE_BYTES))
            self._rest = np.frombuffer(memory, np.uint8)
            if len(memory) == PIECE_BYTES:
                weakref.finalize(self._rest, _keep_piece, memory).atexit = False
        return self._rest

    def use(self, used: int) -> None:
        """So many bytes of the rest are a batch."""
        if self._stretch is not None:
            self._stretch.use(used)
        else:
            self._rest = self._rest[-(-used // LINE) * LINE :]

    def piecewise(self) -> None:
        """From the next batch on."""
        self._stretch = None


class _Stretch:
    """Addresses for all that an output collects, of which pages are taken as they are written to."""

    def __init__(self) -> None:
        self._whole: Bytes | None = None
        # Shared with who keeps the memory when there is no stretch any more.
        self._used = [0]

    def rest(self, least: int) -> Bytes | None:
        """The next ``least`` bytes; None where there are no more."""
        if self._whole is None:
            memory = _a_stretch()
            if memory is None:
                return None
            self._whole = np.frombuffer(memory, np.uint8)
            weakref.finalize(self._whole, _keep_stretch, memory, self._used).atexit = False
        start = self._used[0]
        return self._whole[start : start + least] if start + least <= len(self._whole) else None

    def use(self, used: int) -> None:
        """So many of them are a batch."""
        self._used[0] += used


def as_one(batches: Sequence[npt.NDArray[Any]]) -> npt.NDArray[Any]:
    """Batches of one dtype, of which there is at least one, as one array: of those that lie behind each other in the
    same stretch without a copy."""
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


# ---- what is kept

_pieces: list[mmap.mmap] = []
#: With the bytes of each that have pages.
_stretches: list[tuple[mmap.mmap, int]] = []


def _spare_room() -> int:
    """What may be kept beside what is kept already."""
    return max(0, SPARE_BYTES - len(_pieces) * PIECE_BYTES - sum(kept for _, kept in _stretches))


def _a_piece(size: int) -> mmap.mmap:
    if size == PIECE_BYTES:
        with contextlib.suppress(IndexError):  # another run may take the last one meanwhile
            return _pieces.pop()
    return _mapped(size, PRIVATE)


def _keep_piece(memory: mmap.mmap) -> None:
    """The system may have its pages where it runs short of them."""
    if _spare_room():
        with contextlib.suppress(OSError):
            memory.madvise(mmap.MADV_FREE)
        _pieces.append(memory)


def _a_stretch() -> mmap.mmap | None:
    """None where the system does not give away more addresses than there is memory for."""
    with contextlib.suppress(IndexError):
        return _stretches.pop()[0]
    try:
        return _mapped(STRETCH_BYTES, PRIVATE | NORESERVE)
    except (OSError, ValueError, OverflowError):
        return None


def _keep_stretch(memory: mmap.mmap, used: list[int]) -> None:
    kept = min(_spare_room(), -(-used[0] // PIECE_BYTES) * PIECE_BYTES)
    if not kept or len(_stretches) >= SPARE_STRETCHES:
        return
    with contextlib.suppress(OSError):
        if kept < len(memory):
            memory.madvise(mmap.MADV_DONTNEED, kept)
        memory.madvise(mmap.MADV_FREE)
        _stretches.append((memory, kept))


def _mapped(size: int, flags: int) -> mmap.mmap:
    memory = mmap.mmap(-1, size, flags=flags)
    with contextlib.suppress(OSError):  # advice, which not every kernel takes
        memory.madvise(mmap.MADV_HUGEPAGE)
    return memory
