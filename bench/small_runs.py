"""Processor time of a short run of the command, beside itch-book's converter: a made-up day's best quotes as Parquet.

    python bench/small_runs.py --peer FOLDER/bin/itch2parquet [--turns 15] [MESSAGES ...]

Both run in turn, each as the command of its own environment; `--strand` names another one than this interpreter's. Say
`pip install` in both environments: an editable install looks longer for its modules. They run with the environment as
it is, and again with one thread of OpenBLAS for both, which Strand's command asks for by itself.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

DATE = "2026-01-05"
MESSAGES = (5_000, 200_000, 500_000, 2_000_000)
SETTINGS: dict[str, dict[str, str]] = {"as it is": {}, "OPENBLAS_NUM_THREADS=1": {"OPENBLAS_NUM_THREADS": "1"}}


def processor_s(command: list[str], more: dict[str, str]) -> float:
    """User and system time of a command that succeeds."""
    # Where bytecode is not written, each run compiles what it imports.
    environment = {**os.environ, **more}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, capture_output=True, env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("messages", nargs="*", type=int, default=list(MESSAGES))
    parser.add_argument("--peer", required=True, help="itch2parquet")
    parser.add_argument("--strand", default=str(Path(sys.executable).with_name("strand")))
    parser.add_argument("--turns", type=int, default=15)
    given = parser.parse_args()
    print("| messages | setting | strand | itch-book | ratio |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for messages in given.messages:
            day, out = f"{folder}/{messages}.itch50", f"{folder}/bbo.parquet"
            made = [given.strand, "gen", "itch", "--symbols", "500", "--messages", str(messages), "--out", day]
            subprocess.run(made, check=True, capture_output=True)
            ours = [given.strand, "replay", day, "--handler", "bbo", "--date", DATE, "--out", f"bbo={out}"]
            theirs = [given.peer, "convert", "--tables", "bbo", "--date", DATE, day, f"{folder}/peer"]
            for setting, more in SETTINGS.items():
                for command in (ours, theirs):  # the first time compiles to bytecode, and reads the disk
                    processor_s(command, more)
                turns = [(processor_s(ours, more), processor_s(theirs, more)) for _ in range(given.turns)]
                one, other = (statistics.median(side) for side in zip(*turns, strict=True))
                print(f"| {messages:,} | {setting} | {one:.3f} s | {other:.3f} s | {one / other:.2f} |", flush=True)


if __name__ == "__main__":
    main()
