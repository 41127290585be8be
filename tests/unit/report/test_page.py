"""The page of a run, its figures, and what a notebook shows."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import replace as replaced
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from click.testing import CliRunner
from engine_support import ticks_for

import strand
from strand import replay
from strand.command.cli import cli
from strand.dicts import FrozenDict
from strand.errors import ConfigurationError, FeedError, MissingExtraError, install_command
from strand.feeds.formats.npy import NpyFeed
from strand.feeds.sample import SAMPLE_DATE, sample_path
from strand.report import figures, html
from strand.report.canvas import PLACEHOLDERS, inline_svg
from strand.report.html import page
from strand.report.summary import shown_latency
from strand.units import PRICE

pytest.importorskip("matplotlib")
pytest.importorskip("jinja2")

from page_reader import Named, Reader, with_bars

pytestmark = pytest.mark.python


SAMPLE = str(sample_path())


@pytest.fixture(scope="module")
def day_page(day: strand.ReplayResult) -> str:
    return page(day, handler="book")


def test_the_page_asks_the_network_for_nothing(day_page: str) -> None:
    text = day_page
    found = Reader(text)
    assert all(link.startswith(("#", "data:")) for link in found.links)
    assert "script" not in found.tags
    assert "default-src 'none'" in text
    outside = set(re.findall(r"https?://[^\s\"'<)]+", text))
    assert outside <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}
    assert len(text) < 500_000


def test_the_page_says_what_the_run_did(day: strand.ReplayResult, day_page: str) -> None:
    text = Reader(day_page).text
    assert f"Fingerprint {day.fingerprint}" in text
    for words in (
        "All 200,500 ticks handled", "of 500 symbols", "handler book", "2 workers", "M ticks/s", "AAAHD", "worker 0",
        "publishers", "p99.9", "queue depth, max", "Handler time", "messages", "feed time, America/New_York",
        "seconds since the run began", "bid", "ask",
    ):  # fmt: skip
        assert words in text, words
    assert "end to end" not in text


def test_ticks_that_a_level_dropped_are_counted_by_level(day: strand.ReplayResult, undrawn: None) -> None:
    s = replaced(day.statistics, dropped_by_level=FrozenDict(high=0, low=1_234))
    text = " ".join(Reader(page(replaced(day, statistics=s))).text.split())
    assert "dropped at the level low 1,234" in text
    assert "level high" not in text


def test_what_went_wrong_comes_first(day: strand.ReplayResult, undrawn: None) -> None:
    @strand.batch_handler(state=[("n", "u8")])
    def fails(symbol: str, ticks: npt.NDArray[Any], row: Any) -> None:
        if symbol == "B":
            raise ValueError("not this one")

    result = replay(Named(["A", "B"]), fails, on_error="quarantine", capacity_ticks=64)
    text = Reader(page(result)).text
    assert "All 10,000 ticks handled" not in text
    assert "quarantined" in text
    assert "handler 'fails' failed on B" in text
    assert "Ended early: byte 7" in Reader(page(day, error="byte 7")).text


def test_names_are_text_and_never_markup() -> None:
    name, path = "<b>&\"'$x$", "<script>alert(1)</script>"
    result = replay(Named([name, "B"], path), "count", watch=2)
    found = Reader(page(result, handler="<i>", error="<u>"))
    assert not {"script", "b", "i", "u"} & found.tags
    assert "<script>alert(1)" in found.text
    assert found.text.count(name) >= 2
    assert "<b>" not in result._repr_html_()


def test_every_section_stands_at_1_and_at_64_workers() -> None:
    for workers in (1, 64):
        result = replay(Named([f"S{i}" for i in range(3)]), "vwap", workers=workers, cores=None, watch=2)
        found = Reader(page(result))
        assert f"worker {workers - 1}" in found.text
        assert ("details" in found.tags) == (workers == 64)
        assert found.text.count("seconds since the run began") == 2


def test_a_run_without_ticks_or_timeline_has_a_page_too() -> None:
    for result in (
        replay(Named(["A"], ticks=0), "count", watch=1, allow_empty=True),
        replay(Named(["A"]), "count", timeline=False),
    ):
        assert f"All {result.ticks:,} ticks handled" in Reader(page(result, symbols=["A"])).text


def test_the_hottest_symbols_have_the_time_of_their_handlers_where_it_is_known(undrawn: None) -> None:
    ways: dict[str, Any] = {"strands": "per-symbol", "publisher_drains": False, "cores": None}
    result = replay(sample_path(), "book", workers=1, watch=1, **ways)
    assert "of all handlers' time AAAHD 4,514 2.3%" in Reader(page(result)).text
    shared = replay(sample_path(), "book", workers=1, watch=1, strands=1)
    assert "of all handlers' time" not in Reader(page(shared)).text


def test_symbols_that_were_not_there_are_named(day: strand.ReplayResult, undrawn: None) -> None:
    text = Reader(page(day, symbols=["NOSUCH", "AAAHD"])).text
    assert "Not seen in this run: NOSUCH" in text


@pytest.mark.parametrize(("package", "extra"), [("jinja2", "report"), ("matplotlib", "plot")])
def test_a_missing_package_is_named_before_anything_runs(
    package: str, extra: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    done = CliRunner().invoke(cli, ["replay", SAMPLE, "--report", str(tmp_path / "r.html")])
    assert isinstance(done.exception, MissingExtraError)
    assert install_command(extra) in str(done.exception)
    assert list(tmp_path.iterdir()) == []


def test_the_page_of_a_run_that_an_interrupt_ended_says_so_at_full_speed_too(
    undrawn: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = NpyFeed.batches

    def interrupted(feed: NpyFeed) -> Iterator[npt.NDArray[Any]]:
        yield next(whole(feed))[:1_000]
        raise KeyboardInterrupt

    np.save(tmp_path / "ticks.npy", ticks_for(np.arange(5_000) % 3))
    monkeypatch.setattr(NpyFeed, "batches", interrupted)
    CliRunner().invoke(cli, ["replay", str(tmp_path / "ticks.npy"), "--report", str(tmp_path / "page.html")])
    words = " ".join(Reader((tmp_path / "page.html").read_text()).words)
    assert "interrupted" in words
    assert "1,000" in words


# ---- A result in a notebook


def test_a_notebook_shows_a_result_as_a_small_table(day: strand.ReplayResult) -> None:
    html = day._repr_html_()
    text = Reader(html).text
    for words in ("200,500 of 500 symbols", "M ticks/s", "p99", "dropped nothing", "AAAHD 4,514"):
        assert words in text, words
    assert len(html) < 3000


# ---- Prices in the page


def test_a_part_of_a_chain_that_is_named_like_a_price_is_none(undrawn: None) -> None:
    both = strand.chain(strand.book(), strand.vwap())
    result = replay(SAMPLE, both, watch=1, feed_options={"date": SAMPLE_DATE}, workers=1)
    assert result.timeline is not None
    assert len(result.timeline.symbols) == 1
    assert 'id="prices"' in page(result)  # those of the book


@pytest.mark.parametrize("handler", [strand.bbo(), strand.imbalance(), strand.chain(strand.bbo(), strand.vwap())])
def test_a_row_that_calls_its_quotes_bid_and_ask_has_them_drawn(undrawn: None, handler: strand.Handler) -> None:
    result = replay(SAMPLE, handler, watch=1, date=SAMPLE_DATE, workers=1)
    assert result.timeline is not None
    (watched,) = result.timeline.symbols.values()
    assert {"bid", "ask"} <= set(watched.rows.dtype.names or ())
    assert 'id="prices"' in page(result)


# ---- Bars in the page


def test_bars_that_were_emitted_are_drawn_for_the_symbols_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = html._figure
    monkeypatch.setattr(html, "_figure", lambda *given: draw(*given) if given[1] == "bars" else given[2])
    result = with_bars(390)
    text = Reader(page(result)).text
    assert "A: 390 bars, 2 drawn as one" in text
    assert "B: 390 bars" in text
    text = Reader(page(result, symbols=["B"])).text
    assert "A: 390 bars" not in text
    assert "B: 390 bars" in text
    with pytest.raises(ConfigurationError, match="no bars"):
        result.plot("bars", symbols=["NOSUCH"])


@pytest.mark.parametrize("ending", [".npy", ".parquet", ".arrow", ".csv"])
def test_bars_that_went_to_a_file_are_drawn_as_those_that_were_collected(
    tmp_path: Path, ending: str, undrawn: None
) -> None:
    from strand.report.market import bars_of

    path = tmp_path / f"bars{ending}"
    collected = replay(sample_path(), strand.bars("30m"))
    written = replay(sample_path(), strand.bars("30m"), out={"bars": path})
    busiest = bars_of(collected, None)
    found = bars_of(written, None)
    assert list(found) == list(busiest)
    assert len(found) == 4
    for name, bars in busiest.items():
        for field in ("ts", "open", "high", "low", "close", "volume"):
            assert found[name][field].tolist() == bars[field].tolist()
    (named,) = bars_of(written, ["AAAHD"]).values()
    assert len(named) == len(bars_of(collected, ["AAAHD"])["AAAHD"]) > 0
    path.unlink()
    text = Reader(page(written)).text
    assert "bars" + ending in text
    assert "cannot be read again" in text
    with pytest.raises(FeedError, match="cannot be read again"):
        written.plot("bars")


def test_an_output_in_a_file_that_has_no_bars_is_left_alone(tmp_path: Path, undrawn: None) -> None:
    result = replay(sample_path(), strand.trade_stats("30m"), out={"trade_stats": tmp_path / "stats.csv"})
    assert "cannot be read" not in Reader(page(result)).text


def test_bars_drawn_as_one_have_the_first_open_the_last_close_and_all_between() -> None:
    from strand.report import market

    records = market.bars_of(with_bars(700), None)["A"]
    drawn, together = market.thinned(records)
    assert (len(drawn), together) == (234, 3)
    assert drawn["volume"].sum() == records["volume"].sum() == 70_000
    assert drawn["open"].tolist() == records["open"][::3].tolist()
    assert drawn["high"][1] == records["high"][3:6].max()
    assert drawn["low"][1] == records["low"][3:6].min()
    assert drawn["close"][-1] == records["close"][-1]
    assert drawn["ts"][0] == records["ts"][2]


# ---- Figures of a run


def test_the_same_figure_is_the_same_text(day: strand.ReplayResult) -> None:
    first, second = (inline_svg(figures.draw(day, ["latency"], PLACEHOLDERS), "a") for _ in range(2))
    assert first == second
    assert not any(colour in first for colour in ("#0a0b", "#000000", "var(--ground)"))


@pytest.mark.parametrize("ending", ["", ".parquet", ".csv", ".npy"])
def test_figures_of_fractions_of_coins_are_in_coins(tmp_path: Path, ending: str) -> None:
    from strand.report.figures import plot
    from strand.report.market import bars_of

    path = tmp_path / "trades.csv"
    lines = ["exchange,symbol,timestamp,local_timestamp,id,side,price,amount"]
    lines += [f"x,BTC,{at}000000,{at}000000,{at},buy,{20_000 + at % 7}.5,0.2500000{at % 3}" for at in range(1, 3001)]
    path.write_text("\n".join([*lines, ""]))
    out = {"bars": tmp_path / f"bars{ending}"} if ending else {}
    result = replay(path, strand.chain("count", strand.bars("10m")), out=out, watch=1)
    (bars,) = bars_of(result, None).values()
    assert bars["volume"].tolist() == pytest.approx([149.75 + 600e-8, 150 + 600e-8, 150 + 600e-8, 150 + 600e-8,
                                                     150 + 600e-8, 0.25], rel=1e-12)  # fmt: skip
    assert (bars["open"][0], bars["high"].max(), bars["low"].min()) == (20_001.5, 20_006.5, 20_000.5)
    columns = plot(result, "prices").axes[1].collections
    drawn = sum(high for part in columns for (_, _), (_, high) in part.get_segments())
    assert drawn == pytest.approx(bars["volume"].sum(), rel=1e-9)


@pytest.mark.parametrize("kind", [None, *figures.KINDS])
def test_every_kind_of_figure_is_shown_by_a_notebook_alone(day: strand.ReplayResult, kind: str | None) -> None:
    figure = (with_bars(20) if kind == "bars" else day).plot(kind)
    assert figure._repr_png_().startswith(b"\x89PNG")
    assert all(axis.get_title() or axis.get_ylabel() or axis.get_xlabel() for axis in figure.axes)


def test_figures_draw_the_numbers_of_the_run(day: strand.ReplayResult) -> None:
    latencies = day.statistics.latencies
    for axis, latency in zip(day.plot("latency").axes, latencies.values(), strict=True):
        marks = [f"p{p:g} {shown_latency(latency, latency.percentiles[p])}" for p in (50.0, 99.0)]
        assert [text.get_text() for text in axis.texts] == marks
        assert sum(axis.patches[0].get_data().values) == pytest.approx(100)
    busiest, concentration = day.plot("symbols").axes
    most = np.sort(day.ticks_by_symbol)[::-1]
    assert [bar.get_width() for bar in busiest.patches] == most[: len(busiest.patches)].tolist()
    assert [text.get_text() for text in busiest.texts] == [
        f"{100 * bar.get_width() / day.ticks:.1f}%" for bar in busiest.patches
    ]
    first, *_, last = concentration.lines[0].get_ydata()
    assert (first, last) == pytest.approx((100 * most[0] / day.ticks, 100))
    rates = day.plot("throughput").axes[0].patches[0].get_data()
    assert sum(rates.values * np.diff(rates.edges)) == pytest.approx(day.ticks / 1e6)
    assert day.timeline is not None
    for axis, load in zip(day.plot("workers").axes, day.timeline.load()[1].T, strict=True):
        assert axis.patches[0].get_data().values.tolist() == (100 * load).tolist()


@pytest.mark.parametrize(
    ("volume", "size_unit"),
    [([], 1.0), ([("volume", "i8")], None), ([("volume", "i8")], 1.0)],
    ids=["no volume", "no unit", "nothing traded"],
)
def test_prices_are_drawn_where_the_volume_beside_them_cannot_be(volume: list[Any], size_unit: float | None) -> None:
    @strand.batch_handler(state=[("last_price", PRICE), *volume])
    def priced(symbol: str, ticks: npt.NDArray[Any], row: Any) -> None:
        row["last_price"] = ticks["price"][-1]

    feed = strand.testing.feed([("A", at * 10**9, 5.0, 1) for at in range(1, 90)], size_unit=size_unit, batches=9)
    prices, below = replay(feed, priced, watch=["A"], workers=1).plot("prices").axes
    assert prices.lines
    assert not any(high for part in below.collections for (_, _), (_, high) in part.get_segments())


def test_figures_that_cannot_be_drawn_say_why(day: strand.ReplayResult) -> None:
    with pytest.raises(ConfigurationError, match="throughput, workers, latency, symbols, bars, prices"):
        day.plot("pie")
    with pytest.raises(ConfigurationError, match="NOSUCH"):
        day.plot("prices", symbols=["NOSUCH"])
    with pytest.raises(ConfigurationError, match="watch="):
        replay(Named(["A"]), "count").plot("prices")


def test_the_users_settings_of_matplotlib_stay_as_they_are(day: strand.ReplayResult) -> None:
    import matplotlib as mpl

    before = dict(mpl.rcParams)
    day.plot()
    assert dict(mpl.rcParams) == before
