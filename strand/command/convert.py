"""``strand convert``: files from one format to another."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from rich.console import Console

from strand.command.completing import complete_files
from strand.command.parameters import progress, show
from strand.command.reading import Reads, reading
from strand.feeds.write.conversion import TARGETS
from strand.feeds.write.conversion import convert as run_convert
from strand.report.tables import print_skipped
from strand.report.to_json import UNDATED, skipped_as_dict

__all__ = ["convert"]


@click.command("convert")
@click.argument("files", nargs=-1, shell_complete=complete_files)
@click.argument("out", type=click.Path(path_type=Path))
@click.option("--to", type=click.Choice(TARGETS), help="What to write. [default: as OUT ends]")
@reading
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def convert(files: tuple[str, ...], out: Path, to: str | None, reads: Reads, as_json: bool) -> None:
    """Write the ticks of FILES as OUT: Parquet, Arrow, numpy, ITCH 5.0 or DBN.

    What the format cannot hold ends it, and leaves no file. Several files are merged in time.
    """
    if not files:
        raise click.UsageError(f"name the file to read, and behind it the one to write: there is {out} alone")
    with progress("converting", reads.limit, as_json) as advance:
        written = run_convert(
            files if len(files) > 1 else files[0],
            out,
            to=to,
            symbols=reads.symbols or (),
            start=reads.start,
            end=reads.end,
            limit=reads.limit,
            allow_empty=reads.allow_empty,
            feed_options=reads.options,
            progress=advance,
        )
    plain: dict[str, Any] = {
        "path": written.path,
        "format": written.format,
        "ticks": written.ticks,
        "symbols": written.symbols,
        "file_bytes": written.bytes,
        "undated": written.undated,
        "skipped": skipped_as_dict(written.skipped),
    }
    words = f"{written.path}: {written.ticks:,} ticks of {written.symbols:,} symbols, {written.bytes / 1e6:,.1f} MB"

    def human(console: Console) -> None:
        console.print(words, soft_wrap=True, highlight=False, markup=False)
        if written.undated and written.format != "itch":
            console.print(f"[yellow]{UNDATED}[/]")
        print_skipped(console, plain["skipped"])

    show(as_json, plain, human)
