"""Handlers put to work: what each is made into for one table of symbols, by a dispatcher or a plain loop."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from strand._bindings.chain import Chained
from strand._bindings.engine_words import Stumbled
from strand._bindings.native import NativeFunction
from strand._bindings.trades import TradeMaker
from strand.errors import ConfigurationError
from strand.handlers.base import Handler
from strand.handlers.context import Context
from strand.handlers.emit import Claim, Emit
from strand.handlers.parameters import records
from strand.handlers.state import padded
from strand.handlers.timed import AtWork, Clock, Timed
from strand.handlers.timer import Timer
from strand.handlers.traded import TradesSite, bound_to
from strand.handlers.watches import check_states
from strand.symbols import SymbolTable
from strand.ticks import TRADE

__all__ = ["Opened", "Opening", "Site", "meet", "open_handler"]


class Site(Clock, TradesSite, Protocol):
    """Where Python handlers run, and what a chain needs to run its native part for its Python one."""

    def claim(self) -> Claim:
        """The ticks, or the timer, in this thread's hands."""

    def track(self, native: Chained, ticks: npt.NDArray[Any], after: npt.NDArray[Any]) -> tuple[int, Stumbled | None]:
        """Runs a chain tick by tick, and copies the row as it is after each. Returns how many it handled: short of all
        of them it stopped before a timer of its own, or failed on the next one."""

    def act(self, native: Chained, key: int, time: int, at_end: bool) -> Stumbled | None:
        """Runs the timers of such a chain that are due for a symbol, or its end."""


@dataclass(frozen=True)
class Opening:
    """What handlers are opened for: the symbols, the records and their key, and bytes from one row to the next.
    ``makers``: what makes trades for those that ask for them."""

    table: SymbolTable
    record: np.dtype[Any]
    key: str
    row_stride: int
    makers: list[TradeMaker] = field(default_factory=list)

    def maker_for(self, handler: Handler) -> TradeMaker | None:
        """What makes a handler's trades; None where it asks for none."""
        if handler.trades is None:
            return None
        self.makers.append(TradeMaker(len(self.table), handler.trades))
        return self.makers[-1]


@dataclass(frozen=True)
class Opened:
    """One handler put to work. ``function`` is what the engine calls, None for a Python handler.

    ``memory``: what a part of it keeps beside its row (order books), ``path``: the names that lead to that part's row.
    ``bind``: makes what Python calls for a symbol, from its context and where it runs.
    """

    function: NativeFunction | None
    memory: object | None = None
    path: tuple[str, ...] = ()
    params: npt.NDArray[Any] | None = None
    states: Mapping[str, np.dtype[Any]] = field(default_factory=dict)
    bind: Callable[[Context, Site], AtWork] | None = None


def open_handler(handler: Handler, opening: Opening) -> Opened:
    """Puts a handler to work. Raises ConfigurationError, naming it, where it cannot."""
    if handler.parts:
        from strand.handlers.chains import open_chain

        return open_chain(handler, opening)
    check_states(handler.name, handler.needs_states, {})
    return open_part(handler, opening, padded(handler.state, opening.row_stride))


def open_part(handler: Handler, opening: Opening, row: np.dtype[Any]) -> Opened:
    """A handler that is none of several: for a compiled one, rows are as in ``row``."""
    params = params_of(handler, opening.table)
    maker = opening.maker_for(handler)
    if handler.bind is not None:
        bind = handler.bind
        return Opened(
            None,
            params=params,
            bind=lambda context, site: Timed(context, bound_to(bind, context, site, maker), site),
        )
    memory = None
    if handler.memory is not None:
        memory = handler.memory(len(opening.table))
        function = memory.function
    else:
        compiled = handler.compile(opening.record if maker is None else TRADE, opening.key, row)
        assert compiled is not None
        function = compiled
    if params is not None:
        function = dataclasses.replace(function, params=params.tobytes())
    if maker is not None:
        function = maker.around(function)
    return Opened(function, memory=memory, params=params)


def meet(handler: Handler, opened: Opened, key: int, *, symbol: str, row: Any, site: Site) -> tuple[Context, AtWork]:
    """Puts a Python handler to work for one symbol, from its first tick on."""
    assert opened.bind is not None
    emitting = handler.parts[-1][1] if handler.parts else handler
    first = len(handler.emitted) - len(emitting.outputs)
    context = Context(
        handler.name,
        symbol,
        key,
        row,
        params=None if opened.params is None else opened.params[key],
        states=opened.states,
        emit=Emit(emitting.name, emitting.outputs, first, site.claim),
        timer=Timer(emitting.name) if emitting.timers else None,
    )
    return context, opened.bind(context, site)


def params_of(handler: Handler, table: SymbolTable) -> npt.NDArray[Any] | None:
    """One record of parameters a symbol, where the handler declares any."""
    if handler.params_dtype is None:
        return None
    return records(handler.name, handler.params_dtype, handler.params_defaults, handler.params_values, table)


def check_names(names: Sequence[str]) -> None:
    """Names of a chain's parts, which are fields of its row."""
    for i, name in enumerate(names):
        if not name.isidentifier():
            raise ConfigurationError(f"chain: {name!r} cannot be a field's name; give it one: chain(signal=...)")
        if name in names[:i]:
            raise ConfigurationError(f"chain: two handlers are named {name!r}; give one another name: chain(other=...)")
