"""Handlers that read trades and quotes, of ticks or of books."""

from __future__ import annotations

import pytest

import strand
from strand.errors import ConfigurationError
from strand.handlers.builtin.tape import one_of

pytestmark = pytest.mark.python


def test_a_choice_has_the_place_of_its_name() -> None:
    assert [one_of("sign", name, ("a", "b")) for name in ("a", "b")] == [0, 1]
    with pytest.raises(ConfigurationError, match="sign: 'c' is not one of a, b"):
        one_of("sign", "c", ("a", "b"))


def test_what_fills_do_is_one_of_two_things() -> None:
    with pytest.raises(ConfigurationError, match="fills: 'repeat' is not one of reduce, report"):
        strand.vwap(fills="repeat")  # type: ignore[arg-type]
