"""A handler with many sets of parameters at once: each set has its own row and its own records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from strand.errors import ConfigurationError
from strand.handlers.base import Handler, SingleHandler
from strand.handlers.batch_handlers import PythonHandler
from strand.handlers.chains import ChainHandler, chain_dtype
from strand.handlers.compiled_handlers import CompiledHandler
from strand.handlers.hosted_sets import HostedSets
from strand.handlers.object_handlers import ObjectHandler
from strand.handlers.parameters import Parameters
from strand.handlers.set_context import numbered
from strand.handlers.state import SET, SETS, TIMERS, TURN

__all__ = ["part_with_sets", "with_sets"]

#: A row's record of each set lies in one array, whose place the engine takes as 32 bits.
MOST: Final = 4096


#: Handlers that may be called with many sets.
Swept = CompiledHandler | ObjectHandler | PythonHandler


def part_with_sets(handler: Handler) -> tuple[str, Swept]:
    """The part of a handler that takes sets of parameters, and its name. Raises ConfigurationError where none can, and
    where it would leave nothing in a table."""
    called, part = handler.parts_as(handler.name)[-1]
    if not isinstance(part, Swept) or part.params is None:
        raise ConfigurationError(
            f"sweep: {called!r} takes no sets of parameters: give strand.handler, strand.object_handler or "
            "strand.batch_handler params=, alone or as the last of a chain; for others run strand.replay once per set"
        )
    if isinstance(part, ObjectHandler) and part.counts and not part.outputs:
        raise ConfigurationError(
            f"sweep: {called!r} has no state and no outputs, and a sweep keeps tables, not objects: give "
            "strand.object_handler state= or outputs=, or run strand.replay once per set"
        )
    return called, part


def with_sets(handler: Handler, sets: Sequence[Mapping[str, Any]], numbers: Sequence[int] | None = None) -> Handler:
    """The handler with all the sets of parameters; it is called with one set after the other, tick by tick.

    ``sets``: parameters by name for all symbols, or by symbol as ``Handler.with_params`` takes them. For values that a
    set lacks, the handler's hold. ``numbers``: what they are called, by default from 0. The row has a field ``sets``,
    of shape (number of sets,), and what it emits a field ``set``, their numbers. Raises ConfigurationError for a
    handler that cannot have them, and for what its parameters do not take.
    """
    called, part = part_with_sets(handler)
    if not 1 <= len(sets) <= MOST:
        raise ConfigurationError(f"sweep: give from 1 to {MOST} sets of parameters, not {len(sets)}")
    named = list(zip(range(len(sets)) if numbers is None else numbers, sets, strict=True))
    given = tuple(_given(part, number, values) for number, values in named)
    if not isinstance(part, CompiledHandler):
        return _in_place_of(handler, called, _hosted(part, given, [number for number, _ in named]))
    given = tuple(_numbered(each, number) for each, (number, _) in zip(given, named, strict=True))
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
    return _in_place_of(handler, called, made)


def _hosted(part: ObjectHandler | PythonHandler, sets: tuple[Parameters, ...], numbers: Sequence[int]) -> HostedSets:
    counts = isinstance(part, ObjectHandler) and part.counts
    rows = np.dtype([(SETS, part.state, (len(sets),))], align=part.state.isalignedstruct)
    return HostedSets(
        name=part.name,
        state=part.state if counts else rows,
        size_unit=part.size_unit,
        outputs={name: _with_number(f"output {name!r}", dtype) for name, dtype in part.outputs.items()},
        params=sets[0],
        trades=part.trades,
        alone=part,
        sets=sets,
        numbers=tuple(numbers),
    )


def _in_place_of(handler: Handler, called: str, made: SingleHandler) -> Handler:
    """The handler with another last part, or only part."""
    if not isinstance(handler, ChainHandler):
        return made
    parts: tuple[tuple[str, SingleHandler], ...] = (*handler.parts[:-1], (called, made))
    return replace(handler, parts=parts, state=chain_dtype(parts), origin=None)


def _given(part: Swept, number: int, values: Mapping[str, Any]) -> Parameters:
    """The part's parameters as one set has them."""
    assert part.params is not None
    if not isinstance(values, Mapping):
        raise ConfigurationError(f"sweep: set {number}: {values!r} is not a dict of parameters by name")
    by_symbol = values if all(isinstance(value, Mapping) for value in values.values()) else {"*": values}
    before = part.params.values
    merged = {**before, **{symbol: {**before.get(symbol, {}), **row} for symbol, row in by_symbol.items()}}
    try:
        return part.params.given(merged)
    except ConfigurationError as error:
        raise ConfigurationError(f"sweep: set {number}: {error}") from None


def _numbered(given: Parameters, number: int) -> Parameters:
    """The parameters of one set, and its number."""
    values = {**given.values, "*": {**given.values.get("*", {}), SET: number}}
    return replace(given, dtype=_with_number("params", given.dtype), values=values)


def _with_number(what: str, dtype: np.dtype[Any]) -> np.dtype[Any]:
    if SET in (dtype.names or ()):
        raise ConfigurationError(
            f"sweep: {what}: a field is named {SET!r}, which is the name of the set's number: rename the field"
        )
    return numbered(dtype)
