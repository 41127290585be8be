"""Outputs: records that handlers emit, merged into the order of the ticks they were emitted for.

:mod:`strand.output.records` describes the columns before the declared ones.
Records come in the order of ``number``, those of one tick as they were emitted. A timer's come before the ticks at or
after its time.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from strand.background import Rounds
from strand.binding.engine_words import Until
from strand.brief import brief, listed, several
from strand.dicts import unknown_name
from strand.errors import ConfigurationError, EngineError, WouldDeadlockError
from strand.feeds.write.destinations import check_outputs, output_paths
from strand.output.files import OutputFile, check_path
from strand.output.fingerprint import OutputDigest
from strand.output.memory import PIECE_BYTES, Memory
from strand.output.notebook import MAX_TABLES
from strand.output.output import Output
from strand.output.records import FEED, HEAD_BYTES, TickFeeds, merged_dtype, with_feed
from strand.output.sinks import Destination, Sinks, files_and_sinks
from strand.threads import WAITS_FOR_ITSELF, Bell, Inside, interrupts_later

if TYPE_CHECKING:
    from strand.handlers import Handler
    from strand.symbols import SymbolTable

#: Seconds between two rounds of the merger: the minimum, the minimum after a round without records, and the maximum.
#: ``TIMES`` is a minimum too, in units of what it takes to find the frontier: that takes cache lines from the workers.
#: Records that are merged soon are still in caches, and so are the chunks that are filled next.
MINIMUM_S, IDLE_S, MAXIMUM_S, TIMES = 0.0003, 0.001, 0.05, 8
#: Longest pause: while nothing is handled the pause doubles up to this, until ``wake``.
ASLEEP_S = 0.25


class Source(Protocol):
    """Source of emitted records, in their order: the engine, or the driver of a plain loop."""

    def count_beside(self, tick_bytes: int) -> None: ...

    def settle_outputs(self, until: Until) -> int: ...

    def take_output(self, number: int, buffer: npt.NDArray[np.uint8], capacity: int, /) -> int: ...

    @property
    def outputs_below(self) -> int: ...

    @property
    def late_outputs(self) -> int: ...

    def stop(self) -> None: ...


class Outputs(Mapping[str, Output]):
    """A dispatcher's outputs by name. One thread merges what participants emit, and writes it to the outputs' sinks:
    a thread of its own, or the one that emits. An interrupt waits until records in hand have been written, so none is
    lost.

    ``out``: files and sinks by the names of outputs. ``inside``: the dispatcher's.
    """

    def __init__(
        self,
        handlers: Sequence[Handler],
        table: SymbolTable,
        out: Mapping[str, Destination] | None,
        inside: Inside | None = None,
        *,
        escape_formulas: bool = False,
    ) -> None:
        files, sinks = files_and_sinks(out)
        paths = {name: Path(path) for name, path in files.items()}
        declared = _declared(handlers)
        unknown = [name for name in (*files, *sinks) if name not in declared]
        if unknown:
            there = f"there are {', '.join(declared)}" if declared else "no handler has any"
            raise ConfigurationError("out", f"no handler emits to an output named {unknown[0]!r}: {there}")
        for path in paths.values():
            check_path(path)
        if paths:
            check_outputs(output_paths(paths))
        self._inside = inside or Inside()
        size_unit = handlers[0].size_unit if handlers else 1.0
        self._outputs = {
            name: Output(name, dtype, paths.get(name, sinks.get(name)), table, self._inside, size_unit=size_unit)
            for name, dtype in declared.items()
        }
        self._size_unit = size_unit
        self._table = table
        self._escape_formulas = escape_formulas
        self._sinks = Sinks(len(declared), self._inside)
        # The last are closed first: an iteration ends when all else is complete.
        for output in sorted(self._outputs.values(), key=lambda output: not output.is_collected):
            if output._sink is not None:
                self._sinks.own(output._sink)
        self._engine: Source | None = None
        #: The merger's thread.
        self._rounds: Rounds | None = None
        self._is_started = self._is_asleep = self._is_finished = False
        self._bell = Bell()
        #: Up to where the rest is merged at the end.
        self._until: Until | None = None
        #: Rounds of the merger's thread that have begun, and that are done; no more come when ``_is_over``.
        self._begun = self._done = 0
        self._is_over = False
        #: Behind the last round: what was final, the records that were merged, and the pause.
        self._merged, self._pause_s = (0, 0), IDLE_S
        self._digesting = False
        self._tick_feeds: TickFeeds | None = None
        self._narrow = np.empty(0, np.uint8)
        #: By output, so that a batch which waits to be written keeps a piece of its own output alone.
        self._memory = [Memory(as_one=output.is_collected) for output in self._outputs.values()]
        #: Records left out: emitted on a quarantined strand that was released after publishing could not wait for it.
        self.late = 0
        #: The first error of merging or of a sink.
        self.failure: Exception | None = None

    def __getitem__(self, name: str) -> Output:
        if name not in self._outputs:
            raise unknown_name("output", name, self._outputs)
        return self._outputs[name]

    @property
    def below(self) -> int | None:
        """All records of ticks with lower numbers are out, as of the last round. None: there are no outputs."""
        return self._merged[0] if self._outputs else None

    def __repr__(self) -> str:
        return brief(
            self, listed(f"{name} ({several(each.records, 'record')})" for name, each in self._outputs.items())
        )

    def _repr_html_(self) -> str:
        return "".join(output._repr_html_() for output in islice(self._outputs.values(), MAX_TABLES))

    def _ipython_key_completions_(self) -> list[str]:
        return list(self._outputs)

    def __iter__(self) -> Iterator[str]:
        return iter(self._outputs)

    def __len__(self) -> int:
        return len(self._outputs)

    @property
    def record_bytes(self) -> list[int]:
        """Sizes of the declared records in bytes, in the order of the engine's numbers."""
        return [output.declared.itemsize for output in self._outputs.values()]

    def numbers(self, handler: Handler) -> list[int]:
        """The engine's numbers of a handler's outputs."""
        names = list(self._outputs)
        return [names.index(name) for name, _ in handler.emitted]

    # ---- life

    def digest_all(self) -> None:
        """Has records that are collected digested too, as they are merged. Called before the start."""
        assert self._engine is None
        self._digesting = True

    def add_feed_column(self, tick_feeds: TickFeeds) -> None:
        """Gives records a column for the feed of their tick, as ticks come from several feeds. Called before the
        start."""
        assert self._engine is None
        self._tick_feeds = tick_feeds
        self._narrow = np.empty(PIECE_BYTES, np.uint8)
        for output in self._outputs.values():
            output._set_table(merge=True)

    def start(self, engine: Source, *, allowed: Sequence[int] | None) -> None:
        """Opens the files, and starts merging in a thread on the cores ``allowed``. None: there is no such thread, and
        the thread that emits calls ``merge``.

        Raises FeedError where a file cannot be created. The sinks are then aborted.
        """
        if not self._outputs:
            return
        with interrupts_later():
            self._begin(engine, allowed)

    def _begin(self, engine: Source, allowed: Sequence[int] | None) -> None:
        try:
            for number, output in enumerate(self._outputs.values()):
                self._connect(number, output, allowed or ())
        except BaseException:
            self._abort()
            raise
        if self._tick_feeds is not None:
            engine.count_beside(FEED.itemsize)
        self._engine, self._is_started = engine, True
        if allowed is None:
            return
        for output in self._outputs.values():
            output._refresh = self._refresh
        # If the publisher is pinned, this thread would be so too.
        self._rounds = Rounds(
            partial(self._round, engine), IDLE_S, "strand-outputs", ended=partial(self._end_rounds, engine),
            allowed=allowed, inside=self._inside,
        )  # fmt: skip
        self._rounds.start()

    def _connect(self, number: int, output: Output, allowed: Sequence[int]) -> None:
        """Opens the output's file, if it has one, and says where its records go.

        A file and a digest take longer than merging: each has a thread where there are cores for several. A user's
        sink always has one, so that all its records come from one thread.
        """
        connect = partial(self._sinks.connect, number, f"strand-{output.name}", self._fail)
        cores = allowed if len(allowed) > 1 else ()
        if self._digesting or not output.is_collected:
            connect(output.digest.add, cores)
        if output.path is not None:
            dtype, unit = merged_dtype(output.declared, merge=self._tick_feeds is not None), self._size_unit
            file = OutputFile(output.path, dtype, self._table, unit, escape_formulas=self._escape_formulas)
            self._sinks.own(file)
            connect(file.write, cores)
        elif output._sink is not None:
            connect(output._sink.write, () if output.is_collected else allowed)

    def _fail(self, error: Exception) -> None:
        """A failure stops the dispatcher. The first one is raised, and has a note of each later one."""
        if self.failure is None:
            self.failure = error
        elif error is not self.failure:
            self.failure.add_note(f"then: {error}")
        if (engine := self._engine) is not None:
            engine.stop()

    def finish(self, *, complete: bool, started: bool = True) -> None:
        """Merges the remaining records after the run, then closes all sinks, or aborts them where something failed.

        ``complete``: what is still pending is held back. Else the first pending tick, and all after it, are not final.
        ``started``: False where the start failed: the sinks are aborted. Where an interrupt cuts it short it is called
        again, and goes on.
        """
        if self._is_finished or not self._outputs:
            return
        try:
            self._end_merging(Until.END if complete else Until.FIRST_PENDING)
        except Exception as error:
            self._fail(error)
        with interrupts_later():
            try:
                if started and self._is_started and self.failure is None:
                    self._sinks.close()
            except Exception as error:
                self._fail(error)
            except BaseException:
                self._fail(EngineError("interrupted while outputs were being completed"))
                raise
            finally:
                self._sinks.abort(self._fail)
        for output in self._outputs.values():
            output._refresh = None  # which holds all outputs, and what they have collected
        self._memory.clear()
        self._is_finished = True

    def _end_merging(self, until: Until) -> None:
        """Merges the rest, and waits until it has been written."""
        if (engine := self._engine) is None:
            return
        if self._until is None:
            self._until = until
        if self._rounds is None:
            with interrupts_later():
                self._merge(engine, self._until)
        else:
            self._rounds.end()
        self._sinks.end_threads()
        self.late = engine.late_outputs
        self._engine = self._rounds = None

    def _abort(self) -> None:
        """Aborts the sinks that are still open. There is a failure, so no merging begins from here on."""
        self._sinks.abort(self._fail)

    def forget(self) -> None:
        """Forgets the engine in the child of a fork, which has none of the threads: no more is merged, and no sink has
        its end."""
        self._engine = None
        self._sinks.forget()

    def abandon(self) -> None:
        """The dispatcher was dropped without a stop: the merger aborts the sinks. Waits for nothing, takes no lock."""
        self.failure = self.failure or EngineError("the dispatcher was deleted before it was stopped")

    def wake(self) -> None:
        """Ends the merger's long pause: there will be something to handle. It costs one look where there is none."""
        if self._is_asleep and (rounds := self._rounds) is not None:
            rounds.wake()

    def merge(self) -> None:
        """Merges everything that was emitted, in a thread that no interrupt reaches meanwhile. Raises what went wrong
        with that."""
        if self._engine is not None:
            self._merge(self._engine, Until.END)
        if self.failure is not None:
            raise self.failure

    def settled_digests(self) -> Mapping[str, OutputDigest]:
        """Digests of the records emitted so far, by name, of a quiescent dispatcher. They grow with the run. Raises the
        error of merging or writing."""
        self._settle()
        self._sinks.settle()
        if self.failure is not None:
            raise self.failure
        return {name: output.digest for name, output in self._outputs.items()}

    def _refresh(self) -> None:
        """Merges what is final by now. Users may ask for that while the run goes on."""
        if self._engine is not None and (
            self._sinks.are_writing_here or (self._rounds and self._rounds.thread.is_here)
        ):
            raise WouldDeadlockError(f"outputs: {WAITS_FOR_ITSELF}: use take()")
        self._settle()

    def _settle(self) -> None:
        """Merges what is final by now. Where a thread merges, this one waits for a round that begins from here on."""
        engine, rounds = self._engine, self._rounds
        if engine is None:
            return
        if rounds is None:
            with interrupts_later():
                self._merge(engine, Until.WATERMARK)
            return
        me, number = threading.get_ident(), self._begun + 1
        try:
            self._inside.threads.append(me)
            rounds.wake()
            self._bell.wait_for(lambda: self._done >= number or self._is_over)
        finally:
            self._inside.threads.remove(me)

    def _round(self, engine: Source, is_woken: bool) -> float | None:
        """A round of the merger's thread. Returns the pause behind it; None: there is a failure."""
        self._begun += 1
        took_s = self._merge(engine, Until.WATERMARK)
        self._done = self._begun
        self._bell.ring()
        if self.failure is not None:
            return None
        before, done = self._merged, (engine.outputs_below, sum(output.records for output in self._outputs.values()))
        self._merged, self._is_asleep = done, done == before and not is_woken
        if self._is_asleep:
            self._pause_s = min(2 * self._pause_s, ASLEEP_S)
        else:
            least_s = MINIMUM_S if done[1] > before[1] else IDLE_S
            self._pause_s = min(max(least_s, TIMES * took_s), MAXIMUM_S)
        return self._pause_s

    def _end_rounds(self, engine: Source, error: BaseException | None) -> None:
        """Merges the rest, at the end of the merger's thread."""
        try:
            if error is not None and self.failure is None:
                self._fail(EngineError(f"the thread that merges outputs ended by {error!r}"))
            if self.failure is None:
                self._merge(engine, Until.FIRST_PENDING if self._until is None else self._until)
            if self.failure is not None:
                self._abort()
        finally:
            self._is_over = True
            self._bell.ring()

    def _merge(self, engine: Source, until: Until) -> float:
        """Merges what is final, and writes it. Returns the seconds that finding the frontier took. One thread does so,
        which no interrupt reaches meanwhile."""
        try:
            if self.failure is None:
                took_ns = engine.settle_outputs(until)
                for number, output in enumerate(self._outputs.values()):
                    self._write(engine, number, output)
                if self._tick_feeds is not None:
                    self._tick_feeds.forget(engine.outputs_below)
                return took_ns / 1e9
        except Exception as error:
            self._fail(error)
        except BaseException:
            # Records that were taken from the engine and not written yet are gone: no sink may look complete.
            self._fail(EngineError("interrupted while records were being merged"))
            raise
        return 0.0

    def _write(self, engine: Source, number: int, output: Output) -> None:
        """Writes an output's merged records to its sinks, in batches."""
        size, memory = output.dtype.itemsize, self._memory[number]
        if output.is_consumed:
            memory.piecewise()
        while True:
            buffer = memory.rest(size + 8)
            capacity = (len(buffer) - 8) // size
            n = self._take(engine, number, buffer, capacity)
            if n:
                memory.use(n * size)
                batch = buffer[: n * size].view(output.dtype)
                output.records += n
                self._sinks.write(number, batch)
            if n < capacity:
                return

    def _take(self, engine: Source, number: int, buffer: npt.NDArray[np.uint8], capacity: int) -> int:
        """Moves up to ``capacity`` records into the buffer, with the column for the feed, if there is one."""
        if self._tick_feeds is None:
            return engine.take_output(number, buffer, capacity)
        size = HEAD_BYTES + self.record_bytes[number]
        if len(self._narrow) < capacity * size + 8:
            self._narrow = np.empty(capacity * size + 8, np.uint8)
        n = engine.take_output(number, self._narrow, capacity)
        if n:
            with_feed(self._narrow[: n * size], n, self._tick_feeds, buffer[: n * (size + FEED.itemsize)])
        return n


def _declared(handlers: Sequence[Handler]) -> dict[str, np.dtype[Any]]:
    """All handlers' outputs by name. Raises ConfigurationError where two of a name have different dtypes."""
    found: dict[str, np.dtype[Any]] = {}
    of: dict[str, str] = {}
    for handler in handlers:
        for name, dtype in handler.emitted:
            if found.setdefault(name, dtype) != dtype:
                raise ConfigurationError(
                    "outputs",
                    f"{name!r} is {dtype} of handler {handler.name!r} and {found[name]} of {of[name]!r}; "
                    "one output needs one dtype",
                )
            of.setdefault(name, handler.name)
    return found
