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

    def settle(self, until: Until) -> int: ...

    def take(self, number: int, buffer: npt.NDArray[np.uint8], capacity: int, /) -> int: ...

    @property
    def below(self) -> int: ...

    @property
    def late(self) -> int: ...

    def stop(self) -> None: ...


class Merger:
    """Merges what participants emit, and writes it to the sinks of outputs. One thread does so: one of its own, or the
    one that emits. An interrupt waits until records in hand have been written, so none is lost.

    Attributes:
        tick_feeds: The feeds of ticks, where records have a column for them; set before the start.
        below: All records of ticks with lower numbers are out, as of the last round. None: there are no outputs.
        late: Records left out, as ``Outputs.late``.
        failure: The first error of merging or of a sink.
    """

    def __init__(self, outputs: Sequence[Output], sinks: Sinks, inside: Inside) -> None:
        self._outputs = outputs
        self._sinks = sinks
        self._inside = inside
        self._source: Source | None = None
        #: The merger's thread.
        self._rounds: Rounds | None = None
        self._is_asleep = False
        self._bell = Bell()
        #: Up to where the rest is merged at the end.
        self._until: Until | None = None
        #: Rounds of the merger's thread that have begun, and that are done; no more come when ``_is_over``.
        self._begun = self._done = 0
        self._is_over = False
        #: Behind the last round: the records that were merged, and the pause.
        self._merged, self._pause_s = 0, IDLE_S
        self.tick_feeds: TickFeeds | None = None
        self._narrow = np.empty(0, np.uint8)
        #: By output, so that a batch which waits to be written keeps a piece of its own output alone.
        self.memory = [Memory(as_one=output.is_collected) for output in outputs]
        self.below = 0 if outputs else None
        self.late = 0
        self.failure: Exception | None = None

    def begin(self, source: Source, allowed: Sequence[int] | None) -> None:
        """Starts merging, in a thread on the cores ``allowed``. None: there is no such thread, and the thread that
        emits calls ``merge``."""
        if self.tick_feeds is not None:
            self._narrow = np.empty(PIECE_BYTES, np.uint8)
            source.count_beside(FEED.itemsize)
        self._source = source
        if allowed is None:
            return
        for output in self._outputs:
            output._refresh = self.refresh
        # If the publisher is pinned, this thread would be so too.
        self._rounds = Rounds(
            partial(self._round, source), IDLE_S, "strand-outputs", ended=partial(self._end_rounds, source),
            allowed=allowed, inside=self._inside,
        )  # fmt: skip
        self._rounds.start()

    def fail(self, error: Exception) -> None:
        """A failure stops the dispatcher. The first one is raised, and has a note of each later one."""
        if self.failure is None:
            self.failure = error
        elif error is not self.failure:
            self.failure.add_note(f"then: {error}")
        if (source := self._source) is not None:
            source.stop()

    def end(self, until: Until) -> None:
        """Merges the rest, and waits until it has been written."""
        if (source := self._source) is None:
            return
        if self._until is None:
            self._until = until
        if self._rounds is None:
            with interrupts_later():
                self._merge(source, self._until)
        else:
            self._rounds.end()
        self._sinks.end_threads()
        self.late = source.late
        self._source = self._rounds = None

    def forget(self) -> None:
        """Forgets the engine in the child of a fork, which has none of the threads: no more is merged, and no sink has
        its end."""
        self._source = None
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
        if self._source is not None:
            self._merge(self._source, Until.END)
        if self.failure is not None:
            raise self.failure

    def refresh(self) -> None:
        """Merges what is final by now. Users may ask for that while the run goes on."""
        if self._source is not None and (
            self._sinks.are_writing_here or (self._rounds and self._rounds.thread.is_here)
        ):
            raise WouldDeadlockError(f"outputs: {WAITS_FOR_ITSELF}: use take()")
        self.settle()

    def settle(self) -> None:
        """Merges what is final by now. Where a thread merges, this one waits for a round that begins from here on."""
        source, rounds = self._source, self._rounds
        if source is None:
            return
        if rounds is None:
            with interrupts_later():
                self._merge(source, Until.WATERMARK)
            return
        me, number = threading.get_ident(), self._begun + 1
        try:
            self._inside.threads.append(me)
            rounds.wake()
            self._bell.wait_for(lambda: self._done >= number or self._is_over)
        finally:
            self._inside.threads.remove(me)

    def _round(self, source: Source, is_woken: bool) -> float | None:
        """A round of the merger's thread. Returns the pause behind it; None: there is a failure."""
        self._begun += 1
        took_s = self._merge(source, Until.WATERMARK)
        self._done = self._begun
        self._bell.ring()
        if self.failure is not None:
            return None
        before, below, merged = self._merged, source.below, sum(output.records for output in self._outputs)
        self._is_asleep = (below, merged) == (self.below, before) and not is_woken
        self.below, self._merged = below, merged
        if self._is_asleep:
            self._pause_s = min(2 * self._pause_s, ASLEEP_S)
        else:
            least_s = MINIMUM_S if merged > before else IDLE_S
            self._pause_s = min(max(least_s, TIMES * took_s), MAXIMUM_S)
        return self._pause_s

    def _end_rounds(self, source: Source, error: BaseException | None) -> None:
        """Merges the rest, at the end of the merger's thread."""
        try:
            if error is not None and self.failure is None:
                self.fail(EngineError(f"the thread that merges outputs ended by {error!r}"))
            if self.failure is None:
                self._merge(source, Until.FIRST_PENDING if self._until is None else self._until)
            if self.failure is not None:  # so no merging begins from here on
                self._sinks.abort(self.fail)
        finally:
            self._is_over = True
            self._bell.ring()

    def _merge(self, source: Source, until: Until) -> float:
        """Merges what is final, and writes it. Returns the seconds that finding the frontier took. One thread does so,
        which no interrupt reaches meanwhile."""
        try:
            if self.failure is None:
                took_ns = source.settle(until)
                for number, output in enumerate(self._outputs):
                    self._write(source, number, output)
                if self.tick_feeds is not None:
                    self.tick_feeds.forget(source.below)
                return took_ns / 1e9
        except Exception as error:
            self.fail(error)
        except BaseException:
            # Records that were taken from the engine and not written yet are gone: no sink may look complete.
            self.fail(EngineError("interrupted while records were being merged"))
            raise
        return 0.0

    def _write(self, source: Source, number: int, output: Output) -> None:
        """Writes an output's merged records to its sinks, in batches."""
        size, memory = output.dtype.itemsize, self.memory[number]
        if output.is_consumed:
            memory.piecewise()
        while True:
            buffer = memory.rest(size + 8)
            capacity = (len(buffer) - 8) // size
            n = self._take(source, number, buffer, capacity)
            if n:
                memory.use(n * size)
                batch = buffer[: n * size].view(output.dtype)
                output.records += n
                self._sinks.write(number, batch)
            if n < capacity:
                return

    def _take(self, source: Source, number: int, buffer: npt.NDArray[np.uint8], capacity: int) -> int:
        """Moves up to ``capacity`` records into the buffer, with the column for the feed, if there is one."""
        if self.tick_feeds is None:
            return source.take(number, buffer, capacity)
        size = HEAD_BYTES + self._outputs[number].declared.itemsize
        if len(self._narrow) < capacity * size + 8:
            self._narrow = np.empty(capacity * size + 8, np.uint8)
        n = source.take(number, self._narrow, capacity)
        if n:
            with_feed(self._narrow[: n * size], n, self.tick_feeds, buffer[: n * (size + FEED.itemsize)])
        return n


class Outputs(Mapping[str, Output]):
    """A dispatcher's outputs by name, and their sinks. ``merger`` fills them.

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
        inside = inside or Inside()
        size_unit = handlers[0].size_unit if handlers else 1.0
        self._outputs = {
            name: Output(name, dtype, paths.get(name, sinks.get(name)), table, inside, size_unit=size_unit)
            for name, dtype in declared.items()
        }
        self._size_unit = size_unit
        self._table = table
        self._escape_formulas = escape_formulas
        self._sinks = Sinks(len(declared), inside)
        # The last are closed first: an iteration ends when all else is complete.
        for output in sorted(self._outputs.values(), key=lambda output: not output.is_collected):
            if output._sink is not None:
                self._sinks.own(output._sink)
        self.merger = Merger(list(self._outputs.values()), self._sinks, inside)
        self._is_started = self._is_finished = self._digesting = False

    def __getitem__(self, name: str) -> Output:
        if name not in self._outputs:
            raise unknown_name("output", name, self._outputs)
        return self._outputs[name]

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

    @property
    def late(self) -> int:
        """Records left out: emitted on a quarantined strand that was released when publishing could not wait for it."""
        return self.merger.late

    # ---- life

    def digest_all(self) -> None:
        """Has records that are collected digested too, as they are merged. Called before the start."""
        assert not self._is_started
        self._digesting = True

    def add_feed_column(self, tick_feeds: TickFeeds) -> None:
        """Gives records a column for the feed of their tick, as ticks come from several feeds. Called before the
        start."""
        assert not self._is_started
        self.merger.tick_feeds = tick_feeds
        for output in self._outputs.values():
            output._set_table(merge=True)

    def start(self, source: Source, *, allowed: Sequence[int] | None) -> None:
        """Opens the files, and starts merging: see ``Merger.begin``.

        Raises FeedError where a file cannot be created. The sinks are then aborted.
        """
        if not self._outputs:
            return
        with interrupts_later():
            try:
                for number, output in enumerate(self._outputs.values()):
                    self._connect(number, output, allowed or ())
            except BaseException:
                self._sinks.abort(self.merger.fail)
                raise
            self._is_started = True
            self.merger.begin(source, allowed)

    def _connect(self, number: int, output: Output, allowed: Sequence[int]) -> None:
        """Opens the output's file, if it has one, and says where its records go.

        A file and a digest take longer than merging: each has a thread where there are cores for several. A user's
        sink always has one, so that all its records come from one thread.
        """
        connect = partial(self._sinks.connect, number, f"strand-{output.name}", self.merger.fail)
        cores = allowed if len(allowed) > 1 else ()
        if self._digesting or not output.is_collected:
            connect(output.digest.add, cores)
        if output.path is not None:
            dtype, unit = merged_dtype(output.declared, merge=self.merger.tick_feeds is not None), self._size_unit
            file = OutputFile(output.path, dtype, self._table, unit, escape_formulas=self._escape_formulas)
            self._sinks.own(file)
            connect(file.write, cores)
        elif output._sink is not None:
            connect(output._sink.write, () if output.is_collected else allowed)

    def finish(self, *, complete: bool, started: bool = True) -> None:
        """Merges the remaining records after the run, then closes all sinks, or aborts them where something failed.

        ``complete``: what is still pending is held back. Else the first pending tick, and all after it, are not final.
        ``started``: False where the start failed: the sinks are aborted. Where an interrupt cuts it short it is called
        again, and goes on.
        """
        if self._is_finished or not self._outputs:
            return
        try:
            self.merger.end(Until.END if complete else Until.FIRST_PENDING)
        except Exception as error:
            self.merger.fail(error)
        with interrupts_later():
            try:
                if started and self._is_started and self.merger.failure is None:
                    self._sinks.close()
            except Exception as error:
                self.merger.fail(error)
            except BaseException:
                self.merger.fail(EngineError("interrupted while outputs were being completed"))
                raise
            finally:
                self._sinks.abort(self.merger.fail)
        for output in self._outputs.values():
            output._refresh = None  # which holds all outputs, and what they have collected
        self.merger.memory.clear()
        self._is_finished = True

    def settled_digests(self) -> Mapping[str, OutputDigest]:
        """Digests of the records emitted so far, by name, of a quiescent dispatcher. They grow with the run. Raises the
        error of merging or writing."""
        self.merger.settle()
        self._sinks.settle()
        if self.merger.failure is not None:
            raise self.merger.failure
        return {name: output.digest for name, output in self._outputs.items()}


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
