"""``strand gen`` and ``strand convert``: files of made-up days, and files from one format to another."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from strand import feeds
from strand.command.parameters import SectionedCommand, complete_files, progress, show
from strand.command.reading import Reads, reading
from strand.errors import ConfigurationError
from strand.feeds.synthetic.calibration_check import check_calibration
from strand.feeds.synthetic.files import write_lobster, write_mbo, write_pitch, write_ticks
from strand.feeds.synthetic.market import SyntheticFeed, WrittenFile
from strand.feeds.write.conversion import TARGETS
from strand.feeds.write.conversion import convert as run_convert
from strand.report.closing import UNDATED, skipped_as_dict
from strand.report.tables import numbers_table, print_skipped

__all__ = ["convert", "gen"]


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


#: Writes a day to a path, telling how far it is.
Writer = Callable[[SyntheticFeed, Path, Callable[[int, int], None]], tuple[WrittenFile, ...]]


@click.group("gen")
def gen() -> None:
    """Generate files of synthetic markets that behave like real ones."""


def _describing_a_day(command: Callable[..., None]) -> Callable[..., None]:
    """The options that say which day is made, where it goes, and how that is told."""
    for option in reversed(
        (
            click.option("--symbols", type=click.IntRange(1), default=8172, metavar="N", help="Number of symbols."),
            click.option(
                "--messages",
                type=click.IntRange(1),
                default=1_000_000,
                metavar="N",
                help="Number of messages: orders, trades, crosses, imbalances and halts.",
            ),
            click.option(
                "--seed",
                type=click.IntRange(0),
                default=1,
                metavar="N",
                help="Seed. The same seed gives the same file.",
            ),
            click.option(
                "--skew", default="calibrated", help="How ticks spread over symbols: 'calibrated', or a Zipf exponent."
            ),
            click.option(
                "--burst",
                type=float,
                default=1.0,
                help="How busy the peaks are: 0 is an even day, 1 has the peaks of a real day.",
            ),
            click.option(
                "--halts",
                type=click.IntRange(0),
                metavar="N",
                help="Number of symbols that are halted once. [default: one of 400 symbols]",
            ),
            click.option("--date", default="2026-01-05", metavar="YYYY-MM-DD", help="Trading day."),
            click.option("--json", "as_json", is_flag=True, help="Print one JSON object."),
        )
    ):
        command = option(command)
    return command


def _out(
    words: str = "File to write. The endings .gz and .zst compress it.",
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    return click.option("--out", type=click.Path(path_type=Path), required=True, help=words)


@gen.command("itch")
@_describing_a_day
@_out()
def gen_itch(out: Path, as_json: bool, **day: Any) -> None:
    """Write a synthetic trading day as an ITCH 5.0 file."""
    _write(out, as_json, day, lambda feed, path, advance: (feed.write_itch(path, progress=advance),))


@gen.command("pitch")
@_describing_a_day
@_out()
def gen_pitch(out: Path, as_json: bool, **day: Any) -> None:
    """Write a synthetic trading day as Cboe PITCH text."""
    _write(out, as_json, day, lambda feed, path, advance: (write_pitch(feed, path, progress=advance),))


@gen.command("lobster")
@_describing_a_day
@click.option("--symbol", metavar="NAME", help="Symbol to write. [default: the busiest]")
@click.option("--levels", type=int, default=10, metavar="N", help="Number of book levels, 1 to 200.")
@_out(
    "An existing folder, or the file of messages with 'message' in its name. The endings .gz and .zst compress "
    "both files."
)
def gen_lobster(out: Path, as_json: bool, symbol: str | None, levels: int, **day: Any) -> None:
    """Write one symbol of a synthetic trading day as a LOBSTER pair of CSV files: messages and order book."""
    _write(
        out,
        as_json,
        day,
        lambda feed, path, advance: write_lobster(feed, path, symbol=symbol, levels=levels, progress=advance),
    )


@gen.command("npy")
@_describing_a_day
@click.option(
    "--records",
    type=click.Choice(["mbo", "tick"]),
    default="mbo",
    help="Records to write: like market-by-order records of DBN, or strand.TICK.",
)
@_out()
def gen_npy(out: Path, as_json: bool, records: str, **day: Any) -> None:
    """Write a synthetic trading day as a numpy array of records."""
    write = write_mbo if records == "mbo" else write_ticks
    _write(out, as_json, day, lambda feed, path, advance: (write(feed, path, progress=advance),))


@gen.command("check")
@click.argument("files", nargs=-1, required=True, shell_complete=complete_files)
@click.option("--date", metavar="YYYY-MM-DD", help="Trading day of files that do not contain it.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of a table.")
def gen_check(files: tuple[str, ...], date: str | None, as_json: bool) -> None:
    """Measure how close files are to the calibrated day: skew, bursts, and gaps between ticks."""
    options: dict[str, Any] = {} if date is None else {"date": date}
    feed = feeds.open(files if len(files) > 1 else files[0], **options)
    try:
        measures = check_calibration(feed)
    finally:
        feed.close()
    plain = {m.name: {"target": m.target, "found": m.found, "ratio": m.ratio, "close": m.close} for m in measures}

    def table(console: Console) -> None:
        heads = ("measure", "calibrated", "found", "ratio", "tolerance", "close")
        table = numbers_table(*heads, box=None, pad_edge=False)
        for m in measures:
            close = "yes" if m.close else "no"
            table.add_row(
                m.name, f"{m.target:.4g}", f"{m.found:.4g}", f"{m.ratio:.2f}", f"{m.low:g} to {m.high:g}", close
            )
        console.print(table)

    show(as_json, plain, table)


def _write(out: Path, as_json: bool, day: dict[str, Any], write: Writer) -> None:
    feed = SyntheticFeed(day.pop("symbols"), day.pop("messages"), skew=_skew(day.pop("skew")), **day)
    with progress("writing", feed.messages, as_json) as advance:
        written = write(feed, out, lambda done, _: advance(done))
    sizes = [Path(file.path).stat().st_size for file in written]
    files = [asdict(file) | {"file_bytes": size} for file, size in zip(written, sizes, strict=True)]
    plain = files[0] | ({"files": files} if len(files) > 1 else {})
    text = "\n".join(
        f"{file.path}: {file.messages:,} messages, {file.ticks:,} ticks, {size / 1e6:,.1f} MB"
        for file, size in zip(written, sizes, strict=True)
    )
    show(as_json, plain, lambda console: console.print(text, soft_wrap=True, markup=False))


def _skew(text: str) -> Any:
    if text == "calibrated":
        return text
    try:
        return float(text)
    except ValueError:
        raise ConfigurationError("skew", f"{text!r} is neither 'calibrated' nor a number") from None
