"""The synthetic market, checked by a parser and an order book that share nothing with the code that makes it."""

from __future__ import annotations

import json
import re
import zlib
from collections import Counter
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from order_books import Books
from reading import ticks_of

from strand.binding.lab import Market
from strand.errors import ConfigurationError, FeedError
from strand.feeds import synthetic
from strand.feeds.base import Feed, FeedInfo
from strand.feeds.formats.itch import ItchFeed
from strand.feeds.formats.npy import NpyFeed
from strand.feeds.synthetic import SyntheticFeed, check_calibration, route_stream, stream
from strand.ticks import empty, zeros

pytestmark = pytest.mark.python


MIDNIGHT_NS = 1_767_589_200 * 10**9  # 2026-01-05T00:00-05:00
OPEN_NS = MIDNIGHT_NS + 34_200 * 10**9
CLOSE_NS = MIDNIGHT_NS + 57_600 * 10**9
OPENING = 3  # messages before the first event, and three a symbol


@pytest.fixture(scope="module")
def day() -> np.ndarray[Any, np.dtype[np.void]]:
    return stream(150_000, symbols=60, seed=7)


@pytest.fixture(scope="module")
def books(day: Any) -> Books:
    return Books().replay(day)


def test_the_generator_and_an_independent_book_agree_on_what_lives_at_the_end(books: Books) -> None:
    market: Market = SyntheticFeed(60, 150_000, seed=7).market()
    out = empty(150_000)
    assert market.next_batch(out) == 150_000
    assert market.next_batch(out) == 0
    market.check()
    totals = market.totals()
    assert totals.events == 150_000
    assert totals.live_orders == len(books.orders)
    assert totals.order_bytes <= 64 * totals.live_orders + 60 * 2 * 4 * 16


def test_times_rise_and_sequences_by_one_but_for_the_start_and_the_end_of_market_hours(day: Any) -> None:
    times = day["ts_event"].astype(np.int64)
    assert (np.diff(times) >= 0).all()
    assert OPEN_NS - 120 * 10**9 <= times[0] < OPEN_NS - 110 * 10**9
    assert CLOSE_NS + 5 * 10**9 <= times[-1] < CLOSE_NS + 10 * 10**9
    session = times[(times >= OPEN_NS) & (times < CLOSE_NS)]
    assert session[0] < OPEN_NS + 60 * 10**9
    assert session[-1] > CLOSE_NS - 60 * 10**9
    assert (day["ts_recv"] == day["ts_event"]).all()
    hours = (times >= OPEN_NS).astype(int) + (times >= CLOSE_NS)
    assert (day["sequence"] == np.arange(150_000) + OPENING + 3 * 60 + 1 + hours).all()


def test_imbalances_come_before_the_crosses_and_crosses_begin_and_end_the_trading(day: Any) -> None:
    opening = np.flatnonzero(day["flags"] == 0x80 | ord("O"))
    assert opening.tolist() == list(range(len(opening)))
    crosses = np.flatnonzero((day["action"] == b"T") & np.isin(day["flags"], (0x14, 0x24)))
    assert crosses.tolist() == [*range(len(opening), len(opening) + 60), *range(150_000 - 60, 150_000)]
    assert set(day["instrument_id"][opening]) == set(range(1, 61)) == set(day["instrument_id"][crosses[:60]])
    assert (day["ts_event"][opening] < OPEN_NS).all()
    closing = day[day["flags"] == 0x80 | ord("C")]
    assert set(closing["instrument_id"]) == set(range(1, 61))
    assert closing["ts_event"].min() >= CLOSE_NS - 600 * 10**9
    assert (day["ts_event"][-60:] >= CLOSE_NS).all()


def test_a_halted_symbol_is_only_cancelled_and_reopens_in_a_cross() -> None:
    ticks = stream(200_000, symbols=4, seed=5, halts=4)
    seen = Counter[str]()
    for locate in range(1, 5):
        mine = ticks[ticks["instrument_id"] == locate]
        states = np.flatnonzero((mine["kind"] == 4) & (mine["flags"] < 0x80))
        halt, quote, resume = states
        assert [chr(c) for c in mine["flags"][states]] in (["P", "Q", "T"], ["H", "Q", "T"])
        reasons = [int(r).to_bytes(4, "big") for r in mine["ref_id"][states]]
        assert reasons in ([b"LUDP"] * 3, [b"T1  ", b"T3  ", b"T3  "])
        assert set(mine["action"][halt + 1 : quote]) <= {b"C", b"N"}
        assert set(mine["action"][quote + 1 : resume - 1]) <= {b"A", b"C", b"M", b"N"}
        assert mine["flags"][resume - 1] == 0x34
        seconds = (int(mine["ts_event"][resume]) - int(mine["ts_event"][halt])) / 1e9
        assert seconds == pytest.approx(300, abs=10) if reasons[0] == b"LUDP" else 890 < seconds < 2710
        seen.update(tick.decode() for tick in mine["action"][halt:resume])
    assert seen["C"]
    assert seen["A"]


@pytest.mark.parametrize(
    ("messages", "symbols", "seed", "burst", "digest"),
    [
        (300, 7, 1, 1.0, "e5abf2aabc8c30ed"),
        (20_000, 500, 7, 1.0, "261b13cf9764927b"),
        (20_000, 500, 7, 2.0, "14ebd1fdc7385ed0"),
    ],
)
def test_a_seed_s_stream_stays_as_it_was(messages: int, symbols: int, seed: int, burst: float, digest: str) -> None:
    made = stream(messages, symbols, seed=seed, burst=burst)
    assert blake2b(made.tobytes(), digest_size=8).hexdigest() == digest


@pytest.mark.parametrize("batch_ticks", [1, 7, 1000, 1_000_000])
def test_the_batch_size_does_not_change_the_stream(batch_ticks: int) -> None:
    feed = SyntheticFeed(40, 5000, batch_ticks=batch_ticks)
    sizes = [len(batch) for batch in feed.batches()]
    assert max(sizes) <= batch_ticks
    assert sum(sizes) == 5040
    assert ticks_of(feed).tobytes() == ticks_of(SyntheticFeed(40, 5000)).tobytes()


def test_the_itch_reader_gives_back_the_ticks_that_were_written(tmp_path: Path) -> None:
    feed = SyntheticFeed(70, 30_000, seed=9)
    feed.write_itch(tmp_path / "day.itch50.gz")
    read = ItchFeed(tmp_path / "day.itch50.gz", date="2026-01-05")
    assert ticks_of(read).tobytes() == ticks_of(feed).tobytes()
    assert list(read.symbols) == list(feed.symbols)


def test_writing_that_is_stopped_leaves_what_was_there_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "day.itch50"
    path.write_bytes(b"old")
    calls: list[tuple[int, int]] = []

    def stop(done: int, total: int) -> None:
        calls.append((done, total))
        if len(calls) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        SyntheticFeed(20, 100_000).write_itch(path, progress=stop)
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["day.itch50"]
    SyntheticFeed(20, 100_000).write_itch(path, progress=lambda done, total: calls.append((done, total)))
    assert calls[-1] == (100_067, 100_067)


def test_a_place_that_cannot_be_written_is_a_feed_error(tmp_path: Path) -> None:
    with pytest.raises(FeedError, match="cannot be written"):
        SyntheticFeed(5, 100).write_itch(tmp_path / "missing" / "day.itch50")
    (tmp_path / "folder").mkdir()
    with pytest.raises(FeedError, match="cannot be written: it is a folder"):
        SyntheticFeed(5, 100).write_itch(tmp_path / "folder")
    assert [p.name for p in tmp_path.iterdir()] == ["folder"]


def test_a_file_refuses_more_symbols_than_it_can_number_and_arrays_take_a_million(tmp_path: Path) -> None:
    SyntheticFeed(65_535, 1000).write_itch(tmp_path / "most.itch50")
    with pytest.raises(ConfigurationError, match=r"symbols: .*65,535"):
        SyntheticFeed(65_536, 1000).write_itch(tmp_path / "more.itch50")
    assert [p.name for p in tmp_path.iterdir()] == ["most.itch50"]
    feed = SyntheticFeed(1_000_000, 300_000)
    assert feed.max_symbols == len(feed.symbols) == 1_000_001
    assert feed.symbols[-1] == "CEXHN"
    ticks = stream(300_000, symbols=1_000_000)
    Books().replay(ticks[:20_000])
    assert 300_000 > len(np.unique(ticks["instrument_id"])) > 30_000
    assert ticks["instrument_id"].max() <= 1_000_000


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"symbols": 0}, "symbols"),
        ({"symbols": 1_000_001}, "symbols"),
        ({"messages": 0}, "messages"),
        ({"messages": 2**40}, "messages"),
        ({"seed": -1}, "seed"),
        ({"seed": 2**64}, "seed"),
        ({"date": "1960-01-05"}, "date"),
        ({"skew": "zipf"}, "skew"),
        ({"skew": float("nan")}, "skew"),
        ({"skew": 9}, "skew"),
        ({"burst": 2.5}, "burst"),
        ({"burst": "much"}, "burst"),
        ({"batch_ticks": 0}, "batch_ticks"),
        ({"halts": 1.5}, "halts"),
        ({"symbols": 5, "halts": 6}, "halts"),
        ({"messages": 999, "halts": 10}, "halts"),
    ],
)
def test_a_bad_argument_is_refused_and_named(arguments: dict[str, Any], field: str) -> None:
    with pytest.raises(ConfigurationError, match=f"^{field}: "):
        SyntheticFeed(**arguments)


def test_a_feed_can_be_closed_in_the_middle_and_read_anew() -> None:
    feed = SyntheticFeed(10, 5000, batch_ticks=1000)
    assert isinstance(feed, Feed)
    batches = feed.batches()
    next(batches)
    assert feed.statistics() == {"messages": 1024, "ticks": 1000, "skipped": 0}
    feed.close()
    feed.close()
    assert list(batches) == []
    assert sum(len(batch) for batch in feed.batches()) == feed.statistics()["ticks"] == 5010


@pytest.mark.parametrize(
    ("arguments", "checksum", "first"),
    [
        ((1_000_000, 8172, "calibrated"), 1170836282, [7695, 7028, 1026, 7568]),
        ((1_000_000, 50, 1.2), 1190616058, [35, 2, 3, 49]),
        ((300_000, 1_000_000, 0.9), 1562724894, [844908, 670466, 706427, 399276]),
        ((300_000, 20_000, "calibrated"), 2820094440, [17387, 17395, 11107, 14963]),
        ((300_000, 300, "calibrated"), 2625758411, [233, 28, 80, 116]),
    ],
)
def test_the_routing_stream_keeps_its_recipe(arguments: Any, checksum: int, first: list[int]) -> None:
    ticks = route_stream(*arguments)
    assert ticks["instrument_id"][:4].tolist() == first
    assert zlib.crc32(ticks.tobytes()) == checksum
    assert ticks.ctypes.data % 64 == 0


@settings(max_examples=60, deadline=None)
@given(
    symbols=st.integers(1, 60),
    messages=st.integers(1, 3000),
    seed=st.integers(0, 2**64 - 1),
    skew=st.one_of(st.just("calibrated"), st.floats(0, 8)),
    burst=st.floats(0, 2),
    halted=st.floats(0, 1),
)
def test_any_day_fits_an_independent_book_and_has_as_many_events_as_asked_for(
    *, symbols: int, messages: int, seed: int, skew: Any, burst: float, halted: float
) -> None:
    halts = int(halted * min(symbols, messages // 100))
    feed = SyntheticFeed(symbols, messages, seed=seed, skew=skew, burst=burst, halts=halts)
    ticks = ticks_of(feed)[symbols:]
    assert len(ticks) == messages
    assert (np.diff(ticks["ts_event"].astype(np.int64)) >= 0).all()
    books = Books().replay(ticks)
    assert books.counts["state"] == 3 * halts
    assert set(books.states.values()) <= {"T"}
    assert not any(books.paired.values())


# ---- The shares and peaks of the generated day are the calibrated ones


def test_a_zipf_exponent_gives_the_busiest_symbol_its_share() -> None:
    counts = np.bincount(stream(500_000, symbols=50, skew=1.2)["instrument_id"])
    harmonic = sum(rank**-1.2 for rank in range(1, 51))
    assert counts.max() / 500_000 == pytest.approx(1 / harmonic, rel=0.03)


# ---- How close generated days are to the calibrated one: the table of docs/feeds/generator.md, asserted


PAGE = Path(__file__).parents[4] / "docs" / "feeds" / "generator.md"
TEN_MILLION = {"symbols": 8172, "messages": 10_000_000, "seed": 1, "batch_ticks": 1 << 18}


def test_a_day_of_ten_million_messages_is_as_close_as_the_page_says() -> None:
    measures = check_calibration(SyntheticFeed(**TEN_MILLION))
    assert [m.name for m in measures if not m.close] == []
    rows = re.findall(
        r"^\| ([^|]+) \| ([\d.]+) \| ([\d.]+) \| [\d.]+ \| ([\d.]+) to ([\d.]+) \|$", PAGE.read_text(), re.M
    )
    shown = {name.strip(): (float(t), float(f), float(low), float(high)) for name, t, f, low, high in rows}
    assert shown == {m.name: (round(m.target, 4), round(m.found, 4), m.low, m.high) for m in measures}


@pytest.mark.parametrize(
    ("change", "loses"),
    [({"burst": 0.5}, "peak second / mean"), ({"skew": 1.0}, "share of the top 1"), ({"burst": 0.0}, "gap p50 / mean")],
)
def test_a_day_of_another_shape_is_not_called_close(change: dict[str, float], loses: str) -> None:
    feed = SyntheticFeed(**(TEN_MILLION | {"messages": 1_000_000} | change))  # type: ignore[arg-type]
    assert loses in {m.name for m in check_calibration(feed) if not m.close}


def test_the_targets_are_those_of_the_calibrated_day(shared_data: Path) -> None:
    path = shared_data / "calibration.json"
    if not path.exists():
        pytest.skip("no calibration table")
    table = json.loads(path.read_text())
    burst, mean = table["burst"], table["burst"]["mean_per_second_over_6.5h"]
    assert {f"top_{n}": share for n, share in synthetic.TOP_SHARES.items()} == table["share_of_messages"]
    assert pytest.approx(burst["aggregate_max_per_second"] / mean) == synthetic.PEAK_SECOND
    assert pytest.approx(1000 * burst["aggregate_max_per_millisecond"] / mean) == synthetic.PEAK_MILLISECOND
    assert pytest.approx(1000 * burst["aggregate_p999_per_millisecond"] / mean) == synthetic.P999_MILLISECOND
    for part, over_mean in synthetic.GAP_QUANTILES.items():
        gap = burst["interarrival_ns"][f"p{round(100 * part):02}Arrival"]
        assert over_mean == pytest.approx(gap / (23_400e9 / table["messages"]))


def test_measures_are_what_a_plain_computation_gives() -> None:
    feed = SyntheticFeed(300, 200_000, seed=4, batch_ticks=999)
    found = {m.name: m.found for m in check_calibration(feed)}
    ticks = ticks_of(feed)
    counts = sorted(np.bincount(ticks["instrument_id"]).tolist(), reverse=True)
    assert found["share of the top 10"] == pytest.approx(sum(counts[:10]) / len(ticks))
    since = ticks["ts_event"].astype(np.int64) - (1_767_589_200 + 34_200) * 10**9
    since = since[(since >= 0) & (since < 23_400 * 10**9)]
    assert found["peak second / mean"] == pytest.approx(np.bincount(since // 10**9).max() / (len(since) / 23_400))
    gap = np.quantile(np.diff(since), 0.5) / (23_400e9 / len(since))
    assert found["gap p50 / mean"] == pytest.approx(gap, rel=0.02)


def test_a_feed_without_a_date_or_without_ticks_in_the_session_is_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", zeros(10))
    feed = NpyFeed(tmp_path / "a.npy")
    assert isinstance(feed.info, FeedInfo)
    with pytest.raises(ConfigurationError, match="trading day"):
        check_calibration(feed)
    with pytest.raises(ConfigurationError, match="nothing to measure"):
        check_calibration(SyntheticFeed(1, 1))
