"""The tree of levels far below the best price, against a sorted array; short chunks make it a high one."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

SUPPORT = Path(__file__).resolve().parents[3] / "support"
CSRC = SUPPORT.parent.parent / "csrc"


@pytest.fixture(scope="module")
def trial(tmp_path_factory: pytest.TempPathFactory) -> Any:
    compiler = shutil.which(os.environ.get("CC", "cc"))
    assert compiler is not None, "a C compiler"
    folder = tmp_path_factory.mktemp("deep")
    (folder / "handlers").mkdir()
    header = (CSRC / "handlers" / "deep.h").read_text()
    short = header.replace("SD_CHUNK = 62", "SD_CHUNK = 6").replace("SD_DEEP_HEIGHT = 12", "SD_DEEP_HEIGHT = 24")
    assert short.count("= 6,") + short.count("= 24") == 2
    (folder / "handlers" / "deep.h").write_text(short)
    sources = [SUPPORT / "deep_trial.c"]
    for name in ("handlers/deep.c", "memory/pool.c", "memory/space.c"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text((CSRC / name).read_text())
        sources.append(folder / name)
    options = ["-O2", "-shared", "-fPIC", "-std=gnu11", f"-I{folder}", f"-I{CSRC}"]
    subprocess.run([compiler, *options, "-o", folder / "trial.so", *sources, "-lpthread"], check=True)
    found = ctypes.CDLL(str(folder / "trial.so")).deep_trial
    found.argtypes, found.restype = [ctypes.c_uint64, ctypes.c_uint64], ctypes.c_uint32
    return found


def test_levels_that_come_and_go_at_random_are_those_of_a_sorted_array(trial: Any) -> None:
    heights = [trial(seed, 30_000) for seed in range(100)]
    assert all(heights), f"seed {heights.index(0)}"
    assert max(heights) >= 5
