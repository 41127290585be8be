"""Handlers that read trades and quotes, of ticks or of books."""

from __future__ import annotations

import pytest

import strand
from strand.errors import ConfigurationError

pytestmark = pytest.mark.python


def test_what_fills_do_is_one_of_two_things() -> None:
    with pytest.raises(ConfigurationError, match="fills: 'repeat' is not one of reduce, report"):
        strand.vwap(fills="repeat")  # type: ignore[arg-type]
