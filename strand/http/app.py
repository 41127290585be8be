"""The application: a router whose requests are tasks, and the bounds of requests.

A request is read in the event loop. A worker then runs the handler, makes the reply, and hands it to the loop, which
sends it. An ``async`` handler is begun by a worker and runs in the loop. The loop does not wait for a handler whose
deadline is over, and cancels the task of a client that went away.
"""

from __future__ import annotations

import asyncio
import io
import json
import sys
from collections.abc import AsyncGenerator, Callable, Collection, Iterable
from concurrent.futures import CancelledError
from contextlib import asynccontextmanager
from contextvars import Context
from functools import partial
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any, Final, TypeVar

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware.body_limit import RequestBodyLimitMiddleware
from starlette.requests import ClientDisconnect
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Mount, Route
from starlette.types import Message, Receive, Scope, Send

from strand.brief import brief, several
from strand.errors import ConfigurationError, QueueFull, StoppedError
from strand.http.access import LOCAL_HOSTS
from strand.http.exchange import OUTLET, Exchange, Gone, Late, Outlet
from strand.http.front import POLLED, Front, HttpStatistics, add_families, failure, of_answer, response_of
from strand.http.options import AppOptions
from strand.http.requests import HAS_BODY, IDS, ROOT, Header, PerRequest, Request, ids_of, keep_ids, restore, set_ids
from strand.lazy import imported
from strand.logs import Event
from strand.metrics import Machine, exposition
from strand.outside.attached import Attached
from strand.spans import span_ns
from strand.tasks.future import TaskFuture
from strand.tasks.retry import ONCE, RetryPolicy
from strand.tasks.tasks import TaskExecutor, Tasks
from strand.tasks.waits import CURRENT_TASK, on_behalf_of

if TYPE_CHECKING:
    from strand.alerts.watch import Alerts
    from strand.http.dashboard import Tape

Handler = TypeVar("Handler", bound=Callable[..., Any])

#: The route of requests that none has, and of those that a mounted application answers.
OTHER: Final = "(other)"
_FAILED: Final = Event("http.failed", ".http", "ERROR", "%(method)s %(path)s was answered by 500")
#: What a handler raises that was asked to end: by ``strand.checkpoint()``, and at an ``await``.
_CANCELLED: Final = (CancelledError, asyncio.CancelledError)


class Endpoint:
    """An ASGI application that answers the requests of one route. Arguments: see ``App.route``."""

    def __init__(
        self,
        front: Front,
        path: str,
        handler: Callable[[Request], Any],
        *,
        scheduled: bool,
        accepts: bool,
        retry: RetryPolicy | None,
        **options: Any,
    ) -> None:
        self.path = path
        self._front = front
        self._handler = handler
        self._accepts = accepts
        self._is_async = iscoroutinefunction(handler) or iscoroutinefunction(vars(type(handler)).get("__call__"))
        self._is_scheduled = scheduled
        self._may_begin_here = self._is_async and retry is None and not accepts
        self._retry = retry
        self._given = {name: value for name, value in options.items() if value is not None}
        self._asks = any(callable(value) for value in self._given.values())
        self._by_header = any(isinstance(value, Header) for value in self._given.values())
        #: What submits its tasks, where all of them have the same options, and for how many seconds these may wait.
        self._executor: tuple[TaskExecutor, float | None] | None = None
        if retry is not None and "group" in self._given:
            raise ConfigurationError("retry", "a task that fails would cancel the group's others: give retry or group")
        if not callable(deadline := self._given.get("deadline", callable)):
            span_ns("deadline", deadline)
        if front.scheduler is not None and not self._asks:
            self._executor_for(front.scheduler, self._given)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive, send)
        try:
            if scope.get(HAS_BODY, True):
                await request.read(self._front.options.body_timeout_s)
            if self._front.scheduler is not None and self._is_scheduled:
                executor, within_s = self._executor or self._executor_of(request)
                begun = executor.begin_here(self._answer, request) if self._may_begin_here else None
                if begun is None:
                    response = await self._as_task(request, receive, executor, within_s)
                else:  # in the request's own asyncio task, since no task waits: the turn of this one is there
                    here, coroutine = begun
                    watch = self._front.batch().watches.add(receive, partial(here.cancel, True))
                    try:
                        response = of_answer(await coroutine)
                    except asyncio.CancelledError:
                        if not here.cancelled():
                            raise
                        if watch.is_gone:
                            raise Gone from None
                        response = response_of(here)
                    finally:
                        watch.end()
            elif self._is_async:
                response = as_response(await self._handler(request))
            else:
                response = await run_in_threadpool(_call, self._handler, request)
        except (ClientDisconnect, Gone):
            self._front.gone += 1
            return
        except (QueueFull, StoppedError) as error:
            response = self._front.refusal(429 if isinstance(error, QueueFull) else 503, str(error))
        except Late:
            response = PlainTextResponse("the deadline of the request is over", 504)
        except (Exception, GeneratorExit):
            raise
        except BaseException as error:
            if isinstance(error, asyncio.CancelledError) and _is_cancelled():
                raise  # the server ends
            raise failure(error) from error
        await response(scope, receive, send)

    async def _as_task(
        self, request: Request, receive: Receive, executor: TaskExecutor, within_s: float | None
    ) -> Response:
        if self._accepts and (refusal := self._front.room_to_accept()) is not None:
            return refusal
        batch = self._front.batch()
        exchange = Exchange(
            self._run,
            request,
            receive,
            within_s=within_s,
            accepts=self._accepts,
            note_dropped=self._front.note_dropped,
            batch=batch,
        )
        batch.add(executor, exchange)
        try:
            task = await exchange.reply
        finally:
            exchange.end()
        return self._front.accepted(request, task) if self._accepts else response_of(task)

    def _executor_of(self, request: Request) -> tuple[TaskExecutor, float | None]:
        scheduler = self._front.scheduler
        assert scheduler is not None
        if not self._asks:
            self._executor = self._executor_for(scheduler, self._given)
            return self._executor
        options = {name: value(request) if callable(value) else value for name, value in self._given.items()}
        try:
            return self._executor_for(scheduler, options)
        except ConfigurationError as error:
            if self._by_header:
                raise HTTPException(400, str(error)) from None
            raise

    def _executor_for(self, scheduler: Tasks, options: dict[str, Any]) -> tuple[TaskExecutor, float | None]:
        if isinstance(name := options.get("group"), str):
            options = {**options, "group": self._front.group(name)}
        deadline = options.get("deadline")
        within_s = None if deadline is None else span_ns("deadline", deadline) / 1e9
        return scheduler.options(retry=self._retry or ONCE, **options), within_s

    def _run(self, exchange: Exchange) -> Any:
        """Runs the handler of a request in a worker, in the context that the request has in the loop. Returns the
        response, or an exception that is an answer; for an ``async`` handler the coroutine that does so."""
        task = CURRENT_TASK.get()
        assert task is not None
        if self._is_async:
            return self._answer(exchange.request, exchange.context)
        try:
            return exchange.context.run(on_behalf_of, task, _call, self._handler, exchange.request)
        except BaseException as error:
            return self._kept(error, exchange.request)

    async def _answer(self, request: Request, context: Context | None = None) -> Response | Exception:
        """``_run`` for an ``async`` handler. ``context``: that of the request, where it is not that of the caller."""
        if context is not None:
            restore(context)
        try:
            return as_response(await self._handler(request))
        except BaseException as error:
            return self._kept(error, request)

    def _kept(self, error: BaseException, request: Request) -> Exception:
        """Returns an exception that is an answer, and raises others: they fail the task. A task that fails would cancel
        its group, and with it the requests of others."""
        if isinstance(error, HTTPException):
            return error
        task = CURRENT_TASK.get()
        asked_to_end = isinstance(task, TaskFuture) and task.cancel_requested and isinstance(error, _CANCELLED)
        if asked_to_end or isinstance(error, GeneratorExit) or "group" not in self._given:
            if task is not None:
                keep_ids(task, request.scope[IDS])
            raise error
        return failure(error)


def _call(handler: Callable[[Request], Any], request: Request) -> Response:
    return as_response(handler(request))


def _is_cancelled() -> bool:
    """Tells whether somebody cancels the calling asyncio task."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def as_response(value: Any) -> Response:
    """The response for what a handler returned: a Response as it is, text, bytes, None (204), or a value for JSON."""
    if isinstance(value, Response):
        return value
    if isinstance(value, str):
        return PlainTextResponse(value)
    if isinstance(value, bytes):
        return Response(value, media_type="application/octet-stream")
    if value is None:
        return Response(status_code=204)
    return Response(json.dumps(value, allow_nan=False, separators=(",", ":")), media_type="application/json")


class WsgiEndpoint(Endpoint):
    """An endpoint whose handler is ``call_wsgi``. ``max_body_bytes``: the longest body; None: the application's."""

    def __init__(self, *args: Any, max_body_bytes: int | None, **options: Any) -> None:
        super().__init__(*args, **options)
        answer = super().__call__
        self._answer_request = answer if max_body_bytes is None else RequestBodyLimitMiddleware(answer, max_body_bytes)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._accepts or self._retry is not None:  # nobody waits for it, or it may begin anew
            await self._answer_request(scope, receive, send)
            return
        is_watched = self._front.scheduler is not None and self._is_scheduled
        scope[OUTLET] = outlet = Outlet(send, None if is_watched else receive, self._front.batch().watches)
        try:
            await self._answer_request(scope, receive, outlet.send)
        finally:
            outlet.close()


def call_wsgi(application: Callable[..., Iterable[bytes]], request: Request) -> Response:
    """The reply of a WSGI application (PEP 3333) to a request. Of a reply that is not there at once, each part is sent
    before the application makes the next one, in this thread."""
    head: tuple[int, list[tuple[bytes, bytes]]] | None = None
    parts: list[bytes] = []
    outlet: Outlet | None = request.scope.get(OUTLET)

    def start_response(status: str, headers: list[tuple[str, str]], error: Any = None) -> Callable[[bytes], None]:
        nonlocal head
        if head is not None and error is None:
            raise AssertionError("start_response was called twice, the second time without exc_info")
        if outlet is not None and outlet.has_begun:
            raise error[1].with_traceback(error[2])
        given = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers]
        head = int(status.split(" ", 1)[0]), given
        return write

    def write(part: bytes) -> None:
        if part:
            if head is None:
                raise AssertionError("the WSGI application has not called start_response")
            if outlet is None or (not outlet.has_begun and _length(head[1]) == len(part)):
                parts.append(part)
            else:
                if not outlet.has_begun:
                    outlet.begin(*head)
                outlet.write(b"".join([*parts, part]))
                parts.clear()

    found = application(environ_of(request), start_response)
    try:
        if isinstance(found, (list, tuple)) and not (outlet is not None and outlet.has_begun):
            parts.extend(found)
        else:
            for part in found:
                write(part)
    finally:
        if (close := getattr(found, "close", None)) is not None:
            close()
    if head is None:
        raise AssertionError("the WSGI application has not called start_response")
    if outlet is not None and outlet.has_begun:
        outlet.write(b"".join(parts), is_last=True)
        return outlet
    response = Response(b"".join(parts), head[0])
    response.raw_headers = head[1] if _length(head[1]) is not None else [*head[1], *response.raw_headers]
    return response


def _length(headers: list[tuple[bytes, bytes]]) -> int | None:
    """The length of a body that headers declare."""
    return next((int(value) for name, value in headers if name == b"content-length" and value.isdigit()), None)


def environ_of(request: Request) -> dict[str, Any]:
    """The environment that an application gets: the request of the WSGI standard."""
    scope, root = request.scope, request.scope.get("root_path", "")
    server, client = scope.get("server") or ("localhost", 80), scope.get("client")
    found: dict[str, Any] = {
        "REQUEST_METHOD": scope["method"],
        "SCRIPT_NAME": root.encode().decode("latin-1"),
        "PATH_INFO": scope["path"].removeprefix(root).encode().decode("latin-1"),
        "QUERY_STRING": scope["query_string"].decode("latin-1"),
        "SERVER_PROTOCOL": f"HTTP/{scope['http_version']}",
        "SERVER_NAME": server[0],
        "SERVER_PORT": str(server[1]),
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": scope.get("scheme", "http"),
        "wsgi.input": io.BytesIO(request.content),
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": True,
        "wsgi.multiprocess": False,
        "wsgi.run_once": False,
    }
    if client is not None:
        found["REMOTE_ADDR"] = client[0]
    for raw_name, raw_value in scope["headers"]:
        name, value = raw_name.decode("latin-1").upper().replace("-", "_"), raw_value.decode("latin-1")
        key = name if name in ("CONTENT_TYPE", "CONTENT_LENGTH") else f"HTTP_{name}"
        found[key] = f"{found[key]},{value}" if key in found else value
    if "CONTENT_LENGTH" not in found and request.content:
        found["CONTENT_LENGTH"] = str(len(request.content))
    return found


class App(Starlette):
    """An ASGI application whose requests are tasks of a scheduler: a ``starlette.applications.Starlette``.

    ``def`` handlers run on the scheduler's workers. ``async`` handlers get their turn from the scheduler and run in the
    server's event loop, as all coroutines of the scheduler then do. Without a scheduler, ``async`` handlers run in the
    request's own task, and ``def`` handlers in starlette's thread pool.

    A handler takes a ``strand.http.Request``, whose body was read, and returns a ``starlette.responses.Response``,
    text, bytes, None (status 204), or a value for JSON.

    Args:
        scheduler: A ``strand.Scheduler``, or the ``tasks`` of a dispatcher; None: requests are no tasks.
        options: Bounds; None: those of ``AppOptions()``.
        lifespan: As that of Starlette.
        **starlette: Other arguments of Starlette: ``routes``, ``middleware``, ``exception_handlers``, ``debug``.

    Raises:
        ConfigurationError: If the scheduler is none.
    """

    def __init__(
        self,
        scheduler: Tasks | None = None,
        options: AppOptions | None = None,
        *,
        lifespan: Callable[[Any], Any] | None = None,
        **starlette: Any,
    ) -> None:
        self.options = options or AppOptions()
        self._outer_lifespan = lifespan
        super().__init__(lifespan=self._life, **starlette)
        self._unlimited = super().__call__
        self._limited = RequestBodyLimitMiddleware(self._unlimited, self.options.max_body_bytes)
        self._front = Front(scheduler, self.options)
        self._has_poll = False

    def __repr__(self) -> str:
        return brief(self, several(len(self.routes), "route"), repr(self.scheduler))

    @property
    def scheduler(self) -> Tasks | None:
        """The scheduler whose tasks requests are; None: they are no tasks. It may be set before the first request."""
        return self._front.scheduler

    @scheduler.setter
    def scheduler(self, scheduler: Tasks | None) -> None:
        self._front.use(scheduler)

    @property
    def is_ready(self) -> bool:
        """False if the scheduler takes no more tasks, as after its shutdown."""
        return self.scheduler is None or self.scheduler.refusal is None

    def statistics(self) -> HttpStatistics:
        """Counts since the start. Any thread may ask."""
        return self._front.statistics()

    # -- routes

    def route(
        self,
        path: str,
        methods: Collection[str] = ("GET",),
        *,
        priority: PerRequest = None,
        deadline: PerRequest = None,
        key: PerRequest = None,
        group: PerRequest = None,
        retry: RetryPolicy | None = None,
        scheduled: bool = True,
        accepts: bool = False,
        max_body_bytes: int | None = None,
        name: str | None = None,
    ) -> Callable[[Handler], Handler]:
        """Decorates the handler of a path.

        Args:
            path: The path, with parameters as starlette has them: ``"/orders/{id:int}"``.
            methods: The methods.
            priority: Priority of the task: a value, a ``Header``, or a function of the request. So are the next three.
            deadline: Time after the request was read at which the client gets 504. A handler that runs then goes on,
                and its reply is dropped.
            key: Requests of one key run in their order, one at a time.
            group: Name of the group whose share the request has under ``Fair``, or a ``TaskGroup``.
            retry: When a handler that raised is called again; None: never.
            scheduled: Whether the request is a task; if not, it is answered as without a scheduler.
            accepts: Whether the client gets 202 at once, with the place to ask for the reply in ``Location``.
            max_body_bytes: Longest body; None: that of the application.
            name: Name for ``url_path_for``; None: that of the handler.

        Raises:
            ConfigurationError: If a value cannot work.
        """

        def add(handler: Handler) -> Handler:
            endpoint = self._endpoint(
                path, handler, retry=retry, scheduled=scheduled, accepts=accepts, priority=priority, deadline=deadline,
                key=key, group=group,
            )  # fmt: skip
            called = name or getattr(handler, "__name__", "handler")
            self.routes.append(Route(path, endpoint, methods=methods, name=called, max_body_size=max_body_bytes))
            return handler

        return add

    def get(self, path: str, **options: Any) -> Callable[[Handler], Handler]:
        """``route(path, ["GET"], ...)``."""
        return self.route(path, ("GET",), **options)

    def post(self, path: str, **options: Any) -> Callable[[Handler], Handler]:
        """``route(path, ["POST"], ...)``."""
        return self.route(path, ("POST",), **options)

    def wsgi(
        self, path: str, application: Callable[..., Any], *, max_body_bytes: int | None = None, **options: Any
    ) -> None:
        """Lets a worker run a WSGI application below a path.

        A reply that is no list goes to the client as the application makes it. While the client takes it slowly, the
        worker runs other tasks. With ``accepts`` or ``retry`` the reply is sent when it is whole.

        Args:
            path: The path: ``""`` is all that no route before has.
            application: The application.
            max_body_bytes: Longest body of a request; None: that of the application.
            **options: Those of ``route`` for its requests, but for ``methods`` and ``name``.
        """
        handler = partial(call_wsgi, application)
        self.routes.append(
            Mount(path, self._endpoint(path, handler, WsgiEndpoint, max_body_bytes=max_body_bytes, **options))
        )

    def metrics(self, attached: Attached, path: str = "/metrics") -> None:
        """Serves the metrics of a run for Prometheus, with the counts of this application.

        Args:
            attached: The run: ``strand.attach(fd=scheduler.memory_fd)``.
            path: The path.

        Raises:
            MissingExtraError: If the extra ``metrics`` is not installed.
        """
        imported("prometheus_client", "metrics", "metrics for Prometheus")
        machine = Machine()

        def answer(_: Request) -> Response:
            text = exposition(attached.snapshot(), machine.read(), partial(add_families, self.statistics()))
            return Response(text, media_type="text/plain; version=0.0.4")

        self.route(path, scheduled=False)(answer)

    def dashboard(
        self, attached: Attached, path: str = "/dashboard", *, alerts: Alerts | None = None, tape: Tape | None = None,
        hosts: Collection[str] = LOCAL_HOSTS,
    ) -> None:  # fmt: skip
        """Serves the live page of a run.

        Args:
            attached: The run: ``strand.attach(fd=scheduler.memory_fd)``.
            path: The path.
            alerts: A watch over the run, whose alerts that fire are shown.
            tape: The trades of the run, where they are kept.
            hosts: Hosts that a request may name; ``"*"``: any.
        """
        from strand.http.dashboard import Dashboard

        self.mount(path, Dashboard(attached, alerts=alerts, tape=tape, hosts=hosts))

    def _endpoint(
        self,
        path: str,
        handler: Callable[..., Any],
        kind: type[Endpoint] = Endpoint,
        *,
        retry: RetryPolicy | None = None,
        scheduled: bool = True,
        accepts: bool = False,
        **options: Any,
    ) -> Endpoint:
        found = kind(self._front, path, handler, scheduled=scheduled, accepts=accepts, retry=retry, **options)
        if accepts and not self._has_poll:
            self._has_poll = True
            self.route(POLLED, ["GET", "DELETE"], scheduled=False)(self._front.reply_to)
        return found

    # -- serving

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await super().__call__(scope, receive, send)
            return
        n_bytes, request_id, trace, lengths = 0, b"", b"", 0
        for name, value in scope["headers"]:
            n_bytes += len(name) + len(value)
            if name == b"x-request-id":
                request_id = value
            elif name == b"traceparent":
                trace = value
            elif name in (b"content-length", b"transfer-encoding"):
                lengths += 1
        scope[HAS_BODY] = lengths > 0
        scope[ROOT] = scope.get("root_path", "")
        if is_inner := IDS in scope:  # an App that is mounted in another one
            ids = scope[IDS]
        else:
            ids = scope[IDS] = ids_of(request_id, trace)
            set_ids(ids)
        its_id = b"x-request-id", ids.request.encode("ascii")

        async def count_and_send(message: Message) -> None:
            if message["type"] == "http.response.start":
                endpoint = scope.get("endpoint")
                path = endpoint.path if isinstance(endpoint, Endpoint) else OTHER
                self._front.requests[path, message["status"]] += 1
                headers = [*message.get("headers", ())]
                if not is_inner:
                    headers.append(its_id)
                    if message["status"] == 500:
                        _FAILED(method=scope["method"], path=scope["path"])
                        # uvicorn closes the connection behind an error, whoever uses it then
                        headers.append((b"connection", b"close"))
                message["headers"] = headers
            await send(message)

        self._front.open += 1
        try:
            if n_bytes > self.options.max_header_bytes:
                text = f"the headers have {n_bytes:,} bytes, of {self.options.max_header_bytes:,} at most"
                await PlainTextResponse(text, 431, {"Connection": "close"})(scope, receive, count_and_send)
            elif lengths > 1:  # a proxy may take the other one, and another request for a part of this one
                text = "the length of the body is given twice: by Content-Length or by Transfer-Encoding"
                await PlainTextResponse(text, 400, {"Connection": "close"})(scope, receive, count_and_send)
            else:
                answer = self._limited if lengths else self._unlimited
                await answer(scope, receive, count_and_send)
        finally:
            self._front.open -= 1

    # -- its life

    @asynccontextmanager
    async def _life(self, app: App) -> AsyncGenerator[Any, None]:
        """The time that the server runs. At its end it waits for the tasks of requests that were answered by 202."""
        self._front.batch()
        self._front.lives = True
        try:
            if self._outer_lifespan is None:
                yield None
            else:
                async with self._outer_lifespan(app) as state:
                    yield state
        finally:
            await self._front.end()
