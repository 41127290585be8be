"""The loop around a compiled basket handler."""

from __future__ import annotations

from typing import Any

import pytest

import strand
from strand.errors import ConfigurationError

PAIR = {"pair": ["A", "B"]}
STATE = [("n", "i8")]


def test_a_function_that_does_not_compile_says_where_and_why() -> None:
    pytest.importorskip("numba")

    @strand.basket_handler(baskets=PAIR, basket_state=STATE)
    def wrong(tick: Any, basket: Any) -> None:
        basket.m += 1

    with pytest.raises(
        ConfigurationError, match=r"test_compiled_baskets.py:\d+: basket has no field 'm'; basket has n"
    ):
        strand.Dispatcher(["A", "B"], wrong)
