"""Handlers: the code that runs over each symbol's ticks, and the row of state each symbol has.

Four kinds, all accepted wherever a handler is asked for:

- the name of a built-in one (``"count"``, ``"vwap"``, ``"book"``, ``"spin"``);
- ``native(...)``: a C function of type ``sd_handler_fn``, from a shared object or by address;
- ``@handler(state=...)``: ``def on_tick(row, tick)`` compiled by numba, which needs the extra ``[numba]``;
- ``@batch_handler(state=...)``: ``def on_ticks(symbol, ticks, row)``, run by Python a batch at a time.
"""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from strand._bindings.books import BookMemory
from strand._bindings.engine import NativeFunction, builtin, pointer_from_address
from strand.errors import ConfigurationError, MissingExtraError

__all__ = [
    "BOOK_ROW",
    "BUILTIN",
    "Handler",
    "HandlerLike",
    "SymbolMemory",
    "batch_handler",
    "book",
    "handler",
    "native",
    "resolve",
    "spin",
]

OnTick = Callable[[Any, Any], None]
OnTicks = Callable[[str, Any, Any], None]

COUNT_ROW = np.dtype(
    [
        ("ticks", "<u8"),
        ("trades", "<u8"),
        ("volume", "<u8"),
        ("last_price", "<i8"),
        ("first_ts_recv", "<u8"),
        ("last_ts_recv", "<u8"),
        ("last_sequence", "<u8"),
    ]
)
VWAP_ROW = np.dtype([("trades", "<u8"), ("volume", "<u8"), ("notional", "<f8"), ("vwap", "<f8")])
SPIN_ROW = np.dtype([("ticks", "<u8"), ("value", "<u8"), ("last_sequence", "<u8"), ("broken", "<u8")])

BOOK_ROW = np.dtype(
    [
        ("ticks", "<u8"),
        ("last_ts_recv", "<u8"),
        ("bid_price", "<i8"),
        ("ask_price", "<i8"),
        ("bid_size", "<u8"),
        ("ask_size", "<u8"),
        ("bid_orders", "<u4"),
        ("ask_orders", "<u4"),
        ("bid_levels", "<u4"),
        ("ask_levels", "<u4"),
        ("volume", "<u8"),
        ("trades", "<u8"),
        ("last_price", "<i8"),
        ("crossed", "<u8"),
        ("orders", "<u4"),
        ("unknown", "<u4"),
        ("duplicates", "<u4"),
        ("clipped", "<u4"),
        ("unusable", "<u4"),
        ("state", "<u4"),
    ]
)


class SymbolMemory(Protocol):
    """What a handler keeps for each symbol beside the row: one for each dispatcher it is given to."""

    @property
    def function(self) -> NativeFunction:
        """The handler's function, with parameters that lead to this memory."""


@dataclass(frozen=True)
class Handler:
    """A handler ready to be given to a dispatcher. Made by the functions of this module.

    ``state`` is the dtype of a symbol's row; it starts as zeros. Exactly one of ``function`` (native), ``memory``
    (native, with memory of its own for so many symbols), ``on_tick`` (compiled when the dispatcher is made) and
    ``on_ticks`` (Python) is set.
    """

    name: str
    state: np.dtype[Any]
    function: NativeFunction | None = None
    memory: Callable[[int], SymbolMemory] | None = None
    on_tick: OnTick | None = None
    on_ticks: OnTicks | None = None
    needs_ticks: bool = False
    _compiled: dict[Any, NativeFunction] = field(default_factory=dict, repr=False, compare=False)

    @property
    def is_native(self) -> bool:
        """Whether it runs without the GIL."""
        return self.on_ticks is None

    def compile(self, record: np.dtype[Any], key: str, row: np.dtype[Any]) -> NativeFunction | None:
        """The function the engine calls for records of a dtype and rows of a dtype; None for a Python handler."""
        if self.on_tick is None:
            return self.function
        signature = (record, key, row)
        if signature not in self._compiled:
            self._compiled[signature] = _compile(self.name, self.on_tick, record, key, row)
        return self._compiled[signature]


HandlerLike = Handler | str


def _builtin(name: str, state: np.dtype[Any], params: bytes = b"") -> Handler:
    return Handler(name, state, NativeFunction(builtin(name), params, pure=True), needs_ticks=True)


def spin(work: int, *, dear_every: int = 0, dear_times: int = 1) -> Handler:
    """The benchmark's handler: ``work`` dependent multiply-add steps a tick; symbols whose index divides by
    ``dear_every`` take ``dear_times`` as many. Its row counts ticks whose sequence does not follow the last one's."""
    if work < 0 or dear_every < 0 or dear_times < 1:
        raise ConfigurationError("work and dear_every must not be negative, dear_times must be at least 1")
    return _builtin("spin", SPIN_ROW, struct.pack("=qqq", work, dear_every, dear_times))


def book(*, fills: str = "reduce") -> Handler:
    """Order-by-order books of all symbols, from feeds of single orders (ITCH, PITCH, LOBSTER, DBN MBO).

    A row (``BOOK_ROW``) shows the top of the book and counts what did not fit; prices are in 1e-9, ``UNDEF_PRICE``
    where a side is empty. ``Dispatcher.books`` and ``ReplayResult.books`` answer for levels, orders and places in a
    queue.
    ``fills``: what a fill (action F) does: ``"reduce"`` takes it off its order, as ITCH, PITCH and LOBSTER mean it,
    ``"report"`` leaves the book to the cancel or modify that follows, as in DBN. csrc/handlers/book.h has the rules.
    """
    if fills not in ("reduce", "report"):
        raise ConfigurationError(f"fills: {fills!r} is not one of reduce, report")
    return Handler("book", BOOK_ROW, memory=lambda n: BookMemory(n, fills_report=fills == "report"), needs_ticks=True)


#: Handlers by name. ``book``: order books;
#: ``count``: tallies; ``vwap``: volume-weighted average price; ``spin``: no work, order checked.
BUILTIN: Mapping[str, Callable[[], Handler]] = {
    "book": book,
    "count": lambda: _builtin("count", COUNT_ROW),
    "vwap": lambda: _builtin("vwap", VWAP_ROW),
    "spin": lambda: spin(0),
}


def native(
    source: str | Path | int, symbol: str | None = None, *, state: Any, params: bytes = b"", pure: bool = False
) -> Handler:
    """A C function ``int64_t f(void *rows, const sd_tick *ticks, int64_t n, sd_context *ctx)``.

    ``source`` is the path of a shared object, with ``symbol`` the function's name, or the function's address.
    ``state`` is the dtype of a row, ``params`` bytes it finds at ``ctx->params``. ``pure`` promises that it never
    publishes, which lets publishers run it where that is cheaper than queueing.
    Raises ConfigurationError when the object or the function cannot be found.
    """
    dtype = _row_dtype(state)
    if isinstance(source, int):
        if source <= 0:
            raise ConfigurationError(f"source: {source!r} is not the address of a function")
        return Handler(symbol or hex(source), dtype, NativeFunction(pointer_from_address(source), params, pure))
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
    return Handler(symbol, dtype, NativeFunction(pointer_from_address(address or 0), params, pure, keep=library))


def handler(*, state: Any, name: str | None = None) -> Callable[[OnTick], Handler]:
    """Decorates ``def on_tick(row, tick)``: numba compiles it, and the loop over a batch around it.

    ``row`` and ``tick`` are records: ``row.volume += tick.size``. ``state`` is the row's dtype, or a list of
    (name, dtype) pairs. Raises MissingExtraError without numba, ConfigurationError when it does not compile.
    """
    dtype = _row_dtype(state)

    def wrap(function: OnTick) -> Handler:
        return Handler(name or _name_of(function), dtype, on_tick=function)

    return wrap


def batch_handler(*, state: Any, name: str | None = None) -> Callable[[OnTicks], Handler]:
    """Decorates ``def on_ticks(symbol, ticks, row)``, run by Python once a batch.

    ``ticks`` is an array of shape (n,) of one symbol's records in order, valid during the call only; ``row`` is the
    symbol's row, a numpy record to write into. Runs under the GIL.
    """
    dtype = _row_dtype(state)

    def wrap(function: OnTicks) -> Handler:
        return Handler(name or _name_of(function), dtype, on_ticks=function)

    return wrap


def _name_of(function: Callable[..., None]) -> str:
    """A partial, or an object that can be called, has no name of its own."""
    return getattr(function, "__name__", type(function).__name__)


def resolve(like: HandlerLike) -> Handler:
    """A handler from what the user gave: a handler, or the name of a built-in one."""
    if isinstance(like, Handler):
        return like
    if isinstance(like, str):
        if like not in BUILTIN:
            raise ConfigurationError(f"handler: {like!r} is not one of {', '.join(sorted(BUILTIN))}")
        return BUILTIN[like]()
    raise ConfigurationError(
        f"handler: {like!r} is no handler; decorate a function with @strand.handler or @strand.batch_handler"
    )


def _row_dtype(state: Any) -> np.dtype[Any]:
    try:
        dtype: np.dtype[Any] = np.dtype(state)
    except TypeError as error:
        raise ConfigurationError(f"state: {state!r} is no dtype: {error}") from error
    if dtype.names is None:
        raise ConfigurationError("state: give a structured dtype, for example [('volume', 'u8')]")
    if dtype.hasobject:
        raise ConfigurationError("state: rows are plain memory and cannot hold Python objects")
    return dtype


@lru_cache(maxsize=1)
def _numba() -> Any:
    try:
        import numba
    except ImportError as error:
        raise MissingExtraError("compiling a handler", "numba", "numba") from error
    return numba


def _compile(name: str, on_tick: OnTick, record: np.dtype[Any], key: str, row: np.dtype[Any]) -> NativeFunction:
    numba = _numba()
    types = numba.types
    one = numba.njit(on_tick) if not hasattr(on_tick, "py_func") else on_tick

    def run(rows_at, ticks_at, n, context):  # type: ignore[no-untyped-def]
        rows = numba.carray(rows_at, (context[2],))  # context[2] is sd_context.n_rows
        ticks = numba.carray(ticks_at, (n,))
        done = 0
        try:
            for i in range(n):
                one(rows[ticks[i][key]], ticks[i])
                done += 1
        except Exception:
            return done
        return n

    # A field that does not exist is a KeyError to numba, and there is no end to what else it raises.
    try:
        rows_type, ticks_type = numba.from_dtype(row), numba.from_dtype(record)
        signature = types.int64(
            types.CPointer(rows_type), types.CPointer(ticks_type), types.int64, types.CPointer(types.int64)
        )
        function = numba.cfunc(signature)(run)
    except Exception as error:
        raise ConfigurationError(f"handler {name!r} does not compile: {type(error).__name__}: {error}") from error
    return NativeFunction(pointer_from_address(function.address), pure=True, keep=function)
