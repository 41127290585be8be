"""The Python handler at the end of a chain, at work for one symbol, and the native ones before it."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from strand.binding.chain import Chained
from strand.handlers.bound import Site
from strand.handlers.context import Context, EarlierPartError, FailedOnTick, SymbolFunctions
from strand.handlers.timed import Timed, acting
from strand.threads import interrupts

__all__ = ["BatchTimes", "Tracked"]


class BatchTimes:
    """What the Python part asks its place for. It does not know the chain, which holds it."""

    def __init__(self) -> None:
        self.now = np.empty(0, np.int64)

    def times(self) -> npt.NDArray[np.int64]:
        """Of the ticks that it is given."""
        return self.now

    def arm(self, handled: int, alarm: int) -> None:
        """Told together with the native part's."""


class Tracked:
    """Runs a chain's native part over a symbol's ticks, keeps its rows after each, and gives both to the Python one.

    Where the Python part stops in the middle, before a timer or by a failure, the others of the batch come again (off a
    lossy strand they do not), but for the native part they have been: what it made of them is kept until then. The
    timer that is told is the earlier one of both parts'; so the native one's never comes due before the Python part has
    seen all the ticks before it.
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
        self._last = np.zeros(1, self._prefix)
        self._ahead: tuple[npt.NDArray[Any], npt.NDArray[Any]] | None = None
        self.plain = self.one = None
        self.object = functions.object

    # ---- ticks

    def call(self, ticks: npt.NDArray[Any]) -> int | None:
        after = np.empty(len(ticks), self._prefix)
        known = self._take_ahead(ticks, after)
        done, failure = self._site.track(self._native, ticks[known:], after[known:])
        done += known
        after.flags.writeable = False
        try:
            handled = self._run_python(ticks[:done], after[:done])
        except FailedOnTick as error:
            failed = after[error.handled : error.handled + 1]
            self._context.after = {name: failed[name] for name in self._prefix.names or ()}
            if self._site.failed_come_again:
                self._seen(ticks[:done], after[:done], 0)
            elif interrupts(error.__cause__ or error):
                self._seen(ticks[:done], after[:done], error.handled)
            else:
                self._seen(ticks[:done], after[:done], error.handled + 1)
                if self._site.ends_at_failure:
                    self._put_back(after[error.handled])
            raise
        self._seen(ticks[:done], after[:done], handled)
        if failure is not None and handled == done:
            self._tell(done + 1)
            raise FailedOnTick(done) from EarlierPartError.of(failure)
        return None if handled == len(ticks) else handled

    def _run_python(self, ticks: npt.NDArray[Any], after: npt.NDArray[Any]) -> int:
        """How many of the ticks that the native part has handled the Python one has. Raises FailedOnTick."""
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

    def _seen(self, ticks: npt.NDArray[Any], after: npt.NDArray[Any], n: int) -> None:
        """So many of the ticks that the native part has handled will not come again."""
        if n < len(ticks) and self._site.brings_rest:
            # Before those that not even came this time.
            old, rows = self._ahead or (ticks[:0], after[:0])
            self._ahead = (np.concatenate([ticks[n:], old]), np.concatenate([after[n:], rows]))
        if n == 0:
            return
        self._last = after[n - 1 : n]
        self._tell(n)

    def _put_back(self, rows: Any) -> None:
        """The native part has been ahead, and nothing comes any more: the symbol's row is what it was at a tick."""
        for name in self._prefix.names or ():
            self._whole[name] = rows[name]

    def _take_ahead(self, ticks: npt.NDArray[Any], after: npt.NDArray[Any]) -> int:
        """How many of the ticks the native part has handled already; what it made of them goes into ``after``."""
        if self._ahead is None:
            return 0
        old, rows = self._ahead
        n = min(len(old), len(ticks))
        after[:n] = rows[:n]
        self._ahead = (old[n:], rows[n:]) if n < len(old) else None
        return n

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
        self._take_rows()
        self._show()
        if self._functions.stand is not None:
            self._functions.stand()

    def _tell(self, handled: int) -> None:
        if self._timers and (alarm := self.alarm) != self._told:
            self._site.arm(handled, alarm)
            self._told = alarm

    def wake(self, time: int) -> int:
        """Both parts', in their order, where they are due. Raises what one of them does."""
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
        """Both parts', in their order. Raises what one of them does."""
        if self._native.function.finish is not None:
            self._act(time, at_end=True)
        self._show()
        self._python.finish(time)

    def _act(self, time: int, *, at_end: bool) -> None:
        failure = self._site.act(self._native, self._context.key, time, at_end)
        self._take_rows()
        if failure is not None:
            raise EarlierPartError.of(failure)
        self._show()
        acting(self._context, time, self._functions.changed)

    def _take_rows(self) -> None:
        """The native part's rows as they are, with no tick in hand."""
        last: Any = np.zeros(1, self._prefix)
        for name in self._prefix.names or ():
            last[name][0] = self._whole[name]
        last.flags.writeable = False
        self._last = last

    def _show(self) -> None:
        self._context.after = {name: self._last[name] for name in self._prefix.names or ()}
