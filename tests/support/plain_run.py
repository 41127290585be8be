"""Runs a built-in handler in one plain loop: no dispatcher, no threads, every tick alone, timers in between."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from strand import TICK, Handler
from strand.binding.books import Tapes
from strand.binding.memory import Space
from strand.handlers import NativeHandler

SUPPORT = Path(__file__).resolve().parent
CSRC = SUPPORT.parent.parent / "csrc"
TIMER = 2**64 - 1
AT_END = 2**64 - 2
BEYOND = 0xA5  # each byte that is no row's
#: Of an sd_emitted.
HEAD_BYTES = 32


@dataclass(frozen=True)
class Ran:
    """``rows`` by symbol; ``records`` with ``number``, ``sequence``, ``time`` and ``key`` of what emitted them."""

    rows: npt.NDArray[Any]
    records: npt.NDArray[Any]


@lru_cache(maxsize=1)
def _library() -> ctypes.CDLL:
    compiler = shutil.which(os.environ.get("CC", "cc"))
    assert compiler is not None, "a C compiler"
    with tempfile.TemporaryDirectory() as folder:
        built = Path(folder) / "plain_run.so"
        source = SUPPORT / "plain_run.c"
        subprocess.run(
            [compiler, "-O1", "-g", "-shared", "-fPIC", "-std=gnu11", f"-I{CSRC}", "-o", str(built), str(source)],
            check=True,
        )
        library = ctypes.CDLL(str(built))
    library.plain_run_ticks.restype = ctypes.c_int64
    return library


def _address(function: Any) -> int:
    from strand._core import ffi

    return 0 if function is None else int(ffi.cast("uintptr_t", function))


def plain_run(handler: Handler, ticks: npt.NDArray[Any], symbols: int, *, timers: bool = True) -> Ran:
    """Raises RuntimeError with the handler's message and its tick; AssertionError for a write beyond a row."""
    assert ticks.dtype == TICK
    assert isinstance(handler, NativeHandler)
    memory = (
        handler.function(Tapes(Space(), symbols)) if callable(handler.function) else handler
    )  # lives as long as this call
    function = memory.function
    (record,) = [np.dtype(dtype) for dtype in handler.outputs.values()] or [np.dtype([])]
    stride = -(-handler.state.itemsize // 64) * 64
    state = handler.state.itemsize
    rows = np.full((symbols + 8, stride), BEYOND, np.uint8)
    rows[:symbols, :state] = 0
    size = -(-(HEAD_BYTES + record.itemsize) // 8) * 8
    emitted = np.dtype(
        {
            "names": ["number", "sequence", "time", "key", *(record.names or ())],
            "formats": ["<u8", "<i8", "<u8", "<u4", *(record[name] for name in record.names or ())],
            "offsets": [0, 8, 16, 24, *(HEAD_BYTES + record.fields[name][1] for name in record.names or ())],
            "itemsize": size,
        }
    )
    out = np.zeros(1 << 18, emitted)
    ticks = np.ascontiguousarray(ticks)
    params = ctypes.create_string_buffer(function.params, len(function.params) + 1)
    message = ctypes.create_string_buffer(104)
    u64, at = ctypes.c_uint64, ctypes.c_void_p
    got = _library().plain_run_ticks(
        at(_address(function.pointer)), at(_address(function.wake)), at(_address(function.finish)), params,
        at(rows.ctypes.data), u64(stride), u64(symbols), at(ticks.ctypes.data), ctypes.c_int64(len(ticks)),
        ctypes.c_int(timers), at(out.ctypes.data), u64(record.itemsize), u64(len(out)), message,
    )  # fmt: skip
    if got < 0:
        raise RuntimeError(f"tick {-1 - got}: {message.value.decode()}")
    assert (rows[:symbols, state:] == BEYOND).all()
    assert (rows[symbols:] == BEYOND).all()
    return Ran(rows[:symbols, :state].copy().view(handler.state)[:, 0], out[:got])
