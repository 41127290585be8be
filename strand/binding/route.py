"""The baselines of csrc/lab/bench: routing without strands, the probe that measures latency, and the busy neighbour."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from strand.binding import ffi, lib
from strand.binding.engine import Engine
from strand.binding.gate import checked, made
from strand.binding.memory import owned
from strand.binding.native import NativeFunction
from strand.errors import ConfigurationError

__all__ = ["MAX_WORKERS", "RING_TICKS", "Neighbour", "Probe", "RunResult", "publish_paced", "serial", "static"]

#: Ticks in a ring, and the most workers there can be.
RING_TICKS: Final[int] = lib.SD_BENCH_RING
MAX_WORKERS: Final[int] = lib.SD_BENCH_MAX_WORKERS


@dataclass(frozen=True, slots=True)
class RunResult:
    """``seconds`` from the first tick published to the last one handled; ``publish_ns`` a tick, waiting excluded."""

    seconds: float
    publish_ns: float


@dataclass(slots=True)
class Probe:
    """A handler around ``inner`` that books, a tick, the time from when it was due to when its handler was done.

    ``participants``: threads that may run it, publishers included. ``group_of``: of each symbol, shape (symbols,);
    ``counts`` has the ticks of each group. None: all symbols are of group 0. Good for one run.
    """

    inner: NativeFunction
    participants: int
    group_of: npt.NDArray[np.uint8] | None = None
    function: NativeFunction = field(init=False)
    _probe: Any = field(init=False, repr=False)

    def __post_init__(self) -> None:
        params = ffi.new("char[]", self.inner.params) if self.inner.params else ffi.NULL
        groups = ffi.NULL if self.group_of is None else ffi.from_buffer("uint8_t[]", self.group_of)
        probe = made(
            lib.sd_bench_probe_create(self.inner.pointer, params, self.participants, groups, self.groups),
            f"no memory for the histograms of {self.participants} threads",
        )
        self._probe = owned(probe, lib.sd_bench_probe_destroy)
        pointer = ffi.addressof(lib, "sd_bench_handle_probed")
        address = struct.pack("P", int(ffi.cast("uintptr_t", self._probe)))
        self.function = NativeFunction(
            pointer, address, self.inner.never_publishes, keep=(self._probe, params, groups, self.inner)
        )

    @property
    def groups(self) -> int:
        """Number of groups."""
        return 1 if self.group_of is None else int(self.group_of.max(initial=0)) + 1

    def counts(self, group: int = 0) -> npt.NDArray[np.uint64]:
        """Ticks of a group by bucket, as ``engine.histogram_floors_ns`` has the buckets. After the run only."""
        if not 0 <= group < self.groups:
            raise ValueError(f"group {group} is not one of the {self.groups}")
        out = np.zeros(lib.SD_BUCKETS, np.uint64)
        lib.sd_bench_probe_sum(self._probe, group, ffi.from_buffer("uint64_t[]", out, require_writable=True))
        return out


def _run(
    call: Any,
    function: NativeFunction,
    rows: npt.NDArray[Any],
    ticks: npt.NDArray[Any],
    probe: Probe | None,
    **more: Any,
) -> RunResult:
    if not (rows.flags.c_contiguous and ticks.flags.c_contiguous and rows.flags.writeable):
        raise ValueError("rows and ticks must be contiguous, and rows must be writable")
    params = ffi.new("char[]", function.params) if function.params else ffi.NULL
    run: Any = ffi.new(
        "sd_bench_run *",
        {
            "fn": ffi.cast("sd_handler_fn", function.pointer),
            "params": ffi.cast("void *", params),
            "rows": ffi.from_buffer(rows),
            "row_stride": rows.itemsize,
            "n_rows": len(rows),
            "ticks": ffi.from_buffer("sd_tick[]", ticks),
            "n": len(ticks),
            "probe": ffi.NULL if probe is None else probe._probe,
            **more,
        },
    )
    checked(
        call(run),
        "cores: a worker cannot be pinned to the core it was given",
        ConfigurationError,
        handler="a benchmark's handler did not take all it was given",
        no_memory="no memory, or no threads, for the rings",
    )
    return RunResult(float(run.seconds), float(run.publish_ns))


def serial(
    function: NativeFunction, rows: npt.NDArray[Any], ticks: npt.NDArray[Any], probe: Probe | None = None
) -> RunResult:
    """The handler over the whole tape in the calling thread. ``rows`` is zeroed, one record a symbol; keys are below
    its length. With a probe, ``function`` is the probe's, and ticks are handled when they are due."""
    return _run(lib.sd_bench_serial, function, rows, ticks, probe)


def static(
    function: NativeFunction,
    rows: npt.NDArray[Any],
    ticks: npt.NDArray[Any],
    *,
    home: npt.NDArray[np.uint8],
    cores: Sequence[int | None],
    probe: Probe | None = None,
) -> RunResult:
    """A ring a worker, published to by the calling thread.

    ``home`` has shape (symbols,): each symbol's worker. ``cores``: one a worker, None leaves it unpinned.
    Raises ConfigurationError for a core that cannot be used.
    """
    if not 1 <= len(cores) <= MAX_WORKERS:
        raise ConfigurationError(f"workers: {len(cores)} is not from 1 to {MAX_WORKERS}")
    if len(home) != len(rows) or (len(home) and int(home.max()) >= len(cores)):
        raise ValueError("every symbol must belong to one of the workers")
    pins = ffi.new("int32_t[]", [-1 if core is None else core for core in cores])
    homes = np.ascontiguousarray(home, np.uint8)
    home_at = ffi.from_buffer("uint8_t[]", homes)
    return _run(lib.sd_bench_static, function, rows, ticks, probe, home=home_at, cores=pins, workers=len(cores))


def publish_paced(engine: Engine, participant: int, ticks: npt.NDArray[Any], batch_ticks: int, probe: Probe) -> int:
    """Publishes each tick when it is due, what is due by then at a time; returns the core's code."""
    at = ffi.from_buffer("sd_tick[]", ticks)
    return int(lib.sd_bench_publish_paced(engine._d, participant, at, len(ticks), batch_ticks, probe._probe))


class Neighbour:
    """A thread that keeps a core busy while the context is entered, and for ``max_s`` at most."""

    def __init__(self, core: int, max_s: float = 60.0) -> None:
        self._core, self._max_ns = core, int(max_s * 1e9)
        self._neighbour: Any = None

    def __enter__(self) -> Neighbour:
        self._neighbour = made(
            lib.sd_bench_neighbour_start(self._core, self._max_ns), "no thread for the busy neighbour"
        )
        return self

    def __exit__(self, *_: object) -> None:
        lib.sd_bench_neighbour_stop(self._neighbour)
        self._neighbour = None
