"""Times that run back: within the window they are put in order, beyond it kept, skipped or an error."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st
from merge_support import TIMES, ArrayFeed, keys, merged, read, read_until_fault, stamped

from strand.errors import DisorderError


def expected(times: Sequence[int], feed: int, window: int, on_disorder: str) -> tuple[list[tuple[int, ...]], int, int]:
    """A feed's ticks as (where they go, feed, position, time), those put in order, and those further back."""
    latest, found, early, late = 0, [], 0, 0
    for position, time in enumerate(times):
        latest = max(latest, time)
        early += 0 < latest - time <= window
        late += latest - time > window
        if latest - time <= window:
            found.append((time, feed, position, time))
        elif on_disorder == "keep":
            found.append((latest, feed, position, time))
    return found, early, late


@given(st.lists(TIMES, min_size=1, max_size=4), st.sampled_from([0, 3, 20, 1000]), st.sampled_from(["keep", "skip"]))
def test_times_within_the_window_are_put_in_order_and_others_kept_or_skipped_and_counted(
    times: list[list[int]], window: int, on_disorder: str
) -> None:
    feeds = [ArrayFeed(stamped(own, number), ["A"]) for number, own in enumerate(times)]
    feed = merged(*feeds, reorder_ns=window, on_disorder=on_disorder)
    ticks = read(feed)
    parts = [expected(own, number, window, on_disorder) for number, own in enumerate(times)]
    order = sorted(key for part, _, _ in parts for key in part)
    assert keys(ticks) == [(time, number, position) for _, number, position, time in order]
    counts = feed.statistics()
    assert counts["reordered"] == sum(early for _, early, _ in parts)
    assert counts[f"disorder_{'kept' if on_disorder == 'keep' else 'skipped'}"] == sum(late for _, _, late in parts)
    assert feed.skipped.total == counts["disorder_skipped"]
    furthest = max((max(own[: i + 1]) - time for own in times for i, time in enumerate(own)), default=0)
    assert counts["disorder_furthest_ns"] == furthest


@given(TIMES, st.sampled_from([0, 3, 20]))
def test_a_time_further_back_than_the_window_raises_with_its_place_after_all_before_it(
    times: list[int], window: int
) -> None:
    late = [i for i, time in enumerate(times) if max(times[: i + 1]) - time > window]
    bad = ArrayFeed(stamped(times, 1), ["A"], path="bad.npy")
    feed = merged(ArrayFeed(stamped([0, 30, 59]), ["A"]), bad, reorder_ns=window)
    if not late:
        assert len(read(feed)) == 3 + len(times)
        return
    ticks, error = read_until_fault(feed)
    assert isinstance(error, DisorderError)
    assert error.path == "bad.npy"
    assert error.position == late[0]
    assert f"tick {late[0]}" in str(error)
    before = sorted((time, position) for position, time in enumerate(times[: late[0]]))
    assert [(time, position) for time, number, position in keys(ticks) if number == 1] == before
    assert ticks["ts_recv"].tolist() == sorted(ticks["ts_recv"].tolist())


def test_what_was_skipped_out_of_order_is_shown_with_its_place() -> None:
    feed = merged(ArrayFeed(stamped([10, 4, 11]), ["A"], path="day.npy"), on_disorder="skip")
    read(feed)
    assert [(s.reason, s.text) for s in feed.skipped.samples] == [("out of order", "day.npy: tick 1, 6 ns back")]


def test_a_window_holds_no_more_than_it_covers() -> None:
    feed = ArrayFeed(stamped(list(range(0, 3000, 10))), ["A"], batch_ticks=10)
    batches = merged(feed, reorder_ns=500, batch_ticks=1).batches()
    next(batches)
    assert feed.read == 60  # 51 ticks are less than 500 ns behind the latest, or that far
