"""The pages about handlers have an example of each kind; test_pages.py runs them. The example in C builds."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from warm_python import run_warm

pytestmark = pytest.mark.python

DOCS = Path(__file__).resolve().parents[3] / "docs" / "handlers"


def test_the_example_in_c_builds_with_one_command_and_runs(tmp_path: Path) -> None:
    example = DOCS.parents[1] / "examples" / "c_handler"
    for file in ("Makefile", "quotes.c", "run.py"):
        (tmp_path / file).write_bytes((example / file).read_bytes())
    strand = Path(sys.executable).parent / "strand"
    subprocess.run(["make", "--silent", f"STRAND={strand}"], cwd=tmp_path, check=True)
    done = run_warm("run.py", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = done.stdout.splitlines()
    spreads = [float(line.split()[1]) for line in found]
    assert len(spreads) == 5
    assert spreads == sorted(spreads)
    assert spreads[0] >= 0.01
