"""A backend of joblib that runs ``joblib.Parallel`` on a scheduler."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from strand.errors import ConfigurationError, MissingExtraError
from strand.tasks.future import TaskFuture
from strand.tasks.running import blocking
from strand.tasks.tasks import TaskExecutor

__all__ = ["register_joblib"]


def register_joblib() -> None:
    """Makes ``"strand"`` a backend of joblib, for ``joblib.parallel_config(backend="strand", executor=...)``.

    ``executor`` is a ``strand.Scheduler``, or what its ``options(...)`` return, so that the tasks have a level, a
    group, or retries. ``n_jobs`` bounds how many batches run at a time, besides the scheduler's workers; all workers
    without it. A call of ``Parallel`` within a task gives its worker to other tasks while it waits.

    Raises:
        MissingExtraError: Without joblib.
    """
    try:
        from joblib.parallel import register_parallel_backend
    except ImportError:
        raise MissingExtraError("a backend of joblib", "joblib", "joblib") from None
    register_parallel_backend("strand", _backend_class())


def _backend_class() -> type[Any]:
    """The class, whose bases joblib has."""
    from joblib.parallel import AutoBatchingMixin, ParallelBackendBase

    class StrandBackend(AutoBatchingMixin, ParallelBackendBase):  # type: ignore[misc]
        """See ``register_joblib``; joblib's ``ParallelBackendBase`` describes the methods."""

        default_n_jobs = -1
        supports_retrieve_callback = True
        supports_sharedmem = True
        uses_threads = True

        def __init__(self, executor: TaskExecutor | None = None, **more: Any) -> None:
            super().__init__(**more)
            if not isinstance(executor, TaskExecutor):
                raise ConfigurationError(
                    "executor",
                    f"{executor!r} is no strand.Scheduler: give "
                    'joblib.parallel_config(backend="strand", executor=scheduler)',
                )
            self._executor = executor
            self._futures: weakref.WeakSet[TaskFuture] = weakref.WeakSet()

        def __reduce__(self) -> tuple[Any, ...]:
            raise TypeError("a backend of a scheduler stays in the process of its scheduler")

        def effective_n_jobs(self, n_jobs: int | None) -> int:
            if n_jobs == 0:
                raise ValueError("n_jobs == 0 in Parallel has no meaning")
            workers = self._executor._max_workers
            if n_jobs is None:
                return workers
            return min(n_jobs, workers) if n_jobs > 0 else max(workers + 1 + n_jobs, 1)

        def submit(self, func: Callable[[], Any], callback: Callable[[Any], object] | None = None) -> TaskFuture:
            future = self._executor.submit(func)
            self._futures.add(future)
            if callback is not None:
                future.add_done_callback(callback)
            return future

        def retrieve_result_callback(self, out: TaskFuture) -> Any:
            return out.result()

        def abort_everything(self, ensure_ready: bool = True) -> None:
            for future in list(self._futures):
                future.cancel(running=True)
            self._futures.clear()
            if ensure_ready:
                self.configure(n_jobs=self.parallel.n_jobs, parallel=self.parallel)

        def get_nested_backend(self) -> tuple[Any, int | None]:
            level = (self.nesting_level or 0) + 1
            return type(self)(executor=self._executor, nesting_level=level), None

        def retrieval_context(self) -> AbstractContextManager[None]:
            return blocking()

    return StrandBackend
