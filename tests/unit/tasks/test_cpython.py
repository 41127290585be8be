"""CPython's own tests of thread pools on a Scheduler: those that fail are the ones that docs/tasks.md lists."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.python, pytest.mark.slow]

ROOT = Path(__file__).parents[3]
PROGRAM = ROOT / "tests/support/cpython_executors.py"
#: What the page calls a test that fails or passes by what comes first, and one that would wait for itself.
BY_TIMING, LEFT_OUT = "by timing", "left out"


def test_of_cpythons_own_tests_those_fail_that_the_page_lists() -> None:
    page = (ROOT / "docs/tasks.md").read_text()
    section = page[page.index("## CPython's own tests") :]
    listed = {
        f"{kind}.{name}": how
        for kind, names, how in re.findall(
            r"^\| (\w+) \| (.+?) \| (.+?) \|", section[: section.index("\n## ")], re.MULTILINE
        )
        for name in re.findall(r"`(\w+)`", names)
    }
    left_out = [name for name, how in listed.items() if how.startswith(LEFT_OUT)]
    assert left_out
    run = subprocess.run(
        [sys.executable, PROGRAM, *left_out], capture_output=True, text=True, check=False, timeout=200, cwd=ROOT
    )
    assert run.returncode == 0, run.stderr
    found = json.loads(run.stdout.splitlines()[-1])
    if "missing" in found:
        pytest.skip(f"{found['missing']} (STRAND_CPYTHON_TESTS names a test_concurrent_futures.py)")
    assert len(found["ran"]) > 50
    may = {name for name, how in listed.items() if how.startswith(BY_TIMING)}
    failed, must = set(found["failed"]), set(listed) - may - set(left_out)
    assert failed - may == must, found["said"]
