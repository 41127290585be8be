"""The arguments of basket handlers: taken by name, and refused by name."""

from __future__ import annotations

from typing import Any

import pytest

import strand
from strand.errors import ConfigurationError

PAIR = {"pair": ["A", "B"]}
STATE = [("n", "i8")]


@pytest.mark.parametrize(
    ("options", "function", "message"),
    [
        ({}, lambda tick, row, baskets: None, "it takes 'baskets'; a basket handler's arguments are tick, row, basket"),
        ({}, lambda trade, basket: None, "it takes 'trade'"),
        ({}, lambda basket, emit: None, "give outputs= to declare what its argument emit is"),
        ({}, lambda basket, params: None, "give params= to declare"),
        ({"params": STATE}, lambda basket: None, "no argument 'params'"),
        ({"kind": "batch"}, lambda tick, basket: None, "it takes 'tick'; a basket handler's arguments are ticks, rows"),
        ({"kind": "object"}, lambda tick: None, "kind"),
        ({"basket_state": "i8"}, lambda tick: None, "basket_state: give a structured dtype"),
    ],
)
def test_functions_with_other_arguments_are_refused(options: Any, function: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        strand.basket_handler(**{"baskets": PAIR, "basket_state": STATE, **options})(function)
