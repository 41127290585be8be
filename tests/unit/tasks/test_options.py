"""Options of tasks are checked where they are given, against each other too."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from task_pools import Stepped

from strand.errors import ConfigurationError, UnknownSymbolError
from strand.tasks import RetryPolicy, TaskGroup

pytestmark = pytest.mark.python


def test_options_are_in_ns_and_make_an_executor() -> None:
    here = Stepped(hold={"low": "30s"})
    group, retry = TaskGroup(), RetryPolicy()
    found = here.tasks.options(
        priority="low",
        key=("a", 1),
        deadline=dt.timedelta(minutes=1),
        delay="20s",
        retry=retry,
        group=group,
        marks="io",
    )._options
    assert (found.number, found.priority, found.key, found.deadline_ns) == (4, "low", ("a", 1), 60 * 10**9)
    assert (found.delay_ns, found.waits_ns, found.place) == (20 * 10**9, 30 * 10**9, "held")
    assert (found.retry, found.group, found.marks, found.goes_at_once) == (retry, group, 1, False)
    assert here.tasks.options(marks=["io", "frees_memory"])._options.marks == 3
    assert here.tasks._options.goes_at_once
    assert here.tasks.options(priority="high", retry=retry)._options.goes_at_once


def test_a_symbol_stands_alone() -> None:
    def strand_of(symbol: Any) -> int:
        if symbol != "AAPL":
            raise UnknownSymbolError(f"{symbol}?")
        return 7

    here = Stepped(strand_of=strand_of)
    assert here.tasks.options(symbol="AAPL")._options.strand == 7
    for options in ({"key": "k"}, {"priority": "high"}):
        with pytest.raises(ConfigurationError, match="symbol"):
            here.tasks.options(symbol="AAPL", **options)
    with pytest.raises(UnknownSymbolError):
        here.tasks.options(symbol="MSFT")
