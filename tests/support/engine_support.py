"""Common parts of tests of the dispatcher: streams of ticks, plain loops to compare with, and a C compiler."""

from __future__ import annotations

import contextlib
import gc
import os
import shutil
import subprocess
import textwrap
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from warm_python import run_warm

from strand import Dispatcher, Handler, batch_handler, native
from strand.ticks import zeros

SUPPORT = Path(__file__).resolve().parent
CSRC = SUPPORT.parent.parent / "csrc"

ORDER_ROW = np.dtype(
    [("busy", "<u4"), ("overlaps", "<u4"), ("disorder", "<u8"), ("ticks", "<u8"), ("last", "<u8", (8,))]
)
PAIR_ROW = np.dtype([("ticks", "<u8"), ("total", "<u8")])
RELAY_ROW = np.dtype([("ticks", "<u8"), ("refused", "<u8")])
BURST_ROW = np.dtype([("ticks", "<u8"), ("code", "<i8"), ("accepted", "<i8")])
COUNT_ROW = np.dtype([("ticks", "<u8")])


@contextmanager
def beside(*calls: Callable[[], object], pause_s: float = 0) -> Iterator[None]:
    """Calls each function again and again, in a thread of its own, until the block ends."""
    over = threading.Event()

    def again(call: Callable[[], object]) -> None:
        while not over.wait(pause_s):
            call()

    threads = [threading.Thread(target=again, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join()


@batch_handler(state=COUNT_ROW)
def counting(symbol: str, ticks: Any, row: Any) -> None:
    row["ticks"] += len(ticks)


def compile_handlers(built: Path) -> None:
    """Builds c_handlers.c into a shared object, as a user's handlers are. Raises FileNotFoundError."""
    _compile("c_handlers.c", built)


def compile_tasks(built: Path) -> None:
    """The same for the tasks of c_tasks.c."""
    _compile("c_tasks.c", built)


def _compile(name: str, built: Path) -> None:
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if compiler is None:
        raise FileNotFoundError("a C compiler")
    source = SUPPORT / name
    subprocess.run(
        [compiler, "-O1", "-g", "-shared", "-fPIC", "-std=gnu11", f"-I{CSRC}", "-o", str(built), str(source)],
        check=True,
    )


def ticks_for(keys: npt.ArrayLike, *, publisher: int = 0, kind: int = 0) -> npt.NDArray[Any]:
    """Ticks of the symbols ``keys``, in that order; ``sequence`` counts each symbol's from 1, ``size`` all from 0."""
    keys = np.asarray(keys, dtype=np.int64)
    ticks = zeros(len(keys))
    ticks["instrument_id"] = keys
    ticks["sequence"] = numbered(keys)
    ticks["size"] = np.arange(len(keys)) % 2**32
    ticks["price"] = (np.arange(len(keys)) * 2654435761) % 1_000_003
    ticks["publisher_id"] = publisher
    ticks["ts_recv"] = np.arange(len(keys))
    ticks["action"] = b"A"
    ticks["kind"] = kind
    return ticks


def numbered(keys: npt.NDArray[np.int64]) -> npt.NDArray[np.uint64]:
    """Each key's place among the equal ones, from 1."""
    order = np.argsort(keys, kind="stable")
    ranked = keys[order]
    starts = np.flatnonzero(np.r_[True, ranked[1:] != ranked[:-1]]) if len(keys) else np.empty(0, np.int64)
    lengths = np.diff(np.r_[starts, len(keys)])
    places = np.empty(len(keys), np.uint64)
    places[order] = np.arange(len(keys)) - np.repeat(starts, lengths) + 1
    return places


def spin_rows(ticks: npt.NDArray[Any], symbols: int, work: int = 0) -> npt.NDArray[Any]:
    """Rows that the handler "spin" leaves, by a plain loop."""
    rows = np.zeros(symbols, [("ticks", "<u8"), ("value", "<u8"), ("last_sequence", "<u8"), ("broken", "<u8")])
    with np.errstate(over="ignore"):
        for tick in ticks:
            row = rows[tick["instrument_id"]]
            row["broken"] += tick["sequence"] != row["last_sequence"] + np.uint64(1)
            row["last_sequence"] = tick["sequence"]
            row["ticks"] += np.uint64(1)
            x = np.uint64(row["value"]) + np.uint64(int(tick["price"]) % 2**64)
            for _ in range(work):
                x = x * np.uint64(6364136223846793005) + np.uint64(1442695040888963407)
            row["value"] = x
    return rows


def balanced(dispatcher: Dispatcher) -> None:
    """The books at rest, as counted by strand and in all."""
    s = dispatcher.statistics()
    assert s.accepted == s.handled + sum(s.dropped.values()) + s.pending
    assert 0 <= s.pending < 2**62
    dispatcher.verify()


def open_files() -> list[str]:
    """The files that this process has open."""
    found = []
    for each in list(Path("/proc/self/fd").iterdir()):
        with contextlib.suppress(FileNotFoundError):  # the look's own, and what a thread closes meanwhile
            found.append(str(each.readlink()))
    return sorted(found)


def system_threads() -> int:
    """The threads of this process as the system counts them. Python counts a new one only once that runs, which may be
    after a test that looks for those that were left."""
    return len(list(Path("/proc/self/task").iterdir()))


def wait_for_threads(most: int) -> None:
    """Waits until this process has no more threads than that, and the garbage collector has been there."""
    wait_until(lambda: gc.collect() >= 0 and system_threads() <= most)


def wait_until(true: Callable[[], bool], seconds: float = 60.0) -> None:
    """Waits for something another thread is about to do; the limit only keeps a broken build from hanging."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.001)


def in_threads(function: Callable[..., object], *arguments: Iterable[Any]) -> None:
    """Calls a function as ``map`` does, each call in a thread of its own, and waits for all of them."""
    threads = [threading.Thread(target=function, args=given) for given in zip(*arguments, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def worker_threads() -> list[threading.Thread]:
    return [t for t in threading.enumerate() if t.name.startswith("strand-worker")]


def run_python(
    code: str, *arguments: str, imported: tuple[str, ...] = (), timeout: float = 60
) -> subprocess.CompletedProcess[str]:
    """Runs a program in a process of its own, as ``run_warm`` does."""
    return run_warm("-c", textwrap.dedent(code), *arguments, imported=imported, timeout=timeout)


def subsequence(part: Sequence[int], whole: Sequence[int]) -> bool:
    """Tells whether ``part`` is ``whole`` with some left out."""
    rest = iter(whole)
    return all(any(x == y for y in rest) for x in part)


def native_gate(library: Path) -> tuple[Handler, npt.NDArray[np.uint64]]:
    """A C handler that stands still at ticks whose action is W until the number it comes with is set to 1."""
    return _native_with(library, "on_gate", [0])


def native_halt(library: Path, at: int, **options: Any) -> tuple[Handler, npt.NDArray[np.uint64]]:
    """A C handler that counts ticks and adds up sizes. At a symbol's tick ``at`` it sets the second of the numbers it
    comes with, and stands still until the third one is set to 1."""
    return _native_with(library, "on_halt", [at, 0, 0], **options)


def _native_with(
    library: Path, name: str, numbers: list[int], **options: Any
) -> tuple[Handler, npt.NDArray[np.uint64]]:
    """A C handler that has the address of numbers, and these."""
    shared = np.array(numbers, np.uint64)
    params = int(shared.ctypes.data).to_bytes(8, "little")
    return native(library, name, state=PAIR_ROW, params=params, **options), shared
