"""Top of book, last price and volume of watched symbols over the feed's time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from strand.report.canvas import matplotlib
from strand.report.feed_time import FeedClock, feed_time_axis
from strand.report.natural import prices_of, sizes_of
from strand.report.palette import Palette
from strand.report.volumes import draw_volume, step_ns, volume_by_time

__all__ = ["draw_prices", "has_prices"]

#: Lines to draw, and their possible fields, the first that exists: books and tapes name theirs differently.
_DRAWN: Final = {
    "bid": ("bid_price", "bid"),
    "ask": ("ask_price", "ask"),
    "last": ("last_price",),
    "vwap": ("vwap",),
}


def has_prices(rows: npt.NDArray[Any]) -> bool:
    """Tells whether the rows have anything to draw: a bid and an ask, a last price or a VWAP, at any moment."""
    return any(np.isfinite(values).any() for values in _prices(rows).values())


def draw_prices(
    part: Any,
    symbols: Mapping[str, npt.NDArray[Any]],
    palette: Palette,
    *,
    size_unit: float | None,
    clock: FeedClock,
) -> None:
    """A panel a symbol: prices above, the volume below, in units of the instrument. Times are shown by ``clock``."""
    axes = part.subplots(
        2 * len(symbols), 1, sharex=True, squeeze=False, height_ratios=[3, 1] * len(symbols)
    )[:, 0]  # fmt: skip
    columns: list[np.datetime64] = []
    for at, (name, rows) in enumerate(symbols.items()):
        above, below = axes[2 * at], axes[2 * at + 1]
        _draw(above, rows, palette)
        above.set_title(name)
        above.set_ylabel("price")
        columns += _draw_volume(below, rows, palette, size_unit)
    axes[0].legend(
        loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=4, fontsize=7, labelcolor="linecolor", handlelength=1.2
    )
    low, high = _priced_span(symbols.values())
    axes[-1].set_xlim(min([low, *columns]), max([high, *columns]))
    feed_time_axis(axes[-1], clock, "feed time")


def _priced_span(symbols: Iterable[npt.NDArray[Any]]) -> tuple[Any, Any]:
    """Span from the first moment at which a symbol has a price to the last of all."""
    first, last = [], []
    for rows in symbols:
        priced = np.logical_or.reduce([np.isfinite(values) for values in _prices(rows).values()])
        times = _times(rows)
        first.append(times[np.argmax(priced)])
        last.append(times[-1])
    low, high = min(first), max(last)
    return low, max(high, low + np.timedelta64(1, "s"))


def _times(rows: npt.NDArray[Any]) -> npt.NDArray[np.datetime64]:
    return rows["feed_ns"].astype("datetime64[ns]")


def _prices(rows: npt.NDArray[Any]) -> dict[str, npt.NDArray[np.float64]]:
    """Prices in units of the currency, NaN where there is none."""
    found: dict[str, npt.NDArray[np.float64]] = {}
    names = rows.dtype.names or ()
    for drawn, fields in _DRAWN.items():
        # A part of a chain may have the name, too.
        raw = next((rows[field] for field in fields if field in names and rows.dtype[field].names is None), None)
        if raw is not None:
            # A price of 0 is that of a row before its first tick.
            found[drawn] = np.where(raw == 0, np.nan, prices_of(raw))
    return found


def _draw(axis: Any, rows: npt.NDArray[Any], palette: Palette) -> None:
    times, prices = _times(rows), _prices(rows)
    bid, ask = prices.get("bid"), prices.get("ask")
    if bid is not None and ask is not None:
        axis.fill_between(times, bid, ask, step="post", color=palette.quiet, alpha=0.25, linewidth=0)
        axis.step(times, ask, where="post", color=palette.two, linewidth=1.1, label="ask")
        axis.step(times, bid, where="post", color=palette.one, linewidth=1.1, label="bid")
    elif "last" in prices:
        axis.step(times, prices["last"], where="post", color=palette.one, linewidth=1.1, label="last")
    if "vwap" in prices:
        axis.step(times, prices["vwap"], where="post", color=palette.three, linewidth=1.1, label="VWAP")
    low, high = _span([values for values in prices.values() if np.isfinite(values).any()])
    pad = 0.06 * (high - low) or 0.01 * high
    axis.set_ylim(low - pad, high + pad)
    axis.ticklabel_format(axis="y", useOffset=False, style="plain")


def _span(prices: list[npt.NDArray[np.float64]]) -> tuple[float, float]:
    """Lowest and highest price, without the stub quotes that stand far away while there is no market."""
    middle = np.nanmedian(np.concatenate(prices))
    near = [values[(values > middle / 2) & (values < middle * 2)] for values in prices]
    kept = np.concatenate([values for values in near if len(values)])
    return float(kept.min()), float(kept.max())


def _draw_volume(axis: Any, rows: npt.NDArray[Any], palette: Palette, size_unit: float | None) -> list[np.datetime64]:
    """Draws volume in equal steps of time: the volume between two moments would look large where moments are far apart.
    Returns the first and last time of the columns; empty: there are none."""
    step = step_ns(rows["feed_ns"])
    axis.set_ylabel(f"volume in\n{_span_text(step)}")
    if "volume" not in (rows.dtype.names or ()) or size_unit is None:
        axis.set_yticks([])
        return []
    starts, volumes = volume_by_time(rows["feed_ns"], sizes_of(rows["volume"], size_unit), step)
    middles = matplotlib("dates").date2num((starts + step // 2).astype("datetime64[ns]"))
    draw_volume(axis, middles, step / 86_400e9, volumes, palette)
    there = starts[volumes > 0]
    return [np.datetime64(int(ns), "ns") for ns in (there[0], there[-1] + step)] if len(there) else []


def _span_text(ns: int) -> str:
    """A round number of seconds, as people say it."""
    seconds = ns // 10**9
    for unit, size in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds % size == 0:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"
