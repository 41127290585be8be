"""Levels: what comes next, held against a model of it in Python, step by step."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from policies import (
    CPU,
    IO,
    LOW,
    MEMORY,
    NOT_VISITED,
    VISITED,
    WAS_EMPTY,
    LevelsModel,
    Trial,
    build,
    levels,
)

from examples import examples

#: The C under test is built here, without the checks of make asan.
pytestmark = pytest.mark.python

N_STRANDS, N_LISTS = 12, 3
TIMEOUTS = (0, 10, 20, 50, 100)
#: Others that the levels below immediate may have later.
TIMES = ((10, 20, 50, 100), (1, 2, 2, 3), (5, 5, 5, 5), (40, 80, 200, 400))
#: How much longer a strand on another list has to be in a level, to come before one on the own list.
SLACK = 7
#: The most strands of a level that rise at one look.
RISING = 64


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    return build(tmp_path_factory.mktemp("policies"))


@pytest.fixture
def trial(built: ctypes.CDLL) -> Iterator[Trial]:
    made = Trial(built, levels(TIMEOUTS), N_LISTS, 200)
    yield made
    made.close()


#: What happens, and how much later. "ready" and "again" are of strands that are not listed, by a place among them.
STEPS, STEPS_AND_TIMES = (
    st.lists(
        st.tuples(
            st.sampled_from(["ready", "ready", "again", "back", "next", "next", "prioritise", "raise", "hold", *more]),
            st.sampled_from([0, 0, 1, 5, 9, 10, 11, 30, 60]),
            st.integers(0, N_STRANDS - 1),
            st.integers(0, N_LISTS - 1),
            st.integers(0, 4),
            st.integers(1, 3),
        ),
        max_size=60,
    )
    for more in ((), ("retime",))
)  # fmt: skip
#: Of each strand.
MARKS = st.lists(st.integers(0, 3), min_size=N_STRANDS, max_size=N_STRANDS)
#: What a resource that is short lets go on, or all of them.
SHORT = (0, 0, CPU, MEMORY, IO, CPU | MEMORY, MEMORY | IO, CPU | MEMORY | IO)


def agree(
    built: ctypes.CDLL, steps: list[tuple[str, int, int, int, int, int]], since_listed: bool, marks: list[int]
) -> None:
    trial = Trial(built, levels(TIMEOUTS, since_listed, SLACK), N_LISTS, N_STRANDS)
    model = LevelsModel(N_LISTS, TIMEOUTS, since_listed, SLACK)
    for strand, mark in enumerate(marks):
        for other in (trial, model):
            other.mark(strand, mark)
    away, now = list(range(N_STRANDS)), 1000
    try:
        for what, later, strand, at, level, n in steps:
            now += later
            if what == "back":
                strands = [strand for strand in away[-n:] if strand in model.taken]
                away = [strand for strand in away if strand not in strands]
                for other in (trial, model):
                    other.ready(at, strands, NOT_VISITED, now)
            elif what in ("ready", "again"):
                strands = [away.pop(strand % len(away)) for _ in range(min(n, len(away)))]
                for other in (trial, model):
                    other.ready(at, strands, VISITED if what == "again" else WAS_EMPTY, now)
            elif what == "next":
                expected = model.next(at, now)
                assert trial.next(at, now) == expected
                away += [] if expected is None else [expected]
            elif what == "hold":
                resources = SHORT[strand % len(SHORT)]
                assert trial.hold(resources, now) == model.hold(resources, now)
            elif what == "retime":
                timeouts = (0, *(n * span for span in TIMES[strand % len(TIMES)]))
                for other in (trial, model):
                    other.retime(timeouts)
            else:
                for other in (trial, model):
                    other.prioritise(strand, level, what == "raise", now)
            assert trial.counts() == (model.promoted, model.starved)
            listed = {w.strand for waiting in model.waiting for w in waiting}
            assert trial.listed() == [int(strand in listed) for strand in range(N_STRANDS)]
            for place in range(N_LISTS):
                free = model.free(place)
                assert trial.length(place) == len(free)
                assert (trial.peek(place, 0) is None) == (not free)
    finally:
        trial.close()


@settings(
    max_examples=examples(400),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(steps=STEPS_AND_TIMES, since_listed=st.booleans(), marks=MARKS)
def test_every_step_is_the_models(
    built: ctypes.CDLL,
    steps: list,
    since_listed: bool,
    marks: list[int],  # type: ignore[type-arg]
) -> None:
    agree(built, steps, since_listed, marks)


#: Known-wrong variants of the policy: each breaks one promise.
WRONG = {
    "rises a moment late": ("relaxed, R1), level, now);", "relaxed, R1), level, now - 1);"),
    "rises through two levels at a look": (
        "for (uint32_t level = SD_HIGH; level < SD_LEVEL_COUNT; level++) {\n    for (uint32_t n = 0; n < RISING",
        "for (uint32_t level = SD_LOW; level >= SD_HIGH; level--) {\n    for (uint32_t n = 0; n < RISING",
    ),
    "takes its own list first": ("if (found > *level ||", "if (best != SD_NONE || found > *level ||"),
    "keeps to its own list in a level": (
        "entered + slack >= best_entered",
        "entered + slack + 1000000 >= best_entered",
    ),
    "forgets a strand's turn when it rises": (
        "found && found->entered <= s->entered",
        "found && found->entered > s->entered",
    ),
    "keeps a strand raised for ever": (
        "if (why == SD_WAS_EMPTY) end_raise(s, now);",
        "if (why > SD_NOT_VISITED) end_raise(s, now);",
    ),
    "counts no starvation": ("now - s->listed > 2 * timeout", "now - s->listed > 4 * timeout"),
    "changes no strand that is listed": ("if (to < s->queue / SD_QUEUES_OF_LEVEL || to > before) {", "if (0) {"),
    "takes from a strand what it rose": (
        "if (to < s->queue / SD_QUEUES_OF_LEVEL || to > before) {",
        "if (to != s->queue / SD_QUEUES_OF_LEVEL) {",
    ),
    "lists a strand that was not visited anew": (
        "if (why >= SD_NOT_VISITED && level",
        "if (why > SD_NOT_VISITED && level",
    ),
    "counts a wait twice": ("      s->counted = 1;\n", ""),
    "takes a strand that is held back": (
        "relaxed, R1) & ~sd_load(&l->held, relaxed, R1);\n  const uint32_t found",
        "relaxed, R1);\n  const uint32_t found",
    ),
    "looks for strands that are held back": (
        "relaxed, R2) & ~sd_load(&l->held, relaxed, R2);\n    if (!queues) continue;",
        "relaxed, R2);\n    if (!queues) continue;",
    ),
    "says when a strand that is held back came": (
        "free = queues & ~sd_load(&l->held, relaxed, R1);",
        "free = queues;",
    ),
    "forgets what is held back in the length": (
        "else sd_list_count_listed(&ready->lists[list], n);",
        "",
    ),
    "counts a strand that is listed in a queue that is held back": (
        "if (!(sd_load(&l->held, relaxed, R1) >> queue & 1)) sd_list_count_listed(&ready->lists[list], 1);",
        "sd_list_count_listed(&ready->lists[list], 1);",
    ),
    "counts a strand that rises out of a queue that is held back": (
        "if (!(sd_load(&l->held, relaxed, R1) >> queue & 1)) sd_list_count_taken(&ready->lists[list], 1);",
        "sd_list_count_taken(&ready->lists[list], 1);",
    ),
    "loses a strand's marks when it rises": ("* SD_MARK_SETS + s->marks);", "* SD_MARK_SETS);"),
    "holds normal strands for the CPU": ("return level == SD_LOW;", "return level == SD_NORMAL;"),
    "holds what frees memory for the CPU while memory is short": (
        "if ((resources >> SD_MEMORY & 1) && (queue",
        "if (0 && (queue",
    ),
    "holds a marked strand that rose": (
        "return (marks & SD_MARK_IO) && !sd_level_rose(queue);",
        "return (marks & SD_MARK_IO) != 0;",
    ),
    "says that the round is over too early": ("->entered <= let_go) return 1;", "->entered < 0) return 1;"),
    "says that the round goes on for ever": ("->entered <= let_go) return 1;", "->entered <= UINT64_MAX) return 1;"),
    "lets nothing rise at a hold": (
        "held);\n    sd_level_rise(ready, list, now);",
        "held);\n    sd_level_say_hints(ready, sd_level_list_of(ready, list));",
    ),
}  # fmt: skip
#: Likewise, where timeouts change.
WRONG_TIMES = {
    "gives the first list alone other timeouts": (
        "    set_timeouts(sd_level_list_of(ready, list), timeout_ns);",
        "    if (!list) set_timeouts(sd_level_list_of(ready, list), timeout_ns);",
    ),
    "says nothing of what is due by other timeouts": (
        "timeout_ns);\n    sd_level_say_hints(ready, sd_level_list_of(ready, list));",
        "timeout_ns);",
    ),
}  # fmt: skip


@pytest.mark.some(3)
@pytest.mark.parametrize("name", [*WRONG, *WRONG_TIMES])
def test_a_wrong_variant_is_caught(tmp_path: Path, name: str) -> None:
    wrong = build(tmp_path, changed=(WRONG | WRONG_TIMES)[name])

    @settings(max_examples=3000, deadline=None, database=None, derandomize=True, phases=[Phase.generate])
    @given(steps=STEPS if name in WRONG else STEPS_AND_TIMES, since_listed=st.booleans(), marks=MARKS)
    def run(steps: list, since_listed: bool, marks: list[int]) -> None:  # type: ignore[type-arg]
        agree(wrong, steps, since_listed, marks)

    with pytest.raises(AssertionError):
        run()


def test_a_look_lets_so_many_rise_that_a_lock_is_short(trial: Trial) -> None:
    for strand in range(200):
        trial.prioritise(strand, LOW, False, 0)
    trial.ready(0, range(200), WAS_EMPTY, 0)
    picked = [trial.next(0, 100)]
    assert trial.counts()[0][LOW] == RISING
    picked += [trial.next(0, 100) for _ in range(199)]
    assert picked == list(range(200)), "the order is that of all rising at once"
    assert trial.next(0, 100) is None
    assert sum(trial.listed()) == 0


def test_a_million_ready_strands(built: ctypes.CDLL) -> None:
    n = 1_000_000
    trial = Trial(built, levels(TIMEOUTS), 2, n)
    try:
        for first in range(0, n, 1000):
            trial.ready(first // 1000 % 2, range(first, first + 1000), WAS_EMPTY, first)
        picked = [trial.next(i % 2, n + 200) for i in range(n)]
        assert sorted(strand for strand in picked if strand is not None) == list(range(n))
        assert trial.next(0, n) is None
    finally:
        trial.close()
