"""Figures of a run that are made of others."""

from __future__ import annotations

import gzip
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import strand
from strand import testing
from strand.errors import ConfigurationError
from strand.feeds.sample import SAMPLE_DATE, sample_path

pytestmark = pytest.mark.python


@pytest.fixture(scope="module")
def result() -> strand.ReplayResult:
    ticks = [{"symbol": "A", "time": i + 1, "price": 1, "size": 1} for i in range(10)]
    return testing.reference(testing.feed(ticks), "count")


@pytest.mark.parametrize(
    ("times", "name"),
    [
        ({"wall_s": 10.0, "setup_s": 1.0, "feed_s": 2.0, "input_wait_s": 1.5}, "dispatch"),
        ({"wall_s": 10.0, "setup_s": 6.0, "feed_s": 2.0, "input_wait_s": 1.5}, "set-up"),
        ({"wall_s": 10.0, "setup_s": 1.0, "feed_s": 8.0, "input_wait_s": 1.5}, "feed"),
        ({"wall_s": 10.0, "setup_s": 1.0, "feed_s": 8.0, "input_wait_s": 7.5}, "reading"),
    ],
)
def test_what_took_most_of_the_time_is_named(result: Any, times: dict[str, float], name: str) -> None:
    assert replace(result, **times).limited_by == name


@pytest.mark.parametrize(
    ("details", "work"),
    [
        ({}, "reading"),
        ({"compression": "none"}, "reading"),
        ({"compression": "gzip"}, "reading and inflating"),
        ({"feeds": [{"compression": None}, {"compression": "none"}]}, "reading"),
        ({"feeds": [{"compression": "none"}, {"compression": "zstd"}]}, "reading and inflating"),
    ],
)
def test_only_of_a_compressed_file_it_is_said_that_it_was_inflated(
    result: Any, details: dict[str, Any], work: str
) -> None:
    found = replace(
        result, info=replace(result.info, details=details), wall_s=10.0, setup_s=0.0, feed_s=8.0, input_wait_s=7.5
    )
    assert (found.limited_by, found.input_work) == (work, work)


def test_what_merged_files_were_read_for_is_known_of_each(tmp_path: Path) -> None:
    plain = tmp_path / "plain.itch50"
    plain.write_bytes(gzip.decompress(sample_path().read_bytes()))
    other = tmp_path / "other.itch50"
    other.write_bytes(plain.read_bytes())
    for files, work in (([plain, other], "reading"), ([plain, sample_path()], "reading and inflating")):
        found = strand.replay(files, "count", workers=0, limit=10, feed_options={"date": SAMPLE_DATE})
        assert found.input_work == work


def test_rates_are_ticks_by_the_time_and_of_no_time_there_are_none(result: Any) -> None:
    assert replace(result, wall_s=2.0).ticks_per_s == 5.0
    assert replace(result, wall_s=0.0).ticks_per_s == 0.0
    assert replace(result, wall_s=0.0).busy_share == 0.0


def test_a_fingerprint_goes_by_rows_and_ticks(result: Any) -> None:
    assert len(result.fingerprint) == 32
    assert replace(result).fingerprint == result.fingerprint
    assert replace(result, ticks_by_symbol=result.ticks_by_symbol + 1).fingerprint != result.fingerprint


def test_books_and_snapshots_that_were_not_asked_for_are_refused_with_what_to_give(result: Any) -> None:
    with pytest.raises(ConfigurationError, match="books: no handler here keeps books; give handler='book'"):
        _ = result.books
    with pytest.raises(ConfigurationError, match=r"snapshots: none were asked for; give replay\(snapshot="):
        _ = result.snapshots
