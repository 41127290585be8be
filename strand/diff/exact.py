"""Search for the first tick at which two runs differ, within a known interval, by running their handlers again over the
input."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from strand.diff.emitted import RecordParting, narrow_outputs
from strand.diff.rerun import Load, Rerun, Ticks, chosen, open_input
from strand.diff.runs import Parting
from strand.diff.to_json import to_json
from strand.errors import StrandError
from strand.ticks import FIELDS

__all__ = ["Exact", "Narrowed", "narrow"]


@dataclass(frozen=True, slots=True)
class Exact:
    """The first tick at which two runs part.

    Attributes:
        what: ``"input"`` if the ticks differ, ``"rows"`` if the symbol's rows after it do.
        symbol: The tick's symbol.
        position: How many ticks the run has before it: run A, or B if ``a_has`` is False.
        sequence: The tick's sequence number.
        ts_recv: The tick's receive time, ns since the epoch.
        fields: By name, the values in A and B, of the tick or of the row. If only one run has a tick there, the other's
            values are None.
        a_has: Whether run A has a tick there.
        b_has: Whether run B has a tick there.
    """

    what: str
    symbol: str
    position: int
    sequence: int
    ts_recv: int
    fields: Mapping[str, tuple[Any, Any]]
    a_has: bool = True
    b_has: bool = True


@dataclass(frozen=True, slots=True)
class Narrowed:
    """The exact tick at which two runs part, and the first other record of each output that differs.

    Attributes:
        exact: The tick; None if it is not known.
        notes: Why it is not known, and what running again showed.
        records: The first other records.
    """

    exact: Exact | None
    notes: tuple[str, ...] = field(default=())
    records: tuple[RecordParting, ...] = ()


def narrow(
    parting: Parting,
    *,
    sources: tuple[Sequence[str] | None, Sequence[str] | None] = (None, None),
    handlers: tuple[str | None, str | None] = (None, None),
    options: tuple[Mapping[str, str], Mapping[str, str]] = ({}, {}),
) -> Narrowed:
    """Finds the first tick, and the first record of each output, at which two runs part.

    It needs the input of both runs, and handlers that can be loaded. ``notes`` of the result say what stood in the way.

    Args:
        parting: What ``diff_runs`` returned.
        sources: Where the files of each run are now. None: where its fingerprint file says.
        handlers: What to load for each run. None: what its fingerprint file names.
        options: Options of these ``handlers``, as text.
    """
    if parting.same or parting.by is None:
        return Narrowed(None)
    loads = [None if name is None else (name, given) for name, given in zip(handlers, options, strict=True)]
    found = Narrowed(None)
    try:
        if parting.symbols:
            found = _narrow_input(parting, sources) if parting.input_differs else _narrow_rows(parting, sources, loads)
    except StrandError as error:
        found = Narrowed(None, (f"not narrowed to a tick: {error}",))
    try:
        records, notes = narrow_outputs(parting, sources, loads) if parting.outputs else ([], [])
    except StrandError as error:
        records, notes = [], [f"not narrowed to a record: {error}"]
    return Narrowed(found.exact, (*found.notes, *notes), tuple(records))


# ---- the input


def _narrow_input(parting: Parting, sources: tuple[Sequence[str] | None, Sequence[str] | None]) -> Narrowed:
    assert parting.by is not None
    wanted = {s.symbol for s in parting.symbols if s.input_differs}
    sides = []
    for header, source in zip(parting.headers, sources, strict=True):
        with open_input(header, source) as ticks:
            sides.append(_by_symbol(ticks, wanted, parting.after, parting.by))
    found = [d for symbol in sorted(wanted) if (d := _first(symbol, *(s.get(symbol) for s in sides))) is not None]
    if not found:
        return Narrowed(None, ("the files at hand have the same ticks there: they are not those of the runs",))
    return Narrowed(min(found, key=lambda d: d.position))


_Symbol = tuple[npt.NDArray[np.int64], npt.NDArray[Any]]


def _by_symbol(ticks: Ticks, wanted: set[str], after: int, by: int) -> dict[str, _Symbol]:
    """Positions and ticks of each symbol wanted, from position ``after`` to ``by``."""
    positions: list[npt.NDArray[np.int64]] = []
    batches: list[npt.NDArray[Any]] = []
    for start, batch in ticks:
        first, last = max(0, after - start), by - start
        if first < len(batch):
            part = batch[first:last]
            keep = ticks.keys_of(wanted, part)
            positions.append(np.flatnonzero(keep) + start + first)
            batches.append(chosen(part, keep))
        if last <= len(batch):
            break
    if not batches:
        return {}
    place, every = np.concatenate(positions), np.concatenate(batches)
    keys = every["instrument_id"].copy()
    every["instrument_id"] = 0  # numbers the symbols of one feed
    return {ticks.name(key): (place[keys == key], every[keys == key]) for key in np.unique(keys).tolist()}


def _first(symbol: str, a: _Symbol | None, b: _Symbol | None) -> Exact | None:
    """The first tick of a symbol that is not the same in both."""
    none: _Symbol = (np.zeros(0, np.int64), np.zeros(0))
    (at_a, mine), (at_b, other) = a or none, b or none
    n = min(len(at_a), len(at_b))
    differs = np.flatnonzero(mine[:n].view("V64") != other[:n].view("V64")) if n else np.zeros(0, np.int64)
    if len(differs):
        i = int(differs[0])
    elif len(at_a) != len(at_b):
        i = n
    else:
        return None
    x, y = (side[i] if i < len(side) else None for side in (mine, other))
    shown = x if x is not None else y
    assert shown is not None
    names = [n for n in FIELDS if n != "instrument_id" and (x is None or y is None or x[n] != y[n])]
    return Exact(
        "input",
        symbol,
        int(at_a[i] if x is not None else at_b[i]),
        int(shown["sequence"]),
        int(shown["ts_recv"]),
        {n: (None if x is None else to_json(x[n]), None if y is None else to_json(y[n])) for n in names},
        x is not None,
        y is not None,
    )


# ---- the rows


def _narrow_rows(
    parting: Parting,
    sources: tuple[Sequence[str] | None, Sequence[str] | None],
    loads: Sequence[Load | None],
) -> Narrowed:
    assert parting.by is not None
    wanted = {s.symbol for s in parting.symbols}
    which = 0 if sources[0] is not None or sources[1] is None else 1
    with open_input(parting.headers[which], sources[which]) as ticks:
        runs = [Rerun(h, ticks, load) for h, load in zip(parting.headers, loads, strict=True)]
        notes: list[str] = []
        exact: Exact | None = None
        for position, batch in _pieces(ticks, wanted, parting.after, parting.by):
            for run in runs:
                run.publish(batch)
            if position is not None and exact is None:
                exact = _rows_part(runs, ticks, position, batch[0])
        for letter, run, states in zip("AB", runs, _states(parting), strict=True):
            wrong = [name for name, state in states.items() if run.digest(name) != state.rows]
            if wrong:
                notes.append(
                    f"{run.described}, as it is now, does not leave the rows that {letter} recorded of {wrong[0]}"
                    + (f" and {len(wrong) - 1:,} more" if len(wrong) > 1 else "")
                )
        if exact is not None and runs[0].loaded == runs[1].loaded:
            notes.append(
                f"this is {runs[0].described}, run twice: the same ticks leave different rows each time, so it "
                "uses more than its row and its ticks"
            )
        if exact is None and not notes:
            notes.append("run again, each leaves its recorded rows: the cause of the difference is not in the files")
        elif exact is None:
            notes.append(
                "not narrowed to a tick: run again, both leave the same rows. Either other code made one of them "
                "(--handler-a and --handler-b set the handlers), or ticks were dropped, or the handler uses more than "
                "its row and its ticks"
            )
        return Narrowed(exact, tuple(notes))


def _states(parting: Parting) -> Iterator[dict[str, Any]]:
    for side in ("a", "b"):
        yield {s.symbol: state for s in parting.symbols if (state := getattr(s, side)) is not None}


def _pieces(ticks: Ticks, wanted: Iterable[str], after: int, by: int) -> Iterator[tuple[int | None, npt.NDArray[Any]]]:
    """The ticks of some symbols: in batches up to ``after``, then one at a time with its position up to ``by``."""
    wanted = set(wanted)
    for start, batch in ticks:
        cut = min(max(0, after - start), len(batch))
        if cut:
            yield None, chosen(batch[:cut], ticks.keys_of(wanted, batch[:cut]))
        rest = batch[cut : max(cut, by - start)]
        for i in np.flatnonzero(ticks.keys_of(wanted, rest)).tolist():
            yield start + cut + i, rest[i : i + 1]
        if start + len(batch) >= by:
            return


def _rows_part(runs: Sequence[Rerun], ticks: Ticks, position: int, tick: np.void) -> Exact | None:
    """The place where rows differ after a tick, if they do."""
    key = int(tick["instrument_id"])
    rows = [run.row(key) for run in runs]
    names = [n for row in rows for n in row.dtype.names or ()]
    fields = {}
    for name in dict.fromkeys(names):
        a, b = (to_json(row[name]) if name in (row.dtype.names or ()) else None for row in rows)
        if a != b and not (a is not None and b is not None and a != a and b != b):  # noqa: PLR0124 - both are NaN
            fields[name] = (a, b)
    if not fields:
        return None
    return Exact("rows", ticks.name(key), position, int(tick["sequence"]), int(tick["ts_recv"]), fields)
