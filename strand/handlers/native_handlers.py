"""Functions in C of one's own, for handlers and tasks: from a shared object, by address, or by a pointer."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from strand.binding.books import TapeMemory, Tapes, with_contracts
from strand.binding.native import (
    HANDLER_LAYOUT,
    NativeFunction,
    address_of_pointer,
    finish_pointer,
    pointer_from_address,
    wake_pointer,
)
from strand.errors import ConfigurationError
from strand.fixed import dataclass
from strand.handlers.base import BindContext, BoundNative, Handler, SingleHandler
from strand.handlers.feed_trades import ContractMemory, Contracts, On, source_for
from strand.handlers.state import Parameters, output_dtypes, row_dtype
from strand.options import named_options
from strand.validate import text, yes_or_no

if TYPE_CHECKING:
    from fractions import Fraction

    from strand.feeds import FeedInfo

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
            raise ConfigurationError("symbol", "name the function to call in the shared object")
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
                field, f"{given!r} names a function, but source is an address and not a shared object"
            )
        try:
            return ctypes.cast(getattr(self._library, given), ctypes.c_void_p).value or 0
        except AttributeError as error:
            raise ConfigurationError("source", f"{self.source} does not give a function {given!r}: {error}") from error


def _address(field: str, given: Any) -> int:
    """Address of a function that is given itself."""
    if isinstance(given, _FUNCTION):
        found = ctypes.cast(given, ctypes.c_void_p).value
    else:
        found = address_of_pointer(getattr(given, "address", given))
    if not found or found < 0:
        raise ConfigurationError(
            field, f"{given!r} is not the address of a function, nor a pointer to one (ctypes, cffi, numba's cfunc)"
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
            "source",
            f"{source} was built {built}, and this is layout {HANDLER_LAYOUT}: compile it again with the "
            "headers that  strand include  names",
        )


def _library(path: Path) -> ctypes.CDLL:
    if not path.is_file():
        raise ConfigurationError("source", f"there is no shared object {path}")
    try:
        return ctypes.CDLL(os.fspath(path.resolve()))
    except OSError as error:
        raise ConfigurationError("source", f"{path} cannot be loaded: {error}") from error


class SymbolMemory(Protocol):
    """State that a handler keeps for each symbol beside the row: one object for each dispatcher."""

    @property
    def function(self) -> NativeFunction:
        """The handler's function, with parameters that lead to this memory."""


@dataclass(frozen=True, kw_only=True, repr=False)
class NativeHandler(SingleHandler):
    """A handler of functions in C: a built-in one, or one of the user's own.

    ``function``: what is called, or what makes memory in the space of tapes, for their symbols, that has it.
    ``needs_ticks``: it reads records of ``strand.TICK``. ``takes_ticks_as_plain``: nobody has said what its feed's
    mean. ``for_feed``: makes the handler to use in its place where the feed is known, as in a replay. ``timers`` and
    ``ends``: it may ask for timers, and does something at the end of a run. ``contracts``: the contracts that its
    notionals take, and the notional that closes a bar (``ContractMemory``); None: it makes no notional. ``intervals``:
    their length in ns, 0 where there are none, and the sessions (an sd_calendar); None: it has neither.
    """

    function: NativeFunction | Callable[[Tapes], SymbolMemory]
    needs_ticks: bool = False
    takes_ticks_as_plain: bool = False
    for_feed: Callable[[FeedInfo], Handler] | None = None
    timers: bool = False
    ends: bool = False
    contracts: tuple[Contracts, Fraction | None] | None = None
    intervals: tuple[int, bytes] | None = None

    @property
    def may_publish(self) -> bool:
        """True where it may publish records itself."""
        return isinstance(self.function, NativeFunction) and not self.function.never_publishes

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles the handler for another process, which has functions in C elsewhere, and makes it again. Raises
        ConfigurationError where it is unknown how the handler was made."""
        if self.origin is not None and self.origin.call is not None:
            return _called, self.origin.call
        raise ConfigurationError(
            f"handler {self.name!r} has functions in C, whose addresses differ in another process: give it by its "
            "name, 'module:attribute', or make it there by the same call of strand.native"
        )

    def known(self, info: FeedInfo) -> Handler:
        if self.for_feed is None:
            said: NativeHandler = self if self.trades is None else replace(self, takes_ticks_as_plain=False)
            return super(NativeHandler, said).known(info)
        return replace(self.for_feed(info), origin=self.origin, size_unit=info.size_unit)

    def bind(self, context: BindContext) -> BoundNative:
        if not isinstance(self.function, NativeFunction):
            memory = self.function(context.orders)
            if isinstance(memory, TapeMemory):
                context.tapes.append(memory)
            return BoundNative(function=self._with_contracts(memory.function, context), memory=memory)
        function = self._with_contracts(self.function, context)
        if self.params is not None:
            function = function._replace(params=self.params.records(self.name, context.table).tobytes())
        maker = context.maker_for(self.trades)
        return BoundNative(function=function if maker is None else maker.around(function))

    def _with_contracts(self, function: NativeFunction, context: BindContext) -> NativeFunction:
        if self.contracts is None:
            return function
        memory = ContractMemory(*self.contracts, context.space, context.table)
        context.contracts.append(memory)
        return with_contracts(function, memory.address)._replace(keep=(function.keep, memory))


def _called(make: Callable[..., Handler], args: tuple[Any, ...], options: Mapping[str, Any]) -> Handler:
    """Makes a built-in handler by the call that made it."""
    return make(*args, **options)


@named_options("native()")
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
    on: On = "tick",
) -> NativeHandler:
    """Makes a handler of a C function ``int64_t f(void *rows, const sd_tick *ticks, int64_t n, sd_context *ctx)``.

    Args:
        source: The path of a shared object, or the function itself. The function is given as its address, or as a
            pointer to it of ctypes, cffi or numba's ``cfunc``, which is kept alive.
        symbol: The function's name in the shared object.
        state: The row, declared as for ``strand.handler``.
        params: Bytes that the function finds at ``ctx->params``. Or a record, declared like ``state``, of the
            parameters of each symbol: ``ctx->params`` is then an array of them by key, which ``Handler.with_params``
            fills.
        never_publishes: Promises that the function never calls ``ctx->publish``. Publishers may then run it themselves
            if that is cheaper than queueing.
        outputs: The dtypes of the records that it emits with ``sd_emit``, by name; the first one is its output 0.
        wake: An ``sd_wake_fn`` that runs at timers: its name in the shared object, or the function itself as for
            ``source``.
        finish: An ``sd_finish_fn`` for the end of a run, given like ``wake``.
        yields: Promises that the function returns when ``ctx->yield`` says so. It then gets more than one tick per call
            in spite of timers.
        on: ``"tick"``, or ``"trade"``. Then the function is an ``sd_traded_fn``, whose second argument is ``const
            sd_traded *trades``. It is called only for what the feed says is a trade with a price, as
            ``strand.handler(on="trade")`` is.

    Raises:
        ConfigurationError: If the object or a function cannot be found, if a record cannot be declared so, or if an
            option has a value that it does not take.
        UnknownOptionError: If there is no option of a given name.
    """
    dtype, emitted = row_dtype(state), output_dtypes(outputs)
    fixed = params if isinstance(params, bytes | bytearray) else b""
    by_symbol = None if isinstance(params, bytes | bytearray) else Parameters.declared(params)
    trades = source_for(on)
    if symbol is not None:
        text("symbol", symbol)
    functions = NativeFunctions(source)
    at = functions.main(symbol)
    return NativeHandler(
        name=symbol or hex(at),
        state=dtype,
        function=NativeFunction(
            pointer_from_address(at),
            bytes(fixed),
            yes_or_no("never_publishes", never_publishes),
            keep=(functions, wake, finish),
            wake=wake_pointer(functions.address("wake", wake)),
            finish=finish_pointer(functions.address("finish", finish)),
            yields=yes_or_no("yields", yields),
        ),
        params=by_symbol,
        outputs=emitted,
        timers=wake is not None,
        ends=finish is not None,
        trades=trades,
        needs_ticks=trades is not None,
        takes_ticks_as_plain=trades is not None,
    )
