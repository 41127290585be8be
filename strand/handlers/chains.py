"""Chains: several handlers over each tick, one after the other, where the later ones see what the earlier ones made
of it.

A chain's row has a field for each handler, its row; they lie in their order, each at a multiple of 8 bytes. All of them
but the last have to be native: a Python one at the end gets its ticks a batch at a time, and beside each tick the
others' rows as they were right after it (strand.handlers.tracked). Each handler has timers of its own.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from strand._bindings.chain import MOST_PARTS, Part, chained
from strand.errors import ConfigurationError
from strand.handlers.base import Handler, HandlerLike, resolve
from strand.handlers.bound import Opened, Opening, Site, check_names, open_part, params_of
from strand.handlers.context import Context
from strand.handlers.timed import AtWork
from strand.handlers.tracked import Tracked
from strand.handlers.traded import bound_to
from strand.handlers.watches import check_states

__all__ = ["chain", "open_chain"]

_ALIGN = 8


def chain(*handlers: HandlerLike, name: str | None = None, **named: HandlerLike) -> Handler:
    """Runs handlers one after the other on each tick: ``strand.chain(strand.book(), my_signal)``.

    Each has its own row, a field of the chain's row that is called as the handler is, or by the keyword it is given
    with. A compiled handler sees its own fields as always, and the rows of those before it by their names:
    ``row.book.bid_price`` is the top of the book right after this very tick. In C the row of the handler before ends
    where one's own begins. A Python handler has to be the last one: ``ctx.after["book"]`` is an array of the book's
    rows, one a tick; an object's ``on_book`` is called with them. Each may have timers, and an end: those that are due
    at one time run in the chain's order.

    Raises ConfigurationError for fewer than two handlers, names that come twice, and a Python one before the end.
    """
    given = [resolve(like) for like in handlers]
    parts = [(part.name, part) for part in given] + [(called, resolve(like)) for called, like in named.items()]
    flat = tuple(inner for called, part in parts for inner in (part.parts or ((called, part),)))
    if not 2 <= len(flat) <= MOST_PARTS:
        raise ConfigurationError(f"chain: give from 2 to {MOST_PARTS} handlers, not {len(flat)}")
    check_names([called for called, _ in flat])
    for called, part in flat[:-1]:
        if not part.is_native:
            raise ConfigurationError(
                f"chain: {called!r} is run by Python and has to be the last; those before it have to be compiled"
            )
    called, last = flat[-1]
    return Handler(
        name or "+".join(called for called, _ in flat),
        _chain_dtype(flat),
        parts=flat,
        bind=last.bind,
        needs_ticks=any(part.needs_ticks for _, part in flat),
        timers=any(part.timers for _, part in flat),
        ends=any(part.ends for _, part in flat),
    )


def _chain_dtype(parts: tuple[tuple[str, Handler], ...]) -> np.dtype[Any]:
    offsets, end = [], 0
    for _, part in parts:
        offsets.append(end)
        end += -(-part.state.itemsize // _ALIGN) * _ALIGN
    return np.dtype(
        {
            "names": [called for called, _ in parts],
            "formats": [part.state for _, part in parts],
            "offsets": offsets,
            "itemsize": end,
        }
    )


def _offset(dtype: np.dtype[Any], name: str) -> int:
    assert dtype.fields is not None
    return int(dtype.fields[name][1])


def _seen_by(index: int, handler: Handler, stride: int) -> np.dtype[Any]:
    """The chain's row as one of its compiled parts sees it: its own fields, and the rows of itself and those before."""
    called, part = handler.parts[index]
    own = part.state.fields
    assert own is not None
    base = _offset(handler.state, called)
    before = [other for other, _ in handler.parts[: index + 1]]
    for field in own:
        if field in before:
            raise ConfigurationError(
                f"chain: {called!r} has a field {field!r}, the name of a handler of the chain; rename one"
            )
    return np.dtype(
        {
            "names": [*own, *before],
            "formats": [*(about[0] for about in own.values()), *(handler.state[other] for other in before)],
            "offsets": [*(base + about[1] for about in own.values()), *(_offset(handler.state, o) for o in before)],
            "itemsize": stride,
        }
    )


def open_chain(handler: Handler, opening: Opening) -> Opened:
    """Puts the handlers of a chain to work, as one."""
    states = {called: part.state for called, part in handler.parts}
    natives: list[Part] = []
    memory: object | None = None
    path: tuple[str, ...] = ()
    python = handler.bind is not None
    for index, (called, part) in enumerate(handler.parts[: -1 if python else None]):
        row = part.state if part.on_tick is None else _seen_by(index, handler, opening.row_stride)
        opened = open_part(part, opening, row)
        assert opened.function is not None
        # A compiled handler's own row is part of the one it sees; others are given theirs.
        offset = 0 if part.on_tick is not None else _offset(handler.state, called)
        natives.append(Part(opened.function, offset, len(part.emitted)))
        if opened.memory is not None and memory is None:
            memory, path = opened.memory, (called,)
    native = chained(natives, len(opening.table))
    if not python:
        return Opened(native.function, memory=memory, path=path)
    called, last = handler.parts[-1]
    del states[called]
    check_states(last.name, last.needs_states, states)
    prefix = _prefix_of(handler.state, list(states))
    maker = opening.maker_for(last)

    def bind(context: Context, site: Site) -> AtWork:
        assert last.bind is not None
        whole, context.row = context.row, context.row[called]
        return Tracked(context, site, native, bound_to(last.bind, context, site, maker), rows=(whole, prefix))

    return Opened(None, memory=memory, path=path, params=params_of(last, opening.table), states=states, bind=bind)


def _prefix_of(row: np.dtype[Any], names: list[str]) -> np.dtype[Any]:
    """The first of a row's fields alone."""
    assert row.fields is not None
    end = max(offset + -(-dtype.itemsize // _ALIGN) * _ALIGN for dtype, offset, *_ in (row.fields[n] for n in names))
    offsets = [_offset(row, name) for name in names]
    return np.dtype({"names": names, "formats": [row[n] for n in names], "offsets": offsets, "itemsize": end})
