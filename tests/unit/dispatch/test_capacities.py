"""Bounds over several strands: what they let in, what they drop, and that it is all counted."""

from __future__ import annotations

import threading
from collections import Counter
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import strand
from examples import examples
from strand import Dispatcher, batch_handler, testing
from strand.dispatch.options import grouped
from strand.errors import BackpressureError, SavedStateError
from strand.policies.policy import LEVELS, Levels
from strand.testing.seeded_run import SeededDispatcher
from strand.ticks import TICK

NAMES = [*(f"{level} {i}" for level in LEVELS for i in range(2))]
PRIORITIES = {name: name.split()[0] for name in NAMES}
#: Nothing rises.
STILL = Levels(dict.fromkeys(LEVELS[1:], "1000h"))
BY_LEVEL: dict[str, Any] = {"policy": STILL, "priorities": PRIORITIES, "strands": "per-symbol"}
HIGH, NORMAL, LOW = (NAMES.index(f"{level} 0") for level in ("high", "normal", "low"))


def ticks(keys: list[int], start: int = 1) -> npt.NDArray[Any]:
    made = np.zeros(len(keys), TICK)
    made["instrument_id"] = keys
    made["sequence_low"] = np.arange(start, start + len(keys))
    made["ts_recv"] = made["sequence_low"]
    return made


def pending(d: Any) -> Counter[str]:
    """Ticks that wait and are not handled, by level. A visit that is about to let its strand go has handled some."""
    found: Counter[str] = Counter()
    for name in NAMES:
        k = d._engine.inspect(int(d._routing.by_counts(None)[NAMES.index(name)]))
        found[PRIORITIES[name]] += k.accepted - k.handled - k.failed - k.lost - sum(k.dropped)
    return found


calls = st.lists(st.lists(st.integers(0, len(NAMES) - 1), min_size=1, max_size=12), max_size=8)


@given(calls, st.integers(1, 20))
def test_a_tick_is_dropped_only_where_no_lower_level_is_pending(published: list[list[int]], bound: int) -> None:
    """Before there are workers every pending tick is ready, so the promise holds without exception."""
    seen: list[tuple[int, int]] = []

    @batch_handler(state=[("ticks", "u8")])
    def note(symbol: str, ticks: Any, row: Any) -> None:
        seen.extend(zip(ticks["instrument_id"].tolist(), ticks["sequence"].tolist(), strict=True))

    options: dict[str, Any] = BY_LEVEL | {"total_capacity_ticks": bound, "on_full": "shed"}
    dispatcher = Dispatcher(NAMES, note, workers=1, cores=None, **grouped(**options))
    all_keys: list[int] = []
    before = dispatcher.statistics().dropped_by_level
    for keys in published:
        all_keys += keys
        assert dispatcher.publish(ticks(keys, len(all_keys) - len(keys) + 1)) == len(keys)
        after, left = dispatcher.statistics().dropped_by_level, pending(dispatcher)
        assert sum(left.values()) == min(bound, len(all_keys))
        for place, level in enumerate(LEVELS):
            if after[level] > before[level]:
                assert not any(left[lower] for lower in LEVELS[place + 1 :])
        before = after
    with dispatcher:
        dispatcher.drain()
        statistics = dispatcher.statistics()
        assert statistics.accepted == len(all_keys) == statistics.handled + sum(statistics.dropped.values())
        assert sum(statistics.dropped_by_level.values()) == sum(statistics.dropped.values())
        assert sum(statistics.dropped.values()) == statistics.dropped["shed"] + statistics.dropped["newest"]
        assert statistics.watermark == len(all_keys)
        dispatcher.verify()
    for key in range(len(NAMES)):
        mine = [sequence for symbol, sequence in seen if symbol == key]
        assert mine == sorted(set(mine))
        assert all(all_keys[sequence - 1] == key for sequence in mine)


bounds = st.fixed_dictionaries(
    {
        "total_capacity_ticks": st.integers(1, 12) | st.none(),
        "level_capacity_ticks": st.dictionaries(st.sampled_from(LEVELS), st.integers(1, 6)),
        "on_full": st.sampled_from(["block", "drop_newest", "raise", "shed"]),
    }
).filter(lambda given: given["on_full"] != "shed" or given["total_capacity_ticks"])


@settings(max_examples=examples(60))
@given(calls, bounds, st.integers(0, 2**32), st.booleans())
def test_whatever_comes_between_the_bounds_hold_and_all_is_counted(
    published: list[list[int]], bounds: dict[str, Any], seed: int, python: bool
) -> None:
    on_full, total, levels = (bounds[name] for name in ("on_full", "total_capacity_ticks", "level_capacity_ticks"))
    rows: Counter[int] = Counter()
    last: dict[int, int] = {}

    @batch_handler(state=[("ticks", "u8")])
    def note(symbol: str, ticks: Any, row: Any) -> None:
        for key, sequence in zip(ticks["instrument_id"].tolist(), ticks["sequence"].tolist(), strict=True):
            assert sequence > last.get(key, 0)
            last[key] = sequence
            rows[key] += 1

    handler: Any = note if python else "count"
    refused = 0
    options: dict[str, Any] = BY_LEVEL | bounds | {"budget_ticks": 2, "batch_ticks": 4, "workers": 2}
    with SeededDispatcher(NAMES, handler, seed=seed, **grouped(**options)) as d:
        at = 1
        for keys in published:
            try:
                d.publish(ticks(keys, at))
            except BackpressureError as error:
                assert on_full == "raise"
                refused += len(error.rejected)
            at += len(keys)
            left = pending(d)
            assert total is None or sum(left.values()) <= total
            assert all(left[level] <= most for level, most in levels.items())
        d.drain()
        s = d.statistics()
        assert s.accepted == at - 1 - refused == s.handled + sum(s.dropped.values())
        assert s.pending == 0
        assert sum(s.dropped_by_level.values()) == sum(s.dropped.values())
        if on_full in ("block", "raise"):
            assert s.handled == s.accepted
        if on_full != "shed":
            assert s.dropped["shed"] == 0
        handled = sum(rows.values()) if python else int(d.rows.array["ticks"].sum())
        assert handled == s.handled
        assert (s.watermark or 0) == at - 1


@pytest.mark.parametrize("policy", [strand.Fifo(), Levels()])
def test_a_bound_that_makes_publishers_wait_changes_no_result(policy: Any) -> None:
    stream = testing.feed(ticks([0, 1, 2, 3] * 50), ["A", "B", "C", "D"])
    options: dict[str, Any] = {"policy": policy, "total_capacity_ticks": 3, "workers": 2, "batch_ticks": 8}
    testing.check_seeds(stream, "vwap", seeds=range(20), **grouped(**options))


def test_many_publishers_at_the_bounds_lose_nothing() -> None:
    """Three threads publish and wait at the bounds, and each of their ticks is handled."""
    n = 200
    options: dict[str, Any] = {"total_capacity_ticks": 50, "level_capacity_ticks": {"low": 20}, "batch_ticks": 16}
    with Dispatcher(NAMES, "count", workers=2, cores=None, **BY_LEVEL, **grouped(**options)) as d:

        def publish(place: int) -> None:
            random = np.random.default_rng(place)
            for _ in range(n):
                d.publish(ticks(random.integers(0, len(NAMES), 20).tolist()))

        threads = [threading.Thread(target=publish, args=(i,)) for i in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        d.drain()
        s = d.statistics()
        assert s.accepted == s.handled == 3 * n * 20
        d.verify()


def test_paused_ticks_take_room_and_are_not_shed() -> None:
    with Dispatcher(
        NAMES, "count", **grouped(workers=1, cores=None, total_capacity_ticks=4, on_full="shed", **BY_LEVEL)
    ) as d:
        d.pause(NAMES[LOW])
        d.publish(ticks([LOW] * 4))
        d.publish(ticks([HIGH]))
        d.resume(NAMES[LOW])
        d.drain()
        dropped = d.statistics().dropped
        assert (dropped["newest"], dropped["shed"]) == (1, 0)


def test_at_a_bound_raise_says_what_did_not_go_in() -> None:
    dispatcher = Dispatcher(NAMES, "count", **grouped(total_capacity_ticks=3, on_full="raise", cores=None, **BY_LEVEL))
    with pytest.raises(BackpressureError, match="strands are full, a bound over several strands is reached") as caught:
        dispatcher.publish(ticks([LOW, HIGH, LOW, HIGH, NORMAL]))
    assert caught.value.rejected.tolist() == [0, 2]
    assert pending(dispatcher) == {"high": 2, "normal": 1, "low": 0, "retry": 0, "immediate": 0}


def test_a_level_at_its_bound_leaves_the_others_their_room() -> None:
    bounds: dict[str, Any] = {"level_capacity_ticks": {"low": 2}, "on_full": "drop_newest"}
    dispatcher = Dispatcher(NAMES, "count", cores=None, **grouped(**bounds), **BY_LEVEL)
    dispatcher.publish(ticks([LOW, LOW, LOW, HIGH, HIGH, HIGH]))
    assert pending(dispatcher)["low"] == 2
    assert pending(dispatcher)["high"] == 3
    assert dispatcher.statistics().dropped_by_level["low"] == 1 == dispatcher.statistics().dropped["newest"]


def test_drops_are_counted_by_level_where_a_strand_is_full_too() -> None:
    dispatcher = Dispatcher(NAMES, "count", cores=None, capacity_ticks=1, on_full="drop_oldest", **BY_LEVEL)
    dispatcher.publish(ticks([LOW, LOW, LOW, HIGH, HIGH]))
    assert dispatcher.statistics().dropped["oldest"] == 3
    assert dispatcher.statistics().as_dict()["dropped_by_level"] == dict.fromkeys(LEVELS, 0) | {"low": 2, "high": 1}


def test_a_state_is_loaded_only_where_there_are_bounds_again(tmp_path: Any) -> None:
    path = tmp_path / "state"
    shedding: dict[str, Any] = {"on_full": "shed", "workers": 1, "cores": None} | BY_LEVEL
    with Dispatcher(NAMES, "count", **grouped(total_capacity_ticks=3, **shedding)) as first:
        first.publish(ticks([LOW, HIGH, NORMAL, HIGH] * 5))
        first.drain()
        first.save(path)
    with Dispatcher(NAMES, "count", **grouped(total_capacity_ticks=4, load=path, **shedding)) as second:
        second.publish(ticks([LOW, HIGH] * 5))
        second.drain()
        second.verify()
    with pytest.raises(SavedStateError, match="total_capacity_ticks"):
        Dispatcher(NAMES, "count", load=path, workers=1, cores=None, **BY_LEVEL)
