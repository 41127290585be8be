"""Outputs: records that handlers emit, merged into the order of the ticks they were emitted for.

What precedes the declared columns is said in :mod:`strand.output.records`.
Records come in the order of ``number``, those of one tick as they were emitted; a timer's come before the ticks at
or after its time.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from strand.background import BackgroundWriter
from strand.binding.engine_words import Until
from strand.errors import ConfigurationError, EngineError
from strand.feeds.write.destinations import check_outputs, output_paths
from strand.output.files import OutputFile, check_path
from strand.output.fingerprint import OutputDigest
from strand.output.memory import PIECE_BYTES, Memory
from strand.output.output import Output
from strand.output.records import FEED, HEAD_BYTES, merged_dtype, with_feed
from strand.output.tick_feeds import TickFeeds
from strand.threads import Inside, join

if TYPE_CHECKING:
    from strand.handlers import Handler
    from strand.symbols import SymbolTable

__all__ = ["Outputs"]

#: Between two looks at what is final: at least, where there is something to hand out and where there is not, at most,
#: and as a multiple of what a look takes, which takes workers' lines away. What is handed out soon is still in caches,
#: and so are the chunks that are filled next.
LEAST_S, IDLE_S, MOST_S, TIMES = 0.0003, 0.001, 0.05, 8


class Source(Protocol):
    """Where emitted records come from, in their order: the engine, or a plain loop."""

    def count_beside(self, tick_bytes: int) -> None: ...

    def settle_outputs(self, until: Until) -> int: ...

    def take_output(self, number: int, buffer: npt.NDArray[np.uint8], room: int) -> int: ...

    @property
    def outputs_below(self) -> int: ...

    @property
    def late_outputs(self) -> int: ...

    def stop(self) -> None: ...


class Outputs(Mapping[str, Output]):
    """A dispatcher's outputs by name. One thread merges what slots have collected, and keeps it or hands it to
    those that write it. ``inside``: the dispatcher's."""

    def __init__(
        self,
        handlers: Sequence[Handler],
        table: SymbolTable,
        out: Mapping[str, str | os.PathLike[str]],
        inside: Inside | None = None,
        *,
        escape_formulas: bool = False,
    ) -> None:
        if not isinstance(out, Mapping):
            raise ConfigurationError(f"out: {out!r} is not a dict of files by the names of outputs")
        declared = _declared(handlers)
        unknown = [name for name in out if name not in declared]
        if unknown:
            there = f"there are {', '.join(declared)}" if declared else "no handler has any"
            raise ConfigurationError(f"out: no handler emits to an output named {unknown[0]!r}: {there}")
        paths = {name: Path(path) for name, path in out.items()}
        for path in paths.values():
            check_path(path)
        check_outputs(output_paths(paths))
        self._inside = inside or Inside()
        size_unit = handlers[0].size_unit if handlers else 1.0
        self._outputs = {
            name: Output(name, dtype, paths.get(name), table, self._inside, size_unit=size_unit)
            for name, dtype in declared.items()
        }
        self._size_unit = size_unit
        self._table = table
        self._escape_formulas = escape_formulas
        self._files: list[OutputFile] = []
        #: What takes each output's batches, in the order of the outputs; and those that do in threads of their own.
        self._takers: list[list[Callable[[npt.NDArray[Any]], None]]] = []
        self._writers: list[BackgroundWriter] = []
        self._engine: Source | None = None
        self._thread: threading.Thread | None = None
        self._stop = threading.Event()
        self._abandoned = False
        #: One thread at a time finds out what is final and hands it out.
        self._round_lock = threading.Lock()
        self._digesting = False
        self._tick_feeds: TickFeeds | None = None
        self._narrow = np.empty(0, np.uint8)
        #: One an output: a batch that waits to be written keeps no more than its own output's piece.
        self._memory = [Memory(as_one=output.path is None) for output in self._outputs.values()]
        #: Records left out: emitted on a quarantined strand that was released after publishing could not wait for it.
        self.late = 0
        #: What went wrong with merging or writing, if anything did.
        self.failure: Exception | None = None

    def __getitem__(self, name: str) -> Output:
        if name not in self._outputs:
            there = f"there are {', '.join(self._outputs)}" if self._outputs else "no handler emits anything"
            raise KeyError(f"no output is named {name!r}: {there}")
        return self._outputs[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._outputs)

    def __len__(self) -> int:
        return len(self._outputs)

    @property
    def record_bytes(self) -> list[int]:
        """Of the declared records, in the order of the engine's numbers."""
        return [output.declared.itemsize for output in self._outputs.values()]

    def numbers(self, handler: Handler) -> list[int]:
        """The engine's numbers of a handler's outputs."""
        names = list(self._outputs)
        return [names.index(name) for name, _ in handler.emitted]

    # ---- life

    def digest_all(self) -> None:
        """Before the start: what is collected is digested too, as it is handed out."""
        assert self._engine is None
        self._digesting = True

    def tell_feeds(self, tick_feeds: TickFeeds) -> None:
        """Before the start: ticks are a merge's, and records say which feed theirs came from."""
        assert self._engine is None
        self._tick_feeds = tick_feeds
        self._narrow = np.empty(PIECE_BYTES, np.uint8)
        for output in self._outputs.values():
            output._tell_of(merge=True)

    def start(self, engine: Source, *, allowed: Sequence[int] | None) -> None:
        """Opens the files and starts merging, in a thread on the cores ``allowed``; where there are none, whoever emits
        calls ``hand_out``. Raises FeedError where a file cannot be created."""
        if not self._outputs:
            return
        try:
            for output in self._outputs.values():
                self._takers.append(self._takers_of(output, allowed or ()))
        except BaseException:
            self._give_up()
            raise
        if self._tick_feeds is not None:
            engine.count_beside(FEED.itemsize)
        self._engine = engine
        if allowed is None:
            return
        for output in self._outputs.values():
            output._refresh = self._refresh
        self._thread = threading.Thread(target=self._run, args=(engine, allowed), name="strand-outputs", daemon=True)
        self._thread.start()

    def _takers_of(self, output: Output, allowed: Sequence[int]) -> list[Callable[[npt.NDArray[Any]], None]]:
        """A file, and the digest, take longer than merging: each has a thread where there are cores for several."""
        found: list[Callable[[npt.NDArray[Any]], None]] = []
        if output.path is not None or self._digesting:
            found.append(output.digest.add)
        if output.path is not None:
            dtype, unit = merged_dtype(output.declared, merge=self._tick_feeds is not None), self._size_unit
            file = OutputFile(output.path, dtype, self._table, unit, escape_formulas=self._escape_formulas)
            self._files.append(file)
            found.append(self._files[-1].write)
        if len(allowed) > 1:
            name = f"strand-{output.name}"
            writers = [BackgroundWriter(take, self._fail, name, allowed, self._inside) for take in found]
            self._writers += writers  # before any begins: an interrupt may come while one does
            for one in writers:
                one.start()
            found = [one.put for one in writers]
        return found if output.path is not None else [*found, output._put]

    def _fail(self, error: Exception) -> None:
        """A failure stops the dispatcher."""
        self.failure = self.failure or error
        if (engine := self._engine) is not None:
            engine.stop()

    def finish(self, *, complete: bool) -> None:
        """When nothing runs any more: hands out the rest and closes the files. ``complete``: nothing but what is held
        back is pending; else what comes after the first tick that is pending is not final, and left out."""
        try:
            self._finish(complete=complete)
        except BaseException as error:
            interrupted = EngineError("interrupted while outputs were being completed")
            self._fail(error if isinstance(error, Exception) else interrupted)
            self._give_up()
            raise
        finally:
            for output in self._outputs.values():
                output._end()

    def _finish(self, *, complete: bool) -> None:
        if self._thread is not None:
            self._stop.set()
            join(self._thread)
            self._thread = None
        if self._engine is not None:
            self._round(self._engine, Until.END if complete else Until.FIRST_PENDING)
            for writer in self._writers:
                writer.close()
            with self._round_lock:
                self.late = self._engine.late_outputs
                self._engine = None
                self._memory.clear()
                self._close_files()

    def forget(self) -> None:
        """In the child of a fork, where none of the threads is: what was collected by then is all there is."""
        self._engine = None
        self._writers.clear()

    def abandon(self) -> None:
        """Ends merging without waiting for it: nobody is left to look at what comes out. Takes no lock."""
        self._abandoned = True
        self.failure = self.failure or EngineError("the dispatcher was dropped without a stop")

    def hand_out(self) -> None:
        """Hands out everything that was emitted. Raises what went wrong with that."""
        if self._engine is not None:
            self._round(self._engine, Until.END)
        if self.failure is not None:
            raise self.failure

    def at_rest(self) -> Mapping[str, OutputDigest]:
        """Where all that was published has been handled: the digests of what was emitted up to there, by name. They go
        on with the run. Raises what went wrong with handing it out."""
        if self._engine is not None:
            self._round(self._engine, Until.WATERMARK)
        for writer in self._writers:
            writer.settle()
        if self.failure is not None:
            raise self.failure
        return {name: output.digest for name, output in self._outputs.items()}

    def _refresh(self) -> None:
        """By whoever looks while the run goes on."""
        engine, me = self._engine, threading.get_ident()
        if engine is None:
            return
        try:
            self._inside.threads.append(me)
            self._round(engine, Until.WATERMARK)
        finally:
            self._inside.threads.remove(me)

    def _run(self, engine: Source, allowed: Sequence[int]) -> None:
        # Where the publisher is pinned, this thread would be so too.
        with contextlib.suppress(OSError):
            os.sched_setaffinity(0, allowed)
        pause_s, records, me = IDLE_S, 0, threading.get_ident()
        try:
            self._inside.threads.append(me)
            while not self._stop.wait(pause_s) and self.failure is None:
                looked_s = self._round(engine, Until.WATERMARK)
                before, records = records, sum(output.records for output in self._outputs.values())
                pause_s = min(max(LEAST_S if records > before else IDLE_S, TIMES * looked_s), MOST_S)
            if self._abandoned:
                self._give_up()
        finally:
            self._inside.threads.remove(me)

    def _round(self, engine: Source, until: Until) -> float:
        """Hands out what is final; returns the seconds it took to find out what is. A failure stops the dispatcher."""
        with self._round_lock:
            try:
                if self.failure is None and self._engine is not None:
                    looked_ns = engine.settle_outputs(until)
                    for number, output in enumerate(self._outputs.values()):
                        self._hand_out(engine, number, output)
                    if self._tick_feeds is not None:
                        self._tick_feeds.forget(engine.outputs_below)
                    return looked_ns / 1e9
            except Exception as error:
                self._fail(error)
            except BaseException:
                # What was taken and not handed out yet is gone: no file may look complete.
                self._fail(EngineError("interrupted while records were being handed out"))
                raise
        return 0.0

    def _hand_out(self, engine: Source, number: int, output: Output) -> None:
        size, memory = output.dtype.itemsize, self._memory[number]
        if output.goes_on:
            memory.piecewise()
        while True:
            buffer = memory.rest(size + 8)
            room = (len(buffer) - 8) // size
            n = self._take(engine, number, buffer, room)
            if n:
                memory.use(n * size)
                batch = buffer[: n * size].view(output.dtype)
                output.records += n
                for take in self._takers[number]:
                    take(batch)
            if n < room:
                return

    def _take(self, engine: Source, number: int, buffer: npt.NDArray[np.uint8], room: int) -> int:
        if self._tick_feeds is None:
            return engine.take_output(number, buffer, room)
        size = HEAD_BYTES + self.record_bytes[number]
        if len(self._narrow) < room * size + 8:
            self._narrow = np.empty(room * size + 8, np.uint8)
        n = engine.take_output(number, self._narrow, room)
        if n:
            with_feed(self._narrow[: n * size], n, self._tick_feeds, buffer[: n * (size + FEED.itemsize)])
        return n

    # ---- files

    def _close_files(self) -> None:
        for file in self._files:
            try:
                if self.failure is None:
                    file.close()
                else:
                    file.give_up()
            except Exception as error:
                self.failure = self.failure or error
        self._files.clear()

    def _give_up(self) -> None:
        for writer in self._writers:
            writer.drop()
        for file in self._files:
            file.give_up()
        self._files.clear()


def _declared(handlers: Sequence[Handler]) -> dict[str, np.dtype[Any]]:
    """All handlers' outputs by name. Raises ConfigurationError where two of a name have different dtypes."""
    found: dict[str, np.dtype[Any]] = {}
    of: dict[str, str] = {}
    for handler in handlers:
        for name, dtype in handler.emitted:
            if found.setdefault(name, dtype) != dtype:
                raise ConfigurationError(
                    f"outputs: {name!r} is {dtype} of handler {handler.name!r} and {found[name]} of {of[name]!r}; "
                    "one output has one dtype"
                )
            of.setdefault(name, handler.name)
    return found
