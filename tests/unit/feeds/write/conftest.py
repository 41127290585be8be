"""What tests of writing share."""

from __future__ import annotations

from pathlib import Path

import pytest
from converted import DAY, ITCH_NAME

from strand.feeds.synthetic import SyntheticFeed


@pytest.fixture
def day(tmp_path: Path) -> Path:
    """A generated day of 40 symbols as ITCH."""
    path = tmp_path / "day" / ITCH_NAME
    path.parent.mkdir()
    SyntheticFeed(40, 20_000, seed=3, date=DAY["date"]).write_itch(path)
    return path
