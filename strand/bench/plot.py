"""Scenario results as a picture; needs the extra [plot]."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from strand.bench.report import HEADINGS
from strand.bench.scenarios import ScenarioResult
from strand.errors import ConfigurationError
from strand.report.canvas import matplotlib
from strand.report.quantities import duration

__all__ = ["check_plot_path", "plot_scenarios"]

COLOURS = {"serial": "#b8b8b8", "static": "#7aa6c2", "static_lpt": "#3f6f8f", "strand": "#d9652b"}
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
