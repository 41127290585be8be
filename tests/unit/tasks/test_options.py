"""Options of tasks are checked where they are given, against each other too."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from task_pools import Stepped

from strand.errors import ConfigurationError, UnknownSymbolError
from strand.tasks import RetryPolicy, TaskGroup

pytestmark = pytest.mark.python


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"priority": "hihg"}, "did you mean 'high'"),
        ({"priority": 1}, "not a level: give a name"),
        ({"key": []}, "key: .* cannot be hashed"),
        ({"symbol": "AAPL"}, "no ticks; give key="),
        ({"deadline": "soon"}, "deadline"),
        ({"deadline": 5}, "deadline: 5 has no unit"),
        ({"deadline": dt.datetime(2030, 1, 1)}, "deadline: .* has no time zone"),
        ({"delay": "5"}, "delay"),
        ({"delay": "5s", "deadline": "5s"}, "delay: after 5s the deadline of 5s is over"),
        ({"priority": "low", "deadline": "30s"}, "hold: after 30s the deadline of 30s is over"),
        ({"retry": 3}, "retry: 3 is not a strand.RetryPolicy"),
        ({"group": "mail"}, "group: 'mail' is not a strand.TaskGroup"),
        ({"expire_if": True}, "expire_if: True cannot be called"),
        ({"marks": "free_memory"}, "did you mean 'frees_memory'"),
        ({"marks": 3}, "not a mark"),
    ],
)
def test_what_cannot_work_is_refused(options: dict[str, Any], match: str) -> None:
    here = Stepped(hold={"low": "30s"})
    with pytest.raises(ConfigurationError, match=match):
        here.tasks.options(**options)


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
