"""A table of 2^24 tasks costs what is used of it."""

from __future__ import annotations

import ctypes
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from bad_input import SANITIZED

from strand import Aging, Dispatcher, Fair, Fifo, Levels
from strand.binding import CORE
from strand.binding.engine import Engine
from strand.binding.engine_words import RunByPython
from strand.binding.gate import Code
from strand.ticks import TICK

TASKS = 1_000_000
WORKERS = 2
#: Of a task: its entry, its place on the stack, and what the policy that keeps most has of it, with some for pages.
BYTES = 320


def resident_bytes() -> int:
    """What of this process lies in memory."""
    for line in Path("/proc/self/smaps_rollup").read_text().splitlines():
        if line.startswith("Rss:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no Rss")


def shared_bytes() -> int:
    """What all attachable spaces of this process take."""
    files = {fd.stat().st_ino: fd.stat() for fd in Path("/proc/self/fd").iterdir() if is_space(fd)}
    return sum(512 * file.st_blocks for file in files.values())


def is_space(fd: Path) -> bool:
    """Whether a descriptor is that of a space."""
    try:
        return str(fd.readlink()).startswith("/memfd:strand")
    except FileNotFoundError:
        return False


def engine_of(policy: Any, *, attachable: bool = False) -> Engine:
    """One with a table of 2^24 tasks."""
    with Dispatcher(1, "count", workers=WORKERS, cores=None, policy=policy) as d:
        config = d._engine.config
    engine = Engine(replace(config, n_tasks=1 << 24, attachable=attachable))
    engine.set_handlers([RunByPython()], [()])
    return engine


@pytest.mark.parametrize("attachable", [False, True])
@pytest.mark.parametrize("policy", [Fifo(), Levels(), Aging(), Fair()], ids=lambda p: type(p).__name__)
def test_a_table_of_2_to_24_tasks_takes_no_memory(policy: Any, attachable: bool) -> None:
    first = engine_of(policy, attachable=attachable)  # what all engines share is there then
    before, shared = resident_bytes(), shared_bytes()
    engine = engine_of(policy, attachable=attachable)
    assert SANITIZED or resident_bytes() - before < 16 << 20
    assert (shared_bytes() > shared) == attachable
    assert shared_bytes() - shared < 16 << 20
    for made in (first, engine):
        specs = made.tasks.specs(1)
        specs[0].tag = 1
        assert made.tasks.submit(specs, 1) == 1


@pytest.mark.parametrize("policy", [Fifo(), Levels(), Aging(), Fair()], ids=lambda p: type(p).__name__)
def test_a_million_tasks_wait_and_all_of_them_run(policy: Any, c_handlers: Path) -> None:
    count = ctypes.CDLL(str(c_handlers)).count_task
    ffi = CORE.ffi
    ran = ffi.new("uint64_t *")
    engine = engine_of(policy)
    tasks = engine.tasks
    specs = tasks.specs(TASKS // 20)
    for spec in specs:
        spec.fn = ffi.cast("sd_task_fn", ctypes.cast(count, ctypes.c_void_p).value)
        spec.argument = ran
    before = resident_bytes()
    assert sum(tasks.submit(specs, len(specs)) for _ in range(20)) == TASKS
    assert SANITIZED or resident_bytes() - before < BYTES * TASKS
    engine.verify()

    threads = [threading.Thread(target=engine.batches(i, TICK).more, daemon=True) for i in range(WORKERS)]
    for thread in threads:
        thread.start()
    while engine.drain(None, 10_000_000) == Code.AGAIN:
        assert any(thread.is_alive() for thread in threads)
    assert ran[0] == TASKS
    engine.verify()
    # All places are free again, and as many tasks run a second time.
    assert tasks.submit(specs, len(specs)) == len(specs)
    engine.stop()
    for thread in threads:
        thread.join(60)
    tasks.stop()
    engine.verify()
    assert tasks.totals(on_strands=False).ended == TASKS + len(specs)
