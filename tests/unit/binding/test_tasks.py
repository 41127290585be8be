"""Free tasks, as the binding submits them. A dispatcher's workers end those of Python whose tags they do not know."""

from __future__ import annotations

import pytest

from strand import Dispatcher, Fifo, Levels
from strand.binding.tasks import TaskTotals
from strand.errors import ConfigurationError, StoppedError


def test_free_tasks_end_once_each_and_drain_waits_for_them() -> None:
    with Dispatcher(2, "count", workers=2, cores=None) as d:
        tasks = d._engine.tasks
        specs = tasks.specs(300)
        for i, spec in enumerate(specs):
            spec.tag = 1_000_000 + i
        assert tasks.submit(specs, 300) == 300
        assert d.drain(timeout_s=30)
        assert tasks.totals(on_strands=False) == TaskTotals(300, 300, 0, 0, 0)
        assert len({int(spec.handle) for spec in specs}) == 300
        assert not any(tasks.give_up(int(spec.handle)) for spec in specs)
        d._engine.verify()


def test_a_priority_that_the_policy_has_not_is_refused_and_nothing_is_submitted() -> None:
    for policy, priority in ((Levels(), 5), (Fifo(), 0)):
        with Dispatcher(1, "count", workers=1, cores=None, policy=policy) as d:
            tasks = d._engine.tasks
            specs = tasks.specs(2)
            specs[0].tag, specs[1].tag, specs[1].priority = 1, 2, priority
            with pytest.raises(ConfigurationError, match="priority"):
                tasks.submit(specs, 2)
            assert tasks.totals(on_strands=False).submitted == 0


def test_after_a_stop_no_task_is_accepted() -> None:
    with Dispatcher(1, "count", workers=1, cores=None) as d:
        tasks = d._engine.tasks
    specs = tasks.specs(1)
    specs[0].tag = 1
    with pytest.raises(StoppedError):
        tasks.submit(specs, 1)
    with pytest.raises(StoppedError):
        tasks.enqueue(0, 1)
