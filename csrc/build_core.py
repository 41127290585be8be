"""Builds the two modules in C, each declared to cffi by the .cdef files beside its sources.

``strand._core`` is every C file under csrc/ but those of csrc/seeded. ``strand._scheduled``, for ``strand.testing``, is
the engine's rooms once more, under the seeded scheduler of that room.

Run by setuptools (``cffi_modules`` in setup.py). It must not import the package it builds.
``STRAND_SANITIZE=address,undefined`` builds with those sanitizers and without optimisation beyond -O1.
"""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Callable
from pathlib import Path

from cffi import FFI

CSRC = Path(__file__).resolve().parent
ROOT = CSRC.parent

if not sys.platform.startswith("linux") or platform.machine() not in ("x86_64", "aarch64"):
    raise SystemExit(
        "strand builds on Linux on x86-64 and aarch64 only "
        f"(this is {sys.platform} on {platform.machine()}): it relies on futexes, CPU affinity and memfd."
    )


ENGINE = (CSRC / "engine_rooms").read_text("utf-8").split()
SEEDED = "seeded"


def _below_csrc(pattern: str) -> list[Path]:
    """Declarations build on the engine's, these on those of memory/ and engine/, and a folder's on its file of the same
    name."""

    def place(path: Path) -> tuple[object, ...]:
        room, name = path.parent, path.parent.name
        return name != "memory", name != "engine", name not in ENGINE, room, path.stem != name, path

    return sorted(CSRC.rglob(pattern), key=place)


def _includes(headers: list[Path]) -> str:
    return "".join(f'#include "{header.relative_to(CSRC).as_posix()}"\n' for header in headers)


def _flags(*more: str) -> tuple[list[str], list[str]]:
    compile_flags = ["-std=gnu11", "-O3", "-g1", "-fvisibility=hidden", "-DSD_HANDLER_IN_CORE"]
    compile_flags += ["-Wall", "-Wextra", "-Wno-unused-parameter", *more]
    link_flags = ["-pthread"]
    sanitize = os.environ.get("STRAND_SANITIZE", "")
    if sanitize:
        compile_flags += ["-O1", "-fno-omit-frame-pointer", f"-fsanitize={sanitize}", "-fno-sanitize-recover=undefined"]
        link_flags.append(f"-fsanitize={sanitize}")
    return compile_flags, link_flags


def _in_engine(path: Path) -> bool:
    return path.parent.name in ENGINE


def _module(name: str, keep: Callable[[Path], bool], *flags: str, then: str = "") -> FFI:
    """The module of the files to ``keep``. ``then``: what follows the headers in its source."""
    found = FFI()
    cdefs = [path for path in _below_csrc("*.cdef") if keep(path)]
    for path in cdefs:
        found.cdef(path.read_text())
    # A header belongs to the API when a .cdef of the same name declares what is in it.
    headers = [CSRC / "sd_tick.h", CSRC / "sd_error.h", *(path.with_suffix(".h") for path in cdefs)]
    compile_flags, link_flags = _flags(*flags)
    found.set_source(
        name,
        _includes(headers) + then,
        sources=[os.path.relpath(path, ROOT) for path in _below_csrc("*.c") if keep(path)],
        include_dirs=[os.path.relpath(CSRC, ROOT)],
        depends=[os.path.relpath(path, ROOT) for path in (*_below_csrc("*.h"), *cdefs)],
        extra_compile_args=compile_flags,
        extra_link_args=link_flags,
        py_limited_api=True,
    )
    return found


def _in_core(path: Path) -> bool:
    return path.parent.name != SEEDED and path.name != "_core.c"


def _in_scheduled(path: Path) -> bool:
    """A chain that ends in Python is a part of the engine. All other handlers are the core's, by their addresses."""
    if path.relative_to(CSRC).as_posix() == "base/clock.c":  # the scheduler has a clock of its own
        return False
    return _in_engine(path) or path.parent.name == SEEDED or path.stem == "chain"


ffibuilder = _module("strand._core", _in_core)
scheduled = _module(
    "strand._scheduled",
    _in_scheduled,
    "-O1",
    "-DSD_MODEL_SCHEDULER",
    "-DSD_SEEDED_MODULE",
    # Python is given what a worker's fiber has, and does not take the next piece itself.
    then="#define sd_py_worker_next sd_seeded_next\n#define sd_py_worker_go_on sd_seeded_done\n",
)
