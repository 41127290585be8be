"""Kafka into a handler, beside a plain loop over a consumer: messages per second, the ways taking turns.

    python bench/kafka.py [--turns 5] [--messages 800000]

The brokers are librdkafka's own for tests, in a process of their own. They keep 5 MB per partition, so there are 16
partitions. A rate is of wall time; CPU is all threads of the reading process, librdkafka's own among them.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable
from functools import partial
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "support"))

from kafka_mock import PROFILE, Cluster, kafka, records, trade
from turns import Taken, in_turns, run_parts, taken

import strand
from strand.feeds.live.kafka import KafkaFeed

PARTITIONS, SYMBOLS = 16, 160


def brokers(channel: Connection, count: int) -> None:
    """Makes the topics, and waits until the other process has read them."""
    cluster = Cluster()
    names = [f"S{n}" for n in range(SYMBOLS)]
    for topic in ("ticks", "json"):
        cluster.topic(topic, PARTITIONS)
    # The brokers answer with one batch of a partition at a time: small batches would bound the rate.
    large = {"linger.ms": 500, "batch.size": 1_000_000, "batch.num.messages": 10_000}
    cluster.send("ticks", records(names, count, spread=PARTITIONS), **large)
    json = ((None, trade(names[n % SYMBOLS], n // SYMBOLS + 1), n % PARTITIONS) for n in range(count // 2))
    cluster.send("json", json, **large)
    channel.send(cluster.servers)
    channel.recv()
    cluster.close()


def plain(servers: str, topic: str) -> int:
    """Reads a topic to its end by batches, and takes each message's value and key."""
    consumer = kafka.Consumer(
        {"bootstrap.servers": servers, "group.id": "plain", "enable.partition.eof": True, "log_level": 0}
    )
    consumer.assign([kafka.TopicPartition(topic, n, 0) for n in range(PARTITIONS)])
    seen = ended = 0
    while ended < PARTITIONS:
        messages = consumer.consume(10_000, 0.005)
        found = [(message.key(), message.value()) for message in messages if message.error() is None]
        seen += len(found)
        ended += len(messages) - len(found)
    consumer.close()
    return seen


def into(handler: str, topic: str, profile: Any = None) -> Callable[[str], int]:
    """Reads a topic to its end into a handler."""

    def run(servers: str) -> int:
        result = strand.replay(KafkaFeed(servers, topic, profile, until_end=True), handler)
        return result.feed_statistics["messages"]

    return run


def topics(turns: int, messages: int) -> None:
    """Prints the median of each way, and the least and the greatest rate."""
    channel, other = get_context("spawn").Pipe()
    process = get_context("spawn").Process(target=brokers, args=(other, messages), daemon=True)  # it ends with this one
    process.start()
    servers = channel.recv()
    ways: dict[str, Callable[[str], int]] = {
        "records: plain loop": lambda where: plain(where, "ticks"),
        "records: into count": into("count", "ticks"),
        "records: into vwap": into("vwap", "ticks"),
        "JSON: plain loop": lambda where: plain(where, "json"),
        "JSON: into vwap": into("vwap", "json", PROFILE),
    }
    expected = {"records": messages, "JSON": messages // 2}

    def read(name: str) -> Taken:
        seen, its = taken(ways[name], servers)
        assert seen == expected[name.partition(":")[0]], (name, seen)
        return its

    turns_of = in_turns({name: partial(read, name) for name in ways}, turns, warm=0)
    channel.send(None)
    process.join()
    for name, found in turns_of.items():
        count = expected[name.partition(":")[0]]
        rates = [count / one.wall / 1e3 for one in found]
        cpu = statistics.median(one.cpu for one in found) / count * 1e6
        print(
            f"{name:22} {statistics.median(rates):7,.0f} k messages/s ({min(rates):,.0f} to {max(rates):,.0f}), "
            f"{cpu:.2f} us of CPU each, none lost"
        )


if __name__ == "__main__":
    run_parts(__doc__, {"topics": topics}, 5, messages={"type": int, "default": 800_000, "help": "records"})
