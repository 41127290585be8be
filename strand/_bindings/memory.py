"""Arrays to C, and C's memory to numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from strand._bindings import ffi

__all__ = ["Memory", "bytes_of"]


def bytes_of(records: npt.NDArray[Any]) -> Any:
    """The memory of contiguous records, of any dtype."""
    return ffi.from_buffer(records)


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
