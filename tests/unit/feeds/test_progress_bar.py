"""The bar of a run: what it says, where it is seen, and what it costs nobody who sees none."""

from __future__ import annotations

import gzip
import re
import sys
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from feed_samples import some_ticks

import strand
from strand import feeds
from strand.feeds import progress_bar
from strand.feeds.progress_bar import InputShare, ProgressBar, bar_text, is_watched
from strand.feeds.sample import SAMPLE_DATE, sample_path
from strand.feeds.write.conversion import convert
from strand.feeds.write.npy import write_npy
from strand.replaying.replay import replay
from strand.zones import clock_of

NOON_NS = 1_767_614_400_000_000_000  # 2026-01-05 12:00 UTC
DAY = {"date": SAMPLE_DATE}


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ((12_345_678, 25_060_000.0, 10.0, 0.4, NOON_NS), "12,345,678  25.1 M/s  12:00:00 UTC  40%  0:00:15 left"),
        ((1_000, 900.0, 3_700.0, None, None), "1,000  900/s  1:01:40"),
        ((1_000, None, 0.1, 0.5, None), "1,000  50%"),
        ((0, None, 0.0, 0.0, None), "0  0%"),
    ],
)
def test_it_says_the_rate_the_feed_s_time_the_share_and_what_is_left(given: Any, text: str) -> None:
    assert bar_text(*given) == text


@pytest.mark.parametrize(
    ("zone", "undated", "text"),
    [("America/New_York", False, "07:00:00 EST"), ("Asia/Kathmandu", False, "17:45:00 +0545"),
     (None, False, "12:00:00 UTC"), (None, True, "12:00:00 undated"), ("Europe/Nowhere", False, "12:00:00 UTC")],
)  # fmt: skip
def test_its_time_is_on_the_clock_that_tables_show(zone: str | None, undated: bool, text: str) -> None:
    clock = clock_of(zone, undated=undated)
    assert bar_text(7, None, 1.0, None, NOON_NS, clock=clock) == f"7  {text}  0:00:01"
    assert clock.moment(NOON_NS).split(" ")[1].startswith(text.split(" ", maxsplit=1)[0])


def test_a_bar_ends_with_the_files_and_with_a_limit(tmp_path: Path) -> None:
    write_npy(tmp_path / "a.npz", some_ticks(100), ["A", "B"])
    for total, share in ((None, 0.25), (50, 0.5)):
        with feeds.open(tmp_path / "a.npz") as feed, ProgressBar("reading", total) as bar:
            bar.opened(feed)
            bar(25)
            bar._show()
            (task,) = bar._bar.tasks
            assert task.percentage == 100 * share
            assert task.fields["said"] == f"25  {share:.0%}"


def test_what_has_no_end_has_no_share() -> None:
    with ProgressBar("listening") as bar:
        bar(25)
        bar._show()
        (task,) = bar._bar.tasks
        assert (task.total, task.fields["said"]) == (None, "25  0:00:00")


def test_steps_are_counted_beside_their_number_and_the_time_left() -> None:
    with ProgressBar("sweeping", steps="files") as bar:
        (task,) = bar._bar.tasks
        for done, total, said in ((0, 1_200, "0/1,200 files"), (300, 1_200, "300/1,200 files 0:00:00 left")):
            bar(done, total)
            assert (task.description, task.fields["said"], task.percentage) == ("sweeping", said, 100 * done / total)
        bar(1_200, 1_200, "the last one")
        assert (task.description, task.fields["said"]) == ("the last one", "1,200/1,200 files 0:00:00 left")
        bar(0, 0)
        assert task.fields["said"] == "0/0 files"


def test_it_is_watched_on_a_terminal_and_in_a_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    for terminal in (False, True):
        monkeypatch.setattr(sys, "stderr", SimpleNamespace(isatty=lambda answer=terminal: answer))
        assert is_watched() is terminal
    monkeypatch.setattr(sys, "stderr", None)
    assert not is_watched()
    for name, watched in (("ZMQInteractiveShell", True), ("TerminalInteractiveShell", False)):
        shell = type(name, (), {})()
        monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda shell=shell: shell))
        assert is_watched() is watched


def bars_of(monkeypatch: pytest.MonkeyPatch, *, watched: bool, **options: Any) -> list[ProgressBar]:
    """The bars of a replay of the sample."""
    made: list[ProgressBar] = []

    class Noted(ProgressBar):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            made.append(self)

    monkeypatch.setattr(progress_bar, "ProgressBar", Noted)
    monkeypatch.setattr(progress_bar, "is_watched", lambda: watched)
    monkeypatch.setattr(progress_bar, "_SHOW_EVERY_S", 0.0)
    strand.replay(sample_path(), feed_options=DAY, workers=1, **options)
    return made


@pytest.mark.parametrize("handler", ["count", "bbo"])  # the feed's decoder publishes, and the replay does
def test_a_replay_shows_it_where_it_is_asked_to_and_somebody_sees_it(
    monkeypatch: pytest.MonkeyPatch, handler: str
) -> None:
    assert bars_of(monkeypatch, watched=True, handler=handler) == []
    assert bars_of(monkeypatch, watched=False, handler=handler, progress=True) == []
    (bar,) = bars_of(monkeypatch, watched=True, handler=handler, progress=True)
    (task,) = bar._bar.tasks
    assert bar._done == 200_500
    assert task.percentage == pytest.approx(100, abs=0.1)
    assert re.search(r" 16:\d\d:\d\d EST ", task.fields["said"])  # the day's last tick is at 21:00 UTC
    assert not bar._bar.live.is_started


def test_it_ends_where_the_replay_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    @strand.batch_handler(state=[("n", "i8")])
    def failing(symbol: str, ticks: Any, row: Any) -> None:
        raise ValueError("no")

    made: list[ProgressBar] = []
    with pytest.raises(strand.errors.HandlerError):
        made += bars_of(monkeypatch, watched=True, handler=failing, progress=True)
    assert not made


# ---- How much of a feed's input has been read, for a bar that has an end


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
