"""The engine under the seeded scheduler (csrc/seeded): a second module in C, with structures of its own."""

from __future__ import annotations

from typing import Final

from strand._scheduled import ffi, lib
from strand.binding import Core
from strand.binding.engine import Engine
from strand.binding.engine_words import EngineConfig

__all__ = ["MAX_WORKERS", "ScheduledEngine"]

MAX_WORKERS: Final[int] = lib.SD_SEEDED_WORKERS


class ScheduledEngine(Engine):
    """An engine whose workers are fibers. They go on while a call is under way, all on the thread that calls.

    Between ``start_workers`` and ``end_workers`` there may be one in a process.
    """

    def __init__(self, config: EngineConfig) -> None:
        super().__init__(config, Core(ffi, lib))

    def start_workers(self, seed: int) -> None:
        """Instead of starting threads. After the handlers are set."""
        lib.sd_seeded_start(self._d, seed % 2**64)

    def pause(self) -> int:
        """Lets the workers go on for a while. Returns how many have not ended."""
        return int(lib.sd_seeded_pause())

    def waiting(self) -> int | None:
        """A worker that has something for Python, drawn from those that do: ``batches`` says what; None: none has."""
        found = int(lib.sd_seeded_waiting())
        return None if found < 0 else found

    def go_on(self, worker: int, *, ended: bool) -> None:
        """Python has run the batch of that worker. ``ended``: the worker ends, and what is left stays pending."""
        lib.sd_seeded_go_on(worker, ended)

    def now_ns(self) -> int:
        """The time, in ns: three for each step, and what was waited for."""
        return int(lib.sd_seeded_now())

    def take(self, ns: int) -> bool:
        """The handler that runs now takes so long: its worker is busy, and the others go on. False: none runs."""
        return bool(lib.sd_seeded_take(ns))

    def pass_until(self, time_ns: int) -> None:
        """Lets the workers go on until that time, or until one has something for Python."""
        lib.sd_seeded_pass(time_ns)

    def end_workers(self) -> None:
        """Stops the seeded scheduler after all workers have ended."""
        lib.sd_seeded_stop()
