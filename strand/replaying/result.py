"""Result of ``strand.replay``, which shows itself."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from strand.fixed import dataclass
from strand.replaying.run_result import RunResult


@dataclass(frozen=True, repr=False)
class ReplayResult(RunResult):
    """Result of ``strand.replay``. Its fields are those of ``strand.replaying.run_result.RunResult``."""

    def plot(self, kind: str | None = None, *, symbols: Sequence[str] | None = None) -> Any:
        """Draws a matplotlib figure of the run, which a notebook shows by itself.

        Args:
            kind: ``"throughput"`` (and lag), ``"workers"`` (load of each), ``"latency"`` or ``"symbols"`` (the
                busiest). None draws these four. ``"prices"`` has the top of book and volume of watched symbols,
                ``"bars"`` the bars that a handler emitted.
            symbols: The symbols of ``"prices"``, out of those that were watched, or of ``"bars"``. None draws bars of
                the busiest four.

        Raises:
            MissingExtraError: Without the extra ``plot``.
            ConfigurationError: If there is nothing to draw.
        """
        from strand.report.figures import plot

        return plot(self, kind, symbols=symbols)

    def report(self, path: str | os.PathLike[str], *, symbols: Sequence[str] | None = None, handler: str = "") -> None:
        """Writes the run as one HTML page that needs nothing else.

        Args:
            path: The file to write.
            symbols: The symbols whose prices to show, out of those that were watched. None shows all of them.
            handler: A name of the handler to show.

        Raises:
            MissingExtraError: Without the extra ``report``.
            ConfigurationError: If ``path`` has another ending than HTML's, or its folder does not exist; or a symbol
                was not watched.
            FeedError: If the file cannot be written.
        """
        from strand.report.html import check_page_path, write_page

        check_page_path(Path(path))
        write_page(Path(path), self, symbols=symbols, handler=handler)

    def _repr_html_(self) -> str:
        from strand.report.html import card

        return card(self)
