"""Every built-in CSV profile against the csv module and Decimal, and what a profile's TOML may say."""

from __future__ import annotations

import csv
import datetime as dt
import io
import re
import zipfile
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from csv_files import KINDS, made_up, write_made_up
from csv_reference import reference, text_of
from csv_tables import MINE, PROFILE, as_dicts
from reading import read

import strand
import strand.feeds
from strand.errors import ConfigurationError, FormatError, UnknownFormatError
from strand.feeds.base import Selection
from strand.feeds.formats.csv.profile import built_in, normal
from strand.feeds.formats.csv.reader import CsvFeed, profiles, recognise
from strand.feeds.formats.dbn import DbnFeed
from strand.feeds.mapping.rules import PRICES

pytestmark = pytest.mark.python

pytest.importorskip("pyarrow")


@pytest.mark.parametrize("name", KINDS)
def test_each_profile_reads_what_the_csv_module_and_decimal_read(name: str, tmp_path: Path) -> None:
    kind, path = KINDS[name], write_made_up(tmp_path, name, 500)
    feed, data = CsvFeed(path, **kind.options), path.read_bytes()
    assert feed.info.details["profile"] == name.split(" ", maxsplit=1)[0]
    if not kind.file.startswith("mdl_6"):
        assert recognise(data[:4096])
    expected = reference(kind, data)
    assert len(expected) >= 500
    assert as_dicts(feed) == expected
    assert feed.statistics()["ticks"] == len(expected)
    assert feed.statistics()["not_selected"] == 0
    assert feed.statistics()["end_lines"] == (1 if kind.footer else 0)
    assert set(feed.symbols) == {tick["symbol"] for tick in expected}  # a closing line names none


@pytest.mark.parametrize("name", ["tardis-trades", "szse-orders in Chinese", "lobster"])
@pytest.mark.parametrize("ends", ["\r\n", "\r"])
def test_line_ends_of_other_systems_change_nothing(name: str, ends: str, tmp_path: Path) -> None:
    kind, lines = KINDS[name], made_up(name, 50)
    path = tmp_path / kind.file
    path.write_bytes(text_of(kind, lines, ends))
    assert as_dicts(CsvFeed(path)) == reference(kind, text_of(kind, lines))


def test_every_profile_is_tried_here() -> None:
    assert {name.split(" ", maxsplit=1)[0] for name in KINDS} == set(profiles())


def test_lobster_as_recorded_is_read_exactly(shared_data: Path) -> None:
    (path,) = (shared_data / "lobster").glob("*message*")
    feed = CsvFeed(path)
    assert as_dicts(feed) == reference(KINDS["lobster"], path.read_bytes())
    assert (feed.symbols, feed.info.date, feed.info.venue) == (["AAPL"], "2012-06-21", "NASDAQ")


SCHEMAS = (
    "mbo", "trades", "mbp-1", "mbp-10", "tbbo", "bbo-1s", "bbo-1m", "cmbp-1", "cbbo-1s", "ohlcv-1s", "ohlcv-1m",
)  # fmt: skip


def csv_of_dbn(path: Path, *, pretty_px: bool = False, pretty_ts: bool = False) -> bytes:
    databento = pytest.importorskip("databento_dbn")
    out = io.BytesIO()
    coder = databento.Transcoder(
        out, databento.Encoding.CSV, databento.Compression.NONE,
        pretty_px=pretty_px, pretty_ts=pretty_ts, map_symbols=True,
    )  # fmt: skip
    coder.write(path.read_bytes())
    coder.flush()
    return out.getvalue()


@pytest.mark.cells(1)
@pytest.mark.parametrize("pretty_ts", [False, True])
@pytest.mark.parametrize("pretty_px", [False, True])
@pytest.mark.parametrize("schema", SCHEMAS)
def test_databentos_csv_gives_the_ticks_of_its_dbn(
    schema: str, pretty_px: bool, pretty_ts: bool, tmp_path: Path, shared_data: Path
) -> None:
    source = shared_data / "dbn" / f"test_data.{schema}.dbn"
    path = tmp_path / f"{schema}.csv"
    path.write_bytes(csv_of_dbn(source, pretty_px=pretty_px, pretty_ts=pretty_ts))
    feed, of_dbn = CsvFeed(path), DbnFeed(source, levels=10)
    found = as_dicts(feed)
    assert found == as_dicts(of_dbn)
    assert found
    assert feed.info.ticks == of_dbn.info.ticks


@pytest.mark.parametrize("schema", ["definition", "statistics", "status", "imbalance"])
def test_a_schema_of_databento_that_no_profile_reads_is_refused(schema: str, tmp_path: Path, shared_data: Path) -> None:
    path = tmp_path / f"{schema}.csv"
    path.write_bytes(csv_of_dbn(shared_data / "dbn" / f"test_data.{schema}.dbn"))
    with pytest.raises(UnknownFormatError, match="Databento's CSV of a schema without a profile: read its DBN file"):
        CsvFeed(path)


def test_contracts_of_a_lean_archive_are_opened_together_or_by_name(tmp_path: Path) -> None:
    path = tmp_path / "future" / "cme" / "tick" / "es" / "20131007_trade.zip"
    path.parent.mkdir(parents=True)
    members = {
        "20131007_es_tick_trade_201312_20131220.csv": "939243,1669.75,203,usa,null,0\n939245,1670,1,usa,null,1\n",
        "20131007_es_tick_trade_201403_20140321.csv": "939244,1660,2,usa,null,0\n",
    }
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in members.items():
            archive.writestr(name, text)
    with zipfile.ZipFile(path.with_name("20131007_openinterest.zip"), "w") as archive:
        for expiry in ("201312_20131220", "201403_20140321"):
            archive.writestr(f"20131007_es_tick_openinterest_{expiry}.csv", "0,2717\n")
    found = []
    for source in ([path / name for name in members], path, path.parent):
        feed = strand.feeds.open(source)
        found.append([(feed.symbols[t["instrument_id"]], t["price"], t["size"]) for batch in feed for t in batch])
    assert found[1:] == found[:1] * 2
    with pytest.raises(ConfigurationError, match="is named twice"):
        strand.feeds.open([path, path / min(members)])
    with zipfile.ZipFile(tmp_path / "mixed.zip", "w") as archive:
        archive.writestr("20131007_es_tick_trade_201312_20131220.csv", members[min(members)])
        archive.writestr("letter.csv", "Dear")
    with pytest.raises(UnknownFormatError, match=r"move this one out.*mixed\.zip/letter\.csv: .*starts with 44 65"):
        strand.feeds.open(tmp_path / "mixed.zip")
    assert found[0] == [
        ("ES_201312_20131220", 1_669_750_000_000, 203),
        ("ES_201403_20140321", 1_660_000_000_000, 2),
        ("ES_201312_20131220", 1_670_000_000_000, 1),
    ]


def test_a_lean_archive_of_one_future_with_whole_prices_is_not_taken_for_an_equity(tmp_path: Path) -> None:
    path = tmp_path / "tick" / "es" / "20131007_trade.zip"
    path.parent.mkdir(parents=True)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("20131007_es_tick_trade_20131220.csv", "939243,1669,203,usa,null,0\n")
    feed = strand.feeds.open(path)
    (batch,) = feed
    assert (list(feed.symbols), int(batch["price"][0])) == (["ES_20131220"], 1_669_000_000_000)


def test_a_fault_in_any_part_of_a_row_is_one_bad_row_with_no_tick(tmp_path: Path) -> None:
    kind = KINDS["tardis-snapshots"]
    lines = made_up("tardis-snapshots", 30)
    expected = reference(kind, text_of(kind, lines))
    lines[10][-2] = "cheap"
    path = write_made_up(tmp_path, "tardis-snapshots", lines)
    feed = CsvFeed(path, on_bad_record="skip")
    assert as_dicts(feed) == [tick for tick in expected if tick["sequence"] != 11]
    assert sum(feed.skipped.counts.values()) == 1
    with pytest.raises(FormatError, match=r"line 12: .*column bids\[4\].price|column bids\[4\].price"):
        as_dicts(CsvFeed(path))


def test_a_symbol_the_name_does_not_tell_is_asked_for(tmp_path: Path) -> None:
    path = write_made_up(tmp_path, "binance-trades", 3).rename(tmp_path / "download.csv")
    with pytest.raises(ConfigurationError, match="symbol="):
        CsvFeed(path)
    feed = CsvFeed(path, symbol="BTCUSDT")
    assert [row["symbol"] for row in as_dicts(feed)] == ["BTCUSDT"] * 3


def test_quotes_without_sizes_are_read_out_of_leans_archives(tmp_path: Path) -> None:
    path = tmp_path / "20140507_quote.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("20140507_eurusd_tick_quote.csv", "0,1.39301,1.39311\n1500,1.39302,1.3932\n")
    feed = strand.feeds.open(path)
    assert (feed.info.details["profile"], feed.info.date) == ("lean-fx", "2014-05-07")
    rows = as_dicts(feed)  # type: ignore[arg-type]
    assert [(row["ts_recv"], row["symbol"], row["price"], row["order_id"], row["size"]) for row in rows] == [
        (1_399_420_800_000_000_000, "EURUSD", 1_393_010_000, 1_393_110_000, 0),
        (1_399_420_801_500_000_000, "EURUSD", 1_393_020_000, 1_393_200_000, 0),
    ]
    result = strand.replay(path, "spread", workers=1, cores=None)
    assert result.rows["EURUSD"]["quotes"] == 2


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('column = "When"', 'colum = "When"', "fields.ts_event.colum: is not a key here; there are .*column"),
        ('column = "When"', "", "fields.ts_event: give exactly one of column"),
        ('unit = "stamp"', 'unit = "minutes"', "fields.ts_event.unit: give 's' or 'ms' .*, not 'minutes'"),
        ('unit = "stamp"', "", "fields.ts_event.unit: is needed"),
        ('unit = "0.01"', 'unit = "0.03"', "fields.price.unit: give a power of ten .*'0.03'"),
        ('unit = "0.01"', "unit = true", "fields.price.unit: give a power of ten .*; not True"),
        ('zone = "Europe/Berlin"', 'zone = "Berlin"', "time.zone: 'Berlin' is not a time zone"),
        ('delimiter = ";"', 'delimiter = ";;"', "delimiter: ';;' is not one character"),
        ('delimiter = ";"', 'delimiter = ";"\nfoo = 1', "foo: is not a key here"),
        ('K = "B"', 'K = "X"', "fields.side.map.K: 'X' is not one of A, B, N"),
        ('K = "B"', f'"{"K" * 65}" = "B"', "is longer than 64 bytes"),
        ('constant = "trade"', 'constant = "deal"', "fields.kind.constant: 'deal' is not one of none, order"),
        ("[fields.kind]", "[fields.colour]", "fields.colour: is not a field of a tick"),
        ('column = "Instrument"', "", "symbol: give exactly one of column, join, file_name"),
        ('column = "Instrument"', 'constant = "A\\tB"', r"symbol.constant: 'A\\tB' has a control character"),
        ('column = "Instrument"', 'file_name = "x"', "symbol.file_name: 'x' has no group"),
        ('column = "Instrument"', 'file_name = "("', "symbol.file_name: '\\(' is not a regular expression"),
        ('empty = "none"', 'empty = "zero"', "fields.price.empty: give 'none', not 'zero'"),
        ('name = "mine"', "name = ", "is not TOML"),
        ('name = "mine"', f'end = "{"E" * 65}"', "end: is longer than 64 bytes"),
        ('name = "mine"', 'end = ""', "end: is empty"),
        (
            'name = "mine"',
            'encoding = "utf-16"',
            "encoding: give 'utf-8' or 'gb18030' or 'big5' or 'latin-1', not 'utf-16'",
        ),
        ('name = "mine"', "header = false", "layouts: is needed where header is false"),
        ('name = "mine"', "header = 1", "header: give true or false, not 1"),
        ("[fields.ts_event]", "[fields.sequence]", "fields.sequence.unit: is not a key here"),
        ('column = "When"', 'column = "When"\nsince = "noon"', "since: give 'epoch' or 'midnight', not 'noon'"),
        ('unit = "stamp"', 'unit = "stamp"\ndigits = 10', "digits: give 0 to 9, not 10"),
        ('[fields.ts_event]\ncolumn = "When"\nunit = "stamp"', "", "fields: has neither ts_event nor ts_recv"),
        ("[fields.size]", "[fields.bid_size]", "fields: a quote has bid_price and ask_price"),
        ('column = "Lots"', "column = [1]", r"fields.size.column\[1\]: give text, not 1"),
        ('constant = "T"', 'constant = "Q"', "fields.action.constant: 'Q' is not one of A, C"),
        ('zero = "none"', 'zero = "none"\nmap = { a = 1 }', "fields.price.map: is not a key here"),
        ("[time]", "[like]\nPx = 3\n[time]", "like.Px: give text, not 3"),
    ],
)
def test_a_profile_that_cannot_work_names_the_key(old: str, new: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(PROFILE.replace(old, new, 1))
    (tmp_path / "deals.csv").write_text(MINE)
    assert old in PROFILE
    with pytest.raises(ConfigurationError, match=said) as caught:
        CsvFeed(tmp_path / "deals.csv", profile=tmp_path / "mine.toml")
    assert "mine.toml" in str(caught.value)


def test_a_profile_that_is_not_there_names_those_that_are(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(MINE)
    cases = (
        ("lobsters", "nearest are lobster;"),
        ("Binance", "nearest are binance-aggtrades,"),
        ("taq-trade", "nearest are taq-trades,"),
    )
    for wrong, near in (*cases, ("zzz", "there are b3-trades, binance-")):
        with pytest.raises(
            ConfigurationError, match=rf"\.toml file nor one of the \d+ .* {near}.* lists all"
        ) as caught:
            CsvFeed(tmp_path / "a.csv", profile=wrong)
        assert len(str(caught.value)) < 250
    with pytest.raises(ConfigurationError, match=r"profile: missing\.toml cannot be read: No such file or directory$"):
        CsvFeed(tmp_path / "a.csv", profile="missing.toml")


def test_an_example_in_the_documentation_is_read_as_it_says(tmp_path: Path) -> None:
    page = (Path(__file__).resolve().parents[5] / "docs" / "feeds" / "csv.md").read_text("utf-8")
    blocks = {block.split("\n", 1)[0]: block.split("\n", 1)[1] for block in page.split("```")[1::2]}
    (tmp_path / "deals.toml").write_text(blocks["toml"])
    (tmp_path / "deals.csv").write_text(blocks["csv"])
    lines = list(csv.DictReader(blocks["csv"].splitlines(), delimiter=";"))
    rows = as_dicts(CsvFeed(tmp_path / "deals.csv", profile=tmp_path / "deals.toml"))
    assert [row["price"] for row in rows] == [int(Decimal(line["price"]) * 10**9) for line in lines]
    assert [row["symbol"] for row in rows] == [line["name"] for line in lines]
    assert [row["size"] for row in rows] == [int(line["quantity"]) for line in lines]
    shown = [f"{row['ts_recv']} {row['symbol']} {row['price']} {row['size']} {row['side']}" for row in rows]
    assert blocks["text"].strip().splitlines() == shown


@pytest.mark.parametrize(
    ("path", "rows", "profile", "fields"),
    [
        ("crypto/gdax/tick/btcusd/20161007_trade.zip", "86400,232.40,93.1\n", "lean-crypto-trades",
         (b"T", 9_310_000_000)),
        ("crypto/gdax/tick/btcusd/20161007_quote.zip", "86400,232.40,20392.0,232.42,8059.5\n", "lean-crypto-quotes",
         (b"N", 2_039_200_000_000)),
        ("forex/oanda/tick/eurusd/20161007_quote.zip", "86400,232.40,93.1\n", "lean-fx", (b"N", 0)),
    ],
)  # fmt: skip
def test_leans_archives_of_three_columns_are_told_apart_by_the_names_in_them(
    path: str, rows: str, profile: str, fields: tuple[bytes, int], tmp_path: Path
) -> None:
    archive = tmp_path / path
    archive.parent.mkdir(parents=True)
    kind = archive.stem.rpartition("_")[2]
    with zipfile.ZipFile(archive, "w") as packed:
        packed.writestr(f"20161007_{archive.parent.name}_tick_{kind}.csv", rows)
    feed = strand.feeds.open(archive)
    (tick,) = feed.to_numpy()
    assert (feed.info.details["profile"], feed.info.date, feed.symbols[0]) == (
        profile,
        "2016-10-07",
        archive.parent.name.upper(),
    )
    assert (bytes(tick["action"]), int(tick["size"])) == fields
    assert int(tick["price"]) == 232_400_000_000


def test_leans_quotes_of_minus_1_while_a_venue_is_down_are_empty_sides(tmp_path: Path) -> None:
    path = tmp_path / "20190411_btcusd_tick_quote.csv"
    path.write_text("1000,5000.1,0.5,5000.2,0.4\n2000,-1,-1,-1,-1\n3000,5000.3,0.5,5000.4,0.4\n")
    ticks = strand.feeds.open(path).to_numpy()
    sides = [(int(t["bid_price"]), int(t["bid_size"]), int(t["ask_price"]), int(t["ask_size"])) for t in ticks]
    assert sides == [
        (5000_100_000_000, 50_000_000, 5000_200_000_000, 40_000_000),
        (strand.UNDEF_PRICE, 0, strand.UNDEF_PRICE, 0),
        (5000_300_000_000, 50_000_000, 5000_400_000_000, 40_000_000),
    ]


@pytest.mark.parametrize("sentinel", ["-1", "-999.99", "0", "NaN", "99999999999999"])
def test_a_number_may_stand_for_no_value_in_csv_and_json(sentinel: str, tmp_path: Path) -> None:
    fields = (
        f'price = {{ column = "p", undefined = "{sentinel}" }}\nsize = {{ column = "q", undefined = "{sentinel}" }}\n'
    )
    (tmp_path / "c.toml").write_text(
        f'name = "c"\n[symbol]\nconstant = "A"\n[fields]\nts_recv = {{ column = "t", unit = "s" }}\n{fields}'
        'kind = { constant = "trade" }\n'
    )
    (tmp_path / "a.csv").write_text(f"t,p,q\n1767571200,1.5,3\n1767571201,{sentinel},{sentinel}\n1767571202,-2,4\n")
    (tmp_path / "j.toml").write_text(
        f'name = "j"\n[[message]]\nkind = "trade"\nsymbol = {{ constant = "A" }}\n[message.fields]\n'
        f'ts_event = {{ column = "t", unit = "s" }}\n{fields}'
    )
    in_json = f'"{sentinel}"' if sentinel == "NaN" else sentinel
    (tmp_path / "a.jsonl").write_text(
        '{"t": 1767571200, "p": 1.5, "q": 3}\n'
        f'{{"t": 1767571201, "p": {in_json}, "q": {in_json}}}\n'
        '{"t": 1767571202, "p": -2, "q": 4}\n'
    )
    for name, profile in (("a.csv", "c.toml"), ("a.jsonl", "j.toml")):
        ticks = strand.feeds.open(tmp_path / name, profile=tmp_path / profile).to_numpy()
        assert ticks["price"].tolist() == [1_500_000_000, strand.UNDEF_PRICE, -2_000_000_000]
        assert ticks["size"].tolist() == [3, 0, 4]


LEAN_BAR = "0,1669,1670,1668,1669,203\n"
LEAN_DAY = "20131007 00:00,22989,22989,22854,22885,245\n"


@pytest.mark.parametrize(
    ("path", "text", "price", "named"),
    [
        ("equity/usa/minute/spy/20131007_spy_minute_trade.csv", LEAN_BAR, 166_900_000, ("SPY", "2013-10-07T04")),
        ("equity/india/minute/spy/20131007_spy_minute_trade.csv", LEAN_BAR, 166_900_000, ("SPY", "2013-10-06T18:30")),
        ("crypto/gdax/minute/b/20131007_b_minute_trade.csv", LEAN_BAR, 1669 * 10**9, ("B", "2013-10-07T00")),
        ("future/a/minute/es/20131007_es_minute_trade_2013.csv", LEAN_BAR, 1669 * 10**9, ("ES_2013", "2013-10-07T00")),
        ("20131007_es_minute_trade_201312.csv", LEAN_BAR, 1669 * 10**9, ("ES_201312", "2013-10-07T00")),
        ("future/hkfe/daily/hsi_trade_201311.csv", LEAN_DAY, 22989 * 10**9, ("HSI_201311", "2013-10-06T16")),
        ("index/hkfe/daily/hsi.csv", LEAN_DAY, 22989 * 10**9, ("HSI", "2013-10-06T16")),
        ("equity/usa/daily/hsi.csv", LEAN_DAY, 2_298_900_000, ("HSI", "2013-10-07T04")),
        ("daily/hsi.csv", LEAN_DAY, 2_298_900_000, ("HSI", "2013-10-07T04")),
    ],
)  # fmt: skip
def test_leans_folders_say_what_whole_numbers_are_and_whose_time_it_is(
    path: str, text: str, price: int, named: tuple[str, str], tmp_path: Path
) -> None:
    symbol, start = named
    for packed in (False, True):
        file = tmp_path / path if not packed else (tmp_path / path).with_suffix(".zip")
        file.parent.mkdir(parents=True, exist_ok=True)
        if packed:
            with zipfile.ZipFile(file, "w") as archive:
                archive.writestr(Path(path).name, text)
        else:
            file.write_text(text)
        with strand.feeds.open(file) as feed:
            ticks = feed.to_numpy()
        assert (ticks["price"][0], list(feed.symbols)) == (price, [symbol])
        assert ticks["ts_event"][0] == np.datetime64(start, "ns").astype(np.int64)
        if not packed:
            file.unlink()


def test_whole_numbers_outside_of_leans_folders_are_not_guessed(tmp_path: Path) -> None:
    path = tmp_path / "20131007_spy_minute_trade.csv"
    path.write_text(LEAN_BAR)
    with pytest.raises(UnknownFormatError, match=r"could be lean-bars, lean-decimal-bars: .* folders of its source"):
        CsvFeed(path)
    for profile, price in (("lean-bars", 166_900_000), ("lean-decimal-bars", 1669 * 10**9)):
        assert CsvFeed(path, profile=profile).to_numpy()["price"][0] == price


def test_a_zone_that_the_path_does_not_say_has_to_be_given(tmp_path: Path) -> None:
    path = tmp_path / "index" / "usa" / "daily" / "spx.csv"
    path.parent.mkdir(parents=True)
    path.write_text("20210104 00:00,3764.61,3769.99,3662.71,3700.65,24599\n")
    with pytest.raises(ConfigurationError, match=r"zone: lean-decimal-bars does not know the zone of .*spx\.csv"):
        CsvFeed(path)
    with pytest.raises(ConfigurationError, match="zone: 'Chicago' is not a time zone"):
        CsvFeed(path, zone="Chicago")
    feed = CsvFeed(path, zone="America/Chicago")
    assert feed.info.zone == "America/Chicago"
    assert feed.to_numpy()["ts_event"][0] == np.datetime64("2021-01-04T06", "ns").astype(np.int64)


#: Profiles of exports of platforms and vendors, with a header.
EXPORTS = [
    "mt5-ticks", "jforex-ticks", "dukascopy-ticks", "bybit-trades", "bybit-spot-trades", "okx-trades", "coinapi-trades",
    "coinapi-quotes", "coinapi-book", "b3-trades", "finam-ticks", "moex-deals", "taifex-trades", "ctp-snapshots",
]  # fmt: skip


@pytest.mark.parametrize("name", EXPORTS)
def test_an_export_without_a_column_that_its_profile_needs_names_the_column(name: str, tmp_path: Path) -> None:
    (profile,) = (each for each in built_in() if each.name == name)
    kind, lines = KINDS[name], made_up(name, 5)
    for words, compared in profile.needed:
        at = [normal(title) in compared for title in kind.columns].index(True)
        cut = replace(kind, titles=kind.delimiter.join(kind.columns[:at] + kind.columns[at + 1 :]))
        path = tmp_path / Path(kind.file).name
        path.write_bytes(text_of(cut, [line[:at] + line[at + 1 :] for line in lines]))
        with pytest.raises(FormatError, match=rf"its header lacks {re.escape(words)}"):
            CsvFeed(path, profile=name, **kind.options)


def test_an_empty_first_line_lacks_all_columns(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("\n1,2,3\n4,5,6\n")
    with pytest.raises(FormatError, match=r"line 1: its header lacks 'timestamp', .*, which tardis-trades needs"):
        CsvFeed(tmp_path / "a.csv", profile="tardis-trades")


def test_a_header_of_another_delimiter_than_the_first_lacks_only_what_it_lacks_and_once(tmp_path: Path) -> None:
    path = tmp_path / "SBER.csv"
    path.write_text("<PER>;<DATE>;<TIME>;<OPEN>;<HIGH>;<LOW>;<VOL>\n5;20260105;100000;54.03;54.61;53.58;1\n")
    with pytest.raises(FormatError, match="its header lacks '<CLOSE>', which finam-bars needs; it has <PER>, <DATE>"):
        CsvFeed(path, profile="finam-bars")


@pytest.mark.parametrize("header", [True, False])
@pytest.mark.parametrize("left_out", ["", "<PER>", "<TICKER>", "<TICKER> <PER>"])
def test_finams_bars_without_the_ticker_or_the_period_take_what_is_missing_from_the_name_or_an_option(
    left_out: str, header: bool, tmp_path: Path
) -> None:
    kind, lines = KINDS["finam-bars"], made_up("finam-bars", 40)
    for line in lines:
        line[1] = "15"
    whole = reference(kind, text_of(kind, lines))
    at = [place for place, title in enumerate(kind.columns) if title not in left_out.split()]
    titles = [[kind.columns[place] for place in at]] * header
    text = "".join(",".join(row) + "\n" for row in [*titles, *([line[place] for place in at] for line in lines)])
    path = tmp_path / "SBER_260105_260107.txt"
    path.write_text(text)
    says_length = "<PER>" not in left_out
    if not says_length:
        with pytest.raises(ConfigurationError, match=r"bars: .* has no column '<PER>', .*: give it, as in bars='1m'"):
            CsvFeed(path, profile="finam-bars")
    bars = None if says_length else "15m"
    feed = CsvFeed(path, profile="finam-bars", bars=bars)
    assert feed.info.bars == 15 * 60 * 10**9
    assert as_dicts(feed) == whole
    with pytest.raises(ConfigurationError, match=r"bars: (leave it out|'0s')"):
        CsvFeed(path, profile="finam-bars", bars="15m" if says_length else "0s")
    other = path.rename(tmp_path / "mine.txt")
    if "<TICKER>" in left_out:
        with pytest.raises(ConfigurationError, match=r"symbol: the name of .*mine.txt does not hold it"):
            CsvFeed(other, profile="finam-bars", bars=bars)
        assert CsvFeed(other, profile="finam-bars", bars=bars, symbol="GAZP").symbols == ["GAZP"]
    else:
        with pytest.raises(ConfigurationError, match="symbol: finam-bars has a column of symbols"):
            CsvFeed(other, profile="finam-bars", bars=bars, symbol="GAZP")


@pytest.mark.parametrize("letter", ["D", "W", "M"])
@pytest.mark.parametrize("time", ["100100", "000000"])
def test_a_letter_that_may_be_a_ticker_or_a_period_of_finam_is_refused(letter: str, time: str, tmp_path: Path) -> None:
    path = tmp_path / f"{letter}_260105_260107.txt"
    path.write_text(f"{letter},20260105,{time},54.03,54.61,53.58,54.3,1\n" * 3)
    for bars in (None, "1m"):
        with pytest.raises(FormatError, match="which finam-bars needs"):
            CsvFeed(path, profile="finam-bars", bars=bars)
    path.write_text(
        f"<PER>,<DATE>,<TIME>,<OPEN>,<HIGH>,<LOW>,<CLOSE>,<VOL>\nD,20260105,{time},54.03,54.61,53.58,54.3,1\n"
    )
    assert CsvFeed(path, profile="finam-bars").symbols == [letter]


@pytest.mark.parametrize("name", EXPORTS)
def test_a_bad_price_of_an_export_is_an_error_with_its_line_after_those_before_it(name: str, tmp_path: Path) -> None:
    (profile,) = (each for each in built_in() if each.name == name)
    rules = [rule for rule in profile.every_rule if rule.field in PRICES and rule.columns]
    kind, lines = KINDS[name], made_up(name, 20)
    names = [normal(title) for title in kind.columns]
    at = next(names.index(normal(column)) for rule in rules for column in rule.columns if normal(column) in names)
    good = reference(kind, text_of(kind, lines[:12]))
    for bad in ("1.2.3", "abc", "1e99", "--1", "٣"):
        lines[12][at] = bad
        path = tmp_path / Path(kind.file).name
        path.write_bytes(kind.delimiter.join(kind.columns).encode(kind.encoding) + b"\n")
        with path.open("ab") as file:
            file.writelines(kind.delimiter.join(line).encode("utf-8") + b"\n" for line in lines)
        options = {**kind.options, **({"date": "2026-01-05"} if name.startswith("coinapi") else {})}
        ticks, error = read(CsvFeed(path, profile=name, **options))
        assert isinstance(error, FormatError)
        assert error.line == 14
        assert len(ticks) == len(good)


LEVELS = """
name = "mine"
event = "ts_recv"
flags = { snapshot = 32 }
[symbol]
column = "name"
[fields]
ts_recv = { column = "t", unit = "ns" }
side = { column = "side" }
price = { column = "price" }
size = { column = "size", running = "level" }
action = { column = "how", map = { add = "A", sub = "C", match = "F", set = "M", end = "R", snap = "M" } }
flags = { column = "how", map = { snap = 32 }, otherwise = 0 }
kind = { constant = "quote" }
"""


@pytest.mark.parametrize("chunk_bytes", [64, 2 << 20])
def test_sizes_of_levels_are_kept_by_symbol_side_and_price(
    chunk_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("strand.feeds.formats.csv.reader._CHUNK_BYTES", chunk_bytes)
    rows = [
        ("1,a,B,10,5,snap", 5), ("1,a,A,10,7,snap", 7), ("1,b,B,10,1,set", 1), ("2,a,B,10,2,add", 7),
        ("2,b,B,10,2,add", 3), ("3,a,B,10,3,sub", 4), ("3,a,A,10,3,match", 4), ("4,b,B,10,3,match", 0),
        ("5,a,B,10,99,end", 0), ("6,a,B,10,2,add", 2), ("7,b,B,10,8,set", 8), ("8,a,B,11,1,snap", 1),
        ("8,a,B,12,1,snap", 1), ("9,a,B,10,1,add", 1), ("9,a,B,12,1,add", 2), ("9,b,B,10,1,sub", 7),
    ]  # fmt: skip
    path, mine = tmp_path / "levels.csv", tmp_path / "mine.toml"
    mine.write_text(LEVELS)
    path.write_text("t,name,side,price,size,how\n" + "".join(f"{row}\n" for row, _ in rows))
    feed = CsvFeed(path, profile=mine)
    assert feed.to_numpy()["size"].tolist() == [size for _, size in rows]
    assert set(feed.to_numpy()["action"].tolist()) == {b"M"}
    # What is left out still counts, and one symbol alone has what it has among others.
    late = CsvFeed(path, profile=mine, select=Selection(start_ns=6))
    assert late.to_numpy()["size"].tolist() == [size for row, size in rows if int(row[0]) >= 6]
    alone = CsvFeed(path, profile=mine, select=Selection(("b",)))
    assert alone.to_numpy()["size"].tolist() == [size for row, size in rows if ",b," in row]


def test_a_row_that_takes_more_than_its_level_has_is_bad_and_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / KINDS["coinapi-book"].file
    path.parent.mkdir(parents=True)
    head = "time_exchange;time_coinapi;is_buy;update_type;entry_px;entry_sx;order_id\n"
    clock = "10:00:00.0000000;10:00:00.0000000"
    good = [f"{clock};1;SNAPSHOT;5;2;", f"{clock};1;ADD;5;1;"]
    for bad, words in [
        ("1;SUB;5;3.00000001;", "entry_sx: more than is left at its price; the file has to begin with a snapshot"),
        ("0;MATCH;5;1;", "entry_sx: more than is left at its price"), ("1;PATCH;5;1;", "'ADD', 'SUB'"),
        ("1;ADD;5;1;17", "order_id: unknown value; it may be ''"), ("1;ADD;5;92233720368;", "entry_sx: out of range"),
    ]:  # fmt: skip
        path.write_text(head + "\n".join([*good, f"{clock};{bad}", f"{clock};1;SUB;5;3;"]) + "\n")
        _, error = read(CsvFeed(path))
        with pytest.raises(FormatError, match=re.escape(words)):
            raise error or AssertionError
        feed = CsvFeed(path, on_bad_record="skip")
        assert feed.to_numpy()["size"].tolist() == [2 * 10**8, 3 * 10**8, 0]
        assert sum(feed.skipped.counts.values()) == 1


@pytest.mark.parametrize("change", [('event = "ts_recv"', ""), ('side = { column = "side" }', "")])
def test_sizes_of_levels_need_a_side_and_the_rows_of_a_message(change: tuple[str, str], tmp_path: Path) -> None:
    mine = tmp_path / "mine.toml"
    mine.write_text(LEVELS.replace(*change))
    (tmp_path / "levels.csv").write_text("t,name,side,price,size,how\n")
    with pytest.raises(ConfigurationError, match=r'size\.running: "level" is for rows'):
        CsvFeed(tmp_path / "levels.csv", profile=mine)


@pytest.mark.parametrize("ends", ["\n", "\r\n", "\r"])
def test_a_line_of_another_width_is_an_error_with_its_number(ends: str, tmp_path: Path) -> None:
    kind, lines = KINDS["twse-snapshots"], made_up("twse-snapshots", 20)
    path = tmp_path / kind.file
    data = text_of(kind, lines, ends)
    path.write_bytes(data)
    whole = as_dicts(CsvFeed(path))
    assert whole == reference(kind, data)
    cut = data.decode().split(ends)
    for bad in (cut[12][:-1], cut[12] + "A", cut[12][:20] + "|" + cut[12][21:]):
        path.write_text(ends.join([*cut[:12], bad, *cut[13:]]), newline="")
        ticks, error = read(CsvFeed(path))
        assert isinstance(error, FormatError)
        assert error.line == 13
        assert len(ticks) == len(reference(kind, text_of(kind, lines[:12])))
        feed = CsvFeed(path, on_bad_record="skip")
        assert feed.to_numpy()["sequence"].max() == 20
        assert sum(feed.skipped.counts.values()) == 1
    mine = tmp_path / "mine.toml"
    layouts = "header = false\nlayouts = [{ columns = ['a', 'b'], widths = [1] }]\n"
    mine.write_text(layouts + PROFILE)
    with pytest.raises(ConfigurationError, match=r"widths: give the bytes of each column"):
        CsvFeed(path, profile=mine)


CTP_HEAD = (
    "TradingDay,InstrumentID,LastPrice,Volume,UpdateTime,UpdateMillisec,"
    + ",".join(f"{side}Price{level},{side}Volume{level}" for level in range(1, 6) for side in ("Bid", "Ask"))
    + ",ActionDay"
)


def test_a_night_of_a_chinese_trading_day_has_its_own_dates_and_its_volume_begins_anew(tmp_path: Path) -> None:
    """The dates are those that a page for users of CTP tells of the night of Friday, 2024-04-12."""
    book = ",".join(["10,1,11,2"] + ["1.7976931348623157e+308,0,1.7976931348623157e+308,0"] * 4)
    rows = [
        ("20240412", "ag2406", 900, "14:59:59", "20240412"), ("20240412", "m2409", 800, "14:59:59", "20240412"),
        ("20240412", "SR409", 700, "14:59:59", "20240412"), ("20240415", "ag2406", 5, "21:00:00", "20240412"),
        ("20240415", "m2409", 6, "21:00:00", "20240415"), ("20240412", "SR409", 7, "21:00:00", "20240412"),
        ("20240415", "ag2406", 9, "00:00:01", "20240413"), ("20240415", "ag2406", 19, "09:00:00", "20240415"),
        ("20240415", "m2409", 16, "09:00:00", "20240415"), ("20240415", "SR409", 17, "09:00:00", "20240415"),
    ]  # fmt: skip
    path = tmp_path / "ctp.csv"
    lines = [f"{day},{name},10.5,{total},{clock},500,{book},{own}" for day, name, total, clock, own in rows]
    path.write_text("\n".join([CTP_HEAD, *lines]) + "\n")
    ticks = as_dicts(CsvFeed(path))
    trades = [tick for tick in ticks if tick["action"] == "T"]
    assert [(tick["symbol"], tick["size"]) for tick in trades] == [
        ("ag2406", 900), ("m2409", 800), ("SR409", 700), ("ag2406", 5), ("m2409", 6), ("SR409", 7), ("ag2406", 4),
        ("ag2406", 10), ("m2409", 10), ("SR409", 10),
    ]  # fmt: skip
    shanghai = ZoneInfo("Asia/Shanghai")
    told = [dt.datetime.fromtimestamp(tick["ts_event"] // 10**9, shanghai).strftime("%d %H:%M:%S") for tick in trades]
    assert told == ["12 14:59:59"] * 3 + ["12 21:00:00"] * 3 + ["13 00:00:01"] + ["15 09:00:00"] * 3
    assert all(tick["ts_event"] % 10**9 == 500_000_000 for tick in trades)
    assert CsvFeed(path).statistics()["time_reversals"] == 0
    quotes = [tick for tick in ticks if tick["kind"] == 3]
    assert len(quotes) == len(rows)  # levels without prices are none
    # A total that falls within a trading day is an error, as in all files with running totals.
    path.write_text("\n".join([CTP_HEAD, *lines, lines[-1].replace(",17,09:00:00", ",16,09:00:01")]) + "\n")
    _, error = read(CsvFeed(path))
    with pytest.raises(FormatError, match="column Volume: below the running total before it"):
        raise error or AssertionError


@pytest.mark.parametrize("chunk_bytes", [200, 2 << 20])
def test_a_night_that_czce_sends_again_when_the_day_opens_keeps_its_time(
    chunk_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("strand.feeds.formats.csv.reader._CHUNK_BYTES", chunk_bytes)
    book = ",".join(["10,1,11,2"] + ["0.00,0,0.00,0"] * 4)
    rows = [
        ("20190830", "SR001", 90, "14:59:59"), ("20190830", "SR001", 5, "21:00:00"),
        ("20190830", "TA001", 5, "21:00:00"), ("20190830", "SR001", 7, "23:29:59"),
        ("20190902", "SR001", 7, "23:29:59"), ("20190902", "SR001", 7, "23:29:59"),
        ("20190902", "SR001", 13, "09:00:00"), ("20190902", "TA001", 9, "09:00:00"),
        ("20190902", "SR001", 2, "21:00:00"), ("20190902", "TA001", 3, "21:00:01"),
        ("20190903", "SR001", 2, "21:00:00"), ("20190903", "SR001", 4, "09:00:00"),
    ]  # fmt: skip
    path = tmp_path / "ctp.csv"
    lines = [f"{day},{name},10.5,{total},{clock},000,{book},{day}" for day, name, total, clock in rows]
    path.write_text("\n".join([CTP_HEAD, *lines]) + "\n")
    feed = CsvFeed(path)
    ticks = as_dicts(feed)
    shanghai = ZoneInfo("Asia/Shanghai")
    quotes = [tick for tick in ticks if tick["kind"] == 3]
    told = [dt.datetime.fromtimestamp(tick["ts_event"] // 10**9, shanghai).strftime("%m%d %H%M%S") for tick in quotes]
    assert told == [
        "0830 145959", "0830 210000", "0830 210000", "0830 232959", "0830 232959", "0830 232959", "0902 090000",
        "0902 090000", "0902 210000", "0902 210001", "0902 210000", "0903 090000",
    ]  # fmt: skip
    trades = [tick["size"] for tick in ticks if tick["action"] == "T"]
    assert trades == [90, 5, 5, 2, 6, 4, 2, 3, 2]


def test_the_zone_of_an_mt5_server_is_asked_for_and_never_guessed(tmp_path: Path) -> None:
    path = write_made_up(tmp_path, "mt5-ticks", 10)
    with pytest.raises(ConfigurationError, match=r"mt5-ticks does not know the zone .*: give it, as in zone="):
        strand.feeds.open(path)
    utc, athens = (strand.feeds.open(path, zone=zone).to_numpy() for zone in ("UTC", "Europe/Athens"))
    assert set((utc["ts_event"] - athens["ts_event"]).tolist()) == {7200 * 10**9}


def test_bars_of_firstrate_are_in_utc_for_crypto_and_of_a_zone_that_is_asked_for_where_the_name_does_not_tell(
    tmp_path: Path,
) -> None:
    line = "2026-07-06 09:30:00,1.5,2.5,1.25,2.25,100\n"

    def first(name: str, **options: str) -> np.datetime64:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(line)
        feed = strand.feeds.open(path, **options)
        assert feed.info.format == "csv"
        return np.datetime64(int(feed.to_numpy()["ts_event"][0]), "ns").astype("datetime64[m]")

    utc, new_york = np.datetime64("2026-07-06T09:30"), np.datetime64("2026-07-06T13:30")
    assert first("crypto_full_1min/BTC_full_1min.txt") == utc
    assert first("crypto_full_1min/AAPL_full_1min_adjsplitdiv.txt") == new_york
    assert first("AAPL_full_1hour_UNADJUSTED.txt") == new_york
    assert first("BTC_full_1min.txt", zone="UTC") == utc
    assert first("SPX_full_5min.txt", zone="America/New_York") == new_york
    for name in ("BTC_full_1min.txt", "SPX_full_5min.txt", "firstrate/EURUSD_week_1min.txt"):
        with pytest.raises(ConfigurationError, match=r"zone: firstrate-bars does not know the zone of .*: give it"):
            first(name)


def test_a_trade_of_okx_has_its_id_under_both_chinese_names(tmp_path: Path) -> None:
    path = write_made_up(tmp_path, "okx-trades-zh", 20)
    named = strand.feeds.open(path).to_numpy()
    path.write_bytes(path.read_bytes().replace("交易id".encode("gb18030"), "撮合id".encode("gb18030"), 1))
    assert np.array_equal(strand.feeds.open(path).to_numpy(), named)
    assert named["ref_id"][0] == 7_000_000


def test_an_action_of_b3_that_its_glossary_does_not_have_is_an_error(tmp_path: Path) -> None:
    lines = made_up("b3-trades", 3)
    lines[1][2] = "1"
    ticks, error = read(CsvFeed(write_made_up(tmp_path, "b3-trades", lines)))
    assert len(ticks) == 1
    with pytest.raises(FormatError, match=r"line 3: .*AcaoAtualizacao"):
        raise error or AssertionError


def test_an_odd_count_of_buyers_and_sellers_is_an_error(tmp_path: Path) -> None:
    lines = made_up("taifex-trades", 3)
    lines[1][5] = "7"
    path = write_made_up(tmp_path, "taifex-trades", lines)
    ticks, error = read(CsvFeed(path))
    assert len(ticks) == 1
    with pytest.raises(FormatError, match=r"line 3: .*it is odd where it counts the buyer and the seller: '7'"):
        raise error or AssertionError


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ("night = { begins = '18:00', ends = '06:00' }", "dates of trading days"),
        ("date_column = 'd'\nnight = { begins = '6pm', ends = '06:00' }", "'6pm' is not a time of day, as 18:00"),
        ("date_column = 'd'\nnight = { begins = '18:00', ends = '19:00' }", "19:00 is not in the morning after 18:00"),
        ("date_column = 'd'\nnight = { begins = '18:00', ends = '6:00', unless = '[' }", "is not a regular expression"),
    ],
)
def test_a_night_that_cannot_be_names_its_key(keys: str, said: str, tmp_path: Path) -> None:
    assert "[time]\n" in PROFILE
    (tmp_path / "mine.toml").write_text(PROFILE.replace("[time]\n", f"[time]\n{keys}\n"))
    (tmp_path / "mine.csv").write_text(MINE)
    with pytest.raises(ConfigurationError, match=said):
        CsvFeed(tmp_path / "mine.csv", profile=tmp_path / "mine.toml")
