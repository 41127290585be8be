"""Parquet and Arrow files: what columns become, exactly; what is refused, with row and column; what is not read."""

from __future__ import annotations

import gc
import io
import os
import subprocess
import sys
import threading
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from databento_tables import write_parquet
from parquet_files import T0, arrow, pa, parquet, pq, table
from reading import names_of, read

from strand import UNDEF_PRICE
from strand.errors import ConfigurationError, FeedError, FormatError
from strand.feeds import Feed, Selection
from strand.feeds import open as open_feed
from strand.feeds.formats.parquet.reader import ParquetFeed

pytestmark = pytest.mark.python


def test_common_names_are_recognised_and_what_is_missing_is_undefined(tmp_path: Path) -> None:
    feed = open_feed(parquet(tmp_path, table(Qty=pa.array(range(10)), other=pa.array(["x"] * 10))))
    assert isinstance(feed, Feed)
    assert isinstance(feed, ParquetFeed)
    ticks, error = read(feed)
    assert error is None
    assert feed.count() == len(ticks) == 10
    assert feed.info.details["columns"] == {
        "ts_event": "timestamp", "symbol": "symbol", "price": "price", "size": "Qty"
    }  # fmt: skip
    assert names_of(feed, ticks) == list("ABABABABAB")
    assert ticks["ts_recv"].tolist() == ticks["ts_event"].tolist() == [T0 + i for i in range(10)]
    assert ticks["price"].tolist() == [1_250_000_000] * 10
    assert ticks["size"].tolist() == list(range(10))
    assert ticks["sequence"].tolist() == list(range(1, 11))
    assert set(ticks["action"].tolist()) == set(ticks["side"].tolist()) == {b"N"}
    assert not ticks["order_id"].any()
    assert not ticks["kind"].any()


@pytest.mark.parametrize(
    ("column", "values", "words"),
    [
        ("price", pa.array([1.5, 0.1 + 0.2, 1.5]), "0.30000000000000004"),
        ("price", pa.array([1.5, float("inf"), 1.5]), "inf"),
        ("price", pa.array([1.5, 1e30, 1.5]), "1e"),
        ("price", pa.array([1.5, None, 1.5]), "null"),
        ("price", pa.array([1.5, float("nan"), 1.5]), "null"),
        ("price", pa.array([1, 1 << 62, 1]), "4611686018427387904"),
        ("price", pa.array([Decimal("1.0"), Decimal("1.0000000001"), Decimal("1")]), "1.0000000001"),
        ("size", pa.array([1, -1, 1]), "-1"),
        ("size", pa.array([1, 1 << 63, 1], pa.uint64()), "9223372036854775808"),
        ("size", pa.array([1, 0.5, 1]), "0.5"),
        ("timestamp", pa.array([T0, -1, T0], pa.timestamp("ns")), "1969"),
        ("timestamp", pa.array([T0, None, T0], pa.timestamp("ns")), "null"),
        ("symbol", pa.array(["A", None, "B"]), "null"),
        ("side", pa.array(["B", "up", "S"]), "up"),
    ],
)
def test_a_row_that_is_no_tick_is_named_with_its_column_and_can_be_passed_over(
    tmp_path: Path, column: str, values: Any, words: str
) -> None:
    path = parquet(tmp_path, table(3, **{column: values}))
    options: dict[str, Any] = {"price_unit": "1e-8"} if column == "price" and values.type == pa.int64() else {}
    ticks, error = read(ParquetFeed(path, **options))
    assert len(ticks) == 1
    assert isinstance(error, FormatError)
    assert f"row 2: column {column!r}" in str(error)
    assert words in str(error)
    feed = ParquetFeed(path, on_bad_record="skip", **options)
    ticks, error = read(feed)
    assert error is None
    assert ticks["sequence"].tolist() == [1, 3]
    assert feed.skipped.total == feed.statistics()["skipped_rows"] == 1
    assert feed.skipped.samples[0].line == 2


def test_nulls_may_stand_for_undefined_values(tmp_path: Path) -> None:
    content = table(
        2,
        price=pa.array([None, 1.5]),
        size=pa.array([1, None]),
        side=pa.array(["B", None]),
        action=pa.array([None, "T"]),
    )
    ticks, error = read(ParquetFeed(parquet(tmp_path, content), nulls="undefined"))
    assert error is None
    assert ticks["price"].tolist() == [UNDEF_PRICE, 1_500_000_000]
    assert ticks["size"].tolist() == [1, 0]
    assert ticks["side"].tolist() == [b"B", b"N"]
    assert ticks["action"].tolist() == [b"N", b"T"]
    _, error = read(ParquetFeed(parquet(tmp_path, table(2, symbol=pa.array(["A", None]))), nulls="undefined"))
    assert isinstance(error, FormatError)


def test_the_column_map_says_otherwise_and_quotes_carry_both_sides(tmp_path: Path) -> None:
    content = table(2, price=None, bid_px_00=pa.array([1.0, 2.0]), ask_px_00=pa.array([1.5, None]),
                    bid_sz_00=pa.array([3, 4]), ask_sz_00=pa.array([5, 6]), n=pa.array([7, 8]),
                    when=pa.array([7, 8], pa.timestamp("ns")))  # fmt: skip
    path = parquet(tmp_path, content)
    ticks, error = read(ParquetFeed(path, columns={"ts_recv": "when"}, nulls="undefined"))
    assert error is None
    assert ticks["ts_recv"].tolist() == [7, 8]
    assert ticks["ts_event"].tolist() == [T0, T0 + 1]
    assert ticks["price"].tolist() == [10**9, 2 * 10**9]
    assert ticks["order_id"].tolist() == [1_500_000_000, UNDEF_PRICE]
    assert (ticks["size"].tolist(), ticks["ref_id"].tolist()) == ([3, 4], [5, 6])
    assert set(ticks["kind"].tolist()) == {3}
    ticks, _ = read(
        ParquetFeed(path, columns={"price": None, "ask_price": None, "size": "n"}, constants={"kind": 2, "side": b"B"})
    )
    assert ticks["price"].tolist() == [UNDEF_PRICE] * 2
    assert (ticks["size"].tolist(), ticks["kind"].tolist(), ticks["side"].tolist()) == ([7, 8], [2, 2], [b"B", b"B"])


def test_a_file_without_symbols_needs_one_and_numbers_become_names(tmp_path: Path) -> None:
    path = parquet(tmp_path, table(2, symbol=None))
    with pytest.raises(FormatError, match="symbol="):
        ParquetFeed(path)
    feed = ParquetFeed(path, symbol="X")
    assert names_of(feed, read(feed)[0]) == ["X", "X"]
    assert feed.max_symbols == 1
    feed = ParquetFeed(parquet(tmp_path, table(3, symbol=None, instrument_id=pa.array([9, 7, 9]))))
    assert names_of(feed, read(feed)[0]) == ["id:9", "id:7", "id:9"]


def test_more_symbols_than_there_is_room_for_are_an_error(tmp_path: Path) -> None:
    path = parquet(tmp_path, table(10, symbol=pa.array(list("ABCDEFGHIJ"))))
    _, error = read(ParquetFeed(path, max_symbols=3))
    assert isinstance(error, FormatError)
    assert "max_symbols" in str(error)


def readers() -> list[str]:
    return sorted(t.name for t in threading.enumerate() if t.name.startswith(("strand read", "strand make")))


def with_cores(monkeypatch: pytest.MonkeyPatch, cores: int) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(cores)))


@pytest.mark.parametrize(
    ("cores", "name", "threads"),
    [
        (2, "a.parquet", ["strand make a.parquet"]),
        (3, "a.parquet", ["strand make a.parquet", "strand read a.parquet"]),
        (2, "a.arrow", ["strand make a.arrow"]),
        (8, "a.arrow", ["strand make a.arrow"]),
    ],
)
def test_where_there_is_more_than_one_core_threads_work_ahead_and_end_with_the_iteration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cores: int, name: str, threads: list[str]
) -> None:
    if name == "a.parquet":
        path = parquet(tmp_path, table(1000), row_group_size=100)
    else:
        path = arrow(tmp_path, table(1000))
    with_cores(monkeypatch, 1)
    expected, _ = read(ParquetFeed(path, batch_ticks=30))
    left = ParquetFeed(path, batch_ticks=30).batches()
    next(left)
    assert readers() == []
    with_cores(monkeypatch, cores)
    feed = ParquetFeed(path, batch_ticks=30)
    np.testing.assert_array_equal(read(feed)[0], expected)
    assert readers() == []
    for end in (lambda batches: batches.close(), lambda batches: gc.collect()):
        batches = feed.batches()
        next(batches)
        assert readers() == threads
        end(batches)
        del batches
        assert readers() == []
    batches = feed.batches()
    next(batches)
    feed.close()
    with pytest.raises(FeedError, match="closed"):
        next(batches)
    assert readers() == []


def test_a_pipe_is_read_by_its_user_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = io.BytesIO()
    with pa.ipc.new_stream(whole, table(1).schema) as writer:
        writer.write_table(table(1000), max_chunksize=100)
    path = tmp_path / "pipe"
    os.mkfifo(path)
    with_cores(monkeypatch, 4)

    thread = threading.Thread(target=path.write_bytes, args=(whole.getvalue(),), daemon=True)
    thread.start()
    seen = 0
    for batch in ParquetFeed(path).batches():
        assert readers() == []
        seen += len(batch)
    thread.join()
    assert seen == 1000


@pytest.mark.parametrize("cores", [1, 2, 4])
def test_what_is_made_ahead_is_neither_counted_nor_named_yet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cores: int
) -> None:
    symbols = pa.array([f"S{i // 10}" for i in range(100)])
    path = parquet(tmp_path, table(100, symbol=symbols, price=pa.array([None, *[1.5] * 9] * 10)), row_group_size=20)
    with_cores(monkeypatch, cores)
    feed = ParquetFeed(path, batch_ticks=10, on_bad_record="skip", select=Selection(symbols=("S[!3]",)))
    batches, names = feed.batches(), []
    for i in [0, 1, 2, 4, 5, 6, 7, 8, 9]:
        batch = next(batches)
        names = [f"S{k}" for k in range(i + 1)]
        assert list(feed.symbols) == names
        assert [feed.symbols[key] for key in set(batch["instrument_id"].tolist())] == [f"S{i}"]
        passed = i + 1 - (i > 3)
        assert feed.statistics() == {
            "rows": 10 * (i + 1),
            "ticks": 9 * passed,
            "not_selected": 10 * (i > 3),
            "skipped_rows": passed,
            "rows_rounded": 0,
            "sequences_left_out": 0,
            "row_groups_passed_over": 0,
            "rolled_instruments": 0,
            "mixed_quotes": 0,
        }
        assert feed.skipped.counts == {"bad row": passed}
    assert list(batches) == []
    assert [sample.line for sample in feed.skipped.samples] == [1, 11, 21, 41, 51, 61, 71, 81]
    again = feed.batches()
    next(again)
    assert feed.statistics()["rows"] == 10
    assert list(feed.symbols) == names


@pytest.mark.parametrize("cores", [1, 2, 3])
def test_a_fault_in_the_midst_comes_behind_the_rows_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cores: int
) -> None:
    path = parquet(tmp_path, table(300), row_group_size=100, compression="gzip")
    column = pq.ParquetFile(path).metadata.row_group(1).column(2)
    whole = bytearray(path.read_bytes())
    at = column.dictionary_page_offset or column.data_page_offset
    whole[at : at + column.total_compressed_size] = bytes(column.total_compressed_size)
    path.write_bytes(whole)
    with_cores(monkeypatch, cores)
    feed = ParquetFeed(path, batch_ticks=30)
    ticks, error = read(feed)
    assert ticks["sequence"].tolist() == list(range(1, 101))
    assert isinstance(error, FormatError)
    assert "row group 1 cannot be read" in str(error)
    assert feed.statistics()["rows"] == 100
    assert readers() == []


def test_reading_does_not_import_pandas(tmp_path: Path) -> None:
    path = parquet(tmp_path, table(action=pa.array(["T"] * 9 + [None]), size=pa.array([None] + [1] * 9)))
    code = (
        "import sys; from strand.feeds import Selection; from strand.feeds.formats.parquet.reader import ParquetFeed\n"
        f"feed = ParquetFeed({str(path)!r}, nulls='undefined', select=Selection(('A',)))\n"
        "assert sum(map(len, feed.batches())) == 5\n"
        "assert 'pandas' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_receive_time_may_be_a_constant(tmp_path: Path) -> None:
    content = table(10)
    path = parquet(tmp_path, content, row_group_size=2)
    plain, _ = read(ParquetFeed(path))
    for selects, count in ((Selection(), 10), (Selection(start_ns=5, end_ns=6), 10), (Selection(start_ns=6), 0)):
        ticks, error = read(ParquetFeed(path, constants={"ts_recv": 5}, time_unit="ns", select=selects))
        assert error is None
        assert ticks["ts_recv"].tolist() == [5] * count
        assert ticks["ts_event"].tolist() == plain["ts_event"].tolist()[:count]
    ticks, error = read(ParquetFeed(path, constants={"ts_recv": 5}, time_unit="ns", columns={"ts_event": None}))
    assert error is None
    assert ticks["ts_event"].tolist() == [5] * 10


def test_columns_that_differ_by_case_alone_have_to_be_chosen(tmp_path: Path) -> None:
    content = table(3)
    content = content.append_column("PRICE", pa.array([7.0, 8.0, 9.0]))
    path = parquet(tmp_path, content)
    with pytest.raises(ConfigurationError, match=r"columns.price: say which one it is, 'price' or 'PRICE'"):
        ParquetFeed(path)
    ticks, error = read(ParquetFeed(path, columns={"price": "PRICE"}))
    assert error is None
    assert ticks["price"].tolist() == [7 * 10**9, 8 * 10**9, 9 * 10**9]
    path = parquet(
        tmp_path, table(3).append_column("Note", pa.array([1, 2, 3])).append_column("note", pa.array([1, 2, 3]))
    )
    assert read(ParquetFeed(path))[1] is None


def test_a_constant_where_an_ask_goes_is_refused(tmp_path: Path) -> None:
    quotes = {"price": None, "bid": pa.array([1.0, 2.0]), "ask": pa.array([1.5, 2.5]), "bid_size": pa.array([1, 2])}
    path = parquet(tmp_path, table(2, **quotes, ask_size=pa.array([3, 4])))
    for field, other in (("order_id", "ask_price"), ("ref_id", "ask_size")):
        with pytest.raises(ConfigurationError, match=f"constants: {field} shares its place in a tick with {other}"):
            ParquetFeed(path, constants={field: 7})
        ticks, error = read(ParquetFeed(path, constants={field: 7}, columns={other: None}))
        assert error is None
        assert ticks[field].tolist() == [7, 7]


@pytest.mark.parametrize("kind", [float, Decimal, int])
def test_a_scaled_ask_size_may_be_larger_than_a_bid_size(tmp_path: Path, kind: Any) -> None:
    sizes = [kind(50), kind(4)]
    quotes = {"price": None, "bid": pa.array([1.0, 2.0]), "ask": pa.array([1.5, 2.5]), "bid_size": pa.array([1, 2])}
    path = parquet(tmp_path, table(2, **quotes, ask_size=pa.array(sizes)))
    ticks, error = read(ParquetFeed(path, size_unit="1e-8"))
    assert error is None
    assert ticks["ref_id"].tolist() == [5_000_000_000, 400_000_000]
    assert ticks["size"].tolist() == [100_000_000, 200_000_000]


@pytest.mark.parametrize("dictionary", [True, False])
def test_text_that_is_not_utf8_is_its_own_rows_matter(tmp_path: Path, dictionary: bool) -> None:
    words = [b"add"] * 300
    words[250] = b"\xff\xfe"
    binary = pa.array(words, pa.binary())
    actions = pa.Array.from_buffers(pa.string(), 300, binary.buffers())
    symbols = ["A"] * 250 + ["Z"] + ["A"] * 49
    path = parquet(tmp_path, table(300, action=actions, symbol=pa.array(symbols)), use_dictionary=dictionary)
    ticks, error = read(ParquetFeed(path, batch_ticks=100))
    assert len(ticks) == 200
    assert "rows from 201: text that is not UTF-8" in str(error)
    ticks, error = read(ParquetFeed(path, batch_ticks=100, select=Selection(symbols=["A"])))
    assert error is None
    assert len(ticks) == 299


def test_scaled_sizes_that_a_tick_cannot_hold_are_bad_rows(tmp_path: Path) -> None:
    for size, why in (
        (5e18, "units of 1e-3"),
        (-1.5, "-1.5 is below 0"),
        (1.00005, "give size_unit='0.00001' (--feed size_unit=0.00001): 1.00005 is not a whole number of units of"),
    ):
        path = parquet(tmp_path, table(3, size=pa.array([1.5, size, 2.0])))
        error = read(ParquetFeed(path, size_unit="0.001"))[1]
        assert "row 2: column 'size'" in str(error)
        assert why in str(error)
        kept = read(ParquetFeed(path, size_unit="0.001", on_bad_record="skip"))[0]
        assert kept["size"].tolist() == [1500, 2000]


def test_the_first_bad_row_names_its_first_column_however_columns_are_read(tmp_path: Path) -> None:
    # Price and size are C's to read, the side is not; each is wrong in a row of its own, and two in one.
    columns = {
        "price": pa.array([1.0, 1e30, 1.0, 1e30]),
        "size": pa.array([1, 1, -1, -1]),
        "side": pa.array(["buy", "sell", "buy", "sideways"]),
    }
    path = parquet(tmp_path, table(4, **columns))
    assert "row 2: column 'price'" in str(read(ParquetFeed(path))[1])
    feed = ParquetFeed(path, on_bad_record="skip")
    assert len(read(feed)[0]) == 1
    assert feed.statistics()["skipped_rows"] == 3
    both = parquet(tmp_path, table(4, **columns | {"price": pa.array([1.0, 1.0, 1e30, 1.0])}))
    assert "row 3: column 'price'" in str(read(ParquetFeed(both))[1])


@pytest.mark.parametrize("fixed", [False, True])
def test_a_size_unit_holds_for_both_sides_of_databento_quotes(tmp_path: Path, fixed: bool) -> None:
    numbers = {"rtype": [0xC3], "publisher_id": [1], "instrument_id": [7], "flags": [128], "sequence": [5]}
    sides = {"bid_px_00": [10**9], "ask_px_00": [2 * 10**9], "bid_sz_00": [3], "ask_sz_00": [4]}
    table = {"ts_recv": [11], "ts_event": [10], **numbers, **sides, "symbol": ["A"]}
    write_parquet(tmp_path / "a.parquet", table, fixed=fixed, pretty=True)
    (tick,) = ParquetFeed(tmp_path / "a.parquet", size_unit="0.01").to_numpy()
    assert (int(tick["size"]), int(tick["ref_id"])) == (300, 400)
    assert (int(tick["price"]), int(tick["order_id"])) == (10**9, 2 * 10**9)
