"""What a handler is to the rest of strand, and the handlers that are built in."""

from __future__ import annotations

import functools
import inspect
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np

from strand._bindings.books import BookMemory
from strand._bindings.native import NativeFunction, builtin
from strand._bindings.trades import TradeRules, TradeSource
from strand.errors import ConfigurationError
from strand.handlers.context import Bound, Context
from strand.handlers.options import Builtin, Origin, built_in
from strand.handlers.parameters import by_symbol
from strand.numbers import whole
from strand.units import COUNT, LETTER, NOTIONAL, PRICE, SIZE, TIME, declare

if TYPE_CHECKING:
    from strand.feeds import FeedInfo
    from strand.feeds.base import TicksAre

__all__ = [
    "BOOK_ROW",
    "BUILTIN",
    "COUNT_ROW",
    "SPIN_ROW",
    "VWAP_ROW",
    "Fills",
    "Handler",
    "HandlerLike",
    "On",
    "OnTick",
    "OnTicks",
    "SymbolMemory",
    "book",
    "count",
    "fills_of",
    "name_of",
    "resolve",
    "source_for",
    "spin",
    "ticks_of",
    "trades_of",
]

#: What a handler is called with.
On = Literal["tick", "trade"]
OnTick = Callable[[Any, Any], None]
OnTicks = Callable[[str, Any, Any], None] | Callable[[str, Any, Any, Context], None]

_SEEN = {"ticks": 1}
_TRADED = {"trades": 1}
_COUNT4 = declare(COUNT, "<i4")

COUNT_ROW = np.dtype(
    [
        ("ticks", COUNT),
        ("trades", COUNT),
        ("volume", SIZE),
        ("last_price", declare(PRICE, given=_TRADED)),
        ("first_ts_recv", declare(TIME, given=_SEEN)),
        ("last_ts_recv", declare(TIME, given=_SEEN)),
        ("last_sequence", declare(COUNT, given=_SEEN)),
    ]
)
VWAP_ROW = np.dtype(
    [
        ("trades", COUNT),
        ("volume", SIZE),
        ("notional", NOTIONAL),
        ("vwap", declare(PRICE, "<f8", given=_TRADED)),
        ("unpriced", COUNT),
    ]
)
SPIN_ROW = np.dtype([("ticks", "<i8"), ("value", "<u8"), ("last_sequence", "<i8"), ("broken", "<i8")])

BOOK_ROW = np.dtype(
    [
        ("ticks", COUNT),
        ("last_ts_recv", declare(TIME, given=_SEEN)),
        ("bid_price", declare(PRICE, given=_SEEN)),
        ("ask_price", declare(PRICE, given=_SEEN)),
        ("bid_size", SIZE),
        ("ask_size", SIZE),
        ("bid_orders", _COUNT4),
        ("ask_orders", _COUNT4),
        ("orders", _COUNT4),
        ("state", LETTER),
        ("bid_levels", _COUNT4),
        ("ask_levels", _COUNT4),
        ("volume", SIZE),
        ("trades", COUNT),
        ("last_price", declare(PRICE, given=_TRADED)),
        ("crossed", COUNT),
        ("unknown", _COUNT4),
        ("duplicates", _COUNT4),
        ("clipped", _COUNT4),
        ("unusable", _COUNT4),
    ]
)


class SymbolMemory(Protocol):
    """What a handler keeps for each symbol beside the row: one for each dispatcher it is given to."""

    @property
    def function(self) -> NativeFunction:
        """The handler's function, with parameters that lead to this memory."""


@dataclass(frozen=True)
class Handler:
    """A handler ready to be given to a dispatcher. Made by the functions of this package.

    ``state`` is the dtype of a symbol's row; it starts as zeros. ``function`` (native), ``memory`` (native, with memory
    of its own for so many symbols), ``on_tick`` (compiled when the dispatcher is made), ``bind`` (Python: what to call
    with a symbol's ticks) or ``parts`` (a chain of others, by name) says what it does. ``params_dtype`` is the record
    of parameters a symbol has, where it has any. ``trades``: where those come from that it is called with, instead of
    ticks or beside them. ``plain``: it takes ticks as they are, as nobody has said what its feed's mean.
    ``outputs``: dtypes of the records it emits, by name, in the order of
    its numbers. ``for_feed``: the handler to use in its place where the feed is known, as in a replay. ``timers`` and
    ``ends``: whether it may ask for timers, and does something at the end of a run; ``on_wake`` and ``on_finish``: what
    is compiled for that beside ``on_tick``. ``size_unit``: what 1 in a size of its feed is worth, None where the files
    that are merged differ in it; 1.0 where no feed is known. ``origin``: what makes it again, where that is known.
    """

    name: str
    state: np.dtype[Any]
    function: NativeFunction | None = None
    memory: Callable[[int], SymbolMemory] | None = None
    on_tick: OnTick | None = None
    bind: Callable[[Context], Bound] | None = None
    needs_ticks: bool = False
    parts: tuple[tuple[str, Handler], ...] = ()
    params_dtype: np.dtype[Any] | None = None
    params_defaults: Mapping[str, Any] = field(default_factory=dict)
    params_values: Mapping[str, Mapping[str, Any]] | None = None
    needs_states: tuple[str, ...] = ()
    cache: bool = True
    outputs: Mapping[str, np.dtype[Any]] = field(default_factory=dict)
    for_feed: Callable[[FeedInfo], Handler] | None = None
    timers: bool = False
    ends: bool = False
    trades: TradeSource | None = None
    plain: bool = False
    on_wake: Callable[..., None] | None = None
    on_finish: Callable[..., None] | None = None
    size_unit: float | None = 1.0
    origin: Origin | None = field(default=None, compare=False)
    _compiled: dict[Any, NativeFunction] = field(default_factory=dict, repr=False, compare=False)

    @property
    def described(self) -> str:
        """Its name, and the options it was made with as far as they are known."""
        said = ", ".join(f"{name}={text}" for name, text in (self.origin.options if self.origin else {}).items())
        return f"{self.name} ({said})" if said else self.name

    @property
    def is_native(self) -> bool:
        """Whether it runs without the GIL."""
        return self.bind is None

    @property
    def emitted(self) -> tuple[tuple[str, np.dtype[Any]], ...]:
        """What it emits as the engine numbers it: in a chain, one handler's outputs after the other's."""
        if self.parts:
            return tuple(output for _, part in self.parts for output in part.emitted)
        return tuple(self.outputs.items())

    @property
    def takes_ticks_as_plain(self) -> bool:
        """Whether it, or a part of it, takes ticks as they are for want of a feed that says what they mean."""
        return self.plain or any(part.takes_ticks_as_plain for _, part in self.parts)

    @property
    def asks_for_trades(self) -> bool:
        """Whether it, or a part of it, is one of the user's own that is called with trades."""
        return self.trades is not None or any(part.asks_for_trades for _, part in self.parts)

    @property
    def is_compiled(self) -> bool:
        """Whether numba compiles it, or a part of it."""
        return self.on_tick is not None or any(part.is_compiled for _, part in self.parts)

    def with_params(self, values: Any) -> Handler:
        """The same handler with parameters by symbol: ``{"AAPL": {"threshold": 2.0}, "*": {...}}``, ``"*"`` being all
        others, or a DataFrame with a column a parameter and the symbols in its index or a column ``symbol``.

        What a symbol is not given it has from ``"*"``, and then from the defaults of the class that declares the
        parameters. Raises ConfigurationError for a column that is no parameter; names and values are checked when the
        dispatcher is made.
        """
        if self.params_dtype is None:
            raise ConfigurationError(f"handler {self.name!r} has no parameters: declare them with params=")
        return replace(self, params_values=by_symbol(values, self.params_dtype.names or ()), origin=None)

    def known(self, info: FeedInfo) -> Handler:
        """The handler to use in this one's place, or in those of a chain's parts, for a feed; itself for most."""
        if self.trades is not None:
            return replace(self, trades=trades_of(info), plain=False)
        if self.for_feed is not None:
            return replace(self.for_feed(info), origin=self.origin, size_unit=info.size_unit)
        parts = tuple((name, part.known(info)) for name, part in self.parts)
        same = all(new is old for (_, new), (_, old) in zip(parts, self.parts, strict=True))
        return (
            self if same and self.size_unit == info.size_unit else replace(self, parts=parts, size_unit=info.size_unit)
        )

    def compile(self, record: np.dtype[Any], key: str, row: np.dtype[Any]) -> NativeFunction | None:
        """The function the engine calls for records of a dtype and rows of a dtype; None for a Python handler."""
        if self.on_tick is None:
            return self.function
        signature = (record, key, row)
        if signature not in self._compiled:
            from strand.handlers.compiled_handlers import compile_loop

            self._compiled[signature] = compile_loop(self, record, key, row)
        return self._compiled[signature]


HandlerLike = Handler | str | type


def _builtin(name: str, state: np.dtype[Any], params: bytes = b"") -> Handler:
    return Handler(name, state, NativeFunction(builtin(name), params, pure=True), needs_ticks=True)


#: What a fill (action F) does to its order.
Fills = Literal["reduce", "report"]


@built_in
def count() -> Handler:
    """Tallies: ticks, trades, volume, and the last price, time and sequence."""
    return _builtin("count", COUNT_ROW)


@built_in
def spin(work: int, *, dear_every: int = 0, dear_times: int = 1) -> Handler:
    """The benchmark's handler: ``work`` dependent multiply-add steps a tick; symbols whose index divides by
    ``dear_every`` take ``dear_times`` as many. Its row counts ticks whose sequence does not follow the last one's."""
    given = (whole("work", work, 0), whole("dear_every", dear_every, 0), whole("dear_times", dear_times, 1))
    return _builtin("spin", SPIN_ROW, struct.pack("=qqq", *given))


@built_in
def book(*, fills: Fills | None = None, crosses: bool = True) -> Handler:
    """Order-by-order books of all symbols, from feeds of single orders (ITCH, PITCH, LOBSTER, DBN MBO).

    A row (``BOOK_ROW``) shows the top of the book and counts what did not fit; prices are in 1e-9, ``UNDEF_PRICE``
    where a side is empty. ``Dispatcher.books`` and ``ReplayResult.books`` answer for levels, orders and places in a
    queue.
    ``fills``: what a fill (action F) does: ``"reduce"`` takes it off its order, as ITCH, PITCH and LOBSTER mean it,
    ``"report"`` leaves the book to the cancel or modify that follows, as in DBN, and follows Databento's other
    rules (docs/feeds/dbn.md): tops are shown at the end of events, and each publisher has a book. Without it a
    replay goes by its feed's format, and refuses a merge of both sorts; a dispatcher without ``feed=`` takes
    ``"reduce"``. ``crosses``: they count into volume, trades and last price. csrc/handlers/book.h and trade.h have
    the rules.
    """
    if fills not in (None, "reduce", "report"):
        raise ConfigurationError(f"fills: {fills!r} is not one of reduce, report")
    rules = TradeRules(orders=True, fills_report=fills == "report", crosses=bool(crosses))
    return Handler(
        "book",
        BOOK_ROW,
        memory=lambda n: BookMemory(n, rules),
        needs_ticks=True,
        for_feed=None if fills is not None else lambda info: book(fills=fills_of(info), crosses=crosses),
    )


def ticks_of(info: FeedInfo) -> TicksAre:
    """What a feed's ticks mean. Raises ConfigurationError where its files do not agree."""
    if info.ticks is None:
        raise ConfigurationError(
            "give handlers by symbol, with book= and fills=: of the files that are merged, some have single orders or "
            "fills that only report (DBN), others have not"
        )
    return info.ticks


def fills_of(info: FeedInfo) -> Fills:
    """What a fill does in a feed. Raises ConfigurationError where its files do not agree."""
    return "report" if ticks_of(info) in ("dbn", "dbn-orders") else "reduce"


def source_for(on: On) -> TradeSource | None:
    """Where the trades come from that a handler is called with, as long as no feed is known; None for ticks. Raises
    ConfigurationError."""
    if on not in ("tick", "trade"):
        raise ConfigurationError(f"on: {on!r} is not one of tick, trade")
    return TradeSource() if on == "trade" else None


def trades_of(info: FeedInfo) -> TradeSource:
    """Where a feed's trades are to be had. Raises ConfigurationError where its files do not agree."""
    ticks = ticks_of(info)
    rules = TradeRules(orders=ticks in ("orders", "dbn-orders"), fills_report=fills_of(info) == "report")
    return TradeSource(rules, books=ticks == "orders")


#: Handlers by name. Those of modules beside this one are added where the package puts all together.
BUILTIN: dict[str, Builtin] = {
    "book": Builtin(book),
    "count": Builtin(count),
    "spin": Builtin(spin, {"work": 0}),
}


def name_of(function: Callable[..., None]) -> str:
    """A partial, or an object that can be called, has no name of its own."""
    return getattr(function, "__name__", type(function).__name__)


def check_runs(name: str, function: object) -> None:
    """Refuses a function whose call runs nothing of it: an ``async`` one, or a generator."""
    plain = getattr(function, "py_func", function)
    while isinstance(plain, functools.partial):
        plain = plain.func
    if not callable(plain):
        raise ConfigurationError(f"handler {name!r}: {plain!r} is no function")
    called = plain if inspect.isroutine(plain) else type(plain).__call__
    if inspect.iscoroutinefunction(called) or inspect.isgeneratorfunction(called) or inspect.isasyncgenfunction(called):
        raise ConfigurationError(
            f"handler {name!r}: {called.__name__} is async or a generator, and would not run when it is called; write "
            "a plain function"
        )


def resolve(like: HandlerLike) -> Handler:
    """A handler from what the user gave: one, the name of a built-in one, or a class whose objects are handlers."""
    from strand.handlers.object_handlers import is_object_class, object_handler

    if isinstance(like, Handler):
        return like
    if isinstance(like, str):
        if like not in BUILTIN:
            raise ConfigurationError(f"handler: {like!r} is not one of {', '.join(sorted(BUILTIN))}")
        return BUILTIN[like]()
    if is_object_class(like):
        return object_handler(like)
    raise ConfigurationError(
        f"handler: {like!r} is no handler; decorate a function with @strand.handler or @strand.batch_handler"
    )
