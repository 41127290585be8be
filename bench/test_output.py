"""Cost of emitting one record per tick: a handler that does beside the same one that does not, turn by turn.

pytest bench/test_output.py --benchmark-only

Records of 16 bytes (36 with their three columns) are merged and iterated over while the run goes on. ``extra_info`` has
the ns a tick of both and the median of their differences, publishing, handling, merging and handing out included.
"""

from __future__ import annotations

import os
import subprocess
import threading
import time
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

from strand import Dispatcher, Handler, native
from strand.feeds.synthetic import route_stream

HERE: Final = Path(__file__).resolve().parent
SYMBOLS: Final = 1000
TICKS: Final = 4_000_000
BATCH: Final = 1 << 18
ROUNDS: Final = 9
ROW: Final = [("ticks", "<u8"), ("volume", "<u8")]
RECORD: Final = [("price", "<i8"), ("size", "<u4"), ("volume", "<u4")]


@pytest.fixture(scope="module")
def handlers(tmp_path_factory: pytest.TempPathFactory) -> tuple[Handler, Handler]:
    built = tmp_path_factory.mktemp("handlers") / "emit_handlers.so"
    command = [os.environ.get("CC", "cc"), "-O2", "-shared", "-fPIC", "-std=gnu11", f"-I{HERE.parent / 'csrc'}"]
    subprocess.run([*command, "-o", str(built), str(HERE / "emit_handlers.c")], check=True)
    return (
        native(built, "quiet", state=ROW, never_publishes=True),
        native(built, "emitting", state=ROW, never_publishes=True, outputs={"records": RECORD}),
    )


def run(handler: Handler, ticks: Any, workers: int, publisher_drains: bool) -> float:
    """Seconds from the first publish until the last record has been handed out."""
    d = Dispatcher(SYMBOLS, handler, workers=workers, publisher_drains=publisher_drains)
    d.strand_of(0)
    taken = [0]

    def take() -> None:
        for batch in d.outputs["records"]:
            taken[0] += len(batch)

    reader = threading.Thread(target=take)
    with d:
        if handler.outputs:
            reader.start()
        begun = time.perf_counter()
        for start in range(0, len(ticks), BATCH):
            d.publish(ticks[start : start + BATCH])
        d.drain()
        while handler.outputs and taken[0] < len(ticks):
            time.sleep(0.0001)
        return time.perf_counter() - begun


@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.parametrize("publisher_drains", [True, False], ids=["either-way", "queued"])
def test_emitting_one_record_a_tick(
    benchmark: Any, handlers: tuple[Handler, Handler], workers: int, publisher_drains: bool
) -> None:
    quiet, emitting = handlers
    ticks = route_stream(TICKS, SYMBOLS)
    costs: list[tuple[float, float]] = []

    def turn() -> None:
        costs.append((run(quiet, ticks, workers, publisher_drains), run(emitting, ticks, workers, publisher_drains)))

    benchmark.pedantic(turn, rounds=ROUNDS, warmup_rounds=1)
    ns = np.array(costs[1:] or costs) / TICKS * 1e9
    benchmark.extra_info["quiet_ns_per_tick"] = round(float(np.median(ns[:, 0])), 1)
    benchmark.extra_info["emitting_ns_per_tick"] = round(float(np.median(ns[:, 1])), 1)
    benchmark.extra_info["difference_ns_per_tick"] = round(float(np.median(ns[:, 1] - ns[:, 0])), 1)
