"""Builds strand._core: every C file under csrc/, declared to cffi by the .cdef files beside them.

Run by setuptools (``cffi_modules`` in setup.py). It must not import the package it builds.
``STRAND_SANITIZE=address,undefined`` builds with those sanitizers and without optimisation beyond -O1.
"""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path

from cffi import FFI

CSRC = Path(__file__).resolve().parent
ROOT = CSRC.parent

if not sys.platform.startswith("linux") or platform.machine() not in ("x86_64", "aarch64"):
    raise SystemExit(
        "strand builds on Linux on x86-64 and aarch64 only "
        f"(this is {sys.platform} on {platform.machine()}): it relies on futexes, CPU affinity and memfd."
    )


def _below_csrc(pattern: str) -> list[Path]:
    """Declarations build on the engine's, these on those of memory/ and engine/, and a folder's on its file of the same
    name."""
    engine = (CSRC / "engine_rooms").read_text("utf-8").split()

    def place(path: Path) -> tuple[object, ...]:
        room, name = path.parent, path.parent.name
        return name != "memory", name != "engine", name not in engine, room, path.stem != name, path

    return sorted(CSRC.rglob(pattern), key=place)


def _includes(headers: list[Path]) -> str:
    return "".join(f'#include "{header.relative_to(CSRC).as_posix()}"\n' for header in headers)


def _flags() -> tuple[list[str], list[str]]:
    compile_flags = ["-std=gnu11", "-O3", "-g1", "-fvisibility=hidden", "-DSD_HANDLER_IN_CORE"]
    compile_flags += ["-Wall", "-Wextra", "-Wno-unused-parameter"]
    link_flags = ["-pthread"]
    sanitize = os.environ.get("STRAND_SANITIZE", "")
    if sanitize:
        compile_flags += ["-O1", "-fno-omit-frame-pointer", f"-fsanitize={sanitize}", "-fno-sanitize-recover=undefined"]
        link_flags.append(f"-fsanitize={sanitize}")
    return compile_flags, link_flags


ffibuilder = FFI()
_cdefs = _below_csrc("*.cdef")
for _path in _cdefs:
    ffibuilder.cdef(_path.read_text())

_sources = [p for p in _below_csrc("*.c") if p.name != "_core.c"]
_headers = _below_csrc("*.h")
# A header belongs to the API when a .cdef of the same name declares what is in it.
_api_headers = [
    CSRC / "sd_tick.h",
    CSRC / "sd_error.h",
    *(p.with_suffix(".h") for p in _cdefs),
]
_compile_flags, _link_flags = _flags()
ffibuilder.set_source(
    "strand._core",
    _includes(_api_headers),
    sources=[os.path.relpath(p, ROOT) for p in _sources],
    include_dirs=[os.path.relpath(CSRC, ROOT)],
    depends=[os.path.relpath(p, ROOT) for p in (*_headers, *_cdefs)],
    extra_compile_args=_compile_flags,
    extra_link_args=_link_flags,
    py_limited_api=True,
)
