"""strand.http.App: requests as tasks, on a real server."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from asyncio import CancelledError
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import httpx2 as httpx
import numpy as np
import pytest
from fastapi import FastAPI
from http_server import MOST_S, Served, serving, wait_for
from hypothesis import HealthCheck, given, settings
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Mount, WebSocketRoute
from starlette.testclient import TestClient
from starlette.websockets import WebSocket

import strand
from strand.errors import ConfigurationError
from strand.http import App, AppOptions, Header, Request, request_id, trace_id
from strand.logs import EVENTS
from strand.tasks import current_task

pytestmark = pytest.mark.python


class Gate:
    """A handler that waits until the test opens it. ``begun``: how many requests are in it."""

    def __init__(self) -> None:
        self._opened = threading.Event()
        self.begun = 0

    def __call__(self, request: Request) -> str:
        self.begun += 1
        assert self._opened.wait(MOST_S)
        return "opened"

    def open(self) -> None:
        self._opened.set()


@contextmanager
def at_gate(app: App, **route: Any) -> Iterator[tuple[Gate, Served, Callable[..., Any]]]:
    """Serves an application whose one worker is at the gate, and gives a way to ask it meanwhile, in other threads."""
    gate = Gate()
    app.get("/gate", **route)(gate)
    with serving(app) as served, served.client() as client, ThreadPoolExecutor(64) as threads:
        ask = lambda path, **more: threads.submit(client.get, path, **more)  # noqa: E731
        first = ask("/gate")
        wait_for(lambda: gate.begun)
        try:
            yield gate, served, ask
        finally:
            gate.open()
        assert first.result().text == "opened"


def test_a_worker_of_the_scheduler_answers_a_get_with_its_name() -> None:
    with strand.Scheduler(2) as scheduler:
        app = App(scheduler)
        app.get("/name")(lambda request: threading.current_thread().name)
        with serving(app) as served:
            reply = httpx.get(f"{served.url}/name")
    assert (reply.status_code, reply.text[:-1]) == (200, "strand-task-worker-")
    assert scheduler.statistics().ended["done"] == 1


def test_an_async_handler_runs_in_the_loop_of_the_server_whether_or_not_tasks_wait() -> None:
    with strand.Scheduler(1) as scheduler:
        app = App(scheduler)

        @app.get("/loop")
        async def loop(request: Request) -> dict[str, Any]:
            await asyncio.sleep(0)
            task = current_task()
            return {"thread": threading.current_thread().name, "state": None if task is None else task.state}

        with at_gate(app) as (gate, served, ask):
            free = httpx.get(f"{served.url}/loop").json()  # nothing waits: no worker is needed
            behind = ask("/gate")
            wait_for(scheduler.pending_total)
            queued = ask("/loop")
            wait_for(lambda: scheduler.pending_total() == 2)
            gate.open()
            assert behind.result().text == "opened"
            assert queued.result().json() == free == {"thread": "server", "state": "running"}
    assert scheduler.statistics().ended["done"] == 4


@pytest.mark.parametrize("kind", ["def", "async"])
def test_requests_begin_by_priority(kind: str) -> None:
    begun: list[str] = []
    with strand.Scheduler(1) as scheduler:
        app = App(scheduler)
        priority = Header("X-Priority", "normal", allowed=["immediate", "low"])
        if kind == "def":
            app.get("/", priority=priority)(lambda request: begun.append(request.query_params["name"]))
        else:

            @app.get("/", priority=priority)
            async def note(request: Request) -> None:
                begun.append(request.query_params["name"])

        with at_gate(app) as (gate, _, ask):
            asked = [ask("/gate")]  # while nothing waits, an async handler needs no worker
            wait_for(scheduler.pending_total)
            for n, level in enumerate(("low", None, "immediate")):
                headers = {} if level is None else {"X-Priority": level}
                asked.append(ask(f"/?name={level}", headers=headers))
                wait_for(lambda n=n: scheduler.pending_total() == n + 2)
            wrong = ask("/", headers={"X-Priority": "high"}).result()
            gate.open()
            assert [one.result().status_code for one in asked] == [200, 204, 204, 204]
    assert begun == ["immediate", "None", "low"]
    assert (wrong.status_code, wrong.text) == (400, "X-Priority: give one of immediate, low")


def test_an_option_that_a_header_gives_and_that_cannot_work_is_answered_by_400() -> None:
    with strand.Scheduler(1) as scheduler:
        app = App(scheduler)
        app.get("/", priority=Header("P"), deadline=Header("D"))(lambda request: "ok")
        with serving(app) as served:
            assert httpx.get(served.url, headers={"P": "high", "D": "10s"}).text == "ok"
            for headers, field in (
                ({"P": "urgent"}, "priority"),
                ({"P": "7"}, "priority"),
                ({"D": "soon"}, "deadline"),
            ):
                reply = httpx.get(served.url, headers=headers)
                assert (reply.status_code, field in reply.text) == (400, True), reply.text


def test_a_full_queue_answers_429_with_the_time_to_come_again_and_urgent_requests_have_a_bound_of_their_own() -> None:
    with strand.Scheduler(1, max_queue_by_level={"normal": 1, "immediate": 1}) as scheduler:
        app = App(scheduler, AppOptions(retry_after="1500ms"))
        app.get("/urgent", priority="immediate")(lambda request: "soon")
        with at_gate(app) as (gate, served, ask):
            second = ask("/gate")
            wait_for(scheduler.pending_total)
            third = httpx.get(f"{served.url}/gate")
            urgent = ask("/urgent")
            wait_for(lambda: scheduler.pending_total() == 2)
            refused = httpx.get(f"{served.url}/urgent")
            gate.open()
            assert (second.result().text, urgent.result().text) == ("opened", "soon")
    assert (third.status_code, third.headers["Retry-After"]) == (429, "2")
    assert "'normal'" in third.text
    assert refused.status_code == 429
    assert app.statistics().requests == {("/gate", 200): 2, ("/gate", 429): 1, ("/urgent", 200): 1, ("/urgent", 429): 1}


def test_of_requests_that_come_together_those_have_room_that_would_have_it_one_by_one() -> None:
    begun, goes_on = threading.Event(), threading.Event()
    with strand.Scheduler(1, max_queue=3) as scheduler:
        app = App(scheduler)

        @app.get("/block", scheduled=False)
        async def block(request: Request) -> None:  # the loop then reads what came meanwhile in one round
            begun.set()
            goes_on.wait(MOST_S)

        with at_gate(app) as (gate, served, ask):
            connections = [served.connect() for _ in range(5)]
            wait_for(lambda: len(served.server.server_state.connections) == 6)
            blocked = ask("/block")
            begun.wait(MOST_S)
            for connection in connections:
                connection.sendall(b"GET /gate HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            goes_on.set()
            assert blocked.result().status_code == 204
            wait_for(lambda: app.statistics().requests.get(("/gate", 429)) == 2)
            assert scheduler.pending_total() == 3
            gate.open()
            replies = [connection.makefile("rb").read() for connection in connections]
            for connection in connections:
                connection.close()
    assert sorted(reply.split()[1] for reply in replies) == [b"200"] * 3 + [b"429"] * 2


def test_a_deadline_that_passes_answers_504_while_the_request_waits_and_while_its_handler_runs() -> None:
    ran: list[str] = []
    with strand.Scheduler(1) as scheduler:
        app = App(scheduler)
        slow = Gate()
        app.get("/waits", deadline="20ms")(lambda request: ran.append("waits"))
        app.get("/slow", deadline="500ms")(slow)
        with at_gate(app) as (gate, _, ask):
            assert ask("/waits").result().status_code == 504
            gate.open()
            assert ask("/slow").result().status_code == 504
            assert slow.begun == 1
            assert app.statistics().dropped == 0
            slow.open()
            wait_for(lambda: app.statistics().dropped)
    assert ran == []
    assert scheduler.statistics().ended == dict.fromkeys(scheduler.statistics().ended, 0) | {"done": 2, "expired": 1}


def test_a_reply_that_comes_after_the_deadline_of_a_busy_loop_is_504() -> None:
    """Both wait for the loop then, and it would take the reply first."""
    found: list[asyncio.AbstractEventLoop] = []

    async def tell(request: Request) -> None:
        found.append(asyncio.get_running_loop())

    def late(request: Request) -> str:
        held, let_go = threading.Event(), threading.Event()

        def hold() -> None:
            held.set()
            let_go.wait(MOST_S)

        found[0].call_soon_threadsafe(hold)
        assert held.wait(MOST_S)
        time.sleep(1.5)
        # The reply is there before the loop goes on.
        threading.Timer(0.5, let_go.set).start()
        return "too late"

    with strand.Scheduler(workers=1) as scheduler:
        app = App(scheduler)
        app.get("/tell", scheduled=False)(tell)
        app.get("/late", deadline="1s")(late)
        with TestClient(app) as client:
            client.get("/tell")
            assert client.get("/late").status_code == 504
            assert app.statistics().dropped == 1


def test_the_task_of_a_client_that_goes_away_is_cancelled() -> None:
    ended: list[bool] = []

    def asks(request: Request) -> None:
        task = current_task()
        assert task is not None
        wait_for(lambda: task.cancel_requested)
        ended.append(True)

    with strand.Scheduler(1) as scheduler:
        app = App(scheduler)
        app.get("/")(asks)
        with serving(app) as served:
            runs, waits = served.connect(), served.connect()
            runs.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            wait_for(lambda: scheduler.statistics().wait.count)
            waits.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            wait_for(scheduler.pending_total)
            waits.close()
            wait_for(lambda: scheduler.statistics().ended["cancelled"])
            assert not ended
            runs.close()
            wait_for(lambda: ended and app.statistics().dropped)
            assert app.statistics().gone == 2
            assert app.statistics().requests == {}


@pytest.mark.parametrize("busy", [False, True])
def test_an_async_handler_whose_client_goes_away_is_cancelled_at_its_await(busy: bool) -> None:
    ends: list[str] = []
    with strand.Scheduler(1) as scheduler:
        app = App(scheduler)

        @app.get("/", key="one" if busy else None)  # with a key it is begun by a worker
        async def waits(request: Request) -> None:
            try:
                await asyncio.sleep(MOST_S)
            except asyncio.CancelledError:
                ends.append("cancelled")
                raise

        with serving(app) as served:
            with served.connect() as client:
                client.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
                wait_for(lambda: scheduler.statistics().wait.count)
            wait_for(lambda: ends)
            wait_for(lambda: app.statistics().gone)
    assert scheduler.statistics().ended["cancelled"] == 1


def test_a_client_that_is_killed_in_mid_request_leaves_nothing_behind() -> None:
    with strand.Scheduler(1) as scheduler:
        app = App(scheduler)
        app.post("/")(lambda request: len(request.content))
        with at_gate(app) as (_, served, _ask):
            code = (
                "import socket, sys, time\n"
                f"socks = [socket.create_connection(('127.0.0.1', {served.port})) for _ in range(3)]\n"
                "socks[0].sendall(b'POST / HTTP/1.1\\r\\nHost: a\\r\\nContent-Length: 100\\r\\n\\r\\nhalf')\n"
                "socks[1].sendall(b'GET /ga')\n"
                "socks[2].sendall(b'GET /gate HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n')\n"
                "print('sent', flush=True); time.sleep(60)"
            )
            with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as client:
                assert client.stdout is not None
                client.stdout.readline()
                wait_for(lambda: app.statistics().open == 3 and scheduler.pending_total() == 1)
                client.kill()
            wait_for(lambda: app.statistics().open == 1 and scheduler.pending_total() == 0)
            assert app.statistics().gone == 2


def test_a_body_that_is_too_long_is_answered_by_413_and_headers_by_431() -> None:
    with strand.Scheduler(1) as scheduler:
        app = App(scheduler, AppOptions(max_body_bytes=100, max_header_bytes=1000))
        app.post("/")(lambda request: len(request.content))
        app.post("/long", max_body_bytes=1000)(lambda request: len(request.content))
        with serving(app) as served:
            assert httpx.post(served.url, content=b"x" * 100).json() == 100
            assert httpx.post(served.url, content=b"x" * 101).status_code == 413
            assert httpx.post(served.url, content=iter([b"x" * 60, b"x" * 60])).status_code == 413  # no length is given
            assert httpx.post(f"{served.url}/long", content=b"x" * 1000).json() == 1000
            assert httpx.post(served.url, headers={"X-Long": "x" * 1000}).status_code == 431
            assert httpx.post(served.url, content=b"after").json() == 5
    assert scheduler.statistics().submitted == 3


def test_a_body_that_comes_too_slowly_is_answered_by_408_and_holds_no_worker() -> None:
    with strand.Scheduler(1) as scheduler:
        app = App(scheduler, AppOptions(body_timeout="50ms"))
        app.post("/")(lambda request: len(request.content))
        with serving(app) as served, served.connect() as slow:
            slow.sendall(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nhalf")
            assert httpx.post(served.url, content=b"whole").json() == 5
            assert b" 408 " in slow.makefile("rb").readline()
    assert scheduler.statistics().submitted == 1


def test_requests_of_one_key_run_in_their_order_one_at_a_time() -> None:
    seen: list[str] = []
    with strand.Scheduler(2) as scheduler:
        app = App(scheduler)
        gate = Gate()
        app.get("/first", key=lambda request: request.query_params["account"])(gate)
        app.get("/next", key=lambda request: request.query_params["account"])(
            lambda request: seen.append(request.url.query)
        )
        with serving(app) as served, served.client() as client, ThreadPoolExecutor(4) as threads:
            first = threads.submit(client.get, "/first?account=1")
            wait_for(lambda: gate.begun)
            behind = threads.submit(client.get, "/next?account=1")
            wait_for(scheduler.pending_total)
            client.get("/next?account=2")
            gate.open()
            assert (first.result().text, behind.result().status_code) == ("opened", 204)
    assert seen == ["account=2", "account=1"]


@pytest.mark.parametrize("kind", ["def", "async", "async behind others"])
def test_the_ids_and_variables_of_a_request_go_with_its_task(kind: str) -> None:
    from contextvars import ContextVar

    user: ContextVar[str] = ContextVar("user")
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    headers = {"X-Request-ID": "r-7", "traceparent": f"00-{trace}-00f067aa0ba902b7-01"}
    malformed = {"X-Request-ID": "a b", "traceparent": f"00-{'0' * 32}-00f067aa0ba902b7-01"}

    class Sets:
        def __init__(self, app: Any) -> None:
            self._app = app

        async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
            user.set("somebody")
            await self._app(scope, receive, send)

    def tells(request: Request) -> list[Any]:
        return [request_id(), trace_id(), user.get()]

    async def tells_later(request: Request) -> list[Any]:
        await asyncio.sleep(0)
        return tells(request)

    with strand.Scheduler(1) as scheduler:
        app = App(scheduler)
        app.add_middleware(Sets)
        app.get("/", key="a" if "behind" in kind else None)(tells if kind == "def" else tells_later)
        with serving(app) as served:
            given = httpx.get(served.url, headers=headers)
            bad = httpx.get(served.url, headers=malformed)
            missing = httpx.get(f"{served.url}/nowhere")
    assert given.json() == ["r-7", trace, "somebody"]
    assert given.headers["X-Request-ID"] == "r-7"
    its_id, its_trace, _ = bad.json()
    assert its_id == bad.headers["X-Request-ID"]
    assert len(its_id) == len(its_trace) == 32
    assert missing.status_code == 404
    assert len(missing.headers["X-Request-ID"]) == 32
    assert request_id() is trace_id() is None


def test_a_request_runs_once_unless_its_route_has_retries() -> None:
    calls: list[str] = []

    def fails(request: Request) -> str:
        calls.append(request.url.path)
        if calls.count("/again") < 2:
            raise ConnectionError("no")
        return "at last"

    with strand.Scheduler(1, retry=strand.RetryPolicy(max_retries=5, base_delay="1ms")) as scheduler:
        app = App(scheduler)
        app.post("/once")(fails)
        app.post("/again", retry=strand.RetryPolicy(max_retries=1, base_delay="1ms"))(fails)
        with serving(app) as served:
            assert httpx.post(f"{served.url}/once").status_code == 500
            assert httpx.post(f"{served.url}/again").text == "at last"
    assert calls == ["/once", "/again", "/again"]
    assert len(scheduler.dead_letters) == 0
    with pytest.raises(ConfigurationError, match="retry"):
        App().get("/", retry=strand.RetryPolicy(), group="g")(fails)


def test_a_request_may_be_answered_by_202_with_the_place_of_its_reply() -> None:
    with strand.Scheduler(1) as scheduler:
        app = App(scheduler, AppOptions(max_accepted=2, accepted_for="50ms"))
        app.post("/jobs", accepts=True)(lambda request: request.content.decode().upper())
        with at_gate(app) as (gate, served, _):
            first, second, third = (httpx.post(f"{served.url}/jobs", content=text) for text in ("one", "two", "three"))
            assert (first.status_code, second.status_code, third.status_code) == (202, 202, 429)
            assert app.statistics().accepted == 2
            place = served.url + first.headers["Location"]
            assert httpx.get(place).json()["state"] == "waiting"
            assert httpx.delete(served.url + second.headers["Location"]).json()["state"] == "cancelled"
            assert httpx.get(f"{served.url}/accepted/none").status_code == 404
            gate.open()
            wait_for(lambda: httpx.get(place).status_code != 202)
            wait_for(lambda: app.statistics().accepted == 0)
            assert httpx.get(place).status_code == 404


def test_who_asks_for_the_reply_to_a_cancelled_request_is_told_that_it_is_gone() -> None:
    with strand.Scheduler(1) as scheduler:
        app = App(scheduler)
        app.post("/jobs", accepts=True)(lambda _: "done")
        with at_gate(app) as (_, served, _):
            place = served.url + httpx.post(f"{served.url}/jobs").headers["Location"]
            answers = [httpx.request(method, place).status_code for method in ("GET", "DELETE", "DELETE", "GET")]
            assert answers == [202, 200, 200, 410]


def test_the_reply_to_an_accepted_request_is_that_of_its_handler() -> None:
    with strand.Scheduler(1) as scheduler:
        app = App(scheduler)
        app.post("/jobs", accepts=True)(lambda request: {"text": request.content.decode().upper()})
        with serving(Starlette(routes=[Mount("/api", app)])) as served:
            place = served.url + httpx.post(f"{served.url}/api/jobs", content=b"one").headers["Location"]
            assert "/api/accepted/" in place
            wait_for(lambda: httpx.get(place).status_code == 200)
            assert httpx.get(place).json() == {"text": "ONE"}


def accepting(scheduler: strand.Scheduler, done: list[int]) -> App:
    """An application that accepts jobs, each of which is done a moment later."""
    app = App(scheduler)

    @app.post("/jobs", accepts=True)
    async def works(request: Request) -> None:
        await asyncio.sleep(0.2)
        done.append(1)

    return app


def test_a_server_that_ends_waits_for_accepted_requests() -> None:
    done: list[int] = []
    with strand.Scheduler(1) as scheduler:
        app = accepting(scheduler, done)
        with serving(app) as served:
            assert httpx.post(f"{served.url}/jobs").status_code == 202
        assert done == [1]


@pytest.mark.parametrize("outer", [FastAPI, Starlette])
def test_an_outer_application_that_runs_its_life_waits_for_accepted_requests(
    outer: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(EVENTS["http.unawaited"], "most", None)
    done: list[int] = []
    with strand.Scheduler(1) as scheduler:
        app = accepting(scheduler, done)
        whole = outer(lifespan=lambda _: app.router.lifespan_context(app))
        whole.mount("/inner", app)
        with serving(whole) as served:
            assert httpx.post(f"{served.url}/inner/jobs").status_code == 202
        assert done == [1]
        assert "lifespan_context" not in caplog.text
        whole = outer()
        whole.mount("/inner", app)
        with serving(whole) as served:
            assert httpx.post(f"{served.url}/inner/jobs").status_code == 202
        assert "lifespan_context" in caplog.text


@pytest.mark.parametrize("outer", [FastAPI, Starlette])
def test_it_mounts_in_other_applications_and_others_in_it(outer: Any) -> None:
    with strand.Scheduler(1) as scheduler:
        app, inner, whole = App(scheduler), FastAPI(), outer()
        app.get("/name")(lambda request: threading.current_thread().name)

        @inner.get("/{item}")
        def item(item: int) -> dict[str, int]:
            return {"item": item}

        app.mount("/inner", inner)
        whole.mount("/jobs", app)
        with serving(whole) as served:
            assert httpx.get(f"{served.url}/jobs/name").text.startswith("strand-task-worker")
            assert httpx.get(f"{served.url}/jobs/inner/7").json() == {"item": 7}
        assert TestClient(whole).get("/jobs/name").text.startswith("strand-task-worker")
    assert app.statistics().requests == {("/name", 200): 2, ("(other)", 200): 1}


def test_streaming_replies_and_websockets_pass_through() -> None:
    async def parts() -> AsyncIterator[bytes]:
        for part in (b"a", b"b"):
            yield part

    async def echo(socket: WebSocket) -> None:
        await socket.accept()
        await socket.send_text((await socket.receive_text()).upper())
        await socket.close()

    with strand.Scheduler(1) as scheduler:
        app = App(scheduler, routes=[WebSocketRoute("/ws", echo)])
        app.get("/parts")(lambda request: StreamingResponse(parts()))
        with TestClient(app) as client:
            assert client.get("/parts").text == "ab"
            with client.websocket_connect("/ws") as socket:
                socket.send_text("hello")
                assert socket.receive_text() == "HELLO"


@pytest.mark.parametrize("with_scheduler", [False, True])
@pytest.mark.parametrize("kind", ["def", "async"])
def test_what_a_handler_returns_or_raises_is_answered_alike_with_and_without_a_scheduler(
    kind: str, with_scheduler: bool
) -> None:
    answers: dict[str, Any] = {
        "text": "text", "bytes": b"bytes", "none": None, "json": {"a": [1, None]}, "own": PlainTextResponse("own", 418),
        "404": HTTPException(404, "not here"), "error": ZeroDivisionError("none"),
        "nan": float("nan"), "405": HTTPException(405),
    }  # fmt: skip

    def gives(request: Request) -> Any:
        found = answers[request.path_params["what"]]
        if isinstance(found, Exception):
            raise found
        return found

    async def gives_later(request: Request) -> Any:
        return gives(request)

    scheduler = strand.Scheduler(1) if with_scheduler else None
    app = App(scheduler)
    app.get("/{what}")(gives if kind == "def" else gives_later)
    seen = {}
    with serving(app) as served:
        for what in answers:
            reply = httpx.get(f"{served.url}/{what}")
            seen[what] = reply.status_code, reply.headers.get("Content-Type"), reply.text
    text = "text/plain; charset=utf-8"
    assert seen == {
        "text": (200, text, "text"), "bytes": (200, "application/octet-stream", "bytes"), "none": (204, None, ""),
        "json": (200, "application/json", '{"a":[1,null]}'), "own": (418, text, "own"), "404": (404, text, "not here"),
        "error": (500, text, "Internal Server Error"), "nan": (500, text, "Internal Server Error"),
        "405": (405, text, "Method Not Allowed"),
    }  # fmt: skip
    if scheduler is not None:
        scheduler.shutdown()
        assert (scheduler.statistics().ended["done"], scheduler.statistics().ended["failed"]) == (7, 2)


@pytest.mark.cells(1)
@pytest.mark.parametrize("with_scheduler", [False, True])
@pytest.mark.parametrize("kind", ["def", "async", "async with a key"])
def test_a_handler_that_exits_or_is_cancelled_is_answered_by_500_which_is_counted(
    kind: str, with_scheduler: bool
) -> None:
    class Own(BaseException):
        pass

    errors = {str(n): error for n, error in enumerate((SystemExit(3), KeyboardInterrupt(), Own(), CancelledError()))}

    def raises(request: Request) -> None:
        raise errors[request.path_params["n"]]

    async def raises_later(request: Request) -> None:
        await asyncio.sleep(0)
        raises(request)

    scheduler = strand.Scheduler(1) if with_scheduler else None
    app = App(scheduler)
    app.get("/{n}", key="one" if "key" in kind else None)(raises if kind == "def" else raises_later)
    app.get("/group/{n}", group="g")(raises)
    with serving(app) as served:
        replies = [httpx.get(f"{served.url}{path}/{n}") for n in errors for path in ("", "/group")]
        assert [reply.status_code for reply in replies] == [500] * 8
    assert app.statistics().requests == {("/{n}", 500): 4, ("/group/{n}", 500): 4}
    if scheduler is not None:
        scheduler.shutdown()
        assert (scheduler.statistics().ended["failed"], scheduler.statistics().ended["done"]) == (4, 4)


def test_an_async_handler_that_awaits_a_cancelled_task_has_failed_and_is_not_cut_off() -> None:
    with strand.Scheduler(1) as scheduler:
        app = App(scheduler)

        @app.get("/")
        async def awaits(request: Request) -> None:
            task = scheduler.options(delay="1h").submit(int)
            task.cancel()
            await task

        with serving(app) as served:
            assert httpx.get(served.url).status_code == 500
    assert app.statistics().requests == {("/", 500): 1}


def test_an_answer_of_500_is_logged_with_its_method_and_path(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(EVENTS["http.failed"], "most", None)
    app = App()

    @app.get("/orders/{n}")
    def divides(request: Request) -> str:
        return f"{1 / int(request.path_params['n'])}"

    with serving(app) as served:
        assert httpx.get(f"{served.url}/orders/1").status_code == 200
        assert httpx.get(f"{served.url}/orders/0?key=secret").status_code == 500
    told = [record.getMessage() for record in caplog.records if record.name == "strand.http"]
    assert len(told) == 1
    assert told[0].startswith("GET /orders/0 was answered by 500")  # and what earlier tests left out


@pytest.mark.parametrize("with_scheduler", [False, True])
def test_a_handler_whose_own_submit_is_refused_answers_429_or_503(with_scheduler: bool) -> None:
    other = strand.Scheduler(1)
    other.shutdown()
    with strand.Scheduler(1, max_queue=1) as full, strand.Scheduler(1) as scheduler:
        app = App(scheduler if with_scheduler else None)
        app.get("/full")(lambda request: full.submit_many(int, ["1", "2", "3"]))
        app.get("/over")(lambda request: other.submit(int))
        with serving(app) as served:
            for path, status in (("full", 429), ("over", 503)):
                reply = httpx.get(f"{served.url}/{path}")
                assert (reply.status_code, reply.headers["Retry-After"]) == (status, "1")


def test_an_application_in_an_application_gives_its_requests_one_id() -> None:
    with strand.Scheduler(1) as scheduler:
        inner, outer = App(scheduler), App()
        inner.get("/id")(lambda request: request_id())
        inner.post("/jobs", accepts=True)(lambda request: "done")
        outer.mount("/inner", inner)
        with serving(outer) as served:
            reply = httpx.get(f"{served.url}/inner/id")
            assert reply.headers.get_list("X-Request-ID") == [reply.text]
            place = served.url + httpx.post(f"{served.url}/inner/jobs").headers["Location"]
            wait_for(lambda: httpx.get(place).text == "done")


def test_a_handler_that_fails_cancels_no_other_request_of_its_group() -> None:
    with strand.Scheduler(1, policy=strand.Fair(weights={"paying": 3})) as scheduler:
        app = App(scheduler)
        app.get("/{n:int}", group=Header("X-Group", "free"))(lambda request: 1 // request.path_params["n"])
        with serving(app) as served:
            paying = {"X-Group": "paying"}
            assert httpx.get(f"{served.url}/0", headers=paying).status_code == 500
            assert httpx.get(f"{served.url}/1", headers=paying).json() == 1
            assert httpx.get(f"{served.url}/1").json() == 1
        fair = scheduler.statistics().fair
    assert fair is not None
    assert {"paying", "free"} <= set(fair.groups)


def test_a_scheduler_that_has_ended_answers_503() -> None:
    with strand.Scheduler(1) as scheduler:
        app = App(scheduler)
        app.get("/def")(lambda request: "ok")

        @app.get("/async")
        async def later(request: Request) -> str:
            return "ok"

        with serving(app) as served:
            scheduler.shutdown()
            for path in ("def", "async"):
                reply = httpx.get(f"{served.url}/{path}")
                assert (reply.status_code, "shut down" in reply.text) == (503, True)
                assert reply.headers["Retry-After"] == "1"
    assert scheduler.statistics().submitted == 0


def test_a_task_that_an_operator_cancels_answers_503() -> None:
    tasks: list[Any] = []
    with strand.Scheduler(1) as scheduler:
        app = App(scheduler)

        @app.get("/")
        async def waits(request: Request) -> None:
            tasks.append(current_task())
            await asyncio.sleep(MOST_S)

        with serving(app) as served, ThreadPoolExecutor(1) as threads:
            reply = threads.submit(httpx.get, served.url)
            wait_for(lambda: tasks)
            tasks[0].cancel(running=True)
            assert reply.result().status_code == 503


def test_a_reply_to_a_failed_request_says_that_the_connection_ends_so_no_request_behind_it_is_lost() -> None:
    ran: list[str] = []
    with strand.Scheduler(1) as scheduler:
        app = App(scheduler)
        app.get("/fails")(lambda request: 1 // 0)
        app.get("/behind")(lambda request: ran.append("behind"))
        with serving(app) as served, served.connect() as client:
            client.sendall(b"GET /fails HTTP/1.1\r\nHost: a\r\n\r\nGET /behind HTTP/1.1\r\nHost: a\r\n\r\n")
            replies = client.makefile("rb").read()
    assert b"connection: close" in replies.lower()
    assert replies.count(b"HTTP/1.1") == 1 + len(ran) == 1


def test_a_body_whose_length_is_given_in_two_ways_is_refused() -> None:
    with serving(app := App()) as served, served.connect() as client:
        app.post("/")(lambda request: "taken")
        head = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n"
        client.sendall(head + b"4\r\nabcd\r\n0\r\n\r\n")
        assert b" 400 " in client.makefile("rb").read().splitlines()[0]


def test_an_option_of_a_route_that_cannot_work_is_refused_when_the_route_is_made() -> None:
    handler = lambda request: "never"  # noqa: E731
    with strand.Scheduler(1) as scheduler:
        for option, value in (("priority", "urgent"), ("deadline", "0s"), ("key", []), ("group", 7)):
            with pytest.raises(ConfigurationError, match=option):
                App(scheduler).get("/", **{option: value})(handler)
    with pytest.raises(ConfigurationError, match="deadline"):
        App().get("/", deadline="soon")(handler)


def test_no_scheduler_of_another_kind_is_taken() -> None:
    with pytest.raises(ConfigurationError, match="scheduler"):
        App(ThreadPoolExecutor(1))  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="max_body_bytes"):
        AppOptions(max_body_bytes=-1)


def test_without_the_extra_the_error_names_it() -> None:
    code = "import sys; sys.modules['starlette'] = None\nfrom strand.http import App"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "tickstrand[http]" in run.stderr.splitlines()[-1]


def test_tasks_of_a_dispatcher_answer_requests() -> None:
    with strand.Dispatcher(["A"], "count") as dispatcher:
        app = App(dispatcher.tasks)
        app.get("/{symbol}")(
            lambda request: dispatcher.call(request.path_params["symbol"], lambda view: int(view.row["ticks"]))
        )
        dispatcher.publish(np.zeros(1, strand.ticks.TICK))
        with serving(app) as served:
            assert httpx.get(f"{served.url}/A").json() == 1


#: The routes of the application below, as its author would describe them.
_DOCUMENT: dict[str, Any] = {
    "openapi": "3.1.0",
    "info": {"title": "An application", "version": "1"},
    "paths": {
        "/quotes/{symbol}": {
            "get": {
                "parameters": [
                    {"name": "symbol", "in": "path", "required": True, "schema": {"type": "string"}},
                    {"name": "X-Priority", "in": "header", "schema": {"enum": ["normal", "low"]}},
                    {"name": "X-Deadline", "in": "header", "schema": {"type": "string"}},
                ],
                "responses": {str(status): {"description": ""} for status in (200, 400, 504)},
            }
        },
        "/orders": {
            "post": {
                "parameters": [{"name": "X-Account", "in": "header", "schema": {"type": "string"}}],
                "requestBody": {"content": {"application/octet-stream": {"schema": {"type": "string"}}}},
                "responses": {str(status): {"description": ""} for status in (200, 413)},
            }
        },
        "/jobs": {
            "post": {
                "requestBody": {"content": {"application/json": {"schema": {}}}},
                "responses": {str(status): {"description": ""} for status in (202, 413, 429)},
            }
        },
        "/accepted/{id}": {
            method: {
                "parameters": [{"name": "id", "in": "path", "required": True, "schema": {"type": "string"}}],
                "responses": {str(status): {"description": ""} for status in (200, 202, 404, 503)},
            }
            for method in ("get", "delete")
        },
    },
}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("with_scheduler", [False, True])
def test_no_generated_request_to_the_routes_of_an_application_gets_another_status_than_documented(
    with_scheduler: bool,
) -> None:
    import schemathesis  # takes a second
    from schemathesis.specs.openapi.checks import negative_data_rejection, positive_data_acceptance

    schema = schemathesis.openapi.from_dict(_DOCUMENT)
    with strand.Scheduler(2) as scheduler:
        app = App(scheduler if with_scheduler else None, AppOptions(max_body_bytes=100, max_accepted=5))
        priority = Header("X-Priority", allowed=["normal", "low"])
        app.get("/quotes/{symbol}", priority=priority, deadline=Header("X-Deadline"))(
            lambda request: request.path_params
        )

        @app.post("/orders", key=Header("X-Account"))
        async def order(request: Request) -> int:
            return len(request.content)

        app.post("/jobs", accepts=with_scheduler)(
            lambda request: request.content if with_scheduler else Response(status_code=202)
        )
        tried = 0
        with serving(app) as served:
            schema.config.update(base_url=served.url)
            for found in schema.get_all_operations():
                operation = found.ok()
                if operation.path.startswith("/accepted") and not with_scheduler:
                    continue

                @settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck), database=None)
                @given(case=operation.as_strategy())
                def tries(case: Any) -> None:
                    nonlocal tried
                    tried += 1
                    # Which spans there are no schema says, nor that any body is taken.
                    case.call_and_validate(
                        timeout=MOST_S, excluded_checks=[positive_data_acceptance, negative_data_rejection]
                    )

                tries()
    assert tried > 50
    assert all(status < 500 or status in (503, 504) for _, status in app.statistics().requests)
