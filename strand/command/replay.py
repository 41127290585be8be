"""``strand replay``: recorded files through a handler on all cores."""

from __future__ import annotations

import functools
from bdb import BdbQuit
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final

import click

from strand.command.parameters import (
    Reads,
    SectionedCommand,
    complete_files,
    declared,
    progress,
    reading,
    source_of,
)
from strand.command.run_options import handling, paced, running, workers
from strand.command.showing import Results, resulting
from strand.errors import HandlerError
from strand.feeds.write.destinations import check_outputs
from strand.handlers import Handler
from strand.options import options_in
from strand.replaying.options import Asked
from strand.replaying.replay import replay as run_replay
from strand.replaying.result import ReplayResult


def _declared(*names: str, **more: Mapping[str, Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Adds options of ``strand.replay`` as it declares them. ``more``: of an option, other arguments of
    ``click.option``."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        for name in reversed(names):
            command = declared(options_in(Asked)[name], **more.get(name, {}))(command)
        return command

    return decorate


_UNTIL: Final = replace(
    options_in(Asked)["until"],
    text="Stop after this tick of the symbol of --only (the first is 1), or at a time as for --start.",
)


def _stopping(command: Callable[..., None]) -> Callable[..., None]:
    """Adds the options: they become the arguments ``until`` and ``pdb`` of ``strand.replay`` in ``run``, and ``--only``
    the symbols of ``reads``. This decorator stands above the ones that make ``run`` and ``reads``."""

    @click.option("--only", metavar="SYMBOL", help="Replay only this symbol.")
    @declared(_UNTIL)
    @_declared("pdb", pdb={"default": False})
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


#: For q at the prompt of --pdb.
_QUIT: Final = click.exceptions.Exit(0)


@click.command("replay", cls=SectionedCommand)
@click.argument("files", nargs=-1, required=True, shell_complete=complete_files)
@handling
@workers()
@running
@reading
@_stopping
@_declared("fingerprint_every", "fingerprints")
@paced(0.0)
@_declared("save", "load", "per_day", load={"type": click.Path(exists=True, dir_okay=False)})
@resulting
def replay(
    files: tuple[str, ...], handler: Handler, run: dict[str, Any], reads: Reads, results: Results, **asked: Any
) -> None:
    """Replay recorded files through a handler on all cores, and show the final rows of the symbols.

    FILES are files, folders or globs, or - for standard input.
    """
    written = [*results.files, ("fingerprints", asked["fingerprints"]), ("save", asked["save"])]
    check_outputs(written, files, symbols=reads.symbols, options=reads.feed_options)

    def replayed() -> ReplayResult:
        # A bar holds back a prompt until its line ends, and draws over it.
        quiet = results.as_json or "pdb" in run
        try:
            with progress("replaying", reads.limit, quiet, partial(results.check, handler)) as advance:
                chosen = {**reads._asdict(), **run, **asked, **results.options}
                return run_replay(source_of(files), handler, progress=advance, **chosen)
        except BdbQuit:
            raise _QUIT from None
        except HandlerError as error:
            if isinstance(error.__cause__, BdbQuit):
                raise _QUIT from None
            raise

    results.of(replayed, reads.symbols)
