"""Functions that are given as handlers."""

from __future__ import annotations

import functools
from typing import Any

import pytest

from strand.errors import ConfigurationError
from strand.handlers.state import check_runs

pytestmark = pytest.mark.python


async def waits(symbol: str, ticks: Any, row: Any) -> None: ...


def yields(symbol: str, ticks: Any, row: Any) -> Any:
    yield


class CalledLater:
    async def __call__(self, symbol: str, ticks: Any, row: Any) -> None: ...


@pytest.mark.parametrize("function", [waits, yields, CalledLater(), functools.partial(waits, "A")])
def test_what_would_not_run_is_refused(function: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"handler 'mine': .* is async or a generator"):
        check_runs("mine", function)
