"""Functions that make built-in handlers, and what those know of their origin."""

from __future__ import annotations

from typing import Any

import pytest

import strand
from strand.handlers import BUILTIN
from strand.handlers.builtin.definition import Builtin, built_in

pytestmark = pytest.mark.python


def test_defaults_hold_unless_an_option_is_given_instead() -> None:
    given: list[dict[str, Any]] = []

    def make(**options: Any) -> Any:
        given.append(options)

    like = Builtin(make, {"every": "1m"}, instead=("ticks", "volume"))
    like()
    like(every="5m")
    like(ticks=3)
    like(fill=True)
    assert given == [{"every": "1m"}, {"every": "5m"}, {"ticks": 3}, {"every": "1m", "fill": True}]


def test_a_handler_knows_the_function_and_the_options_that_are_not_the_defaults() -> None:
    origin = strand.bars("5m", fill=True, partial=True).origin
    assert origin is not None
    assert (origin.load, dict(origin.options)) == ("bars", {"every": "5m", "fill": "yes"})


def test_what_makes_it_keeps_its_name_and_its_text() -> None:
    @built_in
    def own() -> strand.Handler:
        """Counts."""
        return strand.vwap()

    assert (own.__name__, own.__doc__) == ("own", "Counts.")
    origin = own().origin
    assert origin is not None
    assert origin.load == "own"


@pytest.mark.parametrize("name", sorted(BUILTIN))
def test_each_option_of_a_built_in_handler_says_what_it_is_about(name: str) -> None:
    assert all(option.about for option in BUILTIN[name].options.values())
