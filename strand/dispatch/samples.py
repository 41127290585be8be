"""Samples of a run's figures: a thread puts them into the memory of an attachable run, for those who look from outside.

Ticks are counted in that memory anyway. Samples have the rest: tasks, which Python counts, and what only the run's own
process knows, such as the watermark and the groups of ``Fair``. There are two rings of samples (csrc/memory/samples.h):

- the state now, put each second: the figures of tasks, and a JSON text with the facts;
- the past, put every 5 seconds and kept for 5 minutes: figures of ticks and tasks, for percentiles over a window.
"""

from __future__ import annotations

import json
import time
import weakref
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np
import numpy.typing as npt

from strand.binding.engine import Engine
from strand.binding.engine_words import BUCKETS, HISTOGRAMS, SampleRing
from strand.dispatch.watching import Regular
from strand.logs import Event
from strand.stats import METRICS, TASK_ENDS, TICK_ENDS, FairStatistics
from strand.threads import Inside

if TYPE_CHECKING:
    from strand.tasks.core import Core

T = TypeVar("T")

#: Interval of samples of the state now, and the number of them that are kept.
_NOW_NS: Final = 1_000_000_000
_NOW_SLOTS: Final = 8
#: One of so many is also a sample of the past, and so many of these are kept: 60, and one that may be being written.
_PAST_EVERY: Final = 5
_PAST_SLOTS: Final = 62
#: Seconds that the samples of the past reach back.
PAST_S: Final = 300
#: Bytes of a sample's text.
_TEXT_BYTES: Final = 1 << 15
#: Groups of ``Fair`` that are named, those with the most on-CPU time. Above so many groups none is.
MOST_GROUPS: Final = 32
_TOO_MANY_GROUPS: Final = 1 << 16
#: Strands up to which the watermark is looked for each second, and not every 5.
_FEW_STRANDS: Final = 4096

#: Workers whose busy time is in a sample.
_MOST_WORKERS: Final = 64

_HANDLER: Final = list(HISTOGRAMS).index("handler")

_ENDED: Final = Event(
    "samples.ended",
    ".dispatch",
    "ERROR",
    "the figures of tasks stay as they are now for those who look from outside",
)


def _figures(word: str) -> np.dtype[Any]:
    """Figures of ticks or tasks at a level. ``ended``: in the order of TICK_ENDS or TASK_ENDS; ``times``: histograms in
    the order of HISTOGRAMS."""
    counts = [("started", word), ("promoted", word), ("starved", word), ("ended", word, (len(TASK_ENDS),))]
    return np.dtype([*counts, ("times", word, (len(HISTOGRAMS), BUCKETS))])


def now_dtype(n_levels: int) -> np.dtype[Any]:
    """A sample of the state now. ``at_ns``: the time of ``time.monotonic_ns``; ``text``: JSON of the facts."""
    return np.dtype(
        [
            ("at_ns", "<u8"),
            ("tasks", _figures("<u8"), (n_levels,)),
            ("text_bytes", "<u8"),
            ("text", "u1", (_TEXT_BYTES,)),
        ]
    )


def past_dtype(n_levels: int) -> np.dtype[Any]:
    """A sample of the past. Its counts are modulo 2**32, and so are the differences of two samples. No count has risen
    by more than ``n_ticks``, which is whole."""
    return np.dtype(
        [
            ("at_ns", "<u8"),
            ("n_ticks", "<u8"),
            ("ticks", _figures("<u4"), (n_levels,)),
            ("tasks", _figures("<u4"), (n_levels,)),
        ]
    )


def tick_figures(engine: Any, names: Sequence[str], *, of_tasks: bool) -> npt.NDArray[Any]:
    """The figures of ticks so far by level, the highest first, shape (len(names),). ``engine``: of this process, or
    seen from outside. ``of_tasks``: all that the policy counts is of tasks, so it is not told here."""
    found = np.zeros(len(names), _figures("<u8"))
    for i, name in enumerate(HISTOGRAMS):
        found["times"][:, i] = engine.histogram(name)[: len(names)]
    for row, counts in zip(found, engine.counts_by_level(), strict=False):
        row["started"] = counts["visits"]
        ended = {"failed": counts["failed"]}
        ended["handled"] = int(row["times"][_HANDLER].sum()) - counts["failed"]
        row["ended"][: len(TICK_ENDS)] = [max(0, ended[end]) for end in TICK_ENDS]
    if not of_tasks:
        _add_policy(found, engine)
    return found


def n_counted(figures: npt.NDArray[Any]) -> int:
    """The ticks that figures of them have counted."""
    return int(figures["times"][:, _HANDLER].sum())


def _add_policy(figures: npt.NDArray[Any], engine: Any) -> None:
    """Adds what the policy counts of strands and tasks together."""
    counts = engine.policy_counts()
    for name in ("promoted", "starved"):
        if name in counts:
            figures[name] = counts[name]


def weakly(otherwise: T, function: Callable[..., T], *objects: object) -> Callable[[], T]:
    """A call of a function of objects that does not keep them alive; ``otherwise``: the result when one is gone."""
    refs = tuple(map(weakref.ref, objects))

    def call() -> T:
        found = [ref() for ref in refs]
        return otherwise if any(one is None for one in found) else function(*found)

    return call


class Sampling(Regular):
    """Thread that puts samples, from ``start`` to the end of the run.

    ``names``: of levels, the highest first. ``core``: returns the state of the run's tasks; None: there are none yet.
    ``of_tasks``: the run has tasks alone. ``facts``: returns more that only this process knows, for the text. What has
    this object lives as long as these functions hold it."""

    def __init__(
        self,
        engine: Engine,
        names: Sequence[str],
        *,
        core: Callable[[], Core | None],
        of_tasks: bool,
        facts: Callable[[], Mapping[str, Any]],
        fair: Callable[[], FairStatistics | None],
        allowed: Sequence[int],
        inside: Inside,
    ) -> None:
        super().__init__(engine, _NOW_NS, "strand-samples", allowed=allowed, inside=inside)
        self._names = tuple(names) or ("all",)
        self._core, self._of_tasks = core, of_tasks
        self._facts, self._fair = facts, fair
        self._now = np.zeros(1, now_dtype(len(self._names)))
        self._past = np.zeros(1, past_dtype(len(self._names)))
        engine.outside.keep_samples(SampleRing.NOW, _NOW_SLOTS, self._now)
        engine.outside.keep_samples(SampleRing.PAST, _PAST_SLOTS, self._past)
        self._looks = 0
        self._seldom: dict[str, Any] = {}
        self.put(time.monotonic_ns())

    def _round(self, _: bool) -> float | None:
        core = self._core()
        return None if self._engine.stopping and (core is None or core.table.is_idle()) else super()._go_on()

    def _look(self, now_ns: int) -> None:
        self.put(now_ns)

    def put(self, now_ns: int) -> None:
        """Puts a sample of the state at a time of ``time.monotonic_ns``, which may be one of the past.

        It reads a few hundred counters, and a few thousand every 5 seconds."""
        of_past = self._looks % _PAST_EVERY == 0
        self._looks += 1
        now, engine = self._now, self._engine
        core = self._core()
        now["at_ns"] = now_ns
        if core is not None:
            self._fill_tasks(core, now["tasks"][0])
        if self._of_tasks:
            _add_policy(now["tasks"][0], engine)
        text = self._text(core, of_past)
        now["text_bytes"] = len(text)
        now["text"][0, : len(text)] = np.frombuffer(text, np.uint8)
        engine.outside.put_sample(SampleRing.NOW, now)
        if of_past:
            past = self._past
            past["at_ns"] = now_ns
            if not self._of_tasks:
                ticks = tick_figures(engine, self._names, of_tasks=False)
                past["n_ticks"] = n_counted(ticks)
                _copy(ticks, past["ticks"][0])
            _copy(now["tasks"][0], past["tasks"][0])
            engine.outside.put_sample(SampleRing.PAST, past)

    @staticmethod
    def _fill_tasks(core: Core, figures: npt.NDArray[Any]) -> None:
        for row, counts in zip(figures, core.counts.by_place(), strict=True):
            row["started"] = counts.started
            row["ended"] = [counts.ended[end] for end in TASK_ENDS]
            for times, histogram in zip(row["times"], (counts.wait, counts.handler, counts.end_to_end), strict=True):
                _fill(times, histogram)

    def _text(self, core: Core | None, of_past: bool) -> bytes:
        engine = self._engine
        if of_past:
            self._seldom = self._groups()
        if of_past or engine.config.n_strands <= _FEW_STRANDS:
            self._seldom["watermark"] = None if self._of_tasks else engine.watermark()
        found: dict[str, Any] = {"at": time.time_ns(), **self._facts(), **self._seldom}
        found["busy_ns"] = [
            engine.counters(worker)["busy_ns"] for worker in range(min(engine.n_workers, _MOST_WORKERS))
        ]
        found["own"] = {name: (one.kind, one.value) for name, one in METRICS.copy().items()}
        if core is not None:
            found["tasks"] = core.figures()
        text = json.dumps(found, default=str).encode()
        if len(text) > _TEXT_BYTES:  # very long names
            found["groups"] = []
            text = json.dumps(found, default=str).encode()
        return text if len(text) <= _TEXT_BYTES else b"{}"

    def _groups(self) -> dict[str, Any]:
        fair = self._fair()
        if fair is None:
            return {}
        groups = sorted(fair.groups.items(), key=lambda item: -item[1].on_cpu_ns)
        named = [{"name": name[:200], **asdict(counts)} for name, counts in groups[:MOST_GROUPS]]
        return {"groups": named, "n_groups": len(groups), "cap_holds": fair.cap_holds}

    def _ended(self, error: BaseException | None) -> None:
        try:
            if error is None:
                self.put(time.monotonic_ns())
            else:
                _ENDED(exc_info=error)
        finally:
            if self._of_tasks:  # a dispatcher hides its memory itself
                self._engine.outside.hide()
            # They hold what holds this object.
            self._core, self._facts, self._fair = lambda: None, dict, lambda: None


def _fill(row: npt.NDArray[Any], histogram: Counter[int]) -> None:
    row[:] = 0
    if histogram:
        row[list(histogram)] = list(histogram.values())


def _copy(figures: npt.NDArray[Any], to: npt.NDArray[Any]) -> None:
    """Copies figures of 64 bits into those of a sample of the past, modulo 2**32."""
    for name in to.dtype.names or ():
        to[name] = figures[name].astype(np.uint32)
