"""Search for the first tick or record at which two runs differ: their handlers run again over a known interval."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from strand import feeds
from strand.caller.run import CallerRun
from strand.diff.records import PIECE, Columns, RecordDifference, Table, diff_tables
from strand.diff.runs import OutputParting, Parting, to_json
from strand.dispatch.base import interior
from strand.dispatch.dispatcher import Dispatcher
from strand.errors import ConfigurationError, StrandError
from strand.feeds import Feed
from strand.feeds.base import batches_from
from strand.feeds.merge.selected import feeds_of_batch
from strand.fixed import dataclass
from strand.handlers import Handler
from strand.handlers.loading import load_handler
from strand.output.emitted import EmittedRecords
from strand.output.fingerprint import layout_of, packed, row_digests, row_head, row_heads
from strand.output.records import NO_FEED, TickFeeds
from strand.replaying.fingerprint_file import OutputState
from strand.replaying.recorder import describe_source
from strand.replaying.run import add_feed_column
from strand.symbols import SymbolTable
from strand.ticks import FIELDS, joined, picked

#: A handler's name, and its options as text.
Load = tuple[str, Mapping[str, str]]


class Ticks:
    """The ticks of a run: (position of the first, batch), as often as it is iterated over."""

    def __init__(self, feed: Feed, position: int, limit: int | None) -> None:
        self.feed = feed
        self._position = position
        self._limit = limit
        #: Told of each batch before it is given, where this is a merge's.
        self.tick_feeds: TickFeeds | None = None

    def __iter__(self) -> Iterator[tuple[int, npt.NDArray[Any]]]:
        at, cut = 0, self._position > 0
        for batch in batches_from(self.feed, self._position):
            part = batch if self._limit is None else batch[: self._limit - at]
            if self.tick_feeds is not None:
                self.tick_feeds.add(feeds_of_batch(self.feed, len(batch), cut=cut)[: len(part)])
                cut = cut and not len(batch)
            if len(part):
                yield at, part
            at += len(part)
            if at == self._limit:
                return

    def names(self) -> SymbolTable:
        """A place for every index the feed may use, with the names known by now."""
        return SymbolTable.with_capacity(self.feed.symbols, self.feed.max_symbols)

    def name(self, key: int) -> str:
        """A symbol's name as far as it is known by now."""
        names = self.feed.symbols
        return names[key] if key < len(names) and names[key] else f"#{key}"

    def keys_of(self, wanted: Iterable[str], batch: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
        """Mask of a batch's ticks whose symbol is wanted, shape (n,)."""
        wanted = set(wanted)
        keys, inverse = np.unique(batch["instrument_id"], return_inverse=True)
        kept = np.fromiter((self.name(k) in wanted for k in keys.tolist()), np.bool_, len(keys))
        found: npt.NDArray[np.bool_] = kept[inverse]
        return found


@contextmanager
def open_input(header: Mapping[str, Any], source: Sequence[str] | None) -> Iterator[Ticks]:
    """The input that a fingerprint file's header speaks of; ``source`` says where it is now.

    Raises ConfigurationError where it is not there, or not what it was; FeedError where it cannot be read.
    """
    recorded = header.get("source", [])
    paths = list(source) if source is not None else [str(s["path"]) for s in recorded]
    if any(s["size"] is None for s in recorded) and source is None:
        raise ConfigurationError(
            "source", f"the run's input was not a file ({paths[0]}): name files with the same ticks with --source"
        )
    options = dict(header.get("feed_options", {}))
    if source is None:
        for now, then in zip(describe_source(paths, options), recorded, strict=True):
            if (now["size"], now["head"]) != (then["size"], then["head"]):
                raise ConfigurationError("source", f"{then['path']} has changed since the run was recorded")
    selection = header.get("selection", {})
    feed = feeds.open(
        paths if len(paths) > 1 else paths[0],
        symbols=selection.get("symbols", ()),
        start=selection.get("start"),
        end=selection.get("end"),
        **options,
    )
    try:
        yield Ticks(feed, selection.get("position", 0), selection.get("limit"))
    finally:
        feed.close()


def handlers_of(
    header: Mapping[str, Any], ticks: Ticks, load: Load | None
) -> tuple[dict[str, Handler], dict[str, Load]]:
    """A recorded run's handlers by symbol, and what they were loaded by. ``load``: the name and the options of one for
    all symbols, instead of those recorded. Raises ConfigurationError where one cannot be loaded."""
    recorded = header.get("handlers", {})
    if load is not None:
        recorded = {"*": {"load": load[0], "options": load[1]}}
    handlers: dict[str, Handler] = {}
    loaded: dict[str, Load] = {}
    for symbol, one in recorded.items():
        if one.get("load") is None:
            raise ConfigurationError(
                f"the file does not say where handler {one.get('name')!r} is loaded from: give it with --handler-a "
                "or --handler-b"
            )
        loaded[symbol] = str(one["load"]), one.get("options", {})
        handlers[symbol] = load_handler(*loaded[symbol]).known(ticks.feed.info)
    return handlers, loaded


class Rerun:
    """A recorded run's handlers, run again; ``load`` as ``handlers_of`` has it. Raises ConfigurationError."""

    def __init__(self, header: Mapping[str, Any], ticks: Ticks, load: Load | None) -> None:
        #: ``loaded``: what was loaded, by symbol.
        handlers, self.loaded = handlers_of(header, ticks, load)
        self.described = ", ".join(dict.fromkeys(h.described for h in handlers.values()))
        self._ticks = ticks
        alone = handlers.get("*") if len(handlers) == 1 else None
        self._loop = CallerRun(ticks.names(), alone, handlers=None if alone is not None else handlers)
        self._counts = np.zeros(ticks.feed.max_symbols, np.int64)

    def publish(self, batch: npt.NDArray[Any]) -> None:
        """Runs the handlers over ticks."""
        if interior(self._loop).wants_names:
            self._loop.learn_symbols(self._ticks.feed.symbols)
        self._loop.publish(batch)
        np.add.at(self._counts, batch["instrument_id"], 1)

    def row(self, key: int) -> np.void:
        """A symbol's row."""
        row: np.void = self._loop.rows.at(key)
        return row

    def digest(self, symbol: str) -> str:
        """A symbol's digest as fingerprint files have it."""
        self._loop.learn_symbols(self._ticks.feed.symbols)
        key = self._loop.symbols.index(symbol)
        row = np.array([self.row(key)])
        head = row_head(layout_of(row.dtype))
        found = row_digests(row_heads(self._loop.symbols, [key], [int(self._counts[key])], head), packed(row))
        return found.tobytes()[:8].hex()


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
            states = _output_states(dispatcher)
            # Records emitted at the end of a run are no part of a rest.
            rest = end is None or end.ticks != by or all(states.get(n) == state for n, state in recorded.items())
            if rest:
                _take(dispatcher, kept)
        if not rest:
            states = _output_states(dispatcher)
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


def _output_states(dispatcher: Dispatcher) -> dict[str, OutputState]:
    digests = dispatcher.outputs.settled_digests()
    return {name: (digest.records, digest.digest().hex()) for name, digest in digests.items()}


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
            batches.append(picked(part, keep))
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
            yield None, picked(batch[:cut], ticks.keys_of(wanted, batch[:cut]))
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
