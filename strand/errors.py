"""Exceptions that the library raises on its own account. Each one names its cure."""

from __future__ import annotations

import os
import queue
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    import numpy as np
    import numpy.typing as npt

    from strand.brief import CodeLine

#: Name of strand on the package index, where ``strand`` is somebody else's: ``name`` in pyproject.toml.
DISTRIBUTION: Final = "tickstrand"


def install_command(extra: str) -> str:
    """Command to type for an extra."""
    return f"pip install '{DISTRIBUTION}[{extra}]'"


#: What may be a secret in a URL: the user before its host, and its query, which may be a signature.
_SECRET: Final = re.compile(r"((?<=://)|(?<=:/)(?!/))[^/?#]*@|[?#].*", re.DOTALL)
#: A URL in a text. A ``pathlib.Path`` of one has one slash in place of two.
_IN_TEXT: Final = re.compile(r"\b(?:(?:s3|gs|https?|wss?):/|[a-z][a-z0-9+.-]+://)[^\s'\"]+", re.IGNORECASE)


def without_queries(text: str) -> str:
    """A text without users and queries of the URLs in it, which may be secrets."""
    return _IN_TEXT.sub(lambda url: _SECRET.sub("", url[0]), text) if ":/" in text else text


class StrandError(Exception):
    """Base of all errors raised by strand. Each can be copied, and pickled for another process.

    URLs in its text are without what may be a secret: somebody may give one where no path is taken.
    """

    #: Attributes that stay in the process of the error: what can be called, and the result of a run.
    _stays: tuple[str, ...] = ("partial",)

    def __init__(self, *args: Any) -> None:
        super().__init__(*(without_queries(each) if isinstance(each, str) else each for each in args))

    def __reduce__(self) -> Any:
        """Give pickle the text and the attributes, since an error's constructor takes other arguments than its text."""
        return _rebuilt, (type(self), self.args), {k: v for k, v in self.__dict__.items() if k not in self._stays}

    def __copy__(self) -> Any:
        """Return another error with the same text, attributes and cause."""
        other = _rebuilt(type(self), self.args)
        other.__dict__.update(self.__dict__)
        other.__cause__, other.__context__ = self.__cause__, self.__context__
        other.__suppress_context__ = self.__suppress_context__
        return other


def _rebuilt(kind: type[StrandError], args: tuple[Any, ...]) -> StrandError:
    """Make an error of a class without its constructor."""
    error = kind.__new__(kind)
    # The constructor of Python's own class sets the text: ImportError and OSError keep it in fields of their own.
    next(base for base in kind.__mro__ if base.__module__ == "builtins").__init__(error, *args)  # type: ignore[misc]
    return error


class ConfigurationError(StrandError, ValueError):
    """An argument or option cannot work; the message names the field and the values that can.

    Attributes:
        field: The dotted path of the argument, option or key, such as ``"timeouts.low"``; empty if the error is of none
            alone.
        reason: The message without the field.
        where: The file, handler or set that has the field; empty if the field says it all. The message is where, field
            and reason, with colons between them.
        others: The errors of other fields that were checked together, in their order.
    """

    def __init__(
        self, field: Any, reason: Any = None, others: Iterable[ConfigurationError] = (), *, where: Any = ""
    ) -> None:
        given = ("", field, where) if reason is None else (field, reason, where)
        self.field, self.reason, self.where = (without_queries(str(each)) for each in given)
        super().__init__(": ".join(part for part in (self.where, self.field, self.reason) if part))
        self.others = tuple(others)

    def at(self, field: str, where: Any = None) -> ConfigurationError:
        """Returns an error of the same reason at another field. ``where``: None keeps its own."""
        return ConfigurationError(field, self.reason, where=self.where if where is None else where)

    def each(self) -> tuple[ConfigurationError, ...]:
        """Returns this error and those of other fields."""
        return (self, *self.others)


class UnknownOptionError(ConfigurationError, TypeError):
    """A call has no option of that name; the message names the call, and the nearest name that it has."""

    def __init__(self, called: str, option: str, cure: str) -> None:
        super().__init__(option, cure, where=called)
        self.args = (f"{called} has no option {option!r}; {cure}",)


class MissingExtraError(StrandError, ImportError):
    """An optional dependency is not installed; the message names the extra to install.

    Attributes:
        package: The package that is missing.
        extra: The extra of strand that brings it.
    """

    def __init__(self, feature: str, package: str, extra: str) -> None:
        super().__init__(f"{feature} needs the package {package!r}: install it with  {install_command(extra)}")
        self.package = package
        self.extra = extra


class AttachError(StrandError):
    """A dispatcher of another process cannot be looked at; the message says why."""


class SavedStateError(StrandError):
    """A dispatcher cannot be saved, or go on from a saved state; the message says why."""


#: Names for paths under which Strand keeps what comes from elsewhere, as a pipe or an object of a store.
CALLED: Final[dict[str, str]] = {}


#: The start of a store's URL. A ``pathlib.Path`` of a URL has one slash in place of two.
_STORE: Final = re.compile(r"^(s3|gs|https?):/+(?=[^/])")


def url_of(path: str | os.PathLike[str]) -> str:
    """The text of a path. pathlib drops a slash behind a URL's scheme, and this puts it back."""
    return _STORE.sub(r"\1://", os.fspath(path) if isinstance(path, os.PathLike) else str(path))


def called(path: str | os.PathLike[str]) -> str:
    """The name of a path for people: that of what was named, where the path stands for it. Of a URL without what may
    be a secret: the user before its host, and its query, which may be a signature."""
    text = url_of(path)
    if _STORE.match(text):
        return _SECRET.sub("", text)
    return next((name + text[len(known) :] for known, name in CALLED.items() if text.startswith(known)), text)


class FeedError(StrandError):
    """A file or stream cannot be read on; the message says which, where and why.

    Attributes:
        path: The file; of a URL without what may be a secret; None if there is none.
        offset: Where, in bytes from the start of the decompressed stream; or None.
        line: The line, from 1; or None.
        partial: If ``strand.replay`` raised it in mid-stream, the ``ReplayResult`` of all ticks before the fault, each
            handled; else None.
    """

    partial: Any = None

    def __init__(
        self, message: str, *, path: str | Path | None = None, offset: int | None = None, line: int | None = None
    ) -> None:
        where = [called(path)] if path is not None else []
        if offset is not None:
            where.append(f"byte {offset}")
        if line is not None:
            where.append(f"line {line}")
        super().__init__(f"{', '.join(where)}: {message}" if where else message)
        self.path = called(path) if path is not None and _STORE.match(url_of(path)) else path
        self.offset = offset
        self.line = line


class TruncatedFeedError(FeedError):
    """The input ends inside a record. Ticks read before the fault are intact."""


class FormatError(FeedError):
    """The input is not what its format allows."""


class DisorderError(FeedError):
    """A receive time runs back further than the merge was told to put in order.

    Attributes:
        position: How many ticks of that feed come before.
    """

    def __init__(self, message: str, *, path: str | Path | None = None, position: int) -> None:
        super().__init__(message, path=path)
        self.position = position


class UnknownFormatError(FeedError):
    """No reader recognises the input."""


class EmptyFeedError(FeedError):
    """The input ends without one tick: its reader knows nothing in it, or nothing of it was chosen.

    With ``allow_empty=True`` (``--allow-empty``) there is a result instead of this error.
    """


class GapError(FeedError):
    """Messages of a live feed are missing for good, and ``on_gap`` says not to go on without them.

    Attributes:
        gaps: The missing sequence numbers, as pairs (from, to); ``to`` itself is not missing.
    """

    def __init__(self, message: str, *, path: str | Path | None = None, gaps: tuple[tuple[int, int], ...] = ()) -> None:
        super().__init__(message, path=path)
        self.gaps = gaps


class RecordTypeError(StrandError, TypeError):
    """An array's dtype is not the record the dispatcher was made for; the message names the field that differs."""


class PlaceError(StrandError, IndexError):
    """A handler named a place that its batch does not have."""


class UnknownSymbolError(StrandError, KeyError):
    """A name or key is not in the symbol table.

    Attributes:
        position: The index of the offending record in the published array, and so the number of records published
            before it. None if a name was asked for.
        partial: If ``strand.replay`` raised it for a name that the whole feed does not have, the ``ReplayResult`` of
            the others; else None.
    """

    partial: Any = None

    def __init__(self, message: str, *, position: int | None = None) -> None:
        super().__init__(message)
        self.position = position

    def __str__(self) -> str:
        return str(self.args[0])


class UnknownNameError(StrandError, KeyError):
    """No output, row, object, field of a snapshot or handler has that name; the message has the nearest one."""

    def __str__(self) -> str:
        return str(self.args[0])


class StrictError(StrandError):
    """A run with ``strict=True`` has warnings (docs/warnings.md); the message tells the first.

    Attributes:
        partial: The run's result, a ``ReplayResult`` of all ticks.
    """

    def __init__(self, partial: Any) -> None:
        first, *others = partial.warnings
        more = f" (and {len(others)} more: leave strict out, or see them all in the report)" if others else ""
        super().__init__(f"strict: {first}{more}")
        self.partial = partial


class BackpressureError(StrandError):
    """Strands, alone or together, or the pool of segments are full, and ``on_full`` or a time limit forbids waiting.

    Attributes:
        rejected: The positions in the published array of the records that were not accepted, shape (k,), i8. Publish
            ``array[error.rejected]`` again later: that keeps the order within each symbol.
    """

    def __init__(self, message: str, rejected: npt.NDArray[np.int64] | None = None) -> None:
        import numpy as np

        super().__init__(message)
        self.rejected = np.empty(0, np.int64) if rejected is None else rejected


class WouldDeadlockError(BackpressureError):
    """A thread inside the dispatcher was about to wait for it, and so for itself; the message says what to do instead.

    A handler publishes into a full strand that blocks, or it waits for a drain, a stop, the answer of a call or an
    output. So do ``on_stop`` and ``on_finish``, and a signal handler that interrupted such a wait. Or a task waits for
    a result that cannot come before the task itself has ended, because of the order of their keys.
    """


class QueueFull(BackpressureError, queue.Full):  # noqa: N818  # the name that queues of Python have for it
    """As many tasks wait as ``max_queue`` allows, and none of those given was accepted.

    It is also raised if there is no room for more tasks; of tasks in C, those in ``rejected`` were then not accepted.
    It is a BackpressureError, so one ``except`` serves ticks and tasks. It is a ``queue.Full`` as well.
    """


class TaskExpired(StrandError):  # noqa: N818  # says how a task ended, as CancelledError does
    """A task was not started, or not tried again, because its time was over.

    If it had been tried before, ``__cause__`` is its last exception.

    Attributes:
        reason: ``"deadline"`` or ``"expire_if"``.
    """

    def __init__(self, message: str, reason: str) -> None:
        super().__init__(message)
        self.reason = reason


class TaskDropped(StrandError):  # noqa: N818  # says how a task ended, as CancelledError does
    """A task was given up before it began: its pool has stopped or made room. The message says which."""


class StoppedError(StrandError, RuntimeError):
    """The dispatcher or scheduler has been stopped, or it runs in another process, of which this one is a fork."""


class CallTimeoutError(StrandError, TimeoutError):
    """A call's time was over before its answer was there.

    Attributes:
        began: False: the call was given up and will not run. True: it is running, and its answer is lost.
    """

    def __init__(self, message: str, began: bool) -> None:
        super().__init__(message)
        self.began = began


class QuarantinedError(StrandError):
    """The symbol's strand is set aside because a handler failed on it (the ``__cause__``): nothing runs there."""


class HandlerError(StrandError):
    """A handler raised, or returned an error.

    Its text says where it failed: the symbol, the tick, and the line of code. For a compiled handler the text asks for
    ``line``. With a ``__cause__``, the exception that a Python handler raised, it leaves the line to the traceback.

    Attributes:
        symbol: The symbol of the tick that it failed on; for a Python batch handler, of the first tick of the batch.
        sequence: The feed's sequence number of that tick. None for a timer, for the end of the run, and if records have
            no such field.
        handler: The handler's name.
        code: The number that a native handler returned.
        reason: What failed, in words; may be empty.
        set_number: In a ``strand.sweep``, the number of the set of parameters that it failed with; ``row`` is then that
            set's. Else None.
        params: The values of that set, by name; else None.
        row: A copy of the symbol's row as the handler left it, with what it did before it failed on the tick.
        tick: A copy of that tick, a record of the dispatcher's dtype. None for a timer, for the end, and for records of
            more than 64 bytes.
        number: Which of its symbol's ticks it is, from 1, as ``replay(until=(symbol, number))`` takes it. None wherever
            ticks were dropped. Outside of a ``strand.replay`` of files, it is also None in a plain loop, and for ticks
            of a strand that symbols share.
        partial: If ``strand.replay`` raised it, the ``ReplayResult`` of what was handled before the run stopped; ends
            of handlers have not run. Else None.
    """

    row: Any = None
    tick: Any = None
    number: int | None = None
    partial: Any = None
    _line: CodeLine | None = None
    #: The type of what a compiled handler raised when it was called again; machine code keeps none.
    _raised: str = ""
    _stays = ("partial", "_again", "_line_in", "_place", "_timer_ns")
    _again: Callable[..., Any] | None = None
    _line_in: Callable[[BaseException], CodeLine | None] | None = None
    #: The number of its strand, and of the ticks that were before it there.
    _place: tuple[int, int] | None = None
    #: The time of the timer that failed, in ns since the epoch.
    _timer_ns: int | None = None

    def __init__(
        self, symbol: str, sequence: int | None, handler: str, code: int, reason: str, *,
        set_number: int | None = None, params: Mapping[str, Any] | None = None,
    ) -> None:  # fmt: skip
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
        return self.described(with_line=self.__cause__ is None)

    def described(self, *, with_line: bool) -> str:
        """Returns all that is known of the failure, in one line. ``with_line``: with the line of code, if it is
        known."""
        line = self.line if with_line else None  # which may find out what was raised
        text = str(self.args[0])
        if self.number is not None:
            text += f" (its tick {self.number:,})"
        if self.params is not None:
            text += f" with set {self.set_number} ({', '.join(f'{k}={value}' for k, value in self.params.items())})"
        text += f": {self._raised or self.reason or f'code {self.code}'}"
        return text if line is None else f"{text}, at {line}"

    def __reduce__(self) -> Any:
        """Pickles it for another process: with the line that failed, which only this one can find."""
        _ = self.line
        return super().__reduce__()

    def replay(self) -> Any:
        """Calls the handler once more, in Python, with copies of ``row`` and ``tick``.

        A compiled function is called as it was before numba compiled it. Set a breakpoint in it, or run this under a
        debugger. Emits and requests for timers have no effect. An object handler's own object is called, as it is now.
        In a chain only the handler that failed is called, with the rows of those before it as they were right after the
        tick.

        The run's files are read once more, for the ticks of the symbol, in two cases: the handler was called with a
        trade that is made of orders; or any of several compiled handlers of a chain may have failed.

        Returns:
            The copy of the row as the handler leaves it. It raises what the handler raises.

        Raises:
            ConfigurationError: If Python cannot call it: built-in handlers, those in C or of several symbols, timers
                and ends. Also if the input would have to be read again and cannot: live, of a Feed, of ticks published
                to a Dispatcher, with ``load``, and if ticks were dropped.
            FeedError: If the files are gone by now.
        """
        if self._again is None:
            raise ConfigurationError(f"replay: handler {self.handler!r} did not fail on a known tick")
        return self._again()

    @property
    def line(self) -> CodeLine | None:
        """The line of the user's code that failed: ``file``, ``number`` and ``text``; None if it is not known.

        Machine code does not know its lines. For a compiled handler this is the line at which a call in Python fails
        with the row as it was before the tick, for which the run's files are read once more. If they cannot be read,
        it is the line at which ``replay()`` fails: another one, if the handler changed the row before it failed and
        that makes an earlier line fail.
        """
        if self._line is None and self._line_in is not None and self._again is not None:
            line_in, self._line_in = self._line_in, None
            for anew in (True, False):
                try:
                    self._again(anew=anew)
                except StrandError:
                    continue  # the row before the tick is not known, or Python cannot call it
                except Exception as error:
                    self._line = line_in(error)
                    self._raised = type(error).__name__ if self._line is not None and self.__cause__ is None else ""
                break
        return self._line


class SinkError(StrandError):
    """A sink that ``out=`` gave to an output raised (``strand.Sink``); ``__cause__`` is its exception.

    Attributes:
        output: The output's name.
        method: ``"write"``, ``"close"`` or ``"abort"``.
    """

    def __init__(self, output: str, method: str, reason: str) -> None:
        super().__init__(f"output {output!r}: {method} of its sink failed: {reason}")
        self.output = output
        self.method = method


class DifferenceError(StrandError, AssertionError):
    """A run is not what a test expected it to be (``strand.testing``): the message tells the first differences.

    Attributes:
        symbols: The symbols whose rows differ.
        outputs: The names of the outputs that differ.
        seed: The seed of the run, if one decided it; else None.
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
