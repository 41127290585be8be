"""Search for the first record in which outputs of two runs differ, within a known interval, by running both again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from strand.diff.records import RecordDifference, diff_tables
from strand.diff.rerun import Load, Ticks, handlers_of, open_input
from strand.diff.runs import OutputParting, Parting
from strand.diff.tables import PIECE, Columns, Table
from strand.dispatch.dispatcher import Dispatcher
from strand.output.emitted import EmittedRecords
from strand.output.records import NO_FEED
from strand.replaying.fingerprint_file import OutputState
from strand.replaying.run import add_feed_column
from strand.ticks import joined

__all__ = ["RecordParting", "narrow_outputs"]


@dataclass(frozen=True, slots=True)
class RecordParting:
    """The first record of an output at which two runs part: ``difference.record`` counts from the run's beginning."""

    output: str
    difference: RecordDifference


class _Emitted(Table):
    """Records of an output, with their symbols' names in the place of their numbers."""

    def __init__(self, records: npt.NDArray[Any], names: Sequence[str]) -> None:
        super().__init__()
        self._records = records
        self._names = names
        fields = {name: str(records.dtype[name]) for name in records.dtype.names or ()}
        #: Shown and not compared: the same ticks may lie in other files.
        self.feeds = records["feed"] if fields.pop("feed", None) else None
        self.types = {"symbol" if name == "instrument_id" else name: form for name, form in fields.items()}

    def feed(self, record: int | None) -> int | None:
        """The feed of a merge that a record came from."""
        if self.feeds is None or record is None or self.feeds[record] == NO_FEED:
            return None
        return int(self.feeds[record])

    def pieces(self) -> Iterator[Columns]:
        for start in range(0, len(self._records), PIECE):
            piece = self._records[start : start + PIECE]
            columns = {name: np.ascontiguousarray(piece[name]) for name in piece.dtype.names or ()}
            symbols = np.empty(len(piece), object)
            symbols[:] = [self._names[key] for key in columns["instrument_id"].tolist()]
            yield {name: symbols if name == "symbol" else columns[name] for name in self.types}


def narrow_outputs(
    parting: Parting, sources: Sequence[Sequence[str] | None], loads: Sequence[Load | None]
) -> tuple[list[RecordParting], list[str]]:
    """The first differing record of each output that differs, and remarks on the second run, in words.

    Each run's handlers are run again over its own input. Raises ConfigurationError where one of them cannot be loaded
    or its input is not there, FeedError, HandlerError.
    """
    found: list[RecordParting] = []
    notes: list[str] = []
    sides = [_run_again(parting, side, sources[side], loads[side]) for side in (0, 1)]
    for output in parting.outputs:
        wrong = [
            letter
            for letter, side, recorded in zip("AB", sides, (output.a, output.b), strict=True)
            if recorded is not None and side.states.get(output.name) != recorded
        ]
        if wrong:
            notes.append(
                f"{' and '.join(wrong)}, run again, {'do' if len(wrong) > 1 else 'does'} not emit the recorded "
                f"{output.name}: the handler has changed since, or it uses more than its row and its ticks"
            )
        tables = [side.tables.get(output.name) for side in sides]
        if tables[0] is None or tables[1] is None:
            notes.append(f"only {'A' if tables[1] is None else 'B'} has an output {output.name}")
            continue
        difference, _ = diff_tables(tables[0], tables[1])
        if difference is not None:
            shown = tables[1] if difference.only_in == "b" else tables[0]
            feed = shown.feed(difference.record)
            found.append(RecordParting(output.name, replace(difference, feed=feed).moved(output.before)))
        elif not wrong:
            notes.append(
                f"run again, both emit the same {output.name}: the cause of the difference is not in the files"
            )
    return found, notes


@dataclass(frozen=True, slots=True)
class _Side:
    """Second run of one side: by output the number of records and their digest, and the records since both were the
    same."""

    states: Mapping[str, OutputState]
    tables: Mapping[str, _Emitted]


def _run_again(parting: Parting, side: int, source: Sequence[str] | None, load: Load | None) -> _Side:
    header, end = parting.headers[side], parting.ends[side]
    by = parting.by
    assert by is not None
    with open_input(header, source) as ticks:
        handlers, _ = handlers_of(header, ticks, load)
        dispatcher = Dispatcher(ticks.names(), handlers=handlers, workers=1, cores=None)
        kept = {output.name: _Kept(output) for output in parting.outputs if output.name in dispatcher.outputs}
        dispatcher.outputs.digest_all()
        ticks.tick_feeds = add_feed_column(ticks.feed, dispatcher.outputs)
        recorded = {output.name: (output.a, output.b)[side] for output in parting.outputs}
        with dispatcher:
            _publish(dispatcher, ticks, by, kept)
            dispatcher.drain()
            states = _states(dispatcher)
            # Records emitted at the end of a run are no part of a rest.
            rest = end is None or end.ticks != by or all(states.get(n) == state for n, state in recorded.items())
            if rest:
                _take(dispatcher, kept)
        if not rest:
            states = _states(dispatcher)
            _take(dispatcher, kept)
        tables = {name: _Emitted(records.array(), dispatcher.symbols) for name, records in kept.items()}
        return _Side(states, tables)


class _Kept:
    """The records of an output from a place on."""

    def __init__(self, output: OutputParting) -> None:
        self._left_out = output.before
        self._batches: list[npt.NDArray[Any]] = []

    def add(self, records: EmittedRecords) -> None:
        batch = np.asarray(records)
        passed = min(self._left_out, len(batch))
        self._left_out -= passed
        self._batches.append(batch[passed:])

    def array(self) -> npt.NDArray[Any]:
        return joined(self._batches)


def _publish(dispatcher: Dispatcher, ticks: Ticks, by: int, kept: Mapping[str, _Kept]) -> None:
    for start, batch in ticks:
        dispatcher.learn_symbols(ticks.feed.symbols)
        dispatcher.publish(batch[: by - start])
        _take(dispatcher, kept)
        if start + len(batch) >= by:
            return


def _take(dispatcher: Dispatcher, kept: Mapping[str, _Kept]) -> None:
    """Keeps what came of the outputs in question; of others nothing."""
    for name, output in dispatcher.outputs.items():
        records = output.take()
        if name in kept:
            kept[name].add(records)


def _states(dispatcher: Dispatcher) -> dict[str, OutputState]:
    digests = dispatcher.outputs.settled_digests()
    return {name: (digest.records, digest.digest().hex()) for name, digest in digests.items()}
