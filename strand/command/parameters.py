"""Common parts of several commands: kinds of options, sections of help, files and ticks, a progress bar."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

import click

from strand import feeds
from strand.errors import ConfigurationError
from strand.feeds.formats.options import CsvOptions, DecodedOptions
from strand.feeds.opening import ReadOptions
from strand.logs import Event, to_standard_error
from strand.options import ByName, Choice, File, Flag, Option, Text, Whole, options_in

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem
    from rich.console import Console

    from strand.feeds import Feed
    from strand.feeds.opening import FeedOptions
    from strand.feeds.progress_bar import ProgressBar


#: Forms of a handler's name.
NAME: Final = "NAME|MODULE:FUNCTION"


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


def declared(option: Option, **more: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """The command's option of a declaration: its value, or None; of one by name, texts like ``low=5ms``.

    ``more``: other arguments for ``click.option``. The help shows the default of the declaration.
    """
    kind = option.kind
    usual: dict[str, Any] = {"help": option.help, "show_default": False}
    made: dict[str, Any] = {"metavar": kind.metavar, "multiple": isinstance(kind, ByName)}
    if isinstance(kind, Choice):
        made = {"type": click.Choice(kind.words)}
    elif isinstance(kind, File):
        made = {"type": click.Path(), "metavar": kind.metavar}
    elif isinstance(kind, Flag):
        made = {"is_flag": True, "default": None}
    elif kind.bounds:
        made = {"type": int if isinstance(kind, Whole) else float, "metavar": kind.metavar}
    return click.option(option.flag, option.name, **usual | made | more)


def ranged(option: Option, least: int, most: int | None = None) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """The command's option of a declaration of a whole number, which click refuses outside the bounds."""
    return declared(replace(option, kind=Text(option.kind.metavar)), type=click.IntRange(least, most))


def json_option(
    instead: str = "", text: str = "Print one JSON object"
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Adds ``--json``, as the argument ``as_json``. ``instead``: the output that the object stands for."""
    words = f"{text} instead of {instead}." if instead else f"{text}."
    return click.option("--json", "as_json", is_flag=True, help=words)


def show(as_json: bool, plain: dict[str, Any], human: Callable[[Console], None]) -> None:
    """Prints one JSON object, or the output of ``human``."""
    if as_json:
        import json

        click.echo(json.dumps(plain))
        return
    from strand.report.tables import standard_output

    human(standard_output())


def progress(
    what: str,
    total: int | None,
    quiet: bool,
    check: Callable[[Feed], None] | None = None,
    *,
    steps: str = "",
) -> ProgressBar:
    """A bar on standard error while something runs; silent for JSON and where that is no terminal.

    ``total``: how much is to come, where that is known. Where it is not, and a feed is told of by ``opened``, the bar's
    end is that of the feed's files. ``check``: called with that feed before anything is read of it. ``steps``: the name
    of what is counted, where that is no tick.
    """
    from strand.feeds.progress_bar import ProgressBar

    seen = not quiet and sys.stderr is not None and sys.stderr.isatty()
    return ProgressBar(what, total, steps=steps, stays=False, seen=seen, check=check)


_SAID: Final = Event("command.said", ".command", "INFO", "%(text)s")


def say(text: str) -> None:
    """Prints a line on standard error, or logs it where all lines there are JSON."""
    if click.get_current_context().params.get("log_format") == "json":
        _SAID(text=text)
    else:
        click.echo(text, err=True)


def logging_to_standard_error(command: Callable[..., None]) -> Callable[..., None]:
    """Adds the options of commands that run until they are stopped, which log to standard error."""

    @click.option(
        "--log-format",
        type=click.Choice(("text", "json")),
        default="text",
        help="Lines of the log on standard error: as text, or each as one JSON object.",
    )
    @click.option(
        "--log-level",
        type=click.Choice(("debug", "info", "warning", "error")),
        default="info",
        help="Log Strand's lines from this level on.",
    )
    @functools.wraps(command)
    def with_log(*, log_format: Literal["text", "json"], log_level: str, **others: Any) -> None:
        with to_standard_error(log_format, log_level):
            command(**others)

    return with_log


#: Options by heading, in the order of the help. A command shows the options that it has.
SECTIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "Handler": ("--handler", "--set"),
    "Output": ("--out", "--report", "--report-symbols", "--top", "--sort", "--verbose", "--json", "--escape-formulas"),
    "Input": (
        "--symbols", "--start", "--end", "--limit", "--date", "--zone", "--profile", "--feed", "--allow-empty",
        "--on-bad-record", "--reorder-ns", "--on-disorder", "--venue-in-name", "--new-day", "--carry-over",
        "--renames", "--splits",
    ),
    "Running": (
        "--workers", "--cores", "--speed", "--per-day", "--on-error", "--strict", "--config", "--save", "--load",
        "--attachable",
    ),
    "Debugging and comparing runs": ("--only", "--until", "--pdb", "--fingerprints", "--fingerprint-every"),
    "Queues": (
        "--capacity-ticks", "--total-capacity-ticks", "--on-full", "--strands", "--idle", "--ingest", "--min-workers",
    ),
    "Scheduling policy": ("--policy", "--priority"),
}  # fmt: skip
#: Options of the dispatcher that only one policy has, beside the options of the policy itself.
_OF_POLICY: Final = {"levels": ("--guard", "--mark", "--level-capacity-ticks"), "fair": ("--fair-group",)}
_REST: Final = "Other"
#: Width of the column of options, in letters. The text of a wider option begins on the next line.
_WIDEST: Final = 30


class SectionedCommand(click.Command):
    """A command whose help shows options in sections. ``sections``: its own, which come first."""

    def __init__(self, *args: Any, sections: Mapping[str, tuple[str, ...]] | None = None, **options: Any) -> None:
        super().__init__(*args, **options)
        own = dict(sections or {})
        self.sections = own | {title: names for title, names in SECTIONS.items() if title not in own}
        if any("--policy" in param.opts for param in self.params):
            from strand.policies.policy import POLICIES

            for name, kind in POLICIES.items():
                flags = [option.flag for option in options_in(kind).values() if option.flag]
                self.sections[f"With --policy {name}"] = (*flags, *_OF_POLICY.get(name, ()))

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the sections, then the options that are in none. See ``click.Command.format_options``."""
        records = {
            option.opts[-1]: record
            for option in self.get_params(ctx)
            if isinstance(option, click.Option) and (record := option.get_help_record(ctx)) is not None
        }
        # All sections have their texts in one column.
        width = min(max(len(term) for term, _ in records.values()), _WIDEST)
        parts = [
            (title, [records.pop(name) for name in names if name in records]) for title, names in self.sections.items()
        ]
        for title, found in [*parts, (_REST, list(records.values()))]:
            if found:
                with formatter.section(title):
                    formatter.write_dl([(term.ljust(width), text) for term, text in found], col_max=_WIDEST)


def complete_files(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Lets the shell complete the name of a file; behind ``NAME=`` it has to be typed."""
    from click.shell_completion import CompletionItem

    del ctx, param
    return [] if "=" in incomplete else [CompletionItem(incomplete, type="file")]


def complete_handlers(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Names of built-in handlers, each with the first line of its description."""
    from click.shell_completion import CompletionItem

    from strand.handlers import BUILTIN

    del ctx, param
    return [
        CompletionItem(name, help=(BUILTIN[name].make.__doc__ or "").strip().partition("\n")[0])
        for name in sorted(BUILTIN)
        if name.startswith(incomplete)
    ]


def complete_settings(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """``OPTION=`` for each option of the built-in handler that the line names; none where it names no such one."""
    from click.shell_completion import CompletionItem

    from strand.handlers import BUILTIN
    from strand.handlers.loading import options_of

    del param
    built = BUILTIN.get(*(ctx.params.get("names") or ("count",))[:1])
    options = [] if built is None else list(options_of(built))
    return [CompletionItem(f"{option}=") for option in options if option.startswith(incomplete)]


def given_options(option: str, given: tuple[str, ...]) -> dict[str, str]:
    """Values by name, of texts like ``fill=yes``; ``option``: the command's, for messages. Raises UsageError."""
    found: dict[str, str] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise click.UsageError(f"{option}: {text!r} is not OPTION=VALUE")
        if name.strip() in found:
            raise click.UsageError(f"{option}: {name.strip()!r} is given twice")
        found[name.strip()] = value
    return found


def values_of(options: Iterable[Option], given: Mapping[str, Any]) -> dict[str, Any]:
    """Values of these options that the command line gives, as their class takes them. Raises UsageError."""
    found = {}
    for option in options:
        value = given.get(option.name)
        if value in ((), None):
            continue
        if isinstance(option.kind, ByName):
            texts = given_options(option.flag, value)
            found[option.name] = {key: option.kind.each.parse(text) for key, text in texts.items()}
        else:
            found[option.name] = option.kind.parse(value) if isinstance(value, str) else value
    return found


class Reads(NamedTuple):
    """Ticks that were asked for, by the names that ``strand.replay`` has. ``feed_options``: for ``strand.feeds.open``,
    of its merging and of readers."""

    symbols: list[str] | None
    start: str | None
    end: str | None
    limit: int | None
    allow_empty: bool
    feed_options: FeedOptions

    def open(self, files: Sequence[str]) -> Feed:
        """Opens the files, all ticks of the selection."""
        symbols = self.symbols or ()
        return feeds.open(source_of(files), symbols=symbols, start=self.start, end=self.end, **self.feed_options)


def source_of(files: Sequence[str]) -> str | Sequence[str]:
    """Files as ``strand.feeds.open`` takes them: one by itself."""
    return files if len(files) > 1 else files[0]


def names(text: str | None, option: str = "symbols") -> list[str] | None:
    """Names that commas separate; None where nothing is said. Raises ConfigurationError where that names none."""
    if text is None:
        return None
    found = [name.strip() for name in text.split(",") if name.strip()]
    if not found:
        raise ConfigurationError(option, f"{text!r} names none: give names, with commas between them, or leave it out")
    return found


_OPENING: Final = options_in(feeds.open)
_READING: Final = options_in(ReadOptions)
SYMBOLS: Final = replace(_READING["symbols"], text=f"{_READING['symbols'].text} Commas separate them.", unset="")
_PROFILE: Final = replace(
    options_in(CsvOptions)["profile"], text="For CSV files: the name of a built-in profile, or a .toml file.", unset=""
)
_ON_BAD_RECORD: Final = options_in(DecodedOptions)["on_bad_record"]
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

    @declared(SYMBOLS, metavar="NAMES")
    @_opening("start", "end")
    @ranged(replace(_READING["limit"], unset=""), 1)
    @declared(_READING["allow_empty"], default=False)
    @_opening("date", "zone")
    @declared(_PROFILE)
    @click.option(
        "--feed",
        "given",
        multiple=True,
        metavar="OPTION=VALUE",
        help="Set another option of the reader, such as size_unit=0.001 or columns.price=px. Repeatable.",
    )
    @declared(_ON_BAD_RECORD, default="raise")
    @_opening("reorder_ns", "on_disorder", "venue_in_name", "new_day", "carry_over", "renames", "splits")
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
