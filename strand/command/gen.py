"""``strand gen``: made-up trading days in several formats."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from strand import feeds
from strand.command.completing import complete_files
from strand.command.parameters import progress, show
from strand.errors import ConfigurationError
from strand.feeds.synthetic.calibration_check import check_calibration
from strand.feeds.synthetic.files import write_lobster, write_mbo, write_pitch, write_ticks
from strand.feeds.synthetic.market import SyntheticFeed, WrittenFile
from strand.report.tables import numbers_table

__all__ = ["gen"]

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
        raise ConfigurationError(f"skew: {text!r} is neither 'calibrated' nor a number") from None
