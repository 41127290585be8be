"""``strand convert``: files from one format to another."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from rich.console import Console

from strand.command.completing import complete_files
from strand.command.parameters import progress, show
from strand.command.reading import Reads, reading
from strand.command.sections import SectionedCommand
from strand.feeds.write.conversion import TARGETS
from strand.feeds.write.conversion import convert as run_convert
from strand.report.tables import print_skipped
from strand.report.to_json import UNDATED, skipped_as_dict

__all__ = ["convert"]


@click.command("convert", cls=SectionedCommand, sections={"Output": ("--to", "--on-unwritable", "--json")})
@click.argument("files", nargs=-1, shell_complete=complete_files)
@click.argument("out", type=click.Path(path_type=Path))
@click.option("--to", type=click.Choice(TARGETS), help="Format to write. [default: by the ending of OUT]")
@click.option(
    "--on-unwritable",
    type=click.Choice(["raise", "skip"]),
    default="raise",
    help="At a tick that the format cannot hold: end with an error, or leave the tick out and count it.",
)
@reading
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def convert(files: tuple[str, ...], out: Path, to: str | None, on_unwritable: Any, reads: Reads, as_json: bool) -> None:
    """Write the ticks of FILES to OUT as Parquet, Arrow, numpy, ITCH 5.0 or DBN.

    A tick that the format cannot hold is an error, and no file is left; see --on-unwritable.
    Several files are merged by time.
    """
    if not files:
        raise click.UsageError(f"give the file to read, and then the file to write: only {out} is given")
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
            on_unwritable=on_unwritable,
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
        "left_out": dict(written.left_out),
    }
    words = f"{written.path}: {written.ticks:,} ticks of {written.symbols:,} symbols, {written.bytes / 1e6:,.1f} MB"

    def human(console: Console) -> None:
        console.print(words, soft_wrap=True, highlight=False, markup=False)
        if written.undated and written.format != "itch":
            console.print(f"[yellow]{UNDATED}[/]")
        print_skipped(console, plain["skipped"])
        if left_out := plain["left_out"]:
            by_field = ", ".join(f"{count:,} by {name}" for name, count in left_out.items())
            total = sum(left_out.values())
            console.print(f"[yellow]left out:[/] {total:,} ticks that {written.format} cannot hold: {by_field}")

    show(as_json, plain, human)
