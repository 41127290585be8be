"""Ready-made bars keep their interval: longer bars made of them are what a resample of the file gives."""

from __future__ import annotations

import datetime as dt
import itertools
import random
import struct
import zipfile
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import numpy as np
import pytest

import strand
from strand import testing
from strand.errors import ConfigurationError
from strand.feeds.merge.feeds import merge_feeds
from strand.feeds.write.conversion import convert
from tests.support.dbn_reference import ALL_DAYS, DAY, metadata, record

dbn = pytest.importorskip("databento_dbn")
MINUTE = 60 * 10**9
START = 20_000 * DAY + 9 * 60 * MINUTE + 28 * MINUTE  # 09:28
PRICE = 10**9


class Bar(NamedTuple):
    start: int
    open: int
    high: int
    low: int
    close: int
    volume: int


def minutes(count: int = 40, seed: int = 3) -> list[Bar]:
    """Bars of a minute with gaps between them; the extremes of some are known from no close."""
    rng, found = random.Random(seed), []
    for at in range(count):
        if rng.random() < 0.2:
            continue
        first, last = (rng.randrange(90, 110) * PRICE for _ in range(2))
        high, low = max(first, last) + rng.randrange(5) * PRICE, min(first, last) - rng.randrange(5) * PRICE
        found.append(Bar(START + at * MINUTE, first, high, low, last, rng.randrange(1, 900)))
    return found


def resampled(bars: list[Bar], every: int) -> list[Bar]:
    """Plain Python's resample by the bars' starts."""
    found: dict[int, list[Bar]] = {}
    for bar in bars:
        found.setdefault(bar.start // every * every, []).append(bar)
    return [
        Bar(
            start, group[0].open, max(b.high for b in group), min(b.low for b in group), group[-1].close,
            sum(b.volume for b in group),
        )
        for start, group in found.items()
    ]  # fmt: skip


def write(folder: Path, dialect: str, bars: list[Bar]) -> Path:
    rows = [(bar.start, 33, 3, 7, *bar[1:], "ES") for bar in bars]
    names = ["ts_event", "rtype", "publisher_id", "instrument_id", "open", "high", "low", "close", "volume", "symbol"]
    if dialect == "dbn":
        path = folder / "day.dbn"
        records = [record(33, struct.pack("<qqqqQ", *bar[1:]), event=bar.start) for bar in bars]
        head = metadata(3, {"ES": [(*ALL_DAYS, "7")]}, schema=dbn.Schema.OHLCV_1M)
        path.write_bytes(head + b"".join(records))
        return path
    if dialect == "csv":
        path = folder / "day.csv"
        path.write_text("\n".join(",".join(map(str, row)) for row in [names, *rows]) + "\n")
        return path
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    types = [pa.uint64(), pa.uint8(), pa.uint16(), pa.uint32(), *[pa.int64()] * 4, pa.uint64(), pa.string()]
    columns = [pa.array(values, kind) for values, kind in zip(zip(*rows, strict=True), types, strict=True)]
    parquet.write_table(pa.table(columns, names), folder / "day.parquet")
    return folder / "day.parquet"


def made(source: Any, handler: Any, **options: Any) -> list[Bar]:
    bars = strand.replay(source, handler, **options).outputs["bars"]
    return [Bar(*(int(bar[name]) for name in Bar._fields)) for bar in bars]


def write_named(folder: Path, dialect: str, bars: list[Bar]) -> Path:
    """Files whose names or folders say how long their bars are."""
    currency = [(bar.start, *(number // PRICE for number in bar[1:5]), bar.volume) for bar in bars]
    if dialect == "binance":
        path = folder / "BTCUSDT-1m-2024-10-04.csv"
        lines = [
            f"{start // 1000},{o}.0,{h}.0,{low}.0,{c}.0,{v}.0,{(start + MINUTE) // 1000 - 1},1.5,7,0.5,1.0,0"
            for start, o, h, low, c, v in currency
        ]
    elif dialect == "kraken":
        path = folder / "XBTUSD_1.csv"
        lines = [f"{start // 10**9},{o}.0,{h}.0,{low}.0,{c}.0,{v}.0,7" for start, o, h, low, c, v in currency]
    else:
        path = folder / "equity" / "usa" / "minute" / "spy" / "20241004_trade.zip"
        path.parent.mkdir(parents=True)
        midnight = 20_000 * DAY + 4 * 60 * MINUTE  # in New York
        lines = [
            f"{(start - midnight) // 10**6},{','.join(str(number * 10_000) for number in corners)}"
            for start, *corners in currency
        ]
        lines = [f"{line.rpartition(',')[0]},{bar.volume}" for line, bar in zip(lines, bars, strict=True)]
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("20241004_spy_minute_trade.csv", "\n".join(lines) + "\n")
        return path
    path.write_text("\n".join(lines) + "\n")
    return path


def write_nautilus(folder: Path, bars: list[Bar]) -> Path:
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")

    def fixed(numbers: list[int], *, signed: bool) -> Any:
        return pa.array([number.to_bytes(8, "little", signed=signed) for number in numbers], pa.binary(8))

    columns = {
        name: fixed([getattr(bar, name) for bar in bars], signed=True) for name in ("open", "high", "low", "close")
    }
    columns["volume"] = fixed([bar.volume * PRICE for bar in bars], signed=False)
    ends = pa.array([bar.start + MINUTE for bar in bars], pa.uint64())
    kept = {"bar_type": "BTCUSDT.BINANCE-1-MINUTE-LAST-EXTERNAL", "instrument_id": "BTCUSDT.BINANCE",
            "price_precision": "2", "size_precision": "0"}  # fmt: skip
    table = pa.table(columns | {"ts_event": ends, "ts_init": ends}).replace_schema_metadata(kept)
    parquet.write_table(table, folder / "bars.parquet")
    return folder / "bars.parquet"


@pytest.mark.parametrize("dialect", ["binance", "kraken", "lean", "nautilus"])
def test_longer_bars_are_the_resample_of_a_file_whose_name_says_the_length(tmp_path: Path, dialect: str) -> None:
    bars = minutes()
    path = write_nautilus(tmp_path, bars) if dialect == "nautilus" else write_named(tmp_path, dialect, bars)
    with strand.feeds.open(path) as feed:
        assert feed.info.bars == MINUTE
        units = round(1 / feed.info.size_unit)
    for every in ("5m", "10m"):
        plain = resampled(bars, int(every[:-1]) * MINUTE)
        assert made(path, strand.bars(every)) == [bar._replace(volume=bar.volume * units) for bar in plain]


def test_the_length_of_bars_is_said_by_the_option_where_no_name_says_it(tmp_path: Path) -> None:
    bars = minutes()
    path = write_named(tmp_path, "kraken", bars).rename(tmp_path / "XBTUSD.csv")
    profile = tmp_path / "own.toml"
    text = (files("strand.feeds.formats.csv") / "profiles" / "kraken-ohlcvt.toml").read_text("utf-8")
    profile.write_text(text.replace("file_name = '^([^_]+)_\\d+\\.csv'", 'constant = "XBTUSD"'))
    with pytest.raises(ConfigurationError, match="bars='1m'"):
        strand.feeds.open(path, profile=profile)
    found = made(path, strand.bars("5m"), feed_options={"profile": profile, "bars": "1m"})
    assert found == [bar._replace(volume=bar.volume * 10**8) for bar in resampled(bars, 5 * MINUTE)]


def test_weekly_klines_keep_their_weeks(tmp_path: Path) -> None:
    starts = [1_767_571_200_000 + week * 7 * DAY // 10**6 for week in range(2)]  # Mondays
    path = tmp_path / "BTCUSDT-1w-2026-01.csv"
    path.write_text("".join(f"{start},4.5,6,3,5,7.25,{start + 604_799_999},0.05,3,0,0,0\n" for start in starts))
    with strand.feeds.open(path) as feed:
        assert (feed.info.bars, list(feed.symbols)) == (7 * DAY, ["BTCUSDT"])
    for handler in (strand.bars("7d"), strand.bars("14d"), strand.vwap("7d")):
        with pytest.raises(ConfigurationError, match=r"weeks from Monday on.* ticks=1"):
            strand.replay(path, handler)
    found = strand.replay(path, strand.bars(ticks=1)).outputs["bars"]
    assert [bar["ts"] for bar in found] == [start * 10**6 + 7 * DAY for start in starts]
    for bar in found:
        corners = [4_500_000_000, 6 * PRICE, 3 * PRICE, 5 * PRICE]
        assert [bar[name] for name in ("open", "high", "low", "close")] == corners


def test_calendar_months_end_with_their_months(tmp_path: Path) -> None:
    edges = [np.datetime64(f"2024-0{month}-01", "ns").astype(np.int64) for month in (1, 2, 3, 4)]
    path = tmp_path / "BTCUSDT-1mo-2024-01.csv"
    lines = [f"{start // 10**6},4.5,6,3,5,{at + 1},{end // 10**6 - 1},0.05,3,0,0,0\n" for at, (start, end)
             in enumerate(itertools.pairwise(edges))]  # fmt: skip
    path.write_text("".join(lines))
    converted = tmp_path / "months.parquet"
    convert(path, converted)
    for source in (path, converted, [path, write_months(tmp_path / "ETHUSDT-1mo-2024-01.csv", path)]):
        with strand.feeds.open(source) as feed:
            assert feed.info.bars == 31 * DAY
            assert sorted(set(feed.to_numpy()["ts_recv"].tolist())) == edges[1:]
        for handler in (strand.bars("31d"), strand.bars("1d"), strand.vwap("31d")):
            with pytest.raises(ConfigurationError, match=r"every: .*calendar months of UTC.* ticks=1"):
                strand.replay(source, handler)
        months = strand.Sessions(np.array([*itertools.pairwise(edges)]))
        found = strand.replay(source, strand.bars("31d", sessions=months)).outputs["bars"]
        by_month = sorted({(bar["start"], bar["end"], bar["volume"]) for bar in found})
        assert by_month == [(start, end, (at + 1) * 10**8) for at, (start, end) in enumerate(itertools.pairwise(edges))]
    assert len(strand.replay(path, strand.bars(ticks=1)).outputs["bars"]) == 3


def write_months(path: Path, like: Path) -> Path:
    path.write_text(like.read_text())
    return path


@pytest.mark.parametrize(
    ("zone", "stamps", "ends"),
    [
        ("America/New_York", ["20140309 00:00", "20140309 01:00", "20140309 03:00"], ["06", "07", "08"]),
        ("America/New_York", ["20141101 23:00", "20141102 00:00", "20141102 02:00"], ["04", "05", "08"]),
    ],
)
def test_an_hour_that_ends_where_clocks_change_is_an_hour(
    tmp_path: Path, zone: str, stamps: list[str], ends: list[str]
) -> None:
    path = tmp_path / "hour_spy.csv"
    path.write_text("".join(f"{stamp},1,1,1,1,5\n" for stamp in stamps))
    with strand.feeds.open(path, zone=zone) as feed:
        ticks = feed.to_numpy()
    assert (ticks["ts_recv"] - ticks["ts_event"] == 60 * MINUTE).all()
    day = stamps[-1][:8]
    expected = [np.datetime64(f"{day[:4]}-{day[4:6]}-{day[6:]}T{hour}", "ns").astype(np.int64) for hour in ends]
    assert ticks["ts_recv"][::4].tolist() == expected


def test_a_day_on_which_clocks_change_ends_at_its_midnight(tmp_path: Path) -> None:
    days = ["2014-03-08", "2014-03-09", "2014-03-10", "2014-11-01", "2014-11-02", "2014-11-03"]
    path = tmp_path / "daily" / "spy.csv"
    path.parent.mkdir()
    path.write_text("".join(f"{day.replace('-', '')} 00:00,1,1,1,1,5\n" for day in days))
    zone = ZoneInfo("America/New_York")
    midnights = [dt.datetime.fromisoformat(day).replace(tzinfo=zone) for day in days]
    with strand.feeds.open(path) as feed:
        ticks = feed.to_numpy()[::4]
    assert ticks["ts_event"].tolist() == [int(at.timestamp()) * 10**9 for at in midnights]
    assert ticks["ts_recv"].tolist() == [int((at + dt.timedelta(days=1)).timestamp()) * 10**9 for at in midnights]
    bars = strand.replay(path, strand.bars("1d", sessions="00:00-00:00 America/New_York mon-sun")).outputs["bars"]
    assert [bar["start"] for bar in bars] == ticks["ts_event"].tolist()


def test_quote_bars_are_the_quotes_at_their_ends(tmp_path: Path) -> None:
    path = tmp_path / "20161007_btcusd_minute_quote.csv"
    rows = [(0, 613.0, 2.5, 613.5, 1), (60_000, 613.25, 1, 613.5, 2), (180_000, 612.0, 4, 614.0, 8)]
    path.write_text("".join(f"{at},1,2,1,{bid},{bs},3,4,3,{ask},{size}\n" for at, bid, bs, ask, size in rows))
    with strand.feeds.open(path) as feed:
        assert feed.info.bars is None
    start = np.datetime64("2016-10-07", "ns").astype(np.int64)
    found = strand.replay(path, strand.spread("1m")).outputs["spread"]
    # From a bar's end on its quote stands, until the next bar's end.
    quoted = {int(one["start"] - start) // MINUTE: one["quoted"] for one in found}
    assert (quoted[1], quoted[2]) == (0.5, 0.25)
    assert strand.replay(path, "bbo").rows["BTCUSD"]["bid"] == 612 * PRICE


@pytest.mark.parametrize("several", [False, True])
def test_days_of_new_york_are_no_days_of_utc(tmp_path: Path, several: bool) -> None:
    folder = tmp_path / "daily"
    folder.mkdir()
    for name in ("spy", "qqq")[: several + 1]:
        with zipfile.ZipFile(folder / f"{name}.zip", "w") as archive:
            archive.writestr(f"{name}.csv", "20140307 00:00,1870000,1880000,1860000,1875000,1000\n")
    source = sorted(folder.iterdir())
    for handler in (strand.bars("1d"), strand.vwap("1d"), strand.trade_stats("2d")):
        with pytest.raises(ConfigurationError, match=r"days of America/New_York.* sessions="):
            strand.replay(source, handler)
    day = strand.bars("1d", sessions="00:00-00:00 America/New_York mon-sun")
    for bar in strand.replay(source, day).outputs["bars"]:
        midnight = 1_394_168_400 * 10**9  # of 2014-03-07 in New York
        assert (bar["start"], bar["end"], bar["volume"]) == (midnight, midnight + DAY, 1000)


@pytest.mark.cells(1)
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("dialect", ["dbn", "csv", "parquet"])
def test_longer_bars_are_the_resample_of_the_file(tmp_path: Path, dialect: str, workers: int) -> None:
    bars = minutes()
    path = write(tmp_path, dialect, bars)
    for every, ns in (("1m", MINUTE), ("5m", 5 * MINUTE), ("30m", 30 * MINUTE)):
        for handler in (strand.bars(every), strand.bars(every, zero_sizes="price")):
            assert made(path, handler, workers=workers) == resampled(bars, ns)


def test_bars_whose_schema_the_file_does_not_name_are_warned_of_until_it_is_said(tmp_path: Path) -> None:
    bars = minutes()
    path, recorded = write(tmp_path, "dbn", bars), tmp_path / "live.dbn"
    named = strand.replay(path, strand.bars("5m"))
    assert not named.warnings
    head = len(metadata(3, {"ES": [(*ALL_DAYS, "7")]}, schema=dbn.Schema.OHLCV_1M))
    recorded.write_bytes(metadata(3, {"ES": [(*ALL_DAYS, "7")]}) + path.read_bytes()[head:])
    found = {warning.kind: warning.count for warning in strand.replay(recorded, strand.bars("5m")).warnings}
    assert found == {"bars as trades": len(bars), "trades of size 0": 3 * len(bars)}
    options = {"bars": "ohlcv-1m"}
    said = strand.replay(recorded, strand.bars("5m"), feed_options=options)
    assert not said.warnings
    assert made(recorded, strand.bars("5m"), feed_options=options) == resampled(bars, 5 * MINUTE)
    (warning,) = strand.replay(recorded, strand.bars("1h"), feed_options={"bars": "ohlcv-1s"}).warnings
    assert warning.count == len(bars)
    with pytest.raises(ConfigurationError, match="bars: '1m' is not one of ohlcv-1s, ohlcv-1m"):
        strand.replay(recorded, "bars", feed_options={"bars": "1m"})
    with pytest.raises(ConfigurationError, match="bars: the file says that its schema is ohlcv-1m"):
        strand.replay(path, "bars", feed_options=options)


def test_other_intervals_hold_the_same_volume(tmp_path: Path) -> None:
    bars = minutes()
    path = write(tmp_path, "dbn", bars)
    expected = [(bar.start, bar.start + 5 * MINUTE, bar.volume) for bar in resampled(bars, 5 * MINUTE)]
    for handler, output in ((strand.vwap("5m"), "vwap"), (strand.trade_stats("5m"), "trade_stats")):
        found = strand.replay(path, handler).outputs[output]
        assert [tuple(int(one[name]) for name in ("start", "end", "volume")) for one in found] == expected


def test_a_session_holds_the_bars_that_end_in_it(tmp_path: Path) -> None:
    bars = minutes()
    path = write(tmp_path, "dbn", bars)
    opens, closes = START + 2 * MINUTE, START + 32 * MINUTE  # 09:30 to 10:00
    inside = [bar for bar in bars if opens <= bar.start < closes]
    hours = strand.Sessions.parse("09:30-10:00 UTC mon-sun")
    assert made(path, strand.bars("5m", sessions=hours)) == resampled(inside, 5 * MINUTE)
    volume = strand.replay(path, strand.vwap(sessions=hours)).rows["ES"]["volume"]
    assert volume == sum(bar.volume for bar in inside)


def test_no_bar_is_known_before_its_last_minute_has_ended(tmp_path: Path) -> None:
    path = write(tmp_path, "dbn", minutes())
    for bar in strand.replay(path, strand.bars("5m")).outputs["bars"]:
        assert bar["flags"] or bar["ts"] == bar["end"] + 1


def test_intervals_that_bars_do_not_fill_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path, "dbn", minutes())
    for handler in (strand.bars("90s"), strand.vwap("30s"), strand.trade_stats("90s")):
        with pytest.raises(ConfigurationError, match=r"ready-made bars of 1m.*give a multiple of 1m"):
            strand.replay(path, handler)
    assert strand.replay(path, strand.bars("3m")).outputs["bars"]


def test_a_merge_of_bars_and_trades_has_no_intervals() -> None:
    def feed(bars: int | None) -> Any:
        return testing.feed([("X", MINUTE, 10, 1)], bars=bars)

    with pytest.raises(ConfigurationError, match="only some have ready-made bars"):
        strand.replay(merge_feeds([feed(MINUTE), feed(None)]), strand.bars("1m"))
    both = merge_feeds([feed(MINUTE), feed(MINUTE)])
    assert np.asarray(strand.replay(both, strand.bars("1m")).outputs["bars"])["start"].tolist() == [0]


@pytest.mark.parametrize("how", [{"ticks": 1}, {"volume": 1}, {"notional": 1}], ids=lambda how: next(iter(how)))
@pytest.mark.parametrize("workers", [0, 1])
def test_bars_that_no_clock_closes_have_the_times_of_the_ready_made_bars(
    tmp_path: Path, how: dict[str, int], workers: int
) -> None:
    """A ready-made bar stands at its end, whatever closes the bars made of it."""
    given = minutes(10)
    path = write(tmp_path, "csv", given)
    found = np.asarray(strand.replay(path, strand.bars(**how), workers=workers).outputs["bars"])
    ends = [bar.start + MINUTE for bar in given]
    assert sorted(set(found["end"].tolist())) == sorted(set(found["start"].tolist())) == ends


@pytest.mark.cells(1)
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("dialect", ["dbn", "csv", "parquet", "nautilus"])
def test_bars_that_begin_before_their_session_or_interval_are_counted(
    tmp_path: Path, dialect: str, workers: int
) -> None:
    bars = minutes(60)
    path = write_nautilus(tmp_path, bars) if dialect == "nautilus" else write(tmp_path, dialect, bars)
    for hours, odd in (("09:30-10:00", 0), ("09:30:30-10:00:30", 30)):
        sessions = strand.Sessions.parse(f"{hours} UTC mon-sun")
        opens = START + 2 * MINUTE + odd * 10**9
        inside = [bar for bar in bars if opens < bar.start + MINUTE <= opens + 30 * MINUTE]
        across = sum(bar.start < opens for bar in inside)
        ends = [(bar.start - opens, bar.start + MINUTE - 1 - opens) for bar in inside]
        every = sum(first // (5 * MINUTE) != last // (5 * MINUTE) for first, last in ends)
        handlers = [
            (strand.vwap(sessions=sessions), across),
            (strand.trade_stats(sessions=sessions), across),
            (strand.chain(strand.vwap(sessions=sessions), "count"), across),
            (strand.bars("5m", sessions=sessions), every),
            (strand.vwap(), 0),
            (strand.bars("5m"), 0),
        ]
        for handler, count in handlers:
            result = strand.replay(path, handler, workers=workers)
            found = [warning for warning in result.warnings if warning.kind == "straddling bars"]
            assert sum(warning.count for warning in found) == int(result.straddling.sum()) == count


def test_a_dispatcher_has_the_rows_of_a_replay_and_its_ticks_say_which_bars_straddle(tmp_path: Path) -> None:
    """A dispatcher sees no feed, so it counts no such bars; the times of their closes say what a replay counts."""
    path = write(tmp_path, "csv", minutes(60))
    opens = START + 2 * MINUTE + 30 * 10**9
    sessions = strand.Sessions.parse("09:30:30-10:00:30 UTC mon-sun")
    handler = strand.vwap("5m", sessions=sessions)
    result = strand.replay(path, handler, workers=1, cores=None)
    with strand.feeds.open(path) as feed:
        ticks, info = feed.to_numpy(), feed.info
        with strand.Dispatcher(list(feed.symbols), handler, workers=1, cores=None, feed=info) as dispatcher:
            dispatcher.publish(ticks)
        row = dispatcher.rows[0]
        assert not hasattr(dispatcher, "straddling")
        assert not hasattr(dispatcher, "warnings")
    assert row.tolist() == result.rows[0].tolist()
    closes = ticks[ticks["depth"] == 3]
    ends = closes["ts_recv"].astype(np.int64) - 1
    inside = (opens <= ends) & (ends < opens + 30 * MINUTE)
    starts = opens + (ends - opens) // (5 * MINUTE) * (5 * MINUTE)
    across = inside & (closes["ts_event"].astype(np.int64) < starts)
    assert int(across.sum()) == int(result.straddling.sum()) > 0


def test_days_of_25_hours_straddle_nothing(tmp_path: Path) -> None:
    path = tmp_path / "equity" / "usa" / "daily" / "spy.csv"
    path.parent.mkdir(parents=True)
    path.write_text("".join(f"{day} 00:00,1,1,1,1,5\n" for day in ("20140309", "20141102", "20141103")))
    hours = "00:00-00:00 America/New_York mon-sun"
    assert not strand.replay(path, strand.bars("1d", sessions=hours)).straddling.any()
    # The daily bars of the same market straddle the start of a day of UTC.
    utc = strand.replay(path, strand.bars("1d", sessions="00:00-24:00 UTC mon-sun"))
    assert int(utc.straddling.sum()) == 3
