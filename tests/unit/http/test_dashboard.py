"""strand.http.Dashboard: figures, books and trades of a run for many browsers, and turns of a paced replay."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2 as httpx
import numpy as np
import pytest
from http_server import MOST_S, serving, wait_for
from starlette.testclient import TestClient
from warm_python import run_warm

import strand
from strand.alerts import Alerts, Rule
from strand.feeds.sample import SAMPLE_DATE, sample_path
from strand.http import App, Dashboard, ServerOptions, Tape
from strand.http.serving import served
from strand.outside.attached import Attached
from strand.replaying.pacing import Pacer
from strand.screens.watched import Watched
from strand.ticks import KIND_TRADE

pytestmark = pytest.mark.python

NAMES = ["A", "B", "C/D"]
SAMPLE = str(sample_path())


def ticks(n: int) -> strand.ticks.Ticks:
    """So many trades of A."""
    found = strand.ticks.zeros(n)
    found["price"], found["size"], found["kind"], found["action"] = 10**9, 1, KIND_TRADE, b"T"
    return found


@pytest.fixture
def run() -> Iterator[strand.Dispatcher]:
    with strand.Dispatcher(NAMES, "vwap", workers=1, cores=None, attachable=True, name="seen") as dispatcher:
        yield dispatcher


def attached() -> Attached:
    return strand.attach(os.getpid(), name="seen")


def client_of(page: Any, **options: Any) -> TestClient:
    return TestClient(page, base_url="http://127.0.0.1", **options)


@contextmanager
def watching(url: str, **options: Any) -> Iterator[Callable[[], Any]]:
    """A stream of events in the block: a function that takes the next one."""
    with httpx.stream("GET", f"{url}/events", timeout=MOST_S, **options) as reply:
        assert reply.status_code == 200, reply.read()
        lines = reply.iter_lines()

        def take() -> Any:
            while not (line := next(lines)).startswith("data: "):
                pass
            return json.loads(line[6:])

        yield take


def until(take: Callable[[], Any], is_so: Callable[[Any], bool]) -> Any:
    """The first event for which something is so."""
    for _ in range(500):
        if is_so(event := take()):
            return event
    raise AssertionError(event)


def test_the_figures_are_those_of_a_snapshot_and_null_where_nothing_is_known(run: strand.Dispatcher) -> None:
    run.publish(ticks(50))
    run.drain()
    with serving(Dashboard(attached())) as server, watching(server.url) as take:
        first, later = take()["run"], until(take, lambda event: event["run"]["kinds"][0]["per_s"] is not None)["run"]
        now = attached().snapshot()
    assert (first["state"], first["name"], first["pid"], first["policy"]) == ("running", "seen", os.getpid(), "fifo")
    [kind] = first["kinds"]
    assert (kind["kind"], kind["accepted"], kind["pending"], kind["per_s"]) == ("tick", 50, 0, None)
    assert now.ticks is not None
    for name, counts in kind["times"].items():
        assert sum(counts) == getattr(now.ticks.since_start.total, name).count == 50
        assert len(counts) == len(kind["from"])
    assert set(kind["not_well"]) == {*now.ticks.dropped, "failed"}
    assert not any(kind["not_well"].values())
    assert (first["lag"], first["backlog"], first["alerts"], first["replay"]) == (None, None, None, None)
    assert later["kinds"][0]["per_s"] == 0
    [level] = later["levels"]
    assert now.ticks.window is not None
    wait = now.ticks.window.levels["all"].wait
    assert [level["p95"], level["p99"]] == [wait.percentile(p) / 1e9 for p in (95, 99)]  # type: ignore[operator]
    assert [(row["symbols"], row["accepted"]) for row in later["strands"]] == [("A", 50)]


def test_a_symbol_has_its_row_and_its_fault_and_other_watchers_have_theirs(run: strand.Dispatcher) -> None:
    run.publish(ticks(50))
    run.drain()
    with (
        serving(Dashboard(attached())) as server,
        watching(server.url, params={"symbol": "A"}) as first,
        watching(server.url, params={"symbol": "none"}) as second,
        watching(server.url) as third,
    ):
        found = until(first, lambda event: event["symbol"])["symbol"]
        assert (found["name"], found["row"]["volume"], found["row"]["vwap"]) == ("A", 50, 1.0)
        assert (found["asks"], found["bids"], found["trades"]) == (None, None, None)
        assert "'none' is not a symbol" in until(second, lambda event: event["symbol"])["symbol"]["error"]
        assert third()["symbol"] is None


def test_all_browsers_are_served_by_one_look_and_nobody_looks_while_none_watches(
    run: strand.Dispatcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[int] = []
    look = Watched.look

    def counted(self: Watched) -> Any:
        looks.append(threading.get_ident())
        return look(self)

    monkeypatch.setattr(Watched, "look", counted)
    page = Dashboard(attached())
    with serving(page) as server:
        with watching(server.url) as first, watching(server.url) as second:
            same = {first()["run"]["at"] for _ in range(5)} & {second()["run"]["at"] for _ in range(5)}
            assert len(same) >= 2
        wait_for(lambda: not page._watchers and page._sampler is not None and page._sampler.done())
        seen = len(looks)
        with httpx.Client(base_url=server.url) as client:
            assert client.get("/").status_code == 200
        assert len(looks) == seen
        with watching(server.url) as again:
            assert again()["run"]["state"] == "running"


def scope_of(path: str, query: bytes = b"") -> dict[str, Any]:
    return {
        "type": "http", "asgi": {"version": "3.0", "spec_version": "2.3"}, "http_version": "1.1", "method": "GET",
        "path": path, "raw_path": path.encode(), "query_string": query, "scheme": "http", "root_path": "",
        "headers": [(b"host", b"127.0.0.1")], "client": None, "server": ("127.0.0.1", 80),
    }  # fmt: skip


def test_a_slow_browser_gets_the_newest_holds_nobody_up_and_is_cut_off(
    run: strand.Dispatcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = Dashboard(attached())

    async def receive() -> Any:
        await asyncio.sleep(MOST_S)

    async def drive() -> None:
        parts: dict[str, list[bytes]] = {"slow": [], "quick": []}
        gate, enough = asyncio.Event(), asyncio.Event()

        async def quick(message: Any) -> None:
            parts["quick"].append(message.get("body", b""))
            if len(parts["quick"]) == 8:
                enough.set()

        async def slow(message: Any) -> None:
            parts["slow"].append(message.get("body", b""))
            if len(parts["slow"]) == 2:
                await gate.wait()
            if len(parts["slow"]) == 3:
                await asyncio.sleep(MOST_S)  # takes nothing any more

        others = [asyncio.create_task(page(scope_of("/events"), receive, send)) for send in (slow, quick)]
        async with asyncio.timeout(MOST_S):
            await enough.wait()
            assert sum("_sample" in repr(task.get_coro()) for task in asyncio.all_tasks()) == 1
            assert len(parts["slow"]) == 2
            monkeypatch.setattr("strand.http.dashboard._SLOW_S", 0.2)
            gate.set()
            await others[0]  # it was cut off
        newer = [json.loads(part[6:])["run"]["at"] for part in (*parts["slow"][1:], *parts["quick"][1:6])]
        assert newer[1] >= newer[-1] > newer[0]
        assert len(page._watchers) == 1
        others[1].cancel()

    asyncio.run(drive())


def test_so_many_pages_watch_and_no_more(run: strand.Dispatcher, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("strand.http.dashboard._MOST_STREAMS", 2)
    with serving(Dashboard(attached())) as server:
        assert [httpx.head(f"{server.url}/events").status_code for _ in range(3)] == [200, 200, 200]
        with watching(server.url), watching(server.url):
            refused = httpx.get(f"{server.url}/events")
            assert (refused.status_code, refused.headers["Retry-After"]) == (429, "5")
        wait_for(lambda: httpx.get(f"{server.url}/").status_code == 200)


def test_the_page_says_when_the_run_has_ended_and_shows_its_last_figures() -> None:
    with strand.Dispatcher(NAMES, "vwap", workers=1, cores=None, attachable=True, name="seen") as dispatcher:
        page = Dashboard(attached())
        dispatcher.publish(ticks(50))
    with serving(page) as server, watching(server.url) as take:
        ended = take()["run"]
    assert (ended["state"], ended["kinds"][0]["accepted"], ended["kinds"][0]["pending"]) == ("ended", 50, 0)


def test_a_scheduler_has_tasks_levels_and_alerts_that_fire() -> None:
    rule = Rule("queue_depth", "severe", 0, "normal", interval_ns=1_000_000, samples=1)
    opened = threading.Event()
    with strand.Scheduler(1, policy=strand.Levels(), attachable=True, name="seen") as scheduler:
        app = App(scheduler)
        with Alerts(lambda: {("queue_depth", "normal"): 7.0}, [rule]) as alerts:
            app.dashboard(attached(), "/live", alerts=alerts)
            tasks = [scheduler.submit(opened.wait) for _ in range(3)]
            with serving(app) as server, watching(f"{server.url}/live") as take:
                found = until(take, lambda event: event["run"]["alerts"] and event["run"]["kinds"])["run"]
                until(take, lambda event: event["run"]["levels"][3]["waiting"] == 2)
                opened.set()
                for task in tasks:
                    task.result(MOST_S)
                assert httpx.get(f"{server.url}/live", follow_redirects=True).text.startswith("<!doctype html>")
    assert [level["level"] for level in found["levels"]] == ["immediate", "high", "retry", "normal", "low"]
    assert (found["kind"], found["kinds"][0]["kind"], found["strands"]) == ("scheduler", "task", [])
    [alert] = found["alerts"]
    assert (alert["rule"], alert["severity"], alert["limit"]) == ("queue_depth_normal_severe", "severe", 0)


def test_all_of_the_page_comes_from_its_own_server_in_less_than_150_kb(run: strand.Dispatcher) -> None:
    client, size = client_of(Dashboard(attached())), 0
    for name in ("", "page.js", "page.css", "uplot.js", "uplot.css"):
        reply = client.get(f"/{name}")
        assert reply.status_code == 200
        size += len(reply.content)
        policy = reply.headers["Content-Security-Policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'")
        assert "unsafe" not in policy
        if name != "uplot.js":  # its first line names the home of its project
            assert "http:" not in reply.text
            assert "https:" not in reply.text
    assert size < 150_000
    for name in ("top.py", "../top.py", "..%2ftop.py", "uPlot.LICENSE"):
        assert client.get(f"/{name}").status_code == 404


def test_pages_of_other_sites_and_other_hosts_neither_see_nor_change_anything(run: strand.Dispatcher) -> None:
    pacer = Pacer(paused=True)
    client = client_of(Dashboard(attached(), pacer=pacer))
    turn = {"action": "resume"}
    for wrong in (
        {"Origin": "http://evil.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"},
    ):  # fmt: skip
        assert client.get("/events", headers=wrong).status_code == 403
        assert client.post("/replay", json=turn, headers=wrong).status_code == 403
    for reply in (client.get("/", headers={"Host": "evil.example"}), client.get("/", headers={"Host": "127.0.0.1.a"})):
        assert reply.status_code == 400
    text = client.post("/replay", content=json.dumps(turn), headers={"Content-Type": "text/plain"})
    assert text.status_code == 415
    assert client.get("/replay").status_code == 405
    assert pacer.paused


def test_turns_that_cannot_work_are_refused_and_each_has_its_line_in_the_audit_log(
    run: strand.Dispatcher, caplog: pytest.LogCaptureFixture
) -> None:
    pacer = Pacer(paused=True)
    client = client_of(Dashboard(attached(), pacer=pacer))
    bad = (
        {}, [], {"action": "run"}, {"action": "step", "ticks": 0}, {"action": "step", "ticks": 1.5},
        {"action": "speed", "speed": -1}, {"action": "pause", "more": 1},
    )  # fmt: skip
    with caplog.at_level(logging.INFO, "strand.http.audit"):
        for turn in bad:
            assert client.post("/replay", json=turn).status_code == 400, turn
        assert client.post("/replay", json={"action": "reset"}).status_code == 409
        assert client.post("/replay", json={"action": "speed", "speed": 5}).json()["speed"] == 5
        assert client.post("/replay", content=b"x" * 10_000).status_code in (413, 415)
    lines = [record.getMessage() for record in caplog.records if record.name == "strand.http.audit"]
    assert lines[:2] == ['testclient POST "/replay" 400'] * 2
    assert lines[len(bad) :][:2] == ['testclient POST "/replay" 409', 'testclient POST "/replay" 200']
    assert client_of(Dashboard(attached())).post("/replay", json={"action": "pause"}).status_code == 404
    run.stop()
    assert client.post("/replay", json={"action": "step"}).status_code == 409


def test_a_browser_brings_the_token_as_a_password_and_only_to_its_own_page(
    run: strand.Dispatcher, tmp_path: Path
) -> None:
    file = tmp_path / "token"
    file.write_text("a-token-of-this-test")
    pacer = Pacer(paused=True)
    page, options = Dashboard(attached(), pacer=pacer, hosts=("*",)), ServerOptions(port=0, token_file=str(file))
    with served(page, options) as url, httpx.Client(base_url=url) as client:
        asked = client.get("/")
        assert (asked.status_code, "Basic" in asked.headers["WWW-Authenticate"]) == (401, True)

        def basic(text: str) -> dict[str, str]:
            return {"Authorization": f"Basic {base64.b64encode(text.encode()).decode()}"}

        right = basic("any:a-token-of-this-test")
        assert client.get("/", headers=right).status_code == 200
        for wrong in (basic("any:a-token-of-this-tes"), basic(":"), {"Authorization": "Basic ?"}):
            assert client.get("/", headers=wrong).status_code == 401
        turn = {"action": "speed", "speed": 5}
        for headers in (right, right | {"Origin": "http://evil.example"}, right | {"Origin": "null"}):
            assert client.post("/replay", json=turn, headers=headers).status_code == 401
        assert pacer.speed == 1
        assert client.post("/replay", json=turn, headers=right | {"Origin": url}).status_code == 200
        bearer = {"Authorization": "Bearer a-token-of-this-test"}
        assert client.post("/replay", json=turn | {"speed": 6}, headers=bearer).status_code == 200
        assert pacer.speed == 6


def test_a_tape_has_the_last_trades_of_each_symbol(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("strand.http.dashboard._TAPE", 4096)
    tape, options = Tape(), {"date": SAMPLE_DATE, "workers": 1, "cores": None}
    assert tape.last("AAAHD", 5) == []
    strand.replay(SAMPLE, "trades", out={"trades": tape}, **options)
    every = strand.replay(SAMPLE, "trades", **options).outputs["trades"]
    last = np.asarray(every)[-4096:]
    symbol = every.symbols[int(last["instrument_id"][0])]
    mine = last[last["instrument_id"] == last["instrument_id"][0]][::-1]
    found = tape.last(symbol, 10_000)
    assert len(found) == len(mine) > 3
    assert [(each["price"], each["size"]) for each in found] == [(t["price"] / 1e9, t["size"]) for t in mine]
    assert found[0]["aggressor"] in ("A", "B", "N")
    assert found[:3] == tape.last(symbol, 3)
    assert tape.last("none", 3) == []


@contextmanager
def command(*words: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The command while it runs, and the address of its page."""
    line = [sys.executable, "-m", "strand", "dashboard", "--port", "0", *words]
    with subprocess.Popen(line, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            said = next(line for line in process.stderr if "the page is at" in line)
            yield process, said.strip().rpartition(" ")[2]
        finally:
            process.kill()


def test_a_replay_is_stepped_paused_and_begun_anew_and_ctrl_c_ends_the_command() -> None:
    words = ("--replay", SAMPLE, "--date", SAMPLE_DATE, "--paused", "--workers", "1")
    with command(*words) as (process, url), httpx.Client(base_url=url, timeout=MOST_S) as client:

        def turn(action: str, **more: Any) -> Any:
            reply = client.post("/replay", json={"action": action, **more})
            assert reply.status_code == 200, reply.text
            return reply.json()

        with watching(url.rstrip("/"), params={"symbol": "AAAHD"}) as take:
            begun = until(take, lambda event: event["run"]["state"] == "running")["run"]
            assert (begun["replay"]["position"], begun["replay"]["paused"]) == (0, True)
            assert turn("step", ticks=50_000)["position"] == 50_000
            assert turn("step")["position"] == 50_001
            seen = until(take, lambda event: event["run"]["kinds"][0]["accepted"] == 50_001)
            assert (seen["run"]["recorded"], seen["run"]["lag"]) == (True, None)
            seen = until(take, lambda event: event["symbol"]["trades"])["symbol"]
            assert seen["trades"][0]["price"] == seen["row"]["trades.last_price"]
            turn("reset")
            until(take, lambda event: (event["run"]["replay"] or {}).get("position") == 0)
            until(take, lambda event: event["run"]["state"] == "running")
            assert turn("step", ticks=7)["position"] == 7
            turn("speed", speed=0)
            turn("resume")
            ended = until(take, lambda event: event["run"]["state"] == "ended")
            assert ended["run"]["kinds"][0]["accepted"] == ended["run"]["replay"]["position"] == 200_500
            assert client.post("/replay", json={"action": "step"}).status_code == 409
            process.send_signal(signal.SIGINT)
            assert process.wait(MOST_S) == 0


def test_a_run_of_another_process_is_shown() -> None:
    code = "import strand\nwith strand.Dispatcher(2, 'count', attachable=True):\n print(flush=True)\n input()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        with command(str(child.pid)) as (process, url), watching(url.rstrip("/")) as take:
            assert (take()["run"]["pid"], take()["run"]["alerts"]) == (child.pid, [])
            child.kill()
            until(take, lambda event: event["run"]["state"] == "ended")
            process.send_signal(signal.SIGTERM)
            assert process.wait(MOST_S) == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "give PID, a process to look at, or --replay FILE"),
        (("1", "--replay", SAMPLE), "give PID, a process to look at, or --replay FILE"),
        (("1", "--speed", "2"), "--speed: is for --replay"),
        (("--replay", SAMPLE, "--set", "every=1m"), "--set sets options of --handler"),
        (("--replay", SAMPLE, "--host", "0.0.0.0"), "give token_file"),
    ],
)
def test_options_that_do_not_go_together_are_named(words: tuple[str, ...], said: str) -> None:
    ran = run_warm("-m", "strand", "dashboard", *words)
    assert (ran.returncode, said in ran.stderr) == (2, True), ran.stderr


def test_what_is_not_installed_is_named() -> None:
    code = "import sys\nsys.modules['starlette'] = None\nfrom strand.__main__ import main\nmain()"
    line = [sys.executable, "-c", code, "dashboard", "1"]
    ran = subprocess.run(line, capture_output=True, text=True, check=False, timeout=60)
    assert (ran.returncode, "tickstrand[http]" in ran.stderr or "http" in ran.stderr) == (2, True), ran.stderr
