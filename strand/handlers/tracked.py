"""The Python handler at the end of a chain, at work for one symbol, and the native handlers before it."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from strand.binding.chain import Chained
from strand.binding.engine_words import Failure
from strand.handlers.bound import Site
from strand.handlers.context import Context, EarlierPartError, FailedOnTick, SymbolFunctions
from strand.handlers.timed import Timed, acting
from strand.threads import interrupts

__all__ = ["BatchTimes", "Tracked"]


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
