"""Choice of files and ticks: the options of all commands that read some."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from strand.command.run_options import given_options
from strand.errors import ConfigurationError

if TYPE_CHECKING:
    from strand.feeds.reader_options import FeedOptions
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


def reading(command: Callable[..., None]) -> Callable[..., None]:
    """Adds the options, as one argument ``reads``."""

    @click.option(
        "--symbols",
        metavar="NAMES",
        help="Read only these symbols: names or globs, separated by commas. @FILE reads the names from a file, "
        "one per line.",
    )
    @click.option(
        "--start",
        metavar="TIME",
        help="Skip ticks received before TIME: ISO 8601 with a time zone, ns since 1970, or HH:MM[:SS] in --zone on "
        "the file's date.",
    )
    @click.option(
        "--end",
        metavar="TIME",
        help="Skip ticks received at TIME or later. TIME is as for --start.",
    )
    @click.option("--limit", type=click.IntRange(1), metavar="N", help="Read at most N of these ticks.")
    @click.option("--allow-empty", is_flag=True, help="Accept input without any tick. The default is an error.")
    @click.option("--date", metavar="YYYY-MM-DD", help="Trading day of files that do not contain it.")
    @click.option(
        "--zone",
        metavar="ZONE",
        help="Time zone of the files' times that do not say theirs, and of times of day given here, such as "
        "Europe/Berlin. [default: the files' zone; New York if they have none]",
    )
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
    @click.option(
        "--reorder-ns",
        type=click.IntRange(0),
        default=0,
        metavar="NS",
        help="Sort ticks that are up to NS nanoseconds behind the latest tick of their file.",
    )
    @click.option(
        "--on-disorder",
        type=click.Choice(["raise", "keep", "skip"]),
        help="At a tick that is further behind: end the run (usual among several files), keep the tick, or skip it. "
        "A single file is checked only with this option or --reorder-ns.",
    )
    @click.option("--venue-in-name", is_flag=True, help="Name the symbols NAME.VENUE.")
    @click.option(
        "--new-day",
        metavar="file|date|date ZONE",
        help="Begin a new day with each file, whatever its format, or with each date. [default: with each file "
        "of a venue that closes]",
    )
    @click.option(
        "--carry-over", is_flag=True, help="Begin no new day: the next file continues with the state of the one before."
    )
    @functools.wraps(command)
    def with_reads(
        *, symbols: str | None, start: str | None, end: str | None, limit: int | None, allow_empty: bool,
        date: str | None, zone: str | None, profile: str | None, given: tuple[str, ...], on_bad_record: str,
        reorder_ns: int, on_disorder: str | None, venue_in_name: bool, new_day: str | None, carry_over: bool,
        **others: Any,
    ) -> None:  # fmt: skip
        # Only what was given, so that a reader without an option says so.
        said = {
            "date": date,
            "zone": zone,
            "profile": profile,
            "on_bad_record": "skip" if on_bad_record == "skip" else None,
            "new_day": new_day,
            "carry_over": carry_over or None,
        }
        options: Any = {name: value for name, value in said.items() if value is not None}
        if given:
            from strand.feeds.reader_options import option_values

            options |= option_values(given_options("--feed", given))
        options |= {"reorder_ns": reorder_ns, "on_disorder": on_disorder, "venue_in_name": venue_in_name}
        command(reads=Reads(names(symbols), start, end, limit, allow_empty, options), **others)

    return with_reads
