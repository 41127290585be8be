"""Formats are recognised by their content, each file by one of them, or demanded by name."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from feed_samples import itch_seconds

from strand import feeds
from strand.errors import ConfigurationError, FormatError
from strand.feeds.formats.npy.reader import NpyFeed
from strand.feeds.write.npy import write_npy
from strand.ticks import zeros

pytestmark = pytest.mark.python
# A system event, "start of messages", at 04:00.
SYSTEM_EVENT = b"\x00\x0cS" + bytes(4) + (4 * 3600 * 10**9).to_bytes(6, "big") + b"O"


@pytest.mark.parametrize("name", ["a.npy", "a.npz"])
def test_numpy_files_are_known_whatever_their_name(tmp_path: Path, name: str) -> None:
    write_npy(tmp_path / name, zeros(3))
    (tmp_path / name).rename(tmp_path / "b.bin")
    feed = feeds.open(tmp_path / "b.bin", batch_ticks=2)
    assert isinstance(feed, NpyFeed)
    assert [len(batch) for batch in feed.batches()] == [2, 1]


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_itch_is_known_raw_and_in_gzip(tmp_path: Path, pack: type[bytes]) -> None:
    itch = pytest.importorskip("strand.feeds.formats.itch.reader")
    (tmp_path / "a.bin").write_bytes(pack(SYSTEM_EVENT * 9))
    feed = feeds.open(tmp_path / "a.bin", date="2020-01-30")
    assert isinstance(feed, itch.ItchFeed)


def test_a_format_can_be_demanded(tmp_path: Path) -> None:
    plain = itch_seconds(tmp_path / "20200130.itch")
    assert feeds.open(plain, format="itch").info.format == "itch50"
    with pytest.raises(FormatError):
        feeds.open(plain, format="npy")
    with pytest.raises(ConfigurationError, match="format: 'cvs' is not one of npy"):
        feeds.open(plain, format="cvs")
