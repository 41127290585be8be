"""State of an application that its routes share: scheduler, bounds, groups, replies to come, and counts."""

from __future__ import annotations

import asyncio
import secrets
from collections import Counter, OrderedDict
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Final
from weakref import WeakValueDictionary

from starlette.responses import JSONResponse, PlainTextResponse, Response

from strand.dicts import FrozenDict
from strand.errors import ConfigurationError
from strand.fixed import dataclass
from strand.http.exchange import Batch
from strand.http.options import AppOptions
from strand.http.requests import ROOT, Request
from strand.logs import Event
from strand.metrics import Families
from strand.tasks.future import TaskFuture
from strand.tasks.groups import TaskGroup
from strand.tasks.tasks import Tasks

#: An application that is mounted in another one has no life of its own.
_UNAWAITED: Final = Event(
    "http.unawaited",
    ".http",
    "WARNING",
    "a stop will not wait for requests that are answered by 202: the outer application does not run "
    "app.router.lifespan_context(app)",
    most=1,
    interval_s=3600,
)
#: Where a client asks for the reply to a request that was answered by 202.
POLLED: Final = "/accepted/{id}"


@dataclass(frozen=True, slots=True)
class HttpStatistics:
    """Counts of an application since its start.

    Attributes:
        requests: Requests that were answered, by the path of the route and the status. ``"(other)"`` has those without
            a route and those of mounted applications.
        open: Requests that are being answered.
        gone: Requests whose client went away before the reply.
        dropped: Replies that came after 504, or after the client had gone.
        accepted: Requests answered by 202 whose replies are kept or to come.
    """

    requests: Mapping[tuple[str, int], int]
    open: int
    gone: int
    dropped: int
    accepted: int


def add_families(counts: HttpStatistics, made: Families) -> None:
    """Adds the counts of an application to the metrics of its run."""
    for (path, status), n in counts.requests.items():
        made.counter("http_requests", "Requests answered, by route.", n, path=path, status=str(status))
    made.gauge("http_open_requests", "Requests that are being answered.", counts.open)
    made.counter("http_clients_gone", "Requests whose client went away.", counts.gone)
    made.counter("http_replies_dropped", "Replies that came too late.", counts.dropped)
    made.gauge("http_kept_replies", "Replies that are kept or to come, of requests answered by 202.", counts.accepted)


class Front:
    """See the module. But for ``statistics`` all methods are called in the event loop."""

    def __init__(self, scheduler: Tasks | None, options: AppOptions) -> None:
        self.options = options
        self.requests: Counter[tuple[str, int]] = Counter()
        self.open = self.gone = self.dropped = 0
        #: True while the server runs the application's lifespan.
        self.lives = False
        self._batch: Batch | None = None
        self._groups: WeakValueDictionary[str, TaskGroup] = WeakValueDictionary()
        self._kept: OrderedDict[str, TaskFuture] = OrderedDict()
        self.use(scheduler)

    def use(self, scheduler: Tasks | None) -> None:
        """Makes requests tasks of a scheduler. Raises ConfigurationError for what is none, and after the start."""
        if scheduler is not None and not isinstance(scheduler, Tasks):
            raise ConfigurationError(
                "scheduler", f"{scheduler!r} is no scheduler: give a strand.Scheduler, or dispatcher.tasks"
            )
        if self._batch is not None:
            raise ConfigurationError("scheduler", "the application runs: set it before the first request")
        self.scheduler = scheduler

    def statistics(self) -> HttpStatistics:
        """Counts since the start. Any thread may ask."""
        return HttpStatistics(FrozenDict(self.requests), self.open, self.gone, self.dropped, len(self._kept))

    def note_dropped(self) -> None:
        """Counts a reply that nobody got."""
        self.dropped += 1

    def batch(self) -> Batch:
        """The requests of the running event loop. Coroutines of the scheduler run in that loop from now on."""
        loop = asyncio.get_running_loop()
        if self._batch is None or self._batch.calls.loop is not loop:
            self._batch = Batch(loop)
            if self.scheduler is not None:
                self.scheduler.run_coroutines_in(loop)
        return self._batch

    def group(self, name: str) -> TaskGroup:
        """The group of a name, which lives as long as requests of it do."""
        found = self._groups.get(name)
        if found is None:
            found = self._groups[name] = TaskGroup(name)
        return found

    def refusal(self, status: int, reason: str) -> Response:
        """A response that says when to try again."""
        return PlainTextResponse(reason, status, {"Retry-After": str(self.options.retry_after_s)})

    def room_to_accept(self) -> Response | None:
        """Makes room for another request that is to be answered by 202, or returns the refusal of it."""
        kept = self._kept
        if len(kept) < self.options.max_accepted:
            return None
        ended = next((name for name, task in kept.items() if task.done()), None)
        if ended is None:
            return self.refusal(429, f"max_accepted: {len(kept):,} requests have no reply yet")
        del kept[ended]
        return None

    def accepted(self, request: Request, task: TaskFuture) -> Response:
        """Keeps the task of a request, and says where its reply will be."""
        if not self.lives:
            _UNAWAITED()
        name = secrets.token_urlsafe(18)
        self._kept[name] = task
        calls = self.batch().calls
        forget = partial(calls.loop.call_later, self.options.accepted_for_s, self._kept.pop, name, None)

        def forget_later(_: object) -> None:
            with suppress(RuntimeError):  # the loop is closed
                calls.add(forget)

        task.add_done_callback(forget_later)
        place = f"{request.scope[ROOT]}{POLLED.format(id=name)}"
        return JSONResponse({"id": name, "state": task.state}, 202, {"Location": place})

    async def reply_to(self, request: Request) -> Response:
        """The reply to a request that was answered by 202, or its state; DELETE cancels it."""
        task = self._kept.get(request.path_params["id"])
        if task is None:
            return PlainTextResponse("no such request, or its reply is kept no more", 404)
        if request.method == "DELETE":
            task.cancel(running=True)
        said = {"id": request.path_params["id"], "state": task.state}
        if task.cancelled():
            return JSONResponse(said, 200 if request.method == "DELETE" else 410)
        if task.done():
            return response_of(task)
        return JSONResponse(said, 202, {"Retry-After": str(self.options.retry_after_s)})

    async def end(self) -> None:
        """The server ends: waits for the tasks of requests that were answered by 202."""
        if waited := [asyncio.wrap_future(task) for task in self._kept.values() if not task.done()]:
            await asyncio.wait(waited)
        if self.scheduler is not None:
            self.scheduler.run_coroutines_in(None)
        self._batch = None
        self.lives = False


def of_answer(found: Any) -> Response:
    """The response that a task returned. Raises an exception that it returned."""
    if isinstance(found, Exception):
        raise found
    assert isinstance(found, Response)
    return found


def failure(error: BaseException) -> Exception:
    """An error that middleware and servers answer by 500. SystemExit and its like would end the server's loop."""
    return error if isinstance(error, Exception) else RuntimeError(f"the handler raised {error!r}")


def response_of(task: TaskFuture) -> Response:
    """The response that a task that has ended gives. Raises what its handler raised."""
    state = task.state
    if state == "done":
        return of_answer(task.result())
    if state == "expired":
        return PlainTextResponse("the deadline of the request is over", 504)
    if state in ("cancelled", "dropped"):
        return PlainTextResponse(f"the request was {state}", 503)
    error = task.exception()
    assert error is not None
    raise failure(error) from (None if isinstance(error, Exception) else error)
