"""Replaying at a pace: ticks are handed on when they are due, and by how much they were late is known."""

from __future__ import annotations

import math
from _thread import start_new_thread
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from strand.binding import live
from strand.brief import brief, several
from strand.errors import ConfigurationError
from strand.fixed import dataclass
from strand.stats import Latency
from strand.threads import Bell, Clock, installed
from strand.validate import is_number, whole

#: Length of a wait before it checks whether the pace has been changed, or a signal has come.
_SLICE_NS: Final = 20_000_000
#: A sleeper wakes some tens of us late: so much earlier it is woken, and watches the clock.
_SPIN_NS: Final = 100_000
_FAR: Final = float(1 << 62)

Ticks = npt.NDArray[Any]


class SystemClock:
    """CLOCK_MONOTONIC: sleeps without the GIL until shortly before, then watches the clock."""

    def now_ns(self) -> int:
        return live.now_ns()

    def wait_until(self, time_ns: int) -> None:
        live.wait_until(time_ns, _SPIN_NS)


@dataclass(frozen=True, slots=True, repr=False)
class Pacing:
    """Figures of how well a pace was kept.

    Ticks that ``step`` let through were never due and are not counted.

    Attributes:
        speed: The last speed that was set.
        lateness: The time from when a tick was due to when it was handed on, counted once per tick. The maximum is
            exact where it is above what the clock resolves.
        late: How many of these ticks were more than ``late_after_ns`` behind.
        late_after_ns: From how many ns on a tick counts as late.
        waited_s: Seconds spent waiting for ticks to be due, or paused.
    """

    speed: float
    lateness: Latency
    late: int
    late_after_ns: int
    waited_s: float

    def __repr__(self) -> str:
        return brief(self, f"speed {self.speed:g}", f"{self.late:,} of {several(self.lateness.count, 'tick')} late")

    def as_dict(self) -> dict[str, Any]:
        """Plain numbers, for JSON."""
        percentiles = {f"p{p:g}_ns": ns for p, ns in self.lateness.percentiles.items()}
        return {
            "speed": self.speed,
            "ticks": self.lateness.count,
            "late": self.late,
            "late_after_ns": self.late_after_ns,
            "lateness": percentiles | {"max_ns": self.lateness.maximum_ns},
            "waited_s": self.waited_s,
        }


class _Pace(NamedTuple):
    """Pace at which ticks are let through. It is replaced as a whole: an interrupt comes before that, or behind it.

    ``anchor``: this receive time is due at this time of the clock. ``step_ticks``, ``step_until``: what steps still
    have to let through.
    """

    speed: float
    paused: bool
    anchor: tuple[int, int] | None = None
    step_ticks: int = 0
    step_until: int | None = None


class Pacer:
    """Lets ticks through when they are due, for ``replay(pacer=...)``.

    The first tick is due at once. Each other is due after it by the difference of their ``ts_recv`` divided by
    ``speed``, whatever became of those before it. Ticks that are due together stay together. A tick whose time runs
    back is due at once.

    ``pause``, ``resume``, ``step``, ``wait`` and ``speed`` may be used from any thread, also during a replay. A pacer
    serves one replay at a time. Each replay starts its schedule and its counts anew.

    Args:
        speed: 1 is as recorded, 10 ten times as fast, 0 as fast as possible.
        late_after_ns: A tick counts as late if it is handed on more than this many ns after it was due.
        paused: Start paused.
        clock: The clock to use. None takes the system's, or the one that replaces it when the pacer is made
            (``strand.testing.Clock``).

    Raises:
        ConfigurationError: If ``speed`` is below 0 or not a finite number, or ``late_after_ns`` is not a whole number
            from 0.
    """

    def __init__(
        self, speed: float = 1.0, *, late_after_ns: int = 1_000_000, paused: bool = False, clock: Clock | None = None
    ) -> None:
        self._pace = _Pace(_checked(speed), paused)
        self._late_after_ns = whole("late_after_ns", late_after_ns, 0)
        self._clock: Clock = clock or installed() or SystemClock()
        self._bell = Bell()
        #: Names the replay that it serves, if it serves one.
        self._replay: object | None = None
        #: True while a replay rests: it is over, or paused with nothing left that may pass.
        self._resting = False
        self._reset()

    def __repr__(self) -> str:
        return brief(self, f"speed {self.speed:g}", "paused" if self.paused else "")

    def _reset(self) -> None:
        book, pace = live.Book(), self._pace._replace(anchor=None)
        self._book, self._pace = book, pace
        self._waited_ns = self._ticks = 0
        self._time_ns: int | None = None
        #: Of the batch at hand: times received, when they are due, and the anchor and the speed that this goes by.
        self._times = self._due = np.empty(0, np.int64)
        self._due_at: tuple[tuple[int, int] | None, float] | None = None

    # ---- from any thread

    @property
    def speed(self) -> float:
        """The pace. Setting it continues from where the replay stands."""
        return self._pace.speed

    @speed.setter
    def speed(self, speed: float) -> None:
        speed = _checked(speed)
        self._change(lambda pace: self._held(pace)._replace(speed=speed))

    @property
    def paused(self) -> bool:
        """True while the pace is paused."""
        return self._pace.paused

    @property
    def ticks(self) -> int:
        """Number of ticks that have been let through."""
        return self._ticks

    @property
    def time_ns(self) -> int | None:
        """The latest receive time of the ticks let through, None before the first."""
        return self._time_ns

    def pause(self) -> None:
        """Lets nothing through from now on. A publish under way goes to its end."""
        self._change(lambda pace: self._held(pace)._replace(paused=True, step_ticks=0, step_until=None))

    def resume(self) -> None:
        """Continues after a pause: each remaining tick is due later by the length of the pause."""
        self._change(self._resumed)

    def step(self, *, ticks: int | None = None, until: int | None = None) -> None:
        """Lets some more ticks through at once, and pauses. Give either ``ticks`` or ``until``.

        The ticks that an earlier step still has to let through come on top. The call returns at once; ``wait`` waits
        until the step is done.

        Args:
            ticks: How many ticks to let through.
            until: A receive time in ns since the epoch: lets through all ticks received until then.

        Raises:
            ConfigurationError: If not exactly one of both is given, or it is not a whole number from 0.
        """
        if (ticks is None) == (until is None):
            raise ConfigurationError("step: give either ticks= or until=")
        ticks = None if ticks is None else whole("ticks", ticks, 0)
        until = None if until is None else whole("until", until, 0)

        def stepping(pace: _Pace) -> _Pace:
            bounds = [bound for bound in (pace.step_until, until) if bound is not None]
            return self._held(pace)._replace(
                paused=True, step_ticks=pace.step_ticks + (ticks or 0), step_until=max(bounds, default=None)
            )

        self._change(stepping)

    def wait(self, timeout_s: float | None = None) -> bool:
        """Waits until the replay is over, or is paused and all that may pass has been published.

        Args:
            timeout_s: How many seconds to wait at most. None waits without end.

        Returns:
            False if the time passed first.
        """
        return self._bell.wait_for(lambda: self._resting, timeout_s)

    def statistics(self) -> Pacing:
        """Returns how well the last replay kept the pace. Read it when that replay has ended, or rests."""
        lateness = Latency.from_histogram(self._book.counts(), self._book.floors_ns())
        resolution_ns = live.resolution_ns() if isinstance(self._clock, SystemClock) else 0.0
        # The percentile's bucket may reach beyond what was ever seen.
        highest = max(float(self._book.furthest_ns), resolution_ns)
        percentiles = {p: max(min(ns, highest), resolution_ns) for p, ns in lateness.percentiles.items()}
        lateness = replace(lateness, percentiles=percentiles, maximum_ns=highest, resolution_ns=resolution_ns)
        return Pacing(self.speed, lateness, self._book.late, self._late_after_ns, self._waited_ns / 1e9)

    # ---- from the replay's thread

    @contextmanager
    def serving(self) -> Iterator[None]:
        """Serves a replay within the block, from a new schedule on.

        Raises:
            ConfigurationError: If another replay is using the pacer.
        """
        me = object()
        try:
            with self._bell:
                if self._replay is not None:
                    raise ConfigurationError("pacer", "another replay is using it; give each replay a pacer of its own")
                self._reset()
                self._replay, self._resting = me, False
            yield
        finally:
            try:
                self._end(me)
            except BaseException:
                start_new_thread(self._end, (me,))  # where no signal interrupts it
                raise

    def _end(self, replay: object) -> None:
        with self._bell:
            if self._replay is replay:
                self._replay, self._resting = None, True
        self._bell.ring()

    def begin(self, batch: Ticks) -> None:
        """Takes the next batch, when that before it has been published."""
        times: npt.NDArray[np.int64] = np.maximum.accumulate(np.ascontiguousarray(batch["ts_recv"]))
        if self._time_ns is not None:
            np.maximum(times, np.int64(self._time_ns), out=times)
        self._times, self._due_at = times, None

    def release(self, at: int, end: int) -> int:
        """Waits until the tick at a place of the batch is due, when those before it have been published. Returns the
        place up to which ticks may be published now, ``end`` at most."""
        times = self._times
        while True:
            until = None
            with self._bell:
                before = pace = self._pace
                to, now = at, self._clock.now_ns()
                if pace.paused:
                    to, pace = _stepped(pace, times[:end], at)
                elif pace.speed == 0:
                    to = end
                else:
                    if pace.anchor is None:
                        pace = pace._replace(anchor=(int(times[at]), now))
                    if self._due_at != (pace.anchor, pace.speed):
                        self._due_at, self._due = (pace.anchor, pace.speed), _due(pace, times)
                    to = min(end, max(at, int(np.searchsorted(self._due, now, side="right"))))
                    if to == at:
                        until = min(int(self._due[at]), now + _SLICE_NS)
                ticks, time_ns = self._ticks + to - at, int(times[to - 1]) if to else self._time_ns
                if self._pace is not before:  # a signal handler has come, and changed it
                    continue
                self._pace, self._ticks, self._time_ns = pace, ticks, time_ns
                self._resting = to == at and until is None
                if to > at and not pace.paused and pace.speed:
                    self._book.note(self._due[at:to], now, self._late_after_ns)
            if to > at:
                return to
            if until is not None:
                self._clock.wait_until(until)
                self._waited_ns += self._clock.now_ns() - now
            else:
                self._rest()

    def _rest(self) -> None:
        """Paused: waits for a word, though not so long that an interrupt has to."""
        self._bell.ring()
        begun = self._clock.now_ns()
        self._bell.wait_for(lambda: not self._resting, _SLICE_NS / 1e9)
        self._waited_ns += self._clock.now_ns() - begun

    def _held(self, pace: _Pace) -> _Pace:
        """The pace that holds on to where the schedule stands now, for a pause or another speed."""
        if pace.paused or pace.anchor is None:
            return pace
        received, clock_ns = pace.anchor
        now = self._clock.now_ns()
        reached = received + int((now - clock_ns) * pace.speed)
        return pace._replace(anchor=(max(reached, self._time_ns or 0), now))

    def _resumed(self, pace: _Pace) -> _Pace:
        anchor = pace.anchor
        if pace.paused and anchor is not None:
            anchor = (max(anchor[0], self._time_ns or 0), self._clock.now_ns())
        return _Pace(pace.speed, False, anchor)

    def _change(self, changed: Callable[[_Pace], _Pace]) -> None:
        """Puts another pace in place of this one. A signal handler may do that too, in the middle of it."""
        with self._bell:
            before, after = None, self._pace
            while self._pace is not before:
                before = self._pace
                after = changed(before)
            self._pace, self._resting = after, False
        self._bell.ring()


def _due(pace: _Pace, times: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Due time of each receive time; exact to 1 ns up to a hundred days after the schedule was last anchored."""
    assert pace.anchor is not None
    received, clock_ns = pace.anchor
    after = (times - np.int64(received)).view(np.int64) / pace.speed
    return np.ceil(np.clip(after, -_FAR, _FAR)).astype(np.int64) + clock_ns


def _stepped(pace: _Pace, times: npt.NDArray[np.int64], at: int) -> tuple[int, _Pace]:
    """Position that steps reach from ``at``, and the pace behind them."""
    end = min(at + pace.step_ticks, len(times))
    pace = pace._replace(step_ticks=pace.step_ticks - (end - at))
    if pace.step_until is not None:
        bound = np.int64(min(pace.step_until, 2**63 - 1))
        end = max(end, int(np.searchsorted(times, bound, side="right")))
    return end, pace


def _checked(speed: float) -> float:
    if not is_number(speed) or not 0 <= speed < math.inf:
        raise ConfigurationError("speed", f"{speed!r} is not a number from 0 (as fast as it goes) up")
    return float(speed)
