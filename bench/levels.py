"""Five levels of three symbols each second, beside runs without them.

    python bench/levels.py                      both parts, 9 turns, a made-up day of 3,000,000 messages, 8,172 symbols
    python bench/levels.py processes --turns 5 --messages 1000000
    python bench/levels.py processes --old ../old    with another checkout, which `make install` has been run in

``processes``: whole processes take turns, from a plain file to a frame of polars. The levels of a run of all symbols
are compared with `book` of all. Those of a run of three symbols have two baselines: `book` of the three, which makes
no frame, and the same with its rows as a frame, which imports what a frame needs. Processor time counts: other load
changes it less. The three symbols are the busiest.

``within``: `book` without and with levels takes turns in one process without workers, so that no start counts.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from blocks import BUILD, DAY, day
from turns import Taken, in_turns, ratios, run, run_parts, spread, taken

import strand

SYMBOLS = 8_172
BEGIN = f"""
import sys
import strand
file, *names = sys.argv[1:]
replay = lambda handler, **options: strand.replay(file, handler, date="{DAY}", **options)
"""
ALL, THREE, ROWS = "all symbols, book", "three symbols, book", "three symbols, book, its rows as a frame"
PROGRAMS = {
    ALL: "replay('book')",
    "all symbols, levels of three as a frame": (
        "snapshot = strand.snapshot(every='1s', symbols=names)\n"
        "replay(strand.book(top=5), snapshot=snapshot).snapshots.to_polars()"
    ),
    THREE: "replay('book', symbols=names)",
    ROWS: "replay('book', symbols=names).rows.to_polars()",
    "three symbols, their levels as a frame": (
        "replay(strand.book(top=5), symbols=names, snapshot='1s').snapshots.to_polars()"
    ),
}
#: The baselines of a program.
BASES = dict(zip(list(PROGRAMS), ((), (ALL,), (), (THREE,), (THREE, ROWS)), strict=True))


def busiest(file: Path) -> list[str]:
    """The three symbols that have the most ticks."""
    found = strand.replay(file, "count", date=DAY, workers=0, timeline=False)
    order = found.ticks_by_symbol.argsort(kind="stable")[::-1]
    return [found.symbols[key] for key in order[:3]]


def told(found: dict[str, list[Taken]], bases: dict[str, tuple[str, ...]], of: str = "") -> None:
    """Prints what each side took, and its ratios to its baselines, turn by turn. ``of``: the begin of all names."""
    for name, base in bases.items():
        cpu, wall = ([getattr(one, what) for one in found[of + name]] for what in ("cpu", "wall"))
        print(f"{name:42} processor {spread(cpu)} s, by the clock {spread(wall)} s")
        for other in base:
            print(f"{'':4}{spread(ratios(cpu, [one.cpu for one in found[of + other]]))} of {other}")


def processes(turns: int, messages: int, old: Path | None) -> None:
    """Prints the processor time of whole processes."""
    file = day(BUILD, messages, SYMBOLS)
    names = busiest(file)
    checkouts = [Path(__file__).parents[1], *([old] if old else [])]
    sides = {
        f"{path} {name}": partial(
            run, [str(path.resolve() / ".venv/bin/python"), "-c", BEGIN + program, str(file), *names]
        )
        for path in checkouts
        for name, program in PROGRAMS.items()
    }
    found = in_turns(sides, turns)
    for path in checkouts:
        print(path)
        told(found, BASES, f"{path} ")


def within(turns: int, messages: int, old: Path | None) -> None:
    """Prints the time of a replay in this process."""
    file = day(BUILD, messages, SYMBOLS)
    handlers: dict[str, Any] = {"book": "book", "book(top=5)": strand.book(top=5)}

    def once(name: str) -> Taken:
        return taken(partial(strand.replay, date=DAY, workers=0, timeline=False), file, handlers[name])[1]

    told(in_turns({name: partial(once, name) for name in handlers}, turns), {"book": (), "book(top=5)": ("book",)})


if __name__ == "__main__":
    run_parts(
        __doc__, {"processes": processes, "within": within}, 9,
        messages={"type": int, "default": 3_000_000, "help": "of a day"},
        old={"type": Path, "help": "another checkout"},
    )  # fmt: skip
