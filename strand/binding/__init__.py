"""The only package that touches ``lib``: one module here for each C module, thin and typed."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from strand._core import ffi, lib

__all__ = ["CORE", "Core", "ffi", "lib"]


class Core(NamedTuple):
    """A module in C that has the engine: structures of one are of no use to another."""

    ffi: Any
    lib: Any

    def keeping_gil(self, name: str, *types: Any) -> Callable[..., int]:
        """A function of the core that waits for nobody, called without giving up the GIL, as cffi would for each call.
        ``types``: of its result and its arguments, by ctypes."""
        address = self.ffi.addressof(self.lib, name)
        return ctypes.PYFUNCTYPE(*types)(int(self.ffi.cast("uintptr_t", address)))


CORE: Final = Core(ffi, lib)
