"""What ``strand.replay`` returns: a run's result, which shows itself."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from strand.run_result import RunResult

__all__ = ["ReplayResult"]


@dataclass(frozen=True)
class ReplayResult(RunResult):
    """What a replay did.

    ``ticks``: handed to the dispatcher, ``seen``: how many of each kind, and with times that run backwards.
    ``unpriced``: by symbol, trades without a price, with which no handler of one's own that asks for trades was called.
    ``wall_s``: asking for the first batch to the last handler's end; of it, ``setup_s`` went into making the dispatcher
    and starting its workers.
    ``feed_s``: time the publishing thread spent getting batches (reading, inflating, decoding); of it, ``input_wait_s``
    was spent waiting for the thread that inflates. ``statistics`` as of the end, ``rows`` the final state,
    ``feed_statistics`` the feed's own counts, ``skipped`` what it passed over under ``on_error="skip"``,
    ``failures`` of quarantined strands as text, ``outputs`` what handlers emitted, by name, shape (n,), as
    strand.outputs says, ``written`` file and number of records of what went to files, ``books`` the order books where
    a handler keeps them, ``objects`` an object handler's objects by symbol, ``pacing`` how well the pace was kept,
    None for as fast as it goes, ``timeline`` counters and rows over the run (None with ``timeline=False``, and of a
    plain loop), ``intervals`` what ``fingerprint_every`` recorded,
    ``days`` each day's rows with ``per_day=True``.
    """

    def plot(self, kind: str | None = None, *, symbols: Sequence[str] | None = None) -> Any:
        """A matplotlib figure of the run, which a notebook shows by itself.

        ``kind``: ``"throughput"`` (and lag), ``"workers"`` (load of each), ``"latency"``, ``"symbols"`` (the busiest),
        ``"prices"`` (top of book and volume of ``symbols``, of those that were watched), or ``"bars"`` (those that a
        handler emitted, of ``symbols`` or the busiest four); None: the first four.
        Raises MissingExtraError without the extra ``plot``, ConfigurationError where there is nothing to draw.
        """
        from strand.observe.figures import plot

        return plot(self, kind, symbols=symbols)

    def report(self, path: str | os.PathLike[str], *, symbols: Sequence[str] | None = None, handler: str = "") -> None:
        """Writes the run as one HTML page that needs nothing else. ``symbols``: whose prices to show, of those watched
        (None: all of them), ``handler``: a name to show.

        Raises MissingExtraError without the extra ``report``, FeedError where the file cannot be written.
        """
        from strand.observe.page import check_page_path, write_page

        check_page_path(Path(path))
        write_page(Path(path), self, symbols=symbols, handler=handler)

    def _repr_html_(self) -> str:
        from strand.observe.card import card

        return card(self)
