"""Builds the three modules in C, each declared to cffi by marked parts of its headers.

A part stands between ``/* cffi: begin */`` and ``/* cffi: end */`` and holds what cffi reads: types, functions, enums
and constants. ``MORE`` has what cffi cannot read there.

``strand._core`` is every C file under csrc/ but those of csrc/lab and csrc/seeded. ``strand._lab`` is csrc/lab, for the
generated market and the benchmarks. ``strand._scheduled``, for ``strand.testing``, is the engine's rooms once more,
under the seeded scheduler of csrc/seeded.

Run by setuptools (``cffi_modules`` in setup.py). It must not import the package it builds.
``STRAND_SANITIZE=address,undefined`` builds with those sanitizers and without optimisation beyond -O1.
"""

from __future__ import annotations

import os
import platform
import re
import sys
from collections.abc import Callable, Iterator
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
BEGIN, END = "/* cffi: begin */", "/* cffi: end */"
#: By header: macros and constants under a condition, functions in line, and what Python gives to C.
MORE = {
    "memory/counters.h": "#define SD_SUB 16\n#define SD_BUCKETS 656\n",
    "memory/space.h": "#define SD_SPACE_BYTES ...\n",
    "engine/dispatcher.h": "sd_sequence_at sd_sequence_at_of(uint32_t key_offset, uint32_t offset, uint32_t high);\n",
    "worker/thread.h": 'extern "Python" int sd_thread_step(void *thread);\n',
}
COMPUTED = re.compile(r"^(#define \w+) (?!-?(?:0x)?[0-9A-Fa-f]+(?: |$)).*", re.MULTILINE)
INCLUDE = re.compile(r'^#include "(.+)"$', re.MULTILINE)


def _declared(header: Path, seen: set[Path]) -> Iterator[tuple[Path, str]]:
    """A header's declarations, behind those of the headers that it includes."""
    if header in seen:
        return
    seen.add(header)
    text = header.read_text("utf-8")
    for name in INCLUDE.findall(text):
        if (CSRC / name).exists():  # the model checkers have theirs elsewhere
            yield from _declared(CSRC / name, seen)
    if text.count(BEGIN) != text.count(END):
        raise SystemExit(f"{header}: each {BEGIN!r} needs its {END!r}")
    # The C compiler computes constants that cffi cannot.
    parts = [COMPUTED.sub(r"\1 ...", part.partition(END)[0]) for part in text.split(BEGIN)[1:]]
    if found := MORE.get(header.relative_to(CSRC).as_posix(), "") + "".join(parts):
        yield header, found


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
    seen: set[Path] = set()
    headers = []
    for path in sorted(CSRC.rglob("*.h")):
        if keep(path):
            for header, text in _declared(path, seen):
                found.cdef(text)
                headers.append(header)
    compile_flags, link_flags = _flags(*flags)
    found.set_source(
        name,
        "".join(f'#include "{header.relative_to(CSRC).as_posix()}"\n' for header in headers) + then,
        sources=[os.path.relpath(path, ROOT) for path in sorted(CSRC.rglob("*.c")) if keep(path)],
        include_dirs=[os.path.relpath(CSRC, ROOT)],
        depends=[os.path.relpath(path, ROOT) for path in sorted(CSRC.rglob("*.h"))],
        extra_compile_args=compile_flags,
        extra_link_args=link_flags,
        py_limited_api=True,
    )
    return found


def _in_lab(path: Path) -> bool:
    """The laboratory reads clocks on its own, and gets the engine by the addresses of its functions."""
    return path.is_relative_to(CSRC / "lab") or path == CSRC / "base/clock.c"


def _in_core(path: Path) -> bool:
    return path.parent.name != SEEDED and not path.is_relative_to(CSRC / "lab") and path.name != "_core.c"


def _in_scheduled(path: Path) -> bool:
    """A chain that ends in Python is a part of the engine. All other handlers are the core's, by their addresses."""
    if path.relative_to(CSRC).as_posix() == "base/clock.c":  # the scheduler has a clock of its own
        return False
    return path.parent == CSRC or _in_engine(path) or path.parent.name == SEEDED or path.stem == "chain"


ffibuilder = _module("strand._core", _in_core)
lab = _module("strand._lab", _in_lab)
scheduled = _module(
    "strand._scheduled",
    _in_scheduled,
    "-O1",
    "-DSD_MODEL_SCHEDULER",
    "-DSD_SEEDED_MODULE",
    # Python is given what a worker's fiber has, and does not take the next piece itself.
    then="".join(
        f"#define {name} sd_seeded_{seeded}\n"
        for name, seeded in {
            "sd_py_worker_next": "next",
            "sd_py_worker_go_on": "done",
            "sd_dispatcher_destroy": "destroy",
            "sd_space_destroy": "space_destroy",
        }.items()
    ),
)
