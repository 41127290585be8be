"""Functions in C, of a shared object and given as they are."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pytest

from strand.errors import ConfigurationError
from strand.handlers.native_handlers import NativeFunctions


def test_a_function_is_found_by_its_name_its_address_and_a_pointer(c_handlers: Path) -> None:
    library = ctypes.CDLL(str(c_handlers))
    address = ctypes.cast(library.on_raw, ctypes.c_void_p).value
    assert NativeFunctions(c_handlers).main("on_raw") == address
    assert NativeFunctions(str(c_handlers)).address("wake", "on_raw") == address
    assert NativeFunctions(address).main(None) == address
    assert NativeFunctions(library.on_raw).main("another name") == address
    assert NativeFunctions(c_handlers).address("wake", library.on_raw) == address
    assert NativeFunctions(c_handlers).address("wake", None) == 0


def test_a_name_needs_a_shared_object(c_handlers: Path) -> None:
    address = ctypes.cast(ctypes.CDLL(str(c_handlers)).on_raw, ctypes.c_void_p).value
    with pytest.raises(
        ConfigurationError, match="wake: 'on_raw' names a function, but source is an address and not a shared object"
    ):
        NativeFunctions(address).address("wake", "on_raw")
    with pytest.raises(ConfigurationError, match="symbol: name the function"):
        NativeFunctions(c_handlers).main(None)
