"""This machine and this installation: cores, description, version, headers."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from strand.errors import DISTRIBUTION, ConfigurationError


class Cores(NamedTuple):
    """The publisher's core and each worker's; None where nothing is pinned."""

    publisher: int | None
    workers: tuple[int | None, ...]

    @property
    def pinned_workers(self) -> list[int] | None:
        """Cores of the workers, as the dispatcher takes them."""
        found = [core for core in self.workers if core is not None]
        return found if len(found) == len(self.workers) else None


def choose_cores(workers: int, cores: Sequence[int] | None = None) -> Cores:
    """Chooses a core per thread, the publisher's first: of ``cores``, or of all this process may use.

    With fewer cores than threads nothing is pinned, so that no way of routing gains by where its threads happen to lie.
    Raises ConfigurationError for cores that cannot be used.
    """
    allowed = sorted(os.sched_getaffinity(0))
    chosen = allowed if cores is None else list(cores)
    missing = sorted(set(chosen) - set(allowed))
    if missing:
        raise ConfigurationError("cores", f"{missing} cannot be used; this process may use {allowed}")
    if len(set(chosen)) < workers + 1:
        if cores is not None:
            raise ConfigurationError(
                "cores", f"a publisher and {workers} workers need {workers + 1} cores, not {chosen}"
            )
        return Cores(None, (None,) * workers)
    return Cores(chosen[0], tuple(chosen[1 : workers + 1]))


@contextmanager
def pinned(core: int | None) -> Iterator[None]:
    """Pins the calling thread while entered."""
    before = os.sched_getaffinity(0)
    if core is not None:
        os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def describe() -> dict[str, Any]:
    """Description of the machine, which every figure should be shown with."""
    return {
        "cpu": _cpu_model(),
        "cores": len(os.sched_getaffinity(0)),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "load_1m": round(os.getloadavg()[0], 2),
    }


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8", "replace").splitlines()
    except OSError:
        lines = []
    for line in lines:
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return platform.machine()


@cache
def strand_version() -> str:
    """The version of Strand that is installed."""
    from importlib.metadata import version  # of which no run needs what it imports, the package email among it

    return version(DISTRIBUTION)


#: Installed headers: the handler's contract, the tick, result codes, and the row of order books for chains.
HEADERS: Final = (
    "sd_handler.h", "sd_task.h", "sd_tick.h", "sd_error.h", "books/book.h", "books/book_questions.h",
    "books/book_row.h", "books/trade.h",
)  # fmt: skip


def get_include() -> str:
    """The path of the folder with ``sd_handler.h``, for the compiler's ``-I``."""
    here = Path(__file__).resolve().parent
    installed = here / "include"
    # In a checkout they are where they are written.
    return str(installed if installed.is_dir() else here.parent / "csrc")
