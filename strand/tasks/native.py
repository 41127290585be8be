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
        source: The path of a shared object, with ``symbol`` the function's name; or the function itself: its address,
            or a pointer to it of ctypes, cffi or numba's ``cfunc``. What it was given to keeps it alive.

    Raises:
        ConfigurationError: When the object or the function cannot be found, or was built for another layout.
    """

    def __init__(self, source: str | Path | int | Any, symbol: str | None = None) -> None:
        self._functions = NativeFunctions(source)
        self.address = self._functions.main(symbol)
        self.name = symbol or hex(self.address)

    def __repr__(self) -> str:
        return one_line(f"<NativeTask {self.name}>")
