"""Functions in C of one's own, for handlers and tasks: of a shared object, by address, or by a pointer."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from typing import Any, Final

from strand.binding.native import HANDLER_LAYOUT, address_of_pointer
from strand.errors import ConfigurationError

__all__ = ["NativeFunctions"]

#: The base of all of ctypes' functions, which has no public name.
_FUNCTION: Final[Any] = ctypes.CFUNCTYPE(None).__base__


class NativeFunctions:
    """``source`` is the path of a shared object; or a function itself: its address, or a pointer to it of ctypes, cffi
    or numba's ``cfunc``. While this is referred to, the object stays loaded, and the pointer alive. Raises
    ConfigurationError where there is no such object, or it was built for another layout."""

    def __init__(self, source: Any) -> None:
        self.source = source
        self._library = _library(Path(source)) if isinstance(source, str | os.PathLike) else None
        if self._library is not None:
            _check_layout(self._library, source)

    def main(self, symbol: str | None) -> int:
        """The address of the function ``symbol``, or of ``source`` itself. Raises ConfigurationError."""
        if self._library is None:
            return _address("source", self.source)
        if symbol is None:
            raise ConfigurationError("symbol: name the function to call in the shared object")
        return self.address("symbol", symbol)

    def address(self, field: str, given: Any) -> int:
        """Address of the function that the option ``field`` was given, by name or directly; 0 for None. Raises
        ConfigurationError."""
        if given is None:
            return 0
        if not isinstance(given, str):
            return _address(field, given)
        if self._library is None:
            raise ConfigurationError(
                f"{field}: {given!r} names a function, but source is an address and not a shared object"
            )
        try:
            return ctypes.cast(getattr(self._library, given), ctypes.c_void_p).value or 0
        except AttributeError as error:
            raise ConfigurationError(f"source: {self.source} does not give a function {given!r}: {error}") from error


def _address(field: str, given: Any) -> int:
    """Address of a function that is given itself."""
    if isinstance(given, _FUNCTION):
        found = ctypes.cast(given, ctypes.c_void_p).value
    else:
        found = address_of_pointer(getattr(given, "address", given))
    if not found or found < 0:
        raise ConfigurationError(
            f"{field}: {given!r} is not the address of a function, nor a pointer to one (ctypes, cffi, numba's cfunc)"
        )
    return found


def _check_layout(library: ctypes.CDLL, source: object) -> None:
    """Raises ConfigurationError for an object that was built for other ticks than today's."""
    try:
        layout = ctypes.c_uint32.in_dll(library, "sd_handler_layout").value
    except ValueError:
        layout = 0
    if layout != HANDLER_LAYOUT:
        built = f"for layout {layout} of ticks" if layout else "without sd_handler.h, or for ticks of an earlier layout"
        raise ConfigurationError(
            f"source: {source} was built {built}, and this is layout {HANDLER_LAYOUT}: compile it again with the "
            "headers that  strand include  names"
        )


def _library(path: Path) -> ctypes.CDLL:
    if not path.is_file():
        raise ConfigurationError(f"source: there is no shared object {path}")
    try:
        return ctypes.CDLL(os.fspath(path.resolve()))
    except OSError as error:
        raise ConfigurationError(f"source: {path} cannot be loaded: {error}") from error
