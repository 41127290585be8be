"""What a run did: its rows, outputs, counts and times."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from strand.binding.tick_counts import TickCounts
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
    from strand.replaying.fingerprint_file import Interval
    from strand.replaying.pacing import Pacing
    from strand.replaying.snapshot_tables import Snapshots
    from strand.replaying.timeline import Timeline

__all__ = ["RunResult", "inflates"]


def inflates(info: FeedInfo) -> bool:
    """Whether the feed's file is compressed: then a thread is busy with it for most of a run. A member of a zip archive
    that is stored as it is, is not."""
    return bool(info.details.get("compression", "none") != "none" and info.details.get("inflater", "") is not None)


@dataclass(frozen=True, repr=False)
class RunResult:
    """What a run did.

    Attributes:
        info: What the feed said of itself.
        symbols: Its names, by ``instrument_id``.
        ticks: Handed to the dispatcher.
        ticks_by_symbol: The same by symbol, shape (n,), i8.
        seen: How many of each kind, and with times that run backwards.
        unpriced: By symbol, trades without a price, with which no handler of one's own that asks for trades was called.
        wall_s: Asking for the first batch to the last handler's end; of it, ``setup_s`` went into making the dispatcher
            and starting its workers.
        feed_s: Time the publishing thread spent getting batches (reading, inflating, decoding); of it, ``input_wait_s``
            was spent on the file's bytes: reading them, or waiting for the thread that reads and inflates them; 0 where
            the feed does not tell.
        n_strands: Strands of the run.
        statistics: As of the end, ``rows`` the final state, ``baskets`` that of baskets by name
            (``strand.basket_handler``), ``feed_statistics`` the feed's own counts, ``skipped`` what it passed over
            under ``on_bad_record="skip"``, ``failures`` of quarantined strands as text, ``outputs`` what handlers
            emitted, by name, shape (n,), as strand.output says, ``written`` file and number of records of what went to
            files, ``objects`` an object handler's objects by symbol, ``pacing`` how well the pace was kept, None for as
            fast as it goes, ``timeline`` counters and rows over the run (None with ``timeline=False``, and of a plain
            loop), ``intervals`` what ``fingerprint_every`` recorded, ``days`` each day's rows with ``per_day=True``.
    """

    info: FeedInfo
    symbols: SymbolTable
    rows: Rows
    baskets: BasketRows
    ticks: int
    ticks_by_symbol: npt.NDArray[np.int64]
    seen: TickCounts
    unpriced: npt.NDArray[np.int64]
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
        """32 hexadecimal digits that stand for every symbol's row and ticks counted, by name: the same for
        any workers, grouping and batches; and for all outputs and baskets. Taken when it is first asked for."""
        digests = {**self._digests(), **self.baskets.digests()}
        return fingerprint_of_rows(self.rows, self.symbols, self.ticks_by_symbol, digests)

    @cached_property
    def warnings(self) -> tuple[RunWarning, ...]:
        """What was done to the data or found wrong in it (docs/warnings.md), one entry per kind; empty: nothing was.
        ``skipped`` and ``statistics.dropped`` count what options let pass."""
        return warnings_of(self)

    @property
    def books(self) -> Books:
        """The order books.

        Raises:
            ConfigurationError: Where no handler keeps any.
        """
        if self._books is None:
            raise ConfigurationError(f"books: {NO_BOOKS}")
        return self._books

    @property
    def snapshots(self) -> Snapshots:
        """What ``snapshot=`` asked for.

        Raises:
            ConfigurationError: Where it was not given.
        """
        if self._snapshots is None:
            raise ConfigurationError("snapshots: none were asked for; give replay(snapshot=strand.snapshot(...))")
        return self._snapshots

    @property
    def busiest_basket(self) -> BusiestBasket | None:
        """The baskets that share the busiest strand of baskets; None without baskets. A strand is one worker's at a
        time, so a run is not faster than that share of its handlers' work allows."""
        return self.baskets.busiest(self.ticks_by_symbol)

    @property
    def ticks_per_s(self) -> float:
        """Ticks per second of ``wall_s``."""
        return self.ticks / self.wall_s if self.wall_s > 0 else 0.0

    @property
    def input_work(self) -> str:
        """What ``input_wait_s`` went into: ``reading``, of a compressed file ``reading and inflating``."""
        packed = inflates(self.info) or any(
            feed.get("compression") not in (None, "none") for feed in self.info.details.get("feeds", ())
        )
        return "reading and inflating" if packed else "reading"

    @property
    def limited_by(self) -> str:
        """What took most of the run: ``input_work``, ``feed`` (the rest of getting ticks), ``dispatch`` (publishing,
        handlers), ``set-up`` or ``pacing``."""
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
        """Share of the run's time that a worker ran handlers, averaged over workers."""
        busy = [w.busy_ns for w in self.statistics.workers if w.name != "publishers"]
        return sum(busy) / len(busy) / (self.wall_s * 1e9) if busy and self.wall_s > 0 else 0.0
