"""``strand bench policies --scenario letters``: letters of which most answer themselves, under Fifo and under the
Napoleon preset.

Letters come at random times whether the workers keep up or not (a Poisson process), and the same ones come to both
schedulers. To open one takes a worker for a fixed time, in which it sleeps, as it would for a mail server's answer. So
a load is a share of the workers' time, and neither the GIL nor other programs change it.

Of the letters of level ``low`` a share answers itself, each at a random time within the hold. ``expire_if`` tells both
schedulers so. The result is the number of letters opened, in vain or not, and the peak load: the largest share of all
workers' time that letters took in any second. A letter that was needed and was not opened is an error.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from strand.errors import EngineError
from strand.fixed import dataclass
from strand.options import Number, Whole, named_fields, option, read_options
from strand.policies.policy import LEVELS, Fifo, Levels
from strand.tasks.scheduler import Scheduler, napoleon

#: Of all letters, by level.
SHARES: Final = {"immediate": 0.05, "high": 0.1, "normal": 0.15, "low": 0.7}
#: Of those of level low, how many answer themselves.
ANSWERED: Final = 0.8
#: Over how long the load is looked at, and how far apart, in s.
PEAK_S: Final = 1.0
STEP_S: Final = 0.01

Array = npt.NDArray[Any]


@named_fields
@dataclass(frozen=True, slots=True)
class LettersOptions:
    """Options of the letters.

    Raises:
        ConfigurationError: If a field cannot work; it names the field.
    """

    seconds: float = option(10.0, Number(0, 3600, "s", above=True), "How long letters come.", flag=None)
    load: float = option(
        0.8, Number(0, 100, above=True), "Work that comes, as a multiple of the workers' time.", flag=None
    )
    workers: int = option(2, Whole(1, 1024), "Number of worker threads.", flag=None)
    work_ms: float = option(10.0, Number(0, 1e6, "ms", above=True), "How long it takes to open a letter.")
    hold_ms: int = option(
        2_000, Whole(1, 3_600_000), "Hold of level low under the preset, in ms, in place of its 30 s."
    )
    seed: int = option(1, Whole(0, 2**63), "Seed of the arrivals.", flag=None)

    def __post_init__(self) -> None:
        read_options(self).end()


@dataclass(frozen=True, slots=True)
class LetterLevel:
    """``arrived`` = ``opened`` + ``resolved``, in letters. ``in_vain``: of those opened, how many would have answered
    themselves. Waits in ns, from when a letter was due to when it had been opened; None where none was."""

    arrived: int
    opened: int
    resolved: int
    in_vain: int
    p50_ns: float | None
    p99_ns: float | None


@dataclass(frozen=True, slots=True)
class LettersOutcome:
    """``peak_load``: the largest share of the workers' time that letters took in any second. ``needed``: letters that
    do not answer themselves, all of which were opened."""

    name: str
    levels: Mapping[str, LetterLevel]
    peak_load: float
    needed: int


@dataclass(frozen=True)
class _Letters:
    """Due at ``due_s``, answered at ``answered_s``, which is infinite for what has to be opened."""

    due_s: Array
    levels: Array
    answered_s: Array


def run_letters(
    options: LettersOptions, progress: Callable[[int, int, str], None] | None = None
) -> tuple[dict[str, Any], list[LettersOutcome]]:
    """Sends the same letters to both schedulers; returns what was sent, with the two compared, and the outcomes.

    ``progress`` is called with the runs done, those in all, and what is to come. Raises EngineError where a letter was
    lost.
    """
    letters = _letters(options)
    hold = Levels(hold={"low": f"{options.hold_ms}ms"})
    ways: dict[str, Callable[[], Scheduler]] = {
        "fifo": lambda: Scheduler(options.workers, policy=Fifo()),
        # Without its guard: that measures the machine, and what else runs there would decide.
        "napoleon": lambda: napoleon(workers=options.workers, policy=hold, guard=None),
    }
    found = []
    for done, (name, make) in enumerate(ways.items()):
        if progress is not None:
            progress(done, len(ways), name)
        found.append(_run(name, make(), letters, options))
    fifo, held = found
    low_of_fifo = fifo.levels["low"].opened
    about = {
        "scenario": "letters",
        "seconds": options.seconds,
        "load": options.load,
        "workers": options.workers,
        "work_ms": options.work_ms,
        "hold_ms": options.hold_ms,
        "arrivals": len(letters.due_s),
        "low_opened_of_fifo": round(held.levels["low"].opened / low_of_fifo, 4) if low_of_fifo else None,
        "peak_load_lower": round(1 - held.peak_load / fifo.peak_load, 4),
    }
    return about, found


def _letters(options: LettersOptions) -> _Letters:
    rate = options.load * options.workers / (options.work_ms / 1e3)
    n = max(1, round(rate * options.seconds))
    draw = np.random.default_rng(options.seed)
    due_s = np.cumsum(draw.exponential(1 / rate, n))
    levels = draw.choice([LEVELS.index(level) for level in SHARES], n, p=list(SHARES.values()))
    answers = (levels == LEVELS.index("low")) & (draw.random(n) < ANSWERED)
    within = due_s + draw.random(n) * (options.hold_ms / 1e3)
    return _Letters(due_s, levels, np.where(answers, within, np.inf))


def _run(name: str, scheduler: Scheduler, letters: _Letters, options: LettersOptions) -> LettersOutcome:
    spans: list[tuple[float, float]] = []

    def open_letter() -> float:
        begun = time.monotonic()
        time.sleep(options.work_ms / 1e3)
        ended = time.monotonic()
        spans.append((begun, ended))
        return ended

    with scheduler:
        start = time.monotonic()
        futures = [
            scheduler.options(**_sent(name, start, *letter)).submit(open_letter) for letter in _due(start, letters)
        ]
    opened, resolved = (np.array([future.state == end for future in futures]) for end in ("done", "expired"))
    needed = np.isinf(letters.answered_s)
    lost = ~opened & (needed | ~resolved)
    if lost.any():
        raise EngineError(f"{name}: {int(lost.sum()):,} letters were needed, but were not opened")
    ended_s = [future.result() - start if is_open else np.nan for future, is_open in zip(futures, opened, strict=True)]
    waits_ns = (np.array(ended_s) - letters.due_s) * 1e9
    levels = {level: letters.levels == LEVELS.index(level) for level in SHARES}
    return LettersOutcome(
        name,
        {level: _level(its, opened, needed, waits_ns) for level, its in levels.items()},
        round(_peak(spans, options.workers), 4),
        int(needed.sum()),
    )


def _due(start: float, letters: _Letters) -> Iterator[tuple[int, float]]:
    """The level of each letter and when it is answered, each when it is due."""
    for due_s, level, answered_s in zip(
        letters.due_s.tolist(), letters.levels.tolist(), letters.answered_s.tolist(), strict=True
    ):
        time.sleep(max(0.0, start + due_s - time.monotonic()))
        yield level, answered_s


def _sent(name: str, start: float, level: int, answered_s: float) -> dict[str, Any]:
    """The options of a letter. Fifo has no levels."""
    sent: dict[str, Any] = {"expire_if": lambda: time.monotonic() >= start + answered_s}
    return sent if name == "fifo" else sent | {"priority": LEVELS[level]}


def _level(its: Array, opened: Array, needed: Array, waits_ns: Array) -> LetterLevel:
    mine = its & opened
    p50, p99 = np.percentile(waits_ns[mine], [50, 99]).tolist() if mine.any() else (None, None)
    arrived, n_opened, resolved, in_vain = (int(one.sum()) for one in (its, mine, its & ~opened, mine & ~needed))
    return LetterLevel(arrived, n_opened, resolved, in_vain, p50, p99)


def _peak(spans: Sequence[tuple[float, float]], workers: int) -> float:
    """The largest share of the workers' time in any window of ``PEAK_S``, from which one begins every ``STEP_S``."""
    if not spans:
        return 0.0
    begun, ended = (np.sort(times) for times in np.array(spans).T)
    steps = round(PEAK_S / STEP_S)
    n = steps + int((ended[-1] - begun[0]) / STEP_S) + 2
    times = begun[0] - PEAK_S + STEP_S * np.arange(n + steps)
    until = _since(begun, times) - _since(ended, times)  # the work that was done until each time
    return float((until[steps:] - until[:-steps]).max() / (PEAK_S * workers))


def _since(moments: Array, times: Array) -> Array:
    """Sum, for each time, of the time passed since each earlier moment. The moments are sorted."""
    before = np.searchsorted(moments, times)
    ago: Array = before * times - np.append(0.0, np.cumsum(moments))[before]
    return ago
