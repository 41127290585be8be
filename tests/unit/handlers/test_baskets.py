"""Which symbols are in which baskets, and which have to share a strand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strand.handlers.baskets import Baskets, Members, units_of
from strand.symbols import SymbolTable

pytestmark = pytest.mark.python

GROUPS = st.lists(st.lists(st.integers(0, 11), min_size=1, max_size=5, unique=True), min_size=1, max_size=6)


@given(GROUPS)
def test_symbols_share_a_unit_where_a_chain_of_baskets_leads_from_one_to_the_other(groups: list[list[int]]) -> None:
    units = units_of(12, [Members.of({str(i): group for i, group in enumerate(groups)}, 12)])
    assert units is not None
    reached = np.eye(12, dtype=bool)
    for group in groups:
        reached[np.ix_(group, group)] = True
    for _ in range(12):
        reached = reached @ reached
    np.testing.assert_array_equal(units[:, None] == units[None, :], reached)
    assert sorted(set(units.tolist())) == list(range(units.max() + 1))


@given(GROUPS)
def test_each_symbol_knows_its_baskets_and_its_place_in_each(groups: list[list[int]]) -> None:
    members = Members.of({str(i): group for i, group in enumerate(groups)}, 12)
    for key in range(12):
        expected = [(i, group.index(key)) for i, group in enumerate(groups) if key in group]
        assert members.of_key(key) == expected


def test_a_function_is_asked_once_for_each_symbol_that_has_a_name() -> None:
    asked: list[str] = []

    def of(symbol: str) -> str:
        asked.append(symbol)
        return symbol[0]

    baskets, table = Baskets.declared(of), SymbolTable.with_capacity(["ax", "", "bx", "ay"], 10)
    for _ in range(2):
        assert baskets.members("h", table).keys == ((0, 3), (2,))
    assert asked == ["ax", "bx", "ay"]
