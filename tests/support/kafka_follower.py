"""A process that follows a topic in parts, slowly, until its end: it may be killed at any moment.

python kafka_follower.py SERVERS TOPIC FOLDER EVERY_S KIND, where KIND is ``ticks``, ``json``, or ``repeated`` for
ticks of which some come twice
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from kafka_mock import PROFILE

import strand
from strand.feeds import TickBatch
from strand.feeds.live.kafka import KafkaFeed


class Slow(KafkaFeed):
    """A feed that waits a little before each batch."""

    def batches(self) -> Iterator[TickBatch]:
        for batch in super().batches():
            time.sleep(0.002)
            yield batch


def main() -> None:
    """Prints ``ready``, and in the end the rows as JSON."""
    servers, topic, folder, every_s, kind = sys.argv[1:]
    feed = Slow(
        servers, topic, PROFILE if kind == "json" else None, until_end=True, consumer_group=folder, batch_messages=50,
        duplicates="drop" if kind == "repeated" else "keep",
    )  # fmt: skip
    print("ready", flush=True)
    result = strand.follow(
        feed, strand.chain("vwap", strand.bars("1s")), state=Path(folder, "state"), every_s=float(every_s),
        out={"bars": Path(folder, "bars.csv")}, workers=2, strands=4,
    )  # fmt: skip
    print(json.dumps({name: str(result.rows[name]) for name in sorted(feed.symbols)}))


if __name__ == "__main__":
    main()
