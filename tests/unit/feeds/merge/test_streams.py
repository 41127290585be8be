"""A merge of streams: alignment, and how far each stream is read."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from merge_support import stamped

from strand import TICK
from strand.feeds import TickBatch
from strand.feeds.merge.streams import merge_streams
from strand.ticks import zeros


def test_ticks_are_read_where_they_lie_at_any_alignment() -> None:
    ticks = stamped([1, 3, 5])
    odd = np.frombuffer(b"\0" + ticks.tobytes(), np.uint8)[1:].view(TICK)
    spread = zeros(6)
    spread[::2] = stamped([2, 4, 6], 1)
    found = np.concatenate([part.copy() for part in merge_streams([iter([odd]), iter([spread[::2]])])])
    assert found["ts_recv"].tolist() == [1, 2, 3, 4, 5, 6]


def test_a_merge_reads_on_only_in_the_stream_that_holds_the_others_up() -> None:
    read_of = {"quick": 0, "slow": 0}

    def counted(name: str, step: int) -> Iterator[TickBatch]:
        for start in range(100):
            read_of[name] += 1
            yield stamped([number * step for number in range(start * 10, start * 10 + 10)])

    # A hundred batches of the slow stream cover the time of one of the quick stream.
    chunks = merge_streams([counted("quick", 100), counted("slow", 1)], batch_ticks=10)
    for _ in range(90):
        next(chunks)
    assert read_of["slow"] >= 85
    assert read_of["quick"] <= 2
    assert sum(1 for _ in chunks) > 0
    assert read_of == {"quick": 100, "slow": 100}
