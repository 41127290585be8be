"""Metadata is in pyproject.toml; this file adds what it cannot say: the cffi modules, the abi3 tag, the C headers."""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from setuptools import setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py

CSRC = Path(__file__).resolve().parent / "csrc"
# As strand/machine.py has them, which cannot be imported before the core is built.
HEADERS = (
    "sd_handler.h", "sd_task.h", "sd_tick.h", "sd_error.h", "books/book.h", "books/book_questions.h",
    "books/book_row.h", "books/trade.h",
)  # fmt: skip


class BuildWithHeaders(build_py):
    """Puts the headers a handler in C is compiled with into the package, as strand/include."""

    def run(self) -> None:
        super().run()
        if self.editable_mode:
            return
        for header in HEADERS:
            to = Path(self.build_lib) / "strand" / "include" / header
            to.parent.mkdir(parents=True, exist_ok=True)
            self.copy_file(str(CSRC / header), str(to))


class BuildOnAllCores(build_ext):
    """Compiles as many C files at a time as there are cores; setuptools takes one after the other."""

    def build_extensions(self) -> None:
        compile_in_turn = self.compiler.compile

        def compile_together(sources: list[str], **options: object) -> list[str]:
            with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
                return [made for (made,) in pool.map(lambda source: compile_in_turn([source], **options), sources)]

        self.compiler.compile = compile_together
        super().build_extensions()


setup(
    cffi_modules=["csrc/build_core.py:ffibuilder", "csrc/build_core.py:lab", "csrc/build_core.py:scheduled"],
    cmdclass={"build_ext": BuildOnAllCores, "build_py": BuildWithHeaders},
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
