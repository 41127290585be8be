"""A selection's symbols, judged quickly for many names at once."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from strand.feeds.selection import Selection

__all__ = ["wanted_names"]

_WILD: Final = "*?["


def wanted_names(select: Selection) -> Callable[[Sequence[str]], npt.NDArray[np.bool_]]:
    """A function that says of each name what ``select.keeps`` says."""
    if not select.symbols:
        return lambda names: np.ones(len(names), np.bool_)
    globs = [pattern for pattern in select.symbols if any(letter in pattern for letter in _WILD)]
    exact = frozenset(select.symbols).difference(globs)
    if not globs:
        return lambda names: np.fromiter(map(exact.__contains__, names), np.bool_, count=len(names))
    matches = re.compile("|".join(map(fnmatch.translate, globs))).match

    def judge(names: Sequence[str]) -> npt.NDArray[np.bool_]:
        found = (name in exact or matches(name) is not None for name in names)
        return np.fromiter(found, np.bool_, count=len(names))

    return judge
