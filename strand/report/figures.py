"""Figures of a run, for notebooks and for the report's page; matplotlib draws them, the extra ``plot``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from strand.errors import ConfigurationError
from strand.report.canvas import LIGHT, Palette, matplotlib, new_figure, styled
from strand.report.market import bars_of, draw_bars, draw_prices, has_prices
from strand.report.quantities import count, duration, feed_clock
from strand.report.summary import shown_latency
from strand.stats import Latency
from strand.validate import one_of

if TYPE_CHECKING:
    from strand.replaying.run_result import RunResult
    from strand.replaying.timeline import Timeline

#: Workers that are drawn a strip each; more are drawn as rows of one map.
STRIPS: Final = 8
SYMBOLS_SHOWN: Final = 15
#: Histogram buckets that make one bar: a quarter of an octave.
BUCKETS_A_BAR: Final = 4


def plot(result: RunResult, kind: str | None = None, *, symbols: Sequence[str] | None = None) -> Any:
    """Draws the figure of ``ReplayResult.plot``."""
    if kind is not None:
        one_of("kind", kind, KINDS)
    kinds = [kind] if kind is not None else ["throughput", "workers", "latency", "symbols"]
    return draw(result, kinds, LIGHT, symbols)


def draw(result: RunResult, kinds: Sequence[str], palette: Palette, symbols: Sequence[str] | None = None) -> Any:
    """One figure with the kinds below each other. Raises ConfigurationError where there is nothing to draw."""
    heights = [KINDS[kind][0](result, symbols) for kind in kinds]
    with styled(palette):
        figure = new_figure(sum(heights), palette)
        parts = figure.subfigures(len(kinds), 1, squeeze=False, height_ratios=heights)[:, 0]
        for part, kind in zip(parts, kinds, strict=True):
            part.set_facecolor("none")
            KINDS[kind][1](part, result, palette, symbols)
    return figure


def _timeline(result: RunResult) -> Timeline:
    if result.timeline is None:
        raise ConfigurationError("plot", "the run was made with timeline=False, and has no timeline to draw")
    return result.timeline


# ---- kinds: how high, and how


def _throughput(part: Any, result: RunResult, palette: Palette, _: Any) -> None:
    timeline = _timeline(result)
    above, below = part.subplots(2, 1, sharex=True, height_ratios=[3, 2])
    edges, rates = timeline.rate()
    _area(above, edges, rates / 1e6, palette.one)
    above.set_title("Throughput")
    above.set_ylabel("million ticks/s")
    _area(below, timeline.at_s, _held(timeline.pending), palette.two)
    below.set_title("Queue depth: published and not yet handled")
    below.set_ylabel("ticks")
    below.yaxis.set_major_formatter(lambda n, _: count(n))
    below.set_xlabel("seconds since the run began")
    below.set_xlim(0, max(float(timeline.at_s[-1]), 1e-9) if len(timeline) else 1)
    for axis in (above, below):
        axis.set_ylim(0, max(axis.get_ylim()[1], 1) if axis is below else None)


def _held(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """A value at each moment but the last, which stands until the next."""
    return values[:-1]


def _area(axis: Any, edges: npt.NDArray[Any], values: npt.NDArray[Any], colour: str) -> None:
    if len(edges) < 2:
        return
    axis.stairs(values, edges, fill=True, color=colour, alpha=0.25, linewidth=0)
    axis.stairs(values, edges, color=colour, linewidth=1.2, baseline=None)


def _workers(part: Any, result: RunResult, palette: Palette, _: Any) -> None:
    timeline = _timeline(result)
    names = timeline.worker_names
    if len(names) > STRIPS:
        _worker_map(part, timeline, palette)
        return
    edges, load = timeline.load()
    axes = part.subplots(len(names), 1, sharex=True, squeeze=False)[:, 0]
    for axis, name, share in zip(axes, names, load.T, strict=True):
        _area(axis, edges, 100 * share, palette.three)
        axis.set_ylim(0, 100)
        axis.set_yticks([0, 50, 100])
        axis.set_ylabel(name, rotation=0, ha="right", va="center")
    axes[0].set_title("Load of each worker: % of the time in handlers")
    axes[-1].set_xlabel("seconds since the run began")
    axes[-1].set_xlim(0, max(float(timeline.at_s[-1]), 1e-9) if len(timeline) else 1)


def _worker_map(part: Any, timeline: Timeline, palette: Palette) -> None:
    axis = part.subplots()
    edges, load = timeline.load()
    n = len(timeline.worker_names)
    if len(load):
        image = axis.imshow(
            100 * load.T,
            aspect="auto",
            cmap="cividis",
            vmin=0,
            vmax=100,
            interpolation="nearest",
            extent=(edges[0], edges[-1], n - 0.5, -0.5),
        )
        bar = part.colorbar(image, ax=axis, pad=0.01, fraction=0.03)
        bar.set_label("% of the time", color=palette.quiet)
        bar.outline.set_visible(False)
    every = -(-n // 17)
    axis.set_yticks(
        [*range(0, n - 1, every), n - 1], [*(str(i) for i in range(0, n - 1, every)), timeline.worker_names[-1]]
    )
    axis.grid(visible=False)
    axis.set_ylabel("worker")
    axis.set_xlabel("seconds since the run began")
    axis.set_title("Load of each worker: % of the time in handlers")


def _latency(part: Any, result: RunResult, palette: Palette, _: Any) -> None:
    colours = {"wait": palette.two, "handler": palette.three, "end_to_end": palette.one}
    latencies = result.statistics.latencies
    axes = part.subplots(len(latencies), 1, sharex=True, squeeze=False)[:, 0]
    lows, highs = [], []
    for axis, (name, latency) in zip(axes, latencies.items(), strict=True):
        edges, shares = _bars(latency)
        if len(shares):
            _area(axis, edges, 100 * shares, colours[name])
            lows.append(edges[0])
            highs.append(edges[-1])
            for p, style, side, to in ((50.0, "-", "right", -3), (99.0, "--", "left", 3)):
                ns = max(latency.percentiles[p], edges[0])
                axis.axvline(ns, color=palette.quiet, linewidth=0.8, linestyle=style)
                axis.annotate(
                    f"p{p:g} {shown_latency(latency, latency.percentiles[p])}", (ns, 0.97),
                    xycoords=("data", "axes fraction"), xytext=(to, 0), textcoords="offset points", va="top", ha=side,
                    fontsize=7, color=palette.quiet,
                )  # fmt: skip
        axis.set_ylabel(f"{name.replace('_', ' ')}\n% of ticks", rotation=0, ha="right", va="center")
        axis.set_ylim(0, 130 * max(shares) if len(shares) else 1)
    axes[0].set_title(
        "Latency per tick: from publishing to the visit, in the handler, and both"
        if result.statistics.paced
        else "Time in the handler per tick"
    )
    axes[-1].set_xscale("log")
    if lows:
        # Room for what is written beside the first and the last line.
        axes[-1].set_xlim(min(lows) / 4, max(highs) * 4)
    axes[-1].xaxis.set_major_formatter(lambda ns, _: duration(ns))
    axes[-1].xaxis.set_minor_formatter("")


def _bars(latency: Latency) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Edges in ns and shares of ticks, from the first bar that has some to the last; ticks below what the clock
    resolves, or 1 ns, count as so many."""
    floors = latency.floors_ns
    if latency.count == 0 or not len(floors):
        return np.empty(0), np.empty(0)
    first = int(np.searchsorted(floors, max(1.0, latency.resolution_ns)))
    counts = np.concatenate(([latency.counts[: first + 1].sum()], latency.counts[first + 1 :])).astype(np.float64)
    starts = np.arange(0, len(counts), BUCKETS_A_BAR)
    sums = np.add.reduceat(counts, starts)
    edges = np.append(floors[first:][starts], floors[-1] * 2)
    there = np.flatnonzero(sums)
    low, high = int(there[0]), int(there[-1])
    return np.maximum(edges[low : high + 2], 1.0), sums[low : high + 1] / latency.count


def _symbols(part: Any, result: RunResult, palette: Palette, _: Any) -> None:
    left, right = part.subplots(1, 2, width_ratios=[1, 1])
    counts = np.sort(result.ticks_by_symbol[result.ticks_by_symbol > 0])[::-1]
    ranked = np.argsort(-result.ticks_by_symbol[: len(result.symbols)], kind="stable")[
        : min(SYMBOLS_SHOWN, len(counts))
    ]
    names = [result.symbols[i] for i in ranked.tolist()]
    ticks = result.ticks_by_symbol[ranked]
    bars = left.barh(range(len(ranked)), ticks, color=palette.one, height=0.7)
    left.bar_label(
        bars, [f"{100 * n / result.ticks:.1f}%" for n in ticks.tolist()], padding=3, fontsize=7, color=palette.quiet
    )
    left.set_yticks(range(len(ranked)), names)
    left.set_ylim(max(len(ranked), 8) - 0.4, -0.6)
    left.grid(visible=False)
    left.margins(x=0.12)
    left.xaxis.set_major_formatter(lambda n, _: count(n))
    left.set_title("Busiest symbols")
    left.set_xlabel("ticks, and their share")
    concentration(right, counts, palette)


def concentration(axis: Any, counts: npt.NDArray[Any], palette: Palette) -> None:
    """Draws the share of the ticks that the n busiest symbols have. ``counts``: ticks per symbol, falling."""
    axis.set_title("Concentration")
    axis.set_xlabel("busiest symbols")
    axis.set_ylabel("% of ticks")
    axis.set_ylim(0, 102)
    if len(counts):
        shares = 100 * np.cumsum(counts) / counts.sum()
        at = np.unique(np.geomspace(1, len(counts), 200).round().astype(np.int64))
        axis.plot(
            at, shares[at - 1], color=palette.one, linewidth=1.4, marker="o" if len(counts) < 10 else None, markersize=3
        )
        if len(counts) > 10:
            axis.set_xscale("log")
        else:
            axis.xaxis.set_major_locator(matplotlib("ticker").MaxNLocator(integer=True))
        axis.set_xlim(0.9, max(len(counts), 2) * 1.1)
        axis.xaxis.set_major_formatter(lambda n, _: f"{n:,.0f}")
        axis.xaxis.set_minor_formatter("")


def _prices(part: Any, result: RunResult, palette: Palette, symbols: Sequence[str] | None) -> None:
    info = result.info
    draw_prices(part, _watched(result, symbols), palette, size_unit=info.size_unit, clock=feed_clock(info))


def _watched(result: RunResult, symbols: Sequence[str] | None) -> Mapping[str, npt.NDArray[Any]]:
    watched = _timeline(result).symbols
    found = {name: series.rows for name, series in watched.items() if symbols is None or name in symbols}
    for name in symbols or ():
        if name not in found:
            raise ConfigurationError("symbols", f"{name!r} was not watched; name it in watch= of the replay")
    found = {name: rows for name, rows in found.items() if has_prices(rows)}
    if not found:
        raise ConfigurationError(
            "plot", "no prices were watched; give watch= symbols, and a handler whose rows have prices"
        )
    return found


def _bar_chart(part: Any, result: RunResult, palette: Palette, symbols: Sequence[str] | None) -> None:
    draw_bars(part, _emitted(result, symbols), palette, clock=feed_clock(result.info))


def _emitted(result: RunResult, symbols: Sequence[str] | None) -> Mapping[str, npt.NDArray[Any]]:
    found = bars_of(result, symbols)
    if not found:
        raise ConfigurationError(
            "plot", "no bars of these symbols; replay with a handler that emits records with open, high, low and close"
        )
    return found


_Height = Callable[["RunResult", Sequence[str] | None], float]

#: Kinds of figures: their height in inches, and what draws them.
KINDS: Final[Mapping[str, tuple[_Height, Callable[..., None]]]] = {
    "throughput": (lambda *_: 2.9, _throughput),
    "workers": (lambda result, _: 0.8 + 0.42 * min(len(result.statistics.workers), STRIPS), _workers),
    "latency": (lambda result, _: 0.75 + 0.75 * len(result.statistics.latencies), _latency),
    "symbols": (lambda *_: 2.9, _symbols),
    "bars": (lambda result, symbols: 0.3 + 1.9 * len(_emitted(result, symbols)), _bar_chart),
    "prices": (lambda result, symbols: 0.3 + 1.9 * len(_watched(result, symbols)), _prices),
}
