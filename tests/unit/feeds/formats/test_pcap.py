"""Captures of MoldUDP64 against ones written and read by tests/support/pcap_reference.py."""

from __future__ import annotations

import datetime as dt
import gzip
from pathlib import Path
from typing import Any

import itch_reference as itch
import numpy as np
import pcap_reference as ref
import pytest
from bad_input import write_anew
from hypothesis import given
from hypothesis import strategies as st
from reading import decode_in_pieces, read, ticks_of

from strand.binding.captures import MAX_RECORD, PcapDecoder
from strand.binding.itch import ItchDecoder
from strand.errors import ConfigurationError, FeedError, FormatError
from strand.feeds import Feed
from strand.feeds.formats.pcap import PcapFeed
from strand.feeds.times import midnight_ns

MIDNIGHT_NS = midnight_ns(dt.date(2019, 1, 30))
OPEN_NS = MIDNIGHT_NS + 34_200 * 10**9


def bodies_of(count: int) -> list[bytes]:
    """A directory, then deletes whose order ids count up."""
    names = [itch.directory(i, b"S%d" % i) for i in (1, 2, 3)]
    return [*names, *(itch.message("D", i % 3 + 1, i, i) for i in range(count))][:count]


def packets_of(bodies: list[bytes], size: int = 3) -> list[tuple[int, int, list[bytes]]]:
    """Capture time, sequence from 1 and messages of packets of up to ``size``."""
    return [(OPEN_NS + at * 1000, at + 1, bodies[at : at + size]) for at in range(0, len(bodies), size)]


def frames_of(packets: list[tuple[int, int, list[bytes]]]) -> list[tuple[int, bytes]]:
    return [(ns, ref.ethernet(ref.ipv4(ref.udp(ref.mold(at, bodies))))) for ns, at, bodies in packets]


PACKETS = packets_of(itch.every_type())
CAPTURE = ref.pcap(frames_of(PACKETS))
EXPECTED = ref.arbitrate(PACKETS, MIDNIGHT_NS).ticks


def decode(
    data: bytes,
    *,
    chunk: int | None = None,
    capacity: int = 4096,
    skip: bool = False,
    keeps: Any = None,
    **options: Any,
) -> tuple[np.ndarray, FeedError | None, PcapDecoder]:
    """All of ``data``, given to the decoder ``chunk`` bytes at a time and taken ``capacity`` ticks at a time."""
    decoder = PcapDecoder(ItchDecoder(midnight_ns=MIDNIGHT_NS, skip=skip, keeps=keeps), skip=skip, **options)
    ticks, fault = decode_in_pieces(decoder, data, chunk=chunk, capacity=capacity, max_left=MAX_RECORD)
    return ticks, fault, decoder


@pytest.mark.parametrize("capacity", [1, 2, 3, 4, 5, 4096])
@pytest.mark.parametrize("after", [0, 3])
def test_the_clear_records_of_a_day_come_at_the_time_of_its_packet_however_few_ticks_a_call_takes(
    capacity: int, after: int
) -> None:
    """The day begins with the last message of a packet, which may be the last one of all."""
    deletes = [itch.message("D", 1, at, at) for at in range(5)]
    bodies = [*bodies_of(3), *deletes[:2], itch.message("S", 0, 9, b"O"), *deletes[2 : 2 + after]]
    ticks, fault, _ = decode(ref.pcap(frames_of(packets_of(bodies))), capacity=capacity)
    assert fault is None
    clears = [(OPEN_NS + 3000, 6, locate) for locate in (1, 2, 3)]
    others = [(OPEN_NS + 3000, sequence, 1) for sequence in (4, 5)]
    later = [(OPEN_NS + 6000, sequence, 1) for sequence in range(7, 7 + after)]
    found = zip(*(ticks[name].tolist() for name in ("ts_recv", "sequence", "instrument_id")), strict=True)
    assert list(found) == [*others, *clears, *later]
    assert ticks["action"].tolist() == [b"C"] * 2 + [b"R"] * 3 + [b"C"] * after


def test_packets_with_blanked_headers_are_read_on_request(tmp_path: Path) -> None:
    bodies = [itch.message("D", 1, number, number) for number in range(6)]
    packets = [ref.mold(0, bodies[at : at + 2], session=bytes(10)) for at in (0, 2, 4)]
    data = ref.pcap([(OPEN_NS + at, ref.ethernet(ref.ipv4(ref.udp(packet)))) for at, packet in enumerate(packets)])
    path = write(tmp_path, data, "20190130.pcap")
    with PcapFeed(path, blank_headers=True) as feed:
        ticks = ticks_of(feed)
        assert ticks["order_id"].tolist() == list(range(6))
        assert ticks["sequence"].tolist() == [1, 2, 3, 4, 5, 6]
        assert (feed.statistics()["packets"], feed.statistics()["gaps"]) == (3, 0)
    with PcapFeed(path) as feed:
        assert sum(len(batch) for batch in feed) == 0
        assert (feed.statistics()["other_packets"], feed.statistics()["blank_packets"]) == (3, 3)
    with PcapFeed(path, port=26477) as feed:
        _, fault = read(feed)
        assert str(fault).endswith(
            "give blank_headers=True: a packet on a chosen port has zeros for session and sequence"
        )
    with pytest.raises(ConfigurationError, match="blank_headers: 'no'"):
        PcapFeed(path, blank_headers="no")  # type: ignore[arg-type]


def write(folder: Path, content: bytes, name: str = "capture.bin") -> Path:
    return write_anew(folder / name, content)


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("kind", ["us", "ns", 6, 9, 3, 10, 0x80 | 20, 0x80 | 33, "offset"])
def test_captures_of_either_byte_order_and_any_resolution_give_the_same_ticks(order: str, kind: Any) -> None:
    frames = frames_of(PACKETS)
    slack = {"us": 0, "ns": 0, 3: 10**6, 0x80 | 20: 1000}.get(kind, 1)
    if kind in ("us", "ns"):
        data = ref.pcap(frames, order=order, nanoseconds=kind == "ns")
    elif kind == "offset":
        data = ref.pcapng(frames, order=order, offset_s=86_400 * 365)
    else:
        data = ref.pcapng(frames, order=order, resolution=kind)
    ticks, fault, _ = decode(data)
    assert fault is None
    off = EXPECTED["ts_recv"].astype(np.int64) - ticks["ts_recv"].astype(np.int64)
    assert off.min() >= 0
    assert off.max() <= slack
    ticks["ts_recv"] = EXPECTED["ts_recv"]
    np.testing.assert_array_equal(ticks, EXPECTED)


NETWORKS = {
    "plain": (1, lambda u: ref.ethernet(ref.ipv4(u))),
    "padded": (1, lambda u: ref.ethernet(ref.ipv4(u), trailer=bytes(9))),
    "vlan": (1, lambda u: ref.ethernet(ref.ipv4(u), tags=[0x8100])),
    "q-in-q": (1, lambda u: ref.ethernet(ref.ipv4(u), tags=[0x88A8, 0x8100])),
    "ip options": (1, lambda u: ref.ethernet(ref.ipv4(u, options=bytes(8)))),
    "ipv6": (1, lambda u: ref.ethernet(ref.ipv6(u), tags=[0x8100])),
    "ipv6 extensions": (1, lambda u: ref.ethernet(ref.ipv6(u, extensions=[0, 43, 60]))),
    "raw": (101, ref.ipv4),
    "raw v6": (101, ref.ipv6),
    "cooked": (113, lambda u: ref.cooked(ref.ipv6(u))),
}


@pytest.mark.parametrize("network", NETWORKS)
def test_networks_of_all_kinds_give_the_same_ticks(network: str) -> None:
    link, wrap = NETWORKS[network]
    frames = [(ns, wrap(ref.udp(ref.mold(at, bodies)))) for ns, at, bodies in PACKETS]
    for data in (ref.pcap(frames, link=link), ref.pcapng(frames, link=link)):
        ticks, fault, decoder = decode(data)
        assert fault is None
        np.testing.assert_array_equal(ticks, EXPECTED)
        assert decoder.statistics()["packets"] == len(PACKETS)


def test_what_is_not_the_feed_is_passed_over_and_counted() -> None:
    payload = ref.udp(ref.mold(1, [itch.message("D", 1, 2, 3)]))
    others = [
        ref.ethernet(ref.ipv4(payload, protocol=6)),
        ref.ethernet(ref.ipv4(ref.udp(b"a name server's answer, say"))),
        bytes(12) + b"\x08\x06" + bytes(28),
        b"",
        bytes(9),
    ]
    fragments = [ref.ethernet(ref.ipv4(payload, fragment=0x2000)), ref.ethernet(ref.ipv6(payload, extensions=[44]))]
    data = ref.pcap([(OPEN_NS, frame) for frame in [*others, *fragments, ref.ethernet(ref.ipv4(payload))]])
    ticks, fault, decoder = decode(data)
    assert fault is None
    assert len(ticks) == 1
    counts = decoder.statistics()
    assert (counts["other_packets"], counts["fragments"], counts["packets"]) == (len(others), len(fragments), 1)


def test_a_chosen_port_alone_is_looked_at_and_has_to_be_moldudp64() -> None:
    def sent(port: int, payload: bytes) -> tuple[int, bytes]:
        return OPEN_NS, ref.ethernet(ref.ipv4(ref.udp(payload, port)))

    delete = [itch.message("D", 1, 2, 3)]
    data = ref.pcap([sent(1, ref.mold(1, delete)), sent(65535, ref.mold(2, delete)), sent(1, b"no such thing")])
    assert len(decode(data)[0]) == 2
    ticks, fault, _ = decode(data, ports=[65535])
    assert fault is None
    assert ticks["sequence"].tolist() == [2]
    ticks, fault, _ = decode(data, ports=[1])
    assert isinstance(fault, FormatError)
    assert "not a MoldUDP64" in str(fault)
    ticks, fault, decoder = decode(data, ports=[1, 65535], skip=True)
    assert fault is None
    assert decoder.skips() == {"not MoldUDP64": 1}


def test_heartbeats_and_ends_of_session_are_counted_and_tell_of_what_is_missing() -> None:
    delete = [itch.message("D", 1, 2, 3)]
    payloads = [ref.mold(5, delete), ref.mold(6, []), ref.mold(9, [], count=0xFFFF)]
    data = ref.pcap([(OPEN_NS, ref.ethernet(ref.ipv4(ref.udp(payload)))) for payload in payloads])
    _, fault, decoder = decode(data)
    assert fault is None
    counts = decoder.statistics()
    assert (counts["heartbeats"], counts["ends"], counts["gaps"], counts["missing"]) == (1, 1, 1, 3)
    assert [sample[0] for sample in decoder.skip_samples()] == ["missing messages"]


def test_a_second_session_is_an_error_unless_one_is_chosen() -> None:
    delete = [itch.message("D", 1, 2, 3)]
    payloads = [ref.mold(1, delete), ref.mold(7, delete, session=b"other     ")]
    data = ref.pcap([(OPEN_NS, ref.ethernet(ref.ipv4(ref.udp(payload)))) for payload in payloads])
    ticks, fault, _ = decode(data)
    assert len(ticks) == 1
    assert isinstance(fault, FormatError)
    assert "session=" in str(fault)
    ticks, fault, decoder = decode(data, session=b"other     ")
    assert fault is None
    assert ticks["sequence"].tolist() == [7]
    assert decoder.statistics()["other_sessions"] == 1


@pytest.mark.parametrize("snap", [20, 40, 43, 61, 70])
def test_a_packet_cut_by_its_snap_length_is_an_error_or_skipped(snap: int) -> None:
    frames = frames_of(packets_of(bodies_of(9)))
    for data in (ref.pcap(frames, snap=snap), ref.pcapng(frames, snap=snap)):
        _, fault, _ = decode(data)
        assert isinstance(fault, FormatError)
        assert f"only {snap} bytes" in str(fault)
        _, fault, decoder = decode(data, skip=True)
        assert fault is None
        assert decoder.skips() == {"snapped packet": 3}


def test_a_link_type_that_is_not_read_is_an_error() -> None:
    data = ref.pcap(frames_of(PACKETS), link=105)
    assert "link type or interface 105" in str(decode(data)[1])
    assert decode(data, skip=True)[2].skips() == {"unknown link": len(PACKETS)}


def test_a_message_that_is_not_as_long_as_its_type_is_an_error_or_skipped_alone() -> None:
    good = itch.message("D", 1, 2, 3)
    data = ref.pcap(frames_of([(OPEN_NS, 7, [good, good + b"x", good[:9], b"", b"z" * 300, good, b"zz", good])]))
    ticks, fault, _ = decode(data)
    assert ticks["sequence"].tolist() == [7]
    assert "message 8 has 20 bytes" in str(fault)
    ticks, fault, decoder = decode(data, skip=True)
    assert fault is None
    assert ticks["sequence"].tolist() == [7, 12, 14]
    assert decoder.skips() == {"bad length": 4, "unknown type": 1}


def test_a_fault_of_itch_names_record_and_message() -> None:
    bad = itch.message("A", 1, 2, 3, b"x", 4, b"AAPL    ", 5)
    data = ref.pcap(frames_of([(OPEN_NS, 7, [itch.message("D", 1, 2, 3), bad])]))
    _, fault, _ = decode(data)
    assert isinstance(fault, FormatError)
    assert "message 8: the side" in str(fault)
    assert fault.offset == 24


@st.composite
def lines(draw: st.DrawFn) -> list[tuple[int, int, list[bytes]]]:
    """What two lines deliver of a session: lost, late and doubled packets, cut at other places on the other line."""
    bodies = bodies_of(draw(st.integers(1, 60)))
    sent = packets_of(bodies, draw(st.integers(1, 7))) + packets_of(bodies, draw(st.integers(1, 7)))
    sent = [packet for packet in sent if draw(st.integers(0, 9)) > 1]
    late = [at + draw(st.integers(0, 8)) for at in range(len(sent))]
    ranked = sorted(zip(late, range(len(sent)), strict=True))
    sent = [sent[at] for _, at in ranked] if draw(st.booleans()) else sorted(sent, key=lambda packet: packet[:2])
    return [(OPEN_NS + i * 1000, at, bodies) for i, (_, at, bodies) in enumerate(sent)]


@given(lines(), st.sampled_from([0, 1, 3, 255]), st.sampled_from([0, 2_500, 1 << 62]), st.integers(40, 400))
def test_two_lines_with_loss_and_disorder_are_arbitrated_as_the_reference_does(
    packets: list[tuple[int, int, list[bytes]]], hold: int, hold_ns: int, chunk: int
) -> None:
    expected = ref.arbitrate(packets, MIDNIGHT_NS, hold, hold_ns)
    data = ref.pcap(frames_of(packets))
    for pieces in ({}, {"chunk": chunk, "capacity": chunk % 7 + 1}):
        ticks, fault, decoder = decode(data, hold=hold, hold_ns=hold_ns, **pieces)
        assert fault is None
        np.testing.assert_array_equal(ticks, expected.ticks)
        counts = decoder.statistics()
        assert counts["duplicates"] == expected.duplicates
        assert (counts["gaps"], counts["missing"]) == (len(expected.gaps), sum(n for _, n in expected.gaps))
        assert (np.diff(ticks["sequence"].astype(np.int64)) > 0).all()
        assert (np.diff(ticks["ts_recv"].astype(np.int64)) >= 0).all()


@pytest.mark.parametrize("form", [ref.pcap, ref.pcapng])
@pytest.mark.parametrize("chunk", [300, None])
def test_skipping_finds_the_next_record_after_a_damaged_one(form: Any, chunk: int | None) -> None:
    packets = packets_of(bodies_of(60))
    data = form(frames_of(packets))
    frame = frames_of(packets)[10][1]
    start = data.index(frame) - (16 if form is ref.pcap else 28)
    length_at = start + (8 if form is ref.pcap else 4)
    damaged = data[:length_at] + b"\xff\xff\xff\x7f" + data[length_at + 4 :]
    _, fault, _ = decode(damaged)
    assert isinstance(fault, FormatError)
    assert fault.offset == start
    ticks, fault, decoder = decode(damaged, skip=True, chunk=chunk)
    assert fault is None
    whole, _, _ = decode(data)
    gone = range(packets[10][1], packets[10][1] + 3)
    assert ticks["sequence"].tolist() == [at for at in whole["sequence"].tolist() if at not in gone]
    assert decoder.skips() == {"bad record": 1, "missing messages": 3}


def test_it_is_a_feed_and_takes_its_date_from_the_capture(tmp_path: Path) -> None:
    for content in (CAPTURE, gzip.compress(ref.pcapng(frames_of(PACKETS)))):
        feed = PcapFeed(write(tmp_path, content))
        assert isinstance(feed, Feed)
        assert (feed.info.format, feed.info.date) == ("pcap", "2019-01-30")
        for _ in range(2):
            ticks, error = read(feed)
            assert error is None
            np.testing.assert_array_equal(ticks, EXPECTED)
            assert feed.symbols[7] == "AAPL"
        assert feed.session == ref.SESSION.decode()
        assert feed.directory["AAPL"].round_lot_size == 100
        assert len(feed.market_events) == 4
        assert all(type(value) is int for value in feed.statistics().values())
        assert PcapFeed(Path(feed.info.path), date="2019-01-31").info.date == "2019-01-31"


def test_gaps_are_counted_and_sampled_by_the_feed(tmp_path: Path) -> None:
    packets = packets_of(bodies_of(30))
    feed = PcapFeed(write(tmp_path, ref.pcap(frames_of(packets[:3] + packets[5:]))))
    ticks, error = read(feed)
    assert error is None
    assert feed.statistics()["missing"] == 6
    assert feed.skipped.counts == {"missing messages": 6}
    assert feed.skipped.samples[0].text == "6 from message 10 on"
    assert 10 not in ticks["sequence"]


@pytest.mark.parametrize(
    "options",
    [
        {"port": 0},
        {"port": [1, 65536]},
        {"session": ""},
        {"session": "eleven bytes"},
        {"hold": 256},
        {"batch_ticks": 1},
    ],
)
def test_options_that_cannot_work_are_refused_by_name(tmp_path: Path, options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(options))):
        PcapFeed(write(tmp_path, CAPTURE), **options)


@pytest.mark.parametrize("size", [400, 70_000])
def test_empty_and_huge_records_are_read_or_refused(size: int) -> None:
    packets = [(OPEN_NS, b""), (OPEN_NS, bytes(size)), *frames_of(PACKETS)]
    for data in (ref.pcap(packets), ref.pcapng(packets)):
        ticks, fault, _ = decode(data, chunk=1 << 10)
        assert fault is None
        np.testing.assert_array_equal(ticks, EXPECTED)
