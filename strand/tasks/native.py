"""A task in C that Python submits: a function of a shared object that workers call."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from strand.brief import one_line
from strand.handlers.native_functions import NativeFunctions

__all__ = ["NativeTask"]


class NativeTask:
    """A C function ``void f(sd_task_context *ctx, void *argument, int why)`` of ``sd_task.h``, for ``submit_native``.

    Args:
        source: The path of a shared object, or the function itself. The function is given as its address, or as a
            pointer to it of ctypes, cffi or numba's ``cfunc``. The scheduler that it is given to keeps it alive.
        symbol: The function's name in the shared object.

    Raises:
        ConfigurationError: If the object or the function cannot be found, or was built for another layout.
    """

    def __init__(self, source: str | Path | int | Any, symbol: str | None = None) -> None:
        self._functions = NativeFunctions(source)
        self.address = self._functions.main(symbol)
        self.name = symbol or hex(self.address)

    def __repr__(self) -> str:
        return one_line(f"<NativeTask {self.name}>")
