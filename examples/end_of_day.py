"""End-of-day jobs beside a live book, on the same workers.

While the day is published, jobs of level low each sum a row of a matrix. Each symbol has a closing job, which runs
behind all its ticks of the day and reads the best bid of its book. Books come first, and low jobs get the rest.

python examples/end_of_day.py
"""

from __future__ import annotations

from concurrent.futures import wait

import numpy as np

import strand
from strand import feeds
from strand.feeds.sample import SAMPLE_DATE, sample_path


def main() -> None:
    """The sample day with both kinds of jobs."""
    with feeds.open(sample_path(), date=SAMPLE_DATE) as feed:
        batches = [batch.copy() for batch in feed.batches()]
    matrix = np.arange(1_000_000, dtype=np.float64).reshape(1000, 1000)
    priorities = {"*": "high"}
    with strand.Dispatcher(
        feed.symbols, "book", workers=2, policy=strand.Levels(), priorities=priorities, feed=feed.info.ticks
    ) as dispatcher:
        low = dispatcher.tasks.options(priority="low")
        sums = []
        for i, batch in enumerate(batches):
            sums.append(low.submit(lambda part: float(matrix[part].sum()), i % 1000))
            dispatcher.publish(batch)
        closes = [
            dispatcher.tasks.options(symbol=symbol).submit(lambda symbol: dispatcher.books[symbol].bids(1), symbol)
            for symbol in filter(None, feed.symbols)
        ]
        wait([*sums, *closes])
        published = sum(len(batch) for batch in batches)
    quoted = sum(len(close.result()) > 0 for close in closes)
    print(f"{published:,} ticks; {len(sums)} low jobs summed {sum(done.result() for done in sums):,.0f}")
    print(f"{len(closes)} closing jobs, {quoted} of them found a bid")
    handled = dispatcher.statistics().handled
    print(f"handled {handled:,}: {'all' if handled == published else 'not all'}")


if __name__ == "__main__":
    main()
