"""Choice of files and ticks: the options of all commands that read some."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from strand import feeds
from strand.command.parameters import declared
from strand.command.run_options import given_options
from strand.errors import ConfigurationError
from strand.options import options_in

if TYPE_CHECKING:
    from strand.feeds.opening import FeedOptions
__all__ = ["Reads", "names", "reading"]


class Reads(NamedTuple):
    """Ticks that were asked for. ``options``: for ``strand.feeds.open``, of its merging and of readers."""

    symbols: list[str] | None
    start: str | None
    end: str | None
    limit: int | None
    allow_empty: bool
    options: FeedOptions


def names(text: str | None) -> list[str] | None:
    """Names that commas separate; None where nothing is said. Raises ConfigurationError where that names none."""
    if text is None:
        return None
    found = [name.strip() for name in text.split(",") if name.strip()]
    if not found:
        raise ConfigurationError("symbols", f"{text!r} names none")
    return found


_OPENING: Final = options_in(feeds.open)
#: Options that are given to ``strand.feeds.open`` with their defaults, too.
_ALWAYS: Final = ("reorder_ns", "on_disorder", "venue_in_name")


def _opening(*names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Adds options of ``strand.feeds.open``."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        for name in reversed(names):
            command = declared(_OPENING[name])(command)
        return command

    return decorate


def reading(command: Callable[..., None]) -> Callable[..., None]:
    """Adds the options, as one argument ``reads``."""

    @click.option(
        "--symbols",
        metavar="NAMES",
        help="Read only these symbols: names or globs, separated by commas. @FILE reads the names from a file, "
        "one per line.",
    )
    @_opening("start", "end")
    @click.option("--limit", type=click.IntRange(1), metavar="N", help="Read at most N of these ticks.")
    @click.option("--allow-empty", is_flag=True, help="Accept input without any tick. The default is an error.")
    @_opening("date", "zone")
    @click.option(
        "--profile", metavar="NAME|PATH", help="For CSV files: the name of a built-in profile, or a .toml file."
    )
    @click.option(
        "--feed",
        "given",
        multiple=True,
        metavar="OPTION=VALUE",
        help="Set another option of the reader, such as size_unit=0.001 or columns.price=px. Repeatable.",
    )
    @click.option(
        "--on-bad-record",
        type=click.Choice(["raise", "skip"]),
        default="raise",
        help="At a damaged record: end the run, or skip the record, count it and report it.",
    )
    @_opening("reorder_ns", "on_disorder", "venue_in_name", "new_day", "carry_over")
    @functools.wraps(command)
    def with_reads(
        *, symbols: str | None, start: str | None, end: str | None, limit: int | None, allow_empty: bool,
        profile: str | None, given: tuple[str, ...], on_bad_record: str, **others: Any,
    ) -> None:  # fmt: skip
        said = {name: others.pop(name) for name in _OPENING if name in others}
        # Only what was given, so that a reader without an option says so.
        said |= {"profile": profile, "on_bad_record": "skip" if on_bad_record == "skip" else None}
        options: Any = {name: value for name, value in said.items() if value is not None}
        if given:
            from strand.feeds.opening import option_values

            options |= option_values(given_options("--feed", given))
        options = {name: _OPENING[name].default for name in _ALWAYS} | options
        command(reads=Reads(names(symbols), start, end, limit, allow_empty, options), **others)

    return with_reads
