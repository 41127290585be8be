"""Columns of numbers into fields of ticks, and through a table: what C makes of them is what Python's integers say."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from strand.binding.columns import NO_ENTRY, Field, entries_of, look_up, value_ticks
from strand.feeds.mapping.values import float_units
from strand.ticks import TICK, zeros

KINDS = ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"]
PLACES = ["price", "size", "order_id", "flags", "kind", "ts_event"]


def blank() -> Any:
    made = zeros(1)
    made["action"], made["ref_id"] = b"T", 77
    return made


@st.composite
def integers(draw: st.DrawFn) -> tuple[np.ndarray[Any, Any], int, int]:
    """Values of a kind, and bounds about them."""
    kind = np.dtype(draw(st.sampled_from(KINDS)))
    own = np.iinfo(kind)
    anything = st.integers(own.min, own.max)
    values = draw(st.lists(anything, max_size=300))
    lowest, highest = sorted((draw(anything), draw(anything)))
    return np.array(values, kind), lowest, highest


@given(given_values=integers(), field=st.sampled_from(PLACES), factor=st.integers(1, 1000))
def test_integers_become_a_field_up_to_the_first_that_may_not_be(
    given_values: tuple[np.ndarray[Any, Any], int, int], field: str, factor: int
) -> None:
    values, lowest, highest = given_values
    wrong = [i for i, value in enumerate(values.tolist()) if not lowest <= value <= highest]
    ticks, good = value_ticks(blank(), 5, len(values), {field: Field(values, lowest, highest, factor)})
    assert good == (wrong[0] if wrong else len(values))
    bits = 8 * TICK[field].itemsize
    unsigned = ticks[field].view(f"u{TICK[field].itemsize}") if TICK[field].itemsize == 8 else ticks[field]
    expected = [value * factor % (1 << bits) for value in values.tolist()]
    assert [int(value) % (1 << bits) for value in unsigned[:good]] == expected[:good]
    assert ticks["sequence"][:good].tolist() == list(range(5, 5 + good))
    assert set(ticks["ref_id"][:good].tolist()) <= {77}
    assert set(ticks["action"][:good].tolist()) <= {b"T"}


@given(
    values=st.lists(
        st.one_of(
            st.integers(-(2**52), 2**52).map(lambda units: units / 10**9),
            st.decimals(-1000, 1000, places=4).map(float),
            st.floats(),
        ),
        max_size=300,
    ),
    scale=st.sampled_from([1, 1000, 10**9]),
)
def test_floats_become_the_units_that_they_stand_for_or_end_it(values: list[float], scale: int) -> None:
    floats = np.array(values, np.float64)
    most = 1 << 51
    ticks, good = value_ticks(blank(), 1, len(floats), {"price": Field(floats, -most, most, scale=float(scale))})
    units, bad, inexact = float_units(floats, len(str(scale)) - 1)
    none = np.isnan(floats)
    for mask in (bad, inexact):
        none = none if mask is None else none | mask
    assert not none[:good].any()
    assert ticks["price"][:good].tolist() == units[:good].tolist()
    if good < len(floats):
        # C gives up where it is not sure: what it leaves is no units, or many.
        assert none[good] or abs(int(units[good])) >= most - 1


@given(
    values=st.lists(st.integers(-(2**31), 2**31 - 1), max_size=200),
    table=st.lists(st.one_of(st.just(NO_ENTRY), st.integers(0, NO_ENTRY)), max_size=50),
    near=st.lists(st.integers(-3, 60), max_size=200),
)
def test_a_table_tells_what_it_holds_and_which_rows_it_says_nothing_of(
    values: list[int], table: list[int], near: list[int]
) -> None:
    asked = [*values, *near]
    found, rows = look_up(np.array(asked, np.int32), np.array(table, np.uint32))
    expected = [table[value] if 0 <= value < len(table) else NO_ENTRY for value in asked]
    assert found.tolist() == expected
    assert rows.tolist() == [i for i, value in enumerate(expected) if value == NO_ENTRY]


@given(
    kind=st.sampled_from(KINDS),
    places=st.lists(st.integers(-3, 20), max_size=300),
    letters=st.lists(st.one_of(st.just(NO_ENTRY), st.integers(0, 255)), min_size=1, max_size=20),
)
def test_what_stands_in_a_table_becomes_a_field_up_to_the_first_place_without_anything(
    kind: str, places: list[int], letters: list[int]
) -> None:
    values = np.array(places).astype(kind)
    field = entries_of(values, np.array(letters, np.uint32))
    twice = np.arange(256, dtype=np.uint32)[::-1].copy()
    ticks, good = value_ticks(blank(), 1, len(values), {"flags": field, "depth": field.through(twice)})
    known = [letters[at] if 0 <= at < len(letters) else NO_ENTRY for at in values.tolist()]
    assert good == (known.index(NO_ENTRY) if NO_ENTRY in known else len(known))
    assert ticks["flags"][:good].tolist() == known[:good]
    assert ticks["depth"][:good].tolist() == [255 - code for code in known[:good]]
