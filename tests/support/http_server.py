"""A real server for an application, in a thread of the test: on 127.0.0.1, at a free port, for as long as a block."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx2 as httpx
import uvicorn

#: No wait of a test takes longer.
MOST_S = 60.0


class Served:
    """A running server: ``client`` asks it, ``port`` is its port."""

    def __init__(self, server: uvicorn.Server, thread: threading.Thread) -> None:
        self.server = server
        self.thread = thread
        self.port: int = server.servers[0].sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"

    def connect(self) -> socket.socket:
        """A raw connection."""
        return socket.create_connection(("127.0.0.1", self.port), MOST_S)

    def client(self) -> httpx.Client:
        """A client with as many connections as it needs."""
        return httpx.Client(base_url=self.url, timeout=MOST_S, limits=httpx.Limits(max_connections=None))

    def stop(self) -> None:
        """Ends the server as SIGTERM does, and waits."""
        self.server.should_exit = True
        self.thread.join(MOST_S)
        assert not self.thread.is_alive()


@contextmanager
def serving(app: Any, **options: Any) -> Iterator[Served]:
    """Serves an application in the block."""
    given = {"host": "127.0.0.1", "port": 0, "log_level": "critical", "access_log": False} | options
    server = uvicorn.Server(uvicorn.Config(app, **given))
    thread = threading.Thread(target=server.run, name="server", daemon=True)
    thread.start()
    wait_for(lambda: server.started or not thread.is_alive())
    served = Served(server, thread)
    try:
        yield served
    finally:
        served.stop()


def wait_for(is_so: Any) -> None:
    """Waits until something is so."""
    until = time.monotonic() + MOST_S
    while not is_so():
        assert time.monotonic() < until, "it never came to be"
        time.sleep(0.001)
