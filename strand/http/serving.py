"""A server for an application: uvicorn in this process, bounds of connections, a token, a stop that loses nothing."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from types import FrameType
from typing import Any, Final

import uvicorn
from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from strand.errors import ConfigurationError
from strand.http.access import STOPPING, TOKENS, Token
from strand.http.app import App
from strand.http.options import ServerOptions

#: Interval of looks for connections that came in the moment of the stop.
_LATE_S: Final = 0.1
#: Time that the end of an application has beyond that of its requests.
_END_S: Final = 1.0
_TOO_LONG: Final = b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
_TOO_SLOW: Final = b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


class Door:
    """The application that the server calls: asks for the token, and answers ``/healthz`` and ``/readyz`` itself."""

    def __init__(self, app: ASGIApp, token: Token | None) -> None:
        self.is_stopping: Callable[[], bool] = lambda: False
        #: Requests that the end of the server has cut off.
        self.n_cut = 0
        self.is_ready: Callable[[], bool] = lambda: True
        self._app = app
        self._token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] in ("/healthz", "/readyz"):
            is_well = scope["path"] == "/healthz" or self.is_ready()
            reply = PlainTextResponse("ok" if is_well else "not ready", 200 if is_well else 503)
            await reply(scope, receive, send)
        elif (
            self._token is None
            or scope["type"] == "lifespan"
            or self._token.accepts(Headers(scope=scope), scope.get("method", ""))
        ):
            scope[STOPPING] = self.is_stopping
            try:
                await self._app(scope, receive, send)
            except asyncio.CancelledError:
                self.n_cut += scope["type"] == "http"
                raise
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        else:
            reply = PlainTextResponse("bring the token", 401, {"WWW-Authenticate": "Bearer"})
            reply.headers.append("WWW-Authenticate", 'Basic realm="strand"')  # Chromium reads one scheme a header
            await reply(scope, receive, send)


def bounded(protocol: type[Any], max_bytes: int, timeout_s: float) -> type[Any]:
    """A protocol of uvicorn that bounds the bytes and the time of a request's headers: uvicorn itself takes any time,
    and with httptools any number of bytes."""

    class Bounded(protocol):  # type: ignore[misc]
        _head_bytes = 0
        _timer: Any = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._begin_head()

        def data_received(self, data: bytes) -> None:
            cycle = self.cycle  # of the last request whose headers have ended
            is_head = cycle is None or not cycle.more_body
            super().data_received(data)
            if self.cycle is not cycle:
                self._end_head()
            elif is_head:
                self._begin_head()
                self._head_bytes += len(data)
                if self._head_bytes > max_bytes:
                    self._refuse(_TOO_LONG)

        def connection_lost(self, exc: Exception | None) -> None:
            self._end_head()
            super().connection_lost(exc)

        def _begin_head(self) -> None:
            if self._timer is None:
                self._timer = self.loop.call_later(timeout_s, self._refuse, _TOO_SLOW)

        def _end_head(self) -> None:
            if self._timer is not None:
                self._timer.cancel()
            self._timer, self._head_bytes = None, 0

        def _refuse(self, reply: bytes) -> None:
            self._end_head()
            if self.transport.is_closing():
                return
            if self.cycle is None or self.cycle.response_complete:  # else the reply to another request is under way
                self.transport.write(reply)
            self.transport.close()

    return Bounded


@contextmanager
def tokens_read_again_on_hangup() -> Iterator[None]:
    """Reads all tokens again at each SIGHUP in the block."""
    if not TOKENS or threading.current_thread() is not threading.main_thread():
        yield
        return

    def read_all(*_: object) -> None:
        for token in list(TOKENS):
            token.read_again()

    before = signal.signal(signal.SIGHUP, read_all)
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, before)


@contextmanager
def switching_each(interval_s: float) -> Iterator[None]:
    """Lets a thread that waits for the GIL have it after so many seconds, in the block."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(interval_s)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def serve(app: ASGIApp, options: ServerOptions, *, started: Callable[[str], object] = lambda _: None) -> int:
    """Serves an application until SIGINT or SIGTERM, and then until all requests that were accepted are answered.

    Args:
        app: An ASGI application.
        options: Where to listen, and the bounds.
        started: Called with the server's address when it listens.

    Returns:
        How many requests were cut off since they took longer than ``stop_timeout``.

    Raises:
        ConfigurationError: If the address cannot be listened at, or the file has no token.
    """
    with _listening(app, options) as (server, door, listener, address), tokens_read_again_on_hangup():
        server.tell = partial(started, address)
        server.run([listener])
    return door.n_cut + server.n_unsent


@contextmanager
def served(app: ASGIApp, options: ServerOptions) -> Iterator[str]:
    """Serves an application in a thread of its own within the block. Yields the server's address.

    Raises:
        ConfigurationError: As ``serve`` does.
    """
    with _listening(app, options) as (server, _, listener, address), tokens_read_again_on_hangup():
        begun = threading.Event()
        server.tell = begun.set

        def run() -> None:
            try:
                server.run([listener])
            finally:
                begun.set()

        thread = threading.Thread(target=run, name="strand-http")
        thread.start()
        try:
            begun.wait()
            yield address
        finally:
            server.should_exit = True
            thread.join()


@contextmanager
def _listening(app: ASGIApp, options: ServerOptions) -> Iterator[tuple[_Server, Door, socket.socket, str]]:
    """A server before its start, its application, its socket and its address. Raises ConfigurationError."""
    token = None if options.token_file is None else Token(options.token_file)
    door = Door(app, token)
    try:
        from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol as Protocol
    except ImportError:
        from uvicorn.protocols.http.h11_impl import H11Protocol as Protocol  # type: ignore[assignment]
    config = uvicorn.Config(
        door,
        http=bounded(Protocol, options.max_head_bytes, options.head_timeout_s),
        log_config=None,
        access_log=False,
        server_header=False,
        limit_concurrency=options.max_connections,
        timeout_graceful_shutdown=options.stop_timeout_s,  # type: ignore[arg-type]  # it is handed to asyncio
    )
    family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
    try:
        listener = socket.create_server((options.host, options.port), family=family, backlog=config.backlog)
    except OSError as error:
        reason = f"{options.host}:{options.port} cannot be listened at ({error.strerror or error}): give another one"
        raise ConfigurationError("port", reason) from None
    # A reply is several writes. asyncio sets this only where the socket was made with the protocol's number.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with listener, switching_each(options.switch_interval_s):
        address = f"[{options.host}]" if ":" in options.host else options.host
        server = _Server(config, options.stop_timeout_s)
        door.is_stopping = lambda: server.should_exit
        door.is_ready = lambda: not server.should_exit and (not isinstance(app, App) or app.is_ready)
        yield server, door, listener, f"http://{address}:{listener.getsockname()[1]}"


def notify(state: str) -> None:
    """Tells a state to the service manager that has started this process, if it asks for it (sd_notify)."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if address:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as to, suppress(OSError):
            to.sendto(state.encode(), f"\0{address[1:]}" if address[0] == "@" else address)


class _Server(uvicorn.Server):
    """A server that calls ``tell`` when it listens, and whose end takes ``stop_timeout_s`` in all."""

    def __init__(self, config: uvicorn.Config, stop_timeout_s: float) -> None:
        super().__init__(config)
        self._stop_timeout_s = stop_timeout_s
        self.tell: Callable[[], object] = lambda: None
        #: Replies that the handlers finished, and whose clients did not take all of them before the end.
        self.n_unsent = 0

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begins the stop; a second SIGINT waits for nothing more.

        That of uvicorn would raise the signal again at the end, so that ``serve`` did not return."""
        del frame
        if self.should_exit and sig == signal.SIGINT:
            self.force_exit = True
        self.should_exit = True

    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets)
        self.tell()
        notify("READY=1")

    async def shutdown(self, sockets: Any = None) -> None:
        # uvicorn bounds the time of requests, and not that of what ends behind them.
        late = asyncio.create_task(self._close_late_ones())
        with suppress(TimeoutError):
            async with asyncio.timeout(self._stop_timeout_s + _END_S):
                await super().shutdown(sockets)
        late.cancel()
        for connection in self.server_state.connections:
            cycle = getattr(connection, "cycle", None)  # that of a WebSocket has none
            is_whole = cycle is not None and cycle.response_complete
            self.n_unsent += is_whole and connection.transport.get_write_buffer_size() > 0

    async def _close_late_ones(self) -> None:
        """Tells connections of the stop that were accepted before it, and that uvicorn met only behind it: else they
        would go on as long as their clients send requests."""
        while True:
            await asyncio.sleep(_LATE_S)
            for connection in list(self.server_state.connections):
                connection.shutdown()
