"""Aging: what comes next, held against a model of it in Python, step by step."""

from __future__ import annotations

import ctypes
import math
import random
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from pathlib import Path

import pytest
from aging_model import BY_LOAD, HIGH, NORMAL, URGENT, AgingModel, aging, priority
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from policies import NOT_VISITED, VISITED, WAS_EMPTY, Config, Trial, build

#: The C under test is built here, without the checks of make asan.
pytestmark = pytest.mark.python

N_STRANDS, N_LISTS = 12, 3
#: Points per 4,096 ns of each class, the lowest first: exact in the core's units.
RATES = (1, 2, 3)
COEFFICIENTS = tuple(rate * 1e9 / 4096 for rate in RATES)
#: Of what the lowest class gains a point in.
POINT_NS = 4096


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    return build(tmp_path_factory.mktemp("policies"))


Start = Callable[..., Trial]


@pytest.fixture
def start(built: ctypes.CDLL) -> Iterator[Start]:
    """Starts a policy over so many lists, for 200 strands."""
    made: list[Trial] = []

    def start_one(config: Config, lists: int = 1) -> Trial:
        made.append(Trial(built, config, lists, 200))
        return made[-1]

    yield start_one
    for trial in made:
        trial.close()


#: Bases of priorities, and how much later something happens, in ns.
BASES = (-1000, -2, -1, 0, 0, 1, 2, 3)
LATER = (0, 0, 1, 1024, 2048, 4096, 8192, 20_000)

#: What happens, and how much later. "ready" and "again" are of strands that are not listed, by a place among them.
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["ready", "ready", "again", "back", "next", "next", "next", "prioritise", "raise"]),
        st.sampled_from(LATER),
        st.integers(0, N_STRANDS - 1),
        st.integers(0, N_LISTS - 1),
        st.tuples(st.integers(0, 2), st.sampled_from(BASES)),
        st.integers(1, 4),
    ),
    max_size=60,
)  # fmt: skip

OPTIONS = st.fixed_dictionaries(
    {
        "low_every": st.sampled_from([0, 1, 3, BY_LOAD]),
        "max_wait": st.sampled_from([0, 10_000, 30_000]),
        "slack": st.sampled_from([0, 700, 5000]),
    }
)

Step = tuple[str, int, int, int, tuple[int, int], int]


def agree(built: ctypes.CDLL, steps: Sequence[Step], options: dict[str, int], n_classes: int) -> None:
    coefficients = [Fraction(rate, 4096) for rate in RATES[:n_classes]]
    options = options | {"low_every": options["low_every"] if n_classes > 1 else 0}
    trial = Trial(built, aging(COEFFICIENTS[:n_classes], **options), N_LISTS, N_STRANDS)
    model = AgingModel(N_LISTS, coefficients, **options)
    away, now = list(range(N_STRANDS)), 1_000_000
    try:
        for what, later, strand, at, (cls, base), n in steps:
            now += later
            if what == "back":
                strands = [strand for strand in away[-n:] if strand in model.taken]
                away = [strand for strand in away if strand not in strands]
                for other in (trial, model):
                    other.ready(at, strands, NOT_VISITED, now)
            elif what in ("ready", "again"):
                strands = [away.pop(strand % len(away)) for _ in range(min(n, len(away)))]
                when = now - 3000 * (base == 3)  # records may be listed a while after they were added
                for other in (trial, model):
                    other.ready(at, strands, VISITED if what == "again" else WAS_EMPTY, when)
            elif what == "next":
                expected = model.next(at, now)
                assert trial.next(at, now) == expected
                away += [] if expected is None else [expected]
            else:
                cls %= n_classes
                assert trial.prioritise(strand, priority(cls, base), what == "raise", now)
                model.prioritise(strand, cls, base, what == "raise", now)
            assert trial.picked() == (model.picked, model.picked_low, model.picked_late)
            listed = {w.strand for waiting in model.waiting for w in waiting}
            assert trial.listed() == [int(strand in listed) for strand in range(N_STRANDS)]
            for place, waiting in enumerate(model.waiting):
                assert (trial.peek(place, 0) is None) == (not waiting)
    finally:
        trial.close()


@settings(max_examples=600, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS, options=OPTIONS, n_classes=st.sampled_from([1, 3, 3]))
def test_every_step_is_the_models(
    built: ctypes.CDLL, steps: list[Step], options: dict[str, int], n_classes: int
) -> None:
    agree(built, steps, options, n_classes)


#: Known-wrong variants of the core: each breaks one promise.
WRONG = {
    "forgets the base": ("aging.c", "s->key = base_of(priority) -", "s->key = -"),
    "compares classes without their coefficients": (
        "aging.c",
        "(sd_points)wait_of(t.listed, now) * (sd_points)state->rate[number];",
        "(sd_points)wait_of(t.listed, now) * (sd_points)state->rate[0];",
    ),
    "takes the lower base first": ("aging_heap.c", "return a->key > b->key;", "return a->key < b->key;"),
    "takes the later one on a tie": (
        "aging_heap.c",
        "return a->listed < b->listed;",
        "return a->listed > b->listed;",
    ),
    "forgets the order of one listing": ("aging_heap.c", "a->order < b->order", "a->order > b->order"),
    "takes a lower class first on a tie": (
        "aging.c",
        "for (uint32_t number = state->n_classes; number-- > 0;) {\n    aging_class *c",
        "for (uint32_t number = 0; number < state->n_classes; number++) {\n    aging_class *c",
    ),
    "takes its own list first": (
        "aging.c",
        "if (t.why < chosen->why || ",
        "if (best != SD_NONE || t.why < chosen->why || ",
    ),
    "takes any list first": ("aging.c", "t.ahead <= chosen->value", "t.value <= chosen->value"),
    "has a slack without the coefficient": ("aging.c", "(t.why == FIRST ? state->rate[number] : 1)", "1"),
    "looks at the first strand of another list alone": (
        "aging.c",
        "t.why == best.why && best.ahead > t.ahead ? best.ahead : t.ahead;",
        "t.why == best.why && t.value <= best.value ? best.ahead : t.ahead;",
    ),
    "is late a moment late": ("aging.c", "if (wait > state->max_wait || (", "if (wait > state->max_wait + 1 || ("),
    "takes a late one by its priority": (
        "aging.c",
        "first[t.why == FIRST ? SD_BY_PRIORITY : SD_BY_AGE]",
        "first[t.why != LOW_TURN ? SD_BY_PRIORITY : SD_BY_AGE]",
    ),
    "takes a low one by its priority": (
        "aging.c",
        "first[t.why == FIRST ? SD_BY_PRIORITY : SD_BY_AGE]",
        "first[t.why != LATE ? SD_BY_PRIORITY : SD_BY_AGE]",
    ),
    "takes a low one too late": ("aging.c", "high >= high_before_low(ready)", "high > high_before_low(ready)"),
    "counts only its own list's load": ("aging.c", "high += sd_load(", "high = sd_load("),
    "never begins a new row": ("aging.c", "if (chosen.number == 0) sd_store(row, 0, relaxed, R2);\n    else if", "if"),
    "counts each turn of what was put back": ("aging.c", "if (!chosen.counts) return strand;", ""),
    "keeps a strand raised for ever": ("aging.c", "if (s->raised_at <= now) s->raised = 0;", ""),
    "ends a raise that came later": ("aging.c", "if (s->raised_at <= now) s->raised = 0;", "s->raised = 0;"),
    "lists a strand that was not visited anew": ("aging.c", "if (why < SD_NOT_VISITED) {", "if (1) {"),
    "changes no strand that is listed": (
        "aging.c",
        "enlist(ready, l, strand, priority_of(s));",
        "enlist(ready, l, strand, s->priority);",
    ),
    "loses a branch": (
        "aging_heap.c",
        "join(strands, sd_load(&node->left, relaxed, R1), node->right, heap);\n  if (below)",
        "sd_load(&node->left, relaxed, R1);\n  if (below)",
    ),
}  # fmt: skip


def long_run(seed: int) -> tuple[list[Step], dict[str, int], int]:
    """Steps, options and classes of a run that is long enough for rows of high classes to become long."""
    draw = random.Random(seed)
    kinds = ["ready", "again", "back", "next", "next", "next", "next", "prioritise", "prioritise", "raise"]
    steps = [
        (
            draw.choice(kinds),
            draw.choice(LATER),
            draw.randrange(N_STRANDS),
            draw.choice([0, 0, 1, 2]),
            (draw.randrange(3), draw.choice(BASES)),
            draw.randint(1, 4),
        )
        for _ in range(400)
    ]
    options = {
        "low_every": draw.choice([0, 2, BY_LOAD, BY_LOAD]),
        "max_wait": draw.choice([0, 0, 10_000, 30_000]),
        "slack": draw.choice([0, 700, 5000]),
    }
    return steps, options, draw.choice([1, 3, 3])


@pytest.mark.parametrize("seed", range(40))
def test_every_step_of_a_long_run_is_the_models(built: ctypes.CDLL, seed: int) -> None:
    agree(built, *long_run(seed))


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_variant_is_caught(tmp_path: Path, name: str) -> None:
    file, old, new = WRONG[name]
    wrong = build(tmp_path, changed=(old, new), file=file)
    with pytest.raises(AssertionError):
        for seed in range(400):
            agree(wrong, *long_run(seed))


def picks(trial: Trial, own: int, now: int, n: int) -> list[int | None]:
    return [trial.next(own, now) for _ in range(n)]


def test_priorities_grow_by_the_coefficient_of_their_class(start: Start) -> None:
    trial = start(aging(COEFFICIENTS))
    trial.prioritise(1, priority(URGENT, 0), False, 0)
    trial.prioritise(2, priority(NORMAL, 4), False, 0)
    trial.ready(0, [1, 2], WAS_EMPTY, 0)
    assert trial.next(0, 2 * POINT_NS - 1) == 2, "3 points per unit have not overtaken 4 and 1 per unit yet"
    trial.ready(0, [2], NOT_VISITED, 0)
    assert trial.next(0, 2 * POINT_NS + 1) == 1
    assert trial.next(0, 2 * POINT_NS + 1) == 2


@pytest.mark.parametrize("first", [NORMAL, URGENT])
def test_of_two_classes_that_tie_the_one_that_was_listed_first_comes_first(start: Start, first: int) -> None:
    """Whichever class that is; the coefficients are exact, so that the priorities are the same."""
    trial = start(aging(COEFFICIENTS))
    second = URGENT + NORMAL - first
    waits = {first: 2 * POINT_NS, second: POINT_NS}
    now = 10 * POINT_NS
    base = {number: 100 - RATES[number] * wait // POINT_NS for number, wait in waits.items()}
    for strand, number in ((7, first), (3, second)):
        trial.prioritise(strand, priority(number, base[number]), False, 0)
        trial.ready(0, [strand], WAS_EMPTY, now - waits[number])
    assert [trial.next(0, now), trial.next(0, now)] == [7, 3]


def test_a_new_priority_holds_at_once_and_the_wait_goes_on(start: Start) -> None:
    trial = start(aging(COEFFICIENTS))
    trial.ready(0, [1], WAS_EMPTY, 0)
    trial.ready(0, [2], WAS_EMPTY, 3 * POINT_NS)
    trial.prioritise(2, priority(NORMAL, 2), False, 5 * POINT_NS)
    assert trial.next(0, 5 * POINT_NS) == 1, "it has waited three units longer, and that counts on"
    trial.ready(0, [1], NOT_VISITED, 5 * POINT_NS)
    trial.prioritise(2, priority(NORMAL, 4), False, 5 * POINT_NS)
    assert picks(trial, 0, 5 * POINT_NS, 2) == [2, 1]


def test_after_so_many_of_higher_classes_comes_the_low_one_that_waits_longest(start: Start) -> None:
    trial = start(aging(COEFFICIENTS, low_every=3))
    for strand in range(20):
        trial.prioritise(strand, priority(HIGH, 100), False, 0)
    trial.prioritise(101, priority(NORMAL, 50), False, 0)
    trial.ready(0, [100], WAS_EMPTY, 0)
    trial.ready(0, [101, *range(20)], WAS_EMPTY, 1)
    assert picks(trial, 0, 2, 9) == [0, 1, 2, 100, 3, 4, 5, 101, 6]
    assert trial.picked() == ([2, 7, 0], 2, 0)


def test_what_was_put_back_counts_once_for_the_low_turn(start: Start) -> None:
    trial = start(aging(COEFFICIENTS, low_every=3))
    for strand in range(5):
        trial.prioritise(strand, priority(HIGH, 100), False, 0)
    trial.ready(0, [100, *range(5)], WAS_EMPTY, 0)
    for _ in range(5):
        assert trial.next(0, 1) == 0, "it was put back, and comes again"
        trial.ready(0, [0], NOT_VISITED, 1)
    assert picks(trial, 0, 1, 5) == [0, 1, 2, 100, 3]


def test_a_low_one_that_was_put_back_begins_no_new_row(start: Start) -> None:
    trial = start(aging(COEFFICIENTS, low_every=3))
    trial.ready(0, [100], WAS_EMPTY, 0)
    assert trial.next(0, 0) == 100
    for strand in range(5):
        trial.prioritise(strand, priority(HIGH, 100), False, 0)
    trial.ready(0, [*range(5), 101], WAS_EMPTY, 0)
    assert picks(trial, 0, 1, 2) == [0, 1]
    trial.prioritise(100, priority(NORMAL, 1000), False, 1)
    trial.ready(0, [100], NOT_VISITED, 1)
    assert picks(trial, 0, 1, 4) == [100, 2, 101, 3]


@pytest.mark.parametrize(("high", "low", "n"), [(1, 8, 2), (30, 30, 8), (40, 20, 16), (100, 1, 64)])
def test_by_load_the_low_turn_comes_as_the_ready_strands_of_all_lists_say(
    start: Start, high: int, low: int, n: int
) -> None:
    trial = start(aging(COEFFICIENTS, low_every=BY_LOAD), 2)
    for strand in range(high):
        trial.prioritise(strand, priority(HIGH, 1000), False, 0)
    trial.ready(0, range(high), WAS_EMPTY, 0)
    trial.ready(1, range(100, 100 + low), WAS_EMPTY, 0)
    row = 0
    while (strand := trial.next(0, 1)) is not None and strand < 100:
        row += 1
        trial.ready(0, [strand], VISITED, 1)  # so many are ready as before
    assert row == n


def test_what_waits_longer_than_max_wait_comes_first_and_the_longest_wait_of_them(start: Start) -> None:
    trial = start(aging(COEFFICIENTS, max_wait=1000), 2)
    trial.prioritise(3, priority(URGENT, 500_000_000), False, 0)
    trial.ready(0, [1], WAS_EMPTY, 0)
    trial.ready(1, [2], WAS_EMPTY, 10)
    trial.ready(0, [3], WAS_EMPTY, 20)
    assert trial.next(0, 1000) == 3, "a wait of max_wait is not longer"
    trial.ready(0, [3], VISITED, 1000)
    assert picks(trial, 1, 1011, 3) == [1, 2, 3]
    assert trial.picked() == ([2, 0, 2], 0, 2)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    waits=st.lists(
        st.tuples(st.integers(0, 2), st.integers(-20, 20), st.integers(0, 100_000), st.integers(0, 3)),
        min_size=1, max_size=40,
    ),
    own=st.integers(0, 3),
)  # fmt: skip
# The best strand of list 0 is ahead by just its slack, and the other one there by more than its own.
@example(waits=[(1, 0, 0, 0), (1, -5, 0, 1), (2, -4, 59_032, 0)], own=1)
def test_no_strand_on_another_list_is_ahead_by_more_than_its_coefficient_times_a_visit(
    built: ctypes.CDLL, waits: list[tuple[int, int, int, int]], own: int
) -> None:
    slack, now = 9000, 200_000
    trial = Trial(built, aging(COEFFICIENTS, slack=slack), 4, len(waits))
    rate = [Fraction(r, 4096) for r in RATES]
    left = {}
    for strand, (cls, base, listed, at) in enumerate(waits):
        trial.prioritise(strand, priority(cls, base), False, 0)
        trial.ready(at, [strand], WAS_EMPTY, listed)
        left[strand] = (at, base + (now - listed) * rate[cls], slack * rate[cls])
    while left:
        taken = trial.next(own, now)
        assert taken is not None
        at, value, _ = left[taken]
        # A worker goes to another list for a strand that is ahead by more than its slack, and takes the best one there.
        mine = [other for there, other, _ in left.values() if there == own]
        ahead = max(other - allowed for there, other, allowed in left.values() if there == at)
        assert at == own or not mine or ahead > max(mine)
        del left[taken]
        assert all(other <= value + (0 if there == at else allowed) for there, other, allowed in left.values()), (
            "promised across lists"
        )
    trial.close()


@pytest.mark.parametrize("coefficient", [0.001, 0.37, 1.0, 123_456.789, 1e6])
@pytest.mark.parametrize("since", [0, 2**62, 2**64 - 2**40])
def test_order_is_exact_but_for_the_coefficient_which_is_off_by_less_than_two_parts_in_ten_million(
    start: Start, coefficient: float, since: int
) -> None:
    trial = start(aging([coefficient]))
    rate = Fraction(int(coefficient / 1e9 * 2**64 + 0.5), 2**64)
    assert abs(rate / (Fraction(coefficient) / 10**9) - 1) < Fraction(2, 10**7)
    lead = math.ceil(1000 / rate)  # after so many ns 1,000 points of base are made up for
    if lead >= 2**39:
        lead = 0
    bases = [(-500_000_000, 0), (-499_999_000, lead - 1), (-499_999_000, lead), (-499_999_000, lead + 1)]
    bases += [(500_000_000, 2**39), (499_999_999, 2**39), (0, 0), (1, 0), (-1, 0)]
    for strand, (base, listed) in enumerate(bases):
        assert trial.prioritise(strand, priority(NORMAL, base), False, 0)
        trial.ready(0, [strand], WAS_EMPTY, since + max(listed, 0))
    exact = [(-(base - max(listed, 0) * rate), listed, strand) for strand, (base, listed) in enumerate(bases)]
    assert picks(trial, 0, since + 2**39 + 5, len(bases)) == [strand for _, _, strand in sorted(exact)]


@pytest.mark.parametrize("wrong", [priority(3, 0), priority(NORMAL, 500_000_001), priority(HIGH, -500_000_001)])
def test_a_priority_that_is_none_is_refused(start: Start, wrong: int) -> None:
    assert not start(aging(COEFFICIENTS)).prioritise(1, wrong, False, 0)


def test_without_classes_there_is_one(start: Start) -> None:
    trial = start(aging([1.0]))
    assert not trial.prioritise(1, priority(HIGH, 0), False, 0)
    assert trial.prioritise(1, priority(NORMAL, 0), False, 0)


def longest_wait(built: ctypes.CDLL, workers: int, max_wait: int, seed: int) -> int:
    """The longest wait where each strand of the highest class is listed again as soon as a visit to it ends, and one
    of the lowest is on the list of a worker that is in a visit without end."""
    n, visit = 9, 100
    draw = random.Random(seed)
    trial = Trial(built, aging([1.0, 2.0, 4.0], max_wait=max_wait, slack=visit), workers + 1, n)
    for strand in range(1, n):
        trial.prioritise(strand, priority(URGENT, draw.randint(0, 500_000_000)), False, 0)
    listed = dict.fromkeys(range(n), 0)
    for strand in range(n):
        trial.ready(workers if strand == 0 else strand % workers, [strand], WAS_EMPTY, 0)
    free = [(draw.randrange(visit), worker) for worker in range(workers)]
    at_work: dict[int, int] = {}
    longest = 0
    while min(free)[0] < 40 * visit:
        now, worker = min(free)
        free.remove((now, worker))
        if worker in at_work:
            strand = at_work.pop(worker)
            listed[strand] = now
            trial.ready(draw.randrange(workers), [strand], VISITED, now)
        found = trial.next(worker, now)
        if found is not None:
            longest = max(longest, now - listed[found])
            at_work[worker] = found
        free.append((now + draw.randint(1, visit), worker))
    waits = [40 * visit - since for strand, since in listed.items() if strand not in at_work.values()]
    trial.close()
    return max(longest, *waits)


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_max_wait_bounds_the_wait_whatever_arrives(built: ctypes.CDLL, workers: int) -> None:
    max_wait, visit, others = 350, 100, 8
    bound = max(max_wait, visit) + (1 + math.ceil(others / workers)) * visit
    waits = [longest_wait(built, workers, max_wait, seed) for seed in range(200)]
    assert max(waits) <= bound
    assert max(waits) > max_wait
    assert longest_wait(built, workers, 0, 1) == 40 * visit, "without it the lowest strand waits for ever"


def test_a_million_ready_strands_take_so_many_comparisons_as_their_logarithm(tmp_path: Path) -> None:
    head = "static int comes_before(const sd_aging_strand *a, const sd_aging_strand *b, int heap) {"
    counting = f"uint32_t comparisons;\n{head}\n  comparisons++;"
    counted = build(tmp_path, changed=(head, counting), file="aging_heap.c")
    comparisons = ctypes.c_uint32.in_dll(counted, "comparisons")
    n = 1_000_000
    most = 0

    def cost() -> None:
        nonlocal most
        most, comparisons.value = max(most, comparisons.value), 0

    trial = Trial(counted, aging(COEFFICIENTS, low_every=5, max_wait=2**40), 2, n)
    draw = random.Random(3)
    changed = draw.sample(range(n), 40_000)
    for strand in changed[:20_000]:
        trial.prioritise(strand, priority(draw.randrange(3), draw.randint(-1000, 1000)), False, 0)
    for first in range(0, n, 1000):
        trial.ready(first // 1000 % 2, range(first, first + 1000), WAS_EMPTY, 10 * first)
    comparisons.value = 0
    for strand in changed:
        trial.prioritise(strand, priority(draw.randrange(3), draw.randint(-1000, 1000)), False, 10 * n)
        cost()
    picked = []
    for i in range(50_000):
        picked.append(trial.next(i % 2, 10 * n))
        cost()
    assert None not in picked
    assert len(set(picked)) == len(picked)
    assert sum(trial.listed()) == n - len(picked)
    trial.close()
    # A change leaves two heaps and joins two: at most two paths of the logarithm's length each, of all four.
    assert math.log2(n) / 2 < most <= 8 * math.log2(n)
