"""strand gen."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_here import run_here

pytestmark = pytest.mark.python


def test_gen_writes_the_same_file_for_the_same_seed(tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("a.itch50", "b.itch50", "c.itch50")]
    for path, seed in zip(files, ("3", "3", "4"), strict=True):
        done = run_here(
            "gen", "itch", "--symbols", "20", "--messages", "2000", "--seed", seed, "--out", str(path), "--json"
        )
        assert done.returncode == 0, done.stderr
    assert files[0].read_bytes() == files[1].read_bytes() != files[2].read_bytes()
