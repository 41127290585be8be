"""A thread that looks at something of an engine again and again, from its start to its stop."""

from __future__ import annotations

import queue
import time
from abc import abstractmethod
from collections.abc import Sequence

from strand.background import Background
from strand.binding.engine import Engine
from strand.threads import Inside

__all__ = ["Regular"]


class Regular:
    """Calls ``_look`` every ``every_ns`` until the engine stops, or ``end``; then ``_ended``, in any case.

    It holds the engine, and no dispatcher or scheduler: one that nobody uses is found all the same."""

    def __init__(self, engine: Engine, every_ns: int, name: str, *, allowed: Sequence[int], inside: Inside) -> None:
        self._engine = engine
        self._every_ns = every_ns
        # No event: the garbage collector may tell the thread to end while this holds the lock of one.
        self._over: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._background: Background[int] = Background(self._work, self._ended, name, allowed=allowed, inside=inside)

    def start(self) -> None:
        self._background.put(self._every_ns)  # the one item: all that the thread has to do
        self._background.start()

    def tell_to_end(self) -> None:
        """The thread ends after the look under way. Waits for nobody."""
        self._over.put(None)

    def end(self) -> None:
        """Ends the thread, and waits for its end."""
        self.tell_to_end()
        self._background.join()

    def _work(self, every_ns: int) -> bool:
        while not self._is_over_within(every_ns / 1e9) and not self._engine.stopping:
            self._look(time.monotonic_ns())
        return False

    def _is_over_within(self, seconds: float) -> bool:
        try:
            self._over.get(timeout=seconds)
        except queue.Empty:
            return False
        return True

    @abstractmethod
    def _look(self, now_ns: int) -> None: ...

    @abstractmethod
    def _ended(self, error: BaseException | None) -> None: ...
