"""What several commands share: kinds of options, a progress bar, and the two ways to show a result."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, Self

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from strand.command.terminal import TerminalConsole
from strand.feeds import Feed
from strand.feeds.input_share import InputShare

__all__ = ["CoreList", "ErrorChoice", "RenamedOptions", "StrandCount", "progress", "show"]

# As often as the bar is drawn, and not for each batch.
_SHOW_EVERY_S: Final = 0.1


class CoreList(click.ParamType[list[int]]):
    """Core numbers: 0,2-5."""

    name = "LIST"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> list[int]:
        if isinstance(value, list):
            return value
        cores: list[int] = []
        for part in str(value).split(","):
            low, dash, high = part.partition("-")
            try:
                found = range(int(low), int(high if dash else low) + 1)
            except ValueError:
                found = range(0)
            if not found:
                self.fail(f"{value!r} is not a list of cores like 0,2-5", param, ctx)
            allowed = sorted(os.sched_getaffinity(0))
            if found[-1] > allowed[-1]:
                self.fail(f"{part!r} names cores that cannot be used; this process may use {allowed}", param, ctx)
            cores.extend(found)
        return cores


class StrandCount(click.ParamType[str | int]):
    """How symbols share strands."""

    name = "auto|per-symbol|N"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str | int:
        if value in ("auto", "per-symbol"):
            return str(value)
        if not str(value).isdecimal():
            self.fail(f"{value!r} is not auto, per-symbol or a number", param, ctx)
        return int(value)


class ErrorChoice(click.Choice[str]):
    """What a failing handler does."""

    def __init__(self) -> None:
        super().__init__(["stop", "quarantine"])

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if value == "skip":
            self.fail("'skip' is called --on-bad-record skip now", param, ctx)
        return super().convert(value, param, ctx)


class RenamedOptions(click.Command):
    """A command that refuses the old names of its options, and says the new ones: ``renamed``, by old ones."""

    def __init__(self, *args: Any, renamed: Mapping[str, str], **options: Any) -> None:
        super().__init__(*args, **options)
        self._renamed = renamed

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            now = self._renamed.get(error.option_name)
            if now is None:
                raise
            raise click.UsageError(f"{error.option_name}: is called {now} now", ctx) from None


def show(as_json: bool, plain: dict[str, Any], human: Callable[[Console], None]) -> None:
    """One JSON object, or what ``human`` prints."""
    if as_json:
        click.echo(json.dumps(plain))
    else:
        human(TerminalConsole())


class progress:  # noqa: N801 - used like a function
    """A progress bar on standard error while something runs; silent for JSON and where nobody watches.

    ``total``: how much is to come, where that is known. Where it is not, and a feed is told of by ``opened``, the bar's
    end is that of the feed's files. ``check``: called with that feed before anything is read of it.
    """

    def __init__(self, what: str, total: int | None, quiet: bool, check: Callable[[Feed], None] | None = None) -> None:
        console = Console(stderr=True)
        self._check = check
        self._total = total
        self._share: InputShare | None = None
        # Where nobody knows how much is to come, the bar moves and the number says how far it is.
        count = "{task.fields[done]:,}" if total is None else "{task.fields[done]:,} of {task.total:,}"
        self._bar = Progress(
            TextColumn("{task.description}"), BarColumn(), TextColumn(count), TimeElapsedColumn(),
            console=console, transient=True, disable=quiet or not console.is_terminal,
        )  # fmt: skip
        self._task = self._bar.add_task(what, total=total, done=0)
        self._shown_s = 0.0
        self._done = 0

    def opened(self, feed: Feed) -> None:
        """What is to come is this feed. Raises what its check does."""
        if self._check is not None:
            self._check(feed)
        if self._total is None and not self._bar.disable:
            self._share = InputShare(feed)

    def __call__(self, done: int) -> None:
        self._done = done
        if not self._bar.disable and (now := time.monotonic()) - self._shown_s >= _SHOW_EVERY_S:
            self._shown_s = now
            self._show(done)

    def _show(self, done: int) -> None:
        share = None if self._share is None else self._share(done)
        if share is None:
            self._bar.update(self._task, completed=done, done=done)
        else:
            self._bar.update(self._task, completed=share, total=1.0, done=done)

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if not self._bar.disable:
            self._show(self._done)
        self._bar.stop()
