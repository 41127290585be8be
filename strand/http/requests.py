"""Requests as handlers get them, and what goes with a request into its task: its body, its ids, its context."""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import AsyncGenerator, Callable, Collection
from contextvars import Context, ContextVar
from typing import Any, Final, NamedTuple
from weakref import WeakKeyDictionary

from starlette.exceptions import HTTPException
from starlette.requests import Request as StarletteRequest

from strand.logs import CONTEXT
from strand.tasks.groups import CURRENT_GROUP
from strand.tasks.waits import CURRENT_TASK, ENDING_TASK, Waiter

#: Entries of a scope: whether the request has a body, its ids, and the path at which the application is mounted.
HAS_BODY: Final = "strand.has_body"
IDS: Final = "strand.ids"
ROOT: Final = "strand.root"
_ID: Final = re.compile(rb"[A-Za-z0-9._:/+=-]{1,128}")
#: https://www.w3.org/TR/trace-context/#traceparent-header; an id of zeros is none.
_TRACE: Final = re.compile(rb"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(?:-.*)?")


class Ids(NamedTuple):
    """Ids of a request: that of the client or a new one, and that of the trace that it is part of."""

    request: str
    trace: str


_IDS: ContextVar[Ids | None] = ContextVar("strand_http_ids", default=None)


def ids_of(request: bytes, traceparent: bytes) -> Ids:
    """The ids that two headers give, ``X-Request-ID`` and ``traceparent``. What is missing or malformed is made up."""
    new = f"{random.getrandbits(128) | 1:032x}"
    trace = _TRACE.fullmatch(traceparent) if traceparent else None
    its_id = request.decode("ascii") if request and _ID.fullmatch(request) else new
    return Ids(its_id, trace[1].decode("ascii") if trace else new)


def set_ids(ids: Ids) -> None:
    """Gives the calling context the ids of its request."""
    _IDS.set(ids)


def request_id() -> str | None:
    """The id of the request that the caller answers, in its handler or a middleware; None outside of requests."""
    ids = _IDS.get()
    return None if ids is None else ids.request


def trace_id() -> str | None:
    """The W3C trace id of the request that the caller answers, 32 hexadecimal digits; None outside of requests."""
    ids = _IDS.get()
    return None if ids is None else ids.trace


#: Ids of requests whose handlers raised, which the scheduler says outside of the request's context.
_OF_TASKS: Final[WeakKeyDictionary[Waiter, Ids]] = WeakKeyDictionary()


def keep_ids(task: Waiter, ids: Ids) -> None:
    """Lets what is logged of a task have the ids of its request."""
    _OF_TASKS[task] = ids


def _ids_here() -> Ids | None:
    task = CURRENT_TASK.get()
    return _IDS.get() or (None if task is None else _OF_TASKS.get(task))


CONTEXT["request_id"] = lambda: None if (ids := _ids_here()) is None else ids.request
CONTEXT["trace_id"] = lambda: None if (ids := _ids_here()) is None else ids.trace

#: Variables that say where code runs, which a request does not take along.
_STAYS: Final = (CURRENT_TASK, CURRENT_GROUP, ENDING_TASK)


def restore(context: Context) -> None:
    """Sets the variables of a context in the calling one: those that middleware has set for the request."""
    for variable, value in context.items():
        if variable not in _STAYS:
            variable.set(value)


class Request(StarletteRequest):
    """A ``starlette.requests.Request`` whose body was read before the handler is called.

    Attributes:
        content: The body.
    """

    content: bytes = b""

    async def read(self, timeout_s: float) -> None:
        """Reads the body. Raises HTTPException where it takes longer, and ``starlette.requests.ClientDisconnect``."""
        try:
            async with asyncio.timeout(timeout_s):
                self.content = b"".join([part async for part in super().stream()])
        except TimeoutError:
            raise HTTPException(408, f"the body took more than {timeout_s:g} s", {"Connection": "close"}) from None

    async def body(self) -> bytes:
        """The body, for code that awaits it."""
        return self.content

    async def stream(self) -> AsyncGenerator[bytes, None]:
        """The body in one part, for code that reads it in parts, as for forms."""
        yield self.content
        yield b""


class Header:
    """Takes an option of a route from a header of each request: ``app.get("/", priority=Header("X-Priority"))``.

    A value that cannot work is answered by 400.

    Args:
        name: The header's name.
        default: The value of requests without it; None: as if the route did not give the option.
        allowed: Values that clients may give; None: any that the option takes.
    """

    def __init__(self, name: str, default: Any = None, *, allowed: Collection[str] | None = None) -> None:
        self._name = name
        self._default = default
        self._allowed = None if allowed is None else frozenset(allowed)

    def __call__(self, request: Request) -> Any:
        """Returns the value of a request. Raises HTTPException for one that is not allowed."""
        value = request.headers.get(self._name)
        if value is None:
            return self._default
        if self._allowed is not None and value not in self._allowed:
            raise HTTPException(400, f"{self._name}: give one of {', '.join(sorted(self._allowed))}")
        return int(value) if value.isascii() and value.removeprefix("-").isdigit() else value


#: An option of a route: a value, or what gives one for each request.
PerRequest = Any | Callable[[Request], Any]
