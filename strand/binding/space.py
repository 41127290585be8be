"""The memory that a dispatcher shares (csrc/memory/space.h)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from strand.binding import CORE, Core, lib
from strand.binding.gate import checked, made
from strand.binding.memory import Memory, owned

__all__ = ["ABI_VERSION", "Space"]

#: Of all that lies in a space.
ABI_VERSION: Final = int(lib.SD_ABI_VERSION)


class Space:
    """Addresses for all that a dispatcher and its handlers keep, and memory where they ask for it.

    ``attachable``: another process may look at it. ``more``: bytes of addresses beside the usual ones. ``core``: the
    module in C whose engine and handlers use it.
    Raises MemoryError where the process may not have so many addresses.
    """

    def __init__(self, *, attachable: bool = False, more: int = 0, core: Core = CORE) -> None:
        self._ffi, self._lib = core
        lib = self._lib
        out = core.ffi.new("sd_space **")
        checked(
            lib.sd_space_create(attachable, more, out),
            f"this process may not reserve {(lib.SD_SPACE_BYTES + more) / 2**30:,.0f} GiB of address space: raise its "
            "limit (ulimit -v)",
            MemoryError,
        )
        self.pointer: Final[Any] = owned(out[0], lib.sd_space_destroy)
        #: Functions that adopt books which were read back, and the books.
        self._books: list[tuple[Callable[[Any, Any], int], Any]] = []

    def offset_of(self, pointer: Any) -> int:
        """Offset of an object in the space from its start, in bytes."""
        base = self._lib.sd_space_base(self.pointer)
        return self._address(pointer) - self._address(base)

    def _address(self, pointer: Any) -> int:
        return int(self._ffi.cast("uintptr_t", pointer))

    def keep_books(self, adopt: Callable[[Any, Any], int], books: Any) -> None:
        """Notes that books lie in the space. ``adopt``: the function in C for books that another process saved."""
        self._books.append((adopt, books))

    def adopt_books(self) -> None:
        """All memory was read back from what another process saved. Raises MemoryError."""
        for adopt, books in self._books:
            checked(adopt(books, self.pointer), "no memory for books that were saved", MemoryError)

    def zeros(self, n: int, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """Memory of its own for ``n`` numbers, from a cache line on: an array that holds it.

        Raises MemoryError where there is none."""
        form = np.dtype(dtype)
        at = made(self._lib.sd_space_get(self.pointer, n * form.itemsize, 64), f"no memory for {n:,} numbers")
        return self._view(self._address(at), n, form)

    def part(self, start: int, end: int) -> npt.NDArray[np.uint8]:
        """The memory from one offset to another, filled first if it is not. The array holds the memory.

        Raises MemoryError where there is none."""
        checked(
            self._lib.sd_space_fill(self.pointer, start, end - start),
            f"no memory for {end - start:,} bytes",
            MemoryError,
        )
        self._lib.sd_space_open(self.pointer, start, end - start)
        base = self._address(self._lib.sd_space_base(self.pointer))
        return self._view(base + start, end - start, np.dtype(np.uint8))

    def take_up_to(self, end: int) -> None:
        """Nothing lies below this offset but what is there already. Raises MemoryError."""
        taken = self.bytes
        if not self._lib.sd_space_take(self.pointer, end - taken, 1):
            raise MemoryError(f"this process may not have {end - taken:,} more bytes of address space")

    def _view(self, address: int, n: int, form: np.dtype[Any]) -> npt.NDArray[Any]:
        return np.asarray(Memory(self, address, n, form.itemsize, form)).view(form)

    @property
    def fd(self) -> int:
        """The descriptor of the file that it lies over, which is the space's own; -1: it is private."""
        return int(self.pointer.fd)

    @property
    def bytes(self) -> int:
        """Bytes that have been reserved; pages never touched take no memory, unless the space is attachable."""
        return int(self._lib.sd_space_bytes(self.pointer))
