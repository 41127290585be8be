"""Merging streams gives what one stable sort of everything gives, whatever the batches."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from strand import TICK
from strand.feeds._merge import in_batches, merge_by_receive_time

# A stream is a list of batches of steps in time: many zeros, so that times meet within and across streams.
STREAMS = st.lists(st.lists(st.lists(st.sampled_from([0, 0, 0, 1, 5]), max_size=9), max_size=6), max_size=5)


def stream_of(number: int, batches: list[list[int]]) -> list[np.ndarray]:
    ticks = np.zeros(sum(map(len, batches)), TICK)
    ticks["ts_recv"] = np.cumsum([step for batch in batches for step in batch], dtype=np.uint64)
    ticks["publisher_id"] = number
    ticks["sequence"] = np.arange(len(ticks))
    return np.split(ticks, np.cumsum([len(batch) for batch in batches], dtype=int)[:-1]) if batches else []


def keys(ticks: np.ndarray) -> list[tuple[int, int, int]]:
    return list(zip(ticks["ts_recv"].tolist(), ticks["publisher_id"].tolist(), ticks["sequence"].tolist(), strict=True))


@given(STREAMS)
def test_a_merge_is_in_the_order_of_time_then_stream_then_position(streams: list[list[list[int]]]) -> None:
    made = [stream_of(number, batches) for number, batches in enumerate(streams)]
    merged = [key for chunk in merge_by_receive_time([iter(stream) for stream in made]) for key in keys(chunk)]
    assert merged == sorted(key for stream in made for batch in stream for key in keys(batch))


@given(st.lists(st.integers(1, 40), max_size=20), st.integers(1, 30))
def test_batches_are_of_the_size_asked_for_and_lose_nothing(sizes: list[int], batch_ticks: int) -> None:
    chunks = stream_of(0, [[1] * size for size in sizes])
    batches = list(in_batches(iter(chunks), batch_ticks))
    assert all(len(batch) == batch_ticks for batch in batches[:-1])
    assert all(0 < len(batch) <= batch_ticks for batch in batches)
    assert [key for batch in batches for key in keys(batch)] == [key for chunk in chunks for key in keys(chunk)]


def test_a_merge_reads_on_only_in_the_stream_that_holds_the_others_up() -> None:
    read = {"quick": 0, "slow": 0}

    def counted(name: str, step: int) -> Iterator[np.ndarray]:
        for start in range(100):
            read[name] += 1
            ticks = np.zeros(10, TICK)
            ticks["ts_recv"] = np.arange(start * 10, start * 10 + 10) * step
            yield ticks

    # A hundred batches of the slow stream cover the time of one of the quick stream.
    merged = merge_by_receive_time([counted("quick", 100), counted("slow", 1)])
    for _ in range(90):
        next(merged)
    assert read["slow"] >= 90
    assert read["quick"] <= 2
    assert sum(1 for _ in merged) > 0
    assert read == {"quick": 100, "slow": 100}
