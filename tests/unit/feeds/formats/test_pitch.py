"""PITCH against a second decoder written from the specification (tests/support/pitch_reference.py), and as a feed."""

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np
import pitch_reference as ref
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reading import decode_in_pieces

from strand import UNDEF_PRICE
from strand.binding import decoders
from strand.errors import FeedError, FormatError, TruncatedFeedError
from strand.feeds.times import midnight_ns

MIDNIGHT_NS = midnight_ns(dt.date(2019, 1, 30))


def decode(
    data: bytes, *, chunk: int | None = None, capacity: int = 4096, skip: bool = False, **options: Any
) -> tuple[np.ndarray, FeedError | None, decoders.PitchDecoder]:
    """All of ``data``, given to the decoder ``chunk`` bytes at a time and taken ``capacity`` ticks at a time."""
    decoder = decoders.PitchDecoder(midnight_ns=MIDNIGHT_NS, skip=skip, **options)
    ticks, fault = decode_in_pieces(decoder, data, chunk=chunk, capacity=capacity, max_left=decoders.MAX_LINE)
    return ticks, fault, decoder


def assert_agrees(data: bytes, *, skip: bool = False, chunk: int | None = None) -> None:
    """The same ticks, names, counts and fault as the reference."""
    expected = ref.decode(data, MIDNIGHT_NS, skip=skip)
    ticks, fault, decoder = decode(data, skip=skip, chunk=chunk)
    np.testing.assert_array_equal(ticks, expected.ticks)
    assert decoder.symbols() == expected.names
    counts = decoder.statistics()
    assert counts["messages"] == expected.messages
    assert counts["unknown_orders"] == expected.unknown_orders
    assert counts["skipped_lines"] == len(expected.skipped)
    kinds: dict[str | None, type] = {None: type(None), "truncated": TruncatedFeedError, "format": FormatError}
    assert type(fault) is kinds[expected.error]
    if fault is not None:
        assert (fault.offset, fault.line) == (expected.offset, expected.line)


FORMS = pytest.mark.parametrize("form", [b"%s\n", b"%s\r\n", b"S%s\n", b"S%s\r\n"])


def stream(form: bytes = b"%s\n") -> bytes:
    return b"".join(form % body for body in ref.every_type())


def test_lengths_are_those_of_the_specification() -> None:
    assert {chr(i): n for i in range(256) if (n := decoders.message_length(i))} == ref.LENGTHS


def test_a_line_as_cboe_sends_it() -> None:
    ticks, fault, decoder = decode(b"S28800168A1K27GA00000YS000100AAPL  0001831900Y\n")
    assert fault is None
    (tick,) = ticks
    assert tick["ts_recv"] == MIDNIGHT_NS + 28_800_168_000_000
    assert tick["order_id"] == int("1K27GA00000Y", 36)
    assert (tick["action"], tick["side"], tick["size"], tick["price"]) == (b"A", b"A", 100, 183_190_000_000)
    assert decoder.symbols()[tick["instrument_id"]] == "AAPL"


@FORMS
def test_every_type_agrees_with_the_reference(form: bytes) -> None:
    assert_agrees(stream(form))
    assert_agrees(stream(form)[:-1])


def test_executions_and_cancels_have_the_symbol_of_their_order_until_nothing_is_left() -> None:
    add = ref.message("A", 1, 9, "B", 100, "AAPL", 1, "Y")
    rest = [ref.message("E", 2, 9, 60, 1), ref.message("X", 3, 9, 40), ref.message("E", 4, 9, 1, 2)]
    ticks, _, decoder = decode(b"\n".join([add, *rest]))
    assert ticks["instrument_id"].tolist() == [1, 1, 1, 0]
    assert ticks["price"].tolist()[1:] == [UNDEF_PRICE] * 3
    counts = decoder.statistics()
    assert (counts["unknown_orders"], counts["live_orders"]) == (1, 0)


def test_many_orders_are_remembered_and_forgotten() -> None:
    ids = np.random.default_rng(3).integers(0, 36**12, 60_000, dtype=np.uint64).tolist()
    adds = (ref.message("A", 1, i, "B", 1, f"S{i % 50}", 1, "Y") for i in ids)
    takes = (ref.message("X", 2, i, 1) for i in reversed(ids))
    ticks, fault, decoder = decode(b"\n".join([*adds, *takes]), capacity=1 << 20)
    assert fault is None
    added, taken = ticks[: len(ids)], ticks[len(ids) :][::-1]
    np.testing.assert_array_equal(added["instrument_id"], taken["instrument_id"])
    assert decoder.statistics()["live_orders"] == 0


def test_empty_lines_and_session_packets_are_no_messages_but_lines() -> None:
    ticks, fault, decoder = decode(b"\n\r\nH\n" + ref.message("s", 1, "A") + b"\nZ\n")
    assert fault is None
    assert ticks["sequence"].tolist() == [4]
    assert decoder.statistics()["session_packets"] == 2


@FORMS
def test_lines_cut_anywhere_between_calls_give_the_same_ticks(form: bytes) -> None:
    data = stream(form)
    whole, _, _ = decode(data)
    for chunk in range(1, 140):
        ticks, fault, _ = decode(data, chunk=chunk, capacity=chunk)
        assert fault is None
        np.testing.assert_array_equal(ticks, whole)


@pytest.mark.cells(1)
@pytest.mark.parametrize("length", [0, 1, 8, 9, 10, 44, 46, 254, 255, 256, 257, 300, 65535])
@pytest.mark.parametrize("chunk", [1, 50, 256, None])
def test_a_line_of_any_length_is_an_error_or_one_line_skipped(length: int, chunk: int | None) -> None:
    good = ref.message("A", 1, 2, "B", 3, "A", 4, "Y")
    bad = (good + b"x" * 65535)[:length]
    data = good + b"\n" + bad + b"\n" + good + b"\n"
    if length > 0:
        assert decode(data, chunk=chunk)[1] is not None
    ticks, fault, decoder = decode(data, skip=True, chunk=chunk)
    assert fault is None
    assert ticks["sequence"].tolist() == [1, 3]
    assert decoder.statistics()["skipped_lines"] == (length > 0)


def test_a_bad_field_is_named_by_its_column() -> None:
    line = bytearray(b"S" + ref.message("A", 1, 2, "B", 3, "A", 4, "Y"))
    line[25] = ord("x")
    _, fault, _ = decode(b"\n" + bytes(line) + b"\n")
    assert isinstance(fault, FormatError)
    assert "column 26" in str(fault)
    assert (fault.line, fault.offset) == (2, 1)


def test_more_symbols_than_there_is_room_for_are_an_error() -> None:
    lines = [ref.message("s", 1, f"S{i}") for i in range(65_536)]
    ticks, fault, decoder = decode(b"\n".join(lines), capacity=1 << 17)
    assert len(ticks) == 65_535
    assert isinstance(fault, FormatError)
    assert "65535 symbols" in str(fault)
    ticks, fault, decoder = decode(b"\n".join([*lines, lines[0]]), capacity=1 << 17, skip=True)
    assert fault is None
    assert decoder.skips() == {"too many symbols": 1}
    assert ticks["instrument_id"].tolist() == [*range(1, 65_536), 1]


FIELDS = {
    "n": lambda width: st.integers(0, 10**width - 1),
    "i": lambda _: st.integers(0, 20),
    "b": lambda _: st.sampled_from("BS"),
    "c": lambda width: st.text("YNATOB0 ", min_size=width, max_size=width),
    "t": lambda _: st.sampled_from(["A", "B", "AAPL", "BRK.A"]),
}


@st.composite
def lines(draw: st.DrawFn) -> bytes:
    letter = draw(st.sampled_from([*ref.BODIES, *"AEX"]))
    fields = [draw(FIELDS[code[0]](int(code[1:]))) for code in ref.BODIES[letter].split()]
    return draw(st.sampled_from([b"", b"S"])) + ref.message(letter, draw(st.integers(0, 86_399_999)), *fields)


@given(st.lists(lines(), max_size=60), st.integers(1, 400), st.booleans())
def test_any_messages_in_any_pieces_agree_with_the_reference(bodies: list[bytes], chunk: int, skip: bool) -> None:
    assert_agrees(b"\n".join(bodies), chunk=chunk, skip=skip)


@given(st.lists(st.one_of(st.binary(max_size=70), lines()), max_size=9), st.integers(1, 400), st.booleans())
def test_any_bytes_agree_with_the_reference(parts: list[bytes], chunk: int, skip: bool) -> None:
    assert_agrees(b"\n".join(parts), chunk=chunk, skip=skip)
