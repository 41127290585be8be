"""librdkafka's own cluster for tests, in this process: brokers at 127.0.0.1 that fail on demand."""

from __future__ import annotations

import contextlib
import ctypes
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from strand import ticks
from strand.feeds.live.kafka import KafkaFeed

kafka: Any = pytest.importorskip("confluent_kafka")

#: Numbers of requests, and of errors, in Kafka's protocol.
PRODUCE, FETCH, OFFSET_COMMIT = 0, 1, 8
NOT_LEADER, REQUEST_TIMED_OUT, MESSAGE_TOO_LARGE, COORDINATOR_NOT_AVAILABLE, ILLEGAL_GENERATION = 6, 7, 10, 15, 22
REBALANCE_IN_PROGRESS = 27


class Cluster:
    """A cluster of ``brokers``, whose numbers begin with 1. It keeps the newest 5 MB of each partition."""

    def __init__(self, brokers: int = 1) -> None:
        found = next((Path(kafka.__file__).parents[1] / "confluent_kafka.libs").glob("librdkafka-*.so*"), None)
        if found is None:
            pytest.skip("this build of confluent-kafka has its librdkafka elsewhere")
        self._lib = ctypes.CDLL(str(found))
        for name, result, *arguments in (
            ("rd_kafka_new", "P", "I", "P", "P", "Z"), ("rd_kafka_mock_cluster_new", "P", "P", "I"),
            ("rd_kafka_mock_cluster_bootstraps", "S", "P"), ("rd_kafka_mock_cluster_destroy", "", "P"),
            ("rd_kafka_mock_topic_create", "I", "P", "S", "I", "I"), ("rd_kafka_destroy", "", "P"),
            ("rd_kafka_mock_partition_set_leader", "I", "P", "S", "I", "I"),
            ("rd_kafka_mock_broker_set_down", "I", "P", "I"), ("rd_kafka_mock_broker_set_up", "I", "P", "I"),
            ("rd_kafka_mock_push_request_errors_array", "", "P", "H", "Z", "P"), ("rd_kafka_conf_new", "P"),
            ("rd_kafka_conf_set", "I", "P", "S", "S", "P", "Z"),
            ("rd_kafka_mock_group_initial_rebalance_delay_ms", "", "P", "J"),
        ):  # fmt: skip
            kinds = {"P": ctypes.c_void_p, "I": ctypes.c_int, "Z": ctypes.c_size_t, "S": ctypes.c_char_p}
            kinds |= {"H": ctypes.c_int16, "J": ctypes.c_int32, "": None}
            function = getattr(self._lib, name)
            function.restype, function.argtypes = kinds[result], [kinds[each] for each in arguments]
        error = ctypes.create_string_buffer(512)
        conf = self._lib.rd_kafka_conf_new()
        self._lib.rd_kafka_conf_set(conf, b"log_level", b"0", error, 512)
        self._rk = self._lib.rd_kafka_new(0, conf, error, 512)
        assert self._rk, error.value
        self._cluster = self._lib.rd_kafka_mock_cluster_new(self._rk, brokers)
        self._lib.rd_kafka_mock_group_initial_rebalance_delay_ms(self._cluster, 100)
        self.servers: str = self._lib.rd_kafka_mock_cluster_bootstraps(self._cluster).decode()

    def topic(self, name: str, partitions: int = 1) -> None:
        assert not self._lib.rd_kafka_mock_topic_create(self._cluster, name.encode(), partitions, 1)

    def fail(self, request: int, *errors: int) -> None:
        """The next requests of a kind are answered by these errors."""
        array = (ctypes.c_int * len(errors))(*errors)
        self._lib.rd_kafka_mock_push_request_errors_array(self._cluster, request, len(errors), array)

    def lead(self, topic: str, partition: int, broker: int) -> None:
        """A partition is led by a broker from now on."""
        assert not self._lib.rd_kafka_mock_partition_set_leader(self._cluster, topic.encode(), partition, broker)

    def down(self, broker: int = 1) -> None:
        self._lib.rd_kafka_mock_broker_set_down(self._cluster, broker)

    def up(self) -> None:
        self._lib.rd_kafka_mock_broker_set_up(self._cluster, 1)

    def close(self) -> None:
        self._lib.rd_kafka_mock_cluster_destroy(self._cluster)
        self._lib.rd_kafka_destroy(self._rk)

    def send(self, topic: str, messages: Iterable[tuple[Any, ...]], **settings: Any) -> None:
        """Sends messages: keys, values, partitions, and the times in ms of those that do not have the present one."""
        producer = kafka.Producer({"bootstrap.servers": self.servers, "linger.ms": 5, **settings})
        for key, value, partition, *ms in messages:
            while True:
                try:
                    producer.produce(topic, value, key=key, partition=partition, timestamp=ms[0] if ms else 0)
                    break
                except BufferError:
                    producer.poll(0.05)
        assert producer.flush(60) == 0

    def committed(self, topic: str, group: str, partitions: int = 1) -> list[int]:
        consumer = kafka.Consumer({"bootstrap.servers": self.servers, "group.id": group})
        try:
            found = consumer.committed([kafka.TopicPartition(topic, n) for n in range(partitions)], timeout=60)
            return [each.offset for each in found]
        finally:
            consumer.close()

    def feed(self, topic: str, profile: Any = None, **options: Any) -> KafkaFeed:
        """A feed that ends after a minute without a message, if not before."""
        return KafkaFeed(self.servers, topic, profile, **{"until_end": True, "idle_timeout_s": 60.0, **options})


@contextlib.contextmanager
def cluster(topic: str = "ticks", partitions: int = 1, brokers: int = 1) -> Iterator[Cluster]:
    made = Cluster(brokers)
    try:
        made.topic(topic, partitions)
        yield made
    finally:
        made.close()


def records(symbols: Sequence[str], count: int, *, first: int = 1, spread: int = 1) -> list[tuple[str, bytes, int]]:
    """Messages of one trade each, the symbols taking turns; each symbol's sequence rises from ``first``. Symbol n is in
    partition ``n % spread``."""
    made = ticks.zeros(count)
    number = np.arange(count)
    at = number % len(symbols)
    made["ts_event"] = made["ts_recv"] = 1_700_000_000_000_000_000 + number * 1_000_000
    made["price"], made["size"] = (100 + number % 7) * ticks.PRICE_SCALE, 1 + number % 5
    made["kind"], made["action"], made["side"] = ticks.KIND_TRADE, b"T", b"A"
    made["sequence"] = first + number // len(symbols)
    return [(symbols[k], made[n].tobytes(), int(k) % spread) for n, k in enumerate(at.tolist())]


def trade(symbol: str, number: int, price: str = "100.5") -> bytes:
    """A message of JSON, which ``PROFILE`` reads."""
    return json.dumps({"s": symbol, "n": number, "p": price, "q": number}).encode()


PROFILE: dict[str, Any] = {
    "name": "trades",
    "message": [{"kind": "trade", "symbol": "s", "fields": {"price": "p", "size": "q", "sequence": "n"}}],
}
