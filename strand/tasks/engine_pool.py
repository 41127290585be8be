"""The engine as the pool of tasks: Python's, and those in C that Python submits."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from strand.binding.engine import Engine
from strand.binding.tasks import NO_KEY, OWN_LEVEL, TASK_BYTES, USUAL_PRIORITY
from strand.brief import one_line
from strand.errors import ConfigurationError, QueueFull, StoppedError
from strand.handlers.native_handlers import NativeFunctions
from strand.policies.policy import LEVELS, Fair, Levels, Policy
from strand.spans import SpanLike
from strand.tasks.options import Ranks, options_of
from strand.tasks.places import Turn, seat_here
from strand.tasks.tasks import Core, Tasks

__all__ = ["EnginePool", "EngineTasks", "NativeTask", "core_of"]


class NativeTask:
    """A C function ``void f(sd_task_context *ctx, void *argument, int why)`` of ``sd_task.h``, for ``submit_native``.

    Args:
        source: The path of a shared object, or the function itself. The function is given as its address, or as a
            pointer to it of ctypes, cffi or numba's ``cfunc``. The scheduler that it is given to keeps it alive.
        symbol: The function's name in the shared object.

    Raises:
        ConfigurationError: If the object or the function cannot be found, or was built for another layout.
    """

    def __init__(self, source: str | Path | int | Any, symbol: str | None = None) -> None:
        self._functions = NativeFunctions(source)
        self.address = self._functions.main(symbol)
        self.name = symbol or hex(self.address)

    def __repr__(self) -> str:
        return one_line(f"<NativeTask {self.name}>")


#: Time for which a visit goes on to a key's next task, as a strand's visit does to its next ticks.
_VISIT_NS: Final = 1_000_000


class EnginePool:
    """Lists tasks in an engine, whose workers call ``Tasks.run``. See ``Pool`` for the methods."""

    def __init__(self, engine: Engine, policy: Policy) -> None:
        self._engine = engine
        self.n_workers = engine.n_workers
        self._tasks = engine.tasks
        self._submit = engine.tasks.submit_one
        #: The priorities of the engine, by those of tasks that stand in their own; None: they are the same. Under a
        #: policy without priorities all are the usual one.
        self._codes: tuple[int, ...] | defaultdict[int, int] | None = None
        self._has_priorities = policy.usual_priority is not None or isinstance(policy, Fair)
        self._has_levels = isinstance(policy, Levels)
        if self._has_levels:
            self._codes = tuple(self._code(level, level) for level in range(len(LEVELS)))
        elif not self._has_priorities:
            self._codes = defaultdict(lambda: USUAL_PRIORITY)
        self._charges = isinstance(policy, Fair)
        #: Tasks in C that workers may call, by their addresses, for as long as there is an engine.
        self._native: dict[int, NativeTask] = {}

    def _code(self, priority: int, own: int) -> int:
        if self._has_levels:
            return priority | own + 1 << OWN_LEVEL
        return priority if self._codes is None else self._codes[priority]

    def submit(self, tag: int, priority: int) -> int:
        codes = self._codes
        return self._submit(tag, priority if codes is None else codes[priority], 0) or self._refuse(1)

    def submit_as(self, tag: int, priority: int, own: int, marks: int) -> int:
        return self._submit(tag, self._code(priority, own), marks) or self._refuse(1)

    def submit_many(self, tags: Sequence[int], priority: int) -> Sequence[int]:
        handles = self._tasks.submit_all(tags, self._code(priority, priority))
        if len(handles) == len(tags):
            return handles
        for handle in handles:
            self._tasks.give_up(handle)
        self._refuse(len(tags))
        return handles

    def submit_on(self, strand: int, tag: int) -> int:
        entry = self._tasks.enqueue(strand, tag)
        return self._refuse(1) if entry is None else entry

    def may_go_on(self, elapsed_ns: int) -> bool:
        seat = seat_here()
        return seat is not None and elapsed_ns < _VISIT_NS and seat.may_go_on()

    def hold(self) -> Turn:
        seat = seat_here()
        assert seat is not None
        turn = seat.hold()
        if self._charges:
            turn.charge = partial(self._tasks.charge, turn.entry)
        return turn

    def submit_native(
        self, task: NativeTask, items: npt.NDArray[Any], *, key: int, priority: int, marks: int, within_ns: int
    ) -> int:
        """See ``EngineTasks.submit_native``: lists a task for each item."""
        self._native[task.address] = task
        number = priority if self._has_priorities else USUAL_PRIORITY
        done = self._tasks.submit_native(
            task.address, items, key=key, priority=number, marks=marks, within_ns=within_ns
        )
        return done if done == len(items) else self._refuse(len(items), done)

    def prioritise(self, entry: int, priority: int, own: int) -> None:
        if self._has_priorities:
            self._tasks.prioritise(entry, self._code(priority, own))

    def give_up(self, entry: int) -> None:
        self._tasks.give_up(entry)

    def rose(self, entry: int) -> int | None:
        level = self._tasks.rose(entry) if self._has_levels else 0
        return level - 1 if level else None

    def risen(self) -> list[int]:
        return self._tasks.risen()

    def _refuse(self, n: int, done: int = 0) -> int:
        """``done``: how many of n were taken all the same, the first ones."""
        if self._engine.stopping:
            raise StoppedError("the workers have stopped: no task can be submitted")
        left = np.arange(done, n)
        tasks = "task" if len(left) == 1 else "tasks"
        raise QueueFull(f"there is no room for {len(left):,} more {tasks} beside those that wait", left)


class EngineTasks(Tasks):
    """Tasks over an engine, which runs functions in C too. ``key_of``: the index of a symbol; None: there are no
    symbols. The other arguments are those of ``Tasks``."""

    def __init__(
        self, pool: EnginePool, ranks: Ranks, *, key_of: Callable[[Any], int] | None = None, **options: Any
    ) -> None:
        super().__init__(pool, ranks, **options)
        self._core.n_workers = pool.n_workers
        self._pool = pool
        self._key_of = key_of

    def submit_native(
        self,
        task: NativeTask,
        arguments: bytes | npt.NDArray[Any] = b"",
        *,
        priority: Any = None,
        symbol: str | int | None = None,
        deadline: SpanLike | datetime | None = None,
        marks: str | Iterable[str] | None = None,
    ) -> int:
        """Submits tasks in C, which workers run without the GIL.

        The function is called with ``SD_TASK_RUN`` on its turn, and may ask for another turn by ``ctx->again``. If its
        first turn comes after the deadline, it is called once with ``SD_TASK_EXPIRED``. A shutdown waits for these
        tasks, too, and for a submit that has begun before it. With ``cancel_futures``, and if a dispatcher stops
        without draining, tasks that wait are told ``SD_TASK_STOPPED``. ``max_queue`` does not count these tasks, and
        they belong to no group.

        Args:
            task: The function in C.
            arguments: Bytes, for one task; or an array of shape (n,) of any dtype without objects, for a task per item,
                in their order. A task gets a copy of its item, of 32 bytes at most; of no bytes it gets NULL.
            priority, symbol, deadline, marks: As in ``options``.

        Returns:
            How many tasks were submitted, which is all of them.

        Raises:
            QueueFull: If the engine has no room for more tasks. Its ``rejected`` are the places of the items that were
                not submitted.
            StoppedError: After a shutdown.
            ConfigurationError: If ``arguments`` is no array of one dimension, or too long. Also for a priority that the
                policy does not have or holds, and for a symbol beside a priority.
            UnknownSymbolError: If there is no such symbol.
        """
        if not isinstance(task, NativeTask):
            raise ConfigurationError("task", f"{task!r} is not a strand.NativeTask")
        items = _items(arguments)
        options = options_of(
            self._ranks, self._strand_of, priority=priority, symbol=symbol, deadline=deadline, marks=marks
        )
        if options.waits_ns:
            raise ConfigurationError("priority", f"{options.priority!r} has a hold, and a task in C cannot be held")
        key = NO_KEY if symbol is None or self._key_of is None else self._key_of(symbol)
        number = self._ranks.number_in(None, options.number)
        table, me = self._core.table, threading.get_ident()
        try:
            table.submitting.threads.append(me)
            if table.refusal is not None:
                raise StoppedError(table.refusal)
            if self._core.workers is not None:
                self._core.workers.expect_native()
            left = self._core.deadline_of(options, 0)
            within_ns = 0 if left is None else max(left, 1)  # 0 is none; of one that is over 1 ns is left
            return self._pool.submit_native(
                task, items, key=key, priority=number, marks=options.marks, within_ns=within_ns
            )
        finally:
            table.submitting.threads.remove(me)
            table.submit_is_over()


def _items(arguments: Any) -> npt.NDArray[Any]:
    """The arguments as an array of shape (n,)."""
    if isinstance(arguments, bytes):
        items = np.frombuffer(arguments, f"V{len(arguments)}") if arguments else np.empty(1, "V0")
    elif isinstance(arguments, np.ndarray) and arguments.ndim == 1 and not arguments.dtype.hasobject:
        items = arguments
    else:
        raise ConfigurationError(
            "arguments", f"a {type(arguments).__name__} is neither bytes nor an array of one dimension without objects"
        )
    if items.itemsize > TASK_BYTES:
        raise ConfigurationError(
            "arguments",
            f"{items.itemsize} bytes for a task, and it copies at most {TASK_BYTES}: give it the address of "
            "what is longer",
        )
    return items


def core_of(tasks: EngineTasks) -> Core:
    """The state of tasks, for the dispatcher whose workers run them."""
    return tasks._core
