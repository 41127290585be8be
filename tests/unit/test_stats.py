"""Frozen statistics."""

from __future__ import annotations

import pytest
from engine_support import counting, ticks_for

from strand import Dispatcher

pytestmark = pytest.mark.python


def test_imbalance_is_the_busiest_worker_over_the_mean() -> None:
    with Dispatcher(4, counting, workers=2, cores=None) as d:
        assert d.statistics().imbalance == 0
        d.publish(ticks_for([0] * 10))
        d.drain()
        assert d.statistics().imbalance == 2.0
