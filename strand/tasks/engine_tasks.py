"""Tasks over an engine: Python's, and those in C that Python submits."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any

import numpy as np
import numpy.typing as npt

from strand.binding.tasks import NO_KEY, TASK_BYTES
from strand.errors import ConfigurationError, StoppedError
from strand.spans import SpanLike
from strand.tasks.engine_pool import EnginePool
from strand.tasks.native import NativeTask
from strand.tasks.options import options_of
from strand.tasks.ranks import Ranks
from strand.tasks.tasks import Tasks

__all__ = ["EngineTasks"]


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
            raise ConfigurationError(f"task: {task!r} is not a strand.NativeTask")
        items = _items(arguments)
        options = options_of(
            self._ranks, self._strand_of, priority=priority, symbol=symbol, deadline=deadline, marks=marks
        )
        if options.waits_ns:
            raise ConfigurationError(f"priority: {options.priority!r} has a hold, and a task in C cannot be held")
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
            f"arguments: a {type(arguments).__name__} is neither bytes nor an array of one dimension without objects"
        )
    if items.itemsize > TASK_BYTES:
        raise ConfigurationError(
            f"arguments: {items.itemsize} bytes for a task, and it copies at most {TASK_BYTES}: give it the address of "
            "what is longer"
        )
    return items
