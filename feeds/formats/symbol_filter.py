"""A selection's symbols, judged quickly for many names at once."""

from __future__ import annotations

import fnmatch
import re
from typing import Final

import numpy as np

from strand.binding.decoding import NAME_BYTES, Keeps
from strand.feeds.selection import Selection

__all__ = ["symbol_filter"]

_WILD: Final = "*?["


def symbol_filter(select: Selection) -> Keeps:
    """A function that says of each name what ``select.keeps`` says."""
    if not select.symbols:
        return lambda names: np.ones(len(names), np.bool_)
    globs = [pattern for pattern in select.symbols if any(letter in pattern for letter in _WILD)]
    exact = frozenset(select.symbols).difference(globs)
    if not globs:
        # Names of up to eight letters compare as one number. Venues have no longer names, and none beyond ASCII.
        able = (name for name in exact if len(name) <= NAME_BYTES and name.isascii() and not name.endswith(" "))
        wanted = np.array([name.ljust(NAME_BYTES).encode() for name in able], f"S{NAME_BYTES}").view(np.uint64)
        return lambda names: np.isin(names.view(np.uint64), wanted)
    matches = re.compile("|".join(map(fnmatch.translate, globs))).match
    return lambda names: np.fromiter(
        (name in exact or matches(name) is not None for name in map(str.rstrip, names.astype("U").tolist())),
        np.bool_,
        count=len(names),
    )
