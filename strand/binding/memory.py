"""Arrays to C, C's memory to numpy, and when C's memory is freed."""

from __future__ import annotations

import atexit
import weakref
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import numpy.typing as npt

from strand.binding import ffi

__all__ = ["Memory", "bytes_of", "filled", "held", "owned"]

#: Finalizer of each pointer, by a reference to the pointer.
_freed_by: dict[weakref.ref[Any], Any] = {}


def owned(pointer: Any, free: Callable[[Any], object]) -> Any:
    """The pointer, which from now on owns what it points to: ``free`` is called when nothing holds the pointer.

    The collector calls the finalisers of all garbage before it clears any, in no useful order. ``ffi.gc`` is such a
    finaliser: with it a handle is freed before the ``__del__`` of an object in the same garbage that calls its owner.
    A plain pointer has no finaliser. It lives until the collector clears its owner, after every ``__del__``.

    The callback is C alone: an interrupt in Python code there would be lost. Pointers still owned at exit stay:
    the system takes their memory back, and code that runs late finds it whole.
    """
    if not _exiting:
        _freed_by[weakref.ref(pointer, _freed_by.pop)] = ffi.gc(ffi.cast(ffi.typeof(pointer), pointer), free)
    return pointer


_exiting: list[bool] = []


def _keep_all() -> None:
    _exiting.append(True)
    for freed in list(_freed_by.values()):
        ffi.gc(freed, None)


atexit.register(_keep_all)


def filled(ctype: str, numbers: Mapping[str, float], *others: str) -> Any:
    """A new structure of C with numbers in its fields, by their names; ``others`` is filled in by the caller. Raises
    TypeError unless there is one for each other field."""
    fields = {name for name, _ in ffi.typeof(ctype).fields} - set(others)
    if numbers.keys() != fields:
        raise TypeError(f"{ctype}: give {', '.join(sorted(fields))}, not {', '.join(sorted(numbers))}")
    return ffi.new(f"{ctype} *", dict(numbers))


def bytes_of(records: npt.NDArray[Any]) -> Any:
    """The memory of contiguous records, of any dtype."""
    return ffi.from_buffer(records)


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
