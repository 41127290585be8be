"""Handlers in C of one's own, from a shared object or by address."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from strand._bindings.engine import NativeFunction, pointer_from_address
from strand.errors import ConfigurationError
from strand.handlers.base import Handler
from strand.handlers.emitted import output_dtypes
from strand.handlers.state import row_dtype

__all__ = ["native"]


def native(
    source: str | Path | int,
    symbol: str | None = None,
    *,
    state: Any,
    params: bytes = b"",
    pure: bool = False,
    outputs: Mapping[str, Any] | None = None,
) -> Handler:
    """A C function ``int64_t f(void *rows, const sd_tick *ticks, int64_t n, sd_context *ctx)``.

    ``source`` is the path of a shared object, with ``symbol`` the function's name, or the function's address.
    ``state`` is the dtype of a row, ``params`` bytes it finds at ``ctx->params``. ``pure`` promises that it never
    publishes, which lets publishers run it where that is cheaper than queueing. ``outputs``: dtypes of the records it
    emits with ``sd_emit``, by name; the first one is its output 0.
    Raises ConfigurationError when the object or the function cannot be found.
    """
    dtype, emitted = row_dtype(state), output_dtypes(outputs)
    if isinstance(source, int):
        if source <= 0:
            raise ConfigurationError(f"source: {source!r} is not the address of a function")
        return Handler(
            symbol or hex(source), dtype, NativeFunction(pointer_from_address(source), params, pure), outputs=emitted
        )
    if symbol is None:
        raise ConfigurationError("symbol: name the function to call in the shared object")
    path = Path(source)
    if not path.is_file():
        raise ConfigurationError(f"source: there is no shared object {path}")
    try:
        library = ctypes.CDLL(os.fspath(path.resolve()))
        address = ctypes.cast(getattr(library, symbol), ctypes.c_void_p).value
    except (OSError, AttributeError) as error:
        raise ConfigurationError(f"source: {path} does not give a function {symbol!r}: {error}") from error
    function = NativeFunction(pointer_from_address(address or 0), params, pure, keep=library)
    return Handler(symbol, dtype, function, outputs=emitted)
