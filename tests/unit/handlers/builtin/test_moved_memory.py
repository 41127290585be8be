"""The memory of books, depth and tapes holds no address: a copy of all of it elsewhere is as good as the original."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pytest
from engine_support import ticks_for

SUPPORT = Path(__file__).resolve().parents[3] / "support"
CSRC = SUPPORT.parent.parent / "csrc"
#: tests/support/moved_memory.c has the same.
KINDS: Final = {"book": 0, "publishers": 1, "depth": 2, "tape": 3, "tape by event": 4}
SOURCES: Final = (
    "book", "book_events", "book_levels", "book_questions", "book_store", "book_table", "deep", "depth", "depth_side",
    "publishers", "tape",
)  # fmt: skip
ORDER, QUOTE = 1, 3
EVENT_LAST = 0x80
CENT = 10_000_000
SYMBOLS = 4
ROOM = 1 << 24

Ticks = npt.NDArray[Any]


@pytest.fixture(scope="module")
def moved(once: Any) -> Any:
    compiler = shutil.which(os.environ.get("CC", "cc"))
    assert compiler is not None, "a C compiler"
    sources = [
        SUPPORT / "moved_memory.c",
        *(CSRC / "handlers" / f"{name}.c" for name in SOURCES),
        CSRC / "memory/pool.c",
        CSRC / "memory/space.c",
    ]
    options = ["-O2", "-shared", "-fPIC", "-std=gnu11", f"-I{CSRC}"]
    path = once(
        "moved.so", lambda to: subprocess.run([compiler, *options, "-o", to, *sources, "-lpthread"], check=True)
    )
    function = ctypes.CDLL(str(path)).moved_memory
    function.restype = ctypes.c_int64
    return function


def answers(moved: Any, kind: str, ticks: Ticks, *, moves: bool) -> bytes:
    ticks = np.ascontiguousarray(ticks)
    said = ctypes.create_string_buffer(ROOM)
    at = ctypes.c_void_p(ticks.ctypes.data)
    n = moved(
        KINDS[kind], int(moves), ctypes.c_uint64(SYMBOLS), at, ctypes.c_int64(len(ticks)), said, ctypes.c_uint64(ROOM)
    )
    assert n >= 0, {-1: "a tick was not handled", -2: "an address lies in the memory", -3: "more answers than room"}[n]
    return said.raw[:n]


def order_ticks(seed: int, n: int) -> Ticks:
    """Orders that come, change and go, half of them of symbol 0: on more prices than a ladder holds, some of 2**32 and
    more, of six publishers."""
    rng = np.random.default_rng(seed)
    ticks = ticks_for(np.maximum(rng.integers(-SYMBOLS, SYMBOLS, n), 0), kind=ORDER)
    ticks["action"] = rng.choice(np.array([b"A", b"C", b"F", b"M", b"R"]), n, p=[0.7, 0.1, 0.05, 0.1499, 0.0001])
    ticks["side"] = rng.choice(np.array([b"A", b"B"]), n)
    ticks["order_id"] = rng.integers(1, n, n)
    ticks["ref_id"] = np.where(rng.random(n) < 0.5, rng.integers(1, n, n), 0)
    ticks["size"] = np.where(rng.random(n) < 0.05, 1 << 40, rng.integers(0, 1000, n))
    ticks["price"] = CENT * np.where(rng.random(n) < 0.5, rng.integers(1, 20_000, n), rng.integers(9_990, 10_010, n))
    ticks["publisher_id"] = rng.integers(1, 7, n)
    ticks["flags"] = np.where(rng.random(n) < 0.5, EVENT_LAST, 0)
    return ticks


def level_ticks(seed: int, n: int) -> Ticks:
    rng = np.random.default_rng(seed)
    ticks = ticks_for(np.maximum(rng.integers(-SYMBOLS, SYMBOLS, n), 0), kind=QUOTE)
    ticks["action"] = b"M"
    ticks["side"] = rng.choice(np.array([b"A", b"B"]), n)
    ticks["size"] = np.maximum(rng.integers(-300, 1000, n), 0)
    ticks["price"] = CENT * rng.integers(1, 20_000, n)
    # Many wait for the end of their event.
    ticks["flags"] = np.where(rng.random(n) < 0.1, EVENT_LAST, 0)
    return ticks


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", KINDS)
def test_memory_that_lies_elsewhere_answers_and_goes_on_as_it_would_have(moved: Any, kind: str, seed: int) -> None:
    ticks = level_ticks(seed, 30_000) if kind == "depth" else order_ticks(seed, 30_000)
    if kind in ("tape", "book"):
        ticks["flags"] = 0
    still = answers(moved, kind, ticks, moves=False)
    assert len(still) > 100_000
    assert answers(moved, kind, ticks, moves=True) == still
