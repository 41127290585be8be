"""The sample day that ships with the package: 500 symbols, some 200,000 messages, made by SyntheticFeed."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from strand import errors
from strand.feeds.synthetic import SyntheticFeed

#: The sample's trading day, which an ITCH file does not say.
SAMPLE_DATE: Final = "2026-01-05"


def sample_feed() -> SyntheticFeed:
    """The feed that wrote the sample file: writing it anew gives the same messages, bit for bit."""
    return SyntheticFeed(500, 200_000, seed=20260105, date=SAMPLE_DATE)


def sample_path() -> Path:
    """The path of the sample: an ITCH 5.0 file, gzip-compressed."""
    # In a checkout this package lies elsewhere.
    return Path(errors.__file__).resolve().parent / "data" / "sample.itch50.gz"
