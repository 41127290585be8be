"""Runs another routing benchmark and ``strand bench route`` in turn, with the same parameters, and prints the ratios.

The other program is called as  PROGRAM TICKS SYMBOLS SKEW WORK WORKERS BATCH STRANDS ROUNDS  (SKEW a Zipf exponent, or
a file of counts, one a line) and prints a JSON object with the keys of ``strand bench route --json``.

    python bench/against_rod.py PROGRAM --work 0 --work 100 --strands 256 --strands per-symbol
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any

import click

from strand.bench.route import RouteOptions, route
from strand.feeds.synthetic import symbol_counts

WAYS = ("serial", "static", "static_lpt", "strand")


def other(program: Path, counts: Path, options: RouteOptions, lanes: int) -> dict[str, Any]:
    skew = str(counts) if options.skew == "calibrated" else str(options.skew)
    sizes = (options.ticks, options.symbols, skew, options.work, options.workers, options.batch, lanes, options.rounds)
    done = subprocess.run([program, *map(str, sizes)], check=True, capture_output=True, text=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def figures(results: list[dict[str, Any]], best: bool) -> dict[str, float]:
    """One figure of several turns: the median, or the best (highest rate, lowest cost)."""
    found = {way: (max if best else median)([r["mticks_s"][way] for r in results]) for way in WAYS}
    found["publish_ns"] = (min if best else median)([r["publish_ns"] for r in results])
    queued = [r["strand_queued"] for r in results if "strand_queued" in r]
    if queued:
        found["strand_queued"] = (max if best else median)([q["mticks_s"] for q in queued])
        found["publish_ns_queued"] = (min if best else median)([q["publish_ns"] for q in queued])
    return found


def compare(theirs: dict[str, float], ours: dict[str, float]) -> dict[str, float]:
    """Ours over theirs. Rates: more is better; publish_ns: less is."""
    return {name: value / theirs[name.removesuffix("_queued")] for name, value in ours.items()}


@click.command()
@click.argument("program", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--ticks", default=5_000_000, show_default=True)
@click.option("--symbols", default=8_172, show_default=True)
@click.option("--skew", default="calibrated", show_default=True)
@click.option("--work", default=[0, 20, 100, 300], multiple=True, show_default=True)
@click.option("--workers", default=3, show_default=True)
@click.option("--batch", default=8192, show_default=True)
@click.option("--strands", default=["256", "per-symbol"], multiple=True, show_default=True)
@click.option("--turns", default=5, show_default=True, help="Times each program runs; medians are compared.")
@click.option("--rounds", default=1, show_default=True, help="Rounds a program makes in one turn.")
@click.option("--best", is_flag=True, help="Compare best turns, not medians: where others use the machine too.")
@click.option("--json", "as_json", is_flag=True, help="A JSON object a line.")
def main(
    program: Path, *, ticks: int, symbols: int, skew: str, work: tuple[int, ...], workers: int, batch: int,
    strands: tuple[str, ...], turns: int, rounds: int, best: bool, as_json: bool,
) -> None:  # fmt: skip
    """Ratios of strand's figures to PROGRAM's, both run here and now, in turn."""
    with tempfile.TemporaryDirectory() as folder:
        counts = Path(folder) / "counts.txt"
        counts.write_text("".join(f"{count}\n" for count in symbol_counts().tolist()))
        for steps, lanes in product(work, strands):
            options = RouteOptions(ticks, symbols, skew, steps, workers, batch, lanes, rounds)
            theirs, ours = [], []
            for _ in range(turns):
                theirs.append(other(program.resolve(), counts, options, int(lanes)))
                ours.append(route(options))
            figure = {"theirs": figures(theirs, best), "ours": figures(ours, best)}
            ratios = compare(**figure)
            if as_json:
                click.echo(json.dumps({"work": steps, "strands": lanes, "ratios": ratios, **figure}))
                continue
            click.echo(f"work {steps}, strands {lanes}")
            for name, values in ({"ratios": ratios} | figure).items():
                digits = 2 if name == "ratios" else 1
                click.echo(f"  {name:<7}" + "".join(f" {key} {value:.{digits}f}" for key, value in values.items()))


if __name__ == "__main__":
    main()
