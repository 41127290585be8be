"""Policies of csrc/schedule by themselves, and what each has to do, written down in Python (of Fair: fair_model.py)."""

from __future__ import annotations

import atexit
import ctypes
import functools
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

SUPPORT = Path(__file__).resolve().parent
CSRC = SUPPORT.parent.parent / "csrc"
TRIAL = SUPPORT / "policy.c"
STRICT = ("-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter")
NONE = 2**32 - 1
FIFO, LEVELS, AGING, FAIR = 0, 1, 2, 3
#: Why a strand is listed.
WAS_EMPTY, VISITED, NOT_VISITED, DEFERRED = range(4)
#: What a look does with the deferred list.
NONE_DEFERRED, LEAVE_DEFERRED, TAKE_DEFERRED = range(3)
NAMES = ("immediate", "high", "retry", "normal", "low")
IMMEDIATE, HIGH, RETRY, NORMAL, LOW = range(5)
#: Resources, and marks: of a set of either, the bits.
CPU, MEMORY, IO = 1, 2, 4
MARK_IO, MARK_FREES_MEMORY = 1, 2


class LevelsConfig(ctypes.Structure):
    _fields_ = (("timeout_ns", ctypes.c_uint64 * 5), ("since_listed", ctypes.c_int32))


class AgingConfig(ctypes.Structure):
    _fields_ = (
        ("coefficient", ctypes.c_double * 3),
        ("max_wait_ns", ctypes.c_uint64),
        ("n_classes", ctypes.c_uint32),
        ("low_every", ctypes.c_uint32),
    )


class FairConfig(ctypes.Structure):
    _fields_ = (
        ("slice_ns", ctypes.c_uint64),
        ("burst_ns", ctypes.c_uint64),
        ("cpu_share", ctypes.c_double),
        ("n_groups", ctypes.c_uint32),
    )


class Config(ctypes.Structure):
    _fields_ = (
        ("number", ctypes.c_int32),
        ("slack_ns", ctypes.c_uint64),
        ("levels", LevelsConfig),
        ("aging", AgingConfig),
        ("fair", FairConfig),
        ("others", ctypes.c_uint64 * 32),  # the options of policies that have no mirror here, as zeros
    )


class LongStretch(ctypes.Structure):
    _fields_ = (("strand", ctypes.c_uint32), ("times", ctypes.c_uint32), ("longest_ns", ctypes.c_uint64))


class GroupCounts(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_uint64) for name in ("on_cpu_ns", "slice_ends", "long_stretches", "longest_ns"))


class FairCounts(ctypes.Structure):
    _fields_ = (("holds", ctypes.c_uint64), ("long_stretches", ctypes.c_uint64), ("longest", LongStretch * 16))


class Counts(ctypes.Structure):
    _fields_ = (
        ("promoted", ctypes.c_uint64 * 5),
        ("starved", ctypes.c_uint64 * 5),
        ("picked", ctypes.c_uint64 * 3),
        ("picked_low", ctypes.c_uint64),
        ("picked_late", ctypes.c_uint64),
        ("n_classes", ctypes.c_uint32),
    )


def levels(timeouts: Sequence[int], since_listed: bool = False, slack: int = 0) -> Config:
    return Config(LEVELS, slack, LevelsConfig((ctypes.c_uint64 * 5)(*timeouts), since_listed))


def fair(slice_ns: int, burst_ns: int = 1, cpu_share: float = 0.0) -> Config:
    return Config(FAIR, 0, LevelsConfig(), AgingConfig(), FairConfig(slice_ns, burst_ns, cpu_share))


def build(folder: Path, *, changed: tuple[str, str] | None = None, file: str = "*.c", csrc: Path = CSRC) -> ctypes.CDLL:
    """The policies as a library; ``changed``: with a text that one of their files, or ``file``, has once exchanged."""
    sources, library = sorted((csrc / "schedule").glob("*.c")), folder / "policies.so"
    if changed is not None:
        found = [
            source for source in sources for _ in range(source.read_text().count(changed[0])) if source.match(file)
        ]
        assert len(found) == 1, changed[0]
        sources.remove(found[0])
        wrong = folder / found[0].name
        wrong.write_text(found[0].read_text().replace(*changed))
        _compile(csrc, "-w", "-o", library, wrong, *(_objects() / f"{source.stem}.o" for source in [*sources, TRIAL]))
    else:
        _compile(csrc, *STRICT, "-o", library, TRIAL, *sources)
    built = ctypes.CDLL(str(library))
    built.trial_new.restype = ctypes.c_void_p
    for name in ("next", "length", "peek", "hold"):
        getattr(built, f"trial_{name}").restype = ctypes.c_uint32
    built.trial_due.restype = ctypes.c_uint64
    return built


def _compile(csrc: Path, *words: str | Path, cwd: Path | None = None) -> None:
    compiler = shutil.which("cc")
    assert compiler is not None, "a C compiler"
    subprocess.run([compiler, "-std=gnu11", "-O1", "-shared", "-fPIC", f"-I{csrc}", *words], check=True, cwd=cwd)


@functools.cache
def _objects() -> Path:
    """A folder with the policies as they are, compiled once: a variant changes one of them."""
    folder = Path(tempfile.mkdtemp(prefix="policies-"))
    atexit.register(shutil.rmtree, folder)
    _compile(CSRC, "-w", "-c", TRIAL, *(CSRC / "schedule").glob("*.c"), cwd=folder)
    return folder


class Trial:
    """A policy that runs, with lists of workers, and the deferred one behind them. Times are in ns."""

    def __init__(self, built: ctypes.CDLL, config: Config, lists: int, strands: int, tasks: int = 0) -> None:
        self.lists, self.strands = lists, strands + tasks
        self._c = built
        self._t = ctypes.c_void_p(built.trial_new(ctypes.byref(config), lists, strands, tasks))

    def close(self) -> None:
        self._c.trial_free(self._t)

    def ready(self, at: int, strands: Sequence[int], why: int, now: int) -> None:
        array = (ctypes.c_uint32 * len(strands))(*strands)
        self._c.trial_ready(self._t, at, array, len(strands), why, ctypes.c_uint64(now))

    def next(self, own: int, now: int, deferred: int = NONE_DEFERRED) -> int | None:
        strand = self._c.trial_next(self._t, own, deferred, ctypes.c_uint64(now))
        return None if strand == NONE else int(strand)

    def renew(self, task: int, priority: int) -> None:
        self._c.trial_renew(self._t, task, priority)

    def over(self, task: int) -> None:
        self._c.trial_over(self._t, task)

    def leave(self, strand: int) -> bool:
        """Takes a strand off its list, and tells whether it was on one."""
        return bool(self._c.trial_leave(self._t, strand))

    def rose(self, task: int, *, taken: bool = False) -> int | None:
        """The level to which a task has risen."""
        level = int(self._c.trial_rose(self._t, task, int(taken)))
        return level - 1 if level else None

    def risen(self) -> list[int]:
        more = (ctypes.c_int64 * 5)()
        self._c.trial_risen(self._t, more)
        return list(more)

    def close_group(self, group: int) -> bool:
        return bool(self._c.trial_close_group(self._t, group))

    def returned(self, *, everything: bool = False) -> list[tuple[int, tuple[int, ...]]]:
        """The groups that are taken back, and what was counted of each."""
        numbers, counts = (ctypes.c_uint32 * 8)(), (GroupCounts * 8)()
        n = self._c.trial_returned(self._t, 8, int(everything), numbers, counts)
        return [(numbers[i], tuple(getattr(counts[i], name) for name, _ in GroupCounts._fields_)) for i in range(n)]

    def prioritise(self, strand: int, priority: int, for_backlog: bool, now: int) -> bool:
        """Sets a priority, and tells whether the policy has such a one."""
        return bool(self._c.trial_prioritise(self._t, strand, priority, int(for_backlog), ctypes.c_uint64(now)))

    def mark(self, strand: int, marks: int) -> None:
        self._c.trial_mark(self._t, strand, marks)

    def hold(self, resources: int, now: int) -> int:
        return int(self._c.trial_hold(self._t, resources, ctypes.c_uint64(now)))

    def length(self, at: int) -> int:
        """Strands of a list that may be taken."""
        return int(self._c.trial_length(self._t, at))

    def peek(self, at: int, i: int) -> int | None:
        strand = self._c.trial_peek(self._t, at, i)
        return None if strand == NONE else int(strand)

    def counts(self) -> tuple[list[int], list[int]]:
        counts = self._counts()
        return list(counts.promoted), list(counts.starved)

    def picked(self) -> tuple[list[int], int, int]:
        """Strands taken by class, and those of them that were taken for ``low_every`` and for ``max_wait``."""
        counts = self._counts()
        return list(counts.picked), counts.picked_low, counts.picked_late

    def _counts(self) -> Counts:
        counts = Counts()
        self._c.trial_counts(self._t, ctypes.byref(counts))
        return counts

    def retime(self, timeouts: Sequence[int]) -> None:
        self._c.trial_retime(self._t, (ctypes.c_uint64 * 5)(*timeouts))

    def weigh(self, group: int, thousandths: int) -> bool:
        return bool(self._c.trial_weigh(self._t, group, thousandths))

    def charge(self, strand: int, on_cpu_ns: int) -> None:
        self._c.trial_charge(self._t, strand, ctypes.c_uint64(on_cpu_ns))

    def due(self, now: int) -> int:
        """Time of the next look. 0: the options say when. 2**64 - 1: the next look comes when a strand is listed."""
        return int(self._c.trial_due(self._t, ctypes.c_uint64(now)))

    def fair_counts(self) -> tuple[int, int, dict[int, tuple[int, int]]]:
        """Times that the cap held the pool, long stretches, and by strand how many of them and the longest, in ns."""
        counts = FairCounts()
        self._c.trial_group_counts(self._t, 0, None, ctypes.byref(counts))
        found = {s.strand: (s.times, s.longest_ns) for s in counts.longest if s.times}
        return counts.holds, counts.long_stretches, found

    def groups(self, n: int) -> list[tuple[int, int, int, int]]:
        """Of each of the first n groups the on-CPU time, in ns, how often it used up its slice, how many stretches were
        longer than one, and the longest of these, in ns."""
        groups = (GroupCounts * n)()
        self._c.trial_group_counts(self._t, n, groups, ctypes.byref(FairCounts()))
        return [(g.on_cpu_ns, g.slice_ends, g.long_stretches, g.longest_ns) for g in groups]

    def listed(self) -> list[int]:
        """Number of entries of each strand in the lists."""
        times = (ctypes.c_uint32 * self.strands)()
        for at in range(self.lists + 1):
            assert self._c.trial_count(self._t, at, times), "a list is damaged"
        return list(times)


@dataclass
class _Waiting:
    strand: int
    level: int
    listed: int
    entered: int
    since: int
    began: int
    #: Of two that entered a level at one time, those that were listed in it come before those that rose into it, and
    #: then it goes by their marks.
    order: tuple[int, int, int]
    counted: bool = False


@dataclass
class LevelsModel:
    """Model of `Levels`, without regard to speed."""

    lists: int
    timeouts: Sequence[int]
    since_listed: bool
    slack: int
    own: dict[int, int] = field(default_factory=dict)
    raised: dict[int, int] = field(default_factory=dict)
    raised_at: dict[int, int] = field(default_factory=dict)
    waiting: list[list[_Waiting]] = field(default_factory=list)
    promoted: list[int] = field(default_factory=lambda: [0] * 5)
    starved: list[int] = field(default_factory=lambda: [0] * 5)
    taken: dict[int, _Waiting] = field(default_factory=dict)
    marks: dict[int, int] = field(default_factory=dict)
    short: int = 0
    let_go: dict[int, int] = field(default_factory=dict)
    _turn: int = 0

    def __post_init__(self) -> None:
        self.waiting = [[] for _ in range(self.lists)]

    def level(self, strand: int) -> int:
        return min(self.own.get(strand, NORMAL), self.raised.get(strand, LOW))

    def ready(self, at: int, strands: Sequence[int], why: int, now: int) -> None:
        for strand in strands:
            if why == WAS_EMPTY and self.raised_at.get(strand, 0) <= now:
                self.raised.pop(strand, None)
            level, back = self.level(strand), self.taken.get(strand) if why == NOT_VISITED else None
            if back is None:
                back = _Waiting(strand, level, now, now, now, level, self._listed(strand))
            elif level < back.level:
                back.level, back.entered, back.since, back.order = level, now, now, self._listed(strand)
            else:
                back.order = (*back.order[:2], -self._next())
            self.waiting[at].append(back)

    def next(self, own: int, now: int) -> int | None:
        turns = [(own + i) % self.lists for i in range(self.lists)]
        for at in turns:
            self._rise(at, now)
        first, where = None, own
        for at in turns:
            found = min(self.free(at), key=lambda w: (w.level, w.entered, w.order), default=None)
            if found is not None and (
                first is None
                or found.level < first.level
                or (found.level == first.level and found.entered + self.slack < first.entered)
            ):
                first, where = found, at
        if first is None:
            return None
        self.waiting[where].remove(first)
        self.taken[first.strand] = first
        if first.began != IMMEDIATE and not first.counted and now - first.listed > 2 * self.timeouts[first.began]:
            first.counted = True
            self.starved[first.began] += 1
        return first.strand

    def retime(self, timeouts: Sequence[int]) -> None:
        self.timeouts = timeouts

    def prioritise(self, strand: int, level: int, for_backlog: bool, now: int) -> None:
        before = self.level(strand)
        (self.raised if for_backlog else self.own)[strand] = level
        if for_backlog:
            self.raised_at[strand] = now
        to = self.level(strand)
        for waiting in self.waiting:
            for w in waiting:
                if w.strand == strand and (to < w.level or to > before):
                    w.level, w.entered, w.since = to, now, now
                    w.order = self._listed(strand)

    def mark(self, strand: int, marks: int) -> None:
        self.marks[strand] = marks

    def hold(self, resources: int, now: int) -> int:
        self.let_go |= {resource: now for resource in (CPU, MEMORY, IO) if self.short & ~resources & resource}
        self.short = resources
        for at in range(self.lists):
            self._rise(at, now)
        everything = [w for waiting in self.waiting for w in waiting]
        return sum(
            resource
            for resource, let_go in self.let_go.items()
            if not resources & resource
            and any(self._waits_for(w, resource) and w.entered <= let_go for w in everything)
        )

    def free(self, at: int) -> list[_Waiting]:
        """Those of a list that are not held back."""
        return [w for w in self.waiting[at] if not self._is_held(w)]

    def _is_held(self, w: _Waiting) -> bool:
        if self.short & MEMORY and self.marks.get(w.strand, 0) & MARK_FREES_MEMORY:
            return False
        return any(self.short & resource and self._waits_for(w, resource) for resource in (CPU, MEMORY, IO))

    def _waits_for(self, w: _Waiting, resource: int) -> bool:
        marks, rose = self.marks.get(w.strand, 0), w.order[0]
        if resource == CPU:
            return w.level == LOW
        if resource == MEMORY:
            return w.level >= RETRY and not marks & MARK_FREES_MEMORY
        return bool(marks & MARK_IO) and not rose

    def _rise(self, at: int, now: int) -> None:
        due = [w for w in self.waiting[at] if w.level != IMMEDIATE and w.since + self.timeouts[w.level] <= now]
        for w in sorted(due, key=lambda w: (w.level, w.entered, w.order)):
            self.promoted[w.level] += 1
            w.level, w.entered, w.order = w.level - 1, now, (1, self.marks.get(w.strand, 0), self._next())
            if not self.since_listed:
                w.since = now

    def _listed(self, strand: int) -> tuple[int, int, int]:
        return 0, self.marks.get(strand, 0), self._next()

    def _next(self) -> int:
        self._turn += 1
        return self._turn
