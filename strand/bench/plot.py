"""Scenario results as a picture; needs the extra [plot]."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from strand.bench.policies import PolicyOutcome
from strand.bench.report import HEADINGS
from strand.bench.scenarios import ScenarioResult
from strand.errors import ConfigurationError
from strand.feeds.io.files import check_folder
from strand.report.canvas import matplotlib
from strand.report.quantities import duration

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
    """Checks the plot's path before an hour of measuring. Raises MissingExtraError without matplotlib,
    ConfigurationError for a path that cannot be written."""
    matplotlib("figure")
    if path.suffix not in SUFFIXES:
        raise ConfigurationError("plot", f"{path} does not end in {', '.join(SUFFIXES)}")
    check_folder("plot", path)


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
        axis.set_ylim(len(rows) - 0.5, -0.5)
        axis.spines[["top", "right"]].set_visible(False)
    axes[0, 0].legend(frameon=False, fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    figure.supxlabel(f"{machine['cpu']}, {machine['cores']} cores", fontsize=8, color="#666666")
    figure.savefig(path, dpi=150)


def _bars(axis: Any, rows: Sequence[ScenarioResult], ways: Sequence[str], value: Any, text: Any) -> None:
    height = 0.8 / len(ways)
    for i, way in enumerate(ways):
        at = [row + _beside(i, len(ways)) for row in range(len(rows))]
        values = [value(r, way) for r in rows]
        bars = axis.barh(at, values, height * 0.92, color=COLOURS[way], label=HEADINGS[way])
        labels = [text(r, way) for r in rows]
        for label, r in zip(axis.bar_label(bars, labels, padding=3, fontsize=7), rows, strict=True):
            label.set_fontweight("bold" if r.winner == way else "normal")


def _draw_rates(axis: Any, rows: Sequence[ScenarioResult]) -> None:
    _bars(axis, rows, list(HEADINGS), lambda r, way: r.mticks_s[way], lambda r, way: f"{r.mticks_s[way]:.1f}")
    axis.set_title("At full speed: million ticks per second (more is better)", fontsize=10, loc="left")
    axis.margins(x=0.08)


def _draw_latency(axis: Any, rows: Sequence[ScenarioResult]) -> None:
    latencies = [r.latency_ns for r in rows if r.latency_ns is not None]
    ways = [way for way in HEADINGS if way in latencies[0]]
    for i, way in enumerate(ways):
        at = [row + _beside(i, len(ways)) for row in range(len(rows))]
        p99 = [latency[way].p99 for latency in latencies]
        bold = [r.winner == way for r in rows]
        _points(axis, at, p99, colour=COLOURS[way], label=HEADINGS[way], bold=bold)
    _log_times(axis, [latency[way].p99 for latency in latencies for way in ways])
    axis.set_title("Paced: 99th percentile from due to handled, logarithmic (less is better)", fontsize=10, loc="left")


def _beside(i: int, n: int) -> float:
    """Offset of the i-th of n marks of a row from the row's middle."""
    return (i - (n - 1) / 2) * 0.8 / n


def _points(
    axis: Any, at: Sequence[float], times_ns: Sequence[float | None], *, colour: str, label: str, bold: Sequence[bool]
) -> None:
    """A mark for each time, which is written beside it. A bar would say nothing: on a logarithmic axis it has no foot.
    None: nothing was handled, which is written at the axis' left end."""
    there = [(ns, y) for ns, y in zip(times_ns, at, strict=True) if ns is not None]
    axis.scatter([ns for ns, _ in there], [y for _, y in there], s=46, color=colour, label=label, zorder=3)
    for ns, y, is_bold in zip(times_ns, at, bold, strict=True):
        weight = "bold" if is_bold else "normal"
        if ns is None:
            axis.annotate(
                "none handled", (0, y), xycoords=("axes fraction", "data"), xytext=(4, 0), textcoords="offset points",
                va="center", fontsize=7, color=colour,
            )  # fmt: skip
        else:
            axis.annotate(
                duration(ns), (ns, y), xytext=(7, 0), textcoords="offset points", va="center", fontsize=7,
                fontweight=weight,
            )  # fmt: skip


def _log_times(axis: Any, times_ns: Sequence[float]) -> None:
    """A logarithmic axis with room for what is written beside the marks."""
    axis.set_xscale("log")
    if times_ns:
        axis.set_xlim(max(min(times_ns), 1.0) / 3, max(*times_ns, 1.0) * 4)
    axis.xaxis.set_major_formatter(lambda ns, _: duration(ns))
    axis.xaxis.set_minor_formatter("")
    axis.grid(axis="x", color="#e3e6e8", linewidth=0.6)
    axis.set_axisbelow(True)


def plot_policies(
    about: Mapping[str, Any], outcomes: Sequence[PolicyOutcome], machine: Mapping[str, Any], path: Path
) -> None:
    """Plots by policy and level: the 99th percentile of the wait, and the ticks dropped of those that arrived."""
    levels = [level for level in LEVEL_COLOURS if any(level in outcome.levels for outcome in outcomes)]
    figure = matplotlib("figure").Figure(figsize=(9.5, 1.6 + 0.9 * len(outcomes)), layout="constrained")
    waits, drops = figure.subplots(1, 2, sharey=True)
    height = 0.8 / len(levels)
    for i, level in enumerate(levels):
        at = [row + _beside(i, len(levels)) for row in range(len(outcomes))]
        found = [outcome.levels[level] for outcome in outcomes]
        p99 = [level_.p99_ns for level_ in found]
        _points(waits, at, p99, colour=LEVEL_COLOURS[level], label=level, bold=[False] * len(at))
        lost = [100 * level_.dropped / level_.arrived if level_.arrived else 0.0 for level_ in found]
        bars = drops.barh(at, lost, height * 0.92, color=LEVEL_COLOURS[level])
        drops.bar_label(bars, [f"{share:.1f} %" for share in lost], padding=3, fontsize=7)
    _log_times(waits, [level.p99_ns for outcome in outcomes for level in outcome.levels.values() if level.p99_ns])
    waits.set_title("99th percentile from due to handled, logarithmic", fontsize=10, loc="left")
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
