"""Many connections, and slow ones."""

from __future__ import annotations

import asyncio

import httpx2 as httpx
import pytest
from http_server import MOST_S, serving

import strand
from strand.http import App


async def _ask(port: int, path: str) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".encode())
    reply = await reader.read()
    writer.close()
    await writer.wait_closed()
    return reply


@pytest.mark.parametrize("path", ["/def", "/async"])
def test_a_thousand_connections_at_once_are_all_answered(path: str) -> None:
    async def asks(port: int) -> list[bytes]:
        async with asyncio.timeout(MOST_S):
            return await asyncio.gather(*(_ask(port, f"{path}/{n}") for n in range(1000)))

    with strand.Scheduler(2) as scheduler:
        app = App(scheduler)
        app.get("/def/{n}")(lambda request: request.path_params["n"])

        @app.get("/async/{n}")
        async def later(request: object) -> str:
            return str(request.path_params["n"])  # type: ignore[attr-defined]

        with serving(app) as served:
            replies = asyncio.run(asks(served.port))
    assert [int(reply.rpartition(b"\r\n\r\n")[2]) for reply in replies] == list(range(1000))
    assert app.statistics().requests == {(f"{path}/{{n}}", 200): 1000}
    assert scheduler.statistics().ended["done"] == 1000


def test_clients_that_send_slowly_keep_nobody_waiting() -> None:
    with strand.Scheduler(1) as scheduler:
        app = App(scheduler)
        app.post("/")(lambda request: len(request.content))
        with serving(app) as served:
            slow = [served.connect() for _ in range(200)]
            for n, connection in enumerate(slow):
                head = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nab"
                connection.sendall(head if n % 2 else head[:20])
            assert httpx.post(served.url, content=b"quick").json() == 5
            for n, connection in enumerate(slow):
                if n % 2:
                    connection.sendall(b"cd")
                    assert connection.makefile("rb").readline().split()[1] == b"200"
                connection.close()
    assert scheduler.statistics().ended["done"] == 101
