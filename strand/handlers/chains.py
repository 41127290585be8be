"""Chains: several handlers over each tick, one after the other, the last of them in Python or not.

A chain's row has a field for each handler, its row; they lie in their order, each at a multiple of 8 bytes. All of them
but the last have to be native: a Python handler at the end gets a batch of ticks at a time, and beside each tick the
others' rows right after it (strand.handlers.chains). Each handler has timers of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from strand.binding.books import Tapes
from strand.binding.native import MAX_PARTS, Chained, Part, chained
from strand.errors import ConfigurationError
from strand.fixed import dataclass
from strand.handlers.base import (
    BindContext,
    BoundHandler,
    BoundNative,
    BoundPython,
    FailedSet,
    Handler,
    HandlerLike,
    SingleHandler,
)
from strand.handlers.context import Context, EarlierPartError
from strand.handlers.host import Host, NativePart, Site, check_states
from strand.handlers.loading import resolve
from strand.handlers.options import Option
from strand.handlers.python_handlers import HostedHandler

if TYPE_CHECKING:
    from strand.feeds import FeedInfo
    from strand.handlers.compiled.called_again import FailedCall


_ALIGN = 8


@dataclass(frozen=True, kw_only=True, repr=False)
class ChainHandler(Handler):
    """Several handlers in a row, by name. All but the last are native."""

    parts: tuple[tuple[str, SingleHandler], ...]

    def parts_as(self, called: str) -> tuple[tuple[str, SingleHandler], ...]:  # noqa: ARG002 - they have names
        return self.parts

    @property
    def options(self) -> dict[str, Option]:
        return {
            f"{called}.{name}": option._replace(name=f"{called}.{name}")
            for called, part in self.parts
            for name, option in part.options.items()
        }

    @property
    def described_params(self) -> dict[str, str]:
        return {f"{called}.{name}": text for called, part in self.parts for name, text in part.described_params.items()}

    def with_params(self, values: Any) -> Self:  # noqa: ARG002 - there are none to give
        raise ConfigurationError("params", f"handler {self.name!r} is a chain: give parameters to its parts")

    def with_options(self, values: Mapping[str, Any]) -> Self:
        parts = []
        for called, part in self.parts:
            own = {name[len(called) + 1 :]: value for name, value in values.items() if name.startswith(f"{called}.")}
            parts.append((called, part.with_options(own)))
        return replace(self, parts=tuple(parts))

    def known(self, info: FeedInfo) -> Handler:
        parts = tuple(each for called, part in self.parts for each in part.known(info).parts_as(called))
        same = all(new is old for (_, new), (_, old) in zip(parts, self.parts, strict=True))
        if same and self.size_unit == info.size_unit:
            return self
        return replace(self, parts=parts, size_unit=info.size_unit)

    def failed_set(self, symbol: str, row: npt.NDArray[Any], cause: BaseException | None) -> FailedSet | None:
        *before, (called, last) = self.parts
        found = last.failed_set(symbol, row[called], cause)
        if found is None:
            return None
        assert isinstance(found.handler, SingleHandler)
        parts = (*before, (called, found.handler))
        alone = np.zeros(1, chain_dtype(parts))
        for name, _ in before:
            alone[name] = row[name]
        alone[called] = found.row
        return replace(found, handler=replace(self, parts=parts, state=alone.dtype), row=alone)

    def call_again(self, call: FailedCall) -> None:
        if not call.rehearses:
            self._call_part(self._failed_part(call), call)
            return
        if call.before is None:
            raise ConfigurationError(
                "pdb",
                f"the tick of {self.name!r} passes other handlers first, and the input of this run cannot be read "
                "again: use a strand.replay of files, from their beginning",
            )
        for place, (called, part) in enumerate(self.parts):
            if part.is_compiled and part.shape.has_lines:
                self._call_part(place, call)
            else:
                row = call.before.row_after(self._first(place + 1))
                call.row[called] = row[called] if place else row

    def _call_part(self, place: int, call: FailedCall) -> None:
        called, part = self.parts[place]
        row = call.row.view(self._seen_by(place, call.row.itemsize)) if part.is_compiled else call.row[called]
        after = {name: call.row[name] for name, _ in self.parts[:place]}
        part.call_again(call._replace(row=row, after=after))

    def _failed_part(self, call: FailedCall) -> int:
        """The place of the one that failed. Raises ConfigurationError where that is not known."""
        last = len(self.parts) - 1
        if call.cause is not None and not isinstance(call.cause, EarlierPartError):
            return last
        may = [place for place, (_, part) in enumerate(self.parts) if part.is_compiled and part.shape.has_lines]
        if not may:
            super().call_again(call)
        if len(may) > 1 and call.before is None:
            raise ConfigurationError(
                f"replay: which of {', '.join(repr(self.parts[place][0]) for place in may)} failed is not known, and "
                "the input of this run cannot be read again: use a strand.replay of files, from their beginning, "
                "without dropped ticks"
            )
        first = (place for place in may[:-1] if call.before is not None and call.before.fails(self._first(place + 1)))
        return next(first, may[-1])

    def _first(self, n: int) -> Handler:
        """The first ``n`` of them."""
        parts = self.parts[:n]
        return parts[0][1] if n == 1 else replace(self, parts=parts, state=chain_dtype(parts))

    def bind(self, context: BindContext) -> BoundHandler:
        *before, (called, last) = self.parts
        if isinstance(last, HostedHandler):
            return self._bind_hosted(context, before, called, last)
        native, memory, path = self._bind_natives(context, self.parts)
        return BoundNative(function=native.function, memory=memory, path=path)

    def _bind_natives(
        self, context: BindContext, parts: Sequence[tuple[str, SingleHandler]]
    ) -> tuple[Chained, object | None, tuple[str, ...]]:
        """The native parts as one handler, the first memory that a part has, and the path to that part's row."""
        context = replace(context, of_chain=Tapes(context.space, len(context.table)))
        natives: list[Part] = []
        memory: object | None = None
        path: tuple[str, ...] = ()
        for index, (called, part) in enumerate(parts):
            seen = self._seen_by(index, context.row_stride) if part.is_compiled else None
            bound = part.bind(replace(context, row=seen))
            assert isinstance(bound, BoundNative)
            # A part that sees the chain's row finds its own row in it; other parts are given theirs.
            offset = 0 if part.is_compiled else _offset(self.state, called)
            natives.append(Part(bound.function, offset, len(part.emitted)))
            if bound.memory is not None and memory is None:
                memory, path = bound.memory, (called,)
        return chained(natives, len(context.table), context.space), memory, path

    def _bind_hosted(
        self,
        context: BindContext,
        before: Sequence[tuple[str, SingleHandler]],
        called: str,
        last: HostedHandler,
    ) -> BoundPython:
        """The last handler, which Python runs, with the earlier handlers as one native part that it runs."""
        native, memory, path = self._bind_natives(context, before)
        if last.shape.kind and any(part.timers or part.ends for _, part in before):
            raise ConfigurationError(
                "chain",
                f"{last.name!r} is run by Python for {last.shape.kind}s, and a handler before it has timers or an end: "
                "compile it",
            )
        states = {name: part.state for name, part in before}
        check_states(last.name, last.needs_states, states)
        prefix = _prefix_of(self.state, list(states))
        maker, functions_of = context.maker_for(last.trades), last.shape.functions_in(last, context)

        def host(of_symbol: Context, site: Site) -> Host:
            whole, of_symbol.row, row_of = of_symbol.row, of_symbol.row[called], of_symbol.row_of
            of_symbol.row_of = lambda key: row_of(key)[called]
            functions = functions_of(of_symbol)
            part = NativePart(of_symbol, site, native, row=whole, prefix=prefix)
            return Host(of_symbol, functions, site, maker=maker, before=part)

        return BoundPython(
            name=self.name,
            timers=self.timers,
            ends=self.ends,
            emitting=last,
            host=host,
            key=context.key,
            first_output=len(self.emitted) - len(last.emitted),
            params=None if last.params is None else last.params.records(last.name, context.table),
            states=states,
            memory=memory,
            path=path,
        )

    def _seen_by(self, index: int, stride: int) -> np.dtype[Any]:
        """The chain's row as one of its compiled parts sees it: that part's own fields, its row, and the rows of
        earlier parts."""
        called, part = self.parts[index]
        own = part.state.fields
        assert own is not None
        base = _offset(self.state, called)
        before = [other for other, _ in self.parts[: index + 1]]
        for field in own:
            if field in before:
                raise ConfigurationError(
                    "chain", f"{called!r} has a field {field!r}, the name of a handler of the chain; rename one"
                )
        return np.dtype(
            {
                "names": [*own, *before],
                "formats": [*(about[0] for about in own.values()), *(self.state[other] for other in before)],
                "offsets": [*(base + about[1] for about in own.values()), *(_offset(self.state, o) for o in before)],
                "itemsize": stride,
            }
        )


def chain(*handlers: HandlerLike, name: str | None = None, **named: HandlerLike) -> ChainHandler:
    """Runs handlers one after the other on each tick: ``strand.chain(strand.book(), my_signal)``.

    Each has its own row: a field of the chain's row, under the handler's name or the keyword it is given with. A
    compiled handler sees its own fields as always, and the rows of those before it by their names. So
    ``row.book.bid_price`` is the top of the book right after this very tick. In C the row of the handler before ends
    where the handler's own row begins.

    A Python handler has to be the last one. Its ``ctx.after["book"]`` is an array of the book's rows, one per tick; an
    object's ``on_book`` is called with them. Each handler may have timers, and an end: those that are due at one time
    run in the chain's order.

    Args:
        *handlers: The handlers, in their order; with those in ``named`` two or more.
        name: The chain's name; None: the names of its handlers with ``+`` between them.
        **named: More handlers by the names of their fields, behind the others.

    Raises:
        ConfigurationError: If there are fewer than two handlers, or too many, or if a Python handler is not the last
            one. Also if a name comes twice or is no identifier.
    """
    given = [resolve(like) for like in handlers]
    parts = [(part.name, part) for part in given] + [(called, resolve(like)) for called, like in named.items()]
    flat = tuple(inner for called, part in parts for inner in part.parts_as(called))
    if not 2 <= len(flat) <= MAX_PARTS:
        raise ConfigurationError("chain", f"give from 2 to {MAX_PARTS} handlers, not {len(flat)}")
    _check_names([called for called, _ in flat])
    for called, part in flat[:-1]:
        if not part.is_native:
            raise ConfigurationError(
                "chain", f"{called!r} is run by Python and must be the last one; those before it must be compiled"
            )
    return ChainHandler(name=name or "+".join(called for called, _ in flat), state=chain_dtype(flat), parts=flat)


def _check_names(names: Sequence[str]) -> None:
    """Names of a chain's parts, which are fields of its row."""
    for i, name in enumerate(names):
        if not name.isidentifier():
            raise ConfigurationError("chain", f"{name!r} cannot be a field's name; give it one: chain(signal=...)")
        if name in names[:i]:
            raise ConfigurationError(
                "chain", f"two handlers are named {name!r}; give one another name: chain(other=...)"
            )


def chain_dtype(parts: Sequence[tuple[str, SingleHandler]]) -> np.dtype[Any]:
    """The row of a chain of these parts."""
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


def _prefix_of(row: np.dtype[Any], names: list[str]) -> np.dtype[Any]:
    """The first of a row's fields alone."""
    assert row.fields is not None
    end = max(offset + -(-dtype.itemsize // _ALIGN) * _ALIGN for dtype, offset, *_ in (row.fields[n] for n in names))
    offsets = [_offset(row, name) for name in names]
    return np.dtype({"names": names, "formats": [row[n] for n in names], "offsets": offsets, "itemsize": end})
