"""Snapshots of handlers of every kind, held against a plain loop over all ticks and timers."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import strand
from strand import testing
from strand.errors import HandlerError
from strand.replaying.snapshot_tables import Snapshots

SYMBOLS = ["A", "B", "C", "D", "E"]
FIELDS = ["n", "last", "fired"]
EVERY = 20
#: Much more than an interval.
GAP = 10_000
#: The time from a tick to its timer: less than an interval, so some timers lie between the last tick and a snapshot.
WAIT = 7


def ticks_of(seed: int, n: int = 400) -> npt.NDArray[Any]:
    """Trades with stamps that run back, at the multiples themselves, close together, and far apart; E begins late."""
    draw = np.random.default_rng(seed)
    gaps = draw.choice([0, 0, 1, 3, 7, 20, 55, 200], n)
    times = 10_000 + np.cumsum(gaps)
    times = np.where(draw.random(n) < 0.2, -(-times // EVERY) * EVERY, times)
    times = np.maximum.accumulate(times) - np.where(draw.random(n) < 0.1, draw.integers(0, 30, n), 0)
    times[2 * n // 3 :] += GAP
    keys = draw.integers(0, 4, n)
    late = np.arange(n) > 5 * n // 6
    keys = np.where(late & (draw.random(n) < 0.4), 4, keys)
    ticks = strand.ticks.zeros(n)
    ticks["ts_recv"] = ticks["ts_event"] = times
    ticks["instrument_id"], ticks["price"], ticks["size"] = keys, draw.integers(1, 10**6, n), 1
    ticks["kind"], ticks["action"], ticks["side"] = strand.ticks.KIND_TRADE, b"T", b"N"
    ticks["sequence"] = np.arange(n)
    return ticks


def expected_of(ticks: npt.NDArray[Any], wait: int | None) -> tuple[list[int], list[list[list[int] | None]]]:
    """By time and symbol the values of FIELDS. A tick asks for a timer ``wait`` later, which asks for one more."""
    rows: list[list[int] | None] = [None] * len(SYMBOLS)
    alarms: list[int | None] = [None] * len(SYMBOLS)
    again = [False] * len(SYMBOLS)
    times: list[int] = []
    found: list[list[list[int] | None]] = []
    feed = int(ticks["ts_recv"][0])
    at = -(-feed // EVERY) * EVERY

    def fire(until: int) -> None:
        for key, row in enumerate(rows):
            while (alarm := alarms[key]) is not None and alarm <= until:
                assert row is not None
                row[2] += 1
                assert wait is not None
                alarms[key], again[key] = (alarm + wait, False) if again[key] else (None, False)

    for recv, key, price in zip(
        ticks["ts_recv"].tolist(), ticks["instrument_id"].tolist(), ticks["price"].tolist(), strict=True
    ):
        now = max(feed, recv)
        while at < now:
            times.append(at)
            found.append([None if row is None else row.copy() for row in rows])
            at += EVERY
        feed = now
        fire(feed)
        row = rows[key] or [0, 0, 0]
        rows[key] = [row[0] + 1, price, row[2]]
        if wait is not None:
            alarms[key], again[key] = feed + wait, True
    while at <= feed:
        times.append(at)
        found.append([None if row is None else row.copy() for row in rows])
        at += EVERY
    return times, found


def assert_as_expected(found: Snapshots, ticks: npt.NDArray[Any], wait: int | None, about: str) -> None:
    times, rows = expected_of(ticks, wait)
    assert found.times.tolist() == times, about
    shown = [SYMBOLS.index(symbol) for symbol in found.symbols]
    assert set(shown) == {key for key in range(len(SYMBOLS)) if rows and rows[-1][key] is not None}, about
    for field, name in enumerate(FIELDS):
        values = found[name].array
        assert values.tolist() == [[None if row[key] is None else row[key][field] for key in shown] for row in rows], (
            f"{about}: {name}"
        )


STATE = [("n", "i8"), ("last", "i8"), ("fired", "i8"), ("again", "i8")]


def compiled() -> Any:
    pytest.importorskip("numba")

    @strand.handler(state=STATE)
    def counts(row: Any, tick: Any) -> None:
        row.n += 1
        row.last = tick.price

    return counts


def compiled_timed() -> Any:
    pytest.importorskip("numba")

    def fires(row: Any, time: Any, ctx: Any) -> None:
        row.fired += 1
        if row.again:
            row.again = 0
            ctx.wake_at(time + WAIT)

    @strand.handler(state=STATE, on_wake=fires)
    def counts(row: Any, tick: Any, ctx: Any) -> None:
        row.n += 1
        row.last = tick.price
        row.again = 1
        ctx.wake_at(ctx.time + WAIT)

    return counts


def objects() -> Any:
    @strand.object_handler(state=STATE)
    class Counts:
        def on_start(self, ctx: Any) -> None:
            self.ctx = ctx

        def on_tick(self, tick: Any) -> None:
            row = self.ctx.row
            row["n"] += 1
            row["last"] = tick.price
            row["again"] = 1
            self.ctx.wake_at(self.ctx.time + WAIT)

        def on_wake(self, time: int) -> None:
            row = self.ctx.row
            row["fired"] += 1
            if row["again"]:
                row["again"] = 0
                self.ctx.wake_at(time + WAIT)

    return Counts


@pytest.mark.parametrize(("make", "wait"), [(compiled, None), (compiled_timed, WAIT), (objects, WAIT)])
def test_a_run_that_stops_early_has_the_snapshots_up_to_there(make: Any, wait: int | None) -> None:
    handler, ticks = make(), ticks_of(5)
    wanted = strand.snapshot(every=f"{EVERY}ns", fields=FIELDS)
    moment = int(ticks["ts_recv"][180])
    stop = int(np.flatnonzero(ticks["ts_recv"] > moment)[0])
    number = int(np.count_nonzero(ticks["instrument_id"][:200] == ticks["instrument_id"][199]))
    name = SYMBOLS[int(ticks["instrument_id"][199])]
    for workers in (0, 2):
        for given, end in (({"limit": 150}, 150), ({"until": moment}, stop), ({"until": (name, number)}, 200)):
            feed = testing.ListFeed(ticks, SYMBOLS, batches=64)
            found = strand.replay(feed, handler, snapshot=wanted, workers=workers, **given).snapshots  # type: ignore[arg-type]
            assert_as_expected(found, ticks[:end], wait, f"{workers} workers, {given}")


@pytest.mark.parametrize("every", [EVERY, 1, 10**6])
@pytest.mark.parametrize("workers", [0, 1, 3])
def test_the_partial_result_of_a_failed_run_has_all_snapshots_before_the_failure(workers: int, every: int) -> None:
    ticks, fails_at = ticks_of(6), 250
    ticks["price"][fails_at] = -1
    ticks["price"][fails_at + 3] = -1
    feed_ns = int(ticks["ts_recv"][: fails_at + 1].max())

    @strand.handler(state=STATE)
    def counts(row: Any, tick: Any) -> None:
        if tick.price < 0:
            raise ValueError("a price below 0")
        row.n += 1
        row.last = tick.price

    wanted = strand.snapshot(every=f"{every}ns", fields=["n"])
    feed = testing.ListFeed(ticks, SYMBOLS, batches=97)
    with pytest.raises(HandlerError) as caught:
        strand.replay(feed, counts, snapshot=wanted, workers=workers)
    found = caught.value.partial.snapshots  # type: ignore[attr-defined]
    first = -(-int(ticks["ts_recv"][0]) // every) * every
    assert found.times.tolist() == list(range(first, feed_ns, every))
    reached = np.maximum.accumulate(ticks["ts_recv"])
    for key, symbol in enumerate(found.symbols):
        index = SYMBOLS.index(symbol)
        of_symbol = reached[ticks["instrument_id"] == index]
        assert found["n"].array[:, key].filled(0).tolist() == np.searchsorted(of_symbol, found.times, "right").tolist()


@pytest.mark.parametrize("known_from", [0, 1, 200])
@pytest.mark.parametrize("chosen", [["E", "B"], ["C"], ["#3", "A"]])
@pytest.mark.parametrize(("make", "wait"), [(compiled, None), (compiled_timed, WAIT)])
def test_chosen_symbols_have_the_values_that_they_have_among_all(
    make: Any, wait: int | None, chosen: list[str], known_from: int
) -> None:
    handler, ticks = make(), ticks_of(9)
    times, rows = expected_of(ticks, wait)
    names = [name if f"#{key}" not in chosen else "" for key, name in enumerate(SYMBOLS)]
    keys = [int(name[1:]) if name[0] == "#" else SYMBOLS.index(name) for name in chosen]
    wanted = strand.snapshot(every=f"{EVERY}ns", fields=FIELDS, symbols=chosen)
    for workers in (0, 1, 2):
        # Names that the feed tells late, and ticks of symbols that have none yet.
        feed = testing.ListFeed(ticks, names, batches=64, known_from=known_from)
        found = strand.replay(feed, handler, snapshot=wanted, workers=workers).snapshots
        assert found.times.tolist() == times
        assert found.symbols == tuple(chosen)
        for field, name in enumerate(FIELDS):
            values = [[None if (of := row[key]) is None else of[field] for key in keys] for row in rows]
            assert found[name].array.tolist() == values, f"{workers} workers, {name}"


def test_a_saved_run_goes_on_with_its_snapshots(tmp_path: Any) -> None:
    handler, ticks = compiled_timed(), ticks_of(7)
    wanted = strand.snapshot(every=f"{EVERY}ns", fields=FIELDS)
    saved = tmp_path / "half.state"

    def run(**options: Any) -> Snapshots:
        feed = testing.ListFeed(ticks, SYMBOLS, batches=50)
        return strand.replay(feed, handler, snapshot=wanted, workers=2, cores=None, **options).snapshots

    first, second = run(limit=200, save=saved), run(load=saved)
    times, rows = expected_of(ticks, WAIT)
    sums = {at: [sum(row[f] for row in each if row) for f in range(3)] for at, each in zip(times, rows, strict=True)}
    found = np.stack([second[name].array.filled(0).sum(axis=1) for name in FIELDS], axis=1).tolist()
    assert len(found) > 100
    # A timer that was due at the end of the first half has fired there.
    assert dict(zip(second.times.tolist()[1:], found[1:], strict=True)) == {
        at: values for at, values in sums.items() if at > second.times[0]
    }
    assert_as_expected(first, ticks[:200], WAIT, "the first half")


def test_rows_that_begin_anew_with_a_day_are_zeros_in_the_snapshots_from_its_first_tick_on() -> None:
    handler = compiled()
    ticks = ticks_of(8, 300)
    for at in (100, 200):  # a day's end, each symbol's clear record between two of its ticks
        clears = slice(at, at + len(SYMBOLS))
        ticks["instrument_id"][clears] = np.arange(len(SYMBOLS))
        ticks["action"][clears], ticks["kind"][clears] = b"R", strand.ticks.KIND_STATUS
        ticks["ts_recv"][clears] = ticks["ts_recv"][:at].max() + 50
        ticks["ts_recv"][at + len(SYMBOLS) :] += 130
    expected, n = {}, np.zeros(len(SYMBOLS), np.int64)
    feed, at_ns, cleared = int(ticks["ts_recv"][0]), -(-int(ticks["ts_recv"][0]) // EVERY) * EVERY, False
    for tick in ticks:
        while at_ns < max(feed, int(tick["ts_recv"])):
            expected[at_ns] = n.tolist()
            at_ns += EVERY
        feed = max(feed, int(tick["ts_recv"]))
        if cleared and tick["action"] != b"R":
            n[:] = 0
        cleared = tick["action"] == b"R"
        n[tick["instrument_id"]] += 1
    wanted = strand.snapshot(every=f"{EVERY}ns", fields=["n"], symbols=SYMBOLS)
    for workers in (0, 1, 2):
        found = strand.replay(
            testing.ListFeed(ticks, SYMBOLS, batches=61), handler, snapshot=wanted, workers=workers, per_day=True
        ).snapshots
        values = dict(zip(found.times.tolist(), found["n"].array.filled(0).tolist(), strict=True))
        assert {at: values[at] for at in expected} == expected, f"{workers} workers"
        assert len(values) <= len(expected) + 1
