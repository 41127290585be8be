"""The only package that touches ``lib``: one module here for each C module, thin and typed."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from strand._core import ffi, lib

__all__ = ["CORE", "Core", "ffi", "lib"]


class Core(NamedTuple):
    """A module in C that has the engine: structures of one are of no use to another."""

    ffi: Any
    lib: Any


CORE: Final = Core(ffi, lib)
