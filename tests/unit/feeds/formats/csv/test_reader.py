"""CSV files that are damaged, odd, large or only partly wanted."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from csv_files import write_made_up
from csv_tables import GOOD, HEADER, lines, write
from hypothesis import given, settings
from hypothesis import strategies as st
from reading import read

import strand
import strand.feeds
from strand.command.cli import cli
from strand.errors import ConfigurationError, FormatError, UnknownFormatError
from strand.feeds.base import Selection
from strand.feeds.formats.csv import reader
from strand.feeds.formats.csv.reader import CsvFeed, recognise
from strand.feeds.formats.itch import ItchFeed

pytestmark = pytest.mark.python

pytest.importorskip("pyarrow")

START = "deribit,BTC,1700000000000000,1700000000000001,1,"


def on_cores(patch: pytest.MonkeyPatch, count: int, chunk_bytes: int) -> None:
    """As if so many cores were there, with chunks of so many bytes."""
    patch.setattr(os, "sched_getaffinity", lambda _: set(range(count)))
    patch.setattr(reader, "_CHUNK_BYTES", chunk_bytes)


@pytest.mark.cells(1)
@pytest.mark.parametrize("at", [0, 7, 2_999, 6_000])
@pytest.mark.parametrize(
    ("bad", "said", "reason"),
    [
        (START + "buy,12x,2", "column price: not of its form: '12x'", "not of its form"),
        (
            START + "buy,,2",
            """column price: empty; give empty = "none" if an empty field stands for no value: ''""",
            "empty",
        ),
        (START + "buy,1.0000000001,2", "column price: too precise", "too precise"),
        (START + "buy,1e30,2", "column price: out of range", "out of range"),
        (START + "buy,1,-2", ": column amount: out of range", "out of range"),
        (
            START + "buy,1,92233720369",
            ": give a larger size_unit: column amount: out of range: '92233720369'",
            "out of range",
        ),
        (START + "bought,1,2", "column side: unknown value", "unknown value"),
        ("deribit,,1700000000000000,1700000000000001,1,buy,1,2", "column symbol: empty", "empty"),
        ("deribit,BTC,1700000000000000,soon,1,buy,1,2", "column local_timestamp: not of its form", "not of its form"),
        ("deribit,BTC,1700000000000000", "3 fields where there are 8 columns", "number of fields"),
        (GOOD + ",9,9", "10 fields where there are 8 columns", "number of fields"),
        ('"' + START + "buy,1,2", "a quoted field does not end in its line", "open quote"),
        ('deribit,"BTC,1700000000000000,1,1,buy,1,2', "a quoted field does not end in its line", "open quote"),
        ("\x00\x01\x02", "1 fields where there are 8 columns", "number of fields"),
    ],
)
def test_a_bad_line_is_named_after_all_before_it_or_skipped(
    at: int, bad: str, said: str, reason: str, *, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "_CHUNK_BYTES", 100_000)  # so that there are several
    rows = lines(6_000)
    rows.insert(at, bad)
    path = write(tmp_path / "trades.csv", rows)
    feed = CsvFeed(path)
    ticks, error = read(feed)
    assert isinstance(error, FormatError)
    assert said in str(error)
    assert (error.line, error.path) == (at + 2, path)
    assert np.array_equal(ticks["ref_id"], np.arange(at))
    assert feed.statistics()["ticks"] == at
    skipping = CsvFeed(path, on_bad_record="skip")
    ticks, error = read(skipping)
    assert error is None
    assert np.array_equal(ticks["ref_id"], np.arange(6_000))
    assert skipping.skipped.counts == {reason: 1}
    assert [sample.line for sample in skipping.skipped.samples] == [at + 2]
    assert np.array_equal(ticks["sequence"], np.r_[1 : at + 1, at + 2 : 6_002])


def test_the_first_of_several_bad_lines_is_the_one_that_is_raised(tmp_path: Path) -> None:
    rows = lines(10)
    rows[3], rows[5], rows[7] = "too,few", rows[5].replace("buy", "x"), "even,fewer"
    path = write(tmp_path / "trades.csv", rows)
    ticks, error = read(CsvFeed(path))
    assert error is not None
    assert (error.line, len(ticks)) == (5, 3)
    skipping = CsvFeed(path, on_bad_record="skip")
    ticks, _ = read(skipping)
    assert ticks["ref_id"].tolist() == [0, 1, 2, 4, 6, 8, 9]
    assert skipping.skipped.counts == {"number of fields": 2, "unknown value": 1}


def test_a_quoted_line_end_does_not_swallow_the_next_line(tmp_path: Path) -> None:
    rows = lines(4)
    # Two lines that Arrow would take for one row of eight fields, with the second one's inside the first field.
    rows[1] = 'deribit,BTC,1700000000000000,1700000000000001,"1'
    rows[2] = '2",buy,1.5,2'
    path = write(tmp_path / "trades.csv", rows)
    ticks, error = read(CsvFeed(path))
    assert error is not None
    assert (error.line, len(ticks)) == (3, 1)
    skipping = CsvFeed(path, on_bad_record="skip")
    ticks, _ = read(skipping)
    assert ticks["ref_id"].tolist() == [0, 3]
    assert skipping.skipped.total == 2


def test_a_last_line_that_is_cut_off_is_told_apart_from_a_bad_one(tmp_path: Path) -> None:
    path = write(tmp_path / "trades.csv", lines(20))
    whole = path.read_bytes()
    path.write_bytes(whole[:-30])
    ticks, error = read(CsvFeed(path))
    assert isinstance(error, FormatError)
    assert (len(ticks), error.line) == (19, 21)
    assert "get the whole file, whose last line may be cut off; on_bad_record='skip' leaves that line out" in str(error)
    with CsvFeed(path, on_bad_record="skip") as feed:
        assert sum(len(batch) for batch in feed.batches()) == 19
        assert feed.skipped.total == 1
    path.write_bytes(whole[:-30] + b"\n")
    _, error = read(CsvFeed(path))
    assert "mend it or its mapping" in str(error)


@settings(max_examples=60)
@given(st.binary(max_size=300))
def test_any_bytes_after_the_header_are_ticks_or_skipped(tmp_path_factory: pytest.TempPathFactory, tail: bytes) -> None:
    path = tmp_path_factory.mktemp("any") / "trades.csv"
    path.write_bytes((HEADER + "\n" + GOOD.format(1, 1) + "\n").encode() + tail)
    skipping = CsvFeed(path, on_bad_record="skip")
    ticks, error = read(skipping)
    assert error is None
    assert len(ticks) >= 1 or tail
    statistics = skipping.statistics()
    assert statistics["records"] == statistics["ticks"] + skipping.skipped.total


def test_a_line_of_a_megabyte_can_be_skipped(tmp_path: Path) -> None:
    path = write(tmp_path / "trades.csv", [*lines(5), "x" * 3_000_000, *lines(5), "y" * 100_000])
    feed = CsvFeed(path, on_bad_record="skip")
    ticks, error = read(feed)
    assert error is None
    assert ticks["ref_id"].tolist() == [0, 1, 2, 3, 4] * 2
    assert feed.skipped.counts == {"line too long": 1, "number of fields": 1}
    assert [sample.line for sample in feed.skipped.samples] == [7, 13]


def test_a_selection_without_the_files_one_symbol_gives_nothing(tmp_path: Path) -> None:
    path = write_made_up(tmp_path, "binance-trades", 30)
    ticks, error = read(CsvFeed(path, select=Selection(("ETH*",))))
    assert (len(ticks), error) == (0, None)


def test_header_and_nothing_else_is_an_empty_feed(tmp_path: Path) -> None:
    for text in (HEADER, HEADER + "\n", HEADER + "\r\n\r\n"):
        (tmp_path / "trades.csv").write_bytes(text.encode())
        ticks, error = read(CsvFeed(tmp_path / "trades.csv"))
        assert (len(ticks), error) == (0, None)


@pytest.mark.parametrize(
    "data", [b"\n\n\n", b"a,b,c\n1,2,3\n", b"\x00" * 100, b"hello", b"\xff\xfe\x00\x01\n", b",,,\n"]
)
def test_what_no_profile_knows_is_an_error_that_says_what_to_do(data: bytes, tmp_path: Path) -> None:
    assert not recognise(data)
    (tmp_path / "what.csv").write_bytes(data)
    with pytest.raises(UnknownFormatError, match="profile="):
        CsvFeed(tmp_path / "what.csv")


def test_other_formats_are_not_taken_for_csv(shared_data: Path) -> None:
    for path in [*(shared_data / "itch50").iterdir(), *(shared_data / "dbn").iterdir()]:
        assert not recognise(path.read_bytes()[:4096]), path
    assert isinstance(strand.feeds.open(next((shared_data / "itch50").iterdir()), date="2020-01-02"), ItchFeed)


def test_the_command_takes_a_profile_and_shows_what_was_skipped(tmp_path: Path) -> None:
    path = write(tmp_path / "trades.csv", [*lines(10), "bad"])
    run = CliRunner().invoke(
        cli, ["info", str(path), "--profile", "tardis-trades", "--on-bad-record", "skip", "--json"]
    )
    assert run.exit_code == 0, run.output
    shown = json.loads(run.output)
    assert (shown["ticks"], shown["format"], shown["details"]["profile"]) == (10, "csv", "tardis-trades")
    run = CliRunner().invoke(cli, ["replay", str(path), "--profile", "lobster"])
    assert isinstance(run.exception, FormatError)


@pytest.mark.cells(1)
@pytest.mark.parametrize("ends", ["\n", "\r\n"])
@pytest.mark.parametrize("last", [True, False])
def test_one_core_reads_what_several_do_whatever_the_chunks_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ends: str, last: bool
) -> None:
    rows = [*lines(6), "deribit,BTC", "", 'deribit,BTC,1,2,3,"buy",4,5', *lines(3)]
    path = write(tmp_path / "a.csv", rows, ends=ends, last=last)
    whole = CsvFeed(path, threads=1, on_bad_record="skip")
    expected, error = read(whole)
    assert len(expected) == 10
    assert error is None
    for chunk_bytes in (7, 57, 58, 100, 571):
        for cores in (1, 2, 4):
            on_cores(monkeypatch, cores, chunk_bytes)
            feed = CsvFeed(path, on_bad_record="skip")
            ticks, error = read(feed)
            assert error is None
            assert ticks.tobytes() == expected.tobytes()
            assert feed.skipped == whole.skipped


# ---- ids that rise


def repeated(path: Path, **options: Any) -> int:
    feed = CsvFeed(path, **options)
    read(feed)
    return feed.statistics()["repeated_ids"]


def test_a_run_warns_of_an_archive_of_trades_that_has_each_row_twice(tmp_path: Path) -> None:
    rows = [f"{1446230265 + i},21820.30,1.614,{i},{i},{1662940800166 + i},true" for i in range(4)]
    for name, content, count in (
        ("once", rows, 0),
        ("twice", [row for row in rows for _ in "ab"], 4),
        ("again", rows + rows[1:3], 2),
    ):
        path = tmp_path / name / "BTCUSDT-aggTrades-2022-09.csv"
        path.parent.mkdir()
        path.write_text(
            "agg_trade_id,price,quantity,first_trade_id,last_trade_id,transact_time,is_buyer_maker\n"
            + "\n".join(content)
            + "\n"
        )
        result = strand.replay(path, "vwap")
        kinds = {w.kind: w.count for w in result.warnings}
        assert kinds.get("repeated ids", 0) == count
        assert result.rows["BTCUSDT"]["trades"] == len(content)


def test_ids_rise_within_each_symbol_whatever_the_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(5)
    ids = {"A": 100, "B": 10, "C": 0}
    text, seen, expected = ["s,i,p,t"], {}, 0
    for at in range(3_000):
        symbol = rng.choice("ABC")
        ids[symbol] = max(0, ids[symbol] + rng.choice((1, 1, 1, 2, 7, 0, -3)))
        expected += ids[symbol] <= seen.get(symbol, -1)
        seen[symbol] = max(seen.get(symbol, -1), ids[symbol])
        text.append(f"{symbol},{ids[symbol]},1.5,{1767571200 + at}")
    path = tmp_path / "a.csv"
    path.write_text("\n".join(text) + "\n")
    (tmp_path / "p.toml").write_text(
        'name = "p"\nids_rise = true\n[symbol]\ncolumn = "s"\n[fields]\nref_id = "i"\nprice = "p"\n'
        'ts_recv = { column = "t", unit = "s" }\nkind = { constant = "trade" }\n'
    )
    for chunk_bytes in (1 << 12, 1 << 21):
        monkeypatch.setattr(reader, "_CHUNK_BYTES", chunk_bytes)
        assert repeated(path, profile=tmp_path / "p.toml") == expected > 500


def test_a_profile_without_ids_cannot_say_that_they_rise(tmp_path: Path) -> None:
    (tmp_path / "p.toml").write_text(
        'name = "p"\nids_rise = true\n[symbol]\nconstant = "A"\n[fields]\nprice = "p"\n'
        'ts_recv = { column = "t", unit = "s" }\n'
    )
    (tmp_path / "a.csv").write_text("p,t\n1,1767571200\n")
    with pytest.raises(ConfigurationError, match="ids_rise: is for rows"):
        CsvFeed(tmp_path / "a.csv", profile=tmp_path / "p.toml")
