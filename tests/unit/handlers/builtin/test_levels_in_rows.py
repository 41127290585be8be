"""Levels in the rows of books: against plain books after each tick, in chains, outputs, snapshots and states."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import iex_reference
import numpy as np
import numpy.typing as npt
import pcap_reference
import pytest
from book_reference import PlainBook
from book_runs import ORDER_CHANGES, order_stream
from databento_book import LAST, DatabentoBook
from depth_reference import PlainDepth
from hypothesis import given, settings
from hypothesis import strategies as st

import strand
from examples import examples
from strand import UNDEF_PRICE, batch_handler, book, chain, depth, feeds, replay, testing
from strand.caller.run import CallerRun
from strand.errors import ConfigurationError, SavedStateError
from strand.feeds.sample import SAMPLE_DATE, sample_path
from strand.feeds.synthetic import SyntheticFeed, write_pitch
from strand.handlers import BOOK_ROW, book_row, depth_row

Ticks = npt.NDArray[Any]
SIDES = (("bid", b"B"), ("ask", b"A"))
COLUMNS = ("prices", "sizes", "counts")
#: The numbers of a level that is not there.
NONE = (UNDEF_PRICE, 0, 0)


def shown(row: Any, *, counted: bool = True) -> list[list[tuple[int, ...]]]:
    """Levels of bids and of asks in a row or a record, without those that are not there behind the others."""
    found = []
    for side, _ in SIDES:
        columns = [row[f"{side}_{name}"].tolist() for name in COLUMNS if counted or name != "counts"]
        levels = list(zip(*columns, strict=True))
        while levels and levels[-1] == NONE[: len(columns)]:
            levels.pop()
        found.append(levels)
    return found


def after_each(ticks: Ticks, handler: Any, symbols: int = 1, batch: int = 1 << 20) -> list[Any]:
    """The row of the tick's symbol after each tick, as a handler in Python behind the book sees it."""
    rows: dict[int, list[Any]] = {key: [] for key in range(symbols)}

    @batch_handler(state=[("n", "i8")])
    def record(symbol: str, ticks: Any, row: Any, ctx: Any) -> None:
        (after,) = ctx.after.values()
        rows[int(ticks["instrument_id"][0])].extend(after.copy())

    with CallerRun([f"S{key}" for key in range(symbols)], chain(handler, record)) as loop:
        for at in range(0, len(ticks), batch):
            loop.publish(ticks[at : at + batch])
    found = {key: iter(its) for key, its in rows.items()}
    return [next(found[int(tick["instrument_id"])]) for tick in ticks]


# ---- against plain books, after every tick


@settings(max_examples=examples(150), deadline=None)
@given(ORDER_CHANGES, st.integers(1, 6), st.integers(1, 50))
def test_levels_of_any_stream_of_orders_are_those_of_a_plain_book_after_each_tick(
    changes: list[Any], top: int, batch: int
) -> None:
    ticks = order_stream(changes)
    plain = [PlainBook(), PlainBook()]
    for tick, row in zip(ticks, after_each(ticks, book(top=top), 2, batch), strict=True):
        its = plain[tick["instrument_id"]]
        its.apply(tick)
        assert shown(row) == [its.levels(letter)[:top] for _, letter in SIDES]
        expected = its.row()
        assert {name: int(row[name]) for name in expected} == expected


def many_levels(seed: int, n: int = 9_000) -> Ticks:
    """Orders of one symbol that come and go at random: first on more prices of a side than a ladder has in one piece,
    and then on fewer and fewer."""
    rng = np.random.default_rng(seed)
    ticks = strand.ticks.zeros(n)
    live: list[int] = []
    for at, tick in enumerate(ticks):
        tick["kind"], tick["order_id"] = 1, at + 1
        if live and rng.random() < (0.4 if at < 5_000 else 0.95):
            tick["action"] = action = rng.choice([b"C", b"F", b"M"]) if at < 5_000 else b"C"
            tick["order_id"] = live.pop(int(rng.integers(len(live))))
            if action == b"F":
                tick["size"] = 9
            if action == b"M":
                tick["ref_id"], tick["size"] = at + 1, int(rng.integers(1, 9))
                tick["price"] = 10_000 + int(rng.integers(-2_000, 2_000))
                live.append(at + 1)
            continue
        side = int(rng.integers(2))
        far = int(rng.integers(2_000)) if rng.random() < 0.7 else int(rng.integers(6))
        tick["action"], tick["side"], tick["size"] = b"A", b"AB"[side : side + 1], int(rng.integers(1, 9))
        tick["price"] = 10_001 + far if side == 0 else 10_000 - far
        live.append(at + 1)
    return ticks


@pytest.mark.parametrize("top", [1, 5, 64])
def test_levels_of_a_deep_book_are_those_of_a_plain_one_after_each_tick(top: int) -> None:
    ticks = many_levels(top)
    plain, most = PlainBook(), 0
    for at, (tick, row) in enumerate(zip(ticks, after_each(ticks, book(top=top)), strict=True)):
        plain.change(tick)
        if at % 13 == 0:
            levels = [plain.levels(letter) for _, letter in SIDES]
            assert shown(row) == [side[:top] for side in levels]
            most = max(most, *map(len, levels))
    assert most > 512
    assert len(plain.orders) < 100


def ticks_of(path: Path, keys: int, most: int, **options: Any) -> Ticks:
    """The first ticks of the busiest symbols of a file, which are numbered anew."""
    with feeds.open(path, **options) as feed:
        ticks = np.concatenate([batch.copy() for batch in feed.batches()])
    busiest = np.argsort(np.bincount(ticks["instrument_id"]))[-keys:]
    ticks = ticks[np.isin(ticks["instrument_id"], busiest)][:most]
    ticks["instrument_id"] = np.searchsorted(np.sort(busiest), ticks["instrument_id"])
    return ticks


def assert_plain(ticks: Ticks, handler: Any, make: Any, top: int, *, counted: bool = True) -> None:
    """Levels after each tick, and the records of their changes, are those of plain books."""
    keys = int(ticks["instrument_id"].max()) + 1
    plain = [make() for _ in range(keys)]
    for tick, row in zip(ticks, after_each(ticks, handler, keys, 997), strict=True):
        its = plain[tick["instrument_id"]]
        its.apply(tick)
        levels = [its.levels(letter if counted else letter.decode())[:top] for _, letter in SIDES]
        assert shown(row, counted=counted) == levels


def test_levels_of_an_itch_day_are_those_of_plain_books_after_each_tick() -> None:
    assert_plain(ticks_of(sample_path(), 3, 4_000, date=SAMPLE_DATE), book(top=5), PlainBook, 5)


def test_levels_of_lobster_are_those_of_a_plain_book_after_each_tick(shared_data: Path) -> None:
    ticks = ticks_of(next((shared_data / "lobster").glob("*message*.csv")), 1, 4_000)
    assert_plain(ticks, book(top=10), PlainBook, 10)


def test_levels_of_recorded_futures_are_those_of_a_plain_reading_of_events(shared_data: Path) -> None:
    pytest.importorskip("databento_dbn")
    ticks = ticks_of(next((shared_data / "dbn-es").glob("esh4*")), 1, 6_000)
    plain, expected = DatabentoBook(), [[], []]
    for tick, row in zip(ticks, after_each(ticks, book(top=10, fills="report"), batch=997), strict=True):
        plain.apply(tick)
        if tick["flags"] & LAST:
            expected = [plain.shown(letter)[:10] for _, letter in SIDES]
        assert shown(row) == expected


LEVEL_CHANGES = st.lists(
    st.tuples(
        st.sampled_from("MMMMACRT"),
        st.sampled_from("AB"),
        st.integers(1, 9),
        st.integers(0, 3),
        st.sampled_from([0, 0, 0, 4, 32]),
    ),
    min_size=20,
    max_size=80,
)


@settings(max_examples=examples(80), deadline=None)
@given(LEVEL_CHANGES, st.integers(1, 5))
def test_changes_of_levels_of_a_level_book_are_those_of_a_plain_one(changes: list[Any], top: int) -> None:
    ticks = strand.ticks.zeros(len(changes))
    for tick, (action, side, price, size, flags) in zip(ticks, changes, strict=True):
        tick["kind"], tick["action"], tick["side"] = 3, action.encode(), side.encode()
        tick["price"], tick["size"], tick["flags"] = price, size, flags
    ticks["ts_event"] = np.arange(len(ticks)) + 100
    plain, expected, before = PlainDepth(top), [], ([], [])
    for tick in ticks:
        plain.apply(tick)
        if (now := (plain.levels("B")[:top], plain.levels("A")[:top])) != before:
            expected.append((int(tick["ts_event"]), *now))
            before = now
    found = emitted(ticks, depth(top=top, changes=True))
    assert [(int(r["ts_event"]), *shown(r, counted=False)) for r in found] == [
        (at, *map(list, rest)) for at, *rest in expected
    ]


def emitted(ticks: Ticks, handler: Any, **options: Any) -> Any:
    feed = testing.ListFeed(ticks, ["A", "B"], batches=13)
    return replay(feed, handler, workers=0, allow_empty=True, **options).outputs["levels"]


@settings(max_examples=examples(80), deadline=None)
@given(ORDER_CHANGES, st.integers(1, 5))
def test_changes_of_levels_are_emitted_once_each_with_the_time_of_their_tick(changes: list[Any], top: int) -> None:
    ticks = order_stream(changes)
    ticks["ts_event"] = np.arange(len(ticks)) + 100
    plain, expected = [PlainBook(), PlainBook()], []
    before: list[Any] = [[[], []], [[], []]]
    for tick in ticks:
        key = int(tick["instrument_id"])
        plain[key].change(tick)
        now = [plain[key].levels(letter)[:top] for _, letter in SIDES]
        if now != before[key]:
            expected.append((key, int(tick["ts_event"]), *now))
            before[key] = now
    found = emitted(ticks, book(top=top, changes=True))
    assert [(int(r["instrument_id"]), int(r["ts_event"]), *shown(r)) for r in found] == expected


# ---- formats, after every tick


def test_levels_of_pitch_are_those_of_plain_books_with_halts_and_crosses(tmp_path: Path) -> None:
    path = tmp_path / "day.pitch"
    write_pitch(SyntheticFeed(40, 20_000, seed=12, date="2026-01-05", halts=2), path)
    assert_plain(ticks_of(path, 3, 3_000, date="2026-01-05"), book(top=5), PlainBook, 5)


def iex_capture(folder: Path, protocol: int, bodies: list[bytes]) -> Path:
    path = folder / "20200130_IEXTP1_TEST.pcap"
    path.write_bytes(pcap_reference.pcap(iex_reference.packets(bodies, protocol=protocol)))
    return path


def test_levels_of_iex_deep_plus_are_those_of_a_plain_book(tmp_path: Path) -> None:
    rng, bodies, live = random.Random(3), [], [0]
    for at in range(1, 1_500):
        order, size, price = rng.choice(live[-40:]), rng.randint(1, 500), 99_0000 + 100 * rng.randint(-9, 9)
        time = iex_reference.OPEN + at
        kind = rng.choice("aaaaMRRLC" if at % 400 == 0 else "aaaaMRRL")
        match kind:
            case "a":
                live.append(at)
                value: int | str = rng.choice("85")
                fields: tuple[int, ...] = (at, size, price)
            case "M":
                value, fields = rng.randint(0, 1), (order, size, price)
            case "L":
                value, fields = 0, (order, size, price, at)
            case _:
                value, fields = 0, (order,) if kind == "R" else ()
        bodies.append(iex_reference.message(kind, value, time, "AAPL", *fields))
    assert_plain(ticks_of(iex_capture(tmp_path, iex_reference.DEEP_PLUS, bodies), 1, 1_500), book(top=4), PlainBook, 4)


def test_levels_of_iex_deep_are_those_of_a_plain_book_after_each_event(tmp_path: Path) -> None:
    rng = random.Random(4)
    bodies = [
        iex_reference.message(
            rng.choice("85"), rng.randint(0, 1), iex_reference.OPEN + at, "AAPL", rng.choice([0, 100, 300]),
            99_0000 + 100 * rng.randint(-9, 9),
        )
        for at in range(1_500)
    ]  # fmt: skip
    path = iex_capture(tmp_path, iex_reference.DEEP, bodies)
    with feeds.open(path) as feed:
        flags = feed.info.flags
    assert flags.last
    handler = depth(top=3).known(feed.info)
    assert_plain(ticks_of(path, 1, 1_500), handler, lambda: PlainDepth(3, last=flags.last), 3, counted=False)


def test_levels_of_tardis_are_those_of_a_plain_book_after_each_event(tmp_path: Path) -> None:
    rng, lines = random.Random(5), ["exchange,symbol,timestamp,local_timestamp,is_snapshot,side,price,amount"]
    for at in range(1_500):
        first = "true" if at % 500 < 8 else "false"
        price, amount = 100 + rng.randint(-20, 20) / 10, rng.choice(["0", "1", "0.5"])
        time = 1_580_394_600_000_000 + at // 3
        lines.append(f"x,BTC,{time},{time},{first},{rng.choice(['bid', 'ask'])},{price:.1f},{amount}")
    path = tmp_path / "20200130.csv"
    path.write_text("\n".join(lines) + "\n")
    with feeds.open(path) as feed:
        flags = feed.info.flags
    handler = depth(top=5).known(feed.info)
    assert_plain(ticks_of(path, 1, 1_500), handler, lambda: PlainDepth(5, last=flags.last), 5, counted=False)


# ---- handlers behind the book

OPTIONS: dict[str, Any] = {"date": SAMPLE_DATE, "symbols": ["AAAHD", "AAADU"]}
#: What each handler behind a book sums up, tick by tick.
WEIGHED = [("sum", "i8"), ("orders", "i8")]
SOURCE = r"""
#include "sd_handler.h"

enum { TOP = 5 };
/* The row of strand.book(top=5) is 128 bytes and the levels; in a chain the handler's own row lies behind it. */
typedef struct levels { int64_t prices[TOP], sizes[TOP], counts[TOP]; } levels;
typedef struct own { levels bid, ask; int64_t sum, orders; } own;

int64_t weigh(void *rows, const sd_tick *ticks, int64_t n, sd_context *ctx) {
  for (int64_t i = 0; i < n; i++) {
    unsigned char *row = (unsigned char *)rows + ticks[i].instrument_id * ctx->row_stride;
    own *mine = (own *)(row - sizeof(levels[2]));
    for (int at = 0; at < TOP; at++) {
      mine->sum += (at + 1) * (mine->bid.sizes[at] - mine->ask.sizes[at]);
      mine->orders += mine->bid.counts[at] + mine->ask.counts[at];
    }
  }
  return n;
}
"""


def weighed_in_c(folder: Path) -> Any:
    source, library = folder / "weigh.c", folder / "weigh.so"
    source.write_text(SOURCE)
    include = subprocess.run(
        [sys.executable, "-m", "strand", "include"], capture_output=True, text=True, check=True
    ).stdout.strip()
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", f"-I{include}", "-o", library, source], check=True)
    return strand.native(library, "weigh", state=WEIGHED, never_publishes=True)


def weighed_by_numba(folder: Path) -> Any:
    pytest.importorskip("numba")

    @strand.handler(state=WEIGHED)
    def weigh(row: Any, tick: Any) -> None:
        for at in range(5):
            row.weigh.sum += (at + 1) * (row.book.bid_sizes[at] - row.book.ask_sizes[at])
            row.weigh.orders += row.book.bid_counts[at] + row.book.ask_counts[at]

    return weigh


def weighed_in_batches(folder: Path) -> Any:
    @batch_handler(state=WEIGHED)
    def weigh(symbol: str, ticks: Any, row: Any, ctx: Any) -> None:
        after = ctx.after["book"]
        row["sum"] += ((after["bid_sizes"] - after["ask_sizes"]) * np.arange(1, 6)).sum()
        row["orders"] += after["bid_counts"].sum() + after["ask_counts"].sum()

    return weigh


@pytest.mark.cells(1)
@pytest.mark.parametrize("make", [weighed_in_c, weighed_by_numba, weighed_in_batches])
@pytest.mark.parametrize("workers", [0, 2])
def test_a_handler_behind_the_book_sees_its_levels_after_each_tick(make: Any, workers: int, tmp_path: Path) -> None:
    options: dict[str, Any] = {"workers": workers} | ({"cores": None} if workers else {})
    rows = replay(sample_path(), chain(book(top=5), make(tmp_path)), **OPTIONS, **options).rows
    for name in OPTIONS["symbols"]:
        ticks = ticks_of(sample_path(), 1, 10_000, date=SAMPLE_DATE, symbols=[name])
        plain, total, orders = PlainBook(), 0, 0
        for tick in ticks:
            plain.change(tick)
            for sign, (_, letter) in zip((1, -1), SIDES, strict=True):
                for weight, level in enumerate(plain.levels(letter)[:5], 1):
                    total += sign * weight * level[1]
                    orders += level[2]
        assert rows[name]["weigh"].tolist() == (total, orders)


def test_an_object_is_called_after_each_change_of_a_level_and_no_other() -> None:
    seen: dict[str, list[Any]] = {}

    class Levels:
        def on_start(self, ctx: Any) -> None:
            self.mine = seen.setdefault(ctx.symbol, [])

        def on_levels(self, top: Any) -> None:
            self.mine.append(shown(top._asdict()))

    changes = replay(sample_path(), book(top=5, changes=True), **OPTIONS)
    replay(sample_path(), chain(book(top=5), Levels), workers=1, cores=None, **OPTIONS)
    for name in OPTIONS["symbols"]:
        levels = changes.outputs["levels"]
        expected = [shown(record) for record in levels[levels["instrument_id"] == changes.symbols.index(name)]]
        # The first tick is no change: an object is told of the first row all the same, which was zeros before.
        assert seen[name][-len(expected) :] == expected
        assert len(seen[name]) - len(expected) <= 1
    with pytest.raises(ConfigurationError, match=r"on_levels is only called after levels of a book"):
        replay(sample_path(), chain(book(), Levels), **OPTIONS)


# ---- tables, files and snapshots


@pytest.mark.parametrize("workers", [0, 2])
def test_top_five_of_three_symbols_each_second_are_those_of_plain_books(workers: int) -> None:
    names = ["AAAHD", "AAADU", "AAAOA"]
    options: dict[str, Any] = {"workers": workers} | ({"cores": None} if workers else {})
    frame = replay(
        sample_path(), book(top=5), symbols=names, snapshot="1m", date=SAMPLE_DATE, **options
    ).snapshots.to_polars(prices="integer")
    plain = {name: PlainBook() for name in names}
    ticks = {name: iter(ticks_of(sample_path(), 1, 10_000, date=SAMPLE_DATE, symbols=[name])) for name in names}
    waiting = {name: next(its) for name, its in ticks.items()}
    columns = [f"{side}_{kind}_{at}" for side, _ in SIDES for at in range(1, 6) for kind in ("price", "size", "count")]
    for time, name, *found in frame.select(frame["ts"].dt.epoch("ns"), "symbol", *columns).iter_rows():
        while waiting[name] is not None and waiting[name]["ts_recv"] <= time:
            plain[name].change(waiting[name])
            waiting[name] = next(ticks[name], None)
        levels = [(plain[name].levels(letter) + [(None, 0, 0)] * 5)[:5] for _, letter in SIDES]
        if plain[name].count["ticks"]:
            assert found == [value for side in levels for level in side for value in level]
        else:
            assert found == [None] * 30
    assert len(frame) == 3 * 720


def test_a_snapshot_of_levels_has_a_column_for_each_symbol_and_level() -> None:
    wanted = strand.snapshot(every="1h", fields=["bid_prices", "bid_price"])
    taken = replay(sample_path(), book(top=2), snapshot=wanted, **OPTIONS).snapshots
    assert taken["bid_prices"].to_polars().columns == [
        "ts", "AAADU.bid_price_1", "AAADU.bid_price_2", "AAAHD.bid_price_1", "AAAHD.bid_price_2",
    ]  # fmt: skip
    assert taken["bid_prices"].array.shape == (12, 2, 2)
    assert (taken["bid_prices"].array[..., 0] == taken["bid_price"].array).all()
    for bad in (0, -1, True, ["1s"], "soon"):
        with pytest.raises(ConfigurationError, match="snapshot"):
            replay(sample_path(), book(top=2), snapshot=bad, **OPTIONS)


@pytest.mark.parametrize("ending", ["parquet", "csv", "arrow", "npy"])
def test_changes_of_levels_go_to_files_with_a_column_for_each_level(ending: str, tmp_path: Path) -> None:
    import polars

    path = tmp_path / f"levels.{ending}"
    handler = book(top=2, changes=True)
    replay(sample_path(), handler, out={"levels": path}, **OPTIONS)
    kept = replay(sample_path(), handler, **OPTIONS).outputs["levels"]
    if ending == "npy":
        read = np.load(path)
        assert all((read[name] == kept[name]).all() for name in read.dtype.names)
        return
    table = {"parquet": polars.read_parquet, "csv": polars.read_csv, "arrow": polars.read_ipc}[ending](path)
    expected = kept.to_polars()
    assert table.columns == expected.columns
    assert table.columns[-12:] == [
        f"{side}_{kind}_{at}" for side, _ in SIDES for kind in ("price", "size", "count") for at in (1, 2)
    ]
    numbers = [name for name in table.columns if name.startswith(("bid", "ask"))]
    assert table.select(numbers).equals(expected.select(numbers))


def test_rows_of_levels_are_a_table_with_a_column_for_each() -> None:
    rows = replay(sample_path(), chain(book(top=2), "count"), **OPTIONS).rows
    assert [name for name in rows.to_polars().columns if "_price_" in name] == [
        f"book.{side}_price_{at}" for side, _ in SIDES for at in (1, 2)
    ]
    assert rows.units["book.bid_prices"].quantity == "price"
    assert rows.to_pandas()["book.bid_price_1"].equals(rows.to_pandas()["book.bid_price"].rename("book.bid_price_1"))


# ---- states, and what is refused


def test_a_saved_state_goes_on_with_its_levels_and_fits_no_other_number_of_them(tmp_path: Path) -> None:
    path = tmp_path / "half.strand"
    whole = replay(sample_path(), book(top=3, changes=True), **OPTIONS)
    half = replay(sample_path(), book(top=3, changes=True), **OPTIONS, save=path, limit=4_000)
    rest = replay(sample_path(), book(top=3, changes=True), **OPTIONS, load=path)
    assert (rest.rows.array == whole.rows.array).all()
    joined = np.concatenate([half.outputs["levels"]["bid_prices"], rest.outputs["levels"]["bid_prices"]])
    assert (joined == whole.outputs["levels"]["bid_prices"]).all()
    for other in (book(), book(top=2, changes=True)):
        with pytest.raises(SavedStateError):
            replay(sample_path(), other, **OPTIONS, load=path)


@pytest.mark.parametrize("make", [book, depth])
@pytest.mark.parametrize("top", [0, -1, 65, 10**9, True, 1.5, "5"])
def test_a_number_of_levels_that_no_row_holds_is_refused_by_its_name(make: Any, top: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"^top: ") as raised:
        make(top=top)
    assert raised.value.field == "top"


def test_changes_of_no_levels_are_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"changes: say of how many levels: top=5"):
        book(changes=True)


def test_rows_without_levels_are_as_they_were() -> None:
    assert book().state == BOOK_ROW
    assert book_row(2).names[: len(BOOK_ROW.names or ())] == BOOK_ROW.names
    assert book_row(64).itemsize == BOOK_ROW.itemsize + 64 * 48
    assert set(depth_row(3).names or ()) >= {"bid_prices", "ask_sizes"}
