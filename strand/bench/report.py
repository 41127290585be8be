"""Benchmark results as tables for people."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from strand.bench.latency import LatencyResult
from strand.bench.letters import LetterLevel, LettersOutcome
from strand.bench.policies import LevelOutcome, PolicyOutcome
from strand.bench.scenarios import ScenarioResult
from strand.brief import several
from strand.report.quantities import duration
from strand.report.tables import numbers_table

HEADINGS = {"serial": "one core", "static": "static", "static_lpt": "LPT", "strand": "strand"}


def _machine_line(machine: Mapping[str, Any]) -> str:
    return f"{machine['cpu']}, {several(machine['cores'], 'core')}, load {machine['load_1m']}"


def print_route(console: Console, result: Mapping[str, Any]) -> None:
    """The ways of ``strand bench route``, each with its throughput and what publishing cost."""
    title = f"Million ticks per second, median of {result['rounds']}"
    table = numbers_table("way", "Mticks/s", "of one core", "publish ns/tick", title=title, title_justify="left")
    rates = result["mticks_s"]
    queued = result["strand_queued"]
    lines = (
        ("one core, plain loop", rates["serial"], None),
        ("static: symbol modulo workers", rates["static"], result["static_publish_ns"]),
        ("static: largest first", rates["static_lpt"], None),
        ("strand", rates["strand"], result["publish_ns"]),
        ("strand, everything queued", queued["mticks_s"], queued["publish_ns"]),
    )
    for name, rate, publish_ns in lines:
        cost = "" if publish_ns is None else f"{publish_ns:.1f}"
        table.add_row(name, f"{rate:.1f}", f"{rate / rates['serial']:.2f}x", cost)
    console.print(table)
    console.print(
        f"{result['ticks']:,} ticks, {result['symbols']:,} symbols, skew {result['skew']} (hottest "
        f"{result['hottest_share']:.1%}), work {result['work']}, {result['workers']} workers, "
        f"{result['strands']:,} strands, batch {result['batch']:,}; "
        f"the publisher handled {result['inline_share']:.0%} inline"
    )
    console.print(_machine_line(result["machine"]))


def print_scenarios(console: Console, results: Sequence[ScenarioResult], machine: Mapping[str, Any]) -> None:
    """A table of throughput and one of latency, each line with its winner."""
    flat_out = [r for r in results if r.latency_ns is None]
    if flat_out:
        title = "At full speed: million ticks per second"
        table = numbers_table("scenario", *HEADINGS.values(), no_wrap=True, title=title, title_justify="left")
        table.add_column("winner", no_wrap=True)
        table.add_column("gain", justify="right", no_wrap=True)
        for r in flat_out:
            cells = [_marked(f"{r.mticks_s[way]:.1f}", way == r.winner) for way in HEADINGS]
            table.add_row(r.title, *cells, HEADINGS[r.winner], f"{r.gain:.2f}x")
        console.print(table)
        console.print("LPT: static, largest symbols first. Gain: strand over the better of static and LPT.")
    paced = [r for r in results if r.latency_ns is not None]
    if paced:
        title = "Paced: time from when a tick was due until its handler was done"
        table = numbers_table("scenario", "Mticks/s", title=title, title_justify="left")
        table.add_column("way", no_wrap=True)
        for heading in ("p50", "p99", "p99.9", "max"):
            table.add_column(heading, justify="right", no_wrap=True)
        for r in paced:
            _add_paced(table, r)
        console.print(table)
        console.print("Load is a share of the highest rate of static routing. The rate is the same for all ways.")
    console.print(_machine_line(machine))


def _add_paced(table: Table, result: ScenarioResult) -> None:
    assert result.latency_ns is not None
    first = True
    for way, p in result.latency_ns.items():
        rate = f"{(result.ticks_per_s or 0) / 1e6:.1f}"
        times = [duration(ns) for ns in (p.p50, p.p99, p.p999, p.maximum)]
        cells = [_marked(cell, way == result.winner) for cell in (HEADINGS[way], *times)]
        table.add_row(result.title if first else "", rate if first else "", *cells, end_section=way == "strand")
        first = False


def _marked(text: str, wins: bool) -> str:
    return f"[bold green]{text}[/]" if wins else text


def print_latency(console: Console, results: Sequence[LatencyResult], machine: Mapping[str, Any]) -> None:
    """Prints one line per way of waiting."""
    heads = ("worker", "ticks", "p50", "p99", "max", "CPU/tick", "CPU at rest")
    title = "One tick, publisher to a handler on another core"
    table = numbers_table(*heads, no_wrap=True, title=title, title_justify="left")
    names = {"spin": "spinning", "park": "parked, 2 ms apart"}
    for r in results:
        times = [duration(ns) for ns in (r.p50_ns, r.p99_ns, r.max_ns)]
        table.add_row(names[r.idle], f"{r.ticks:,}", *times, duration(r.cpu_ns_a_tick), f"{r.quiet_cpu_share:.1%}")
    console.print(table)
    console.print(_machine_line(machine))


#: A table of nine columns whose numbers are as long as they get.
_WIDE: Final = 120


def _add_levels(
    table: Table, outcomes: Sequence[Any], headings: Sequence[str], cells: Callable[[Any], Sequence[str]]
) -> None:
    """Adds a column of levels and those of ``headings``, and a row for each level of each outcome."""
    table.add_column("level", no_wrap=True)
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    for outcome in outcomes:
        names = list(outcome.levels)
        for level in names:
            head = outcome.name if level == names[0] else ""
            table.add_row(head, level, *cells(outcome.levels[level]), end_section=level == names[-1])


def print_policies(
    console: Console, about: Mapping[str, Any], outcomes: Sequence[PolicyOutcome], machine: Mapping[str, Any]
) -> None:
    """Waits and drops of each policy by level, and what it did in all."""
    table = numbers_table(
        "policy", title="Time from when a tick was due until its handler was done", title_justify="left"
    )
    _add_levels(table, outcomes, ("arrived", "handled", "dropped", "p50", "p95", "p99", "share"), _level_cells)
    # A narrow terminal breaks long lines. Cells that were cut would show other numbers.
    console.width = max(console.width, _WIDE)
    console.print(table)
    totals = numbers_table("policy", "Mticks/s", "rose", "starved")
    for outcome in outcomes:
        rose, starved = (f"{sum(n.values()):,}" if n else "" for n in (outcome.promoted, outcome.starved))
        totals.add_row(outcome.name, f"{outcome.mticks_s:.3f}", rose, starved)
    console.print(totals)
    bound = "no bound" if about["bound_ms"] is None else f"at most {about['bound_ticks']:,} ticks pending"
    kind = "made-up" if about["source"] is None else "recorded"
    workers = "1 worker" if about["workers"] == 1 else f"{about['workers']} workers"
    console.print(
        f"{about['arrivals']:,} {kind} ticks of {about['symbols']:,} symbols at {about['load']:.0%} of the "
        f"{about['capacity_ticks_s']:,.0f} ticks/s that {workers} can do (work {about['work']}); {bound}"
    )
    console.print(_machine_line(machine))


def print_letters(
    console: Console, about: Mapping[str, Any], outcomes: Sequence[LettersOutcome], machine: Mapping[str, Any]
) -> None:
    """Prints the letters that each scheduler opened by level, its times, and its peak load."""
    title = "Time from when a letter was due until it was opened"
    table = numbers_table("scheduler", no_wrap=True, title=title, title_justify="left")
    _add_levels(table, outcomes, ("arrived", "opened", "in vain", "resolved", "p50", "p99"), _letter_cells)
    console.print(table)
    totals = numbers_table("scheduler", "needed", "lost", "peak load")
    for outcome in outcomes:
        totals.add_row(outcome.name, f"{outcome.needed:,}", "0", f"{outcome.peak_load:.1%}")
    console.print(totals)
    ratio = about["low_opened_of_fifo"]
    console.print(
        f"Napoleon opened {'none' if ratio is None else f'{ratio:.3f}'} of what Fifo opened of level low, and its peak "
        f"load is {about['peak_load_lower']:.1%} lower"
    )
    console.print(
        f"{about['arrivals']:,} letters in {about['seconds']:g} s, {about['load']:.0%} of the time of "
        f"{about['workers']} workers; a letter takes a worker {about['work_ms']:g} ms; low is held for "
        f"{about['hold_ms']:,} ms"
    )
    console.print("Peak load: the largest share of the workers' time that letters took in any second")
    console.print(_machine_line(machine))


def _letter_cells(found: LetterLevel) -> list[str]:
    times = ("" if ns is None else duration(ns) for ns in (found.p50_ns, found.p99_ns))
    return [*(f"{n:,}" for n in (found.arrived, found.opened, found.in_vain, found.resolved)), *times]


def _level_cells(found: LevelOutcome) -> list[str]:
    times = ("" if ns is None else duration(ns) for ns in (found.p50_ns, found.p95_ns, found.p99_ns))
    share = "" if found.share is None else f"{found.share:.1%}"
    return [*(f"{n:,}" for n in (found.arrived, found.handled, found.dropped)), *times, share]
