"""Recorded files and a live line as one feed: the files at full speed, then the line, without a loss or a repetition.

The line is received from the start, so that nothing is missed while the files play. Its ticks wait in memory, and
beyond a bound in a temporary file. Sequence numbers say which of them the files had.
"""

from __future__ import annotations

import collections
import contextlib
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Unpack

import numpy as np
import numpy.typing as npt

from strand.background import Background
from strand.brief import listed
from strand.errors import ConfigurationError, FeedError, GapError, TruncatedFeedError
from strand.feeds.base import (
    BaseFeed,
    Feed,
    FeedInfo,
    LineNumbers,
    Skipped,
    TickBatch,
    as_base,
    batches_from,
    skipped_of,
)
from strand.feeds.io.files import Frames, Paths
from strand.feeds.io.sources import temporary
from strand.feeds.live.mold import GAP
from strand.feeds.live.options import JoinOptions
from strand.feeds.merge.feeds import SymbolRemap
from strand.feeds.opening import open as open_feed
from strand.options import named_options
from strand.threads import Bell
from strand.ticks import KIND_STATUS, TICK, empty

__all__ = ["JoinedFeed", "join"]

#: The most ticks of a batch that waited.
_BATCH: Final = 65_536
_LOST: Final = "are neither in the recording nor on the line"
_ON_FULL_DISK: Final = "keep more of it in memory (memory_bytes=)"
#: Bytes after which another file begins, at least: a file whose ticks were taken is given back.
_LEAST_FILE: Final = 1 << 26
#: The time between two looks at a recording that is still being written, s.
_LOOK_S: Final = 0.02
#: How long an empty batch takes to come where nothing happens, s.
_SLICE_S: Final = 0.1
#: The most by which the clocks of a recorder and of a line's receiver differ, ns.
_SKEW_NS: Final = 5_000_000_000
#: Ranges of ticks' numbers beyond which they are none of a line.
_MOST_RANGES: Final = 100_000

Range = tuple[int, int]
#: Of a symbol and kind: the recording's latest number (0 where the line goes on) and its time, the time of the tick
#: before the recording's numbers fell, and the line's latest number.
_LAST: Final = np.dtype([("number", "i8"), ("ns", "i8"), ("fell_ns", "i8"), ("of_line", "i8")])


class _Seen:
    """The numbers of a line, as its ticks show them: for a feed that does not say them of its messages."""

    def __init__(self, path: str) -> None:
        self._path, self._first, self._next = path, 0, 0
        self._missing: list[Range] = []

    def add(self, sequences: npt.NDArray[np.int64]) -> None:
        """Notes the numbers of ticks. Raises FeedError for numbers that do not rise by one."""
        if not len(sequences):
            return
        self._first = self._first or int(sequences[0])
        before = np.concatenate(([self._next or int(sequences[0])], sequences[:-1] + 1))
        for at in np.flatnonzero(sequences > before).tolist():
            self._missing.append((int(before[at]), int(sequences[at])))
        self._next = max(self._next, int(sequences[-1]) + 1)
        if len(self._missing) > _MOST_RANGES:
            raise FeedError("the numbers of its ticks do not rise by one: join by='rising'", path=self._path)

    @property
    def numbers(self) -> LineNumbers | None:
        return LineNumbers(self._first, self._next, self._missing) if self._next else None


class _Arrivals:
    """The ticks of a live feed, which a thread receives, in order: in memory, and beyond a bound in a file.

    Attributes:
        info: The description by which names of symbols are those of the recording.
        symbols: The names of the live feed, as far as its ticks have come.
        first, reached: The number of the line's first message, and of the latest tick that has come; 0: none.
        arrived, taken: The number of ticks that have come, and of those that were taken.
        most_bytes: The most bytes that have waited.
        is_over, error: Whether the live feed has ended, and by which error.
        asks, numbers: Whether the line's numbers are wanted, and what they were some time after that, or at the end.
    """

    def __init__(self, live: Feed, info: FeedInfo, memory_bytes: int, disk_bytes: int, *, notes: bool) -> None:
        self.live, self._memory_bytes, self._disk_bytes = live, memory_bytes, disk_bytes
        #: True while the numbers of a line are to be known by its ticks.
        self._notes = notes
        self.info, self.locates = info, bool(getattr(live, "locates", False))
        self.symbols: list[str] = []
        self.first = self.reached = self.most_bytes = self.arrived = self.taken = 0
        self.is_over = self.asks = False
        self.error: BaseException | None = None
        self.numbers: LineNumbers | None = None
        self.seen = _Seen(live.info.path)
        self._named = np.zeros(1, np.bool_)
        self.bell = Bell()
        #: Runs of ticks, by their number, and between them times up to which the clock has gone.
        self._runs: collections.deque[tuple[int, int | None]] = collections.deque()
        #: Files of ticks with the bytes of each, the oldest first; the place in that one; the bytes that wait in all.
        self._files: collections.deque[tuple[Any, int]] = collections.deque()
        self._read_at = self._waiting = 0
        self._thread = Background(self._receive, self._ended, "strand live line")

    # of the feed that SymbolRemap sees

    @property
    def max_symbols(self) -> int:
        return self.live.max_symbols

    # of its user

    def start(self) -> None:
        self._thread.start()
        self._thread.put(True)

    def wait(self, is_so: Callable[[], bool], seconds: float) -> bool:
        """Waits until something is so of what has come."""
        return self.bell.wait_for(lambda: is_so() or self.is_over, seconds)

    @property
    def has_some(self) -> bool:
        return bool(self._runs)

    def take(self) -> tuple[TickBatch, int | None] | None:
        """The next ticks, or no tick and the time that has passed; None: nothing waits."""
        with self.bell:
            if not self._runs:
                return None
            n, passed = self._runs.popleft()
            file, size = self._files[0] if n else (None, 0)
            ticks = empty(min(n, _BATCH, (size - self._read_at) // TICK.itemsize))
            if n > len(ticks):
                self._runs.appendleft((n - len(ticks), None))
            if file is not None:
                with temporary("what waits of the line", _ON_FULL_DISK):
                    file.seek(self._read_at)  # writes what a full disk refused before
                read = file.readinto(ticks)
                self._read_at, self._waiting = self._read_at + read, self._waiting - read
                self.taken += len(ticks)
                if self._read_at == size:
                    self._files.popleft()
                    self._read_at = 0
                    file.close()
        self.bell.ring()
        return ticks, passed

    def end(self) -> None:
        """Ends the live feed, and waits for its thread."""
        getattr(self.live, "stop", self.live.close)()
        self._disk_bytes = 1 << 62  # the thread waits for no room any more
        self.bell.ring()
        self._thread.end(now=False)
        self._thread.join()

    def drop(self) -> None:
        """Forgets what waits."""
        with self.bell:
            self._runs.clear()
            for file, _ in self._files:
                with contextlib.suppress(OSError):  # a full disk: what could not be written is given up
                    file.close()
            self._files.clear()
            self._read_at = self._waiting = 0

    # in its thread

    def _receive(self, _: bool) -> bool:
        try:
            for batch in self.live.batches():
                if len(batch):
                    self._learn(batch["instrument_id"])
                    self._add(batch)
                elif (passed := as_base(self.live).passed_ns) is not None:
                    self._add_time(passed)
                if self.asks:
                    self._tell_numbers()
        finally:
            self._tell_numbers()
        return False

    def _tell_numbers(self) -> None:
        """Tells the line's numbers, once: this thread alone may ask a receiver for them."""
        self.asks = False
        self.numbers = self.numbers or as_base(self.live).line_numbers() or self.seen.numbers

    def _learn(self, ids: npt.NDArray[np.uint32]) -> None:
        """Notes the names of symbols: the feed's own table must not be read while it receives."""
        if (most := int(ids.max()) + 1) > len(self._named):
            self._named = np.concatenate((self._named, np.zeros(most, np.bool_)))
        if (named := self._named[ids]).all():
            return
        names, symbols = self.live.symbols, self.symbols
        for own_id in np.unique(ids[~named]).tolist():
            name = names[own_id] if own_id < len(names) else ""
            if name:
                symbols.extend([""] * (own_id + 1 - len(symbols)))
                symbols[own_id] = name
                self._named[own_id] = True

    def _add(self, batch: TickBatch) -> None:
        sequences, size = batch["sequence"].astype(np.int64), batch.nbytes
        numbers = None if self.first else as_base(self.live).line_numbers()
        self._notes = self._notes and numbers is None
        if self._notes:
            self.seen.add(sequences)
        self.bell.wait_for(lambda: not self._waiting or self._waiting + size <= self._disk_bytes)
        with self.bell:
            if not self._files or self._files[-1][1] >= max(4 * self._memory_bytes, _LEAST_FILE):
                self._files.append((tempfile.SpooledTemporaryFile(self._memory_bytes), 0))  # noqa: SIM115
            file, written = self._files[-1]
            with temporary("what waits of the line", _ON_FULL_DISK):
                file.seek(written)
                file.write(batch.tobytes())
                file.flush()
            self._files[-1] = file, written + size
            self._waiting += size
            self.most_bytes = max(self.most_bytes, self._waiting)
            before = self._runs.pop() if self._runs and self._runs[-1][1] is None else (0, None)
            self._runs.append((before[0] + len(batch), None))
            # Their readers hold no lock, and take what waits up to here: it has to be there first. Who sees one of
            # these sees those above it.
            self.reached = max(self.reached, int(sequences[-1]))
            self.first = self.first or (int(sequences[0]) if numbers is None else numbers.first)
            self.arrived += len(batch)
        self.bell.ring()

    def _add_time(self, passed: int) -> None:
        with self.bell:
            if self._runs and self._runs[-1][1] is not None:
                self._runs.pop()
            self._runs.append((0, passed))
        self.bell.ring()

    def _ended(self, error: BaseException | None) -> None:
        self.error, self.is_over = error, True
        self.bell.ring()


class _Line:
    """Numbers of a line's messages: those of the recording, those that came, and those that neither had.

    Attributes:
        last: The number of the latest message whose ticks were given.
        unmet: Ranges in which the line had come no further, or had not begun, when the recording had gone on.
        is_live: Whether the recording has been played.
    """

    def __init__(self, recorded: Feed, arrivals: _Arrivals) -> None:
        self._recorded, self._live, self._arrivals = as_base(recorded), as_base(arrivals.live), arrivals
        self._seen = _Seen(recorded.info.path)
        self.last, self.is_live = 0, False
        self.unmet: list[Range] = [(0, 0)]

    def add(self, sequences: npt.NDArray[np.int64]) -> None:
        """Notes the numbers of the recording's ticks, unless it says those of its messages. Raises FeedError."""
        if self._recorded.line_numbers() is None:
            self._seen.add(sequences)

    @property
    def recorded(self) -> LineNumbers | None:
        """The numbers of the recording."""
        return self._recorded.line_numbers() or self._seen.numbers

    @property
    def is_met(self) -> bool:
        """True if the line began no later than the recording ended."""
        numbers, first = self.recorded, self._arrivals.first
        return not first or numbers is None or first <= numbers.next

    def gaps(self) -> list[Range]:
        """Ranges [from, to) that neither had."""
        recorded, live = self.recorded, self._live.line_numbers() or self._arrivals.seen.numbers
        missing = [] if recorded is None else list(recorded.missing)
        if live is not None and live.first and self.is_live:
            begun = live.first if recorded is None else recorded.next
            missing.append((begun, max(live.next, begun)))
        return self._without_line(missing, live)

    def _without_line(self, missing: list[Range], live: LineNumbers | None) -> list[Range]:
        """Ranges of numbers without those that came of the line in time."""
        if live is None or not live.first:
            return missing
        end = live.next if self.is_live else min(live.next, self.last + 1)
        return _without(missing, _without([(live.first, end)], [*live.missing, *self.unmet]))

    def tell_holes(self, recorded: LineNumbers | None) -> LineNumbers | None:
        """Tells of messages within the recording that it and the line lack, once the line has come beyond it. Returns
        the recording's numbers until then."""
        if recorded is None:
            return None
        if (live := self._arrivals.numbers) is None:
            self._arrivals.asks |= self._arrivals.reached >= recorded.next
            return recorded
        if holes := self._without_line(list(recorded.missing), live):
            named = [f"{low:,} to {end - 1:,}" if end - low > 1 else f"{low:,}" for low, end in holes]
            GAP(text=f"messages {listed(named)} {_LOST}", symbol=None, missing=sum(end - low for low, end in holes))
        return None

    def look_at_gap(self, number: int, *, raises: bool) -> None:
        """Tells of messages between the recording and the line, which goes on with a number. Raises GapError."""
        numbers, first = self.recorded, self._arrivals.first
        if numbers is not None and first > numbers.next:
            GAP(text=f"messages {numbers.next:,} to {first - 1:,} {_LOST}", symbol=None, missing=first - numbers.next)
            if raises:
                raise GapError(
                    f"the recording ends with message {numbers.next - 1:,}, and the line begins with {first:,}: begin "
                    "to listen earlier, or record for longer; on_gap='continue' goes on behind the gap",
                    path=self._live.info.path,
                    gaps=((numbers.next, first),),
                )
        self.last = number


class _Latest:
    """The latest numbers of symbols that have numbers of their own, or whose kinds of ticks have (``by="rising"``).

    Attributes:
        begun_anew: How many times numbers have begun anew behind the recording.
        gaps: Of each symbol, the range that neither had.
    """

    def __init__(self, by: str, remap: SymbolRemap) -> None:
        self._by, self._remap = by, remap
        #: By symbol, and kind where they have numbers of their own.
        self._last_of = np.zeros((1, KIND_STATUS + 1), _LAST)
        self._recorded_ns = 0  # the latest time of the recording's ticks
        self.begun_anew, self.gaps = 0, list[tuple[str, int, int]]()

    def note(self, made: TickBatch) -> None:
        """Notes the latest numbers and times of the recording's ticks."""
        self._recorded_ns = max(self._recorded_ns, int(made["ts_event"].max()))
        (ids, kinds), known = self._keys(made), made["sequence"] > 0
        numbers, times = made["sequence"][known].astype(np.int64), made["ts_event"][known]
        key, last_of = (ids[known], kinds[known]), self._last_of
        before = last_of[key]
        last_of["number"][key], last_of["ns"][key] = numbers, times
        now = last_of["number"][key]
        last_of["fell_ns"][key] = np.where(before["number"] > now, before["ns"], before["fell_ns"])
        fell = numbers > now  # a lower one has come behind it
        last_of["fell_ns"][key[0][fell], key[1][fell]] = times[fell]

    def new(self, made: TickBatch) -> TickBatch:
        """Ticks of the line without those that the recording had."""
        keys = self._keys(made)
        if not (latest := self._last_of["number"][keys]).any():
            return made
        numbers = made["sequence"].astype(np.int64)
        # Only the venue's times compare: those of receipt are of two clocks.
        times, fell_ns = made["ts_event"], self._last_of["fell_ns"][keys]
        is_before_fall = (times != made["ts_recv"]) & (times > 0) & (times <= fell_ns)
        is_higher = (numbers > latest) & ~is_before_fall
        is_new = (numbers == 0) | is_higher | self._are_anew(made, keys, numbers)
        begins = np.flatnonzero(is_new & (latest > 0) & (numbers > 0))
        if len(begins):
            first = np.full(self._last_of.shape, len(made))
            backwards = begins[::-1]  # the last one stays: it is the first
            first[keys[0][backwards], keys[1][backwards]] = backwards
            is_new |= np.arange(len(made)) >= first[keys]
        for at in begins.tolist():
            key = keys[0][at], keys[1][at]
            last, number = int(self._last_of["number"][key]), int(numbers[at])
            if not last:
                continue
            self._last_of["number"][key] = 0  # from here on the line goes on by itself
            name = self._remap.names[int(made["instrument_id"][at])]
            if number <= last:
                self.begun_anew += 1
                GAP(text=f"{name}: numbers begin anew with {number:,}, behind {last:,}", symbol=name, missing=0)
            elif self._by == "symbol" and number > last + 1:
                self.gaps.append((name, last + 1, number))
                lost = f"{name}: messages {last + 1:,} to {number - 1:,} {_LOST}"
                GAP(text=lost, symbol=name, missing=number - last - 1)
        return made if is_new.all() else made[is_new]

    def _are_anew(
        self, made: TickBatch, keys: tuple[npt.NDArray[Any], npt.NDArray[Any]], numbers: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.bool_]:
        """Mask of the line's ticks that the recording cannot have, whatever their numbers: those of later events.

        Times of receipt are of two clocks: there it is a much later one, or a number that falls within the line.
        Without times, only the fall tells.
        """
        late_ns = made["ts_event"] - self._recorded_ns
        key = np.ravel_multi_index(keys, self._last_of.shape)
        order = np.flatnonzero(numbers)
        order = order[np.argsort(key[order], kind="stable")]
        before = np.concatenate(([0], numbers[order[:-1]])) if len(order) else order
        first = np.append(True, np.diff(key[order]) != 0)[: len(order)]
        before[first] = self._last_of["of_line"][keys][order[first]]
        falls = np.zeros(len(made), np.bool_)
        falls[order] = numbers[order] < before
        known = numbers > 0
        self._last_of["of_line"][keys[0][known], keys[1][known]] = numbers[known]
        own, timed = made["ts_event"] != made["ts_recv"], self._recorded_ns > 0
        much_later = timed & (late_ns > _SKEW_NS)
        return known & np.where(own & timed, late_ns > 0, much_later | (falls & (late_ns >= 0)))

    def _keys(self, made: TickBatch) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Places of ticks in ``_last_of``: by symbol, and by kind where each kind has numbers of its own."""
        ids = made["instrument_id"].astype(np.int64)
        kinds = made["kind"].astype(np.int64) if self._by == "rising" else np.zeros(len(made), np.int64)
        last_of = self._last_of
        if (most := int(ids.max()) + 1) > len(last_of):
            self._last_of = np.zeros((max(most, 2 * len(last_of)), KIND_STATUS + 1), _LAST)
            self._last_of[: len(last_of)] = last_of
        return ids, kinds


class _Relay:
    """Gives the ticks of a recording, and behind them those of a line, each once.

    Attributes:
        passed_ns: See ``BaseFeed``.
        recorded_ticks, live_ticks: The number of ticks that were given of each.
        repeated: The number of ticks of the line that the recording had.
        is_stopped: Whether somebody has stopped the feed.
    """

    def __init__(self, recorded: Feed, arrivals: _Arrivals, options: JoinOptions, by: str) -> None:
        self._recorded, self._arrivals, self._options, self._by = recorded, arrivals, options, by
        parts: Sequence[Any] = (recorded, arrivals)
        self.remap = SymbolRemap(parts, venue_in_name=False, max_symbols=None)
        self.line, self.latest = _Line(recorded, arrivals), _Latest(by, self.remap)
        self.passed_ns: int | None = None
        self.is_stopped = False
        self.recorded_ticks = self.live_ticks = self.repeated = 0
        #: Ticks of the line that were taken and not given yet.
        self._ahead: TickBatch = empty(0)
        self._waits_until: float | None = None
        #: Ticks that were given, with the ticks of the line that were taken by then.
        self._marks: collections.deque[tuple[int, int]] = collections.deque()
        self._handled, self._asks = 0, False

    def handled(self, done: int) -> int:
        """Number of the line's ticks that are handled, if the first ``done`` ticks that were given are."""
        with self._arrivals.bell:
            self._asks = True
            while self._marks and self._marks[0][0] <= done:
                self._handled = self._marks.popleft()[1]
        return self._handled

    def _mark(self) -> None:
        with self._arrivals.bell:
            if not self._asks:
                self._marks.clear()  # nobody acknowledges: the latest one is enough
            self._marks.append((self.recorded_ticks + self.live_ticks, self._arrivals.taken))

    def play(self) -> Iterator[TickBatch]:
        """The recording, and what it got while the line had not begun where it ended."""
        while True:
            fault: FeedError | None = None
            sizes = _sizes(self._recorded)
            try:
                for batch in batches_from(self._recorded, self.recorded_ticks):
                    self.passed_ns = as_base(self._recorded).passed_ns
                    if len(batch):
                        yield from self._with_line(batch)
                    else:
                        yield batch
                    if self.is_stopped:
                        return
            except TruncatedFeedError as error:  # it may still be written
                fault = error
            self.passed_ns = None
            while not (self._arrivals.arrived or self._arrivals.is_over or self.is_stopped):
                self._arrivals.wait(lambda: self._arrivals.has_some, _SLICE_S)
                if (taken := self._arrivals.take()) is not None:  # time, or the line's first ticks
                    self._ahead, self.passed_ns = taken
                yield empty(0)
            self.passed_ns = None
            while True:
                if self.is_stopped or self._by != "line" or self.line.is_met or self._patience() <= 0:
                    if fault is not None and not self._arrivals.first and not self.is_stopped:
                        raise fault
                    return
                time.sleep(_LOOK_S)
                yield empty(0)
                if not sizes or _sizes(self._recorded) != sizes:
                    break

    def _patience(self) -> float:
        """Seconds left to wait for either feed to come as far as the other."""
        now = time.monotonic()
        if self._waits_until is None:
            self._waits_until = now + self._options["wait_s"]
        return self._waits_until - now

    def _with_line(self, batch: TickBatch) -> Iterator[TickBatch]:
        """A batch of the recording; where it lacks messages, the line's ticks of these."""
        sequences = batch["sequence"].astype(np.int64)
        n, made = len(batch), self.remap.renumbered(0, batch)
        self.recorded_ticks += n
        if self._by != "line":
            self.latest.note(made)
            yield made
            return
        (line := self.line).add(sequences)
        before = np.concatenate(([line.last], sequences[:-1]))
        first, at = self._arrivals.first, 0
        if not first:
            line.unmet[0] = 0, int(sequences[-1]) + 1
        else:
            for hole in np.flatnonzero((before > 0) & (sequences > before + 1) & (sequences > first)).tolist():
                if at < hole:
                    yield made[at:hole]
                at, low, high = hole, int(before[hole]) + 1, int(sequences[hole])
                line.last = low - 1
                if self._arrivals.reached < high and self._patience() > 0:
                    self._arrivals.wait(lambda: self._arrivals.reached >= high, self._patience())  # noqa: B023
                reached = self._arrivals.reached
                yield from self._line_up_to(low, high)
                if reached < high:  # more may have come while that was given
                    line.unmet.append((max(reached, line.last) + 1, high))
        line.last = int(sequences[-1])
        yield made[at:]

    def _line_up_to(self, begin: int, end: int) -> Iterator[TickBatch]:
        """The line's ticks of messages from a number to before another, as far as they have come."""
        while True:
            if not len(self._ahead):
                if (taken := self._arrivals.take()) is None:
                    return
                self._ahead = taken[0]  # the recording tells the time as long as it plays
            numbers = self._ahead["sequence"]
            old, new = np.searchsorted(numbers, [begin, end]).tolist()
            part, self._ahead = self._ahead[old:new], self._ahead[max(old, new) :]
            self.repeated += old
            if len(part):
                self.line.last = int(part["sequence"][-1])
                self.live_ticks += len(part)
                yield self.remap.renumbered(1, part)
            if len(self._ahead):
                return

    def go_live(self) -> Iterator[TickBatch]:
        """The line behind the recording. Raises GapError."""
        line, joined = self.line, self._by != "line"
        line.is_live = True
        numbers = None if joined else line.recorded
        while True:
            numbers = line.tell_holes(numbers)
            if not len(self._ahead):
                taken = self._arrivals.take()
                if taken is None:
                    if self._arrivals.is_over and not self._arrivals.has_some:
                        line.tell_holes(numbers)
                        return
                    if not self._arrivals.wait(lambda: self._arrivals.has_some, _SLICE_S):
                        yield empty(0)
                    continue
                self._ahead, self.passed_ns = taken
                if not len(self._ahead):
                    yield self._ahead
                    continue
            part, self._ahead = self._ahead, empty(0)
            if not joined:
                old = int(np.searchsorted(part["sequence"], line.last + 1))
                self.repeated += old
                part = part[old:]
                if joined := len(part) > 0:
                    line.look_at_gap(int(part["sequence"][0]), raises=self._options["on_gap"] == "raise")
                else:
                    self._mark()
            if len(part):
                self.passed_ns = None
                new = self.remap.renumbered(1, part)
                if self._by != "line":
                    new = self.latest.new(new)
                self.repeated += len(part) - len(new)
                self.live_ticks += len(new)
                self._mark()
                if len(new):
                    yield new


class JoinedFeed(BaseFeed):
    """Plays recorded ticks, and goes on with a live feed where they end.

    Args:
        recorded: The recorded feed.
        live: The live feed.
        options: The options of ``join``.
    """

    is_live = True

    def __init__(self, recorded: Feed, live: Feed, options: JoinOptions) -> None:
        super().__init__()
        self.recorded, self.writes = recorded, as_base(live).writes
        self.live: Any = live
        is_line = as_base(live).line_numbers() is not None or as_base(recorded).line_numbers() is not None
        self._by = options["by"] or ("line" if is_line else "rising")
        _check_day(recorded.info, live.info, self._by)
        own, theirs = recorded.info, live.info
        info = replace(theirs, date=theirs.date or own.date, venue=theirs.venue or own.venue)
        self._arrivals = _Arrivals(live, info, options["memory_bytes"], options["disk_bytes"], notes=self._by == "line")
        self._relay = _Relay(recorded, self._arrivals, options, self._by)
        self._started = self._is_closed = False
        #: Ticks of batches behind which another one was asked for: a caller without a run has handled these.
        self._passed_on = 0
        self.follow(lambda: 0, lambda: self._passed_on)

    @property
    def info(self) -> FeedInfo:
        """Description of the live feed."""
        return as_base(self.live).info

    @property
    def symbols(self) -> Sequence[str]:
        return self._relay.remap.names

    @property
    def max_symbols(self) -> int:
        return self._relay.remap.max_symbols

    @property
    def reads(self) -> Sequence[str]:
        return (*as_base(self.recorded).reads, *as_base(self.live).reads)

    @property
    def skipped(self) -> Skipped:
        """Records that either feed skipped."""
        own, theirs = skipped_of(self.recorded), skipped_of(self.live)
        return Skipped(own.counts + theirs.counts, [*own.samples, *theirs.samples])

    @skipped.setter
    def skipped(self, own: Skipped) -> None:
        """Each feed has its own."""

    def live_counts(self) -> Mapping[str, Any]:
        return as_base(self.live).live_counts()

    def follow(self, published: Callable[[], int], handled: Callable[[], int]) -> None:
        del published
        relay, arrivals = self._relay, self._arrivals
        as_base(self.live).follow(lambda: arrivals.arrived, lambda: relay.handled(handled()))

    def statistics(self) -> dict[str, int]:
        """The live feed's counts; ``recorded_ticks``, ``live_ticks`` and ``repeated_ticks`` (of the line, which the
        recording had); ``gap_messages`` that neither had; ``begun_anew``: symbols and kinds of tick whose numbers fell
        where the line goes on."""
        theirs, relay = dict(self.live.statistics()), self._relay
        missing = sum(end - first for first, end in self.gaps()) + sum(e - f for _, f, e in relay.latest.gaps)
        if self._by != "line":
            missing += theirs.get("gap_messages", 0)
        return {
            **theirs, "gap_messages": missing, "recorded_ticks": relay.recorded_ticks, "live_ticks": relay.live_ticks,
            "repeated_ticks": relay.repeated, "begun_anew": relay.latest.begun_anew,
        }  # fmt: skip

    def gaps(self) -> list[Range]:
        """Ranges [from, to) of the line's numbers that neither the recording nor the line had. Call it when the feed
        has ended. Empty unless the numbers are those of a line."""
        return self._relay.line.gaps() if self._by == "line" else []

    def report(self) -> dict[str, Any]:
        """Report of the feed: its counts, ``gaps`` as [from, to) ranges, ``symbol_gaps`` as (symbol, from, to), the
        most bytes that waited, and whether the line was reached (``is_live``). The line has its own in ``live``."""
        relay = self._relay
        return {
            "recorded": self.recorded.info.path,
            "is_live": relay.line.is_live,
            "recorded_ticks": relay.recorded_ticks,
            "live_ticks": relay.live_ticks,
            "repeated_ticks": relay.repeated,
            "gaps": self.gaps(),
            "symbol_gaps": relay.latest.gaps,
            "most_bytes": self._arrivals.most_bytes,
        }

    def stop(self) -> None:
        """Ends the iteration under way, or the next. Any thread or a signal may call it."""
        self._relay.is_stopped = True
        getattr(self.live, "stop", self.live.close)()

    def close(self) -> None:
        """Ends both feeds. May be repeated."""
        self.stop()
        if self._started and not self._is_closed:
            self._arrivals.end()
            self._arrivals.drop()
        self._is_closed = True
        super().close()
        self.recorded.close()
        self.live.close()

    def batches(self) -> Iterator[TickBatch]:
        """Yields batches of ticks; the first one is empty. The feed can be iterated once.

        Each error comes after every tick before it.

        Raises:
            GapError: If messages between the recording and the line are missing, with ``on_gap="raise"``.
            FeedError: What either feed raises.
        """
        if self._started:
            raise FeedError("a live feed can be read once", path=self.info.path)
        self._started, relay = True, self._relay
        self._arrivals.start()
        try:
            yield empty(0)
            for part in (relay.play(), relay.go_live()):
                for batch in part:
                    self.passed_ns = relay.passed_ns
                    yield batch
                    self._passed_on += len(batch)
                if relay.is_stopped:
                    break
            if self._arrivals.error is not None and not relay.is_stopped:
                raise self._arrivals.error
        finally:
            self._arrivals.end()


def _check_day(own: FeedInfo, theirs: FeedInfo, by: str) -> None:
    """Raises ConfigurationError for a recording of another day than the line."""
    days = {part["date"] for part in own.details.get("feeds", ())} or {own.date}
    if by == "line" and theirs.date is not None and (days - {theirs.date, None} or len(days) > 1):
        raise ConfigurationError(
            "recorded",
            f"its day is {own.date or 'more than one'}, and that of the line is {theirs.date}: numbers of a line "
            "begin anew each day; give the files of the line's day, or date=",
        )


def _sizes(feed: Feed) -> list[int]:
    """The sizes of a recording's files, by which it is read again only when it has grown; empty if it is none."""
    try:
        return [Path(path).stat().st_size for path in as_base(feed).reads]
    except OSError:
        return []


def _without(ranges: Sequence[Range], others: Sequence[Range]) -> list[Range]:
    """The numbers of some ranges that are in none of others."""
    found = []
    others = sorted(others)
    for first, end in sorted(ranges):
        for low, high in others:
            if high <= first:
                continue
            if low >= end:
                break
            if first < low:
                found.append((first, low))
            first = max(first, high)
        if first < end:
            found.append((first, end))
    return found


@named_options("join()", declares=JoinOptions)
def join(recorded: Paths | Frames | Feed, live: Feed, **options: Unpack[JoinOptions]) -> JoinedFeed:
    """Joins recorded files and a live line: the files play at full speed, then the line goes on without a gap.

    The line is received from the first batch on. Its ticks that the files had are left out by their sequence numbers.
    Messages that neither had are counted, and reported as ranges. The files may still be written, as by
    ``strand listen --record`` of another process.

    Args:
        recorded: What ``strand.feeds.open`` takes, or a feed that ends.
        live: A live feed, which nobody else reads.

    Raises:
        ConfigurationError: If an option cannot work, or the files are of another day than the line.
        FeedError: If a file cannot be read.
    """
    if isinstance(recorded, Feed):
        return JoinedFeed(recorded, live, options)
    feed, day = open_feed(recorded), live.info.date
    if feed.info.undated and day is not None:
        feed.close()
        feed = open_feed(recorded, date=day)
    try:
        return JoinedFeed(feed, live, options)
    except BaseException:
        feed.close()
        raise
