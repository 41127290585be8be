"""tools/dependencies.py, by which make installs what the package and its extras need."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

pytestmark = pytest.mark.python


ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def printed(*extras: str) -> list[str]:
    run = [sys.executable, str(ROOT / "tools" / "dependencies.py"), *extras]
    return subprocess.run(run, capture_output=True, text=True, check=True).stdout.splitlines()


def test_each_dependency_of_the_package_and_of_the_extras_is_a_line_of_its_own() -> None:
    assert printed() == PROJECT["dependencies"]
    found = printed("csv", "parquet")
    assert len(found) == len(set(found))
    extras = PROJECT["optional-dependencies"]
    assert set(found) == {*PROJECT["dependencies"], *extras["csv"], *extras["parquet"]}


def test_an_extra_that_there_is_not_fails() -> None:
    run = [sys.executable, str(ROOT / "tools" / "dependencies.py"), "none"]
    assert subprocess.run(run, capture_output=True, check=False).returncode == 1


def test_make_names_extras_that_there_are() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    named = re.findall(r"^EXTRAS := (.*)$", makefile, re.MULTILINE)[0].split()
    named += re.findall(r"\$\(call NEEDED,(\w+)\)", makefile)
    assert set(named) <= set(PROJECT["optional-dependencies"])
    assert {"test", "dev", "fuzz", "bench"} <= set(named)
