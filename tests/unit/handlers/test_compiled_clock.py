"""Timers of compiled handlers."""

from __future__ import annotations

from typing import Any

import pytest

from strand import handler, replay, testing
from strand.caller.run import CallerRun
from strand.errors import ConfigurationError

pytestmark = pytest.mark.python


def test_compiled_handlers_are_told_what_their_functions_take() -> None:
    pytest.importorskip("numba")

    def on_wake(row, time):  # type: ignore[no-untyped-def]
        pass

    def checked(function: Any, **options: Any) -> Any:
        return handler(state=[("n", "u8")], **options)(function)

    with pytest.raises(ConfigurationError, match="on_wake= is for its argument ctx, which it does not have"):
        checked(lambda row, tick: None, on_wake=on_wake)
    with pytest.raises(ConfigurationError, match="give on_wake= to declare what its argument ctx is"):
        checked(lambda row, tick, ctx: None)
    with pytest.raises(ConfigurationError, match=r"write on_wake\(row, time\)"):
        checked(lambda row, tick, ctx: None, on_wake=lambda row: None)
    with pytest.raises(ConfigurationError, match=r"write on_finish\(row\)"):
        checked(lambda row, tick: None, on_finish=lambda row, tick: None)

    def floats(row, tick, ctx):  # type: ignore[no-untyped-def]
        ctx.wake_at(tick.ts_recv / 2)

    with pytest.raises(ConfigurationError, match="takes whole nanoseconds"):
        CallerRun(1, checked(floats, on_wake=on_wake, cache=False))

    def asks_late(row, ctx):  # type: ignore[no-untyped-def]
        ctx.wake_at(ctx.time)

    def fine(row, tick, ctx):  # type: ignore[no-untyped-def]
        pass

    with pytest.raises(ConfigurationError, match="the run has ended"):
        CallerRun(1, checked(fine, on_wake=on_wake, on_finish=asks_late, cache=False))

    def missing(row, time):  # type: ignore[no-untyped-def]
        row.m += 1

    with pytest.raises(ConfigurationError, match="row has no field 'm'"):
        CallerRun(1, checked(fine, on_wake=missing, cache=False))


def test_what_only_a_timer_or_the_end_emits_is_no_argument_of_the_function_of_a_tick() -> None:
    pytest.importorskip("numba")

    def tell(row, time, emit):  # type: ignore[no-untyped-def]
        emit.seen(row.n)

    def tell_last(row, emit, params):  # type: ignore[no-untyped-def]
        emit.seen(row.n * params.factor)

    @handler(
        state={"n": "i8"}, params={"factor": "i8"}, outputs={"seen": {"n": "i8"}}, on_wake=tell, on_finish=tell_last
    )
    def counts(row, tick, ctx):  # type: ignore[no-untyped-def]
        row.n += 1
        if row.n == 1:
            ctx.wake_at(5)

    ticks = testing.feed([("A", 1, 1.0, 1), ("A", 2, 1.0, 1), ("A", 7, 1.0, 1)])
    for workers in (0, 1):
        result = replay(ticks, counts.with_params({"*": {"factor": 10}}), workers=workers)
        assert result.outputs["seen"]["n"].tolist() == [2, 30]
    with pytest.raises(ConfigurationError, match="outputs= is for its argument emit, which it does not have"):
        handler(state={"n": "i8"}, outputs={"seen": {"n": "i8"}}, on_finish=lambda row: None)(lambda row, tick: None)
