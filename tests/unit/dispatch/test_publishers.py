"""Bounds (rule 6): what each policy keeps, what it drops, and what it says of it."""

from __future__ import annotations

import threading
from collections import Counter
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from engine_support import balanced, in_threads, subsequence, ticks_for, wait_until
from hypothesis import given, settings
from hypothesis import strategies as st

import strand
from examples import examples
from strand import Dispatcher, batch_handler, testing
from strand.dispatch.configuration import Limits, Pool, grouped
from strand.errors import BackpressureError, ConfigurationError, SavedStateError, UnknownSymbolError
from strand.policies.policy import LEVELS, Levels
from strand.testing import SeededDispatcher
from strand.ticks import TICK

REASONS = ("newest", "oldest", "conflated", "quarantined", "shed", "failed", "lost", "abandoned")


class Saw:
    """A Python handler that keeps each symbol's sequence numbers."""

    def __init__(self, symbols: int) -> None:
        self.sequences: list[list[int]] = [[] for _ in range(symbols)]
        self.handler = batch_handler(state=[("ticks", "u8")], name="saw")(self.on_ticks)

    def on_ticks(self, symbol: str, ticks: Any, row: Any) -> None:
        self.sequences[int(ticks["instrument_id"][0])] += ticks["sequence"].tolist()


def dropped(d: Dispatcher) -> dict[str, int]:
    """The reasons that count anything."""
    drops = d.statistics().dropped
    assert tuple(drops) == REASONS
    return {reason: n for reason, n in drops.items() if n}


@pytest.mark.parametrize("batches", [1, 3, 50])
def test_drop_newest_keeps_the_first_that_fit(batches: int) -> None:
    saw = Saw(2)
    with Dispatcher(2, saw.handler, workers=1, cores=None, on_full="drop_newest", capacity_ticks=100) as d:
        d.pause(0)
        for part in np.array_split(ticks_for([0, 1] * 250), batches):
            assert d.publish(part) == len(part)
        wait_until(lambda: d.inspect(1).pending == 0)
        assert d.inspect(0).dropped == (150, 0, 0, 0, 0)
        assert d.inspect(0).pending == 100
        d.resume(0)
        d.drain()
        assert saw.sequences[0] == list(range(1, 101))
        assert dropped(d).get("newest", 0) >= 150
        assert d.statistics().accepted == 500
        balanced(d)


@pytest.mark.parametrize("batches", [1, 3, 50])
@pytest.mark.parametrize("capacity", [1, 31, 32, 100])
def test_drop_oldest_keeps_the_last_that_fit(batches: int, capacity: int) -> None:
    saw = Saw(1)
    with Dispatcher(1, saw.handler, workers=1, cores=None, on_full="drop_oldest", capacity_ticks=capacity) as d:
        d.pause(0)
        for part in np.array_split(ticks_for([0] * 500), batches):
            assert d.publish(part) == len(part)
        assert dropped(d) == {"oldest": 500 - capacity}
        assert d.inspect(0).pending == capacity
        d.resume(0)
        d.drain()
        assert saw.sequences[0] == list(range(501 - capacity, 501))
        s = d.statistics()
        assert (s.accepted, s.handled, s.pending) == (500, capacity, 0)
        balanced(d)


@pytest.mark.parametrize("batches", [1, 3, 50])
def test_conflate_keeps_the_latest_of_each_symbol_in_order(batches: int) -> None:
    keys = np.random.default_rng(4).integers(0, 12, 500)
    saw = Saw(12)
    order: list[int] = []
    latest = batch_handler(state=[("ticks", "u8")])(
        lambda symbol, ticks, row: (saw.on_ticks(symbol, ticks, row), order.extend(ticks["size"].tolist()))[0]
    )
    with Dispatcher(12, latest, workers=1, cores=None, on_full="conflate", capacity_ticks=2) as d:
        for symbol in range(12):
            d.pause(symbol)
        for part in np.array_split(ticks_for(keys), batches):
            assert d.publish(part) == len(part)
        counts = np.bincount(keys, minlength=12)
        pending = sum(d.inspect(i).pending for i in range(12))
        assert dropped(d) == {"conflated": 500 - pending}
        for symbol in range(12):
            d.resume(symbol)
        d.drain()
        for symbol in range(12):
            assert len(saw.sequences[symbol]) <= 2
            assert saw.sequences[symbol][-1] == counts[symbol]
            assert subsequence(saw.sequences[symbol], range(1, counts[symbol] + 1))
        balanced(d)


def test_raise_tells_exactly_which_ticks_did_not_go_in() -> None:
    saw = Saw(3)
    with Dispatcher(3, saw.handler, workers=1, cores=None, on_full="raise", capacity_ticks=10) as d:
        d.pause(0)
        d.pause(1)
        ticks = ticks_for(([0, 1] * 4 + [2]) * 8)
        with pytest.raises(
            BackpressureError, match="44 of 72 records were not accepted, the first at position 22"
        ) as caught:
            d.publish(ticks)
        expected = np.flatnonzero(ticks["sequence"] > 10).tolist()
        assert caught.value.rejected.dtype == np.int64
        assert caught.value.rejected.tolist() == expected
        assert d.statistics().accepted == 28
        assert dropped(d) == {}
        assert (d.inspect(0).pending, d.inspect(1).pending) == (10, 10)
        d.drain()
        balanced(d)


def test_raise_leaves_the_batches_after_the_full_one_unpublished() -> None:
    saw = Saw(2)
    with Dispatcher(2, saw.handler, workers=1, cores=None, on_full="raise", capacity_ticks=10, batch_ticks=16) as d:
        d.pause(0)
        with pytest.raises(BackpressureError) as caught:
            d.publish(ticks_for([0] * 12 + [1] * 100))
        assert caught.value.rejected.tolist() == [10, 11, *range(16, 112)]
        d.drain()
        assert saw.sequences[1] == [1, 2, 3, 4]


@pytest.mark.parametrize("on_full", ["raise", "block"])
@pytest.mark.parametrize("batch", [16, 4096])
def test_publishing_the_rejected_again_gives_everything_once_and_in_order(on_full: str, batch: int) -> None:
    keys = np.random.default_rng(6).integers(0, 5, 3_000)
    saw = Saw(5)
    options: dict[str, Any] = {"timeout_s": 0.0} if on_full == "block" else {}
    with Dispatcher(
        5, saw.handler, workers=2, cores=None, on_full=on_full, capacity_ticks=20, batch_ticks=batch, budget_ticks=7
    ) as d:
        left, turns = ticks_for(keys), 0
        while len(left):
            try:
                assert d.publish(left, **options) == len(left)
                break
            except BackpressureError as error:
                assert (np.diff(error.rejected) > 0).all()
                left = left[error.rejected]
                turns += 1
                for symbol in range(5):  # some of them stand still now and then
                    (d.pause if (turns + symbol) % 3 == 0 else d.resume)(symbol)
        for symbol in range(5):
            d.resume(symbol)
        d.drain()
        assert turns > 0
        assert d.statistics().handled == 3_000
        balanced(d)
    for symbol in range(5):
        assert saw.sequences[symbol] == list(range(1, int((keys == symbol).sum()) + 1))


def test_block_with_a_time_limit_tells_which_ticks_did_not_go_in() -> None:
    saw = Saw(2)
    with Dispatcher(2, saw.handler, workers=1, cores=None, capacity_ticks=10, batch_ticks=100) as d:
        d.pause(0)
        with pytest.raises(BackpressureError) as caught:
            d.publish(ticks_for([0, 1] * 100), timeout_s=0.02)
        # The batch under way went in as far as there was room, of symbol 1 as far as its worker had made some by then;
        # those after it did not start.
        rejected = caught.value.rejected.tolist()
        went_in = 50 - sum(at % 2 for at in rejected if at < 100)
        assert went_in >= 10
        assert rejected == [*sorted([*range(20, 100, 2), *range(2 * went_in + 1, 100, 2)]), *range(100, 200)]
        d.drain()
        assert saw.sequences[1] == list(range(1, went_in + 1))
        assert d.watermark() <= 200
        d.resume(0)
        d.drain()
        assert d.watermark() == 200
        balanced(d)


def test_the_bound_of_a_strand_that_blocks_is_never_passed() -> None:
    highest = 0

    @batch_handler(state=[("ticks", "u8")])
    def looks(symbol: str, ticks: Any, row: Any) -> None:
        nonlocal highest
        highest = max(highest, d.inspect(0).pending)

    with Dispatcher(1, looks, workers=1, cores=None, capacity_ticks=25, budget_ticks=3) as d:
        in_threads(d.publish, [ticks_for([0] * 2_000) for _ in range(3)])
    assert 0 < highest <= 25


def test_strands_together_cannot_take_more_blocks_than_there_are() -> None:
    saw = Saw(64)
    least = (1 + 1 + 1) * 128 * 2048 + 64 * 2048
    with Dispatcher(
        64,
        saw.handler,
        pool=Pool(workers=1, cores=None, max_publishers=1),
        limits=Limits(memory_bytes=least, capacity_ticks=31, on_full="raise"),
    ) as d:
        for symbol in range(64):
            d.pause(symbol)
        taken = 0
        for symbol in range(64):
            try:
                taken += d.publish(ticks_for([symbol] * 31))
            except BackpressureError as error:
                taken += 31 - len(error.rejected)
        assert taken == sum(d.inspect(i).pending for i in range(64)) == d.statistics().pending
        for symbol in range(64):
            d.resume(symbol)
        d.drain()
        assert d.statistics().handled == taken
        balanced(d)


@pytest.mark.parametrize("on_full", ["block", "drop_newest", "drop_oldest", "conflate", "raise"])
def test_a_key_outside_the_table_is_named_with_its_position_and_what_came_before_is_in(on_full: str) -> None:
    for bad in (0, 1, 5, 99):
        saw = Saw(4)
        with Dispatcher(4, saw.handler, workers=1, cores=None, on_full=on_full, batch_ticks=6, capacity_ticks=500) as d:
            ticks = ticks_for(np.arange(100) % 4)
            ticks["instrument_id"][bad] = 4
            with pytest.raises(
                UnknownSymbolError, match=f"record {bad}: instrument_id is 4, but there are 4"
            ) as caught:
                d.publish(ticks)
            assert caught.value.position == bad
            d.drain()
            assert sum(map(len, saw.sequences)) == bad == d.statistics().accepted
            balanced(d)


@pytest.mark.parametrize("at", [0, 1, 63, 64, 100, 127, 128])
def test_a_key_outside_the_table_is_met_where_few_strands_have_all_of_a_chunk(at: int) -> None:
    ticks = ticks_for([0, 1, 2, 3] * 64)
    ticks["instrument_id"][at] = 4
    saw = Saw(4)
    with Dispatcher(4, saw.handler, workers=1, cores=None, batch_ticks=64) as d:
        with pytest.raises(UnknownSymbolError, match=f"record {at}: "):
            d.publish(ticks)
        d.publish(ticks[at + 1 :])  # nothing is left locked
        d.drain()
        keys, sequences = ticks["instrument_id"], ticks["sequence"]
        assert saw.sequences == [sequences[keys == key].tolist() for key in range(4)]
        balanced(d)


@pytest.mark.parametrize("on_full", ["drop_newest", "raise"])
def test_a_bound_is_kept_where_few_strands_have_all_of_a_chunk(on_full: Any) -> None:
    saw = Saw(2)
    # A chunk of 64 has 32 of each: the fourth finds room for 4.
    with Dispatcher(2, saw.handler, workers=1, cores=None, on_full=on_full, capacity_ticks=100, batch_ticks=64) as d:
        d.pause(0)
        d.pause(1)
        if on_full == "raise":
            with pytest.raises(BackpressureError) as full:
                d.publish(ticks_for([0, 1] * 500))
            assert full.value.rejected.tolist() == list(range(200, 1000))
        else:
            d.publish(ticks_for([0, 1] * 500))
            assert dropped(d) == {"newest": 800}
        assert [d.inspect(key).pending for key in (0, 1)] == [100, 100]
        d.resume(0)
        d.resume(1)
        d.drain()
        assert saw.sequences == [list(range(1, 101))] * 2
        balanced(d)


def test_memory_that_cannot_hold_one_strand_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="memory_bytes: 1000000 is too little for") as caught:
        Dispatcher(4, "count", workers=1, limits=Limits(memory_bytes=1_000_000))
    least = int(str(caught.value).split("at least ")[1].split(",")[0])
    Dispatcher(4, "count", workers=1, limits=Limits(memory_bytes=least))
    with pytest.raises(ConfigurationError):
        Dispatcher(4, "count", workers=1, limits=Limits(memory_bytes=least - 2048))


def test_a_conflating_strand_must_be_able_to_hold_a_tick_of_each_of_its_symbols() -> None:
    with pytest.raises(ConfigurationError, match="capacity_ticks: 10 cannot keep the latest"):
        Dispatcher(1_000, "count", strands=10, on_full="conflate", capacity_ticks=10)


# ---- Bounds over several strands: what they let in, what they drop, and that it is all counted


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
        k = d._engine.strands.inspect(int(d._routing.by_counts(None)[NAMES.index(name)]))
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
