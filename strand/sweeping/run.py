"""``strand.sweep``: one handler with many sets of parameters over many files, in processes or on a Ray cluster."""

# Not with annotations as text: the declarations of options stand in types.

import errno
import fcntl
import io
import marshal
import os
import pickle
import sys
from collections import ChainMap, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext, suppress
from dataclasses import replace
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from queue import SimpleQueue
from types import CodeType
from typing import Annotated, Any, Final, Literal, Unpack, get_args

from strand.errors import ConfigurationError, FeedError, MissingExtraError, StrandError
from strand.feeds.opening import ReadOptions, expand, options_with_date, read_symbols, takes_option
from strand.feeds.times import as_date
from strand.fixed import dataclass
from strand.handlers import Handler, HandlerLike, resolve
from strand.handlers.sets import part_with_sets, with_sets
from strand.handlers.state import SET
from strand.lazy import imported
from strand.options import Choice, File, Made, Whole, named_options
from strand.sweeping.digests import Stamp, code_digest, file_digest, stamp_of
from strand.sweeping.job import ROWS, SHORT, Done, Job, run_job
from strand.sweeping.manifest import Manifest, SweepRun, now
from strand.sweeping.result import FILE, Place, SweepResult
from strand.sweeping.sets import parameter_sets
from strand.tables.columns import Table
from strand.validate import callable_of

#: Part of a file's name that a day's date replaces.
_DATE: Final = "{date"


@dataclass(frozen=True)
class _Input:
    """File of the sweep: its label, and the digest of its bytes, where that is known or asked for."""

    label: str
    path: Path
    stamp: Stamp
    digest: str | None
    options: Mapping[str, Any]


Backend = Literal["processes", "ray"]


class SweepOptions(ReadOptions, total=False):
    """Options of ``strand.sweep``."""

    days: Annotated[
        Sequence[str] | None,
        None,
        'Dates to put in place of ``{date}`` in the name of the files.\nAs text, ``"2026-01-05"``. Each is also the '
        "file's option ``date``, if its format needs one.",
    ]
    workers: Annotated[
        int | None,
        None,
        Whole(1),
        "How many files are read at a time, each by one process on one core. None: all cores.\nThis process is the "
        "first.",
    ]
    out: Annotated[
        str | os.PathLike[str] | None,
        None,
        File(),
        "The folder of the data set.\nIt has Parquet tables ``rows`` and one per output, and a manifest. Results that "
        "it already has of the same input, code and set are not computed again; with all results it may be read-only. "
        "Without it a folder is used that is removed with the result.",
    ]
    backend: Annotated[
        Backend,
        "processes",
        Choice(get_args(Backend)),
        "Run the files in processes of this machine, or as tasks of Ray.\nRay runs them on the cluster of "
        "``ray.init``, else on this machine. ``out`` must then be a folder that all nodes share.",
    ]
    progress: Annotated[
        Callable[[int, int], None] | None,
        None,
        Made(callable_of),
        "Called with the number of files that are done, and the number of all files to run.",
    ]


@named_options("sweep()", declares=SweepOptions)
def sweep(
    files: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    handler: HandlerLike,
    params: Any = None,
    **options: Unpack[SweepOptions],
) -> SweepResult:
    """Runs a handler with many sets of parameters: each file is decoded once, and all sets see each tick.

    An interrupt or an error keeps the files that are done, and the same call continues from there. A KeyboardInterrupt
    has the result of those files as ``partial``, once there is one: its ``missing`` names the others.

    Args:
        files: A file, several, a folder or a glob. Each file is a run of its own, which begins with rows of zeros. With
            ``days``, one name in which ``{date}`` stands for the day: ``"data/{date:%Y%m%d}.gz"``.
        handler: A handler with ``params=``, or a chain that ends in one: compiled (``strand.handler``), of objects
            (``strand.object_handler``, with ``state=`` or ``outputs=``), or of batches (``strand.batch_handler``).
        params: A dict of parameters by name for each set, or a DataFrame of pandas or polars with one row per set.

    Raises:
        ConfigurationError: If the handler has no parameters, or neither rows nor outputs; if it does not take the given
            parameters; if two files have one name; or if another argument cannot work.
        FeedError: If a file cannot be read or changes during the sweep, or ``out`` cannot be written. A file can also
            raise what else ``strand.replay`` raises.
        HandlerError: If a handler fails; ``set_number`` and ``params`` say with which set.
        MissingExtraError: Without the extra ``sweep``; or without ``ray``, for that backend.
    """
    symbols, date, progress = options["symbols"], options["date"], options["progress"]
    read_symbols(symbols or ())
    run = backend_for(options["backend"])
    given = resolve(handler)
    if params is None:
        raise ConfigurationError(
            "params", "give a dict for each set; without params= a handler is run by strand.replay"
        )
    sets = parameter_sets(params)
    _check_names(given)
    with_sets(given, sets)  # what is wrong with a set is said before anything is read
    n_workers = options["workers"] or len(os.sched_getaffinity(0))
    # One day has one text, so that runs are found again however it was given.
    day = None if date is None else as_date(date).isoformat()
    reading: dict[str, Any] = {**options_with_date(options["feed_options"], day)}
    selection = {
        "symbols": list(symbols) if symbols else None, "start": options["start"], "end": options["end"],
        "limit": options["limit"], "allow_empty": options["allow_empty"],
    }  # fmt: skip
    code = code_digest(given, {**reading, **selection})
    place = Place(options["out"])
    folder = place.path
    with _locked(folder), closing(Manifest(folder)) as manifest:
        _remove_strays(folder, manifest)
        numbers = manifest.number(sets)
        inputs = list(_inputs(files, options["days"], reading, code, manifest))
        jobs = list(
            _jobs(
                inputs,
                given,
                code=code,
                sets=dict(zip(numbers, sets, strict=True)),
                folder=folder,
                manifest=manifest,
                selection=selection,
            )
        )
        # Without jobs this is only a note of the last sweep, and the folder may be read-only.
        with nullcontext() if jobs else suppress(FeedError):
            manifest.add_code(code, given.described, Table(part_with_sets(given)[1].state, None).unit_words)
        ran: list[str] = []
        try:
            for job, did in run(jobs, min(n_workers, max(len(jobs), 1))):
                manifest.note_input(job.source, did.stamp, did.digest)
                manifest.add(_runs(job, did, code, folder))
                ran.append(job.label)
                if progress is not None:
                    progress(len(ran), len(jobs))
        except KeyboardInterrupt as interrupt:
            vars(interrupt).pop("partial", None)  # of one file's replay
            left = {job.label for job in jobs}.difference(ran)
            if len(left) < len(inputs):
                interrupt.partial = _result(code, inputs, numbers, ran, place, *left)  # type: ignore[attr-defined]
            raise
        _remove_strays(folder, manifest)
    return _result(code, inputs, numbers, ran, place)


def _result(
    code: str, inputs: Sequence[_Input], numbers: Sequence[int], ran: Sequence[str], place: Place, *left: str
) -> SweepResult:
    """Result of all inputs but those whose labels are ``left``."""
    labels = [each.label for each in inputs]
    return SweepResult(
        code=code,
        labels=tuple(label for label in labels if label not in left),
        numbers=tuple(numbers),
        ran=tuple(ran),
        missing=tuple(label for label in labels if label in left),
        _place=place,
    )


def _check_names(handler: Handler) -> None:
    """Columns and tables of a data set have names of their own. Raises ConfigurationError."""
    called, part = part_with_sets(handler)
    taken = [name for name in (SET, FILE, "symbol") if name in (part.state.names or ())]
    if taken:
        raise ConfigurationError(
            "handler", f"{called!r} has a field {taken[0]!r}, as all rows have a column: rename it"
        )
    if ROWS in part.outputs:
        raise ConfigurationError(
            "handler", f"{called!r} has an output {ROWS!r}, as the table of rows is called: rename it"
        )


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Locks a folder: one sweep writes to it at a time. Raises FeedError for what is no folder, and cannot be one."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except (OSError, ValueError) as error:  # ValueError: a name with a null
        why = getattr(error, "strerror", None) or error
        raise FeedError(f"it cannot be the folder of a data set (out): {why}", path=folder) from error
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConfigurationError("out", f"another sweep writes to {folder} now") from None
        yield
    finally:
        os.close(handle)


def _remove_strays(folder: Path, manifest: Manifest) -> None:
    """Removes tables that no run has: of a sweep that was interrupted, or of an input that has changed."""
    known = manifest.files()
    for pattern in ("*.parquet", ".*.partial"):
        for path in folder.glob(f"*/code=*/file=*/{pattern}"):
            if str(path.relative_to(folder)) not in known:
                with _unless_read_only():
                    path.unlink(missing_ok=True)


@contextmanager
def _unless_read_only() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise


# ---- the files


def _inputs(
    files: Any, days: Sequence[str] | None, options: Mapping[str, Any], code: str, manifest: Manifest
) -> Iterator[_Input]:
    """A file is read here only where there are results of one that was called so: else the job reads it."""
    has_results = {run.label for run in manifest.runs(code)}
    seen: dict[str, Path] = {}
    for path, label, own in _named(files, days, options):
        if label in seen:
            raise ConfigurationError(
                "files", f"{seen[label]} and {path} are both called {label}: rename one, or sweep them apart"
            )
        seen[label] = path
        stamp = stamp_of(path)
        digest = manifest.known_digest(path, stamp)
        if digest is None and label in has_results:
            digest = file_digest(path)
            manifest.note_input(path, stamp, digest)
        yield _Input(label, path, stamp, digest, own)


def _named(
    files: Any, days: Sequence[str] | None, options: Mapping[str, Any]
) -> Iterator[tuple[Path, str, Mapping[str, Any]]]:
    """The files, each with its label and the options it is opened with."""
    if days is None:
        for path in expand(files, dict(options)):
            found = Path(path)
            yield found.absolute(), found.name, options
        return
    pattern = os.fspath(files) if isinstance(files, str | os.PathLike) else ""
    if _DATE not in pattern:
        raise ConfigurationError("days", "give files as one name with {date} in it, as 'data/{date:%Y%m%d}.gz'")
    if "date" in options:
        raise ConfigurationError("date", "leave it out: days has it")
    for day in days:
        date = as_date(day)
        path = Path(pattern.format(date=date)).absolute()
        own = {"date": date.isoformat()} if takes_option(path, "date", options) else {}
        yield path, date.isoformat(), {**options, **own}


def _jobs(
    inputs: Sequence[_Input],
    handler: Handler,
    *,
    code: str,
    sets: Mapping[int, Mapping[str, Any]],
    folder: Path,
    manifest: Manifest,
    selection: Mapping[str, Any],
) -> Iterator[Job]:
    """Jobs to run: for each file the sets that have no result yet, the largest file first."""
    there: dict[tuple[str, str], set[int]] = {}
    for run in manifest.runs(code):
        there.setdefault((run.label, run.input), set()).add(run.number)
    _, part = part_with_sets(handler)
    for each in sorted(inputs, key=lambda one: (-one.stamp[0], one.label)):
        missing = {
            number: dict(values)
            for number, values in sets.items()
            if each.digest is None or number not in there.get((each.label, each.digest), ())
        }
        if not missing:
            continue
        yield Job(
            label=each.label,
            source=each.path,
            handler=handler,
            sets=missing,
            into={
                table: folder / table / f"code={code[:SHORT]}" / f"file={each.label}" for table in (ROWS, *part.outputs)
            },
            known=None if each.digest is None else (each.stamp, each.digest),
            options={**selection, "feed_options": each.options, "workers": 0},
        )


def _runs(job: Job, did: Done, code: str, folder: Path) -> list[SweepRun]:
    files = {name: str(path.relative_to(folder)) for name, path in job.files(did.digest).items()}
    return [
        SweepRun(
            code=code,
            label=job.label,
            number=number,
            input=did.digest,
            fingerprint=left.fingerprint,
            rows=left.rows,
            outputs=left.outputs,
            ticks=did.ticks,
            seconds=did.seconds,
            ended=now(),
            files=files,
            warnings=did.warnings,
        )
        for number, left in did.left.items()
    ]


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
    cloudpickle = imported("cloudpickle", "sweep", "a sweep in several processes")
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
    loky = imported("loky", "sweep", "a sweep in several processes")
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
    ray = imported("ray", "ray", "a sweep on Ray")
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
