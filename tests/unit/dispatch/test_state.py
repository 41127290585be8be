"""Why a run has stopped."""

from __future__ import annotations

from typing import Any

import pytest
from engine_support import ticks_for

from strand import Dispatcher, batch_handler
from strand.dispatch.state import DROPPED, FORKED
from strand.errors import EngineError, HandlerError, StoppedError

pytestmark = pytest.mark.python


@batch_handler(state=[("n", "i8")])
def fails(symbol: str, ticks: Any, row: Any) -> None:
    raise ValueError("no")


@pytest.mark.parametrize(("mark", "said"), [("forked", FORKED), ("dropped", DROPPED), (None, "has been stopped")])
def test_a_run_that_did_not_fail_says_who_ended_it(mark: str | None, said: str) -> None:
    dispatcher = Dispatcher(["A"], "count", workers=1, cores=None)
    state = dispatcher._state
    if mark is not None:
        setattr(state, mark, True)
    error = state.stopped_error()
    assert type(error) is StoppedError
    assert said in str(error)


def test_what_ended_a_worker_is_the_cause() -> None:
    state = Dispatcher(["A"], "count", workers=1, cores=None)._state
    state.broken = OSError("gone")
    error = state.stopped_error()
    assert type(error) is EngineError
    assert str(error) == "a worker ended by OSError: gone"
    assert error.__cause__ is state.broken


def test_a_handlers_failure_comes_before_all_others() -> None:
    dispatcher = Dispatcher(["A"], fails, workers=1, cores=None)
    with pytest.raises(HandlerError), dispatcher:
        dispatcher.publish(ticks_for([0]))
        dispatcher.drain()
    state = dispatcher._state
    state.broken = OSError("gone")
    assert state.stopped_error() is not None
    assert type(state.stopped_error()) is HandlerError
    assert len(state.failures) == 1
