"""Figures of a run."""

from __future__ import annotations

from pathlib import Path

import pytest

import strand
from strand import replay
from strand.errors import ConfigurationError
from strand.report import figures
from strand.report.canvas import PLACEHOLDERS, inline_svg

pytest.importorskip("matplotlib")
pytest.importorskip("jinja2")
from page_reader import Named, with_bars

pytestmark = pytest.mark.python


def test_the_same_figure_is_the_same_text(day: strand.ReplayResult) -> None:
    first, second = (inline_svg(figures.draw(day, ["latency"], PLACEHOLDERS), "a") for _ in range(2))
    assert first == second
    assert not any(colour in first for colour in ("#0a0b", "#000000"))


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
