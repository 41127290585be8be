"""A day's result to report."""

from __future__ import annotations

import pytest

import strand
from strand import replay
from strand.feeds.sample import SAMPLE_DATE, sample_path


@pytest.fixture(scope="session")
def day() -> strand.ReplayResult:
    return replay(sample_path(), "book", workers=2, watch=3, feed_options={"date": SAMPLE_DATE})
