"""What a WebSocket sent, recorded and replayed: the same ticks, whatever ended the feed; and damaged recordings."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bad_input import write_anew
from reading import ticks_of
from websocket_recordings import HEADER, recorded, taken
from websocket_server import TRADES, listen, message, serving, stay, trade

import strand
from strand.errors import ConfigurationError, FeedError, FormatError, TruncatedFeedError
from strand.feeds.formats.json.reader import RecordedMessages
from strand.feeds.formats.websocket import (
    LONGEST_MESSAGE,
    MAX_SYMBOLS,
    Header,
    MessageRecorder,
    read_entry,
)
from strand.feeds.live.websocket import WebSocketFeed

pytestmark = pytest.mark.python


def check_same(live: WebSocketFeed, ticks: np.ndarray, record: Path) -> RecordedMessages:
    """A replay of the recording is what was live: ticks, symbols, counts and events."""
    feed = strand.feeds.open(record)
    assert isinstance(feed, RecordedMessages)
    np.testing.assert_array_equal(ticks_of(feed), ticks)
    assert list(feed.symbols) == list(live.symbols)
    assert feed.max_symbols == live.max_symbols
    assert feed.statistics() == live.statistics()
    assert list(feed.events) == list(live.events)
    return feed


# ---- live, and again


def test_a_recording_has_every_message_as_it_came_and_gives_the_same_ticks(tmp_path: Path) -> None:
    sent: list[str | bytes] = [
        message(trade(1), trade(2, "ETH", p=0.1)),
        '{"type":\t"trade",\n\n"data": []}\r\n',
        message(trade(3)).encode(),
        b'{"type": "trade",\n"data": []}',
        '{"type": "n\u00e9ws \U0001f600"}',
        message(trade(7), trade(3, "ETH")),
    ]

    def handle(connection: Any, _: int) -> None:
        for data in sent:
            connection.send(data)

    record = tmp_path / "day.ws"
    with serving(handle) as url:
        options = {"symbols": ["XRP", "ETH"], "max_symbols": 7, "max_messages": len(sent), "record": record}
        ticks = ticks_of(live := listen(f"{url}/trades?key=secret", **options))
    feed = check_same(live, ticks, record)
    assert list(feed.symbols) == ["XRP", "ETH", "BTC"]
    assert ticks["sequence"].tolist() == [1, 2, 3, 7, 3]
    assert feed.statistics()["gap_messages"] == 4
    assert feed.info.details["url"] == f"{url}/trades"
    lines = record.read_bytes().splitlines()
    assert b"secret" not in record.read_bytes()
    assert [entry.value for line in lines[2:-1] if (entry := read_entry(line))] == sent
    np.testing.assert_array_equal(ticks_of(feed), ticks)  # from its start, each time anew
    assert feed.statistics() == live.statistics()


def test_connections_lost_and_made_again_are_in_it(tmp_path: Path) -> None:
    def handle(connection: Any, before: int) -> None:
        connection.send(message(trade(1 + 10 * before), trade(1 + before, "ETH")))
        if before == 1:
            connection.socket.close()  # without a word

    with serving(handle) as url:
        ticks = ticks_of(live := listen(url, max_messages=4, record=tmp_path / "day.ws"))
    feed = check_same(live, ticks, tmp_path / "day.ws")
    kinds = [event.kind for event in feed.events]
    assert (kinds.count("connected"), kinds.count("disconnected"), kinds.count("gap")) == (4, 3, 3)


def test_messages_that_were_passed_over_are_passed_over_again(tmp_path: Path) -> None:
    def handle(connection: Any, _: int) -> None:
        for data in (message(trade(1), trade(2, p="ten")), "{no JSON", "[1e9999999999999999999]", message(trade(3))):
            connection.send(data)

    with serving(handle) as url:
        ticks = ticks_of(live := listen(url, max_messages=4, on_bad_record="skip", record=tmp_path / "day.ws"))
    feed = check_same(live, ticks, tmp_path / "day.ws")
    assert feed.skipped.counts == live.skipped.counts == {"not as the profile has it": 3}
    assert [sample.line for sample in feed.skipped.samples] == [3, 4, 5]


def test_a_message_that_ended_the_feed_ends_the_replay_too_behind_the_same_ticks(tmp_path: Path) -> None:
    parts: list[np.ndarray] = []
    with serving(lambda connection, _: connection.send(message(trade(1), trade(2, p="ten"), trade(3)))) as url:
        feed = listen(url, record=tmp_path / "day.ws")
        with pytest.raises(FormatError, match="message 1: price"):
            parts.extend(batch.copy() for batch in feed.batches())
    ticks, error = taken(tmp_path / "day.ws")
    np.testing.assert_array_equal(ticks, np.concatenate(parts))
    assert isinstance(error, FormatError)
    assert (error.line, error.offset) == (
        3,
        sum(map(len, (tmp_path / "day.ws").read_bytes().splitlines(keepends=True)[:2])),
    )
    ticks, error = taken(tmp_path / "day.ws", on_bad_record="skip")
    assert (ticks["sequence"].tolist(), error) == ([1, 3], None)


def test_a_symbol_too_many_ends_both_behind_the_ticks_before_it(tmp_path: Path) -> None:
    parts: list[np.ndarray] = []
    with serving(lambda connection, _: connection.send(message(trade(1), trade(1, "ETH")))) as url:
        feed = listen(url, record=tmp_path / "day.ws", max_symbols=1)
        with pytest.raises(FeedError, match="more than 1 symbols"):
            parts.extend(batch.copy() for batch in feed.batches())
    ticks, error = taken(tmp_path / "day.ws")
    np.testing.assert_array_equal(ticks, np.concatenate(parts))
    assert len(ticks) == 1
    assert "more than 1 symbols" in str(error)


def test_a_recording_has_its_name_only_when_the_feed_has_ended(tmp_path: Path) -> None:
    def handle(connection: Any, _: int) -> None:
        connection.send(message(trade(1)))
        stay(connection)

    record = tmp_path / "day.ws"
    with serving(handle) as url:
        batches = listen(url, record=record).batches()
        assert len(next(batches)) == 0
        first = next(batches).copy()
        assert not record.exists()
        batches.close()  # type: ignore[attr-defined] - left off in the middle
    assert [path.name for path in tmp_path.iterdir()] == ["day.ws"]
    ticks, error = taken(record)
    assert error is None
    np.testing.assert_array_equal(ticks, first)


def test_a_server_that_never_was_there_leaves_a_recording_of_nothing(tmp_path: Path) -> None:
    with serving(lambda connection, _: None) as url:
        pass
    with pytest.raises(FeedError, match="no connection"):
        ticks_of(listen(url, reconnect=0, record=tmp_path / "day.ws"))
    with RecordedMessages(tmp_path / "day.ws") as feed:
        assert list(feed.batches()) == []
        assert [event.kind for event in feed.events] == ["disconnected"]


def test_what_cannot_be_written_ends_the_feed_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(lambda connection, _: connection.send(message(trade(1)))) as url:
        with pytest.raises(FeedError, match="cannot be written"):
            ticks_of(listen(url, record=tmp_path / "no" / "day.ws"))
        recorder = MessageRecorder(tmp_path / "day.ws", HEADER)
        with pytest.raises(FeedError, match="cannot be written: No space"), recorder:

            class Full:
                def write(self, _: bytes) -> int:
                    raise OSError(28, "No space left on device")

            monkeypatch.setattr(recorder, "_file", Full())
            recorder.message("{}", 1)
    assert list(tmp_path.iterdir()) == []


def test_a_feed_that_no_reader_would_take_is_refused_with_a_recording(tmp_path: Path) -> None:
    for options, words in (
        ({"max_message_bytes": LONGEST_MESSAGE + 1}, "max_message_bytes"),
        ({"max_symbols": MAX_SYMBOLS + 1}, "max_symbols"),
        ({"symbols": ["S" * LONGEST_MESSAGE]}, "record: profile and symbols take"),
    ):
        WebSocketFeed("ws://127.0.0.1:1", TRADES, **options)  # type: ignore[arg-type]
        with pytest.raises(ConfigurationError, match=words):
            WebSocketFeed("ws://127.0.0.1:1", TRADES, record=tmp_path / "day.ws", **options)  # type: ignore[arg-type]


def test_the_command_records_what_replay_and_info_read_also_when_it_is_interrupted(tmp_path: Path) -> None:
    profile, record = tmp_path / "trades.toml", tmp_path / "day.ws"
    profile.write_text(
        'size_unit = "0.001"\n[[message]]\neach = "data"\nkind = "trade"\nsymbol = "s"\n'
        '[message.fields]\nprice = "p"\nsize = "q"\n'
    )
    listening: list[int] = []

    def handle(connection: Any, _: int) -> None:
        for n in range(200):
            connection.send(message(trade(n, "BTC" if n % 2 else "ETH")) + " " * 5_000)
        connection.ping().wait(10)  # answered once most have been taken: the others fit the client's queue
        os.kill(listening[0], signal.SIGINT)
        stay(connection)

    def command(*arguments: object) -> list[str]:
        return [sys.executable, "-m", "strand", *map(str, arguments), "--json"]

    with serving(handle) as url:
        asked = ("--websocket", url, "--profile", profile, "--max-seconds", 30, "--record", record, "--handler", "vwap")
        with subprocess.Popen(command("listen", *asked), stdout=subprocess.PIPE, text=True) as running:
            listening.append(running.pid)
            live = json.loads(running.communicate(timeout=60)[0])
        assert running.returncode == 0
    again, info = (
        json.loads(subprocess.run(command(*asked), capture_output=True, text=True, timeout=60, check=True).stdout)
        for asked in (("replay", record, "--handler", "vwap"), ("info", record))
    )
    assert live["ticks"] == again["ticks"] == info["ticks"] > 0
    assert live["fingerprint"] == again["fingerprint"]
    assert live["live"]["messages"] == live["ticks"]
    assert info["format"] == "websocket"


# ---- damage


def test_damaged_lines_can_be_passed_over_and_are_counted_with_their_places(whole: Path, tmp_path: Path) -> None:
    lines, (ticks, _) = whole.read_bytes().splitlines(keepends=True), taken(whole)
    lines[3] = lines[3].replace(b'"n": 1', b'"n": 2')
    lines[5] = b"x" * 2_000_000 + b"\n"  # longer than any may be, and than what is read at once
    path = tmp_path / "damaged.ws"
    path.write_bytes(b"".join(lines))
    feed = RecordedMessages(path, on_bad_record="skip")
    np.testing.assert_array_equal(ticks_of(feed), ticks[[0, 2, 4]])
    assert feed.skipped.counts == {"damaged line": 2}
    places = [(sample.line, sample.offset) for sample in feed.skipped.samples]
    assert places == [(4, len(b"".join(lines[:3]))), (6, len(b"".join(lines[:5])))]
    assert "longer than lines" in feed.skipped.samples[1].text


def test_lines_that_are_missing_or_too_many_are_noticed(whole: Path, tmp_path: Path) -> None:
    lines, path = whole.read_bytes().splitlines(keepends=True), tmp_path / "other.ws"
    for some, words, made in (
        ([*lines[:4], *lines[5:]], "says that 7 lines are before it, but there are 6", 4),
        ([*lines, lines[2]], "comes after the recording's end", 5),
    ):
        path.write_bytes(b"".join(some))
        ticks, error = taken(path)
        assert len(ticks) == made
        assert isinstance(error, FormatError)
        assert words in str(error)
        ticks, error = taken(path, on_bad_record="skip")
        assert (len(ticks), error) == (made, None)


def _first_line(text: str, version: bytes = b"1") -> bytes:
    return b"strand-websocket %s %08x %s\n" % (version, zlib.crc32(text.encode()), text.encode())


def _told(**changes: Any) -> str:
    told = json.loads(HEADER.line().split(b" ", 3)[3])
    return json.dumps({key: value for key, value in (told | changes).items() if value is not None})


@pytest.mark.parametrize(
    ("first", "words"),
    [
        (_first_line(_told(), b"2"), "is of version '2' of the format, and this reader knows version 1"),
        (_first_line(_told()).replace(b"raise", b"skip!"), "its checksum is wrong"),
        (_first_line("[]"), "it is not an object"),
        (_first_line("[" * 100_000), "cannot be used"),
        (_first_line(_told(profile=None)), "profile: is not an object"),
        (
            _first_line(_told(profile={"message": [{"symbol": "s", "kind": []}]})),
            r"profile.message\[1\].kind: give 'none' or 'order' or .*, not \[\]",
        ),
        (_first_line(_told(on_bad_record="stop")), "on_bad_record: 'stop'"),
        (_first_line(_told(url=7)), "url: 7"),
        (_first_line(_told(symbols=[1])), "symbols: is not a list of names"),
        (_first_line(_told(symbols=["S"] * 17)), "symbols: 17 of them"),
        (_first_line(_told(max_symbols=1 << 40)), "max_symbols: 1099511627776"),
        (_first_line(_told(max_message_bytes=True)), "max_message_bytes: True"),
        (b"strand-websocket 1\n", "is not a recording"),
    ],
)
def test_a_first_line_that_cannot_be_used_is_an_error_that_says_why(tmp_path: Path, first: bytes, words: str) -> None:
    path = tmp_path / "day.ws"
    path.write_bytes(first)
    with pytest.raises(FormatError, match=words) as caught:
        strand.feeds.open(path)
    assert caught.value.line == 1


def test_a_cut_is_an_error_however_bad_lines_are_taken(whole: Path) -> None:
    whole.write_bytes(whole.read_bytes()[:-5])
    for on_bad_record in ("raise", "skip"):
        ticks, error = taken(whole, on_bad_record=on_bad_record)
        assert len(ticks) == 5
        assert isinstance(error, TruncatedFeedError)


def test_it_is_told_by_content_whatever_it_is_called(whole: Path, tmp_path: Path) -> None:
    for name in ("day.csv", "day.itch", "day.pitch", "day"):
        path = tmp_path / name
        path.write_bytes(whole.read_bytes())
        assert len(ticks_of(strand.feeds.open(path))) == 5


def test_another_profile_can_read_the_messages(whole: Path) -> None:
    profile = {"message": [{"symbol": {"constant": "ALL"}, "fields": {"size": "n"}}]}
    with strand.feeds.open(whole, format="websocket", profile=profile) as feed:
        ticks = ticks_of(feed)
        assert list(feed.symbols) == ["ALL"]
    assert ticks["sequence"].tolist() == [1, 2, 3, 4, 5]
    assert ticks["size"].tolist() == [0, 1, 2, 3, 4]


# ---- Lines of a recording: checksums, cuts, flipped bits, and lines that say nothing


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
