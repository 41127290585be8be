"""Interface of all kinds of handlers to the rest of strand, as they are given and as they are bound.

A single handler is code of one kind (``NativeHandler``, ``CompiledHandler``, ``PythonHandler``, ``ObjectHandler``) in a
shape: ``Shape`` itself, or a class below it. A ``ChainHandler`` is several single handlers in a row.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from strand.binding.books import TapeMemory, Tapes, TradeMaker, TradeSource
from strand.binding.engine_words import RunByPython
from strand.binding.memory import Space
from strand.binding.native import NativeFunction
from strand.brief import brief, listed
from strand.errors import ConfigurationError
from strand.fixed import dataclass
from strand.handlers.context import Context, Emit, Timer
from strand.handlers.feed_trades import ContractMemory, trades_of
from strand.handlers.host import Host, Site
from strand.handlers.options import Option, Origin
from strand.handlers.state import Parameters
from strand.symbols import SymbolTable

if TYPE_CHECKING:
    from strand.feeds import FeedInfo
    from strand.handlers.compiled.called_again import FailedCall
    from strand.handlers.context import SymbolFunctions
    from strand.handlers.set_context import SetContext
    from strand.handlers.shared_rows import Members, SharedRows


@dataclass(frozen=True, slots=True)
class FailedSet:
    """The set of parameters that a handler with several failed with: its number and values, the handler with it alone,
    and the row that it has then, shape (1,). ``context``: the set's own, where Python runs the handler."""

    number: int
    params: Mapping[str, Any]
    handler: Handler
    row: npt.NDArray[Any]
    context: SetContext | None = None


@dataclass(frozen=True, kw_only=True, repr=False)
class Handler(ABC):
    """A handler, ready to be given to a dispatcher. Functions of this package make it.

    Attributes:
        name: The handler's name.
        state: The dtype of a symbol's row, which starts as zeros.
        size_unit: What 1 in a size of its feed is worth. None if merged files differ in it; 1.0 if no feed is known.
        origin: What makes the handler again, if that is known.
    """

    name: str
    state: np.dtype[Any]
    size_unit: float | None = 1.0
    origin: Origin | None = field(default=None, compare=False)

    @property
    def described(self) -> str:
        """Name of the handler, and the options it was made with as far as they are known."""
        options = ", ".join(f"{name}={text}" for name, text in (self.origin.options if self.origin else {}).items())
        return f"{self.name} ({options})" if options else self.name

    def __repr__(self) -> str:
        outputs = listed(name for name, _ in self.emitted)
        row = f"row of {listed(self.state.names or ())}" if self.state.names else ""
        shapes = [part.shape.brief for part in self.singles if part.shape.brief]
        return brief(self, self.described, row, f"emits {outputs}" if outputs else "", *shapes)

    # ---- parts, and facts that hold for the handler as for some part of it

    @abstractmethod
    def parts_as(self, called: str) -> tuple[tuple[str, SingleHandler], ...]:
        """The single handlers it consists of, by name; a single one is ``called`` so."""

    @property
    def singles(self) -> list[SingleHandler]:
        """The same without their names."""
        return [part for _, part in self.parts_as(self.name)]

    @property
    def is_native(self) -> bool:
        """True if the handler runs without the GIL."""
        return self.singles[-1].is_native

    @property
    def timers(self) -> bool:
        """True if the handler may ask for timers."""
        return any(part.timers for part in self.singles)

    @property
    def ends(self) -> bool:
        """True if the handler does something at the end of a run."""
        return any(part.ends for part in self.singles)

    @property
    def emitted(self) -> tuple[tuple[str, np.dtype[Any]], ...]:
        """The dtypes of the records it emits, by name, as the engine numbers them."""
        return tuple(output for part in self.singles for output in part.emitted)

    @property
    def written(self) -> tuple[Callable[..., Any], ...]:
        """Functions that a user wrote of the handler in Python, or the class of its objects."""
        return tuple(function for part in self.singles for function in part.written)

    # ---- options and parameters

    @property
    @abstractmethod
    def options(self) -> dict[str, Option]:
        """Options of ``with_options``, by name; those of a chain are called ``part.name``."""

    @property
    @abstractmethod
    def described_params(self) -> dict[str, str]:
        """The parameters it was given, as text, with a digest of those of single symbols; of a chain, by part."""

    @abstractmethod
    def with_params(self, values: Any) -> Self:
        """Same handler with parameters by symbol.

        A symbol takes a value that it is not given from ``"*"``, else from the defaults of the class that declares the
        parameters.

        Args:
            values: A dict like ``{"AAPL": {"threshold": 2.0}, "*": {...}}``, ``"*"`` being all other symbols. Or a
                DataFrame with a column per parameter, and with the symbols in its index or in a column ``symbol``.

        Raises:
            ConfigurationError: If a column is no parameter. The dispatcher checks names of symbols and values when it
                is made.
        """

    @abstractmethod
    def with_options(self, values: Mapping[str, Any]) -> Self:
        """Same handler with other parameters for all symbols that have none of their own.

        Args:
            values: The parameters, by their names as options.
        """

    def known(self, info: FeedInfo) -> Handler:
        """The handler to use in this one's place, or in those of a chain's parts, for a feed; itself for most."""
        return self if self.size_unit == info.size_unit else replace(self, size_unit=info.size_unit)

    # ---- at work

    @abstractmethod
    def bind(self, context: BindContext) -> BoundHandler:
        """Binds the handler to a table of symbols.

        Raises:
            ConfigurationError: If the handler cannot be bound; it names the handler.
        """

    def call_again(self, call: FailedCall) -> None:  # noqa: ARG002 - as those have it that Python can call
        """Calls the handler in Python for a tick that it failed on. Raises the handler's exceptions, and
        ConfigurationError where Python cannot call it."""
        raise not_callable(self.name)

    @abstractmethod
    def failed_set(self, symbol: str, row: npt.NDArray[Any], cause: BaseException | None) -> FailedSet | None:
        """Returns the set of parameters that the handler failed with; None: it has no sets, or failed with none of
        them. The set is found by the row of the symbol, shape (1,), or by ``cause``, the exception, where Python runs
        the handler."""


HandlerLike = Handler | str | type


def not_callable(name: str) -> ConfigurationError:
    """Error where Python cannot call a handler again."""
    return ConfigurationError(
        f"replay: handler {name!r} is not a single Python function or object: stop before the tick, with "
        "strand.replay(until=...)"
    )


@dataclass(frozen=True)
class Shape:
    """Shape of the rows that a handler's code is called with. This one: each symbol's code has a row."""

    #: Word for the owner of a row that symbols share; such symbols share a strand, too. Empty: symbols share no rows.
    kind: ClassVar[str] = ""
    #: Class of the objects that run compiled code as plain Python; None: that for single symbols.
    plain: ClassVar[type[Any] | None] = None
    #: True: objects may be called for symbols in turn, in the order of ticks.
    in_turn: ClassVar[bool] = True
    #: True: another call of the code, for one tick, can find the line that fails.
    has_lines: ClassVar[bool] = True

    @property
    def brief(self) -> str:
        """The shape in a few words; empty for the plain one."""
        return ""

    @property
    def described(self) -> dict[str, str]:
        """Text for each thing that the handler was given beside parameters."""
        return {}

    @property
    def states(self) -> dict[str, np.dtype[Any]]:
        """Rows that compiled code is called with beside its symbol's, by the names of its arguments."""
        return {}

    @property
    def words(self) -> list[object]:
        """Plain values that a digest of the shape is made of."""
        return []

    @property
    def written(self) -> tuple[Callable[..., Any], ...]:
        """Functions that a user wrote of the shape."""
        return ()

    @property
    def counts(self) -> str | None:
        """Records, ``"tick"`` or ``"trade"``, that a symbol's row counts for the handler; None: it counts nothing."""
        return None

    # ---- symbols that share rows

    def members(self, handler: str, table: SymbolTable) -> Members | None:  # noqa: ARG002 - as those that share
        """Returns the symbols of a table that share rows; None: none do. ``handler``: its name. Raises
        UnknownSymbolError and ConfigurationError."""
        return None

    def check_learnt(self, handler: str, table: SymbolTable, known: int) -> None:
        """Checks symbols from the index ``known`` on, which have just got names. Raises ConfigurationError where one of
        these symbols shares rows, since its strand is settled by then, and is another one."""

    def memory_in(self, handler: SingleHandler, context: BindContext) -> SharedRows | None:  # noqa: ARG002
        """Returns the rows that symbols share, which begin as zeros; the run shows them."""
        return None

    # ---- code at work

    @property
    def shared_params(self) -> bool | None:
        """True if all symbols have the same sets of parameters; None: there are no sets."""
        return None

    def records(self, handler: SingleHandler, table: SymbolTable) -> npt.NDArray[Any] | None:
        """Returns the records of parameters that compiled code finds; None: the handler has none."""
        return None if handler.params is None else handler.params.records(handler.name, table)

    def functions_in(
        self,
        handler: Any,
        context: BindContext,  # noqa: ARG002 - a plain one needs nothing of it
    ) -> Callable[[Context], SymbolFunctions]:
        """Returns the maker of the functions that Python calls for a symbol in a run."""
        functions_of: Callable[[Context], SymbolFunctions] = handler.functions_of
        return functions_of

    # ---- failures

    def check_again(self, handler: str) -> None:
        """Raises ConfigurationError where the code cannot be called again for one tick."""

    def failed_set(
        self,
        handler: SingleHandler,  # noqa: ARG002 - as those with sets
        symbol: str,  # noqa: ARG002
        row: npt.NDArray[Any],  # noqa: ARG002
        cause: BaseException | None,  # noqa: ARG002
    ) -> FailedSet | None:
        """See ``Handler.failed_set``."""
        return None


@dataclass(frozen=True, kw_only=True, repr=False)
class SingleHandler(Handler):
    """A handler that is not a chain: code, in a shape.

    ``outputs``: dtypes of the records it emits, by name, in the order of its numbers. ``params``: the parameters that
    a symbol has, None where it has none. ``trades``: the source of the trades that it is called with, instead of ticks
    or beside them; None: it is called with ticks alone. ``on_wake``, ``on_finish``: functions of a user's for timers
    and the end of a run.
    """

    is_native: ClassVar[bool] = True
    #: True for functions that numba compiles. They see a chain's whole row, and another call can find a failing line.
    is_compiled: ClassVar[bool] = False
    #: True if a failed call does not say at which of its ticks, and writes to nothing but rows.
    fails_as_a_whole: ClassVar[bool] = False

    outputs: Mapping[str, np.dtype[Any]] = field(default_factory=dict)
    params: Parameters | None = None
    trades: TradeSource | None = None
    shape: Shape = Shape()
    on_wake: Callable[..., None] | None = None
    on_finish: Callable[..., None] | None = None

    @property
    def timers(self) -> bool:
        return self.on_wake is not None

    @property
    def ends(self) -> bool:
        return self.on_finish is not None

    @property
    def written(self) -> tuple[Callable[..., Any], ...]:
        return tuple(each for each in (self.on_wake, self.on_finish) if each is not None)

    @property
    def needs_ticks(self) -> bool:
        """True if the handler's records have to be of ``strand.TICK``."""
        return self.trades is not None

    @property
    def takes_ticks_as_plain(self) -> bool:
        """True if the handler takes ticks as they are, because no feed has declared their meaning."""
        return self.trades is not None and self.trades.assumed

    @property
    def emitted(self) -> tuple[tuple[str, np.dtype[Any]], ...]:
        return tuple(self.outputs.items())

    def parts_as(self, called: str) -> tuple[tuple[str, SingleHandler], ...]:
        return ((called, self),)

    @property
    def options(self) -> dict[str, Option]:
        return {} if self.params is None else self.params.options

    @property
    def described_params(self) -> dict[str, str]:
        return {**({} if self.params is None else self.params.described), **self.shape.described}

    def with_params(self, values: Any) -> Self:
        if self.params is None:
            raise ConfigurationError("params", f"handler {self.name!r} has none: declare them with params=")
        return replace(self, params=self.params.given(values), origin=None)

    def with_options(self, values: Mapping[str, Any]) -> Self:
        if self.params is None or not values:
            return self
        given = self.params.values
        return self.with_params({**given, "*": {**given.get("*", {}), **values}})

    def known(self, info: FeedInfo) -> Handler:
        if self.trades is None:
            return super().known(info)
        return replace(self, trades=trades_of(info), size_unit=info.size_unit)

    def failed_set(self, symbol: str, row: npt.NDArray[Any], cause: BaseException | None) -> FailedSet | None:
        return self.shape.failed_set(self, symbol, row, cause)


# ---- handlers that are bound to one table of symbols, by a dispatcher or a plain loop


@dataclass(frozen=True)
class BindContext:
    """Context that handlers are bound to: the symbols, the records and their key, the bytes from one row to the next,
    and the space for state beside rows.

    ``makers``: makers of trades for handlers that ask for trades. ``shared``: the rows that symbols share.
    ``contracts``: the contracts of handlers that make notionals. ``tapes``: the books of handlers that take quotes.
    ``of_chain``: the books of orders that the parts of a chain read together. ``row``: the whole row of a chain, which
    compiled parts see.
    """

    table: SymbolTable
    record: np.dtype[Any]
    key: str
    row_stride: int
    space: Space
    makers: list[TradeMaker] = field(default_factory=list)
    shared: list[SharedRows] = field(default_factory=list)
    contracts: list[ContractMemory] = field(default_factory=list)
    tapes: list[TapeMemory] = field(default_factory=list)
    of_chain: Tapes | None = None
    row: np.dtype[Any] | None = None

    @property
    def orders(self) -> Tapes:
        """The books of orders for a handler: its own, or those of its chain."""
        return self.of_chain or Tapes(self.space, len(self.table))

    def maker_for(self, source: TradeSource | None) -> TradeMaker | None:
        """Returns the maker of a handler's trades; None where the handler asks for none."""
        if source is None:
            return None
        self.makers.append(TradeMaker(self.orders, source))
        return self.makers[-1]


@dataclass(frozen=True, kw_only=True)
class BoundHandler(ABC):
    """Handler bound to a table of symbols.

    ``memory``: what it, or a part of it, keeps beside its row (order books), ``path``: the names that lead to that
    part's row.
    """

    memory: object | None = None
    path: tuple[str, ...] = ()

    @property
    def takes_batches(self) -> bool:
        """True if a call is only for ticks of symbols that share a strand."""
        return False

    @property
    @abstractmethod
    def for_engine(self) -> NativeFunction | RunByPython:
        """The function that the engine calls, with its timers and its end; for a Python handler, a marker that Python
        runs it."""


@dataclass(frozen=True, kw_only=True)
class BoundNative(BoundHandler):
    """Bound handler that the engine calls."""

    function: NativeFunction

    @property
    def for_engine(self) -> NativeFunction:
        return self.function


class TickByTick(NamedTuple):
    """A handler is called tick by tick, without timers, and so may be called for several symbols in turn. ``maker``:
    what makes its trades; ``counts``: its row's ``ticks`` are counted for it."""

    maker: TradeMaker | None
    counts: bool


@dataclass(frozen=True, kw_only=True)
class BoundPython(BoundHandler):
    """Bound handler that Python runs, a symbol at a time.

    ``name``, ``timers`` and ``ends``: its own, or those of the chain that ``emitting`` ends. ``first_output``: the
    engine's number of the first output of ``emitting``. ``params``: by key. ``states``: the rows of those before it in
    a chain, by name. ``host``: makes what is run for a symbol. ``key``: the records' field with the symbol's index.
    ``by_tick``: it may be called for symbols in turn.
    """

    name: str
    timers: bool
    ends: bool
    emitting: SingleHandler
    host: Callable[[Context, Site], Host]
    key: str = "instrument_id"
    first_output: int = 0
    params: npt.NDArray[Any] | None = None
    states: Mapping[str, np.dtype[Any]] = field(default_factory=dict)
    by_tick: TickByTick | None = None
    #: Its way to emit from a site, the same for all symbols.
    _emits: dict[Site, Emit] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def takes_batches(self) -> bool:
        return self.by_tick is None

    @property
    def for_engine(self) -> RunByPython:
        return RunByPython(self.timers, self.ends)

    def bind_symbol(self, key: int, *, symbol: str, row_of: Callable[[int], Any], site: Site) -> tuple[Context, Host]:
        """Binds the handler to one symbol, from the symbol's first tick on. A handler whose rows are shared is
        bound to all symbols that share the strand. ``row_of``: the row of the symbol with a key."""
        emitting = self.emitting
        if (emit := self._emits.get(site)) is None:
            emit = self._emits[site] = Emit(emitting.name, emitting.outputs, self.first_output, site.batch)
        context = Context(
            self.name,
            symbol,
            key,
            row_of(key),
            params=None if self.params is None else self.params[key],
            states=self.states,
            emit=emit,
            timer=Timer(emitting.name) if emitting.timers else None,
        )
        context.row_of, context.params_of, context.record_key = row_of, self.params, self.key
        return context, self.host(context, site)
