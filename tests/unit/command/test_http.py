"""strand http: the server as a command, its bounds, its token, and its end."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest
from http_server import MOST_S, wait_for
from warm_python import run_warm

from strand.errors import ConfigurationError
from strand.http import ServerOptions

pytestmark = pytest.mark.python

APP = """
import os, socket, sys, threading, time
import strand
from strand.http import App

app = App()
ran = []


@app.get("/name")
def name(request):
    return threading.current_thread().name


@app.get("/interval")
def interval(request):
    return sys.getswitchinterval()


@app.get("/no-delay")
def no_delay(request):
    found = []
    for name in os.listdir("/proc/self/fd"):
        try:
            one = socket.socket(fileno=os.dup(int(name)))
        except OSError:
            continue
        with one:
            if one.family == socket.AF_INET:
                found.append(one.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
    return found


@app.get("/slow/{n:int}")
def slow(request):
    sys.stdout.write(f"begun {request.path_params['n']}\\n")  # in one piece: two threads write
    sys.stdout.flush()
    time.sleep(0.02)
    return str(request.path_params["n"])


@app.get("/raises")
def raises(request):
    raise ValueError("it failed")


@app.get("/system")
def system(request):
    raise OSError("disk")


@app.get("/big")
def big(request):
    return bytes(50_000_000)


def parts(environ, start_response):
    start_response("200 OK", [])
    return (bytes(1_000_000) for _ in range(1000))


app.wsgi("/parts", parts)


@app.get("/stuck")
def stuck(request):
    print("begun", flush=True)
    time.sleep(600)


async def plain(scope, receive, send):
    assert scope["type"] == "http"
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"plain"})


own = App(strand.Scheduler(1))
number = 7
"""


def without_log(text: str) -> str:
    return "".join(line for line in text.splitlines(keepends=True) if not line.startswith("INFO strand.dispatch: "))


class Command:
    """A running ``strand http``."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        assert process.stderr is not None
        line = next(line for line in process.stderr if not line.startswith("INFO strand.dispatch: "))  # the log
        found = re.fullmatch(r"listening at (http://127\.0\.0\.1:(\d+))\n", line)
        assert found is not None, line
        self.url, self.port = found[1], int(found[2])

    def stop(self) -> tuple[int, str, str]:
        self.process.send_signal(signal.SIGTERM)
        said, errors = self.process.communicate(timeout=MOST_S)
        return self.process.returncode, said, without_log(errors)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "served.py").write_text(APP)
    return tmp_path


@contextmanager
def command(folder: Path, *args: str) -> Iterator[Command]:
    line = [sys.executable, "-m", "strand", "http", *args, "--port", "0"]
    pipe = subprocess.PIPE
    with subprocess.Popen(line, cwd=folder, stdout=pipe, stderr=pipe, text=True) as process:
        try:
            yield Command(process)
        finally:
            process.kill()


def failed(folder: Path, *args: str) -> str:
    run = run_warm("-m", "strand", "http", *args, cwd=folder, timeout=MOST_S)
    assert run.returncode == 2
    return without_log(run.stderr).strip()


def test_the_command_answers_by_the_workers_that_it_was_given_and_ends_with_status_0(folder: Path) -> None:
    with command(folder, "served:app", "--workers", "2", "--switch-interval", "2ms", "--json") as run:
        assert httpx.get(f"{run.url}/name").text.startswith("strand-task-worker-")
        assert httpx.get(f"{run.url}/healthz").text == httpx.get(f"{run.url}/readyz").text == "ok"
        assert httpx.get(f"{run.url}/interval").json() == 0.002
        status, said, errors = run.stop()
    assert (status, errors) == (0, "")
    requests = [{"route": f"/{route}", "status": 200, "count": 1} for route in ("name", "interval")]
    assert json.loads(said) == {"cut_off": 0, "tasks_left": 0, "requests": requests, "gone": 0, "dropped": 0}


def test_no_part_of_a_reply_waits_for_the_client_to_acknowledge_the_part_before(folder: Path) -> None:
    with command(folder, "served:app") as run:
        assert httpx.get(f"{run.url}/no-delay").json() == [1, 1]  # what listens, and the connection


def test_without_workers_requests_are_no_tasks_and_any_asgi_application_is_served(folder: Path) -> None:
    with command(folder, "served:app") as run:
        assert "worker" not in httpx.get(f"{run.url}/name").text.replace("AnyIO worker", "")
    with command(folder, "served:plain") as run:
        assert httpx.get(run.url).text == "plain"


def test_a_stop_loses_no_request_whose_handler_has_begun_or_that_waits(folder: Path) -> None:
    def ask(url: str) -> list[int]:
        got = []
        with httpx.Client(base_url=url, timeout=MOST_S) as client:
            for n in range(1000):
                try:
                    reply = client.get(f"/slow/{n}")
                except httpx.TransportError:  # the server accepts no more
                    return got
                assert reply.status_code == 200
                got.append(n)
        raise AssertionError("it did not stop")

    with command(folder, "served:app", "--workers", "2") as run, ThreadPoolExecutor(8) as threads:
        asked = [threads.submit(ask, run.url) for _ in range(8)]
        wait_for(lambda: httpx.get(f"{run.url}/name").status_code == 200)
        status, said, _ = run.stop()
        answered = sorted(n for each in asked for n in each.result())
    assert status == 0
    assert sorted(int(line.split()[1]) for line in said.splitlines()) == answered


def test_a_stop_ends_in_its_time_and_says_how_many_requests_it_has_cut_off(folder: Path) -> None:
    with command(folder, "served:app", "--workers", "1", "--stop-timeout", "200ms") as run:
        client = socket.create_connection(("127.0.0.1", run.port))
        client.sendall(b"GET /stuck HTTP/1.1\r\nHost: a\r\n\r\n")
        assert run.process.stdout is not None
        assert run.process.stdout.readline() == "begun\n"
        status, _, errors = run.stop()
        client.close()
    assert status == 1
    assert "1 requests were cut off, 1 tasks still ran" in errors


@pytest.mark.parametrize("workers", [(), ("--workers", "1")])
def test_a_stop_counts_a_reply_whose_client_has_not_taken_it_as_cut_off(folder: Path, workers: tuple[str, ...]) -> None:
    for path in ("/big", "/parts/"):
        with (
            command(folder, "served:app", *workers, "--stop-timeout", "200ms") as run,
            socket.create_connection(("127.0.0.1", run.port)) as client,
        ):
            client.sendall(f"GET {path} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
            assert client.recv(12) == b"HTTP/1.1 200"
            status, _, errors = run.stop()
        assert status == 1
        assert "1 requests were cut off, 0 tasks still ran" in errors
        assert "Event loop is closed" not in errors


def test_another_address_than_this_machines_needs_a_token() -> None:
    for host in ("0.0.0.0", "::", "example.org", "192.168.1.5"):
        with pytest.raises(ConfigurationError, match=r"host: .* token_file"):
            ServerOptions(host=host)
        ServerOptions(host=host, token_file="token")
    for host in ("127.0.0.1", "127.1.2.3", "::1", "localhost"):
        ServerOptions(host=host)


def test_each_request_brings_the_token_which_a_hangup_makes_the_server_read_again(folder: Path) -> None:
    token = folder / "token"
    token.write_text("a-first-secret-token\n")
    with command(folder, "served:app", "--token-file", str(token)) as run:

        def status(authorization: str | None) -> int:
            headers = {} if authorization is None else {"Authorization": authorization}
            return httpx.get(f"{run.url}/name", headers=headers).status_code

        assert [status(None), status("Bearer a-first-secret-toke"), status("Basic a-first-secret-token")] == [401] * 3
        assert status("Bearer a-first-secret-token") == 200
        assert httpx.get(f"{run.url}/healthz").status_code == 200
        token.write_text("short")
        run.process.send_signal(signal.SIGHUP)
        assert status("Bearer a-first-secret-token") == 200
        token.write_text("a-second-secret-token")
        run.process.send_signal(signal.SIGHUP)
        wait_for(lambda: status("Bearer a-second-secret-token") == 200)
        assert status("Bearer a-first-secret-token") == 401
        _, said, errors = run.stop()
    assert "the token stays as it was" in errors
    assert "secret" not in said + errors


def test_tasks_are_controlled_below_control(folder: Path) -> None:
    token = folder / "token"
    token.write_text("a-token-of-sixteen")
    bearer = {"Authorization": "Bearer a-token-of-sixteen"}
    with command(folder, "served:app", "--workers", "1", "--token-file", str(token), "--control") as run:
        assert httpx.get(f"{run.url}/control/tasks", headers=bearer).json() == []
        assert httpx.get(f"{run.url}/name", headers=bearer).status_code == 200
        assert httpx.get(f"{run.url}/control/statistics", headers=bearer).json()["ended"]["done"] == 1
        with socket.create_connection(("127.0.0.1", run.port), MOST_S) as watcher:
            watcher.sendall(
                b"GET /control/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer a-token-of-sixteen\r\n\r\n"
            )
            assert watcher.recv(12) == b"HTTP/1.1 200"
            status, _, errors = run.stop()  # the stream ends with the server
    assert status == 0
    assert 'INFO strand.http.audit: 127.0.0.1 GET "/control/tasks" 200' in errors
    assert "token_file: " in failed(folder, "served:app", "--workers", "1", "--control")
    assert "control: " in failed(folder, "served:app", "--token-file", str(token), "--control")


@pytest.mark.parametrize("head", [b"", b"GET / HTT", b"GET /name HTTP/1.1\r\nHost: a\r\nX: y"])
def test_a_connection_whose_headers_do_not_come_is_closed(folder: Path, head: bytes) -> None:
    with command(folder, "served:app", "--head-timeout", "100ms") as run:
        with socket.create_connection(("127.0.0.1", run.port), MOST_S) as client:
            client.sendall(head)
            assert client.recv(100).split(b"\r\n")[0] == b"HTTP/1.1 408 Request Timeout"
        assert httpx.get(f"{run.url}/name").status_code == 200


def test_headers_that_never_end_are_refused_before_they_fill_the_memory(folder: Path) -> None:
    with command(folder, "served:app", "--max-head-bytes", "20000") as run:
        for again in (b"", b"GET /name HTTP/1.1\r\nHost: a\r\n\r\n"):
            with socket.create_connection(("127.0.0.1", run.port), MOST_S) as client:
                client.sendall(again)
                if again:
                    assert client.recv(10_000).startswith(b"HTTP/1.1 200")
                sent = 0
                with pytest.raises(ConnectionError):
                    while sent < 10_000_000:
                        sent += client.send(b"GET / HTTP/1.1\r\nX: " if not sent else b"x" * 10_000)
        assert httpx.get(f"{run.url}/name").status_code == 200


def test_one_connection_too_many_gets_503(folder: Path) -> None:
    with command(folder, "served:app", "--max-connections", "3") as run:
        held = [socket.create_connection(("127.0.0.1", run.port), MOST_S) for _ in range(3)]
        wait_for(lambda: httpx.get(f"{run.url}/name").status_code == 503)
        for one in held:
            one.close()
        wait_for(lambda: httpx.get(f"{run.url}/name").status_code == 200)


def test_what_cannot_be_served_is_said_in_one_line(folder: Path) -> None:
    assert "MODULE:APP" in failed(folder, "served")
    assert "application: " in failed(folder, "served:none")
    assert failed(folder, "served:number") == (
        "strand: application: served:number is no ASGI application: it cannot be called"
    )
    assert "workers: served:own has a scheduler of its own" in failed(folder, "served:own", "--workers", "1")
    assert "workers: served:plain is no strand.http.App" in failed(folder, "served:plain", "--workers", "1")
    assert "token_file: none" in failed(folder, "served:app", "--token-file", "none")
    assert "host: 0.0.0.0" in failed(folder, "served:app", "--host", "0.0.0.0")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert "port: 127.0.0.1" in failed(folder, "served:app", "--port", str(taken.getsockname()[1]))


def test_serve_returns_after_the_signal_that_stops_it() -> None:
    program = (
        "import strand.http as h\n"
        "app = h.App()\n"
        "app.get('/')(lambda _: 'a')\n"
        "cut = h.serve(app, h.ServerOptions(port=0), started=lambda url: print(url, flush=True))\n"
        "print('returned', cut)\n"
    )
    line = [sys.executable, "-c", program]
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("http://127.0.0.1:")
        process.send_signal(signal.SIGTERM)
        output, errors = process.communicate(timeout=60)
    assert (process.returncode, output) == (0, "returned 0\n"), errors


def test_with_json_every_line_of_the_log_is_json_and_has_the_ids_of_its_request(folder: Path) -> None:
    line = [
        sys.executable,
        "-m",
        "strand",
        "http",
        "served:app",
        "--workers",
        "1",
        "--port",
        "0",
        "--log-format",
        "json",
    ]
    with subprocess.Popen(line, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        lines = []
        for text in process.stderr:
            lines.append(json.loads(text))
            if found := re.search(r"listening at (\S+)", lines[-1]["message"]):
                break
        assert httpx.get(f"{found[1]}/raises", headers={"X-Request-ID": "request-7"}).status_code == 500
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=MOST_S)
    lines += [json.loads(text) for text in errors.splitlines()]
    events = [each.get("event") for each in lines]
    assert {event for event in events if event} == {"run.started", "command.said", "http.failed", "run.ended"}
    (raised,) = [each for each in lines if "exception" in each]
    assert raised["request_id"] == "request-7"
    assert "ValueError: it failed" in raised["exception"]


def test_a_file_with_monitoring_makes_the_command_watch_its_scheduler_and_log_alerts(folder: Path) -> None:
    file = folder / "strand.toml"
    limit = 'collection_interval = "1s"\nnotice = 0\n'
    file.write_text(f"[monitoring.queue_metrics.tasks_failed]\n{limit}")
    options = ["--workers", "1", "--config", str(file), "--port", "0", "--log-format", "json"]
    line = [sys.executable, "-m", "strand", "http", "served:app", *options]
    with subprocess.Popen(line, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        lines = (json.loads(text) for text in process.stderr)
        url = next(found[1] for each in lines if (found := re.search(r"listening at (\S+)", each["message"])))
        for path in ("raises", "system"):
            assert httpx.get(f"{url}/{path}").status_code == 500
        alerts: dict[str, Any] = {}
        while alerts.keys() < {"system_error", "tasks_failed_notice"}:
            each = next(lines)
            if each.get("event") == "alert":
                alerts[each["rule"]] = each["level"], each["state"]
        process.kill()
    assert alerts == {"system_error": ("ERROR", "event"), "tasks_failed_notice": ("INFO", "event")}
