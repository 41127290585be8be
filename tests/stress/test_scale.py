"""Many symbols, many strands, many ticks: it holds at the sizes that are promised."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from bad_input import SANITIZED
from engine_support import RELAY_ROW, balanced, ticks_for

from strand import Dispatcher, native
from strand.dispatch.configuration import Limits, Pool

SYMBOLS = 1_000_000
LINE = 64


def resident_bytes() -> int:
    """Bytes of this process that lie in memory."""
    for line in Path("/proc/self/smaps_rollup").read_text().splitlines():
        if line.startswith("Rss:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no Rss")


@pytest.mark.slow
def test_a_million_idle_strands_take_at_most_256_bytes_each_and_all_of_them_work() -> None:
    with Dispatcher(1, "count", workers=2, cores=None):
        pass  # what is imported lazily is there now
    before = resident_bytes()
    with Dispatcher(SYMBOLS, "count", strands="per-symbol", workers=2, cores=None) as d:
        assert d.n_strands == SYMBOLS
        idle = resident_bytes() - before  # no row has been touched yet
        assert idle <= 256 * SYMBOLS
        keys = np.random.default_rng(1).permutation(SYMBOLS)
        for _ in range(2):
            d.publish(ticks_for(keys))
            assert d.drain()
        d.verify()
        assert (d.rows.array["ticks"] == 2).all()
        if not SANITIZED:  # which keeps what is freed
            # With a tick through each of them, they still hold no segment: rows, and a little for who published.
            used = resident_bytes() - before - LINE * SYMBOLS
            assert used <= 256 * SYMBOLS + 200 * 2**20
        s = d.statistics()
        assert (s.handled, s.pending) == (2 * SYMBOLS, 0)


@pytest.mark.slow
@pytest.mark.parametrize("on_full", ["block", "drop_oldest"])
def test_a_small_pool_serves_a_hundred_thousand_strands_by_taking_blocks_back(on_full: str) -> None:
    symbols = 100_000
    least = (2 + 1 + 1) * 128 * 2048 + 300 * 2048
    with Dispatcher(
        symbols, "spin", strands="per-symbol", pool=Pool(workers=2, cores=None, max_publishers=1),
        limits=Limits(capacity_ticks=100, memory_bytes=least, on_full=on_full),

    ) as d:  # fmt: skip
        keys = np.random.default_rng(2).permutation(symbols)
        for turn in range(1, 4):
            ticks = ticks_for(keys)
            ticks["sequence"] = turn
            d.publish(ticks)
            assert d.drain()
            assert (d.rows.array["ticks"] == turn).all()
        balanced(d)
    assert d.rows.array["broken"].sum() == 0


@pytest.mark.slow
def test_a_starfish_of_a_thousand_symbols_and_a_thousand_steps_ends_with_every_tick_accounted_for(
    c_handlers: Path,
) -> None:
    """Each of 1,000 symbols starts a tick on its way around all the others: a million, published by handlers."""
    legs = 1_000
    handler = native(c_handlers, "on_relay", state=RELAY_ROW)
    with Dispatcher(legs, handler, strands="per-symbol", workers=3, cores=None) as d:
        ticks = ticks_for(range(legs))
        ticks["order_id"] = legs - 1
        d.publish(ticks)
        assert d.drain()
        assert d.statistics().handled == legs * legs
        balanced(d)
    assert d.rows.array["refused"].sum() == 0
    assert d.rows.array["ticks"].tolist() == [legs] * legs


@pytest.mark.slow
@pytest.mark.parametrize("idle", ["backoff", "park"])
def test_waves_with_pauses_between_them_wake_whom_they_need(idle: str) -> None:
    symbols = 2_000
    with Dispatcher(
        symbols, "spin", strands="per-symbol", workers=3, cores=None, idle=idle, publisher_drains=False
    ) as d:
        keys = np.random.default_rng(3).integers(0, symbols, 10_000)
        counts = np.bincount(keys, minlength=symbols).astype(np.uint64)
        for wave in range(100):
            ticks = ticks_for(keys)
            ticks["sequence"] = ticks["sequence"] + wave * counts[keys].astype(np.int64)
            d.publish(ticks)
            assert d.drain()
        balanced(d)
    assert d.rows.array["broken"].sum() == 0
    assert (d.rows.array["ticks"] == 100 * counts).all()
