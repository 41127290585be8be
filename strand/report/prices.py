"""Top of book, last price and volume of watched symbols over the feed's time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from strand.report.canvas import matplotlib
from strand.report.natural import prices_of, sizes_of
from strand.report.palette import Palette
from strand.report.quantities import count

__all__ = ["draw_prices", "has_prices"]


def has_prices(rows: npt.NDArray[Any]) -> bool:
    """Whether there is anything to draw: a bid and an ask, a last price or a VWAP, at one moment at least."""
    return any(np.isfinite(values).any() for values in _prices(rows).values())


def draw_prices(
    part: Any, symbols: Mapping[str, npt.NDArray[Any]], palette: Palette, *, size_unit: float | None
) -> None:
    """A panel a symbol: prices above, the volume so far below, in units of the instrument."""
    dates = matplotlib("dates")
    axes = part.subplots(
        2 * len(symbols), 1, sharex=True, squeeze=False, height_ratios=[3, 1] * len(symbols)
    )[:, 0]  # fmt: skip
    for at, (name, rows) in enumerate(symbols.items()):
        above, below = axes[2 * at], axes[2 * at + 1]
        _draw(above, rows, palette)
        above.set_title(name)
        above.set_ylabel("price")
        _draw_volume(below, rows, palette, size_unit)
    axes[0].legend(
        loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=4, fontsize=7, labelcolor="linecolor", handlelength=1.2
    )
    axes[-1].set_xlim(*_priced_span(symbols.values()))
    locator = dates.AutoDateLocator()
    axes[-1].xaxis.set_major_locator(locator)
    axes[-1].xaxis.set_major_formatter(dates.ConciseDateFormatter(locator))
    axes[-1].set_xlabel("feed time, UTC")


def _priced_span(symbols: Iterable[npt.NDArray[Any]]) -> tuple[Any, Any]:
    """From the first moment at which a symbol has a price to the last of all."""
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
    for field in ("bid_price", "ask_price", "last_price", "vwap"):
        # A part of a chain may have the name, too.
        if field not in (rows.dtype.names or ()) or rows.dtype[field].names is not None:
            continue
        raw = rows[field]
        # A price of 0 is that of a row before its first tick.
        found[field] = np.where(raw == 0, np.nan, prices_of(raw))
    return found


def _draw(axis: Any, rows: npt.NDArray[Any], palette: Palette) -> None:
    times, prices = _times(rows), _prices(rows)
    bid, ask = prices.get("bid_price"), prices.get("ask_price")
    if bid is not None and ask is not None:
        axis.fill_between(times, bid, ask, step="post", color=palette.quiet, alpha=0.25, linewidth=0)
        axis.step(times, ask, where="post", color=palette.two, linewidth=1.1, label="ask")
        axis.step(times, bid, where="post", color=palette.one, linewidth=1.1, label="bid")
    elif "last_price" in prices:
        axis.step(times, prices["last_price"], where="post", color=palette.one, linewidth=1.1, label="last")
    if "vwap" in prices:
        axis.step(times, prices["vwap"], where="post", color=palette.three, linewidth=1.1, label="VWAP")
    low, high = _span([values for values in prices.values() if np.isfinite(values).any()])
    pad = 0.06 * (high - low) or 0.01 * high
    axis.set_ylim(low - pad, high + pad)
    axis.ticklabel_format(axis="y", useOffset=False, style="plain")


def _span(prices: list[npt.NDArray[np.float64]]) -> tuple[float, float]:
    """From low to high, without the stub quotes that stand far away while there is no market."""
    middle = np.nanmedian(np.concatenate(prices))
    near = [values[(values > middle / 2) & (values < middle * 2)] for values in prices]
    kept = np.concatenate([values for values in near if len(values)])
    return float(kept.min()), float(kept.max())


def _draw_volume(axis: Any, rows: npt.NDArray[Any], palette: Palette, size_unit: float | None) -> None:
    """All so far: what was traded from one moment to the next would look large where moments are far apart."""
    axis.set_ylabel("volume\nso far")
    if "volume" in (rows.dtype.names or ()) and size_unit is not None:
        times, volume = _times(rows), sizes_of(rows["volume"], size_unit)
        axis.fill_between(times, volume, step="post", color=palette.quiet, alpha=0.25, linewidth=0)
        axis.step(times, volume, where="post", color=palette.quiet, linewidth=0.9)
    axis.set_ylim(bottom=0)
    axis.yaxis.set_major_locator(matplotlib("ticker").MaxNLocator(2))
    axis.yaxis.set_major_formatter(lambda n, _: count(n))
