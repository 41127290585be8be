"""Snapshots: each row as the last tick at or before the time left it; and a replay that goes on where one was saved."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from bounded_child import in_bounded_child
from engine_support import wait_until
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from interrupt_points import at_each_point, interrupter

import strand
from strand import testing
from strand.errors import ConfigurationError, SavedStateError, UnknownFormatError, UnknownSymbolError
from strand.feeds.synthetic import SyntheticFeed
from strand.replaying.snapshot_tables import Snapshots

SYMBOLS = ["A", "B", "C", "D"]


def trades(times: Any, keys: Any, prices: Any) -> npt.NDArray[Any]:
    ticks = strand.ticks.zeros(len(times))
    ticks["ts_recv"] = ticks["ts_event"] = times
    ticks["instrument_id"], ticks["price"], ticks["size"] = keys, prices, 1
    ticks["kind"], ticks["action"], ticks["side"] = strand.ticks.KIND_TRADE, b"T", b"N"
    return ticks


def taken(ticks: npt.NDArray[Any], every: Any, *, batches: Any = 7, workers: Any = 2, **options: Any) -> Snapshots:
    wanted = strand.snapshot(
        every=every if isinstance(every, str) else f"{every}ns",
        fields=["last_price", "trades"],
        **options.pop("wanted", {}),
    )
    feed = testing.ListFeed(ticks, SYMBOLS, batches=batches)
    if workers:
        options |= {"cores": None}
    found = strand.replay(feed, "trades", snapshot=wanted, workers=workers, **options).snapshots
    assert found is not None
    return found


def by_hand(ticks: npt.NDArray[Any], every: int) -> tuple[list[int], list[list[Any]], list[list[int]]]:
    """Times, and by time and symbol the last price at or before it and how many there were. None: no tick yet."""
    time, feed = -(10**18), []
    for recv in ticks["ts_recv"].tolist():
        time = max(time, recv)
        feed.append(time)
    first, last = -(-feed[0] // every) * every, feed[-1]
    times, prices, counts = [], [], []
    for at in range(first, last + 1, every):
        price: list[Any] = [None] * len(SYMBOLS)
        count = [0] * len(SYMBOLS)
        for tick, when in zip(ticks, feed, strict=True):
            if when <= at:
                price[tick["instrument_id"]] = int(tick["price"])
                count[tick["instrument_id"]] += 1
        times.append(at)
        prices.append(price)
        counts.append(count)
    return times, prices, counts


def assert_by_hand(found: Snapshots, ticks: npt.NDArray[Any], every: int) -> None:
    times, prices, counts = by_hand(ticks, every)
    assert found.times.tolist() == times
    places = [SYMBOLS.index(symbol) for symbol in found.symbols]
    last, n = found["last_price"].array, found["trades"].array
    assert last.tolist() == [[row[at] for at in places] for row in prices]
    assert n.tolist() == [[row[at] or None for at in places] for row in counts]
    assert set(range(len(SYMBOLS))) - set(places) == {i for i in range(4) if not times or counts[-1][i] == 0}


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    gaps=st.lists(st.integers(-3, 25), min_size=1, max_size=60), seed=st.integers(0, 999), every=st.integers(1, 12),
    batches=st.integers(1, 20), workers=st.sampled_from([0, 1, 2]),
)  # fmt: skip
def test_any_times_come_out_as_by_hand(gaps: list[int], seed: int, every: int, batches: int, workers: int) -> None:
    draw = np.random.default_rng(seed)
    times = 1_000 + np.cumsum(gaps)
    ticks = trades(times, draw.integers(0, 4, len(gaps)), draw.integers(1, 1000, len(gaps)))
    assert_by_hand(taken(ticks, every, batches=batches, workers=workers), ticks, every)


def test_symbols_are_chosen_in_the_order_of_their_columns() -> None:
    ticks = trades([10, 20, 30], [0, 1, 2], [1, 2, 3])
    found = taken(ticks, 10, wanted={"symbols": ["C", "A", "D"]})
    assert found.symbols == ("C", "A", "D")
    assert found["last_price"].array.tolist() == [[None, 1, None], [None, 1, None], [3, 1, None]]
    with pytest.raises(UnknownSymbolError, match="snapshot: symbols: nothing in memory is named 'X'") as caught:
        taken(ticks, 10, wanted={"symbols": ["A", "X"]})
    assert caught.value.partial.snapshots.symbols == ("A",)  # type: ignore[attr-defined]


def test_names_that_the_feed_tells_later_are_found() -> None:
    ticks = trades([10, 20, 30], [0, 1, 2], [1, 2, 3])
    feed = testing.ListFeed(ticks, SYMBOLS, batches=1, known_from=2)
    wanted = strand.snapshot(every="10ns", fields=["last_price"], symbols=["C", "A"])
    found = strand.replay(feed, "trades", snapshot=wanted, workers=1).snapshots
    assert found is not None
    assert found.symbols == ("C", "A")
    assert found["last_price"].array.tolist()[-1] == [3, 1]


def test_many_days_have_snapshots_in_their_sessions_alone() -> None:
    day, hour = 86_400 * 10**9, 3_600 * 10**9
    monday = 20_458 * day  # 2026-01-05
    times = [monday + d * day + h * hour + 1 for d in range(9) for h in (8, 10, 12, 14)]
    ticks = trades(times, np.arange(36) % 3, np.arange(36) + 1)
    found = taken(ticks, "1h", wanted={"sessions": "09:00-13:00 UTC"})
    days = [d for d in range(9) if d % 7 < 5]
    # The last tick of all is behind the end of its session.
    assert found.times.tolist() == [monday + d * day + h * hour for d in days for h in range(9, 14)]
    all_times, prices, _ = by_hand(ticks, hour)
    rows = [prices[all_times.index(time)] for time in found.times.tolist()]
    assert found["last_price"].array.tolist() == [row[:3] for row in rows]


def test_of_a_chain_on_seeds_and_any_workers_the_table_is_one() -> None:
    draw = np.random.default_rng(3)
    ticks = trades(1_000 + np.cumsum(draw.integers(0, 9, 400)), draw.integers(0, 4, 400), draw.integers(1, 50, 400))
    wanted = strand.snapshot(every="20ns", fields=["vwap.vwap", "trades.last_price", "vwap.volume"])
    handler = strand.chain(strand.trades(), strand.vwap())

    def run(**options: Any) -> Snapshots:
        feed = testing.ListFeed(ticks, SYMBOLS, batches=33)
        found = strand.replay(feed, handler, snapshot=wanted, **options).snapshots
        assert found is not None
        return found

    expected = run(workers=0)
    others = [run(workers=1), run(workers=2, publisher_drains=False, cores=None), run(workers=4, cores=None)]
    for seed in range(5):
        feed = testing.ListFeed(ticks, SYMBOLS, batches=33)
        others.append(testing.seeded(feed, handler, seed=seed, workers=3, budget_ticks=4, snapshot=wanted).snapshots)
    for found in others:
        assert found.times.tolist() == expected.times.tolist()
        for field in wanted.fields:
            np.testing.assert_array_equal(found[field].array.filled(0), expected[field].array.filled(0))
    assert expected["trades.last_price"].array.tolist() == by_hand(ticks, 20)[1]


@strand.object_handler(state=[("n", "i8")])
class Counts:
    def on_start(self, ctx: Any) -> None:
        self.row = ctx.row

    def on_tick(self, tick: Any) -> None:
        self.row["n"] += 1


@pytest.mark.parametrize("handler", ["vwap", Counts])
def test_a_time_below_zero_is_none_and_one_that_is_far_off_is_named(handler: Any) -> None:
    """A table from 1970 to 2026 would have a time for each of its seconds."""
    ticks = strand.ticks.zeros(2)
    ticks["ts_recv"] = [-5 * 10**9, 2 * 10**9]
    taken = strand.replay(testing.feed(ticks, ["A"]), handler, snapshot="1s", workers=0).snapshots
    assert taken.times.tolist() == [0, 10**9, 2 * 10**9]
    ticks["ts_recv"] = [0, 1767571200 * 10**9]
    with pytest.raises(ConfigurationError, match="a tick's time is wrong"):
        strand.replay(testing.feed(ticks, ["A"]), handler, snapshot="1s", workers=0)


def test_rows_of_a_handler_in_python_are_taken_too() -> None:
    @strand.batch_handler(state=[("n", "i8"), ("two", "i8", 2)])
    def counts(symbol: str, ticks: Any, row: Any) -> None:
        row["n"] += len(ticks)
        row["two"] = row["n"], -row["n"]

    ticks = trades([10, 12, 20, 30], [0, 0, 1, 0], [1, 2, 3, 4])
    wanted = strand.snapshot(every="10ns", fields=["n", "two"])
    found = strand.replay(testing.ListFeed(ticks, SYMBOLS), counts, snapshot=wanted, workers=2).snapshots
    assert found is not None
    assert found["n"].array.tolist() == [[1, None], [2, 1], [3, 1]]
    assert found["two"].array.tolist()[1] == [[2, -2], [1, -1]]
    pytest.importorskip("pyarrow")
    assert found.to_arrow().column("two").to_pylist()[:2] == [[1, -1], [None, None]]


def test_what_rows_do_not_have_is_refused() -> None:
    ticks = trades([10, 20], [0, 1], [1, 2])

    def run(fields: Any, **options: Any) -> Any:
        wanted = strand.snapshot(every="10ns", fields=fields)
        return strand.replay(testing.ListFeed(ticks, SYMBOLS), snapshot=wanted, workers=1, **options)

    with pytest.raises(ConfigurationError, match="no field 'bid'; they have trades, volume"):
        run(["bid"], handler="trades")
    with pytest.raises(ConfigurationError, match="no field 'trades'"):
        run(["trades"], handler=strand.chain("count", "trades"))
    with pytest.raises(ConfigurationError, match="different handlers"):
        run(["trades"], handlers={"A": "trades", "*": "count"})
    with pytest.raises(ConfigurationError, match=r"give strand\.snapshot"):
        strand.replay(testing.ListFeed(ticks, SYMBOLS), "trades", snapshot=1, workers=1)
    with pytest.raises(KeyError, match="no field that was taken is named 'x': there are trades"):
        run(["trades"], handler="trades").snapshots["x"]


# ---- Snapshots as tables


def test_tables_are_in_natural_units_and_null_before_the_first_tick() -> None:
    pytest.importorskip("pyarrow")
    ticks = [("B", 10, 2.5, 1), ("A", 20, 1, 1), ("B", 30, 3, 1)]
    wanted = strand.snapshot(every="10ns", fields=["last_price", "trades"], symbols=["A", "B"])
    found = strand.replay(testing.feed(ticks), "trades", snapshot=wanted, workers=1).snapshots
    assert found is not None
    wide = found["last_price"].to_arrow().to_pydict()
    assert wide.pop("ts")[0].value == 10
    assert wide == {"A": [None, 1.0, 1.0], "B": [2.5, 2.5, 3.0]}
    long = found.to_arrow(prices="integer").to_pydict()
    assert [each.value for each in long["ts"]] == [10, 10, 20, 20, 30, 30]
    assert long["symbol"] == ["A", "B"] * 3
    assert long["last_price"] == [None, 2_500_000_000, 1_000_000_000, 2_500_000_000, 1_000_000_000, 3_000_000_000]
    assert long["trades"] == [None, 1, 1, 1, 1, 2]
    pytest.importorskip("pandas")
    frame = found["trades"].to_pandas()
    assert (frame.index.name, list(frame.columns)) == ("ts", ["A", "B"])
    assert frame["B"].tolist() == [1, 1, 2]
    assert "3 times, 2 symbols" in repr(found)
    assert "3 times, 2 symbols" in repr(found["trades"])


@strand.batch_handler(state=[("ticks", "u8")])
def counting(symbol: str, ticks: Any, row: Any) -> None:
    row["ticks"] += len(ticks)


@pytest.mark.python
@pytest.mark.cells(1)
@pytest.mark.parametrize("apart", ["one", "two in a row"])
@pytest.mark.parametrize("handler", ["count", counting], ids=["history", "copies"])
def test_an_interrupt_of_a_replay_leaves_snapshots_that_are_true_and_no_thread(
    handler: Any, apart: str, one_in: Callable[[int], int]
) -> None:
    interrupter()
    ticks = trades(np.arange(1, 41) * 10, np.arange(40) % 2, 1)
    times, _, counts = by_hand(ticks, 50)

    def prepare() -> tuple[Callable[[], Any], Callable[[], Any]]:
        feed = testing.ListFeed(ticks, SYMBOLS, batches=7)
        wanted = strand.snapshot(every="50ns", fields=["ticks"])
        results: list[Any] = []

        def replay() -> None:
            try:
                results.append(strand.replay(feed, handler, snapshot=wanted, workers=1, cores=None))
            except KeyboardInterrupt as error:
                results.append(getattr(error, "partial", None))
                raise

        def check() -> None:
            wait_until(
                lambda: gc.collect() >= 0 and not any(t.name.startswith("strand") for t in threading.enumerate())
            )
            for result in filter(None, results):
                found = result.snapshots
                n = len(found.times)
                assert found.times.tolist() == times[:n]
                assert n <= sum(time <= 10 * result.ticks for time in times)
                places = [SYMBOLS.index(symbol) for symbol in found.symbols]
                assert found["ticks"].array.tolist() == [[row[at] or None for at in places] for row in counts[:n]]

        return replay, check

    in_bounded_child(partial(at_each_point, prepare, apart, one_in(200)), 600)


# ---- A replay that goes on where another was saved


ROOT = Path(__file__).resolve().parents[3]
SAMPLE = ROOT / "strand/data/sample.itch50.gz"


def test_another_source_is_refused(tmp_path: Path) -> None:
    strand.replay(SAMPLE, "count", workers=1, cores=None, limit=10, save=tmp_path / "state")
    other = tmp_path / "other.itch50.gz"
    SyntheticFeed(501, 1000, seed=3, date="2026-01-05").write_itch(other)
    with pytest.raises(SavedStateError, match="another file"):
        strand.replay(other, "count", workers=1, cores=None, load=tmp_path / "state")
    with pytest.raises(SavedStateError, match=r"it was saved in a replay of 1 file, and here are 2$"):
        strand.replay([SAMPLE, other], "count", workers=1, cores=None, load=tmp_path / "state")


@pytest.mark.parametrize("replay", [False, True])
def test_a_saved_state_is_no_feed_and_said_to_be_a_state(replay: bool, tmp_path: Path) -> None:
    strand.replay(SAMPLE, "book", workers=1, cores=None, limit=10_000, save=tmp_path / "s.strand")
    with pytest.raises(UnknownFormatError, match=r"the saved state of a run is not a feed: .* with --load"):
        if replay:
            strand.replay(tmp_path / "s.strand", "count")
        else:
            strand.feeds.open(tmp_path / "s.strand")


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"workers": 0}, r"workers: a plain loop \(workers=0\) cannot go on from a saved state"),
        ({"per_day": True}, "per_day"),
        ({"position": 3}, "position"),
        ({"fingerprint_every": 10}, "fingerprints"),
    ],
)
def test_what_does_not_go_together_is_refused(options: dict[str, Any], what: str, tmp_path: Path) -> None:
    strand.replay(SAMPLE, "count", workers=1, cores=None, limit=10, save=tmp_path / "state")
    with pytest.raises(ConfigurationError, match=what):
        strand.replay(SAMPLE, "count", **({"workers": 1} | options), load=tmp_path / "state")


def test_an_interrupt_ends_a_replay_with_its_state(tmp_path: Path) -> None:
    def interrupt(ticks: int) -> None:
        if ticks > 50_000:
            raise KeyboardInterrupt

    options: dict[str, Any] = {"handler": "count", "workers": 1, "cores": None}
    whole = strand.replay(SAMPLE, **options)
    with pytest.raises(KeyboardInterrupt) as ended:
        strand.replay(SAMPLE, progress=interrupt, save=tmp_path / "state", **options)
    first: Any = ended.value
    second = strand.replay(SAMPLE, load=tmp_path / "state", **options)
    assert first.partial.ticks + second.ticks == whole.ticks
    assert second.fingerprint == whole.fingerprint


@pytest.mark.parametrize(
    "options", [{"symbols": ["AA*"]}, {"start": "09:40"}, {"feed_options": {"date": "2026-01-06"}}]
)
def test_another_selection_is_refused(options: dict[str, Any], tmp_path: Path) -> None:
    fixed: dict[str, Any] = {"handler": "count", "workers": 1, "cores": None}
    given = {"feed_options": {"date": "2026-01-05"}} | options
    strand.replay(SAMPLE, limit=10, save=tmp_path / "state", feed_options={"date": "2026-01-05"}, **fixed)
    with pytest.raises(SavedStateError, match="other ticks would be skipped"):
        strand.replay(SAMPLE, load=tmp_path / "state", **(fixed | given))


@pytest.mark.parametrize("ending", ["zip", "gz", "zst"])
def test_a_name_of_a_packed_file_is_refused_before_the_run(ending: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="not compressed again"):
        strand.replay(SAMPLE, "count", workers=1, cores=None, save=tmp_path / f"state.{ending}")
    with strand.Dispatcher(2, "count", workers=1, cores=None) as one:
        with pytest.raises(ConfigurationError, match="not compressed again"):
            one.save(tmp_path / f"state.{ending}")
        assert one.drain()  # it goes on


def test_a_state_is_not_written_over_what_the_run_reads_or_writes(tmp_path: Path) -> None:
    day = tmp_path / "day.itch50"
    day.write_bytes(SAMPLE.read_bytes())
    with pytest.raises(ConfigurationError, match="save"):
        strand.replay(day, "count", workers=1, cores=None, save=day)
    assert day.read_bytes() == SAMPLE.read_bytes()
    with pytest.raises(ConfigurationError, match="save"):
        strand.replay(SAMPLE, "bars", workers=1, cores=None, save=tmp_path / "b.npy", out={"bars": tmp_path / "b.npy"})
