"""resource_limits as a guard."""

from __future__ import annotations

from typing import Any

import pytest

from strand.config.limits import guard_options, usual_limits
from strand.config.tables import ResourceLimits
from strand.dispatch.guard import Guard

pytestmark = pytest.mark.python


@pytest.mark.parametrize(
    ("limits", "options"),
    [
        ({}, {}),
        ({"cpu_threshold": 0.5}, {"cpu": 0.5, "memory": None, "io_pressure": None}),
        ({"memory_threshold": 0.5}, {"cpu": None, "memory": 0.5, "io_pressure": None}),
        ({"io_queue_threshold": 7}, {"cpu": None, "memory": None, "io_queue": 7}),
    ],
)
def test_a_guard_watches_what_has_a_limit(limits: dict[str, Any], options: dict[str, Any]) -> None:
    assert guard_options(ResourceLimits(**limits)) == options
    if options:
        Guard(**options)  # which takes them


def test_the_usual_limits_are_the_guards_own() -> None:
    limits = dict(usual_limits())
    assert limits.keys() == set(ResourceLimits.__struct_fields__)
    assert Guard(**guard_options(ResourceLimits(**limits))) == Guard()
