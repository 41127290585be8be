"""The sinks of a run: batches are written to each in order, and in the end all are closed or all are aborted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import numpy.typing as npt

from strand.background import BackgroundWriter
from strand.errors import SinkError
from strand.handlers.failures import describe
from strand.output.emitted import EmittedRecords
from strand.output.sink import Sink
from strand.threads import Inside

__all__ = ["NamedSink", "Sinks"]

Batch = npt.NDArray[Any]


class NamedSink:
    """A user's sink. It gets records that know their units and symbols, and its errors name the output.

    ``shown``: makes such records of a batch.
    """

    def __init__(self, output: str, sink: Sink, shown: Callable[[Batch], EmittedRecords]) -> None:
        self._output = output
        self._sink = sink
        self._shown = shown

    def write(self, batch: Batch) -> None:
        with self._naming("write"):
            self._sink.write(self._shown(batch))

    def close(self) -> None:
        with self._naming("close"):
            self._sink.close()

    def abort(self) -> None:
        with self._naming("abort"):
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
        #: Neither closed nor aborted yet. A sink is removed before its end, so that it has one only.
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
        for sink in self._ending():
            sink.close()

    def abort(self, failed: Callable[[Exception], None]) -> None:
        """Ends the threads without what waits, and aborts the sinks that are still open. ``failed`` is called with what
        one raises, and the others are aborted too."""
        for writer in self._writers[:]:
            writer.drop()
        self._writers.clear()
        for sink in self._ending():
            try:
                sink.abort()
            except Exception as error:
                failed(error)

    def _ending(self) -> Iterator[Sink]:
        with suppress(IndexError):  # another thread may abort too
            while True:
                yield self._open.pop()

    def forget(self) -> None:
        """Forgets the writers in the child of a fork: the threads are not there, and the sinks belong to the parent."""
        self._writers.clear()
