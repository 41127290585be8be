"""The column of symbols, and that of their suffixes, as indices of names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
import numpy.typing as npt

from strand.binding.text import FAULT_NAME, FAULT_NAMES, Faults, Names, holds
from strand.feeds.formats.csv.lines import Block
from strand.feeds.formats.csv.profile import SymbolRule
from strand.symbols import name_problem

__all__ = ["SymbolReader"]

#: Of a row that has a fault already.
_NO_PAIR: Final = 0xFFFFFFFFFFFFFFFF


class SymbolReader:
    """Indices of the symbols of one file, in the order in which they first appear. ``names``: what they are called."""

    def __init__(
        self, rule: SymbolRule, place: Callable[[tuple[str, ...]], int], encoding: str, max_symbols: int
    ) -> None:
        self.names: list[str] = []
        self._column = place(rule.columns) if rule.columns else None
        self._suffix = place(rule.suffix) if rule.suffix else None
        self._encoding, self._max_symbols = encoding, max_symbols
        self._texts = Names(max_symbols) if rule.columns else None
        self._suffixes = Names(max_symbols) if rule.suffix else None
        self._no_names: list[int] = []
        self._joined: dict[int, int] = {}  # by name and suffix: the symbol

    def read(self, block: Block) -> tuple[npt.NDArray[np.uint32] | None, Faults]:
        """An index a row, None where there is no column of symbols, and the rows' faults."""
        faults = np.zeros(block.rows, np.uint16)
        if self._texts is None or self._column is None:
            return None, faults
        ids = np.zeros(block.rows, np.uint32)
        self._texts.read(block.columns[self._column], self._column, ids, faults)
        if self._suffixes is not None and self._suffix is not None:
            self._join(block, ids, faults, self._suffix)
            return ids, faults
        for text in self._texts.all()[len(self.names) :]:
            name = text.decode(self._encoding, "surrogateescape")  # which no name has
            if name_problem(name):
                self._no_names.append(len(self.names))
                name = ""
            self.names.append(name)
        if self._no_names:
            faults[np.isin(ids, self._no_names) & (faults == 0)] = self._column << 8 | FAULT_NAME
        return ids, faults

    def _join(self, block: Block, ids: npt.NDArray[np.uint32], faults: Faults, at: int) -> None:
        """Makes ``ids``: those of names, and those of names with their suffix, which may be empty."""
        assert self._suffixes is not None
        assert self._texts is not None
        assert self._column is not None
        suffixes, bad = np.zeros(block.rows, np.uint32), np.zeros(block.rows, np.uint16)
        self._suffixes.read(block.columns[at], at, suffixes, bad)
        empty = holds(block.columns[at], b"", np.arange(block.rows, dtype=np.uint32))
        wrong = (bad != 0) & ~empty & (faults == 0)
        faults[wrong] = bad[wrong]
        pairs = ids.astype(np.uint64) << np.uint64(32) | np.where(empty, 0, suffixes.astype(np.uint64) + np.uint64(1))
        pairs[faults != 0] = np.uint64(_NO_PAIR)
        distinct, starts, places = np.unique(pairs, return_index=True, return_inverse=True)
        symbols = np.zeros(len(distinct), np.uint32)
        for number in np.argsort(starts).tolist():  # in the order in which they appear
            pair = int(distinct[number])
            if pair == _NO_PAIR:
                continue
            if pair not in self._joined:
                name = self._name(pair >> 32, pair & 0xFFFFFFFF)
                fault = FAULT_NAME if name_problem(name) else FAULT_NAMES if self._is_full() else 0
                if fault:
                    faults[(places == number) & (faults == 0)] = self._column << 8 | fault
                    continue
                self._joined[pair] = len(self.names)
                self.names.append(name)
            symbols[number] = self._joined[pair]
        ids[:] = symbols[places]

    def _is_full(self) -> bool:
        return len(self.names) >= self._max_symbols

    def _name(self, text: int, suffix: int) -> str:
        assert self._suffixes is not None
        assert self._texts is not None
        parts = [self._texts.all()[text], *([self._suffixes.all()[suffix - 1]] if suffix else [])]
        return b" ".join(parts).decode(self._encoding, "surrogateescape")
