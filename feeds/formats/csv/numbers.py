"""Columns of numbers: those with too many decimals are rounded, where that was asked for."""

from __future__ import annotations

import re
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from strand.binding.text import (
    DECIMAL,
    FAULT_PRECISION,
    FAULT_RANGE,
    FAULT_TEXT,
    LETTER_BYTES,
    Faults,
    Numbers,
    TextColumn,
    holds,
)  # fmt: skip
from strand.feeds.mapping.units import nearest_units

__all__ = ["Chosen", "NumberReader"]

_DIGIT: Final = re.compile(rb"\d")
#: The rows of a block that are read.
Chosen = npt.NDArray[np.uint32]


class NumberReader:
    """Reads the columns of one block after the other, and knows which rows of the block at hand were rounded."""

    def __init__(self, *, rounds: bool) -> None:
        self._rounds = rounds
        self._rounded: list[npt.NDArray[np.int64]] = []

    def begin(self) -> None:
        """Starts a new pass: over another block, or over the same block for other ticks."""
        self._rounded.clear()

    @property
    def has_rounded(self) -> bool:
        return bool(self._rounded)

    def rounded_rows(self) -> npt.NDArray[np.int64]:
        """The rows in which a number was rounded; some of them may not be selected."""
        return np.unique(np.concatenate(self._rounded)) if self._rounded else np.zeros(0, np.int64)

    @staticmethod
    def undefined(texts: frozenset[bytes], at: int, column: TextColumn, of: tuple[Faults, Chosen | None]) -> list[int]:
        """The places of texts that stand for no value; their faults are taken back."""
        faults, chosen = of
        rows = np.arange(len(faults), dtype=np.uint32) if chosen is None else chosen
        # A text that is a number, such as -1 or -999.99, was read as that number: no fault shows it.
        numbers = [text for text in texts if _DIGIT.search(text) and len(text) <= LETTER_BYTES]
        same = np.logical_or.reduce([holds(column, text, rows) for text in numbers]) if numbers else ()
        found = np.flatnonzero(same).tolist()
        faults[found] = np.where(faults[found] >> 8 == at, 0, faults[found])
        for place in np.flatnonzero((faults == (at << 8 | FAULT_RANGE)) | (faults == (at << 8 | FAULT_TEXT))).tolist():
            if column.text(place if chosen is None else int(chosen[place])).strip() in texts:
                faults[place] = 0
                found.append(place)
        return found

    def read(
        self, numbers: Numbers, at: int, column: TextColumn, out: npt.NDArray[Any], of: tuple[Faults, Chosen | None]
    ) -> None:
        """A column of numbers.

        ``of``: the faults, one a number, and the rows that are read (None: all).
        """
        faults, chosen = of
        bad = numbers.read(column, at, out, faults, chosen)
        if not bad or not self._rounds or numbers.form != DECIMAL:
            return
        places = np.flatnonzero(faults == (at << 8 | FAULT_PRECISION))
        rows = places if chosen is None else chosen[places].astype(np.int64)
        for place, row in zip(places.tolist(), rows.tolist(), strict=True):
            text = column.text(row).strip()
            if numbers.point:
                text = text.replace(numbers.group or b" ", b"").replace(numbers.point, b".")
            units = nearest_units(text, numbers.scale)
            if units is None or not numbers.lowest <= units <= numbers.highest:
                faults[place] = at << 8 | FAULT_RANGE
                continue
            if units == 0:
                continue  # a size or price may not become 0, which means something else: the fault stays
            out[place] = units
            faults[place] = 0
        self._rounded.append(rows)
