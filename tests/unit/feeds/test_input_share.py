"""How much of a feed's input has been read, for a bar that has an end."""

from __future__ import annotations

import gzip
import zipfile
from pathlib import Path

import numpy as np
import pytest
from feed_samples import some_ticks

from strand import feeds
from strand.feeds.progress_bar import InputShare
from strand.feeds.sample import SAMPLE_DATE, sample_path
from strand.feeds.write.conversion import convert
from strand.feeds.write.npy import write_npy
from strand.replaying.replay import replay


def shares_of(paths: Path | list[Path], **options: object) -> list[float | None]:
    """The share at the start and behind each batch."""
    with feeds.open(paths, **options) as feed:
        share = InputShare(feed)
        found, ticks = [share(0)], 0
        for batch in feed:
            ticks += len(batch)
            found.append(share(ticks))
        return found


@pytest.fixture
def day(tmp_path: Path) -> Path:
    """The sample, in no packing."""
    path = tmp_path / "20260105.itch50"
    path.write_bytes(gzip.decompress(sample_path().read_bytes()))
    return path


def test_the_share_rises_from_nothing_to_all_of_the_files(tmp_path: Path, day: Path) -> None:
    with zipfile.ZipFile(tmp_path / "two.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(day, "20260105.itch50")
        archive.writestr("README", "two files")
    packed = tmp_path / "two.zip" / "20260105.itch50"
    for paths in (day, sample_path(), packed, [day, packed]):
        found = shares_of(paths, date=SAMPLE_DATE)
        known = [share for share in found if share is not None]
        assert len(known) == len(found)
        assert known == sorted(known)
        assert known[0] < 0.5
        assert known[-1] == pytest.approx(1, abs=1e-3)


def test_a_feed_that_knows_its_ticks_is_measured_by_them(tmp_path: Path) -> None:
    write_npy(tmp_path / "a.npz", some_ticks(100), ["A", "B"])
    assert shares_of(tmp_path / "a.npz", batch_ticks=25) == [0, 0.25, 0.5, 0.75, 1]


def test_an_archive_of_lean_is_measured_while_it_is_read(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    noise = np.random.default_rng(1).integers(1, 1000, 300_000)
    lines = "".join(f"{34200000 + n},479900,{size},P,2000,0\n" for n, size in enumerate(noise))
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("20131009_xyz_Trade_Tick.csv", lines)
    found = shares_of(tmp_path / "a.zip")
    assert any(share is not None and 0.1 < share < 0.9 for share in found)


def test_a_replay_and_a_conversion_tell_the_bar_of_their_feed(tmp_path: Path) -> None:
    class Bar:
        feed: object = None

        def opened(self, feed: object) -> None:
            self.feed = feed

        def __call__(self, done: int) -> None:
            assert self.feed is not None

    write_npy(tmp_path / "a.npz", some_ticks(100), ["A", "B"])
    for run in (
        lambda bar: replay(tmp_path / "a.npz", "count", workers=0, progress=bar),
        lambda bar: convert(tmp_path / "a.npz", tmp_path / "b.npz", progress=bar),
    ):
        bar = Bar()
        run(bar)
        assert bar.feed is not None
