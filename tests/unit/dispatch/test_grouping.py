"""Which symbols share a strand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strand.dispatch.routing import strand_count, strands_for

pytestmark = pytest.mark.python


@st.composite
def markets(draw: st.DrawFn) -> tuple[np.ndarray[Any, Any], list[bool], Any, Any, int]:
    handlers = draw(st.integers(1, 4))
    symbols = draw(st.integers(1, 60))
    of_symbol = np.array(draw(st.lists(st.integers(0, handlers - 1), min_size=symbols, max_size=symbols)), np.uint16)
    alone = draw(st.lists(st.booleans(), min_size=handlers, max_size=handlers))
    counts = draw(st.none() | st.lists(st.integers(0, 10**9), min_size=symbols, max_size=symbols).map(np.array))
    strands = draw(st.just("auto") | st.just("per-symbol") | st.integers(1, 80))
    return of_symbol, alone, counts, strands, draw(st.integers(1, 8))


@given(markets())
def test_only_symbols_of_one_native_handler_share_and_every_strand_is_one_of_those_there_are(market: Any) -> None:
    of_symbol, alone, counts, strands, workers = market
    n = strand_count(strands, of_symbol, alone, workers)
    found = strands_for(n, of_symbol, alone, counts)
    assert found.strand_of_symbol.shape == of_symbol.shape
    assert found.kind_of_strand.shape == (n,)
    assert 1 <= n <= len(of_symbol)
    assert found.strand_of_symbol.max() < n
    assert (found.kind_of_strand[found.strand_of_symbol] == of_symbol).all()
    assert set(found.strand_of_symbol.tolist()) == set(range(n)), "a strand has no symbol"
    sharers = np.bincount(found.strand_of_symbol, minlength=n)
    for symbol, handler in enumerate(of_symbol):
        if alone[handler]:
            assert sharers[found.strand_of_symbol[symbol]] == 1
    if strands == "per-symbol":
        assert (sharers == 1).all()
    elif isinstance(strands, int) and not any(alone):
        assert n == min(len(of_symbol), max(strands, len(np.unique(of_symbol))))


@given(st.lists(st.integers(0, 10**6), min_size=2, max_size=80), st.integers(2, 40))
def test_the_busiest_symbols_have_strands_of_their_own(counts: list[int], n: int) -> None:
    weights = np.array(counts)
    if n >= len(weights):
        return
    found = strands_for(n, np.zeros(len(weights), np.uint16), [False], weights)
    sharers = np.bincount(found.strand_of_symbol, minlength=n)
    order = np.argsort(-weights, kind="stable")
    hot = [s for s in order[: n // 2] if 2 * n * weights[s] > weights.sum()]
    assert all(sharers[found.strand_of_symbol[s]] == 1 for s in hot)
    # The quiet ones are dealt out evenly.
    quiet = sharers[np.unique(found.strand_of_symbol[np.setdiff1d(order, hot)])]
    assert quiet.max() - quiet.min() <= 1


def test_handlers_share_the_strands_by_the_ticks_their_symbols_have() -> None:
    of_symbol = np.repeat([0, 1], 500).astype(np.uint16)
    counts = np.repeat([9, 1], 500)
    found = strands_for(100, of_symbol, [False, False], counts)
    assert np.bincount(found.kind_of_strand).tolist() == [90, 10]
