"""Books of price levels: against a plain one on any stream, and against what files of each format say themselves."""

from __future__ import annotations

import csv
import functools
import re
import tomllib
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from book_reference import PlainBook
from depth_reference import PlainDepth
from engine_support import balanced, run_python, ticks_for
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples
from strand import UNDEF_PRICE, Dispatcher, depth, feeds, replay
from strand.errors import ConfigurationError
from strand.feeds.formats.json.profile import Record, read_profile
from strand.feeds.sample import SAMPLE_DATE, sample_path
from strand.output.books import DepthBook
from strand.report.rows_file import write_rows
from strand.ticks import zeros

QUOTE = 3


def run(
    ticks: npt.NDArray[Any], *, symbols: int = 1, batch: int = 1 << 20, workers: int = 2, **options: Any
) -> Dispatcher:
    with Dispatcher(symbols, depth(**options), workers=workers, cores=None) as d:
        for at in range(0, len(ticks), batch):
            d.publish(ticks[at : at + batch])
        d.drain()
        balanced(d)
    return d


def update(side: str, price: int, size: int, action: str = "M", **more: Any) -> npt.NDArray[Any]:
    made = ticks_for([more.pop("key", 0)], kind=QUOTE)
    made["action"], made["side"], made["price"], made["size"] = action.encode(), side.encode(), price, size
    for name, value in more.items():
        made[name] = value
    return made


def as_lists(row: Any) -> dict[str, Any]:
    return {name: row[name].tolist() for name in row.dtype.names if name != "last_ts_recv"}


def same(found: DepthBook, row: Any, plain: PlainDepth) -> None:
    assert as_lists(row) == plain.row()
    assert found.bids().tolist() == plain.levels("B")
    assert found.asks().tolist() == plain.levels("A")
    assert len(found) == len(plain.sides["A"]) + len(plain.sides["B"])


#: Few prices, so that everything meets everything.
CHANGES = st.lists(
    st.tuples(
        st.sampled_from("MMMMMACCRN"),
        st.sampled_from("ABABABNNZ"),
        st.one_of(st.integers(1, 12), st.just(UNDEF_PRICE)),
        st.integers(0, 3),
        st.sampled_from([0, 0, 0, 5, 6, UNDEF_PRICE]),
        st.integers(0, 3),
        st.sampled_from([0, 0, 0, 32, 32, 4]),
        st.sampled_from([0, 0, 1, 2]),
        st.sampled_from([QUOTE, QUOTE, QUOTE, QUOTE, 2, 1, 4]),
        st.integers(0, 1),
    ),
    max_size=150,
)


@settings(max_examples=examples(150), deadline=None)
@given(CHANGES, st.integers(1, 4), st.integers(1, 6), st.integers(1, 50))
def test_any_stream_leaves_the_levels_of_a_plain_reading(changes: list[Any], top: int, most: int, batch: int) -> None:
    ticks = zeros(len(changes))
    for t, (action, side, price, size, order, ref, flags, level, kind, key) in zip(ticks, changes, strict=True):
        t["action"], t["side"], t["price"], t["size"] = action.encode(), side.encode(), price, size
        t["order_id"], t["ref_id"], t["flags"], t["depth"] = order, ref, flags, level
        t["kind"], t["instrument_id"] = kind, key
    d = run(ticks, symbols=2, batch=batch, top=top, max_levels=most)
    for key in range(2):
        plain = PlainDepth(top, most)
        for t in ticks[ticks["instrument_id"] == key]:
            plain.apply(t)
        if plain.count["ticks"]:
            same(d.books[key], d.rows[key], plain)


def level_changes(before: dict[tuple[str, int], int], after: dict[tuple[str, int], int]) -> list[npt.NDArray[Any]]:
    """The updates that lead from one set of levels to another."""
    gone = [update(side, price, 0) for side, price in before.keys() - after.keys()]
    return gone + [update(*at, size) for at, size in after.items() if before.get(at) != size]


@functools.cache
def of_the_busiest() -> tuple[npt.NDArray[Any], list[PlainBook]]:
    """The updates of levels that the orders of the sample's three busiest symbols make, and the books they lead to."""
    feed = feeds.open(sample_path(), date=SAMPLE_DATE)
    ticks = np.concatenate([batch.copy() for batch in feed.batches()])
    feed.close()
    busiest = np.argsort(np.bincount(ticks["instrument_id"]))[-3:]
    parts, wanted = [], []
    for key, symbol in enumerate(busiest):
        plain, shown = PlainBook(), {}
        for t in ticks[ticks["instrument_id"] == symbol][:3_000]:
            plain.apply(t)
            now = {(side, p): size for side in "AB" for p, size, _ in plain.levels(side.encode())}
            for made in level_changes(shown, now):
                made["instrument_id"] = key
                parts.append(made)
            shown = now
        wanted.append(plain)
    return np.concatenate(parts), wanted


@pytest.mark.parametrize("workers", [1, 3])
def test_updates_made_from_a_book_of_orders_give_its_levels(workers: int) -> None:
    updates, wanted = of_the_busiest()
    d = run(updates, symbols=len(wanted), batch=997, workers=workers)
    for key, plain in enumerate(wanted):
        assert d.books[key].bids().tolist() == [level[:2] for level in plain.levels(b"B")]
        assert d.books[key].asks().tolist() == [level[:2] for level in plain.levels(b"A")]
        assert d.rows[key]["absent"] == d.rows[key]["beyond"] == d.rows[key]["passed_over"] == 0
        assert len(d.books[key]) > 4


def shown_by_lobster(folder: Path) -> npt.NDArray[Any]:
    """Rows of ten levels: ask price, ask size, bid price, bid size."""
    rows = np.loadtxt(next(folder.glob("*orderbook_10.csv")), delimiter=",", dtype=np.int64).reshape(-1, 10, 4)
    rows[:, :, [0, 2]] *= 100_000
    return rows


def test_views_of_ten_levels_are_the_book_lobster_shows(shared_data: Path) -> None:
    rows = shown_by_lobster(shared_data / "lobster")
    with Dispatcher(1, depth(top=10), workers=1, cores=None) as d:
        for levels in rows[:300]:
            ticks = ticks_for(np.zeros(10, np.int64), kind=QUOTE)
            ticks["side"], ticks["depth"] = b"N", np.arange(10)
            ticks["order_id"], ticks["ref_id"], ticks["price"], ticks["size"] = levels.T
            d.publish(ticks)
            d.drain()
            row = d.rows[0]
            assert [
                row[n].tolist() for n in ("ask_prices", "ask_sizes", "bid_prices", "bid_sizes")
            ] == levels.T.tolist()
            assert (row["bid_levels"], row["ask_levels"], row["crossed"]) == (10, 10, 0)


def test_updates_made_from_lobsters_rows_give_its_rows(shared_data: Path) -> None:
    rows = shown_by_lobster(shared_data / "lobster")
    before: dict[tuple[str, int], int] = {}
    with Dispatcher(1, depth(top=10), workers=1, cores=None) as d:
        for levels in rows:
            after = {("A", int(p)): int(s) for p, s in levels[:, :2]} | {
                ("B", int(p)): int(s) for p, s in levels[:, 2:]
            }
            for made in level_changes(before, after):
                d.publish(made)
            d.drain()
            row, before = d.rows[0], after
            assert [
                row[n].tolist() for n in ("ask_prices", "ask_sizes", "bid_prices", "bid_sizes")
            ] == levels.T.tolist()
        assert d.rows[0]["absent"] == 0


@pytest.mark.parametrize("schema", ["mbp-10", "mbp-1", "cmbp-1", "bbo-1s", "tbbo"])
def test_the_levels_of_a_dbn_file_are_those_of_databentos_own_reader(shared_data: Path, schema: str) -> None:
    databento = pytest.importorskip("databento_dbn")
    path = shared_data / "dbn" / f"test_data.{schema}.dbn"
    decoder = databento.DBNDecoder()
    decoder.write(path.read_bytes())
    last = [record for record in decoder.decode() if hasattr(record, "levels")][-1]
    options = {"levels": 10} if schema == "mbp-10" else {}
    result = replay(path, depth(top=10), workers=1, cores=None, feed_options=options)
    (symbol,) = np.flatnonzero(result.ticks_by_symbol)
    assert result.books is not None
    for side, price, size in (("bid", "bid_px", "bid_sz"), ("ask", "ask_px", "ask_sz")):
        told = [(getattr(at, price), getattr(at, size)) for at in last.levels]
        expected = [(p, s) for p, s in told if p != UNDEF_PRICE and s]
        assert result.books[int(symbol)].levels(side).tolist() == expected
    row = result.rows.at(int(symbol))
    assert (row["passed_over"], row["unusable"]) == (0, 0)


def tardis_lines(rng: np.random.Generator, n: int) -> list[list[str]]:
    lines = []
    for at in range(n):
        snapshot = at < 40 or 900 <= at < 940
        amount = (
            "0.00000001"
            if at % 50 == 45
            else "0"
            if rng.random() < 0.3 and not snapshot
            else f"{rng.integers(1, 10**9) / 1e8:.8f}"
        )
        side = "bid" if rng.random() < 0.5 else "ask"
        price = rng.integers(9_000, 10_000) if side == "bid" else rng.integers(10_000, 11_000)
        # A snapshot is one message, and so are two rows of changes.
        stamp = str(1_700_000_000_000_000 + (at - at % 2 if not snapshot else at // 900 * 900))
        lines.append(["deribit", "BTC", stamp, stamp, str(snapshot).lower(), side, f"{price / 2:.1f}", amount])
    return lines


def test_tardis_files_give_the_book_their_documentation_describes(tmp_path: Path) -> None:
    """A snapshot after other rows starts afresh; amounts are exact; 0 removes, an amount below a unit does not."""
    header = ["exchange", "symbol", "timestamp", "local_timestamp", "is_snapshot", "side", "price", "amount"]
    lines = tardis_lines(np.random.default_rng(5), 2_000)
    path = tmp_path / "incremental.csv"
    with path.open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([header, *lines])
    book: dict[str, dict[int, int]] = {"bid": {}, "ask": {}}
    snapshot_of = ""
    for *_, local, snapshot, side, price, amount in lines:
        if snapshot == "true" and snapshot_of != local:
            book = {"bid": {}, "ask": {}}
        snapshot_of = local if snapshot == "true" else ""
        at, exact = round(float(price) * 2) * 500_000_000, round(float(amount) * 1e8)
        if exact:
            book[side][at] = exact
        else:
            book[side].pop(at, None)
    result = replay(path, "depth", workers=1, cores=None)
    assert result.books is not None
    for side, best_first in (("bid", -1), ("ask", 1)):
        expected = sorted(book[side].items(), key=lambda level: best_first * level[0])
        assert result.books["BTC"].levels(side).tolist() == expected
    assert result.rows["BTC"]["snapshots"] == 2
    write_rows(tmp_path / "rows.csv", result)
    (line,) = csv.DictReader((tmp_path / "rows.csv").read_text().splitlines())
    unit = result.rows.units["bid_sizes"].scale
    assert unit is not None
    shown = [round(Decimal(line[f"bid_sizes_{level}"]) / unit) for level in range(1, 6)]
    assert shown == result.rows["BTC"]["bid_sizes"].tolist()
    assert min(size for levels in book.values() for size in levels.values()) == 1


HFT_EVENT = np.dtype(
    [("ev", "<u8"), ("exch_ts", "<i8"), ("local_ts", "<i8"), ("px", "<f8"), ("qty", "<f8"), ("order_id", "<u8"),
     ("ival", "<i8"), ("fval", "<f8")]
)  # fmt: skip


def test_hftbacktests_events_give_the_book_they_describe(tmp_path: Path) -> None:
    depth_event, clear, snapshot, best = 1, 3, 4, 5
    buy, sell = 0xE0000000, 0xD0000000
    told: list[tuple[int, float, float]] = [
        (snapshot | buy, 99, 5), (snapshot | buy, 98, 6), (snapshot | buy, 97, 7),
        (snapshot | sell, 101, 1), (snapshot | sell, 102, 2), (snapshot | sell, 103, 3),
        (depth_event | buy, 98, 0), (depth_event | buy, 96, 9), (depth_event | sell, 102, 8),
        (clear | sell, 101, 0),  # up to 101
        (best | buy, 97, 4),  # 99 is gone
    ]  # fmt: skip
    events = np.zeros(len(told), HFT_EVENT)
    for at, (event, (kind, price, quantity)) in enumerate(zip(events, told, strict=True)):
        event["ev"], event["px"], event["qty"] = kind, price, quantity
        event["exch_ts"] = event["local_ts"] = at + 1
    path = tmp_path / "btcusdt.npz"
    np.savez(path, data=events)
    result = replay(path, "depth", workers=1, cores=None)
    assert result.books is not None
    book = result.books["btcusdt"]
    assert book.bids().tolist() == [(97 * 10**9, 4), (96 * 10**9, 9)]
    assert book.asks().tolist() == [(102 * 10**9, 8), (103 * 10**9, 3)]


def docs() -> str:
    return (Path(__file__).parents[4] / "docs" / "handlers" / "depth.md").read_text()


def test_the_profile_of_the_docs_reads_binances_depth_messages() -> None:
    (text,) = re.findall(r"```toml\n(.*?)```", docs(), flags=re.S)
    profile = read_profile(tomllib.loads(text))
    messages = [
        {"stream": "bnbbtc@depth5", "data": {"bids": [["0.0025", "1"]], "asks": []}},
        {"stream": "bnbbtc@depth5", "data": {"bids": [["0.0024", "10"], ["0.0022", "5"]], "asks": [["0.0026", "100"]]}},
        {"e": "depthUpdate", "E": 1_672_515_782_136, "s": "BNBBTC", "U": 157, "u": 160,
         "b": [["0.0024", "0"], ["0.0023", "3"]], "a": [["0.0026", "100.001"], ["0.0027", "1"]]},
    ]  # fmt: skip
    parts = []
    for message in messages:
        for record in profile.records(message) or ():
            assert isinstance(record, Record), record
            tick = ticks_for([0], kind=0)
            tick["price"] = UNDEF_PRICE
            for name, value in record.values.items():
                tick[name] = value
            parts.append(tick)
    book = run(np.concatenate(parts)).books[0]
    assert book.bids().tolist() == [(2_300_000, 3_000), (2_200_000, 5_000)]
    assert book.asks().tolist() == [(2_600_000, 100_001), (2_700_000, 1_000)]


def test_a_side_keeps_its_best_levels_and_no_more_than_it_may() -> None:
    rng = np.random.default_rng(2)
    prices = rng.permutation(50_000) + 1
    ticks = ticks_for(np.zeros(len(prices), np.int64), kind=QUOTE)
    ticks["action"], ticks["side"], ticks["price"], ticks["size"] = b"M", b"B", prices, 1
    empty = run(ticks[:0], max_levels=1_000).books.bytes
    d = run(ticks, max_levels=1_000)
    assert d.books[0].bids()["price"].tolist() == list(range(50_000, 49_000, -1))
    assert d.books.bytes - empty <= 64 * 1_000 + 4_096
    assert d.rows[0]["beyond"] == 49_000


def test_a_book_of_levels_says_what_it_is_not_for() -> None:
    ticks = np.concatenate([update("B", 100, 1), ticks_for([0, 0], kind=1)])
    d = run(ticks)
    assert d.rows[0]["passed_over"] == 2
    assert repr(d.books[0]) == "<DepthBook of #0: 1 level>"
    assert not hasattr(d.books[0], "orders")
    assert d.books.live_orders == 0
    for wrong in ({"top": 0}, {"top": 65}, {"max_levels": 0}, {"top": True}):
        with pytest.raises(ConfigurationError, match=f"{next(iter(wrong))}: .* is not a whole number"):
            depth(**wrong)


def test_the_example_of_the_docs_runs(tmp_path: Path) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", docs(), flags=re.S)
    done = run_python(example)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == re.findall(r"    # (\[.*)", example)
