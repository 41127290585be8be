"""Records of a merge say which feed their tick came from; and fingerprints of rows and outputs."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from array_feed import order_feed
from engine_support import wait_until

import strand
from strand import Dispatcher, batch_handler, feeds, object_handler, replay
from strand.diff import diff_runs, narrow
from strand.dispatch.configuration import grouped
from strand.errors import RecordTypeError
from strand.feeds import FeedInfo
from strand.feeds.base import BaseFeed
from strand.feeds.merge.feeds import merge_feeds
from strand.output.fingerprint import (
    OutputDigest,
    Running,
    layout_of,
    packed,
)
from strand.output.records import NO_FEED, TickFeeds
from strand.ticks import zeros

pytestmark = pytest.mark.python


SEEN = np.dtype([("ref", "<u8")])
NS = 1_000_000_000


@batch_handler(state=[("n", "<i8")], outputs={"seen": SEEN})
def every_third(symbol: str, ticks: Any, row: Any, ctx: Any) -> None:
    """Emits for each third tick of a symbol, what the tick's ``ref_id`` says."""
    at = np.flatnonzero((row["n"] + np.arange(len(ticks))) % 3 == 0)
    found = np.empty(len(at), SEEN)
    found["ref"] = ticks["ref_id"][at]
    ctx.emit(found, at=at)
    row["n"] += len(ticks)


class Timed:
    """Emits at each tick, a second after a symbol's first, and at the end."""

    def __init__(self) -> None:
        self._waits = True

    def on_start(self, ctx: Any) -> None:
        self._ctx = ctx

    def on_tick(self, tick: Any) -> None:
        if self._waits:
            self._ctx.wake_at(tick.ts_recv + NS)
            self._waits = False
        self._ctx.emit((tick.ref_id,))

    def on_wake(self, time: int) -> None:
        self._ctx.emit((77,))

    def on_finish(self) -> None:
        self._ctx.emit((88,))


timed = object_handler(outputs={"seen": SEEN})(Timed)


class Made(BaseFeed):
    """Ticks in an array; each one's ``ref_id`` says which feed of a merge it is, in plain words of the test."""

    def __init__(self, ticks: npt.NDArray[Any], name: str, piece: int = 700) -> None:
        super().__init__()
        self._ticks, self._name, self._piece = ticks, name, piece

    @property
    def info(self) -> FeedInfo:
        return FeedInfo(format="made", path=self._name)

    @property
    def symbols(self) -> list[str]:
        return ["A", "B", "C", "D"]

    def batches(self) -> Iterator[npt.NDArray[Any]]:
        for start in range(0, len(self._ticks), self._piece):
            yield self._ticks[start : start + self._piece]


def made(n: int, place: int, *, seed: int) -> npt.NDArray[Any]:
    random = np.random.default_rng(seed)
    ticks = zeros(n)
    ticks["instrument_id"] = random.integers(0, 4, n)
    ticks["ts_recv"] = ticks["ts_event"] = 5 * NS + np.sort(random.integers(0, 3 * NS, n))
    ticks["kind"], ticks["action"], ticks["side"] = 2, b"T", b"B"
    ticks["price"], ticks["size"], ticks["ref_id"] = NS, 1, place
    return ticks


def merged(piece: int = 700) -> BaseFeed:
    parts = [Made(made(4000, place, seed=place), f"made {place}", piece) for place in range(3)]
    return merge_feeds(parts, batch_ticks=1000)


RUNS: Mapping[str, dict[str, Any]] = {
    "plain loop": {"workers": 0},
    "one worker": {"workers": 1},
    "two workers": {"workers": 2},
    "grouped": {"workers": 2, "strands": 2},
    "small queues": {"workers": 2, "capacity_ticks": 32},
    "newest dropped": {"workers": 2, "capacity_ticks": 32, "on_full": "drop_newest"},
    "oldest dropped": {"workers": 2, "capacity_ticks": 32, "on_full": "drop_oldest"},
    "conflated": {"workers": 2, "capacity_ticks": 32, "on_full": "conflate"},
}


@pytest.mark.parametrize("run", RUNS)
def test_a_record_says_which_feed_its_tick_came_from(run: str) -> None:
    result = replay(merged(), every_third, **RUNS[run])
    records = result.outputs["seen"]
    dropped = "on_full" in RUNS[run]
    assert len(records) == sum(-(-int(n) // 3) for n in result.ticks_by_symbol) or (dropped and len(records))
    assert records.dtype.names == ("number", "sequence", "ts", "instrument_id", "feed", "ref")
    np.testing.assert_array_equal(records["feed"], records["ref"])
    assert dropped or set(records["feed"]) == {0, 1, 2}
    assert [part["path"] for part in result.info.details["feeds"]] == ["made 0", "made 1", "made 2"]


@pytest.mark.parametrize("workers", [0, 2])
def test_timers_and_the_end_come_from_no_feed(workers: int) -> None:
    records = replay(merged(), timed, workers=workers).outputs["seen"]
    ticks = records["number"] >= 0
    assert set(records["ref"][~ticks]) == {77, 88}
    assert (records["feed"][~ticks] == NO_FEED).all()
    np.testing.assert_array_equal(records["feed"][ticks], records["ref"][ticks])
    table = records.to_arrow()
    assert table.column("feed").null_count == int((~ticks).sum())


@pytest.mark.parametrize("position", [1, 999, 1000, 4321])
def test_a_position_passes_over_feeds_of_ticks_too(position: int) -> None:
    records = replay(merged(), every_third, position=position, limit=3000, workers=1).outputs["seen"]
    np.testing.assert_array_equal(records["feed"], records["ref"])


def test_a_selection_chooses_among_the_feeds_of_ticks() -> None:
    records = replay(merged(), every_third, symbols=["B", "D"], workers=1).outputs["seen"]
    assert len(records)
    assert set(records["instrument_id"]) == {1, 3}
    np.testing.assert_array_equal(records["feed"], records["ref"])


def saved(folder: Path, n: int = 1500) -> list[Path]:
    """Two files of trades with the same symbols, an hour apart around a midnight."""
    paths = []
    for place in range(2):
        ticks = made(n, place, seed=10 + place)
        ticks["ts_recv"] += (24 * 3600 - 7 + place) * NS
        path = folder / f"{place}.npz"
        np.savez(path, ticks=ticks, symbols=np.array(["A", "B", "C", "D"]))
        paths.append(path)
    return paths


def test_files_that_are_merged_and_cut_at_midnight(tmp_path: Path) -> None:
    options = {"new_day": "date"}
    result = replay(saved(tmp_path), every_third, feed_options=options, workers=2)
    assert result.feed_statistics["days_cleared"] > 0
    records = result.outputs["seen"]
    clear = records["feed"] == NO_FEED
    assert (records["ref"][clear] == 0).all()
    np.testing.assert_array_equal(records["feed"][~clear], records["ref"][~clear])
    assert set(records["feed"][~clear]) == {0, 1}


@pytest.mark.cells(1)
@pytest.mark.parametrize("ending", [".parquet", ".arrow", ".csv", ".npy"])
@pytest.mark.parametrize("workers", [0, 2])
def test_files_of_outputs_have_the_feed(tmp_path: Path, ending: str, workers: int) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import csv, feather, parquet

    path = tmp_path / f"seen{ending}"
    replay(merged(), every_third, out={"seen": path}, workers=workers)
    if ending == ".npy":
        records = np.load(path)
        found, expected = records["feed"], records["ref"]
    else:
        read = {".parquet": parquet.read_table, ".arrow": feather.read_table, ".csv": csv.read_csv}[ending]
        table = read(path)
        assert isinstance(table, pyarrow.Table)
        found, expected = (table.column(name).to_numpy() for name in ("feed", "ref"))
    assert len(found)
    np.testing.assert_array_equal(found, expected)


def test_one_file_has_no_such_column(tmp_path: Path) -> None:
    one, _ = saved(tmp_path)
    assert "feed" not in replay(one, every_third, workers=1).outputs["seen"].dtype.names


def test_fingerprints_do_not_know_of_feeds(tmp_path: Path) -> None:
    """The same ticks in one array give the fingerprint that they give as a merge."""
    together = np.concatenate([batch.copy() for batch in merged()])
    one = replay(Made(together, "one"), every_third, workers=2)
    several = replay(merged(), every_third, workers=2)
    assert one.fingerprint == several.fingerprint
    written = replay(merged(), every_third, workers=2, out={"seen": tmp_path / "seen.npy"})
    assert written.fingerprint == one.fingerprint


PARTS = """
import numpy as np
import strand

def emits(name, more):
    @strand.batch_handler(state=[("n", "<i8")], outputs={"seen": np.dtype([("nth", "<i8")])}, name=name)
    def handler(symbol, ticks, row, ctx):
        nth = row["n"] + np.arange(len(ticks))
        ctx.emit((nth + more * (nth == 200)).astype([("nth", "<i8")]), at=np.arange(len(ticks)))
        row["n"] += len(ticks)
    return handler

plain, other = emits("plain", 0), emits("other", 1)
"""


def test_diff_says_which_feed_a_record_came_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = f"parts_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(PARTS)
    monkeypatch.syspath_prepend(str(tmp_path))
    module = importlib.import_module(name)
    files = [tmp_path / letter for letter in "ab"]
    for file, handler in zip(files, (module.plain, module.other), strict=True):
        replay(saved(tmp_path), handler, workers=1, fingerprint_every=500, fingerprints=file)
    narrowed = narrow(diff_runs(*files))
    (record,) = narrowed.records
    ticks = np.concatenate([batch.copy() for batch in feeds.open(saved(tmp_path))])
    assert record.difference.number is not None
    assert record.difference.feed == ticks["ref_id"][int(record.difference.number)]


class Miscounted(Made):
    """A merge of the user's own that is told of one number too few, too many, or of none, from its third batch on."""

    def __init__(self, numbers: int | None) -> None:
        super().__init__(made(4000, 0, seed=1), "miscounted")
        self._numbers = numbers
        self._told: npt.NDArray[np.int32] | None = np.empty(0, np.int32)

    @property
    def tick_feeds(self) -> npt.NDArray[np.int32] | None:
        return self._told

    def batches(self) -> Iterator[npt.NDArray[Any]]:
        for i, batch in enumerate(super().batches()):
            self._told = np.zeros(len(batch), np.int32)
            if i == 2:
                self._told = None if self._numbers is None else np.zeros(len(batch) + self._numbers, np.int32)
            yield batch


@pytest.mark.cells(1)
@pytest.mark.parametrize("options", [{}, {"position": 100}, {"symbols": ["A", "B"]}], ids=["all", "position", "chosen"])
@pytest.mark.parametrize(("numbers", "said"), [(-1, "699"), (1, "701"), (None, "0")])
@pytest.mark.parametrize("workers", [0, 1])
def test_a_feed_that_miscounts_its_tick_feeds_is_refused(
    options: dict[str, Any], numbers: int | None, said: str, workers: int
) -> None:
    feed = Miscounted(numbers)
    expected = rf"tick_feeds: give one number per tick .*: miscounted has {said} for 700 ticks"
    if numbers is None and "symbols" in options:
        expected = r"tick_feeds: give one number per tick .*: miscounted has 0 for [0-9]+ ticks"
    with pytest.raises(RecordTypeError, match=expected):
        replay(feed, every_third, workers=workers, **options)


@batch_handler(state=[("n", "<i8")], outputs={"seen": SEEN})
def fails_on_the_first_symbol(symbol: str, ticks: Any, row: Any, ctx: Any) -> None:
    """Fails on A, and emits for each other symbol one record."""
    if symbol == "A":
        raise ValueError(symbol)
    if not row["n"]:
        found = np.empty(1, SEEN)
        found["ref"] = ticks["ref_id"][-1]
        ctx.emit(found, at=[len(ticks) - 1])
    row["n"] += len(ticks)


def test_feeds_of_ticks_stay_bounded_behind_a_quarantined_strand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is final behind what waits there: at output_memory the strand is passed."""
    n, memory, most = 1_000_000, 1 << 20, 0
    add = TickFeeds.add

    def watch(self: TickFeeds, told: npt.NDArray[np.int32]) -> None:
        nonlocal most
        add(self, told)
        most = max(most, sum(part.nbytes for _, part in self._batches))

    monkeypatch.setattr(TickFeeds, "add", watch)
    parts = [Made(made(n, place, seed=place), f"made {place}", 10_000) for place in range(3)]
    options: dict[str, Any] = {"workers": 1, "max_publishers": 1, "capacity_ticks": 1024, "output_memory": memory}
    feed = merge_feeds(parts, batch_ticks=10_000)
    result = replay(feed, fails_on_the_first_symbol, on_error="quarantine", **grouped(**options))
    assert result.ticks == 3 * n
    # Beyond the bound lies what is published between two rounds of the merger.
    assert memory // 2 < most < 6 * memory
    records = result.outputs["seen"]
    assert len(records) == 3
    np.testing.assert_array_equal(records["feed"], records["ref"])


@object_handler(outputs={"seen": SEEN})
class WaitsForTheFirstSymbol:
    """A timer of A, and a record of each symbol's first tick."""

    def on_start(self, ctx: Any) -> None:
        self._ctx, self._emits = ctx, True

    def on_tick(self, tick: Any) -> None:
        if self._emits:
            self._ctx.emit((tick.ref_id,))
            self._emits = False
            if tick.instrument_id == 0:
                self._ctx.wake_at(tick.ts_recv + 1)

    def on_wake(self, time: int) -> None:
        self._ctx.emit((time,))


def test_feeds_of_ticks_stay_bounded_behind_a_timer_of_a_paused_strand() -> None:
    """A record waits for the timer, and with it the feeds of all ticks from its own on."""
    n, times, memory, most = 10_000, 100, 1 << 20, 0
    kept = TickFeeds()
    options: dict[str, Any] = {"strands": "per-symbol", "max_publishers": 1, "output_memory": memory}
    d = Dispatcher(["A", "B"], WaitsForTheFirstSymbol, **grouped(workers=1, cores=None, **options))
    d.outputs.add_feed_column(kept)
    with d:
        ticks = zeros(n)
        ticks["ts_recv"], ticks["instrument_id"] = 1 + np.arange(n), np.arange(n) > 0

        def publish() -> None:
            nonlocal most
            for _ in range(times):
                kept.add(np.zeros(n, np.int32))
                d.publish(ticks)
                most = max(most, sum(part.nbytes for _, part in kept._batches))
                ticks["instrument_id"], ticks["ts_recv"] = 1, ticks["ts_recv"] + n

        kept.add(np.zeros(1, np.int32))
        d.publish(ticks[:1])
        d.drain()
        d.pause("A")
        ticks["instrument_id"], ticks["ts_recv"] = 1, ticks["ts_recv"] + n
        thread = threading.Thread(target=publish)
        thread.start()
        looks: list[int] = []

        def stands() -> bool:
            looks.append(d.statistics().handled)
            return not thread.is_alive() or (len(looks) > 100 and looks[-100] == looks[-1])

        wait_until(stands)
        d.resume("A")
        thread.join()
        d.drain()
        # Beyond the bound lies what is published between two rounds of the merger.
        assert most < 3 * memory
    assert d.outputs["seen"].records == 3
    assert d.outputs["seen"].array()["feed"].tolist() == [0, NO_FEED, 0]


# ---- Fingerprints stand for what a run left, and for nothing else; what is recorded comes back from its file


def of(ticks: Any, names: Any, handler: Any = "count", **options: Any) -> str:
    return strand.replay(order_feed(ticks, names), handler, **{"workers": 1, "cores": None, **options}).fingerprint


def an_order(ticks: Any) -> int:
    """The position of an added order in the middle of the day."""
    return int(np.flatnonzero(ticks["action"] == b"A")[500])


@pytest.mark.parametrize("field", ["ts_recv", "sequence", "size", "price"])
def test_a_changed_field_of_one_tick_that_the_handler_uses_is_another_fingerprint(order_day: Any, field: str) -> None:
    ticks, names = order_day
    before = of(ticks, names)
    # The tick that its symbol's row remembers: the last trade for price and size, else the last of all.
    key = ticks["instrument_id"][ticks["kind"] == 2][0]
    mine = ticks["instrument_id"] == key
    if field in ("size", "price"):
        mine &= ticks["kind"] == 2
    last = ticks[np.flatnonzero(mine)[-1] :][:1]
    last[field] = last[field] + 1
    assert of(ticks, names) != before


@pytest.mark.parametrize("field", ["action", "side", "price", "size", "order_id"])
def test_a_changed_field_of_one_order_is_another_fingerprint_of_the_books(order_day: Any, field: str) -> None:
    """Of an order that rests until the end: what became of others may leave no trace in the row."""
    ticks, names = order_day
    one = ticks[an_order(ticks) : an_order(ticks) + 1].copy()
    one["order_id"], one["price"], one["side"], one["size"] = 2**40, 10**9, b"B", 100
    later = np.concatenate([ticks, one, one])
    later["order_id"][-1] += 1
    before = of(later, names, "book")
    change = {"action": b"C", "side": b"A", "price": 2 * 10**15, "size": 999, "order_id": 2**40}
    at = -1 if field == "order_id" else -2
    if field == "size":
        later["price"][-2:] = 10**15  # the best bid, whose size the row shows
        before = of(later, names, "book")
    later[field][at] = change[field]
    assert of(later, names, "book") != before


def test_a_field_no_handler_uses_leaves_the_fingerprint_and_shows_in_that_of_the_input(order_day: Any) -> None:
    ticks, names = order_day
    runs = []
    for _ in range(2):
        runs.append(strand.replay(order_feed(ticks, names), "vwap", workers=1, fingerprint_every=1000).intervals)
        ticks["flags"][1500] ^= 1
    assert [i.fingerprint for i in runs[0]] == [i.fingerprint for i in runs[1]]
    assert [a.input == b.input for a, b in zip(*runs, strict=True)] == [True, *([False] * (len(runs[0]) - 1))]


def test_two_ticks_of_a_symbol_that_change_places_are_another_fingerprint(order_day: Any) -> None:
    ticks, names = order_day
    before = of(ticks, names)
    last = np.flatnonzero(ticks["instrument_id"] == ticks["instrument_id"][-1])[-2:]
    ticks[last] = ticks[last[::-1]]
    assert of(ticks, names) != before


def test_one_tick_more_is_another_fingerprint_though_the_row_is_the_same(order_day: Any) -> None:
    ticks, names = order_day

    @strand.batch_handler(state=[("n", "u8")])
    def nothing(symbol: str, ticks: Any, row: Any) -> None:
        pass

    assert of(ticks, names, nothing) != of(ticks[:-1], names, nothing)


def test_two_symbols_with_each_other_s_rows_are_another_fingerprint(order_day: Any) -> None:
    ticks, names = order_day
    a, b = np.unique(ticks["instrument_id"])[:2]
    swapped = list(names)
    swapped[a], swapped[b] = swapped[b], swapped[a]
    assert of(ticks, names) != of(ticks, swapped)


def test_how_symbols_are_numbered_does_not_matter(order_day: Any) -> None:
    ticks, names = order_day
    order = np.random.default_rng(3).permutation(len(names) + 7)  # with free numbers between
    again = ticks.copy()
    again["instrument_id"] = order[ticks["instrument_id"]]
    renamed = [""] * len(order)
    for i, name in enumerate(names):
        renamed[order[i]] = name
    results = [
        strand.replay(order_feed(t, n), "count", workers=1, fingerprint_every=700)
        for t, n in ((ticks, names), (again, renamed))
    ]
    assert results[0].fingerprint == results[1].fingerprint
    assert results[0].intervals == results[1].intervals


def test_the_same_bytes_under_other_field_names_or_types_are_another_fingerprint(order_day: Any) -> None:
    ticks, names = order_day

    def tally(fields: Any) -> Any:
        def on_ticks(symbol: str, ticks: Any, row: Any) -> None:
            row[fields[0][0]] += len(ticks)

        return strand.batch_handler(state=fields)(on_ticks)

    made = [of(ticks, names, tally([field])) for field in (("n", "u8"), ("m", "u8"), ("n", "i8"))]
    assert len(set(made)) == 3


def test_padding_between_fields_is_left_out() -> None:
    inner = np.dtype([("a", "u1"), ("b", "u8")], align=True)
    dtype = np.dtype([("x", "u1"), ("y", "u8"), ("pair", inner, (2,)), ("z", "u2")], align=True)
    assert layout_of(dtype).itemsize == 1 + 8 + 2 * 9 + 2 < dtype.itemsize
    rows = np.zeros(3, dtype)
    rows.view(np.uint8)[:] = 0xAB
    again = np.zeros(3, dtype)
    for name in ("x", "y", "z"):
        again[name] = rows[name]
    again["pair"]["a"], again["pair"]["b"] = rows["pair"]["a"], rows["pair"]["b"]
    assert rows.tobytes() != again.tobytes()
    assert packed(rows).tobytes() == packed(again).tobytes() == b"\xab" * (3 * 29)


def test_symbols_without_a_tick_and_a_row_do_not_count(order_day: Any) -> None:
    ticks, names = order_day
    assert of(ticks, names) == of(ticks, [*names, "NEVER", "SEEN"])


def test_an_output_s_digest_depends_on_its_records_in_order_and_not_on_pieces() -> None:
    records = np.zeros(100, [("sequence", "u8"), ("v", "f8")])
    records["sequence"], records["v"] = np.arange(100), np.sqrt(np.arange(100))

    def digest(*pieces: Any) -> bytes:
        made = OutputDigest(records.dtype)
        for piece in pieces:
            made.add(piece)
        assert made.records == sum(map(len, pieces))
        return made.digest()

    assert digest(records) == digest(*np.array_split(records, 9)) != digest(records[::-1])
    other = records.copy()
    other["v"][50] = np.nextafter(other["v"][50], 9)
    assert digest(other) != digest(records)
    assert OutputDigest(np.dtype([("a", "u8")])).digest() != OutputDigest(np.dtype([("b", "u8")])).digest()


def test_input_digests_depend_on_each_symbol_s_ticks_in_order_and_not_on_numbers_or_pieces(order_day: Any) -> None:
    ticks, names = order_day
    keys = np.unique(ticks["instrument_id"]).tolist()

    def digests(ticks: Any, pieces: int) -> Any:
        running = Running()
        for piece in np.array_split(ticks, pieces):
            running.add(piece)
        return running.digests(names, keys)

    whole = digests(ticks, 1)
    assert (digests(ticks, 13) == whole).all()
    apart = ticks[np.argsort(ticks["instrument_id"], kind="stable")]
    assert (digests(apart, 1) == whole).all()
    mine = np.flatnonzero(ticks["instrument_id"] == keys[3])[4:6]
    ticks[mine] = ticks[mine[::-1]]
    assert np.flatnonzero((digests(ticks, 1) != whole).any(axis=1)).tolist() == [3]
