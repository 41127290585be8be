"""Live feeds over loopback: two lines, requests for what is missing, ends of every kind, and recordings."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from pathlib import Path
from typing import Any, ClassVar

import itch_reference as ref
import numpy as np
import pytest
from mold_lines import BOUND_S, DATE, HERE, listen, orders, sender
from mold_wire import end_of_session, heartbeat, packet
from reading import ticks_of

import strand
from strand.errors import (
    ConfigurationError,
    FeedError,
    FormatError,
    GapError,
    TruncatedFeedError,
    UnknownFormatError,
)
from strand.feeds.formats.itch import ItchFeed
from strand.feeds.formats.recording import RecordedFeed
from strand.feeds.live import mold
from strand.feeds.live.mold import Faults, MoldFeed, ServeOptions, serve
from strand.feeds.live.options import Address
from strand.feeds.synthetic import SyntheticFeed

pytestmark = pytest.mark.python


@pytest.fixture
def day(tmp_path: Path) -> Path:
    """Some 20,000 messages of 20 symbols."""
    path = tmp_path / "day.itch50"
    SyntheticFeed(20, 20_000, seed=3, date=DATE).write_itch(path)
    return path


def test_ticks_carry_the_times_of_receipt_and_the_venues_numbers() -> None:
    before = np.uint64(int(np.datetime64("now", "ns").astype(np.int64)) - 2_000_000_000)
    with contextlib.closing(listen()) as feed, sender(*feed.addresses) as send:
        send(0, packet(40, [ref.directory(1, b"AAA"), *orders(1, 3)]))
        send(0, packet(43, orders(3, 4)))
        send(0, end_of_session(44))
        ticks = ticks_of(feed)
    assert ticks["sequence"].tolist() == [41, 42, 43]
    assert ticks["order_id"].tolist() == [1, 2, 3]
    assert np.all(ticks["ts_recv"] > before)
    assert feed.symbols[1] == "AAA"
    assert feed.joined_at == feed.report()["joined_at"] == 40


@pytest.mark.parametrize("options", [{}, {"first_sequence": 1}, {"first_sequence": 3}])
def test_a_feed_that_leaves_nothing_out_is_not_called_late(options: dict[str, Any]) -> None:
    first = options.get("first_sequence", 1)
    with contextlib.closing(listen(**options)) as feed, sender(*feed.addresses) as send:
        assert feed.joined_at is None
        send(0, packet(first, orders(first, 5)))
        send(0, end_of_session(5))
        ticks_of(feed)
    assert feed.joined_at is None
    assert feed.report()["first_sequence"] == first


def test_the_first_batch_is_empty_and_says_that_the_feed_is_ready() -> None:
    with contextlib.closing(listen()) as feed:
        assert len(next(feed.batches())) == 0


def test_a_feed_ends_after_so_many_messages_or_when_nothing_comes() -> None:
    with contextlib.closing(listen(max_messages=2)) as feed, sender(*feed.addresses) as send:
        send(0, packet(1, orders(1, 9)))
        assert ticks_of(feed)["order_id"].tolist() == [1, 2]
    with contextlib.closing(listen(idle_timeout_s=0.05)) as feed, sender(*feed.addresses) as send:
        send(0, packet(1, orders(1, 3)))
        assert ticks_of(feed)["order_id"].tolist() == [1, 2]


def test_closing_from_another_thread_ends_the_iteration_with_what_is_held() -> None:
    with contextlib.closing(listen(first_sequence=1, gap_timeout_s=60)) as feed, sender(*feed.addresses) as send:
        batches = feed.batches()
        next(batches)
        send(0, packet(5, orders(5, 7)))
        closer = threading.Timer(0.2, feed.close)
        closer.start()
        assert [order_id for batch in batches for order_id in batch["order_id"].tolist()] == [5, 6]
        closer.join()
    assert feed.report()["gaps"] == [(1, 5)]


def test_a_gap_that_stays_is_an_error_where_that_is_asked_for() -> None:
    with contextlib.closing(listen(on_gap="raise", gap_timeout_s=0.02)) as feed, sender(*feed.addresses) as send:
        send(0, packet(1, orders(1, 3)))
        send(0, packet(5, orders(5, 7)))
        taken: list[int] = []
        with pytest.raises(GapError, match="messages 3 to 4 came on no line") as caught:
            for batch in feed.batches():
                taken += batch["order_id"].tolist()
    assert caught.value.gaps == ((3, 5),)
    assert taken == [1, 2]


def test_a_run_warns_of_messages_that_stayed_missing_and_of_leaps_that_none_agreed_with() -> None:
    with contextlib.closing(listen(gap_timeout_s=0.02)) as feed, sender(*feed.addresses) as send:
        send(0, packet(1, orders(1, 3)))
        send(0, packet(5, orders(5, 7)))
        send(0, packet(1 << 39, orders(7, 9)))
        send(0, end_of_session(9))
        result = strand.replay(feed, "count", workers=0)
    found = {warning.kind: warning for warning in result.warnings}
    # 3 and 4 before the message that shows it, 7 and 8 before the session's end.
    assert found["missing messages"].count == feed.statistics()["gap_messages"] == 4
    assert found["sequence jumps"].count == feed.statistics()["sequence_jumps"] == 1
    assert "rerequest" in found["missing messages"].cure
    assert "jump_window" in found["sequence jumps"].cure
    assert result.ticks == 4


def test_messages_that_come_late_are_in_sequence_and_no_warning_tells_to_sort_them() -> None:
    with contextlib.closing(listen(lines=2, gap_timeout_s=5)) as feed, sender(*feed.addresses) as send:
        send(0, packet(1, orders(1, 3)))
        send(0, packet(4, orders(4, 6)))
        time.sleep(0.01)
        send(1, packet(1, orders(1, 4)))
        send(0, end_of_session(6))
        send(1, end_of_session(6))
        result = strand.replay(feed, "count", workers=0)
    (late,) = [warning for warning in result.warnings if warning.kind == "backward times"]
    assert late.count >= 1, "4 and 5 came before 3"
    assert "sequence" in late.cure
    assert "reorder_ns" not in late.cure


@pytest.mark.parametrize("window", [0, -1, 1.5, 1 << 40])
def test_a_jump_window_that_cannot_be_is_refused(window: Any) -> None:
    with pytest.raises(ConfigurationError, match="jump_window"):
        listen(jump_window=window)


def test_another_session_is_an_error_after_all_of_the_first() -> None:
    with contextlib.closing(listen()) as feed, sender(*feed.addresses) as send:
        send(0, packet(1, orders(1, 2)))
        send(0, packet(2, orders(2, 3)))
        send(0, packet(1, orders(7, 9), session=b"TOMORROW"))
        send(0, packet(3, orders(9, 10), session=b"TOMORROW"))
        taken: list[int] = []
        with pytest.raises(FeedError, match="'SESSION001' was replaced by 'TOMORROW'"):
            for batch in feed.batches():
                taken += batch["order_id"].tolist()
    assert taken == [1, 2]


def test_what_is_no_itch_is_an_error_after_every_tick_before_it_live_and_recorded(tmp_path: Path) -> None:
    record = tmp_path / "rec.itch50"
    with contextlib.closing(listen(record=record)) as live, sender(*live.addresses) as send:
        send(0, packet(1, [*orders(1, 3), b"A" * 7, *orders(4, 6)]))
        for feed in (live, None):
            taken: list[int] = []
            with pytest.raises(FormatError, match="the length field says 7"):
                for batch in (feed or RecordedFeed(record)).batches():
                    taken += batch["order_id"].tolist()
            assert taken == [1, 2]


def test_what_is_no_itch_can_be_passed_over_and_is_counted(tmp_path: Path) -> None:
    record = tmp_path / "rec.itch50"
    with contextlib.closing(listen(on_bad_record="skip", record=record)) as feed, sender(*feed.addresses) as send:
        send(0, packet(1, [*orders(1, 3), b"A" * 7, *orders(4, 6), b"z" * 300]))
        send(0, packet(7, [b"z" * 20, *orders(8, 9)]))
        send(0, end_of_session(9))
        ticks = ticks_of(feed)
    assert ticks["order_id"].tolist() == [1, 2, 4, 5, 8]
    assert ticks["sequence"].tolist() == [1, 2, 4, 5, 8]
    assert feed.skipped.counts == {"not ITCH 5.0": 3}
    assert feed.statistics()["left_out"] == 3
    assert np.array_equal(ticks_of(RecordedFeed(record)), ticks), "what was passed over is not recorded"


def test_packets_that_are_no_mold_are_counted_and_passed_over() -> None:
    with contextlib.closing(listen()) as feed, sender(*feed.addresses) as send:
        for bad in (b"", b"x", b"\0" * 20, b"\xff" * 1_000, b"\0" * 10_000):
            send(0, bad)
        send(0, packet(1, orders(1, 3)))
        send(0, heartbeat(3))
        send(0, end_of_session(3))
        assert ticks_of(feed)["order_id"].tolist() == [1, 2]
    line = feed.report()["lines"]["a"]
    assert (line["malformed"], line["heartbeats"], line["packets"]) == (5, 1, 1)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"line": ["nowhere"]}, "line: 'nowhere' is not HOST:PORT"),
        ({"line": ["127.0.0.1:70000"]}, "a port from 0 to 65535"),
        ({"line": ["example.org:1"]}, "not an IPv4 address"),
        ({"line": []}, "line: 0 of them: give one, or two"),
        ({"line": [HERE] * 3}, "line: 3 of them: give one, or two"),
        ({"group": "239.0.0.1"}, "group: give a sequence"),
        ({"group": ["10.0.0.1"]}, "is not a multicast address"),
        ({"interface": "127.0.0.1"}, "it is for a multicast group"),
        ({"group": ["239.0.0.1", "239.0.0.2"]}, "group: give a sequence of one for each line"),
        ({"session": "ELEVEN CHARS"}, "session: 'ELEVEN CHARS' is not of 1 to 10 characters"),
        ({"first_sequence": 0}, "first_sequence: 0 is not a whole number from 1"),
        ({"first_sequence": 1 << 63}, "first_sequence: .* from 1 to 1,099,511,627,775"),
        ({"gap_timeout_s": -1}, "gap_timeout_s: -1 is not a number from 0"),
        ({"on_gap": "wait"}, "on_gap: 'wait' is not one of continue, raise"),
    ],
)
def test_an_option_that_cannot_work_is_named(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        MoldFeed(*options.get("line", [HERE]), **{name: value for name, value in options.items() if name != "line"})


def _served(day: Path, feed: MoldFeed, **options: Any) -> tuple[np.ndarray, dict[str, Any]]:
    """The ticks a feed gives while a day is served to it, and what was sent."""
    sent: dict[str, Any] = {}

    def run() -> None:
        sent.update(serve(day, ServeOptions(feed.addresses, rate=200_000, **options)))

    batches = feed.batches()
    next(batches)
    thread = threading.Thread(target=run)
    thread.start()
    try:
        return np.concatenate([batch.copy() for batch in batches]), sent
    finally:
        thread.join()


def test_what_is_served_is_what_is_heard(day: Path) -> None:
    with contextlib.closing(listen(lines=2, receive_bytes=16 << 20, first_sequence=1)) as feed:
        ticks, sent = _served(day, feed)
    expected = ticks_of(ItchFeed(day, date=DATE))
    ticks["ts_recv"] = expected["ts_recv"]
    assert np.array_equal(ticks, expected)
    assert sent["lines"]["a"]["lost_messages"] == 0


def test_every_loss_is_listed_and_nothing_that_one_line_carried_is_missing(day: Path) -> None:
    faults = (Faults(0.2, 0.1, 0.1), Faults(0.3, 0.1, 0.1))
    with contextlib.closing(listen(lines=2, receive_bytes=16 << 20, first_sequence=1, gap_timeout_s=0.5)) as feed:
        ticks, sent = _served(day, feed, faults=faults, packet_bytes=300)
    report = feed.report()
    lost = [{n for low, end in sent["lines"][name]["lost_ranges"] for n in range(low, end)} for name in ("a", "b")]
    assert lost[0]
    assert lost[1]
    for name, missed in zip("ab", lost, strict=True):
        assert {n for low, end in report["line_gaps"][name] for n in range(low, end)} == missed
    both = lost[0] & lost[1]
    assert both
    assert {n for low, end in report["gaps"] for n in range(low, end)} == both
    expected = ticks_of(ItchFeed(day, date=DATE))
    assert ticks["sequence"].tolist() == [n for n in expected["sequence"].tolist() if n not in both]


def _free_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


def test_the_faults_are_the_same_for_the_same_seed(day: Path) -> None:
    lines = [f"127.0.0.1:{_free_port()}", f"127.0.0.1:{_free_port()}"]
    found = [
        serve(day, ServeOptions(lines, speed=0, faults=(Faults(0.1), Faults(0.1)), seed=seed))["lines"]
        for seed in (1, 1, 2)
    ]
    assert found[0] == found[1] != found[2]
    assert found[0]["a"] != found[0]["b"]


def test_what_is_missing_on_every_line_is_asked_for_and_comes(day: Path) -> None:
    server = f"127.0.0.1:{_free_port()}"
    options = {"rerequest": server, "gap_timeout_s": 5.0, "request_after_s": 0.001, "first_sequence": 1}
    with contextlib.closing(listen(receive_bytes=16 << 20, **options)) as feed:
        ticks, sent = _served(day, feed, faults=(Faults(0.2), Faults()), rerequest=server, linger_s=1.0)
    expected = ticks_of(ItchFeed(day, date=DATE))
    report = feed.report()
    assert report["gaps"] == []
    assert ticks["sequence"].tolist() == expected["sequence"].tolist()
    assert report["lines"]["retransmitted"]["first"] == sent["lines"]["a"]["lost_messages"] > 0
    assert sent["answered"] > 0
    assert report["requests"] >= sent["answered"]


def test_a_gap_of_more_than_one_answer_is_asked_for_to_its_end_at_once() -> None:
    # Only the first request is one that its time brings: the gap would be given up before the third.
    options = {"gap_timeout_s": 2.5, "request_after_s": 1.0, "first_sequence": 1}
    asked: list[tuple[int, int]] = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))
        server.settimeout(BOUND_S)

        def answer() -> None:
            while not asked or asked[-1][0] < 7:
                request, address = server.recvfrom(100)
                if not request:
                    return
                sequence, count = int.from_bytes(request[10:18], "big"), int.from_bytes(request[18:20], "big")
                asked.append((sequence, count))
                server.sendto(packet(sequence, orders(sequence, sequence + min(count, 2))), address)

        thread = threading.Thread(target=answer)
        where = Address(*server.getsockname())
        with contextlib.closing(listen(rerequest=where, **options)) as feed, sender(*feed.addresses, where) as send:
            thread.start()
            send(0, packet(1, orders(1, 3)))
            send(0, packet(9, orders(9, 10)))
            send(0, end_of_session(10))
            ticks = ticks_of(feed)
            send(1, b"")
            thread.join()
    assert asked == [(3, 6), (5, 4), (7, 2)]
    assert ticks["order_id"].tolist() == list(range(1, 10))


def test_a_server_that_is_not_there_leaves_the_gap_to_its_time() -> None:
    server = f"127.0.0.1:{_free_port()}"
    options = {"gap_timeout_s": 0.05, "request_after_s": 0.005}
    with contextlib.closing(listen(rerequest=server, **options)) as feed, sender(*feed.addresses) as send:
        send(0, packet(1, orders(1, 3)))
        send(0, packet(5, orders(5, 6)))
        send(0, end_of_session(6))
        assert ticks_of(feed)["order_id"].tolist() == [1, 2, 5]
    assert feed.report()["gaps"] == [(3, 5)]


def test_the_server_refuses_what_it_does_not_have(day: Path) -> None:
    server = ("127.0.0.1", _free_port())
    options = ServeOptions(
        f"127.0.0.1:{_free_port()}", rerequest=Address(*server), speed=0, linger_s=BOUND_S, history_messages=1_000
    )
    stop, sent = threading.Event(), {}
    thread = threading.Thread(target=lambda: sent.update(serve(day, options, stop=stop.is_set)))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.settimeout(0.05)
        thread.start()
        session = b"STRAND0001"
        last = 0
        for _ in range(1_200):  # until all is sent, and the newest message can be had
            sock.sendto(packet(20_000, [], session=session, count=1), server)
            with contextlib.suppress(TimeoutError, ConnectionRefusedError):
                last = int.from_bytes(sock.recv(9_000)[10:18], "big")
                break
        assert last == 20_000
        for refused in (
            packet(1, [], session=session, count=5),  # gone from the history
            packet(10_000_000, [], session=session, count=5),  # not sent yet
            packet((1 << 64) - 1, [], session=session, count=5),
            packet(20_000, [], session=b"ANOTHER", count=5),
            packet(20_000, [], session=session, count=0),
            b"short",
            b"x" * 1_000,
        ):
            sock.sendto(refused, server)
        with pytest.raises(TimeoutError):
            sock.recv(9_000)
    stop.set()
    thread.join()
    assert sent["unanswerable"] >= 7


@pytest.mark.parametrize("handler", ["count", "vwap"])
def test_a_recording_replays_to_the_same_rows(day: Path, tmp_path: Path, handler: str) -> None:
    record = tmp_path / "rec.itch"
    sent: dict[str, Any] = {}
    with contextlib.closing(listen(lines=2, receive_bytes=16 << 20, first_sequence=1, record=record)) as feed:
        options = ServeOptions(feed.addresses, rate=200_000, faults=(Faults(0.2), Faults(0.2)))
        thread = threading.Thread(target=lambda: sent.update(serve(day, options)))
        thread.start()
        live = strand.replay(feed, handler, workers=2)
        thread.join()
    assert feed.report()["gap_messages"] > 0
    replayed = strand.replay(record, handler, workers=1)
    assert replayed.info.format == "recording"
    assert replayed.info.date == DATE
    assert replayed.ticks == live.ticks > 10_000
    for name in live.symbols:
        if name:
            assert live.rows[name] == replayed.rows[name], name


def test_serving_a_file_that_is_no_itch_or_is_cut_is_said(tmp_path: Path, day: Path) -> None:
    options = ServeOptions(f"127.0.0.1:{_free_port()}", speed=0, end_pause_s=0)
    other = tmp_path / "other"
    other.write_bytes(b"not a feed at all")
    with pytest.raises((FormatError, UnknownFormatError)):
        serve(other, options)
    cut = tmp_path / "cut.itch50"
    cut.write_bytes(day.read_bytes()[:-5])
    with pytest.raises(TruncatedFeedError, match=r"cut\.itch50, byte \d+: the file ends inside a message") as raised:
        serve(cut, options)
    assert 0 < cut.stat().st_size - raised.value.offset < 50
    short = tmp_path / "short.itch50"
    short.write_bytes(day.read_bytes()[:14])
    assert serve(short, options)["messages"] == 1
    empty = tmp_path / "empty.itch50"
    empty.touch()
    with pytest.raises(FormatError, match="does not start with"):
        serve(empty, options)


def test_nothing_is_sent_to_other_machines_unless_that_is_allowed() -> None:
    with pytest.raises(ConfigurationError, match="allow_remote"):
        ServeOptions("192.0.2.1:5000")
    with pytest.raises(ConfigurationError, match=r"line: .* has no port"):
        ServeOptions(HERE)
    with pytest.raises(ConfigurationError, match="line: 3 of them"):
        ServeOptions([HERE] * 3)


# ---- Sockets of a line: the size of the receive buffer, and multicast groups


def test_a_receive_buffer_that_the_kernel_caps_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    with contextlib.closing(listen(receive_bytes=1 << 14)) as feed:
        assert feed.warnings == ()
    # What the kernel says after it gave 16 KiB: twice as much, its own overhead included.
    monkeypatch.setattr("strand.binding.live.Receiver.line_counts", lambda self, line: {"receive_bytes": 2 << 14})
    with contextlib.closing(listen(receive_bytes=1 << 20)) as feed:
        assert len(feed.warnings) == 1
        assert "gave 16,384 bytes" in feed.warnings[0]
        assert "raise net.core.rmem_max to 1048576" in feed.warnings[0]


class _Noted(socket.socket):
    options: ClassVar[list[tuple[int, int, Any]]] = []
    bound: ClassVar[list[tuple[str, int]]] = []

    def setsockopt(self, level: int, name: int, value: Any) -> None:  # type: ignore[override]
        _Noted.options.append((level, name, value))

    def bind(self, address: Any) -> None:
        _Noted.bound.append(address)
        super().bind(("127.0.0.1", 0))


def test_a_multicast_group_is_joined_on_the_interface_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mold.socket, "socket", _Noted)
    monkeypatch.setattr(_Noted, "options", [])
    monkeypatch.setattr(_Noted, "bound", [])
    with mold.receiving_socket(Address("0.0.0.0", 26_400), "239.1.2.3", "127.0.0.1", "line A"):
        pass
    assert _Noted.bound == [("239.1.2.3", 26_400)], "bound to the group: other groups on the port are not heard"
    member = socket.inet_aton("239.1.2.3") + socket.inet_aton("127.0.0.1")
    assert (socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, member) in _Noted.options
    assert (socket.SOL_SOCKET, socket.SO_REUSEADDR, 1) in _Noted.options
    with mold.receiving_socket(Address("239.9.9.9", 1), None, None, "line A"):
        pass
    member = socket.inet_aton("239.9.9.9") + bytes(4)
    assert _Noted.options[-1] == (socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, member)


def test_an_address_in_use_is_said() -> None:
    with contextlib.closing(listen()) as feed, pytest.raises(FeedError, match=r"line A cannot listen at .* in use"):
        MoldFeed(feed.addresses[0])
