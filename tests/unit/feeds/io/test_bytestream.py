"""The start of a stream can be looked at first, and limits on what a file expands to are checked."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from byte_streams import JOINED, TEXT, drain, write
from packing import PACKERS

from strand.errors import (
    TruncatedFeedError,
)
from strand.feeds.io.streams import open_stream

pytestmark = pytest.mark.python


@pytest.mark.parametrize("packing", JOINED)
def test_a_head_is_not_lost(tmp_path: Path, packing: str) -> None:
    stream = open_stream(write(tmp_path, PACKERS[packing](TEXT)))
    assert stream.head() == TEXT[:4096]
    assert stream.head(100) == TEXT[:100]
    assert drain(stream) == (TEXT, None)
    stream = open_stream(write(tmp_path, PACKERS[packing](b"short")))
    assert stream.head() == b"short"
    assert drain(stream) == (b"short", None)


def test_a_head_before_a_fault_is_given_and_the_fault_comes_after_it(tmp_path: Path) -> None:
    stream = open_stream(write(tmp_path, gzip.compress(TEXT[:3000])[:-8]))
    head = stream.head()
    assert head == TEXT[: len(head)]
    assert head
    data, error = drain(stream)
    assert data == head
    assert isinstance(error, TruncatedFeedError)
