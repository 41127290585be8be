"""Bars that handlers emitted, drawn: open, high, low, close, and the volume of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from strand.report.canvas import matplotlib
from strand.report.feed_time import FeedClock, feed_time_axis
from strand.report.natural import prices_of, sizes_of
from strand.report.palette import Palette
from strand.report.volumes import draw_volume
from strand.report.written import columns_of, written_records

if TYPE_CHECKING:
    from strand.replaying.run_result import RunResult

__all__ = ["bars_of", "draw_bars"]

#: Symbols drawn where none are named.
BUSIEST: Final = 4
#: Bars drawn of a symbol; of more, runs of neighbours are drawn as one.
MAX_BARS: Final = 300
_PRICES: Final = ("open", "high", "low", "close")
_NEEDED: Final = frozenset((*_PRICES, "ts", "instrument_id"))


def bars_of(result: RunResult, symbols: Sequence[str] | None) -> dict[str, npt.NDArray[Any]]:
    """Bars by symbol, in natural units: of the first output whose records have open, high, low and close, collected or
    in a file; the busiest symbols, or those named that have any. Empty where nothing emitted bars. Raises FeedError
    where their file cannot be read any more."""
    index_of = {name: i for i, name in enumerate(result.symbols) if name}
    if symbols is None:
        ranked = np.argsort(-result.ticks_by_symbol[: len(result.symbols)], kind="stable")[:BUSIEST].tolist()
        symbols = [result.symbols[i] for i in ranked]
    keys = {name: index_of[name] for name in symbols if name in index_of}
    records = _records(result, list(keys.values()))
    if records is None:
        return {}
    bars = _natural(records, result.info.size_unit)
    # An undefined price is NaN, and nothing is at or above it.
    priced = bars[bars["high"] >= bars["low"]]
    found = {name: priced[priced["instrument_id"] == key] for name, key in keys.items()}
    return {name: bars for name, bars in found.items() if len(bars)}


def _natural(records: npt.NDArray[Any], size_unit: float | None) -> npt.NDArray[Any]:
    """Prices in units of currency, ``volume`` in units of the instrument: NaN where there is none, or no unit."""
    bars = np.empty(len(records), [("ts", "i8"), ("instrument_id", "u4"), *((n, "f8") for n in (*_PRICES, "volume"))])
    bars["ts"], bars["instrument_id"] = records["ts"], records["instrument_id"]
    for name in _PRICES:
        bars[name] = prices_of(records[name])
    bars["volume"] = sizes_of(records["volume"], size_unit) if "volume" in (records.dtype.names or ()) else np.nan
    return bars


def _records(result: RunResult, keys: Sequence[int]) -> npt.NDArray[Any] | None:
    """The bars there are, at least those of some symbols."""
    for records in result.outputs.values():
        if set(records.dtype.names or ()) >= _NEEDED:
            return np.asarray(records)
    for path, _ in result.written.values():
        there = columns_of(path)
        if there >= _NEEDED:
            return written_records(path, [name for name in (*_NEEDED, "volume") if name in there], keys)
    return None


def draw_bars(part: Any, symbols: Mapping[str, npt.NDArray[Any]], palette: Palette, *, clock: FeedClock) -> None:
    """A panel a symbol: a line from low to high with the open to its left and the close to its right, blue where it
    closed no lower than it opened; volume below."""
    dates = matplotlib("dates")
    axes = part.subplots(2 * len(symbols), 1, sharex=True, squeeze=False, height_ratios=[3, 1] * len(symbols))[:, 0]
    for at, (name, records) in enumerate(symbols.items()):
        above, below = axes[2 * at], axes[2 * at + 1]
        bars, together = thinned(records)
        above.set_title(
            f"{name}: {len(records):,} bar{'s' if len(records) > 1 else ''}"
            + (f", {together} drawn as one" if together > 1 else "")
        )
        above.set_ylabel("price")
        below.set_ylabel("volume")
        times = dates.date2num(bars["ts"].astype("datetime64[ns]"))
        width = np.median(np.diff(times)) if len(times) > 1 else 1 / 1440
        up = bars["close"] >= bars["open"]
        for chosen, colour in ((up, palette.one), (~up, palette.two)):
            x, bar = times[chosen], bars[chosen]
            above.vlines(x, bar["low"], bar["high"], color=colour, linewidth=0.9)
            above.hlines(bar["open"], x - 0.35 * width, x, color=colour, linewidth=0.9)
            above.hlines(bar["close"], x, x + 0.35 * width, color=colour, linewidth=0.9)
        above.ticklabel_format(axis="y", useOffset=False, style="plain")
        draw_volume(below, times, width, bars["volume"], palette)
    feed_time_axis(axes[-1], clock, "feed time at which each bar was known")


def thinned(records: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], int]:
    """``MAX_BARS`` bars at most, and how many of the records make one of them."""
    together = -(-len(records) // MAX_BARS)
    starts = np.arange(0, len(records), together)
    ends = np.append(starts[1:], len(records)) - 1
    bars = np.empty(len(starts), records.dtype)
    bars["ts"], bars["instrument_id"] = records["ts"][ends], records["instrument_id"][ends]
    bars["open"], bars["close"] = records["open"][starts], records["close"][ends]
    bars["high"] = np.maximum.reduceat(records["high"], starts)
    bars["low"] = np.minimum.reduceat(records["low"], starts)
    bars["volume"] = np.add.reduceat(records["volume"], starts)
    return bars, together
