"""Combinations of factors: all of them, or few in which each pair of two factors' values occurs."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

Cell = dict[str, Any]


def every(factors: Mapping[str, Sequence[Any]], possible: Callable[[Cell], bool] = lambda cell: True) -> list[Cell]:
    """All combinations that are possible, in order."""
    cells = (dict(zip(factors, values, strict=True)) for values in itertools.product(*factors.values()))
    return [cell for cell in cells if possible(cell)]


def pairwise(
    factors: Mapping[str, Sequence[Any]], possible: Callable[[Cell], bool] = lambda cell: True, *, seed: int = 1
) -> list[Cell]:
    """Possible combinations in which each pair that is in any of them occurs; the same for the same seed."""
    return covering(every(factors, possible), 2, seed=seed)


def covering(cells: Sequence[Cell], size: int, *, seed: int = 1) -> list[Cell]:
    """Some of the cells, in which each ``size`` values occur together that do in any of them.

    It takes the best of some drawn cells for each combination that is left.
    """
    rng = random.Random(seed)
    of_values: dict[Any, list[Cell]] = {}
    for cell in rng.sample(cells, len(cells)):
        for values in _values(cell, size):
            of_values.setdefault(values, []).append(cell)
    left, chosen = dict.fromkeys(of_values), []
    while left:
        tried = of_values[next(iter(left))]
        drawn = rng.sample(tried, min(40, len(tried)))
        best = max(drawn, key=lambda cell: sum(values in left for values in _values(cell, size)))
        chosen.append(best)
        for values in _values(best, size):
            left.pop(values, None)
    return chosen


def _values(cell: Cell, size: int) -> list[Any]:
    return list(itertools.combinations([(name, str(value)) for name, value in cell.items()], size))


def name_of(cell: Cell) -> str:
    """A test's name."""
    return "-".join(str(value) for value in cell.values())
