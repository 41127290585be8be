"""A figure of a sweep: what each set scored over its parameters, and the best sets by file; matplotlib draws it, the
extra ``plot``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt

from strand.errors import ConfigurationError
from strand.fixed import dataclass
from strand.handlers.state import SET
from strand.lazy import imported
from strand.report.canvas import LIGHT, Palette, matplotlib, new_figure, styled

#: Parameters that are drawn; the others are in the legend.
PANELS: Final = 4
#: Largest number of sets that are drawn apart and named in the legend.
LINES: Final = 10


class Swept(Protocol):
    """Result to draw: a ``strand.SweepResult``."""

    @property
    def sets(self) -> Mapping[int, Mapping[str, Any]]: ...

    @property
    def numbers(self) -> tuple[int, ...]: ...

    @property
    def labels(self) -> tuple[str, ...]: ...

    @property
    def units(self) -> Mapping[str, str]: ...

    @property
    def rows(self) -> Any: ...


@dataclass(frozen=True)
class Scores:
    """Score of each set over each file: the sum of a field over all symbols. ``by_file``: shape (sets, files), NaN
    where no symbol has a value. ``numbers``: those of the sets. ``unit``: a word for the field's unit, empty where the
    field declares none."""

    field: str
    unit: str
    numbers: tuple[int, ...]
    labels: tuple[str, ...]
    by_file: npt.NDArray[np.float64]

    @property
    def total(self) -> npt.NDArray[np.float64]:
        """Scores over all files, shape (sets,): NaN where no file has a value."""
        found: npt.NDArray[np.float64] = np.nansum(self.by_file, axis=1)
        found[np.isnan(self.by_file).all(axis=1)] = np.nan
        return found

    def best(self, n: int, *, smallest: bool = False) -> list[int]:
        """The places of the ``n`` sets with the largest (smallest) totals, the best first. Of equal ones the first.
        Sets without a total are not among them."""
        keys = self.total if smallest else -self.total
        return [int(place) for place in np.argsort(keys, kind="stable")[:n] if not np.isnan(keys[place])]


def scores_of(result: Swept, by: str) -> Scores:
    """The scores of a sweep's sets. Raises ConfigurationError for a field that the rows do not have, or of texts."""
    parquet = imported("pyarrow.parquet", "sweep")
    places = {number: place for place, number in enumerate(result.numbers)}
    columns = {label: at for at, label in enumerate(result.labels)}
    found, seen = np.zeros((2, len(places), len(columns)))
    for path, (label, sets) in result.rows._paths.items():
        fields = parquet.read_schema(path)
        numeric = [
            f.name for f in fields if f.name != SET and str(f.type).startswith(("int", "uint", "double", "float"))
        ]
        if by not in numeric:
            raise ConfigurationError("by", f"{by!r} is no field of numbers in the rows; those are {', '.join(numeric)}")
        table = parquet.read_table(path, columns=[SET, by], filters=[(SET, "in", list(sets))], partitioning=None)
        values = table[by].to_numpy().astype(np.float64)
        at = np.array([places[number] for number in table[SET].to_numpy().tolist()], np.intp)
        there = ~np.isnan(values)
        found[:, columns[label]] += np.bincount(at[there], values[there], minlength=len(places))
        seen[:, columns[label]] += np.bincount(at[there], minlength=len(places))
    found[seen == 0] = np.nan
    return Scores(by, result.units.get(by, ""), result.numbers, result.labels, found)


def plot(result: Swept, scores: Scores, *, best: int = 5, smallest: bool = False) -> Any:
    """Draws the figure of ``SweepResult.plot`` from the scores of its sets."""
    drawing = _Drawing(result.sets, scores, scores.best(min(best, LINES), smallest=smallest), LIGHT)
    has_files = len(scores.labels) > 1
    with styled(LIGHT):
        figure = new_figure(6.4 if has_files else 3.4, LIGHT)
        parts = figure.subfigures(1 + has_files, 1, squeeze=False)[:, 0]
        for part in parts:
            part.set_facecolor("none")
        if drawing.is_grid:
            drawing.draw_map(parts[0])
        else:
            drawing.draw_parameters(parts[0])
        if has_files:
            drawing.draw_files(parts[1])
    return figure


def _varying(sets: Mapping[int, Mapping[str, Any]]) -> list[str]:
    """The parameters that differ between sets and are numbers, in the order of the first set."""
    names = list(dict.fromkeys(name for values in sets.values() for name in values))
    found = []
    for name in names:
        values = [each.get(name) for each in sets.values()]
        if any(value != values[0] for value in values) and all(isinstance(v, int | float) for v in values):
            found.append(name)
    return found


def _short(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)


class _Drawing:
    """``chosen``: the places of the best sets, the best first."""

    def __init__(
        self, sets: Mapping[int, Mapping[str, Any]], scores: Scores, chosen: Sequence[int], palette: Palette
    ) -> None:
        self._values = [sets[number] for number in scores.numbers]
        self._scores = scores
        self._varying = _varying(sets)
        self._chosen = chosen
        self._palette = palette
        shades = matplotlib().colormaps["viridis"](np.linspace(0.15, 0.85, max(len(chosen) - 3, 0)))
        self._colours = [palette.two, palette.one, palette.three, *shades][: len(chosen)]
        self._label = f"{scores.field} ({scores.unit})" if scores.unit else scores.field

    @property
    def is_grid(self) -> bool:
        """True if two parameters vary, each set has its own pair of values, and at least half of all pairs are sets."""
        if len(self._varying) != 2:
            return False
        pairs = {tuple(values[name] for name in self._varying) for values in self._values}
        a, b = ({values[name] for values in self._values} for name in self._varying)
        return len(pairs) == len(self._values) and 2 * len(pairs) >= len(a) * len(b)

    def _name(self, rank: int, place: int) -> str:
        values = self._values[place]
        given = ", ".join(f"{name}={_short(values[name])}" for name in self._varying or values)
        return f"{rank}. set {self._scores.numbers[place]}: {given}"

    def _add_legend(self, axis: Any) -> None:
        axis.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize=7)

    def draw_parameters(self, part: Any) -> None:
        """The score of each set over each parameter; where none of numbers varies, over the number of the set."""
        names, total = self._varying[:PANELS], self._scores.total
        axes = part.subplots(1, max(len(names), 1), sharey=True, squeeze=False)[0]
        for axis, name in zip(axes, names or ["set"], strict=True):
            numbers = self._scores.numbers
            at = np.array([values[name] for values in self._values] if names else numbers, np.float64)
            axis.plot(at, total, "o", color=self._palette.quiet, alpha=0.5, markersize=4, label="all sets")
            for rank, (place, colour) in enumerate(zip(self._chosen, self._colours, strict=True), 1):
                label = self._name(rank, place)
                axis.plot(at[place], total[place], "o", color=colour, markersize=6, label=label)
            axis.set_xlabel(name)
        axes[0].set_ylabel(self._label)
        axes[0].set_title(f"{self._scores.field} of each set, over all symbols and files")
        if len(self._scores.labels) == 1:
            self._add_legend(axes[-1])

    def draw_map(self, part: Any) -> None:
        """The score as a colour at each pair of two parameters, with the ranks of the best."""
        axis, names = part.subplots(), self._varying
        across, up = (sorted({values[name] for values in self._values}) for name in names)
        places = [(up.index(values[names[1]]), across.index(values[names[0]])) for values in self._values]
        grid = np.full((len(up), len(across)), np.nan)
        for place, total in zip(places, self._scores.total, strict=True):
            grid[place] = total
        image = axis.imshow(grid, aspect="auto", origin="lower", cmap="viridis", interpolation="nearest")
        box = {"boxstyle": "circle,pad=0.2", "facecolor": self._palette.ground, "edgecolor": "none"}
        for rank, chosen in enumerate(self._chosen, 1):
            row, column = places[chosen]
            axis.text(column, row, str(rank), ha="center", va="center", color=self._palette.ink, bbox=box)
        axis.set_xticks(range(len(across)), [_short(value) for value in across])
        axis.set_yticks(range(len(up)), [_short(value) for value in up])
        axis.set_xlabel(names[0])
        axis.set_ylabel(names[1])
        axis.grid(visible=False)
        axis.set_title(f"{self._scores.field} of each set, over all symbols and files; 1 is the best")
        part.colorbar(image, ax=axis, label=self._label, pad=0.01)

    def draw_files(self, part: Any) -> None:
        """The sum so far of the best sets, file by file in the order of the call."""
        axis, labels = part.subplots(), self._scores.labels
        at = np.arange(len(labels))
        for rank, (place, colour) in enumerate(zip(self._chosen, self._colours, strict=True), 1):
            sums = np.nancumsum(self._scores.by_file[place])
            axis.plot(at, sums, "-o", color=colour, markersize=3, linewidth=1.4, label=self._name(rank, place))
        step = -(-len(at) // 8)
        axis.set_xticks(at[::step], labels[::step])
        axis.set_ylabel(self._label)
        axis.set_xlabel("file")
        axis.set_title(f"{self._scores.field} of the best sets, summed up to each file")
        self._add_legend(axis)
