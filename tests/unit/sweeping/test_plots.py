"""The figure of a sweep: what it draws, by its artists."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pytest
from sweep_files import FEW

import strand
from strand.errors import ConfigurationError, MissingExtraError
from strand.feeds.sample import sample_path
from strand.sweeping.plots import Scores, scores_of
from strand.sweeping.run import sweep

pl = pytest.importorskip("polars")
pytest.importorskip("numba")
pytest.importorskip("loky")
pytest.importorskip("matplotlib")

pytestmark = pytest.mark.python


class Row:
    n: np.int64
    paid: Annotated[np.int64, "price"]
    mean: np.float64


@strand.handler(state=Row, params=[("least", "u4"), ("times", "i8")], cache=False)
def large(row, tick, params):  # type: ignore[no-untyped-def]
    if tick.size >= params.least:
        row.n += params.times
        row.paid += 1_000_000_000
    row.mean = np.nan if row.n < 10 else 2.0


GRID = [{"least": least, "times": times} for least in (1, 200, 500) for times in (1, -2)]


@pytest.fixture
def swept(days: Path, tmp_path: Path) -> Any:
    return sweep(sorted(days.iterdir()), large, GRID, out=tmp_path / "out", workers=1, **FEW)


def test_scores_are_sums_over_symbols_by_set_and_file(swept: Any) -> None:
    rows = swept.rows.to_polars().with_columns(pl.col("file").cast(pl.String))
    for by in ("n", "paid"):
        scores = scores_of(swept, by)
        for place, number in enumerate(swept.numbers):
            for at, label in enumerate(swept.labels):
                mine = rows.filter((pl.col("set") == number) & (pl.col("file") == label))
                assert scores.by_file[place, at] == mine[by].sum() != 0
    assert (scores_of(swept, "n").unit, scores_of(swept, "paid").unit) == ("", "currency")
    means = scores_of(swept, "mean")
    assert np.nanmax(means.total) == 2 * 2 * rows.filter((pl.col("set") == 0) & (pl.col("mean") == 2.0)).height / 2
    undefined = [rows.filter(pl.col("set") == number)["mean"].is_nan().all() for number in swept.numbers]
    assert np.isnan(means.total).tolist() == undefined
    assert any(undefined)


def test_the_best_are_the_largest_or_the_smallest_and_the_first_of_equals() -> None:
    scores = Scores("a", "", (4, 5, 6, 7), ("x", "y"), np.array([[1, 1], [2, 3], [0, 5], [-1, 0]], float))
    assert scores.best(3) == [1, 2, 0]
    assert scores.best(2, smallest=True) == [3, 0]


def test_two_parameters_are_a_map_and_the_best_sets_lines(swept: Any) -> None:
    figure, scores = swept.plot("n", best=3), scores_of(swept, "n")
    above, below = (axis for axis in figure.axes if axis.get_title(loc="left"))
    assert (above.get_xlabel(), above.get_ylabel()) == ("least", "times")
    assert np.asarray(above.images[0].get_array()).T[:, ::-1].ravel().tolist() == scores.total.tolist()
    assert [tick.get_text() for tick in above.get_xticklabels()] == ["1", "200", "500"]
    assert [(text.get_text(), text.get_position()) for text in above.texts] == [
        ("1", (0, 1)),
        ("2", (1, 1)),
        ("3", (2, 1)),
    ]
    assert [line.get_ydata()[-1] for line in below.lines] == [scores.total[place] for place in (0, 2, 4)]
    assert below.lines[0].get_ydata()[0] == scores.by_file[0, 0]
    assert below.get_legend().get_texts()[0].get_text() == "1. set 0: least=1, times=1"
    assert swept.plot("paid").axes[1].get_ylabel() == "paid (currency)"


def test_one_parameter_is_dots_over_it() -> None:
    found = sweep(sample_path(), large, GRID[1::2], **FEW)
    (axis,) = found.plot("n", best=2, smallest=True).axes
    scores = scores_of(found, "n")
    assert (axis.get_xlabel(), axis.get_ylabel()) == ("least", "n")
    assert axis.lines[0].get_xdata().tolist() == [1, 200, 500]
    assert axis.lines[0].get_ydata().tolist() == scores.total.tolist()
    assert [line.get_ydata().tolist() for line in axis.lines[1:]] == [[scores.total[0]], [scores.total[1]]]


@pytest.mark.parametrize("by", ["pnl", "symbol", "set"])
def test_what_is_no_field_of_numbers_is_refused(by: str, swept: Any) -> None:
    with pytest.raises(ConfigurationError, match=f"by: '{by}' is no field of numbers in the rows; those are n, paid"):
        swept.plot(by)


def test_without_matplotlib_the_extra_is_named(swept: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match=r"\[plot\]"):
        swept.plot("n")


def test_a_set_without_any_value_has_no_score_and_is_none_of_the_best() -> None:
    scores = Scores("mean", "", (0, 1, 2), ("a", "b"), np.array([[np.nan, np.nan], [-3.0, np.nan], [-1.0, -1.0]]))
    assert scores.total.tolist()[1:] == [-3.0, -2.0]
    assert np.isnan(scores.total[0])
    assert scores.best(3) == [2, 1]
    assert scores.best(3, smallest=True) == [1, 2]
