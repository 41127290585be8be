"""Choice of the symbols that share a strand.

A strand costs a publisher about one cache miss a batch, so thousands of quiet symbols are cheaper in company; a busy
symbol alone keeps its order without holding others up. Only symbols with the same handler share, and symbols whose
handler is Python's never do: its batches are of one symbol.

Where handlers have baskets, what is spread is units of symbols that have to share (strand.dispatch.basket_units).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from strand.errors import ConfigurationError
from strand.validate import is_whole

__all__ = ["Grouping", "StrandsLike", "strand_count", "strands_for"]

StrandsLike = Literal["auto", "per-symbol"] | int

#: Strands a worker that "auto" aims at: enough to balance, few enough to stay cheap. For three workers 256 cost 3 % of
#: a market's throughput: a batch goes to more of them, and a visit finds fewer ticks.
STRANDS_A_WORKER = 32
MIN_STRANDS = 96


class Grouping(NamedTuple):
    """``strand_of_symbol`` has shape (n_symbols,), ``kind_of_strand`` shape (n_strands,)."""

    strand_of_symbol: npt.NDArray[np.uint32]
    kind_of_strand: npt.NDArray[np.uint32]


def strand_count(
    strands: StrandsLike, kind_of_symbol: npt.NDArray[np.uint32], alone: Sequence[bool], workers: int
) -> int:
    """Number of strands, before it is known how busy each symbol is."""
    symbols = len(kind_of_symbol)
    if strands == "per-symbol":
        return symbols
    if strands == "auto":
        wanted = max(MIN_STRANDS, STRANDS_A_WORKER * workers)
    elif is_whole(strands) and int(strands) >= 1:
        wanted = int(strands)
    else:
        raise ConfigurationError(f"strands: {strands!r} is not 'auto', 'per-symbol' or a number of at least 1")
    sizes = np.bincount(kind_of_symbol, minlength=len(alone))
    single = sum(int(n) for n, lonely in zip(sizes, alone, strict=True) if lonely)
    shared = [int(n) for n, lonely in zip(sizes, alone, strict=True) if n and not lonely]
    if not shared:
        return symbols
    return single + min(sum(shared), max(wanted, len(shared)))


def strands_for(
    n_strands: int, kind_of_symbol: npt.NDArray[np.uint32], alone: Sequence[bool], counts: npt.NDArray[Any] | None
) -> Grouping:
    """Spreads symbols over ``n_strands``: those whose count is over half a strand's share alone, the rest in turn.

    ``counts`` has shape (n_symbols,), what is known of how many ticks each symbol will have; None: nothing is.
    """
    symbols = len(kind_of_symbol)
    if n_strands >= symbols:
        return Grouping(np.arange(symbols, dtype=np.uint32), kind_of_symbol.astype(np.uint32))
    weight = np.ones(symbols) if counts is None else np.asarray(counts, dtype=np.float64)
    if not any(alone) and (only := kind_of_symbol[0]) == kind_of_symbol.max() == kind_of_symbol.min():
        # Mostly; and what follows takes milliseconds where a feed has room for 65,536 symbols.
        return Grouping(_spread(weight, n_strands), np.full(n_strands, only, dtype=np.uint32))
    strand_of = np.empty(symbols, dtype=np.uint32)
    kind_of = np.zeros(n_strands, dtype=np.uint32)
    lonely = np.isin(kind_of_symbol, np.flatnonzero(alone))
    singles = np.flatnonzero(lonely)
    strand_of[singles] = np.arange(len(singles))
    kind_of[: len(singles)] = kind_of_symbol[singles]
    first = len(singles)
    together = np.flatnonzero(~lonely)
    together = together[np.argsort(kind_of_symbol[together], kind="stable")]
    groups = np.split(together, np.flatnonzero(np.diff(kind_of_symbol[together])) + 1)
    for group, room in zip(groups, _rooms(groups, weight, n_strands - first), strict=True):
        strand_of[group] = first + _spread(weight[group], room)
        kind_of[first : first + room] = kind_of_symbol[group[0]]
        first += room
    return Grouping(strand_of, kind_of)


def _rooms(groups: list[npt.NDArray[np.int64]], weight: npt.NDArray[np.float64], n: int) -> list[int]:
    """Divides n strands over groups by weight: at least one each, never more than symbols, n in all."""
    total = sum(float(weight[g].sum()) for g in groups) or 1.0
    rooms = [min(len(g), max(1, int(n * float(weight[g].sum()) / total))) for g in groups]
    left = n - sum(rooms)
    while left < 0:
        rooms[int(np.argmax(rooms))] -= 1
        left += 1
    for i, g in enumerate(groups):
        more = min(len(g) - rooms[i], left)
        rooms[i] += more
        left -= more
    return rooms


def _spread(weight: npt.NDArray[np.float64], n: int) -> npt.NDArray[np.uint32]:
    """Strand 0..n-1 of each symbol: hot ones alone on the first, the others dealt over the rest by falling weight."""
    # Most of a feed's symbols are not seen at first: they keep their order behind those that are.
    seen = np.flatnonzero(weight)
    order = np.concatenate([seen[np.argsort(-weight[seen], kind="stable")], np.flatnonzero(weight == 0)])
    hot = int(np.count_nonzero(weight * 2 * n > weight.sum())) if n > 1 else 0
    hot = min(hot, n // 2) if len(weight) > n else len(weight)
    strand = np.empty(len(weight), dtype=np.uint32)
    strand[order[:hot]] = np.arange(hot)
    rest = order[hot:]
    if len(rest):
        strand[rest] = np.resize(np.arange(hot, n, dtype=np.uint32), len(rest))
    return strand
