"""Messages of several Kafka partitions: their order by time, whatever is read first."""

from __future__ import annotations

import heapq
import random
import threading
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from kafka_mock import PROFILE, Cluster, cluster, kafka, records, trade
from reading import read, ticks_of

import strand
from strand import ticks
from strand.errors import FormatError
from strand.feeds.live import consumer, messages, partitions
from strand.feeds.live import kafka as kafka_feeds

pytestmark = pytest.mark.python


#: The changes of a group in the middle of a look for messages: "assign", "revoke" or "lost", and partitions.
Changes = list[tuple[str, list[int]]]


class Scripted(kafka.Consumer):  # type: ignore[misc]
    """A consumer whose group changes as a test says, and which tells of its calls."""

    def __init__(self, settings: dict[str, Any]) -> None:
        super().__init__(settings)
        self.received = 0
        self.told: dict[str, Any] = {}
        self.least_s = 0.0

    def subscribe(self, _: Any, **told: Any) -> None:
        self.told = told

    def consume(self, most: int, timeout: float) -> list[Any]:
        for kind, numbers in self.changes():
            self.told[f"on_{kind}"](self, [kafka.TopicPartition("ticks", number) for number in numbers])
        found: list[Any] = super().consume(most, max(timeout, self.least_s))
        self.received += sum(each.error() is None for each in found)
        return found

    def changes(self) -> Changes:
        return []


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


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("ms", [-2, 9_223_372_036_855, 1_700_000_000_000_000, 2**62])
def test_a_message_of_json_with_a_time_that_no_tick_holds_is_an_error_or_left_out(ms: int, count: int) -> None:
    times = [1_000, 2_000, ms, 3_000]
    sent = [(None, trade("X", n), count - 1, time) for n, time in enumerate(times)]
    with cluster(partitions=count) as kafka:
        kafka.send("ticks", sent)
        found, error = read(kafka.feed("ticks", PROFILE))
        assert found["ts_recv"].tolist() == [10**9, 2 * 10**9]
        assert isinstance(error, FormatError)
        assert f"partition {count - 1}, offset 2: has the time {ms:,} ms since 1970" in str(error)
        feed = kafka.feed("ticks", PROFILE, on_bad_record="skip")
        assert ticks_of(feed)["sequence"].tolist() == [0, 1, 3]
        assert feed.skipped.total == 1


def test_a_message_of_json_without_a_time_has_that_of_its_receipt() -> None:
    with cluster() as kafka:
        kafka.send("ticks", [(None, trade("X", 1), 0, -1)])
        before = time.time_ns()
        (received,) = ticks_of(kafka.feed("ticks", PROFILE))["ts_recv"].tolist()
        assert before <= received <= time.time_ns()


def test_keys_count_among_the_bytes_that_wait_of_a_partition(monkeypatch: pytest.MonkeyPatch) -> None:
    paused: list[int] = []

    class Reader(Scripted):
        def assign(self, places: list[Any]) -> None:
            super().assign(places)
            super().pause([kafka.TopicPartition("ticks", 1)])  # the other one gets ahead

        def pause(self, places: list[Any]) -> None:
            super().pause(places)
            paused.append(self.received)
            self.resume([kafka.TopicPartition("ticks", 1)])

    monkeypatch.setattr(kafka, "Consumer", Reader)
    monkeypatch.setattr(partitions, "_AHEAD_BYTES", 1_000_000)
    keys = ["K" * 10_000 + str(n) for n in range(2)]
    with cluster(partitions=2) as cluster_:
        cluster_.send("ticks", [(keys[0], message("", n, n), 0) for n in range(1, 301)])
        cluster_.send("ticks", [(keys[1], message("", 400, 1), 1)])
        found = ticks_of(cluster_.feed("ticks", batch_messages=20))
    assert len(found) == 301
    assert paused[0] <= 120


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


def test_messages_that_waited_for_a_partition_come_first_when_it_goes_to_another_member(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Member(Scripted):
        step = 0

        def changes(self) -> Changes:
            if Member.step == 0:
                Member.step = 1
                self.told["on_assign"](self, [kafka.TopicPartition("ticks", number) for number in (0, 1)])
                self.pause([kafka.TopicPartition("ticks", 1)])  # it brings nothing
            elif Member.step == 2:
                self.least_s = 0.0
            elif Member.step == 1 and self.received == 100:
                Member.step, self.least_s = 2, 30.0  # this look finds messages
                cluster_.send("ticks", records(["A"], 100, first=101))
                return [("revoke", [1])]
            return []

    monkeypatch.setattr(kafka, "Consumer", Member)
    with cluster(partitions=2) as cluster_:
        cluster_.send("ticks", [*records(["A"], 100), *[(key, value, 1) for key, value, _ in records(["B"], 5)]])
        feed = cluster_.feed(
            "ticks", until_end=False, share=True, consumer_group="g", wait_s=None, max_messages=200, max_seconds=60
        )
        found = [number for batch in feed for number in batch["sequence"].tolist()]
        feed.close()
        assert cluster_.committed("ticks", "g", 2)[0] == 200
    assert found == list(range(1, 201))


@pytest.mark.parametrize("seed", range(3))
def test_each_message_comes_once_and_in_order_while_partitions_come_and_go(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = random.Random(seed)
    parts = [
        [(f"P{number}", n * draw.choice([1, 3]) + 1) for n in range(draw.choice([200, 1_000]))] for number in range(3)
    ]
    commits: list[list[int]] = []
    handled = [0, 0, 0]

    class Member(Scripted):
        has: set[int]
        n_changes = 0

        def changes(self) -> Changes:
            if not Member.n_changes:
                self.has = set()
            if Member.n_changes > 25:
                missing = {0, 1, 2} - self.has
                self.has |= missing
                return [("assign", [number]) for number in missing]
            if Member.n_changes and draw.random() < 0.8:
                return []
            Member.n_changes += 1
            number = draw.randrange(3)
            self.has ^= {number}
            return [("assign" if number in self.has else draw.choice(["revoke", "lost"]), [number])]

        def commit(self, *, offsets: list[Any], asynchronous: bool) -> Any:
            for each in offsets:
                assert each.offset <= handled[each.partition]
                commits.append([each.partition, each.offset])
            return super().commit(offsets=offsets, asynchronous=asynchronous)

    monkeypatch.setattr(kafka, "Consumer", Member)
    monkeypatch.setattr(partitions, "_AHEAD_BYTES", 20_000)
    with cluster(partitions=3) as cluster_:
        send(cluster_, parts, draw)
        feed = cluster_.feed(
            "ticks", until_end=False, share=True, consumer_group="g", batch_messages=draw.choice([1, 20, 500]),
            max_messages=sum(map(len, parts)), max_seconds=200, commit_s=1e-6, idle_timeout_s=None,
        )  # fmt: skip
        found: dict[str, list[int]] = {f"P{number}": [] for number in range(3)}
        for batch in feed:
            for tick in batch:
                symbol = feed.symbols[tick["instrument_id"]]
                found[symbol].append(int(tick["sequence"]))
                handled[int(symbol[1])] += 1
        feed.close()
        assert cluster_.committed("ticks", "g", 3) == [len(part) for part in parts]
    assert found == {f"P{number}": list(range(1, len(part) + 1)) for number, part in enumerate(parts)}
    for number in range(3):
        offsets = [offset for partition, offset in commits if partition == number]
        assert offsets == sorted(offsets)


def test_what_comes_while_a_partition_that_was_read_to_its_end_is_paused_comes_in_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(partitions, "_AHEAD_BYTES", 20_000)
    sent = [(f"P{n % 2}", message(f"P{n % 2}", 1 + n, 1 + n // 2) * 10, n % 2) for n in range(2_000)]
    paused: list[int] = []

    class Reader(Scripted):
        def assign(self, places: list[Any]) -> None:
            super().assign(places)
            super().pause([kafka.TopicPartition("ticks", 1)])  # the other one gets ahead

        def pause(self, places: list[Any]) -> None:
            super().pause(places)
            if not paused:
                cluster_.send("ticks", [each for each in sent if not each[2]][200:])
                self.resume([kafka.TopicPartition("ticks", 1)])
            paused.extend(each.partition for each in places)

    monkeypatch.setattr(kafka, "Consumer", Reader)
    with cluster(partitions=2) as cluster_:
        cluster_.send("ticks", [each for each in sent if not each[2]][:200])
        cluster_.send("ticks", [each for each in sent if each[2]])
        feed = cluster_.feed("ticks", until_end=False, wait_s=None, max_messages=2_000, max_seconds=60)
        found = ticks_of(feed)["ts_recv"][::10]
    assert paused[0] == 0
    assert found.tolist() == list(range(1, 2_001))


def test_what_waits_of_all_partitions_together_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first partition waits until the others, which have far more, are paused."""
    count, each_has, size = 16, 300, 10 * 64
    monkeypatch.setattr(partitions, "_TOGETHER_BYTES", count * 20_000)
    parts = [[(f"P{number}", 1 + n * count + number) for n in range(each_has)] for number in range(count)]
    waiting: list[int] = []

    class Reader(Scripted):
        def assign(self, places: list[Any]) -> None:
            super().assign(places)
            super().pause([kafka.TopicPartition("ticks", 0)])

        def consume(self, most: int, timeout: float) -> list[Any]:
            found = super().consume(most, max(timeout, 0.5) if not waiting else timeout)
            if not found and most == 1 and not waiting and self.received:
                waiting.append(self.received)
                self.resume([kafka.TopicPartition("ticks", 0)])
            return found

    monkeypatch.setattr(kafka, "Consumer", Reader)
    with cluster(partitions=count) as cluster_:
        for number, part in enumerate(parts):
            cluster_.send(
                "ticks", [(name, message(name, time, 1 + n) * 10, number) for n, (name, time) in enumerate(part)]
            )
        feed = cluster_.feed("ticks", wait_s=None, batch_messages=20)
        found = [int(time) for batch in feed for time in batch["ts_recv"][::10].tolist()]
    assert found == list(range(1, count * each_has + 1))
    assert count < waiting[0] <= count * (20_000 // size + 20)


def test_a_partition_that_comes_back_is_waited_for_until_its_end_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    second = [kafka.TopicPartition("ticks", 1)]

    class Member(Scripted):
        step = 0

        def changes(self) -> Changes:
            Member.step += 1
            if Member.step == 1:
                return [("assign", [0, 1])]
            if self.received == 20 and "assign" in steps:
                steps.remove("assign")
                cluster_.send("ticks", late)
                self.told["on_revoke"](self, second)
                self.told["on_assign"](self, second)
                self.pause(second)  # the other partition's messages come first
            elif self.received == 30 and "resume" in steps:
                steps.remove("resume")
                self.resume(second)
            return []

    steps = ["assign", "resume"]
    late = [(f"P{n % 2}", message(f"P{n % 2}", n, n // 2), n % 2) for n in range(21, 41)]
    monkeypatch.setattr(kafka, "Consumer", Member)
    with cluster(partitions=2) as cluster_:
        cluster_.send("ticks", [(f"P{n % 2}", message(f"P{n % 2}", n, n // 2), n % 2) for n in range(1, 21)])
        feed = cluster_.feed(
            "ticks", until_end=False, share=True, consumer_group="g", wait_s=None, max_messages=40, max_seconds=60
        )
        found = ticks_of(feed)["ts_recv"].tolist()
    assert sorted(found) == list(range(1, 41))
    assert found[20:] == list(range(21, 41))


def test_a_partition_that_comes_while_the_last_commit_is_tried_again_is_no_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Member(Scripted):
        n_commits, is_begun = 0, False

        def changes(self) -> Changes:
            is_begun, self.is_begun = self.is_begun, True
            return [] if is_begun else [("assign", [0])]

        def commit(self, **given: Any) -> Any:
            self.n_commits += 1
            if self.n_commits == 1:
                raise kafka.KafkaException(kafka.KafkaError(kafka.KafkaError.REBALANCE_IN_PROGRESS))
            return super().commit(**given)

        def poll(self, timeout: float) -> Any:
            self.told["on_assign"](self, [kafka.TopicPartition("ticks", 1)])
            return super().poll(timeout)

    monkeypatch.setattr(kafka, "Consumer", Member)
    with cluster(partitions=2) as cluster_:
        cluster_.send("ticks", records(["A"], 10))
        feed = cluster_.feed(
            "ticks", until_end=False, share=True, consumer_group="g", max_messages=10, max_seconds=60, commit_s=3_600
        )
        assert len(ticks_of(feed)) == 10
        feed.close()
        monkeypatch.undo()
        assert cluster_.committed("ticks", "g", 2)[0] == 10
    assert [event.text for event in feed.events if event.kind == "assigned"] == ["ticks[0]", "ticks[1]"]


@pytest.mark.parametrize("options", [{"idle_timeout_s": 100.0}, {"idle_timeout_s": None, "wait_s": 100.0}])
def test_the_time_that_a_caller_takes_for_a_batch_is_no_silence_of_the_brokers(
    options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    past_s = 0.0
    clock = SimpleNamespace(monotonic=lambda: time.monotonic() + past_s, sleep=time.sleep, time_ns=time.time_ns)
    for module in (kafka_feeds, consumer, messages):
        monkeypatch.setattr(module, "time", clock)
    with cluster(partitions=2) as kafka:
        for partition in (0, 1):
            kafka.send("ticks", [each for each in records(["A", "B"], 4_000, spread=2) if each[2] == partition])
        feed = kafka.feed("ticks", batch_messages=50, **options)
        found: list[int] = []
        for batch in feed:
            found += batch["ts_recv"].tolist()
            past_s += 1_000
    assert len(found) == 4_000
    assert found == sorted(found)
    assert not feed.statistics()["overtaken"]


def test_a_feed_without_a_group_keeps_no_offsets_of_its_batches() -> None:
    sizes = []
    with cluster() as kafka:
        kafka.send("ticks", records(["A"], 2_000))
        for number, batch in enumerate(kafka.feed("ticks", batch_messages=1)):
            if number == 100:
                tracemalloc.start()
            if number in (500, 1_900):
                sizes.append(tracemalloc.get_traced_memory()[0])
            del batch
        tracemalloc.stop()
    assert sizes[1] - sizes[0] < 200_000


def test_a_stop_while_no_broker_tells_of_new_partitions_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumer, "_METADATA_S", 0.0)
    with cluster() as kafka:
        kafka.send("ticks", records(["A"], 20))
        feed = kafka.feed("ticks", until_end=False, idle_timeout_s=None, max_seconds=60)
        found = 0
        for batch in feed:
            found += len(batch)
            if len(batch) and found == 20:
                kafka.down()
                stopper = threading.Timer(0.5, feed.stop)
                stopper.start()
        feed.close()
        stopper.join()
    assert found == 20


def test_a_partition_that_the_saved_state_does_not_know_is_read_from_its_start() -> None:
    with cluster(partitions=2) as kafka:
        kafka.send("ticks", records(["A", "B"], 20, spread=2))
        first = kafka.feed("ticks", begin="latest")
        assert not len(ticks_of(first))
        state = dict(first.state())
        state["offsets"] = [each for each in state["offsets"] if each[1] == 0]  # the topic got the other one later
        feed = kafka.feed("ticks", begin="latest")
        feed.resume(state)
        assert ticks_of(feed)["sequence"].tolist() == list(range(1, 11))
        assert list(feed.symbols) == ["B"]


@pytest.mark.parametrize("share", [False, True])
def test_a_feed_goes_on_behind_messages_that_retention_took_while_others_waited(
    share: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    second = kafka.TopicPartition("ticks", 1)
    big = [(f"B{n}", message(f"B{n}", 5, 1) * 4_000, 1) for n in range(30)]  # 7.7 MB, of which the cluster keeps 5

    class Reader(Scripted):
        is_begun = is_sent = False

        def changes(self) -> Changes:
            if not self.is_begun:
                self.is_begun = True
                if share:
                    self.told["on_assign"](self, [kafka.TopicPartition("ticks", number) for number in (0, 1)])
                self.pause([second])  # it brings nothing
            elif self.received == 50 and not self.is_sent:
                self.is_sent = True
                cluster_.send("ticks", big, **{"linger.ms": 0, "batch.num.messages": 1})
                self.resume([second])
            return []

    monkeypatch.setattr(kafka, "Consumer", Reader)
    with cluster(partitions=2) as cluster_:
        cluster_.send("ticks", [("A", message("A", 100 + n, n + 1), 0) for n in range(50)])
        cluster_.send("ticks", [("B", message("B", 1 + n, n + 1), 1) for n in range(5)])
        feed = cluster_.feed(
            "ticks", until_end=False, on_gone="earliest", wait_s=None, consumer_group="g", share=share, max_seconds=60,
            idle_timeout_s=5.0,
        )  # fmt: skip
        found = [feed.symbols[tick["instrument_id"]] for batch in feed for tick in batch]
        feed.close()
        gone = feed.statistics()["gone_messages"]
        assert cluster_.committed("ticks", "g", 2) == [50, 35]
    assert gone > 5
    assert len(found) == 4_000 * (35 - gone) + 50
    assert found[-50:] == ["A"] * 50


class Reset:
    """The event of librdkafka for an offset that is gone."""

    def error(self) -> Any:
        return kafka.KafkaError(kafka.KafkaError._AUTO_OFFSET_RESET)

    def topic(self) -> str:
        return "ticks"

    def partition(self) -> int:
        return 0

    def offset(self) -> int:
        return 110


def test_offsets_of_a_topic_that_is_made_anew_are_committed_while_old_messages_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The new topic has the messages that the old one had before the feed began.

    Of the 70 messages, 51 are its own: the last one of the other partition is no earlier than these.
    """
    places = [kafka.TopicPartition("ticks", number) for number in (0, 1)]

    class Reader(Scripted):
        step = 0

        def assign(self, given: list[Any]) -> None:
            super().assign(given)
            super().pause(places[1:])  # what comes of the first one waits

        def consume(self, most: int, timeout: float) -> list[Any]:
            if not self.step:
                self.step = 1
                cluster_.send(
                    "ticks", [(f"P{p}", message(f"P{p}", 1_000 + n, 101 + n), p) for p in (0, 1) for n in range(10)]
                )
            if self.step == 1 and self.received == 10 and most == 1:
                self.step = 2
                self.resume(places[1:])
                return [Reset()]
            return super().consume(most, timeout)

    monkeypatch.setattr(kafka, "Consumer", Reader)
    with cluster(partitions=2) as cluster_:
        cluster_.send("ticks", [("P0", message("P0", 1 + n, 1 + n), 0) for n in range(100)])
        feed = cluster_.feed(
            "ticks", until_end=False, begin="latest", on_gone="earliest", wait_s=None, consumer_group="g",
            max_messages=70, max_seconds=60,
        )  # fmt: skip
        found = [(feed.symbols[tick["instrument_id"]], int(tick["sequence"])) for batch in feed for tick in batch]
        feed.close()
        assert cluster_.committed("ticks", "g", 2) == [51, 9]
    first = [number for name, number in found if name == "P0"]
    assert first == [*range(101, 111), *range(1, 52)]
