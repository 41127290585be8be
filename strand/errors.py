"""Every exception the library raises on its own account, each saying what to do about it."""

from __future__ import annotations

import queue
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from strand.distribution import install_command

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import numpy as np
    import numpy.typing as npt

    from strand.code_line import CodeLine


class StrandError(Exception):
    """Base of all errors raised by strand."""


class ConfigurationError(StrandError, ValueError):
    """An argument or option cannot work; the message names the field and the values that can."""


class UnknownOptionError(ConfigurationError, TypeError):
    """A call has no option of that name; the message names the call, and the nearest name that it has."""


class MissingExtraError(StrandError, ImportError):
    """An optional dependency is not installed; the message names the extra to install."""

    def __init__(self, feature: str, package: str, extra: str) -> None:
        super().__init__(f"{feature} needs the package {package!r}: install it with  {install_command(extra)}")
        self.package = package
        self.extra = extra


class AttachError(StrandError):
    """A dispatcher of another process cannot be looked at; the message says why."""


class SavedStateError(StrandError):
    """A dispatcher cannot be saved, or go on from a saved state; the message says why."""


class FeedError(StrandError):
    """A file or stream cannot be read on: says which, where and why.

    ``offset`` counts bytes from the start of the decompressed stream, ``line`` counts from 1; either may be None.
    ``partial``: raised by ``strand.replay`` in mid-stream, the ``ReplayResult`` of all ticks before the fault, each of
    which has been handled; else None.
    """

    partial: Any = None

    def __init__(
        self, message: str, *, path: str | Path | None = None, offset: int | None = None, line: int | None = None
    ) -> None:
        where = [str(path)] if path is not None else []
        if offset is not None:
            where.append(f"byte {offset}")
        if line is not None:
            where.append(f"line {line}")
        super().__init__(f"{', '.join(where)}: {message}" if where else message)
        self.path = path
        self.offset = offset
        self.line = line


class TruncatedFeedError(FeedError):
    """The input ends inside a record. What was read until then is intact."""


class FormatError(FeedError):
    """The input is not what its format allows."""


class DisorderError(FeedError):
    """A receive time runs back further than a merge was told to put in order.

    ``position``: how many ticks of that feed come before.
    """

    def __init__(self, message: str, *, path: str | Path | None = None, position: int) -> None:
        super().__init__(message, path=path)
        self.position = position


class UnknownFormatError(FeedError):
    """No reader recognises the input."""


class EmptyFeedError(FeedError):
    """The input ends without one tick: nothing in it is of a kind that its reader knows, or nothing of it was chosen.

    ``allow_empty=True`` (``--allow-empty``) takes that for a result.
    """


class GapError(FeedError):
    """Messages of a live feed are missing for good, and ``on_gap`` says not to go on without them.

    ``gaps``: the sequence numbers, as (from, to) with ``to`` not in it.
    """

    def __init__(self, message: str, *, path: str | Path | None = None, gaps: tuple[tuple[int, int], ...] = ()) -> None:
        super().__init__(message, path=path)
        self.gaps = gaps


class RecordTypeError(StrandError, TypeError):
    """An array's dtype is not the record the dispatcher was made for; the message names the field that differs."""


class PlaceError(StrandError, IndexError):
    """A handler named a place that the batch in its hands does not have."""


class UnknownSymbolError(StrandError, KeyError):
    """A name or key that is not in the symbol table.

    ``position`` is the index of the offending record in the published array, and so the number of records published
    before it; None where a name was asked for. ``partial``: raised by ``strand.replay`` for a name that the whole feed
    turned out not to have, the ``ReplayResult`` of the others; else None.
    """

    partial: Any = None

    def __init__(self, message: str, *, position: int | None = None) -> None:
        super().__init__(message)
        self.position = position

    def __str__(self) -> str:
        return str(self.args[0])


class UnknownNameError(StrandError, KeyError):
    """Nothing there has that name: no output, basket, object, field of a snapshot or handler. The message names those
    there are, and the nearest one."""

    def __str__(self) -> str:
        return str(self.args[0])


class StrictError(StrandError):
    """A run with ``strict=True`` has warnings (docs/warnings.md); the message tells the first. ``partial``: its result,
    of all ticks, a ``ReplayResult``."""

    def __init__(self, partial: Any) -> None:
        first, *others = partial.warnings
        more = f" (and {len(others)} more: leave strict out, or see them all in the report)" if others else ""
        super().__init__(f"strict: {first}{more}")
        self.partial = partial


class BackpressureError(StrandError):
    """Strands are full, alone or together, or the pool of segments is used up, and ``on_full`` or a time limit says not
    to wait.

    ``rejected`` holds the positions, in the published array, of the records that were not accepted: publish
    ``array[error.rejected]`` again later. Order a symbol is kept by that.
    """

    def __init__(self, message: str, rejected: npt.NDArray[np.int64] | None = None) -> None:
        import numpy as np

        super().__init__(message)
        self.rejected = np.empty(0, np.int64) if rejected is None else rejected


class WouldDeadlockError(BackpressureError):
    """A thread inside the dispatcher was about to wait for it, and so for itself; the message says what to do instead.

    A handler publishes into a full strand that blocks, or it waits for a drain, a stop, the answer of a call or an
    output. So do ``on_stop`` and ``on_finish``, and a signal handler that interrupted such a wait. A task waits for a
    result that cannot come before the task itself has ended, because of the order of their keys.
    """


class QueueFull(BackpressureError, queue.Full):  # noqa: N818  # the name that queues of Python have for it
    """As many tasks wait as ``max_queue`` allows, and none of those given was accepted; or as many as there is room
    for, and of tasks in C those in ``rejected`` were not accepted.

    It is a BackpressureError, so one ``except`` serves ticks and tasks, and a ``queue.Full`` for code written for
    Python's queues.
    """


class TaskExpired(StrandError):  # noqa: N818  # says how a task ended, as CancelledError does
    """A task was not started, or not tried again, because its time was over. ``reason``: ``"deadline"`` or
    ``"expire_if"``. ``__cause__`` is the last exception of a task that had been tried before."""

    def __init__(self, message: str, reason: str) -> None:
        super().__init__(message)
        self.reason = reason


class TaskDropped(StrandError):  # noqa: N818  # says how a task ended, as CancelledError does
    """A task was given up before it began: the pool that was to run it has stopped or made room. The message says
    which."""


class StoppedError(StrandError, RuntimeError):
    """The dispatcher or scheduler has been stopped, or this process is a fork of the one that runs it: nothing more can
    be published, drained or submitted."""


class CallTimeoutError(StrandError, TimeoutError):
    """A call's time was over before its answer was there.

    ``began``: False: it was given up and will not run; True: it is running, and its answer is lost.
    """

    def __init__(self, message: str, began: bool) -> None:
        super().__init__(message)
        self.began = began


class QuarantinedError(StrandError):
    """The symbol's strand is set aside since a handler failed on it (the ``__cause__``): nothing runs there."""


class HandlerError(StrandError):
    """A handler raised, or returned an error.

    Its text says where: the symbol, the tick, and the line of code. Of a compiled handler that asks for ``line``. Where
    there is a ``__cause__`` the line is left out, as its traceback has it.

    ``symbol`` and ``sequence`` (the feed's) are those of the tick it failed on (of the first of the batch, for a Python
    batch handler); the sequence is None for a timer, for the end of the run, and where records have no such field.
    ``handler``: its name, ``code``: the number a native handler gave. ``__cause__`` is the exception a Python handler
    raised.

    ``tick``: a copy of that tick, a record of the dispatcher's dtype; None for a timer, the end, and records of more
    than 64 bytes. ``row``: a copy of the symbol's row as the handler left it; what it did before it failed on the tick
    is in it. ``number``: which one of its symbol's ticks it is, from 1, as ``replay(until=(symbol, number))`` takes it;
    None where that is not known: outside of a ``strand.replay`` of files for a plain loop, and for ticks of a shared
    strand; everywhere where ticks were dropped. ``partial``: raised by ``strand.replay``, the ``ReplayResult`` of what
    was handled before the run stopped, else None; ends of handlers have not run.

    ``set_number`` and ``params``: in a ``strand.sweep``, the number and the values of the set of parameters that it
    failed with, whose row ``row`` is then; else None.
    """

    row: Any = None
    tick: Any = None
    number: int | None = None
    partial: Any = None
    _line: CodeLine | None = None
    #: The type of what a compiled handler raised when it was called again; machine code keeps none.
    _raised: str = ""
    _again: Callable[..., Any] | None = None
    _line_in: Callable[[BaseException], CodeLine | None] | None = None
    #: The number of its strand, and of the ticks that were before it there.
    _place: tuple[int, int] | None = None

    def __init__(
        self,
        symbol: str,
        sequence: int | None,
        handler: str,
        code: int,
        reason: str,
        *,
        set_number: int | None = None,
        params: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(
            f"handler {handler!r} failed on {symbol}" + ("" if sequence is None else f" at sequence {sequence}")
        )
        self.symbol = symbol
        self.sequence = sequence
        self.handler = handler
        self.code = code
        self.reason = reason
        self.set_number = set_number
        self.params = params

    def __str__(self) -> str:
        return self._told(with_line=self.__cause__ is None)

    def _told(self, *, with_line: bool) -> str:
        """All that is known of the failure, in one line."""
        line = self.line if with_line else None  # which may find out what was raised
        text = str(self.args[0])
        if self.number is not None:
            text += f" (its tick {self.number:,})"
        if self.params is not None:
            text += f" with set {self.set_number} ({', '.join(f'{k}={value}' for k, value in self.params.items())})"
        text += f": {self._raised or self.reason or f'code {self.code}'}"
        return text if line is None else f"{text}, at {line}"

    def __reduce__(self) -> Any:
        """For another process: without what can be called, and without the run's result."""
        told = {"row": self.row, "tick": self.tick, "number": self.number, "_line": self.line, "_raised": self._raised}
        make = partial(type(self), set_number=self.set_number, params=self.params)
        return make, (self.symbol, self.sequence, self.handler, self.code, self.reason), told

    def replay(self) -> Any:
        """Calls the handler once more, in Python, with copies of ``row`` and ``tick``; a compiled function too, as it
        was before numba compiled it. Set a breakpoint in it, or run this under a debugger.

        Emits and asks for timers are without effect; an object handler's own object is called, as it is by now. Returns
        the copy of the row as the handler leaves it, and raises what the handler raises.

        The ticks of its symbol are read once more from the run's files where it was called with a trade that is made of
        orders, and where several compiled handlers of a chain may be the one that failed. In a chain only the one that
        failed is called, with the rows of those before it as they were right after the tick.

        Raises ConfigurationError where Python cannot call it: built-in handlers and those in C, baskets, timers and
        ends; and where the input would have to be read again and cannot: live, of a Feed, of ticks published to a
        Dispatcher, with ``load``, and where ticks were dropped. Raises FeedError where the files are gone by now.
        """
        if self._again is None:
            raise ConfigurationError(f"replay: handler {self.handler!r} did not fail on a tick that is known")
        return self._again()

    @property
    def line(self) -> CodeLine | None:
        """The line of the user's code that failed: ``file``, ``number`` and ``text``; None where that is not known.

        Machine code does not know its lines: for a compiled handler this is the line at which ``replay()`` fails, or
        where it does not fail with the row as it is by now, a call with the row as it was before the tick; that takes
        files, as ``replay()`` says.
        """
        if self._line is None and self._line_in is not None:
            line_in, self._line_in = self._line_in, None
            try:
                self.replay()
                if self._again is not None:
                    self._again(anew=True)
            except StrandError:
                return None
            except Exception as error:
                self._line = line_in(error)
                self._raised = type(error).__name__ if self._line is not None and self.__cause__ is None else ""
        return self._line


class SinkError(StrandError):
    """A sink that ``out=`` gave to an output raised (``strand.Sink``).

    ``output``: the output's name, ``method``: ``"write"``, ``"close"`` or ``"abort"``. ``__cause__`` is the exception.
    """

    def __init__(self, output: str, method: str, reason: str) -> None:
        super().__init__(f"output {output!r}: {method} of its sink failed: {reason}")
        self.output = output
        self.method = method


class DifferenceError(StrandError, AssertionError):
    """A run is not what a test expected it to be (``strand.testing``): the message tells the first differences.

    ``symbols``: those whose rows differ, ``outputs``: the names of those that do. ``seed``: of the run, where one
    decided it; else None.
    """

    def __init__(
        self, message: str, symbols: tuple[str, ...], outputs: tuple[str, ...], *, seed: int | None = None
    ) -> None:
        super().__init__(message)
        self.symbols = symbols
        self.outputs = outputs
        self.seed = seed


class EngineError(StrandError):
    """An invariant of the engine does not hold. This is a defect of strand: please report it with the message."""
