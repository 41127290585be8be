"""strand.http.App.wsgi: applications of the WSGI standard on the workers, whose replies are streamed."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import httpx2 as httpx
import pytest
from http_server import MOST_S, serving, wait_for

import strand
from strand.http import App, AppOptions
from strand.tasks import current_task

pytestmark = pytest.mark.python


class Parts:
    """The parts of a reply. ``closed``: the threads that have closed it."""

    def __init__(self, parts: Iterable[bytes]) -> None:
        self._parts = iter(parts)
        self.closed: list[str] = []

    def __iter__(self) -> Iterator[bytes]:
        return self._parts

    def close(self) -> None:
        self.closed.append(threading.current_thread().name)


def giving(parts: Any, *headers: tuple[str, str]) -> Callable[..., Any]:
    """An application that gives these parts."""

    def wsgi(environ: dict[str, Any], start_response: Any) -> Any:
        start_response("200 OK", list(headers))
        return parts(environ) if callable(parts) else parts

    return wsgi


def test_a_wsgi_application_runs_on_the_workers() -> None:
    closed: list[bool] = []

    class Parts(list[bytes]):
        def close(self) -> None:
            closed.append(True)

    def wsgi(environ: dict[str, Any], start_response: Any) -> Any:
        write = start_response(
            "201 Created", [("Content-Type", "text/x"), ("Set-Cookie", "a=1"), ("Set-Cookie", "b=2")]
        )
        write(b"written, ")
        names = ("REQUEST_METHOD", "SCRIPT_NAME", "PATH_INFO", "QUERY_STRING", "CONTENT_LENGTH", "HTTP_X_A")
        said = [*(environ[name] for name in names), environ["wsgi.input"].read().decode()]
        return Parts([" ".join(said).encode(), b", ", threading.current_thread().name.encode()])

    with strand.Scheduler(1) as scheduler:
        app = App(scheduler, AppOptions(max_body_bytes=10))
        app.get("/own")(lambda request: "own")
        app.wsgi("/old", wsgi, priority="low")
        with serving(app) as served:
            reply = httpx.post(f"{served.url}/old/a%20b?q=1", content=b"body", headers={"X-A": "v"})
            assert httpx.get(f"{served.url}/own").text == "own"
            assert httpx.post(f"{served.url}/old/", content=b"x" * 11).status_code == 413
    assert (reply.status_code, reply.headers["Content-Type"]) == (201, "text/x")
    assert reply.headers.get_list("Set-Cookie") == ["a=1", "b=2"]
    assert reply.text == "written, POST /old /a b q=1 4 v body, strand-task-worker-0"
    assert closed == [True]
    assert scheduler.statistics().wait_by_submitted["low"].count == 1


@pytest.mark.parametrize("with_scheduler", [False, True])
def test_each_part_is_sent_before_the_next_one_is_made_in_one_thread(with_scheduler: bool) -> None:
    goes_on = threading.Event()

    def parts(_: Any) -> Iterator[bytes]:
        yield threading.current_thread().name.encode()
        assert goes_on.wait(MOST_S)
        yield b""
        yield b" " + threading.current_thread().name.encode()

    with strand.Scheduler(1) as scheduler:
        app = App(scheduler if with_scheduler else None)
        app.wsgi("/", giving(parts), deadline="1h")
        with serving(app) as served, served.client() as client, client.stream("GET", "/") as reply:
            received = reply.iter_bytes()
            first = next(received)
            goes_on.set()
            assert b"".join(received) == b" " + first
    assert app.statistics().requests == {("/", 200): 1}
    assert (app.statistics().gone, app.statistics().dropped) == (0, 0)
    assert scheduler.statistics().ended["done"] == with_scheduler


@pytest.mark.parametrize("with_scheduler", [False, True])
def test_a_reply_waits_for_its_client_while_others_are_answered_and_ends_with_it(with_scheduler: bool) -> None:
    made: list[int] = []

    def megabytes() -> Iterator[bytes]:
        for n in range(1000):
            made.append(n)
            yield bytes(1_000_000)

    body = Parts(megabytes())
    with strand.Scheduler(1) as scheduler:
        app = App(scheduler if with_scheduler else None)
        app.wsgi("/big", giving(body))
        app.get("/own")(lambda request: len(made))
        with serving(app) as served, served.client() as client:
            with client.stream("GET", "/big/"):  # it reads the head alone
                wait_for(lambda: made)
                seen = [client.get("/own").json()]
                while len(seen) < 3 or seen[-1] > seen[-3]:  # what lies in buffers of the system
                    seen.append(client.get("/own").json())
                    threading.Event().wait(0.02)
                assert not body.closed
            wait_for(lambda: body.closed and app.statistics().gone)
        assert len(made) < 500
    assert scheduler.statistics().ended["cancelled"] == with_scheduler


def test_a_reply_that_fails_on_its_way_is_cut_short_so_that_its_client_notices() -> None:
    def parts() -> Iterator[bytes]:
        yield b"part"
        raise ZeroDivisionError

    body = Parts(parts())
    with strand.Scheduler(1) as scheduler:
        app = App(scheduler)
        app.wsgi("/", giving(body))
        with serving(app) as served, pytest.raises(httpx.RemoteProtocolError, match="incomplete"):
            httpx.get(served.url)
    assert len(body.closed) == 1
    assert scheduler.statistics().ended["failed"] == 1


def test_a_deadline_counts_until_the_first_part() -> None:
    goes_on = threading.Event()

    def late(environ: dict[str, Any]) -> Iterator[bytes]:
        if environ["PATH_INFO"] == "/begins":
            yield b"begun "
        goes_on.wait(MOST_S)
        yield b"late"

    with strand.Scheduler(2) as scheduler:
        app = App(scheduler)
        app.wsgi("/old", giving(late), deadline="200ms")
        with serving(app) as served, served.client() as client, client.stream("GET", "/old/begins") as begun:
            assert client.get("/old/other").status_code == 504
            goes_on.set()
            assert begun.read() == b"begun late"
        wait_for(lambda: app.statistics().dropped == 1)
    assert app.statistics().requests == {("/old", 200): 1, ("/old", 504): 1}


def test_a_reply_has_its_length_where_the_application_tells_it() -> None:
    with strand.Scheduler(1) as scheduler:
        app = App(scheduler)
        app.wsgi("/list", giving([b"ab", b"cd"]))
        app.wsgi("/one", giving(lambda _: iter([b"abcd"]), ("Content-Length", "4")))
        app.wsgi("/two", giving(lambda _: iter([b"ab", b"cd"]), ("Content-Length", "4")))
        app.wsgi("/none", giving(lambda _: iter([])))
        with serving(app) as served:
            for path, length, text in (
                ("list", "4", "abcd"),
                ("one", "4", "abcd"),
                ("two", "4", "abcd"),
                ("none", "0", ""),
            ):
                reply = httpx.get(f"{served.url}/{path}/")
                assert (reply.headers.get_list("Content-Length"), reply.text) == ([length], text)
            assert httpx.head(f"{served.url}/two/").headers["Content-Length"] == "4"


def test_an_error_takes_the_place_of_a_head_that_was_not_sent_and_no_other() -> None:
    def wsgi(environ: dict[str, Any], start_response: Any) -> list[bytes]:
        write = start_response("200 OK", [])
        if environ["PATH_INFO"] == "/sent":
            write(b"sent")
        try:
            raise KeyError
        except KeyError:
            start_response("500 No", [("X-Error", "yes")], sys.exc_info())
        return [b"no"]

    def silent(environ: dict[str, Any], start_response: Any) -> Iterator[bytes]:
        return iter([b"no head"])

    with strand.Scheduler(1) as scheduler:
        app = App(scheduler)
        app.wsgi("/old", wsgi)
        app.wsgi("/silent", silent)
        with serving(app) as served:
            reply = httpx.get(f"{served.url}/old/")
            assert (reply.status_code, reply.headers["X-Error"], reply.text) == (500, "yes", "no")
            assert httpx.get(f"{served.url}/silent/").status_code == 500
            with pytest.raises(httpx.RemoteProtocolError):
                httpx.get(f"{served.url}/old/sent")


def test_a_reply_to_an_accepted_request_is_kept_whole_and_found_at_its_place() -> None:
    tasks: list[Any] = []

    def parts(_: Any) -> Iterator[bytes]:
        tasks.append(current_task())
        yield b"a"
        yield b"b"

    with strand.Scheduler(1) as scheduler:
        app = App(scheduler)
        app.wsgi("/jobs", giving(parts), accepts=True, max_body_bytes=3)
        with serving(app) as served:
            assert httpx.post(f"{served.url}/jobs/", content=b"long").status_code == 413
            place = served.url + httpx.post(f"{served.url}/jobs/", content=b"abc").headers["Location"]
            wait_for(lambda: httpx.get(place).status_code == 200)
            assert (httpx.get(place).text, len(tasks)) == ("ab", 1)
    assert app.statistics().requests["/jobs", 413] == 1
