"""One file of a sweep: a pass over its ticks with sets of parameters, and the files that its results go to."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from strand.feeds.io.atomic_write import atomic_write
from strand.handlers import Handler
from strand.handlers.loading import load_handler as _  # noqa: F401 - handlers in C are pickled by it
from strand.handlers.sets import part_with_sets, with_sets
from strand.handlers.state import SET, SETS
from strand.output.fingerprint import digest_sum, fingerprint_of, layout_of, packed, row_digests, row_head
from strand.replaying.replay import replay
from strand.replaying.result import ReplayResult
from strand.sweeping.sets import ParameterSet
from strand.tables.arrow import arrow_table, imported
from strand.tables.columns import Shown, SymbolNames, Table

__all__ = ["ROWS", "Done", "Job", "run_job"]

#: The name of the table of rows; the others are outputs' names.
ROWS: Final = "rows"
#: Of the table of rows that are written at a time, of whole sets.
_GROUP_ROWS: Final = 1 << 14


@dataclass(frozen=True, kw_only=True)
class Job:
    """``label``: what the file is called in the data set. ``handler``: None while a job is sent, apart from it.
    ``sets``: parameters by their number there. ``into``: the file of each table by its name, ``rows`` among them.
    ``options``: of ``strand.replay``."""

    label: str
    source: str | Sequence[str]
    handler: Handler | None
    sets: Mapping[int, ParameterSet]
    into: Mapping[str, Path]
    options: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Done:
    """What a job did. ``fingerprints``: of each set's rows, by its number. ``records``: of each output, of all sets.
    ``seconds``: wall time. ``warnings``: those of the run, in one line each."""

    label: str
    ticks: int
    seconds: float
    fingerprints: Mapping[int, str]
    records: Mapping[str, int]
    warnings: tuple[str, ...] = field(default=())


def run_job(job: Job) -> Done:
    """Replays the file and writes the tables. Raises what ``strand.replay`` raises; then no file has been written
    whose run did not end."""
    begun = time.perf_counter()
    swept = _swept(job)
    out = {name: path for name, path in job.into.items() if name != ROWS}
    for path in job.into.values():
        path.parent.mkdir(parents=True, exist_ok=True)
    result = replay(job.source, swept, out=out or None, timeline=False, **job.options)
    fingerprints = _write_rows(job, swept, result)
    return Done(
        label=job.label,
        ticks=result.ticks,
        seconds=time.perf_counter() - begun,
        fingerprints=fingerprints,
        records={name: result.written[name][1] for name in out},
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


def _write_rows(job: Job, swept: Handler, result: ReplayResult) -> dict[int, str]:
    """One table of all sets' rows, set by set. Returns each set's fingerprint."""
    assert job.handler is not None
    called, part = part_with_sets(job.handler)
    table = Table(part.state, result.info.size_unit)
    parquet = imported("pyarrow.parquet", "sweep")
    kept = result.rows.kept()
    rows = result.rows.array[SETS] if called == swept.name else result.rows.array[called][SETS]
    found: dict[int, str] = {}
    at_once = max(_GROUP_ROWS // max(len(kept), 1), 1)
    with atomic_write(job.into[ROWS]) as file:
        writer: Any = None
        for first in range(0, len(job.sets), at_once):
            numbers = list(job.sets)[first : first + at_once]
            mine = np.concatenate([rows[kept, first + place] for place in range(len(numbers))])
            made = arrow_table({
                SET: Shown(np.repeat(np.array(numbers, np.uint32), len(kept)), None),
                "symbol": SymbolNames(np.tile(kept, len(numbers)), result.symbols),
                **table.shown(mine),
            })  # fmt: skip
            if writer is None:
                writer = parquet.ParquetWriter(file, made.schema, compression="zstd")
            writer.write_table(made)
            for place, number in enumerate(numbers):
                found[number] = _fingerprint(mine[place * len(kept) :][: len(kept)], kept, result)
        writer.close()
    return found


def _fingerprint(rows: npt.NDArray[Any], kept: npt.NDArray[np.intp], result: ReplayResult) -> str:
    """The fingerprint of a run whose symbols have these rows, and no outputs."""
    counts, bits = result.ticks_by_symbol[kept], packed(rows)
    there = np.flatnonzero(bits.any(axis=1) | (counts > 0))
    head = row_head(layout_of(rows.dtype))
    digests = row_digests(result.symbols, kept[there].tolist(), counts[there].tolist(), bits[there], head)
    return fingerprint_of(digest_sum(digests))
