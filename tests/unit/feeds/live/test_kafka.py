"""Kafka topics as ticks, from librdkafka's own cluster for tests: order, offsets, faults, members of a group."""

from __future__ import annotations

import random
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_here import run_here
from engine_support import wait_until
from kafka_mock import (
    COORDINATOR_NOT_AVAILABLE,
    FETCH,
    ILLEGAL_GENERATION,
    NOT_LEADER,
    OFFSET_COMMIT,
    PROFILE,
    REBALANCE_IN_PROGRESS,
    REQUEST_TIMED_OUT,
    cluster,
    records,
    trade,
)
from reading import ticks_of

import strand
from strand import ticks
from strand.errors import ConfigurationError, FeedError, FormatError, GapError, HandlerError
from strand.feeds.formats.json.ticks import FeedEvent
from strand.feeds.live.kafka import KafkaFeed

pytestmark = pytest.mark.python
#: Settings with which members of a group soon hear of others, and join anew where the cluster forgot their request.
QUICK = {"heartbeat.interval.ms": 300, "session.timeout.ms": 3_000, "max.poll.interval.ms": 6_000}


def test_records_become_the_ticks_that_were_sent_with_the_symbol_of_their_key() -> None:
    sent = records(["AAA", "BBB", "CCC"], 3_000)
    with cluster() as kafka:
        kafka.send("ticks", sent)
        found = ticks_of(feed := kafka.feed("ticks"))
    assert list(feed.symbols) == ["AAA", "BBB", "CCC"]
    assert found["instrument_id"].tolist() == [n % 3 for n in range(3_000)]
    found["instrument_id"] = 0
    assert found.tobytes() == b"".join(value or b"" for _, value, _ in sent)


def test_a_message_may_hold_many_records_and_ids_have_names_where_there_is_no_key() -> None:
    made = ticks.zeros(5)
    made["instrument_id"], made["sequence"] = [1, 0, 1, 1, 0], range(5)
    with cluster() as kafka:
        kafka.send("ticks", [(None, made.tobytes(), 0), ("X", made[:2].tobytes(), 0), ("A", made[4:].tobytes(), 0)])
        found = ticks_of(feed := kafka.feed("ticks", symbols=["A", "B"]))
    assert [feed.symbols[n] for n in found["instrument_id"]] == ["B", "A", "B", "B", "A", "X", "X", "A"]
    assert found["sequence"].tolist() == [0, 1, 2, 3, 4, 0, 1, 4]


def test_json_messages_are_read_by_the_profile_of_files_and_get_the_time_of_the_message() -> None:
    with cluster() as kafka:
        kafka.send("ticks", [(None, trade("X", n), 0) for n in range(1, 101)])
        found = ticks_of(feed := kafka.feed("ticks", PROFILE))
        stored = kafka_times(kafka.servers, "ticks")
    assert list(feed.symbols) == ["X"]
    assert found["sequence"].tolist() == list(range(1, 101))
    assert set(found["price"].tolist()) == {100_500_000_000}
    assert (found["ts_recv"] // 1_000_000).tolist() == stored
    assert np.array_equal(found["ts_event"], found["ts_recv"])


def kafka_times(servers: str, topic: str) -> list[int]:
    """The times of a topic's messages, ms, by a consumer without Strand."""
    plain: Any = pytest.importorskip("confluent_kafka")
    consumer = plain.Consumer({"bootstrap.servers": servers, "group.id": "plain", "enable.partition.eof": True})
    consumer.assign([plain.TopicPartition(topic, 0, 0)])
    times: list[int] = []
    while (message := consumer.poll(10)) is not None and message.error() is None:
        times.append(message.timestamp()[1])
    consumer.close()
    return times


def test_a_profile_may_name_the_key_as_symbol() -> None:
    profile = {**PROFILE, "message": [{**PROFILE["message"][0], "symbol": "@key"}]}
    with cluster() as kafka:
        kafka.send("ticks", [(f"K{n % 2}", trade("X", n), 0) for n in range(4)])
        found = ticks_of(feed := kafka.feed("ticks", profile))
    assert [feed.symbols[n] for n in found["instrument_id"]] == ["K0", "K1", "K0", "K1"]


def test_a_message_without_a_value_is_counted_and_makes_no_tick() -> None:
    with cluster() as kafka:
        kafka.send("ticks", [*records(["A"], 3), ("A", None, 0)])
        feed = kafka.feed("ticks")
        assert len(ticks_of(feed)) == 3
        assert feed.statistics()["tombstones"] == 1
        kafka.topic("json")
        kafka.send("json", [("A", None, 0), ("A", trade("A", 1), 0)])
        feed = kafka.feed("json", PROFILE)
        assert len(ticks_of(feed)) == 1
        assert feed.statistics()["tombstones"] == 1


@pytest.mark.parametrize("workers", [0, 1, 2])
def test_every_offset_is_committed_when_all_is_handled_and_the_next_run_goes_on_there(workers: int) -> None:
    with cluster(partitions=2) as kafka:
        kafka.send("ticks", records(["A", "B"], 500, spread=2))
        first = strand.replay(kafka.feed("ticks", consumer_group="g"), "count", workers=workers)
        assert kafka.committed("ticks", "g", 2) == [250, 250]
        kafka.send("ticks", records(["A", "B"], 100, first=251, spread=2))
        second = strand.replay(kafka.feed("ticks", consumer_group="g"), "count", workers=workers)
        assert kafka.committed("ticks", "g", 2) == [300, 300]
    assert (first.ticks, second.ticks) == (500, 100)


def test_no_offset_is_committed_beyond_a_tick_that_is_being_handled() -> None:
    reached, go_on = threading.Event(), threading.Event()

    class Slow:
        def on_tick(self, tick: Any) -> None:
            if tick.sequence == 301:
                reached.set()
                assert go_on.wait(30)

    result: list[Any] = []
    with cluster() as kafka:
        kafka.send("ticks", records(["A"], 1_000))
        feed = kafka.feed(
            "ticks", consumer_group="g", batch_messages=100, commit_s=0.01, until_end=False, max_messages=1_001
        )

        def run() -> None:
            result.append(strand.replay(feed, Slow, workers=1, pin_publisher=False))

        thread = threading.Thread(target=run)
        thread.start()
        assert reached.wait(30)
        wait_until(lambda: feed.statistics()["messages"] == 1_000)
        for _ in range(20):
            assert kafka.committed("ticks", "g")[0] <= 300
        go_on.set()
        wait_until(lambda: kafka.committed("ticks", "g") == [1_000])
        feed.stop()
        thread.join()
    assert result[0].ticks == 1_000


@pytest.mark.parametrize("workers", [0, 1])
def test_no_offset_is_committed_beyond_a_tick_whose_handler_failed(workers: int) -> None:
    class Fails:
        def on_tick(self, tick: Any) -> None:
            if tick.sequence == 350:
                raise RuntimeError

    with cluster() as kafka:
        kafka.send("ticks", records(["A"], 1_000))
        with pytest.raises(HandlerError):
            strand.replay(
                kafka.feed("ticks", consumer_group="g", batch_messages=100, commit_s=1e-6), Fails, workers=workers
            )
        assert kafka.committed("ticks", "g")[0] in (-1001, 100, 200, 300)


def test_a_batch_that_a_limit_cuts_is_not_committed() -> None:
    with cluster() as kafka:
        kafka.send("ticks", records(["A"], 1_000))
        strand.replay(kafka.feed("ticks", consumer_group="g", batch_messages=100), "count", limit=250)
        assert kafka.committed("ticks", "g") == [200]


def test_a_commit_that_the_broker_refuses_is_counted_and_made_again() -> None:
    with cluster() as kafka:
        kafka.send("ticks", records(["A"], 1_000))
        kafka.fail(OFFSET_COMMIT, *[ILLEGAL_GENERATION] * 3)
        feed = kafka.feed("ticks", consumer_group="g", batch_messages=10, commit_s=1e-6)
        assert strand.replay(feed, "count").ticks == 1_000
        assert kafka.committed("ticks", "g") == [1_000]
        assert feed.statistics()["commits_failed"] >= 1


def test_a_group_that_may_not_commit_ends_the_feed_behind_what_came() -> None:
    not_authorized = 30
    with cluster() as kafka:
        kafka.send("ticks", records(["A"], 1_000))
        kafka.fail(OFFSET_COMMIT, *[not_authorized] * 50)
        feed = kafka.feed("ticks", consumer_group="g", batch_messages=10, commit_s=1e-6, until_end=False)
        with pytest.raises(FeedError, match=r"offsets of group 'g' cannot be committed: .*authorization") as error:
            strand.replay(feed, "count")
        assert error.value.partial.ticks >= 10


def test_a_symbol_of_a_second_partition_is_an_error_unless_it_may_move() -> None:
    sent = [*records(["A"], 10), *[(key, value, 1) for key, value, _ in records(["A"], 5, first=11)]]
    with cluster(partitions=2) as kafka:
        kafka.send("ticks", sent)
        with pytest.raises(
            FeedError, match=r"partition \d, offset \d: A came from topic ticks, partition \d before"
        ) as e:
            strand.replay(kafka.feed("ticks", consumer_group="g"), "count")
        assert e.value.partial is not None
        result = strand.replay(kafka.feed("ticks", on_moved="continue"), "count")
    assert result.ticks == 15
    assert result.feed_statistics["moved_ticks"] == 10  # five of each partition take turns
    assert "moved symbols" in [warning.kind for warning in result.warnings]


@pytest.mark.parametrize("batch_messages", [1, 1_000])
def test_what_is_behind_a_message_that_ends_the_feed_is_not_counted(batch_messages: int) -> None:
    with cluster() as kafka:
        kafka.send("ticks", [*records(["A"], 5), ("A", None, 0), ("A", b"x", 0), ("A", None, 0), *records(["A"], 5)])
        feed = kafka.feed("ticks", batch_messages=batch_messages)
        with pytest.raises(FormatError, match="offset 6"):
            ticks_of(feed)
    counts = feed.statistics()
    assert (counts["messages"], counts["ticks"], counts["tombstones"]) == (6, 5, 1)


@pytest.mark.parametrize("batch_messages", [1, 7, 1_000])
def test_each_tick_that_comes_from_another_partition_than_the_one_before_it_is_counted(batch_messages: int) -> None:
    sent = [(key, value, n % 3 % 2) for n, (key, value, _) in enumerate(records(["A", "B"], 300))]
    own = [[partition for key, _, partition in sent if key == symbol] for symbol in ("A", "B")]
    expected = sum(one != other for each in own for one, other in pairwise(each))
    with cluster(partitions=2) as kafka:
        kafka.send("ticks", sent)
        feed = kafka.feed("ticks", on_moved="continue", batch_messages=batch_messages)
        assert len(ticks_of(feed)) == 300
    assert feed.statistics()["moved_ticks"] == expected


def test_an_offset_that_retention_took_is_an_error_with_its_cure_or_a_counted_gap() -> None:
    big = [("A", records(["A"], 1)[0][1] * 10_000, 0)] * 20  # 12.8 MB, of which the cluster keeps 5
    with cluster() as kafka:
        kafka.send("ticks", records(["A"], 3))
        assert strand.replay(kafka.feed("ticks", consumer_group="g"), "count").ticks == 3
        kafka.send("ticks", big, **{"linger.ms": 0, "batch.num.messages": 1})
        with pytest.raises(GapError, match=r"offset 3 is gone, and the first one is \d+.*on_gone='earliest'") as error:
            strand.replay(kafka.feed("ticks", consumer_group="g"), "count")
        ((first, low),) = error.value.gaps
        assert first == 3 < low
        result = strand.replay(kafka.feed("ticks", consumer_group="g", on_gone="earliest"), "count")
        assert result.feed_statistics["gone_messages"] == low - 3
        assert result.ticks == 10_000 * (23 - low)
        assert "messages that are gone" in [warning.kind for warning in result.warnings]


def test_an_offset_beyond_a_topic_that_was_made_anew_is_an_error() -> None:
    plain: Any = pytest.importorskip("confluent_kafka")
    with cluster() as kafka:
        kafka.send("ticks", records(["A"], 3))
        consumer = plain.Consumer({"bootstrap.servers": kafka.servers, "group.id": "g"})
        consumer.commit(offsets=[plain.TopicPartition("ticks", 0, 1_000)], asynchronous=False)
        consumer.close()
        with pytest.raises(GapError, match=r"offset 1,000 does not exist, and the last one is 2"):
            ticks_of(kafka.feed("ticks", consumer_group="g"))
        assert len(ticks_of(kafka.feed("ticks", consumer_group="g", on_gone="earliest"))) == 3


def test_messages_that_a_producer_sent_twice_are_left_out_by_their_sequence() -> None:
    sent = records(["A", "B"], 40)
    again = [*sent[:20], *sent[10:30], sent[4], *sent[20:], *sent[-2:]]
    with cluster() as kafka:
        kafka.send("ticks", again)
        found = ticks_of(feed := kafka.feed("ticks", duplicates="drop"))
        kept = ticks_of(kafka.feed("ticks"))
    assert found["sequence"].tolist() == [1 + n // 2 for n in range(40)]
    assert feed.statistics()["duplicates"] == len(again) - 40
    assert len(kept) == len(again)


@pytest.mark.parametrize("seed", range(20))
def test_the_ticks_that_are_left_out_are_those_of_a_plain_loop(seed: int) -> None:
    draw = random.Random(seed)
    messages = []
    for _ in range(300):
        made = ticks.zeros(draw.choice([1, 1, 1, 3]))
        made["sequence"] = sorted(draw.choice([0, *range(1, 60)]) for _ in made) if seed % 2 else draw.randrange(60)
        messages.append((draw.choice("ABC"), made))
    expected, last = [], Counter[str]()
    for symbol, made in messages:
        before = last[symbol]
        expected += [(symbol, int(s)) for s in made["sequence"] if s == 0 or s > before]
        last[symbol] = max(before, *made["sequence"].tolist())
    with cluster() as kafka:
        kafka.send("ticks", [(symbol, made.tobytes(), 0) for symbol, made in messages])
        found = ticks_of(feed := kafka.feed("ticks", duplicates="drop", batch_messages=draw.choice([7, 50, 1_000])))
    assert [(feed.symbols[t["instrument_id"]], int(t["sequence"])) for t in found] == expected


BAD = [
    (("A", b"x" * 63, 0), "63 bytes, which are no whole records of 64"),
    (("A", b"\xff" * 64, 0), "no record of strand.TICK"),
    ((None, bytes(64), 0), "no key, and its instrument_id 0 has no name"),
    (("", bytes(64), 0), "no name of a symbol"),
    ((b"\xff\xfe", bytes(64), 0), "no name of a symbol in UTF-8"),
    (("A\n", bytes(64), 0), "no name of a symbol"),
]


@pytest.mark.parametrize(("bad", "why"), BAD)
def test_a_message_that_is_no_record_is_an_error_with_its_place_behind_all_before_it(bad: Any, why: str) -> None:
    with cluster() as kafka:
        kafka.send("ticks", [*records(["A"], 5), bad, *records(["A"], 5, first=6)])
        with pytest.raises(FormatError, match=rf"topic ticks, partition 0, offset 5: .*{why}") as error:
            strand.replay(kafka.feed("ticks", consumer_group="g"), "count")
        assert error.value.partial.ticks == 5
        assert kafka.committed("ticks", "g") == [5]
        feed = kafka.feed("ticks", on_bad_record="skip")
        assert strand.replay(feed, "count").ticks == 10
        assert feed.skipped.total == 1


def test_json_that_cannot_be_read_is_an_error_with_its_place_behind_all_before_it() -> None:
    sent = [(None, trade("X", n), 0) for n in range(5)]
    with cluster() as kafka:
        kafka.send("ticks", [*sent, (None, b"{", 0), *sent])
        with pytest.raises(FormatError, match=r"topic ticks, partition 0, offset 5: .*is not JSON") as error:
            strand.replay(kafka.feed("ticks", PROFILE, consumer_group="g"), "count")
        assert error.value.partial.ticks == 5
        assert kafka.committed("ticks", "g") == [5]
        feed = kafka.feed("ticks", PROFILE, on_bad_record="skip")
        assert strand.replay(feed, "count").ticks == 10
        assert feed.skipped.total == 1


@pytest.mark.parametrize("seed", range(10))
def test_hostile_messages_are_skipped_one_by_one(seed: int) -> None:
    draw = random.Random(seed)
    sent, good = [], 0
    for _ in range(400):
        if draw.random() < 0.5:
            sent.append(records([draw.choice("ABCD")], 1)[0])
            good += 1
        else:
            size = draw.choice([1, 63, 64, 65, 128, 6_400])
            sent.append((draw.choice(["A", "B", None, "\x01"]), b"\xff" + draw.randbytes(size - 1), 0))
            sent[-1] = (sent[-1][0], (sent[-1][1] or b"")[:-2] + b"\xee\x00", 0)  # a kind that does not exist
    with cluster() as kafka:
        kafka.send("ticks", sent)
        feed = kafka.feed("ticks", on_bad_record="skip", batch_messages=draw.choice([1, 10, 1_000]))
        assert len(ticks_of(feed)) == good
    assert feed.skipped.total == 400 - good


def test_more_symbols_than_allowed_end_the_feed() -> None:
    with cluster() as kafka:
        kafka.send("ticks", records(["A", "B", "C"], 3))
        with pytest.raises(FeedError, match=r"offset 2: more than 2 symbols; max_symbols allows more"):
            ticks_of(kafka.feed("ticks", max_symbols=2, on_bad_record="skip"))


def test_nothing_is_lost_or_comes_twice_while_brokers_fail_and_come_back() -> None:
    with cluster() as kafka:
        kafka.send("ticks", records(["A", "B"], 2_000))
        told: list[str] = []
        feed = kafka.feed(
            "ticks", until_end=False, max_messages=4_000, max_seconds=60, batch_messages=100,
            on_event=lambda event: told.append(event.kind),
            config={"reconnect.backoff.ms": 10, "reconnect.backoff.max.ms": 50},
        )  # fmt: skip
        kafka.fail(FETCH, NOT_LEADER, REQUEST_TIMED_OUT)
        found: list[int] = []
        for batch in feed:
            found += batch["sequence"].tolist()
            if len(found) == 2_000 and "disconnected" not in told:
                kafka.down()
                wait_until(lambda: not [*feed._reader.brokers.consumer.consume(1, 0.02)] and "disconnected" in told)
                kafka.up()
                kafka.send("ticks", records(["A", "B"], 2_000, first=1_001))
        feed.close()
    assert found == [1 + n // 2 for n in range(4_000)]
    assert told == ["connected", "disconnected", "connected"]


@pytest.mark.timeout(400)
def test_members_of_a_group_handle_each_message_once_while_they_come_and_go() -> None:
    symbols = [f"S{n}" for n in range(8)]
    with cluster(partitions=4) as kafka:
        handled: list[tuple[str, int]] = []
        feeds: list[KafkaFeed] = []
        told: list[list[FeedEvent]] = [[], []]
        pauses, is_over = [0.0], threading.Event()
        sent = 0

        def watch() -> None:
            while not is_over.is_set():
                before = time.monotonic()
                is_over.wait(0.05)
                pauses.append(time.monotonic() - before)

        def send(each: int) -> None:
            nonlocal sent
            kafka.send("ticks", records(symbols, 8 * each, first=sent + 1, spread=4))
            sent += each

        def member(commit_s: float) -> None:
            feed = kafka.feed(
                "ticks", consumer_group="g", share=True, until_end=False, batch_messages=50, commit_s=commit_s,
                idle_timeout_s=None, config=QUICK, on_event=told[len(feeds)].append,
            )  # fmt: skip
            feeds.append(feed)
            for batch in feed:
                handled.extend((feed.symbols[t["instrument_id"]], int(t["sequence"])) for t in batch)
            feed.close()

        watcher = threading.Thread(target=watch)
        watcher.start()
        send(500)
        first = threading.Thread(target=member, args=(3_600,))  # it commits where it gives partitions up
        first.start()
        wait_until(lambda: len(handled) == 4_000, 60)
        kafka.fail(OFFSET_COMMIT, REBALANCE_IN_PROGRESS, REBALANCE_IN_PROGRESS)
        other = threading.Thread(target=member, args=(0.01,))
        other.start()
        while not any("ticks[" in event.text for event in told[1] if event.kind == "assigned"):
            assert sent < 20_000, "the second member got no partition"
            send(10)
        wait_until(lambda: len(set(handled)) == 8 * sent, 100)
        feeds[0].stop()
        first.join()
        send(100)
        wait_until(lambda: len(set(handled)) == 8 * sent, 100)
        feeds[1].stop()
        other.join()
        is_over.set()
        watcher.join()
        assert sum(kafka.committed("ticks", "g", 4)) == 8 * sent
    counts = [feed.statistics() for feed in feeds]
    assert counts[0]["revoked"] + counts[0]["lost"] >= 1
    # Where the process stood still, the cluster lets a member go, and what that had not committed comes again.
    if max(pauses) < 1 and not any(each["lost"] for each in counts):
        assert Counter(handled).most_common(1)[0][1] == 1
        assert counts[0]["commits_failed"] >= 1


def test_partitions_that_were_lost_are_counted_and_read_again_without_repetition() -> None:
    heartbeat, unknown_member = 12, 25
    with cluster() as kafka:
        kafka.send("ticks", records(["A"], 100))
        found: list[int] = []
        is_pushed = is_sent = False
        feed = kafka.feed(
            "ticks", consumer_group="g", share=True, until_end=False, max_messages=200, idle_timeout_s=None,
            config=QUICK,
        )  # fmt: skip
        for batch in feed:
            found += batch["sequence"].tolist()
            if len(found) == 100 and not is_pushed:
                kafka.fail(heartbeat, unknown_member)
                is_pushed = True
            elif len(found) == 100 and not is_sent and feed.statistics()["assigned"] >= 2:
                kafka.send("ticks", records(["A"], 100, first=101))
                is_sent = True
        feed.close()
        assert feed.statistics()["lost"] >= 1
        assert kafka.committed("ticks", "g") == [200]
    assert found == list(range(1, 201))


def test_what_another_member_has_committed_meanwhile_is_not_committed_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("strand.feeds.live.consumer._REVOKE_S", 0.01)
    published, handled = 0, 0
    with cluster(partitions=2) as kafka:
        kafka.send("ticks", records(["A", "B"], 20, spread=2))
        first, second = (
            kafka.feed(
                "ticks", consumer_group="g", share=True, until_end=False, idle_timeout_s=None, max_seconds=120,
                commit_s=0.01, config=QUICK,
            )
            for _ in range(2)
        )  # fmt: skip
        first.follow(lambda: published, lambda: handled)
        ticks, more = iter(first), iter(second)
        while published < 20:
            published += len(next(ticks))
        while second.statistics()["assigned"] < 1:
            next(ticks)
            next(more)
        kafka.send("ticks", records(["A", "B"], 20, first=11, spread=2))
        while max(kafka.committed("ticks", "g", 2)) < 20:
            published += len(next(ticks))
            next(more)
        second.close()
        assigned = first.statistics()["assigned"]
        while first.statistics()["assigned"] == assigned:
            next(ticks)
        while published < 30:
            published += len(next(ticks))
        handled = published
        first.close()
        assert first.statistics()["lost"] >= 1
        assert kafka.committed("ticks", "g", 2) == [20, 20]


def test_partitions_can_be_chosen_and_start_behind_the_last_message() -> None:
    with cluster(partitions=3) as kafka:
        kafka.send("ticks", records(["A", "B", "C"], 30, spread=3))
        feed = kafka.feed("ticks", partitions=[1])
        ticks_of(feed)
        assert list(feed.symbols) == ["B"]
        with pytest.raises(FeedError, match=r"topic 'ticks' has no partition 3: it has 3"):
            ticks_of(kafka.feed("ticks", partitions=[1, 3]))
        live = kafka.feed("ticks", begin="latest", until_end=False, max_messages=3, max_seconds=60)
        found: list[int] = []
        for batch in live:
            found += batch["sequence"].tolist()
            if not found:
                kafka.send("ticks", records(["A", "B", "C"], 3, first=11, spread=3))
        live.close()
    assert found == [11] * 3


def test_a_feed_of_several_topics_has_the_symbols_of_all() -> None:
    with cluster() as kafka:
        kafka.topic("more")
        kafka.send("ticks", records(["A"], 10))
        kafka.send("more", records(["B"], 10))
        result = strand.replay(KafkaFeed(kafka.servers, ["ticks", "more"], until_end=True), "count")
    assert {name: result.rows[name]["ticks"] for name in ("A", "B")} == {"A": 10, "B": 10}


@pytest.mark.parametrize(
    ("servers", "topics", "options", "why"),
    [
        ("nowhere", "t", {}, "servers: 'nowhere' is not HOST:PORT"),
        ("http://a:9092", "t", {}, "servers: 'http://a:9092' is not HOST:PORT"),
        ("a:9092", [], {}, "topics: "),
        ("a:9092", "t", {"share": True}, "share: give consumer_group"),
        (
            "a:9092",
            "t",
            {"share": True, "consumer_group": "g", "partitions": [0]},
            "partitions: it does not go together",
        ),
        ("a:9092", "t", {"config": {"group.id": "x"}}, "config: group.id is set by the option consumer_group"),
        *(("a:9092", "t", {"config": wrong}, "config: .* is not a dict") for wrong in (b"x", 2, "ssl", ["ssl"])),
        *(("a:9092", "t", {"partitions": wrong}, "partitions: ") for wrong in (object(), 1, "1", ["1"], [-1], [True])),
        ("a:9092", "t", {"begin": "middle"}, "begin: "),
        ("a:9092", "t", {"symbols": ["A", "B"], "max_symbols": 1}, "symbols: 2 of them"),
        ("a:9092", "t", {"groop": "x"}, "groop"),
    ],
)
def test_options_that_cannot_work_are_refused(servers: str, topics: Any, options: dict[str, Any], why: str) -> None:
    with pytest.raises((ConfigurationError, TypeError), match=why):
        KafkaFeed(servers, topics, **options)


def test_a_setting_that_librdkafka_does_not_know_is_named() -> None:
    with cluster() as kafka, pytest.raises(ConfigurationError, match=r"config: .*no\.such\.setting"):
        ticks_of(kafka.feed("ticks", config={"no.such.setting": 1}))


def test_a_broker_that_does_not_answer_and_a_topic_that_does_not_exist_are_errors() -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        feed = KafkaFeed(f"127.0.0.1:{bound.getsockname()[1]}", "t", open_timeout_s=0.2)
        with pytest.raises(FeedError, match=r"no broker answered within 0\.2 s .*check servers"):
            ticks_of(feed)
        feed.close()
    with cluster() as kafka, pytest.raises(FeedError, match=r"topic 'other': .*[Uu]nknown topic"):
        ticks_of(kafka.feed("other", config={"allow.auto.create.topics": False}))


def test_a_stop_ends_the_wait_for_the_first_broker_without_an_error() -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        feed = KafkaFeed(f"127.0.0.1:{bound.getsockname()[1]}", "t", open_timeout_s=60)
        stopper = threading.Timer(0.2, feed.stop)
        stopper.start()
        assert [len(batch) for batch in feed] == []  # a wait to its end is an error
        stopper.join()
        feed.close()


def test_the_extra_is_named_where_it_is_missing_and_not_imported_before() -> None:
    code = (
        "import sys; sys.modules['confluent_kafka'] = None\n"
        "from strand.errors import MissingExtraError\n"
        "from strand.feeds.live.kafka import KafkaFeed\n"
        "try:\n    KafkaFeed('a:1', 't')\nexcept MissingExtraError as error:\n    print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert "confluent_kafka" in done.stdout
    assert "strand[kafka]" in done.stdout or "kafka" in done.stdout


def test_a_feed_is_read_once_and_a_closed_one_gives_nothing() -> None:
    with cluster() as kafka:
        kafka.send("ticks", records(["A"], 1))
        feed = kafka.feed("ticks")
        assert len(ticks_of(feed)) == 1
        with pytest.raises(FeedError, match="can be read once"):
            next(feed.batches())
        feed.close()
        feed.close()


def test_coordinators_that_are_away_for_a_moment_cost_nothing() -> None:
    with cluster() as kafka:
        kafka.send("ticks", records(["A"], 10))
        kafka.fail(9, COORDINATOR_NOT_AVAILABLE, COORDINATOR_NOT_AVAILABLE)  # OffsetFetch
        assert strand.replay(kafka.feed("ticks", consumer_group="g"), "count").ticks == 10
        assert kafka.committed("ticks", "g") == [10]


def test_the_command_reads_topics_and_shows_where_it_ended(tmp_path: Path) -> None:
    profile, config = tmp_path / "trades.toml", tmp_path / "kafka.toml"
    profile.write_text('name = "t"\n[[message]]\nkind = "trade"\nsymbol = "s"\nfields = {price = "p", size = "q"}\n')
    config.write_text('client.id = "a-name"\nfetch.max.bytes = 1_000_000\n')
    with cluster() as kafka:
        kafka.send("ticks", [(None, trade("X", n), 0) for n in range(1, 101)])
        given = ("--kafka", kafka.servers, "--topic", "ticks", "--profile", str(profile), "--kafka-config", str(config))
        done = run_here("listen", *given, "--until-end", "--consumer-group", "g", "--handler", "vwap")
        assert done.returncode == 0, done.stderr
        assert "100 messages" in done.stdout
        assert "ticks, partition 0: next offset 100, 100 committed" in done.stdout
        assert kafka.committed("ticks", "g") == [100]


def test_the_command_reads_a_partition_in_parts_and_goes_on_from_its_state(tmp_path: Path) -> None:
    with cluster(partitions=2) as kafka:
        given = ("--kafka", kafka.servers, "--topic", "ticks", "--partition", "1", "--until-end", "--handler", "count")
        for first in (1, 101):
            kafka.send("ticks", records(["A", "B"], 200, first=first, spread=2))
            done = run_here("listen", *given, "--state", str(tmp_path / "state"), "--every-s", "1")
            assert done.returncode == 0, done.stderr
            assert f"ticks, partition 1: next offset {first + 99}" in done.stdout
        kafka.send("ticks", records(["A", "B"], 2, first=201, spread=2))
        rows = strand.follow(kafka.feed("ticks", partitions=[1]), "count", state=tmp_path / "state").rows
        assert {name: row["ticks"] for name, row in rows.items()} == {"B": 201}


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--kafka", "a:1"], "--kafka needs --topic"),
        (["--kafka", "a:1", "--topic", "t", "--record", "f"], "--record is not for --kafka"),
        (["--kafka", "a:1", "--topic", "t", "--session", "s"], "--session is for --line, not for --kafka"),
        (["--kafka", "a:1", "--topic", "t", "--subscribe", "s"], "--subscribe is for --websocket, not for --kafka"),
        (["--line", "127.0.0.1:0", "--share"], "--share is for --kafka, not for --line"),
        (["--kafka", "a:1", "--topic", "t", "--every-s", "5"], "--every-s needs --state"),
        (["--kafka", "a:1", "--topic", "t", "--state", "f", "--symbols", "A"], "--symbols does not go with --state"),
        (["--line", "127.0.0.1:0", "--partition", "1"], "--partition is for --kafka, not for --line"),
        (["--line", "127.0.0.1:0", "--topic", "t"], "--topic is for --kafka, not for --line"),
        (["--kafka", "a:1", "--line", "127.0.0.1:0"], "give --line, once or twice, --websocket or --kafka"),
        (["--kafka", "a:1", "--topic", "t", "--kafka-config", __file__], "is not TOML"),
    ],
)
def test_the_command_refuses_options_that_do_not_go_together(arguments: list[str], why: str) -> None:
    done = run_here("listen", *arguments, "--handler", "count")
    assert done.returncode == 2
    assert why in done.stderr
