"""Many connections, slow ones, and more requests than the workers can answer.

HTTP_LOAD_S in the environment is how many seconds the overload takes: 5 in the suite, 60 in ``make http-load``.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import httpx2 as httpx
import pytest
from http_server import MOST_S, serving, wait_for
from starlette.responses import Response, StreamingResponse

import strand
from strand.http import App

pytestmark = pytest.mark.python


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


def test_clients_that_read_slowly_keep_nobody_waiting_and_get_the_whole_reply() -> None:
    size = 4_000_000

    def parts() -> Iterator[bytes]:
        for _ in range(size // 10_000):
            yield bytes(10_000)

    def wsgi(environ: object, start_response: object) -> Iterator[bytes]:
        start_response("200 OK", [])  # type: ignore[operator]
        return parts()

    with strand.Scheduler(1) as scheduler:
        app = App(scheduler)
        app.get("/whole")(lambda request: bytes(size))
        app.get("/parts")(lambda request: StreamingResponse(parts()))
        app.wsgi("/wsgi", wsgi)
        app.get("/quick")(lambda request: Response("quick"))
        with serving(app) as served:
            slow = [served.connect() for _ in range(30)]
            for n, connection in enumerate(slow):
                path = ("whole", "parts", "wsgi/")[n % 3]
                connection.sendall(f"GET /{path} HTTP/1.0\r\n\r\n".encode())
            wait_for(lambda: sum(app.statistics().requests.values()) == len(slow))  # all of them have begun
            assert httpx.get(f"{served.url}/quick").text == "quick"
            for connection in slow:
                with connection, connection.makefile("rb") as reply:
                    assert len(reply.read().partition(b"\r\n\r\n")[2]) == size
    assert (app.statistics().gone, app.statistics().dropped, app.statistics().open) == (0, 0, 0)


OVERLOADED = """
import time
import strand
from strand.http import App, Header

scheduler = strand.Scheduler(2, max_queue_by_level={"immediate": 20, "normal": 20})
app = App(scheduler)


@app.get("/work", priority=Header("X-Priority", "normal"))
def work(request):
    time.sleep(0.01)
    return "done"


@app.get("/ended")
async def ended(request):
    return dict(scheduler.statistics().ended)
"""


def memory_of(process: subprocess.Popen[str]) -> int:
    """Resident bytes of a process."""
    text = Path(f"/proc/{process.pid}/status").read_text("ascii")
    return int(re.search(r"VmRSS:\s+(\d+) kB", text)[1]) << 10  # type: ignore[index]


@pytest.mark.skipif(shutil.which("hey") is None, reason="no hey: apt-get install hey")
def test_at_twice_what_the_workers_can_do_each_accepted_request_is_answered_and_each_other_one_gets_429(
    tmp_path: Path,
) -> None:
    seconds = float(os.environ.get("HTTP_LOAD_S", "5"))
    (tmp_path / "served.py").write_text(OVERLOADED)
    line = [sys.executable, "-m", "strand", "http", "served:app", "--port", "0", "--json"]
    pipe = subprocess.PIPE
    with subprocess.Popen(line, cwd=tmp_path, stdout=pipe, stderr=pipe, text=True) as process:
        assert process.stderr is not None
        said = next(line for line in process.stderr if line.startswith("listening at "))
        url = said.removeprefix("listening at ").strip()

        def offer(clients: int, per_second: float, level: str) -> subprocess.Popen[str]:
            rate = per_second / clients
            more = ["-z", f"{seconds:g}s", "-c", str(clients), "-q", f"{rate:g}", "-H", f"X-Priority: {level}"]
            return subprocess.Popen(["hey", *more, f"{url}/work"], stdout=pipe, text=True)

        try:
            # Two workers can do 200 a second. Of 80 clients that are not urgent 22 have room.
            offered = {"normal": offer(80, 360, "normal"), "immediate": offer(10, 40, "immediate")}
            own: Counter[int] = Counter()
            waits: set[str | None] = set()
            early, warm = 0, time.monotonic() + seconds / 3  # until then its buffers grow
            with httpx.Client(base_url=url, timeout=MOST_S) as client:
                while any(each.poll() is None for each in offered.values()):
                    reply = client.get("/work")
                    own[reply.status_code] += 1
                    if reply.status_code == 429:
                        waits.add(reply.headers.get("Retry-After"))
                    if not early and time.monotonic() > warm:
                        early = memory_of(process)
                    threading.Event().wait(seconds / 100)
                late = memory_of(process)
                ended = client.get("/ended").json()
            got: dict[str, Counter[int]] = {}
            for level, each in offered.items():
                said = each.communicate()[0]
                assert "Error distribution" not in said, said
                found = re.findall(r"\[(\d+)\]\s+(\d+) responses", said)
                got[level] = Counter({int(status): int(n) for status, n in found})
            process.send_signal(signal.SIGTERM)
            said = process.communicate(timeout=MOST_S)[0]
        finally:
            process.kill()
    assert process.returncode == 0
    counts = json.loads(said)
    assert (counts["cut_off"], counts["tasks_left"], counts["gone"], counts["dropped"]) == (0, 0, 0, 0)
    answers = {entry["status"]: entry["count"] for entry in counts["requests"] if entry["route"] == "/work"}
    both = got["normal"] + got["immediate"]
    print(f"{both[200]:,} answered, {both[429]:,} refused, {(late - (early or late)) / 1e6:+.1f} MB of memory")
    assert set(answers) == {200, 429}
    assert got["immediate"].keys() == {200}, "an urgent request was refused"
    assert waits <= {"1"}  # on a slow machine its few requests may all have found room
    assert answers == both + own
    assert ended == {"done": answers[200]} | dict.fromkeys(ended.keys() - {"done"}, 0)
    assert late - (early or late) < 20_000_000
