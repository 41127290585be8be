"""``strand info``: what files hold."""

from __future__ import annotations

from typing import Any

import click
import numpy as np

from strand import feeds
from strand.binding.tick_counts import count_by_symbol
from strand.command.completing import complete_files
from strand.command.parameters import progress, show
from strand.command.reading import Reads, reading
from strand.command.sections import SectionedCommand
from strand.errors import FeedError, UnknownSymbolError
from strand.feeds import FeedInfo
from strand.feeds.merge.selected import empty_feed, skipped_of, unknown_symbol
from strand.report.tables import print_info
from strand.report.to_json import skipped_as_dict
from strand.zones import zone_data

__all__ = ["info"]


@click.command("info", cls=SectionedCommand)
@click.argument("files", nargs=-1, required=True, shell_complete=complete_files)
@reading
@click.option("-v", "--verbose", is_flag=True, help="Show all counters of the feed, including those of reading.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of a table.")
def info(files: tuple[str, ...], reads: Reads, verbose: bool, as_json: bool) -> None:
    """Show what files contain: format, messages, symbols, time span, busiest symbols. Reads the files to their end."""
    feed = feeds.open(
        files if len(files) > 1 else files[0],
        symbols=reads.symbols or (),
        start=reads.start,
        end=reads.end,
        **reads.options,
    )
    limit = reads.limit
    try:
        counts = np.zeros(feed.max_symbols, dtype=np.int64)
        total, first_ns, last_ns = 0, None, None
        fault: FeedError | UnknownSymbolError | None = None
        with progress("reading", reads.limit, as_json) as advance:
            advance.opened(feed)
            try:
                for batch in feed.batches():
                    if limit is not None:
                        batch = batch[: limit - total]
                    count_by_symbol(batch, counts)
                    times = batch["ts_recv"]
                    first_ns = int(times.min()) if first_ns is None else min(first_ns, int(times.min()))
                    last_ns = int(times.max()) if last_ns is None else max(last_ns, int(times.max()))
                    total += len(batch)
                    advance(total)
                    if total == limit:
                        break
                else:
                    fault = unknown_symbol(feed, feeds.read_symbols(reads.symbols or ()))
                    if fault is None and total == 0 and not reads.allow_empty:
                        fault = empty_feed(feed, selected=bool(reads.symbols or reads.start or reads.end))
            except FeedError as error:
                fault = error
        found = _found(feed.info, list(feed.symbols), counts, first_ns, last_ns, dict(feed.statistics()))
        found["skipped"] = skipped_as_dict(skipped_of(feed))
    finally:
        feed.close()
    if fault is not None:
        found["error"] = str(fault)
    show(as_json, found, lambda console: print_info(console, found, verbose=verbose))
    if fault is not None:
        raise fault


def _found(
    told: FeedInfo, names: list[str], counts: Any, first_ns: int | None, last_ns: int | None, statistics: dict[str, int]
) -> dict[str, Any]:
    ranked = np.argsort(-counts, kind="stable")
    total = int(counts.sum())
    active = int(np.count_nonzero(counts))
    top = [
        {"symbol": names[i] if i < len(names) and names[i] else f"#{i}", "ticks": int(counts[i])}
        for i in ranked[: min(10, active)].tolist()
    ]
    shares = {f"top_{n}": float(counts[ranked[:n]].sum() / total) if total else 0.0 for n in (1, 10, 100, 500)}
    return {
        "path": told.path,
        "format": told.format,
        "date": told.date,
        "undated": told.undated,
        "zone": told.zone,
        "time_zones": f"IANA {zone_data()}",
        "size_unit": told.size_unit,
        "ticks": total,
        "symbols": sum(1 for name in names if name),
        "symbols_with_ticks": active,
        "first_ns": first_ns,
        "last_ns": last_ns,
        "share_of_ticks": shares,
        "busiest": top,
        "details": told.details,
        "statistics": statistics,
    }
