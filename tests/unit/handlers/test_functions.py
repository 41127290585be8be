"""Functions that are given as handlers."""

from __future__ import annotations

import functools
from typing import Any

import pytest

from strand.errors import ConfigurationError
from strand.handlers.state import check_runs, name_of

pytestmark = pytest.mark.python


def plain(symbol: str, ticks: Any, row: Any) -> None: ...


async def waits(symbol: str, ticks: Any, row: Any) -> None: ...


def yields(symbol: str, ticks: Any, row: Any) -> Any:
    yield


class Called:
    def __call__(self, symbol: str, ticks: Any, row: Any) -> None: ...


class CalledLater:
    async def __call__(self, symbol: str, ticks: Any, row: Any) -> None: ...


def test_a_function_is_called_by_its_name_and_another_thing_by_that_of_its_class() -> None:
    assert [name_of(thing) for thing in (plain, Called(), functools.partial(plain))] == ["plain", "Called", "partial"]


@pytest.mark.parametrize("function", [plain, Called(), functools.partial(functools.partial(plain, "A"))])
def test_what_runs_when_it_is_called_is_taken(function: Any) -> None:
    check_runs("mine", function)


@pytest.mark.parametrize("function", [waits, yields, CalledLater(), functools.partial(waits, "A")])
def test_what_would_not_run_is_refused(function: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"handler 'mine': .* is async or a generator"):
        check_runs("mine", function)


def test_what_cannot_be_called_is_no_function() -> None:
    with pytest.raises(ConfigurationError, match="handler 'mine': 3 is not a function"):
        check_runs("mine", 3)
