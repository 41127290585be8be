"""Chains of handlers in C."""

from __future__ import annotations

from strand.binding.memory import Space
from strand.binding.native import MAX_PARTS, NativeFunction, Part, builtin, chained, finish_pointer, wake_pointer

COUNT = NativeFunction(builtin("count"), never_publishes=True)
ADDRESS = 64


def test_a_chain_has_timers_and_an_end_where_a_part_has_them() -> None:
    timed = NativeFunction(builtin("count"), wake=wake_pointer(ADDRESS))
    ends = NativeFunction(builtin("count"), finish=finish_pointer(ADDRESS))
    for parts, timers, end in (
        ((COUNT, COUNT), False, False),
        ((COUNT, timed), True, False),
        ((ends, COUNT), False, True),
    ):
        function = chained([Part(part, 0) for part in parts], 3, Space()).function
        assert (function.wake is not None, function.finish is not None) == (timers, end)
        assert function.yields is timers


def test_a_publisher_may_run_a_chain_only_where_no_part_publishes() -> None:
    publishes = NativeFunction(builtin("count"))
    assert chained([Part(COUNT, 0)] * 2, 1, Space()).function.never_publishes
    assert not chained([Part(COUNT, 0), Part(publishes, 64)], 1, Space()).function.never_publishes


def test_no_timer_is_due_before_one_is_asked_for() -> None:
    timed = NativeFunction(builtin("count"), wake=wake_pointer(ADDRESS))
    chain = chained([Part(timed, 0)] * MAX_PARTS, 5, Space())
    assert [chain.alarm(key) for key in range(5)] == [0] * 5
