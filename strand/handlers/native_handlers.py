"""Handlers in C of one's own, from a shared object or by address."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np

from strand.binding.native import (
    HANDLER_LAYOUT,
    NativeFunction,
    address_of_pointer,
    finish_pointer,
    pointer_from_address,
    wake_pointer,
)
from strand.binding.space import Space
from strand.errors import ConfigurationError
from strand.handlers.base import Handler, SingleHandler
from strand.handlers.bound import BindContext, BoundNative
from strand.handlers.emitted import output_dtypes
from strand.handlers.parameters import Parameters
from strand.handlers.state import row_dtype
from strand.options import options_of, refuse_unknown

if TYPE_CHECKING:
    from strand.feeds import FeedInfo

__all__ = ["NativeHandler", "SymbolMemory", "native"]

#: Arguments of ``native`` that had another name.
RENAMED: Final = {"pure": "never_publishes"}
#: The base of all of ctypes' functions, which has no public name.
_FUNCTION: Final[Any] = ctypes.CFUNCTYPE(None).__base__


class SymbolMemory(Protocol):
    """What a handler keeps for each symbol beside the row: one for each dispatcher it is given to."""

    @property
    def function(self) -> NativeFunction:
        """The handler's function, with parameters that lead to this memory."""


@dataclass(frozen=True, kw_only=True)
class NativeHandler(SingleHandler):
    """A handler of functions in C: a built-in one, or one of the user's own.

    ``function``: what is called, or what makes memory in a space, for so many symbols, that has it.
    ``needs_ticks``: it reads records of ``strand.TICK``. ``takes_ticks_as_plain``: nobody has said what its feed's
    mean. ``for_feed``: makes the handler to use in its place where the feed is known, as in a replay. ``timers`` and
    ``ends``: it may ask for timers, and does something at the end of a run.
    """

    function: NativeFunction | Callable[[Space, int], SymbolMemory]
    needs_ticks: bool = False
    takes_ticks_as_plain: bool = False
    for_feed: Callable[[FeedInfo], Handler] | None = None
    timers: bool = False
    ends: bool = False

    @property
    def is_native(self) -> bool:
        return True

    @property
    def asks_for_trades(self) -> bool:
        return False

    def known(self, info: FeedInfo) -> Handler:
        if self.for_feed is None:
            return super().known(info)
        return replace(self.for_feed(info), origin=self.origin, size_unit=info.size_unit)

    def bind_row(self, context: BindContext, row: np.dtype[Any]) -> BoundNative:  # noqa: ARG002 - its code knows its row
        if not isinstance(self.function, NativeFunction):
            memory = self.function(context.space, len(context.table))
            return BoundNative(function=memory.function, memory=memory)
        if self.params is None:
            return BoundNative(function=self.function)
        params = self.params.records(self.name, context.table)
        return BoundNative(function=replace(self.function, params=params.tobytes()))


def native(
    source: str | Path | int | Any,
    symbol: str | None = None,
    *,
    state: Any,
    params: Any = b"",
    never_publishes: bool = False,
    outputs: Mapping[str, Any] | None = None,
    wake: str | int | Any = None,
    finish: str | int | Any = None,
    yields: bool = False,
    **unknown: Any,
) -> NativeHandler:
    """A C function ``int64_t f(void *rows, const sd_tick *ticks, int64_t n, sd_context *ctx)``.

    ``source`` is the path of a shared object, with ``symbol`` the function's name; or the function itself: its address,
    or a pointer to it of ctypes, cffi or numba's ``cfunc``, which is kept alive.
    ``state`` is the row, as ``strand.handler`` has it. ``params``: bytes it finds at ``ctx->params``; or a record, as
    ``state``, of what there is to know of each symbol beforehand: ``ctx->params`` is then an array of them by key,
    filled by ``Handler.with_params``. ``never_publishes`` promises that it never calls ``ctx->publish``, which lets
    publishers run it where that is cheaper than queueing. ``outputs``: records it emits with ``sd_emit``, by name; the
    first one is its output 0. ``wake`` and ``finish``: an ``sd_wake_fn`` that runs at timers and an ``sd_finish_fn``
    for the end of a run, by name or likewise; ``yields`` promises to return where ``ctx->yield`` says so, and gets more
    than one tick a call in spite of timers.
    Raises ConfigurationError when the object or the function cannot be found, and for an unknown option.
    """
    refuse_unknown(unknown, options_of(native), "strand.native", RENAMED)
    dtype, emitted = row_dtype(state), output_dtypes(outputs)
    fixed = params if isinstance(params, bytes | bytearray) else b""
    by_symbol = None if isinstance(params, bytes | bytearray) else Parameters.declared(params)
    library = _library(Path(source)) if isinstance(source, str | os.PathLike) else None
    if library is not None:
        _check_layout(library, source)

    def address(field: str, given: Any) -> int:
        if given is None:
            return 0
        if not isinstance(given, str):
            return _address(field, given)
        if library is None:
            raise ConfigurationError(
                f"{field}: {given!r} names a function, and source is no shared object but an address"
            )
        try:
            return ctypes.cast(getattr(library, given), ctypes.c_void_p).value or 0
        except AttributeError as error:
            raise ConfigurationError(f"source: {source} does not give a function {given!r}: {error}") from error

    if library is not None and symbol is None:
        raise ConfigurationError("symbol: name the function to call in the shared object")
    at = _address("source", source) if library is None else address("symbol", symbol)
    return NativeHandler(
        name=symbol or hex(at),
        state=dtype,
        function=NativeFunction(
            pointer_from_address(at),
            bytes(fixed),
            never_publishes,
            keep=(library, source, wake, finish),
            wake=wake_pointer(address("wake", wake)),
            finish=finish_pointer(address("finish", finish)),
            yields=yields,
        ),
        params=by_symbol,
        outputs=emitted,
        timers=wake is not None,
        ends=finish is not None,
    )


def _address(field: str, given: Any) -> int:
    """Of a function that is given itself."""
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
