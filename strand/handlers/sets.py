"""A handler with many sets of parameters at once: its row and what it emits are there for each of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from strand.errors import ConfigurationError
from strand.handlers.base import Handler, SingleHandler
from strand.handlers.chains import ChainHandler, chain_dtype
from strand.handlers.compiled_handlers import CompiledHandler
from strand.handlers.parameters import Parameters
from strand.handlers.state import SET, SETS, TIMERS, TURN

__all__ = ["part_with_sets", "with_sets"]

#: A row's record of each set lies in one array, whose place the engine takes as 32 bits.
MOST: Final = 4096


def part_with_sets(handler: Handler) -> tuple[str, CompiledHandler]:
    """The part of a handler that takes sets of parameters, and its name. Raises ConfigurationError where none can."""
    called, part = handler.parts_as(handler.name)[-1]
    if not isinstance(part, CompiledHandler) or part.params is None:
        raise ConfigurationError(
            f"sweep: {called!r} takes no sets of parameters: only a compiled handler (@strand.handler) with params= "
            "does, alone or as the last of a chain; for others run strand.replay once per set"
        )
    return called, part


def with_sets(handler: Handler, sets: Sequence[Mapping[str, Any]], numbers: Sequence[int] | None = None) -> Handler:
    """The handler with all the sets of parameters, which it is called with one after the other, tick by tick.

    ``sets``: parameters by name for all symbols, or by symbol as ``Handler.with_params`` takes them. What a set lacks
    is as the handler has it. ``numbers``: what they are called, by default from 0. The row has a field ``sets``, of
    shape (number of sets,), and what it emits a field ``set``, their numbers. Raises ConfigurationError for a handler
    that cannot have them, and for what its parameters do not take.
    """
    called, part = part_with_sets(handler)
    if not 1 <= len(sets) <= MOST:
        raise ConfigurationError(f"sweep: give from 1 to {MOST} sets of parameters, not {len(sets)}")
    named = list(zip(range(len(sets)) if numbers is None else numbers, sets, strict=True))
    given = tuple(_given(part, number, values) for number, values in named)
    timers = [(TIMERS, "<i8", (len(sets),))] if part.timers else []
    fields = [(SETS, part.state, (len(sets),)), *timers, (TURN, "<u4")]
    made = replace(
        part,
        state=np.dtype(fields, align=part.timers or part.state.isalignedstruct),
        outputs={name: _with_number(f"output {name!r}", dtype) for name, dtype in part.outputs.items()},
        params=given[0],
        sets=given,
        origin=None,
        _compiled={},
    )
    if not isinstance(handler, ChainHandler):
        return made
    parts: tuple[tuple[str, SingleHandler], ...] = (*handler.parts[:-1], (called, made))
    return replace(handler, parts=parts, state=chain_dtype(parts), origin=None)


def _given(part: CompiledHandler, number: int, values: Mapping[str, Any]) -> Parameters:
    """The part's parameters as one set has them, and its number."""
    assert part.params is not None
    if not isinstance(values, Mapping):
        raise ConfigurationError(f"sweep: set {number}: {values!r} is not a dict of parameters by name")
    by_symbol = values if all(isinstance(value, Mapping) for value in values.values()) else {"*": values}
    before = part.params.values
    merged = {**before, **{symbol: {**before.get(symbol, {}), **row} for symbol, row in by_symbol.items()}}
    try:
        checked = part.params.given(merged)
    except ConfigurationError as error:
        raise ConfigurationError(f"sweep: set {number}: {error}") from None
    numbered = {**checked.values, "*": {**checked.values.get("*", {}), SET: number}}
    return replace(checked, dtype=_with_number("params", checked.dtype), values=numbered)


def _with_number(what: str, dtype: np.dtype[Any]) -> np.dtype[Any]:
    if SET in (dtype.names or ()):
        raise ConfigurationError(
            f"sweep: {what}: a field is named {SET!r}, which is the name of the set's number: rename the field"
        )
    fields = [(SET, np.dtype("<u4")), *((field, dtype[field]) for field in dtype.names or ())]
    return np.dtype(fields, align=dtype.isalignedstruct)
