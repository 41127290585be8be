"""The market over the feed's time, drawn: bars, prices and volume of a few symbols.

Parquet, Arrow and CSV have natural units, npy exact integers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from strand.brief import several
from strand.errors import FeedError
from strand.lazy import imported
from strand.report.canvas import WIDTH, Palette, feed_time_axis, matplotlib
from strand.report.quantities import count, prices_of, sizes_of
from strand.zones import FeedClock

if TYPE_CHECKING:
    from strand.replaying.run_result import RunResult

#: Columns of a panel at most, where times are cut into equal steps.
MAX_STEPS: Final = 60
#: Steps that a reader can count with, in seconds.
_STEPS_S: Final = (1, 5, 10, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 43_200, 86_400)
#: Columns above the scale: ``_TALL``, or one of ``_ONE_OF`` columns. The highest is more than ``_TIMES`` as high as the
#: highest of the others.
_TALL: Final = 2
_ONE_OF: Final = 50
_TIMES: Final = 2.5
#: Tall columns whose volume is written beside them: the highest ones.
_LABELLED: Final = 4


def scale_top(volumes: npt.NDArray[np.float64]) -> float:
    """Top of the scale: the highest column, or less where a few columns stand far above all others. 0: no volume."""
    found = np.sort(volumes[volumes > 0])
    if not len(found):
        return 0.0
    tall = min(max(_TALL, len(found) // _ONE_OF), (len(found) - 1) // 2)
    others = float(found[len(found) - 1 - tall])
    return float(found[-1]) if found[-1] <= _TIMES * others else 1.25 * others


def draw_volume(axis: Any, x: npt.NDArray[Any], width: float, volumes: npt.NDArray[Any], palette: Palette) -> None:
    """Draws columns at ``x`` (days, shape (n,)), so many days wide. Columns above the scale reach its end, in another
    colour, with their volume beside them. A note above the scale names what it leaves out."""
    volumes = np.nan_to_num(volumes)
    top = scale_top(volumes)
    tall = volumes > top
    span = float(np.ptp(x)) + width if len(x) else width
    points = max(1.2, 0.7 * 66 * WIDTH * width / span)
    for chosen, colour in ((~tall, palette.quiet), (tall, palette.two)):
        axis.vlines(x[chosen], 0, np.minimum(volumes[chosen], top), color=colour, linewidth=points)
    axis.set_ylim(0, top or 1)
    axis.yaxis.set_major_locator(matplotlib("ticker").MaxNLocator(2))
    axis.yaxis.set_major_formatter(lambda n, _: count(n))
    if not (n := int(np.count_nonzero(tall))):
        return
    highest = sorted(np.argsort(-volumes, kind="stable")[: min(n, _LABELLED)].tolist())
    for at in highest:
        to, side = (points / 2 + 2, "left") if x[at] < (x[0] + x[-1]) / 2 else (-points / 2 - 2, "right")
        axis.annotate(
            f"{volumes[at]:,.15g}", (x[at], top), xytext=(to, 2), textcoords="offset points", va="top", ha=side,
            fontsize=7, color=palette.two,
        )  # fmt: skip
    said = "labelled" if n == len(highest) else f"the highest {len(highest)} labelled"
    said = f"{several(int(n), 'column')} above the scale, {said}"
    axis.set_title(said, loc="right", fontsize=7, fontweight="normal", color=palette.two, pad=4)


def step_ns(feed_ns: npt.NDArray[Any]) -> int:
    """A round step of time, in ns, for volume that is known at these moments, in order: the span has ``MAX_STEPS`` at
    most, and hardly any moment is further from the one before."""
    times = feed_ns.astype(np.int64)
    least = max(
        int(times[-1] - times[0]) / MAX_STEPS, float(np.quantile(np.diff(times), 0.95)) if len(times) > 1 else 0
    )
    seconds = next((s for s in _STEPS_S if least <= s * 10**9), None)
    day = _STEPS_S[-1] * 10**9
    return seconds * 10**9 if seconds is not None else day * -int(-least // day)


def volume_by_time(
    feed_ns: npt.NDArray[Any], so_far: npt.NDArray[np.float64], step: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Volume in steps of the feed's time: their starts in ns, shape (n,), and the volume of each.

    ``feed_ns``: moments, in order, ``so_far``: the volume traded by then; where it is less than before, it began anew.
    Volume traded since the moment before counts in the step of the later moment.
    """
    more = np.diff(so_far, prepend=0.0)
    more = np.where(more < 0, so_far, more)
    steps = feed_ns.astype(np.int64) // step
    volumes = np.zeros(int(steps[-1] - steps[0]) + 1)
    np.add.at(volumes, steps - steps[0], more)
    return np.arange(steps[0], steps[-1] + 1) * step, volumes


#: pyarrow's name of an ending's format; npy is numpy's own.
_FORMATS = {".parquet": "parquet", ".arrow": "ipc", ".feather": "ipc", ".csv": "csv"}


def columns_of(path: Path) -> frozenset[str]:
    """The names of a file's columns. Raises FeedError where it cannot be read."""
    try:
        if path.suffix.lower() == ".npy":
            return frozenset(np.load(path, mmap_mode="r", allow_pickle=False).dtype.names or ())
        return frozenset(_dataset(path).schema.names)
    except (OSError, ValueError) as error:
        raise FeedError(f"cannot be read again: {error}", path=path) from error


def written_records(path: Path, columns: Sequence[str], keys: Sequence[int]) -> npt.NDArray[Any]:
    """The records of the symbols with these ``instrument_id``, in the file's order: some columns, shape (n,).

    Raises FeedError where the file cannot be read.
    """
    try:
        stat = path.stat()
        return _read(path, stat.st_mtime_ns, stat.st_size, tuple(columns), tuple(keys))
    except (OSError, ValueError) as error:
        raise FeedError(f"cannot be read again: {error}", path=path) from error


# A figure asks for its height first, and a page for what there is to draw.
@lru_cache(maxsize=4)
def _read(path: Path, _mtime: int, _size: int, columns: tuple[str, ...], keys: tuple[int, ...]) -> npt.NDArray[Any]:
    if path.suffix.lower() == ".npy":
        records = np.load(path, mmap_mode="r", allow_pickle=False)
        chosen = np.flatnonzero(np.isin(records["instrument_id"], keys))
        found = {name: records[name][chosen] for name in columns}
    else:
        import pyarrow.compute

        wanted = pyarrow.compute.field("instrument_id").isin(list(keys))
        table = _dataset(path).to_table(columns=list(columns), filter=wanted)
        found = {name: _numbers(table.column(name).to_numpy()) for name in columns}
    out = np.empty(len(next(iter(found.values()))), [(name, values.dtype) for name, values in found.items()])
    for name, values in found.items():
        out[name] = values
    out.flags.writeable = False
    return out


def _numbers(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Times as i8 in ns."""
    return values.astype("<M8[ns]").view("<i8") if values.dtype.kind == "M" else values


def _dataset(path: Path) -> Any:
    datasets = imported("pyarrow.dataset", "parquet", f"reading {path.name}")
    return datasets.dataset(path, format=_FORMATS[path.suffix.lower()])


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
            f"{name}: {several(len(records), 'bar')}" + (f", {together} drawn as one" if together > 1 else "")
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
