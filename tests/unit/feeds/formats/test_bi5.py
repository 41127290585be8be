"""Dukascopy's ticks: one hour and folders of hours, what their names say, and files that are not as they have to be."""

from __future__ import annotations

import datetime as dt
import lzma
import random
import struct
from pathlib import Path
from typing import Any

import bi5_reference as ref
import itch_reference as itch
import numpy as np
import pytest

import strand
from strand import feeds
from strand.errors import ConfigurationError, FormatError, TruncatedFeedError, UnknownFormatError
from strand.feeds.formats.bi5 import price_power
from strand.feeds.mapping.values import doubles_of

pytestmark = pytest.mark.python

#: A Monday.
HOUR = dt.datetime(2019, 2, 4, 10, tzinfo=dt.UTC)
#: Digits of prices behind the point.
DIGITS = {"EURUSD": 5, "USDJPY": 3, "BTCUSD": 1}


def hours(count: int, first: dt.datetime = HOUR) -> list[dt.datetime]:
    return [first + dt.timedelta(hours=at) for at in range(count)]


def shown(path: Path, **options: object) -> list[tuple[object, ...]]:
    """Ticks in their order: symbol, time, bid, ask and both sizes."""
    with feeds.open(path, **options) as feed:  # type: ignore[arg-type]
        ticks, names = feed.to_numpy(), feed.symbols
    fields = ("ts_event", "bid_price", "ask_price", "bid_size", "ask_size")
    symbols = [names[key] for key in ticks["instrument_id"].tolist()]
    return list(zip(symbols, *(ticks[field].tolist() for field in fields), strict=True))


def test_folders_of_hours_have_the_ticks_that_an_independent_decoder_finds(tmp_path: Path) -> None:
    rng, wanted = random.Random(1), []
    for symbol, digits in DIGITS.items():
        for hour in hours(60, dt.datetime(2019, 12, 30, 20, tzinfo=dt.UTC)):
            count = rng.choice([0, 1, 40])
            data = ref.packed(ref.some(rng.randrange(1 << 30), count))
            path = ref.write(tmp_path, symbol, hour, data)
            wanted += [(symbol, *tick) for tick in ref.read(path, digits)]
    order = {symbol: at for at, symbol in enumerate(sorted(DIGITS))}
    wanted.sort(key=lambda tick: (tick[1], order[tick[0]]))
    assert shown(tmp_path) == wanted
    for folder in ("EURUSD", "EURUSD/2020", "EURUSD/2020/00", "EURUSD/2020/00/01"):
        # Months count from 00: the last folder is January the first.
        day = dt.datetime(2020, 1, 1, tzinfo=dt.UTC).timestamp() * 1e9
        within = [tick for tick in wanted if tick[0] == "EURUSD" and (folder == "EURUSD" or tick[1] >= day)]
        within = [tick for tick in within if not folder.endswith("00/01") or tick[1] < day + 86_400 * 1e9]
        assert shown(tmp_path / folder) == within


def test_volumes_stand_for_their_shortest_decimals_in_units_of_the_instrument(tmp_path: Path) -> None:
    path = ref.write(tmp_path, "EURUSD", HOUR, ref.packed([(0, 114_343, 114_341, 9.35, 1e-6), (5, 2, 1, 123.45, 0.1)]))
    ticks = feeds.open(path).to_numpy()
    assert ticks["ask_size"].tolist() == [9_350_000, 123_450_000]
    assert ticks["bid_size"].tolist() == [1, 100_000]
    assert ticks["ask_price"].tolist() == [1_143_430_000, 20_000]
    assert set(ticks["side"].tolist()) == {b"N"}
    assert set(ticks["kind"].tolist()) == {strand.ticks.KIND_QUOTE}
    assert feeds.open(path, size_unit="1e-1").to_numpy()["bid_size"].tolist() == [10, 1_000_000]
    with pytest.raises(FormatError, match="size_unit"):
        feeds.open(path, size_unit="10").to_numpy()


def test_short_floats_become_the_doubles_of_their_shortest_decimals() -> None:
    rng = np.random.default_rng(7)
    floats = np.concatenate(
        [
            rng.integers(0, 1 << 32, 20_000, dtype=np.uint32).view(np.float32),
            (rng.integers(0, 10**7, 20_000) / 10.0 ** rng.integers(0, 8, 20_000)).astype(np.float32),
        ]
    )
    floats = floats[~np.isnan(floats)]
    assert doubles_of(floats).tolist() == [float(str(each)) for each in floats]


@pytest.mark.parametrize(
    ("symbol", "power"),
    [("EURUSD", -5), ("usdjpy", -3), ("SEKJPY", -5), ("USDCZK", -4), ("XAUUSD", -3), ("XAUJPY", -1), ("BTCUSD", -1),
     ("ADAUSD", -3), ("AAPLUSUSD", -3), ("7203JPJPY", -1), ("USA500IDXUSD", -3), ("VOLIDXUSD", -2),
     ("COPPERCMDUSD", -4), ("LIGHTCMDUSD", -3), ("BUNDTREUR", -3), ("BCHCHF", -1), ("AUDCNH", None),
     ("NOBODY", None)],
)  # fmt: skip
def test_an_instrument_has_the_factor_that_public_lists_give_it(symbol: str, power: int | None) -> None:
    assert price_power(symbol) == power


def test_prices_of_an_unknown_instrument_need_their_worth(tmp_path: Path) -> None:
    path = ref.write(tmp_path, "NOBODY", HOUR, ref.packed([(0, 12_346, 12_345, 1, 1)]))
    with pytest.raises(ConfigurationError, match="in the prices of NOBODY is worth") as error:
        feeds.open(path)
    assert error.value.field == "price_unit"
    assert feeds.open(path, price_unit="0.01").to_numpy()["price"].tolist() == [123_450_000_000]


def test_only_instruments_that_are_selected_need_their_worth(tmp_path: Path) -> None:
    for symbol in ("EURUSD", "ZZZQQQ"):
        ref.write(tmp_path, symbol, HOUR, ref.packed(ref.some(1, 10)))
    with feeds.open(tmp_path, symbols=["EURUSD"]) as feed:
        assert feed.info.price_unit == 1e-5
        assert len(feed.to_numpy()) == 10
    with pytest.raises(ConfigurationError, match="prices of ZZZQQQ"):
        feeds.open(tmp_path, symbols=["*"])


def test_a_file_outside_of_its_folders_needs_what_its_path_does_not_say(tmp_path: Path) -> None:
    data = ref.packed(ref.some(3))
    same = shown(ref.write(tmp_path, "EURUSD", HOUR, data))
    said: dict[str, Any] = {"symbol": "EURUSD", "date": "2019-02-04", "hour": 10}
    for name, needs in (("EURUSD-10h_ticks.bi5", ("symbol", "date")), ("eurusd", ("symbol", "date", "hour"))):
        path = tmp_path / name
        path.write_bytes(data)
        given = {option: said[option] for option in needs}
        assert shown(path, **given) == same
        for option in needs:
            with pytest.raises(ConfigurationError, match="SYMBOL/YYYY/MM/DD") as error:
                feeds.open(path, **{name: value for name, value in given.items() if name != option})
            assert error.value.field == option


@pytest.mark.parametrize(("option", "given"), [("symbol", "USDJPY"), ("date", "2019-01-04"), ("hour", 11)])
def test_an_option_that_the_path_contradicts_is_an_error(tmp_path: Path, option: str, given: Any) -> None:
    path = ref.write(tmp_path, "EURUSD", HOUR, ref.packed(ref.some(3)))
    with pytest.raises(ConfigurationError, match=r"leave it out: the path .* says (EURUSD|2019-02-04|10)$") as error:
        feeds.open(path, **{option: given})
    assert error.value.field == option
    feeds.open(path, symbol="EURUSD", date="2019-02-04", hour=10).close()


@pytest.mark.parametrize(("folders", "fault"), [("2019/12/04", "months count from 00"), ("2019/01/30", "no date")])
def test_folders_that_say_no_date_are_an_error(tmp_path: Path, folders: str, fault: str) -> None:
    path = tmp_path / "EURUSD" / folders / "10h_ticks.bi5"
    path.parent.mkdir(parents=True)
    path.write_bytes(ref.packed(ref.some(3)))
    with pytest.raises(FormatError, match=fault):
        feeds.open(path)


def test_a_cut_hour_is_an_error_after_its_ticks_or_counted_and_the_next_hour_comes(tmp_path: Path) -> None:
    first, second = hours(2)
    whole = ref.packed(ref.some(1, 3000))
    path = ref.write(tmp_path, "EURUSD", first, whole[: len(whole) // 2])
    ref.write(tmp_path, "EURUSD", second, ref.packed(ref.some(2, 30)))
    with pytest.raises(TruncatedFeedError, match="get the whole file") as error:
        strand.replay(tmp_path, "count")
    assert str(error.value.path) == str(path)
    before = error.value.partial.ticks
    assert 1000 < before < 3000
    result = strand.replay(tmp_path, "count", feed_options={"on_bad_record": "skip"})
    assert result.ticks == before + 30
    assert result.skipped.counts == {"cut file": 1}


def test_damage_within_an_hour_is_an_error_or_counted(tmp_path: Path) -> None:
    data = bytearray(ref.packed(ref.some(1, 3000)))
    data[200:260] = bytes(60)
    path = ref.write(tmp_path, "EURUSD", HOUR, bytes(data))
    with pytest.raises(FormatError):
        feeds.open(path).to_numpy()
    with feeds.open(path, on_bad_record="skip") as feed:
        list(feed)
        assert feed.skipped.total


@pytest.mark.parametrize(
    ("record", "fault"),
    [((3_600_000, 2, 1, 1, 1), "column 'ms'"), ((7, 2, 1, -1, 1), "is below 0"),
     ((7, 2, 1, float("nan"), 1), "record 3"),
     ((7, 2, 1, 1, float("inf")), "record 3"), ((7, 2, 1, 0.123_456_7, 1), "size_unit")],
)  # fmt: skip
def test_a_bad_record_is_an_error_at_its_place_or_left_out(tmp_path: Path, record: ref.Record, fault: str) -> None:
    good = [(1, 114_002, 114_001, 1.0, 1.0), (2, 114_002, 114_001, 1.0, 1.0), (9, 114_003, 114_001, 1.0, 1.0)]
    path = ref.write(tmp_path, "EURUSD", HOUR, ref.packed([*good[:2], record, good[2]]))
    with pytest.raises(FormatError, match=r"byte 40: record 3.*") as error, feeds.open(path) as feed:
        list(feed)
    assert fault in str(error.value)
    with feeds.open(path, on_bad_record="skip") as feed:
        assert feed.to_numpy()["sequence"].tolist() == [1, 2, 4]
        assert feed.skipped.counts == {"bad record": 1}


def test_times_that_run_back_are_raised_and_counted(tmp_path: Path) -> None:
    path = ref.write(tmp_path, "EURUSD", HOUR, ref.packed([(9, 2, 1, 1, 1), (5, 2, 1, 1, 1), (10, 2, 1, 1, 1)]))
    with feeds.open(path) as feed:
        ticks = feed.to_numpy()
        assert feed.statistics()["times_raised"] == 1
    assert np.diff(ticks["ts_recv"]).tolist() == [0, 10**6]
    assert np.diff(ticks["ts_event"]).tolist() == [-4 * 10**6, 5 * 10**6]


def test_hours_without_a_file_are_counted_and_a_run_warns_of_them(tmp_path: Path) -> None:
    friday = dt.datetime(2019, 2, 8, 20, tzinfo=dt.UTC)
    for hour in (friday, friday + dt.timedelta(hours=51), friday + dt.timedelta(hours=54)):
        ref.write(tmp_path, "EURUSD", hour, ref.packed(ref.some(1, 5)))
    ref.write(tmp_path, "EURUSD", friday + dt.timedelta(hours=52), b"")
    result = strand.replay(tmp_path, "count")
    counts = result.feed_statistics
    assert (counts["hours"], counts["hours_empty"]) == (4, 1)
    # 49 hours from Friday 21:00 on, then Sunday 22:00 and Monday 01:00.
    assert (counts["hours_missing"], counts["weekend_hours_missing"]) == (2, 49)
    (warning,) = result.warnings
    assert (warning.kind, warning.count, warning.example) == ("missing hours", 2, "EURUSD 2019-02-10 22h UTC")


def test_hours_without_a_file_outside_of_a_selection_are_not_warned_of(tmp_path: Path) -> None:
    for at in (0, 1, 4):
        ref.write(tmp_path, "EURUSD", HOUR + dt.timedelta(hours=at), ref.packed(ref.some(at, 10)))
    for at in (0, 9):
        ref.write(tmp_path, "USDJPY", HOUR + dt.timedelta(hours=at), ref.packed(ref.some(at, 10)))
    chosen: dict[str, Any] = {"symbols": ["EURUSD"], "start": "2019-02-04T10:00Z"}
    assert strand.replay(tmp_path, "count", **chosen, end="2019-02-04T12:00Z", strict=True).warnings == ()
    (warning,) = strand.replay(tmp_path, "count", **chosen, end="2019-02-04T12:01Z").warnings
    assert (warning.kind, warning.count, warning.example) == ("missing hours", 1, "EURUSD 2019-02-04 12h UTC")


def test_an_hour_that_is_named_twice_is_an_error(tmp_path: Path) -> None:
    one = ref.write(tmp_path / "a", "EURUSD", HOUR, ref.packed(ref.some(1)))
    other = ref.write(tmp_path / "b", "EURUSD", HOUR, ref.packed(ref.some(2)))
    with pytest.raises(ConfigurationError, match="both are EURUSD of 2019-02-04 10h UTC"):
        feeds.open([one, other])


def test_hours_outside_of_a_selection_are_not_opened(tmp_path: Path) -> None:
    for at, hour in enumerate(hours(3)):
        ref.write(tmp_path, "EURUSD", hour, ref.packed(ref.some(at, 10)) if at == 1 else ref.packed(ref.some(1))[:30])
    ref.write(tmp_path, "USDJPY", HOUR, ref.packed(ref.some(1))[:30])
    chosen = {"symbols": ["EURUSD"], "start": "2019-02-04T11:00Z", "end": "2019-02-04T12:00Z"}
    assert len(shown(tmp_path, **chosen)) == 10


def test_an_hour_alone_without_ticks_is_an_empty_feed(tmp_path: Path) -> None:
    path = ref.write(tmp_path, "EURUSD", HOUR, b"")
    with pytest.raises(strand.errors.EmptyFeedError):
        strand.replay(path, "count")
    assert strand.replay(path, "count", allow_empty=True).ticks == 0


def test_a_web_page_in_place_of_an_hour_is_called_that(tmp_path: Path) -> None:
    path = ref.write(tmp_path, "EURUSD", HOUR, b"<html><body>404 Not Found</body></html>")
    with pytest.raises(UnknownFormatError, match="looks like a web page"):
        feeds.open(tmp_path / "EURUSD")
    assert path.exists()


def test_bars_of_dukascopy_are_refused_by_their_name(tmp_path: Path) -> None:
    bars = b"".join(struct.pack(">5if", 60 * at, 114_000, 114_003, 113_999, 114_005, 12.5) for at in range(30))
    path = tmp_path / "BID_candles_min_1.bi5"
    path.write_bytes(ref.compressed(bars))
    with pytest.raises(UnknownFormatError, match=r"looks like Dukascopy.s bars, which are not read: .*h_ticks"):
        feeds.open(path)


@pytest.mark.parametrize("size", ["known", "unknown"])
def test_any_format_is_read_through_lzma_alone(tmp_path: Path, size: str) -> None:
    data = b"".join(map(itch.frame, itch.every_type()))
    path = tmp_path / "20190130.itch.lzma"
    path.write_bytes(ref.compressed(data) if size == "known" else lzma.compress(data, lzma.FORMAT_ALONE))
    (tmp_path / "plain").mkdir()
    plain = tmp_path / "plain" / "20190130.itch"
    plain.write_bytes(data)
    assert feeds.open(path).to_numpy().tobytes() == feeds.open(plain).to_numpy().tobytes()
