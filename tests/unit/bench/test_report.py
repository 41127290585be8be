"""Tables of benchmarks."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from strand.bench.report import print_route

pytestmark = pytest.mark.python


RESULT: dict[str, Any] = {
    "rounds": 5,
    "mticks_s": {"serial": 50.0, "static": 100.0, "static_lpt": 75.0, "strand": 125.0},
    "strand_queued": {"mticks_s": 25.0, "publish_ns": 11.26},
    "static_publish_ns": 3.04,
    "publish_ns": 13.0,
    "ticks": 5_000_000, "symbols": 8172, "skew": "calibrated", "hottest_share": 0.0216, "work": 100, "workers": 3,
    "strands": 64, "batch": 4096, "inline_share": 0.98,
    "machine": {"cpu": "a cpu", "cores": 2, "load_1m": 0.5},
}  # fmt: skip


def test_each_way_is_held_to_one_core() -> None:
    shown = io.StringIO()
    print_route(Console(file=shown, width=200), RESULT)
    lines = shown.getvalue().splitlines()
    cells = {
        line.split("│")[1].strip(): [cell.strip() for cell in line.split("│")[2:-1]] for line in lines if "│" in line
    }
    assert cells["one core, plain loop"] == ["50.0", "1.00x", ""]
    assert cells["static: symbol modulo workers"] == ["100.0", "2.00x", "3.0"]
    assert cells["static: largest first"] == ["75.0", "1.50x", ""]
    assert cells["strand"] == ["125.0", "2.50x", "13.0"]
    assert cells["strand, everything queued"] == ["25.0", "0.50x", "11.3"]
    assert "hottest 2.2%" in shown.getvalue()
    assert lines[-1] == "a cpu, 2 cores, load 0.5"
