"""Common parts of several commands: kinds of options, a progress bar, and the two ways to show a result."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self

import click

from strand.options import ByName, Choice, Number, Option, Whole

if TYPE_CHECKING:
    from rich.console import Console

    from strand.feeds import Feed
    from strand.feeds.progress_bar import ProgressBar

__all__ = ["CoreList", "StrandCount", "declared", "progress", "show"]


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
    """Type of the option for the number of strands."""

    name = "auto|per-symbol|N"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str | int:
        if value in ("auto", "per-symbol"):
            return str(value)
        if not str(value).isdecimal():
            self.fail(f"{value!r} is not auto, per-symbol or a number", param, ctx)
        return int(value)


def declared(option: Option) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """The command's option of a declaration: its value, or None; of one by name, texts like ``low=5ms``."""
    kind = option.kind
    more: dict[str, Any] = {}
    if isinstance(kind, Choice):
        more = {"type": click.Choice(kind.words)}
    elif isinstance(kind, Whole | Number) and getattr(kind, "word", None) is None:
        more = {"type": int if isinstance(kind, Whole) else float, "metavar": kind.metavar}
    else:
        more = {"metavar": kind.metavar, "multiple": isinstance(kind, ByName)}
    return click.option(option.flag, option.name, help=option.help, **more)


def show(as_json: bool, plain: dict[str, Any], human: Callable[[Console], None]) -> None:
    """Prints one JSON object, or the output of ``human``."""
    if as_json:
        import json

        click.echo(json.dumps(plain))
        return
    from strand.command.terminal import standard_output

    human(standard_output())


class progress:  # noqa: N801 - used like a function
    """A progress bar on standard error while something runs; silent for JSON and where that is no terminal.

    ``total``: how much is to come, where that is known. Where it is not, and a feed is told of by ``opened``, the bar's
    end is that of the feed's files. ``check``: called with that feed before anything is read of it.
    """

    def __init__(self, what: str, total: int | None, quiet: bool, check: Callable[[Feed], None] | None = None) -> None:
        self._check = check
        self._bar: ProgressBar | None = None
        if not quiet and sys.stderr is not None and sys.stderr.isatty():
            from strand.feeds.progress_bar import ProgressBar

            self._bar = ProgressBar(what, total, stays=False)

    def opened(self, feed: Feed) -> None:
        """Notes the feed that is read next. Raises the errors of its check."""
        if self._check is not None:
            self._check(feed)
        if self._bar is not None:
            self._bar.opened(feed)

    def follow(self, feed_ns: Callable[[], int | None]) -> None:
        """Shows the feed's time beside the bar: see ``strand.feeds.progress_bar``."""
        if self._bar is not None:
            self._bar.follow(feed_ns)

    def __call__(self, done: int) -> None:
        if self._bar is not None:
            self._bar(done)

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._bar.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.__exit__()
