"""The options of a run, by name and type."""

from __future__ import annotations

import pytest
from typed_calls import kinds, named

import strand
from strand.caller.run import CallerRun
from strand.dispatch.configuration import QueueOptions, RunOptions

pytestmark = pytest.mark.python


def test_the_options_of_a_run_are_those_of_the_dispatcher_and_have_its_types() -> None:
    own = {"handlers", "out", "feed", "load", "dtype", "key", "columns", "column_options"}
    assert {n: kind for n, kind in named(strand.Dispatcher).items() if n not in own} == kinds(RunOptions)
    of_a_loop = {n: kind for n, kind in named(CallerRun).items() if n != "in_order"}  # which users do not give
    assert of_a_loop == {n: kind for n, kind in named(strand.Dispatcher).items() if n != "load"}
    assert kinds(QueueOptions).items() <= kinds(RunOptions).items()
