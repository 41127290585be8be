"""Records of an output as messages of Kafka, on librdkafka's own cluster for tests."""

from __future__ import annotations

import gc
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from engine_support import wait_until
from kafka_mock import MESSAGE_TOO_LARGE, PRODUCE, Cluster, cluster, kafka

import strand
from strand.errors import ConfigurationError, SinkError
from strand.feeds.sample import SAMPLE_DATE, sample_path
from strand.output.kafka import KafkaSink

pytestmark = pytest.mark.python


def bars(sink: KafkaSink | None, **options: Any) -> Any:
    out = {} if sink is None else {"out": {"bars": sink}}
    return strand.replay(sample_path(), strand.bars("30m"), date=SAMPLE_DATE, limit=60_000, **out, **options)


def messages(cluster: Cluster, topic: str, n: int) -> list[Any]:
    consumer = kafka.Consumer(
        {"bootstrap.servers": cluster.servers, "group.id": "test", "auto.offset.reset": "earliest"}
    )
    try:
        consumer.subscribe([topic])
        found: list[Any] = []
        for _ in range(200):
            found += consumer.consume(10_000, timeout=0.2)
            if len(found) >= n:
                break
        return found
    finally:
        consumer.close()


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("queue", [50, 100_000])
def test_each_record_is_a_message_under_its_symbol_in_order_with_exact_numbers(workers: int, queue: int) -> None:
    expected = bars(None, workers=workers)
    with cluster("bars", 4) as brokers:
        sink = KafkaSink(brokers.servers, "bars", config={"queue.buffering.max.messages": queue})
        result = bars(sink, workers=workers)
        found = messages(brokers, "bars", sink.delivered)
    records = expected.outputs["bars"].to_numpy()
    assert sink.delivered == len(found) == len(records) > 300
    assert result.fingerprint == expected.fingerprint
    by_key: dict[str, list[Any]] = defaultdict(list)
    places: dict[str, set[int]] = defaultdict(set)
    for each in found:
        by_key[each.key().decode()].append(json.loads(each.value()))
        places[each.key().decode()].add(each.partition())
    assert all(len(partitions) == 1 for partitions in places.values())
    for key, bars_of_key in by_key.items():
        theirs = records[records["symbol"] == key]
        assert [bar["start"] for bar in bars_of_key] == theirs["start"].tolist()
        assert [round(bar["close"] * 10**9) for bar in bars_of_key] == theirs["close"].tolist()
        assert [bar["volume"] for bar in bars_of_key] == theirs["volume"].tolist()


def test_records_come_as_their_bytes_where_that_is_asked_for() -> None:
    with cluster("bars") as brokers:
        sink = KafkaSink(brokers.servers, "bars", form="record")
        bars(sink)
        found = messages(brokers, "bars", sink.delivered)
    expected = np.asarray(bars(None).outputs["bars"])
    assert b"".join(each.value() for each in found) == expected.tobytes()


def test_a_message_that_the_broker_refuses_ends_the_run() -> None:
    with cluster("bars") as brokers:
        brokers.fail(PRODUCE, *[MESSAGE_TOO_LARGE] * 1_000)
        with pytest.raises(SinkError, match="could not be delivered"):
            bars(KafkaSink(brokers.servers, "bars"))


def clients() -> int:
    """The number of clients of librdkafka in this process."""
    return sum(path.read_text() == "rdk:main\n" for path in Path("/proc/self/task").glob("*/comm"))


def test_brokers_that_never_answer_end_the_run_and_leave_no_client_behind() -> None:
    gc.collect()
    before = clients()
    with cluster("bars") as brokers:
        brokers.down()
        with pytest.raises(SinkError, match="bars"):
            bars(KafkaSink(brokers.servers, "bars", timeout_s=1.0))
    gc.collect()
    wait_until(lambda: clients() <= before)


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"form": "xml"}, "form"),
        *(({"timeout_s": wrong}, "timeout_s") for wrong in (0, 0.0001, 1e10, float("inf"), float("nan"), "5")),
        ({"config": {"acks": 0}}, "config"),
        *(({"config": wrong}, "config") for wrong in (b"x", 2, "ssl", ["ssl"])),
        ({"config": {"no.such": 1}}, "config"),
        ({"topic": ""}, "topic"),
        ({"servers": "broker"}, "servers"),
    ],
)
def test_an_option_that_cannot_work_is_named(options: dict[str, Any], field: str) -> None:
    with pytest.raises(ConfigurationError) as found:
        KafkaSink(**{"servers": "127.0.0.1:1", "topic": "bars", **options})
    assert found.value.field == field
