"""Job of one file of a sweep: a pass over its ticks with sets of parameters, and the files for its results."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import field
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from strand.errors import FeedError
from strand.feeds.io.atomic_write import atomic_write
from strand.fixed import dataclass
from strand.handlers import Handler
from strand.handlers.loading import load_handler as _  # noqa: F401 - handlers in C are pickled by it
from strand.handlers.sets import part_with_sets, with_sets
from strand.handlers.state import SET, SETS
from strand.output.emitted import EmittedRecords
from strand.output.files import OutputFile
from strand.output.fingerprint import (
    OutputDigest,
    digest_sum,
    fingerprint_of,
    layout_of,
    packed,
    row_digests,
    row_head,
    row_heads,
)
from strand.output.records import merged_dtype
from strand.replaying.replay import replay
from strand.replaying.result import ReplayResult
from strand.sweeping.digests import DIGEST_BYTES, Stamp, file_digest, stamp_of
from strand.sweeping.sets import ParameterSet
from strand.symbols import SymbolTable
from strand.tables.arrow import arrow_file, arrow_table
from strand.tables.columns import Shown, SymbolNames, Table
from strand.units import undeclared

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


#: The name of the table of rows; the others are outputs' names.
ROWS: Final = "rows"
#: Digits of digests in the names of folders and files.
SHORT: Final = 12
#: Of the table of rows that are written at a time, of whole sets.
_GROUP_ROWS: Final = 1 << 14


@dataclass(frozen=True, kw_only=True)
class Job:
    """``label``: what the file is called in the data set. ``handler``: None while a job is sent, apart from it.
    ``sets``: parameters by their number there. ``into``: the folder of each table by its name, ``rows`` among them.
    ``known``: the digest of the file's bytes, and the stamp that it had then; None: nobody has read it.
    ``options``: of ``strand.replay``."""

    label: str
    source: Path
    handler: Handler | None
    sets: Mapping[int, ParameterSet]
    into: Mapping[str, Path]
    known: tuple[Stamp, str] | None
    options: Mapping[str, Any]

    def files(self, digest: str) -> dict[str, Path]:
        """The file of each table, over an input of a digest."""
        name = f"sets-{min(self.sets)}-{max(self.sets)}-{digest[:SHORT]}.parquet"
        return {table: folder / name for table, folder in self.into.items()}


@dataclass(frozen=True, kw_only=True)
class Emitted:
    """Records that one set emitted to one output: their number, and their digest."""

    records: int
    digest: str


@dataclass(frozen=True, kw_only=True)
class Left:
    """Results of one set. ``fingerprint``: that of a replay with this set alone. ``rows``: the digest of the set's
    rows."""

    fingerprint: str
    rows: str
    outputs: Mapping[str, Emitted]


@dataclass(frozen=True, kw_only=True)
class Done:
    """Result of a job. ``digest``: of the file's bytes. ``stamp``: the file's stamp meanwhile. ``left``: the results of
    each set, by the set's number. ``seconds``: wall time. ``warnings``: the warnings of the run, one line each."""

    label: str
    digest: str
    stamp: Stamp
    ticks: int
    seconds: float
    left: Mapping[int, Left]
    warnings: tuple[str, ...] = field(default=())


def run_job(job: Job) -> Done:
    """Replays the file and writes the tables. Raises what ``strand.replay`` raises, and FeedError for a file that is
    changed meanwhile; then no table has been written."""
    begun = time.perf_counter()
    stamp = stamp_of(job.source)
    digest = job.known[1] if job.known is not None and job.known[0] == stamp else file_digest(job.source)
    if job.known is not None and job.known[1] != digest:
        # The job's sets are those that the bytes of before had no results of.
        raise FeedError("was changed after the sweep began", path=job.source)
    swept, files = _swept(job), job.files(digest)
    for path in files.values():
        path.parent.mkdir(parents=True, exist_ok=True)
    sinks = _sinks(job, swept, files)
    ours = [sink for sink in sinks.values() if isinstance(sink, SetRecords)]
    try:
        result = replay(os.fspath(job.source), swept, out=sinks or None, timeline=False, **job.options)
        if stamp_of(job.source) != stamp:
            raise FeedError("was changed while the sweep read it", path=job.source)
        emitted = {
            name: sink.complete(result.symbols, result.info.size_unit)
            for name, sink in sinks.items()
            if isinstance(sink, SetRecords)
        }
        left = _write_rows(job, swept, result, files[ROWS], emitted)
    except BaseException:
        for sink in ours:
            sink.abort()
        raise
    return Done(
        label=job.label,
        digest=digest,
        stamp=stamp,
        ticks=result.ticks,
        seconds=time.perf_counter() - begun,
        left=left,
        warnings=tuple(str(warning) for warning in result.warnings),
    )


#: The last handler with sets that this process made: the next file mostly takes the same one, which is compiled.
_last: list[tuple[Handler, Mapping[int, ParameterSet], Handler]] = []


def _swept(job: Job) -> Handler:
    assert job.handler is not None
    if _last and _last[0][0] is job.handler and _last[0][1] == job.sets:
        return _last[0][2]
    swept = with_sets(job.handler, list(job.sets.values()), list(job.sets))
    _last[:] = [(job.handler, job.sets, swept)]
    return swept


def _sinks(job: Job, swept: Handler, files: Mapping[str, Path]) -> dict[str, SetRecords | Dropped]:
    """Sink of each output; records of the handlers before the swept part are dropped, since the data set leaves them
    out."""
    assert job.handler is not None
    part = part_with_sets(job.handler)[1]
    return {
        name: SetRecords(files[name], part.outputs[name], list(job.sets)) if name in part.outputs else Dropped()
        for name in dict(swept.emitted)
    }


def _write_rows(
    job: Job, swept: Handler, result: ReplayResult, path: Path, emitted: Mapping[str, Mapping[int, OutputDigest]]
) -> dict[int, Left]:
    """Writes one table of all sets' rows, set by set."""
    assert job.handler is not None
    called, part = part_with_sets(job.handler)
    table = Table(part.state, result.info.size_unit)
    kept = result.rows.kept()
    chained, whole = called != swept.name, result.rows.array
    own_rows = whole[called] if chained else whole
    # Ticks that are counted for objects without a state are the same with all sets.
    has_own = SETS in (own_rows.dtype.names or ())
    rows = own_rows[SETS] if has_own else np.broadcast_to(own_rows[:, None], (len(whole), len(job.sets)))
    before = [packed(whole[name][kept]) for name in whole.dtype.names or () if name != called] if chained else []
    names, counts = [result.symbols[i] for i in kept.tolist()], result.ticks_by_symbol[kept]
    heads = row_heads(names, range(len(kept)), counts.tolist(), row_head(layout_of(job.handler.state)))
    own = blake2b(row_head(layout_of(part.state)), digest_size=DIGEST_BYTES)
    own.update("\0".join(names).encode())
    outputs, found = result._digests(), dict[int, Left]()
    at_once = max(_GROUP_ROWS // max(len(kept), 1), 1)
    with atomic_write(path) as file:
        writer: Any = None
        for first in range(0, len(job.sets), at_once):
            numbers = list(job.sets)[first : first + at_once]
            mine = np.concatenate([rows[kept, first + place] for place in range(len(numbers))])
            made = arrow_table({
                SET: Shown(np.repeat(np.array(numbers, np.uint32), len(kept)), None),
                "symbol": SymbolNames(np.tile(np.arange(len(kept)), len(numbers)), names),
                **table.shown(mine),
            })  # fmt: skip
            if writer is None:
                writer = arrow_file(".parquet", file, made.schema)
            writer.write_table(made)
            for place, number in enumerate(numbers):
                bits, rows_digest = packed(mine[place * len(kept) :][: len(kept)]), own.copy()
                rows_digest.update(bits.data)
                found[number] = Left(
                    fingerprint=_fingerprint(
                        np.hstack([*before, bits]), heads, counts > 0,
                        {**outputs, **{name: digests[number] for name, digests in emitted.items()}},
                    ),
                    rows=rows_digest.hexdigest(),
                    outputs={
                        name: Emitted(records=digests[number].records, digest=digests[number].digest().hex())
                        for name, digests in emitted.items()
                    },
                )  # fmt: skip
        writer.close()
    return found


def _fingerprint(
    bits: npt.NDArray[np.uint8],
    heads: Sequence[bytes],
    ticked: npt.NDArray[np.bool_],
    outputs: Mapping[str, OutputDigest],
) -> str:
    """Fingerprint of a replay with one set alone. ``bits``: the set's packed rows, one for each of ``heads``.
    ``ticked``: whether the symbol had a tick. ``outputs``: of the set, and of the handlers before it."""
    there = np.flatnonzero(bits.any(axis=1) | ticked)
    chosen = heads if len(there) == len(heads) else [heads[i] for i in there.tolist()]
    return fingerprint_of(digest_sum(row_digests(chosen, bits[there])), outputs)
