"""Arrays to C, C's memory to numpy, and the memory that a dispatcher shares."""

from __future__ import annotations

import atexit
import os
import weakref
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from strand.binding import CORE, Core, ffi, lib
from strand.binding.gate import checked, made

#: Of each pointer, by a reference to it: what it lies in, and its finalizer, which goes first.
_freed_by: dict[weakref.ref[Any], tuple[Any, Any]] = {}


def owned(pointer: Any, free: Callable[[Any], object], within: Any = None) -> Any:
    """The pointer, which from now on owns what it points to: ``free`` is called when nothing holds the pointer.
    ``within``: what lives as long.

    The collector calls the finalisers of all garbage before it clears any, in no useful order. ``ffi.gc`` is such a
    finaliser: with it a handle is freed before the ``__del__`` of an object in the same garbage that calls its owner.
    A plain pointer has no finaliser. It lives until the collector clears its owner, after every ``__del__``.

    The callback is C alone: an interrupt in Python code there would be lost. Pointers still owned at exit stay:
    the system takes their memory back, and code that runs late finds it whole.
    """
    return _owned(pointer, ffi.gc(ffi.cast(ffi.typeof(pointer), pointer), free), within)


def _owned(pointer: Any, freed: Any, within: Any = None) -> Any:
    if _exiting:
        ffi.gc(freed, None)
    else:
        _freed_by[weakref.ref(pointer, _freed_by.pop)] = within, freed
    return pointer


def owned_from(make: Callable[[Any], Any], options: Any, free: Callable[[Any], object]) -> Any:
    """The pointer that ``make`` makes of options, as ``owned`` returns one. NULL, which ``free`` takes: there is none.

    Both functions are C, and no interrupt comes between the two. So whatever is made has an owner at once.
    """
    (freed,) = map(partial(ffi.gc, destructor=free), map(make, (options,)))
    return _owned(ffi.cast(ffi.typeof(freed), freed), freed)


_exiting: list[bool] = []


def _keep_all() -> None:
    _exiting.append(True)
    for _, freed in list(_freed_by.values()):
        ffi.gc(freed, None)


atexit.register(_keep_all)


def filled(ctype: str, numbers: Mapping[str, float], *others: str, ffi: Any = ffi) -> Any:
    """A new structure of C with numbers in its fields, by their names; ``others`` is filled in by the caller. ``ffi``:
    of the module in C that has the structure. Raises TypeError unless there is one for each other field."""
    fields = {name for name, _ in ffi.typeof(ctype).fields} - set(others)
    if numbers.keys() != fields:
        raise TypeError(f"{ctype}: give {', '.join(sorted(fields))}, not {', '.join(sorted(numbers))}")
    return ffi.new(f"{ctype} *", dict(numbers))


def memory_there() -> int:
    """Bytes of this machine's memory."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def bytes_of(records: npt.NDArray[Any]) -> Any:
    """The memory of contiguous records, of any dtype."""
    return ffi.from_buffer(records)


def is_constant(records: npt.NDArray[Any]) -> bool:
    """True if no array leads to the memory of ``records`` by which it could be changed: all down to its owner are
    read-only."""
    array: Any = records
    while isinstance(array, np.ndarray) and not array.flags.writeable:
        if array.base is None:
            return True
        array = array.base
    return False


def held(data: memoryview) -> AbstractContextManager[Any]:
    """The bytes of ``data``, as ``uint8_t[]``, in the block.

    The block's end releases them, however it comes. An error keeps the frame that it came through. If both are part of
    a cycle, the collector may clear a memoryview before the object that holds on to it, and crash.
    """
    buffer: AbstractContextManager[Any] = ffi.from_buffer("uint8_t[]", data)
    return buffer


class Memory:
    """Lets numpy hold an engine alive for as long as it looks into its memory."""

    def __init__(self, owner: object, address: int, shape: int, strides: int, dtype: np.dtype[Any]) -> None:
        self._owner = owner
        self.__array_interface__ = {
            "data": (address, False),
            "shape": (shape,),
            "strides": (strides,),
            "typestr": f"|V{dtype.itemsize}",
            "version": 3,
        }


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
