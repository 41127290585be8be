"""The options of a replay, by name and type."""

from __future__ import annotations

import pytest
from typed_calls import kinds, named, parameters

import strand
from strand.dispatch.options import RunOptions
from strand.replaying.options import ReplayOptions

pytestmark = pytest.mark.python


def test_the_options_of_what_is_called_like_replay_are_those_of_replay() -> None:
    assert {n: kind for n, kind in named(strand.replay).items() if n != "handlers"} == kinds(ReplayOptions)
    for called in (strand.testing.reference, strand.testing.seeded, strand.testing.check_seeds):
        assert kinds(ReplayOptions).items() <= named(called).items()
    own = {name: one.default for name, one in parameters(strand.Dispatcher).items() if name in kinds(RunOptions)}
    assert own.items() <= {name: one.default for name, one in parameters(strand.replay).items()}.items()
