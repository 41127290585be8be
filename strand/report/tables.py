"""Tables of a replay or a file that the command prints for people, and the console that shows them."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import numpy as np
from rich.console import Console, ConsoleOptions
from rich.markup import escape
from rich.segment import Segment
from rich.table import Table

from strand.brief import several
from strand.errors import called
from strand.replaying.run_result import RunResult
from strand.report.quantities import duration, feed_clock, printable, rate
from strand.report.summary import (
    LATENCY_HEADS,
    dropped_ticks,
    latency_rows,
    left_ticks,
    policy_tables,
    queue_depth,
    shown_latency,
    skipped_as_dict,
)
from strand.stats import Statistics
from strand.zones import clock_of

_PLACES: Final = (("byte", "offset"), ("line", "line"))


def numbers_table(first: str, *others: str, no_wrap: bool = False, **options: Any) -> Table:
    """A table of numbers, flush right, with what each line is about in its ``first`` column. ``options``: of Table."""
    table = Table(first, **options)
    for heading in others:
        table.add_column(heading, justify="right", no_wrap=no_wrap)
    return table


def latency_table(s: Statistics, **options: Any) -> Table:
    """Percentiles and maxima of the latencies. ``options``: of Table."""
    table = numbers_table("latency", *LATENCY_HEADS, **options)
    for row in latency_rows(s):
        table.add_row(*row)
    return table


def print_skipped(console: Console, found: dict[str, Any]) -> None:
    """Prints the counts and samples of ``skipped_as_dict``, if there are any."""
    for reason, count in found["counts"].items():
        console.print(f"[yellow]skipped:[/] {count:,} {escape(reason)}")
    for sample in found["samples"]:
        at = "".join(f" at {word} {sample[key]}" for word, key in _PLACES if sample[key] is not None)
        console.print(f"  {escape(sample['reason'])}{at} {escape(sample['text'])}".rstrip())


def print_replay(console: Console, result: RunResult, out: Path | None) -> None:
    """The closing report."""
    for warning in result.warnings:
        console.print(f"[yellow]warning:[/] {escape(str(warning))}", highlight=False, soft_wrap=True)
    if not result.warnings:
        console.print("warnings: none")
    s = result.statistics
    console.print(
        f"[bold]{escape(result.info.path)}[/] ({result.info.format}): [bold]{several(result.ticks, 'tick')}[/] of "
        f"{several(int(np.count_nonzero(result.ticks_by_symbol)), 'symbol')} in {result.wall_s:.3f} s, "
        f"[bold]{' '.join(rate(result.ticks_per_s))}[/]"
    )
    console.print(
        f"limited by: {result.limited_by} (set-up took {result.setup_s / result.wall_s:.0%} of the time, getting ticks "
        f"{result.feed_s / result.wall_s:.0%}"
        + (f", {result.input_work} {result.input_wait_s / result.wall_s:.0%}" if result.input_wait_s else "")
        + f"); {several(result.n_strands, 'strand')}, "
        f"{s.handled_inline / max(s.handled, 1):.0%} of ticks handled inline, "
        f"{s.handled_in_blocks / max(s.handled, 1):.0%} in blocks"
    )
    console.print(f"way: {escape(s.ingest.said)}")
    if (busiest := result.busiest_basket) is not None:
        console.print(f"busiest basket: {escape(str(busiest))}", highlight=False)
    if s.unpinned is not None:
        console.print(f"[yellow]{escape(s.unpinned)}[/]")
    _print_tables(console, result)
    if (pacing := result.pacing) is not None:
        late = pacing.lateness
        console.print(
            f"pace: speed {pacing.speed:g}; late by p50 {shown_latency(late, late.percentiles[50.0])}, "
            f"p99 {shown_latency(late, late.percentiles[99.0])}, max {shown_latency(late, late.maximum_ns)}; "
            f"{pacing.late:,} of {late.count:,} ticks were late by more than {duration(pacing.late_after_ns)}"
        )
    dropped = ", ".join(f"{n:,} {reason}" for reason, n in dropped_ticks(s).items())
    console.print(f"dropped: {dropped or 'nothing'}")
    if left := left_ticks(s):
        console.print(f"not handled: {left}")
    if by_level := {level: n for level, n in s.dropped_by_level.items() if n}:
        console.print("dropped by level: " + ", ".join(f"{n:,} {level}" for level, n in by_level.items()))
    print_skipped(console, skipped_as_dict(result.skipped))
    for failure in result.failures:
        console.print(f"[red]quarantined:[/] {escape(failure)}")
    _print_parts(console, result)
    console.print(f"fingerprint: [bold]{result.fingerprint}[/]", highlight=False)
    if out is not None:
        console.print(f"rows written to {escape(called(out))}")
    for name, (path, records) in result.written.items():
        console.print(f"{name}: {several(records, 'record')} written to {escape(called(path))}")
    for name, array in result.outputs.items():
        console.print(f"{name}: {several(len(array), 'record')}, not written (--out {name}=FILE)")


def _print_tables(console: Console, result: RunResult) -> None:
    """Prints the figures of each worker, and the latencies."""
    s = result.statistics
    heads = ("worker", "core", "ticks", "busy", "visits", "stolen", "parks")
    table = numbers_table(*heads, title=f"imbalance {s.imbalance:.2f}")
    for w in s.workers:
        busy = f"{w.busy_ns / (result.wall_s * 1e9):.0%}"
        core = "" if w.core is None else str(w.core)
        table.add_row(w.name, core, f"{w.handled:,}", busy, f"{w.visits:,}", f"{w.stolen:,}", f"{w.parks:,}")
    console.print(table)
    console.print(latency_table(s))
    if (depth := queue_depth(result)) is not None:
        console.print(str(depth), highlight=False)
    print_policy(console, s)


def print_policy(console: Console, s: Statistics, **options: Any) -> None:
    """Prints the policy's counters. ``options``: arguments of the tables."""
    for heads, rows in policy_tables(s):
        table = numbers_table(*heads, **options)
        for row in rows:
            table.add_row(*row)
        console.print(table)


def _print_parts(console: Console, result: RunResult) -> None:
    """The fingerprints of days, and of what was handled up to each interval."""
    clock = feed_clock(result.info)
    for number, day in enumerate(result.days, 1):
        begun = datetime.fromtimestamp(day.start_ns / 1e9, clock.zone)
        console.print(
            f"day {number}, from {begun:%Y-%m-%d %H:%M:%S} {clock.name}: {several(day.ticks, 'tick')} of "
            f"{several(len(day.symbols), 'symbol')}, fingerprint {day.fingerprint}",
            highlight=False,
        )
    for at in result.intervals:
        console.print(
            f"at {several(at.ticks, 'tick')}: fingerprint {at.fingerprint}, fingerprint of the input {at.input}",
            highlight=False,
            soft_wrap=True,
        )


#: Of a feed's counters, those that say how the file was read, and not what it holds.
_OF_READING: Final = frozenset({"bytes_decoded", "bytes_in", "bytes_out", "read_ns", "read_blocked_ns", "wait_ns"})


def print_info(console: Console, found: dict[str, Any], *, verbose: bool = False) -> None:
    """Prints the findings of ``strand info``. ``verbose``: adds the feed's raw counters, with those of reading."""
    table = Table(show_header=False, box=None)
    table.add_column()
    table.add_column(overflow="fold")
    span, date = "none", found["date"] or ("not known" if found["undated"] or found["first_ns"] is None else "")
    clock = clock_of(found["zone"], undated=found["undated"])
    if found["first_ns"] is not None:
        first, last = (datetime.fromtimestamp(found[k] / 1e9, clock.zone) for k in ("first_ns", "last_ns"))
        day = "" if last.date() == first.date() else "%Y-%m-%d "
        if found["undated"]:
            date += "; give --date"
        span = (
            f"{first:%Y-%m-%d %H:%M:%S.%f} to {last:{day}%H:%M:%S.%f} {clock.name} "
            f"({duration(found['last_ns'] - found['first_ns'])})"
        )
    rows = {
        "file": found["path"],
        "format": found["format"],
        "date": date,
        "ticks": f"{found['ticks']:,}",
        "symbols": f"{found['symbols']:,}, {found['symbols_with_ticks']:,} of them with ticks",
        "span": span,
        "time zones": found["time_zones"] if verbose and found["zone"] is not None else "",
        "share of ticks": ", ".join(
            f"{k.replace('_', ' ')} {v:.1%}"
            for k, v in found["share_of_ticks"].items()
            if int(k.removeprefix("top_")) < found["symbols_with_ticks"]
        ),
        "busiest": ", ".join(f"{t['symbol']} {t['ticks']:,}" for t in found["busiest"][:5]),
    }
    counters = {k: v for k, v in found["statistics"].items() if v}
    rows |= {k: f"{v:,}" for k, v in counters.items()} if verbose else _counted(counters)
    for name, value in rows.items():
        if value:
            table.add_row(name, escape(value))
    console.print(table)
    print_skipped(console, found["skipped"])


def _counted(counters: dict[str, int]) -> dict[str, str]:
    """The counters of what a file holds, in words; those of types of messages on one line, the most frequent first."""
    held = {k.replace("_", " "): f"{n:,}" for k, n in counters.items() if k not in _OF_READING and k[:5] != "type_"}
    types = sorted(((n, k[5:]) for k, n in counters.items() if k[:5] == "type_"), key=lambda one: -one[0])
    # Of DBN they are numbers of two hexadecimal digits.
    coded = all(len(letter) == 2 for _, letter in types)
    if types and coded:
        from strand.feeds.formats.dbn import RECORD_NAMES

        types = [(n, f"{RECORD_NAMES.get(letter, 'unknown')} (0x{letter})") for n, letter in types]
    shown = ", ".join(f"{letter} {n:,}" for n, letter in types)
    return held | {"record types" if coded else "message types": shown}


#: Letters in a line, where no line is broken.
_ENDLESS: Final = 1 << 20


class TerminalConsole(Console):
    """A console that shows all text ``printable``."""

    def render(self, renderable: Any, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """See ``rich.console.Console.render``; what moves the cursor for rich itself is a control segment."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=printable(segment.text))


def standard_output() -> TerminalConsole:
    """A console as wide as the terminal. Elsewhere no line is broken and no cell is cut: what reads a pipe wants them
    whole."""
    console = TerminalConsole()
    return console if console.is_terminal else TerminalConsole(width=_ENDLESS)
