"""strand.http.Control: tasks, dead letters and symbols, looked at and changed from outside."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2 as httpx
import numpy as np
import pytest
from http_server import MOST_S, serving, wait_for
from hypothesis import HealthCheck, given, settings
from starlette.testclient import TestClient

import strand
from strand.errors import ConfigurationError
from strand.http import App, Control
from strand.tasks import core

pytestmark = pytest.mark.python

TOKEN = "a-token-of-this-test"
BEARER = {"Authorization": f"Bearer {TOKEN}"}
WATCHES = f"GET /control/events HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {TOKEN}\r\n\r\n".encode()


@pytest.fixture(autouse=True)
def _own_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core, "_functions", {})


@pytest.fixture
def token(tmp_path: Path) -> str:
    path = tmp_path / "token"
    path.write_text(TOKEN)
    return str(path)


@pytest.fixture
def scheduler() -> Iterator[strand.Scheduler]:
    with strand.Scheduler(1, max_queue=3) as found:
        yield found


@pytest.fixture
def gate(scheduler: strand.Scheduler) -> Iterator[threading.Event]:
    """Until it is set, the one worker is busy."""
    opened = threading.Event()
    begun = threading.Event()

    def waits() -> None:
        begun.set()
        opened.wait(MOST_S)

    scheduler.submit(waits)
    begun.wait(MOST_S)
    yield opened
    opened.set()


def client_of(control: Control, **options: Any) -> TestClient:
    app = App()
    app.mount("/control", control)
    return TestClient(app, base_url="http://127.0.0.1/control", headers=BEARER, **options)


@pytest.fixture
def client(token: str, scheduler: strand.Scheduler) -> TestClient:
    return client_of(Control(token, scheduler=scheduler))


def test_a_task_is_submitted_by_its_registered_name_and_looked_at(client: TestClient) -> None:
    strand.task(pow, name="power")
    reply = client.post("/tasks", json={"name": "power", "args": [2, 10], "kwargs": {"mod": 1000}, "priority": "high"})
    assert reply.status_code == 201
    place = f"/tasks/{reply.json()['id']}"
    wait_for(lambda: client.get(place).json()["state"] == "done")
    found = client.get(place).json()
    assert (found["result"], found["priority"], found["attempts"]) == (24, "high", 1)
    wrong = client.post("/tasks", json={"name": "powr"})
    assert (wrong.status_code, "power" in wrong.json()["error"]) == (400, True)


def test_no_name_reaches_a_function_that_was_not_registered(client: TestClient) -> None:
    for name in ("os:system", "builtins.eval", "strand.replay", "__import__"):
        assert client.post("/tasks", json={"name": name}).status_code == 400


def test_a_task_that_failed_shows_its_error_and_a_value_that_is_no_json_its_text(client: TestClient) -> None:
    strand.task(divmod, name="divide")
    strand.task(complex, name="complex")
    failed, done = (
        client.post("/tasks", json={"name": name, "args": [1, 0]}).json()["id"] for name in ("divide", "complex")
    )
    wait_for(lambda: client.get(f"/tasks/{done}").json()["state"] == "done")
    assert "ZeroDivisionError" in client.get(f"/tasks/{failed}").json()["error"]
    assert client.get(f"/tasks/{done}").json()["result"] == "(1+0j)"


def test_waiting_tasks_are_listed_reprioritised_given_a_deadline_and_cancelled(
    client: TestClient, scheduler: strand.Scheduler, gate: threading.Event
) -> None:
    first, second = scheduler.submit(int), scheduler.submit(int)
    assert [task["id"] for task in client.get("/tasks").json()][-2:] == [first.id, second.id]
    assert len(client.get("/tasks", params={"limit": 1}).json()) == 1
    assert client.patch(f"/tasks/{first.id}", json={"priority": "immediate", "deadline": "1h"}).status_code == 200
    assert (first.priority, first.deadline_ns is None) == ("immediate", False)
    assert client.patch(f"/tasks/{first.id}", json={"deadline": None}).status_code == 200
    assert first.deadline_ns is None
    assert client.patch(f"/tasks/{first.id}", json={"priority": "urgent"}).status_code == 400
    for wrong in ({"priority": "low", "deadline": "soon"}, {"priority": "urgent", "deadline": "1h"}):
        assert client.patch(f"/tasks/{first.id}", json=wrong).status_code == 400
        assert (first.priority, first.deadline_ns) == ("immediate", None)
    assert client.delete(f"/tasks/{second.id}").json()["state"] == "cancelled"
    gate.set()
    first.result(MOST_S)
    for again in (client.patch(f"/tasks/{first.id}", json={}), client.delete(f"/tasks/{first.id}")):
        assert again.status_code == 404  # it has ended, and was not submitted here


def test_a_running_task_is_asked_to_end_and_changes_no_more(client: TestClient, scheduler: strand.Scheduler) -> None:
    @strand.task(name="waits")
    async def waits() -> None:
        await asyncio.sleep(MOST_S)

    place = f"/tasks/{client.post('/tasks', json={'name': 'waits'}).json()['id']}"
    wait_for(lambda: client.get(place).json()["state"] == "running")
    assert client.patch(place, json={"priority": "high"}).status_code == 409
    assert client.delete(place).status_code == 409
    assert client.delete(place, params={"running": "maybe"}).status_code == 400
    assert client.delete(place, params={"running": "true"}).status_code == 200
    wait_for(lambda: client.get(place).json()["state"] == "cancelled")


def test_a_full_queue_and_a_scheduler_that_has_ended_are_told(
    client: TestClient, scheduler: strand.Scheduler, gate: threading.Event
) -> None:
    strand.task(int, name="zero")
    scheduler.submit_many(int, [1, 2, 3])
    full = client.post("/tasks", json={"name": "zero"})
    assert (full.status_code, full.headers["Retry-After"]) == (429, "1")
    gate.set()
    scheduler.shutdown()
    assert client.post("/tasks", json={"name": "zero"}).status_code == 503


def test_dead_letters_are_listed_and_put_back(token: str) -> None:
    calls: list[int] = []

    def fails_once(order: int) -> int:
        calls.append(order)
        if len(calls) == 1:
            raise ConnectionError("no")
        return order

    with strand.Scheduler(1, retry=strand.RetryPolicy(max_retries=0)) as scheduler:
        client = client_of(Control(token, scheduler=scheduler))
        task = scheduler.submit(fails_once, 7)
        wait_for(lambda: client.get("/dead-letters").json())
        [letter] = client.get("/dead-letters").json()
        assert (letter["id"], letter["error"], letter["attempts"]) == (task.id, "ConnectionError('no')", 1)
        assert letter["function"].endswith("fails_once")
        again = client.post(f"/dead-letters/{letter['id']}/put-back")
        assert again.status_code == 201
        wait_for(lambda: client.get(f"/tasks/{again.json()['id']}").json().get("result") == 7)
        assert client.get("/dead-letters").json() == []
        assert client.post(f"/dead-letters/{letter['id']}/put-back").status_code == 404


def test_symbols_are_asked_paused_resumed_and_prioritised(token: str) -> None:
    @strand.task(name="ticks")
    def ticks(view: Any, more: int) -> int:
        return int(view.row["ticks"]) + more

    @strand.task(name="fails")
    def fails(view: Any) -> None:
        raise ZeroDivisionError

    with strand.Dispatcher(["A", "B/C"], "count", policy=strand.Levels()) as dispatcher:
        client = client_of(Control(token, dispatcher=dispatcher))
        dispatcher.publish(np.zeros(1, strand.TICK))
        assert client.post("/symbols/A/call", json={"name": "ticks", "args": [10]}).json() == {"result": 11}
        assert client.post("/symbols/A/call", json={"name": "fails"}).json() == {"error": "ZeroDivisionError()"}
        assert client.post("/symbols/A/pause").json()["paused"] is True
        assert client.post("/symbols/B/C/pause").json() | {"symbol": "B/C"} == client.get("/symbols/B/C").json()
        dispatcher.publish(np.zeros(1, strand.TICK))
        assert client.get("/symbols/A").json()["pending"] == 1
        assert client.post("/symbols/A/resume").json()["paused"] is False
        assert client.patch("/symbols/A", json={"priority": "high"}).status_code == 200
        assert client.patch("/symbols/A", json={"priority": "urgent"}).status_code == 400
        for wrong in ({"group": "none"}, {"group": "none", "priority": "low"}):
            assert client.patch("/symbols/A", json=wrong).status_code == 400
        assert client.post("/symbols/A/release").json()["quarantined"] is False
        for reply in (client.get("/symbols/Z"), client.post("/symbols/Z/pause")):
            assert reply.status_code == 404
        dispatcher.drain()
        assert client.post("/symbols/A/call", json={"name": "ticks", "args": [0]}).json() == {"result": 2}


def test_the_policy_is_shown_and_changed_as_far_as_a_running_one_can(token: str) -> None:
    with strand.Scheduler(1, policy=strand.Levels({"low": "10s"})) as scheduler:
        client = client_of(Control(token, scheduler=scheduler))
        found = client.get("/policy").json()
        assert (found["name"], found["may_change"], found["since"]) == ("levels", "timeouts", "entered")
        assert found["timeouts"] == dict.fromkeys(("high", "retry", "normal", "low"), "10s")
        changed = client.patch("/policy", json={"timeouts": {"low": "1h", "normal": "20s"}})
        assert changed.json() == found | {"timeouts": {"high": "10s", "retry": "10s", "normal": "20s", "low": "1h"}}
        for wrong in ({"low": "1s"}, {"immediate": "1s"}, {"lowest": "1s"}, {"low": "soon"}):
            assert client.patch("/policy", json={"timeouts": wrong}).status_code == 400
        other = client.patch("/policy", json={"weights": {"a": 1.0}})
        assert (other.status_code, "timeouts" in other.json()["error"]) == (409, True)
        assert client.patch("/policy", json={"since": "created"}).status_code == 400
        assert scheduler.policy == strand.Levels(found["timeouts"] | {"normal": "20s", "low": "1h"})
    with strand.Scheduler(1, policy=strand.Fair(weights={"a": 2})) as scheduler:
        client = client_of(Control(token, scheduler=scheduler))
        assert client.patch("/policy", json={"weights": {"a": 5}}).json()["weights"] == {"a": 5.0}
        for weights in ({"b": 1}, {"a": 0}):
            assert client.patch("/policy", json={"weights": weights}).status_code == 400
    with strand.Scheduler(1, policy=strand.Fifo()) as scheduler:
        client = client_of(Control(token, scheduler=scheduler))
        assert client.get("/policy").json() == {"name": "fifo", "may_change": None}
        assert client.patch("/policy", json={"timeouts": {}}).status_code == 409


def test_each_request_brings_the_token_and_pages_of_other_sites_change_nothing(
    client: TestClient, scheduler: strand.Scheduler
) -> None:
    strand.task(int, name="zero")
    new = {"name": "zero"}
    for wrong in ({"Authorization": ""}, {"Authorization": "Bearer a-token-of-this-tes"}):
        for reply in (client.get("/tasks", headers=wrong), client.post("/tasks", json=new, headers=wrong)):
            assert reply.status_code == 401
    assert client.post("/tasks", json=new, headers={"Origin": "http://evil.example"}).status_code == 403
    for origin in (
        "null",
        "",
        "http://127.0.0.1:81",
        "http://127.0.0.1.evil.example",
        "http://a@127.0.0.1",
        "http://[bad",
    ):
        assert client.post("/tasks", json=new, headers={"Origin": origin}).status_code == 403, origin
    for host in ("evil.example", "", "127.0.0.1.", "a@127.0.0.1", "127.0.0.1:x", "[127.0.0.1]"):
        assert client.post("/tasks", json=new, headers={"Host": host}).status_code == 400, host
    for host in ("localhost:8000", "[::1]:8000", "LOCALHOST"):
        assert client.get("/tasks", headers={"Host": host}).status_code == 200, host
    text = client.post("/tasks", content=json.dumps(new), headers={"Content-Type": "text/plain"})
    assert text.status_code == 415
    assert scheduler.statistics().submitted == 0
    assert client.post("/tasks", json=new, headers={"Origin": "http://127.0.0.1"}).status_code == 201


def test_bodies_that_are_too_long_or_have_unknown_fields_are_refused(client: TestClient) -> None:
    assert client.post("/tasks", json={"name": "x" * 100_000}).status_code == 413
    for body in ({"nam": "x"}, {"name": 7}, {"name": ""}, [], {"name": "x", "module": "os"}):
        assert client.post("/tasks", json=body).status_code == 400
    for broken in ("{", "[" * 5000 + "]" * 5000, '{"name": "x", "args": ' + "[" * 5000 + "]" * 5000 + "}"):
        reply = client.post("/tasks", content=broken, headers={"Content-Type": "application/json"})
        assert reply.status_code == 400


def test_a_body_of_arrays_within_arrays_leaves_finalizers_the_stack_they_need(client: TestClient) -> None:
    ended: list[bool] = []

    def deep(most: int) -> bool:
        return most == 0 or deep(most - 1)

    def at_a_collection(phase: str, _: dict[str, int]) -> None:
        try:
            ended.append(deep(60))
        except RecursionError:
            ended.append(False)

    often = gc.get_threshold()
    gc.callbacks.append(at_a_collection)
    gc.set_threshold(10)
    try:
        reply = client.post(
            "/tasks", content='{"name": "x", "args": ' + "[" * 5000, headers={"Content-Type": "application/json"}
        )
    finally:
        gc.callbacks.remove(at_a_collection)
        gc.set_threshold(*often)
    assert reply.status_code == 400
    assert ended
    assert all(ended)


def test_each_call_has_its_line_in_the_audit_log_also_if_it_is_refused(
    token: str, scheduler: strand.Scheduler, caplog: pytest.LogCaptureFixture
) -> None:
    control = Control(token, scheduler=scheduler)
    client = TestClient(control, base_url="http://127.0.0.1", headers=BEARER)
    with caplog.at_level(logging.INFO, "strand.http.audit"):
        client.get("/statistics")
        client.delete("/tasks/7", headers={"Authorization": "Bearer nothing-of-the-kind"})
        client.get("/tasks/%0aforged")
    assert [record.getMessage() for record in caplog.records if record.name == "strand.http.audit"] == [
        'testclient GET "/statistics" 200',
        'testclient DELETE "/tasks/7" 401',
        'testclient GET "/tasks/\\nforged" 400',
    ]
    assert TOKEN not in caplog.text


def test_no_client_writes_a_call_into_the_audit_log_that_it_has_not_made(
    token: str, scheduler: strand.Scheduler, caplog: pytest.LogCaptureFixture
) -> None:
    forged = {"X-Forwarded-For": '10.0.0.7 DELETE "/tasks/7" 200'}
    with caplog.at_level(logging.INFO, "strand.http.audit"), serving(Control(token, scheduler=scheduler)) as served:
        assert httpx.get(f"{served.url}/statistics", headers=BEARER | forged).status_code == 200
    [line] = [record.getMessage() for record in caplog.records if record.name == "strand.http.audit"]
    assert line.split(" ")[1:] == ["GET", '"/statistics"', "200"]


def test_events_stream_the_counts_as_they_change_to_so_many_watchers(token: str, scheduler: strand.Scheduler) -> None:
    app = App()
    app.mount("/control", Control(token, scheduler=scheduler))
    with serving(app) as served, socket.create_connection(("127.0.0.1", served.port), MOST_S) as watcher:
        lines = watcher.makefile("r")
        watcher.sendall(
            f"GET /control/events HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {TOKEN}\r\n\r\n".encode()
        )

        def data() -> dict[str, Any]:
            while not (line := lines.readline()).startswith("data: "):
                assert line
            found: dict[str, Any] = json.loads(line[6:])
            return found

        assert data()["submitted"] == 0
        scheduler.submit(int).result(MOST_S)
        assert data()["ended"]["done"] == 1
        full = [socket.create_connection(("127.0.0.1", served.port), MOST_S) for _ in range(16)]
        for one in full:
            one.sendall(WATCHES)
        assert sorted(one.recv(12)[9:] for one in full) == [b"200"] * 15 + [b"429"]
        lines.close()
        for one in full:
            one.close()


def test_a_control_needs_a_token_and_something_to_control(token: str, tmp_path: Path) -> None:
    with strand.Scheduler(1) as scheduler:
        with pytest.raises(ConfigurationError, match="scheduler"):
            Control(token)
        with pytest.raises(ConfigurationError, match="token_file"):
            Control(str(tmp_path / "none"), scheduler=scheduler)
        (tmp_path / "short").write_text("short")
        with pytest.raises(ConfigurationError, match="token_file"):
            Control(str(tmp_path / "short"), scheduler=scheduler)


def test_each_operation_refuses_strangers_pages_bodies_and_hosts_as_its_document_says(token: str) -> None:
    json_type = {"Content-Type": "application/json"}
    with strand.Dispatcher(["A"], "count", policy=strand.Levels()) as dispatcher:
        client = client_of(Control(token, dispatcher=dispatcher))
        document = client.get("/openapi.json").json()
        assert document["servers"] == [{"url": "/control"}]
        tried = []
        for path, operations in document["paths"].items():
            place = path.format(symbol="A", id=1)
            for method, operation in operations.items():
                faults: list[tuple[int, dict[str, str], str]] = [
                    (401, {"Authorization": "Bearer wrong"}, ""),
                    (400, {"Host": "evil.example"}, ""),
                    (403, {"Origin": "http://evil.example"}, ""),
                    (415, {"Content-Type": "text/plain"}, "{}"),
                    (413, json_type, "x" * 100_000),
                    (400, json_type, "{"),
                ]
                for status, headers, body in faults:
                    if (status == 403 and method == "get") or (body and "requestBody" not in operation):
                        continue
                    reply = client.request(method, place, headers=headers, content=body)
                    assert (reply.status_code, list(reply.json())) == (status, ["error"]), (method, path, reply.text)
                    assert str(status) in operation["responses"]
                    tried.append((path, method))
        assert len(set(tried)) == sum(len(each) for each in document["paths"].values())
        statistics = dispatcher.tasks.statistics()
    assert (statistics.submitted, len(dispatcher.tasks.dead_letters)) == (0, 0)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_no_request_that_the_openapi_document_allows_or_forbids_is_answered_otherwise_than_it_says(token: str) -> None:
    import schemathesis  # takes a second
    from schemathesis.specs.openapi.checks import positive_data_acceptance

    strand.task(lambda *args, **kwargs: len(args), name="n")
    dispatcher = strand.Dispatcher(["A"], "count", policy=strand.Levels())
    with dispatcher, serving(Control(token, dispatcher=dispatcher)) as served:
        document = httpx.get(f"{served.url}/openapi.json", headers=BEARER).json()
        schema = schemathesis.openapi.from_dict(document)
        schema.config.update(base_url=served.url)
        tried = 0
        for found in schema.get_all_operations():
            operation = found.ok()
            if operation.path == "/events":  # it never ends
                continue

            @settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck), database=None)
            @given(case=operation.as_strategy())
            def tries(case: Any) -> None:
                nonlocal tried
                tried += 1
                # A name has to be registered, and a priority has to be one of the policy: no schema says that.
                case.call_and_validate(headers=BEARER, timeout=MOST_S, excluded_checks=[positive_data_acceptance])

            tries()
    assert tried > 100
