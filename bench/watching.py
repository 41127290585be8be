"""The cost of watching, and the time until an alert: python bench/watching.py [PART ...] [--turns 9]

    cost    ticks per CPU-second of a run while top, the page and a scraper each second watch it, beside nobody; and of
            an attachable run that nobody watches, beside a private one: medians of ratios of turns that alternate
    scrape  series and time of a scrape with a million symbols, ticks, levels and tasks
    alert   time from a depth that passes its limit to the webhook, beside samples x interval + 1 s

Run it while the machine is quiet.
"""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import statistics
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np
from turns import run_parts, spread

import strand
from strand.alerts import Alerts, Rule, Webhook
from strand.command.cli import COMMANDS
from strand.metrics import Readings, exposition

#: Length of a turn.
SECONDS = 2.0
#: A run that publishes for so many seconds at each line that it reads, and prints ticks and its CPU time in s.
RUN = """
import sys, time
import numpy as np
import strand
ticks = strand.ticks.zeros(200_000)
ticks["instrument_id"] = np.arange(len(ticks)) % 500
ticks["kind"], ticks["price"], ticks["size"] = 1, 10**9, 100
options = {"workers": 1, "attachable": sys.argv[1] == "attachable", "feed": "plain"}
with strand.Dispatcher([f"S{at}" for at in range(500)], "trade_stats", **options) as run:
    run.publish(ticks)
    print(0, 0, flush=True)
    for line in sys.stdin:
        end, n, cpu = time.monotonic() + float(line), 0, time.process_time()
        while time.monotonic() < end:
            run.publish(ticks)
            n += len(ticks)
        run.drain()
        print(n, time.process_time() - cpu, flush=True)
"""


class Run:
    """A run in a process of its own."""

    def __init__(self, kind: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", RUN, kind], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._answer()

    def _answer(self) -> list[float]:
        assert self.process.stdout is not None
        return [float(word) for word in self.process.stdout.readline().split()]

    def ticks_per_cpu_s(self) -> float:
        """Publishes for some seconds."""
        assert self.process.stdin is not None
        print(SECONDS, file=self.process.stdin, flush=True)
        n, cpu = self._answer()
        return n / cpu


@contextmanager
def command(*words: str) -> Iterator[subprocess.Popen[str]]:
    """A command of strand, in a terminal of its own, that ends with the block."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "strand", *words], stdin=theirs, stdout=theirs, stderr=subprocess.PIPE, text=True
    ) as ran:
        reader = threading.Thread(target=_drain, args=(ours,), daemon=True)
        reader.start()
        try:
            yield ran
        finally:
            ran.kill()
            ran.wait()
            os.close(theirs)
            reader.join()
            os.close(ours)


def address(server: subprocess.Popen[str]) -> str:
    """The address that a command prints."""
    assert server.stderr is not None
    return next(found[0] for line in server.stderr if (found := re.findall(r"http://\S+", line)))


def _drain(terminal: int) -> None:
    try:
        while os.read(terminal, 1 << 16):
            pass
    except OSError:  # nobody writes any more
        pass


@contextmanager
def read_often(url: str, pause_s: float) -> Iterator[None]:
    """Reads a URL again and again, in a thread."""
    over = threading.Event()

    def loop() -> None:
        while not over.wait(pause_s):
            with urllib.request.urlopen(url, timeout=10) as answer:
                while not over.is_set() and answer.read1(1 << 16):
                    pass

    thread = threading.Thread(target=loop)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@contextmanager
def watchers(pid: int) -> Iterator[Callable[[bool], None]]:
    """Watches a process by all screens there are. Yields a function that stops the watchers, or lets them go on."""
    with ExitStack() as stack:
        scraped = stack.enter_context(command("metrics", str(pid), "--port", "0"))
        stack.enter_context(read_often(address(scraped), 1.0))
        found = [scraped, stack.enter_context(command("top", str(pid)))]
        if "dashboard" in COMMANDS:
            found.append(page := stack.enter_context(command("dashboard", str(pid), "--port", "0")))
            stack.enter_context(read_often(f"{address(page).rstrip('/')}/events", 0.1))
        time.sleep(3)  # they have begun

        def watch(is_on: bool) -> None:
            for each in found:
                each.send_signal(signal.SIGCONT if is_on else signal.SIGSTOP)

        try:
            yield watch
        finally:
            watch(True)


def cost(turns: int) -> None:
    """Prints ratios of ticks per CPU-second."""
    private, open_ = Run("private"), Run("attachable")
    of_watching, of_attachable = [], []
    with watchers(open_.process.pid) as watch:
        sides = ["private", "watched", "alone"]
        for turn in range(turns):
            found = {}
            for side in sides if turn % 2 else reversed(sides):
                watch(side == "watched")
                found[side] = (private if side == "private" else open_).ticks_per_cpu_s()
            sides.append(sides.pop(0))
            of_watching.append(found["watched"] / found["alone"])
            of_attachable.append(found["alone"] / found["private"])
    for run in (private, open_):
        run.process.kill()
    screens = ", ".join(name for name in ("top", "dashboard", "metrics") if name in COMMANDS)
    for what, ratios in ((f"{screens} beside nobody", of_watching), ("attachable beside private", of_attachable)):
        print(f"ticks per CPU-second, {what}: {spread(ratios, 3)}, {turns} turns")


def scrape(turns: int) -> None:
    """Prints the series and the time of a scrape with a million symbols."""
    n, workers = 1_000_000, 2
    names = [f"S{at}" for at in range(n)]
    with strand.Dispatcher(names, "count", workers=workers, policy=strand.Levels(), attachable=True) as run:
        ticks = strand.ticks.zeros(n)
        ticks["instrument_id"] = np.arange(n)
        run.publish(ticks)
        run.drain()
        for level in ("immediate", "high", "retry", "normal", "low"):
            run.tasks.options(priority=level).submit(int).result()
        time.sleep(6)  # a sample of the past
        attached, took, cpu = strand.attach(fd=run.memory_fd), [], []
        for _ in range(3 * turns):
            begun, cpu_begun = time.perf_counter(), time.thread_time()
            text = exposition(attached.snapshot(), {"cpu_usage": 0.5, "memory_usage": 0.5, "io_pressure": 0.0})
            took.append((time.perf_counter() - begun) * 1e3)
            cpu.append((time.thread_time() - cpu_begun) * 1e3)
    series = sum(not line.startswith(b"#") for line in text.splitlines())
    most = 500 + 6 * (workers + 1)
    print(f"{n:,} symbols: {series} series (at most {most})")
    print(f"a scrape takes {statistics.median(took):.1f} ms, and {statistics.median(cpu):.1f} ms of CPU time")


class _Receiver(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        found: Any = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(204)
        self.end_headers()
        self.server.told.append((found["state"], time.monotonic()))  # type: ignore[attr-defined]

    def log_message(self, *_: Any) -> None:
        pass


def alert(turns: int) -> None:
    """Prints times from a crossing to the webhook."""
    rule = Rule("queue_depth", "warning", 10, "normal", interval_ns=1_000_000_000, samples=3)
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Receiver)
    server.told = []  # type: ignore[attr-defined]
    threading.Thread(target=server.serve_forever, daemon=True).start()
    took = []
    for _ in range(turns):
        may_end, told = threading.Event(), server.told  # type: ignore[attr-defined]
        told.clear()
        with strand.Scheduler(1, attachable=True) as run:
            hook = Webhook(f"http://127.0.0.1:{server.server_port}/")
            with Alerts(Readings(strand.attach(fd=run.memory_fd)), [rule], webhook=hook):
                time.sleep(1.5 + np.random.default_rng().random())
                run.submit(may_end.wait)
                crossed = time.monotonic()
                for _ in range(20):
                    run.submit(int)
                while not told:
                    time.sleep(0.001)
                took.append(told[0][1] - crossed)
                may_end.set()
    server.shutdown()
    bound = rule.samples * rule.interval_ns / 1e9 + 1
    print(f"from crossing to webhook: {statistics.median(took):.2f} s, {max(took):.2f} at most (bound {bound:g} s)")


if __name__ == "__main__":
    run_parts(__doc__, {"cost": cost, "scrape": scrape, "alert": alert}, 9)
