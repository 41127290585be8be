"""bench/days.py makes its files once, and an interrupted run leaves no part of one under its name."""

from __future__ import annotations

import gzip
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[3] / "bench"))

import days

pytestmark = pytest.mark.python

#: A gzip that is killed while it writes.
KILLED = """#!/bin/sh
for file; do :; done
case "$*" in *-c*) head -c 100 "$file" ;; *) head -c 100 "$file" > "$file.gz" ;; esac
kill -9 $$
"""


def test_a_day_that_is_packed_anew_after_a_kill_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(days, "FOLDER", tmp_path / "build")
    monkeypatch.setattr(days, "SYMBOLS", 3)
    program = tmp_path / "gzip"
    program.write_text(KILLED)
    program.chmod(0o755)
    with monkeypatch.context() as patched:
        patched.setenv("PATH", str(tmp_path), prepend=":")
        with pytest.raises(subprocess.CalledProcessError):
            days.day(1_000)
    plain, packed = days.day(1_000)
    assert gzip.decompress(packed.read_bytes()) == plain.read_bytes()
