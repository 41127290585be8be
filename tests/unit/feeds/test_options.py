"""Readers' options as a command line gives them."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from click.testing import CliRunner
from feed_samples import itch_seconds
from hypothesis import given
from hypothesis import strategies as st
from reading import ticks_of
from typed_calls import kinds, named

import strand
from strand import feeds
from strand.command.cli import cli
from strand.errors import ConfigurationError, UnknownSymbolError
from strand.feeds.base import Selection
from strand.feeds.formats.registry import formats
from strand.feeds.io.sources import InflateLimits
from strand.feeds.opening import FeedOptions, ReaderOptions, option_values
from strand.feeds.times import Moment, as_date, date_in_name, midnight_ns
from strand.feeds.write.npy import write_npy
from strand.options import options_of
from strand.ticks import zeros

pytestmark = pytest.mark.python


@pytest.mark.parametrize(
    ("texts", "values"),
    [
        ({}, {}),
        ({"price_unit": "0.01", "levels": "5"}, {"price_unit": "0.01", "levels": 5}),
        ({"symbol": "600000", "session": "0000000001"}, {"symbol": "600000", "session": "0000000001"}),
        ({"port": "26400,26401"}, {"port": [26400, 26401]}),
        ({"size_unit": "0.001", "inexact": "round"}, {"size_unit": "0.001", "inexact": "round"}),
        ({"blank_headers": "true"}, {"blank_headers": True}),
        ({"columns.price.column": "zz,ipx"}, {"columns": {"price": {"column": ["zz", "ipx"]}}}),
        (
            {"columns.price": "a,b", "columns.price.unit": "0.01,1"},
            {"columns": {"price": {"column": "a,b", "unit": ["0.01", "1"]}}},
        ),
        ({"columns.price": "px", "columns.flags": ""}, {"columns": {"price": "px", "flags": None}}),
        ({"constants.kind": "2", "constants.side": "B"}, {"constants": {"kind": 2, "side": "B"}}),
        (
            {"limits.max_ratio": "1e3", "limits.max_bytes": "4096"},
            {"limits": InflateLimits(max_ratio=1000.0, max_bytes=4096)},
        ),
    ],
    ids=",".join,
)
def test_a_text_becomes_what_the_readers_take(texts: dict[str, str], values: dict[str, Any]) -> None:
    assert option_values(texts) == values


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        ({"prize": "1"}, r"prize: no reader has such an option; there are array, "),
        ({"date": "2026-01-05"}, r"date: give it by --date, an option of its own"),
        ({"on_bad_record": "skip"}, r"on_bad_record: give it by --on-bad-record, an option of its own"),
        ({"levels": "five"}, r"levels: 'five' is not a whole number"),
        ({"port": "1,b"}, r"port: '1,b' is not a whole number"),
        ({"blank_headers": "yes"}, r"blank_headers: give true or false, not 'yes'"),
        ({"columns": "price"}, r"columns: it is given as columns.NAME=VALUE"),
        ({"levels.bid": "1"}, r"levels.bid: it is given as levels=VALUE"),
        (
            {"columns.side.map": "x", "columns.side.map.buy": "B"},
            r"columns.side.map: given both as one text and by its entries",
        ),
        (
            {"columns.side.map.buy": "B", "columns.side.map": "x"},
            r"columns.side.map: given both as one text and by its entries",
        ),
        ({"limits.ratio": "3"}, r"limits.ratio: there are max_ratio, max_bytes"),
        ({"limits.max_bytes": "much"}, r"limits.max_bytes: 'much' is not a whole number"),
        ({"limits.max_ratio": "much"}, r"limits.max_ratio: 'much' is not a number"),
    ],
    ids=lambda given: ",".join(given) if isinstance(given, dict) else "",
)
def test_a_text_that_cannot_be_meant_is_refused(texts: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        option_values(texts)


def said_of(*arguments: object) -> Any:
    return json.loads(CliRunner().invoke(cli, [*map(str, arguments), "--json"], catch_exceptions=False).stdout)


@pytest.fixture
def coins(tmp_path: Path) -> Path:
    """Two trades of fractions of a coin, as an array of one symbol."""
    rows = np.zeros(2, [("at", "<i8"), ("p", "<i8"), ("q", "<i8")])
    rows["at"], rows["p"], rows["q"] = [10**18, 10**18 + 1], [7, 8], 3
    np.save(tmp_path / "coins.npy", rows)
    return tmp_path / "coins.npy"


OPTIONS = ("--feed", "columns.ts_recv=at", "--feed", "columns.price=p", "--feed", "columns.size=q",
           "--feed", "symbol=XBT", "--feed", "price_unit=1", "--feed", "constants.side=B")  # fmt: skip


@pytest.mark.parametrize("command", ["info", "replay"])
def test_commands_hand_them_to_the_reader(coins: Path, command: str) -> None:
    assert said_of(command, coins, *OPTIONS)["ticks"] == 2


def test_convert_hands_them_to_the_reader(coins: Path) -> None:
    out = coins.with_name("out.npz")
    assert said_of("convert", coins, out, *OPTIONS)["ticks"] == 2
    with feeds.open(out) as feed:
        (ticks,) = [batch.copy() for batch in feed.batches()]
        assert feed.symbols == ("XBT",)
    assert ticks["price"].tolist() == [7 * 10**9, 8 * 10**9]
    assert ticks["side"].tolist() == [b"B", b"B"]


def test_an_option_of_another_reader_is_refused(coins: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"open\(\) of npy files has no option 'levels'"):
        said_of("info", coins, *OPTIONS, "--feed", "levels=2")


def test_a_name_that_no_symbol_has_is_an_error_of_every_command(coins: Path) -> None:
    out = coins.with_name("out.npz")
    for arguments in (("info", coins), ("replay", coins), ("convert", coins, out)):
        with pytest.raises(UnknownSymbolError, match=r"nothing in .*coins.npy is named 'ETH\*'"):
            said_of(*arguments, *OPTIONS, "--symbols", "XBT,ETH*")
        with pytest.raises(UnknownSymbolError, match=r"is named 'xbt'; did you mean 'XBT'\?$"):
            said_of(*arguments, *OPTIONS, "--symbols", "xbt")
        with pytest.raises(ConfigurationError, match="cannot be read"):
            said_of(*arguments, *OPTIONS, "--symbols", "@no-such-file")
    assert not out.exists()
    assert said_of("convert", coins, out, *OPTIONS, "--symbols", "X*")["ticks"] == 2


def test_convert_says_what_it_passed_over(tmp_path: Path) -> None:
    import itch_reference as ref

    sound = ref.frame(ref.message("D", 1, 2, 3))
    bad = next(bytearray(body) for body in ref.every_type() if body[:1] == b"A")
    bad[19] = ord("?")  # neither B nor S
    (tmp_path / "20190130.itch").write_bytes(sound + ref.frame(bytes(bad)) + sound * 9)
    found = said_of("convert", tmp_path / "20190130.itch", tmp_path / "out.npz", "--on-bad-record", "skip")
    assert (found["ticks"], found["skipped"]["counts"]) == (10, {"bad side": 1})
    assert [sample["offset"] for sample in found["skipped"]["samples"]] == [len(sound)]


# ---- The options of readers, by name and type


def test_the_options_of_opening_are_those_of_all_readers() -> None:
    readers = [form.feed_class() for form in formats()]
    every = {name for reader in readers for name in options_of(reader)} - {"select", "symbols"}
    assert {*kinds(ReaderOptions), "date", "zone"} == every
    own = {name: kind for name, kind in kinds(FeedOptions).items() if name not in kinds(ReaderOptions)}
    assert own.items() <= named(strand.feeds.open).items()
    assert named(strand.feeds.open).keys() == kinds(FeedOptions).keys() | {"symbols", "start", "end"}
    for reader in readers:
        for name, kind in named(reader).items():
            if name in kinds(ReaderOptions):
                theirs = {*kind.removesuffix(" | None").replace("Path", "os.PathLike[str]").split(" | ")}
                theirs = {part.replace("os.os.PathLike[str]Like[str]", "os.PathLike[str]") for part in theirs}
                assert theirs <= {*kinds(ReaderOptions)[name].split(" | ")}, (reader, name)


# ---- Symbols and a span of time are chosen of a feed as a mask over all its ticks would choose them


def midnight() -> int:
    return midnight_ns(dt.date(2020, 1, 30))


@pytest.mark.parametrize(
    ("options", "seconds", "names"),
    [
        ({"symbols": ["S1"]}, range(10), ["S1"]),
        ({"symbols": ["S[23]"]}, range(10), ["S2"]),
        ({"start": "09:30:03"}, range(3, 10), ["S1", "S2"]),
        ({"start": "09:30:02.000000001", "end": "09:30:04"}, range(3, 4), ["S1", "S2"]),
        ({"end": "2020-01-30T14:30:02Z"}, range(2), ["S1", "S2"]),
        ({"end": "2020-01-30 09:30:02.5-05:00", "symbols": ["S2"]}, range(3), ["S2"]),
        ({"start": 1580394600 * 10**9 + 8 * 10**9}, range(8, 10), ["S1", "S2"]),
        ({"start": str(1580394609 * 10**9)}, range(9, 10), ["S1", "S2"]),
        ({"start": "10:00"}, range(0), ["S1", "S2"]),
    ],
)
@pytest.mark.parametrize("kind", ["itch", "npy"])
def test_a_selection_keeps_symbols_and_a_half_open_span(
    tmp_path: Path, kind: str, options: dict[str, Any], seconds: range, names: list[str]
) -> None:
    path = itch_seconds(tmp_path / "20200130.itch")
    whole = feeds.open(path)
    everything = ticks_of(whole)
    if kind == "npy":
        path = tmp_path / "20200130.npz"
        write_npy(path, everything, list(whole.symbols))
    feed = feeds.open(path, **options)
    kept = np.isin((everything["ts_recv"] - np.uint64(midnight())) // 10**9 - 34_200, list(seconds))
    kept &= np.isin(np.array(whole.symbols)[everything["instrument_id"]], names)
    np.testing.assert_array_equal(ticks_of(feed), everything[kept])


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 20)), max_size=30),
    st.lists(st.sampled_from(["A", "AB", "A*", "?", "[!A]", "b"]), max_size=2).map(tuple),
    st.none() | st.integers(0, 9),
    st.none() | st.integers(10, 20),
)
def test_a_mask_keeps_what_is_named_and_in_the_span(
    rows: list[tuple[int, int]], symbols: tuple[str, ...], start: int | None, end: int | None
) -> None:
    names, matching = ["A", "AB", "B", ""], {
        "A": {0}, "AB": {1}, "A*": {0, 1}, "?": {0, 2}, "[!A]": {2}, "b": set(),
    }  # fmt: skip
    select = Selection(symbols, start, end)
    assert bool(select) == (bool(symbols) or start is not None or end is not None)
    ticks = zeros(len(rows))
    ticks["instrument_id"], ticks["ts_recv"] = [key for key, _ in rows], [at for _, at in rows]
    wanted = set(range(4)) if not symbols else set().union(*(matching[pattern] for pattern in symbols))
    expected = [key in wanted and (start is None or at >= start) and (end is None or at < end) for key, at in rows]
    assert select.mask(ticks, select.keys(names)).tolist() == expected


# ---- Moments as people write them: what they are in ns, and what is refused


def test_a_time_of_day_needs_a_date(tmp_path: Path) -> None:
    path = itch_seconds(tmp_path / "undated")
    with pytest.raises(ConfigurationError, match="does not say its date"):
        feeds.open(path, start="09:30")
    assert len(ticks_of(feeds.open(path, start="09:30:09", date="2020-01-30"))) == 2
    assert len(ticks_of(feeds.open(path, start=34_209 * 10**9))) == 2


EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
SECONDS = st.datetimes(dt.datetime(1970, 1, 2), dt.datetime(2261, 1, 1)).map(lambda at: at.replace(microsecond=0))


def ns_of(moment: dt.datetime) -> int:
    return (moment - EPOCH) // dt.timedelta(seconds=1) * 10**9


@given(SECONDS, st.integers(0, 10**9 - 1), st.integers(-14 * 60, 14 * 60))
def test_a_moment_with_a_zone_is_what_datetime_says_of_it(at: dt.datetime, ns: int, minutes: int) -> None:
    zone = dt.timezone(dt.timedelta(minutes=minutes))
    text = f"{at:%Y-%m-%dT%H:%M:%S}.{ns:09}{at.replace(tzinfo=zone):%z}"
    moment = Moment.parse("start", text)
    assert moment is not None
    assert moment.ns(None, "file") == ns_of(at.replace(tzinfo=zone)) + ns


@given(st.dates(dt.date(1970, 1, 2), dt.date(2261, 1, 1)), st.times(), st.sampled_from([0, 3, 6]))
def test_a_time_of_day_is_one_of_new_york(date: dt.date, at: dt.time, digits: int) -> None:
    micro = at.microsecond // 10 ** (6 - digits) * 10 ** (6 - digits)
    text = f"{at:%H:%M:%S}" + (f".{micro:06}"[: digits + 1] if digits else "")
    moment = Moment.parse("end", text)
    assert moment is not None
    assert moment.needs_date
    wall = dt.datetime.combine(date, at.replace(microsecond=0), ZoneInfo("America/New_York"))
    assert moment.ns(date, "file") == ns_of(wall) + micro * 1000


# ---- The date in a file's name, dates as options, and the first instant of a day


@pytest.mark.parametrize(
    ("name", "date"),
    [
        ("01302019.NASDAQ_ITCH50", "2019-01-30"),
        ("01302019.NASDAQ_ITCH50.gz", "2019-01-30"),
        ("S010220-v50.txt.gz", "2020-01-02"),
        ("20190130.PSX_ITCH_50", "2019-01-30"),
        ("ex20101224.TEST_ITCH_50", "2010-12-24"),
        ("itch-2021-07-01.bin", "2021-07-01"),
        ("12202019.NASDAQ_ITCH50", "2019-12-20"),
        ("13322019.NASDAQ_ITCH50", None),
        ("itch.bin", None),
        ("120190130.bin", None),
        ("00010203.bin", None),
    ],
)
def test_the_date_comes_from_the_name(name: str, date: str | None) -> None:
    found = date_in_name(Path("20200101") / name)
    assert (found.isoformat() if found else None) == date


def test_midnight_is_new_yorks_summer_and_winter() -> None:
    assert midnight_ns(dt.date(2019, 1, 30)) == 1_548_824_400 * 10**9
    assert midnight_ns(dt.date(2019, 7, 30)) == 1_564_459_200 * 10**9


def test_a_date_may_be_an_object() -> None:
    assert as_date(dt.datetime(2019, 1, 30, 9)) == as_date(dt.date(2019, 1, 30)) == dt.date(2019, 1, 30)
