"""The sinks of a run: batches are written to each in order, and in the end all are closed or all are aborted."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol, TypeAlias

import numpy.typing as npt

from strand.background import BackgroundWriter
from strand.errors import ConfigurationError, SinkError
from strand.handlers.failures import describe
from strand.output.emitted import EmittedRecords
from strand.threads import Inside


class Sink(Protocol):
    """Takes the records of one output: ``out={"bars": MySink()}`` of ``strand.Dispatcher`` and ``strand.replay``.

    Any object with the three methods is a sink. It belongs to one output of one run.

    Exactly one of ``close`` and ``abort`` is called, once: when the dispatcher stops, or when its start fails. A
    dispatcher that is neither started nor stopped calls none. Neither does ``strand.replay`` if it raises before it
    makes a dispatcher: the file is empty, or an option is wrong. In the child of a fork none is called.

    If a method raises, that ends the run with a ``SinkError``, which names the output. The sinks that are still open
    are then aborted. No method may wait for the dispatcher: ``drain()``, ``stop()`` and ``call()`` raise
    WouldDeadlockError there.
    """

    @abstractmethod
    def write(self, batch: Any, /) -> None:
        """Takes the next records: a structured array of shape (n,), n at least 1, whose numbers are exact integers.

        It is a ``strand.output.emitted.EmittedRecords``. ``batch.units`` names the units, ``batch.to_pandas()`` and the
        like give natural units. A batch may be kept.

        Batches come in the order of the ticks, all from one thread: the output's own, or with ``workers=0`` the thread
        that publishes. How records are divided into batches differs from run to run.

        While it runs, at most 16 MB more wait. Then publishing waits.
        """

    @abstractmethod
    def close(self) -> None:
        """Completes what was written: that is all that is final, also if an error or Ctrl-C ended the run early.

        The thread of ``write`` has ended. A file gets its final name here. No sink is closed before all sinks of the
        run have written their last batch.
        """

    @abstractmethod
    def abort(self) -> None:
        """Discards what was written, because records are missing.

        Merging or a sink failed, the start failed, or the dispatcher was dropped without a stop.
        """


#: Destination of an output's records: a file or a sink.
Destination: TypeAlias = str | os.PathLike[str] | Sink


def files_and_sinks(
    out: Mapping[str, Destination] | None,
) -> tuple[dict[str, str | os.PathLike[str]], dict[str, Sink]]:
    """The outputs that go to files, with their paths, and those that go to sinks.

    Raises ConfigurationError where ``out`` is no dict, for a value that is no path or sink, and for a sink of two
    outputs.
    """
    if out is None:
        out = {}
    if not isinstance(out, Mapping):
        raise ConfigurationError("out", f"{out!r} is not a dict of files and sinks by the names of outputs")
    files: dict[str, str | os.PathLike[str]] = {}
    sinks: dict[str, Sink] = {}
    for name, destination in out.items():
        if isinstance(destination, str | os.PathLike):
            files[name] = destination
            continue
        if (reason := _no_sink(destination)) is not None:
            raise ConfigurationError("out", f"{name}: {destination!r} is neither a path nor a sink: {reason}")
        for other, sink in sinks.items():
            if sink is destination:
                raise ConfigurationError("out", f"{name} has the sink of {other}: give each output a sink of its own")
        sinks[name] = destination
    return files, sinks


def _no_sink(value: Any) -> str | None:
    if isinstance(value, type):
        return "give an object, not its class"
    missing = [name for name in ("write", "close", "abort") if not callable(getattr(value, name, None))]
    return f"it has no {' and no '.join(missing)}" if missing else None


Batch = npt.NDArray[Any]


class NamedSink:
    """A user's sink. It gets records that know their units and symbols, and its errors name the output.

    ``shown``: makes such records of a batch.
    """

    def __init__(self, output: str, sink: Sink, shown: Callable[[Batch], EmittedRecords]) -> None:
        self._output = output
        self._sink = sink
        self._shown = shown
        #: Gives one item, and no other: to the first of the two ends.
        self._once = iter((None,))

    def write(self, batch: Batch) -> None:
        with self._naming("write"):
            self._sink.write(self._shown(batch))

    def close(self) -> None:
        with self._naming("close"):
            for _ in self._once:  # no interrupt comes between this line and the next one
                self._sink.close()

    def abort(self) -> None:
        with self._naming("abort"):
            for _ in self._once:  # likewise
                self._sink.abort()

    @contextmanager
    def _naming(self, method: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            raise SinkError(self._output, method, describe(error)) from error


class Sinks:
    """The sinks of ``n`` outputs. ``inside``: the dispatcher's.

    The end has two phases: ``end_threads``, after which nothing more is written, then ``close`` or ``abort``.
    """

    def __init__(self, n: int, inside: Inside) -> None:
        self._inside = inside
        self._writes: list[list[Callable[[Batch], None]]] = [[] for _ in range(n)]
        self._writers: list[BackgroundWriter] = []
        #: Neither closed nor aborted yet. A sink is removed behind its end: one whose end is interrupted is aborted.
        self._open: list[Sink] = []

    def own(self, sink: Sink) -> None:
        """Takes over a sink, which will be closed or aborted from now on."""
        self._open.append(sink)

    def connect(
        self,
        output: int,
        name: str,
        failed: Callable[[Exception], None],
        write: Callable[[Batch], None],
        cores: Sequence[int],
    ) -> None:
        """Connects an output, before its first batch: ``write`` gets all its batches, in a thread called ``name`` on
        these cores. ``failed`` is called there with the exception of ``write``. Without cores the thread that merges
        calls it."""
        if cores:
            writer = BackgroundWriter(write, failed, name, cores, self._inside)
            self._writers.append(writer)  # before it starts: an interrupt may come while it does
            writer.start()
            write = writer.put
        self._writes[output].append(write)

    def write(self, output: int, batch: Batch) -> None:
        """Gives a batch to all that take the output's. Raises what they raise."""
        for write in self._writes[output]:
            write(batch)

    @property
    def are_writing_here(self) -> bool:
        """True if the calling thread is one that writes to a sink."""
        return any(writer.is_this_thread for writer in self._writers)

    def settle(self) -> None:
        """Waits until all batches so far have been written, or have failed."""
        for writer in self._writers:
            writer.settle()

    def end_threads(self) -> None:
        """Settles, and ends the threads: nothing may be written any more."""
        for writer in self._writers:
            writer.close()

    def close(self) -> None:
        """Closes the sinks, the one that came last first. Raises what one raises; the others then stay open."""
        while self._open:
            self._open[-1].close()
            self._open.pop()

    def abort(self, failed: Callable[[Exception], None]) -> None:
        """Ends the threads without what waits, and aborts the sinks that are still open. ``failed`` is called with what
        one raises, and the others are aborted too. Several threads may do so."""
        for writer in self._writers[:]:
            writer.drop()
        self._writers.clear()
        for sink in self._open[::-1]:
            try:
                sink.abort()
            except Exception as error:
                failed(error)
        self._open.clear()

    def forget(self) -> None:
        """Forgets the writers in the child of a fork: the threads are not there, and the sinks belong to the parent."""
        self._writers.clear()
