"""Latencies of single ticks."""

from __future__ import annotations

import pytest
from bench_command import printed

pytestmark = pytest.mark.python


def test_latency_of_single_ticks_is_measured_spinning_and_parked(two_cores: None) -> None:
    found = printed("latency", "--spinning", "300", "--parked", "20")
    spinning, parked = found["latency"]
    assert (spinning["idle"], spinning["ticks"], parked["idle"], parked["ticks"]) == ("spin", 300, "park", 20)
    for line in found["latency"]:
        assert 0 < line["p50_ns"] <= line["p99_ns"] <= line["p999_ns"] <= line["max_ns"]
    assert parked["parks"] >= 20  # it slept before each of them
    assert parked["quiet_cpu_share"] < 0.01 < spinning["quiet_cpu_share"]
