"""All symbols' rows at regular times of the feed: a table of times and symbols."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from strand.brief import brief, listed
from strand.dispatch.base import interior
from strand.errors import ConfigurationError
from strand.feeds import Feed, TickBatch
from strand.fixed import dataclass
from strand.handlers.sessions import Sessions, SessionsLike
from strand.options import named_options
from strand.replaying.snapshot_tables import Changes, Copies, Fields, Snapshots, Taken
from strand.replaying.stops import Stop
from strand.spans import SpanLike, span_ns, span_text

if TYPE_CHECKING:
    from strand.binding.books import RowHistory
    from strand.caller.run import CallerRun
    from strand.dispatch.dispatcher import Dispatcher
    from strand.output.rows import Rows


@dataclass(frozen=True, repr=False)
class Snapshot:
    """Order for snapshots, made by ``strand.snapshot`` for ``replay(snapshot=...)``."""

    every_ns: int
    fields: tuple[str, ...] | None
    symbols: tuple[str, ...] | None
    sessions: Sessions | None

    def __repr__(self) -> str:
        names = "" if self.symbols is None else f"symbols {listed(self.symbols)}"
        sessions = "" if self.sessions is None else repr(self.sessions)
        return brief(self, f"every {span_text(self.every_ns)}", listed(self.fields or ()), names, sessions)


@named_options("snapshot()")
def snapshot(
    *,
    every: SpanLike,
    fields: Sequence[str] | None = None,
    symbols: Sequence[str] | None = None,
    sessions: SessionsLike | None = None,
) -> Snapshot:
    """Asks ``replay(snapshot=...)`` for all symbols' values at regular times of the feed: ``result.snapshots``.

    A snapshot at T has each row as all ticks up to and at T have left it. The feed's time is the greatest ``ts_recv``
    so far. The table is the same on any number of workers.

    Handlers in C and compiled ones keep each row of before as they change it. A run with others, of several
    symbols, or with ``save`` or ``load``, is brought to rest at each snapshot instead, which takes far longer
    (docs/results.md).

    Args:
        every: The time between two snapshots: ``"1s"`` or float seconds. They are at its multiples since the UNIX
            epoch.
        fields: Names of the rows' fields: ``"bid_price"``, or ``"book.bid_price"`` of a chain. None has all fields
            that tables show.
        symbols: Names, in the order of the table's columns. None has all symbols with ticks.
        sessions: Take snapshots only within these hours, their ends included: ``"09:30-16:00 America/New_York"`` or
            ``"XNYS"``, as for ``strand.bars``. None takes them at all times between the first tick and the last.

    Raises:
        ConfigurationError: If an argument cannot work; it names the argument.
    """
    names = None if fields is None else _texts("fields", fields)
    chosen = None if symbols is None else _texts("symbols", symbols)
    parsed = Sessions.parse(sessions) if isinstance(sessions, str) else sessions
    if parsed is not None and not isinstance(parsed, Sessions):
        raise ConfigurationError(
            "sessions", f"{sessions!r} is neither hours with a zone, nor a calendar, nor strand.Sessions"
        )
    return Snapshot(span_ns("every", every), names, chosen, parsed)


def _texts(option: str, given: Sequence[str]) -> tuple[str, ...]:
    if isinstance(given, str) or not isinstance(given, Sequence) or not all(isinstance(each, str) for each in given):
        raise ConfigurationError(option, f"{given!r} is not a list of names")
    if not given:
        raise ConfigurationError(option, "the list is empty")
    if len(set(given)) < len(given):
        twice = next(each for at, each in enumerate(given) if each in given[:at])
        raise ConfigurationError(option, f"{twice!r} is in the list twice")
    return tuple(given)


class SnapshotRecorder(Stop):
    """Takes the snapshots of a run. ``counts``: of published ticks, by symbol, up to date at each place.

    Raises ConfigurationError for a field that rows do not have, and where symbols have several handlers.
    """

    def __init__(
        self, wanted: Snapshot, feed: Feed, dispatcher: Dispatcher | CallerRun, counts: npt.NDArray[np.int64]
    ) -> None:
        self._wanted = wanted
        self._feed = feed
        self._dispatcher = dispatcher
        self._counts = counts
        self._fields = Fields(wanted.fields, dispatcher.rows)
        self._known = np.empty(0, np.intp)

    @abstractmethod
    def end(self) -> None:
        """All has been handled."""

    @abstractmethod
    def snapshots(self) -> Snapshots:
        """The snapshots that were taken."""

    def _in_sessions(self, first: int, end: int) -> npt.NDArray[np.int64]:
        """Times for snapshots from ``first``, which is one, to ``end``, which is not in it."""
        every, sessions = self._wanted.every_ns, self._wanted.sessions
        spans = [(first, end)]
        if sessions is not None:
            for start, until, reason in sessions.unknown:
                if start < end and first < until:
                    raise ConfigurationError("sessions", reason)
            table = sessions.table
            table = table[np.searchsorted(table[:, 1], first) : np.searchsorted(table[:, 0], end)]
            spans = [(max(first, self._multiple(start)), min(end, close + 1)) for start, close in table.tolist()]
        if (n := sum((until - start) // every for start, until in spans)) > _MOST:
            raise ConfigurationError(
                "snapshot",
                f"{n:,} times from {first:,} to {end:,} ns: a tick's time is wrong, or {span_text(every)} is too short",
            )
        found = [np.arange(start, until, every, dtype=np.int64) for start, until in spans]
        # A time may end one session and begin the next.
        return found[0] if len(found) == 1 else np.unique(np.concatenate([np.empty(0, np.int64), *found]))

    def _multiple(self, time: int) -> int:
        """The first time for a snapshot at or after a time."""
        return -(-time // self._wanted.every_ns) * self._wanted.every_ns

    def _keys(self) -> npt.NDArray[np.intp]:
        """The indexes of the chosen symbols that the feed has named so far, in their order."""
        chosen = self._wanted.symbols or ()
        if len(self._known) < len(chosen):
            self._dispatcher.learn_symbols(self._feed.symbols)
            found = map(self._dispatcher.symbols.find, chosen)
            self._known = np.array([key for key in found if key is not None], np.intp)
        return self._known

    def _table(self, source: Copies | Changes, seen: npt.NDArray[np.intp]) -> Snapshots:
        """``seen``: the symbols to show where none were chosen."""
        keys = seen if self._wanted.symbols is None else self._keys()
        return Snapshots(source, keys, self._dispatcher.symbols, self._fields)


class CopyRecorder(SnapshotRecorder):
    """Brings a run to rest before the first tick behind each snapshot's time, and copies the rows."""

    def __init__(
        self, wanted: Snapshot, feed: Feed, dispatcher: Dispatcher | CallerRun, counts: npt.NDArray[np.int64]
    ) -> None:
        super().__init__(wanted, feed, dispatcher, counts)
        self._next: int | None = None
        self._time = self._published = _BEFORE
        #: The feed's time at each tick of the batch.
        self._times = np.empty(0, np.int64)
        self._taken: list[Taken] = []

    def begin(self, batch: TickBatch) -> None:
        self._times = np.maximum(np.maximum.accumulate(batch["ts_recv"]), self._time)
        if len(batch):
            self._time = int(self._times[-1])
            if self._next is None:
                self._next = self._multiple(max(int(self._times[0]), 0))

    def next(self, at: int) -> int:  # noqa: ARG002 - it has been there, so the next snapshot is behind that
        assert self._next is not None
        return int(np.searchsorted(self._times, self._next, side="right"))

    def act(self, at: int) -> None:
        assert self._next is not None
        if self._times[at] > self._next:
            self._take(int(self._times[at]) - 1)

    def published(self, ticks: TickBatch) -> None:
        if len(ticks):
            self._published = max(self._published, int(ticks["ts_recv"].max()))

    def end(self) -> None:
        if self._next is not None and self._next <= self._published:
            self._take(self._published)

    def _take(self, until: int) -> None:
        """Takes all that are due up to a time: the rows have been the same since the first of them."""
        assert self._next is not None
        first, self._next = self._next, self._multiple(until + 1)
        times = self._in_sessions(first, self._next)
        if not len(times):
            return
        self._dispatcher.drain()
        keys = np.flatnonzero(self._counts)
        if self._wanted.symbols is not None:
            keys = np.intersect1d(keys, self._keys())
        self._taken.append(Taken(times, keys, self._fields.values(keys)))

    def snapshots(self) -> Snapshots:
        return self._table(Copies(self._taken), self._taken[-1].keys if self._taken else np.empty(0, np.intp))


class HistoryRecorder(SnapshotRecorder):
    """Makes the snapshots of what handlers' rows were before each of them changed, which the run keeps as it goes."""

    def __init__(
        self,
        wanted: Snapshot,
        feed: Feed,
        dispatcher: Dispatcher | CallerRun,
        counts: npt.NDArray[np.int64],
        history: RowHistory,
    ) -> None:
        super().__init__(wanted, feed, dispatcher, counts)
        self._history = history
        self._first: int | None = None
        self._time = 0
        self._feed_times: list[npt.NDArray[np.int64]] = []
        #: The history has been told of the symbols below this number.
        self._told = 0
        self._changes: Changes | None = None
        # A timer counts from the first tick at or after it on, of any symbol: the table has to know when ticks were.
        self.sees_ticks = any(handler.timers for handler in interior(dispatcher).handlers)

    def begin(self, batch: TickBatch) -> None:
        if self._wanted.symbols is not None and len(self._feed.symbols) > self._told:
            self._leave_out()
        if len(batch) and self._first is None:
            self._first = max(int(batch["ts_recv"][0]), 0)
        if len(batch) and self.sees_ticks:
            times = np.maximum(np.maximum.accumulate(batch["ts_recv"]), self._time)
            intervals = -(-times // self._wanted.every_ns)
            self._feed_times.append(times[np.append(np.flatnonzero(np.diff(intervals)), len(times) - 1)])
            self._time = int(times[-1])

    def _leave_out(self) -> None:
        """Has no rows kept of the symbols that the feed has named since the last call, unless they are chosen, or have
        had ticks without a name."""
        first, self._told = self._told, len(self._feed.symbols)
        self._dispatcher.learn_symbols(self._feed.symbols)
        table, chosen = self._dispatcher.symbols, set(self._keys().tolist())
        named = [key for key in range(first, self._told) if table.has_name(key) and key not in chosen]
        others = np.array(named, np.intp)
        self._history.leave_out(others[self._counts[others] == 0])

    def end(self) -> None:
        self._changes = self._made(None)

    def _made(self, failed: int | None) -> Changes:
        """The table of snapshots up to the feed's time now, or up to that at which a handler failed."""
        times = feed_times = np.empty(0, np.int64)
        if self._first is not None:
            first = self._multiple(self._first)
            times = self._in_sessions(first, max(first, self._multiple(interior(self._dispatcher).feed_time + 1)))
            feed_times = times
        if self.sees_ticks and len(times):
            seen = np.concatenate(self._feed_times)
            feed_times = seen[np.searchsorted(seen, times, side="right") - 1]
        if failed is not None:
            times, feed_times = times[feed_times < failed], feed_times[feed_times < failed]
        return Changes(self._history, times, feed_times, self._fields)

    def snapshots(self) -> Snapshots:
        # A failure ends a run: what comes before it in the feed has been handled, and of the rest nobody knows.
        changes = self._changes or self._made(self._history.failed or 0)
        return self._table(changes, changes.last.keys)


#: The most times from one tick to another: so a wrong time does not take all memory.
_MOST: Final = 1 << 27
#: Before every time of a feed.
_BEFORE: Final = -(2**63)


def read_snapshot(wanted: object) -> Snapshot:
    """The snapshot that ``replay(snapshot=...)`` was given: itself, or by its interval. Raises ConfigurationError."""
    if isinstance(wanted, Snapshot):
        return wanted
    if isinstance(wanted, str):
        return Snapshot(span_ns("snapshot", wanted), None, None, None)
    raise ConfigurationError(
        "snapshot", f"{wanted!r} is not a snapshot; give strand.snapshot(every='1s', fields=[...]), or '1s'"
    )


def history_of(wanted: Snapshot, rows: Rows) -> RowHistory:
    """Make the history of rows that snapshots are made of. Raises ConfigurationError as ``SnapshotRecorder``."""
    return Fields(wanted.fields, rows).history(wanted.every_ns)


def snapshots_for(
    wanted: Snapshot, feed: Feed, dispatcher: Dispatcher | CallerRun, counts: npt.NDArray[np.int64]
) -> SnapshotRecorder:
    """Returns the recorder of a replay's snapshots. Raises ConfigurationError."""
    if (history := interior(dispatcher).history) is not None:
        return HistoryRecorder(wanted, feed, dispatcher, counts, history)
    return CopyRecorder(wanted, feed, dispatcher, counts)
