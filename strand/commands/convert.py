"""``strand convert``: files from one format to another."""

from __future__ import annotations

from pathlib import Path

import click

from strand.commands.parameters import progress, show
from strand.feeds.convert import TARGETS
from strand.feeds.convert import convert as run_convert

__all__ = ["convert"]


@click.command("convert")
@click.argument("files", nargs=-1, required=True)
@click.argument("out", type=click.Path(path_type=Path))
@click.option("--to", type=click.Choice(TARGETS), help="What to write. [default: as OUT ends]")
@click.option("--symbols", help="Names or globs to keep, separated by commas; @FILE: those in it, one a line.")
@click.option("--start", help="Keep ticks received from then on: ISO 8601 with a zone, ns, or HH:MM[:SS].")
@click.option("--end", help="Keep ticks received before then. A time of day is New York's, on the file's date.")
@click.option("--limit", type=click.IntRange(1), help="Ticks to write of those.")
@click.option("--date", help="The trading day of files that do not say it, YYYY-MM-DD.")
@click.option("--skip-bad-records", is_flag=True, help="Pass over damaged records instead of ending without a file.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def convert(
    files: tuple[str, ...], out: Path, to: str | None, symbols: str | None, start: str | None, end: str | None,
    limit: int | None, date: str | None, skip_bad_records: bool, as_json: bool,
) -> None:  # fmt: skip
    """Write the ticks of FILES as OUT: Parquet, numpy, ITCH 5.0 or DBN.

    What the format cannot hold ends it, and leaves no file. Several files are merged in time.
    """
    options = ({} if date is None else {"date": date}) | ({"on_error": "skip"} if skip_bad_records else {})
    with progress("converting", limit, as_json) as advance:
        written = run_convert(
            files if len(files) > 1 else files[0],
            out,
            to=to,
            symbols=[name for name in symbols.split(",") if name] if symbols is not None else (),
            start=start,
            end=end,
            limit=limit,
            options=options,
            progress=advance,
        )
    plain = {
        "path": written.path,
        "format": written.format,
        "ticks": written.ticks,
        "symbols": written.symbols,
        "file_bytes": written.bytes,
    }
    words = f"{written.path}: {written.ticks:,} ticks of {written.symbols:,} symbols, {written.bytes / 1e6:,.1f} MB"
    show(as_json, plain, lambda console: console.print(words, soft_wrap=True, highlight=False))
