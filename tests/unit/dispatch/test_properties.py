"""Any stream, batching, workers, bounds and policy give what a plain loop gives, and the books balance."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
from dispatch_cases import Case, cases, spin_in_python
from engine_support import balanced, numbered, spin_rows, subsequence, ticks_for
from hypothesis import given
from hypothesis import strategies as st

from strand import Dispatcher, batch_handler


def publish_all(d: Dispatcher, case: Case) -> None:
    """Each publisher in a thread of its own, cut into batches."""
    failed: list[BaseException] = []

    def publish(number: int) -> None:
        try:
            ticks = ticks_for(case.streams[number], publisher=number)
            for at in range(0, len(ticks), case.cuts):
                d.publish(ticks[at : at + case.cuts])
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=publish, args=(i,)) for i in range(1, len(case.streams))]
    for thread in threads:
        thread.start()
    publish(0)
    for thread in threads:
        thread.join()
    assert failed == []


@given(cases(publishers=1))
def test_one_publisher_s_rows_equal_a_plain_loop(case: Case) -> None:
    handler: Any = spin_in_python if case.python else "spin"
    ticks = ticks_for(case.streams[0])
    with Dispatcher(case.symbols, handler, strands=case.strands, **case.options) as d:
        publish_all(d, case)
        assert d.drain()
        balanced(d)
        start = case.options["_counters_start"]
        assert d.watermark() == (start + len(ticks)) % 2**64
        s = d.statistics()
        assert (s.accepted, s.handled, s.pending, sum(s.dropped.values())) == (len(ticks), len(ticks), 0, 0)
    assert (d.rows.array == spin_rows(ticks, case.symbols)).all()


@given(cases())
def test_each_publisher_s_ticks_of_a_symbol_are_seen_in_its_order(case: Case) -> None:
    seen: list[list[tuple[int, int]]] = [[] for _ in range(case.symbols)]

    @batch_handler(state=[("ticks", "u8")])
    def keeps(symbol: str, ticks: Any, row: Any) -> None:
        row["ticks"] += len(ticks)
        seen[int(ticks["instrument_id"][0])] += zip(
            ticks["publisher_id"].tolist(), ticks["sequence"].tolist(), strict=True
        )

    handler: Any = keeps if case.python else "count"
    with Dispatcher(case.symbols, handler, strands=case.strands, **case.options) as d:
        publish_all(d, case)
        assert d.drain()
        balanced(d)
        assert d.watermark() == (case.options["_counters_start"] + sum(map(len, case.streams))) % 2**64
    every = np.concatenate([np.asarray(s, np.int64) for s in case.streams])
    assert d.rows.array["ticks"].tolist() == np.bincount(every, minlength=case.symbols).tolist()
    for key in range(case.symbols if case.python else 0):
        for number, stream in enumerate(case.streams):
            mine = [sequence for publisher, sequence in seen[key] if publisher == number]
            assert mine == list(range(1, stream.count(key) + 1))


@given(cases(), st.sampled_from(["drop_newest", "drop_oldest", "conflate"]), st.booleans())
def test_what_a_lossy_policy_lets_through_is_in_order_and_what_it_drops_is_counted(
    case: Case, on_full: str, paused: bool
) -> None:
    """One symbol a strand, so that its own latest tick is the strand's latest."""
    seen: list[list[tuple[int, int]]] = [[] for _ in range(case.symbols)]

    @batch_handler(state=[("ticks", "u8")])
    def keeps(symbol: str, ticks: Any, row: Any) -> None:
        seen[int(ticks["instrument_id"][0])] += zip(
            ticks["publisher_id"].tolist(), ticks["sequence"].tolist(), strict=True
        )

    with Dispatcher(case.symbols, keeps, strands="per-symbol", on_full=on_full, **case.options) as d:
        for symbol in range(0, case.symbols if paused else 0, 2):
            d.pause(symbol)
        publish_all(d, case)
        d.drain()
        s = d.statistics()
        assert s.accepted == sum(map(len, case.streams))
        assert s.pending == sum(d.inspect(i).pending for i in range(case.symbols))
        balanced(d)
        for symbol in range(case.symbols):
            d.resume(symbol)
        d.drain()
        balanced(d)
        s = d.statistics()
        assert s.accepted == s.handled + sum(s.dropped.values()) == sum(map(len, case.streams))
        assert s.handled == sum(map(len, seen))
        reason = {"drop_newest": "newest", "drop_oldest": "oldest", "conflate": "conflated"}[on_full]
        assert sum(s.dropped.values()) == s.dropped[reason]
        assert d.watermark() == (case.options["_counters_start"] + s.accepted) % 2**64
    for key in range(case.symbols):
        for number, stream in enumerate(case.streams):
            mine = [sequence for publisher, sequence in seen[key] if publisher == number]
            assert subsequence(mine, range(1, stream.count(key) + 1))
        published = {(number, stream.count(key)) for number, stream in enumerate(case.streams) if key in stream}
        assert bool(seen[key]) == bool(published)
        if published:
            if on_full == "drop_newest":
                assert seen[key][0][1] == 1
            else:
                assert seen[key][-1] in published  # some publisher's last


@given(cases(publishers=1), st.sampled_from(["drop_oldest", "conflate"]))
def test_shared_strands_that_drop_end_with_the_latest_of_what_they_keep(case: Case, on_full: str) -> None:
    """Native, several symbols a strand."""
    options = case.options | ({"capacity_ticks": 2 * case.symbols} if on_full == "conflate" else {})
    keys = np.asarray(case.streams[0], np.int64)
    with Dispatcher(case.symbols, "count", strands=case.strands, on_full=on_full, **options) as d:
        publish_all(d, case)
        d.drain()
        balanced(d)
        s = d.statistics()
        assert s.accepted == len(keys) == s.handled + sum(s.dropped.values())
        if on_full == "conflate":
            counts = np.bincount(keys, minlength=case.symbols)
            assert d.rows.array["last_sequence"].tolist() == counts.tolist()
        elif len(keys):
            last = int(keys[-1])
            assert d.rows[last]["last_sequence"] == (keys == last).sum()


@given(st.lists(st.integers(0, 5), max_size=50))
def test_the_numbers_streams_carry_are_each_symbol_s_own(keys: list[int]) -> None:
    """The tests above lean on it."""
    seen: dict[int, int] = {}
    for key, place in zip(keys, numbered(np.asarray(keys, np.int64)).tolist(), strict=True):
        seen[key] = seen.get(key, 0) + 1
        assert place == seen[key]
