"""Fixtures of the tests of sweeps."""

from __future__ import annotations

from pathlib import Path

import pytest
from sweep_files import two_days


@pytest.fixture
def days(tmp_path: Path) -> Path:
    """A folder of two files of one market."""
    return two_days(tmp_path)
