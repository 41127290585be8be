"""The command ``strand``: replay, info, gen, bench, demo."""

from __future__ import annotations

import functools
from importlib.metadata import version
from typing import Any

import click
import numpy as np

from strand import feeds, report
from strand.bench.cli import bench
from strand.binding.tally import tally
from strand.commands.convert import convert
from strand.commands.diff import diff
from strand.commands.ending import run_to_its_end
from strand.commands.fingerprints import fingerprinting
from strand.commands.gen import gen
from strand.commands.handlers import handlers
from strand.commands.handling import handling
from strand.commands.include import include
from strand.commands.listen import listen
from strand.commands.paging import Paging, paged
from strand.commands.parameters import CoreList, StrandCount
from strand.commands.parameters import progress as _progress
from strand.commands.parameters import show as _show
from strand.commands.reading import Reads, reading
from strand.commands.serve import serve
from strand.commands.writing import Writes, writing
from strand.demo import run_demo
from strand.errors import FeedError, StrictError, UnknownSymbolError
from strand.feeds import FeedInfo
from strand.feeds.merge.selected import empty_feed, skipped_of, unknown_symbol
from strand.feeds.write.destinations import check_outputs, output_paths
from strand.handlers import Handler
from strand.replay import ReplayResult
from strand.replay import replay as run_replay

__all__ = ["cli", "main"]


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(version("strand"), prog_name="strand")
def cli() -> None:
    """Market-data ticks through per-symbol handlers on all cores, in order."""


cli.add_command(bench)
cli.add_command(convert)
cli.add_command(diff)
cli.add_command(gen)
cli.add_command(handlers)
cli.add_command(include)
cli.add_command(listen)
cli.add_command(serve)


@cli.command("replay")
@click.argument("files", nargs=-1, required=True)
@handling
@click.option(
    "--workers",
    type=click.IntRange(0, 1024),
    help="Threads that drain; 0: a plain loop without queues. [default: one fewer than the cores]",
)
@click.option("--cores", type=CoreList(), help="Cores to pin the workers to, like 1,2-5. [default: the last ones]")
@click.option("--strands", default="auto", type=StrandCount(), show_default=True, help="Which symbols share a strand.")
@reading
@fingerprinting
@click.option(
    "--on-error",
    type=click.Choice(["stop", "quarantine", "skip"]),
    multiple=True,
    help="What a failing handler does: stop (the default) or quarantine; skip: the same as --on-bad-record skip.",
)
@click.option(
    "--idle",
    type=click.Choice(["spin", "backoff", "park"]),
    default="backoff",
    show_default=True,
    help="What a worker without work does.",
)
@click.option(
    "--speed",
    type=click.FloatRange(0),
    default=0.0,
    show_default=True,
    help="1 as recorded, 10 ten times as fast, 0 as fast as it goes.",
)
@click.option("--per-day", is_flag=True, help="Let rows begin anew with each day, and report each day's.")
@click.option("--strict", is_flag=True, help="Warnings of the run are an error, and exit status 2.")
@writing
@paged
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of tables.")
def replay_command(
    files: tuple[str, ...], handler: Handler, workers: int | None, cores: list[int] | None, strands: Any,
    reads: Reads, on_error: tuple[str, ...], idle: str, speed: float, writes: Writes, paging: Paging, as_json: bool,
    recording: dict[str, Any], per_day: bool, strict: bool,
) -> None:  # fmt: skip
    """Replay recorded files through a handler on all cores, and report how it went.

    FILES: files, folders, globs, or - for standard input.
    """
    out = writes.rows
    check_outputs(
        output_paths(writes.outputs, recording["fingerprints"], rows=out, page=paging.path),
        files,
        symbols=reads.symbols,
        options=reads.options,
    )
    try:
        with _progress("replaying", reads.limit, as_json, functools.partial(writes.check, handler)) as advance:
            result = run_replay(
                files if len(files) > 1 else files[0],
                handler,
                symbols=reads.symbols,
                start=reads.start,
                end=reads.end,
                limit=reads.limit,
                allow_empty=reads.allow_empty,
                feed_options=reads.options | ({"on_error": "skip"} if "skip" in on_error else {}),
                progress=advance,
                workers=workers,
                cores="auto" if cores is None else cores,
                strands=strands,
                on_error=next((action for action in on_error if action != "skip"), "stop"),
                idle=idle,
                speed=speed,
                **recording,
                out=writes.outputs,
                escape_formulas=writes.escape_formulas,
                watch=paging.watch,
                per_day=per_day,
                strict=strict,
            )
    except KeyboardInterrupt as interrupt:
        # What was handled before it is reported, where the replay got so far as to say.
        stopped: ReplayResult | None = getattr(interrupt, "partial", None)
        if stopped is not None:
            shown = stopped
            paging.write(stopped, "interrupted")
            plain = report.as_dict(shown) | {"error": "interrupted"}
            _show(as_json, plain, lambda console: report.print_replay(console, shown, None))
        raise
    except (FeedError, StrictError, UnknownSymbolError) as error:
        # What was handled before the fault is reported; only then is the fault, by main.
        if error.partial is not None:
            partial = error.partial
            paging.write(partial, "" if isinstance(error, StrictError) else str(error))
            plain = report.as_dict(partial) | {"error": str(error)}
            _show(as_json, plain, lambda console: report.print_replay(console, partial, None))
        raise
    if out is not None:
        report.write_rows(out, result, escape_formulas=writes.escape_formulas)
    paging.write(result)
    _show(as_json, report.as_dict(result), lambda console: report.print_replay(console, result, out))


@cli.command("info")
@click.argument("files", nargs=-1, required=True)
@reading
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of a table.")
def info_command(files: tuple[str, ...], reads: Reads, as_json: bool) -> None:
    """What files hold: format, messages, symbols, span of time, skew. Reads them to their end."""
    feed = feeds.open(
        files if len(files) > 1 else files[0],
        symbols=reads.symbols or (),
        start=reads.start,
        end=reads.end,
        **reads.options,
    )
    limit = reads.limit
    try:
        counts = np.zeros(feed.capacity, dtype=np.int64)
        total, first_ns, last_ns = 0, None, None
        fault: FeedError | UnknownSymbolError | None = None
        with _progress("reading", reads.limit, as_json) as advance:
            advance.opened(feed)
            try:
                for batch in feed.batches():
                    if limit is not None:
                        batch = batch[: limit - total]
                    tally(batch, counts)
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
        found = _info(feed.info, list(feed.symbols), counts, first_ns, last_ns, dict(feed.statistics()))
        found["skipped"] = report.skipped_as_dict(skipped_of(feed))
    finally:
        feed.close()
    if fault is not None:
        found["error"] = str(fault)
    _show(as_json, found, lambda console: report.print_info(console, found))
    if fault is not None:
        raise fault


def _info(
    info: FeedInfo, names: list[str], counts: Any, first_ns: int | None, last_ns: int | None, statistics: dict[str, int]
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
        "path": info.path,
        "format": info.format,
        "date": info.date,
        "undated": info.undated,
        "size_unit": info.size_unit,
        "ticks": total,
        "symbols": sum(1 for name in names if name),
        "symbols_with_ticks": active,
        "first_ns": first_ns,
        "last_ns": last_ns,
        "share_of_ticks": shares,
        "busiest": top,
        "details": info.details,
        "statistics": statistics,
    }


@cli.command("demo")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def demo_command(as_json: bool) -> None:
    """Replay the sample that ships with strand, and compare with static routing."""
    run_demo(as_json)


def main() -> None:
    """The command as a process of its own; ``strand.commands.ending`` says how it ends."""
    run_to_its_end(lambda: cli.main(standalone_mode=False))
