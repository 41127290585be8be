"""Backends that run the jobs of a sweep: this process, processes of this machine, or a Ray cluster."""

from __future__ import annotations

import importlib
import io
import marshal
import pickle
import sys
from collections import ChainMap, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache, partial
from importlib.util import find_spec
from queue import SimpleQueue
from types import CodeType
from typing import Any, Final, Literal, get_args

from strand.errors import ConfigurationError, MissingExtraError, StrandError
from strand.handlers import Handler
from strand.sweeping.digests import code_digest
from strand.sweeping.job import Done, Job, run_job

__all__ = ["Backend", "backend_for"]

Backend = Literal["processes", "ray"]
#: Gives each job that has ended, with what it did, as they end.
Runs = Callable[[Sequence[Job], int], Iterator[tuple[Job, Done]]]
#: Name of a sweep, the extra with all its packages, and the packages that every sweep of this kind takes.
_NEEDS: Final = {
    "processes": ("a sweep", "sweep", ("pyarrow", "numba")),
    "ray": ("a sweep on Ray", "ray", ("pyarrow", "numba", "cloudpickle", "ray")),
}
#: Number of times that Ray restarts a job whose worker or node died.
_TRIES: Final = 5


def backend_for(name: str) -> Runs:
    """Returns the function that runs the jobs. Raises ConfigurationError for an unknown name, and MissingExtraError
    where a package of the backend is not installed."""
    if name not in get_args(Backend):
        raise ConfigurationError("backend", f"{name!r} is not {' or '.join(map(repr, get_args(Backend)))}")
    what, extra, packages = _NEEDS[name]
    for package in packages:
        if not _is_installed(package):
            raise MissingExtraError(what, package, extra)
    return _on_ray if name == "ray" else _in_processes


def _is_installed(package: str) -> bool:
    """Tells whether a package is installed, without importing it: for Ray that takes longer than a sweep that has
    nothing to run."""
    return sys.modules.get(package) is not None or find_spec(package) is not None


def _library(name: str, extra: str, what: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise MissingExtraError(what, name, extra) from error


@cache
def _handler_of(sent: bytes) -> Handler:
    """Handler for all jobs of a process: its compiled code is kept with it."""
    found: Handler = pickle.loads(sent)
    return found


@cache
def _digest_of(sent: bytes) -> str:
    """Digest of a handler's code, as this process has it."""
    return code_digest(_handler_of(sent), {})


#: A job without its handler; the handler; and the digest of its code, None where each time gives another one.
_Sent = tuple[Job, bytes, str | None]


def _sent(jobs: Sequence[Job]) -> Iterator[tuple[Job, _Sent]]:
    """Each job, and as it is sent to another process."""
    cloudpickle = _library("cloudpickle", "sweep", "a sweep in several processes")
    handlers: dict[int, tuple[bytes, str | None]] = {}
    for job in jobs:
        assert job.handler is not None
        if id(job.handler) not in handlers:
            code = code_digest(job.handler, {})
            comes_again = code_digest(job.handler, {}) == code
            handlers[id(job.handler)] = _pickled(cloudpickle, job.handler), code if comes_again else None
        yield job, (replace(job, handler=None), *handlers[id(job.handler)])


def _pickled(cloudpickle: Any, handler: Handler | None) -> bytes:
    """The handler for another process. Its code keeps the name of its file, which cloudpickle would take away. By that
    name numba finds compiled code again, and an error its line."""
    table = ChainMap({CodeType: _code}, cloudpickle.Pickler.dispatch_table)
    into = io.BytesIO()
    type("Pickler", (cloudpickle.Pickler,), {"dispatch_table": table})(into).dump(handler)
    return into.getvalue()


def _code(code: CodeType) -> tuple[Callable[[bytes], Any], tuple[bytes]]:
    return marshal.loads, (marshal.dumps(code),)


def _run_apart(job: Job, handler: bytes, code: str | None) -> Done | Exception:
    """``run_job`` in another process. An error comes back without the part of the result that it has, which has memory
    of this process; one that cannot be sent as a StrandError of its words."""
    try:
        if code not in (None, _digest_of(handler)):
            # This process has imported the modules itself: the results would stand under the digest of other code.
            raise ConfigurationError(
                "handler",
                f"{_handler_of(handler).described!r} has other code or values in another process: it, or a "
                "global that it refers to, was changed after the import of its module: start Python again, make the "
                "global a parameter, or give workers=1",
            )
        return run_job(replace(job, handler=_handler_of(handler)))
    except Exception as error:
        if hasattr(error, "partial"):
            error.partial = None
        try:
            pickle.loads(pickle.dumps(error))
        except Exception:
            return StrandError(f"{job.label}: {type(error).__name__}: {error}")
        return error


def _told(said: Done | Exception) -> Done:
    if isinstance(said, Exception):
        raise said
    return said


def _in_processes(jobs: Sequence[Job], workers: int) -> Iterator[tuple[Job, Done]]:
    """Runs jobs in so many processes, one at a time in each. This process is the first of them: it works while the
    others start, which takes each of them about a second of its core."""
    if workers == 1:
        for job in jobs:
            yield job, run_job(job)
        return
    loky = _library("loky", "sweep", "a sweep in several processes")
    pool = loky.ProcessPoolExecutor(max_workers=workers - 1, env={"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"})
    waiting = deque(_sent(jobs))
    #: Jobs of other processes that have ended, as futures.
    ended: SimpleQueue[tuple[Job, Any]] = SimpleQueue()

    def next_job() -> tuple[Job, _Sent] | None:
        """Asked for in several threads."""
        try:
            return waiting.popleft()
        except IndexError:
            return None

    def hand_out() -> None:
        """Sends the next job, if there is one. No process has a second one waiting, which another could run."""
        if (found := next_job()) is not None:
            job, sent = found
            pool.submit(_run_apart, *sent).add_done_callback(partial(take_back, job))

    def take_back(job: Job, future: Any) -> None:
        try:
            hand_out()
        finally:
            ended.put((job, future))

    def said(job: Job, future: Any) -> tuple[Job, Done]:
        return job, _told(future.result())

    left = len(jobs)
    try:
        for _ in range(workers - 1):
            hand_out()
        while left:
            while not ended.empty() or (left and not waiting):
                yield said(*ended.get())
                left -= 1
            if (found := next_job()) is not None:
                yield found[0], run_job(found[0])
                left -= 1
    except GeneratorExit:
        raise
    except BaseException:
        waiting.clear()
        while not ended.empty():
            with suppress(Exception):
                yield said(*ended.get())
        raise
    finally:
        waiting.clear()
        pool.shutdown(wait=True, kill_workers=True)


def _on_ray(jobs: Sequence[Job], workers: int) -> Iterator[tuple[Job, Done]]:
    """Runs each job as a Ray task, which Ray runs again where its worker or its node dies."""
    ray = _library("ray", "ray", "a sweep on Ray")
    ours = not ray.is_initialized()
    if ours:
        ray.init(num_cpus=workers, include_dashboard=False, log_to_driver=False)
    task = ray.remote(num_cpus=1, max_retries=_TRIES)(_run_apart)
    waiting = {task.remote(*sent): job for job, sent in _sent(jobs)}
    try:
        while waiting:
            (ended,), _ = ray.wait(list(waiting), num_returns=1)
            job = waiting.pop(ended)
            yield job, _told(ray.get(ended))
    finally:
        for reference in waiting:
            ray.cancel(reference, force=True)
        if ours:
            ray.shutdown()
