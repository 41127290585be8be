"""Messages of several Kafka partitions: their order by time, whatever is read first."""

from __future__ import annotations

import heapq
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kafka_mock import PROFILE, Cluster, cluster, records, trade
from reading import ticks_of

import strand
from strand import ticks
from strand.feeds.live import partitions

pytestmark = pytest.mark.python


def message(symbol: str, time: int, sequence: int) -> bytes:
    """A record of a trade. ``time``: ns."""
    made = ticks.zeros(1)
    made["ts_event"] = made["ts_recv"] = time
    made["price"], made["size"], made["sequence"] = 100 * ticks.PRICE_SCALE, 1, sequence
    made["kind"], made["action"], made["side"] = ticks.KIND_TRADE, b"T", b"A"
    return made.tobytes()


def drawn(draw: random.Random, count: int) -> list[list[tuple[str, int]]]:
    """The messages of some partitions, by symbol and time: some partitions have many, some few or none, and times
    stand still, leap, and sometimes fall."""
    found: list[list[tuple[str, int]]] = []
    for number in range(count):
        time, sent = draw.randrange(1, 50), []
        for _ in range(draw.choice([0, 5, 200, 1_000])):
            sent.append((f"P{number}{draw.choice('ABC')}", max(1, time - draw.choice([0] * 50 + [30]))))
            time += draw.choice([0, 0, 1, 1, 5, 100])
        found.append(sent)
    return found


def merged(parts: list[list[tuple[str, int]]]) -> Iterator[tuple[str, int]]:
    """The earliest message of those that are the next one of their partition; of equal ones the first partition's."""
    heads = [(part[0][1], number, 0) for number, part in enumerate(parts) if part]
    heapq.heapify(heads)
    while heads:
        _, number, at = heapq.heappop(heads)
        yield parts[number][at]
        if at + 1 < len(parts[number]):
            heapq.heappush(heads, (parts[number][at + 1][1], number, at + 1))


def send(kafka: Cluster, parts: list[list[tuple[str, int]]], draw: random.Random) -> None:
    """Sends messages in batches that do not go along with the time."""
    rest = [[(symbol, message(symbol, time, n + 1), number) for n, (symbol, time) in enumerate(part)]
            for number, part in enumerate(parts)]  # fmt: skip
    while any(rest):
        part = draw.choice([part for part in rest if part])
        n = draw.choice([1, 30, 2_000])
        kafka.send("ticks", part[:n])
        del part[:n]


@pytest.mark.parametrize("seed", range(8))
def test_messages_come_in_the_order_of_their_times_also_from_any_point_on(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = random.Random(seed)
    parts = drawn(draw, draw.choice([2, 3, 7]))
    if seed % 2:
        monkeypatch.setattr(partitions, "_AHEAD_BYTES", 10_000)  # partitions wait, and go on
    expected = list(merged(parts))
    with cluster(partitions=len(parts)) as kafka:
        send(kafka, parts, draw)
        state: Any = None
        found: list[tuple[str, int]] = []
        while True:  # a feed that is stopped somewhere, and the next one
            feed = kafka.feed("ticks", batch_messages=draw.choice([1, 50, 3_000]))
            if state is not None:
                feed.resume(state)
            n_batches = draw.choice([2, 10, 1_000_000])
            for batch in feed:
                found += [(feed.symbols[t["instrument_id"]], int(t["ts_recv"])) for t in batch]
                if not (n_batches := n_batches - 1):
                    break
            state = feed.state()
            feed.close()
            if n_batches:
                break
    assert found == expected


def test_bars_of_a_length_over_partitions_are_those_of_one_partition(tmp_path: Path) -> None:
    symbols = [f"S{n}" for n in range(8)]
    with cluster(partitions=4) as kafka:
        kafka.topic("one")
        kafka.send("one", records(symbols, 4_000))
        for partition in draw_order(4):
            kafka.send("ticks", [each for each in records(symbols, 4_000, spread=4) if each[2] == partition])
        for topic in ("one", "ticks"):
            result = strand.replay(kafka.feed(topic), strand.bars("1s"), out={"bars": tmp_path / f"{topic}.csv"})
            assert not result.warnings
    assert (tmp_path / "ticks.csv").read_bytes() == (tmp_path / "one.csv").read_bytes()


def draw_order(count: int) -> list[int]:
    return random.Random(3).sample(range(count), count)


def test_messages_of_json_come_in_the_order_of_their_own_times() -> None:
    with cluster(partitions=3) as kafka:
        for n in range(60):
            kafka.send("ticks", [(None, trade(f"X{n % 3}", n), n % 3)])
        found = ticks_of(feed := kafka.feed("ticks", PROFILE))
    assert (np.diff(found["ts_recv"]) >= 0).all()
    assert sorted(found["sequence"].tolist()) == list(range(60))
    assert sorted(feed.symbols) == ["X0", "X1", "X2"]


def test_a_partition_without_messages_holds_no_others_back() -> None:
    with cluster(partitions=3) as kafka:
        kafka.send("ticks", [(key, value, 1) for key, value, _ in records(["A"], 10)])
        feed = kafka.feed("ticks", until_end=False, wait_s=None, max_messages=11, max_seconds=60)
        found: list[int] = []
        for batch in feed:
            found += batch["sequence"].tolist()
            if len(found) == 10:  # the others have none, and one more comes to this one alone
                kafka.send("ticks", [(key, value, 1) for key, value, _ in records(["A"], 1, first=11)])
        feed.close()
    assert found == list(range(1, 12))


@pytest.mark.parametrize("idle_s", [None, 1.0])
def test_messages_wait_for_a_partition_that_nobody_can_read_for_a_bounded_time(idle_s: float | None) -> None:
    told: list[str] = []
    with cluster(partitions=2, brokers=2) as kafka:
        kafka.lead("ticks", 0, 1)
        kafka.lead("ticks", 1, 2)
        kafka.send("ticks", records(["A", "B"], 20_000, spread=2), **{"batch.num.messages": 100, "linger.ms": 0})
        feed = kafka.feed(
            "ticks", until_end=False, wait_s=0.5 if idle_s is None else None, idle_timeout_s=idle_s, max_seconds=60,
            on_event=lambda event: told.append(event.kind), config={"max.partition.fetch.bytes": 10_000},
        )  # fmt: skip
        found: list[int] = []
        for batch in feed:
            kafka.down(2)
            found += batch["sequence"][batch["instrument_id"] == 0].tolist()
            if len(found) == 10_000 and idle_s is None:
                feed.stop()
        feed.close()
    assert next(iter(feed.symbols)) == "A"
    assert found == list(range(1, 10_001))
    assert ("overtaken" in told) == (idle_s is None)
    assert feed.statistics()["overtaken"] == told.count("overtaken")
    assert feed.statistics()["messages"] < 20_000


def test_a_message_that_is_no_record_does_not_hold_up_its_partition() -> None:
    sent = records(["A", "B"], 100, spread=2)
    sent.insert(20, ("A", b"\x70" * 64, 0))  # a time of the year 2226, were it one
    sent.insert(40, ("A", b"x", 0))
    with cluster(partitions=2) as kafka:
        kafka.send("ticks", sent)
        found = ticks_of(feed := kafka.feed("ticks", on_bad_record="skip"))
    assert feed.skipped.total == 2
    assert (np.diff(found["ts_recv"]) > 0).all()


def test_a_feed_ends_where_the_partitions_ended_when_it_began() -> None:
    with cluster(partitions=2) as kafka:
        kafka.send("ticks", records(["A", "B"], 200, spread=2))
        feed = kafka.feed("ticks", batch_messages=10)
        found: list[int] = []
        for batch in feed:
            kafka.send("ticks", records(["A", "B"], 40, first=101 + len(found), spread=2))  # a producer that goes on
            found += batch["sequence"].tolist()
    assert found == [1 + n // 2 for n in range(200)]
