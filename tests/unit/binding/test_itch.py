"""Decoders against second ones, chains in C, and the words that C and Python share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

import itch_reference as ref
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reading import decode_in_pieces

from strand.binding import itch
from strand.binding.decoders import DbnDecoder
from strand.binding.engine_words import COUNTERS, Failure, clock_resolution_ns, histogram_floors_ns
from strand.binding.memory import Space
from strand.binding.native import MAX_PARTS, NativeFunction, Part, builtin, chained, finish_pointer, wake_pointer
from strand.errors import FeedError, FormatError, TruncatedFeedError
from strand.ticks import aligned_ticks

MIDNIGHT_NS = 1_548_824_400_000_000_000
AAPL = b"AAPL    "


def decode(
    data: bytes, *, chunk: int | None = None, capacity: int = 4096, skip: bool = False, **options: Any
) -> tuple[np.ndarray, FeedError | None, itch.ItchDecoder]:
    """All of ``data``, given to the decoder ``chunk`` bytes at a time and taken ``capacity`` ticks at a time."""
    decoder = itch.ItchDecoder(midnight_ns=MIDNIGHT_NS, skip=skip, **options)
    ticks, fault = decode_in_pieces(decoder, data, chunk=chunk, capacity=capacity, max_left=itch.MAX_FRAME)
    return ticks, fault, decoder


def assert_agrees(data: bytes, *, skip: bool = False, chunk: int | None = None) -> None:
    """The same ticks, names and fault as the reference."""
    expected = ref.decode(data, MIDNIGHT_NS, skip=skip)
    ticks, fault, decoder = decode(data, skip=skip, chunk=chunk)
    if ticks.tobytes() != expected.ticks.tobytes():  # which takes a fiftieth of telling where they differ
        np.testing.assert_array_equal(ticks, expected.ticks)
        raise AssertionError("the bytes differ, the fields do not")
    names = {i: name for i, name in enumerate(decoder.symbols()) if name}
    assert names == expected.names
    counts = decoder.statistics()
    assert counts["messages"] == expected.messages
    assert sum(decoder.skips().values()) == expected.skipped
    assert counts["skipped_bytes"] == expected.searched
    kinds: dict[str | None, type] = {None: type(None), "truncated": TruncatedFeedError, "format": FormatError}
    assert type(fault) is kinds[expected.error]
    if fault is not None:
        assert fault.offset == expected.offset
        assert not skip


def stream(*, true_lengths: bool, bodies: list[bytes] | None = None) -> bytes:
    return b"".join(ref.frame(body, None if true_lengths else 0) for body in bodies or ref.every_type())


BOTH = pytest.mark.parametrize("true_lengths", [True, False], ids=["true lengths", "all lengths zero"])


def one(body: bytes) -> np.void:
    ticks, fault, _ = decode(ref.frame(body))
    assert fault is None
    assert len(ticks) == 1
    return ticks[0]


@BOTH
def test_every_type_agrees_with_the_reference(true_lengths: bool) -> None:
    assert_agrees(stream(true_lengths=true_lengths))


def test_shares_of_a_cross_are_whole_and_those_that_no_size_holds_are_a_bad_record() -> None:
    frames = [
        ref.frame(ref.message("Q", 1, 2, shares, AAPL, 4, 5, b"O")) for shares in (1 << 32, (1 << 63) - 1, 1 << 63)
    ]
    ticks, fault, _ = decode(b"".join(frames[:2]))
    assert fault is None
    assert ticks["size"].tolist() == [1 << 32, (1 << 63) - 1]
    ticks, fault, _ = decode(b"".join(frames))
    assert len(ticks) == 2
    assert "the shares of a 'Q' message are above" in str(fault)


def test_types_are_counted_one_by_one() -> None:
    data = stream(true_lengths=True)
    counts = decode(data)[2].statistics()
    letters = [chr(body[0]) for body in ref.every_type()]
    assert {k[5:]: n for k, n in counts.items() if k.startswith("type_")} == {x: letters.count(x) for x in letters}
    assert counts["bytes_decoded"] == len(data)


@pytest.mark.parametrize("capacity", [1, 2, 3, 19, 20, 21])
def test_a_small_output_loses_nothing(capacity: int) -> None:
    data = stream(true_lengths=True)
    ticks, fault, _ = decode(data, capacity=capacity, chunk=97)
    assert fault is None
    np.testing.assert_array_equal(ticks, decode(data)[0])


@BOTH
def test_input_cut_at_any_byte_is_truncated_at_the_frame_it_cuts(true_lengths: bool) -> None:
    data = stream(true_lengths=true_lengths)
    for cut in range(len(data)):
        assert_agrees(data[:cut])


def test_a_lone_zero_length_ends_a_session_of_true_lengths_only() -> None:
    assert decode(stream(true_lengths=True) + b"\0\0")[1] is None
    assert isinstance(decode(stream(true_lengths=False) + b"\0\0")[1], TruncatedFeedError)
    delete = ref.message("D", 1, 2, 3)
    assert decode(ref.frame(delete) + b"\0\0")[1] is None
    assert decode(ref.frame(delete) * 9 + ref.frame(delete, 0) * 9 + b"\0\0")[1] is None


@BOTH
@pytest.mark.parametrize("skip", [False, True])
def test_any_flipped_bit_ends_in_ticks_or_a_typed_error(
    true_lengths: bool, skip: bool, one_in: Callable[[int], int]
) -> None:
    """Of each byte a bit, another one in the next; all of them with ``--exhaustive``."""
    data = stream(true_lengths=true_lengths)
    for bit in range(0, len(data) * 8, one_in(7)):
        flipped = bytearray(data)
        flipped[bit >> 3] ^= 1 << (bit & 7)
        assert_agrees(bytes(flipped), skip=skip)


LENGTHS = pytest.mark.parametrize("length", [35, 37, 0x0100, 0xFFFF, 0x2400])


@LENGTHS
@pytest.mark.parametrize("frames", [1, 2, 30])
def test_skipping_finds_the_frames_again_after_a_wrong_length(length: int, frames: int) -> None:
    good = ref.frame(ref.message("D", 1, 2, 3))
    bad = ref.frame(ref.message("A", 1, 2, 3, b"B", 4, AAPL, 5), length)
    for chunk in [*range(1, 90), None]:
        ticks, fault, decoder = decode(good + bad + good * frames, skip=True, chunk=chunk)
        assert fault is None
        assert ticks["sequence"].tolist() == [1, *range(3, 3 + frames)]
        assert decoder.skips() == {"bad length": 1}
        assert decoder.statistics()["skipped_bytes"] == len(bad)
        assert decoder.skip_samples() == [("bad length", {"offset": len(good), "text": f"type 'A', length {length}"})]


def test_skipping_passes_over_what_a_cut_left_of_the_last_message() -> None:
    data = ref.frame(ref.message("D", 1, 2, 3)) * 2
    for cut in range(22, 42):
        ticks, fault, decoder = decode(data[:cut], skip=True)
        assert fault is None
        assert len(ticks) == 1
        assert decoder.skips() == {"cut message": 1}
        assert decoder.statistics()["skipped_bytes"] == cut - 21


def test_a_frame_of_a_locate_the_directory_lacks_does_not_end_a_search() -> None:
    names = ref.frame(ref.directory(1, b"A"))
    stranger = ref.frame(ref.message("D", 2, 2, 3))
    known = ref.frame(ref.message("D", 1, 2, 4))
    ticks, _, _ = decode(names + b"\xff\xff" + stranger * 9 + known * 4, skip=True)
    assert ticks["order_id"].tolist() == [4] * 4


def test_an_unknown_type_with_a_length_can_be_skipped() -> None:
    data = ref.frame(ref.message("D", 1, 2, 3)) + ref.frame(b"z" * 77) + ref.frame(ref.message("D", 1, 2, 4))
    _, fault, _ = decode(data)
    assert isinstance(fault, FormatError)
    assert fault.offset == 21
    assert "'z'" in str(fault)
    for chunk in range(1, len(data)):
        ticks, fault, decoder = decode(data, skip=True, chunk=chunk)
        assert fault is None
        assert ticks["order_id"].tolist() == [3, 4]
        assert ticks["sequence"].tolist() == [1, 3]
        assert decoder.statistics()["skipped_unknown_type"] == 1


@pytest.mark.parametrize("length", [0, 257])
def test_an_unknown_type_without_a_usable_length_is_searched_past(length: int) -> None:
    good = ref.frame(ref.message("D", 1, 2, 3), 0)
    data = good + ref.frame(b"z" * 257, length) + good * 5
    assert isinstance(decode(data)[1], FormatError)
    ticks, fault, decoder = decode(data, skip=True)
    assert fault is None
    assert len(ticks) == 6
    assert decoder.statistics()["skipped_bytes"] == 259


@pytest.mark.parametrize("padding", [0, 200], ids=["in the tail", "in the fast loop"])
def test_an_impossible_side_is_an_error_or_skipped_and_counted(padding: int) -> None:
    bad = ref.frame(ref.message("A", 1, 2, 3, b"x", 4, AAPL, 5))
    data = bad + ref.frame(ref.message("D", 1, 2, 4)) * padding
    _, fault, _ = decode(data)
    assert isinstance(fault, FormatError)
    assert "'x'" in str(fault)
    ticks, fault, decoder = decode(data, skip=True)
    assert fault is None
    assert len(ticks) == padding
    assert decoder.statistics()["skipped_bad_field"] == 1


def test_the_real_sample_equals_the_reference_field_by_field(shared_data: Path) -> None:
    path = shared_data / "itch50" / "ex20101224.TEST_ITCH_50"
    if not path.exists():
        pytest.skip("no ITCH sample")
    data = path.read_bytes()
    assert_agrees(data)
    assert ref.decode(data).messages == 12_012


FIELDS = {
    "c": st.binary(min_size=1, max_size=1), "2s": st.binary(min_size=2, max_size=2),
    "4s": st.binary(min_size=4, max_size=4), "8s": st.binary(min_size=8, max_size=8),
    "I": st.integers(0, 2**32 - 1), "Q": st.integers(0, 2**64 - 1),
}  # fmt: skip


ANY_LOCATE = st.integers(0, 65535)


@st.composite
def messages(draw: st.DrawFn, locates: st.SearchStrategy[int] = ANY_LOCATE) -> bytes:
    letter = draw(st.sampled_from(sorted(ref.BODIES)))
    codes = ref.BODIES[letter].replace("8s", "8").replace("4s", "4").replace("2s", "2")
    fields: list[Any] = [draw(FIELDS[code + "s" if code.isdigit() else code]) for code in codes]
    if letter in "AFP":
        fields[1] = draw(st.sampled_from([b"B", b"S"]))
    if letter == "R":
        fields[0] = draw(st.text("ABC.-", min_size=1, max_size=8)).encode().ljust(8)
    locate = draw(locates)
    return ref.message(letter, locate, draw(st.integers(0, 2**48 - 1)), *fields, tracking=draw(st.integers(0, 65535)))


def chosen(
    data: bytes, names: set[str], start: int, end: int, *, first: dict[int, bytes] | None = None, **how: Any
) -> None:
    """Decoding with a selection is decoding, then masking; the fault and the counts are the same. ``first``: what is
    named before all else, where that is not damaged, by default DIRECTORY.

    A locate that is named in mid-stream has no name before: what masking by its last name says of it is not compared.
    """
    full, fault, plain = decode(data, **how)
    symbols = np.array(plain.symbols() + [""] * (65536 - len(plain.symbols())))
    within = (full["ts_recv"] >= start) & (full["ts_recv"] < end)
    mask = np.isin(symbols[full["instrument_id"]], list(names)) & within

    def keeps(asked: np.ndarray) -> np.ndarray:
        return np.array([name.decode().rstrip(" ") in names for name in asked.tolist()], np.bool_)

    some, same, decoder = decode(data, **how, keeps=keeps, start_ns=start, end_ns=end)
    directory = [(i, ref.directory(i, name)) for i, name in (DIRECTORY if first is None else first).items()]
    intact = {i for i, message in directory if any(ref.frame(message, n) in data for n in (None, 0))}
    late = [i for i, name in enumerate(symbols.tolist()) if name and i not in intact]
    mask &= ~np.isin(full["instrument_id"], late)
    np.testing.assert_array_equal(some[~np.isin(some["instrument_id"], late)], full[mask])
    assert (str(fault), type(fault)) == (str(same), type(same))
    counts, found = plain.statistics(), decoder.statistics()
    assert found.pop("ticks") + found.pop("not_selected") == counts.pop("ticks") + counts.pop("not_selected")
    assert found == counts


DIRECTORY = {1: b"A", 2: b"B", 3: b"BRK.A", 7: b"AAPL", 9: b"", 65535: b"ZZZZZZZZ"}


@st.composite
def days(draw: st.DrawFn) -> bytes:
    """A directory, then messages of its locates and of one without a name; sometimes damaged."""
    true_length = None if draw(st.booleans()) else 0
    head = [ref.frame(ref.directory(i, name), true_length) for i, name in DIRECTORY.items() if name]
    body = [
        ref.frame(draw(messages(st.sampled_from(list(DIRECTORY)))), true_length)
        for _ in range(draw(st.integers(0, 25)))
    ]
    data = bytearray(b"".join(head + body))
    for _ in range(draw(st.integers(0, 2))):
        data[draw(st.integers(0, len(data) - 1))] ^= 1 << draw(st.integers(0, 7))
    return bytes(data)


@given(
    days(),
    st.sets(st.sampled_from([name.decode() for name in DIRECTORY.values()])),
    st.tuples(st.integers(0, 2**47), st.integers(1, 2**47)),
    st.booleans(),
    st.integers(1, 3000),
)
def test_a_selection_gives_what_masking_gives(
    data: bytes, names: set[str], span: tuple[int, int], skip: bool, chunk: int
) -> None:
    start = MIDNIGHT_NS + span[0]
    chosen(data, names, start, start + span[1], skip=skip, chunk=chunk)


@pytest.mark.cells(2)
@pytest.mark.parametrize("wanted", [(5,), (5, 77), range(1, 90), ()])
@pytest.mark.parametrize("damage", [None, 3, 200_001, 400_002])
@pytest.mark.parametrize("skip", [False, True])
def test_a_long_stream_is_skimmed_to_what_masking_gives(wanted: Sequence[int], damage: int | None, skip: bool) -> None:
    data = bytearray(long_stream())
    if damage is not None:
        data[damage] ^= 0x40
    names, first = {f"S{i}" for i in wanted}, {i: b"S%d" % i for i in range(1, 101)}
    chosen(bytes(data), names, MIDNIGHT_NS, MIDNIGHT_NS + 29_000, first=first, skip=skip)
    chosen(bytes(data), names, 0, 2**63, first=first, skip=skip, capacity=300, chunk=200_000)


@cache
def long_stream() -> bytes:
    """Long enough for stretches to be walked abreast, with rare types, and fields that look like frames."""
    rng = np.random.default_rng(4)
    parts = [ref.frame(ref.directory(i, b"S%d" % i)) for i in range(1, 101)]
    for i in range(30_000):
        locate, draw = int(rng.integers(1, 101)), int(rng.integers(0, 100))
        inner = int.from_bytes(ref.frame(ref.message("D", locate, i, i))[:8], "big")
        if draw < 50:
            body = ref.message("A", locate, i, inner, b"B", 100, AAPL, i)
        elif draw < 98:
            body = ref.message("D", locate, i, i)
        else:
            body = rng.choice(np.array(ref.every_type()[11:-1], object))
            body = body[:1] + locate.to_bytes(2, "big") + body[3:]
        parts.append(ref.frame(body))
    return b"".join(parts)


@given(st.lists(st.tuples(messages(), st.booleans()), max_size=40), st.integers(1, 400))
def test_any_messages_in_any_pieces_agree_with_the_reference(bodies: list[tuple[bytes, bool]], chunk: int) -> None:
    data = b"".join(ref.frame(body, None if true_length else 0) for body, true_length in bodies)
    assert_agrees(data, chunk=chunk)
    assert_agrees(data, chunk=chunk, skip=True)


@given(st.binary(max_size=400), st.integers(1, 400), st.booleans())
def test_any_bytes_agree_with_the_reference(data: bytes, chunk: int, skip: bool) -> None:
    assert_agrees(data, chunk=chunk, skip=skip)


# ---- Which symbol a DBN instrument id stands for at a time: spans that overlap, are replaced, and are very many


MBO: Final = np.dtype(
    {
        "names": ["length", "rtype", "instrument_id", "ts_event", "action", "side", "ts_recv"],
        "formats": ["u1", "u1", "<u4", "<u8", "S1", "S1", "<u8"],
        "offsets": [0, 1, 4, 8, 38, 39, 40],
        "itemsize": 56,
    }
)


def new_decoder() -> DbnDecoder:
    return DbnDecoder(version=3, skip=False, tail=0, levels=1, span=(0, (1 << 64) - 1))


def mbo_of(ids: Any, times: Any) -> bytes:
    """MBO records of instruments at times of receipt."""
    records = np.zeros(len(ids), MBO)
    records["length"], records["rtype"], records["action"], records["side"] = 14, 0xA0, b"A", b"B"
    records["instrument_id"], records["ts_event"], records["ts_recv"] = ids, times, times
    return records.tobytes()


def keys_at(decoder: DbnDecoder, ids: list[int], times: list[int]) -> list[int | None]:
    """Keys of instruments at times; None: no key."""
    found: list[int | None] = []
    for record in range(len(ids)):
        out = aligned_ticks(decoder.max_per_record)
        made, _, sound = decoder.decode(
            memoryview(mbo_of(ids[record : record + 1], times[record : record + 1])), last=True, out=out
        )
        found.append(int(out["instrument_id"][0]) if made else None)
        assert made or (not sound and "has no name" in str(decoder.fault("memory")))
    return found


@given(
    st.lists(
        st.tuples(st.sampled_from("aaaar"), st.integers(1, 3), st.integers(0, 60), st.integers(0, 60)), max_size=40
    )
)
def test_of_spans_that_overlap_the_first_one_counts_whatever_their_order(
    steps: list[tuple[str, int, int, int]],
) -> None:
    decoder = new_decoder()
    plain: list[tuple[int, int, int, int]] = []
    for key, (what, instrument, one, other) in enumerate(steps):
        first, last = min(one, other), max(one, other)
        if what == "r":
            decoder.replace(instrument, key)
            plain = [step for step in plain if step[0] != instrument] + [(instrument, 0, 1 << 63, key)]
        else:
            decoder.add(instrument, first, last, key)
            plain.append((instrument, first, last, key))
        asked = [(instrument, time) for instrument in (1, 2, 3) for time in (first, last, last + 1, 30)]
        expected = [
            next((key for i, first, last, key in plain if i == instrument and first <= time <= last), None)
            for instrument, time in asked
        ]
        assert keys_at(decoder, [i for i, _ in asked], [time for _, time in asked]) == expected


@pytest.mark.parametrize("order", ["rising", "falling", "shuffled", "one over all, again and again"])
def test_half_a_million_spans_of_one_instrument_are_no_work_of_their_square(order: str) -> None:
    n = 500_000  # compared with each other they would take days of the test's limit
    first = np.arange(n, dtype=np.uint64) * np.uint64(10)
    last = first + np.uint64(4)
    at = np.arange(n)
    if order == "falling":
        at = at[::-1]
    elif order == "shuffled":
        at = np.random.default_rng(1).permutation(n)
    keys = np.arange(n, dtype=np.uint32)
    decoder = new_decoder()
    decoder.fill(np.full(n, 7, np.uint32), first[at].copy(), last[at].copy(), keys[at].copy())
    if order.startswith("one"):
        wide = np.full(n, 7, np.uint32), np.zeros(n, np.uint64), np.full(n, 10 * n, np.uint64), keys + np.uint32(n)
        decoder.fill(*wide)
    asked = np.random.default_rng(2).permutation(n)[:20_000].astype(np.uint64)
    out = aligned_ticks(len(asked) + decoder.max_per_record)
    data = mbo_of(np.full(len(asked), 7), asked * np.uint64(10) + np.uint64(3))
    made, _, _ = decoder.decode(memoryview(data), last=True, out=out)
    assert out["instrument_id"][:made].tolist() == asked.tolist()
    between = keys_at(decoder, [7], [int(asked[0]) * 10 + 7])
    assert between == ([n] if order.startswith("one") else [None])


# ---- Chains of handlers in C


COUNT = NativeFunction(builtin("count"), never_publishes=True)
ADDRESS = 64


def test_a_chain_has_timers_and_an_end_where_a_part_has_them() -> None:
    timed = NativeFunction(builtin("count"), wake=wake_pointer(ADDRESS))
    ends = NativeFunction(builtin("count"), finish=finish_pointer(ADDRESS))
    for parts, timers, end in (
        ((COUNT, COUNT), False, False),
        ((COUNT, timed), True, False),
        ((ends, COUNT), False, True),
    ):
        function = chained([Part(part, 0) for part in parts], 3, Space()).function
        assert (function.wake is not None, function.finish is not None) == (timers, end)
        assert function.yields is timers


def test_a_publisher_may_run_a_chain_only_where_no_part_publishes() -> None:
    publishes = NativeFunction(builtin("count"))
    assert chained([Part(COUNT, 0)] * 2, 1, Space()).function.never_publishes
    assert not chained([Part(COUNT, 0), Part(publishes, 64)], 1, Space()).function.never_publishes


def test_no_timer_is_due_before_one_is_asked_for() -> None:
    timed = NativeFunction(builtin("count"), wake=wake_pointer(ADDRESS))
    chain = chained([Part(timed, 0)] * MAX_PARTS, 5, Space())
    assert [chain.alarm(key) for key in range(5)] == [0] * 5


# ---- What the engine answers


def test_a_failure_has_a_reason_also_without_words() -> None:
    assert Failure(-7, "").reason == "code -7"
    assert Failure(-7, "no such order").reason == "no such order"


def test_edges_of_buckets_rise_and_count_in_ns_of_the_clock() -> None:
    floors = histogram_floors_ns(1.0)
    assert floors[0] == 0
    assert np.all(np.diff(floors) > 0)
    assert np.allclose(histogram_floors_ns(2.5), 2.5 * floors)
    # Known to one part in sixteen.
    assert np.all(np.diff(floors)[100:] / floors[100:-1] <= 1 / 16 + 1e-9)


def test_each_counter_has_a_name_of_its_own() -> None:
    assert len(set(COUNTERS)) == len(COUNTERS)


def test_what_the_clock_resolves_is_measured_once_and_a_seeded_run_counts_steps() -> None:
    from strand._scheduled import lib as scheduled

    first = clock_resolution_ns()
    assert 0 < first < 1e6
    assert clock_resolution_ns() is first
    assert clock_resolution_ns(scheduled) == 1
