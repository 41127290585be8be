"""Fair: what comes next, held against a model of it in Python step by step, and what it promises over made-up time."""

from __future__ import annotations

import ctypes
import heapq
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

import pytest
from fair_model import FairModel
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from policies import NOT_VISITED, VISITED, WAS_EMPTY, Trial, build, fair

from examples import examples

#: The C under test is built here, without the checks of make asan.
pytestmark = pytest.mark.python

N_STRANDS, N_GROUPS, N_LISTS = 5, 3, 2
SLICE = 20
NEVER = 2**64 - 1


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    return build(tmp_path_factory.mktemp("policies"))


#: What happens, and how much later. "visit" takes a strand, charges it and lists it again; "end" does not list it;
#: "moved" is an end, with the strand's group changed during the visit.
#: "ready" and "again" are of strands that are not listed, by a place among them.
STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            ["visit"] * 6
            + ["end"] * 3
            + ["ready"] * 3
            + ["again", "back", "next", "moved", "charge", "regroup", "weigh"]
        ),
        st.sampled_from([0, 0, 1, 5, 20, 60]),
        st.integers(0, N_STRANDS - 1),
        st.integers(0, N_GROUPS - 1),
        st.integers(1, 3),
        st.sampled_from([0, 1, 3, 7, 19, 20, 21, 45]),
    ),
    min_size=1,
    max_size=60,
)  # fmt: skip
WEIGHTS = st.lists(st.sampled_from([300, 700, 1000, 3000]), min_size=N_GROUPS, max_size=N_GROUPS)
CAPS = st.sampled_from([(1, 0.0), (100, 0.5), (10, 0.3), (40, 1.0)])
Steps = list[tuple[str, int, int, int, int, int]]


def agree(built: ctypes.CDLL, steps: Steps, weights: Sequence[int], cap: tuple[int, float]) -> None:
    trial = Trial(built, fair(SLICE, *cap), N_LISTS, N_STRANDS)
    model = FairModel(SLICE, *cap, cores=N_LISTS)
    for group, weight in enumerate(weights):
        assert trial.weigh(group, weight)
        model.weigh(group, weight)
    for strand in range(N_STRANDS):  # a group of one strand is idle whenever that is visited
        trial.prioritise(strand, max(0, strand - 2), False, 0)
        model.regroup(strand, max(0, strand - 2))
    away, now = [], 1000
    for other in (trial, model):
        other.ready(0, range(N_STRANDS), WAS_EMPTY, now)
    try:
        for what, later, strand, group, n, took in steps:
            now += later
            if what in ("next", "visit", "end", "moved"):
                expected = model.next(0, now)
                assert trial.next(0, now) == expected
                away += [] if expected is None else [expected]
                if expected is not None and what == "moved":
                    trial.prioritise(expected, group, False, now)
                    model.regroup(expected, group)
                for other in (trial, model) if expected is not None and what != "next" else ():
                    other.charge(expected, took)
                if expected is not None and what == "visit":
                    away.pop()
                    for other in (trial, model):
                        other.ready(0, [expected], VISITED, now)
            elif what == "charge":
                if away and away[strand % len(away)] in model.taken_of:
                    for other in (trial, model):
                        other.charge(away[strand % len(away)], took)
            elif what == "regroup":
                trial.prioritise(strand, group, False, now)
                model.regroup(strand, group)
            elif what == "weigh":
                for other in (trial, model):
                    other.weigh(group, 100 + 300 * took)
            else:
                strands = [away.pop(strand % len(away)) for _ in range(min(n, len(away)))]
                why = {"ready": WAS_EMPTY, "again": VISITED, "back": NOT_VISITED}[what]
                for other in (trial, model):
                    other.ready(0, strands, why, now)
            assert trial.due(now) == model.due(now)
            assert trial.fair_counts() == (model.holds, sum(times for times, _ in model.long.values()), model.long)
            groups = [model.group(number) for number in range(N_GROUPS)]
            assert trial.groups(N_GROUPS) == [(g.on_cpu_ns, g.ends, g.stretches, g.longest_ns) for g in groups]
            listed = {strand for g in groups for strand in g.waiting}
            assert trial.listed() == [int(strand in listed) for strand in range(N_STRANDS)]
            assert (trial.peek(0, 0) is None) == (not listed)
    finally:
        trial.close()


@settings(
    max_examples=examples(500),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(steps=STEPS, weights=WEIGHTS, cap=CAPS)
def test_every_step_is_the_models(built: ctypes.CDLL, steps: Steps, weights: list[int], cap: tuple[int, float]) -> None:
    agree(built, steps, weights, cap)


#: Known-wrong variants of fair.c and bucket.c: each breaks one promise.
WRONG = {
    "forgets what a slice was overrun by": ("  g->start += g->used;\n", "  g->start += fair_of(ready)->slice_ns;\n"),
    "gives every return a new slice": (
        "  if (g->start < state->present) {\n    end_slice",
        "  if (1) {\n    end_slice",
    ),
    "lets idle groups save up": ("    if (g->start < state->present) g->start = state->present;\n", ""),
    "charges the group that the strand belongs to now": (
        "fair_strand_of(ready, strand)->of);\n  const uint32_t weight",
        "fair_strand_of(ready, strand)->group);\n  const uint32_t weight",
    ),
    "ignores weights": ("g->weight ? g->weight : UNIT_WEIGHT", "UNIT_WEIGHT"),
    "keeps a group's first weight": ("  g->weight = weight;\n", "  if (!g->weight) g->weight = weight;\n"),
    "keeps what was left over of another weight": ("if (weight != weight_of(g)) g->remainder = 0;", ""),
    "drops what makes no whole ns": (" * UNIT_WEIGHT + g->remainder;", " * UNIT_WEIGHT;"),
    "ends a slice a moment late": ("if (g->used >= state->slice_ns)", "if (g->used > state->slice_ns)"),
    "resumes a group without a slice's worth": ("bucket->held || !in_slice ?", "bucket->held ?"),
    "lets the pool go for a drop": ("bucket->held || !in_slice ?", "!in_slice ?"),
    "saves up more than the bucket holds": ("(more < missing ? more : missing)", "more"),
    "waits for a full bucket": ("(bucket->capacity + 1) / 2;", "bucket->capacity;"),
    "charges no tokens": ("sd_bucket_take(&state->bucket, on_cpu_ns);", ";"),
    "is due a moment early": ("  while (granted_at(bucket, due) < goal) due++;", "  due -= due > bucket->epoch;"),
    "puts a strand that was not visited at the end": ("why == SD_NOT_VISITED)", "0)"),
    "moves no strand that is listed": ("s->listed && s->group != group", "0"),
    "leaves a group where it stood when its slice ends": ("if (g->place[side]) sink", "if (0) sink"),
    "keeps the last stretch of a group": ("if (g->counts.longest_ns < on_cpu_ns) g", "g"),
    "counts no stretch": ("> (fair_time)state->slice_ns * weight)", "> (fair_time)state->slice_ns * weight * 2)"),
}  # fmt: skip


@pytest.mark.some(3)
@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_variant_is_caught(tmp_path: Path, name: str) -> None:
    wrong = build(tmp_path, changed=WRONG[name])

    @settings(max_examples=3000, deadline=None, database=None, derandomize=True, phases=[Phase.generate])
    @given(steps=STEPS, weights=WEIGHTS, cap=CAPS)
    def run(steps: Steps, weights: list[int], cap: tuple[int, float]) -> None:
        agree(wrong, steps, weights, cap)

    with pytest.raises(AssertionError):
        run()


def test_a_group_that_ended_is_returned_when_its_tasks_are_over_and_its_debt_is_past(built: ctypes.CDLL) -> None:
    """And is as new then: what was counted of it is given back."""
    trial = Trial(built, fair(SLICE), 1, 2, tasks=3)
    first, second, other = 2, 3, 4  # entries of tasks, behind those of strands
    for task, group in ((first, 0), (second, 0), (other, 1)):
        trial.renew(task, group)
    trial.ready(0, [first, second, other], WAS_EMPTY, 0)
    assert trial.close_group(0)
    assert not trial.close_group(0)
    assert trial.next(0, 0) == first
    trial.charge(first, 5)
    trial.over(first)
    assert trial.returned() == []  # it has a task
    assert trial.leave(second)
    assert not trial.leave(second)
    trial.over(second)
    assert trial.returned() == []  # its clock stands at 5, and another group waits at 0
    assert trial.returned(everything=True) == [(0, (5, 0, 0, 0))]
    assert trial.groups(2)[0] == (0, 0, 0, 0)
    assert trial.close_group(0), "it is a new one"
    assert trial.returned() == [(0, (0, 0, 0, 0))]
    assert trial.next(0, 0) == other
    trial.close()


def test_a_group_that_comes_back_begins_where_its_own_clock_stands_if_it_ran_ahead(built: ctypes.CDLL) -> None:
    trial = Trial(built, fair(SLICE), 1, 3)
    for strand in range(3):
        trial.prioritise(strand, strand, False, 0)
    trial.ready(0, range(3), WAS_EMPTY, 0)
    for strand, took in enumerate((25, 40, 42)):  # their next slices begin there
        assert trial.next(0, 0) == strand
        trial.charge(strand, took)
        trial.ready(0, [strand], VISITED, 0)
    assert trial.next(0, 0) == 0
    trial.charge(0, 19)  # its clock stands at 44 while it is idle
    assert trial.next(0, 0) == 1
    trial.charge(1, 30)
    trial.ready(0, [1], VISITED, 0)
    trial.ready(0, [0], WAS_EMPTY, 0)
    assert [trial.next(0, 0) for _ in range(3)] == [2, 0, 1]  # at 42, 44 and 70
    trial.close()


def test_without_a_group_that_waits_there_is_no_debt(built: ctypes.CDLL) -> None:
    trial = Trial(built, fair(SLICE), 1, 1, tasks=1)
    trial.renew(1, 0)
    trial.ready(0, [1], WAS_EMPTY, 0)
    assert trial.next(0, 0) == 1
    trial.charge(1, 50)
    trial.close_group(0)
    trial.over(1)
    assert trial.returned() == [(0, (50, 1, 1, 50))]
    trial.close()


# ---- over made-up time


class Run:
    """Workers that drain strands which never run empty, from time 0 on. ``stretch``: how long a visit takes; ``late``:
    how long after its time a worker wakes that the cap held."""

    def __init__(
        self,
        trial: Trial,
        groups: Sequence[int],
        workers: int,
        stretch: Callable[[int], int],
        *,
        idle: Sequence[int] = (),
        late: int = 0,
    ) -> None:
        self.trial, self.groups, self.stretch, self.late = trial, groups, stretch, late
        for strand, group in enumerate(groups):
            trial.prioritise(strand, group, False, 0)
        self.visits: list[tuple[int, int, int]] = []  # strand, from, to
        self._events = [(0, worker, -1, 0) for worker in range(workers)]  # when, worker, what it drained, for how long
        self._idle: list[int] = []
        trial.ready(0, [strand for strand in range(len(groups)) if strand not in idle], WAS_EMPTY, 0)

    def list(self, strand: int, now: int) -> None:
        self.trial.ready(0, [strand], WAS_EMPTY, now)

    def until(self, end: int, look: Callable[[int], None] = lambda now: None, stop: int = -1) -> None:
        """``look`` is called after each visit. The end comes early if strand ``stop`` is taken."""
        while self._events and self._events[0][0] < end:
            now, worker, strand, took = heapq.heappop(self._events)
            if strand >= 0:
                self.trial.charge(strand, took)
                self.trial.ready(0, [strand], VISITED, now)
                look(now)
            taken = self.trial.next(worker, now)
            if taken is None:
                due = self.trial.due(now)
                again = due + self.late if 0 < due < NEVER else now + 1
                heapq.heappush(self._events, (max(now + 1, again), worker, -1, 0))
            else:
                lasts = self.stretch(taken)
                self.visits.append((taken, now, now + lasts))
                end = now if taken == stop else end
                heapq.heappush(self._events, (now + lasts, worker, taken, lasts))


LONGEST = 15


def stretches(seed: int, longest: int) -> Callable[[int], int]:
    drawn = Random(seed)
    return lambda strand: drawn.randint(1, longest)


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("share", [0.1, 0.3, 0.5, 0.9])
def test_a_pool_that_wakes_late_loses_nothing(built: ctypes.CDLL, workers: int, share: float) -> None:
    # In the smallest cases the bucket holds less than a slice.
    burst, late, longest = 100, 30, 4
    trial = Trial(built, fair(SLICE, burst, share), workers, 12)
    run = Run(trial, [i % 3 for i in range(12)], workers, stretches(1, longest), late=late)
    run.until(20_000)
    ran, rate = sum(to - since for _, since, to in run.visits), share * workers
    assert ran >= rate * 20_000 - burst * rate - workers * longest
    trial.close()


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(
    weights=st.lists(st.integers(100, 5000), min_size=2, max_size=6),
    workers=st.integers(1, 3),
    cap=CAPS,
    late=st.integers(0, 3000),
    seed=st.integers(0, 2**32),
)
def test_no_group_starves_however_late_it_comes(
    built: ctypes.CDLL, *, weights: list[int], workers: int, cap: tuple[int, float], late: int, seed: int
) -> None:
    n = len(weights)
    trial = Trial(built, fair(SLICE, *cap), workers, n * workers)
    for group, weight in enumerate(weights):
        trial.weigh(group, weight)
    one = (n - 1) * workers  # of the last group's strands, the only one that is ever ready
    groups = [i // workers for i in range(n * workers)]
    run = Run(trial, groups, workers, stretches(seed, LONGEST), idle=range(one, n * workers))
    run.until(late)
    run.list(one, late)
    seen = len(run.visits)
    run.until(late + 1_000_000, stop=one)
    first = next(i for i, visit in enumerate(run.visits[seen:]) if visit[0] == one)
    meanwhile = sum(to - since for _, since, to in run.visits[seen : seen + first])
    assert meanwhile <= sum(2 * (SLICE * w / 1000 + workers * LONGEST) for w in weights)
    trial.close()


def test_a_million_ready_strands_in_a_hundred_thousand_groups(built: ctypes.CDLL) -> None:
    n, groups = 1_000_000, 100_000
    trial = Trial(built, fair(SLICE), 2, n)
    try:
        for strand in range(n):
            trial.prioritise(strand, strand % groups, False, 0)
        for first in range(0, n, 1000):
            trial.ready(0, range(first, first + 1000), WAS_EMPTY, first)
        seen = set()
        for i in range(3 * groups):
            strand = trial.next(i % 2, n)
            assert strand is not None
            assert strand not in seen
            seen.add(strand)
            trial.charge(strand, SLICE)
        assert {found[1] for found in trial.groups(groups)} == {3}, "each group has had three slices"
        assert sum(trial.listed()) == n - 3 * groups
    finally:
        trial.close()
