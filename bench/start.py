"""The start of a small replay beside numpy's own import: python bench/start.py [--turns 15] [CHECKOUT ...]

Each program is a process of its own, and the programs take turns: a replay of 10,000 messages by the command and by
Python, ``import strand``, some commands, and ``import numpy``, which every replay imports. The table has medians and
quartiles of processor time and of time, and the median of what each takes beyond numpy in the same turn. Processor time
counts: other load on the machine changes it less.

CHECKOUT: others that `make install` has been run in; their programs take turns with these.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
from functools import partial
from pathlib import Path

from turns import in_turns, run, spread

HERE = Path(__file__).parents[1]


def programs(file: str) -> dict[str, list[str]]:
    """Arguments of Python by the name of a program."""
    strand = ["-m", "strand"]
    return {
        "import numpy": ["-c", "import numpy"],
        "strand replay": [*strand, "replay", file, "--handler", "count"],
        "strand.replay()": ["-c", f"import strand; strand.replay({file!r}, 'count')"],
        "import strand": ["-c", "import strand"],
        "strand --version": [*strand, "--version"],
        "strand stat --help": [*strand, "stat", "--help"],
        "strand info": [*strand, "info", file],
    }


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkouts", nargs="*", type=Path, metavar="CHECKOUT")
    parser.add_argument("--turns", type=int, default=15)
    given = parser.parse_args()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # else what was never imported is compiled in every turn
    checkouts = {str(path): str(path.resolve() / ".venv/bin/python") for path in (HERE, *given.checkouts)}
    with tempfile.TemporaryDirectory() as folder:
        file = f"{folder}/small.itch"
        made = ["-m", "strand", "gen", "itch", "--out", file, "--messages", "10000", "--symbols", "100"]
        run([checkouts[str(HERE)], *made])
        os.chdir(folder)
        names = programs(file)
        # The turn that warms up writes what Python compiles, and brings the files into memory.
        sides = {
            f"{where} {name}": partial(run, [python, *words])
            for name, words in names.items()
            for where, python in checkouts.items()
        }
        found = in_turns(sides, given.turns)
    print(f"{'ms':<20} {'processor time':>22} {'beyond numpy':>13} {'time':>22} {'beyond numpy':>13}")
    for where in checkouts:
        print(where)
        numpy = found[f"{where} import numpy"]
        for name in names:
            columns = [f"  {name:<18}"]
            for which in ("cpu", "wall"):
                sides = found[f"{where} {name}"], numpy
                own, least = ([getattr(one, which) * 1e3 for one in times] for times in sides)
                beyond = statistics.median(a - b for a, b in zip(own, least, strict=True))
                columns += [f"{spread(own, 0):>22}", f"{beyond:>13.0f}"]
            print(*columns)


if __name__ == "__main__":
    main()
