"""A control interface over HTTP: tasks, dead letters and symbols of a program that runs, for its operator.

It is off unless a program mounts it. A request brings a token, and one that changes something comes from the host that
it names, and from no page of another site. Functions are called by the names under which the program registered them.
"""

from __future__ import annotations

import asyncio
import json
from collections import OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping
from dataclasses import fields, replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple
from weakref import WeakSet

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from strand.errors import (
    ConfigurationError,
    HandlerError,
    QuarantinedError,
    QueueFull,
    StoppedError,
    StrandError,
    UnknownSymbolError,
)
from strand.http.access import (
    LOCAL_HOSTS,
    STOPPING,
    Hosts,
    Token,
    body_of,
    is_foreign,
    note_call,
    refusal,
    refused,
)  # fmt: skip
from strand.spans import Nanoseconds, span_text
from strand.tasks.core import task_named
from strand.tasks.future import TaskFuture
from strand.tasks.tasks import Tasks

if TYPE_CHECKING:
    from strand.dispatch.dispatcher import Dispatcher

_MAX_BODY_BYTES: Final = 64 << 10
_MAX_LISTED: Final = 1000
_MAX_STREAMS: Final = 16
_EVERY_S: Final = 1.0
#: The longest wait for the answer of a symbol.
_CALL_S: Final = 30.0

Name = Annotated[str, Meta(min_length=1, max_length=200)]
Span = Annotated[str, Meta(description='A span of time, as "30s"', max_length=40)]


class NewTask(Struct, forbid_unknown_fields=True):
    """A task to submit: a function that the program has registered by ``@strand.task``, and its arguments."""

    name: Name
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    priority: str | int | None = None
    key: str | None = None
    deadline: Span | None = None
    delay: Span | None = None


class TaskChange(Struct, forbid_unknown_fields=True):
    """Changes of a task that waits. A deadline of null is none."""

    priority: str | int | UnsetType = UNSET
    deadline: Span | UnsetType | None = UNSET


class SymbolChange(Struct, forbid_unknown_fields=True):
    """Changes of a symbol: its priority, or its group under the policy fair."""

    priority: str | int | UnsetType = UNSET
    group: Name | UnsetType = UNSET


class Call(Struct, forbid_unknown_fields=True):
    """A question to a symbol: a registered function that takes the symbol's view, and its further arguments."""

    name: Name
    args: list[Any] = []


class PolicyChange(Struct, forbid_unknown_fields=True):
    """Changes of the policy: timeouts of some of its levels, or weights of some of its groups."""

    timeouts: dict[str, Span] | UnsetType = UNSET
    weights: dict[str, float] | UnsetType = UNSET


class Operation(NamedTuple):
    """A method of a path. ``body``: what its body is; ``replies``: statuses that it may have beside those of all."""

    method: str
    path: str
    summary: str
    run: Callable[..., Awaitable[Response]]
    body: Any = None
    replies: tuple[int, ...] = (200,)
    query: Mapping[str, Mapping[str, Any]] = {}


_REPLIES: Final = {
    200: "Done", 201: "A new task", 400: "A field cannot work", 401: "No token", 403: "A page of another site",
    404: "There is no such thing", 408: "The body took too long", 409: "Its state does not allow that",
    413: "The body is too long", 415: "The body is no JSON", 422: "The function raised", 429: "The queue is full",
    503: "It was stopped", 504: "No answer in time",
}  # fmt: skip
_STATUS: Final[tuple[tuple[type[BaseException], int], ...]] = (
    (QueueFull, 429), (StoppedError, 503), (HandlerError, 503), (UnknownSymbolError, 404), (QuarantinedError, 409),
    (ConfigurationError, 400), (msgspec.DecodeError, 400), (TypeError, 400), (TimeoutError, 504),
)  # fmt: skip


class _OfTasks:
    """Operations on the tasks of a scheduler."""

    def __init__(self, tasks: Tasks) -> None:
        self._tasks = tasks
        #: Tasks that were submitted here, which are shown when they have ended, too.
        self._submitted: OrderedDict[int, TaskFuture] = OrderedDict()

    def operations(self) -> list[Operation]:
        """All of them."""
        number = {"type": "integer", "minimum": 1, "maximum": _MAX_LISTED}
        return [
            Operation("GET", "/tasks", "Tasks that have not ended", self._list, query={"limit": number}),
            Operation("POST", "/tasks", "Submit a task", self._submit, NewTask, (201, 429, 503)),
            Operation("GET", "/tasks/{id}", "A task", self._look, replies=(200, 404)),
            Operation("PATCH", "/tasks/{id}", "Change a task that waits", self._change, TaskChange, (200, 404, 409)),
            Operation(
                "DELETE", "/tasks/{id}", "Cancel a task", self._cancel, replies=(200, 404, 409),
                query={"running": {"type": "boolean"}},
            ),
            Operation("GET", "/dead-letters", "Dead letters", self._letters),
            Operation(
                "POST", "/dead-letters/{id}/put-back", "Submit a dead letter again", self._put_back,
                replies=(201, 404, 429, 503),
            ),
            Operation("GET", "/policy", "The scheduling policy", self._policy),
            Operation("PATCH", "/policy", "Change the policy", self._change_policy, PolicyChange, (200, 409)),
        ]  # fmt: skip

    async def _list(self, request: Request) -> Response:
        limit = _whole("limit", request.query_params.get("limit", "100"), 1, _MAX_LISTED)
        return JSONResponse([_shown(task) for task in self._tasks.unended(limit)])

    async def _submit(self, _: Request, new: NewTask) -> Response:
        function = task_named(new.name)
        executor = self._tasks.options(priority=new.priority, key=new.key, deadline=new.deadline, delay=new.delay)
        return self._submitted_one(executor.submit(function, *new.args, **new.kwargs))

    def _submitted_one(self, task: TaskFuture) -> Response:
        self._submitted[task.id] = task
        while len(self._submitted) > _MAX_LISTED:
            self._submitted.popitem(last=False)
        return JSONResponse(_shown(task), 201)

    def _task(self, request: Request) -> TaskFuture:
        number = _whole("id", request.path_params["id"], 0, 1 << 62)
        found = self._submitted.get(number) or self._tasks.unended_task(number)
        if found is None:
            raise HTTPException(404, f"no task {number} has yet to end, or was submitted here")
        return found

    async def _look(self, request: Request) -> Response:
        return JSONResponse(_shown(self._task(request)))

    async def _change(self, request: Request, change: TaskChange) -> Response:
        task = self._task(request)
        changed = True
        if change.priority is not UNSET:  # before the deadline changes
            self._tasks.policy.priority_of("priority", change.priority)
        if change.deadline is not UNSET:
            changed = task.set_deadline(change.deadline)
        if changed and change.priority is not UNSET:
            changed = task.reprioritise(change.priority)
        return JSONResponse(_shown(task)) if changed else refusal(409, f"task {task.id} is {task.state}")

    async def _cancel(self, request: Request) -> Response:
        running = request.query_params.get("running", "false")
        if running not in ("true", "false"):
            raise ConfigurationError("running", "give true or false")
        task = self._task(request)
        if not task.cancel(running=running == "true"):
            return refusal(409, f"task {task.id} is {task.state}")
        return JSONResponse(_shown(task))

    async def _letters(self, _: Request) -> Response:
        letters = [
            {
                "id": letter.task_id,
                "function": _name_of(letter.function),
                "error": repr(letter.error),
                "attempts": letter.attempts,
            }
            for letter in self._tasks.dead_letters
        ]
        return JSONResponse(letters[-_MAX_LISTED:])

    async def _put_back(self, request: Request) -> Response:
        number = _whole("id", request.path_params["id"], 0, 1 << 62)
        for letter in self._tasks.dead_letters:
            if letter.task_id == number:
                return self._submitted_one(self._tasks.dead_letters.put_back(letter))
        return refusal(404, f"there is no dead letter of task {number}")

    async def _policy(self, _: Request) -> Response:
        policy = self._tasks.policy
        options = {field.name: _written(getattr(policy, field.name)) for field in fields(policy)}
        return JSONResponse({"name": policy.core_name, "may_change": policy.live_option} | options)

    async def _change_policy(self, request: Request, change: PolicyChange) -> Response:
        policy = self._tasks.policy
        given = {name: value for name in ("timeouts", "weights") if (value := getattr(change, name)) is not UNSET}
        for name in given:
            if name != policy.live_option:
                what = policy.live_option or "nothing"
                return refusal(
                    409, f"{name}: the policy {policy!r} has none; while a program runs, {what} of it can change"
                )
        changed = {name: {**getattr(policy, name), **value} for name, value in given.items()}
        self._tasks.change_policy(replace(policy, **changed))
        return await self._policy(request)


class _OfSymbols:
    """Operations on the symbols of a dispatcher."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher

    def operations(self) -> list[Operation]:
        """All of them."""
        path, dispatcher = "/symbols/{symbol:path}", self._dispatcher
        found = [
            Operation("POST", f"{path}/call", "Ask a symbol", self._call, Call, (200, 404, 409, 422, 429, 503, 504))
        ]
        for name in ("pause", "resume", "release"):
            run = partial(self._act, getattr(dispatcher, name))
            found.append(Operation("POST", f"{path}/{name}", f"{name.capitalize()} a symbol", run, replies=(200, 404)))
        # The last ones, since a symbol's name may have a slash.
        found.append(Operation("GET", path, "A symbol's strand", self._symbol, replies=(200, 404)))
        found.append(Operation("PATCH", path, "Change a symbol", self._change_symbol, SymbolChange, (200, 404)))
        return found

    async def _symbol(self, request: Request) -> Response:
        symbol = request.path_params["symbol"]
        found = self._dispatcher.inspect(symbol)
        return JSONResponse({"symbol": symbol} | {name: getattr(found, name) for name in found.__match_args__})

    async def _act(self, act: Callable[[str], None], request: Request) -> Response:
        act(request.path_params["symbol"])
        return await self._symbol(request)

    async def _change_symbol(self, request: Request, change: SymbolChange) -> Response:
        symbol = request.path_params["symbol"]
        if change.priority is not UNSET and change.group is not UNSET:
            raise ConfigurationError("group", "give either priority or group: a policy has one of them")
        if change.priority is not UNSET:
            self._dispatcher.prioritise(symbol, change.priority)
        if change.group is not UNSET:
            self._dispatcher.regroup(symbol, change.group)
        return await self._symbol(request)

    async def _call(self, request: Request, call: Call) -> Response:
        function = task_named(call.name)
        future = self._dispatcher.submit_call(request.path_params["symbol"], function, *call.args)
        async with asyncio.timeout(_CALL_S):
            await asyncio.wait([asyncio.wrap_future(future)])
        error = future.exception()
        if error is None:
            return JSONResponse({"result": _plain(future.result())})
        if isinstance(error, StrandError):
            raise error
        return refusal(422, repr(error))


class Control(Starlette):
    """The control interface, an ASGI application: ``app.mount("/control", Control("token", scheduler=scheduler))``.

    Its ``openapi.json`` describes it. The log ``strand.http.audit`` has a line for each call.

    Args:
        token_file: The file of the token that each request brings, as ``Authorization: Bearer TOKEN``. SIGHUP makes
            ``strand.http.serve`` read it again.
        scheduler: The scheduler whose tasks are shown and changed; None: that of the dispatcher.
        dispatcher: The dispatcher whose symbols are asked, paused, resumed and prioritised; None: there are no symbols.
        hosts: Hosts that a request may name.

    Raises:
        ConfigurationError: If the file has no token, or there is neither scheduler nor dispatcher.
    """

    def __init__(
        self,
        token_file: str,
        *,
        scheduler: Tasks | None = None,
        dispatcher: Dispatcher | None = None,
        hosts: Collection[str] = LOCAL_HOSTS,
    ) -> None:
        if scheduler is None and dispatcher is None:
            raise ConfigurationError("scheduler", "there is nothing to control: give a scheduler or a dispatcher")
        self._token = Token(token_file)
        self._tasks: Tasks = dispatcher.tasks if scheduler is None and dispatcher is not None else scheduler  # type: ignore[assignment]
        self._calls = 0
        #: Streams of events that are open.
        self._streams: WeakSet[AsyncGenerator[str, None]] = WeakSet()
        self._operations = [
            *_OfTasks(self._tasks).operations(),
            Operation("GET", "/statistics", "Counts of tasks", self._statistics),
            Operation("GET", "/events", "Counts and control calls, as they change", self._events, replies=(200, 429)),
            *([] if dispatcher is None else _OfSymbols(dispatcher).operations()),
        ]
        routes = [Route("/openapi.json", self._openapi)]
        routes += [Route(each.path, self._route(each), methods=[each.method]) for each in self._operations]
        self._hosts = Hosts(hosts)
        super().__init__(
            routes=routes,
            exception_handlers={HTTPException: refused},
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await super().__call__(scope, receive, send)
            return
        status = 0

        async def note_and_send(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        request = Request(scope)
        try:
            if (fault := self._fault_of(request)) is not None:
                await refusal(*fault)(scope, receive, note_and_send)
            else:
                await super().__call__(scope, receive, note_and_send)
        finally:
            self._calls += 1
            note_call(request, status)

    def _fault_of(self, request: Request) -> tuple[int, str] | None:
        """Status and reason of a request that is not looked at further."""
        if not self._token.accepts(request.headers, request.method):
            return 401, "bring the token: Authorization: Bearer TOKEN"
        if (fault := self._hosts.fault(request.headers)) is not None:
            return 400, fault
        if request.method not in ("GET", "HEAD") and is_foreign(request.headers):
            return 403, f"a page of {request.headers.get('origin', 'another site')} changes nothing here"
        return None

    def _route(self, operation: Operation) -> Callable[[Request], Awaitable[Response]]:
        async def run(request: Request) -> Response:
            try:
                given = [] if operation.body is None else [await body_of(request, operation.body, _MAX_BODY_BYTES)]
                return await operation.run(request, *given)
            except tuple(kind for kind, _ in _STATUS) as error:
                status = next(status for kind, status in _STATUS if isinstance(error, kind))
                return refusal(status, str(error), {"Retry-After": "1"} if status in (429, 503) else None)

        return run

    async def _statistics(self, _: Request) -> Response:
        return JSONResponse(self._counts())

    def _counts(self) -> dict[str, Any]:
        found = self._tasks.statistics()
        ended, waiting, letters = dict(found.ended), self._tasks.pending_count(), len(self._tasks.dead_letters)
        return {
            "submitted": found.submitted, "ended": ended, "pending": found.pending, "retries": found.retries,
            "waiting": waiting, "dead_letters": letters, "control_calls": self._calls,
        }  # fmt: skip

    async def _events(self, request: Request) -> Response:
        if len(self._streams) >= _MAX_STREAMS:
            return refusal(429, f"{_MAX_STREAMS} streams are open", {"Retry-After": "1"})
        is_stopping: Callable[[], bool] = request.scope.get(STOPPING, lambda: False)

        async def events() -> AsyncGenerator[str, None]:
            before = None
            while not is_stopping():
                if (counts := self._counts()) != before:
                    yield f"event: statistics\ndata: {json.dumps(counts)}\n\n"
                before = counts
                await asyncio.sleep(_EVERY_S)

        stream = events()
        self._streams.add(stream)
        return StreamingResponse(stream, media_type="text/event-stream", headers={"Cache-Control": "no-store"})

    # -- its description

    async def _openapi(self, request: Request) -> Response:
        bodies = [each.body for each in self._operations if each.body is not None]
        _, schemas = msgspec.json.schema_components(bodies, ref_template="#/components/schemas/{name}")
        paths: dict[str, Any] = {}
        for each in self._operations:
            path = each.path.replace(":path", "")
            parameters = [
                {"name": name, "in": "path", "required": True, "schema": {"type": kind}}
                for name, kind in (("id", "integer"), ("symbol", "string"))
                if f"{{{name}}}" in path
            ]
            parameters += [{"name": name, "in": "query", "schema": schema} for name, schema in each.query.items()]
            statuses = {*each.replies, 400, 401, *((403,) if each.method != "GET" else ())}
            found: dict[str, Any] = {
                "summary": each.summary,
                "parameters": parameters,
                "responses": {str(status): _reply(status, each) for status in sorted(statuses)},
            }
            if each.body is not None:
                schema = {"$ref": f"#/components/schemas/{each.body.__name__}"}
                found["requestBody"] = {"required": True, "content": {"application/json": {"schema": schema}}}
                found["responses"] |= {str(status): _reply(status, each) for status in (408, 413, 415)}
            paths.setdefault(path, {})[each.method.lower()] = found
        schemes = {"token": {"type": "http", "scheme": "bearer"}}
        document = {
            "openapi": "3.1.0",
            "info": {"title": "Control of a strand program", "version": "1"},
            "servers": [{"url": request.scope.get("root_path", "") or "/"}],
            "security": [{"token": []}],
            "paths": paths,
            "components": {"schemas": schemas, "securitySchemes": schemes},
        }
        return JSONResponse(document)


def _reply(status: int, operation: Operation) -> dict[str, Any]:
    kind = "text/event-stream" if operation.path == "/events" and status == 200 else "application/json"
    return {"description": _REPLIES[status], "content": {kind: {}}}


def _whole(field: str, text: str, least: int, most: int) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 20 and least <= int(text) <= most):
        raise ConfigurationError(field, f"give a whole number from {least:,} to {most:,}")
    return int(text)


def _name_of(function: Any) -> str:
    return str(getattr(function, "__qualname__", type(function).__name__))


def _shown(task: TaskFuture) -> dict[str, Any]:
    found = {
        "id": task.id, "state": task.state, "priority": task.priority, "submitted_priority": task.submitted_priority,
        "attempts": task.attempts, "waited_ns": task.waited_ns, "ran_ns": task.ran_ns,
    }  # fmt: skip
    if task.state == "done":
        found["result"] = _plain(task.result())
    elif task.done() and not task.cancelled():
        found["error"] = repr(task.exception())
    return found


def _written(value: Any) -> Any:
    """An option as a file has it."""
    if isinstance(value, Mapping):
        return {name: _written(each) for name, each in value.items()}
    return span_text(value) if isinstance(value, Nanoseconds) else value


def _plain(value: Any) -> Any:
    """A value as JSON has it, or its text."""
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return repr(value)
    return value
