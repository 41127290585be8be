"""``strand stat``: a running dispatcher of another process, as it is now."""

from __future__ import annotations

from dataclasses import asdict
from itertools import zip_longest
from typing import Any, Final

import click
import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from strand.binding.outside import MOST_LEVELS
from strand.command.parameters import show
from strand.outside.attached import Attached, BookLook, Look, attach
from strand.report.quantities import duration
from strand.stats import Latency, Statistics
from strand.ticks import PRICE_SCALE

__all__ = ["stat"]

#: What JSON has.
_PLAIN: Final = (int, float, str, list)


@click.command("stat")
@click.argument("pid", type=click.IntRange(1))
@click.option("--name", help="Of the dispatcher, where the process has several.")
@click.option("--symbol", "symbols", multiple=True, help="Show this symbol's row too. May be given again.")
@click.option(
    "--levels",
    type=click.IntRange(0, MOST_LEVELS),
    default=5,
    help="Of the books of these symbols, where they have any.",
)
@click.option("--strands", is_flag=True, help="List all strands that have had ticks.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of tables.")
def stat(pid: int, name: str | None, symbols: tuple[str, ...], levels: int, strands: bool, as_json: bool) -> None:
    """Look at a dispatcher of process PID that was made with attachable=True, or by strand replay --attachable.

    It goes on meanwhile: nothing is locked, and each counter is exact, though not all are of one moment.
    """
    attached = attach(pid, name=name)
    statistics = attached.statistics()
    looks = [attached.symbol(symbol) for symbol in symbols]
    books = [attached.book(symbol, levels) for symbol in symbols if levels and attached.keeps_book(symbol)]
    listed = list(attached.looks()) if strands else []
    plain = _plain(attached, statistics, looks, listed) | {"books": [_book(book) for book in books]}

    def human(console: Console) -> None:
        _print(console, attached, statistics, looks, listed)
        for book in books:
            _print_book(console, book)

    show(as_json, plain, human)


def _plain(attached: Attached, s: Statistics, looks: list[Look], listed: list[Look]) -> dict[str, Any]:
    about = attached.description
    return {
        "pid": about.pid,
        "name": about.name,
        "version": about.version,
        "made_at": about.made_at,
        "configuration": dict(about.configuration),
        "handlers": [handler.name for handler in about.handlers],
        "outputs": list(about.outputs),
        "strands": attached.n_strands,
        "accepted": s.accepted,
        "handled": s.handled,
        "dropped": dict(s.dropped),
        "pending": s.pending,
        "handled_inline": s.handled_inline,
        "visits": s.visits,
        "stolen": s.stolen,
        "watermark": s.watermark,
        "latency_ns": {what: _percentiles(latency) for what, latency in _latencies(s)},
        "workers": [asdict(worker) for worker in s.workers],
        "symbols": [_row(look) for look in looks],
        "by_strand": [_strand(look) for look in listed],
    }


def _latencies(s: Statistics) -> tuple[tuple[str, Latency], ...]:
    return ("wait", s.wait), ("handler", s.handler), ("end_to_end", s.end_to_end)


def _percentiles(latency: Latency) -> dict[str, float]:
    return {f"p{p:g}": ns for p, ns in latency.percentiles.items()} | {"maximum": latency.maximum_ns}


def _row(look: Look) -> dict[str, Any]:
    columns = {name: np.asarray(column).tolist()[0] for name, column in look.columns().items()}
    return {
        "strand": look.strand,
        "handler": look.handler,
        "in_visit": look.in_visit,
        "row": {name: value if isinstance(value, _PLAIN) else str(value) for name, value in columns.items()},
    }


def _book(book: BookLook) -> dict[str, Any]:
    """Prices in units of currency; sizes in units of the instrument, or in the feed's where ``size_unit`` is None."""
    sides = {"bids": book.bids, "asks": book.asks}
    levels = {name: [_level(book, level) for level in side.tolist()] for name, side in sides.items()}
    return {"symbol": book.symbol, "in_visit": book.in_visit, "size_unit": book.size_unit, **levels}


def _level(book: BookLook, level: tuple[int, int, int]) -> dict[str, float]:
    price, size, orders = level
    unit = 1 if book.size_unit in (None, 1) else book.size_unit
    return {"price": price / PRICE_SCALE, "size": size * unit, "orders": orders}


def _strand(look: Look) -> dict[str, Any]:
    counts = look.counts
    return {
        "strand": look.strand,
        "symbols": list(look.symbols),
        "accepted": counts.accepted,
        "handled": counts.handled,
        "pending": counts.pending,
        "paused": counts.paused,
        "quarantined": counts.quarantined,
        "in_visit": look.in_visit,
    }


def _print(console: Console, attached: Attached, s: Statistics, looks: list[Look], listed: list[Look]) -> None:
    about = attached.description
    what = f"[bold]{escape(about.name)}[/] of " if about.name else ""
    handlers = escape(", ".join(handler.name for handler in about.handlers))
    who = f"{what}process [bold]{about.pid}[/] (strand {escape(about.version)})"
    console.print(f"{who}: {handlers}; {attached.n_strands:,} strands")
    lost = ", ".join(f"{n:,} {why}" for why, n in s.dropped.items() if n)
    console.print(
        f"accepted {s.accepted:,}; handled {s.handled:,}; pending {s.pending:,}"
        + (f"; dropped: {lost}" if lost else "")
        + f"; handled where they lay {s.handled_inline:,}"
    )
    table = Table("", "p50", "p99", "p99.9", "at most", box=SIMPLE_HEAD)
    for name, latency in _latencies(s):
        p = latency.percentiles
        table.add_row(name, *(duration(ns) for ns in (p[50.0], p[99.0], p[99.9], latency.maximum_ns)))
    console.print(table)
    table = Table("", "handled", "visits", "stolen", "slept", box=SIMPLE_HEAD)
    for worker in s.workers:
        table.add_row(
            worker.name, f"{worker.handled:,}", f"{worker.visits:,}", f"{worker.stolen:,}", f"{worker.parks:,}"
        )
    console.print(table)
    for look in looks:
        _print_row(console, look)
    if listed:
        _print_strands(console, listed)


def _print_row(console: Console, look: Look) -> None:
    found = _row(look)
    table = Table("field", "value", title=f"{escape(look.symbols[0])} ({escape(look.handler)})", box=SIMPLE_HEAD)
    for name, value in found["row"].items():
        table.add_row(escape(name), escape(str(value)))
    console.print(table)
    if look.in_visit:
        console.print("[yellow]in a visit for 100 ms: the row may be of several moments[/]")


def _print_book(console: Console, book: BookLook) -> None:
    table = Table("orders", "size", "bid", "ask", "size", "orders", title=escape(book.symbol), box=SIMPLE_HEAD)
    sides = [[_level(book, level) for level in side.tolist()] for side in (book.bids, book.asks)]
    for bid, ask in zip_longest(*sides):
        table.add_row(*_cells(bid), *reversed(_cells(ask)))
    console.print(table)
    if book.size_unit is None:
        console.print("sizes are in the feed's units: it does not say what one is worth")
    if book.in_visit:
        console.print("[yellow]in a visit for 100 ms: the book may be of several moments[/]")


def _cells(level: dict[str, float] | None) -> tuple[str, str, str]:
    return (
        ("", "", "") if level is None else (f"{level['orders']:,}", f"{level['size']:,.12g}", f"{level['price']:,.9g}")
    )


def _print_strands(console: Console, listed: list[Look]) -> None:
    table = Table("strand", "symbols", "accepted", "handled", "pending", "state", box=SIMPLE_HEAD)
    for look in listed:
        counts = look.counts
        states = (("paused", counts.paused), ("quarantined", counts.quarantined), ("in visit", look.in_visit))
        names = ", ".join(look.symbols[:3]) + (f" and {len(look.symbols) - 3:,} more" if len(look.symbols) > 3 else "")
        table.add_row(
            str(look.strand),
            escape(names),
            f"{counts.accepted:,}",
            f"{counts.handled:,}",
            f"{counts.pending:,}",
            ", ".join(word for word, so in states if so),
        )
    console.print(table)
