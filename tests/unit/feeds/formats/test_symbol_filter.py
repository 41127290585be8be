"""Many names at once are judged as a selection judges each."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strand.feeds.formats.decoded import symbol_filter
from strand.feeds.selection import Selection

pytestmark = pytest.mark.python

NAMES = st.text("ABab.*[", max_size=8)
PATTERNS = st.lists(st.text("ABab.*?[]!", max_size=9), max_size=4).map(tuple)


@given(st.lists(NAMES, max_size=20), PATTERNS)
def test_a_name_is_kept_where_the_selection_keeps_it(names: list[str], symbols: tuple[str, ...]) -> None:
    select = Selection(symbols)
    asked = np.array([name.ljust(8).encode() for name in names], "S8")
    assert symbol_filter(select)(asked).tolist() == [select.keeps(name) for name in names]


def test_names_that_no_message_can_hold_want_nothing_and_stop_nothing() -> None:
    asked = np.array([b"A       ", b"ABCDEFGH", b"B       ", b" " * 8])
    odd = ("A ", "ABCDEFGHI", "\u00c5", "A\0")
    assert symbol_filter(Selection(odd))(asked).tolist() == [False, False, False, False]
    for names in (("A", "ABCDEFGH", *odd), ("A", "ABC*GH", *odd)):
        assert symbol_filter(Selection(names))(asked).tolist() == [True, True, False, False]
    assert symbol_filter(Selection(("",)))(asked).tolist() == [False, False, False, True]
