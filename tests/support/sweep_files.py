"""Files that the tests of sweeps run over."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

from strand.feeds.sample import SAMPLE_DATE, sample_path

__all__ = ["FEW", "beginning", "two_days"]

FEW: dict[str, Any] = {"symbols": ["AAAA*"], "feed_options": {"date": SAMPLE_DATE}}


def two_days(tmp_path: Path) -> Path:
    """Two files of one market, the second one shorter."""
    folder = tmp_path / "days"
    folder.mkdir()
    (folder / "2026-01-05.gz").write_bytes(sample_path().read_bytes())
    (folder / "2026-01-06.itch50").write_bytes(beginning(2_000_000))
    return folder


def beginning(maximum: int) -> bytes:
    """The sample's messages that fit into so many bytes."""
    data, at = gzip.decompress(sample_path().read_bytes()), 0
    while (after := at + 2 + int.from_bytes(data[at : at + 2], "big")) <= maximum:
        at = after
    return data[:at]
