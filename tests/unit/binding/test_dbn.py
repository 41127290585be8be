"""Which symbol a DBN instrument id stands for at a time: spans that overlap, are replaced, and are very many."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strand.binding.decoders import DbnDecoder
from strand.ticks import aligned_ticks

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
    """What instruments are called at times; None where they have no key."""
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
