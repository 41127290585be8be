"""Ends of tasks: counts of them, of retries and of waiting times, and the tasks that failed for good.

Any thread counts, without a lock. A count is an ``itertools.count``: ``next`` is one atomic step. A count that belongs
to a change is made as ``for _ in count: ...; break``: no interrupt comes between the count and the change in the body.
To read it takes a number too, so a reader subtracts the reads before. A wait is appended to a list, which is one atomic
step too, and a full list is put into its histogram at one go: sorted, so that each bucket is looked up once. NumPy
would give up the GIL for that, and then the worker waits for it again.
"""

from __future__ import annotations

import itertools
import threading
from bisect import bisect_left, bisect_right
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import inf
from typing import Any, Final, TypeVar

import numpy as np

from strand.binding.engine_words import histogram_floors_ns
from strand.brief import brief, several
from strand.dicts import FrozenDict
from strand.errors import ConfigurationError
from strand.fixed import dataclass
from strand.stats import TASK_ENDS, Latency, TaskStatistics
from strand.tasks.future import TaskFuture
from strand.tasks.options import Ranks, TaskOptions

T = TypeVar("T")

#: A list of so many waits is put into its histogram.
MOST_WAITS: Final = 1024


class Count:
    """A number that any thread counts up by ``next(count.numbers)``, which gives 1, 2, and so on, with gaps where
    somebody read it. A read has a lock of its reader's around it."""

    __slots__ = ("_reads", "numbers")

    def __init__(self) -> None:
        self.numbers = itertools.count(1)
        self._reads = 0

    def read(self) -> int:
        """Number of times that it was counted up."""
        self._reads += 1
        return next(self.numbers) - self._reads


class _Waits(dict[Any, list[int]]):
    """Waits in ns by the number that they are counted under: that of the priority, without its lowest ``shift`` bits;
    or by that of the level at which a task began and that of the level with which it was submitted, if they differ. A
    list that is missing is made, or found by the number without these bits."""

    def __init__(self, shift: int) -> None:
        super().__init__()
        self.shift = shift

    def __missing__(self, number: Any) -> list[int]:
        return self.setdefault(number if isinstance(number, tuple) else number >> self.shift, [])


class ByPlace(dict[int, T]):
    """Something for each place by which tasks are counted, by the number of a priority."""

    def __init__(self, ranks: Ranks, places: Sequence[T]) -> None:
        super().__init__()
        self.places = places
        self._place_of = ranks.place_of
        # The others are looked up by ``__missing__``: there may be very many.
        for number in range(len(places)) if ranks.has_levels else (ranks.usual,):
            self[number] = places[ranks.place_of(number)]

    def __missing__(self, number: int) -> T:
        return self.places[self._place_of(number)]


@dataclass(frozen=True, slots=True)
class PlaceCounts:
    """Counts of the tasks of one place, which is a level, a class, or where there are none all tasks.

    ``started``: tasks that began, ``ended``: by the end. ``wait``, ``handler``, ``end_to_end``: how many took how long,
    by bucket; the last two only of a scheduler that counts times."""

    started: int
    ended: Mapping[str, int]
    wait: Counter[int]
    handler: Counter[int]
    end_to_end: Counter[int]


class Counts:
    """The counts of one scheduler's tasks. ``submitted`` numbers the tasks, too. ``timed``: the times from begin to end
    and from submit to end are counted as well as the waits."""

    def __init__(self, ranks: Ranks, *, timed: bool = False) -> None:
        self.submitted = Count()
        self.retries = Count()
        self._ended = {end: [Count() for _ in range(ranks.n_places)] for end in TASK_ENDS}
        #: Numbers that count up the tasks that end so, by the number of a task's priority.
        self.ended = {end: ByPlace(ranks, [c.numbers for c in counts]) for end, counts in self._ended.items()}
        #: By the number of a task's priority the running times and the times from submit to end, in turn, in ns. None:
        #: they are not counted.
        self.times: ByPlace[list[int]] | None = ByPlace(ranks, [[] for _ in range(ranks.n_places)]) if timed else None
        self._times = [(Counter[int](), Counter[int]()) for _ in range(ranks.n_places)]
        self.waits: dict[Any, list[int]] = _Waits(ranks.class_shift)
        #: Tasks that were numbered, and that nobody was given.
        self.refused = Count()
        self._ranks = ranks
        self._floors_ns = histogram_floors_ns()
        #: The upper edge of each bucket.
        self._edges_ns = [*self._floors_ns[1:].tolist(), inf]
        self._histograms: dict[Any, Counter[int]] = {}
        # Reentrant: the garbage collector may run a __del__ that asks for statistics while it is held.
        self._lock = threading.RLock()
        self._folding = False
        if ranks.groups is not None:
            ranks.groups.take_waits = self.take_waits

    def take_waits(self, number: int) -> Counter[int]:
        """The waits of a number's tasks so far, by bucket, which are then forgotten: none of its tasks is left."""
        with self._lock:
            if number in self.waits:
                self._take(number, self.waits[number])
                del self.waits[number]
            return self._histograms.pop(number, Counter())

    def fold(self) -> None:
        """Puts all waits so far into the histograms."""
        with self._lock:
            if self._folding:
                return  # it goes on below, in this thread
            self._folding = True
            try:
                for number, waits in list(self.waits.items()):
                    self._take(number, waits)
                for place, times in enumerate(() if self.times is None else self.times.places):
                    self._take_times(place, times)
            finally:
                self._folding = False

    def _take(self, number: Any, waits: list[int]) -> None:
        """Empties a list of waits into the histogram of its number: all of them, or none where an interrupt comes."""
        n = len(waits)
        histogram = self._with(self._histograms.get(number), waits[:n])
        # No interrupt comes between these lines.
        self._histograms[number] = histogram
        del waits[:n]

    def _take_times(self, place: int, times: list[int]) -> None:
        """The same for the times of a place."""
        n = len(times)
        ran, whole = self._times[place]
        found = self._with(ran, times[:n:2]), self._with(whole, times[1:n:2])
        # No interrupt comes between these lines.
        self._times[place] = found
        del times[:n]

    def _with(self, histogram: Counter[int] | None, times_ns: list[int]) -> Counter[int]:
        """A histogram with more times in it."""
        times_ns.sort()
        found = Counter(histogram)
        begin = 0
        while begin < len(times_ns):
            bucket = bisect_right(self._edges_ns, times_ns[begin])
            end = bisect_left(times_ns, self._edges_ns[bucket], begin)
            found[bucket] += end - begin
            begin = end
        return found

    def totals(self) -> dict[str, int]:
        """Numbers of tasks that were submitted, and have not ended, and of retries."""
        with self._lock:
            refused, retries = self.refused.read(), self.retries.read()
            ended = sum(count.read() for counts in self._ended.values() for count in counts)
            submitted = self.submitted.read() - refused
        return {"submitted": submitted, "pending": submitted - ended, "retries": retries}

    def by_place(self) -> list[PlaceCounts]:
        """The counts of each place."""
        with self._lock:
            ended = {end: [count.read() for count in counts] for end, counts in self._ended.items()}
            self.fold()
            histograms = {number: Counter(counts) for number, counts in self._histograms.items()}
            times = list(self._times)
        waits = self._by_name(histograms, 0).values()
        return [
            PlaceCounts(wait.total(), FrozenDict({end: n[place] for end, n in ended.items()}), wait, *times[place])
            for place, wait in enumerate(waits)
        ]

    def read(self) -> TaskStatistics:
        """All of it. Whatever has an end here is counted as submitted, so ``pending`` is never below 0."""
        with self._lock:
            refused = self.refused.read()
            ended = {end: sum(count.read() for count in counts) for end, counts in self._ended.items()}
            retries = self.retries.read()
            self.fold()
            histograms = {number: Counter(counts) for number, counts in self._histograms.items()}
            submitted = self.submitted.read() - refused
        ranks = self._ranks
        wait: Counter[int] = Counter()
        for waits in self._by_name(histograms, 0).values():
            wait.update(waits)
        by_name, by_submitted = (self._by_name(histograms, which) if ranks.names else {} for which in (0, 1))
        if ranks.groups is not None:
            by_name = ranks.groups.waits(histograms)
        return TaskStatistics(
            submitted=submitted,
            ended=FrozenDict(ended),
            pending=submitted - sum(ended.values()),
            retries=retries,
            wait=self._latency(wait),
            wait_by_priority=FrozenDict({name: self._latency(waits) for name, waits in by_name.items()}),
            wait_by_submitted=FrozenDict(
                {name: self._latency(waits) for name, waits in by_submitted.items() if ranks.has_levels}
            ),
        )

    def _by_name(self, histograms: Mapping[Any, Counter[int]], which: int) -> dict[str, Counter[int]]:
        """Waits by the level or class of the tasks: when they began (0), or were submitted (1). Where there are none,
        all of them."""
        ranks = self._ranks
        names = ranks.names or ("",)
        found: dict[str, Counter[int]] = {name: Counter() for name in names}
        if ranks.groups is not None:
            for waits in ranks.groups.waits(dict(histograms)).values():
                found[""].update(waits)
            return found
        for number, waits in histograms.items():
            at = number[which] if isinstance(number, tuple) else number
            found[names[ranks.place_of(at << ranks.class_shift)]].update(waits)
        return found

    def _latency(self, waits: Counter[int]) -> Latency:
        counts = np.zeros(len(self._floors_ns), np.uint64)
        for bucket, n in waits.items():
            counts[bucket] = n
        return Latency.from_histogram(counts, self._floors_ns)


@dataclass(frozen=True, slots=True, repr=False)
class DeadLetter:
    """A task that failed after its last retry.

    Attributes:
        task_id: The id of its future.
        function: The function that was called.
        args: The positional arguments of the call.
        kwargs: The keyword arguments of the call.
        error: The last exception.
        attempts: How often the function was called.
        died_ns: When the task failed, in ns of the scheduler's clock (``time.monotonic_ns``).
        options: The task's options, which ``DeadLetters.put_back`` gives to the new task.
    """

    task_id: int
    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    error: BaseException
    attempts: int
    died_ns: int
    options: TaskOptions

    def __repr__(self) -> str:
        function = getattr(self.function, "__qualname__", type(self.function).__name__)
        attempts = several(self.attempts, "attempt")
        return brief(self, f"task {self.task_id}", function, attempts, type(self.error).__name__)


class DeadLetters:
    """The dead letters that are kept, the oldest first. They live in memory only.

    ``len`` counts them, and iteration goes over a copy.

    Attributes:
        maximum: The greatest number of letters kept, at least 0. The oldest go first.
        dropped: How many letters went.
    """

    def __init__(self, maximum: int, submit: Callable[[TaskOptions, Any, tuple[Any, ...], dict[str, Any]], TaskFuture]):
        self.maximum = maximum
        self.dropped = 0
        self._submit = submit
        self._lock = threading.RLock()
        self._letters: OrderedDict[int, DeadLetter] = OrderedDict()

    def __repr__(self) -> str:
        return brief(self, f"{len(self):,} kept", f"{self.dropped:,} dropped")

    def __len__(self) -> int:
        return len(self._letters)

    def __iter__(self) -> Iterator[DeadLetter]:
        with self._lock:
            return iter(list(self._letters.values()))

    def add(self, letter: DeadLetter) -> None:
        """Keeps a letter, and drops the oldest one if there are too many."""
        with self._lock:
            self._letters[letter.task_id] = letter
            while len(self._letters) > self.maximum:
                self._letters.popitem(last=False)
                self.dropped += 1

    def put_back(self, letter: DeadLetter) -> TaskFuture:
        """Submits a dead letter again, as a new task with its options.

        The deadline counts from now, and all retries are there again. The task belongs to the group of the caller, not
        to the letter's former group. It raises what ``submit`` raises, too; the letter is kept then.

        Args:
            letter: A letter that is kept here.

        Returns:
            The future of the new task.

        Raises:
            ConfigurationError: If the letter is not kept here.
        """
        if not isinstance(letter, DeadLetter):
            raise ConfigurationError("letter", f"{letter!r} is not a dead letter; iterate over dead_letters")
        with self._lock:
            if self._letters.get(letter.task_id) is not letter:
                raise ConfigurationError(
                    "letter",
                    f"the one of task {letter.task_id} is not here any more (put back, cleared or let go), or "
                    "belongs to another scheduler",
                )
            del self._letters[letter.task_id]
        try:
            return self._submit(letter.options, letter.function, letter.args, letter.kwargs)
        except BaseException:
            with self._lock:
                self._letters[letter.task_id] = letter
                self._letters.move_to_end(letter.task_id, last=False)
            raise

    def clear(self) -> int:
        """Drops all letters.

        Returns:
            How many letters were dropped.
        """
        with self._lock:
            found = len(self._letters)
            self._letters.clear()
            return found
