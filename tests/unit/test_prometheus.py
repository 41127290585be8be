"""A real Prometheus beside running programs: each query of the dashboard has a value, and the exported rules fire and
recover as the watch does."""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families

import strand
from strand.feeds.live.mold import MoldFeed
from strand.feeds.sample import SAMPLE_DATE, sample_path
from strand.http import App
from strand.metrics import DASHBOARD, Machine
from strand.metrics import serving as serving_metrics
from tests.support.engine_support import beside, wait_until
from tests.support.http_server import serving as serving_http
from tests.support.prometheus import PROGRAM, WHY, prometheus

pytestmark = pytest.mark.skipif(PROGRAM is None, reason=WHY)

#: Families that a machine may lack, and their readings: without PSI there is no I/O pressure.
OF_MACHINE = {"strand_io_pressure_ratio": "io_pressure"}


@strand.batch_handler(state=[("n", "i8")], outputs={"seen": [("n", "i8")]})
def emits(symbol: str, ticks: Any, row: Any, ctx: Any) -> None:
    """Counts, writes a record per tick, and takes a while."""
    row["n"] += len(ticks)
    ctx.emit(np.zeros(len(ticks), [("n", "i8")]), at=np.arange(len(ticks)))
    time.sleep(0.002)


@contextmanager
def command(*arguments: str) -> Iterator[None]:
    """Runs the command until the block ends."""
    ran = subprocess.Popen([sys.executable, "-m", "strand", *arguments], stdout=subprocess.DEVNULL)
    try:
        yield
    finally:
        ran.terminate()
        ran.wait(60)


@contextmanager
def a_dispatcher() -> Iterator[str]:
    """Runs a dispatcher with all that has a metric, and yields where its metrics are."""
    policy = strand.Levels(timeouts=dict.fromkeys(("high", "retry", "normal", "low"), "50ms"))
    names = [f"S{at}" for at in range(40)]
    with strand.Dispatcher(
        names, emits, policy=policy, priorities={"S0": "high", "*": "low"}, guard=strand.Guard(),
        pool=strand.Pool(workers=2, min_workers=1), limits=strand.Limits(capacity_ticks=4, on_full="drop_newest"),
        publisher_drains=False, attachable=True, name="ticks",
    ) as run:  # fmt: skip
        ticks = strand.ticks.zeros(400)
        ticks["instrument_id"] = np.arange(400) % 40
        attached, machine = strand.attach(os.getpid(), name="ticks"), Machine()

        def feed() -> None:
            ticks["ts_recv"] = time.time_ns()
            run.publish(ticks)

        look = lambda: (attached.snapshot(), machine.read())  # noqa: E731
        with beside(feed, pause_s=0.05), serving_metrics(os.getpid(), look, 0) as url:
            yield url


@contextmanager
def in_blocks() -> Iterator[str]:
    """Runs a dispatcher that handles ticks in blocks, and yields where its metrics are."""
    with strand.Dispatcher(40, "count", workers=1, cores=None, ingest="blocks", attachable=True, name="blocks") as run:
        ticks = strand.ticks.zeros(100_000)
        ticks["instrument_id"] = np.arange(len(ticks)) % 40
        attached = strand.attach(os.getpid(), name="blocks")
        with (
            beside(lambda: run.publish(ticks), pause_s=0.05),
            serving_metrics(os.getpid(), lambda: (attached.snapshot(), {}), 0) as url,
        ):
            yield url


@contextmanager
def a_scheduler() -> Iterator[str]:
    """Runs a scheduler under Fair whose requests are tasks, and yields where its metrics are."""

    def fails() -> None:
        raise ConnectionError("again")

    retry = strand.RetryPolicy(max_retries=1, base_delay="1ms")
    with strand.Scheduler(2, policy=strand.Fair(), retry=retry, attachable=True, name="requests") as run:
        app = App(run)
        app.get("/name")(lambda _: "a")
        app.metrics(strand.attach(fd=run.memory_fd))
        jobs = run.options(group=strand.TaskGroup("jobs"))
        with serving_http(app) as served, served.client() as client:

            def ask() -> None:
                assert client.get("/name").text == "a"
                jobs.submit(sum, range(1000)).result()
                run.submit(fails).exception()

            with beside(ask, pause_s=0.05):
                yield f"{served.url}/metrics"


@contextmanager
def a_live_feed() -> Iterator[str]:
    """Runs a live feed whose lines lose packets, and yields where its metrics are."""
    with MoldFeed("127.0.0.1:0", "127.0.0.1:0", date=SAMPLE_DATE, gap_timeout_s=0.1) as feed, ExitStack() as stack:
        lines = [f"--line={address}" for address in feed.addresses]
        stack.enter_context(command("serve", str(sample_path()), *lines, "--rate=3000", "--loss=0.3"))
        pool = stack.enter_context(ThreadPoolExecutor(1))
        run = pool.submit(strand.replay, feed, "count", workers=1, attachable=True, name="live")
        stack.callback(run.exception)  # a warning of the gaps, where warnings are errors
        stack.callback(feed.stop)
        found: list[strand.Attached] = []

        def is_there() -> bool:
            with suppress(strand.StrandError):
                found.append(strand.attach(os.getpid(), name="live"))
            return bool(found)

        wait_until(is_there)
        with serving_metrics(os.getpid(), lambda: (found[0].snapshot(), {}), 0) as url:
            yield url


def queries(dashboard: dict[str, Any]) -> dict[str, str]:
    """All queries by panel, for all instances."""
    return {
        f"{panel['title']} {target['refId']}": target["expr"]
        .replace("$instance", ".*")
        .replace("$__rate_interval", "10s")
        for panel in dashboard["panels"]
        for target in panel.get("targets", ())
    }


def families_at(url: str) -> set[str]:
    """Names of the families that an exporter shows, as PromQL has them."""
    with urllib.request.urlopen(url, timeout=60) as answer:
        found = text_string_to_metric_families(answer.read().decode())
        return {
            f"{family.name}_bucket" if family.type == "histogram" else sample.name
            for family in found
            for sample in family.samples
            if family.type == "histogram" or not sample.name.endswith("_created")
        }


NAME = re.compile(r"\b(?:strand|process)_\w+")


def test_each_query_of_the_dashboard_has_a_value_and_each_family_a_panel(tmp_path: Path) -> None:
    dashboard = json.loads(DASHBOARD.read_bytes())
    with ExitStack() as stack:
        urls = [stack.enter_context(run()) for run in (a_dispatcher, in_blocks, a_scheduler, a_live_feed)]
        server = stack.enter_context(prometheus(tmp_path, urls))
        asked = queries(dashboard)
        lacks = {name for name, reading in OF_MACHINE.items() if Machine().read().get(reading) is None}

        def empty() -> list[str]:
            return [
                f"{panel}: {query}"
                for panel, query in asked.items()
                if not any(map(math.isfinite, server.values(query))) and not lacks.intersection(NAME.findall(query))
            ]

        with suppress(AssertionError):  # the next line says more
            wait_until(lambda: not empty())
        assert not empty(), server.scrapes()
        shown = {name for query in asked.values() for name in NAME.findall(query)}
        # Figures of users may be there from another test of this process.
        there = {name for url in urls for name in families_at(url) if not name.startswith("strand_user_")}
        for variable in dashboard["templating"]["list"]:
            if variable["type"] == "query":
                selector, label = re.fullmatch(r"label_values\((.*), (\w+)\)", variable["query"]).groups()  # type: ignore[union-attr]
                assert len(server.labels(label, selector.replace("$run", ".*"))) == len(urls)
    assert shown - lacks == there - lacks
    of_strand = {name.removesuffix("_bucket") for name in there if name.startswith("strand_")}
    assert of_strand == documented() - lacks


def documented() -> set[str]:
    """Names of the families in the table of docs/metrics.md."""
    page = (Path(__file__).resolve().parents[2] / "docs/metrics.md").read_text()
    cells = re.findall(r"^\| (`[^|]*`) \|", page, re.MULTILINE)
    of_users = {"user_NAME", "user_NAME_total"}  # nobody knows their names before
    return {f"strand_{name}" for cell in cells for name in {*re.findall(r"`(\w+)`", cell)} - of_users}


def test_each_panel_of_the_dashboard_has_a_unit_a_description_and_the_data_source_that_was_chosen() -> None:
    dashboard = json.loads(DASHBOARD.read_bytes())
    for panel in (panel for panel in dashboard["panels"] if panel["type"] != "row"):
        unit = panel["fieldConfig"]["defaults"].get("unit") or panel["options"]["yAxis"]["unit"]
        assert unit, panel["title"]
        assert len(panel["description"]) > 10, panel["title"]
        assert {each["datasource"]["uid"] for each in (panel, *panel["targets"])} == {"${datasource}"}
        assert all('instance=~"$instance"' in target["expr"] for target in panel["targets"]), panel["title"]
    numbers = [panel["id"] for panel in dashboard["panels"]]
    assert len(set(numbers)) == len(numbers)


def test_the_command_prints_the_dashboard() -> None:
    ran = subprocess.run([sys.executable, "-m", "strand", "metrics", "--grafana"], capture_output=True, check=True)
    assert ran.stdout == DASHBOARD.read_bytes()


# ---- Rules


class Receiver(BaseHTTPRequestHandler):
    """Keeps what a webhook posts."""

    got: ClassVar[list[dict[str, Any]]] = []

    def do_POST(self) -> None:
        self.got.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def receiver() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Yields the URL of a receiver, and what it has got."""
    kind = type("OneReceiver", (Receiver,), {"got": []})
    server = ThreadingHTTPServer(("127.0.0.1", 0), kind)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/", kind.got
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


#: What the other programs of the machine decide, and not this one.
OF_OTHERS = ("cpu_usage", "memory_usage")


def monitoring(interval: str, samples: int) -> dict[str, Any]:
    """The usual rules, each sampled at an interval; but the depth of a level alerts above 50."""
    levels = {
        "queue_depth": {"any": {"warning": 50}, "immediate": {"severe": 40}},
        "wait_p95": {"normal": {"warning": "2m"}},
        "wait_p99": {"high": {"severe": "15s"}},
        "success_rate": {"all": {"warning": 0.995}, "immediate": {"critical": 0.999}, "low": {"notice": 0.98}},
    }
    return {
        "samples": samples,
        "cpu_usage": {"warning": 0.75, "critical": 0.9, "collection_interval": interval},
        "memory_usage": {"warning": 0.7, "critical": 0.85, "collection_interval": interval},
        "queue_metrics": {
            "promotion_rate": {"warning": 0.1, "critical": 0.25, "collection_interval": interval},
            "starvation_count": {"warning": 5, "critical": 20, "collection_interval": interval},
        }
        | {
            reading: {level: limits | {"collection_interval": interval} for level, limits in tables.items()}
            for reading, tables in levels.items()
        },
    }


def test_all_rules_evaluate_and_the_one_that_fires_and_recovers_is_told_by_the_webhook_too(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    at_length = request.config.getoption("--exhaustive")  # a minute of scrapes, each 5 s
    interval, samples, seconds = ("5s", 3, 60) if at_length else ("1s", 2, 0)
    config, rules, end = tmp_path / "config.yaml", tmp_path / "rules.json", time.monotonic() + seconds
    config.write_text(json.dumps({"monitoring": monitoring(interval, samples)}))
    exported = [sys.executable, "-m", "strand", "alerts", "export", "--config", config]
    rules.write_bytes(subprocess.run(exported, capture_output=True, check=True).stdout)
    may_end = threading.Event()
    with ExitStack() as stack:
        run = stack.enter_context(strand.Scheduler(1, attachable=True, name="jobs"))
        stack.callback(may_end.set)
        attached, machine = strand.attach(fd=run.memory_fd), Machine()
        look = lambda: (attached.snapshot(), machine.read())  # noqa: E731
        url = stack.enter_context(serving_metrics(os.getpid(), look, 0))
        hook, got = stack.enter_context(receiver())
        watch = ("alerts", "run", str(os.getpid()), "--name", "jobs", "--config", str(config), "--webhook", hook)
        stack.enter_context(command(*watch))
        server = stack.enter_context(prometheus(tmp_path, [url], interval=interval, rules=[rules]))

        def told() -> list[tuple[str, str, str]]:
            return [(one["rule"], one["level"], one["state"]) for one in got if not one["rule"].startswith(OF_OTHERS)]

        run.submit(may_end.wait)
        low = run.options(priority="low")
        waiting = [low.submit(int) for _ in range(60)]
        wait_until(lambda: server.rules()["StrandQueueDepthAnyWarning"]["state"] == "firing")
        wait_until(lambda: len(told()) > 0)
        may_end.set()
        assert [task.result(60) for task in waiting] == [0] * 60
        wait_until(lambda: server.rules()["StrandQueueDepthAnyWarning"]["state"] == "inactive")
        wait_until(lambda: len(told()) > 1)
        wait_until(lambda: time.monotonic() >= end, seconds + 30)
        found = server.rules()
        wait_until(lambda: all(rule["evaluationTime"] > 0 for rule in server.rules().values()))
        fired = server.ask("query", query='count_over_time(ALERTS{alertstate="firing"}[5m])')["result"]
        assert server.scrapes() == {url: ""}
    assert len(found) == len(json.loads(rules.read_bytes())["groups"][0]["rules"])
    assert {name: (rule["health"], rule.get("lastError", "")) for name, rule in found.items()} == dict.fromkeys(
        found, ("ok", "")
    )
    by_prometheus = {(each["metric"]["alertname"], each["metric"].get("level", "all")) for each in fired}
    others = tuple(f"Strand{name.title().replace('_', '')}" for name in OF_OTHERS)
    assert {each for each in by_prometheus if not each[0].startswith(others)} == {("StrandQueueDepthAnyWarning", "low")}
    assert told() == [("queue_depth_any_warning", "low", state) for state in ("firing", "recovered")]
