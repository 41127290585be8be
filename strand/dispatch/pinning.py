"""Pinning worker threads to cores: at the start, and when a thread gets a place or goes on without one."""

from __future__ import annotations

import os
from collections.abc import Sequence

from strand.binding.thread import Thread
from strand.dispatch.state import RunState
from strand.errors import ConfigurationError
from strand.tasks.work import Place

__all__ = ["pin_here", "pin_thread", "unpin_here"]


def pin_thread(thread: Thread, core: int, *, must: bool) -> OSError | None:
    """Pins a thread that has been started. Returns the system's refusal, or raises ConfigurationError for it where the
    thread ``must`` be pinned."""
    assert thread.native_id is not None
    try:
        os.sched_setaffinity(thread.native_id, {core})
    except ProcessLookupError:  # a stop has ended it already
        return None
    except OSError as error:
        if must:
            raise ConfigurationError(
                f"cores: the system refused to pin a worker to core {core} ({error.strerror}): give other cores, or "
                "leave cores out, and the worker runs unpinned"
            ) from error
        return error
    return None


def pin_here(state: RunState, place: Place, allowed: Sequence[int]) -> None:
    """Pins this thread to the core of the place that it has got, or to none where that has none: the thread may have
    that of the place which it had before. Where the system refuses it now, the place has none any more, which
    statistics say."""
    if place.core is None:
        unpin_here(state, allowed)
    # Workers.pin says the core before it pins the thread. So if it did that in between, the core is seen here.
    core = place.core
    if core is None:
        return
    try:
        os.sched_setaffinity(0, {core})
    except OSError as error:
        place.core = None
        unpin_here(state, allowed)
        assert state.cores is not None
        state.cores = [None if i == place.participant else at for i, at in enumerate(state.cores)]
        state.unpinned = f"worker {place.participant} is not pinned any more: the system refused core {core} ({error})"


def unpin_here(state: RunState, allowed: Sequence[int]) -> None:
    """Lets this thread run on all of ``allowed``: it has no place, or a place without a core."""
    if state.cores is None:
        return
    try:
        os.sched_setaffinity(0, allowed)
    except OSError as error:
        state.unpinned = (
            f"a thread without a core of its own stays pinned: the system refused all other cores ({error})"
        )
