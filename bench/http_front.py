"""The HTTP front beside starlette alone, and urgent requests beside a front that takes requests as they come.

    python bench/http_front.py                 all parts, 5 turns of 3 s each
    python bench/http_front.py --turns 9 --seconds 5 throughput
    python bench/http_front.py urgent

Servers run in processes of their own, on 127.0.0.1, and the sides take turns.

throughput: requests per second of a ``def`` route and of an empty ``async`` route over 64 connections of wrk (Debian's
wrk), and the server's CPU time per request, which other load on the machine changes less. ``starlette``: its thread
pool, and its plain async route.

urgent: requests come at twice what two workers can do, one in ten is urgent. Each sleeps 5 ms, or computes 5 ms in
Python, where the GIL lets one worker go at a time. ``levels``: urgent ones have the level immediate. ``fifo``: first
come, first served. In both, 200 of those that are not urgent may wait.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

WORKERS, CONNECTIONS, BOUND, WORK_S = 2, 64, 200, 0.005
TICKS = os.sysconf("SC_CLK_TCK")


def application(kind: str) -> Any:
    """The application of one side."""
    from starlette.applications import Starlette
    from starlette.responses import PlainTextResponse
    from starlette.routing import Route

    import strand
    from strand.http import App, Header

    def plain(request: Any) -> PlainTextResponse:
        return PlainTextResponse("ok")

    async def plain_async(request: Any) -> PlainTextResponse:
        return PlainTextResponse("ok")

    def sleeps(request: Any) -> str:
        time.sleep(WORK_S)
        return "ok"

    def computes(request: Any) -> str:
        until = time.thread_time() + WORK_S
        while time.thread_time() < until:
            pass
        return "ok"

    if kind == "starlette":
        return Starlette(routes=[Route("/def", plain), Route("/async", plain_async)])
    if kind == "fifo":
        app = App(strand.Scheduler(WORKERS, BOUND, policy=strand.Fifo()))
    else:
        app = App(strand.Scheduler(WORKERS, max_queue_by_level={"immediate": BOUND, "normal": BOUND}))
    if kind == "strand":
        app = App(strand.Scheduler(WORKERS))
        app.get("/def")(plain)
        app.get("/async")(plain_async)
    priority = None if kind == "fifo" else Header("X-Priority", "normal")
    app.get("/sleep", priority=priority)(sleeps)
    app.get("/compute", priority=priority)(computes)
    return app


class Side:
    """A server in a process of its own."""

    def __init__(self, kind: str) -> None:
        self.process = subprocess.Popen([sys.executable, __file__, "--serve", kind], stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.port = int(self.process.stdout.readline())

    def cpu_s(self) -> float:
        """CPU time so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text("ascii").rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICKS


@contextmanager
def sides(*kinds: str) -> Iterator[dict[str, Side]]:
    found = {kind: Side(kind) for kind in kinds}
    try:
        yield found
    finally:
        for side in found.values():
            side.process.terminate()
            side.process.wait()


def serve(kind: str) -> None:
    import socket

    import uvicorn

    if kind != "starlette":
        sys.setswitchinterval(0.001)  # as strand.http.serve does
    with socket.create_server(("127.0.0.1", 0), backlog=2048) as listener:
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # as strand.http.serve does
        print(listener.getsockname()[1], flush=True)
        uvicorn.Server(uvicorn.Config(application(kind), log_level="critical", access_log=False)).run([listener])


def throughput(turns: int, seconds: float) -> dict[str, Any]:
    if shutil.which("wrk") is None:
        return {"left out": "wrk is not installed: apt-get install wrk"}
    seen: dict[str, list[tuple[float, float]]] = {}
    with sides("starlette", "strand") as servers:
        for _ in range(turns):
            for route in ("def", "async"):
                for kind, side in servers.items():
                    begun = side.cpu_s()
                    url = f"http://127.0.0.1:{side.port}/{route}"
                    line = ["wrk", "-t1", f"-c{CONNECTIONS}", f"-d{seconds:g}", url]
                    said = subprocess.run(line, capture_output=True, text=True, check=True).stdout
                    n = int(re.search(r"(\d+) requests in", said)[1])  # type: ignore[index]
                    rate = float(re.search(r"Requests/sec: *([\d.]+)", said)[1])  # type: ignore[index]
                    seen.setdefault(f"{kind} {route}", []).append((rate, (side.cpu_s() - begun) / n * 1e6))
    found: dict[str, Any] = {
        name: {
            "requests_per_s": round(statistics.median(rate for rate, _ in values)),
            "cpu_us_per_request": round(statistics.median(cpu for _, cpu in values), 1),
        }
        for name, values in seen.items()
    }
    for route in ("def", "async"):
        ours, theirs = seen[f"strand {route}"], seen[f"starlette {route}"]
        pairs = list(zip(ours, theirs, strict=True))
        found[f"{route}: strand / starlette"] = {
            "requests_per_s": round(statistics.median(a[0] / b[0] for a, b in pairs), 2),
            "per_cpu_time": round(statistics.median(b[1] / a[1] for a, b in pairs), 2),
        }
    return found


async def offered(port: int, path: str, seconds: float, every: float) -> tuple[list[float], int, int]:
    """Offers a request each ``every`` seconds. Returns the times of urgent replies, and the numbers of urgent requests
    that were refused, and of all urgent ones."""
    times: list[float] = []
    refused = urgent = 0
    free: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def ask(is_urgent: bool, due: float) -> None:
        nonlocal refused
        reader, writer = free.pop() if free else await asyncio.open_connection("127.0.0.1", port)
        level = "immediate" if is_urgent else "normal"
        writer.write(f"GET {path} HTTP/1.1\r\nHost: a\r\nX-Priority: {level}\r\n\r\n".encode())
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(re.search(rb"content-length: (\d+)", head)[1])  # type: ignore[index]
        await reader.readexactly(length)
        free.append((reader, writer))
        if is_urgent and head.startswith(b"HTTP/1.1 200"):
            times.append(time.perf_counter() - due)
        elif is_urgent:
            refused += 1

    begun = time.perf_counter()
    asked = []
    for n in range(int(seconds / every)):
        due = begun + n * every
        if (wait := due - time.perf_counter()) > 0:
            await asyncio.sleep(wait)
        urgent += n % 10 == 0
        asked.append(asyncio.create_task(ask(n % 10 == 0, due)))
    await asyncio.gather(*asked)
    for _, writer in free:
        writer.close()
    return times, refused, urgent


def urgent(turns: int, seconds: float) -> dict[str, Any]:
    found: dict[str, Any] = {}
    # The GIL lets one of the workers compute at a time.
    for path, capacity in (("/sleep", WORKERS / WORK_S), ("/compute", 1 / WORK_S)):
        p99: dict[str, list[float]] = {}
        shares: dict[str, list[float]] = {}
        with sides("fifo", "levels") as servers:
            for _ in range(turns):
                for kind, side in servers.items():
                    times, refused, n = asyncio.run(offered(side.port, path, seconds, 0.5 / capacity))
                    p99.setdefault(kind, []).append(sorted(times)[int(len(times) * 0.99)] * 1e3)
                    shares.setdefault(kind, []).append(refused / n)
        for kind, values in p99.items():
            found[f"{path[1:]} {kind}"] = {
                "p99_ms": round(statistics.median(values), 1),
                "urgent_refused": round(statistics.median(shares[kind]), 4),
            }
        ratio = statistics.median(a / b for a, b in zip(p99["levels"], p99["fifo"], strict=True))
        found[f"{path[1:]}: levels / fifo"] = round(ratio, 3)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("parts", nargs="*", help="throughput, urgent; both if not given")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        serve(given.serve)
        return
    parts = {"throughput": throughput, "urgent": urgent}
    if unknown := set(given.parts) - set(parts):
        parser.error(f"{', '.join(sorted(unknown))}: the parts are {', '.join(parts)}")
    found = {part: parts[part](given.turns, given.seconds) for part in given.parts or parts}
    load = os.getloadavg()[0]
    print(json.dumps({"load_average": round(load, 1), "cores": os.cpu_count(), **found}, indent=2))


if __name__ == "__main__":
    main()
