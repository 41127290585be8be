"""Converted files: what is read of them, and that it is what was there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from reading import ticks_of

from strand.feeds import open as open_feed
from strand.ticks import FIELDS

DAY = {"date": "2026-01-05"}
ITCH_NAME = "01052026.itch50"


def read(path: Path, **options: Any) -> tuple[np.ndarray, list[str]]:
    """A file's ticks, and the name of each."""
    feed = open_feed(path, **options)
    ticks = ticks_of(feed)
    return ticks, [feed.symbols[key] if key < len(feed.symbols) else "" for key in ticks["instrument_id"].tolist()]


def assert_same(found: tuple[np.ndarray, list[str]], expected: tuple[np.ndarray, list[str]], *but: str) -> None:
    assert found[1] == expected[1]
    for name in set(FIELDS) - set(but):
        np.testing.assert_array_equal(found[0][name], expected[0][name], err_msg=name)
