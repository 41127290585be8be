"""Lines of a recording: checksums, cuts, flipped bits, and lines that say nothing."""

from __future__ import annotations

import zlib
from pathlib import Path

import numpy as np
import pytest
from bad_input import write_anew
from websocket_recordings import HEADER, recorded, taken
from websocket_server import message, trade

from strand.errors import FeedError, FormatError, TruncatedFeedError
from strand.feeds.formats.websocket.lines import Header
from strand.feeds.formats.websocket.recording import MessageRecorder

pytestmark = pytest.mark.python


def test_a_recording_cut_at_any_byte_gives_the_lines_before_the_cut_and_says_where_it_is(
    whole: Path, tmp_path: Path
) -> None:
    data, (ticks, _) = whole.read_bytes(), taken(whole)
    starts = np.cumsum([0, *map(len, data.splitlines(keepends=True))])
    cut = tmp_path / "cut.ws"
    for size in range(len(data)):
        write_anew(cut, data[:size])
        lines = int(np.searchsorted(starts, size, side="right")) - 1
        found, error = taken(cut)
        np.testing.assert_array_equal(found, ticks[: min(max(lines - 2, 0), 5)])
        if size < len(b"strand-websocket "):
            assert isinstance(error, FeedError)
            continue
        assert isinstance(error, TruncatedFeedError), size
        assert (error.offset, error.line) == (size, lines + 1)


def test_a_flipped_bit_anywhere_is_an_error_behind_the_lines_before_it(whole: Path, tmp_path: Path) -> None:
    data, (ticks, _) = whole.read_bytes(), taken(whole)
    starts = np.cumsum([0, *map(len, data.splitlines(keepends=True))])
    flipped = tmp_path / "flipped.ws"
    for at in range(len(data)):
        write_anew(flipped, data[:at] + bytes([data[at] ^ 1 << at % 8]) + data[at + 1 :])
        found, error = taken(flipped)
        line = int(np.searchsorted(starts, at, side="right"))
        assert isinstance(error, FeedError), at
        assert error.line == line
        np.testing.assert_array_equal(found, ticks[: min(max(line - 3, 0), 5)])


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b"1700000000000000000 text", "is damaged"),
        (b"-1 text {}", "does not begin with a time"),
        (b"9999999999999999999 text {}", "does not begin with a time"),
        (b"1 sound {}", "is of an unknown kind, 'sound'"),
        (b"1 text \xff", "can't decode"),
        (b"1 text64 e30", "is not base64"),
        (b"1 connected 7", "says no text"),
        (b"1 connected {", "Expecting"),
        (b"1 end many", "does not say a number of lines"),
    ],
)
def test_a_line_with_a_right_checksum_that_says_nothing_is_an_error(tmp_path: Path, line: bytes, words: str) -> None:
    path = tmp_path / "odd.ws"
    with MessageRecorder(path, HEADER) as recorder:
        recorder._write(b"%08x %s\n" % (zlib.crc32(line), line))
    _, error = taken(path)
    assert isinstance(error, FormatError)
    assert words in str(error)
    assert error.line == 2


def test_lines_longer_than_what_is_read_at_once_are_whole(tmp_path: Path) -> None:
    header = Header(HEADER.profile, HEADER.url, "raise", (), 16, 1 << 21)
    texts = [message(trade(n)) + " " * (n * 400_000) for n in range(1, 5)]
    ticks, error = taken(recorded(tmp_path / "long.ws", *texts, header=header))
    assert (ticks["sequence"].tolist(), error) == ([1, 2, 3, 4], None)
