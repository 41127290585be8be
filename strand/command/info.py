"""``strand info`` and ``strand handlers``: what files hold, and what handlers there are."""

from __future__ import annotations

import inspect
from typing import Any, Final

import click
import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from strand import feeds
from strand.binding.columns import count_by_symbol
from strand.command.parameters import SectionedCommand, complete_files, complete_handlers, progress, show
from strand.command.reading import Reads, reading
from strand.command.run_options import NAME, given_options
from strand.errors import FeedError, UnknownSymbolError
from strand.feeds import FeedInfo
from strand.feeds.merge.selected import empty_feed, skipped_of, unknown_symbol
from strand.handlers import BUILTIN, CompiledHandler
from strand.handlers.builtin.definition import Builtin
from strand.handlers.loading import Makes, configured, find, needs, options_of
from strand.report.closing import skipped_as_dict
from strand.report.tables import print_info
from strand.zones import zone_data

__all__ = ["handlers", "info"]


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


#: Text for options that are not given, if it is not empty.
UNSAID: Final = {"book": "by the feed", "fills": "by the feed"}


@click.command("handlers")
@click.argument("name", required=False, metavar=f"[{NAME}]", shell_complete=complete_handlers)
@click.option(
    "--set", "given", multiple=True, metavar="OPTION=VALUE", help="Show the handler with this option set. Repeatable."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def handlers(name: str | None, given: tuple[str, ...], as_json: bool) -> None:
    """List the built-in handlers, or show the options, the row and the outputs of one.

    `strand replay` and `strand listen` take the options as --set OPTION=VALUE.
    """
    options = given_options("--set", given)
    if name is None:
        if given:
            raise click.UsageError("--set: give the name of the handler too")
        found = {name: _summary(BUILTIN[name]) for name in sorted(BUILTIN)}
        show(as_json, found, lambda console: _print_all(console, found))
    else:
        plain = _describe(name, find(name), options)
        show(as_json, plain, lambda console: _print_one(console, plain))


def _text_of(like: Makes) -> str:
    """The documentation of what makes a handler, or of what the user wrote."""
    if isinstance(like, Builtin):
        return inspect.getdoc(like.make) or ""
    if inspect.isfunction(like):
        return inspect.getdoc(like) or ""
    return (inspect.getdoc(like.on_tick) or "") if isinstance(like, CompiledHandler) else ""


def _summary(like: Makes) -> str:
    """Summary of a handler: the first paragraph of its text, on one line."""
    return " ".join(_text_of(like).partition("\n\n")[0].split()).replace("``", "")


def _describe(name: str, like: Makes, given: dict[str, str]) -> dict[str, Any]:
    options, lacking = options_of(like), needs(like)
    # Its state may depend on options that have to be given.
    waits = not given and lacking and options.keys() >= set(lacking)
    made = None if waits else configured(like, given, name)
    return {
        "handler": name,
        "about": _summary(like),
        "options": {
            option.name: {"takes": option.kind.words, "default": option.default, "about": option.about}
            for option in options.values()
        },
        "row": None if made is None else _fields(made.state),
        "outputs": None if made is None else {output: _fields(dtype) for output, dtype in made.emitted},
    }


def _fields(dtype: np.dtype[Any]) -> list[str]:
    return list(dtype.names or ())


def _print_all(console: Console, found: dict[str, str]) -> None:
    table = Table(show_header=False, box=None)
    for name, about in found.items():
        table.add_row(f"[bold]{escape(name)}[/]", escape(about))
    console.print(table)
    console.print(
        "`strand handlers NAME` lists the options of a handler; set them with --set OPTION=VALUE", style="dim"
    )


def _print_one(console: Console, found: dict[str, Any]) -> None:
    console.print(f"[bold]{escape(found['handler'])}[/]  {escape(found['about'])}", highlight=False)
    if found["options"]:
        table = Table("option", "takes", "default", "", box=SIMPLE_HEAD)
        for name, option in found["options"].items():
            default = option["default"] or UNSAID.get(name, "")
            table.add_row(*map(escape, (name, option["takes"], default, option["about"])))
        console.print(table)
    else:
        console.print("It has no options.")
    for what, fields in (("row", found["row"]), *((f"output {n}", f) for n, f in (found["outputs"] or {}).items())):
        if fields:
            console.print(f"{escape(what)}: {escape(', '.join(fields))}", highlight=False)
