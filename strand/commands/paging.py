"""``--report`` and ``--report-symbols``: the page a replay leaves."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click

from strand.handlers import Handler
from strand.observe.page import check_page_path, write_page
from strand.replay import ReplayResult

__all__ = ["Paging"]

#: The busiest symbols that are watched where none are named.
BUSIEST: Final = 4


@dataclass(frozen=True)
class Paging:
    """The page to write, if any: where, about which symbols, and what the handler is called."""

    path: Path | None
    symbols: list[str] | None
    handler: str

    @classmethod
    def of(cls, path: Path | None, symbols: str | None, handler: Handler) -> Paging:
        """From the options. Raises what says that no page can be written, before anything has run."""
        names = None if symbols is None else [name for name in symbols.split(",") if name]
        if path is None and symbols is not None:
            raise click.UsageError("--report-symbols needs --report")
        if names == []:
            raise click.UsageError("--report-symbols: name a symbol")
        if path is not None:
            check_page_path(path)
        return cls(path, names, handler.described)

    @property
    def watch(self) -> int | list[str] | None:
        """What the replay is to watch."""
        if self.path is None:
            return None
        return BUSIEST if self.symbols is None else self.symbols

    def write(self, result: ReplayResult, error: str = "") -> None:
        """Writes the page; ``error``: what ended the run early."""
        if self.path is not None:
            write_page(self.path, result, symbols=self.symbols, handler=self.handler, error=error)
            click.echo(f"report written to {self.path}", err=True)
