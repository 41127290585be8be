"""Chains: several handlers over each tick, one after the other, the last of them in Python or not.

A chain's row has a field for each handler, its row; they lie in their order, each at a multiple of 8 bytes. All of them
but the last have to be native: a Python handler at the end gets a batch of ticks at a time, and beside each tick the
others' rows right after it (strand.handlers.chains). Each handler has timers of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from strand.binding.engine_words import Failure
from strand.binding.native import MAX_PARTS, Chained, Part, chained
from strand.errors import ConfigurationError
from strand.handlers.base import FailedSet, Handler, HandlerLike, SingleHandler
from strand.handlers.bound import BindContext, BoundHandler, BoundNative, BoundPython, Site
from strand.handlers.context import Context, EarlierPartError, FailedOnTick, SymbolFunctions
from strand.handlers.host import Timed, acting, check_states
from strand.handlers.loading import resolve
from strand.handlers.options import Option
from strand.handlers.python_handlers import HostedHandler
from strand.threads import interrupts

if TYPE_CHECKING:
    from strand.feeds import FeedInfo
    from strand.handlers.compiled.called_again import FailedCall

__all__ = ["BatchTimes", "ChainHandler", "Tracked", "chain", "chain_dtype"]


class BatchTimes:
    """Site of a chain's Python part, which asks it for times. It does not know the chain, which holds it."""

    def __init__(self) -> None:
        self.now = np.empty(0, np.int64)

    def times(self) -> npt.NDArray[np.int64]:
        """Times of the part's ticks."""
        return self.now

    def arm(self, handled: int, alarm: int) -> None:
        """Does nothing: the timer is set together with the native part's."""


class Tracked:
    """Runs a chain's native part over a symbol's ticks, keeps its rows after each, and gives both to the Python one.

    The Python part may stop within a batch, before a timer or by a failure. Then the rest of the batch comes again,
    except on a lossy strand. The native part has handled that rest, and does not handle it again. Its rows after each
    of those ticks are kept, and so is its failure. Meanwhile the symbol's row is that of the last tick that Python has
    handled.

    The symbol's timer is the earlier one of both parts. So the native part's timer never comes due before the Python
    part has seen all earlier ticks.
    """

    def __init__(
        self,
        context: Context,
        site: Site,
        native: Chained,
        functions: SymbolFunctions,
        *,
        rows: tuple[Any, np.dtype[Any]],
    ) -> None:
        """``rows``: the symbol's, and the dtype of that part of it which is the native handlers'."""
        self._context = context
        self._site = site
        self._native = native
        self._times = BatchTimes()
        self._python = Timed(context, functions, self._times)
        self._functions = functions
        self._whole, self._prefix = rows
        self._timers = context.timer is not None or native.function.wake is not None
        self._told = 0
        #: The native part's rows after the last tick, or timer, that Python has seen.
        self._last = self._rows_now()
        #: Its rows after each tick that Python has still to handle.
        self._ahead: npt.NDArray[Any] | None = None
        #: Failure of the native part on the tick that follows its kept rows; None: it has not failed.
        self._failure: Failure | None = None
        #: Its rows after the last of those ticks, shape (1,); None: it is not ahead.
        self._farthest: npt.NDArray[Any] | None = None
        self.plain = self.one = None
        self.object = functions.object

    # ---- ticks

    def call(self, ticks: npt.NDArray[Any]) -> int | None:
        after, known = self._rows_after(ticks)
        done, failure = self._run_native(ticks, after, known)
        end = len(after) if known == len(ticks) else done
        after.flags.writeable = False
        try:
            handled = self._run_python(ticks[:done], after[:done])
        except FailedOnTick as error:
            failed = after[error.handled : error.handled + 1]
            self._context.after = {name: failed[name] for name in self._prefix.names or ()}
            if self._site.failed_come_again:
                self._seen(after[:end], 0, failure)
            elif interrupts(error.__cause__ or error):
                self._seen(after[:end], error.handled, failure)
            else:
                self._seen(after[:end], error.handled + 1, failure)
                if self._site.ends_at_failure:
                    self._put_back(after[error.handled])
            raise
        # Timers that Python has asked for may come before the tick that failed: it is first in the call that fails.
        if failure is not None and (done == 0 or (handled == done and not self._site.brings_rest)):
            self._seen(after[:end], done, failure if self._site.failed_come_again else None)
            self._tell(done + 1)
            raise FailedOnTick(done) from EarlierPartError.of(failure)
        self._seen(after[:end], handled, failure)
        return None if handled == len(ticks) else handled

    def _rows_after(self, ticks: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], int]:
        """The native part's rows after each tick, and how many of them it has by now; there is room for the others.
        Where it has all, they are not copied, and may be more than the ticks: a timer may come before each of them."""
        ahead = self._ahead
        if ahead is not None and len(ahead) >= len(ticks):
            return ahead, len(ticks)
        after = np.empty(len(ticks), self._prefix)
        if ahead is None:
            return after, 0
        after[: len(ahead)] = ahead
        return after, len(ahead)

    def _run_native(self, ticks: npt.NDArray[Any], after: npt.NDArray[Any], known: int) -> tuple[int, Failure | None]:
        """Runs the native part. Returns the number of ticks that it has handled, now or before, and its failure on the
        next one."""
        if self._farthest is not None:
            self._put_back(self._farthest[0])
            self._farthest = None
        if known == len(ticks):
            return known, None
        if self._failure is None:
            done, failure = self._site.track(self._native, ticks[known:], after[known:])
            return known + done, failure
        failure, self._failure = self._failure, None
        return known, failure

    def _run_python(self, ticks: npt.NDArray[Any], after: npt.NDArray[Any]) -> int:
        """Runs the Python part over ticks that the native part has handled. Returns the number that it has handled.
        Raises FailedOnTick."""
        if not len(ticks):
            return 0
        if self._context.timer is not None:
            self._times.now = self._site.times()[: len(ticks)]
        self._context.after = {name: after[name] for name in self._prefix.names or ()}
        try:
            handled = self._python.call(ticks)
        except FailedOnTick:
            raise
        except BaseException as error:
            raise FailedOnTick(0) from error
        return len(ticks) if handled is None else handled

    def _seen(self, after: npt.NDArray[Any], n: int, failure: Failure | None) -> None:
        """Notes that ``n`` ticks of the native part will not come again. ``failure``: its failure behind them, where
        that is still to be reported."""
        if self._site.brings_rest:
            self._failure = failure or self._failure
            self._ahead = after[n:] if n < len(after) else None
        if n:
            self._last = after[n - 1 : n]
        if self._ahead is not None or self._failure is not None:
            self._farthest = self._rows_now()
            self._put_back(self._last[0])
        if n:
            self._tell(n)

    def _put_back(self, rows: Any) -> None:
        """The native part's rows in the symbol's row are these."""
        for name in self._prefix.names or ():
            self._whole[name] = rows[name]

    # ---- timers, and the end

    @property
    def alarm(self) -> int:
        """The earlier one of both parts'; 0: neither has one."""
        alarms = [alarm for alarm in (self._native.alarm(self._context.key), self._python.alarm) if alarm]
        return min(alarms, default=0)

    @property
    def own_alarm(self) -> int:
        return self._python.alarm

    def resume(self, alarm: int) -> None:
        self._python.resume(alarm)
        self._told = self.alarm
        self._last = self._rows_now()
        self._show()
        if self._functions.stand is not None:
            self._functions.stand()

    def _tell(self, handled: int) -> None:
        if self._timers and (alarm := self.alarm) != self._told:
            self._site.arm(handled, alarm)
            self._told = alarm

    def wake(self, time: int) -> int:
        """Runs the due timers of both parts, in their order. Raises the exceptions of either."""
        try:
            if 0 < self._native.alarm(self._context.key) <= time:
                self._act(time, at_end=False)
            if 0 < self._python.alarm <= time:
                self._show()
                self._python.wake(time)
        finally:
            self._told = self.alarm
        return self._told

    def finish(self, time: int) -> None:
        """Runs the ends of both parts, in their order. Raises the exceptions of either."""
        if self._native.function.finish is not None:
            self._act(time, at_end=True)
        self._show()
        self._python.finish(time)

    def _act(self, time: int, *, at_end: bool) -> None:
        failure = self._site.act(self._native, self._context.key, time, at_end)
        self._last = self._rows_now()
        if failure is not None:
            raise EarlierPartError.of(failure)
        self._show()
        acting(self._context, time, self._functions.changed)

    def _rows_now(self) -> npt.NDArray[Any]:
        """The native part's rows as they are in the symbol's row, shape (1,)."""
        rows: npt.NDArray[Any] = np.zeros(1, self._prefix)
        for name in self._prefix.names or ():
            rows[name][0] = self._whole[name]
        rows.flags.writeable = False
        return rows

    def _show(self) -> None:
        self._context.after = {name: self._last[name] for name in self._prefix.names or ()}


_ALIGN = 8


@dataclass(frozen=True, kw_only=True, repr=False)
class ChainHandler(Handler):
    """Several handlers in a row, by name. All but the last are native."""

    parts: tuple[tuple[str, SingleHandler], ...]

    @property
    def is_native(self) -> bool:
        return self.parts[-1][1].is_native

    @property
    def timers(self) -> bool:
        return any(part.timers for _, part in self.parts)

    @property
    def ends(self) -> bool:
        return any(part.ends for _, part in self.parts)

    @property
    def may_publish(self) -> bool:
        return any(part.may_publish for _, part in self.parts)

    @property
    def needs_ticks(self) -> bool:
        return any(part.needs_ticks for _, part in self.parts)

    @property
    def asks_for_trades(self) -> bool:
        return any(part.asks_for_trades for _, part in self.parts)

    @property
    def takes_ticks_as_plain(self) -> bool:
        return any(part.takes_ticks_as_plain for _, part in self.parts)

    @property
    def emitted(self) -> tuple[tuple[str, np.dtype[Any]], ...]:
        return tuple(output for _, part in self.parts for output in part.emitted)

    def parts_as(self, called: str) -> tuple[tuple[str, SingleHandler], ...]:  # noqa: ARG002 - they have names
        return self.parts

    @property
    def written(self) -> tuple[Callable[..., Any], ...]:
        return tuple(function for _, part in self.parts for function in part.written)

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
            if part.has_lines:
                self._call_part(place, call)
            else:
                row = call.before.row_after(self._first(place + 1))
                call.row[called] = row[called] if place else row

    def _call_part(self, place: int, call: FailedCall) -> None:
        called, part = self.parts[place]
        row = call.row.view(self._seen_by(place, call.row.itemsize)) if part.sees_chain else call.row[called]
        after = {name: call.row[name] for name, _ in self.parts[:place]}
        part.call_again(call._replace(row=row, after=after))

    def _failed_part(self, call: FailedCall) -> int:
        """The place of the one that failed. Raises ConfigurationError where that is not known."""
        last = len(self.parts) - 1
        if call.cause is not None and not isinstance(call.cause, EarlierPartError):
            return last
        may = [place for place, (_, part) in enumerate(self.parts) if part.is_native and part.has_lines]
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

    def reason_of(self, message: str) -> str:
        for _, part in self.parts:
            message = part.reason_of(message)
        return message

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
        natives: list[Part] = []
        memory: object | None = None
        path: tuple[str, ...] = ()
        for index, (called, part) in enumerate(parts):
            row = self._seen_by(index, context.row_stride) if part.sees_chain else part.state
            bound = part.bind_row(context, row)
            assert isinstance(bound, BoundNative)
            # A part that sees the chain's row finds its own row in it; other parts are given theirs.
            offset = 0 if part.sees_chain else _offset(self.state, called)
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
        if last.shape.shares and any(part.timers or part.ends for _, part in before):
            raise ConfigurationError(
                "chain",
                f"{last.name!r} is run by Python for baskets, and a handler before it has timers or an end: compile it",
            )
        states = {name: part.state for name, part in before}
        check_states(last.name, last.needs_states, states)
        prefix = _prefix_of(self.state, list(states))
        functions_of = last.bind_functions(context, context.maker_for(last.trades))

        def host(of_symbol: Context, site: Site) -> Tracked:
            whole, of_symbol.row, row_of = of_symbol.row, of_symbol.row[called], of_symbol.row_of
            of_symbol.row_of = lambda key: row_of(key)[called]
            return Tracked(of_symbol, site, native, functions_of(of_symbol, site), rows=(whole, prefix))

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
