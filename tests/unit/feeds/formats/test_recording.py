"""A recording of a line: it replays to the same rows, and its times may be cut."""

from __future__ import annotations

import contextlib
from pathlib import Path

import numpy as np
import pytest
from mold_lines import DATE, listen, orders, sender
from mold_wire import end_of_session, packet
from reading import ticks_of

import strand
from strand.errors import (
    FormatError,
    TruncatedFeedError,
)
from strand.feeds.formats.recording import RecordedFeed, times_path

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
