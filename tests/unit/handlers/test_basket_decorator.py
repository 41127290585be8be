"""What may be declared as a handler with baskets, and what is refused, and why."""

from __future__ import annotations

from typing import Any

import pytest

import strand
from strand.errors import ConfigurationError

PAIR = {"pair": ["A", "B"]}
STATE = [("n", "i8")]


@pytest.mark.parametrize(
    ("baskets", "message"),
    [
        ({}, "there are none"),
        ({"pair": []}, "'pair' has no symbols"),
        ({"pair": "AB"}, "'AB' is not a list of symbols"),
        ({"pair": ["A", "A"]}, "'pair' has 'A' twice"),
        ({"pair": ["A", 3]}, "3 is not a symbol's name"),
        ({3: ["A"]}, "3 is not a name"),
        ({"": ["A"]}, "'' is not a name"),
        (["A", "B"], "list is neither a dict"),
    ],
)
def test_what_cannot_be_baskets_is_refused(baskets: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        strand.basket_handler(baskets=baskets, basket_state=STATE)


@pytest.mark.parametrize(
    ("said", "message"),
    [
        (3, "returned 3 for 'A': return a basket's name, a list of names, or None"),
        (["x", "x"], "'x' is in it twice"),
        ([None], "None is not a name"),
        (None, "returns no basket for any symbol"),
    ],
)
def test_what_a_function_may_not_return_is_refused(said: Any, message: str) -> None:
    @strand.basket_handler(baskets=lambda symbol: said, basket_state=STATE, kind="batch")
    def counts(ticks: Any, basket: Any) -> None:
        pass

    with pytest.raises(ConfigurationError, match=message):
        strand.Dispatcher(["A", "B"], counts)


def test_classes_with_methods_that_are_never_called_are_refused() -> None:
    declare = strand.basket_handler(baskets=PAIR, basket_state=STATE)

    class Wakes:
        def on_tick(self, tick: Any) -> None: ...
        def on_wake(self, time: int) -> None: ...

    class Nothing:
        def on_start(self, ctx: Any) -> None: ...

    class Asks:
        def on_tick(self, tick: Any, ctx: Any) -> None: ...

    for cls, message in (
        (Wakes, "'on_wake' is never called for a basket"),
        (Nothing, "neither on_tick nor on_trade"),
        (Asks, "it takes 'ctx'"),
    ):
        with pytest.raises(ConfigurationError, match=message):
            declare(cls)
