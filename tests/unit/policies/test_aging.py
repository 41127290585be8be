"""Aging: what comes next, held against a model of it in Python, step by step."""

from __future__ import annotations

import ctypes
import math
import random
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from pathlib import Path

import pytest
from aging_model import BY_LOAD, HIGH, NORMAL, AgingModel, aging, priority
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from policies import NOT_VISITED, VISITED, WAS_EMPTY, Config, Trial, build

from examples import examples

#: The C under test is built here, without the checks of make asan.
pytestmark = pytest.mark.python

N_STRANDS, N_LISTS = 12, 3
#: Points per 4,096 ns of each class, the lowest first: exact in the core's units.
RATES = (1, 2, 3)
COEFFICIENTS = tuple(rate * 1e9 / 4096 for rate in RATES)


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


@settings(
    max_examples=examples(600),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(steps=STEPS, options=OPTIONS, n_classes=st.sampled_from([1, 3, 3]))
def test_every_step_is_the_models(
    built: ctypes.CDLL, steps: list[Step], options: dict[str, int], n_classes: int
) -> None:
    agree(built, steps, options, n_classes)


def test_of_two_classes_whose_heads_tie_the_one_that_was_listed_first_comes_first(built: ctypes.CDLL) -> None:
    steps: list[Step] = [
        ("prioritise", 0, 0, 0, (1, 0), 1),
        ("prioritise", 0, 1, 0, (2, 0), 1),
        ("ready", 0, 0, 0, (0, 0), 1),
        ("ready", 4096, 0, 0, (0, 0), 1),
        ("next", 8192, 0, 0, (0, 0), 1),  # 12,288 ns at 2 points each 4,096, and 8,192 at 3
    ]
    agree(built, steps, {"low_every": 0, "max_wait": 0, "slack": 0}, 3)


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


@pytest.mark.some(3)
@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_variant_is_caught(tmp_path: Path, name: str) -> None:
    file, old, new = WRONG[name]
    wrong = build(tmp_path, changed=(old, new), file=file)
    with pytest.raises(AssertionError):
        for seed in range(400):
            agree(wrong, *long_run(seed))


def picks(trial: Trial, own: int, now: int, n: int) -> list[int | None]:
    return [trial.next(own, now) for _ in range(n)]


@settings(
    max_examples=examples(200),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
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
