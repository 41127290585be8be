"""A recording of a line: it replays to the same rows, and its times may be cut."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from engine_support import wait_until
from itch_reference import frame
from mold_lines import DATE, listen, order, orders, sender
from mold_wire import end_of_session, packet
from reading import read, ticks_of

import strand
from strand.binding.live import RUN
from strand.errors import FeedError, FormatError, TruncatedFeedError
from strand.feeds.formats.recording import RecordedFeed, Recorder
from strand.feeds.io.files import times_path

pytestmark = pytest.mark.python


def _recorded(tmp_path: Path) -> tuple[Path, np.ndarray]:
    record = tmp_path / "rec.itch50"
    with contextlib.closing(listen(record=record)) as feed, sender(*feed.addresses) as send:
        for n in range(1, 41, 4):
            send(0, packet(n, orders(n, n + 4)))
        send(0, end_of_session(41))
        return record, ticks_of(feed)


def test_a_recording_is_plain_itch_for_every_other_reader(tmp_path: Path) -> None:
    record, ticks = _recorded(tmp_path)
    times_path(record).unlink()
    plain = strand.feeds.open(record, date=DATE)
    assert plain.info.format == "itch50"
    assert ticks_of(plain)["order_id"].tolist() == ticks["order_id"].tolist()


def test_times_that_are_cut_give_every_tick_before_the_cut(tmp_path: Path) -> None:
    record, ticks = _recorded(tmp_path)
    times = times_path(record)
    whole = times.read_bytes()
    times.write_bytes(whole[: 16 + 5 * 24 + 7])
    taken = []
    with pytest.raises(TruncatedFeedError, match="ends inside an entry"):
        for batch in RecordedFeed(record).batches():
            taken.append(batch.copy())
    assert np.array_equal(np.concatenate(taken), ticks[:17])
    times.write_bytes(b"SDTIMES1")
    with pytest.raises(FormatError, match="is not the times of a recording"):
        RecordedFeed(record)
    times.write_bytes(whole[:16] + whole[40:64] + whole[16:40])
    with pytest.raises(FormatError, match="do not rise"):
        ticks_of(RecordedFeed(record))


@pytest.mark.parametrize("packing", ["", ".gz", ".zst"])
def test_a_killed_recorder_leaves_all_that_came_without_a_further_message(tmp_path: Path, packing: str) -> None:
    """The program writes nothing more of itself, and is killed when its files have all."""
    code = f"""
import sys, time
sys.path[:0] = {[str(Path(__file__).parents[3] / "support")]!r}
import numpy as np
from strand.binding.live import RUN
from strand.feeds.formats.recording import Recorder
from itch_reference import frame
from mold_lines import order
from websocket_recordings import HEADER
from strand.feeds.formats.websocket import MessageRecorder

with Recorder("day.itch{packing}", None) as lines, MessageRecorder("day.ws{packing}", HEADER) as messages:
    for n in range(1, 401):
        runs = np.zeros(1, RUN)
        runs["position"], runs["sequence"], runs["ts_recv"] = n, 10 * n, 10**18 + n
        lines.write(memoryview(frame(order(n))), runs, 0)
        trade = f'{{{{"s": "A", "p": "1.5", "q": 2, "T": 1700000000000, "m": true, "n": {{n}}}}}}'
        messages.message('{{"type": "trade", "data": [' + trade + "]}}", 10**18 + n)
    time.sleep(600)
"""

    def left() -> list[Path]:
        return sorted(tmp_path.iterdir())

    def is_whole(path: Path) -> bool:
        with contextlib.suppress(FeedError), strand.feeds.open(path) as feed:
            return len(read(feed)[0]) == 400
        return False

    with subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path) as program:
        try:
            wait_until(lambda: len(left()) == 3 and is_whole(left()[0]) and is_whole(left()[2]))
        finally:
            program.kill()
    assert [path.name.endswith(".partial") for path in left()] == [True, False, True]
    lines, _, messages = left()
    with strand.feeds.open(lines) as feed:
        ticks, error = read(feed)
    assert isinstance(error, TruncatedFeedError) == bool(packing)
    assert ticks["sequence"].tolist() == [10 * n for n in range(1, 401)]
    assert ticks["ts_recv"].tolist() == [10**18 + n for n in range(1, 401)]
    with strand.feeds.open(messages) as feed:
        ticks, error = read(feed)
    assert isinstance(error, TruncatedFeedError)
    assert ticks["ts_recv"].tolist() == [10**18 + n for n in range(1, 401)]


def test_at_no_time_is_a_message_in_a_recording_without_its_time(tmp_path: Path) -> None:
    """After each write a copy of both files is read, as a kill would leave them: no tick has the time of another."""
    seen = 0
    with Recorder(tmp_path / "day.itch50", None) as recorder:
        for n in range(1, 4_000):
            runs = np.zeros(1, RUN)
            runs["position"], runs["sequence"], runs["ts_recv"] = n, 10 * n, 10**18 + n
            recorder.write(memoryview(frame(order(n))), runs, 0)
            if n % 97 == 0:
                frames, times = sorted(tmp_path.glob(".*.partial*"), key=lambda path: path.name)
                copy = tmp_path / "copy"
                copy.write_bytes(frames.read_bytes())
                times_path(copy).write_bytes(times.read_bytes())
                if not copy.stat().st_size or times.stat().st_size < 16:
                    continue
                ticks, _ = read(RecordedFeed(copy))
                seen += len(ticks)
                assert (ticks["ts_recv"] == 10**18 + ticks["sequence"] // 10).all()
                assert (ticks["sequence"] == 10 * np.arange(1, len(ticks) + 1)).all()
    assert seen
