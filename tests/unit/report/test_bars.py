"""Bars in the page."""

from __future__ import annotations

from pathlib import Path

import pytest

import strand
from strand import replay
from strand.errors import ConfigurationError, FeedError
from strand.feeds.sample import sample_path
from strand.report import html
from strand.report.html import page

pytest.importorskip("matplotlib")
pytest.importorskip("jinja2")
from page_reader import Reader, with_bars

pytestmark = pytest.mark.python


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
