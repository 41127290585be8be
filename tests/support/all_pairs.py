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
    """Possible combinations in which each pair that is in any of them occurs; the same for the same seed.

    It takes the best of some drawn combinations for each pair that is left.
    """
    rng, cells = random.Random(seed), every(factors, possible)
    rng.shuffle(cells)
    of_pair: dict[Any, list[Cell]] = {}
    for cell in cells:
        for pair in _pairs(cell):
            of_pair.setdefault(pair, []).append(cell)
    left, chosen = dict.fromkeys(of_pair), []
    while left:
        tried = of_pair[next(iter(left))]
        best = max(rng.sample(tried, min(40, len(tried))), key=lambda cell: sum(pair in left for pair in _pairs(cell)))
        chosen.append(best)
        for pair in _pairs(best):
            left.pop(pair, None)
    return chosen


def _pairs(cell: Cell) -> list[Any]:
    return list(itertools.combinations([(name, str(value)) for name, value in cell.items()], 2))


def name_of(cell: Cell) -> str:
    """A test's name."""
    return "-".join(str(value) for value in cell.values())
