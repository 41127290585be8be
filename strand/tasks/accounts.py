"""The accounts of tasks' groups under a policy that shares time among groups, and what was counted in each."""

from __future__ import annotations

import threading
import weakref
from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from functools import partial
from typing import Final

from strand.binding.counters import GroupCounts
from strand.binding.engine import Engine
from strand.errors import QueueFull
from strand.policies.fair import Groups
from strand.tasks.groups import TaskGroup

__all__ = ["ENDED", "IN_NO_GROUP", "UNNAMED", "GroupAccounts"]

#: Tasks that are in no group; groups without a name; and groups that have ended, whose names are no longer kept.
IN_NO_GROUP: Final = "(tasks)"
UNNAMED: Final = "(unnamed)"
ENDED: Final = "(ended)"
#: Names that are kept of groups that have ended.
_MOST_NAMES: Final = 1000
#: From so many accounts on, one of a group that has ended is used again before its debt is past.
_MANY: Final = 4096
_AT_ONCE: Final = 64


class _Row:
    """Counts of the groups of one name that have ended, and the number of the other groups of that name."""

    __slots__ = ("counts", "live", "waits")

    def __init__(self) -> None:
        self.live = 0
        self.counts = (0, 0, 0, 0)
        self.waits: Counter[int] = Counter()

    def add(self, counts: tuple[int, int, int, int], waits: Counter[int]) -> None:
        self.counts = _sum(self.counts, counts)
        self.waits.update(waits)


def _sum(a: tuple[int, int, int, int], b: tuple[int, int, int, int]) -> tuple[int, int, int, int]:
    """On-CPU time, ends of slices, long stretches, and the longest of these."""
    return a[0] + b[0], a[1] + b[1], a[2] + b[2], max(a[3], b[3])


class GroupAccounts:
    """An account for each ``TaskGroup`` that has tasks here, by a number that is the priority of its tasks.

    A group that the policy or the symbols name before the start (``weights``, ``groups``) is one account, for all
    ``TaskGroup`` of its name; ``groups`` has these. Any other ``TaskGroup`` has an account of its own, until its block
    was left, or nobody refers to it any more. Its number is used again when its tasks are over and its debt is past:
    from then on a new group starts where it would.
    """

    def __init__(self, engine: Engine, groups: Groups) -> None:
        self._engine = engine
        self._numbers = {name: number for number, name in enumerate(groups.names())}
        self._next = len(self._numbers)
        self._rows: dict[str, _Row] = {}
        #: Rows without a group that lives, by when the last one ended.
        self._past: OrderedDict[str, _Row] = OrderedDict()
        self._names: dict[int, str] = {}
        self._refs: dict[int, weakref.ref[TaskGroup]] = {}
        #: Groups that have ended. The garbage collector adds to it, perhaps while the lock is held.
        self._ending: deque[tuple[int, weakref.ref[TaskGroup]]] = deque()
        self._free: list[int] = []
        self._lock = threading.RLock()
        #: The waits of a number's tasks so far, by bucket, which are then forgotten; ``Counts`` sets it.
        self.take_waits: Callable[[int], Counter[int]] = lambda _: Counter()
        if IN_NO_GROUP not in self._numbers:
            self._numbers[IN_NO_GROUP] = self._unused()

    def number_of(self, group: TaskGroup | None) -> int:
        """The account of a group, or of tasks in none. Raises QueueFull where too many groups live."""
        if group is None:
            return self._numbers[IN_NO_GROUP]
        found = None if group.accounts is None else group.accounts.get(self)
        return self._open(group) if found is None else found

    def _open(self, group: TaskGroup) -> int:
        with self._lock:
            if group.accounts is None:
                group.accounts = weakref.WeakKeyDictionary()
            found = group.accounts.get(self)
            if found is not None:
                return found
            number = None if group.name is None else self._numbers.get(group.name)
            if number is None:
                number = self._unused()
                name = group.name or UNNAMED
                self._past.pop(name, None)
                self._rows.setdefault(name, _Row()).live += 1
                self._names[number] = name
                self._refs[number] = weakref.ref(group, partial(self._ended, number))
            group.accounts[self] = number
            return number

    def _ended(self, number: int, ref: weakref.ref[TaskGroup]) -> None:
        self._ending.append((number, ref))

    def close(self, group: TaskGroup) -> None:
        """A group takes no more tasks, and none of its tasks is left."""
        number = None if group.accounts is None else group.accounts.get(self)
        ref = None if number is None else self._refs.get(number)
        if number is not None and ref is not None:
            self._ended(number, ref)

    def _unused(self) -> int:
        if not self._free:
            self._collect(everything=self._next >= _MANY)
        if self._free:
            return self._free.pop()
        if self._next >= self._engine.max_groups:
            raise QueueFull(f"group: {self._next:,} groups have tasks, and there is no room for another one")
        self._next += 1
        return self._next - 1

    def _collect(self, *, everything: bool) -> None:
        """Takes accounts back. ``everything``: those too that have a debt. The lock is held."""
        while self._ending:
            number, ref = self._ending.popleft()
            if self._refs.get(number) is ref:
                del self._refs[number]
                self._engine.close_group(number)
        while True:
            returned = self._engine.returned_groups(_AT_ONCE, everything=everything)
            for number, counts in returned:
                name = self._names.pop(number)
                row = self._rows[name]
                row.add(counts, self.take_waits(number))
                row.live -= 1
                if not row.live and name != UNNAMED:
                    self._past[name] = row
                self._free.append(number)
            while len(self._past) > _MOST_NAMES:
                name, row = self._past.popitem(last=False)
                del self._rows[name]
                self._rows.setdefault(ENDED, _Row()).add(row.counts, row.waits)
            if len(returned) < _AT_ONCE:
                return

    def counted(self) -> tuple[GroupCounts | None, dict[str, tuple[int, int, int, int]]]:
        """Counters of the policy, and their sums over all groups of each name."""
        with self._lock:
            self._collect(everything=False)
            counts = self._engine.group_counts(self._next)
            found = dict.fromkeys(self._numbers, (0, 0, 0, 0)) | {name: row.counts for name, row in self._rows.items()}
            if counts is not None:
                for name, number in self._numbers.items():
                    found[name] = counts.groups[number]
                for number, name in self._names.items():
                    found[name] = _sum(found[name], counts.groups[number])
            return counts, found

    def waits(self, by_number: dict[int, Counter[int]]) -> dict[str, Counter[int]]:
        """Waits by the name of the group, from those by number."""
        with self._lock:
            found: dict[str, Counter[int]] = {name: Counter() for name in self._numbers}
            found |= {name: Counter(row.waits) for name, row in self._rows.items()}
            names: dict[int, str] = self._names | {number: name for name, number in self._numbers.items()}
            for number, waits in by_number.items():
                if number in names:
                    found[names[number]].update(waits)
            return found
