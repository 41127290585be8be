"""Graph of waits: a wait that would close a circle is refused."""

from __future__ import annotations

import itertools
import threading
from typing import Final, Protocol

from strand.errors import WouldDeadlockError

__all__ = ["IN_LOOP", "Waiter", "begin_wait", "check_not_in_loop", "end_wait", "numbered"]

#: Held while one looks for a circle of waits, and enters a wait.
_WAITS: Final = threading.RLock()
_NUMBERS: Final = itertools.count(1)


class _InLoop(threading.local):
    here = False


#: ``here``: whether this thread is one that runs all coroutines of a scheduler.
IN_LOOP: Final = _InLoop()


def numbered(kind: str) -> str:
    """A name for a scheduler or dispatcher that no other one of this process has, like ``"scheduler 2"``."""
    return f"{kind} {next(_NUMBERS)}"


class Waiter(Protocol):
    """A task or call. ``waits_for``: the task or call whose result it waits for now."""

    waits_for: Waiter | None

    def in_words(self) -> str: ...

    def home(self) -> str:
        """The name of the scheduler or dispatcher that it is of: each of these has a task 1."""

    def done(self) -> bool: ...

    def ahead(self) -> Waiter | None:
        """Task or call that has to end before this one begins, as far as it is known. It is the head of its key's
        order, or the one that waits while it holds the strand."""

    def holds(self) -> tuple[dict[int, Waiter], int] | None:
        """Table of waits while a strand is held, and the strand that this one holds; None: it holds none."""


def check_not_in_loop(target: str) -> None:
    """``target``: what is to be waited for, in words. Raises WouldDeadlockError in a thread that runs all coroutines of
    a scheduler."""
    if IN_LOOP.here:
        raise WouldDeadlockError(
            f"{target}: a coroutine that waits stops all others: await the task or submit_call, and leave the block of "
            "a TaskGroup by async with"
        )


def begin_wait(me: Waiter, target: Waiter) -> None:
    """Notes that one task or call waits for another. Raises WouldDeadlockError where the other one already waits for
    it.

    Each waits for one other at a time: for the one whose result it asks, or for the one ahead of it. So the search
    follows a chain. It meets every circle, since the last wait of a circle finds all others.
    """
    with _WAITS:
        if (held := me.holds()) is not None:
            waiters, strand = held
            waiters[strand] = me
        if _leads_to(me, target):
            end_wait(me)
            mine, other = me.in_words(), target.in_words()
            if me.home() != target.home():
                mine, other = f"{mine} of {me.home()}", f"{other} of {target.home()}"
            raise WouldDeadlockError(
                f"{mine} would wait for {other}, which waits for {mine}: use add_done_callback, or submit without a "
                "key or symbol that the two share"
            )
        me.waits_for = target


def _leads_to(me: Waiter, target: Waiter) -> bool:
    """Tells whether the target waits for ``me``, directly or through others."""
    seen: set[Waiter] = set()
    node: Waiter | None = target
    while node is not None and node not in seen:
        if node is me:
            return True
        seen.add(node)
        # One that is done waits in its callbacks only, and its key and strand wait for these.
        node = node.waits_for or (None if node.done() else node.ahead())
    return False


def end_wait(me: Waiter) -> None:
    """The wait is over."""
    me.waits_for = None
    if (held := me.holds()) is not None:
        waiters, strand = held
        waiters.pop(strand, None)
