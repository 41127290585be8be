"""Rows that several symbols share: the symbols of each row, which so have to share a strand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

#: A symbol's stretch of ``Members.entries``, and the first of these.
SPAN: Final = np.dtype([("first", "<u4"), ("end", "<u4"), ("row", "<u4"), ("member", "<u4")])
#: A row that a symbol shares, and the symbol's place in it.
MEMBER: Final = np.dtype([("row", "<u4"), ("member", "<u4")])


class SharedObjects(dict[str, Any]):
    """The objects that symbols share, by the names of their rows. ``kind``: see ``Shape``."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind


class Members(NamedTuple):
    """The rows that a table's symbols share.

    ``names``: of the rows. ``keys``: the indexes of each one's symbols, in the order of its members. ``spans``: by
    symbol, shape (n_symbols,), its stretch of ``entries``.
    """

    names: tuple[str, ...]
    keys: tuple[tuple[int, ...], ...]
    spans: npt.NDArray[Any]
    entries: npt.NDArray[Any]

    @classmethod
    def of(cls, by_name: Mapping[str, Sequence[int]], n_symbols: int) -> Members:
        keys = np.array([key for group in by_name.values() for key in group], np.intp)
        entries = np.array(
            [(row, member) for row, group in enumerate(by_name.values()) for member in range(len(group))], MEMBER
        )
        order = np.argsort(keys, kind="stable")
        ends = np.cumsum(np.bincount(keys, minlength=n_symbols))
        spans = np.zeros(n_symbols, SPAN)
        spans["end"], spans["first"][1:] = ends, ends[:-1]
        entries = np.ascontiguousarray(entries[order])
        # Most symbols share one row, which is found without a look at the entries.
        for each in ("row", "member"):
            spans[each] = entries[each][np.minimum(spans["first"], len(entries) - 1)]
        return cls(tuple(by_name), tuple(map(tuple, by_name.values())), spans, entries)

    def of_key(self, key: int) -> list[tuple[int, int]]:
        """The rows of a symbol, in their order, and its place in each."""
        span = self.spans[key]
        found: list[tuple[int, int]] = self.entries[span["first"] : span["end"]].tolist()
        return found


class SharedRows(NamedTuple):
    """The rows that symbols of a handler share in a run: ``rows`` has shape (n_rows,). ``size_unit``: see
    ``Handler``."""

    handler: str
    members: Members
    rows: npt.NDArray[Any]
    size_unit: float | None
