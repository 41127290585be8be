"""What may be given as a handler."""

from __future__ import annotations

from typing import Any

import pytest

import strand
from strand.errors import ConfigurationError
from strand.handlers import BUILTIN, NativeHandler, ObjectHandler
from strand.handlers.loading import resolve

pytestmark = pytest.mark.python


class Trades:
    def on_trade(self, trade: Any) -> None: ...


def test_a_handler_is_itself_a_name_is_a_built_in_one_and_a_class_makes_objects() -> None:
    mine = strand.bars("1m")
    assert resolve(mine) is mine
    named = resolve("vwap")
    assert isinstance(named, NativeHandler)
    assert named.name == "vwap"
    assert isinstance(resolve(Trades), ObjectHandler)


def test_a_name_that_is_none_is_answered_with_all_there_are() -> None:
    with pytest.raises(ConfigurationError) as caught:
        resolve("vwpa")
    assert str(caught.value) == f"handler: 'vwpa' is not one of {', '.join(sorted(BUILTIN))}; did you mean 'vwap'?"
    with pytest.raises(ConfigurationError) as caught:
        resolve("xyzzy")
    assert str(caught.value) == f"handler: 'xyzzy' is not one of {', '.join(sorted(BUILTIN))}"


@pytest.mark.parametrize("like", [None, 3, lambda symbol, ticks, row: None, Trades()])
def test_what_is_no_handler_is_told_how_to_become_one(like: Any) -> None:
    with pytest.raises(ConfigurationError, match="is not a handler; decorate a function"):
        resolve(like)
