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
from strand.handlers.state import defaults_of, row_dtype

__all__ = ["native"]


def native(
    source: str | Path | int,
    symbol: str | None = None,
    *,
    state: Any,
    params: Any = b"",
    pure: bool = False,
    outputs: Mapping[str, Any] | None = None,
) -> Handler:
    """A C function ``int64_t f(void *rows, const sd_tick *ticks, int64_t n, sd_context *ctx)``.

    ``source`` is the path of a shared object, with ``symbol`` the function's name, or the function's address.
    ``state`` is the row, as ``strand.handler`` has it. ``params``: bytes it finds at ``ctx->params``; or a record, as
    ``state``, of what there is to know of each symbol beforehand: ``ctx->params`` is then an array of them by key,
    filled by ``Handler.with_params``. ``pure`` promises that it never
    publishes, which lets publishers run it where that is cheaper than queueing. ``outputs``: records
    it emits with ``sd_emit``, by name; the first one is its output 0.
    Raises ConfigurationError when the object or the function cannot be found.
    """
    dtype, emitted = row_dtype(state), output_dtypes(outputs)
    fixed = params if isinstance(params, bytes | bytearray) else b""
    by_symbol = None if isinstance(params, bytes | bytearray) else row_dtype(params, "params")

    def made(name: str, address: int, keep: object = None) -> Handler:
        function = NativeFunction(pointer_from_address(address), bytes(fixed), pure, keep=keep)
        defaults = {} if by_symbol is None else defaults_of(params)
        return Handler(name, dtype, function, params_dtype=by_symbol, params_defaults=defaults, outputs=emitted)

    if isinstance(source, int):
        if source <= 0:
            raise ConfigurationError(f"source: {source!r} is not the address of a function")
        return made(symbol or hex(source), source)
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
    return made(symbol, address or 0, library)
