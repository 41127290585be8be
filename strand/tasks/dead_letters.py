"""Tasks that failed after their last retry."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from strand.brief import brief, several
from strand.errors import ConfigurationError
from strand.tasks.future import TaskFuture
from strand.tasks.options import TaskOptions

__all__ = ["DeadLetter", "DeadLetters"]


@dataclass(frozen=True, slots=True, repr=False)
class DeadLetter:
    """A task that failed after its last retry.

    Attributes:
        task_id: The id of its future.
        function: The function that was called.
        args: The positional arguments of the call.
        kwargs: The keyword arguments of the call.
        error: The last exception.
        attempts: How often the function was called.
        died_ns: When the task failed, in ns of the scheduler's clock (``time.monotonic_ns``).
        options: The task's options, which ``DeadLetters.put_back`` gives to the new task.
    """

    task_id: int
    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    error: BaseException
    attempts: int
    died_ns: int
    options: TaskOptions

    def __repr__(self) -> str:
        function = getattr(self.function, "__qualname__", type(self.function).__name__)
        attempts = several(self.attempts, "attempt")
        return brief(self, f"task {self.task_id}", function, attempts, type(self.error).__name__)


class DeadLetters:
    """The dead letters that are kept, the oldest first. They live in memory only.

    ``len`` counts them, and iteration goes over a copy.

    Attributes:
        maximum: The greatest number of letters kept, at least 0. The oldest go first.
        dropped: How many letters went.
    """

    def __init__(self, maximum: int, submit: Callable[[TaskOptions, Any, tuple[Any, ...], dict[str, Any]], TaskFuture]):
        self.maximum = maximum
        self.dropped = 0
        self._submit = submit
        self._lock = threading.RLock()
        self._letters: OrderedDict[int, DeadLetter] = OrderedDict()

    def __repr__(self) -> str:
        return brief(self, f"{len(self):,} kept", f"{self.dropped:,} dropped")

    def __len__(self) -> int:
        return len(self._letters)

    def __iter__(self) -> Iterator[DeadLetter]:
        with self._lock:
            return iter(list(self._letters.values()))

    def add(self, letter: DeadLetter) -> None:
        """Keeps a letter, and drops the oldest one if there are too many."""
        with self._lock:
            self._letters[letter.task_id] = letter
            while len(self._letters) > self.maximum:
                self._letters.popitem(last=False)
                self.dropped += 1

    def put_back(self, letter: DeadLetter) -> TaskFuture:
        """Submits a dead letter again, as a new task with its options.

        The deadline counts from now, and all retries are there again. The task belongs to the group of the caller, not
        to the letter's former group. It raises what ``submit`` raises, too; the letter is kept then.

        Args:
            letter: A letter that is kept here.

        Returns:
            The future of the new task.

        Raises:
            ConfigurationError: If the letter is not kept here.
        """
        if not isinstance(letter, DeadLetter):
            raise ConfigurationError(f"letter: {letter!r} is not a dead letter; iterate over dead_letters")
        with self._lock:
            if self._letters.get(letter.task_id) is not letter:
                raise ConfigurationError(
                    f"letter: the one of task {letter.task_id} is not here any more (put back, cleared or let go), or "
                    "belongs to another scheduler"
                )
            del self._letters[letter.task_id]
        try:
            return self._submit(letter.options, letter.function, letter.args, letter.kwargs)
        except BaseException:
            with self._lock:
                self._letters[letter.task_id] = letter
                self._letters.move_to_end(letter.task_id, last=False)
            raise

    def clear(self) -> int:
        """Drops all letters.

        Returns:
            How many letters were dropped.
        """
        with self._lock:
            found = len(self._letters)
            self._letters.clear()
            return found
