"""Output of a run: the destination of the records that handlers emit to it, and its interface for users."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from strand.brief import brief, several
from strand.errors import ConfigurationError, WouldDeadlockError
from strand.output.emitted import EmittedRecords
from strand.output.fingerprint import OutputDigest
from strand.output.memory import as_one
from strand.output.notebook import table_html
from strand.output.records import merged_dtype
from strand.output.sinks import NamedSink, Sink
from strand.tables.columns import Prices, Table
from strand.tables.tabular import Tabular
from strand.threads import WAITS_FOR_ITSELF, Bell, Inside, mended
from strand.units import Unit, undeclared

Batch = npt.NDArray[Any]


class Collected:
    """The sink of an output that has no other. It keeps batches until a user iterates over them or takes them.

    ``inside``: the threads that may not wait for more.
    """

    def __init__(self, output: str, inside: Inside) -> None:
        self._output = output
        self._inside = inside
        self._batches: list[Batch] = []
        self._over = False
        self._bell = Bell()
        #: True if a user consumes batches while the run goes on. Their memory is then used again.
        self.is_consumed = False

    def write(self, batch: Batch) -> None:
        with self._bell:
            self._batches.append(batch)
        self._bell.ring()

    def close(self) -> None:
        """Ends all iterations after the last batch."""
        self._over = True
        self._bell.ring()

    def abort(self) -> None:
        """Closes likewise: the records written stay, and the run raises its error."""
        self.close()

    @property
    def _may_go_on(self) -> bool:
        return bool(self._batches) or self._over

    def next(self, taken: list[Batch]) -> None:
        """Moves the first batch to ``taken``, and waits until there is one; to none: there is no more.

        Raises WouldDeadlockError instead of waiting inside the dispatcher.
        """
        self.is_consumed = True
        while not taken:  # another iteration may have been quicker
            if not self._may_go_on and self._inside.here:
                raise WouldDeadlockError(f"output {self._output!r}: {WAITS_FOR_ITSELF}: use take()")
            self._bell.wait_for(lambda: self._may_go_on)
            with self._bell:
                if self._over and not self._batches:
                    return
                # No interrupt comes between these lines.
                taken += self._batches[:1]
                del self._batches[:1]

    def array(self, dtype: np.dtype[Any]) -> Batch:
        """All batches as one array of this dtype, shape (n,). It stays here."""
        with self._bell:
            if len(self._batches) > 1:
                self._batches = [as_one(self._batches)]
            return self._batches[0] if self._batches else np.empty(0, dtype)

    def take(self, taken: list[Batch]) -> None:
        """Moves all batches to ``taken``."""
        self.is_consumed = True
        with self._bell:
            # No interrupt comes between these lines.
            taken += self._batches
            self._batches = []

    def put_back(self, taken: list[Batch]) -> None:
        """Moves what was taken back to the beginning: an interrupt came before the user had it."""
        with self._bell:
            # No interrupt comes between these lines.
            self._batches[:0] = taken
            taken[:] = ()
        self._bell.ring()


#: Fields that a notebook shows.
_FIELDS: Final = 30


class Output(Tabular):
    """The records of one output. Iterate over it for structured arrays of shape (n,), in order and each record once,
    while the run goes on and after it; the iteration ends when the run has.

    An output that goes to a file or to a user's sink is not collected. Then iterating, ``array`` and ``take`` raise
    ConfigurationError.
    """

    def __init__(
        self,
        name: str,
        declared: np.dtype[Any],
        destination: Path | Sink | None,
        names: Sequence[str] = (),
        inside: Inside | None = None,
        *,
        size_unit: float | None = 1.0,
    ) -> None:
        """``destination``: a file, a user's sink, or None: the records are collected. ``names``: of the symbols."""
        self.name = name
        self.declared = declared
        self._size_unit = size_unit
        self._set_table(merge=False)
        #: The number of records that have been merged.
        self.records = 0
        self._names = names
        #: Of the records that have been merged, where it is kept: of those that are not collected, and with
        #: ``Outputs.digest_all``.
        self.digest = self._new_digest()
        #: The file that it is written to; None: no file.
        self.path = destination if isinstance(destination, Path) else None
        self._collected = Collected(name, inside or Inside()) if destination is None else None
        #: Takes the records; None: the file will, which is opened at the start.
        self._sink: Sink | None = self._collected
        if destination is not None and not isinstance(destination, Path):
            self._sink = NamedSink(name, destination, self._shown)
        #: Merges what is final, while the run goes on.
        self._refresh: Callable[[], None] | None = None

    def _set_table(self, *, merge: bool) -> None:
        """Decides, before the start, whether the records have a column for the feed they came from."""
        self._table = Table(merged_dtype(self.declared, merge=merge), self._size_unit)
        self.dtype = self._table.plain

    def _new_digest(self) -> OutputDigest:
        """Digest of the records alone: the same ticks from one file or from several give the same digest."""
        return OutputDigest(undeclared(merged_dtype(self.declared)), self._names)

    @property
    def is_collected(self) -> bool:
        """True if the records are kept in memory: they go to no file and to no user's sink."""
        return self._collected is not None

    @property
    def is_consumed(self) -> bool:
        """True if a user iterates over the output, or takes records, while the run goes on."""
        return self._collected is not None and self._collected.is_consumed

    def __repr__(self) -> str:
        return brief(self, self.name, *self._figures())

    def _repr_html_(self) -> str:
        fields, units = list(self.dtype.names or ()), self._table.unit_words
        cells = {"field": fields, "dtype": [str(self.dtype[name]) for name in fields]}
        cells["unit"] = [units.get(name, "") for name in fields]
        columns = {head: np.array(texts, np.str_) for head, texts in cells.items()}
        return table_html(columns, {}, note=", ".join((self.name, *self._figures())), maximum=_FIELDS)

    def _figures(self) -> tuple[str, ...]:
        where = "collected" if self.is_collected else f"to {self.path or 'a sink'}"
        return several(self.records, "record"), where

    def __iter__(self) -> Iterator[EmittedRecords]:
        put_back = self._check_collected().put_back
        while True:
            shown = mended(self._next, put_back, [])
            # No interrupt comes from here to the user.
            if shown is None:
                return
            yield shown

    def _next(self, taken: list[Batch]) -> EmittedRecords | None:
        self._check_collected().next(taken)
        return self._shown(taken[0]) if taken else None

    def array(self) -> EmittedRecords:
        """All that is final by now and was not iterated over, shape (n,): after ``drain()`` all that was emitted."""
        collected = self._check_collected()
        if (refresh := self._refresh) is not None:
            refresh()
        return self._shown(collected.array(self.dtype))

    def take(self) -> EmittedRecords:
        """All that was collected so far, shape (n,). It is then neither kept nor iterated over. Never waits."""
        found: EmittedRecords = mended(self._take, self._check_collected().put_back, [])
        return found

    def _take(self, taken: list[Batch]) -> EmittedRecords:
        self._check_collected().take(taken)
        return self._shown(as_one(taken) if taken else np.empty(0, self.dtype))

    def _shown(self, records: npt.NDArray[Any]) -> EmittedRecords:
        return EmittedRecords(records, self._table, self._names)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        return np.array(self.array(), dtype=dtype, copy=copy is not False)

    def to_arrow(self, *, prices: Prices = "float") -> Any:
        """A table of ``array()``: see ``Tabular``. Raises ConfigurationError where the output is not collected."""
        return self.array().to_arrow(prices=prices)

    def to_numpy(self) -> npt.NDArray[Any]:
        """``EmittedRecords.to_numpy`` of ``array()``. Raises ConfigurationError where the output is not collected."""
        return self.array().to_numpy()

    @property
    def units(self) -> dict[str, Unit]:
        """Unit of each field of the records."""
        return self._table.units

    def digested(self) -> OutputDigest:
        """The digest of its records: where they are collected, of those that were not iterated over."""
        if not self.is_collected:
            return self.digest
        made = self._new_digest()
        made.add(self.array())
        return made

    def _check_collected(self) -> Collected:
        if self._collected is None:
            where = "given to a sink" if self.path is None else f"written to {self.path}"
            raise ConfigurationError(f"output {self.name!r} is {where} and not collected")
        return self._collected


def output_digests(outputs: Mapping[str, Output]) -> dict[str, OutputDigest]:
    """The digests of all outputs, by name, when their run has ended."""
    return {name: output.digested() for name, output in outputs.items()}
