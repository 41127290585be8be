"""Rows as ticks of one file: counted, and left out where they are not selected."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from csv_files import KINDS, made_up, write_made_up
from csv_reference import LAST, reference, text_of
from csv_tables import GOOD, HEADER, MINE, PROFILE, as_dicts, lines, write
from reading import read

from strand.errors import ConfigurationError, FormatError, UnknownFormatError
from strand.feeds.base import Selection
from strand.feeds.formats.csv.reader import CsvFeed, recognise
from strand.feeds.merge.selected import SelectedFeed

pytestmark = pytest.mark.python


def test_times_that_run_backwards_are_given_as_they_are_and_counted(tmp_path: Path) -> None:
    times = [5, 3, 4, 4, 1]
    rows = [f"deribit,BTC,1,170000000000000{time},1,buy,1,2" for time in times]
    feed = CsvFeed(write(tmp_path / "trades.csv", rows))
    ticks, _ = read(feed)
    assert (ticks["ts_recv"] // 1000 % 10).tolist() == times
    assert feed.statistics()["time_reversals"] == 2


def test_rounded_rows_are_counted_where_they_are_selected(tmp_path: Path) -> None:
    amounts = ("1.0000000000001", "2", "3.1234567849999999999999999999999999999")
    rows = [f"x,{'AB'[at % 2]},{at},{at},{at},buy,1,{amount}" for at, amount in enumerate(amounts)]
    path = write(tmp_path / "trades.csv", [*rows, "x,B,9,9,9,buy,1.00000000001e999999999,1"])
    feed = CsvFeed(path, inexact="round", select=Selection(("A",), end_ns=2000))
    assert (read(feed)[0]["size"].tolist(), feed.statistics()["rows_rounded"]) == ([100_000_000], 1)
    feed = CsvFeed(path, inexact="round")
    ticks, error = read(feed)
    assert ticks["size"].tolist() == [100_000_000, 200_000_000, 312_345_678]
    assert "out of range" in str(error)


# ---- Lines in blocks: their ends, empty and endless ones, and quotes


def test_a_byte_order_mark_mixed_ends_empty_lines_and_no_last_end_change_nothing(tmp_path: Path) -> None:
    rows = lines(6)
    odd = b"\xef\xbb\xbf" + HEADER.encode() + b"\r\n" + rows[0].encode() + b"\n\n" + rows[1].encode() + b"\r\n\r\n"
    odd += "\n".join(rows[2:4]).encode() + b"\r" + "\r\n".join(rows[4:]).encode()
    (tmp_path / "odd.csv").write_bytes(odd)
    feed = CsvFeed(tmp_path / "odd.csv")
    expected, _ = read(CsvFeed(write(tmp_path / "even.csv", rows)))
    ticks, error = read(feed)
    assert error is None
    assert ticks.tobytes() == expected.tobytes()
    assert feed.statistics()["empty_lines"] == 2
    assert recognise(odd)


def test_a_line_after_empty_ones_is_still_named_by_its_place_in_the_file(tmp_path: Path) -> None:
    path = write(tmp_path / "trades.csv", [*lines(2), "", "", GOOD.replace("buy", "no")])
    _, error = read(CsvFeed(path))
    assert error is not None
    assert error.line == 6


def test_quoted_fields_may_hold_commas_and_quotes(tmp_path: Path) -> None:
    rows = [f'"a,""b""","BTC,{at}",1700000000000000,"1700000000000001",{at},"buy","1.5",2' for at in range(3)]
    feed = CsvFeed(write(tmp_path / "trades.csv", rows))
    ticks, error = read(feed)
    assert error is None
    assert ticks["price"].tolist() == [1_500_000_000] * 3
    assert feed.symbols == ["BTC,0", "BTC,1", "BTC,2"]


@pytest.mark.parametrize("quoted", [0, 40_000, 69_999])
def test_quotes_from_some_line_on_change_nothing(quoted: int, tmp_path: Path) -> None:
    rows = lines(70_000)
    plain, error = read(CsvFeed(write(tmp_path / "plain.csv", rows)))
    assert (error, len(plain)) == (None, 70_000)
    rows[quoted] = ",".join(f'"{field}"' for field in rows[quoted].split(","))
    for threads in (1, 3):
        ticks, error = read(CsvFeed(write(tmp_path / "quoted.csv", rows), threads=threads))
        assert error is None
        np.testing.assert_array_equal(ticks, plain)


def test_a_line_of_a_megabyte_is_no_line(tmp_path: Path) -> None:
    path = write(tmp_path / "trades.csv", [*lines(5), "x" * 3_000_000, *lines(5)])
    ticks, error = read(CsvFeed(path))
    assert isinstance(error, FormatError)
    assert "no end within 65536 bytes" in str(error)
    assert error.path == path
    assert str(error).count(str(path)) == 1
    assert len(ticks) == 5


# ---- Which profile a file is for, and where its columns are


def test_a_file_two_profiles_know_names_both_and_the_option(tmp_path: Path) -> None:
    path = tmp_path / "BTC-trades-1.csv"
    path.write_text(
        "exchange,symbol,timestamp,local_timestamp,id,side,price,amount,bid_price,bid_amount,ask_price,ask_amount\n"
    )
    with pytest.raises(UnknownFormatError, match=r"could be tardis-quotes, tardis-trades: .*profile='tardis-quotes'"):
        CsvFeed(path)
    assert CsvFeed(path, profile="tardis-trades").info.details["profile"] == "tardis-trades"


def test_a_column_too_far_to_the_right_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "wide.csv"
    (tmp_path / "mine.toml").write_text(PROFILE.replace('delimiter = ";"', ""))
    path.write_text(",".join([*(f"c{at}" for at in range(260)), "When", "Instrument", "Px", "Lots", "BuySell"]) + "\n")
    with pytest.raises(FormatError, match="'When' is number 261"):
        CsvFeed(path, profile=tmp_path / "mine.toml")


@pytest.mark.parametrize("end", ["", ";"])
def test_lines_without_a_header_may_all_end_with_a_delimiter(tmp_path: Path, end: str) -> None:
    (tmp_path / "mine.toml").write_text(
        'name = "mine"\nheader = false\ndelimiter = ";"\n[[layouts]]\ncolumns = ["t", "p", "q"]\n'
        '[symbol]\nconstant = "A"\n[fields]\nts_event = { column = "t", unit = "ns" }\nprice = "p"\nsize = "q"\n'
    )
    path = tmp_path / "a.csv"
    path.write_text("".join(f"{each}{end}\n" for each in ("1281360730430000000;2.5;3", "1281360859784000000;2.75;4")))
    found = CsvFeed(path, profile=tmp_path / "mine.toml").to_numpy()
    assert found[["ts_event", "price", "size"]].tolist() == [
        (1281360730430000000, 2_500_000_000, 3),
        (1281360859784000000, 2_750_000_000, 4),
    ]


def test_two_columns_of_one_name_are_refused_where_they_are_read(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(PROFILE)
    path = tmp_path / "a.csv"
    for twice in ("Px", "px", " P_x".replace("_", "")):
        path.write_text(MINE.replace("Note", twice))
        with pytest.raises(FormatError, match=f"rename or remove one of the 2 columns 'Px' and '{twice}'") as caught:
            CsvFeed(path, profile=tmp_path / "mine.toml")
        assert caught.value.path == path
        assert caught.value.line == 1
    path.write_text(MINE.replace("Note", "Lots"))
    with pytest.raises(FormatError, match="columns 'Lots' and 'Lots'"):
        CsvFeed(path, profile=tmp_path / "mine.toml")
    # Of columns that nobody reads there may be as many as like.
    path.write_text(
        MINE.replace("Note", "Note;Note")
        .replace("summer time", "summer time;")
        .replace("after", "after;")
        .replace("none", "none;")
    )
    assert len(as_dicts(CsvFeed(path, profile=tmp_path / "mine.toml"))) == 3


def test_a_header_without_a_column_says_which_and_what_is_there(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(PROFILE)
    (tmp_path / "a.csv").write_text(MINE.replace("Lots", "Stück").replace("Px", "P"))
    with pytest.raises(
        FormatError, match=r"lacks 'Px' or 'Price', 'Lots', which mine needs; it has When, .*Stück, BuySell, Note"
    ):
        CsvFeed(tmp_path / "a.csv", profile=tmp_path / "mine.toml")


# ---- Numbers with more decimals than a tick has are rounded where that was asked for, and counted


def test_amounts_finer_than_the_size_unit_are_an_error_or_rounded_and_counted(tmp_path: Path) -> None:
    path = tmp_path / "trades.csv"
    amounts = ("0.5", "5000000", "0", "1.2345", "1.2355", "0.0004")
    write(path, [f"x,B,1700000000000000,1700000000000000,1,buy,1,{amount}" for amount in amounts])
    ticks, error = read(CsvFeed(path, size_unit="0.001"))
    assert ticks["size"].tolist() == [500, 5_000_000_000, 0]
    assert "inexact='round'" in str(error)
    feed = CsvFeed(path, size_unit="0.001", inexact="round")
    ticks, error = read(feed)
    assert ticks["size"].tolist() == [500, 5_000_000_000, 0, 1234, 1236], "ties go to even"
    assert "rounds to 0" in str(error), "a size of 0 would say something else"
    assert set(ticks["flags"].tolist()) == {0}
    assert feed.statistics()["rows_rounded"] == 3
    assert (feed.info.size_unit, CsvFeed(path).info.size_unit) == (0.001, 1e-8)
    with pytest.raises(ConfigurationError, match="size_unit"):
        CsvFeed(path, size_unit="0.3")


TAILS = (  # the first lines are those that the profile is recognised by
    *(f"34200.00000000{at},1,{at},18,5853300,1" for at in range(1, 6)),
    "35821.088778456004,1,2,18,5853300.0000500001,1",
    "35821.0887784565,1,3,18,5853300.000005,-1",  # ties: times to the even ns, prices to the even 1e-9
    "35821.0887784575,1,4,18,1e-5,-1",
    "35821.1,1,5,18.4999,5853300,1",
)


@pytest.mark.parametrize("threads", [1, 3])
def test_numbers_with_more_decimals_than_a_tick_has_are_rounded_on_request(threads: int, tmp_path: Path) -> None:
    path = tmp_path / "AAPL_2012-06-21_34200000_57600000_message_1.csv"
    path.write_text("\n".join(TAILS) + "\n")
    feed = CsvFeed(path, inexact="round", threads=threads)
    ticks, error = read(feed)
    assert error is None
    midnight = 1340251200 * 10**9  # of 2012-06-21 in New York
    cells = [line.split(",") for line in TAILS]
    assert ticks["ts_event"].tolist() == [midnight + round(Fraction(row[0]) * 10**9) for row in cells]
    assert ticks["price"].tolist() == [round(Fraction(row[4]) * 10**5) for row in cells]
    assert ticks["size"].tolist() == [18] * 9
    assert (feed.statistics()["rows_rounded"], feed.statistics()["ticks"]) == (4, 9)
    assert feed.skipped.counts == {}
    ticks, error = read(CsvFeed(path))
    assert len(ticks) == 5
    assert "inexact='round'" in str(error)
    with pytest.raises(ConfigurationError, match="inexact: 'near' is not one of raise, round"):
        CsvFeed(path, inexact="near")  # type: ignore[arg-type]


# ---- Rows that become several ticks each: levels of a book, and what a row with a fault gives


def test_levels_bounds_how_much_of_a_book_becomes_ticks(tmp_path: Path) -> None:
    path = write_made_up(tmp_path, "tardis-snapshots", 100)
    expected = reference(KINDS["tardis-snapshots"], path.read_bytes())
    for levels in (1, 3, 64):
        few = [tick | {"flags": 0} for tick in expected if int(str(tick["depth"])) < levels]
        for tick, after in zip(few, [*few[1:], None], strict=True):
            # The last one of a row ends its event.
            tick["flags"] = 0 if after is not None and after["sequence"] == tick["sequence"] else LAST
        assert as_dicts(CsvFeed(path, levels=levels)) == few
    with pytest.raises(ConfigurationError, match="levels: 0 is not a whole number from 1 to 64"):
        CsvFeed(path, levels=0)


def test_float_tails_in_a_part_are_rounded_on_request_and_counted_by_row(tmp_path: Path) -> None:
    lines = made_up("tardis-snapshots", 30)
    lines[3][4:8] = ["1854.980000000000018", "1", "1854.970000000000018", "1"]
    path = write_made_up(tmp_path, "tardis-snapshots", lines)
    with pytest.raises(FormatError, match="inexact='round'"):
        as_dicts(CsvFeed(path))
    feed = CsvFeed(path, inexact="round")
    tick = next(tick for tick in as_dicts(feed) if tick["sequence"] == 4)
    assert (tick["order_id"], tick["price"]) == (1_854_980_000_000, 1_854_970_000_000)
    assert feed.statistics()["rows_rounded"] == 1


# ---- The column of symbols: how many there may be


def test_more_symbols_than_there_may_be_are_an_error_that_names_the_option(tmp_path: Path) -> None:
    rows = [f"x,S{at},1700000000000000,1700000000000000,1,buy,1,2" for at in range(20)]
    feed = CsvFeed(write(tmp_path / "trades.csv", rows), max_symbols=10)
    assert feed.max_symbols == 10
    ticks, error = read(feed)
    assert (len(ticks), len(feed.symbols)) == (10, 10)
    assert "max_symbols is 10" in str(error)


# ----


def test_whole_prices_of_databento_are_units_of_1e_9_and_a_file_has_one_way_throughout(tmp_path: Path) -> None:
    def of(*prices: str) -> CsvFeed:
        lines = made_up("databento-mbo", 2)
        at = KINDS["databento-mbo"].columns.index("price")
        lines[0][at], lines[1][at] = prices
        return CsvFeed(write_made_up(tmp_path, "databento-mbo", lines))

    for price in ("1.5", "1500000000"):
        assert [tick["price"] for tick in as_dicts(of(price, price))] == [1_500_000_000] * 2
    for prices, why in ((("1500000000", "1.5"), "too precise"), (("1.5", "15000000000"), "out of range")):
        with pytest.raises(FormatError, match=f"column price: {why}"):
            as_dicts(of(*prices))


def test_values_agree_with_the_reference_over_block_boundaries(tmp_path: Path) -> None:
    path = write_made_up(tmp_path, "tardis-trades", 40_000)
    assert path.stat().st_size > 2 << 20
    ticks, _ = read(CsvFeed(path))
    expected = reference(KINDS["tardis-trades"], path.read_bytes())
    for name in ("ts_event", "ts_recv", "order_id", "price", "size", "sequence", "ref_id", "flags"):
        assert ticks[name].tolist() == [tick[name] for tick in expected], name


# ---- Columns of times: days, and stamps with and without a zone


def test_the_day_is_an_option_or_in_the_files_name_or_its_folders(tmp_path: Path) -> None:
    kind = KINDS["szse-orders"]
    data = text_of(kind, made_up("szse-orders", 5))
    (tmp_path / "20231205").mkdir()
    for path, options in (
        (tmp_path / "a_2023-12-05.csv", {}),
        (tmp_path / "20231205" / "a.csv", {}),
        (tmp_path / "b.csv", {"date": "2023-12-05"}),
    ):
        path.write_bytes(data)
        assert as_dicts(CsvFeed(path, **options)) == reference(kind, data)
    first = as_dicts(CsvFeed(path))[0]["ts_event"]
    assert first < 86_400_000_000_000  # counted from 1970


def zoned(tmp_path: Path, stamps: list[str], notes: Sequence[str] = ("", ""), profile: str = PROFILE) -> CsvFeed:
    (tmp_path / "mine.toml").write_text(profile)
    rows = [f"{stamp};FDAX;100;1;K;{note}" for stamp, note in zip(stamps, notes, strict=False)]
    (tmp_path / "a.csv").write_text("\n".join(["When;Instrument;Px;Lots;BuySell;Note", *rows, ""]))
    return CsvFeed(tmp_path / "a.csv", profile=tmp_path / "mine.toml")


def test_a_stamp_that_says_its_zone_is_not_in_the_profiles(tmp_path: Path) -> None:
    nine = 1711699200 * 10**9
    for stamps in (["2024-03-29T08:00:00Z"], ["2024-03-29 10:00:00+02:00", "2024-03-29T03:00:00-0500"]):
        assert [row["ts_event"] for row in as_dicts(zoned(tmp_path, stamps))] == [nine] * len(stamps)
    assert [row["ts_event"] for row in as_dicts(zoned(tmp_path, ["2024-03-29 09:00:00"]))] == [nine]


@pytest.mark.parametrize(
    "stamps", [["2024-03-29T08:00:00Z", "2024-03-29 08:00:01"], ["2024-03-29 08:00:01", "2024-03-29T08:00:00Z"]]
)
def test_stamps_with_and_without_a_zone_do_not_mix(stamps: list[str], tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="column When: not of its form") as caught:
        as_dicts(zoned(tmp_path, stamps))
    assert caught.value.line == 3


@pytest.mark.parametrize("later", ["2024-03-29 09:00:00", "2024-03-29T08:00:00Z", "2024-03-29 10:00:00+02:00"])
@pytest.mark.parametrize("first", ["", "  "])
def test_an_empty_first_stamp_does_not_say_whether_the_others_have_a_zone(
    later: str, first: str, tmp_path: Path
) -> None:
    stamped = '[fields.ts_recv]\ncolumn = "Note"\nunit = "stamp"\nempty = "none"\n[fields.price]'
    profile = PROFILE.replace("[fields.price]", stamped)
    nine = 1711699200 * 10**9
    stamps = [f"2024-03-29 09:00:0{i}" for i in range(3)]
    found = as_dicts(zoned(tmp_path, stamps, [first, later, first], profile))
    assert [row["ts_recv"] for row in found] == [nine, nine, nine + 2 * 10**9]


@pytest.mark.parametrize(
    ("price", "cents"), [("1234", 1234), ("-1234", -1234), ("+1234", 1234), ("1,234", 1234), ("1234.0", 123400)]
)
def test_of_two_units_the_first_number_chooses_with_its_sign_and_its_marks(
    tmp_path: Path, price: str, cents: int
) -> None:
    profile = PROFILE.replace('unit = "0.01"', 'unit = [1, "0.01"]').replace(
        'delimiter = ";"', 'delimiter = ";"\nthousands = ","'
    )
    rows = [f"2024-04-02 09:00:00;FDAX;{price};1;K;", "2024-04-02 09:00:01;FDAX;77;1;K;"]
    path = tmp_path / "a.csv"
    path.write_text("\n".join([MINE.splitlines()[0], *rows, ""]))
    (tmp_path / "mine.toml").write_text(profile)
    ticks, error = read(CsvFeed(path, profile=tmp_path / "mine.toml"))
    assert error is None
    assert ticks["price"].tolist() == [cents * 10**7, 77 * (10**9 if "." in price else 10**7)]


def test_a_row_without_its_time_of_receipt_is_selected_by_that_of_its_event(tmp_path: Path) -> None:
    """The tick has the time of its event for both, and the selection looked at an empty one, which is 0."""
    (tmp_path / "own.toml").write_text(
        '[symbol]\nconstant = "X"\n[fields]\nts_event = { column = "e", unit = "ns" }\n'
        'ts_recv = { column = "r", unit = "ns", empty = "none" }\nprice = "p"\n'
    )
    path = tmp_path / "a.csv"
    path.write_text("e,r,p\n100,110,1\n200,,2\n300,310,3\n400,,4\n")
    for select in (Selection((), 200, None), Selection((), None, 300), Selection((), 150, 350)):
        ticks, error = read(CsvFeed(path, profile=tmp_path / "own.toml", select=select))
        expected, _ = read(SelectedFeed(CsvFeed(path, profile=tmp_path / "own.toml"), select))
        assert error is None
        assert ticks.tobytes() == expected.tobytes()
        assert 0 < len(ticks) < 4


# ---- Rows of several kinds in one file, and lines that are no data

MIXED = """name = "mixed"
end = "Downloaded from"
[symbol]
column = "#RIC"
[fields]
ts_recv = { column = "Date-Time", unit = "stamp" }
[[parts]]
where = { column = "Type", is = "Trade" }
[parts.fields]
price = "Price"
size = "Volume"
kind = { constant = "trade" }
[[parts]]
where = { column = "Type", is = "Quote" }
[parts.fields]
bid_price = "Bid Price"
bid_size = "Bid Size"
ask_price = "Ask Price"
ask_size = "Ask Size"
"""
MIXED_ROWS = """#RIC,Date-Time,Type,Price,Volume,Bid Price,Bid Size,Ask Price,Ask Size
VOD.L,2026-01-05T08:00:00.1Z,Quote,,,99.5,3,100.5,4
VOD.L,2026-01-05T08:00:00.2Z,Trade,100.25,7,,,,
VOD.L,2026-01-05T08:00:00.3Z,Correction,,,,,,
VOD.L,2026-01-05T08:00:00.4Z,Trade,100.5,2,,,,
"""


def mixed(folder: Path, text: str, **options: Any) -> CsvFeed:
    (folder / "mixed.toml").write_text(MIXED)
    (folder / "day.csv").write_text(text)
    return CsvFeed(folder / "day.csv", profile=folder / "mixed.toml", **options)


@pytest.mark.parametrize("inexact", ["raise", "round"])
def test_fields_of_a_part_are_asked_for_in_its_own_rows_alone(tmp_path: Path, inexact: Any) -> None:
    ticks, error = read(mixed(tmp_path, MIXED_ROWS, inexact=inexact))
    assert error is None
    assert ticks[["sequence", "kind", "price", "size"]].tolist() == [
        (1, 3, 99_500_000_000, 3), (2, 2, 100_250_000_000, 7), (4, 2, 100_500_000_000, 2)
    ]  # fmt: skip
    for lacking, column in ((",100.25,7,", "Price"), (",99.5,3,", "Bid Price")):
        feed = mixed(tmp_path, MIXED_ROWS.replace(lacking, f",,{lacking.split(',')[2]},"), inexact=inexact)
        _, error = read(feed)
        assert f"column {column}: empty" in str(error)
    ticks, error = read(mixed(tmp_path, MIXED_ROWS.replace("100.25", "1e-19"), inexact=inexact))
    assert "too precise" in str(error)
    assert len(ticks) == 1


@pytest.mark.parametrize("line", ['"Downloaded from a site, as of today"', "Downloaded from a site as of today"])
def test_a_line_of_one_text_that_begins_as_the_end_closes_a_file(tmp_path: Path, line: str) -> None:
    feed = mixed(tmp_path, f"{MIXED_ROWS}{line}\n")
    ticks, error = read(feed)
    assert (len(ticks), error, feed.statistics()["end_lines"]) == (3, None, 1)
    _, error = read(mixed(tmp_path, f"{MIXED_ROWS}Downloaded,from\n"))
    assert "2 fields where there are 9 columns" in str(error)


@pytest.mark.parametrize("stops", [False, True])
def test_each_line_of_a_file_with_closing_lines_is_counted_once_and_none_behind_the_end(
    tmp_path: Path, stops: bool
) -> None:
    profile = f'name = "own"\nend = "END"\nend_stops = {str(stops).lower()}\n[symbol]\ncolumn = "s"\n[fields]\n'
    profile += 'price = "p"\nkind = { constant = "trade" }\nts_recv = { column = "t", unit = "s" }\n'
    (tmp_path / "own.toml").write_text(profile)
    closing = ["END", "END,B,3", "END"]
    lines = ["1,A,2", "", "2,B,3", "bad", closing[0], "3,A,4", closing[1], "", "4,C,1", "5", closing[2]]
    (tmp_path / "day.csv").write_text("\n".join(["t,s,p", *lines]) + "\n")
    feed = CsvFeed(tmp_path / "day.csv", profile=tmp_path / "own.toml", on_bad_record="skip", select=Selection(("A",)))
    ticks, error = read(feed)
    read_lines = lines[: lines.index("END") + 1] if stops else lines
    counts = feed.statistics()
    assert error is None
    assert ticks["ts_recv"].tolist() == [int(line[0]) * 10**9 for line in read_lines if ",A," in line]
    assert counts["records"] == len(read_lines) - read_lines.count("")
    assert counts["empty_lines"] == read_lines.count("")
    assert counts["end_lines"] == sum(line in closing for line in read_lines)
    assert counts["not_selected"] == sum(
        "," in line and ",A," not in line and line not in closing for line in read_lines
    )
    assert feed.skipped.total == sum("," not in line and line not in ("", "END") for line in read_lines)
