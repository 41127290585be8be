"""The end of a scheduler's threads, which comes behind its tasks in C: nobody calls back when those have ended."""

from __future__ import annotations

import threading
from typing import Final

from strand.binding.engine import Engine
from strand.binding.gate import Code
from strand.errors import StoppedError
from strand.tasks.places import Places
from strand.threads import join

__all__ = ["Ending"]

#: How often the thread looks whether tasks in C are left.
_LOOK_S: Final = 0.001


class Ending:
    """Ends the threads of ``places`` when no task is left. See ``Workers`` for the methods. Where there were tasks in
    C, a thread of its own waits for the last of them."""

    def __init__(self, engine: Engine, places: Places) -> None:
        self._engine = engine
        self._places = places
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._asked = threading.Event()
        self._given_up = threading.Event()
        self._over = threading.Event()

    def expect_native(self) -> None:
        with self._lock:
            if self._asked.is_set():
                raise StoppedError("the workers have stopped: no task can be submitted")
            if self._thread is None:
                # Now, and not at the end: Python starts no threads while the program ends.
                thread = threading.Thread(target=self._end_behind_native, name="strand-native-tasks", daemon=True)
                thread.start()
                self._thread = thread

    def let_go(self) -> None:
        self._places.let_go()

    def give_up(self) -> None:
        self._given_up.set()

    def end(self) -> None:
        with self._lock:
            self._asked.set()
            if self._thread is not None:
                return
        self._places.end()
        self._over.set()

    def wait(self, wait_s: float) -> bool:
        return self._over.wait(wait_s)

    def left(self) -> int:
        totals = self._engine.tasks.totals(on_strands=False)
        return totals.submitted - totals.ended

    def join(self) -> None:
        if self._thread is not None:
            join(self._thread)
        self._places.join()

    def _end_behind_native(self) -> None:
        self._asked.wait()
        while self._engine.drain(None, 0) == Code.AGAIN and not self._given_up.wait(_LOOK_S):
            pass
        self._places.end()
        self._places.join()
        self._engine.tasks.stop()
        self._over.set()
