"""The seam between an output and what takes its records: a sink has ``write``, ``close`` and ``abort``."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, Protocol, TypeAlias

from strand.errors import ConfigurationError

__all__ = ["Destination", "Sink", "files_and_sinks"]


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

        Merging or a sink failed, an interrupt came while records were being merged, the start failed, or the dispatcher
        was dropped without a stop.
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
        raise ConfigurationError(f"out: {out!r} is not a dict of files and sinks by the names of outputs")
    files: dict[str, str | os.PathLike[str]] = {}
    sinks: dict[str, Sink] = {}
    for name, destination in out.items():
        if isinstance(destination, str | os.PathLike):
            files[name] = destination
            continue
        if (reason := _no_sink(destination)) is not None:
            raise ConfigurationError(f"out: {name}: {destination!r} is neither a path nor a sink: {reason}")
        for other, sink in sinks.items():
            if sink is destination:
                raise ConfigurationError(f"out: {name} has the sink of {other}: give each output a sink of its own")
        sinks[name] = destination
    return files, sinks


def _no_sink(value: Any) -> str | None:
    if isinstance(value, type):
        return "give an object, not its class"
    missing = [name for name in ("write", "close", "abort") if not callable(getattr(value, name, None))]
    return f"it has no {' and no '.join(missing)}" if missing else None
