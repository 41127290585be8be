"""Long calls on one core: the publisher owns all strands, and handles ticks in the order in which they lie."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
from engine_support import PAIR_ROW, balanced, ticks_for
from hypothesis import given, settings
from hypothesis import strategies as st

import strand
from strand import Dispatcher, native
from strand.errors import HandlerError, UnknownSymbolError

TICKS: Final = 100_000
#: Room for all ticks of a paused symbol.
LIMITS: Final = strand.Limits(capacity_ticks=TICKS, memory_bytes=1 << 28)


@pytest.fixture(autouse=True, scope="module")
def one_core() -> Iterator[None]:
    """There a publisher runs handlers itself from the first tick on."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    yield
    os.sched_setaffinity(0, allowed)


@pytest.mark.parametrize("read_only", [False, True])
@given(
    st.integers(1, 4_000),
    st.tuples(st.integers(32_768, 90_000), st.sampled_from([0.0, 1.1, 1.5, 3.0]), st.integers(0, 99)),
    st.lists(st.floats(0, 1), max_size=2),
    st.sampled_from(["auto", "per-symbol", 3]),
)
@settings(max_examples=25)
def test_any_array_is_handled_in_order_up_to_its_first_bad_key(
    read_only: bool, symbols: int, about: tuple[int, float, int], faults: list[float], strands: Any
) -> None:
    """Keys out of range at any place. The spin handler counts ticks whose number does not follow the last one."""
    n, skew, seed = about
    draw = np.random.default_rng(seed)
    keys = draw.zipf(skew, n).clip(1, symbols) - 1 if skew else draw.integers(0, symbols, n)
    ticks = ticks_for(keys)
    bad = sorted({int(place * (n - 1)) for place in faults})
    ticks["instrument_id"][bad] = draw.integers(symbols, 2**32, len(bad))
    ticks.flags.writeable = not read_only
    counts = np.bincount(keys[: min(bad, default=n)], minlength=symbols)
    strands = min(symbols, strands) if isinstance(strands, int) else strands
    with Dispatcher(symbols, strand.handlers.spin(work=0), workers=1, strands=strands) as d:
        if bad:
            with pytest.raises(UnknownSymbolError, match=f"record {bad[0]}: "):
                d.publish(ticks)
        else:
            d.publish(ticks)
        d.drain()
        balanced(d)
        assert not d.rows.array["broken"].any()
        assert d.rows.array["ticks"].tolist() == counts.tolist()
        assert d.statistics().handled_inline == counts.sum()


def test_statistics_say_that_long_calls_went_ungrouped_and_short_ones_did_not() -> None:
    ticks = ticks_for(np.arange(TICKS) % 11)
    with Dispatcher(11, "count", workers=1) as d:
        d.publish(ticks)
        d.drain()
        long = d.statistics()
        for first in range(0, TICKS, 1_000):
            d.publish(ticks[first : first + 1_000])
        d.publish(ticks[:1_000])
        d.drain()
        both = d.statistics()
    # The engine measures the cost of a tick: until it knows it, it may group the first ticks of a call.
    assert (long.ingest.way, long.handled) == ("ungrouped", TICKS)
    assert TICKS // 2 < long.ingest.handled_ungrouped <= TICKS
    assert long.ingest.said.startswith("ungrouped: ")
    assert (both.ingest.way, both.handled) == ("publish", 2 * TICKS + 1_000)
    assert both.ingest.handled_ungrouped == long.ingest.handled_ungrouped


@pytest.mark.parametrize("strands", ["per-symbol", 3])
@pytest.mark.parametrize("at", [0, 5, 40_000, TICKS - 1])
def test_a_failure_tells_how_many_ticks_its_symbol_had_and_later_ones_of_its_strand_wait(
    c_handlers: Path, strands: Any, at: int
) -> None:
    sums, symbols = native(c_handlers, "on_sum", state=PAIR_ROW, never_publishes=True), 11
    keys = np.arange(TICKS) % symbols
    ticks = ticks_for(keys)
    ticks["action"][at] = b"X"
    options: dict[str, Any] = {"workers": 1, "strands": strands, "limits": LIMITS}
    with Dispatcher(symbols, sums, on_error="quarantine", **options) as d:
        d.publish(ticks)
        held = [key for key in range(symbols) if d.strand_of(key) == d.strand_of(int(keys[at]))]
        before = np.bincount(keys[:at], minlength=symbols)
        there = np.bincount(keys, minlength=symbols)
        there[held] = before[held]
        while d.statistics().handled < there.sum():
            pass
        assert d.rows.array["ticks"].tolist() == there.tolist()
        d.release(int(keys[at]))
        d.drain()
        balanced(d)
        assert d.statistics().handled == TICKS - 1
    with (
        # Of a strand of several symbols it says nothing.
        pytest.raises(HandlerError, match=f"its tick {before[held].sum() + 1:,}[^,0-9]" if len(held) == 1 else "42|X"),
        Dispatcher(symbols, sums, **options) as d,
    ):
        d.publish(ticks)
        d.drain()


def test_a_paused_symbol_waits_while_the_others_are_handled(c_handlers: Path) -> None:
    sums = native(c_handlers, "on_sum", state=PAIR_ROW, never_publishes=True)
    ticks = ticks_for(np.arange(TICKS) % 5)
    with Dispatcher(5, sums, workers=1, strands="per-symbol", limits=LIMITS) as d:
        d.pause(3)
        d.publish(ticks)
        while d.statistics().handled < TICKS * 4 // 5:
            pass
        assert d.rows.array["ticks"].tolist() == [TICKS // 5, TICKS // 5, TICKS // 5, 0, TICKS // 5]
        d.resume(3)
        d.drain()
        d.publish(ticks)
        d.drain()
        balanced(d)
        assert d.rows.array["ticks"].tolist() == [2 * TICKS // 5] * 5


def test_several_publishers_of_long_calls_and_calls_in_between_lose_nothing(c_handlers: Path) -> None:
    symbols, publishers, times = 50, 3, 20
    counted: list[int] = []
    with Dispatcher(symbols, "count", workers=2) as d:
        ticks = ticks_for(np.arange(TICKS) % symbols)
        threads = [threading.Thread(target=lambda: [d.publish(ticks) for _ in range(times)]) for _ in range(publishers)]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            counted.append(d.call(7, lambda view: int(view.row["ticks"])))
        d.drain()
        balanced(d)
        assert counted == sorted(counted)
        assert d.rows.array["ticks"].tolist() == [publishers * times * TICKS // symbols] * symbols


def test_only_an_array_that_nobody_can_change_is_handled_where_it_lies(c_handlers: Path) -> None:
    where, symbols = native(c_handlers, "on_where", state=PAIR_ROW, never_publishes=True), 3
    owner = ticks_for(np.arange(TICKS) % symbols)
    view = owner[:]
    view.flags.writeable = False
    constant = owner.copy()
    constant.flags.writeable = False
    shared = np.frombuffer(bytearray(owner.tobytes()), owner.dtype)
    shared.flags.writeable = False
    for ticks, lies in ((owner, False), (view, False), (shared, False), (constant, True), (constant[10:], True)):
        with Dispatcher(symbols, where, workers=1) as d:
            d.publish(ticks)
            d.drain()
            first = ticks.ctypes.data
            places = d.rows.array["total"].astype(np.int64) - first
            assert ((places >= 0) & (places < ticks.nbytes)).all() == lies
