"""A module of handlers and of functions that make them, as users write it."""

from __future__ import annotations

MODULE = '''
from typing import Annotated

import numpy as np

import strand


class Params:
    least: np.uint32 = 100
    share: float = 0.5
    loud: bool = False
    name: Annotated[bytes, 4] = b"ab"
    steps: Annotated[np.int64, 3] = 0


@strand.batch_handler(state=[("n", "u8")], params=Params)
def large(symbol, ticks, row, ctx):
    """Counts orders of a size."""
    row["n"] += np.count_nonzero(ticks["size"] >= ctx.params["least"])


def every_nth(n: int, *, kind: str = "trade") -> strand.Handler:
    """Counts some of the ticks."""

    @strand.batch_handler(state=[("n", "u8"), (kind, "u1")])
    def nth(symbol, ticks, row):
        row["n"] += len(ticks) // n

    return nth


after_book = strand.chain(strand.book(), large)


class Object:
    def on_trade(self, tick):
        pass


def no_handler(n):
    return n


def raises(n: int = 0) -> strand.Handler:
    raise ValueError("nothing is\\nsmall enough")


def muddles(n: int = 1) -> strand.Handler:
    return n + "1"


def by_place(n: int, /) -> strand.Handler:
    return strand.bars(n)


def makes_nothing() -> strand.Handler:
    return None


def makes_a_number() -> "strand.Handler":
    return 5


def of_a_list(values: list) -> strand.Handler:
    return strand.bars(values[0])


def of_what(n: "Nothing" = 1) -> strand.Handler:
    return strand.bars(n)
'''
