"""``strand listen``: handlers on a live feed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import click
from click.core import ParameterSource
from rich.console import Console
from rich.markup import escape

from strand.command.ending import ended_by
from strand.command.parameters import SECTIONS, SectionedCommand
from strand.command.reading import names
from strand.command.run_options import handling, running
from strand.command.showing import ReportOptions, Shows, Writes, reporting, showing, writing
from strand.errors import FeedError, StrictError, UnknownSymbolError
from strand.feeds.formats.json.ticks import FeedEvent
from strand.feeds.live.mold import MoldFeed
from strand.feeds.live.websocket import WebSocketFeed
from strand.feeds.write.destinations import check_outputs, output_paths
from strand.handlers import Handler
from strand.replaying.replay import replay
from strand.replaying.result import ReplayResult
from strand.report.closing import as_dict
from strand.report.quantities import duration
from strand.report.rows_file import write_rows
from strand.report.tables import numbers_table
from strand.ticks import MAX_SEQUENCE

__all__ = ["listen"]

_LINE_COUNTS: Final = (
    ("messages", "messages"), ("taken", "first"), ("duplicates", "duplicates"), ("lost", "gap_messages"),
    ("in gaps", "gap_count"), ("late", "late"), ("not wanted", "unwanted"), ("heartbeats", "heartbeats"),
    ("malformed", "malformed"), ("jumps", "jumps"), ("kernel drops", "kernel_drops"),
)  # fmt: skip
# Ranges shown to people; --json has them all.
_SHOWN: Final = 10
_MOLD_ONLY: Final = (
    "group", "interface", "rerequest", "session", "first_sequence", "gap_timeout_s", "jump_window", "on_gap",
    "receive_bytes", "date",
)  # fmt: skip
_SECTIONS: Final = {
    "Feed": (
        "--line", "--group", "--interface", "--rerequest", "--websocket", "--profile", "--subscribe", "--record",
        "--max-seconds", "--max-messages", "--idle-timeout-s",
    ),
    "Handler": ("--handler", "--set"),
    "Output": SECTIONS["Output"],
    "Input": ("--symbols", "--date", "--on-bad-record"),
    "Sessions and gaps": (
        "--session", "--first-sequence", "--gap-timeout-s", "--jump-window", "--on-gap", "--receive-bytes",
    ),
}  # fmt: skip


@click.command("listen", cls=SectionedCommand, sections=_SECTIONS)
@click.option(
    "--line",
    multiple=True,
    metavar="HOST:PORT",
    help="Address of a line. Give it twice for A and B. Port 0 is any free port.",
)
@click.option("--websocket", metavar="URL", help="Receive JSON messages of a WebSocket instead, ws:// or wss://.")
@click.option(
    "--profile",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="For --websocket: the .toml file that describes the messages.",
)
@click.option(
    "--subscribe",
    multiple=True,
    metavar="TEXT",
    help="For --websocket: a message to send after each connect. Repeatable.",
)
@click.option(
    "--group", multiple=True, metavar="ADDRESS", help="Multicast group of the line. Give it twice for A and B."
)
@click.option("--interface", metavar="ADDRESS", help="Address of the interface on which to join multicast groups.")
@click.option("--rerequest", metavar="HOST:PORT", help="Server that sends missing messages again.")
@handling
@click.option("--record", type=click.Path(path_type=Path), help="Record what is received, for `strand replay`.")
@click.option("--max-seconds", type=click.FloatRange(0, min_open=True), metavar="SECONDS", help="End after this time.")
@click.option("--max-messages", type=click.IntRange(1), metavar="N", help="End after N messages.")
@click.option(
    "--idle-timeout-s",
    type=click.FloatRange(0, min_open=True),
    metavar="SECONDS",
    help="End when nothing is received for this time.",
)
@click.option("--session", metavar="NAME", help="Session to follow. [default: the first one received]")
@click.option(
    "--first-sequence",
    type=click.IntRange(1, MAX_SEQUENCE),
    metavar="N",
    help="Number of the first message to handle. [default: the first one received]",
)
@click.option(
    "--gap-timeout-s",
    type=click.FloatRange(0),
    default=0.05,
    metavar="SECONDS",
    help="How long to wait for messages that are missing on both lines.",
)
@click.option(
    "--jump-window",
    type=click.IntRange(1, MAX_SEQUENCE),
    default=1_000_000,
    metavar="MESSAGES",
    help="Accept a packet that is further ahead than this only when a second packet agrees.",
)
@click.option(
    "--on-gap",
    type=click.Choice(["continue", "raise"]),
    default="continue",
    help="When messages stay missing: count them and go on, or end the run.",
)
@click.option(
    "--receive-bytes",
    type=click.IntRange(1),
    default=64 << 20,
    metavar="BYTES",
    help="Size of the receive buffer to request from the kernel, per line.",
)
@click.option("--date", metavar="YYYY-MM-DD", help="Trading day. [default: today in New York]")
@click.option(
    "--symbols",
    metavar="NAMES",
    help="Handle only these symbols: names or globs, separated by commas. @FILE reads the names from a file, "
    "one per line.",
)
@click.option(
    "--on-bad-record",
    type=click.Choice(["raise", "skip"]),
    default="raise",
    help="At a message that is not ITCH 5.0: end the run, or skip the message and count it.",
)
@click.option(
    "--workers",
    type=click.IntRange(1, 1024),
    metavar="N",
    help="Number of worker threads. [default: the number of cores minus 1]",
)
@running
@writing
@reporting
@showing
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of tables.")
def listen(
    line: tuple[str, ...], websocket: str | None, profile: Path | None, subscribe: tuple[str, ...],
    group: tuple[str, ...], interface: str | None, rerequest: str | None,
    handler: Handler, record: Path | None, max_seconds: float | None, max_messages: int | None,
    idle_timeout_s: float | None, session: str | None, first_sequence: int | None, gap_timeout_s: float,
    jump_window: int, on_gap: Any,
    receive_bytes: int, date: str | None, symbols: str | None, on_bad_record: Any,
    run: dict[str, Any], writes: Writes, report: ReportOptions, as_json: bool, shows: Shows,
) -> None:  # fmt: skip
    """Run a handler on a live feed: NASDAQ ITCH 5.0 over MoldUDP64, on one line or on two that carry the same messages.

    With --websocket and --profile, the feed is JSON messages from a WebSocket.

    The run ends with the session, at --max-seconds, --max-messages or --idle-timeout-s, or at an interrupt. It then
    shows the rows as replay does, what each line received and missed, and which messages were missing on both.
    """
    if (websocket is None) == (not line):
        raise click.UsageError("give --line, once or twice, or --websocket")
    out = writes.rows
    feed: MoldFeed | WebSocketFeed
    if websocket is not None:
        context = click.get_current_context()
        for option in context.command.params:
            if option.name in _MOLD_ONLY and context.get_parameter_source(option.name) is ParameterSource.COMMANDLINE:
                raise click.UsageError(f"{option.opts[0]} is for --line, not for --websocket")
        if profile is None:
            raise click.UsageError("--websocket needs --profile, the file that describes the messages")
        feed = WebSocketFeed(
            websocket,
            profile,
            subscribe=subscribe,
            on_bad_record=on_bad_record,
            on_event=_tell,
            record=record,
            max_messages=max_messages,
            max_seconds=max_seconds,
            idle_timeout_s=idle_timeout_s,
        )
    else:
        feed = MoldFeed(
            *line,
            group=group,
            interface=interface,
            rerequest=rerequest,
            session=session,
            first_sequence=first_sequence,
            gap_timeout_s=gap_timeout_s,
            jump_window=jump_window,
            on_gap=on_gap,
            receive_bytes=receive_bytes,
            date=date,
            on_bad_record=on_bad_record,
            record=record,
            max_messages=max_messages,
            max_seconds=max_seconds,
            idle_timeout_s=idle_timeout_s,
            on_late=lambda first: click.echo(f"warning: {_joined(first)}", err=True),
        )

    def ended(result: ReplayResult, rows_file: Path | None, error: str | None = None) -> None:
        if as_json:
            told = {"live": feed.report(), "record": str(record) if record is not None else None}
            click.echo(json.dumps(as_dict(result) | told | ({} if error is None else {"error": error})))
            return
        shows.print(result, rows_file=rows_file, symbols=names(symbols))
        _print_feed(feed, record)

    shows.check(handler, feed)
    try:
        check_outputs(output_paths(writes.outputs, rows=out, page=report.path), feed, symbols=names(symbols))
        with ended_by(feed.stop):  # what came is handled and reported
            if isinstance(feed, MoldFeed):
                for warning in feed.warnings:
                    click.echo(f"warning: {warning}", err=True)
                click.echo("listening at " + ", ".join(map(str, feed.addresses)), err=True)
            result = replay(
                feed,
                handler,
                symbols=names(symbols),
                allow_empty=True,  # the report says that nothing came
                **run,
                out=writes.outputs,
                escape_formulas=writes.escape_formulas,
                watch=report.watch,
            )
    except (FeedError, StrictError, UnknownSymbolError) as error:
        if error.partial is not None:
            report.write(error.partial, "" if isinstance(error, StrictError) else str(error))
            ended(error.partial, None, str(error))
        raise
    if out is not None:
        write_rows(out, result, escape_formulas=writes.escape_formulas)
    report.write(result)
    ended(result, out)


def _tell(event: FeedEvent) -> None:
    """Connections made and lost, as it happens: a wrong address would else be silence."""
    if event.kind != "gap":
        click.echo(f"{event.kind}: {event.text}", err=True)


def _joined(first: int) -> str:
    return (
        f"the first message received is number {first:,}; the {first - 1:,} before it, which include names of symbols, "
        "were not requested; with --first-sequence 1 they are requested, or count as missing"
    )


def _print_feed(feed: MoldFeed | WebSocketFeed, record: Path | None) -> None:
    """Prints the report of the lines, or of the connection, and the path of the recording."""
    from strand.report.tables import TerminalConsole

    console, live = TerminalConsole(), feed.report()
    if isinstance(feed, MoldFeed):
        _print_lines(console, live)
    else:
        _print_events(console, live, feed.info.path)
    if record is not None:
        console.print(f"recorded to {record}; strand replay {record} gives the same ticks", markup=False)


def _print_events(console: Console, live: dict[str, Any], where: str) -> None:
    console.print(
        f"{escape(where)}: [bold]{live['messages']:,}[/] messages, {live['other_messages']:,} of them of a kind that "
        f"the profile does not know; connected {live['connected']:,} times; {live['gap_messages']:,} messages "
        f"missing in "
        f"{live['gap']:,} gaps"
    )
    for event in live["events"][-_SHOWN:]:
        console.print(f"  {event['kind']}: {event['text']}", markup=False)


def _print_lines(console: Console, live: dict[str, Any]) -> None:
    console.print(
        f"session {escape(live['session'] or 'not received')}: [bold]{live['delivered']:,}[/] messages in order, "
        f"{live['gap_messages']:,} missing on every line, {live['requests']:,} requests for "
        f"{live['requested_messages']:,} messages"
    )
    if live["joined_at"] is not None:
        console.print(f"[yellow]{_joined(live['joined_at'])}[/]")
    # A row a count: as a column each, the numbers would not fit a terminal's width.
    lines = live["lines"]
    table = numbers_table("line", *lines)
    for words, key in _LINE_COUNTS:
        of_gaps = key in ("gap_messages", "gap_count")
        cells = ("" if of_gaps and name not in live["line_gaps"] else f"{line[key]:,}" for name, line in lines.items())
        table.add_row(words, *cells)
    console.print(table)
    if live["latency_ns"]:
        console.print(
            "receipt to delivery: " + ", ".join(f"{name} {duration(ns)}" for name, ns in live["latency_ns"].items())
        )
    if gaps := live["gaps"]:
        shown = ", ".join(f"{low:,}" if end == low + 1 else f"{low:,}-{end - 1:,}" for low, end in gaps[:_SHOWN])
        rest = f" and {len(gaps) - _SHOWN:,} more ranges" if len(gaps) > _SHOWN else ""
        console.print(f"[yellow]missing on every line:[/] {shown}{rest}")
    for at, what in (
        ("forced", "gaps were given up early for lack of space"),
        ("gaps_unlisted", "gaps are counted but not listed"),
    ):
        if live[at]:
            console.print(f"[yellow]{live[at]:,} {what}[/]")
