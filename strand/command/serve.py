"""``strand serve``: a recorded file sent as a live feed."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import click
from rich.console import Console
from rich.markup import escape

from strand.brief import several
from strand.command.ending import ended_by
from strand.command.parameters import SectionedCommand, progress, show
from strand.errors import ConfigurationError
from strand.feeds.live.serving import Faults, ServeOptions
from strand.feeds.live.serving import serve as run_serve
from strand.report.tables import numbers_table

__all__ = ["serve"]

_SECTIONS: Final = {
    "Lines": ("--line", "--rerequest", "--interface", "--allow-remote"),
    "Pace": ("--speed", "--rate"),
    "Faults": ("--loss", "--reorder", "--duplicate", "--seed"),
    "Session": ("--session", "--packet-bytes", "--linger-s"),
}


@click.command("serve", cls=SectionedCommand, sections=_SECTIONS)
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--line",
    multiple=True,
    required=True,
    metavar="HOST:PORT",
    help="Address to send a line to. Give it twice for A and B.",
)
@click.option(
    "--speed",
    type=click.FloatRange(0),
    default=1.0,
    metavar="FACTOR",
    help="1 sends as recorded, 10 is ten times as fast, 0 is as fast as possible.",
)
@click.option(
    "--rate",
    type=click.FloatRange(0, min_open=True),
    metavar="N",
    help="Send N messages per second, instead of --speed.",
)
@click.option("--rerequest", metavar="HOST:PORT", help="Answer requests for retransmission at this address.")
@click.option(
    "--loss",
    type=click.FloatRange(0, 1),
    multiple=True,
    metavar="SHARE",
    help="Share of packets to lose on each line. Give it twice for A and B.",
)
@click.option(
    "--reorder",
    type=click.FloatRange(0, 1),
    multiple=True,
    metavar="SHARE",
    help="Share of packets to send after later ones. Give it twice for A and B.",
)
@click.option(
    "--duplicate",
    type=click.FloatRange(0, 1),
    multiple=True,
    metavar="SHARE",
    help="Share of packets to send twice. Give it twice for A and B.",
)
@click.option("--seed", type=click.IntRange(0, 2**64 - 1), default=1, metavar="N", help="Seed of the random faults.")
@click.option("--session", default="STRAND0001", metavar="NAME", help="Name of the session, 1 to 10 characters.")
@click.option(
    "--packet-bytes", type=click.IntRange(300, 9216), default=1400, metavar="BYTES", help="Largest UDP payload."
)
@click.option(
    "--linger-s",
    type=click.FloatRange(0, 3600),
    default=0.0,
    metavar="SECONDS",
    help="How long to answer requests after the end.",
)
@click.option("--interface", metavar="ADDRESS", help="Address of the interface to send multicast from.")
@click.option("--allow-remote", is_flag=True, help="Allow addresses on other machines.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def serve(
    file: Path, line: tuple[str, ...], speed: float, rate: float | None, rerequest: str | None,
    loss: tuple[float, ...], reorder: tuple[float, ...], duplicate: tuple[float, ...], seed: int, session: str,
    packet_bytes: int, linger_s: float, interface: str | None, allow_remote: bool, as_json: bool,
) -> None:  # fmt: skip
    """Send an ITCH 5.0 FILE, compressed or not, over MoldUDP64 on one line or two, with losses and disorder on demand.

    The session ends with the file. An interrupt ends it early; the report is printed in both cases.
    """
    shares = [_by_line(name, given) for name, given in (("loss", loss), ("reorder", reorder), ("duplicate", duplicate))]
    options = ServeOptions(
        line,
        rerequest=rerequest,
        session=session,
        rate=rate or 0.0,
        speed=speed,
        packet_bytes=packet_bytes,
        faults=(Faults(*(share[0] for share in shares)), Faults(*(share[1] for share in shares))),
        seed=seed,
        linger_s=linger_s,
        allow_remote=allow_remote,
        interface=interface,
    )
    # No event: a second interrupt may come while the first one holds its lock.
    interrupts: list[None] = []
    with progress("serving", None, as_json) as advance, ended_by(lambda: interrupts.append(None)):
        sent = run_serve(file, options, stop=lambda: bool(interrupts), progress=advance)
    show(as_json, sent, lambda console: _print_sent(console, sent))


def _by_line(name: str, given: tuple[float, ...]) -> tuple[float, float]:
    if len(given) > 2:
        raise ConfigurationError(name, f"given {len(given)} times, but there are at most two lines")
    return (given[0], given[-1]) if given else (0.0, 0.0)


def _print_sent(console: Console, sent: dict[str, Any]) -> None:
    console.print(
        f"[bold]{escape(sent['path'])}[/], session {escape(sent['session'])}: [bold]{sent['messages']:,}[/] messages "
        f"in {sent['packets']:,} packets, {sent['seconds']:.3f} s, "
        f"[bold]{sent['messages'] / max(sent['seconds'], 1e-9):,.0f} messages/s[/]"
    )
    table = numbers_table("line", "packets sent", "lost", "kept back", "sent twice", "messages lost", "in ranges")
    for name, line in sent["lines"].items():
        table.add_row(
            name, f"{line['packets']:,}", f"{line['lost_packets']:,}", f"{line['reordered_packets']:,}",
            f"{line['duplicated_packets']:,}", f"{line['lost_messages']:,}", f"{len(line['lost_ranges']):,}",
        )  # fmt: skip
    console.print(table)
    console.print(
        f"{sent['requests']:,} requests, {sent['answered']:,} answered with {sent['answered_messages']:,} messages, "
        f"{sent['unanswerable']:,} unanswerable; {several(sent['heartbeats'], 'heartbeat')}"
    )
