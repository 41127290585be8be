"""``strand serve`` to ``strand listen`` on this machine, with losses, reordering and duplicates on both lines.

python tests/support/live_trial.py [--seconds 30] [--rate 500000] [--loss 0.01] [--seed 1]

Two processes and two lines, as a user would start them. Held against what the sender noted as lost: what each line
missed, what both missed, that nothing else is missing, that each symbol's ticks came in order, and that the recording
replays to the same rows. Everything is on 127.0.0.1, and ends by itself. Exits with 1 where something does not hold.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import strand
from strand.feeds.synthetic import SyntheticFeed

DATE = "2026-01-05"
HERE = Path(__file__).resolve().parent


@strand.handler(state=[("ticks", "u8"), ("last", "u8"), ("disorder", "u8"), ("digest", "u8")])
def in_order(row: Any, tick: Any) -> None:
    """Counts ticks whose sequence does not rise, and digests what a replay must give again."""
    row.ticks += 1
    if tick.sequence <= row.last:
        row.disorder += 1
    row.last = tick.sequence
    row.digest = (row.digest ^ tick.sequence ^ tick.ts_recv ^ tick.ref_id) * 1099511628211


Ranges = list[list[int]]


def intersect(a: Ranges, b: Ranges) -> Ranges:
    """Intersection of two rising lists of [from, to)."""
    found: Ranges = []
    i = j = 0
    while i < len(a) and j < len(b):
        low, high = max(a[i][0], b[j][0]), min(a[i][1], b[j][1])
        if low < high:
            found.append([low, high])
        if a[i][1] < b[j][1]:
            i += 1
        else:
            j += 1
    return found


def joined(ranges: Ranges) -> Ranges:
    """The same numbers with ranges that touch made one."""
    found: Ranges = []
    for low, high in ranges:
        if found and found[-1][1] == low:
            found[-1][1] = high
        else:
            found.append([low, high])
    return found


@dataclass(frozen=True)
class Trial:
    """Reports of both ends, and the rows of the live run and of its recording."""

    sent: dict[str, Any]
    heard: dict[str, Any]
    replayed: dict[str, Any]
    same_rows: bool
    disorder: int

    def failures(self) -> Iterator[str]:
        """Broken promises of the trial, in words; nothing where all hold."""
        live, lines = self.heard["live"], self.sent["lines"]
        for name, line in live["lines"].items():
            if line["kernel_drops"]:
                yield f"line {name}: the kernel dropped {line['kernel_drops']} packets, so nothing can be compared"
        lost = {name: joined(lines[name]["lost_ranges"]) for name in lines}
        for name, ranges in lost.items():
            if joined(live["line_gaps"][name]) != ranges:
                yield f"line {name}: the gaps reported are not what was lost on it"
        if joined(live["gaps"]) != joined(intersect(lost["a"], lost["b"])):
            yield "the gaps of both lines are not what was lost on both"
        if live["delivered"] + live["gap_messages"] != self.sent["messages"]:
            yield (
                f"{self.sent['messages']} messages were sent, {live['delivered']} delivered, "
                f"{live['gap_messages']} given up"
            )
        if self.disorder:
            yield f"{self.disorder} ticks were not in order"
        if self.heard["ticks"] != self.replayed["ticks"] or not self.same_rows:
            yield "the recording replays to other rows"


def run_trial(folder: Path, *, messages: int, rate: float, loss: float, symbols: int = 500, seed: int = 1) -> Trial:
    """Serves a made-up day of about so many messages, and listens to it. Takes messages / rate seconds and some."""
    day, record = folder / "day.itch50", folder / "live.itch50"
    SyntheticFeed(symbols, messages, seed=seed, date=DATE).write_itch(day)
    live_rows, replayed_rows = folder / "live.npy", folder / "replayed.npy"
    limit_s = messages / rate * 3 + 60
    handler = ["--handler", "live_trial:in_order", "--json"]
    with subprocess.Popen(
        [
            *(sys.executable, "-m", "strand", "listen", "--line", "127.0.0.1:0", "--line", "127.0.0.1:0", *handler),
            *("--first-sequence", "1", "--max-seconds", str(limit_s), "--date", DATE, "--gap-timeout-s", "0.5"),
            *("--record", str(record), "--out", str(live_rows)),
        ],
        cwd=HERE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as listener:  # fmt: skip
        assert listener.stderr is not None
        ready = listener.stderr.readline()
        while ready.startswith("warning: "):
            ready = listener.stderr.readline()
        try:
            if not ready.startswith("listening at "):
                raise RuntimeError(f"strand listen did not start: {ready}{listener.stderr.read()}")
            a, b = ready.removeprefix("listening at ").strip().split(", ")
            faults = ["--loss", str(loss), "--reorder", str(loss), "--duplicate", str(loss), "--seed", str(seed)]
            sent = _run("serve", str(day), "--line", a, "--line", b, "--rate", str(rate), *faults, "--json")
            output, errors = listener.communicate(timeout=limit_s)
        finally:
            listener.kill()
    if listener.returncode:
        raise RuntimeError(f"strand listen ended with {listener.returncode}: {errors}{output}")
    replayed = _run("replay", str(record), *handler, "--out", str(replayed_rows))
    rows = np.load(live_rows)
    return Trial(
        sent,
        json.loads(output),
        replayed,
        live_rows.read_bytes() == replayed_rows.read_bytes(),
        int(rows["disorder"].sum()),
    )


def _run(*arguments: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "strand", *arguments], cwd=HERE, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"strand {' '.join(arguments)} ended with {done.returncode}: {done.stderr}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def main() -> int:
    """The trial at a length and rate of one's own."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--rate", type=float, default=500_000.0)
    parser.add_argument("--loss", type=float, default=0.01)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    messages = round(options.seconds * options.rate)
    print(f"{messages:,} messages at {options.rate:,.0f}/s, {options.loss:.1%} lost on each line", flush=True)
    with tempfile.TemporaryDirectory(prefix="strand-live-") as folder:
        trial = run_trial(Path(folder), messages=messages, rate=options.rate, loss=options.loss, seed=options.seed)
    sent, live = trial.sent, trial.heard["live"]
    for name, line in sent["lines"].items():
        print(
            f"line {name}: {line['packets']:,} packets sent, {line['lost_messages']:,} messages lost in "
            f"{len(line['lost_ranges']):,} ranges, {line['reordered_packets']:,} packets kept back, "
            f"{line['duplicated_packets']:,} sent twice; {live['lines'][name]['duplicates']:,} duplicates heard"
        )
    print(
        f"sent {sent['messages']:,} in {sent['seconds']:.2f} s ({sent['messages'] / sent['seconds']:,.0f}/s), at most "
        f"{sent['late_ns'] / 1e6:.1f} ms late; delivered {live['delivered']:,} in order, {live['gap_messages']:,} lost "
        f"on both lines in {live['gap_count']:,} gaps; receipt to delivery {live['latency_ns']}"
    )
    failures = list(trial.failures())
    for failure in failures:
        print(f"FAILED: {failure}")
    if not failures:
        print(
            "holds: nothing lost that one line carried, order kept, gaps exact, the recording replays to the same rows"
        )
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
