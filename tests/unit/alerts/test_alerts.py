"""Alerts: rules and their configuration, samples in a row, recovery, and delivery to a webhook."""

from __future__ import annotations

import hashlib
import hmac
import itertools
import json
import logging
import random
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import strand
from strand import logs
from strand.alerts import DEFAULTS, Alert, Alerts, Rule, Samples, Watch, Webhook, rules_of
from strand.alerts.export import prometheus_rules
from strand.alerts.rules import READINGS
from strand.errors import ConfigurationError
from tests.support.engine_support import wait_until
from tests.support.shown_commands import check_command

DEPTH = Rule("queue_depth", "warning", 1000, "normal", samples=3)


def told(rule: Rule, values: list[float | None]) -> list[str]:
    """States of the alerts that a rule makes of the readings of its level, with the place of each."""
    watch = Watch([rule])
    found = []
    for at, value in enumerate(values):
        found += [f"{at} {alert.state}" for alert in watch.sample(rule, {(rule.reading, rule.level): value}, at)]
    return found


# ---- Samples in a row


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1001, 1001], []),
        ([1001, 1001, 1001], ["2 firing"]),
        ([1001, 1001, 1000, 1001, 1001], []),
        ([1001, 1001, None, 1001, 1001], []),
        ([1001] * 9, ["2 firing"]),
        ([1001] * 3 + [0] * 2 + [1001] * 9, ["2 firing"]),
        ([1001] * 3 + [0] * 9, ["2 firing", "5 recovered"]),
        ([1001] * 3 + [None] * 9, ["2 firing", "5 recovered"]),
        ([1001] * 3 + [0] * 3 + [1001] * 3, ["2 firing", "5 recovered", "8 firing"]),
    ],
)
def test_three_samples_beyond_the_limit_alert_once_and_three_others_recover_once(
    values: list[float | None], expected: list[str]
) -> None:
    assert told(DEPTH, values) == expected


def test_a_rate_of_success_alerts_below_its_limit() -> None:
    rule = Rule("success_rate", "critical", 0.999, "immediate", samples=2)
    assert told(rule, [0.999, 0.9989, 0.9989]) == ["2 firing"]


def test_a_rule_for_any_level_alerts_for_each_by_itself() -> None:
    rule = replace(DEPTH, level="any", samples=1)
    watch = Watch([rule])
    first = watch.sample(
        rule, {("queue_depth", "low"): 1001, ("queue_depth", "high"): 5, ("queue_depth", "all"): 9999}, 0
    )
    assert [(alert.level, alert.state) for alert in first] == [("low", "firing")]
    # A level that is no longer there has no reading.
    second = watch.sample(rule, {("queue_depth", "high"): 1001}, 1)
    assert [(alert.level, alert.state) for alert in second] == [("high", "firing"), ("low", "recovered")]
    assert [level for _, level in watch.firing] == ["high"]


def test_alerts_of_random_readings_are_those_of_a_count_over_all_of_them() -> None:
    chance = random.Random(5)
    for _ in range(300):
        samples = chance.randint(1, 4)
        values = [chance.choice([None, 0.0, 2000.0]) for _ in range(40)]
        expected, fires = [], False
        for at in range(len(values)):
            last = [value is not None and value > 1000 for value in values[: at + 1]][-samples:]
            since = [each for each in expected if int(each.split()[0]) > at - samples]
            if len(last) == samples and not since and all(one != fires for one in last):
                fires = not fires
                expected.append(f"{at} {'firing' if fires else 'recovered'}")
        assert told(replace(DEPTH, samples=samples), values) == expected


# ---- Changes


def test_a_rule_of_changes_tells_of_what_each_sample_adds_and_does_not_recover() -> None:
    rule = Rule("tasks_dead", "severe", 1)
    watch = Watch([rule])
    counts = [7, 7, 8, 10, 10, None, 13, 13]
    found = [watch.sample(rule, {("tasks_dead", "all"): count}, at) for at, count in enumerate(counts)]
    told = [(alert.time_ns, alert.state, alert.value) for alerts in found for alert in alerts]
    assert told == [(3, "event", 2), (6, "event", 3)]
    assert "tasks_dead grew by 3 tasks; it alerts above 1 task" in [alert.text for alert in found[6]]
    assert watch.firing == []


def test_changes_count_from_the_start_and_a_system_error_is_told_at_once_without_its_text() -> None:
    told: list[Alert] = []
    counts = itertools.chain([5.0], itertools.repeat(6.0))
    rule = Rule("tasks_failed", "warning", 0, interval_ns=1_000_000)
    with Alerts(lambda: {("tasks_failed", "all"): next(counts)}, [rule], on_alert=told.append) as alerts:
        wait_until(lambda: len(told) == 1)
        retry = strand.RetryPolicy(max_retries=0, on_alert=alerts.system_error)
        with strand.Scheduler(1, retry=retry) as scheduler:
            scheduler.submit(open, "/no/such/secret").exception()
    assert [(alert.state, alert.rule, alert.value) for alert in told] == [
        ("event", "tasks_failed_warning", 1), ("event", "system_error", None),
    ]  # fmt: skip
    assert "FileNotFoundError at attempt 1" in told[1].text
    assert "secret" not in json.dumps(told[1].as_dict())


def test_system_errors_of_all_tasks_alert_at_once_within_a_bound_and_business_errors_do_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now_s = [1000.0]
    monkeypatch.setattr(logs, "time", SimpleNamespace(monotonic=lambda: now_s[0]))

    def fails(error: Exception) -> None:
        raise error

    class BusinessError(OSError):
        pass

    told: list[Alert] = []
    usual = strand.RetryPolicy(max_retries=0, business=BusinessError)
    with strand.Scheduler(1) as scheduler:
        with Alerts(dict, (), on_alert=told.append, tasks=scheduler, system_errors=3):
            for error in (ValueError(), TypeError(), KeyError(), PermissionError(), TimeoutError(), BusinessError()):
                scheduler.options(retry=usual).submit(fails, error).exception()
            assert told == []
            with_policy = scheduler.options(retry=usual).submit(fails, OSError("disk"))
            without = scheduler.submit(fails, MemoryError())
            assert with_policy.exception() is not None
            assert without.exception() is not None
            assert [alert.text for alert in told] == [
                f"task {with_policy.id} met OSError at attempt 1", f"task {without.id} met MemoryError at attempt 1",
            ]  # fmt: skip
            for _ in range(5):
                scheduler.submit(fails, OSError()).exception()
            assert len(told) == 3
            now_s[0] += 61
            scheduler.submit(fails, OSError()).exception()
            assert told[3].text.endswith("(4 more were left out since the last one)")
        scheduler.submit(fails, OSError()).exception()
        assert len(told) == 4
    assert {alert.severity for alert in told} == {"severe"}


def test_an_alert_that_raises_ends_no_task(caplog: pytest.LogCaptureFixture) -> None:
    with strand.Scheduler(1) as scheduler:
        scheduler.add_alert(lambda task, error: 1 / 0)
        task = scheduler.submit(open, "/no/such/file")
        assert isinstance(task.exception(), FileNotFoundError)
        assert scheduler.submit(int).result() == 0
    assert "on_alert failed" in caplog.text


def test_a_table_may_have_changes() -> None:
    rules = rules_of({"queue_metrics": {"tasks_expired": {"notice": 0, "severe": 10, "collection_interval": "5s"}}})
    assert [(rule.name, rule.limit, rule.interval_ns) for rule in rules if rule.reading == "tasks_expired"] == [
        ("tasks_expired_notice", 0, 5 * 10**9), ("tasks_expired_severe", 10, 5 * 10**9),
    ]  # fmt: skip


# ---- The runbook


def test_the_runbook_says_of_each_alert_its_meaning_a_command_that_exists_and_a_change() -> None:
    page = (Path(__file__).resolve().parents[3] / "docs/runbook.md").read_text()
    _, *parts = page.split("\n## ")
    sections = {part.partition("\n")[0]: part for part in parts}
    assert sections.keys() == {reading.replace("_", "-") for reading in READINGS} | {"system-error"}
    rules = [Rule(reading, "warning", 0) for reading in READINGS]
    exported = [rule for group in prometheus_rules(rules)["groups"] for rule in group["rules"]]
    named = {rule["annotations"]["runbook"].partition("#")[2] for rule in exported}
    assert named == sections.keys() - {"system-error"}
    for name, section in sections.items():
        assert all(f"*{word}*" in section for word in ("It means", "Look at", "Change")), name
        commands = re.findall(r"`(strand [a-z]+ [^`]*)`", section)
        assert commands, name
        for command in commands:
            check_command(command)


# ---- Rules of a configuration


def test_without_a_table_all_readings_have_their_default_limits() -> None:
    assert rules_of({}) == DEFAULTS
    assert {(rule.name, rule.limit, rule.interval_ns // 10**9) for rule in DEFAULTS} == {
        ("cpu_usage_warning", 0.75, 10), ("cpu_usage_critical", 0.9, 10),
        ("memory_usage_warning", 0.7, 10), ("memory_usage_critical", 0.85, 10),
        ("queue_depth_any_warning", 1000, 30), ("queue_depth_immediate_severe", 100, 30),
        ("wait_p95_normal_warning", 120, 30), ("wait_p99_high_severe", 15, 30),
        ("success_rate_warning", 0.995, 30), ("success_rate_immediate_critical", 0.999, 30),
        ("success_rate_low_notice", 0.98, 30),
        ("promotion_rate_warning", 0.1, 30), ("promotion_rate_critical", 0.25, 30),
        ("starvation_count_warning", 5, 30), ("starvation_count_critical", 20, 30),
    }  # fmt: skip
    assert {rule.samples for rule in DEFAULTS} == {3}


def test_a_table_replaces_the_limits_of_the_readings_that_it_names() -> None:
    rules = rules_of(
        {
            "samples": 2,
            "cpu_usage": {"critical": 0.5, "collection_interval": "5s"},
            "memory_usage": {},
            "queue_metrics": {"wait_p95": {"high": {"severe": "2m"}}, "starvation_count": {"warning": 1}},
        }
    )
    assert rules[0] == Rule("cpu_usage", "critical", 0.5, interval_ns=5 * 10**9, samples=2)
    assert not [rule for rule in rules if rule.reading == "memory_usage"]
    assert [rule for rule in rules if rule.reading == "wait_p95"] == [
        Rule("wait_p95", "severe", 120, "high", samples=2)
    ]
    assert {rule.samples for rule in rules} == {2}


@pytest.mark.parametrize(
    ("table", "error"),
    [
        ([], "monitoring: [] is not a table"),
        ({"cpu_usag": {}}, "monitoring.cpu_usag: did you mean cpu_usage"),
        ({"cpu_usage": {"warning": 75}}, "monitoring.cpu_usage.warning: 75 is not a number from 0 to 1"),
        ({"cpu_usage": {"warning": 0.9, "critical": 0.8}}, "monitoring.cpu_usage.critical: 0.8 is below warning"),
        ({"cpu_usage": {"collection_interval": 10}}, "monitoring.cpu_usage.collection_interval: 10 is not text"),
        ({"cpu_usage": {"warn": 0.5}}, "monitoring.cpu_usage.warn: did you mean warning"),
        ({"queue_metrics": {"cpu_usage": {}}}, "monitoring.queue_metrics.cpu_usage: it is no table"),
        ({"queue_metrics": {"queue_depth": {"warning": 5}}}, "queue_depth.warning: it is no level"),
        ({"queue_metrics": {"queue_depth": {"hihg": {}}}}, "queue_depth.hihg: did you mean high"),
        ({"queue_metrics": {"wait_p99": {"all": {"severe": 15}}}}, "wait_p99.all.severe: 15 is not text with a unit"),
        (
            {"queue_metrics": {"success_rate": {"all": {"warning": 0.9, "critical": 0.95}}}},
            "success_rate.all.critical: 0.95 is above warning, which is 0.9",
        ),
        ({"samples": 0}, "monitoring.samples: 0"),
    ],
)
def test_a_key_that_cannot_be_is_an_error_at_its_path(table: Any, error: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        rules_of(table)
    assert error in str(raised.value)


def test_the_text_of_an_alert_has_its_reading_with_a_unit_and_the_limit() -> None:
    texts = [
        Rule("wait_p99", "severe", 15, "high").text(16.5, "high"),
        Rule("success_rate", "warning", 0.995).text(0.5, "all"),
        DEPTH.text(1001, "normal"),
        DEPTH.text(None, "normal"),
    ]
    assert texts == [
        "wait_p99 of high is 16.5 s; it alerts above 15 s",
        "success_rate is 50 %; it alerts below 99.5 %",
        "queue_depth of normal is 1,001 waiting; it alerts above 1,000 waiting",
        "queue_depth of normal is undefined; it alerts above 1,000 waiting",
    ]


# ---- The thread


def test_the_thread_tells_each_alert_to_the_log_and_to_the_callback(caplog: pytest.LogCaptureFixture) -> None:
    values = itertools.chain([1001.0] * 2, itertools.repeat(5.0))
    found: list[Alert] = []
    rule = replace(DEPTH, samples=2, interval_ns=5_000_000)

    def read() -> Samples:
        return {("queue_depth", "normal"): next(values)}

    with caplog.at_level(logging.INFO, "strand.alerts"), Alerts(read, [rule], on_alert=found.append):
        wait_until(lambda: len(found) == 2)
    assert [(alert.state, alert.value) for alert in found] == [("firing", 1001.0), ("recovered", 5.0)]
    assert found[0].id != found[1].id
    assert [record.levelname for record in caplog.records] == ["WARNING"] * 2
    assert caplog.records[0].alert["rule"] == "queue_depth_normal_warning"  # type: ignore[attr-defined]


def test_readings_and_a_callback_that_raise_do_not_end_the_watch(caplog: pytest.LogCaptureFixture) -> None:
    reads = itertools.count()
    told = threading.Event()

    def read() -> Samples:
        if next(reads) == 0:
            raise OSError("gone")
        return {("queue_depth", "normal"): 1001}

    def fails(alert: Alert) -> None:
        told.set()
        raise ValueError(alert.rule)

    rule = replace(DEPTH, samples=1, interval_ns=5_000_000)
    with caplog.at_level(logging.ERROR, "strand.alerts"), Alerts(read, [rule], on_alert=fails):
        assert told.wait(60)
        wait_until(lambda: len(caplog.records) == 2)
    assert [record.message for record in caplog.records] == [
        "readings are undefined now",
        "on_alert raised for queue_depth_normal_warning",
    ]


# ---- The webhook


class Receiver:
    """An HTTP server that keeps what it is sent. ``answers``: the status of each answer, then 200."""

    def __init__(self, *answers: int, port: int = 0) -> None:
        self.bodies: list[bytes] = []
        self.signatures: list[str | None] = []
        left = list(answers)
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                outer.bodies.append(body)
                outer.signatures.append(self.headers["Strand-Signature"])
                status = left.pop(0) if left else 200
                self.send_response(status)
                if status in (302, 307):
                    there = f"127.0.0.1:{outer.port}/elsewhere" if status == 302 else "[bad"
                    self.send_header("Location", f"http://{there}")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.port = self.server.server_port
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,))
        self.thread.start()

    def stop(self) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()

    @property
    def numbers(self) -> list[int]:
        return [json.loads(body)["n"] for body in self.bodies]


@contextmanager
def receiver(*answers: int, port: int = 0) -> Iterator[Receiver]:
    there = Receiver(*answers, port=port)
    try:
        yield there
    finally:
        there.stop()


def test_messages_come_in_order_and_each_is_signed() -> None:
    with receiver() as there:
        hook = Webhook(f"http://127.0.0.1:{there.port}/hook", b"key")
        hook.start()
        for n in range(20):
            hook.put({"n": n})
        hook.stop()
        assert there.numbers == list(range(20))
        assert (hook.delivered, hook.failed, hook.lost) == (20, 0, 0)
        for body, signature in zip(there.bodies, there.signatures, strict=True):
            assert signature is not None
            time_s, mac = (part.partition("=")[2] for part in signature.split(","))
            assert hmac.compare_digest(mac, hmac.new(b"key", time_s.encode() + b"." + body, hashlib.sha256).hexdigest())


@pytest.mark.parametrize("status", [500, 302, 307])
def test_a_message_that_was_refused_or_redirected_comes_again_before_the_next(status: int) -> None:
    with receiver(status) as there:
        hook = Webhook(f"http://127.0.0.1:{there.port}")
        hook.start()
        hook.put({"n": 0})
        hook.put({"n": 1})
        hook.stop()
        assert there.numbers == [0, 0, 1]
        assert (hook.delivered, hook.failed, hook.lost) == (2, 1, 0)


def test_no_message_within_the_bound_is_lost_while_the_receiver_restarts() -> None:
    with receiver() as there:
        hook = Webhook(f"http://127.0.0.1:{there.port}", bound=5)
        hook.start()
        hook.put({"n": 0})
        wait_until(lambda: hook.delivered == 1)
    for n in range(1, 6):
        hook.put({"n": n})
    wait_until(lambda: hook.failed > 0)
    with receiver(port=there.port) as again:
        hook.stop()
        assert again.numbers == [1, 2, 3, 4, 5]
    assert (hook.delivered, hook.lost) == (6, 0)


def test_beyond_the_bound_the_oldest_is_lost_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    with receiver() as gone:
        pass
    hook = Webhook(f"http://127.0.0.1:{gone.port}/secret-path", bound=3, stop_s=0)
    hook.start()
    for n in range(5):
        hook.put({"n": n})
    hook.stop()
    assert (hook.delivered, hook.lost) == (0, 5)
    assert "secret-path" not in caplog.text


def test_a_webhook_that_was_never_started_waits_for_nobody_at_its_end() -> None:
    hook = Webhook("http://127.0.0.1:9", stop_s=3600)
    hook.put({})
    hook.stop()
    assert (hook.delivered, hook.lost) == (0, 1)


@pytest.mark.parametrize(
    "url",
    [
        "http://example.org/hook", "ftp://127.0.0.1", "https://", "127.0.0.1", "http://127.0.0.1.example.org",
        "http://127.0.0.1:1/\u00e4", "https://x..y/", f"https://{'a' * 70}.org/", "https://a b/", "https://x:abc/",
        "https://x:99999/", "http://[::1", 5,
    ],
)  # fmt: skip
def test_a_url_that_is_neither_https_nor_on_this_machine_is_refused(url: Any) -> None:
    with pytest.raises(ConfigurationError, match="webhook"):
        Webhook(url)


@pytest.mark.parametrize("secret", ["key", b""])
def test_a_secret_that_is_no_key_is_refused_at_once(secret: Any) -> None:
    with pytest.raises(ConfigurationError, match="secret: give bytes"):
        Webhook("https://example.org", secret)
