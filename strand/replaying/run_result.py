"""Result of a run: its rows, outputs, counts and times."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from strand.binding.columns import TickCounts
from strand.brief import brief, listed, several
from strand.errors import ConfigurationError
from strand.feeds import FeedInfo
from strand.feeds.skipped import Skipped
from strand.output.basket_rows import BasketRows, BusiestBasket
from strand.output.books import NO_BOOKS, Books
from strand.output.emitted import EmittedRecords
from strand.output.fingerprint import OutputDigest, fingerprint_of_rows
from strand.output.rows import Rows
from strand.replaying.days import Day
from strand.replaying.run_warnings import RunWarning, warnings_of
from strand.stats import Statistics
from strand.symbols import SymbolTable

if TYPE_CHECKING:
    from strand.handlers.feed_trades import ContractsUsed
    from strand.replaying.fingerprint_file import Interval
    from strand.replaying.pacing import Pacing
    from strand.replaying.snapshot_tables import Snapshots
    from strand.replaying.timeline import Timeline

__all__ = ["RunResult", "inflates"]


def inflates(info: FeedInfo) -> bool:
    """True if the feed's file is compressed: then a thread is busy with it for most of a run. A member that a zip
    archive stores uncompressed does not count."""
    return bool(info.details.get("compression", "none") != "none" and info.details.get("inflater", "") is not None)


@dataclass(frozen=True, repr=False)
class RunResult:
    """Result of a run.

    Attributes:
        info: What the feed says of itself.
        symbols: The feed's names, by ``instrument_id``; as many as have a name or a tick.
        rows: The final state of all symbols.
        baskets: The final state of baskets, by name (``strand.basket_handler``).
        ticks: How many ticks were handed to the dispatcher.
        ticks_by_symbol: The same by symbol, shape (n,), i8.
        seen: How many ticks of each kind there were, and how many with times that run backwards.
        unpriced: By symbol, trades without a price, shape (n,), i8. Your own handlers that ask for trades were not
            called with them.
        unended: By symbol, events of quotes whose last tick never came, shape (n,), i8: the most of any handler.
        straddling: By symbol, ready-made bars that begin before the session or interval that they count in, shape (n,),
            i8.
        contracts: The use of the contracts that handlers were given.
        wall_s: Seconds from asking for the first batch to the end of the last handler.
        setup_s: The part of ``wall_s`` that it took to make the dispatcher and start its workers.
        feed_s: Seconds that the publishing thread spent getting batches: reading, inflating, decoding.
        input_wait_s: The part of ``feed_s`` that went into the file's bytes: reading them, or waiting for the thread
            that reads and inflates them. 0 if the feed does not tell.
        workers: How many worker threads there were; 0 for a plain loop.
        n_strands: How many strands there were.
        statistics: The dispatcher's counters at the end.
        feed_statistics: The feed's own counts, by name.
        skipped: What the feed skipped under ``on_bad_record="skip"``.
        failures: The failures of quarantined strands, as text.
        outputs: What handlers emitted, by the output's name, shape (n,): see ``strand.output``.
        written: By the output's name, the file that it was written to and the number of records.
        pacing: How well the pace was kept; None for a replay as fast as possible.
        objects: The objects of an object handler, by symbol.
        timeline: Counters and rows over the run; None with ``timeline=False``, and for a plain loop.
        intervals: What ``fingerprint_every`` recorded.
        days: The rows of each day, with ``per_day=True``.
    """

    info: FeedInfo
    symbols: SymbolTable
    rows: Rows
    baskets: BasketRows
    ticks: int
    ticks_by_symbol: npt.NDArray[np.int64]
    seen: TickCounts
    unpriced: npt.NDArray[np.int64]
    unended: npt.NDArray[np.int64]
    straddling: npt.NDArray[np.int64]
    contracts: ContractsUsed
    wall_s: float
    setup_s: float
    feed_s: float
    input_wait_s: float
    workers: int
    n_strands: int
    statistics: Statistics
    feed_statistics: Mapping[str, int]
    skipped: Skipped
    failures: tuple[str, ...]
    outputs: Mapping[str, EmittedRecords] = field(default_factory=dict)
    written: Mapping[str, tuple[Path, int]] = field(default_factory=dict)
    pacing: Pacing | None = None
    objects: Mapping[str, Any] = field(default_factory=dict)
    timeline: Timeline | None = None
    intervals: tuple[Interval, ...] = ()
    days: tuple[Day, ...] = ()
    _books: Books | None = field(default=None, repr=False)
    _snapshots: Snapshots | None = field(default=None, repr=False)
    _digests: Callable[[], Mapping[str, OutputDigest]] = field(default=dict, repr=False, compare=False)

    def __repr__(self) -> str:
        symbols = several(int(np.count_nonzero(self.ticks_by_symbol)), "symbol")
        figures = f"{self.wall_s:.3g} s", f"{self.ticks_per_s:,.0f} ticks/s", listed(self.rows.handlers)
        return brief(self, f"{several(self.ticks, 'tick')} of {symbols}", *figures)

    @cached_property
    def fingerprint(self) -> str:
        """A digest of each symbol's row and tick count, by name, and of all outputs and baskets: 32 hexadecimal digits.

        It is the same for any number of workers, grouping and batches. It is computed when it is first asked for.
        """
        digests = {**self._digests(), **self.baskets.digests()}
        return fingerprint_of_rows(self.rows, self.symbols, self.ticks_by_symbol, digests)

    @cached_property
    def warnings(self) -> tuple[RunWarning, ...]:
        """Warnings of the run (docs/warnings.md): changes that it made to the data and faults that it found, one entry
        per kind. Empty if there was nothing.

        ``skipped`` and ``statistics.dropped`` count what options let pass.
        """
        return warnings_of(self)

    @property
    def books(self) -> Books:
        """The order books.

        Raises:
            ConfigurationError: If no handler keeps books.
        """
        if self._books is None:
            raise ConfigurationError("books", f"{NO_BOOKS}")
        return self._books

    @property
    def snapshots(self) -> Snapshots:
        """The values of all symbols at regular times, as ``snapshot=`` asked for them.

        Raises:
            ConfigurationError: If ``snapshot=`` was not given.
        """
        if self._snapshots is None:
            raise ConfigurationError("snapshots", "none were asked for; give replay(snapshot=strand.snapshot(...))")
        return self._snapshots

    @property
    def busiest_basket(self) -> BusiestBasket | None:
        """The baskets that share the busiest strand of baskets; None without baskets.

        Only one worker at a time runs a strand, so that strand's share of the handlers' work bounds the speed of the
        run.
        """
        return self.baskets.busiest(self.ticks_by_symbol)

    @property
    def ticks_per_s(self) -> float:
        """Ticks per second of ``wall_s``."""
        return self.ticks / self.wall_s if self.wall_s > 0 else 0.0

    @property
    def input_work(self) -> str:
        """Work that ``input_wait_s`` was spent on: ``reading``, or for a compressed file ``reading and inflating``."""
        packed = inflates(self.info) or any(
            feed.get("compression") not in (None, "none") for feed in self.info.details.get("feeds", ())
        )
        return "reading and inflating" if packed else "reading"

    @property
    def limited_by(self) -> str:
        """Part of the run that took most of its time, as a word.

        It is what ``input_work`` says, ``feed`` (the rest of getting ticks), ``dispatch`` (publishing and handlers),
        ``set-up`` or ``pacing``.
        """
        waited_s = self.pacing.waited_s if self.pacing is not None else 0.0
        parts = {
            "pacing": waited_s,
            self.input_work: self.input_wait_s,
            "feed": self.feed_s - self.input_wait_s,
            "set-up": self.setup_s,
            "dispatch": self.wall_s - self.feed_s - self.setup_s - waited_s,
        }
        return max(parts, key=lambda name: parts[name])

    @property
    def busy_share(self) -> float:
        """The share of the run's time in which a worker ran handlers, 0 to 1, averaged over workers."""
        busy = [w.busy_ns for w in self.statistics.workers if w.name != "publishers"]
        return sum(busy) / len(busy) / (self.wall_s * 1e9) if busy and self.wall_s > 0 else 0.0
