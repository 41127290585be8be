"""IEX against a second decoder written from the specifications (tests/support/iex_reference.py), and as a feed."""

from __future__ import annotations

import gzip
import random
from pathlib import Path
from typing import Any

import iex_reference as ref
import numpy as np
import pcap_reference as capture
import pytest
from bad_input import write_anew
from hypothesis import given
from hypothesis import strategies as st
from reading import decode_in_pieces, ticks_of

import strand
from strand import UNDEF_PRICE, feeds
from strand.binding.captures import MAX_RECORD, IexDecoder, IexPcapDecoder, iex_message_length
from strand.errors import FeedError, FormatError, TruncatedFeedError, UnknownFormatError
from strand.feeds.formats.pcap import COMPLETE, IexFeed, recognise_iex

PROTOCOLS = pytest.mark.parametrize("protocol", ref.TYPES)
MAX_MESSAGE = 1 << 16 | 1


def decode(
    data: bytes, *, chunk: int | None = None, capacity: int = 4096, skip: bool = False
) -> tuple[np.ndarray, FeedError | None, IexDecoder]:
    """Messages with their lengths, given to the decoder ``chunk`` bytes at a time."""
    decoder = IexDecoder(skip=skip)
    ticks, fault = decode_in_pieces(decoder, data, chunk=chunk, capacity=capacity, max_left=MAX_MESSAGE)
    return ticks, fault, decoder


def decode_capture(
    data: bytes, *, chunk: int | None = None, capacity: int = 4096, skip: bool = False, **options: Any
) -> tuple[np.ndarray, FeedError | None, IexPcapDecoder]:
    decoder = IexPcapDecoder(IexDecoder(skip=skip), skip=skip, **options)
    ticks, fault = decode_in_pieces(decoder, data, chunk=chunk, capacity=capacity, max_left=MAX_RECORD)
    return ticks, fault, decoder


def sent(*payloads: bytes, port: int = 10_378) -> bytes:
    """A capture of these payloads."""
    return capture.pcap([(ref.OPEN + at, ref.datagram(payload, port)) for at, payload in enumerate(payloads)])


def quote(sequence: int) -> bytes:
    return ref.message("Q", 0, ref.OPEN + sequence, "AAPL", 100, 990_500, 990_600, 200)


def assert_agrees(bodies: list[bytes], *, skip: bool = False, **pieces: Any) -> None:
    expected = ref.decode(bodies, skip=skip)
    ticks, fault, decoder = decode(b"".join(map(ref.frame, bodies)), skip=skip, **pieces)
    np.testing.assert_array_equal(ticks, expected.ticks)
    assert decoder.symbols() == expected.names
    assert decoder.market_events() == expected.events
    assert decoder.skips().get("unknown type", 0) == expected.unknown
    assert (fault is None) == (expected.error is None)
    if skip:
        assert sum(decoder.skips().values()) == expected.unknown + len(expected.skipped)
    elif fault is not None:
        assert fault.offset == sum(len(body) + 2 for body in bodies[: expected.error - 1])


def test_lengths_are_those_of_the_specifications() -> None:
    assert {chr(i): n for i in range(256) if (n := iex_message_length(i))} == ref.LENGTHS


def test_messages_as_iex_gives_them_for_examples() -> None:
    """Of its specifications: a quote and a trade of ZIEXT."""
    data = bytes.fromhex(
        "2a00 51 00 ac63c02096866d14 5a49455854202020 e4250000 241d0f0000000000 ec1d0f0000000000 e8030000"
    )
    data += bytes.fromhex("2600 54 00 c3dff705a2866d14 5a49455854202020 64000000 241d0f0000000000 968f060000000000")
    ticks, fault, decoder = decode(data)
    assert fault is None
    assert decoder.symbols() == ["", "ZIEXT"]
    quoted, trade = ticks
    assert str(np.datetime64(int(quoted["ts_event"]), "ns")) == "2016-08-23T19:30:32.572715948"
    assert [int(quoted[name]) for name in ("bid_price", "bid_size", "ask_price", "ask_size")] == [
        99_050_000_000, 9700, 99_070_000_000, 1000,
    ]  # fmt: skip
    assert (trade["size"], trade["price"], trade["ref_id"]) == (100, 99_050_000_000, 429_974)


@pytest.mark.parametrize("chunk", [1, 2, 3, 7, 41, 80, None])
def test_every_type_agrees_with_the_reference(chunk: int | None) -> None:
    assert_agrees(ref.every_type(), chunk=chunk, capacity=chunk or 4096)


def test_longer_messages_give_their_known_part_and_unknown_types_are_counted() -> None:
    bodies = [body + b"more" for body in ref.every_type()]
    bodies[3:3] = [b"z", b"\0unknown", b"!" * 300]
    assert_agrees(bodies)
    _, fault, decoder = decode(b"".join(map(ref.frame, bodies)))
    assert fault is None
    assert decoder.statistics()["grown_messages"] == len(bodies) - 3
    assert decoder.skips() == {"unknown type": 3}
    place = {"offset": sum(len(body) + 2 for body in bodies[:3]), "text": "message 4, type 'z'"}
    assert decoder.skip_samples()[0] == ("unknown type", place)


@given(st.data())
def test_any_bytes_in_messages_agree_with_the_reference(data: st.DataObject) -> None:
    bodies = [bytearray(body) for body in ref.every_type()]
    for _ in range(data.draw(st.integers(0, 12))):
        body = data.draw(st.sampled_from([body for body in bodies if body]))
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.sampled_from(bodies))
    del cut[data.draw(st.integers(0, len(cut))) :]
    for skip in (False, True):
        assert_agrees(list(map(bytes, bodies)), skip=skip)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "a message of type 0x00 has 0 bytes where its type has at least 1"),
        (ref.message("S", "O", 1)[:9], "a message of type 'S' has 9 bytes where its type has 10"),
        (ref.message("8", 1, 1, "AAPL", 1, 1 << 62), "at byte 22"),
        (ref.message("a", "B", 1, "AAPL", 1, 1, 1), "at byte 1 "),
        (ref.message("C", 0, 1, " AAPL"), "at byte 10"),
    ],
)
def test_a_message_that_no_tick_can_be_is_an_error_or_skipped_alone(body: bytes, words: str) -> None:
    bodies = [quote(1), body, quote(3)]
    ticks, fault, _ = decode_capture(sent(ref.segment(1, bodies)))
    assert ticks["sequence"].tolist() == [1]
    assert isinstance(fault, FormatError)
    assert fault.offset == 24
    assert "message 2: " in str(fault)
    assert words in str(fault)
    assert "on_bad_record='skip'" in str(fault)
    ticks, fault, decoder = decode_capture(sent(ref.segment(1, bodies)), skip=True)
    assert fault is None
    assert ticks["sequence"].tolist() == [1, 3]
    assert sum(decoder.skips().values()) == 1


def test_a_stream_that_ends_in_a_message_is_truncated() -> None:
    data = ref.frame(quote(1))
    for cut in range(1, len(data)):
        _, fault, _ = decode(data[:cut])
        assert isinstance(fault, TruncatedFeedError)


def test_more_symbols_than_there_is_room_for_are_an_error() -> None:
    bodies = [ref.message("C", 0, 1, f"S{i}") for i in range(65_536)]
    ticks, fault, _ = decode(b"".join(map(ref.frame, bodies)), capacity=1 << 17)
    assert len(ticks) == 65_535
    assert "65535 symbols" in str(fault)


# ---- captures


@PROTOCOLS
@pytest.mark.parametrize("form", [capture.pcap, capture.pcapng])
def test_captures_of_every_feed_agree_with_the_reference(protocol: int, form: Any) -> None:
    bodies = ref.every_type(ref.TYPES[protocol])
    data = form(ref.packets(bodies, protocol=protocol))
    for chunk in (1, 100, None):
        ticks, fault, decoder = decode_capture(data, chunk=chunk, capacity=chunk or 4096)
        assert fault is None
        np.testing.assert_array_equal(ticks, ref.captured(bodies).ticks)
        assert decoder.protocol == protocol
        assert (decoder.statistics()["heartbeats"], decoder.session) == (1, str(ref.SESSION).ljust(10))


def test_lost_packets_are_gaps_and_a_second_line_fills_them() -> None:
    bodies = [quote(at) for at in range(1, 31)]
    frames = ref.packets(bodies)
    lost = [frame for at, frame in enumerate(frames) if at not in (3, 4, 7)]
    _, fault, decoder = decode_capture(capture.pcap(lost))
    assert fault is None
    assert (decoder.statistics()["gaps"], decoder.skips()) == (2, {"missing messages": 9})
    reason, sample = decoder.skip_samples()[0]
    assert (reason, sample["text"]) == ("missing messages", "6 from message 7 on")
    lines = sorted([*lost, *frames[2:9]], key=lambda packet: packet[0])
    ticks, fault, decoder = decode_capture(capture.pcap(lines))
    assert fault is None
    assert decoder.skips() == {}
    assert decoder.statistics()["duplicates"] == 4
    np.testing.assert_array_equal(ticks, ref.captured(bodies).ticks)


def test_a_heartbeat_tells_of_what_is_missing_at_the_end() -> None:
    data = sent(ref.segment(1, [quote(1)]), ref.segment(5, []))
    assert decode_capture(data)[2].skips() == {"missing messages": 3}


@pytest.mark.parametrize(
    "bad",
    [
        ref.segment(2, [quote(2)], length=45),
        ref.segment(2, [quote(2)], length=0),
        ref.segment(2, [quote(2)], count=2),
        ref.segment(2, [quote(2)], count=0),
        ref.segment(2, [quote(2)])[:-1],
        ref.segment(2, [quote(2)]) + b"x",
    ],
)
def test_a_packet_whose_lengths_do_not_fit_is_an_error_or_skipped_as_a_gap(bad: bytes) -> None:
    data = sent(ref.segment(1, [quote(1)]), bad, ref.segment(3, [quote(3)]))
    ticks, fault, _ = decode_capture(data)
    assert ticks["sequence"].tolist() == [1]
    assert isinstance(fault, FormatError)
    assert f"the lengths in {len(bad)} bytes are not those of an IEX-TP packet" in str(fault)
    ticks, fault, decoder = decode_capture(data, skip=True)
    assert fault is None
    assert ticks["sequence"].tolist() == [1, 3]
    assert decoder.skips() == {"not IEX-TP": 1, "missing messages": 1}


def test_other_packets_are_counted_and_refused_on_a_chosen_port() -> None:
    others = [b"", bytes(60), ref.segment(9, [quote(9)], version=2), ref.segment(9, [quote(9)], protocol=0x8001)]
    data = sent(ref.segment(1, [quote(1)]), *others)
    ticks, fault, decoder = decode_capture(data)
    assert fault is None
    assert (len(ticks), decoder.statistics()["other_packets"]) == (1, len(others))
    assert isinstance(decode_capture(data, ports=[10_378])[1], FormatError)
    assert decode_capture(data, ports=[10_378], skip=True)[2].skips() == {"not IEX-TP": len(others)}


@pytest.mark.parametrize("second", [{"session": 7}, {"protocol": ref.DEEP}, {"channel": 2}])
def test_a_second_stream_is_an_error_unless_session_or_port_chooses_one(second: dict[str, int]) -> None:
    frames = [
        (ref.OPEN, ref.datagram(ref.segment(1, [quote(1)]), 1)),
        (ref.OPEN, ref.datagram(ref.segment(8, [quote(8)], **second), 2)),
    ]
    data = capture.pcap(frames)
    ticks, fault, _ = decode_capture(data)
    assert ticks["sequence"].tolist() == [1]
    assert isinstance(fault, FormatError)
    assert "choose one with session= or port=" in str(fault)
    ticks, fault, _ = decode_capture(data, ports=[2])
    assert fault is None
    assert ticks["sequence"].tolist() == [8]
    chosen, fault, _ = decode_capture(data, session=b"7         ")
    if "session" in second:
        assert fault is None
        assert chosen["sequence"].tolist() == [8]


def test_a_session_that_begins_anew_is_an_error_and_no_line_of_copies() -> None:
    second = 10**9
    late_copies = [ref.segment(1, [quote(1)], sent=second), ref.segment(1, [], sent=2 * second)]
    first = [ref.segment(1, [quote(1)], sent=second), ref.segment(2, [quote(2)], sent=2 * second), *late_copies]
    for begun in ([quote(7)], []):
        again = [ref.segment(1, begun, sent=4 * second), ref.segment(2, [quote(8), quote(9)], sent=4 * second)]
        ticks, fault, _ = decode_capture(sent(*first, *again))
        assert ticks["ts_event"].tolist() == [ref.OPEN + 1, ref.OPEN + 2]
        assert isinstance(fault, FormatError)
        assert "begins anew with message 1" in str(fault)
        ticks, fault, decoder = decode_capture(sent(*first, *again), skip=True)
        assert (len(ticks), fault) == (2, None)
        assert decoder.skips() == {"session begun anew": 2}
        assert decoder.statistics()["duplicates"] == 1


def damage(data: bytes, rng: random.Random) -> bytes:
    damaged = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        damaged[rng.randrange(24, len(damaged))] = rng.randrange(256)
    return bytes(damaged[: rng.choice([len(damaged), rng.randrange(len(damaged))])])


@pytest.mark.parametrize("seed", range(40))
def test_damaged_captures_end_in_typed_errors_or_well_however_they_are_cut(seed: int) -> None:
    rng = random.Random(seed)
    protocol = rng.choice(list(ref.TYPES))
    data = damage(capture.pcap(ref.packets(ref.every_type(ref.TYPES[protocol]), protocol=protocol)), rng)
    for skip in (False, True):
        whole, error, one = decode_capture(data, skip=skip)
        parts, fault, other = decode_capture(data, skip=skip, chunk=rng.randint(1, 200), capacity=rng.randint(1, 9))
        np.testing.assert_array_equal(whole, parts)
        assert str(error) == str(fault)
        assert one.skips() == other.skips()
        if skip and len(data) > 24:
            assert error is None


# ---- the feed


def write(folder: Path, protocol: int, name: str = "capture.pcap", bodies: list[bytes] | None = None) -> Path:
    bodies = ref.every_type(ref.TYPES[protocol]) if bodies is None else bodies
    return write_anew(folder / name, capture.pcap(ref.packets(bodies, protocol=protocol)))


@PROTOCOLS
def test_a_capture_is_recognised_by_its_packets_and_says_which_feed_it_is(tmp_path: Path, protocol: int) -> None:
    path = write(tmp_path, protocol, "of_no_name")
    packed = write_anew(tmp_path / "data_feeds_20200131_x.pcap.gz", gzip.compress(path.read_bytes()))
    for file, day in ((path, "2020-01-30"), (packed, "2020-01-31")):
        with feeds.open(file) as feed:
            assert (feed.info.format, feed.info.date, feed.info.venue) == ("iex", day, "IEXG")
            assert feed.info.ticks == ("orders" if protocol == ref.DEEP_PLUS else "plain")
            assert feed.info.flags.last == (COMPLETE if protocol == ref.DEEP else 0)
            for _ in range(2):
                np.testing.assert_array_equal(ticks_of(feed), ref.captured(ref.every_type(ref.TYPES[protocol])).ticks)
            assert feed.session.rstrip() == str(ref.SESSION)
            assert [(event.type, event.code) for event in feed.market_events] == [("S", "O"), ("S", "S")]


def test_other_captures_and_other_files_are_not_recognised(tmp_path: Path) -> None:
    for content in (sent(bytes(60)), sent(ref.segment(1, [], version=2)), b"", b"\xd4\xc3\xb2\xa1"):
        assert not recognise_iex(content)
        with pytest.raises(FeedError):
            IexFeed(write_anew(tmp_path / "other.pcap", content))
    with pytest.raises(UnknownFormatError, match="IEX-TP"):
        IexFeed(write_anew(tmp_path / "other.pcap", sent(bytes(60))))


def test_a_capture_that_begins_with_other_packets_names_the_format_to_ask_for(tmp_path: Path) -> None:
    path = write_anew(tmp_path / "x.pcap", sent(*[bytes(900)] * 9, ref.segment(1, [quote(1)])))
    with feeds.open(path) as feed:
        assert feed.info.format == "pcap"
        assert len(ticks_of(feed)) == 0
        assert feed.statistics()["iex_packets"] == 1
    with pytest.raises(strand.errors.EmptyFeedError, match="format='iex'"):
        strand.replay(path, "count")
    with feeds.open(path, format="iex") as feed:
        assert len(ticks_of(feed)) == 1


def test_levels_change_when_their_event_is_complete(tmp_path: Path) -> None:
    level = lambda side, flag, size, price: ref.message(side, flag, ref.OPEN, "AAPL", size, price)  # noqa: E731
    bodies = [level("8", 1, 100, 99_0000), level("5", 1, 100, 99_1000), level("8", 0, 300, 99_2000)]
    row = strand.replay(write(tmp_path, ref.DEEP, bodies=bodies), "depth", workers=0).rows["AAPL"]
    assert (row["unended"], row["crossed"], row["bid_price"]) == (1, 0, 99_200_000_000)
    bodies.append(level("5", 1, 0, 99_1000))
    result = strand.replay(write(tmp_path, ref.DEEP, bodies=bodies), "depth", workers=0)
    row = result.rows["AAPL"]
    assert (row["bid_price"], row["bid_size"], row["ask_price"], row["crossed"]) == (
        99_200_000_000,
        300,
        UNDEF_PRICE,
        0,
    )
    assert result.books["AAPL"].bids().tolist() == [(99_200_000_000, 300), (99_000_000_000, 100)]


def test_orders_keep_or_lose_their_place_as_modify_messages_say(tmp_path: Path) -> None:
    add = lambda order: ref.message("a", "8", ref.OPEN, "AAPL", order, 100, 99_0000)  # noqa: E731
    bodies = [add(1), add(2), add(3), ref.message("M", 1, ref.OPEN, "AAPL", 1, 50, 99_0000)]
    bodies += [ref.message("M", 0, ref.OPEN, "AAPL", 2, 60, 99_0000)]
    bodies += [
        ref.message("L", 0, ref.OPEN, "AAPL", 1, 20, 98_9900, 7),
        add(4),
        ref.message("R", 0, ref.OPEN, "AAPL", 4),
    ]
    bodies += [ref.message("T", 0, ref.OPEN, "AAPL", 5, 98_9950, 8), add(9)]
    result = strand.replay(write(tmp_path, ref.DEEP_PLUS, bodies=bodies), "book", workers=0)
    row = result.rows["AAPL"]
    assert (row["bid_price"], row["bid_size"], row["bid_orders"]) == (99_000_000_000, 290, 4)
    assert (row["volume"], row["trades"], row["last_price"]) == (25, 2, 98_995_000_000)
    assert result.books["AAPL"].orders("bid")["order_id"].tolist() == [1, 3, 2, 9]
