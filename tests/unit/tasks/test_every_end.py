"""Whatever is done to tasks, in whatever order and under every policy: each ends in one way, in its key's order, and
none is lost."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from typing import Any, ClassVar

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule
from task_pools import KnownGroups, Stepped

from examples import examples
from strand import Aging, Fair, Fifo, Levels
from strand.errors import ConfigurationError, QueueFull, StoppedError, TaskDropped, TaskExpired
from strand.policies.policy import LEVELS, Policy
from strand.stats import TASK_ENDS
from strand.tasks import RetryPolicy, TaskFuture, TaskGroup, states
from strand.tasks.groups import IN_NO_GROUP

pytestmark = pytest.mark.python

HOLD = {"low": "5s"}
RETRY = RetryPolicy(
    max_retries=2,
    base_delay="1s",
    max_delay="1500ms",
    multiplier=2.0,
    jitter=0.5,
    business=(LookupError,),
    on_alert=lambda task, error: None,
)
#: What attempt n, from 1, of a task does, by the name of what it is.
ERRORS: dict[str, tuple[Any, ...]] = {
    "value": (),
    "fails": (ArithmeticError,) * 9,
    "recovers": (ArithmeticError, OSError),
    "system": (OSError,) * 9,
    "business": (LookupError,) * 9,
    "exits": (SystemExit,) * 9,
}
MAX_QUEUE = 25
GROUPS = ("mail", "report", "nameless")
NUMBERS = KnownGroups(IN_NO_GROUP, "mail", "report")


def new_group(name: str) -> TaskGroup:
    return TaskGroup(None if name == "nameless" else name)


def allowed_moves() -> set[tuple[str, str]]:
    """The changes of a state that the table at the head of strand.tasks.states has."""
    assert states.__doc__ is not None
    lines = states.__doc__.split("\n====")[2].splitlines()[1:]
    rows = [re.split(" {2,}", line) for line in lines]
    waits = "waiting, delayed, held, retrying"
    return {
        (before, after)
        for row in rows
        for before in (waits if row[0] == "any that waits" else row[0]).split(", ")
        for after in row[1].split(", ")
    }


ALLOWED = allowed_moves()


class Watched:
    """A slot of TaskFuture. Each write to it notes the states of the task before and after."""

    def __init__(self, slot: Any, moves: set[tuple[str, str]]) -> None:
        self.slot = slot
        self.moves = moves

    def __get__(self, task: Any, owner: type) -> Any:
        return self if task is None else self.slot.__get__(task, owner)

    def __set__(self, task: Any, value: str) -> None:
        before = state_or_new(task)
        self.slot.__set__(task, value)
        after = state_or_new(task)
        if after not in ("new", before):
            self.moves.add((before, after))


def state_or_new(task: TaskFuture) -> str:
    try:
        return task.state if task.id else "new"
    except AttributeError:  # its constructor runs
        return "new"


class Seen:
    """A test's knowledge of a task."""

    def __init__(self, behaviour: str, options: dict[str, Any], now: int) -> None:
        self.errors = ERRORS[behaviour]
        self.options = options
        self.due = now + 10**9 * max(options["delay_s"], options["hold_s"])
        self.starts: list[int] = []
        self.called_back = 0
        self.end: str | None = None
        self.retry_due: int | None = None
        self.group: TaskGroup | None = options["group"]


class Machine(RuleBasedStateMachine):
    """``priorities``: those that tasks are given; None: the policy has none. ``answers``: what their ``expire_if``
    answers. ``highest``: of the numbers of an order, the head's first, the one that the head is listed with."""

    policy: ClassVar[Policy]
    priorities: ClassVar[tuple[Any, ...]] = (None,)
    answers: ClassVar[tuple[Any, ...]] = ("none", "none", None, False, True, "high", 5, "wrong", KeyError)
    highest: ClassVar[Callable[[list[int]], int]] = staticmethod(lambda numbers: numbers[0])

    tasks = Bundle("tasks")

    def __init__(self) -> None:
        super().__init__()
        self.moves: set[tuple[str, str]] = set()
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(TaskFuture, "_state", Watched(TaskFuture.__dict__["_state"], self.moves))
        self.patch.setattr(TaskFuture, "_place", Watched(TaskFuture.__dict__["_place"], self.moves))

    @invariant()
    def a_state_changes_as_the_table_has_it(self) -> None:
        assert self.moves <= ALLOWED

    @initialize(seed=st.integers(0, 2**32))
    def begin(self, seed: int) -> None:
        groups = NUMBERS if isinstance(self.policy, Fair) else None
        self.here = Stepped(seed=seed, policy=self.policy, groups=groups, max_queue=MAX_QUEUE, max_held=MAX_QUEUE)
        self.groups = {name: new_group(name) for name in GROUPS}
        #: All groups that there were, and those of them that take no more tasks.
        self.all_groups = {*self.groups.values()}
        self.failed_groups: set[TaskGroup | None] = set()
        self.here.pool.goes_on = True
        self.wrong: list[tuple[int, str]] = []
        self.seen: dict[int, Seen] = {}
        self.futures: dict[int, TaskFuture] = {}
        self.retries: int | None = 0  # None: they are not followed any more
        self.joined: dict[str, list[int]] = {}  # by key, in the order of joining
        keys = self.here.tasks._core.states.keys
        join = keys.join

        def joining(task: TaskFuture) -> None:
            options = self.seen_options(task)
            self.joined.setdefault(options["key"], []).append(task.id)
            assert self.now() >= task._submitted_ns + options["delay_s"] * 10**9
            join(task)

        keys.join = joining  # type: ignore[method-assign]
        self.pending_options: dict[str, Any] | None = None

    def seen_options(self, task: TaskFuture) -> dict[str, Any]:
        found = self.seen[task.id].options if task.id in self.seen else self.pending_options
        assert found is not None
        return found

    def now(self) -> int:
        return self.here.clock.now_ns()

    @rule(
        target=tasks,
        choice=st.integers(0, 4),
        key=st.sampled_from([None, None, "a", "b"]),
        behaviour=st.sampled_from(sorted(ERRORS)),
        retries=st.booleans(),
        delay_s=st.sampled_from([0, 0, 0, 2, 4]),
        deadline_s=st.sampled_from([None, None, 6, 9]),
        answer=st.integers(0, 8),
        group=st.sampled_from([None, None, "own", *GROUPS]),
    )
    def submit(
        self,
        *,
        choice: int,
        key: str | None,
        behaviour: str,
        retries: bool,
        delay_s: int,
        deadline_s: int | None,
        answer: int,
        group: str | None,
    ) -> TaskFuture | None:
        level, answers = self.priorities[choice % len(self.priorities)], self.answers[answer]
        shown = {
            "group": new_group("nameless") if group == "own" else self.groups.get(group or ""),
            "key": key,
            "delay_s": delay_s,
            "deadline_s": deadline_s,
            "hold_s": 5 * (level == "low"),
            "retries": retries,
        }
        seen = Seen(behaviour, shown, self.now())
        box: list[TaskFuture] = []

        def expire_if() -> Any:
            self.starting(box[0])
            if answers is KeyError:
                raise KeyError("expire_if")
            return answers

        executor = self.here.tasks.options(
            priority=level,
            key=key,
            retry=RETRY if retries else None,
            delay=f"{delay_s}s" if delay_s else None,
            deadline=None if deadline_s is None else f"{deadline_s}s",
            expire_if=None if answers == "none" else expire_if,
            group=shown["group"],
        )
        held = bool(delay_s) or (level == "low" and isinstance(self.policy, Levels))
        states = ("held", "delayed") if held else ("waiting",)
        waiting = sum(future.state in states for future in self.futures.values())
        self.pending_options = shown
        try:
            future = executor.submit(self.work, box)
        except QueueFull:
            assert waiting >= MAX_QUEUE
            return None
        except StoppedError:
            assert seen.group in self.failed_groups
            return None
        assert waiting < MAX_QUEUE
        assert seen.group not in self.failed_groups
        box.append(future)
        self.seen[future.id], self.futures[future.id] = seen, future
        future.add_done_callback(self.ended)
        return future

    def ended(self, future: Any) -> None:
        seen = self.seen[future.id]
        seen.called_back += 1
        if seen.group is not None and future.state in ("failed", "dropped", "dead"):
            self.failed_groups.add(seen.group)

    def starting(self, future: TaskFuture) -> None:
        """No task is looked at after its end or deadline, nor beside or before another one of its key. What is wrong is
        noted: an error raised here would be the task's own."""
        seen = self.seen[future.id]
        before = self.joined.get(seen.options["key"], [])
        before = before[: before.index(future.id)] if future.id in before else []
        wrong = {
            "ended": future.done(),
            "late": future.deadline_ns is not None and self.now() >= future.deadline_ns,
            "early": self.now() < seen.due,
            "early retry": seen.retry_due is not None and self.now() < seen.retry_due,
            "out of order": [tag for tag in before if not self.futures[tag].done()],
            "without order": seen.options["key"] is not None and future.id not in self.joined[seen.options["key"]],
            "too often": future.attempts > 3,
        }
        self.wrong += [(future.id, name) for name, is_so in wrong.items() if is_so]

    def work(self, box: list[TaskFuture]) -> int:
        (future,) = box
        seen = self.seen[future.id]
        self.starting(future)
        seen.starts.append(self.now())
        attempt = len(seen.starts)
        if attempt <= len(seen.errors):
            raise seen.errors[attempt - 1](attempt)
        return attempt

    @rule()
    def step(self) -> None:
        self.here.pool.step()
        for tag, future in self.futures.items():
            seen = self.seen[tag]
            if future.state == "retrying" and future._timer.due_ns != seen.retry_due:
                seen.retry_due = future._timer.due_ns
                assert self.retries is not None
                self.retries += 1
                longest = min(15 * 10**8, 10**9 * 2 ** (future.attempts - 1))
                assert longest // 2 <= seen.retry_due - seen.starts[-1] <= longest

    @rule(seconds=st.sampled_from([0.5, 1, 2, 5]))
    def advance(self, seconds: float) -> None:
        self.here.clock.advance(seconds)
        self.here.tasks.fire()

    @rule(future=tasks, running=st.booleans())
    def cancel(self, future: TaskFuture | None, running: bool) -> None:
        if future is not None:
            over = future.done()
            assert future.cancel(running=running) == (not over or future.cancelled())

    @rule(future=tasks, choice=st.integers(0, 4))
    def reprioritise(self, future: TaskFuture | None, choice: int) -> None:
        if future is None:
            return
        level = self.priorities[choice % len(self.priorities)]
        if level is None:
            with pytest.raises(ConfigurationError, match=r"^priority: .* no priorities"):
                future.reprioritise("high")
            return
        held = future.state in ("held", "delayed")
        try:
            changed = future.reprioritise(level)
        except ValueError:
            assert level == "low"
            assert held
            return
        if held:
            seen = self.seen[future.id]
            seen.due = future._submitted_ns + 10**9 * max(seen.options["delay_s"], 5 * (level == "low"))
        assert changed != future.done()
        assert future.done() or future.priority == level

    @rule(future=tasks, span=st.sampled_from([None, "1s", "3s"]))
    def set_deadline(self, future: TaskFuture | None, span: str | None) -> None:
        if future is None:
            return
        try:
            assert future.set_deadline(span) != future.done()
        except ValueError:
            assert future.state in ("held", "delayed", "retrying")

    @rule(future=tasks, place=st.integers(0, MAX_QUEUE), name=st.sampled_from([None, *GROUPS]))
    def set_group(self, future: TaskFuture | None, place: int, name: str | None) -> None:
        """Mostly of one that has not ended."""
        alive = [task for task in self.futures.values() if not task.done()]
        future = alive[place % len(alive)] if place and alive else future
        if future is None:
            return
        seen, group = self.seen[future.id], None if name is None else self.groups[name]
        if not future.done() and group is not seen.group and group in self.failed_groups:
            with pytest.raises(StoppedError):
                future.set_group(group)
            return
        assert future.set_group(group) != future.done()
        if not future.done():
            seen.group = group

    @rule(name=st.sampled_from(GROUPS))
    def replace_group(self, name: str) -> None:
        self.groups[name] = new_group(name)
        self.all_groups.add(self.groups[name])

    @rule(future=tasks)
    def drop(self, future: TaskFuture | None) -> None:
        if future is not None:
            over = future.done()
            assert self.here.tasks.drop(future.id, "made room") != over

    @rule()
    def dead_letters_are_those_of_dead_tasks(self) -> None:
        for letter in list(self.here.tasks.dead_letters):
            assert self.futures[letter.task_id].state == "dead"
        assert len(self.here.tasks.dead_letters) == sum(f.state == "dead" for f in self.futures.values())

    @invariant()
    def each_has_one_end_and_none_is_lost(self) -> None:
        assert self.wrong == []
        counts: Counter[str] = Counter()
        for tag, future in self.futures.items():
            seen = self.seen[tag]
            if future.done():
                assert future.state in TASK_ENDS
                assert seen.end in (None, future.state)
                seen.end = future.state
                assert seen.called_back == 1
                self.check_end(seen, future)
            else:
                assert seen.end is None
                assert seen.called_back == 0
                counts[future.priority] += 1
        if isinstance(self.policy, Levels):
            assert self.here.tasks.pending_count() == {level: counts[level] for level in LEVELS}
        assert self.here.tasks.pending_total() == sum(counts.values())
        self.check_statistics(sum(counts.values()))

    def check_statistics(self, pending: int) -> None:
        found = self.here.tasks.statistics()
        assert found.submitted == len(self.futures) == sum(found.ended.values()) + found.pending
        assert found.pending == pending
        ends = Counter(future.state for future in self.futures.values() if future.done())
        assert found.ended == dict.fromkeys(TASK_ENDS, 0) | ends
        assert self.retries in (None, found.retries)
        begun = [future for future in self.futures.values() if future.attempts]
        assert found.wait.count == len(begun)
        counted = sum(waits.count for waits in found.wait_by_priority.values())
        assert counted == (0 if isinstance(self.policy, Fifo) else len(begun))

    def check_end(self, seen: Seen, future: TaskFuture) -> None:
        if future.cancelled():
            return
        error = future.exception()
        expected = {"done": type(None), "expired": TaskExpired, "dropped": TaskDropped}.get(future.state)
        if expected is not None:
            assert type(error) is expected
        else:
            assert error is not None
        if future.state == "dead":
            assert seen.options["retries"]
            assert len(seen.starts) == 3
        if future.state == "failed" and seen.starts:
            by_expire_if = (KeyError, ConfigurationError)
            assert isinstance(error, (*seen.errors[len(seen.starts) - 1 : len(seen.starts)], *by_expire_if))
            if seen.options["retries"] and isinstance(error, (ArithmeticError, OSError)):
                assert future.cancel_requested or isinstance(error, ConfigurationError)
        if seen.errors == (LookupError,) * 9 or not seen.options["retries"]:
            assert len(seen.starts) <= 1
        assert (future.state == "done") <= (len(seen.starts) == len(seen.errors) + 1)

    @invariant()
    def groups_have_the_tasks_that_were_put_there_last(self) -> None:
        """In a group that failed, all tasks have ended."""
        left: Counter[TaskGroup | None] = Counter()
        for tag, future in self.futures.items():
            assert future.group is self.seen[tag].group
            left[future.group] += not future.done()
        for group in self.all_groups:
            assert len(group) == left[group]
        assert not any(left[group] for group in self.failed_groups)

    def number_of(self, future: TaskFuture) -> int:
        """The number by which the pool has to know a task."""
        if isinstance(self.policy, Fair):
            group = self.seen[future.id].group
            return NUMBERS.number_of(group)
        return 0 if future.priority is None else self.policy.priority_of("priority", future.priority)

    @invariant()
    def what_waits_has_the_priority_it_was_given_last(self) -> None:
        orders = self.here.tasks._core.states.keys._orders
        for tag, future in self.futures.items():
            listed = self.here.pool.priority_of(tag)
            if future.state != "waiting":
                assert listed is None or future.done()
                continue
            key = self.seen[tag].options["key"]
            if key is None:
                assert listed == self.number_of(future)
                continue
            order = orders[key]
            everyone = [order.head, *order.rest.values()]
            assert future in everyone
            highest = type(self).highest([self.number_of(other) for other in everyone])
            assert listed == (highest if future is order.head else None)

    def teardown(self) -> None:
        try:
            if hasattr(self, "here"):
                self.all_end()
        finally:
            self.patch.undo()
        assert self.moves <= ALLOWED

    def all_end(self) -> None:
        self.retries = None
        self.here.advance(60)
        self.here.tasks.shutdown(timeout=0)
        self.each_has_one_end_and_none_is_lost()
        assert all(future.done() for future in self.futures.values())
        assert len(self.here.tasks._core.states.keys) == 0
        assert len(self.here.tasks._core.timers) == 0
        assert self.here.tasks._core.table.alive == {}


class UnderLevels(Machine):
    policy = Levels(hold=HOLD)
    priorities = LEVELS
    answers = ("none", "none", None, False, True, "high", "low", "wrong", KeyError)
    highest = staticmethod(min)


class UnderAging(Machine):
    policy = Aging(classes={"urgent": 4.0, "high": 2.0, "normal": 1.0})
    priorities = (-3, 0, 5, "high", ("urgent", 2))
    highest = staticmethod(max)


class UnderFifo(Machine):
    policy = Fifo()


class UnderFair(Machine):
    policy = Fair(weights={"mail": 2.0})


def cases_of(machine: type[Machine], max_examples: int) -> Any:
    cases = machine.TestCase
    cases.settings = settings(max_examples=examples(max_examples), stateful_step_count=40, deadline=None)
    return cases


TestLevels = cases_of(UnderLevels, 100)
TestAging = cases_of(UnderAging, 60)
TestFifo = cases_of(UnderFifo, 60)
TestFair = cases_of(UnderFair, 100)
