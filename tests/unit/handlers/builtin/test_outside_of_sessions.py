"""What handlers with sessions leave out is counted and warned of, and closing auctions are taken in by option."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt
import pytest

import strand
from strand.errors import ConfigurationError
from strand.feeds.sample import SAMPLE_DATE, sample_path
from strand.handlers import BAR_AUCTION
from strand.ticks import KIND_QUOTE, KIND_STATUS, KIND_TRADE, zeros

HOURS = "09:30-16:00 America/New_York"
SECOND = 10**9
CROSS = 4


def closing_ns() -> int:
    day = dt.date.fromisoformat(str(SAMPLE_DATE))
    return int(dt.datetime(day.year, day.month, day.day, 16, tzinfo=ZoneInfo("America/New_York")).timestamp()) * SECOND


@pytest.fixture(scope="module")
def trades() -> npt.NDArray[Any]:
    """All trades of the sample day: what handlers are compared with."""
    return np.asarray(strand.replay(sample_path(), strand.trades(), date=SAMPLE_DATE).outputs["trades"])


def volume_of(name: str, result: strand.ReplayResult) -> int:
    if name == "bars":
        return int(result.outputs["bars"][:]["volume"].sum())
    return int(result.rows.array["volume"].sum())


@pytest.mark.parametrize("name", ["bars", "vwap", "trade_stats"])
@pytest.mark.parametrize("workers", [0, 2])
def test_closing_crosses_are_left_out_with_a_word_or_taken_in(
    name: str, workers: int, trades: npt.NDArray[Any]
) -> None:
    make: Callable[..., Any] = getattr(strand, name)
    given: dict[str, Any] = {"every": "1m", "sessions": HOURS}
    close = closing_ns()
    within = trades["ts_event"] < close
    crosses = ~within & (trades["cross"] == 1) & (trades["ts_event"] < close + 300 * SECOND)
    assert crosses.sum() > 100

    result = strand.replay(sample_path(), make(**given), date=SAMPLE_DATE, workers=workers)
    assert volume_of(name, result) == trades["size"][within].sum()
    assert result.rows.array["outside"].sum() == (~within).sum()
    (warning,) = [w for w in result.warnings if w.kind == "trades outside of sessions"]
    assert warning.count == (~within).sum()
    assert "auctions='5m'" in warning.cure

    taken = strand.replay(sample_path(), make(auctions="5m", **given), date=SAMPLE_DATE, workers=workers)
    assert volume_of(name, taken) == trades["size"][within | crosses].sum()
    assert taken.rows.array["outside"].sum() == (~within & ~crosses).sum()
    first, second = result.outputs[name][:], taken.outputs[name][:]
    assert (second["start"] >= close).any()
    assert second[second["start"] < close].tolist() == first.tolist(), "bars and intervals of the session are the same"
    if name == "bars":
        assert ((second["flags"] & BAR_AUCTION > 0) == (second["start"] >= close)).all()


def trade(at: int, size: int = 1, flags: int = 0) -> npt.NDArray[Any]:
    made = zeros(1)
    made["ts_recv"] = made["ts_event"] = at
    made["kind"], made["action"], made["side"] = KIND_TRADE, b"T", b"N"
    made["price"], made["size"], made["flags"] = SECOND, size, flags
    return made


def quote(at: int, bid: int = 99, ask: int = 101) -> npt.NDArray[Any]:
    made = zeros(1)
    made["ts_recv"] = made["ts_event"] = at
    made["kind"], made["action"], made["side"] = KIND_QUOTE, b"M", b"N"
    made["price"], made["size"], made["order_id"], made["ref_id"] = bid * SECOND, 1, ask * SECOND, 1
    return made


def clear(at: int) -> npt.NDArray[Any]:
    made = zeros(1)
    made["ts_recv"] = made["ts_event"] = at
    made["kind"], made["action"], made["side"] = KIND_QUOTE, b"R", b"N"
    return made


def replay(ticks: list[npt.NDArray[Any]], handler: Any) -> strand.ReplayResult:
    return strand.replay(strand.testing.ListFeed(np.concatenate(ticks), ["A"]), handler, workers=0)


def test_only_crosses_count_after_a_session_and_only_for_so_long() -> None:
    sessions = strand.Sessions(np.array([[0, 100], [140, 200]]))
    ticks = [trade(99, 1), trade(100, 2), trade(101, 4, CROSS), trade(109, 8, CROSS), trade(110, 16, CROSS),
             trade(139, 32, CROSS), trade(140, 64), trade(150, 128, CROSS),
             trade(205, 256), trade(206, 512, CROSS)]  # fmt: skip
    for make in (strand.vwap, strand.trade_stats):
        row = replay(ticks, make(sessions=sessions, auctions="10ns")).rows["A"]
        assert (row["volume"], row["outside"]) == (1 + 4 + 8 + 64 + 128 + 512, 4)
        # Where the next session begins first, the time after the first one ends there.
        row = replay(ticks, make(sessions=sessions, auctions="1s")).rows["A"]
        assert (row["volume"], row["outside"]) == (1 + 4 + 8 + 16 + 32 + 64 + 128 + 512, 2)
    result = replay(ticks, strand.bars("30ns", fill=True, sessions=sessions, auctions="10ns"))
    bars = result.outputs["bars"][:]
    assert bars[["start", "end", "volume"]].tolist() == [
        (90, 100, 1), (100, 110, 12), (140, 170, 192), (170, 200, 0), (200, 210, 512),
    ]  # fmt: skip
    assert result.rows["A"]["outside"] == 4


@pytest.mark.parametrize("name", ["spread", "imbalance", "volatility"])
def test_handlers_of_quotes_count_what_is_outside(name: str) -> None:
    sessions = strand.Sessions(np.array([[100, 200]]))
    ticks = [quote(50), trade(60), quote(110, 98), trade(120), quote(210, 97), trade(220)]
    made = {
        "spread": strand.spread(sessions=sessions),
        "imbalance": strand.imbalance(sessions=sessions),
        "volatility": strand.volatility(ticks=1, price="mid", sessions=sessions),
    }[name]
    result = replay(ticks, made)
    assert result.rows["A"]["outside"] == 2
    assert [(w.kind, w.count) for w in result.warnings if "outside" in w.kind] == [("ticks outside of sessions", 2)]


def test_auctions_that_cannot_be_taken_in_are_refused() -> None:
    for make in (strand.bars, strand.vwap, strand.trade_stats):
        with pytest.raises(ConfigurationError, match="auctions: without sessions= all trades count"):
            make("1m", auctions="5m")
        with pytest.raises(ConfigurationError, match="auctions: crosses=False leaves all crosses out"):
            make("1m", sessions=HOURS, auctions="5m", crosses=False)
    with pytest.raises(ConfigurationError, match="auctions: outside='bars' makes bars of all trades"):
        strand.bars("1m", sessions=HOURS, auctions="5m", outside="bars")
    unmarked = strand.testing.ListFeed(trade(1), ["A"], ticks="dbn")
    with pytest.raises(ConfigurationError, match="auctions: this feed does not mark crosses: let the sessions end"):
        strand.replay(unmarked, strand.bars("1m", sessions=HOURS, auctions="5m"))


@pytest.mark.parametrize("kind", [KIND_QUOTE, KIND_STATUS])
def test_an_interval_whose_book_is_cleared_before_its_first_event_keeps_its_time(kind: int) -> None:
    """The top stands from 30 to 75, and from 90 on: of the second minute that is 15 s and 30 s. A day that ends leaves
    its last top in force until its last event alone."""
    at = 1_000_000 * 60 * SECOND
    gone = clear(at + 75 * SECOND)
    gone["kind"] = kind
    ticks = [quote(at + 30 * SECOND), gone, quote(at + 90 * SECOND), quote(at + 125 * SECOND, 98)]
    first, second, _ = replay(ticks, strand.spread("1m")).outputs["spread"][:]
    kept = 15 if kind == KIND_QUOTE else 0
    assert first["quoted_ns"] == 30 * SECOND
    quoted = second["quoted_ns"] if kind == KIND_QUOTE else 30 * SECOND
    assert quoted == (kept + 30) * SECOND
    row = replay(ticks, strand.spread("1m")).rows["A"]
    assert row["quoted_ns"] == (45 + 35 if kind == KIND_QUOTE else 35) * SECOND


def test_a_clear_alone_makes_an_interval_of_the_time_before_it() -> None:
    at = 1_000_000 * 60 * SECOND
    ticks = [quote(at + 30 * SECOND), clear(at + 75 * SECOND), quote(at + 130 * SECOND)]
    spreads = replay(ticks, strand.spread("1m")).outputs["spread"][:]
    assert [(s["start"] - at) // SECOND for s in spreads] == [0, 60, 120]
    assert spreads["quoted_ns"].tolist() == [30 * SECOND, 15 * SECOND, 0]
    tilted = quote(at + 30 * SECOND)
    tilted["size"] = 3
    means = replay([tilted, clear(at + 75 * SECOND), quote(at + 90 * SECOND), quote(at + 125 * SECOND)],
                   strand.imbalance("1m")).outputs["imbalance"][:]["queue_mean"].tolist()  # fmt: skip
    assert means[0] == pytest.approx(0.5 * 15 / 45), "the tilted queue of 15 s counts among the 45 s with a queue"
