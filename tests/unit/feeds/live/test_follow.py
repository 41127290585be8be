"""A run in parts over Kafka: what a killed one leaves is what an undisturbed one leaves."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from engine_support import wait_until
from kafka_mock import Cluster, cluster, records, trade
from kafka_mock import kafka as kafka_module

import strand
from strand.errors import ConfigurationError, FormatError, GapError, SavedStateError
from strand.feeds.sample import sample_feed

pytestmark = pytest.mark.python
PROGRAM = Path(__file__).resolve().parents[3] / "support" / "kafka_follower.py"
#: More kills for a longer look.
KILLS = int(os.environ.get("KILLS", "4"))
SYMBOLS = [f"S{n}" for n in range(8)]


def started(kafka: Cluster, folder: Path, every_s: float, kind: str) -> subprocess.Popen[str]:
    folder.mkdir(exist_ok=True)
    arguments = [kafka.servers, "ticks", str(folder), str(every_s), kind]
    made = subprocess.Popen([sys.executable, str(PROGRAM), *arguments], stdout=subprocess.PIPE, text=True)
    assert made.stdout is not None
    assert made.stdout.readline() == "ready\n"
    return made


def to_its_end(made: subprocess.Popen[str]) -> dict[str, str]:
    text, _ = made.communicate(timeout=600)
    assert made.returncode == 0
    rows: dict[str, str] = json.loads(text)
    return rows


def written(folder: Path) -> int:
    """The number of parts whose files are whole."""
    return len(list(folder.glob("bars.*.csv")))


def lines_of(folder: Path) -> list[str]:
    """The records of all parts, in order, without the line of names."""
    return [line for path in sorted(folder.glob("bars.*.csv")) for line in path.read_text().splitlines()[1:]]


@pytest.mark.timeout(1200)
@pytest.mark.parametrize(("kind", "partitions"), [("repeated", 1), ("ticks", 4), ("json", 1)])
def test_rows_and_files_of_a_run_that_is_killed_again_and_again_are_those_of_an_undisturbed_one(
    tmp_path: Path, kind: str, partitions: int
) -> None:
    draw, kills, parts = random.Random(7), 0, 0
    sent = records(SYMBOLS, 4_000, spread=partitions)
    if kind == "repeated":
        sent += sent[-500:]  # as a producer does that was killed, too
    if kind == "json":
        sent = [(None, trade(SYMBOLS[n % 8], n // 8 + 1), 0) for n in range(4_000)]
    with cluster(partitions=partitions) as kafka:
        kafka.send("ticks", sent)
        expected = to_its_end(started(kafka, tmp_path / "whole", 1_000, kind))
        whole = lines_of(tmp_path / "whole")
        while kills < KILLS:
            folder = tmp_path / f"killed{kills}"
            while True:
                running = started(kafka, folder, 0.05, kind)
                # Behind the end of some part, or before the first: by what there is, and not by the time alone.
                there = written(folder) + draw.randrange(3)
                wait_until(lambda: running.poll() is not None or written(folder) >= there)  # noqa: B023 - called here
                time.sleep(draw.uniform(0.0, 0.05))
                if running.poll() is not None or draw.random() < 0.1:
                    break
                running.send_signal(signal.SIGKILL)
                running.communicate()
                kills += 1
            assert to_its_end(running) == expected
            parts += written(folder)
            assert lines_of(folder) == whole
            ends = [sum(place == n for _, _, place in sent) for n in range(partitions)]
            assert kafka.committed("ticks", str(folder), partitions) == ends
    assert parts > kills / 2  # they were killed between parts, too


def test_a_run_in_parts_leaves_what_a_replay_leaves(tmp_path: Path) -> None:
    with cluster(partitions=2) as kafka:
        kafka.send("ticks", records(SYMBOLS, 4_000, spread=2))
        whole = strand.replay(kafka.feed("ticks"), "vwap")
        feed = kafka.feed("ticks", batch_messages=100, consumer_group="g")
        result = strand.follow(feed, "vwap", state=tmp_path / "state", every_s=1e-6)
        assert kafka.committed("ticks", "g", 2) == [2_000, 2_000]
        assert [str(result.rows[name]) for name in SYMBOLS] == [str(whole.rows[name]) for name in SYMBOLS]
        kafka.send("ticks", records(SYMBOLS, 80, first=501, spread=2))
        again = strand.follow(kafka.feed("ticks"), "vwap", state=tmp_path / "state")
        assert again.ticks == 80
        whole = strand.replay(kafka.feed("ticks"), "vwap")
        assert [str(again.rows[name]) for name in SYMBOLS] == [str(whole.rows[name]) for name in SYMBOLS]


def test_a_part_that_a_fault_ends_is_read_again(tmp_path: Path) -> None:
    with cluster() as kafka:
        kafka.send("ticks", [*records(["A"], 100), ("A", b"x", 0), *records(["A"], 100, first=101)])
        for _ in range(2):
            with pytest.raises(FormatError, match="offset 100"):
                strand.follow(kafka.feed("ticks", batch_messages=30), "count", state=tmp_path / "s", every_s=1e-6)
        feed = kafka.feed("ticks", on_bad_record="skip")
        assert strand.follow(feed, "count", state=tmp_path / "s").rows["A"]["ticks"] == 200


def test_a_state_whose_offset_is_gone_is_an_error(tmp_path: Path) -> None:
    big = [("A", records(["A"], 1)[0][1] * 10_000, 0)] * 20
    with cluster() as kafka:
        kafka.send("ticks", records(["A"], 3))
        strand.follow(kafka.feed("ticks"), "count", state=tmp_path / "s")
        kafka.send("ticks", big, **{"linger.ms": 0, "batch.num.messages": 1})
        with pytest.raises(GapError, match="offset 3 is gone"):
            strand.follow(kafka.feed("ticks"), "count", state=tmp_path / "s")


def test_the_group_counts_no_more_where_there_is_a_state(tmp_path: Path) -> None:
    with cluster() as kafka:
        kafka.send("ticks", records(["A"], 10))
        strand.follow(kafka.feed("ticks", consumer_group="g"), "count", state=tmp_path / "s")
        kafka.send("ticks", records(["A"], 10, first=11))
        strand.replay(kafka.feed("ticks", consumer_group="g"), "count")
        again = strand.follow(kafka.feed("ticks", consumer_group="g"), "count", state=tmp_path / "s")
    assert again.rows["A"]["ticks"] == 20


def test_a_state_of_another_topic_handler_or_feed_is_refused(tmp_path: Path) -> None:
    with cluster() as kafka:
        kafka.topic("other")
        kafka.send("ticks", records(["A"], 10))
        state = tmp_path / "s"
        strand.follow(kafka.feed("ticks"), "count", state=state)
        for given, option in ((("other",), "topics"), (("ticks", {"name": "x", "message": []}), "profile")):
            with pytest.raises(ConfigurationError, match=option):
                strand.follow(kafka.feed(*given), "count", state=state)
        with pytest.raises(ConfigurationError, match="duplicates"):
            strand.follow(kafka.feed("ticks", duplicates="drop"), "count", state=state)
        with pytest.raises(SavedStateError, match="handler"):
            strand.follow(kafka.feed("ticks"), "vwap", state=state)
        state.write_bytes(b"x")
        with pytest.raises(SavedStateError, match="not a saved state"):
            strand.follow(kafka.feed("ticks"), "count", state=state)
        with pytest.raises(ConfigurationError, match="limit: it does not go together"):
            strand.follow(kafka.feed("ticks"), "count", state=state, limit=3)
    with pytest.raises(ConfigurationError, match="cannot be saved"):
        strand.follow(sample_feed(), "count", state=state)


def test_files_of_a_run_whose_state_is_missing_are_not_written_over(tmp_path: Path) -> None:
    out: Any = {"bars": tmp_path / "bars.csv"}
    with cluster() as kafka:
        kafka.send("ticks", records(["A"], 100))
        feed = kafka.feed("ticks", batch_messages=10)
        strand.follow(feed, strand.bars("1s"), state=tmp_path / "s", every_s=1e-6, out=out)
        (tmp_path / "s").unlink()
        with pytest.raises(ConfigurationError, match=r"bars\.000002\.csv is of a later part"):
            strand.follow(kafka.feed("ticks"), strand.bars("1s"), state=tmp_path / "s", out=out)


def test_a_partition_that_goes_to_another_member_within_a_part_is_given_up_without_a_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread that would save the state is the one that gives the partition up: a wait for it would be in vain."""

    class Member(kafka_module.Consumer):  # type: ignore[misc]
        received, told = 0, dict[str, Any]()

        def subscribe(self, _: Any, **told: Any) -> None:
            Member.told = told

        def consume(self, most: int, timeout: float) -> list[Any]:
            if "on_assign" in self.told:
                self.told.pop("on_assign")(self, [kafka_module.TopicPartition("ticks", n) for n in (0, 1)])
            if Member.received == 200 and most == 1 and "on_revoke" in self.told:
                self.told.pop("on_revoke")(self, [kafka_module.TopicPartition("ticks", 1)])
            found: list[Any] = super().consume(most, timeout)
            Member.received += sum(each.error() is None for each in found)
            return found

    monkeypatch.setattr(kafka_module, "Consumer", Member)
    monkeypatch.setattr("strand.feeds.live.consumer._REVOKE_S", 10.0**9)
    with cluster(partitions=2) as kafka:
        kafka.send("ticks", records(["A", "B"], 200, spread=2))
        feed = kafka.feed("ticks", until_end=False, share=True, consumer_group="g", idle_timeout_s=3.0)
        result = strand.follow(feed, "count", state=tmp_path / "s", every_s=300)
        assert kafka.committed("ticks", "g", 2)[0] == 100
    assert result.ticks == 200
    assert [event.text.split(":")[0] for event in feed.events if event.kind == "lost"] == ["ticks[1]"]
