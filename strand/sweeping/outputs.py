"""Outputs of a sweep's sets: one file per output for all sets, and a digest of each set's records."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from strand.handlers.state import SET
from strand.output.emitted import EmittedRecords
from strand.output.files import OutputFile
from strand.output.fingerprint import OutputDigest
from strand.output.records import merged_dtype
from strand.symbols import SymbolTable
from strand.units import undeclared

__all__ = ["Dropped", "SetRecords"]

#: Records that wait to be digested: those of a set together cost far less than one by one.
HELD_RECORDS: Final = 1 << 16


class Dropped:
    """A sink of records that a data set does not have: of the handlers before the one with sets."""

    def write(self, batch: EmittedRecords, /) -> None:
        """Takes them."""

    def close(self) -> None:
        """Does nothing: there is nothing to complete."""

    def abort(self) -> None:
        """Does nothing: there is nothing to discard."""


class SetRecords:
    """A sink that writes the records of an output to a file. It digests those of each set as a run with that set alone
    would. The file is there once ``complete`` has been called.

    ``declared``: the output's dtype, without the set's number. ``numbers``: of the sets.
    """

    def __init__(self, path: Path, declared: np.dtype[Any], numbers: Sequence[int]) -> None:
        self._path = path
        self._declared = declared
        self._numbers = list(numbers)
        self._file: OutputFile | None = None
        self._held: list[npt.NDArray[Any]] = []
        self._n_held = 0
        self._digests: dict[int, OutputDigest] = {}
        self.records = 0

    def write(self, batch: EmittedRecords, /) -> None:
        """Takes the next records of all sets."""
        assert isinstance(batch.symbols, SymbolTable)
        records = np.asarray(batch)
        self._open(batch.symbols, batch.size_unit).write(records)
        self.records += len(batch)
        self._held.append(records)
        self._n_held += len(batch)
        if self._n_held >= HELD_RECORDS:
            self._digest_held()

    def _open(self, names: SymbolTable, size_unit: float | None) -> OutputFile:
        if self._file is None:
            numbered = np.dtype([(SET, "<u4"), *((name, self._declared[name]) for name in self._declared.names or ())])
            self._file = OutputFile(self._path, merged_dtype(numbered), names, size_unit)
            self._start_digests(names)
        return self._file

    def _start_digests(self, names: Sequence[str]) -> None:
        first = OutputDigest(undeclared(merged_dtype(self._declared)), names)
        self._digests = {number: first if not i else first.beside() for i, number in enumerate(self._numbers)}

    def _digest_held(self) -> None:
        if not self._held:
            return
        records = np.concatenate(self._held)
        self._held, self._n_held = [], 0
        numbers = records[SET]
        order = np.argsort(numbers, kind="stable")
        places = np.searchsorted(numbers[order], np.array(self._numbers))
        ends = np.searchsorted(numbers[order], np.array(self._numbers), side="right")
        for number, first, end in zip(self._numbers, places.tolist(), ends.tolist(), strict=True):
            if first < end:
                self._digests[number].add(records[order[first:end]])

    def close(self) -> None:
        """Nothing more comes. The file waits for ``complete``: a run may still fail."""

    def abort(self) -> None:
        """Leaves no file."""
        if self._file is not None:
            self._file.abort()

    def complete(self, names: SymbolTable, size_unit: float | None) -> dict[int, OutputDigest]:
        """Completes the file, which has no records where none came. Returns the digest of each set's records."""
        file = self._open(names, size_unit)
        self._digest_held()
        file.close()
        return self._digests
