"""What the command shows of a replay or a file, for people and for programs, and rows written to a file."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from strand.errors import ConfigurationError
from strand.feeds.io.atomic_write import atomic_write
from strand.feeds.skipped import Skipped
from strand.output.tables import FORMULA_STARTS, Column
from strand.run_result import RunResult

__all__ = [
    "UNDATED",
    "as_dict",
    "check_rows_path",
    "print_info",
    "print_replay",
    "rows_with_names",
    "skipped_as_dict",
    "write_rows",
]

ENDINGS = (".npy", ".csv", ".csv.gz")
#: Said of what comes of a feed that is ``FeedInfo.undated``.
UNDATED: Final = "the date is not known, so times count from 1970-01-01; give --date"


def as_dict(result: RunResult) -> dict[str, Any]:
    """The closing report as plain values."""
    return {
        "warnings": [warning.as_dict() for warning in result.warnings],
        "path": result.info.path,
        "format": result.info.format,
        "undated": result.info.undated,
        "ticks": result.ticks,
        "wall_s": result.wall_s,
        "ticks_per_s": result.ticks_per_s,
        "limited_by": result.limited_by,
        "setup_s": result.setup_s,
        "feed_s": result.feed_s,
        "input_wait_s": result.input_wait_s,
        "workers": result.workers,
        "strands": result.n_strands,
        "symbols": int(np.count_nonzero(result.ticks_by_symbol)),
        "busy_share": result.busy_share,
        "failures": list(result.failures),
        "outputs": {name: {"records": len(array), "path": None} for name, array in result.outputs.items()}
        | {name: {"records": records, "path": str(path)} for name, (path, records) in result.written.items()},
        "statistics": result.statistics.as_dict(),
        "feed": dict(result.feed_statistics),
        "skipped": skipped_as_dict(result.skipped),
        "pacing": None if result.pacing is None else result.pacing.as_dict(),
        "fingerprint": result.fingerprint,
        "intervals": [{"ticks": at.ticks, "fingerprint": at.fingerprint, "input": at.input} for at in result.intervals],
        "days": [
            {"start_ns": day.start_ns, "end_ns": day.end_ns, "ticks": day.ticks, "symbols": len(day.symbols)}
            | {"fingerprint": day.fingerprint}
            for day in result.days
        ],
    }


def skipped_as_dict(skipped: Skipped) -> dict[str, Any]:
    """What a feed passed over: counts by reason, and samples."""
    return {"counts": dict(skipped.counts), "samples": [asdict(sample) for sample in skipped.samples]}


_PLACES: Final = (("byte", "offset"), ("line", "line"))


def print_skipped(console: Console, found: dict[str, Any]) -> None:
    """What ``skipped_as_dict`` has, where it has anything."""
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
        f"[bold]{escape(result.info.path)}[/] ({result.info.format}): [bold]{result.ticks:,}[/] ticks of "
        f"{np.count_nonzero(result.ticks_by_symbol):,} symbols in {result.wall_s:.3f} s, "
        f"[bold]{result.ticks_per_s / 1e6:,.2f} M ticks/s[/]"
    )
    console.print(
        f"limited by: {result.limited_by} (set-up took {result.setup_s / result.wall_s:.0%} of the time, getting ticks "
        f"{result.feed_s / result.wall_s:.0%}"
        + (f", waiting for inflate {result.input_wait_s / result.wall_s:.0%}" if result.input_wait_s else "")
        + f"); {result.n_strands:,} strands, {s.handled_inline / max(s.handled, 1):.0%} of ticks handled where they lay"
    )
    if result.info.undated:
        console.print(f"[yellow]{UNDATED}[/]")
    if s.unpinned is not None:
        console.print(f"[yellow]{escape(s.unpinned)}[/]")
    _print_tables(console, result)
    if (pacing := result.pacing) is not None:
        late = pacing.lateness
        console.print(
            f"pace: speed {pacing.speed:g}; late by p50 {duration(late.percentiles[50.0])}, "
            f"p99 {duration(late.percentiles[99.0])}, at most {duration(late.maximum_ns)}; "
            f"{pacing.late:,} of {late.count:,} ticks more than {duration(pacing.late_after_ns)}"
        )
    dropped = {reason: n for reason, n in s.dropped.items() if n}
    console.print("dropped: " + (", ".join(f"{n:,} {reason}" for reason, n in dropped.items()) or "nothing"))
    print_skipped(console, skipped_as_dict(result.skipped))
    for failure in result.failures:
        console.print(f"[red]quarantined:[/] {escape(failure)}")
    _print_parts(console, result)
    console.print(f"fingerprint: [bold]{result.fingerprint}[/]", highlight=False)
    if out is not None:
        console.print(f"rows written to {escape(str(out))}")
    for name, (path, records) in result.written.items():
        console.print(f"{name}: {records:,} records written to {escape(str(path))}")
    for name, array in result.outputs.items():
        console.print(f"{name}: {len(array):,} records, not written (--out {name}=FILE)")


def _print_tables(console: Console, result: RunResult) -> None:
    """What each worker did, and the latencies."""
    s = result.statistics
    table = Table("worker", "core", "ticks", "busy", "visits", "steals", "parks", title=f"imbalance {s.imbalance:.2f}")
    for column in table.columns[1:]:
        column.justify = "right"
    for w in s.workers:
        busy = f"{w.busy_ns / (result.wall_s * 1e9):.0%}"
        core = "" if w.core is None else str(w.core)
        table.add_row(w.name, core, f"{w.handled:,}", busy, f"{w.visits:,}", f"{w.stolen:,}", f"{w.parks:,}")
    console.print(table)
    table = Table("latency", "p50", "p90", "p99", "p99.9", "max")
    for column in table.columns[1:]:
        column.justify = "right"
    for name, latency in (("wait", s.wait), ("handler", s.handler), ("end to end", s.end_to_end)):
        table.add_row(name, *(duration(ns) for ns in latency.percentiles.values()), duration(latency.maximum_ns))
    console.print(table)


def _print_parts(console: Console, result: RunResult) -> None:
    """The fingerprints of days, and of what was handled up to each interval."""
    for number, day in enumerate(result.days, 1):
        begun = datetime.fromtimestamp(day.start_ns / 1e9, UTC)
        console.print(
            f"day {number}, from {begun:%Y-%m-%d %H:%M:%S} UTC: {day.ticks:,} ticks of {len(day.symbols):,} symbols, "
            f"fingerprint {day.fingerprint}",
            highlight=False,
        )
    for at in result.intervals:
        console.print(
            f"at {at.ticks:,} ticks: fingerprint {at.fingerprint}, of the input {at.input}",
            highlight=False,
            soft_wrap=True,
        )


def print_info(console: Console, found: dict[str, Any]) -> None:
    """What ``strand info`` found."""
    table = Table(show_header=False, box=None)
    table.add_column()
    table.add_column(overflow="fold")
    span, date = "none", found["date"] or "not known"
    if found["first_ns"] is not None:
        first, last = (datetime.fromtimestamp(found[k] / 1e9, UTC) for k in ("first_ns", "last_ns"))
        day = "" if last.date() == first.date() else "%Y-%m-%d "
        if found["undated"]:
            date += "; give --date"
        span = (
            f"{first:%Y-%m-%d %H:%M:%S.%f} to {last:{day}%H:%M:%S.%f} UTC "
            f"({duration(found['last_ns'] - found['first_ns'])})"
        )
    rows = {
        "file": found["path"],
        "format": found["format"],
        "date": date,
        "ticks": f"{found['ticks']:,}",
        "symbols": f"{found['symbols']:,}, {found['symbols_with_ticks']:,} of them with ticks",
        "span": span,
        "skew": ", ".join(f"{k.replace('_', ' ')} {v:.1%}" for k, v in found["share_of_ticks"].items()),
        "busiest": ", ".join(f"{t['symbol']} {t['ticks']:,}" for t in found["busiest"][:5]),
    }
    for name, value in {**rows, **{k: v for k, v in found["statistics"].items() if v}}.items():
        table.add_row(name, f"{value:,}" if isinstance(value, int) else escape(str(value)))
    console.print(table)
    print_skipped(console, found["skipped"])


def duration(ns: float) -> str:
    """A time span, three digits and a unit."""
    for unit, size in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if ns >= size:
            return f"{ns / size:,.3g} {unit}" if ns < 1000 * size else f"{ns / size:,.0f} {unit}"
    return f"{ns:.3g} ns"


# ---- rows to a file


def check_rows_path(path: Path) -> None:
    """Raises ConfigurationError, before anything has run, when rows cannot be written there."""
    if not path.name.endswith(ENDINGS):
        raise ConfigurationError(f"out: {path.name!r} must end in one of {', '.join(ENDINGS)}")
    if not path.parent.is_dir():
        raise ConfigurationError(f"out: there is no folder {path.parent}")


def rows_with_names(result: RunResult) -> npt.NDArray[Any]:
    """The rows of symbols that had ticks, with their names in front: fields ``symbol``, then the row's own. Of a run
    per day those of each day, with its number from 1 as ``day`` before all."""
    if result.days:
        tables = [_named(day.rows.array, day.symbols, number) for number, day in enumerate(result.days, 1)]
        widest = max((table.dtype for table in tables), key=lambda dtype: dtype.itemsize)
        return np.concatenate([table.astype(widest) for table in tables])
    at = np.flatnonzero(result.ticks_by_symbol)
    return _named(result.rows.array[at], [result.symbols[i] for i in at.tolist()])


def _named(rows: npt.NDArray[Any], names: Sequence[str], day: int | None = None) -> npt.NDArray[Any]:
    width = max((len(n) for n in names), default=1)
    of_day = [] if day is None else [("day", "<i8")]
    fields = [*of_day, ("symbol", f"U{width}"), *((n, rows.dtype[n]) for n in rows.dtype.names or ())]
    out = np.zeros(len(rows), np.dtype(fields))
    if day is not None:
        out["day"] = day
    out["symbol"] = names
    for name in rows.dtype.names or ():
        out[name] = rows[name]
    return out


def _shown(result: RunResult) -> dict[str, Column]:
    """The same as ``rows_with_names``, in natural units, by column; a field of several values gives ``bid_sizes_1`` and
    so on."""
    if result.days:
        tables = [day.rows.table(symbols=np.arange(len(day.symbols))) for day in result.days]
        number = np.repeat(np.arange(1, len(tables) + 1), [len(table["symbol"]) for table in tables])
        joined: Any = np.ma.concatenate  # which numpy does not type
        columns = {name: joined([table[name] for table in tables]) for name in tables[0]}
        columns = {"day": number, **columns}
    else:
        columns = result.rows.table(symbols=np.flatnonzero(result.ticks_by_symbol))
    found: dict[str, Column] = {}
    for name, column in columns.items():
        if column.ndim == 1:
            found[name] = column
        else:
            several = column.reshape(len(column), -1)
            found |= {f"{name}_{at + 1}": several[:, at] for at in range(several.shape[1])}
    return found


def _cells(column: Column, *, escape_formulas: bool) -> list[Any]:
    """Values for CSV: None, an empty cell, where one is undefined; times in UTC as ISO 8601 writes them."""
    if column.dtype.kind != "M":
        found: list[Any] = column.tolist()
        if not escape_formulas or column.dtype.kind in "iufb":
            return found
        return [
            f"'{cell}" if isinstance(cell, str) and cell.startswith(tuple(FORMULA_STARTS)) else cell for cell in found
        ]
    return [None if np.isnat(at) else f"{at}Z" for at in np.asarray(column)]


def write_rows(path: Path, result: RunResult, *, escape_formulas: bool = False) -> None:
    """Writes the rows: exact integers as ``.npy``, natural units as CSV, with an empty cell for what is undefined.

    ``escape_formulas``: of CSV, as ``Dispatcher`` has it. The file appears under its name only when it is whole. Raises
    ConfigurationError for sizes whose unit nobody knows.
    """
    with atomic_write(path) as file:
        if path.name.endswith(".npy"):
            np.save(file, rows_with_names(result), allow_pickle=False)
            return
        text = io.TextIOWrapper(file, encoding="utf-8", newline="")
        writer = csv.writer(text, lineterminator="\n")
        columns = _shown(result)
        writer.writerow(columns)
        cells = [_cells(column, escape_formulas=escape_formulas) for column in columns.values()]
        writer.writerows(zip(*cells, strict=True))
        text.flush()
        text.detach()
