"""What ``strand.replay`` returns: a run's result, which shows itself."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from strand.replaying.run_result import RunResult

__all__ = ["ReplayResult"]


@dataclass(frozen=True, repr=False)
class ReplayResult(RunResult):
    """What ``strand.replay`` returns. ``RunResult`` (``strand.replaying.run_result``) says what its fields are."""

    def plot(self, kind: str | None = None, *, symbols: Sequence[str] | None = None) -> Any:
        """A matplotlib figure of the run, which a notebook shows by itself.

        ``kind``: ``"throughput"`` (and lag), ``"workers"`` (load of each), ``"latency"``, ``"symbols"`` (the busiest),
        ``"prices"`` (top of book and volume of ``symbols``, of those that were watched), or ``"bars"`` (those that a
        handler emitted, of ``symbols`` or the busiest four); None: the first four.
        Raises MissingExtraError without the extra ``plot``, ConfigurationError where there is nothing to draw.
        """
        from strand.report.figures import plot

        return plot(self, kind, symbols=symbols)

    def report(self, path: str | os.PathLike[str], *, symbols: Sequence[str] | None = None, handler: str = "") -> None:
        """Writes the run as one HTML page that needs nothing else. ``symbols``: whose prices to show, of those watched
        (None: all of them), ``handler``: a name to show.

        Raises MissingExtraError without the extra ``report``, FeedError where the file cannot be written.
        """
        from strand.report.page import check_page_path, write_page

        check_page_path(Path(path))
        write_page(Path(path), self, symbols=symbols, handler=handler)

    def _repr_html_(self) -> str:
        from strand.report.card import card

        return card(self)
