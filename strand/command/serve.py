"""``strand serve``: a recorded file sent as a live feed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import click
from rich.console import Console
from rich.markup import escape

from strand.brief import several
from strand.command.ending import ended_by
from strand.command.parameters import SectionedCommand, declared, progress, show
from strand.command.run_options import values_of
from strand.errors import ConfigurationError
from strand.feeds.live.serving import Faults, ServeOptions
from strand.feeds.live.serving import serve as run_serve
from strand.options import options_in
from strand.report.tables import numbers_table

__all__ = ["serve"]

_SECTIONS: Final = {
    "Lines": ("--line", "--rerequest", "--interface", "--allow-remote"),
    "Pace": ("--speed", "--rate"),
    "Faults": ("--loss", "--reorder", "--duplicate", "--seed"),
    "Session": ("--session", "--packet-bytes", "--linger-s"),
}
#: Options that each line has its own of.
_BY_LINE: Final = ("line", "loss", "reorder", "duplicate")


def _sending(command: Callable[..., None]) -> Callable[..., None]:
    """Adds the options of ``ServeOptions`` and ``Faults``. Those of a line may be given twice."""
    for option in reversed([*options_in(ServeOptions).values(), *options_in(Faults).values()]):
        if option.name in _BY_LINE:
            twice = replace(option, text=f"{option.text} Give it twice for A and B.", default=None)
            command = declared(twice, multiple=True, required=option.name == "line")(command)
        elif option.flag:
            command = declared(option)(command)
    return command


@click.command("serve", cls=SectionedCommand, sections=_SECTIONS)
@click.argument("file", type=click.Path(path_type=Path))
@_sending
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def serve(
    file: Path, loss: tuple[float, ...], reorder: tuple[float, ...], duplicate: tuple[float, ...], as_json: bool,
    **given: Any,
) -> None:  # fmt: skip
    """Send an ITCH 5.0 FILE, compressed or not, over MoldUDP64 on one line or two, with losses and disorder on demand.

    The session ends with the file. An interrupt ends it early; the report is printed in both cases.
    """
    shares = [_by_line(name, given) for name, given in (("loss", loss), ("reorder", reorder), ("duplicate", duplicate))]
    faults = Faults(*(share[0] for share in shares)), Faults(*(share[1] for share in shares))
    options = ServeOptions(faults=faults, **values_of(options_in(ServeOptions).values(), given))
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
