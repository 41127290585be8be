"""Runs another routing benchmark and ``strand bench route`` in turn, with the same parameters, and prints the ratios.

The other program is called as  PROGRAM TICKS SYMBOLS SKEW WORK WORKERS BATCH STRANDS ROUNDS  (SKEW a Zipf exponent, or
a file of counts, one a line) and prints a JSON object with the keys of ``strand bench route --json``.

    python bench/against_rod.py PROGRAM --work 0 --work 100 --strands 256 --strands 0
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

from strand.bench.route import RouteOptions, parse_skew, parse_strands, route
from strand.feeds.calibration import symbol_counts

WAYS = ("serial", "static", "static_lpt", "strand")


def other(program: Path, counts: Path, options: RouteOptions, lanes: int) -> dict[str, Any]:
    skew = str(counts) if options.skew == "calibrated" else str(options.skew)
    sizes = (options.ticks, options.symbols, skew, options.work, options.workers, options.batch, lanes, options.rounds)
    done = subprocess.run([program, *map(str, sizes)], check=True, capture_output=True, text=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def compare(theirs: list[dict[str, Any]], ours: list[dict[str, Any]]) -> dict[str, float]:
    """Medians of ours over medians of theirs; for publish_ns, below 1 is cheaper."""
    ratios = {
        way: median(o["mticks_s"][way] for o in ours) / median(t["mticks_s"][way] for t in theirs) for way in WAYS
    }
    queued = median(o["strand_queued"]["mticks_s"] for o in ours)
    ratios["strand_queued"] = queued / median(t["mticks_s"]["strand"] for t in theirs)
    publish = median(t["publish_ns"] for t in theirs)
    ratios["publish_ns"] = median(o["publish_ns"] for o in ours) / publish
    ratios["publish_ns_queued"] = median(o["strand_queued"]["publish_ns"] for o in ours) / publish
    return ratios


@click.command()
@click.argument("program", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--ticks", default=5_000_000, show_default=True)
@click.option("--symbols", default=8_172, show_default=True)
@click.option("--skew", default="calibrated", show_default=True)
@click.option("--work", default=[0, 20, 100, 300], multiple=True, show_default=True)
@click.option("--workers", default=3, show_default=True)
@click.option("--batch", default=4096, show_default=True)
@click.option("--strands", default=["256", "0"], multiple=True, show_default=True)
@click.option("--turns", default=5, show_default=True, help="Times each program runs; medians are compared.")
@click.option("--rounds", default=1, show_default=True, help="Rounds a program makes in one turn.")
@click.option("--json", "as_json", is_flag=True, help="A JSON object a line.")
def main(
    program: Path, *, ticks: int, symbols: int, skew: str, work: tuple[int, ...], workers: int, batch: int,
    strands: tuple[str, ...], turns: int, rounds: int, as_json: bool,
) -> None:  # fmt: skip
    """Ratios of strand's figures to PROGRAM's, both run here and now, in turn."""
    with tempfile.TemporaryDirectory() as folder:
        counts = Path(folder) / "counts.txt"
        counts.write_text("".join(f"{count}\n" for count in symbol_counts().tolist()))
        for steps, lanes in product(work, strands):
            options = RouteOptions(
                ticks, symbols, parse_skew(skew), steps, workers, batch, parse_strands(lanes), rounds
            )
            theirs, ours = [], []
            for _ in range(turns):
                theirs.append(other(program.resolve(), counts, options, int(lanes)))
                ours.append(route(options))
            ratios = compare(theirs, ours)
            if as_json:
                click.echo(
                    json.dumps({"work": steps, "strands": lanes, "ratios": ratios, "theirs": theirs, "ours": ours})
                )
                continue
            click.echo(f"work {steps}, strands {lanes}: " + ", ".join(f"{k} {v:.2f}" for k, v in ratios.items()))
            click.echo("    theirs " + ", ".join(f"{w} {median(t['mticks_s'][w] for t in theirs):.1f}" for w in WAYS))
            click.echo("    ours   " + ", ".join(f"{w} {median(o['mticks_s'][w] for o in ours):.1f}" for w in WAYS))


if __name__ == "__main__":
    main()
