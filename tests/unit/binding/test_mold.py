"""The MoldUDP64 receiver, packet by packet and with a clock that the test moves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mold_wire import SESSION, blocks, end_of_session, heartbeat, packet

from strand.binding.live import Receiver

A, B, RETRANSMITTED = 0, 1, 2
TIMEOUT_NS = 1_000
WINDOW = 1_000_000
LAST = (1 << 40) - 1 - 0xFFFF


def body(sequence: int) -> bytes:
    """A message that says which one it is."""
    return b"m" + sequence.to_bytes(8, "big")


def run_of(first: int, end: int, **options: Any) -> bytes:
    return packet(first, [body(n) for n in range(first, end)], **options)


class Wire:
    """A receiver, and the sequence numbers of what it delivered."""

    def __init__(self, **options: Any) -> None:
        defaults = {
            "first_sequence": 1, "message_limit": 0, "gap_timeout_ns": TIMEOUT_NS, "request_after_ns": 100,
            "jump_window": WINDOW, "stop_at_gap": False, "session": None,
        }  # fmt: skip
        self.receiver = Receiver(**{**defaults, **options})
        self.delivered: list[int] = []
        self.now = 1

    def _note(self, frames: memoryview, runs: Any) -> None:
        bodies = blocks(bytes(frames))
        sequences = [int.from_bytes(one[1:9], "big") for one in bodies]
        covered: list[int] = []
        ends = [*runs["position"][1:].tolist(), len(self.delivered) + len(bodies) + 1] if len(runs) else []
        for run, end in zip(runs, ends, strict=True):
            covered.extend(range(int(run["sequence"]), int(run["sequence"]) + end - int(run["position"])))
        assert covered == sequences, "runs say which messages were delivered"
        self.delivered.extend(sequences)

    def take(self, line: int, *packets: bytes, after_ns: int = 1) -> None:
        for one in packets:
            self.now += after_ns
            self._note(*self.receiver.take(line, one, self.now, self.now))

    def wait(self, ns: int) -> None:
        self.now += ns
        self._note(*self.receiver.tick(self.now))

    def finish(self) -> None:
        complete = False
        while not complete:
            frames, runs, complete = self.receiver.finish()
            self._note(frames, runs)

    def line(self, line: int) -> Any:
        return self.receiver.line_counts(line)

    def counts(self) -> dict[str, int]:
        return self.receiver.counts()


def test_the_first_copy_of_a_message_is_taken_and_the_others_are_counted() -> None:
    wire = Wire()
    wire.take(A, run_of(1, 4))
    wire.take(B, run_of(1, 4), run_of(4, 6))
    wire.take(A, run_of(4, 6))
    assert wire.delivered == [1, 2, 3, 4, 5]
    assert (wire.line(A)["first"], wire.line(A)["duplicates"]) == (3, 2)
    assert (wire.line(B)["first"], wire.line(B)["duplicates"]) == (2, 3)


def test_lines_may_put_messages_into_packets_differently() -> None:
    wire = Wire()
    wire.take(A, run_of(1, 4), run_of(7, 10))
    wire.take(B, run_of(3, 8))
    assert wire.delivered == list(range(1, 10))
    assert (wire.line(B)["first"], wire.line(B)["duplicates"]) == (3, 2)


def test_packets_that_overtake_each_other_are_put_in_order() -> None:
    wire = Wire()
    wire.take(A, run_of(6, 8), run_of(3, 6))
    assert wire.delivered == []
    assert wire.counts()["held"] == 5
    wire.take(A, run_of(1, 3))
    assert wire.delivered == [1, 2, 3, 4, 5, 6, 7]
    wire.finish()
    assert wire.receiver.gaps() == wire.receiver.gaps(A) == []


def test_a_gap_that_the_other_line_fills_is_listed_for_the_line_alone() -> None:
    wire = Wire()
    wire.take(A, run_of(1, 3), run_of(5, 7))
    wire.take(B, run_of(1, 5))
    wire.wait(10 * TIMEOUT_NS)
    assert wire.delivered == [1, 2, 3, 4, 5, 6]
    wire.take(A, end_of_session(7))
    wire.finish()
    assert wire.receiver.gaps() == []
    assert wire.receiver.gaps(A) == [(3, 5)]
    assert wire.receiver.gaps(B) == [(5, 7)], "B never came to the session's end"


#: Messages of a line between the last one and the earliest that may still come late.
SEEN = 1 << 18


@pytest.mark.parametrize(
    "heard",
    [
        pytest.param([(2, 4), (SEEN, SEEN + 1), (1, 2)], id="the first of a whole window comes late"),
        pytest.param([(3, 5), (SEEN + 1, SEEN + 2), (2, 3)], id="the first that is still in the window comes late"),
        pytest.param([(3, 5), (SEEN + 1, SEEN + 2)], id="a number has the place of the one a window before"),
        pytest.param([(3, 5), (SEEN + 1, SEEN + 2), (1, 2)], id="one before the window comes too late"),
        pytest.param([(1, 3), (SEEN, SEEN + 1), (3 * SEEN, 3 * SEEN + 2)], id="the last of a window, then a leap"),
        pytest.param([(1, 3), (SEEN, SEEN + 1), (2 * SEEN - 1, 2 * SEEN + 1)], id="a leap to the window's end"),
    ],
)
def test_what_a_line_missed_is_exact_to_the_message_at_the_windows_edge(heard: list[tuple[int, int]]) -> None:
    wire = Wire(jump_window=10_000_000)
    seen: set[int] = set()
    high = 1
    for first, end in heard:
        wire.take(A, run_of(first, end))
        high = max(high, end)
        seen |= {n for n in range(first, end) if n >= high - SEEN}  # before that, it was missed by then
    wire.finish()
    assert {n for low, end in wire.receiver.gaps(A) for n in range(low, end)} == set(range(1, high)) - seen


def test_a_gap_of_both_lines_stays_for_its_time_and_is_then_listed() -> None:
    wire = Wire()
    wire.take(A, run_of(1, 3), run_of(5, 6))
    wire.take(B, run_of(6, 8))
    wire.wait(TIMEOUT_NS - 10)
    assert wire.delivered == [1, 2]
    wire.wait(10)
    assert wire.delivered == [1, 2, 5, 6, 7]
    assert wire.receiver.gaps() == [(3, 5)]
    assert wire.counts()["gap_messages"] == 2


def test_a_message_that_comes_after_it_was_given_up_is_late_and_not_a_duplicate() -> None:
    wire = Wire()
    wire.take(A, run_of(1, 3), run_of(5, 6))
    wire.wait(TIMEOUT_NS)
    wire.take(B, run_of(2, 6))
    assert wire.delivered == [1, 2, 5]
    assert (wire.line(B)["duplicates"], wire.line(B)["late"]) == (2, 2)
    assert wire.receiver.gaps() == [(3, 5)]


def test_a_gap_that_is_filled_in_part_is_as_old_as_it_was() -> None:
    wire = Wire()
    wire.take(A, run_of(1, 3), run_of(9, 10))
    wire.wait(TIMEOUT_NS // 2)
    wire.take(B, run_of(7, 9))
    wire.wait(TIMEOUT_NS // 2)
    assert wire.delivered == [1, 2, 7, 8, 9]
    assert wire.receiver.gaps() == [(3, 7)]


def test_with_stop_at_gap_nothing_behind_the_first_gap_is_delivered() -> None:
    wire = Wire(stop_at_gap=True)
    wire.take(A, run_of(1, 3), run_of(5, 6), run_of(8, 9))
    wire.wait(TIMEOUT_NS)
    wire.take(A, run_of(9, 12))
    wire.finish()
    assert wire.delivered == [1, 2]
    assert wire.receiver.gaps() == [(3, 5)]
    assert wire.receiver.ended


def test_a_heartbeat_shows_what_is_missing_before_it() -> None:
    wire = Wire()
    wire.take(A, run_of(1, 3), heartbeat(5))
    wire.wait(TIMEOUT_NS)
    assert wire.receiver.gaps() == [(3, 5)]
    assert wire.line(A)["heartbeats"] == 1
    wire.take(A, run_of(5, 6))
    assert wire.delivered == [1, 2, 5]


def test_the_session_ends_when_all_before_its_end_is_delivered_or_given_up() -> None:
    wire = Wire()
    wire.take(A, run_of(1, 3), end_of_session(5))
    assert not wire.receiver.ended
    wire.take(B, run_of(3, 5))
    assert wire.receiver.ended
    assert wire.delivered == [1, 2, 3, 4]
    wire.take(B, run_of(1, 3))
    assert (wire.line(B)["duplicates"], wire.line(B)["unwanted"]) == (2, 0), "a slower line is no less of one"


def test_a_session_that_ended_before_the_first_message_wanted_has_ended() -> None:
    wire = Wire(first_sequence=100)
    wire.take(A, end_of_session(50))
    assert wire.receiver.ended


def test_without_a_first_sequence_the_stream_begins_with_the_earlier_of_the_first_two_packets() -> None:
    wire = Wire(first_sequence=0)
    wire.take(A, run_of(10, 12))
    wire.take(B, run_of(8, 14), run_of(6, 8))
    assert wire.delivered == [8, 9, 10, 11, 12, 13]
    assert wire.line(B)["unwanted"] == 2
    wire.finish()
    assert wire.receiver.gaps() == []


def test_packets_of_another_session_are_not_taken_and_said() -> None:
    wire = Wire()
    wire.take(A, run_of(1, 3))
    wire.take(B, run_of(3, 5, session=b"ANOTHER"))
    wire.take(A, run_of(3, 4, session=b"A THIRD"))
    assert wire.receiver.new_session is None, "one packet alone ends nothing"
    wire.take(B, run_of(5, 7, session=b"ANOTHER"), run_of(7, 9, session=b"ANOTHER"))
    assert wire.delivered == [1, 2]
    assert wire.receiver.new_session == "ANOTHER"
    assert wire.line(B)["other_session"] == 3


def test_where_a_session_is_named_all_others_are_passed_over() -> None:
    wire = Wire(session=SESSION)
    wire.take(A, run_of(1, 9, session=b"BEFORE"), run_of(1, 3), run_of(3, 5, session=b"ANOTHER"))
    assert wire.delivered == [1, 2]
    assert wire.receiver.new_session is None
    assert wire.line(A)["other_session"] == 2


def test_retransmissions_fill_gaps_and_say_nothing_about_the_session() -> None:
    wire = Wire()
    wire.take(RETRANSMITTED, run_of(1, 3))
    assert wire.delivered == []
    wire.take(A, run_of(1, 3), run_of(6, 7))
    wire.take(RETRANSMITTED, run_of(3, 6), run_of(9, 10, session=b"ANOTHER"))
    assert wire.delivered == [1, 2, 3, 4, 5, 6]
    assert wire.receiver.new_session is None
    assert wire.line(RETRANSMITTED)["other_session"] == 2


def test_a_packet_cut_at_any_byte_is_malformed_and_changes_nothing() -> None:
    wire = Wire()
    wire.take(A, run_of(1, 3))
    whole = run_of(3, 6)
    for end in range(len(whole)):
        if end != 20:  # a header alone is cut too: its count says so
            wire.take(A, whole[:end])
    wire.take(A, whole[:20], whole + b"\0", whole + b"\0" * 10_000)
    assert wire.line(A)["malformed"] == len(whole) + 2
    assert wire.delivered == [1, 2]
    wire.take(A, whole)
    assert wire.delivered == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    "bad",
    [
        pytest.param(packet(3, [body(3)], count=2), id="more messages than there are"),
        pytest.param(packet(3, [body(3), body(4)], count=1), id="fewer messages than there are"),
        pytest.param(packet(3, [body(3)], count=0xFFFF), id="an end with messages"),
        pytest.param(packet(3, [body(3)], count=0xFFFE), id="a count beyond the packet"),
        pytest.param(packet(3, [b""]), id="an empty message"),
        pytest.param(packet(3, [body(3)])[:20] + b"\xff\xff" + body(3), id="a length beyond the packet"),
        pytest.param(packet(0, [body(0)]), id="sequence 0"),
        pytest.param(packet((1 << 64) - 1, [b"x"] * 3), id="a sequence that wraps"),
        pytest.param(packet(1 << 63, [b"x"]), id="a sequence of half of all"),
        pytest.param(heartbeat((1 << 64) - 1), id="a heartbeat with a sequence that wraps"),
        pytest.param(end_of_session(1 << 40), id="an end with a leap"),
    ],
)
def test_a_packet_that_cannot_be_is_counted_and_changes_nothing(bad: bytes) -> None:
    wire = Wire()
    wire.take(A, run_of(1, 3), bad)
    wire.wait(100 * TIMEOUT_NS)
    assert wire.line(A)["malformed"] == 1
    wire.take(A, run_of(3, 5))
    assert wire.delivered == [1, 2, 3, 4]
    wire.finish()
    assert wire.receiver.gaps() == wire.receiver.gaps(A) == []


FAR = 3 + 2 * WINDOW


@pytest.mark.parametrize(
    "leap",
    [
        run_of(FAR, FAR + 2),
        heartbeat(LAST),
        end_of_session(LAST),
        run_of(LAST - 2, LAST),
    ],
)
@pytest.mark.parametrize("line", [A, B, RETRANSMITTED])
def test_a_leap_that_no_second_packet_agrees_with_is_counted_and_changes_nothing(line: int, leap: bytes) -> None:
    wire = Wire()
    wire.take(A, run_of(1, 3))
    wire.take(line, leap, leap, after_ns=1)  # a copy on the same line is no second packet
    wire.wait(100 * TIMEOUT_NS)
    assert wire.line(line)["jumps"] == 2
    assert wire.counts()["high"] == 3, "nothing beyond what was heard is missed, or asked for"
    wire.take(A, run_of(3, 5))
    wire.take(B, run_of(3, 7))
    wire.finish()
    assert wire.delivered == [1, 2, 3, 4, 5, 6]
    assert wire.counts()["jumps_believed"] == 0
    assert wire.receiver.gaps() == wire.receiver.gaps(A) == []


@pytest.mark.parametrize(
    ("line", "second"),
    [
        (A, run_of(FAR + 2, FAR + 4)), (B, run_of(FAR, FAR + 2)), (B, run_of(FAR - 2, FAR)), (A, heartbeat(FAR + 2)),
        (B, run_of(FAR + 2 + WINDOW, FAR + 4 + WINDOW)), (A, end_of_session(FAR + 2)),
    ],
)  # fmt: skip
def test_a_leap_is_believed_when_a_second_packet_agrees_and_nothing_of_it_is_lost(line: int, second: bytes) -> None:
    wire = Wire()
    wire.take(A, run_of(1, 3), run_of(FAR, FAR + 2))
    assert (wire.line(A)["jumps"], wire.counts()["jumps_believed"]) == (1, 0)
    wire.take(line, second)
    wire.finish()
    sent = {1, 2, FAR, FAR + 1} | {int.from_bytes(one[1:9], "big") for one in blocks(second[20:])}
    assert wire.delivered == sorted(sent)
    assert wire.counts()["jumps_believed"] == 1
    assert sum(end - first for first, end in wire.receiver.gaps()) == max(sent) - len(sent)


@pytest.mark.parametrize("apart", [WINDOW, WINDOW + 1])
def test_the_window_counts_from_the_highest_message_heard_and_from_the_packet_set_aside(apart: int) -> None:
    inside = apart == WINDOW
    wire = Wire()
    wire.take(A, run_of(1, 3), run_of(3 + apart, 4 + apart))
    assert wire.line(A)["jumps"] == (0 if inside else 1)
    wire = Wire()
    wire.take(A, run_of(1, 3), run_of(FAR, FAR + 2), run_of(FAR + 2 + apart, FAR + 3 + apart))
    assert wire.counts()["jumps_believed"] == (1 if inside else 0)
    wire.finish()
    assert wire.delivered == ([1, 2, FAR, FAR + 1, FAR + 2 + apart] if inside else [1, 2])


def test_the_first_packet_waits_for_a_second_one_or_for_the_gap_timeout() -> None:
    wire = Wire(first_sequence=0)
    wire.take(A, run_of(50, 52))
    wire.wait(TIMEOUT_NS - 10)
    assert wire.delivered == []
    wire.wait(10)
    assert wire.delivered == [50, 51]
    wire = Wire(first_sequence=0)
    wire.take(A, run_of(50, 52), run_of(52, 53))
    assert wire.delivered == [50, 51, 52]
    wire = Wire(first_sequence=0)
    wire.take(A, run_of(50, 52))
    wire.finish()
    assert wire.delivered == [50, 51]
    assert wire.line(A)["jumps"] == 0


@pytest.mark.parametrize("hostile", [run_of(LAST - 2, LAST), run_of(7, 9, session=b"NEVER"), end_of_session(LAST)])
def test_a_first_packet_that_the_next_ones_contradict_is_dropped_and_nothing_else_is_lost(hostile: bytes) -> None:
    wire = Wire(first_sequence=0)
    wire.take(B, hostile)
    wire.take(A, run_of(50, 52), run_of(52, 54))
    wire.finish()
    assert wire.delivered == [50, 51, 52, 53]
    assert wire.receiver.session == SESSION.decode().rstrip()
    assert wire.receiver.gaps() == []
    assert (wire.line(B)["jumps"], wire.line(A)["jumps"]) == (1, 0)


def test_sequences_up_to_the_highest_that_is_taken_are_counted_right() -> None:
    first = LAST - 10
    wire = Wire(first_sequence=first)
    wire.take(A, run_of(first, LAST - 5), run_of(LAST - 3, LAST))
    wire.wait(TIMEOUT_NS)
    assert wire.delivered == [*range(first, LAST - 5), *range(LAST - 3, LAST)]
    assert wire.receiver.gaps() == [(LAST - 5, LAST - 3)]


def test_an_outage_longer_than_the_window_is_given_up_at_once_and_listed_exactly() -> None:
    wire = Wire(jump_window=10_000_000)
    wire.take(A, run_of(1, 3))
    wire.take(B, run_of(1, 2), run_of(10_000_000, 10_000_002))
    wire.wait(TIMEOUT_NS)
    assert wire.delivered == [1, 2, 10_000_000, 10_000_001]
    assert wire.receiver.gaps() == [(3, 10_000_000)]
    wire.finish()
    assert wire.receiver.gaps(B) == [(2, 10_000_000)]


def test_a_gap_is_given_up_early_when_too_much_is_held_behind_it() -> None:
    wire = Wire()
    wire.take(A, run_of(1, 2))
    for n in range(3, 3 + 5_000):
        wire.take(A, run_of(n, n + 1), after_ns=0)
    assert wire.counts()["forced"] == 1
    assert wire.receiver.gaps() == [(2, 3)]
    assert wire.delivered == [1, *range(3, 5_003)]


def test_what_does_not_fit_one_call_comes_with_the_next_ones() -> None:
    wire = Wire()
    big = b"x" * 1_300
    for n in range(2, 802):
        wire.take(A, packet(n, [body(n) + big]))
    assert wire.delivered == []
    wire.take(B, packet(1, [body(1)]))
    while wire.counts()["held"]:
        before = len(wire.delivered)
        wire.wait(0)
        assert len(wire.delivered) > before
    assert wire.delivered == list(range(1, 802))


def test_no_more_than_the_limit_is_delivered() -> None:
    wire = Wire(message_limit=3)
    wire.take(A, run_of(1, 3), run_of(3, 9))
    assert wire.delivered == [1, 2, 3]
    assert wire.receiver.ended


packets = st.tuples(st.integers(0, 2), st.integers(1, 40), st.integers(1, 6))


@given(st.lists(packets, max_size=60), st.sets(st.integers(0, 60)))
def test_whatever_comes_is_delivered_once_in_order_and_the_rest_is_listed(
    sent: list[tuple[int, int, int]], pauses: set[int]
) -> None:
    wire = Wire()
    wire.take(A, heartbeat(1))
    seen: list[set[int]] = [set(), set(), set()]
    for at, (line, first, count) in enumerate(sent):
        if at in pauses:
            wire.wait(TIMEOUT_NS)
        wire.take(line, run_of(first, first + count))
        seen[line].update(range(first, first + count))
    wire.finish()
    came = set().union(*seen)
    missing = {n for low, end in wire.receiver.gaps() for n in range(low, end)}
    assert wire.delivered == sorted(set(wire.delivered))
    assert missing.isdisjoint(wire.delivered)
    assert missing.union(wire.delivered) == set(range(1, max(came, default=0) + 1))
    if not pauses:
        assert set(wire.delivered) == came, "with time enough nothing is lost that came"
    for line in (A, B):
        own = {n for low, end in wire.receiver.gaps(line) for n in range(low, end)}
        assert own == set(range(1, max(seen[line], default=0) + 1)) - seen[line]
    for line in (A, B, RETRANSMITTED):
        found = wire.line(line)
        kinds = ("first", "duplicates", "late", "unwanted")
        assert found["messages"] == sum(found[kind] for kind in kinds)
    assert sum(wire.line(line)["first"] for line in (A, B, RETRANSMITTED)) == len(wire.delivered)


def test_runs_hold_the_time_of_the_packet_that_each_message_came_in() -> None:
    wire = Wire()
    frames, runs = wire.receiver.take(A, run_of(1, 3), 500, 1)
    assert len(blocks(bytes(frames))) == 2
    wire.receiver.take(A, run_of(5, 6), 700, 2)
    frames, runs = wire.receiver.take(B, run_of(3, 5), 900, 3)
    assert runs.tolist() == [(3, 3, 900), (5, 5, 700)]
    assert runs.dtype.names == ("position", "sequence", "ts_recv")
    assert np.all(np.diff(runs["position"].astype(np.int64)) > 0)
