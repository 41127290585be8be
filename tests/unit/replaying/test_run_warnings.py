"""``result.warnings``: each entry true, with its count by a plain reading of the source, and none where all is well."""

from __future__ import annotations

import gzip
import json
import struct
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from command_here import run_here
from merge_support import ArrayFeed

import strand
from strand.command.cli import cli
from strand.errors import ConfigurationError, FeedError, StrictError
from strand.feeds.formats.npy import NpyFeed
from strand.feeds.merge.feeds import merge_feeds
from strand.feeds.sample import SAMPLE_DATE, sample_path
from strand.feeds.write.npy import write_npy
from strand.replaying.pacing import Pacer
from strand.replaying.replay import ReplayResult
from strand.report import html
from strand.ticks import KIND_ORDER, KIND_QUOTE, KIND_TRADE, UNDEF_PRICE, zeros

pytestmark = pytest.mark.python

DAY = {"date": SAMPLE_DATE}
#: Messages of ITCH 5.0 that name an order at byte 11.
OF_AN_ORDER = b"AFECXDU"


def messages(data: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(data):
        (length,) = struct.unpack_from(">H", data, at)
        yield data[at + 2 : at + 2 + length]
        at += 2 + length


def order_of(message: bytes) -> int | None:
    return int.from_bytes(message[11:19], "big") if message[0] in OF_AN_ORDER else None


class Damaged:
    """The sample day without one add: that of the order that is changed most often, and never replaced."""

    def __init__(self, folder: Path) -> None:
        day = list(messages(gzip.decompress(sample_path().read_bytes())))
        changes = Counter(order_of(m) for m in day if m[0] in b"ECXD")
        replaced = {order_of(m) for m in day if m[0] in b"U"}
        for m in day:
            if m[0] in b"U":
                replaced.add(int.from_bytes(m[19:27], "big"))
        self.order = next(order for order, _ in changes.most_common() if order is not None and order not in replaced)
        self.changes = changes[self.order]
        self.fills = sum(1 for m in day if m[0] in b"E" and order_of(m) == self.order)
        add = next(m for m in day if m[0] in b"AF" and order_of(m) == self.order)
        self.symbol = add[24:32].decode().strip()
        self.path = folder / "damaged.itch50"
        self.path.write_bytes(b"".join(struct.pack(">H", len(m)) + m for m in day if m is not add))


@pytest.fixture(scope="module")
def damaged(tmp_path_factory: pytest.TempPathFactory) -> Damaged:
    return Damaged(tmp_path_factory.mktemp("damaged"))


def kinds(result: ReplayResult) -> dict[str, int]:
    found = {warning.kind: warning.count for warning in result.warnings}
    assert len(found) == len(result.warnings)
    return found


def orders(*rows: tuple[str, int, str, int, int], symbol: int = 0) -> Any:
    """Ticks of single orders: action, order, side, price, size."""
    ticks = zeros(len(rows))
    ticks["kind"], ticks["instrument_id"] = KIND_ORDER, symbol
    for name, column in zip(("action", "order_id", "side", "price", "size"), zip(*rows, strict=True), strict=True):
        ticks[name] = column
    ticks["ts_recv"] = np.arange(1, len(ticks) + 1)
    return ticks


ALL_WELL: tuple[Any, ...] = (
    "count", strand.book(), strand.vwap(), strand.vwap("1h"), strand.bars("1m"), strand.trade_stats(),
    strand.bbo(), strand.trades(),
    strand.spread(), strand.imbalance(), strand.volatility("1m"), strand.chain(strand.book(), strand.bars("1h")),
)  # fmt: skip


@pytest.mark.parametrize("handler", ALL_WELL, ids=lambda h: getattr(h, "described", h))
def test_a_sound_day_has_no_warnings(handler: Any) -> None:
    assert strand.replay(sample_path(), handler, feed_options=DAY, workers=2).warnings == ()


def test_a_missing_add_makes_its_changes_unknown_and_its_executions_unpriced(damaged: Damaged) -> None:
    assert damaged.fills > 0
    book = strand.replay(damaged.path, "book", feed_options=DAY)
    (unknown,) = book.warnings
    assert (unknown.kind, unknown.count) == ("unknown orders", damaged.changes)
    assert unknown.example == f"{damaged.changes} of {damaged.symbol}"
    assert unknown.cure.startswith("replay all files of the day from its start")
    for handler in ("vwap", "trades", strand.vwap("1m"), strand.bars("1m"), "trade_stats", strand.trade_stats("1m")):
        result = strand.replay(damaged.path, handler, feed_options=DAY, workers=0)
        (unpriced,) = result.warnings
        assert (unpriced.kind, unpriced.count) == ("unpriced trades", damaged.fills)
        assert unpriced.example == f"{damaged.fills} of {damaged.symbol}"


def test_the_rows_of_a_chain_are_looked_through(damaged: Damaged) -> None:
    result = strand.replay(damaged.path, strand.chain(strand.book(), strand.bars("1m")), feed_options=DAY)
    assert kinds(result) == {"unknown orders": damaged.changes, "unpriced trades": damaged.fills}


def test_what_parts_of_a_chain_both_count_is_counted_once(damaged: Damaged) -> None:
    class Mine:
        def on_trade(self, trade: Any) -> None:
            pass

    both = strand.chain(strand.vwap(), strand.bars("1m"), Mine)
    result = strand.replay(damaged.path, both, feed_options=DAY, workers=1)
    assert kinds(result) == {"unpriced trades": damaged.fills}
    by_symbol = {damaged.symbol: Mine, "*": strand.vwap()}
    result = strand.replay(damaged.path, handlers=by_symbol, feed_options=DAY, workers=0)
    assert kinds(result) == {"unpriced trades": damaged.fills}
    assert result.warnings[0].example == f"{damaged.fills} of {damaged.symbol}"


def test_only_symbols_of_the_handler_that_counts_are_looked_at(damaged: Damaged) -> None:
    with_book = {damaged.symbol: "book", "*": "count"}
    result = strand.replay(damaged.path, handlers=with_book, feed_options=DAY)
    assert kinds(result) == {"unknown orders": damaged.changes}
    assert result.warnings[0].example == f"{damaged.changes} of {damaged.symbol}"
    without = {damaged.symbol: "count", "*": "book"}
    assert strand.replay(damaged.path, handlers=without, feed_options=DAY).warnings == ()


def test_each_count_of_a_book_is_a_warning_with_the_symbol_that_has_most() -> None:
    ticks = np.concatenate(
        [
            orders(
                ("A", 1, "B", 10, 5), ("A", 1, "B", 10, 5), ("C", 9, "B", 10, 1), ("C", 1, "B", 10, 7),
                ("A", 2, "N", 10, 5), ("A", 3, "B", 12, 5), ("A", 4, "A", 11, 5),
            ),
            orders(("C", 9, "B", 10, 1), ("M", 9, "B", 10, 1), symbol=1),
        ]
    )  # fmt: skip
    ticks["ts_recv"] = np.arange(1, len(ticks) + 1)
    result = strand.replay(ArrayFeed(ticks, ["ONE", "TWO"]), "book", workers=1)
    assert [(w.kind, w.count, w.example) for w in result.warnings] == [
        ("unknown orders", 3, "2 of TWO"),
        ("duplicate orders", 1, "1 of ONE"),
        ("clipped orders", 1, "1 of ONE"),
        ("unusable orders", 1, "1 of ONE"),
        ("crossed books", 1, "1 of ONE"),
    ]


def test_each_count_of_levels_is_a_warning() -> None:
    ticks = orders(
        ("M", 0, "B", 10, 5), ("M", 0, "B", 9, 5), ("M", 0, "B", 7, 0), ("M", 0, "B", UNDEF_PRICE, 5),
        ("M", 0, "A", 10, 5),
    )  # fmt: skip
    ticks["kind"] = KIND_QUOTE
    result = strand.replay(ArrayFeed(ticks, ["X"]), strand.depth(max_levels=1), workers=0)
    found = {"unknown levels": 1, "clipped levels": 1, "unusable levels": 1, "crossed books": 1}
    assert kinds(result) == found


def test_quotes_that_cross_and_prices_without_a_logarithm_are_warnings() -> None:
    quotes = zeros(2)
    quotes["kind"], quotes["side"], quotes["action"] = KIND_QUOTE, b"N", b"N"
    quotes["price"], quotes["order_id"], quotes["size"], quotes["ref_id"] = [10, 12], [11, 12], 1, 1
    result = strand.replay(ArrayFeed(quotes, ["X"]), "spread", workers=0)
    assert [str(w).partition(";")[0] for w in result.warnings] == ["crossed quotes: 1 (1 of X)"]
    trades = zeros(3)
    trades["kind"], trades["action"], trades["price"], trades["size"] = KIND_TRADE, b"T", [5, -5, 0], 1
    result = strand.replay(ArrayFeed(trades, ["X"]), strand.volatility(ticks=1), workers=0)
    assert kinds(result) == {"unusable prices": 2}


def test_trades_that_come_after_their_bar_are_warnings() -> None:
    trades = zeros(3)
    trades["kind"], trades["action"], trades["price"], trades["size"] = KIND_TRADE, b"T", 5, 1
    trades["ts_recv"] = [10**9, 70 * 10**9, 2 * 10**9]
    result = strand.replay(ArrayFeed(trades, ["X"]), strand.bars("1m"), workers=0)
    assert kinds(result) == {"late trades": 1, "backward times": 1}


def test_counts_of_all_days_are_added_up(damaged: Damaged, tmp_path: Path) -> None:
    days = []
    for date in ("2026-01-05", "2026-01-06"):
        days.append(tmp_path / f"{date}.itch50")
        days[-1].write_bytes(damaged.path.read_bytes())
    for per_day in (False, True):
        result = strand.replay([str(day) for day in days], "book", per_day=per_day, workers=2)
        assert kinds(result) == {"unknown orders": 2 * damaged.changes}


def test_rows_of_ones_own_may_have_fields_of_any_name() -> None:
    @strand.batch_handler(state=[("unknown", "i8"), ("unpriced", "i8"), ("late", "i8"), ("crossed", "i8")])
    def mine(symbol: str, ticks: Any, row: Any) -> None:
        for name in ("unknown", "unpriced", "late", "crossed"):
            row[name] += len(ticks)

    assert strand.replay(ArrayFeed(orders(("A", 1, "B", 10, 5)), ["X"]), mine, workers=1).warnings == ()


def test_rows_of_a_csv_file_that_are_rounded_are_warnings(tmp_path: Path) -> None:
    path = tmp_path / "trades.csv"
    head = "exchange,symbol,timestamp,local_timestamp,id,side,price,amount"
    path.write_text(
        "\n".join([head, *(f"x,B,{at},{at},{at},buy,{price},{amount}" for at, price, amount in
        ((1, "1.5", "0.5"), (2, "1.5", "0.1234"), (3, "1.00000000049", "2")))]) + "\n"
    )  # fmt: skip
    options = {"size_unit": "0.001", "inexact": "round"}
    result = strand.replay(path, "vwap", feed_options=options, workers=0)
    assert kinds(result) == {"rounded rows": 2}
    assert all(warning.example == f"in {path}" for warning in result.warnings)


@pytest.mark.parametrize(
    ("columns", "data", "count"),
    [
        ("ts_event,symbol,price,size", b"1000000000,A,10,5\n2000000000,A,10,123", 1),
        ("ts_event,symbol,price,size", b"1000000000,A,10,5\n2000000000,A,10,123\n", 0),
        ("ts_event,symbol,price,size", b"1000000000,A,10,5\r2000000000,A,10,123\r", 0),
        ("ts_event,price,size,symbol", b"1000000000,10,5,AB\n2000000000,10,5,AB", 1),
        ("ts_event,symbol,price,size,note", b"1000000000,A,10,5,x\n2000000000,A,10,123,y", 0),
        ("ts_event,symbol,price,size,side", b"1000000000,A,10,5,A\n2000000000,A,10,123,B", 0),
        ("ts_event,symbol,price,size", b"1000000000,A,10,5\n\n2000000000,A,10,123\n3000000000,A,10,", 0),
        ("ts_event,symbol,price,size", b'1000000000,A,10,5\n2000000000,A,10,"123"', 0),
        ("ts_event,symbol,price,size", b"1000000000,A,10,5\n2000000000,A,10,123 ", 0),
    ],
)
def test_a_last_line_without_an_end_may_be_cut_in_its_last_number(
    columns: str, data: bytes, count: int, tmp_path: Path
) -> None:
    (tmp_path / "mine.toml").write_text(
        '[symbol]\ncolumn = "symbol"\n[fields.ts_event]\ncolumn = "ts_event"\nunit = "ns"\n[fields.price]\n'
        'column = "price"\n[fields.size]\ncolumn = "size"\n[fields.side]\ncolumn = "side"\noptional = true\n'
        '[fields.kind]\nconstant = "trade"\n'
    )
    path, options = tmp_path / "a.csv", {"profile": tmp_path / "mine.toml", "on_bad_record": "skip"}
    end = b"\r" if b"\r" in data else b"\n"
    path.write_bytes(columns.encode() + end + data)
    found = strand.replay(path, "vwap", workers=0, feed_options=options).warnings
    assert [each.count for each in found if each.kind == "unended last line"] == [1] * count
    # Compressed data says itself where it ends.
    zipped = tmp_path / "a.csv.gz"
    zipped.write_bytes(gzip.compress(path.read_bytes()))
    found = strand.replay(zipped, "vwap", workers=0, feed_options=options).warnings
    assert "unended last line" not in [each.kind for each in found]


def test_a_last_line_that_is_not_selected_is_not_looked_at(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(
        '[symbol]\ncolumn = "symbol"\n[fields.ts_event]\ncolumn = "ts"\nunit = "ns"\n[fields.size]\ncolumn = "size"\n'
        '[fields.kind]\nconstant = "trade"\n'
    )
    (tmp_path / "a.csv").write_bytes(b"ts,symbol,size\n1,A,5\n2,B,5")
    for symbol, count in (("A", 0), ("B", 1)):
        options = {"profile": tmp_path / "mine.toml"}
        result = strand.replay(tmp_path / "a.csv", "count", workers=0, symbols=[symbol], feed_options=options)
        assert kinds(result) == ({"unended last line": 1} if count else {})


def test_symbols_without_a_name_are_warnings(tmp_path: Path) -> None:
    ticks = np.concatenate([orders(("A", 1, "B", 10, 5)), orders(("A", 1, "B", 10, 5), ("A", 2, "B", 9, 5), symbol=2)])
    path = tmp_path / "day.npy"
    write_npy(path, ticks)
    result = strand.replay(path, "count", workers=0)
    assert [(w.kind, w.count, w.example) for w in result.warnings] == [("unnamed symbols", 2, "#2 with 2 ticks")]
    named = strand.replay(NpyFeed(path, symbols=["A", "B", "C"]), "count", workers=0)
    assert named.warnings == ()


class StuckClock:
    """A clock on which each look takes 3 ms."""

    def __init__(self) -> None:
        self.time_ns = 0

    def now_ns(self) -> int:
        self.time_ns += 3_000_000
        return self.time_ns

    def wait_until(self, time_ns: int) -> None:
        self.time_ns = max(self.time_ns, time_ns)


def test_ticks_later_than_their_pace_are_warnings() -> None:
    feed = ArrayFeed(orders(*[("A", i, "B", 10, 5) for i in range(1, 6)]), ["X"])
    result = strand.replay(feed, "count", workers=0, pacer=Pacer(1, clock=StuckClock()))
    assert result.pacing is not None
    assert kinds(result) == {"late ticks": result.pacing.late}
    assert result.pacing.late > 0
    assert result.warnings[0].example == f"one was {result.pacing.lateness.maximum_ns / 1e6:.3f} ms late"


# ---- times that run backwards


def behind(times: list[int]) -> tuple[int, int, int]:
    """By a plain reading: how many are before an earlier one, the most that one of them is, and its place."""
    latest, count, furthest, at = 0, 0, 0, 0
    for place, time in enumerate(times):
        count += 0 <= time < latest
        if time >= 0 and latest - time > furthest:
            furthest, at = latest - time, place
        latest = max(latest, time)
    return count, furthest, at


def test_times_that_run_backwards_are_warnings_with_the_one_that_is_furthest_behind() -> None:
    rng = np.random.default_rng(5)
    ticks = orders(*[("A", i, "B", 10, 5) for i in range(1, 3001)])
    ticks["instrument_id"] = rng.integers(0, 3, len(ticks))
    ticks["ts_recv"] = np.arange(1, len(ticks) + 1) * 100 - rng.integers(0, 2, len(ticks)) * rng.integers(
        0, 900, len(ticks)
    )
    count, furthest, at = behind(ticks["ts_recv"].tolist())
    assert count > 100
    for workers in (0, 1):
        result = strand.replay(ArrayFeed(ticks, ["X", "Y", "Z"]), "count", workers=workers)
        (warning,) = result.warnings
        assert (warning.kind, warning.count) == ("backward times", count)
        symbol = "XYZ"[ticks["instrument_id"][at]]
        assert warning.example == f"tick {at + 1:,}, of {symbol}, is {furthest:,} ns behind"
        assert f"reorder_ns={furthest} " in warning.cure
    merged = merge_feeds([ArrayFeed(ticks, ["X", "Y", "Z"])], reorder_ns=furthest)
    assert strand.replay(merged, "count", workers=0).warnings == ()
    kept = merge_feeds([ArrayFeed(ticks, ["X", "Y", "Z"])], on_disorder="keep")
    assert kinds(strand.replay(kept, "count", workers=0)) == {"backward times": count}


@pytest.mark.parametrize("workers", [0, 1])
def test_times_of_itch_that_run_backwards_are_counted_as_it_is_decoded(workers: int, tmp_path: Path) -> None:
    day = list(messages(gzip.decompress(sample_path().read_bytes())))
    changed = [i for i, m in enumerate(day) if m[0] in OF_AN_ORDER][20_000::7_000]
    for i in changed:
        ns = int.from_bytes(day[i][5:11], "big") - 10**9
        day[i] = day[i][:5] + ns.to_bytes(6, "big") + day[i][11:]
    path = tmp_path / "back.itch50"
    path.write_bytes(b"".join(struct.pack(">H", len(m)) + m for m in day))
    result = strand.replay(path, "count", feed_options=DAY, workers=workers)
    assert kinds(result) == {"backward times": len(changed)}
    times = np.concatenate([batch["ts_recv"].copy() for batch in strand.feeds.open(path, **DAY)])
    assert (result.seen.behind, result.seen.furthest_ns, result.seen.furthest_at) == behind(times.tolist())


def test_times_of_an_archive_that_were_raised_are_warnings() -> None:
    feed = ArrayFeed(orders(("A", 1, "B", 10, 5)), ["X"])
    feed.statistics = lambda: {"times_raised": 3}  # type: ignore[method-assign]
    assert kinds(strand.replay(feed, "count", workers=0)) == {"raised times": 3}


# ---- feeds that have nothing for a handler


def of_kind(kind: int, n: int = 6) -> Any:
    ticks = zeros(n)
    ticks["kind"], ticks["ts_recv"] = kind, np.arange(1, n + 1)
    ticks["instrument_id"] = np.arange(n) % 2
    ticks["price"], ticks["size"] = 10, 1
    if kind == KIND_QUOTE:
        ticks["action"], ticks["side"], ticks["order_id"], ticks["ref_id"] = b"M", b"N", 11, 1
    else:
        ticks["action"], ticks["side"] = b"T", b"B"
    return ticks


QUOTES_CSV = """exchange,symbol,timestamp,local_timestamp,ask_amount,ask_price,bid_price,bid_amount
x,BTC,1,1,2,11.5,11,1
x,BTC,2,2,2,11.5,11.25,1
x,ETH,3,3,2,11.5,11,1
"""


def test_a_book_of_orders_has_no_use_for_a_file_of_quotes(tmp_path: Path) -> None:
    path = tmp_path / "quotes.csv"
    path.write_text(QUOTES_CSV)
    for handler in (strand.book(), strand.chain(strand.book(), strand.depth())):
        result = strand.replay(path, handler, workers=0)
        assert [(w.kind, w.count, w.example) for w in result.warnings] == [
            ("unusable ticks", 3, "none of the 2 of BTC is a single order")
        ]
        assert "depth" in result.warnings[0].cure
    assert strand.replay(path, strand.depth(), workers=0).warnings == ()
    by_symbol = {"ETH": strand.book(), "*": strand.depth()}
    result = strand.replay(path, handlers=by_symbol, workers=0)
    assert [(w.count, w.example) for w in result.warnings] == [(1, "none of the 1 of ETH is a single order")]


def test_levels_and_quotes_are_not_found_in_single_orders_and_trades() -> None:
    result = strand.replay(sample_path(), strand.depth(), feed_options=DAY, workers=0)
    assert {w.kind: w.count for w in result.warnings} == {
        "unusable ticks": result.ticks,
        "unpriced trades": sum(int(row["unpriced"]) for row in result.rows.values()),
    }
    assert result.warnings[0].example == "none of the 4,514 of AAAHD is a quote"
    trades = ArrayFeed(of_kind(KIND_TRADE), ["X", "Y"])
    ours = (
        strand.book(),
        strand.depth(),
        strand.bbo(),
        strand.spread(),
        strand.imbalance(),
        strand.volatility(ticks=1, price="mid"),
    )
    for handler in ours:
        assert kinds(strand.replay(trades, handler, workers=0)) == {"unusable ticks": 6}
    # What is of no kind may be orders.
    plain = np.concatenate([orders(("A", 1, "B", 10, 1)), of_kind(KIND_TRADE)])
    plain["kind"][0], plain["ts_recv"] = 0, 1
    assert strand.replay(ArrayFeed(plain, ["X", "Y"]), "book", workers=0).warnings == ()
    # Orders that change no top are no reason to look for quotes elsewhere.
    removed = ArrayFeed(orders(("C", 1, "B", 10, 1)), ["X"])
    assert strand.replay(removed, strand.spread(book=True), workers=0).warnings == ()


def test_trades_are_not_found_among_quotes() -> None:
    quotes = ArrayFeed(of_kind(KIND_QUOTE), ["X", "Y"])
    ours = (strand.vwap(), strand.trades(), strand.bars("1m"), strand.trade_stats(), strand.volatility("1s"))
    for handler in (*ours, strand.vwap("1m")):
        result = strand.replay(quotes, handler, workers=0)
        assert kinds(result) == {"unusable ticks": 6}
        assert result.warnings[0].example == "none of the 3 of X is a trade or order"
    for handler in (strand.bbo(), strand.spread(), strand.imbalance(), strand.volatility(ticks=1, price="mid")):
        assert strand.replay(quotes, handler, workers=0).warnings == ()
    both = np.concatenate([of_kind(KIND_QUOTE), of_kind(KIND_TRADE)])
    both["ts_recv"] = 1
    for handler in (strand.vwap(), strand.bars("1m"), strand.spread(), strand.depth(), strand.volatility(ticks=1)):
        assert strand.replay(ArrayFeed(both, ["X", "Y"]), handler, workers=0).warnings == ()


@strand.handler(on="trade", state=[("n", "i8")])
def _never_called(row: Any, _trade: Any) -> None:
    row.n += 1


CUT: dict[str, dict[str, Any]] = {
    "limit": {"limit": 6}, "end": {"end": 7}, "until": {"until": 6}, "start": {"start": 1, "end": 7},
    "position": {"position": 2, "limit": 4},
}  # fmt: skip


@pytest.mark.parametrize("cut", CUT.values(), ids=CUT)
def test_a_part_of_a_feed_does_not_say_what_the_feed_lacks(cut: dict[str, Any]) -> None:
    both = np.concatenate([of_kind(KIND_QUOTE), of_kind(KIND_TRADE)])
    both["ts_recv"] = np.arange(1, len(both) + 1)
    inverse = {"Y": strand.Inverse(100), "Z": strand.Inverse(1)}
    for handler in (strand.vwap(), strand.bars("1m"), _never_called):
        result = strand.replay(ArrayFeed(both, ["X", "Y"]), handler, workers=0, strict=True, **cut)
        assert (result.seen.quotes, result.seen.trades) == (result.ticks, 0)
    result = strand.replay(ArrayFeed(both, ["X", "Y"]), strand.vwap(contracts=inverse), workers=0, **cut)
    assert kinds(result) == {}
    whole = strand.replay(ArrayFeed(both, ["X", "Y"]), strand.vwap(contracts=inverse), workers=0)
    assert kinds(whole) == {"unused contracts": 1}


def test_a_table_of_trades_without_prices_or_sizes_is_told_which_column_to_name() -> None:
    arrow = pytest.importorskip("pyarrow")
    columns = {"ts_recv": [1, 2, 3], "symbol": ["A", "B", "B"], "price": [10.5, 11.5, 12.5], "size": [7, 8, 9]}
    whole = arrow.table(columns)
    options = {"constants": {"kind": "trade"}, "time_unit": "ns"}

    def warned(handler: Any, *kept: str) -> list[tuple[str, int, str]]:
        table = whole.select(["ts_recv", "symbol", *kept])
        told = strand.replay(table, handler, feed_options=options).warnings
        return [(one.kind, one.count, one.cure.partition(" (")[0]) for one in told]

    for handler in ("vwap", "bars", "trades", "trade_stats"):
        assert warned(handler, "price", "size") == []
        cure = "name the column of prices by columns={'price': NAME}"
        assert warned(handler, "size") == [("unpriced trades", 3, cure)]
    cure = "name the column of sizes by columns={'size': NAME}"
    assert warned("vwap", "price") == [("unusable ticks", 3, cure)]
    assert warned("bars", "price") == []  # prices are right
    orders = {"symbol": ["B"], "start": [1], "end": [9]}
    (told,) = strand.between(whole.select(["ts_recv", "symbol", "price"]), orders, feed_options=options).warnings
    assert (told.kind, told.count, told.cure.partition(" (")[0]) == ("unusable ticks", 2, cure)


# ---- where they are shown


def test_warnings_are_the_first_lines_of_the_report(damaged: Damaged) -> None:
    told = CliRunner().invoke(cli, ["replay", str(damaged.path), "--handler", "book", "--date", SAMPLE_DATE])
    assert told.exit_code == 0
    lines = told.stdout.splitlines()
    count = damaged.changes
    assert lines[0].startswith(
        f"warning: unknown orders: {count} ({count} of {damaged.symbol}); replay all files of the day"
    )
    assert not lines[1].startswith("warning")
    verbose = CliRunner().invoke(cli, ["replay", str(damaged.path), "--handler", "book", "--date", SAMPLE_DATE, "-v"])
    assert verbose.stdout.count("warning: unknown orders: ") == 1
    sound = CliRunner().invoke(cli, ["replay", str(sample_path()), "--handler", "book", "--date", SAMPLE_DATE])
    assert sound.stdout.splitlines()[-1].endswith("warnings: none")


def test_the_page_has_warnings_below_its_first_line(
    damaged: Damaged, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("matplotlib")
    pytest.importorskip("jinja2")
    from strand.report import html

    monkeypatch.setattr(html, "_figure", lambda *_, **__: "")  # what is looked at stands above them
    path = tmp_path / "page.html"
    strand.replay(damaged.path, "book", feed_options=DAY, workers=1).report(path)
    head = path.read_text().partition("<main>")[0]
    assert '<p class="verdict ill"><strong>All 200,499 ticks handled' in head
    assert "nothing dropped, nothing skipped; 1 warning." in head
    count = damaged.changes
    assert (
        f"<strong>unknown orders: {count}</strong> ({count} of {damaged.symbol}); replay all files of the day" in head
    )
    strand.replay(sample_path(), "book", feed_options=DAY, workers=1).report(path)
    head = path.read_text().partition("<main>")[0]
    assert "nothing skipped; no warnings." in head
    assert "ill" not in head.partition("<body>")[2]


def test_a_notebook_shows_warnings_first(damaged: Damaged) -> None:
    shown = strand.replay(damaged.path, "book", feed_options=DAY, workers=1)._repr_html_()
    count = damaged.changes
    assert f"unknown orders {count} ({count} of {damaged.symbol})" in shown.partition("</tr>")[0]


def test_a_print_tells_how_many_warnings_there_are(damaged: Damaged) -> None:
    assert repr(strand.replay(damaged.path, "book", feed_options=DAY)).endswith(", book, 1 warning>")
    assert repr(strand.replay(sample_path(), "book", feed_options=DAY)).endswith(", book>")


# ---- strict


def test_strict_raises_on_warnings_with_the_whole_result(damaged: Damaged) -> None:
    with pytest.raises(
        StrictError, match=f"strict: unknown orders: {damaged.changes} .*; replay all files of the day"
    ) as caught:
        strand.replay(damaged.path, "book", feed_options=DAY, strict=True)
    partial = caught.value.partial
    assert partial.ticks == 200_499
    assert kinds(partial) == {"unknown orders": damaged.changes}
    assert strand.replay(sample_path(), "book", feed_options=DAY, strict=True).warnings == ()
    with pytest.raises(StrictError, match=r"\(and 1 more: "):
        strand.replay(damaged.path, strand.chain(strand.book(), strand.vwap()), feed_options=DAY, strict=True)
    with pytest.raises(ConfigurationError, match="strict"):
        strand.replay(sample_path(), "book", strict="yes")  # type: ignore[arg-type]


def test_a_fault_of_the_feed_comes_before_strict(damaged: Damaged, tmp_path: Path) -> None:
    cut = tmp_path / "cut.itch50"
    cut.write_bytes(damaged.path.read_bytes()[:-7])
    with pytest.raises(FeedError) as caught:
        strand.replay(cut, "book", feed_options=DAY, strict=True)
    assert caught.value.partial is not None
    assert kinds(caught.value.partial) == {"unknown orders": damaged.changes}


def test_the_command_s_strict_reports_and_ends_with_2(
    damaged: Damaged, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The page's words matter here: to draw its figures takes seconds.
    monkeypatch.setattr(html, "_figure", lambda _result, _kind, description, *_: description)
    page, rows = tmp_path / "page.html", tmp_path / "rows.csv"
    options = ["--handler", "book", "--date", SAMPLE_DATE, "--strict"]
    files = ["--report", str(page), "--out", str(rows)]

    told = run_here("replay", damaged.path, *options, *files)
    assert told.returncode == 2
    assert told.stdout.startswith(f"warning: unknown orders: {damaged.changes}")
    assert f"strand: strict: unknown orders: {damaged.changes} " in told.stderr
    assert "Traceback" not in told.stderr
    assert "Ended early" not in page.read_text()
    assert not rows.exists()
    told = run_here("replay", damaged.path, *options, "--json")
    assert told.returncode == 2
    found = json.loads(told.stdout)
    assert found["error"].startswith("strict: unknown orders")
    assert found["warnings"][0]["count"] == damaged.changes
    assert run_here("replay", sample_path(), *options, *files).returncode == 0
    assert rows.exists()


@pytest.mark.parametrize("fails_at", [2, 6], ids=["ticks wait behind it", "at the last tick"])
def test_ends_that_a_waiting_tick_keeps_from_running_are_warned_of(fails_at: int) -> None:
    ended = []

    class Fails:
        def on_tick(self, tick: Any) -> None:
            if tick.ts_recv == fails_at:
                raise ValueError

        def on_finish(self) -> None:
            ended.append(self)

    ticks = zeros(6)
    ticks["ts_recv"], ticks["instrument_id"] = range(1, 7), [0, 1] * 3
    result = strand.replay(ticks, Fails, workers=1, cores=None, on_error="quarantine")
    waiting = 2 if fails_at == 2 else 0
    assert kinds(result).get("ends left out", 0) == waiting == result.statistics.dropped["abandoned"]
    assert len(ended) == (0 if waiting else 1)
