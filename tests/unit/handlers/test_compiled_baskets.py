"""The loop around a compiled basket handler."""

from __future__ import annotations

from typing import Any

import pytest

import strand
from strand import testing
from strand.errors import ConfigurationError

PAIR = {"pair": ["A", "B"]}
STATE = [("n", "i8")]


def test_arguments_come_by_name_in_any_order() -> None:
    pytest.importorskip("numba")
    baskets = {"pair": ["B", "A"], "other": ["B", "C"]}

    @strand.basket_handler(baskets=baskets, state=STATE, basket_state=[("size", "i8", 2), ("index", "i8")])
    def keeps(index: int, basket: Any, member: int, row: Any, tick: Any) -> None:
        row.n += 1
        basket.size[member] += tick.size
        basket.index = index

    ticks = [("A", 1, 1, 5), ("B", 2, 1, 7), ("C", 3, 1, 11), ("D", 4, 1, 13)]
    for workers in (0, 2):
        run = strand.replay(testing.feed(ticks), keeps, workers=workers)
        assert {name: (*row["size"].tolist(), int(row["index"])) for name, row in run.baskets.items()} == {
            "pair": (7, 5, 0),
            "other": (7, 11, 1),
        }
        assert run.rows.array["n"].tolist() == [1, 2, 1, 0]


def test_a_function_that_does_not_compile_says_where_and_why() -> None:
    pytest.importorskip("numba")

    @strand.basket_handler(baskets=PAIR, basket_state=STATE)
    def wrong(tick: Any, basket: Any) -> None:
        basket.m += 1

    with pytest.raises(
        ConfigurationError, match=r"test_compiled_baskets.py:\d+: basket has no field 'm'; basket has n"
    ):
        strand.Dispatcher(["A", "B"], wrong)
