"""Handlers bound to one table of symbols, by a dispatcher or a plain loop: the functions that run each of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from strand.binding.books import TapeMemory, TradeMaker, TradeSource
from strand.binding.engine_words import RunByPython
from strand.binding.memory import Space
from strand.binding.native import NativeFunction
from strand.handlers.context import Context, Emit, Timer
from strand.handlers.feed_trades import ContractMemory
from strand.handlers.host import Host, Site
from strand.handlers.shared_rows import SharedRows
from strand.symbols import SymbolTable

__all__ = ["BindContext", "BoundHandler", "BoundNative", "BoundPython", "TickByTick"]


@dataclass(frozen=True)
class BindContext:
    """Context that handlers are bound to: the symbols, the records and their key, the bytes from one row to the next,
    and the space for state beside rows.

    ``makers``: makers of trades for handlers that ask for trades. ``shared``: the rows that symbols share.
    ``contracts``: the contracts of handlers that make notionals. ``tapes``: the books of handlers that take quotes.
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

    def maker_for(self, source: TradeSource | None) -> TradeMaker | None:
        """Returns the maker of a handler's trades; None where the handler asks for none."""
        if source is None:
            return None
        self.makers.append(TradeMaker(self.space, len(self.table), source))
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


class Emitting(Protocol):
    """The handler whose code Python runs: of a chain the last one."""

    @property
    def name(self) -> str: ...

    @property
    def outputs(self) -> Mapping[str, np.dtype[Any]]: ...

    @property
    def timers(self) -> bool: ...

    @property
    def fails_as_a_whole(self) -> bool: ...


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
    emitting: Emitting
    host: Callable[[Context, Site], Host]
    key: str = "instrument_id"
    first_output: int = 0
    params: npt.NDArray[Any] | None = None
    states: Mapping[str, np.dtype[Any]] = field(default_factory=dict)
    by_tick: TickByTick | None = None

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
        context = Context(
            self.name,
            symbol,
            key,
            row_of(key),
            params=None if self.params is None else self.params[key],
            states=self.states,
            emit=Emit(emitting.name, emitting.outputs, self.first_output, site.batch),
            timer=Timer(emitting.name) if emitting.timers else None,
        )
        context.row_of, context.params_of, context.record_key = row_of, self.params, self.key
        return context, self.host(context, site)
