"""Where the jobs of a sweep run: in this process, in processes of this machine, or on a Ray cluster."""

from __future__ import annotations

import importlib
import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, Final, Literal, get_args

from strand.errors import ConfigurationError, MissingExtraError, StrandError
from strand.handlers import Handler
from strand.sweeping.job import Done, Job, run_job

__all__ = ["Backend", "backend_for"]

Backend = Literal["processes", "ray"]
#: Gives each job that has ended, with what it did, as they end.
Runs = Callable[[Sequence[Job], int], Iterator[tuple[Job, Done]]]
#: How often Ray starts a job again whose worker or node died.
_TRIES: Final = 5


def backend_for(name: str) -> Runs:
    """Raises ConfigurationError for a name that is none, MissingExtraError where its library is not installed."""
    if name not in get_args(Backend):
        raise ConfigurationError(f"backend: {name!r} is not {' or '.join(map(repr, get_args(Backend)))}")
    if name == "ray":
        return _on_ray
    return _in_processes


def _library(name: str, extra: str, what: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise MissingExtraError(what, name, extra) from error


@cache
def _handler_of(sent: bytes) -> Handler:
    """One handler for all jobs of a process: what it has compiled is kept with it."""
    found: Handler = pickle.loads(sent)
    return found


def _sent(jobs: Sequence[Job]) -> Iterator[tuple[Job, Job, bytes]]:
    """Each job, as it is sent to another process, and its handler apart."""
    cloudpickle = _library("cloudpickle", "sweep", "a sweep in several processes")
    handlers: dict[int, bytes] = {}
    for job in jobs:
        if id(job.handler) not in handlers:
            handlers[id(job.handler)] = cloudpickle.dumps(job.handler)
        yield job, replace(job, handler=None), handlers[id(job.handler)]


def _run_apart(job: Job, handler: bytes) -> Done | Exception:
    """``run_job`` in another process. An error comes back without the part of the result that it has, which has memory
    of this process; one that cannot be sent as a StrandError of its words."""
    try:
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
    """One job at a time in each of so many processes; in this one where there is but one."""
    if workers == 1:
        for job in jobs:
            yield job, run_job(job)
        return
    loky = _library("loky", "sweep", "a sweep in several processes")
    futures = importlib.import_module("concurrent.futures")
    pool = loky.ProcessPoolExecutor(max_workers=workers, env={"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"})
    try:
        waiting = {pool.submit(_run_apart, *sent): job for job, *sent in _sent(jobs)}
        for future in futures.as_completed(waiting):
            yield waiting[future], _told(future.result())
    finally:
        pool.shutdown(wait=True, kill_workers=True)


def _on_ray(jobs: Sequence[Job], workers: int) -> Iterator[tuple[Job, Done]]:
    """One job is one task, which Ray runs again where its worker or its node dies."""
    ray = _library("ray", "ray", "a sweep on Ray")
    ours = not ray.is_initialized()
    if ours:
        ray.init(num_cpus=workers, include_dashboard=False, log_to_driver=False)
    task = ray.remote(num_cpus=1, max_retries=_TRIES)(_run_apart)
    waiting = {task.remote(*sent): job for job, *sent in _sent(jobs)}
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
