"""Metadata is in pyproject.toml; this file adds what it cannot say: the cffi modules, the abi3 tag, the C headers."""

from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

CSRC = Path(__file__).resolve().parent / "csrc"
# As strand/headers.py has them, which cannot be imported before the core is built.
HEADERS = (
    "sd_handler.h", "sd_tick.h", "sd_error.h", "handlers/book.h", "handlers/book_questions.h", "handlers/book_row.h",
    "handlers/trade.h",
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


setup(
    cffi_modules=["csrc/build_core.py:ffibuilder", "csrc/build_core.py:scheduled"],
    cmdclass={"build_py": BuildWithHeaders},
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
