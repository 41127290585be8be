"""Ready-made bars keep their interval: longer bars made of them are what a resample of the file gives."""

from __future__ import annotations

import random
import struct
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import strand
from strand import testing
from strand.errors import ConfigurationError
from strand.feeds.merge.feeds import merge_feeds
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
