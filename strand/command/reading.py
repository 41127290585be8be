"""Which ticks of which files: the options of all commands that read some."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from strand.command.handling import given_options
from strand.errors import ConfigurationError

if TYPE_CHECKING:
    from strand.feeds.reader_options import FeedOptions
__all__ = ["Reads", "names", "reading"]


class Reads(NamedTuple):
    """What was asked for. ``options``: for ``strand.feeds.open``, of its merging and of readers."""

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
        raise ConfigurationError(f"symbols: {text!r} names none")
    return found


def reading(command: Callable[..., None]) -> Callable[..., None]:
    """Adds the options, as one argument ``reads``."""

    @click.option("--symbols", help="Names or globs to keep, separated by commas; @FILE: those in it, one a line.")
    @click.option("--start", help="Keep ticks received from then on: ISO 8601 with a zone, ns, or HH:MM[:SS].")
    @click.option("--end", help="Keep ticks received before then. A time of day is New York's, on the file's date.")
    @click.option("--limit", type=click.IntRange(1), help="Ticks to read of those.")
    @click.option("--allow-empty", is_flag=True, help="Files, or a choice of ticks, without one tick are no error.")
    @click.option("--date", help="The trading day of files that do not say it, YYYY-MM-DD.")
    @click.option("--profile", help="CSV: a built-in profile's name, or a .toml file of your own.")
    @click.option(
        "--feed",
        "given",
        multiple=True,
        metavar="OPTION=VALUE",
        help="Another option of the files' reader, like size_unit=0.001 or columns.price=px; may be given again.",
    )
    @click.option(
        "--on-bad-record",
        type=click.Choice(["raise", "skip"]),
        default="raise",
        help="What a damaged record does: ends the run, or is passed over, counted and shown.",
    )
    @click.option(
        "--reorder-ns",
        type=click.IntRange(0),
        default=0,
        help="Put ticks up to so many ns behind their file's latest in order.",
    )
    @click.option(
        "--on-disorder",
        type=click.Choice(["raise", "keep", "skip"]),
        default="raise",
        help="What becomes of ticks further behind. One file alone is looked at with --reorder-ns, keep or skip only.",
    )
    @click.option("--venue-in-name", is_flag=True, help="Call symbols NAME.VENUE.")
    @click.option(
        "--new-day",
        metavar="file|date|date ZONE",
        help="Each file is a new day, whatever its format, or each date. [default: files of venues that close]",
    )
    @click.option("--carry-over", is_flag=True, help="No new day begins: what one file left goes on in the next.")
    @functools.wraps(command)
    def with_reads(
        *, symbols: str | None, start: str | None, end: str | None, limit: int | None, allow_empty: bool,
        date: str | None, profile: str | None, given: tuple[str, ...], on_bad_record: str, reorder_ns: int,
        on_disorder: str, venue_in_name: bool, new_day: str | None, carry_over: bool, **others: Any,
    ) -> None:  # fmt: skip
        # Only what was given, so that a reader without an option says so.
        said = {
            "date": date,
            "profile": profile,
            "on_bad_record": "skip" if on_bad_record == "skip" else None,
            "new_day": new_day,
            "carry_over": carry_over or None,
        }
        options: Any = {name: value for name, value in said.items() if value is not None}
        if given:
            from strand.feeds.option_texts import option_values

            options |= option_values(given_options("--feed", given))
        options |= {"reorder_ns": reorder_ns, "on_disorder": on_disorder, "venue_in_name": venue_in_name}
        command(reads=Reads(names(symbols), start, end, limit, allow_empty, options), **others)

    return with_reads
