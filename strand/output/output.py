"""One output: what is collected of the records that handlers emit to it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from strand.errors import ConfigurationError, WouldDeadlockError
from strand.output.emitted import EmittedRecords
from strand.output.fingerprint import OutputDigest
from strand.output.memory import as_one
from strand.output.records import merged_dtype
from strand.output.tables import Table
from strand.threads import WAITS_FOR_ITSELF, Inside
from strand.units import Unit, undeclared

__all__ = ["Output", "output_digests"]


class Output:
    """What goes to one output. Iterate over it for structured arrays of shape (n,), in order and each record once,
    while the run goes on and after it; the iteration ends when the run has. An output that is written to a file
    is not collected, and refuses."""

    def __init__(
        self,
        name: str,
        declared: np.dtype[Any],
        path: Path | None,
        names: Sequence[str] = (),
        inside: Inside | None = None,
        *,
        size_unit: float | None = 1.0,
    ) -> None:
        self.name = name
        self._inside = inside or Inside()
        self.declared = declared
        self._size_unit = size_unit
        self._tell_of(merge=False)
        self.path = path
        self.records = 0
        self._names = names
        #: Of what was handed out, where it is kept: of what goes to a file, and with ``Outputs.digest_all``.
        self.digest = self._new_digest()
        #: Whether somebody takes what is collected while the run goes on, and gives it back.
        self.goes_on = False
        self._batches: list[npt.NDArray[Any]] = []
        self._ended = False
        self._more = threading.Condition()
        #: Hands out what is final, while the run goes on. Not to be called with ``_more`` held, which it takes.
        self._refresh: Callable[[], None] | None = None

    def _tell_of(self, *, merge: bool) -> None:
        """Before the start: whether its records say which feed they came from."""
        self._table = Table(merged_dtype(self.declared, merge=merge), self._size_unit)
        self.dtype = self._table.plain

    def _new_digest(self) -> OutputDigest:
        """Of the records alone: the same ticks out of one file give the same one."""
        return OutputDigest(undeclared(merged_dtype(self.declared)), self._names)

    def __iter__(self) -> Iterator[EmittedRecords]:
        self._check_collected()
        self.goes_on = True
        while True:
            with self._more:
                while not self._batches and not self._ended:
                    if self._inside.here:
                        raise WouldDeadlockError(f"output {self.name!r}: {WAITS_FOR_ITSELF}: use take()")
                    self._more.wait()
                if not self._batches:
                    return
                batch = self._batches.pop(0)
            yield self._shown(batch)

    def array(self) -> EmittedRecords:
        """All that is final by now and was not iterated over, shape (n,): after ``drain()`` all that was emitted."""
        self._check_collected()
        if self._refresh is not None:
            self._refresh()
        return self._shown(self._collected())

    def _collected(self) -> npt.NDArray[Any]:
        with self._more:
            if len(self._batches) > 1:
                self._batches = [as_one(self._batches)]
            return self._batches[0] if self._batches else np.empty(0, self.dtype)

    def take(self) -> EmittedRecords:
        """All that was collected so far, shape (n,), which is then neither kept nor iterated over. Never waits."""
        self._check_collected()
        self.goes_on = True
        with self._more:
            found = self._collected()
            self._batches.clear()
        return self._shown(found)

    def _shown(self, records: npt.NDArray[Any]) -> EmittedRecords:
        return EmittedRecords.of(records, self._table, self._names)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        return np.array(self.array(), dtype=dtype, copy=copy is not False)

    @property
    def units(self) -> dict[str, Unit]:
        """What 1 is worth in each field of its records."""
        return self._table.units

    def digested(self) -> OutputDigest:
        """The digest of what went to the file, or of what was collected and not iterated over."""
        if self.path is not None:
            return self.digest
        made = self._new_digest()
        made.add(self.array())
        return made

    def _check_collected(self) -> None:
        if self.path is not None:
            raise ConfigurationError(f"output {self.name!r} is written to {self.path} and not collected")

    def _put(self, batch: npt.NDArray[Any]) -> None:
        with self._more:
            self._batches.append(batch)
            self._more.notify_all()

    def _end(self) -> None:
        with self._more:
            self._ended = True
            self._more.notify_all()


def output_digests(outputs: Mapping[str, Output]) -> dict[str, OutputDigest]:
    """The digests of all outputs, by name, when their run has ended."""
    return {name: output.digested() for name, output in outputs.items()}
