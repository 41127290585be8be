"""Options that end a replay early, or open a prompt there: ``--only``, ``--until`` and ``--pdb``."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import click

from strand.command.reading import Reads

__all__ = ["stopping"]


def stopping(command: Callable[..., None]) -> Callable[..., None]:
    """Adds the options: they become the arguments ``until`` and ``pdb`` of ``strand.replay`` in ``run``, and ``--only``
    the symbols of ``reads``. This decorator stands above the ones that make ``run`` and ``reads``."""

    @click.option("--only", metavar="SYMBOL", help="Replay only this symbol.")
    @click.option(
        "--until",
        metavar="NUMBER|TIME",
        help="Stop after this tick of the symbol of --only (the first is 1), or at a time as for --start.",
    )
    @click.option(
        "--pdb", is_flag=True, help="Start Python's debugger when the handler is called with the tick of --until."
    )
    @functools.wraps(command)
    def with_stop(
        *, only: str | None, until: str | None, pdb: bool, reads: Reads, run: dict[str, Any], **others: Any
    ) -> None:
        by_number = until is not None and until.isdecimal() and only is not None
        if only is not None and reads.symbols is not None:
            raise click.UsageError("--only replays one symbol: leave out --symbols")
        if pdb and not by_number:
            raise click.UsageError("--pdb: give the tick, such as --only AAPL --until 17")
        if pdb and run.get("workers"):
            raise click.UsageError("--pdb runs in one thread: leave out --workers")
        if until is not None:
            run |= {"until": (only, int(until)) if by_number else until}
        command(
            reads=reads if only is None else reads._replace(symbols=[only]),
            run=run | ({"pdb": True, "workers": 0} if pdb else {}),
            **others,
        )

    return with_stop
