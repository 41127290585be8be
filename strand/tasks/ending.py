"""The end of a scheduler's threads, which comes behind its tasks in C: nobody calls back when those have ended."""

from __future__ import annotations

from typing import Final

from strand.binding.engine import Engine
from strand.binding.gate import Code, Thread
from strand.errors import StoppedError
from strand.tasks.places import Places
from strand.threads import Bell

__all__ = ["Ending"]

#: Interval at which the thread checks whether tasks in C are left.
_LOOK_S: Final = 0.001


class Ending:
    """Ends the threads of ``places`` when no task is left. See ``Workers`` for the methods. Where there were tasks in
    C, a thread of its own waits for the last of them."""

    def __init__(self, engine: Engine, places: Places) -> None:
        self._engine = engine
        self._places = places
        self._bell = Bell()
        #: More than one where an interrupt came between the start of the first one and the note of it.
        self._threads: list[Thread] = []
        self._expects_native = False
        self._is_asked = self._has_given_up = self._is_over = False

    def expect_native(self) -> None:
        with self._bell:
            if self._is_asked:
                raise StoppedError("the workers have stopped: no task can be submitted")
            if not self._expects_native:
                # Now, and not at the end: Python starts no threads while the program ends.
                thread = Thread(self._end_behind_native, "strand-native-tasks")
                self._threads.append(thread)
                thread.start()
                self._expects_native = True

    def let_go(self) -> None:
        self._places.let_go()

    def give_up(self) -> None:
        self._has_given_up = True
        self._bell.ring()

    def end(self) -> None:
        with self._bell:
            self._is_asked = True
            has_threads = bool(self._threads)
        self._bell.ring()
        if not has_threads:
            self._places.end()
            self._is_over = True
            self._bell.ring()

    def wait(self, wait_s: float) -> bool:
        return self._bell.wait_for(lambda: self._is_over, wait_s)

    def left(self) -> int:
        totals = self._engine.tasks.totals(on_strands=False)
        return totals.submitted - totals.ended

    def join(self) -> None:
        for thread in self._threads:
            thread.join()
        self._places.join()

    def _end_behind_native(self) -> None:
        self._bell.wait_for(lambda: self._is_asked)
        while self._engine.drain(None, 0) == Code.AGAIN and not self._has_given_up:
            self._bell.wait_for(lambda: self._has_given_up, _LOOK_S)
        self._places.end()
        self._places.join()
        self._engine.tasks.stop()
        self._is_over = True
        self._bell.ring()
