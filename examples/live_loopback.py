"""A live feed, all on this machine: one thread serves a recorded day by MoldUDP64 on two lines that each lose packets,
and handlers listen to both.

python examples/live_loopback.py [ITCH-FILE DATE]; without them it runs on the sample that comes with the package.
"""

from __future__ import annotations

import sys
import threading

import strand
from strand.feeds.live.mold import Faults, MoldFeed, ServeOptions, serve
from strand.feeds.sample import SAMPLE_DATE, sample_path

#: Messages per second, for at most so long.
RATE = 200_000.0
MOST_S = 60.0


def main(path: str, date: str) -> None:
    """Serves, listens, and says what each line missed."""
    # Port 0: whatever port is free.
    feed = MoldFeed("127.0.0.1:0", "127.0.0.1:0", date=date, max_seconds=MOST_S, idle_timeout_s=5.0)
    options = ServeOptions(feed.addresses, rate=RATE, faults=(Faults(loss=0.01), Faults(loss=0.01, reorder=0.05)))
    server = threading.Thread(target=serve, args=(path, options), daemon=True)
    server.start()
    result = strand.replay(feed, "book")
    server.join(MOST_S)

    report = feed.report()
    for name in report["line_gaps"]:
        line = report["lines"][name]
        print(f"line {name}: {line['messages']:,} messages, {line['gap_messages']:,} of the session missing")
    print(f"both: {report['delivered']:,} messages in order, {report['gap_messages']:,} missing on both")
    p99_us = result.statistics.end_to_end.percentiles[99.0] / 1e3
    print(f"{result.ticks:,} ticks through order books, p99 {p99_us:.0f} us from publishing to the handler's end")


if __name__ == "__main__":
    main(*(sys.argv[1:] or [str(sample_path()), SAMPLE_DATE]))
