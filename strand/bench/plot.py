"""Scenario results as a picture; needs the extra [plot]."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from strand.bench.policies import PolicyOutcome
from strand.bench.report import HEADINGS
from strand.bench.scenarios import ScenarioResult
from strand.errors import ConfigurationError
from strand.report.canvas import matplotlib
from strand.report.quantities import duration

__all__ = ["check_plot_path", "plot_policies", "plot_scenarios"]

COLOURS = {"serial": "#b8b8b8", "static": "#7aa6c2", "static_lpt": "#3f6f8f", "strand": "#d9652b"}
LEVEL_COLOURS = {
    "immediate": "#d9652b",
    "high": "#e8a33d",
    "retry": "#9aa35a",
    "normal": "#7aa6c2",
    "low": "#3f6f8f",
}
SUFFIXES = (".png", ".svg", ".pdf")


def check_plot_path(path: Path) -> None:
    """Before an hour of measuring: raises MissingExtraError without matplotlib, ConfigurationError for a path that
    cannot be written."""
    matplotlib("figure")
    if path.suffix not in SUFFIXES:
        raise ConfigurationError(f"plot: {path} does not end in {', '.join(SUFFIXES)}")
    if not path.parent.is_dir():
        raise ConfigurationError(f"plot: there is no folder {path.parent}")


def plot_scenarios(results: Sequence[ScenarioResult], machine: Mapping[str, Any], path: Path) -> None:
    """Bars of throughput where the stream went flat out, and of the 99th percentile where it was paced."""
    flat_out = [r for r in results if r.latency_ns is None]
    paced = [r for r in results if r.latency_ns is not None]
    panels = [(rows, draw) for rows, draw in ((flat_out, _draw_rates), (paced, _draw_latency)) if rows]
    heights = [len(rows) + 1.2 for rows, _ in panels]
    figure = matplotlib("figure").Figure(figsize=(9.5, 0.75 * sum(heights) + 1.0), layout="constrained")
    axes = figure.subplots(len(panels), 1, squeeze=False, height_ratios=heights)
    for (rows, draw), axis in zip(panels, axes[:, 0], strict=True):
        draw(axis, rows)
        axis.set_yticks(range(len(rows)), [r.title for r in rows])
        axis.invert_yaxis()
        axis.spines[["top", "right"]].set_visible(False)
    axes[0, 0].legend(frameon=False, fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    figure.supxlabel(f"{machine['cpu']}, {machine['cores']} cores", fontsize=8, color="#666666")
    figure.savefig(path, dpi=150)


def _bars(axis: Any, rows: Sequence[ScenarioResult], ways: Sequence[str], value: Any, text: Any) -> None:
    height = 0.8 / len(ways)
    for i, way in enumerate(ways):
        at = [row + (i - (len(ways) - 1) / 2) * height for row in range(len(rows))]
        values = [value(r, way) for r in rows]
        bars = axis.barh(at, values, height * 0.92, color=COLOURS[way], label=HEADINGS[way])
        labels = [text(r, way) for r in rows]
        for label, r in zip(axis.bar_label(bars, labels, padding=3, fontsize=7), rows, strict=True):
            label.set_fontweight("bold" if r.winner == way else "normal")


def _draw_rates(axis: Any, rows: Sequence[ScenarioResult]) -> None:
    _bars(axis, rows, list(HEADINGS), lambda r, way: r.mticks_s[way], lambda r, way: f"{r.mticks_s[way]:.1f}")
    axis.set_title("Flat out: million ticks per second (more is better)", fontsize=10, loc="left")
    axis.margins(x=0.08)


def _draw_latency(axis: Any, rows: Sequence[ScenarioResult]) -> None:
    latencies = [r.latency_ns for r in rows if r.latency_ns is not None]
    ways = [way for way in HEADINGS if way in latencies[0]]
    _bars(axis, rows, ways, lambda r, way: r.latency_ns[way].p99, lambda r, way: duration(r.latency_ns[way].p99))
    p99 = [latency[way].p99 for latency in latencies for way in ways]
    axis.set_xscale("log")
    # Bars need a foot to stand on, and room for what is written at their ends.
    axis.set_xlim(10 ** (math.floor(math.log10(max(min(p99), 1.0))) - 0.3), max(p99) * 1.6)
    axis.xaxis.set_major_formatter(lambda ns, _: duration(ns))
    axis.xaxis.set_minor_formatter("")
    axis.set_title("Paced: 99th percentile from due to handled (less is better)", fontsize=10, loc="left")


def plot_policies(
    about: Mapping[str, Any], outcomes: Sequence[PolicyOutcome], machine: Mapping[str, Any], path: Path
) -> None:
    """By policy and level: the 99th percentile of the wait, and the ticks dropped of those that arrived."""
    levels = [level for level in LEVEL_COLOURS if any(level in outcome.levels for outcome in outcomes)]
    figure = matplotlib("figure").Figure(figsize=(9.5, 1.6 + 0.9 * len(outcomes)), layout="constrained")
    waits, drops = figure.subplots(1, 2, sharey=True)
    height = 0.8 / len(levels)
    for i, level in enumerate(levels):
        at = [row + (i - (len(levels) - 1) / 2) * height for row in range(len(outcomes))]
        found = [outcome.levels[level] for outcome in outcomes]
        p99 = [level_.p99_ns or 0.0 for level_ in found]
        lost = [100 * level_.dropped / level_.arrived if level_.arrived else 0.0 for level_ in found]
        bars = waits.barh(at, p99, height * 0.92, color=LEVEL_COLOURS[level], label=level)
        waits.bar_label(bars, [duration(ns) if ns else "none handled" for ns in p99], padding=3, fontsize=7)
        bars = drops.barh(at, lost, height * 0.92, color=LEVEL_COLOURS[level])
        drops.bar_label(bars, [f"{share:.1f} %" for share in lost], padding=3, fontsize=7)
    seen = [level.p99_ns for outcome in outcomes for level in outcome.levels.values() if level.p99_ns]
    waits.set_xscale("log")
    if seen:
        waits.set_xlim(10 ** (math.floor(math.log10(min(seen))) - 0.3), max(seen) * 4)
    waits.xaxis.set_major_formatter(lambda ns, _: duration(ns))
    waits.xaxis.set_minor_formatter("")
    waits.set_title("99th percentile from due to handled", fontsize=10, loc="left")
    drops.set_xlim(0, 115)
    drops.set_xticks(range(0, 101, 20))
    drops.set_title("Dropped, % of what arrived", fontsize=10, loc="left")
    waits.set_yticks(range(len(outcomes)), [outcome.name for outcome in outcomes])
    waits.invert_yaxis()
    for axis in (waits, drops):
        axis.spines[["top", "right"]].set_visible(False)
    figure.legend(
        *waits.get_legend_handles_labels(), loc="outside upper right", ncols=len(levels), frameon=False, fontsize=8
    )
    bound = "no bound" if about["bound_ms"] is None else f"at most {about['bound_ms']:g} ms of work pending"
    workers = "1 worker" if about["workers"] == 1 else f"{about['workers']} workers"
    figure.supxlabel(
        f"arrivals at {about['load']:.0%} of what {workers} can do, {bound}; {machine['cpu']}, "
        f"{machine['cores']} cores",
        fontsize=8,
        color="#666666",
    )
    figure.savefig(path, dpi=150)
