"""The headers that are installed are all that a handler of one's own needs."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from strand.machine import HEADERS

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("header", HEADERS)
def test_each_installed_header_compiles_beside_the_others_alone(header: str, tmp_path: Path) -> None:
    for name in HEADERS:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / "csrc" / name, tmp_path / name)
    (tmp_path / "mine.c").write_text(f'#include "{header}"\nint mine(void) {{ return 0; }}\n')
    compiler = [
        "cc",
        "-std=gnu11",
        "-Wall",
        "-Werror",
        f"-I{tmp_path}",
        "-c",
        tmp_path / "mine.c",
        "-o",
        tmp_path / "mine.o",
    ]
    done = subprocess.run(compiler, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


def test_the_build_installs_those_that_the_package_names() -> None:
    named = re.search(r"^HEADERS = \((.*?)\)", (ROOT / "setup.py").read_text(), flags=re.S | re.M)
    assert named is not None
    assert tuple(re.findall(r'"([^"]+)"', named[1])) == HEADERS
